//! `ShardedMap`: a map ordered by key, in one record or in many.

mod ranks;

use super::content::{Act, Collection, has_grown, number};
use super::element_hash::hash_of;
use super::sharded::Sharded;
#[cfg(doc)]
use super::shards::Shards;
use super::sorted::{Maps, SortedBin};
use crate::operations::maps;
use crate::{MapReturnType, RecordSet, Result, Value};

/// A map ordered by key under one key of a record, however many records hold it.
///
/// While the map is in its root record, each call is one operation on that record. Once it is
/// sharded, a call for one key goes to the one companion that holds it, and calls for the whole map
/// merge what the companions answer. Activation goes on while others read and write, and any handle
/// continues an unfinished transition.
///
/// [`Shards`] describes the records that hold it, and what a handle keeps of them.
///
/// Calls for one key are linearizable. Calls for the whole map are no snapshot: every key that is
/// there during the whole call is seen exactly once, with a value that it had meanwhile, and none
/// is that is absent during the whole call.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::{ShardedMap, Store};
///
/// let store = Store::in_memory()?;
/// let scores = ShardedMap::new(&store, "games", "tetris", "scores")?;
/// for player in 0..100 {
///     scores.put(player, player * 10)?;
/// }
/// scores.shards().activate(4)?;
/// assert!(!scores.put(7, 75)?);
/// assert_eq!(scores.get(&7.into())?, Some(75.into()));
/// assert_eq!(scores.page(50, 1)?, [(50.into(), 500.into())]);
/// # Ok(())
/// # }
/// ```
pub type ShardedMap<R> = Sharded<R, Maps>;

impl<R: RecordSet> ShardedMap<R> {
    /// Writes the value of a key. Returns whether the key is new. One operation on one record,
    /// unless the shards have changed since the last call; O(log N).
    ///
    /// # Errors
    /// What a write to one record may refuse; [`Error::ShardMissing`](crate::Error::ShardMissing),
    /// [`Error::ShardScheme`](crate::Error::ShardScheme) or
    /// [`Error::ShardKeyCollision`](crate::Error::ShardKeyCollision) where the shards are not as
    /// they should be.
    pub fn put(&self, key: impl Into<Value>, value: impl Into<Value>) -> Result<bool> {
        let key = key.into();
        let hash = hash_of(&key)?;
        let bin = self.handle.bin();
        let put = maps::put(&Collection::map_policy(), bin, key, value);
        let act = Act::creating([maps::size(bin), put]);
        Ok(has_grown(self.handle.write(hash, act)?))
    }

    /// Returns the value of a key; `None` if the key is not there. One operation, O(log N).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn get(&self, key: &Value) -> Result<Option<Value>> {
        let get = maps::get_by_key_list(self.handle.bin(), vec![key.clone()], ENTRIES);
        Ok(only_value(self.find(key, get)?))
    }

    /// Returns whether a key is there. One operation, O(log N).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn contains(&self, key: &Value) -> Result<bool> {
        let count = maps::get_by_key(self.handle.bin(), key.clone(), MapReturnType::Count);
        Ok(number(self.find(key, count)?.as_ref()) > 0)
    }

    /// Removes a key. Returns the value that it had; `None` if it was not there. Costs as
    /// [`ShardedMap::put`].
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn remove(&self, key: &Value) -> Result<Option<Value>> {
        let remove = maps::remove_by_key_list(self.handle.bin(), vec![key.clone()], ENTRIES);
        Ok(only_value(self.change(key, remove)?))
    }
}

const ENTRIES: MapReturnType = MapReturnType::KeyValue;

/// The value of the one entry that was asked for.
fn only_value(answer: Option<Value>) -> Option<Value> {
    let entry = answer.map(Maps::items)?.into_iter().next();
    entry.map(|(_, value)| value)
}
