//! `ShardedMap`: a map ordered by key, in one record or in many.

mod ranks;

use std::ops::Bound;

use super::address::CollectionAddress;
use super::content::{Act, ActAnswers, Collection, first, has_grown, number};
use super::element_hash::hash_of;
use super::handle::Handle;
use super::merge;
use super::policy::ShardPolicy;
use super::shards::Shards;
use super::sorted::{Maps, SortedBin};
use super::state::ShardState;
use crate::operations::maps;
use crate::{Key, MapReturnType, RecordSet, RecordStore, Result, Value, WritePolicy};

/// A map ordered by key under one key of a record, however many records hold it.
///
/// While the map is in its root record, each call is one operation on that record. Once it is sharded, a call for one
/// key goes to the one companion that holds it, and calls for the whole map merge what the companions answer. Activation
/// goes on while others read and write, and any handle continues an unfinished transition.
///
/// [`Shards`] describes the records that hold it, and what a handle keeps of them.
///
/// Calls for one key are linearizable. Calls for the whole map are no snapshot: every key that is there during the whole
/// call is seen exactly once, with a value that it had meanwhile, and none is that is absent during the whole call.
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
#[derive(Debug)]
pub struct ShardedMap<R> {
    handle: Handle<R>,
}

impl<R: RecordSet> ShardedMap<R> {
    /// Returns a handle of the map in this bin of the record of this key. Reads and writes nothing.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for a name of a set that is not allowed, and for a bin that describes
    /// shards; [`Error::BinName`](crate::Error::BinName).
    pub fn new<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
    ) -> Result<Self> {
        Self::new_with(store, set, key, bin, &WritePolicy::default())
    }

    /// Returns a handle that writes by a policy, of which `total_timeout`, `send_key` and `durable_delete` count, and
    /// `expiration` as long as the map is unsharded.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn new_with<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
        policy: &WritePolicy,
    ) -> Result<Self> {
        let address = CollectionAddress::new(store, set, key, bin)?;
        Ok(Self {
            handle: Handle::new(address, Collection::Map, policy),
        })
    }

    /// Sets when the map is sharded of its own accord. Without this call, [`ShardPolicy::default`] decides.
    #[must_use]
    pub fn policy(mut self, policy: ShardPolicy) -> Self {
        self.handle.set_policy(policy);
        self
    }

    /// Returns the map's shards: where it is, and its transitions.
    pub const fn shards(&self) -> Shards<'_, R> {
        Shards::new(&self.handle)
    }

    /// Deletes the map with all its companions: [`Shards::delete`].
    ///
    /// # Errors
    /// As for [`Shards::delete`].
    pub fn delete(&self) -> Result<ShardState> {
        self.shards().delete()
    }

    /// Writes the value of a key. Returns whether the key is new. One operation on one record, unless the shards have
    /// changed since the last call; O(log N).
    ///
    /// # Errors
    /// What a write to one record may refuse; [`Error::ShardMissing`](crate::Error::ShardMissing),
    /// [`Error::ShardScheme`](crate::Error::ShardScheme) or
    /// [`Error::ShardKeyCollision`](crate::Error::ShardKeyCollision) where the shards are not as they should be.
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
        let answer = self.handle.find(hash_of(key)?, Act::of_existing([get]))?;
        Ok(only_value(answer))
    }

    /// Returns whether a key is there. One operation, O(log N).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn contains(&self, key: &Value) -> Result<bool> {
        let count = maps::get_by_key(self.handle.bin(), key.clone(), MapReturnType::Count);
        let answer = self.handle.find(hash_of(key)?, Act::of_existing([count]))?;
        Ok(number(first(answer).as_ref()) > 0)
    }

    /// Removes a key. Returns the value that it had; `None` if it was not there. Costs as [`ShardedMap::put`].
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn remove(&self, key: &Value) -> Result<Option<Value>> {
        let remove = maps::remove_by_key_list(self.handle.bin(), vec![key.clone()], ENTRIES);
        let answer = self
            .handle
            .write(hash_of(key)?, Act::of_existing([remove]))?;
        Ok(only_value(answer))
    }

    /// Returns how many keys there are. O(shards).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn len(&self) -> Result<u64> {
        Maps::merged(&self.handle, |shards| merge::len(shards))
    }

    /// Returns whether there are none. O(shards).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns at most `limit` entries from this position in the order of all keys. The entries before it are not read:
    /// O(shards log^2 N + limit).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn page(&self, offset: u64, limit: u64) -> Result<Vec<(Value, Value)>> {
        Maps::merged(&self.handle, |shards| merge::page(shards, offset, limit))
    }

    /// Returns the first `limit` entries whose keys are greater than `cursor` (`None`: the first of all). A cursor is a key, so it
    /// stays valid through all transitions. O(shards log N + limit).
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn page_after(&self, cursor: Option<&Value>, limit: u64) -> Result<Vec<(Value, Value)>> {
        Maps::merged(&self.handle, |shards| {
            merge::page_after(shards, cursor, limit)
        })
    }

    /// Returns the first `limit` entries whose keys are between two bounds. Costs as [`ShardedMap::page_after`].
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn range(
        &self,
        from: Bound<&Value>,
        to: Bound<&Value>,
        limit: u64,
    ) -> Result<Vec<(Value, Value)>> {
        Maps::merged(&self.handle, |shards| merge::range(shards, from, to, limit))
    }

    /// Returns all entries in the order of keys, read in batches: an entry that is put or removed meanwhile may be seen or not. Ends after
    /// an error.
    pub fn iter(&self) -> impl Iterator<Item = Result<(Value, Value)>> + '_ {
        merge::all(|cursor, limit| self.page_after(cursor, limit))
    }
}

const ENTRIES: MapReturnType = MapReturnType::KeyValue;

/// The value of the one entry that was asked for.
fn only_value(answer: Option<ActAnswers>) -> Option<Value> {
    let entry = first(answer).map(Maps::items)?.into_iter().next();
    entry.map(|(_, value)| value)
}
