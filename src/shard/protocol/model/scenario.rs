//! Scenarios to explore: processes, and the operations of each.

use super::super::start::Goal;
use super::store::HashHole;

/// An operation of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HashOp {
    Add(u8),
    Remove(u8),
    Contains(u8),
    /// Reads the whole collection.
    ReadAll,
    Change(Goal),
    /// The same, unless the collection has moved since the process knew where it was: what policies
    /// start.
    ChangeUnmoved(Goal),
}

/// The operations of one process on one of the collections.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// Which collection.
    pub(super) of: usize,
    pub(super) ops: Vec<HashOp>,
}

/// Processes and what they begin with.
#[derive(Clone, Debug)]
pub(super) struct HashScenario {
    /// How many collections are looked at.
    pub(super) collections: usize,
    /// Scripts that run before, one after the other, each alone. The processes remember the routes
    /// that these leave.
    pub(super) before: Vec<Script>,
    /// How many of the processes, the last ones, remember nothing.
    pub(super) strangers: usize,
    /// Elements 0 to this one, without it, of each collection.
    pub(super) elements: u8,
    pub(super) processes: Vec<Script>,
    pub(super) hole: Option<HashHole>,
}
