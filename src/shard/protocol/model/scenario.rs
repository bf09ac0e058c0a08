//! What is explored: processes, and what each of them does.

use super::super::start::Goal;
use super::store::HashHole;

/// What a process does, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HashOp {
    Add(u8),
    Remove(u8),
    Contains(u8),
    /// Reads the whole collection.
    ReadAll,
    Change(Goal),
    /// The same, unless the collection has moved since the process knew where it was: what policies start.
    ChangeUnmoved(Goal),
}

/// What one process does to one of the collections.
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
    /// What is done before, by one alone after the other. The processes remember where this has led to.
    pub(super) before: Vec<Script>,
    /// How many of the processes, the last ones, remember nothing.
    pub(super) strangers: usize,
    /// Elements 0 to this one, without it, of each collection.
    pub(super) elements: u8,
    pub(super) processes: Vec<Script>,
    pub(super) hole: Option<HashHole>,
}
