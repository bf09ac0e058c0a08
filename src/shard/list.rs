//! `ShardedList`: an ordered list of unique elements, in one record or in many.

use std::ops::Bound;

use super::address::CollectionAddress;
use super::content::{Act, Collection, first, has_grown, number};
use super::element_hash::hash_of;
use super::handle::Handle;
use super::merge;
use super::policy::ShardPolicy;
use super::shards::Shards;
use super::sorted::{Lists, SortedBin};
use super::state::ShardState;
use crate::operations::lists;
use crate::{Key, ListReturnType, RecordSet, RecordStore, Result, Value, WritePolicy};

/// An ordered list of unique elements under one key, however many records hold it.
///
/// While the list is in its root record, each call is one operation on that record. Once it is sharded, a call for one
/// element goes to the one companion that holds it, and calls for the whole list merge what the companions answer. Activation
/// goes on while others read and write, and any handle continues an unfinished transition.
///
/// [`Shards`] describes the records that hold it, and what a handle keeps of them.
///
/// Calls for one element are linearizable. Calls for the whole list are no snapshot: every element that is there during the
/// whole call is seen exactly once, and none is that is absent during the whole call.
///
/// The bin may be a list that was made by other means. One without order is read in the order of values; it is ordered from
/// the moment on in which it is sharded. One with an element more than once is not sharded, neither by
/// [`Shards::activate`] nor by a policy, until the repeats are removed: [`ShardedList::remove`] removes all of them.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::{ShardedList, Store};
///
/// let store = Store::in_memory()?;
/// let followers = ShardedList::new(&store, "followers", "alice", "by")?;
/// for id in 0..100 {
///     followers.add(id)?;
/// }
/// followers.shards().activate(4)?;
/// assert!(!followers.add(7)?);
/// assert_eq!(followers.len()?, 100);
/// assert_eq!(followers.page(50, 2)?, [50.into(), 51.into()]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ShardedList<R> {
    handle: Handle<R>,
}

impl<R: RecordSet> ShardedList<R> {
    /// Returns a handle of the list in this bin of the record of this key. Reads and writes nothing.
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
    /// `expiration` as long as the list is unsharded.
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
            handle: Handle::new(address, Collection::List, policy),
        })
    }

    /// Sets when the list is sharded of its own accord. Without this call, [`ShardPolicy::default`] decides.
    #[must_use]
    pub fn policy(mut self, policy: ShardPolicy) -> Self {
        self.handle.set_policy(policy);
        self
    }

    /// Returns the list's shards: where it is, and its transitions.
    pub const fn shards(&self) -> Shards<'_, R> {
        Shards::new(&self.handle)
    }

    /// Deletes the list with all its companions: [`Shards::delete`].
    ///
    /// # Errors
    /// As for [`Shards::delete`].
    pub fn delete(&self) -> Result<ShardState> {
        self.shards().delete()
    }

    /// Adds an element. Returns whether it was not there before. One operation, O(log N), where the list has not moved
    /// since the last call.
    ///
    /// # Errors
    /// What a write to one record may refuse; [`Error::ShardMissing`](crate::Error::ShardMissing),
    /// [`Error::ShardScheme`](crate::Error::ShardScheme) or
    /// [`Error::ShardKeyCollision`](crate::Error::ShardKeyCollision) where the shards are not as they should be.
    pub fn add(&self, element: impl Into<Value>) -> Result<bool> {
        let element = element.into();
        let hash = hash_of(&element)?;
        let bin = self.handle.bin();
        let add = lists::append(&Collection::list_policy(), bin, element);
        let act = Act::creating([lists::size(bin), add]);
        Ok(has_grown(self.handle.write(hash, act)?))
    }

    /// Removes an element. Returns whether it was there. Costs and errors as [`ShardedList::add`].
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn remove(&self, element: &Value) -> Result<bool> {
        let count = ListReturnType::Count;
        let remove = lists::remove_by_value(self.handle.bin(), element.clone(), count);
        let answer = self
            .handle
            .write(hash_of(element)?, Act::of_existing([remove]))?;
        Ok(number(first(answer).as_ref()) > 0)
    }

    /// Returns whether an element is there. One operation, O(log N).
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn contains(&self, element: &Value) -> Result<bool> {
        let count = ListReturnType::Count;
        let find = lists::get_by_value(self.handle.bin(), element.clone(), count);
        let answer = self
            .handle
            .find(hash_of(element)?, Act::of_existing([find]))?;
        Ok(number(first(answer).as_ref()) > 0)
    }

    /// Returns how many elements there are. O(shards).
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn len(&self) -> Result<u64> {
        Lists::merged(&self.handle, |shards| merge::len(shards))
    }

    /// Returns whether there are none. O(shards).
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns at most `limit` elements from this position in the order of all. The elements before it are not read:
    /// O(shards log^2 N + limit).
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn page(&self, offset: u64, limit: u64) -> Result<Vec<Value>> {
        Lists::merged(&self.handle, |shards| merge::page(shards, offset, limit))
    }

    /// Returns the first `limit` elements that are greater than `cursor` (`None`: the first of all). A cursor is an element, so it
    /// stays valid through all transitions. O(shards log N + limit).
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn page_after(&self, cursor: Option<&Value>, limit: u64) -> Result<Vec<Value>> {
        cursor.map_or(Ok(0), hash_of)?;
        Lists::merged(&self.handle, |shards| {
            merge::page_after(shards, cursor, limit)
        })
    }

    /// Returns the first `limit` elements between two bounds. Costs as [`ShardedList::page_after`].
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn range(&self, from: Bound<&Value>, to: Bound<&Value>, limit: u64) -> Result<Vec<Value>> {
        for bound in [from, to] {
            if let Bound::Included(value) | Bound::Excluded(value) = bound {
                hash_of(value)?;
            }
        }
        Lists::merged(&self.handle, |shards| merge::range(shards, from, to, limit))
    }

    /// Returns all elements in order, read in batches: an element that is added or removed meanwhile may be seen or not. Ends after an error.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value>> + '_ {
        merge::all(|cursor, limit| self.page_after(cursor, limit))
    }
}
