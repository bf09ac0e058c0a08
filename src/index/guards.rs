//! What keeps the order of entries and the records in step. The model check takes it away one by one, to see that each is
//! needed.

use crate::sync::guards::Guards;

/// Something that the index relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// Entries are added before their version is published.
    AddedBefore,
    /// Entries are removed after the version without them is published.
    RemovedAfter,
    /// They are removed before the record is unlocked.
    RemovedUnderLock,
    /// A build meets records that are locked, though they may not be there yet.
    LockedAreBuilt,
    /// An entry without a record is removed after a second look, under the record's lock.
    CleanedUnderLock,
    /// A leaf is found and edited under one lock on the directory.
    OneDirectoryLock,
    /// The entries of a record and of its companions for one element are in one leaf.
    GroupsInOneLeaf,
    /// Entries of one key of a unique index are added one after the other.
    UniqueKeyLocked,
}

/// All of them.
pub(crate) static GUARDS: Guards<Guard> = Guards::new();
