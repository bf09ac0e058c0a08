//! What keeps transactions of wire clients and of this process apart, one by one: the model check takes each away and must
//! see it.

/// A rule of the commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Guard {
    /// A transaction of this process locks what it writes before it overrules the clients that have locked what it has read.
    LocksBeforeOverruling,
    /// It overrules them before it looks again at what it has read.
    OverrulesBeforeLooking,
    /// A client's commit asks whether it was overruled with its records locked.
    AsksUnderLocks,
}

#[cfg(all(test, shuttle))]
static LEFT_OUT: std::sync::Mutex<Option<Guard>> = std::sync::Mutex::new(None);

/// Leaves a guard out of everything that runs from now on; `None`: keeps all.
#[cfg(all(test, shuttle))]
pub(super) fn leave_out(guard: Option<Guard>) {
    *LEFT_OUT.lock().unwrap_or_else(|error| error.into_inner()) = guard;
}

/// Whether a guard is to be kept: always, but in tests of the guards.
#[cfg(all(test, shuttle))]
pub(in crate::engine) fn keeps(guard: Guard) -> bool {
    *LEFT_OUT.lock().unwrap_or_else(|error| error.into_inner()) != Some(guard)
}

/// Whether a guard is to be kept: always, but in tests of the guards.
#[cfg(not(all(test, shuttle)))]
#[inline]
pub(in crate::engine) const fn keeps(_: Guard) -> bool {
    true
}
