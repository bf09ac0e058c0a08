//! The rules that the model check takes away one by one, to see that each of them is needed.

/// A rule of the order of the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StepRule {
    /// Only callers who found the root at its epoch after a record was placed open it.
    Evidence,
    /// A record is in the directory before the root is looked at for it.
    EnterBeforeEvidence,
    /// A caller who finds a deletion ends it first.
    HelpDeleting,
    /// A page is deleted behind what it lists.
    PageBehindChildren,
    /// Only a route that was read after the call began shows that something is not there.
    AbsentByFreshRoute,
}

#[cfg(test)]
thread_local! {
    static LEFT_OUT: std::cell::Cell<Option<StepRule>> = const { std::cell::Cell::new(None) };
}

/// Leaves a rule out, in this thread, while `run` runs.
#[cfg(test)]
pub(super) fn without<R>(rule: StepRule, run: impl FnOnce() -> R) -> R {
    LEFT_OUT.set(Some(rule));
    let result = run();
    LEFT_OUT.set(None);
    result
}

/// Returns whether a rule is to be kept: always, but in tests of the rules.
#[cfg(test)]
pub(super) fn keeps(rule: StepRule) -> bool {
    LEFT_OUT.get() != Some(rule)
}

/// Returns whether a rule is to be kept: always, but in tests of the rules.
#[cfg(not(test))]
#[inline]
pub(super) const fn keeps(_: StepRule) -> bool {
    true
}
