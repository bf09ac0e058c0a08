//! Merging the runs of several shards.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Bound;
use std::vec::IntoIter;

use super::{ElementSortKey, RunStart, ShardRun, ShardSlice, Sorted, SortedShards, share};
use crate::Error;
use crate::value::Value;

/// The sort key of the next element of a shard. Of several fronts the greatest comes first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Front {
    Forward(Reverse<ElementSortKey>),
    Backward(ElementSortKey),
}

impl Front {
    pub(super) const fn forward(key: ElementSortKey) -> Self {
        Self::Forward(Reverse(key))
    }
}

/// Where a range ends.
pub(super) struct RangeEnd {
    front: Front,
    included: bool,
}

impl RangeEnd {
    /// `None`: nowhere.
    pub(super) fn of(
        bound: Bound<&Value>,
        front: fn(ElementSortKey) -> Front,
    ) -> Result<Option<Self>, Error> {
        let (value, included) = match bound {
            Bound::Unbounded => return Ok(None),
            Bound::Included(value) => (value, true),
            Bound::Excluded(value) => (value, false),
        };
        let front = front(ElementSortKey::of(value)?);
        Ok(Some(Self { front, included }))
    }

    fn is_before(&self, front: &Front) -> bool {
        *front < self.front || (*front == self.front && !self.included)
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

    fn take_fetched(&mut self, items: Vec<T>) {
        match items.last() {
            Some(last) if items.len() as u64 >= self.ask => {
                self.start = self.start.behind(last.sorted_by().clone());
            }
            _ => self.ended = true,
        }
        self.fetched = items.into_iter();
    }

    /// Returns its next element, if that is compared; `None`: there is none, or it has to be asked.
    fn front(&self, is_compared: bool) -> Result<Option<Front>, Error> {
        let Some(next) = self.fetched.as_slice().first() else {
            return Ok(None);
        };
        let key = if is_compared {
            ElementSortKey::of(next.sorted_by())?
        } else {
            ElementSortKey::default()
        };
        Ok(Some(match self.start {
            RunStart::Before(_) => Front::Backward(key),
            _ => Front::forward(key),
        }))
    }
}

/// The elements of all runs in order, without the first `skip`, at most `limit`. It ends: the
/// elements of a batch are merged before the next one is asked for, and a shard that brings less
/// than it was asked for is not asked again.
pub(super) fn merged<S: SortedShards>(
    shards: &mut S,
    runs: Vec<ShardRun>,
    end: Option<RangeEnd>,
    mut skip: u64,
    limit: u64,
) -> Result<Vec<S::Item>, S::Error> {
    // The elements of a single run are in order.
    let is_compared = runs.len() > 1 || end.is_some();
    let mut merged = Vec::new();
    let mut fronts = BinaryHeap::with_capacity(runs.len());
    let stream = |(shard, run): (usize, ShardRun)| ShardStream {
        shard,
        start: run.start,
        ask: run.first,
        fetched: Vec::new().into_iter(),
        ended: false,
    };
    let mut streams: Vec<_> = runs.into_iter().enumerate().map(stream).collect();
    let mut dry: Vec<usize> = (0..streams.len()).collect();
    while !dry.is_empty() {
        let asked = dry.iter().filter_map(|at| streams.get(*at));
        let slices: Vec<ShardSlice> = asked.map(ShardStream::slice).collect();
        for (at, items) in dry.drain(..).zip(shards.slices(&slices)?) {
            let Some(stream) = streams.get_mut(at) else {
                continue;
            };
            stream.take_fetched(items);
            fronts.extend(stream.front(is_compared)?.map(|front| (front, at)));
        }
        while let Some((front, at)) = fronts.pop() {
            if end.as_ref().is_some_and(|end| end.is_before(&front)) {
                return Ok(merged);
            }
            let Some(stream) = streams.get_mut(at) else {
                continue;
            };
            let item = stream.fetched.next();
            if skip > 0 {
                skip -= 1;
            } else {
                merged.extend(item);
            }
            let missing = limit.saturating_sub(merged.len() as u64);
            if missing == 0 {
                return Ok(merged);
            }
            match stream.front(is_compared)? {
                Some(front) => fronts.push((front, at)),
                None if stream.ended => {}
                None => {
                    stream.ask = share(missing.saturating_add(skip), shards.shards());
                    dry.push(at);
                    break;
                }
            }
        }
    }
    Ok(merged)
}
