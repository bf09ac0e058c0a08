//! The rules that the model check takes away one by one, to see that each of them is needed.

/// A rule of the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A record that is written must be as it was when it was read.
    WrittenUnchanged,
    /// A record that is only read must be as it was.
    ReadsUnchanged,
    /// No other thread may have a record locked that is only read.
    ReadsUnlocked,
    /// An absence without a tombstone holds only while nothing is removed without a trace.
    AbsencesCounted,
}

#[cfg(all(test, shuttle))]
static LEFT_OUT: std::sync::Mutex<Option<Rule>> = std::sync::Mutex::new(None);

/// Leaves a rule out of everything that runs from now on; `None`: keeps all.
#[cfg(all(test, shuttle))]
pub(crate) fn leave_out(rule: Option<Rule>) {
    *LEFT_OUT.lock().unwrap_or_else(|error| error.into_inner()) = rule;
}

/// Whether a rule is to be kept: always, but in tests of the rules.
#[cfg(all(test, shuttle))]
pub(crate) fn keeps(rule: Rule) -> bool {
    *LEFT_OUT.lock().unwrap_or_else(|error| error.into_inner()) != Some(rule)
}

/// Whether a rule is to be kept: always, but in tests of the rules.
#[cfg(not(all(test, shuttle)))]
#[inline]
pub(crate) const fn keeps(_: Rule) -> bool {
    true
}
