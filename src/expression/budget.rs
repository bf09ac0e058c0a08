//! The bound on the cost of one evaluation, with the paths in it and the conditions of these.

use std::cell::Cell;

use crate::call::{CallError, MAX_COLLECTION_BYTES};

/// The most that an evaluation may cost, in bytes that its calls make: its memory is below it.
const MAX_COST: usize = 16 * MAX_COLLECTION_BYTES;
/// The number of bytes read by calls that cost as much as one that they make.
const READ_BYTES: usize = 8;

/// The cost that one evaluation has left.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<usize>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            left: Cell::new(MAX_COST),
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

    /// Refuses a path if its conditions have spent the budget.
    pub(super) fn check(&self) -> Result<(), CallError> {
        if self.left.get() > 0 {
            return Ok(());
        }
        Err(CallError::parameter(
            "the conditions of a path cost too much, for each element by their length and by what they make and look through: ask for fewer elements, or by a shorter condition",
        ))
    }
}
