//! Merging the runs of several shards.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Bound;
use std::vec::IntoIter;

use super::{ElementSortKey, RunStart, ShardRun, ShardSlice, Sorted, SortedShards, share};
use crate::Error;
use crate::value::Value;

/// Where a range ends.
pub(super) struct RangeEnd {
    key: ElementSortKey,
    included: bool,
}

impl RangeEnd {
    /// `None`: nowhere.
    pub(super) fn of(bound: Bound<&Value>) -> Result<Option<Self>, Error> {
        let (value, included) = match bound {
            Bound::Unbounded => return Ok(None),
            Bound::Included(value) => (value, true),
            Bound::Excluded(value) => (value, false),
        };
        let key = ElementSortKey::of(value)?;
        Ok(Some(Self { key, included }))
    }

    fn is_before(&self, key: &ElementSortKey) -> bool {
        self.key < *key || (self.key == *key && !self.included)
    }
}

/// The rest of a shard.
struct ShardStream<T> {
    shard: usize,
    start: RunStart,
    /// For how many elements it is asked next.
    ask: u64,
    fetched: IntoIter<T>,
    /// Whether all of it is fetched.
    ended: bool,
}

impl<T: Sorted> ShardStream<T> {
    fn slice(&self) -> ShardSlice {
        ShardSlice {
            shard: self.shard,
            start: self.start.clone(),
            limit: self.ask,
        }
    }

    fn fetched(mut self, items: Vec<T>) -> Self {
        match items.last() {
            Some(last) if items.len() as u64 >= self.ask => {
                self.start = RunStart::After(last.sorted_by().clone());
            }
            _ => self.ended = true,
        }
        self.fetched = items.into_iter();
        self
    }

    fn next(mut self) -> Result<NextItems<T>, Error> {
        let Some(item) = self.fetched.next() else {
            return Ok(if self.ended {
                NextItems::Ended
            } else {
                NextItems::Dry(self)
            });
        };
        Ok(NextItems::Front(NextElement {
            key: ElementSortKey::of(item.sorted_by())?,
            item,
            behind: self,
        }))
    }
}

/// The next items of a shard.
enum NextItems<T> {
    Front(NextElement<T>),
    /// It has to be asked.
    Dry(ShardStream<T>),
    Ended,
}

/// The next element of a shard.
struct NextElement<T> {
    key: ElementSortKey,
    item: T,
    behind: ShardStream<T>,
}

/// Fronts are kept in a heap of the greatest: the least comes first.
impl<T> Ord for NextElement<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl<T> PartialOrd for NextElement<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for NextElement<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for NextElement<T> {}

/// The elements of all runs in order, without the first `skip`, at most `limit`. It ends: what a batch brings is merged
/// before the next one is asked for, and a shard that brings less than it was asked for is not asked again.
pub(super) fn merged<S: SortedShards>(
    shards: &mut S,
    runs: Vec<ShardRun>,
    end: Option<RangeEnd>,
    mut skip: u64,
    limit: u64,
) -> Result<Vec<S::Item>, S::Error> {
    let runs = match <[ShardRun; 1]>::try_from(runs) {
        Ok([run]) => return elements_of(shards, run, end.as_ref(), skip, limit),
        Err(runs) => runs,
    };
    let mut merged = Vec::new();
    let mut fronts = BinaryHeap::with_capacity(runs.len());
    let mut dry: Vec<ShardStream<S::Item>> = runs
        .into_iter()
        .enumerate()
        .map(|(shard, run)| ShardStream {
            shard,
            start: run.start,
            ask: run.first,
            fetched: Vec::new().into_iter(),
            ended: false,
        })
        .collect();
    while !dry.is_empty() {
        let slices: Vec<ShardSlice> = dry.iter().map(ShardStream::slice).collect();
        for (stream, items) in dry.drain(..).zip(shards.slices(&slices)?) {
            if let NextItems::Front(front) = stream.fetched(items).next()? {
                fronts.push(front);
            }
        }
        while let Some(front) = fronts.pop() {
            if end.as_ref().is_some_and(|end| end.is_before(&front.key)) {
                return Ok(merged);
            }
            if skip > 0 {
                skip -= 1;
            } else {
                merged.push(front.item);
            }
            let missing = limit.saturating_sub(merged.len() as u64);
            if missing == 0 {
                return Ok(merged);
            }
            match front.behind.next()? {
                NextItems::Front(next) => fronts.push(next),
                NextItems::Ended => {}
                NextItems::Dry(mut stream) => {
                    stream.ask = share(missing.saturating_add(skip), shards.shards());
                    dry.push(stream);
                    break;
                }
            }
        }
    }
    Ok(merged)
}

/// The elements of a single run, which are in order: as [`merged`], without a key for each of them.
fn elements_of<S: SortedShards>(
    shards: &mut S,
    run: ShardRun,
    end: Option<&RangeEnd>,
    mut skip: u64,
    limit: u64,
) -> Result<Vec<S::Item>, S::Error> {
    let mut elements = Vec::new();
    let mut slice = ShardSlice {
        shard: 0,
        start: run.start,
        limit: run.first,
    };
    loop {
        let items = shards.slices(std::slice::from_ref(&slice))?.pop();
        let items = items.unwrap_or_default();
        let next = match items.last() {
            Some(last) if items.len() as u64 >= slice.limit => {
                Some(RunStart::After(last.sorted_by().clone()))
            }
            _ => None,
        };
        for item in items {
            if let Some(end) = end
                && end.is_before(&ElementSortKey::of(item.sorted_by())?)
            {
                return Ok(elements);
            }
            if skip > 0 {
                skip -= 1;
                continue;
            }
            elements.push(item);
            if elements.len() as u64 == limit {
                return Ok(elements);
            }
        }
        let Some(start) = next else {
            return Ok(elements);
        };
        let missing = limit - elements.len() as u64;
        slice = ShardSlice {
            shard: 0,
            start,
            limit: share(missing.saturating_add(skip), 1),
        };
    }
}
