//! The activity of a user: requests in this second, and connections.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::rate_limit::Due;
use crate::server::counters::Gauge;

/// Requests of one kind, in the current second.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// The second in the upper half, the count in the lower.
    window: AtomicU64,
    /// The count of the last whole second with a request.
    last: AtomicU32,
}

impl Rate {
    /// Counts a request, unless there were `limit` in this second; 0 is no limit.
    pub(super) fn take(&self, limit: u32, now_ms: u64) -> bool {
        let second = (now_ms / 1000) & u64::from(u32::MAX);
        let next = |window: u64| {
            let count = if window >> 32 == second {
                window as u32
            } else {
                0
            };
            let fits = limit == 0 || count < limit;
            fits.then(|| second << 32 | u64::from(count.saturating_add(1)))
        };
        let taken = self
            .window
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        if let Ok(before) = taken
            && before >> 32 != second
        {
            self.last.store(before as u32, Ordering::Relaxed);
        }
        taken.is_ok()
    }

    /// Requests a second, lately.
    pub(super) fn per_second(&self, now_ms: u64) -> u32 {
        let window = self.window.load(Ordering::Relaxed);
        let second = (now_ms / 1000) & u64::from(u32::MAX);
        match second.wrapping_sub(window >> 32) {
            0 => self.last.load(Ordering::Relaxed),
            1 => window as u32,
            _ => 0,
        }
    }
}

/// The activity of a user. It outlasts changes of the user's roles.
#[derive(Debug, Default)]
pub(super) struct Usage {
    pub(super) reads: Rate,
    pub(super) writes: Rate,
    /// Of all queries that read, and of those that write.
    pub(super) queries: [Due; 2],
    /// Connections as which it has logged in.
    pub(super) connections: Gauge,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_anew_each_second() {
        let rate = Rate::default();
        assert!((0..3).all(|_| rate.take(3, 5_000)));
        assert!(!rate.take(3, 5_999));
        assert_eq!(rate.per_second(6_500), 3);
        assert!(rate.take(3, 6_000));
        assert_eq!(rate.per_second(6_999), 3);
        assert_eq!(rate.per_second(7_000), 1);
        assert_eq!(rate.per_second(9_000), 0);
        assert!((0..1000).all(|_| rate.take(0, 9_000)));
    }
}
