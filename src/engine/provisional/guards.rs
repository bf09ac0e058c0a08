//! What keeps transactions of wire clients and of this process apart, one by one: the model check
//! takes each away and must see it.

use crate::sync::guards::Guards;

/// A rule of the commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum CommitRule {
    /// A transaction of this process locks the records it writes before it overrules the clients
    /// that have locked records it has read.
    LocksBeforeOverruling,
    /// It overrules them before it looks again at the records it has read.
    OverrulesBeforeLooking,
    /// A client's commit asks whether it was overruled with its records locked.
    AsksUnderLocks,
}

/// All of them.
pub(in crate::engine) static GUARDS: Guards<CommitRule> = Guards::new();
