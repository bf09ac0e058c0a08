//! Memory for large messages and answers, shared by all connections. The protocol bounds the share
//! of one connection; this budget bounds the sum.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The most that buffers beyond [`FREE_BYTES`] may take together.
pub(crate) const BUDGET_BYTES: usize = 1 << 30;

/// A connection's buffer up to this size is not charged to the budget.
pub(crate) const FREE_BYTES: usize = 64 << 10;

/// A buffer may take this part of what all others leave. So there is always room for smaller
/// messages beside the large ones, even beside messages that never end.
const PART_OF_REST: usize = 4;

/// The budget has no memory for an addition to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// The budget of all connections: counts the bytes that are taken.
#[derive(Debug, Default)]
pub(crate) struct MemoryBudget {
    taken: AtomicUsize,
}

/// The bytes that one connection has taken; given back on drop.
pub(crate) struct ConnectionShare<'b> {
    budget: &'b MemoryBudget,
    bytes: usize,
}

impl MemoryBudget {
    /// A share of nothing yet.
    pub(crate) const fn share(&self) -> ConnectionShare<'_> {
        ConnectionShare {
            budget: self,
            bytes: 0,
        }
    }

    /// The bytes that all shares have taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

impl ConnectionShare<'_> {
    /// Changes the share to cover a buffer of `buffer_bytes`. Changes nothing if the budget does
    /// not allow it.
    pub(crate) fn resize(&mut self, buffer_bytes: usize) -> Result<(), NoRoom> {
        let wanted = if buffer_bytes <= FREE_BYTES {
            0
        } else {
            buffer_bytes
        };
        let before = self.bytes;
        let change = |taken: usize| {
            let others = taken - before;
            let most = BUDGET_BYTES.saturating_sub(others) / PART_OF_REST;
            (wanted <= before.max(most)).then_some(others + wanted)
        };
        let taken = &self.budget.taken;
        let changed = taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        changed.map_err(|_| NoRoom)?;
        self.bytes = wanted;
        Ok(())
    }
}

impl Drop for ConnectionShare<'_> {
    fn drop(&mut self) {
        // Always succeeds.
        let _ = self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_are_counted_and_leave_room_for_smaller_ones() {
        let budget = MemoryBudget::default();
        let mut other = budget.share();
        assert_eq!(other.resize(FREE_BYTES), Ok(()));
        assert_eq!(budget.taken(), 0);
        assert_eq!(other.resize(BUDGET_BYTES / 4 + 1), Err(NoRoom));
        let all_of = |bytes: usize| -> Vec<_> {
            std::iter::repeat_with(|| budget.share())
                .map_while(|mut share| share.resize(bytes).is_ok().then_some(share))
                .collect()
        };
        let (large, small) = (all_of(128 << 20), all_of(4 << 20));
        assert_eq!((large.len(), small.len()), (5, 93));
        assert_eq!(other.resize(4 << 20), Err(NoRoom));
        assert_eq!(other.resize(3 << 20), Ok(()));
        assert_eq!(other.resize(1 << 20), Ok(()));
        drop((large, small));
        assert_eq!(other.resize(128 << 20), Ok(()));
        drop(other);
        assert_eq!(budget.taken(), 0);
    }
}
