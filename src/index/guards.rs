//! The rules that keep entries and records in step. The model check disables them one by one, to
//! show that each is needed.

use crate::sync::guards::Guards;

/// A rule that the index relies on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexRule {
    /// Entries are added before the version with them is published.
    AddedBefore,
    /// Entries are removed after the version without them is published.
    RemovedAfter,
    /// Entries are removed before the record is unlocked.
    RemovedUnderLock,
    /// A build visits locked records, even if they have no version yet.
    LockedAreBuilt,
    /// An entry without a record is removed only after a second look under the record's lock.
    CleanedUnderLock,
    /// Finding and editing a leaf happen under one lock on the directory.
    OneDirectoryLock,
    /// The entries of a record and of its companions for one element are in one leaf.
    GroupsInOneLeaf,
    /// Entries with the same key of a unique index are added one at a time.
    UniqueKeyLocked,
}

/// All rules.
pub(crate) static GUARDS: Guards<IndexRule> = Guards::new();
