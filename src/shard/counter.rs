//! `ShardedCounter`: a number that many add to, in one record or in many.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use super::content::{Act, Collection, ShardedKind};
use super::policy::ShardPolicy;
use super::sharded::Sharded;
#[cfg(doc)]
use super::shards::Shards;
use crate::operations;
use crate::{RecordSet, Result, Value};

/// A 64-bit number under one key to which amounts are added, however many records hold it.
///
/// While it is in its root record, it is an integer in a bin. Once it is sharded, each addition
/// goes to one of the companions, to the next with every call, and reading sums them up. Activation
/// goes on while others add and read, and any handle continues an unfinished transition. Sums wrap
/// around like integers in bins.
///
/// [`Shards`] describes the records that hold it, and what a handle keeps of them.
///
/// An addition is linearizable. A read of several companions is no snapshot: it has every addition
/// that was done before the read began, none that begins after it has ended, and any of the others.
///
/// An addition of which it is not known whether it was applied
/// ([`Error::in_doubt`](crate::Error::in_doubt)) must not be repeated by rote: it would count
/// twice.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::{ShardedCounter, Store};
///
/// let store = Store::in_memory()?;
/// let likes = ShardedCounter::new(&store, "posts", "post-17", "likes")?;
/// likes.add(40)?;
/// likes.shards().activate(8)?;
/// likes.add(2)?;
/// assert_eq!(likes.read()?, 42);
/// # Ok(())
/// # }
/// ```
pub type ShardedCounter<R> = Sharded<R, Counters>;

/// Numbers to which amounts are added.
#[derive(Debug)]
pub struct Counters {
    /// Chooses the companion of the next addition.
    next: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            next: AtomicU64::new(RandomState::new().hash_one(0)),
        }
    }
}

impl ShardedKind for Counters {
    const COLLECTION: Collection = Collection::Counter;

    /// A counter never becomes large.
    fn shard_policy() -> ShardPolicy {
        ShardPolicy::manual().contention(true)
    }
}

impl<R: RecordSet> ShardedCounter<R> {
    /// Adds an amount, which may be negative. One operation on one record, unless the shards have
    /// changed since the last call.
    ///
    /// # Errors
    /// What a write to one record may refuse; [`Error::ShardMissing`](crate::Error::ShardMissing),
    /// [`Error::ShardScheme`](crate::Error::ShardScheme) or
    /// [`Error::ShardKeyCollision`](crate::Error::ShardKeyCollision) where the shards are not as
    /// they should be.
    pub fn add(&self, amount: i64) -> Result<()> {
        let shard = self.kind.next.fetch_add(1, Ordering::Relaxed);
        let add = operations::add(self.handle.bin(), amount);
        self.handle.write(shard, Act::creating([add])).map(drop)
    }

    /// Returns the sum of all additions; 0 where there was none. O(shards).
    ///
    /// # Errors
    /// As for [`ShardedCounter::add`]; [`Error::IncompatibleType`](crate::Error::IncompatibleType)
    /// if the bin is no integer.
    pub fn read(&self) -> Result<i64> {
        let values = self.answers(operations::get_bin(self.handle.bin()))?;
        values
            .into_iter()
            .map(|value| self.amount(value))
            .try_fold(0, |sum: i64, amount| Ok(sum.wrapping_add(amount?)))
    }

    fn amount(&self, value: Value) -> Result<i64> {
        match Collection::Counter.content(self.handle.bin(), Some(value))? {
            super::content::Content::Counter(amount) => Ok(amount),
            _ => Ok(0),
        }
    }
}
