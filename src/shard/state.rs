//! What handles report of a collection's shards: its state, and how far a transition has come.

use super::protocol::{CollectionRoot, TransitionProgress};
use super::scheme::Scheme;

pub use crate::record::ShardTransition;

/// Whether a collection is sharded, over how many companions, and its transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardState {
    /// How many companions hold it, or did before the transition that is under way; 0: it is in one
    /// record.
    pub shards: u64,
    /// The number of the last transition, which only rises; 0: there was none.
    pub epoch: u64,
    /// The transition that is under way, or was left unfinished: the next writer, or `advance`,
    /// carries it to its end.
    pub transition: Option<ShardTransition>,
}

impl ShardState {
    pub(crate) const fn of(root: &CollectionRoot) -> Self {
        let (shards, transition) = under_way(root.scheme);
        Self {
            shards,
            epoch: root.epoch.0,
            transition,
        }
    }
}

/// How many shards there are, or were before the transition that is under way.
pub(crate) const fn under_way(scheme: Scheme) -> (u64, Option<ShardTransition>) {
    match scheme {
        Scheme::Unsharded => (0, None),
        Scheme::Activating { .. } => (0, Some(ShardTransition::Activating)),
        Scheme::Active { shards } => (shards, None),
        Scheme::Splitting { from } => (from, Some(ShardTransition::Splitting)),
        Scheme::Merging { from } => (from, Some(ShardTransition::Merging)),
        Scheme::Deactivating => (1, Some(ShardTransition::Deactivating)),
        Scheme::Deleting { shards } => (shards, Some(ShardTransition::Deleting)),
    }
}

/// How far a transition has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardProgress {
    /// Which one: a call may meet others before its own.
    pub transition: ShardTransition,
    /// How many companions the transition has passed.
    pub done: u64,
    /// How many companions the transition goes through.
    pub total: u64,
}

impl ShardProgress {
    /// `None` without a transition.
    pub(crate) const fn of(scheme: Scheme, done: TransitionProgress) -> Option<Self> {
        let (_, Some(transition)) = under_way(scheme) else {
            return None;
        };
        let TransitionProgress { done, total } = done;
        Some(Self {
            transition,
            done,
            total,
        })
    }
}
