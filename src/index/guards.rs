//! What keeps the order of entries and the records in step. The model check takes it away one by one, to see that each is
//! needed.

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
    /// Entries of one key of a unique index are added one after the other.
    UniqueKeyLocked,
}

#[cfg(all(test, shuttle))]
static LEFT_OUT: std::sync::Mutex<Option<Guard>> = std::sync::Mutex::new(None);

/// Leaves a guard out of everything that runs from now on; `None`: keeps all.
#[cfg(all(test, shuttle))]
pub(crate) fn leave_out(guard: Option<Guard>) {
    *LEFT_OUT.lock().unwrap_or_else(|error| error.into_inner()) = guard;
}

/// Whether a guard is to be kept: always, but in tests of the guards.
#[cfg(all(test, shuttle))]
pub(crate) fn keeps(guard: Guard) -> bool {
    *LEFT_OUT.lock().unwrap_or_else(|error| error.into_inner()) != Some(guard)
}

/// Whether a guard is to be kept: always, but in tests of the guards.
#[cfg(not(all(test, shuttle)))]
#[inline]
pub(crate) const fn keeps(_: Guard) -> bool {
    true
}
