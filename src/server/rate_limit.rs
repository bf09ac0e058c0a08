//! How fast a query may go.

use std::time::{Duration, Instant};

/// Keeps to a number of records a second.
#[derive(Debug)]
pub(crate) struct RateLimit {
    /// 0: as fast as it goes.
    per_second: u32,
    started: Instant,
    done: u64,
}

impl RateLimit {
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            per_second,
            started: Instant::now(),
            done: 0,
        }
    }

    /// How long to wait before the next record.
    pub(crate) fn wait(&self) -> Option<Duration> {
        self.wait_after(self.started.elapsed())
    }

    /// Returns the wait if `elapsed` has passed since the beginning.
    fn wait_after(&self, elapsed: Duration) -> Option<Duration> {
        if self.per_second == 0 {
            return None;
        }
        let due = Duration::from_secs_f64(self.done as f64 / f64::from(self.per_second));
        let ahead = due.checked_sub(elapsed)?;
        // Less than a tick of the timer is not worth a wait.
        (ahead > Duration::from_millis(1)).then_some(ahead)
    }

    /// Counts a record.
    pub(crate) fn count(&mut self) {
        self.done += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_waits_for_those_before_it() {
        let mut pace = RateLimit::new(200);
        assert_eq!(pace.wait_after(Duration::ZERO), None);
        for _ in 0..100 {
            pace.count();
        }
        let after = |ms| pace.wait_after(Duration::from_millis(ms));
        assert_eq!(after(0), Some(Duration::from_millis(500)));
        assert_eq!(after(400), Some(Duration::from_millis(100)));
        for ms in [499, 500, 900] {
            assert_eq!(after(ms), None, "{ms}");
        }
        let mut unlimited = RateLimit::new(0);
        unlimited.count();
        assert_eq!(unlimited.wait_after(Duration::ZERO), None);
    }
}
