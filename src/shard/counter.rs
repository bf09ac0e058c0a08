//! `ShardedCounter`: a number that many add to, in one record or in many.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use super::content::{Act, Collection};
use super::handle::Handle;
use super::policy::ShardPolicy;
use super::protocol::begin::Goal;
use super::state::{ShardProgress, ShardState};
use crate::operations;
use crate::{Key, RecordSet, RecordStore, Result, Value, WritePolicy};

/// A 64-bit number under one key to which amounts are added, however many records hold it.
///
/// While it is in its root record, it is an integer in a bin. Once it has been spread, each addition goes to one of the
/// companions, to the next with every call, and reading sums them up. Spreading goes on while others add and read, and any
/// handle carries on what another has left unfinished. Sums wrap around as those of integers in bins do.
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
/// likes.activate(8)?;
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
    /// The counter in a bin of the record of this key. Nothing is read or written.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for a name of a set that is not allowed.
    pub fn new<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
    ) -> Result<Self> {
        Self::new_with(store, set, key, bin, &WritePolicy::default())
    }

    /// The same by a policy, of which the time limit, the expiration of the root and whether keys are stored count.
    ///
    /// # Errors
    /// As for [`ShardedCounter::new`].
    pub fn new_with<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
        policy: &WritePolicy,
    ) -> Result<Self> {
        let key = key.into().into_owned();
        let handle = Handle::new(store.records(set)?, key, bin, Collection::Counter, policy)?;
        let next = AtomicU64::new(RandomState::new().hash_one(0));
        Ok(Self { handle, next })
    }

    /// When the counter is spread without being asked to; [`ShardPolicy::default`] otherwise, which a counter never meets.
    #[must_use]
    pub fn policy(mut self, policy: ShardPolicy) -> Self {
        self.handle.set_policy(policy);
        self
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

    /// The sum of all additions; 0 where there was none. O(shards).
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

    /// Spreads the counter over so many companions, a power of two, unless it is spread already.
    ///
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for another number; as for [`ShardedCounter::add`];
    /// [`Error::ShardKeyCollision`](crate::Error::ShardKeyCollision) if another record has the key of a companion, and then
    /// nothing was changed.
    pub fn activate(&self, shards: u64) -> Result<ShardState> {
        self.activate_with(shards, |_| ControlFlow::Continue(()))
    }

    /// [`ShardedCounter::activate`], watched: `observe` is called before each companion, and may stop it there. The counter
    /// stays readable; the next writer, or [`ShardedCounter::help`], carries on.
    ///
    /// # Errors
    /// As for [`ShardedCounter::activate`].
    pub fn activate_with(
        &self,
        shards: u64,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.activate(shards, observe)
    }

    /// Splits every companion in two.
    ///
    /// # Errors
    /// As for [`ShardedCounter::activate`]; [`Error::OpNotApplicable`](crate::Error::OpNotApplicable) for a counter in
    /// one record.
    pub fn split(&self) -> Result<ShardState> {
        self.split_with(|_| ControlFlow::Continue(()))
    }

    /// [`ShardedCounter::split`], watched as [`ShardedCounter::activate_with`].
    ///
    /// # Errors
    /// As for [`ShardedCounter::split`].
    pub fn split_with(
        &self,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.change(Goal::Split, observe)
    }

    /// Merges the companions by twos.
    ///
    /// # Errors
    /// As for [`ShardedCounter::split`], also for a counter in one companion.
    pub fn merge(&self) -> Result<ShardState> {
        self.merge_with(|_| ControlFlow::Continue(()))
    }

    /// [`ShardedCounter::merge`], watched as [`ShardedCounter::activate_with`].
    ///
    /// # Errors
    /// As for [`ShardedCounter::merge`].
    pub fn merge_with(
        &self,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.change(Goal::Merge, observe)
    }

    /// Brings the counter back into one record.
    ///
    /// # Errors
    /// As for [`ShardedCounter::add`].
    pub fn demote(&self) -> Result<ShardState> {
        self.demote_with(|_| ControlFlow::Continue(()))
    }

    /// [`ShardedCounter::demote`], watched as [`ShardedCounter::activate_with`].
    ///
    /// # Errors
    /// As for [`ShardedCounter::demote`].
    pub fn demote_with(
        &self,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.change(Goal::Demote, observe)
    }

    /// Deletes the counter with all its companions. Other bins of the root stay.
    ///
    /// # Errors
    /// As for [`ShardedCounter::add`].
    pub fn delete(&self) -> Result<ShardState> {
        self.delete_with(|_| ControlFlow::Continue(()))
    }

    /// [`ShardedCounter::delete`], watched as [`ShardedCounter::activate_with`].
    ///
    /// # Errors
    /// As for [`ShardedCounter::delete`].
    pub fn delete_with(
        &self,
        observe: impl FnMut(ShardProgress) -> ControlFlow<()>,
    ) -> Result<ShardState> {
        self.handle.change(Goal::Delete, observe)
    }

    /// Carries a transition that somebody has left to its end. Returns whether there was one.
    ///
    /// # Errors
    /// As for [`ShardedCounter::add`].
    pub fn help(&self) -> Result<bool> {
        self.handle.help()
    }

    /// Where the counter is. One operation.
    ///
    /// # Errors
    /// As for [`ShardedCounter::add`].
    pub fn state(&self) -> Result<ShardState> {
        Ok(ShardState::of(self.handle.root()?))
    }
}
