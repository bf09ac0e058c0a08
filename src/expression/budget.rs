//! The bound on the cost of one evaluation, with the paths in it and the conditions of these.

use std::cell::Cell;

use crate::call::{CallError, MAX_COLLECTION_BYTES};
use crate::value::MAX_NESTING;

/// The most that an evaluation may cost, in bytes that its calls make: its memory is below it.
const MAX_COST: usize = 16 * MAX_COLLECTION_BYTES;
/// So many bytes that a call reads cost as much as one that it makes.
const READ_BYTES: usize = 8;

/// What an evaluation may still cost.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<usize>,
    /// Levels of the paths that are being walked, each in a condition of the one before.
    levels: Cell<u32>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            left: Cell::new(MAX_COST),
            levels: Cell::new(0),
        }
    }
}

impl Budget {
    /// Takes a cost; `None` if it is more than what is left, which is nothing then.
    pub(super) fn spend(&self, cost: usize) -> Option<()> {
        let left = self.left.get().checked_sub(cost);
        self.left.set(left.unwrap_or(0));
        left.map(drop)
    }

    /// Takes the cost of reading bytes.
    pub(super) fn spend_on_reading(&self, bytes: usize) -> Option<()> {
        self.spend(bytes / READ_BYTES)
    }

    /// Walks along so many levels of a path over a list or map of so many bytes. Paths within the
    /// conditions of paths have together as many levels as values have.
    pub(super) fn walk(
        &self,
        levels: usize,
        bytes: usize,
        walk: impl FnOnce() -> Result<(), CallError>,
    ) -> Result<(), CallError> {
        let above = self.levels.get();
        let entered = above.saturating_add(levels as u32);
        if entered > MAX_NESTING {
            return Err(CallError::parameter(format!(
                "paths within conditions of paths: {entered} levels together, at most {MAX_NESTING} are possible"
            )));
        }
        self.levels.set(entered);
        let walked = self.spend_on_reading(bytes).map_or(Ok(()), |()| walk());
        self.levels.set(above);
        if self.left.get() == 0 {
            return Err(CallError::parameter(
                "the conditions of a path cost too much: for each element they make long values, or look through others",
            ));
        }
        walked
    }
}
