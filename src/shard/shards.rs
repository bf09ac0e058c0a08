//! [`Shards`]: where a collection is, and its transitions.

use std::fmt;
use std::ops::ControlFlow;

use super::arithmetic::SHARDS_MAX;
use super::handle::Handle;
use super::protocol::start::Goal;
use super::state::{ShardProgress, ShardState};
use crate::{Error, RecordSet, Result};

/// The shards of one collection: shows where it is, and starts its transitions.
///
/// Returned by [`ShardedList::shards`](crate::ShardedList::shards),
/// [`ShardedMap::shards`](crate::ShardedMap::shards) and
/// [`ShardedCounter::shards`](crate::ShardedCounter::shards).
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::{ShardedList, Store};
///
/// let store = Store::in_memory()?;
/// let list = ShardedList::new(&store, "followers", "alice", "by")?;
/// list.add(1)?;
/// assert_eq!(list.shards().activate(4)?.shards, 4);
/// assert_eq!(list.shards().split()?.shards, 8);
/// assert_eq!(list.shards().deactivate()?.shards, 0);
/// # Ok(())
/// # }
/// ```
///
/// # The records
/// The collection's root is the record of the handle's key. Other bins of the root are free for all
/// programs. A write that would take from the root the bins that say where the companions are is
/// refused ([`Error::ShardRoot`]), and so is a write to a companion by its own key, unless
/// [`WritePolicy::override_shards`](crate::WritePolicy::override_shards) allows it; handles then
/// read the root again. Wire clients are not refused. [`Shards::delete`] deletes the whole
/// collection. Records of a sharded collection do not expire; a record that is to expire is sharded
/// only when it is asked for here, and by no policy.
///
/// A handle keeps the key and the filter of each companion that it has met: 2 KB for one, about 700
/// bytes for each of many (2.8 MB for 4,096). The filters, most of that, go when the shards change.
/// Threads may share a handle.
///
/// # Errors of transitions
/// A transition makes all checks that it can before it changes anything. Once it is under way, it
/// may fail as any write of the handle, and with [`Error::ShardMissing`] where a companion is gone.
/// It stays under way then: the next writer, or [`Shards::advance`], carries it on, and where it
/// cannot be ended, [`Shards::delete`] is the way out. A transition that another caller has left is
/// ended first.
pub struct Shards<'h, R> {
    handle: &'h Handle<R>,
    on_progress: Option<ProgressObserver<'h>>,
}

type ProgressObserver<'h> = Box<dyn FnMut(ShardProgress) -> ControlFlow<()> + 'h>;

impl<R> fmt::Debug for Shards<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards")
            .field("is_observed", &self.on_progress.is_some())
            .finish_non_exhaustive()
    }
}

impl<'h, R: RecordSet> Shards<'h, R> {
    pub(crate) const fn new(handle: &'h Handle<R>) -> Self {
        Self {
            handle,
            on_progress: None,
        }
    }

    /// Calls `observe` before each companion of a transition that is started from here. Where it
    /// returns `Break`, the transition stays as it is: the collection remains readable, and the
    /// next writer, or [`Shards::advance`], carries it on.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use std::ops::ControlFlow;
    /// let store = spikelet::Store::in_memory()?;
    /// let counter = spikelet::ShardedCounter::new(&store, "posts", "post-17", "likes")?;
    /// let mut seen = 0;
    /// let observe = |progress: spikelet::shard::ShardProgress| {
    ///     seen += 1;
    ///     assert_eq!(progress.total, 8);
    ///     ControlFlow::Continue(())
    /// };
    /// counter.shards().on_progress(observe).activate(8)?;
    /// assert!(seen >= 8);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn on_progress(self, observe: impl FnMut(ShardProgress) -> ControlFlow<()> + 'h) -> Self {
        Self {
            on_progress: Some(Box::new(observe)),
            ..self
        }
    }

    /// Returns where the collection is. One operation.
    ///
    /// # Errors
    /// As for a read of the root; [`Error::ShardScheme`] if its description is not understood.
    pub fn state(&self) -> Result<ShardState> {
        Ok(ShardState::of(&self.handle.root()?))
    }

    /// Moves the collection into at least this many companions: one that has fewer is split until
    /// it has as many, one that has more stays as it is. [`Shards::merge`] makes them fewer.
    ///
    /// # Errors
    /// Before anything is changed: [`Error::Parameter`] unless `shards` is a power of two up to
    /// 4,096, or if other programs have put NaN among elements or keys; [`Error::IncompatibleType`]
    /// if the bin or the companions hold another type; [`Error::OpNotApplicable`] if other programs
    /// have put an element into a list more than once; [`Error::ShardKeyCollision`] if another
    /// record has the key of a companion. Then the errors of transitions.
    pub fn activate(&mut self, shards: u64) -> Result<ShardState> {
        check_number(shards)?;
        let mut state = self.change(Goal::Activate(shards))?;
        // A split that was broken off is under way still.
        while (1..shards).contains(&state.shards) && state.transition.is_none() {
            state = self.change(Goal::Split)?;
        }
        Ok(state)
    }

    /// Splits every companion in two.
    ///
    /// # Errors
    /// Before anything is changed: [`Error::OpNotApplicable`] if the collection is unsharded, or in
    /// 4,096 companions; [`Error::IncompatibleType`] if the companions hold another type;
    /// [`Error::ShardKeyCollision`] if another record has the key of a new companion. Then the
    /// errors of transitions.
    pub fn split(&mut self) -> Result<ShardState> {
        self.change(Goal::Split)
    }

    /// Merges the companions in pairs.
    ///
    /// # Errors
    /// Before anything is changed: [`Error::OpNotApplicable`] if the collection is unsharded, or in
    /// one companion; [`Error::IncompatibleType`] if the companions hold another type;
    /// [`Error::RecordTooBig`] if one record cannot hold the content of two. Then the errors of
    /// transitions, and `RecordTooBig` for elements that were added meanwhile.
    pub fn merge(&mut self) -> Result<ShardState> {
        self.change(Goal::Merge)
    }

    /// Moves the collection back into its root, unless it is there.
    ///
    /// # Errors
    /// Before anything is changed: [`Error::OpNotApplicable`] if another program has made a bin of
    /// the collection's name in the root, which would be lost (one that appears while companions
    /// are merged for this stops the call after the merge); [`Error::IncompatibleType`] if the
    /// companions hold another type; [`Error::RecordTooBig`] if one record cannot hold the
    /// collection. Then the errors of transitions, and `RecordTooBig` for elements that were added
    /// meanwhile.
    pub fn deactivate(&mut self) -> Result<ShardState> {
        self.change(Goal::Deactivate)
    }

    /// Deletes the collection with all its companions. Other bins of the root stay, and so does the
    /// number of the last transition, if there was one. A bin of the collection's name that other
    /// programs have made in the root goes too.
    ///
    /// # Errors
    /// As for transitions; [`Error::OwnedBin`] for the edges of a relation, which the records at
    /// their other ends know. The relations are looked up once, when the call begins: one that is
    /// declared later does not stop it. [`Error::HasEdges`] as for a delete of the record, where an
    /// unsharded collection is its last bin.
    pub fn delete(&mut self) -> Result<ShardState> {
        self.handle.check_owned(None)?;
        self.handle.clear_as_user()?;
        self.delete_owned()
    }

    /// [`Shards::delete`] for the relation that owns the collection, if there is one.
    pub(crate) fn delete_owned(&mut self) -> Result<ShardState> {
        self.change(Goal::Delete)
    }

    /// Carries a transition that another caller has left to its end. Returns whether there was one.
    ///
    /// # Errors
    /// As for transitions.
    pub fn advance(&mut self) -> Result<bool> {
        self.handle.advance()
    }

    fn change(&mut self, goal: Goal) -> Result<ShardState> {
        match &mut self.on_progress {
            Some(observe) => self.handle.change(goal, observe),
            None => self.handle.change(goal, |_| ControlFlow::Continue(())),
        }
    }
}

/// Refuses numbers of shards that no collection can have.
fn check_number(shards: u64) -> Result<()> {
    if shards.is_power_of_two() && shards <= SHARDS_MAX {
        return Ok(());
    }
    Err(Error::parameter(format!(
        "{shards} shards: the number must be a power of two up to {SHARDS_MAX}"
    )))
}
