//! The route to an element: in which record a collection has it, given its shards.

use super::element_hash::shard;
use super::scheme::{Companion, Epoch};
use super::time::layout::{CollectionPart, TimeLayout};
use crate::record::companion_key::KeyForm;

/// Names a record of the collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RecordRef {
    Root,
    /// The form of its key, and its number.
    Companion(KeyForm, u64),
    /// The form of its key, and the part of a collection that is sharded by time.
    Timed(KeyForm, TimeLayout, CollectionPart),
}

/// Whether other collections of the record are sharded, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum NeighborCollections {
    /// None of them is: the cheapest precondition.
    #[default]
    None,
    /// Another one is.
    Sharded,
}

/// All the companions of a collection that is not in transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CompanionRoute {
    pub(crate) shards: u64,
    pub(crate) epoch: Epoch,
    pub(crate) keys: KeyForm,
}

impl CompanionRoute {
    /// Returns the number of the companion that has the elements of a hash.
    pub(crate) const fn shard_of(self, hash: u64) -> u64 {
        shard(hash, self.shards)
    }

    /// Returns the state of each companion.
    pub(crate) const fn companion(self) -> Companion {
        Companion {
            shards: self.shards,
            epoch: self.epoch,
        }
    }
}

/// Where a call looks for a collection first: where a handle found it last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum RouteHint {
    /// There was no record, or no call.
    #[default]
    Unknown,
    /// Unsharded, in the root.
    Unsharded(NeighborCollections),
    /// Sharded, in these companions.
    Sharded(CompanionRoute),
}

impl RouteHint {
    /// Returns the companions; `None` if the collection was not in companions.
    pub(crate) const fn route(self) -> Option<CompanionRoute> {
        match self {
            Self::Unknown | Self::Unsharded(_) => None,
            Self::Sharded(route) => Some(route),
        }
    }
}
