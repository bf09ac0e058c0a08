//! The buckets in use, in order, by the pages of the directory.

use std::collections::VecDeque;

use super::calendar::TimeBucket;
use super::layout::{DirectoryPage, PageEntry};
use super::steps::{
    Direction, PageRange, PartState, ReadResult, StepError, TimeSteps, is_newer, is_open,
};
use crate::record::companion_key::KeyForm;
use crate::shard::protocol::CompanionRoute;

/// The number of entries that are read from a page at once.
const ENTRIES: usize = 64;

/// The entries of a page, read a few at a time.
#[derive(Debug)]
pub(super) struct Entries {
    page: DirectoryPage,
    /// The part that is not read yet.
    range: PageRange,
    read: VecDeque<i64>,
    ended: bool,
}

impl Entries {
    pub(super) fn new(page: DirectoryPage, (from, to): (i64, i64), direction: Direction) -> Self {
        Self {
            page,
            range: PageRange {
                from,
                to,
                direction,
                limit: ENTRIES,
            },
            read: VecDeque::new(),
            ended: from > to,
        }
    }

    /// Returns the next entry. `accept`: whether a page in this state has entries that count.
    pub(super) fn next<S: TimeSteps, E: From<crate::Error>>(
        &mut self,
        steps: &S,
        keys: KeyForm,
        accept: impl Fn(PartState) -> std::result::Result<bool, E>,
    ) -> std::result::Result<Option<i64>, E> {
        if self.read.is_empty() && !self.ended {
            let (state, entries) = steps.entries(keys, self.page, self.range)?;
            let entries = if accept(state)? { entries } else { Vec::new() };
            self.ended = entries.len() < self.range.limit;
            if let Some(last) = entries.last() {
                match self.range.direction {
                    Direction::OldestFirst => self.range.from = last.saturating_add(1),
                    Direction::NewestFirst => self.range.to = last.saturating_sub(1),
                }
            }
            self.read = entries.into();
        }
        Ok(self.read.pop_front())
    }
}

/// The buckets in use of a range, in order, by the directory.
pub(super) struct Buckets<'a, S> {
    steps: &'a S,
    route: CompanionRoute,
    range: (TimeBucket, TimeBucket),
    pub(super) direction: Direction,
    /// Pages that are being read, the top page first.
    pages: Vec<Entries>,
}

impl<'a, S: TimeSteps> Buckets<'a, S> {
    pub(super) fn new(
        steps: &'a S,
        route: CompanionRoute,
        range: (TimeBucket, TimeBucket),
        direction: Direction,
    ) -> Self {
        let mut buckets = Self {
            steps,
            route,
            range,
            direction,
            pages: Vec::new(),
        };
        buckets.descend(DirectoryPage::Top);
        buckets
    }

    fn descend(&mut self, page: DirectoryPage) {
        let entry = |bucket| self.steps.layout().entry(page, bucket);
        let range = (entry(self.range.0), entry(self.range.1));
        self.pages.push(Entries::new(page, range, self.direction));
    }

    /// Returns the next buckets, `limit` at most.
    pub(super) fn batch(&mut self, limit: usize) -> ReadResult<Vec<TimeBucket>> {
        let mut batch = Vec::new();
        while batch.len() < limit
            && let Some(bucket) = self.next()?
        {
            batch.push(bucket);
        }
        Ok(batch)
    }

    /// Returns the next bucket.
    pub(super) fn next(&mut self) -> ReadResult<Option<TimeBucket>> {
        let epoch = self.route.epoch;
        while let Some(entries) = self.pages.last_mut() {
            let page = entries.page;
            let entry = entries.next(self.steps, self.route.keys, |state| {
                if is_newer(state, epoch) {
                    return Err(StepError::Stale(()));
                }
                // Of one that is left over, or to which nothing was entered yet, none counts.
                Ok(is_open(state, epoch))
            })?;
            match entry.map(|entry| self.steps.layout().child(page, entry)) {
                None => drop(self.pages.pop()),
                Some(PageEntry::Page(page)) => self.descend(page),
                Some(PageEntry::Bucket(bucket)) => return Ok(Some(bucket)),
            }
        }
        Ok(None)
    }
}
