//! The hot collections, written through the handles of the library: what a service that uses them
//! would see.
//!
//! Elements are added to a [`ShardedList`], or to [`TimeShards`] where time plays a part;
//! increments go to a [`ShardedCounter`]. For values that are replaced, and for counters by time,
//! there is no handle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spikelet::shard::ShardPolicy;
use spikelet::{Result, ShardedCounter, ShardedList, TimeShards, Value, WritePolicy};

use super::case::{Case, Write};
use super::hold::HoldingSet;
use super::layout::RowLayout;
use super::routing::{HotRoute, element, number};

/// One hot collection.
pub(super) enum HotCollection {
    List(ShardedList<HoldingSet>),
    /// With how many increments are acknowledged.
    Counter(ShardedCounter<HoldingSet>, AtomicU64),
    Timed(TimeShards<HoldingSet>),
}

impl HotCollection {
    /// Returns the collection of a hot key, or `None` if the library has no handle for what the
    /// case writes. It never shards itself.
    ///
    /// # Errors
    /// What the store refuses.
    pub(super) fn new(
        case: &Case,
        held: &HoldingSet,
        names: [&str; 2],
        key: u32,
        policy: &WritePolicy,
    ) -> Result<Option<Self>> {
        let [set, bin] = names;
        let root = HotRoute::hashed(key, 1, 0).record_key();
        let by_hand = ShardPolicy::manual();
        let collection = match (case.settings.write, case.layout) {
            (Write::AddUnique, RowLayout::Hashed(_)) => {
                Self::List(ShardedList::new_with(held, set, root, bin, policy)?.policy(by_hand))
            }
            (Write::AddUnique, RowLayout::Timed(width, shards)) => {
                let timed = TimeShards::new_with(held, set, root, bin, width, policy)?;
                Self::Timed(timed.hashed(u64::from(shards)))
            }
            (Write::Increment, RowLayout::Hashed(_)) => Self::Counter(
                ShardedCounter::new_with(held, set, root, bin, policy)?.policy(by_hand),
                AtomicU64::new(0),
            ),
            (Write::Put, _) | (Write::Increment, RowLayout::Timed(..)) => return Ok(None),
        };
        Ok(Some(collection))
    }

    /// Activates the collection with this many shards; leaves time shards as they are. Returns over
    /// how many it is sharded then: others may do the same.
    ///
    /// # Errors
    /// What the store refuses.
    pub(super) fn activate(&self, shards: u32) -> Result<u64> {
        let shards = u64::from(shards);
        let state = match self {
            Self::List(list) => list.shards().activate(shards)?,
            Self::Counter(counter, _) => counter.shards().activate(shards)?,
            Self::Timed(_) => return Ok(shards),
        };
        Ok(state.shards)
    }

    /// Does the write of this number. Returns whether it has changed anything: an element may be
    /// there already.
    ///
    /// # Errors
    /// What the store answers.
    pub(super) fn write(&self, route: &HotRoute, id: u64) -> Result<bool> {
        match self {
            Self::List(list) => list.add(route.child(id)),
            Self::Counter(counter, acknowledged) => {
                counter.add(1)?;
                acknowledged.fetch_add(1, Ordering::SeqCst);
                Ok(true)
            }
            Self::Timed(timed) => timed.add(route.time(id), element(id)),
        }
    }

    /// Reads the acknowledged write with this number back: returns whether its element is there
    /// once, or the sum of a counter is not below the acknowledged increments.
    ///
    /// # Errors
    /// What the store answers.
    pub(super) fn seen(&self, route: &HotRoute, id: u64) -> Result<bool> {
        match self {
            Self::List(list) => list.contains(&route.child(id)),
            Self::Counter(counter, acknowledged) => {
                let least = acknowledged.load(Ordering::SeqCst);
                Ok(counter.read()? as u64 >= least)
            }
            Self::Timed(timed) => {
                let at = route.time(id);
                let found = timed.range(at..at + Duration::from_micros(1)).all()?;
                let wanted = element(id);
                Ok(found.iter().filter(|(_, found)| *found == wanted).count() == 1)
            }
        }
    }

    /// Returns the sum of a counter; 0 for lists.
    ///
    /// # Errors
    /// What the store answers.
    pub(super) fn sum(&self) -> Result<u64> {
        match self {
            Self::Counter(counter, _) => Ok(counter.read()? as u64),
            Self::List(_) | Self::Timed(_) => Ok(0),
        }
    }

    /// Returns the numbers of all elements, the initial ones among them.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(super) fn numbers(&self) -> Result<Vec<u32>> {
        let mut numbers = Vec::new();
        let mut take = |element: &Value| numbers.push(number(element));
        match self {
            Self::List(list) => {
                for element in list.iter() {
                    take(&element?);
                }
            }
            Self::Timed(timed) => {
                let all = timed.range(..).all()?;
                all.iter().for_each(|(_, element)| take(element));
            }
            Self::Counter(..) => {}
        }
        Ok(numbers)
    }
}
