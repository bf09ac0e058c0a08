//! The rules that a reader of changes relies on: the model check takes each away and must see it.

/// A rule of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guard {
    /// A change is shown once readers of records see it.
    Published,
    /// A group is shown once readers of records see all of it.
    GroupsPublished,
    /// How far to read is noted before the lanes are visited.
    NumberBeforeLanes,
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
