//! The rules that the model checks take away one by one, to see that each of them is needed.

/// A rule of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolRule {
    /// Only callers who found the transition under way after a companion was placed fill it.
    Evidence,
    /// A remembered route leads to no frozen companion.
    RememberedNotFrozen,
    /// Readers of a collection that is being deleted, and all callers of time shards, advance the
    /// deletion first.
    ReadersAdvanceDeletion,
    /// The last companion is deleted only after its content has been seen in the root.
    RestoreBeforeDelete,
    /// In a split, a half counts only once the other companion of the pair has removed it.
    IgnoreHalfBeforeRemoval,
    /// A record of time shards is in the directory before the root is looked at for it.
    EnterBeforeEvidence,
    /// A page is deleted behind what it lists.
    PageBehindChildren,
    /// Only a route that was read after the call began shows that something is not there.
    AbsentByFreshRoute,
}

#[cfg(test)]
thread_local! {
    static LEFT_OUT: std::cell::Cell<Option<ProtocolRule>> = const { std::cell::Cell::new(None) };
}

/// Leaves a rule out, in this thread, while `run` runs.
#[cfg(test)]
pub(crate) fn without<R>(rule: ProtocolRule, run: impl FnOnce() -> R) -> R {
    LEFT_OUT.set(Some(rule));
    let result = run();
    LEFT_OUT.set(None);
    result
}

/// Whether a rule is to be kept: always, but in tests of the rules.
#[cfg(test)]
pub(crate) fn keeps(rule: ProtocolRule) -> bool {
    LEFT_OUT.get() != Some(rule)
}

/// Whether a rule is to be kept: always, but in tests of the rules.
#[cfg(not(test))]
#[inline]
pub(crate) const fn keeps(_: ProtocolRule) -> bool {
    true
}
