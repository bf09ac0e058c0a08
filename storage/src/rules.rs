//! The rules that transactions and readers of changes rely on: the model checks take each away and
//! must see it.

#[cfg(all(test, shuttle))]
use std::sync::atomic::{AtomicU32, Ordering};

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StorageRule {
    /// A change is shown once readers of records see it.
    Published,
    /// A group is shown once readers of records see all of it.
    GroupsPublished,
    /// How far to read is noted before the lanes are visited.
    NumberBeforeLanes,
    /// A record that a transaction writes must be as it was when it was read.
    WrittenUnchanged,
    /// A record that a transaction only reads must be as it was.
    ReadsUnchanged,
    /// No other thread may have a record locked that a transaction only reads.
    ReadsUnlocked,
    /// An absence without a tombstone holds only while nothing is removed without a trace.
    AbsencesCounted,
}

/// The rules that are left out, a bit each.
#[cfg(all(test, shuttle))]
static LEFT_OUT: AtomicU32 = AtomicU32::new(0);

/// Runs `check` without a rule.
#[cfg(all(test, shuttle))]
pub(crate) fn without<R>(rule: StorageRule, check: impl FnOnce() -> R) -> R {
    LEFT_OUT.fetch_or(1 << rule as u32, Ordering::SeqCst);
    let done = check();
    LEFT_OUT.fetch_and(!(1 << rule as u32), Ordering::SeqCst);
    done
}

/// Whether a rule is to be kept: always, but in tests of the rules.
#[cfg(all(test, shuttle))]
pub(crate) fn keeps(rule: StorageRule) -> bool {
    LEFT_OUT.load(Ordering::SeqCst) & (1 << rule as u32) == 0
}

/// Whether a rule is to be kept: always, but in tests of the rules.
#[cfg(not(all(test, shuttle)))]
#[inline]
pub(crate) const fn keeps(_: StorageRule) -> bool {
    true
}
