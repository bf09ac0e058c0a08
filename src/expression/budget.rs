//! The bound on the cost of one evaluation, with the paths in it and the conditions of these.

use std::cell::Cell;

use crate::call::{CallError, MAX_COLLECTION_BYTES};
use crate::value::MAX_NESTING;

/// The most that an evaluation may cost, in bytes that its calls make: its memory is below it.
const MAX_COST: usize = 16 * MAX_COLLECTION_BYTES;
/// The number of bytes read by calls that cost as much as one that they make.
const READ_BYTES: usize = 8;

/// The cost that one evaluation has left.
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
    /// Takes a cost. `None` if the budget has less left; the budget is spent then.
    pub(super) fn spend(&self, cost: usize) -> Option<()> {
        let left = self.left.get().checked_sub(cost);
        self.left.set(left.unwrap_or(0));
        left.map(drop)
    }

    /// Takes the cost of reading bytes.
    pub(super) fn spend_on_reading(&self, bytes: usize) -> Option<()> {
        self.spend(bytes / READ_BYTES)
    }

    /// Runs a walk along a path of `levels` over a list or map of `bytes`. Paths within the
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
                "the conditions of a path cost too much, for each element by their length and by what they make and look through: ask for fewer elements, or by a shorter condition",
            ));
        }
        walked
    }
}
