//! Memory for large messages and answers, shared by all connections. The protocol bounds the share of one connection;
//! this budget bounds the sum.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The most that buffers beyond [`FREE_BYTES`] may take together.
pub(crate) const BUDGET_BYTES: usize = 1 << 30;

/// A connection's buffer up to this size is not charged to the budget.
pub(crate) const FREE_BYTES: usize = 64 << 10;

/// A buffer above this is for more than a record of the usual size with its message around it.
const USUAL_BYTES: usize = 4 << 20;

/// The most of the budget that is given out for buffers above [`USUAL_BYTES`], so that a few clients with large messages, even
/// ones that never end them, leave room for the messages of all others.
const LARGE_BYTES: usize = BUDGET_BYTES / 4 * 3;

/// The budget of all connections: counts the bytes that are taken.
#[derive(Debug, Default)]
pub(crate) struct MemoryBudget {
    taken: AtomicUsize,
}

/// The bytes that one connection has taken; given back on drop.
#[derive(Debug)]
pub(crate) struct Share<'b> {
    budget: &'b MemoryBudget,
    bytes: usize,
}

impl MemoryBudget {
    /// A share of nothing yet.
    pub(crate) const fn share(&self) -> Share<'_> {
        Share {
            budget: self,
            bytes: 0,
        }
    }

    /// The bytes that all shares have taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

impl Share<'_> {
    /// Changes the share to cover a buffer of `buffer_bytes`. Returns false, and changes nothing, if the budget does
    /// not allow it.
    pub(crate) fn resize(&mut self, buffer_bytes: usize) -> bool {
        let wanted = if buffer_bytes <= FREE_BYTES {
            0
        } else {
            buffer_bytes
        };
        if wanted > self.bytes {
            let more = wanted - self.bytes;
            let before = self.budget.taken.fetch_add(more, Ordering::Relaxed);
            let limit = match wanted {
                ..=USUAL_BYTES => BUDGET_BYTES,
                _ => LARGE_BYTES,
            };
            if before + more > limit {
                self.budget.taken.fetch_sub(more, Ordering::Relaxed);
                return false;
            }
        } else {
            self.budget
                .taken
                .fetch_sub(self.bytes - wanted, Ordering::Relaxed);
        }
        self.bytes = wanted;
        true
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_are_counted_and_refused_beyond_the_budget() {
        let budget = MemoryBudget::default();
        let mut one = budget.share();
        let mut other = budget.share();
        assert!(one.resize(FREE_BYTES));
        assert_eq!(budget.taken(), 0);
        assert!(!one.resize(BUDGET_BYTES));
        assert!(one.resize(LARGE_BYTES));
        // Large messages leave room for others.
        assert!(!other.resize(USUAL_BYTES + 1));
        assert!(other.resize(USUAL_BYTES));
        let many: Vec<_> = std::iter::repeat_with(|| budget.share())
            .map_while(|mut share| share.resize(USUAL_BYTES).then_some(share))
            .collect();
        assert_eq!(many.len(), (BUDGET_BYTES - LARGE_BYTES) / USUAL_BYTES - 1);
        drop(many);
        assert!(one.resize(1000));
        assert!(other.resize(FREE_BYTES + 1));
        drop(other);
        assert_eq!(budget.taken(), 0);
    }
}
