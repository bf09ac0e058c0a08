//! `ShardedCounter`: a number that many add to, in one record or in many.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use super::address::CollectionAddress;
use super::content::{Act, Collection};
use super::handle::Handle;
use super::policy::ShardPolicy;
use super::shards::Shards;
use super::state::ShardState;
use crate::operations;
use crate::{Key, RecordSet, RecordStore, Result, Value, WritePolicy};

/// A 64-bit number under one key to which amounts are added, however many records hold it.
///
/// While it is in its root record, it is an integer in a bin. Once it is sharded, each addition goes to one of the
/// companions, to the next with every call, and reading sums them up. Activation goes on while others add and read, and any
/// handle continues an unfinished transition. Sums wrap around like integers in bins.
///
/// [`Shards`] describes the records that hold it, and what a handle keeps of them.
///
/// An addition is linearizable. A read of several companions is no snapshot: it has every addition that was done before the
/// read began, none that begins after it has ended, and any of the others.
///
/// An addition of which it is not known whether it was applied ([`Error::in_doubt`](crate::Error::in_doubt)) must not be
/// repeated by rote: it would count twice.
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
#[derive(Debug)]
pub struct ShardedCounter<R> {
    handle: Handle<R>,
    /// Chooses the companion of the next addition.
    next: AtomicU64,
}

impl<R: RecordSet> ShardedCounter<R> {
    /// Returns a handle of the counter in this bin of the record of this key. Reads and writes nothing.
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
    /// `expiration` as long as the counter is unsharded.
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
        let mut handle = Handle::new(address, Collection::Counter, policy);
        // A counter never becomes large.
        handle.set_policy(ShardPolicy::manual().contention(true));
        Ok(Self {
            handle,
            next: AtomicU64::new(RandomState::new().hash_one(0)),
        })
    }

    /// Sets when the counter is sharded of its own accord. Without this call it is where writers queue for it, and its shards
    /// are merged when it has become quiet: [`ShardPolicy::contention`] and [`ShardPolicy::merge_when_quiet`].
    #[must_use]
    pub fn policy(mut self, policy: ShardPolicy) -> Self {
        self.handle.set_policy(policy);
        self
    }

    /// Returns the counter's shards: where it is, and its transitions.
    pub const fn shards(&self) -> Shards<'_, R> {
        Shards::new(&self.handle)
    }

    /// Deletes the counter with all its companions: [`Shards::delete`].
    ///
    /// # Errors
    /// As for [`Shards::delete`].
    pub fn delete(&self) -> Result<ShardState> {
        self.shards().delete()
    }

    /// Adds an amount, which may be negative. One operation on one record, unless the shards have changed since the last
    /// call.
    ///
    /// # Errors
    /// What a write to one record may refuse; [`Error::ShardMissing`](crate::Error::ShardMissing),
    /// [`Error::ShardScheme`](crate::Error::ShardScheme) or
    /// [`Error::ShardKeyCollision`](crate::Error::ShardKeyCollision) where the shards are not as they should be.
    pub fn add(&self, amount: i64) -> Result<()> {
        let shard = self.next.fetch_add(1, Ordering::Relaxed);
        let add = operations::add(self.handle.bin(), amount);
        self.handle.write(shard, Act::creating([add])).map(drop)
    }

    /// Returns the sum of all additions; 0 where there was none. O(shards).
    ///
    /// # Errors
    /// As for [`ShardedCounter::add`]; [`Error::IncompatibleType`](crate::Error::IncompatibleType) if the bin is no
    /// integer.
    pub fn read(&self) -> Result<i64> {
        let get = Act::of_existing([operations::get_bin(self.handle.bin())]);
        let answers = self.handle.read(|pass| pass.ask_all(&get))?;
        let values = answers.into_iter().flatten().flatten().flatten();
        values
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
