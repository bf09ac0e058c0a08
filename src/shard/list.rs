//! `ShardedList`: an ordered list of unique elements, in one record or in many.

use super::content::{Act, Collection, has_grown, number};
use super::element_hash::hash_of;
use super::sharded::Sharded;
#[cfg(doc)]
use super::shards::Shards;
use super::sorted::Lists;
use crate::operations::lists;
use crate::{ListReturnType, RecordSet, Result, Value};

/// An ordered list of unique elements under one key, however many records hold it.
///
/// While the list is in its root record, each call is one operation on that record. Once it is
/// sharded, a call for one element goes to the one companion that holds it, and calls for the whole
/// list merge what the companions answer. Activation goes on while others read and write, and any
/// handle continues an unfinished transition.
///
/// [`Shards`] describes the records that hold it, and what a handle keeps of them.
///
/// Calls for one element are linearizable. Calls for the whole list are no snapshot: every element
/// that is there during the whole call is seen exactly once, and none is that is absent during the
/// whole call.
///
/// The bin may be a list that was made by other means. One without order is read in the order of
/// values; it is ordered from the moment on in which it is sharded. One with an element more than
/// once is not sharded, neither by [`Shards::activate`] nor by a policy, until the repeats are
/// removed: [`ShardedList::remove`] removes all of them.
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
pub type ShardedList<R> = Sharded<R, Lists>;

impl<R: RecordSet> ShardedList<R> {
    /// Adds an element. Returns whether it was not there before. One operation, O(log N), where the
    /// list has not moved since the last call.
    ///
    /// # Errors
    /// What a write to one record may refuse; [`Error::ShardMissing`](crate::Error::ShardMissing),
    /// [`Error::ShardScheme`](crate::Error::ShardScheme) or
    /// [`Error::ShardKeyCollision`](crate::Error::ShardKeyCollision) where the shards are not as
    /// they should be.
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
        Ok(number(self.change(element, remove)?.as_ref()) > 0)
    }

    /// Returns whether an element is there. One operation, O(log N).
    ///
    /// # Errors
    /// As for [`ShardedList::add`].
    pub fn contains(&self, element: &Value) -> Result<bool> {
        let count = ListReturnType::Count;
        let find = lists::get_by_value(self.handle.bin(), element.clone(), count);
        Ok(number(self.find(element, find)?.as_ref()) > 0)
    }
}
