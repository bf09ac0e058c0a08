//! A query under way.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use spikelet_storage::{Digest, EntryView, PARTITIONS};

use super::super::activity::OperationKind;
use super::super::core::{ScannedRecord, expired, scanned, viewed};
use super::super::indexes::{Index, split_entry};
use super::standing::{EntrySearch, EntryStanding, MetRoots};
use super::{Cursor, NO_SET, Page, Query, QuerySource};
use crate::index::{EntryList, EntryRanges, EntrySelection};
use crate::{Error, Result};

/// How many entries are copied out at first: about a page.
const ENTRIES_AT_FIRST: usize = 64;
/// How many at most, for queries that go on.
const ENTRIES_AT_ONCE: usize = 1024;

/// Where a record was found, and the record. A damaged one without a digest has no place.
pub(super) type Each<'e, B> =
    &'e mut dyn FnMut(Option<&[u8]>, Result<ScannedRecord<'_>>) -> ControlFlow<B>;

/// The part of an index that is still to be looked at.
#[derive(Debug)]
pub(super) struct EntriesAhead {
    /// What the query asks for.
    pub(super) whole: Arc<EntrySelection>,
    pub(super) rest: EntryRanges,
    at_once: usize,
    /// How many have been taken.
    taken: usize,
    is_over: bool,
}

/// Entries that were copied out, with the means to look at their records.
#[derive(Debug, Default)]
pub(super) struct TakenEntries {
    pub(super) entries: EntryList,
    digests: Vec<Digest>,
    stale: Vec<usize>,
    scratch: EntryList,
}

/// The verdict on an entry.
enum EntryVerdict<'a> {
    /// A record that fits.
    Found(Result<ScannedRecord<'a>>),
    /// It fits, and is not asked for: filtered out, of another set, or it is shown at another of
    /// its entries.
    PassedOver,
    /// The record does not have the entry.
    Stale,
}

impl Query {
    /// One page.
    pub(super) fn page<T>(
        &self,
        take: impl Fn(&ScannedRecord<'_>) -> Result<T>,
    ) -> Result<Page<T>> {
        let (mut found, mut placed, mut last) = (Vec::new(), 0, Vec::new());
        if self.limit > 0 {
            let _: ControlFlow<()> = self.run(&mut |place, record| {
                found.push(record.and_then(|record| take(&record)));
                let Some(place) = place else {
                    return ControlFlow::Continue(());
                };
                placed += 1;
                if placed < self.limit {
                    return ControlFlow::Continue(());
                }
                last.extend_from_slice(place);
                ControlFlow::Break(())
            })?;
        }
        let cursor = if last.is_empty() {
            None
        } else {
            self.cursor_behind(&last)?
        };
        Ok(Page { found, cursor })
    }

    /// The cursor behind a place; `None` if nothing can come behind it.
    fn cursor_behind(&self, place: &[u8]) -> Result<Option<Cursor>> {
        let cursor = Cursor::new(&self.identity(), place);
        if let QuerySource::Index(index) = &self.source {
            let query = Self {
                after: Some(cursor.clone()),
                ..self.clone()
            };
            let asked = self.conditions.selection(&index.definition)?;
            let mut rest = query.rest_of(index, asked.ranges)?;
            let mut next = EntryList::default();
            if index.take(&mut rest, self.descending, 1, &mut next) == 0 {
                index.check_kept()?;
                return Ok(None);
            }
        }
        Ok(Some(cursor))
    }

    /// Distinguishes cursors of this query from others: set, index and order. An index may be given
    /// another name.
    pub(super) fn identity(&self) -> String {
        let order = if self.descending {
            "descending"
        } else {
            "ascending"
        };
        let set = self.set_id.map(|_| &self.set_name);
        match &self.source {
            QuerySource::Index(index) => {
                let set = set.or(index.set.as_ref());
                format!("{order} {set:?} {:?}", index.definition.nameless())
            }
            QuerySource::Primary => format!("{order} {set:?} primary"),
        }
    }

    /// The rest of the ranges, behind the cursor.
    pub(super) fn rest_of(&self, index: &Index, mut ranges: EntryRanges) -> Result<EntryRanges> {
        index.check_kept()?;
        if let Some(cursor) = &self.after {
            index.cut(
                &mut ranges,
                cursor.place(&self.identity())?,
                self.descending,
            );
        }
        Ok(ranges)
    }

    /// Refuses a filter that is malformed, or no truth value.
    pub(super) fn check_filter(&self) -> Result<()> {
        self.filter
            .as_ref()
            .map_or(Ok(()), |filter| filter.filter().map(drop))
    }

    /// Shows the records in order, and where each was found, until `each` breaks off.
    pub(super) fn run<B>(&self, each: Each<'_, B>) -> Result<ControlFlow<B>> {
        self.core.activity.track(self.kind(), || {
            self.check_filter()?;
            match &self.source {
                _ if self.set_id() == Some(NO_SET) => Ok(ControlFlow::Continue(())),
                QuerySource::Index(index) => self.run_by_index(index, each),
                QuerySource::Primary => self.run_over_all(each),
            }
        })
    }

    /// What the query counts as.
    pub(super) const fn kind(&self) -> OperationKind {
        match &self.source {
            QuerySource::Index(_) => OperationKind::Query,
            QuerySource::Primary => OperationKind::Scan,
        }
    }

    fn run_by_index<B>(&self, index: &Index, each: Each<'_, B>) -> Result<ControlFlow<B>> {
        let mut entries = self.entries_of(index)?;
        let mut taken = TakenEntries::default();
        let met = MetRoots::new(self.after.is_some() || !index.has_companions());
        while self.take_entries(index, &mut entries, &mut taken)? {
            let search = self.search(index, &entries.whole, &met);
            let ended = self.visit_entries(search, &mut taken, each);
            if ended.is_break() {
                return Ok(ended);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// All entries of the index that the query asks for.
    pub(super) fn entries_of(&self, index: &Index) -> Result<EntriesAhead> {
        let whole = self.conditions.selection(&index.definition)?;
        index.counters.queries.fetch_add(1, Ordering::Relaxed);
        Ok(EntriesAhead {
            rest: self.rest_of(index, whole.ranges.clone())?,
            whole: Arc::new(whole),
            at_once: ENTRIES_AT_FIRST,
            taken: 0,
            is_over: false,
        })
    }

    /// Takes the next entries. False: there are none.
    ///
    /// # Errors
    /// [`Error::IndexNotFound`] if the index was dropped before they were taken.
    pub(super) fn take_entries(
        &self,
        index: &Index,
        ahead: &mut EntriesAhead,
        taken: &mut TakenEntries,
    ) -> Result<bool> {
        let entries = &mut taken.entries;
        entries.clear();
        // No more than the limit asks for, unless some of them were not shown.
        let most = match self.limit.saturating_sub(ahead.taken) {
            0 => ahead.at_once,
            left => ahead.at_once.min(left),
        };
        if ahead.is_over {
            return Ok(false);
        }
        let count = index.take(&mut ahead.rest, self.descending, most, entries);
        // Behind the take: from its drop on, no write changes the index.
        index.check_kept()?;
        ahead.is_over = count < most;
        ahead.taken += count;
        ahead.at_once = (ahead.at_once * 2).min(ENTRIES_AT_ONCE);
        Ok(count > 0)
    }

    /// Shows the records of entries, as far as they fit.
    pub(super) fn visit_entries<B>(
        &self,
        search: EntrySearch<'_>,
        taken: &mut TakenEntries,
        each: Each<'_, B>,
    ) -> ControlFlow<B> {
        let index = search.index;
        let TakenEntries {
            entries,
            digests,
            stale,
            scratch,
        } = taken;
        digests.clear();
        digests.extend(entries.iter().map(|entry| split_entry(entry).1));
        let mut ended = ControlFlow::Continue(());
        // From here on entries are looked at one by one: their records may have companions.
        let mut one_by_one = index.has_companions().then_some(0);
        let now_ms = self.core.clock.now_ms();
        if one_by_one.is_some() {
            digests.clear();
        }
        self.core.storage.get_batch(digests, |at, found| {
            let (Some(entry), ControlFlow::Continue(()), None) =
                (entries.get(at), &ended, one_by_one)
            else {
                return;
            };
            let found = match found {
                Ok(None) => EntryVerdict::Stale,
                Ok(Some(stored)) => {
                    scratch.clear();
                    self.judge(search, entry, &stored, now_ms, scratch)
                }
                Err(error) => EntryVerdict::Found(Err(error.into())),
            };
            match found {
                EntryVerdict::Found(record) => ended = each(Some(entry), record),
                EntryVerdict::PassedOver => {}
                // Its collection has been sharded since the entry was copied.
                EntryVerdict::Stale if index.has_companions() => one_by_one = Some(at),
                EntryVerdict::Stale => stale.push(at),
            }
        });
        // After the readers' section, since it locks records.
        for entry in stale.drain(..).filter_map(|at| entries.get(at)) {
            self.core.clean_entry(index, entry);
        }
        for entry in one_by_one
            .into_iter()
            .flat_map(|at| entries.iter().skip(at))
        {
            if ended.is_continue() {
                ended = self.visit_one(search, entry, each);
            }
        }
        ended
    }

    /// Shows the record of an entry that its companions may have, if it fits.
    fn visit_one<B>(
        &self,
        search: EntrySearch<'_>,
        entry: &[u8],
        each: Each<'_, B>,
    ) -> ControlFlow<B> {
        let now_ms = self.core.clock.now_ms();
        let mut ended = ControlFlow::Continue(());
        let found = self
            .core
            .find_entry(search, entry, &mut |stored, record| match self.filtered(
                stored,
                now_ms,
                |stored| Ok(viewed(stored, record)),
            ) {
                EntryVerdict::Found(record) => ended = each(Some(entry), record),
                EntryVerdict::PassedOver | EntryVerdict::Stale => {}
            });
        match (found, ended) {
            (Err(error), ControlFlow::Continue(())) => each(Some(entry), Err(error)),
            (_, ended) => ended,
        }
    }

    /// Lends a record to `read`, if it fits the query still, without the filter.
    pub(super) fn read_fitting<R>(
        &self,
        digest: &Digest,
        read: impl FnOnce(&EntryView<'_>) -> R,
    ) -> Result<Option<R>> {
        let asked = match &self.source {
            QuerySource::Index(index) => {
                let asked = self.conditions.selection(&index.definition)?;
                let by_companion = self.core.companions_fit(index, &asked, digest)?;
                (!by_companion).then_some((index, asked))
            }
            QuerySource::Primary => None,
        };
        let found = self.core.read_live(digest, |stored| {
            let fits = match &asked {
                Some((index, asked)) => {
                    let met = MetRoots::new(false);
                    let search = self.search(index, asked, &met);
                    let (at, scratch) = (
                        (stored, self.core.clock.now_ms()),
                        &mut EntryList::default(),
                    );
                    let standing = self.core.standing(search, None, at, scratch)?;
                    matches!(standing, EntryStanding::Shown(_))
                }
                None => self.set_id().is_none_or(|id| id == stored.set_id()),
            };
            Ok(fits.then(|| read(stored)))
        })?;
        found.unwrap_or(Ok(None))
    }

    /// The search of an index for what the query asks of it.
    pub(super) fn search<'s>(
        &self,
        index: &'s Index,
        asked: &'s EntrySelection,
        met: &'s MetRoots,
    ) -> EntrySearch<'s> {
        EntrySearch {
            index,
            asked,
            met,
            set_id: self.set_id(),
            descending: self.descending,
            at_each: self.at_each,
        }
    }

    /// Looks at the record of an entry.
    fn judge<'a>(
        &self,
        search: EntrySearch<'_>,
        entry: &[u8],
        stored: &EntryView<'a>,
        now_ms: u64,
        scratch: &mut EntryList,
    ) -> EntryVerdict<'a> {
        let at = (stored, now_ms);
        match self.core.standing(search, Some(entry), at, scratch) {
            Ok(EntryStanding::Shown(record)) => {
                self.filtered(stored, now_ms, |stored| Ok(viewed(stored, record)))
            }
            Ok(EntryStanding::NotShown) => EntryVerdict::PassedOver,
            Ok(EntryStanding::Absent) => EntryVerdict::Stale,
            Err(error) => EntryVerdict::Found(Err(error)),
        }
    }

    fn filtered<'a>(
        &self,
        stored: &EntryView<'a>,
        now_ms: u64,
        view: impl FnOnce(&EntryView<'a>) -> Result<ScannedRecord<'a>>,
    ) -> EntryVerdict<'a> {
        let filter = self.filter.as_ref();
        match self.core.passes(filter, stored, &self.set_name, now_ms) {
            Ok(true) => EntryVerdict::Found(view(stored)),
            Ok(false) => EntryVerdict::PassedOver,
            Err(error) => EntryVerdict::Found(Err(error)),
        }
    }

    /// All records of the set, in the order of their digests.
    fn run_over_all<B>(&self, each: Each<'_, B>) -> Result<ControlFlow<B>> {
        self.check_over_all()?;
        let after = self.digest_after()?;
        let first = after.map_or(0, |after| after.partition());
        for partition in first..PARTITIONS {
            let ended = self.visit_partition(partition, after.as_ref(), each);
            if ended.is_break() {
                return Ok(ended);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) fn check_over_all(&self) -> Result<()> {
        self.conditions.check_none()?;
        if self.descending {
            Err(Error::parameter(
                "a query over all records goes in the order of digests only: leave out descending, or query by an index",
            ))
        } else {
            Ok(())
        }
    }

    /// Shows the records of a partition, behind a digest if it is of this partition.
    pub(super) fn visit_partition<B>(
        &self,
        partition: usize,
        after: Option<&Digest>,
        each: Each<'_, B>,
    ) -> ControlFlow<B> {
        let set_id = self.set_id();
        let is_wanted = |id| set_id.is_none_or(|wanted| wanted == id);
        let mut damaged = Vec::new();
        let after = after.filter(|after| after.partition() == partition);
        let digests = self
            .core
            .digests_in(partition, is_wanted, after, |error| damaged.push(error));
        // The page that began the partition has shown its damaged records; pages that go on do not
        // repeat them.
        for error in damaged.into_iter().filter(|_| after.is_none()) {
            each(None, Err(error))?;
        }
        let mut ended = ControlFlow::Continue(());
        let now_ms = self.core.clock.now_ms();
        self.core.storage.get_batch(&digests, |at, found| {
            let (Some(digest), ControlFlow::Continue(())) = (digests.get(at), &ended) else {
                return;
            };
            let judged = match found {
                Ok(Some(stored)) if !self.companions && self.core.hides(&stored) => {
                    EntryVerdict::PassedOver
                }
                Ok(Some(stored)) if !expired(&stored, now_ms) => {
                    self.filtered(&stored, now_ms, scanned)
                }
                Ok(_) => EntryVerdict::PassedOver,
                Err(error) => EntryVerdict::Found(Err(error.into())),
            };
            if let EntryVerdict::Found(record) = judged {
                ended = each(Some(digest.as_bytes()), record);
            }
        });
        ended
    }

    fn digest_after(&self) -> Result<Option<Digest>> {
        let Some(cursor) = &self.after else {
            return Ok(None);
        };
        let place = cursor.place(&self.identity())?;
        match place.first_chunk() {
            Some(digest) if place.len() == Digest::LEN => Ok(Some(Digest::new(*digest))),
            _ => Err(Error::parameter("the cursor names no record: begin anew")),
        }
    }
}
