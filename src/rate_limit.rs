//! How fast queries, operations in the background, and calls one after the other may go.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
#[cfg(feature = "server")]
use smallvec::SmallVec;

/// How far queries that were slower than they may be catch up.
#[cfg(feature = "server")]
const CATCH_UP: Duration = Duration::from_secs(1);

/// The longest wait at once.
#[cfg(feature = "server")]
const WAIT_MAX: Duration = Duration::from_millis(100);

/// When the next record is due; `None` before the first.
pub(crate) type Due = Arc<Mutex<Option<Instant>>>;

/// Keeps to a number of records a second, together with all limits of the same [`Due`].
#[derive(Clone, Debug)]
pub(crate) struct RateLimit {
    each: Duration,
    due: Due,
}

impl RateLimit {
    /// `None` for 0: as fast as it goes.
    pub(crate) fn new(per_second: u32, due: Due) -> Option<Self> {
        let each = Duration::from_secs(1).checked_div(per_second)?;
        Some(Self { each, due })
    }

    /// How long to wait before the next record.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let ahead = (*self.due.lock())?.checked_duration_since(now)?;
        // Less than a tick of the timer is not worth a wait.
        (ahead > Duration::from_millis(1)).then_some(ahead)
    }

    /// Counts a record of a query.
    #[cfg(feature = "server")]
    pub(crate) fn count(&self, now: Instant) {
        self.count_from(now.checked_sub(CATCH_UP).unwrap_or(now), now);
    }

    /// Waits until the next record is due, and counts it: one after the other, which do not catch
    /// up.
    pub(crate) fn take(&self) {
        while let Some(time) = self.wait(Instant::now()) {
            std::thread::sleep(time);
        }
        let now = Instant::now();
        self.count_from(now, now);
    }

    fn count_from(&self, earliest: Instant, now: Instant) {
        let mut due = self.due.lock();
        *due = Some(due.map_or(now, |due| due.max(earliest)) + self.each);
    }
}

/// All limits of a query.
#[cfg(feature = "server")]
#[derive(Debug)]
pub(crate) struct Pace(pub(crate) SmallVec<[RateLimit; 2]>);

#[cfg(feature = "server")]
impl Pace {
    /// How long to wait before the next record, or before another look at aborts, deadlines and the
    /// client.
    pub(crate) fn wait(&self) -> Option<Duration> {
        let limits = self.0.iter();
        let wait = limits.filter_map(|limit| limit.wait(Instant::now())).max();
        wait.map(|time| time.min(WAIT_MAX))
    }

    /// Counts a record.
    pub(crate) fn count(&self) {
        for limit in &self.0 {
            limit.count(Instant::now());
        }
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;

    #[test]
    fn a_record_waits_for_those_before_it() {
        let due = Due::default();
        let limits = [200, 200].map(|rate| RateLimit::new(rate, Arc::clone(&due)).unwrap());
        let began = Instant::now();
        let after = |ms| limits[0].wait(began + Duration::from_millis(ms));
        assert_eq!(after(0), None);
        for at in 0..100 {
            limits[at % 2].count(began);
        }
        assert_eq!(after(0), Some(Duration::from_millis(500)));
        assert_eq!(after(400), Some(Duration::from_millis(100)));
        for ms in [499, 500, 900] {
            assert_eq!(after(ms), None, "{ms}");
        }
        // A second's worth is made up for, and no more.
        limits[1].count(began + Duration::from_secs(60));
        assert_eq!(after(58_900), Some(Duration::from_millis(105)));
        assert!(RateLimit::new(0, due).is_none());
    }
}
