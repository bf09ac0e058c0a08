//! How fast a query may go.

use std::time::{Duration, Instant};

/// Keeps to a number of records a second.
#[derive(Debug)]
pub(crate) struct Pace {
    /// 0: as fast as it goes.
    per_second: u32,
    started: Instant,
    done: u64,
}

impl Pace {
    pub(crate) fn new(per_second: u32) -> Self {
        Self {
            per_second,
            started: Instant::now(),
            done: 0,
        }
    }

    /// How long to wait before the next record.
    pub(crate) fn wait(&self) -> Option<Duration> {
        if self.per_second == 0 {
            return None;
        }
        let due = Duration::from_secs_f64(self.done as f64 / f64::from(self.per_second));
        let ahead = due.checked_sub(self.started.elapsed())?;
        // Less than a tick of the timer is not worth a wait.
        (ahead > Duration::from_millis(1)).then_some(ahead)
    }

    /// Counts a record.
    pub(crate) fn count(&mut self) {
        self.done += 1;
    }
}
