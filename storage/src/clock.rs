//! Where the time comes from. Injected, so that expiry and everything else that depends on time is
//! tested without waiting.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// 2010-01-01T00:00:00Z, from which times in records are counted, in seconds after 1970
/// (Aerospike's epoch).
pub const EPOCH_UNIX_SECONDS: u64 = 1_262_304_000;

/// A source of time.
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since 2010-01-01T00:00:00Z.
    fn now_ms(&self) -> u64;
}

/// The system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let unix = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        (unix.as_secs() * 1000 + u64::from(unix.subsec_millis()))
            .saturating_sub(EPOCH_UNIX_SECONDS * 1000)
    }
}

/// A clock that is moved by hand: for tests and simulations.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock that shows `now_ms`, in milliseconds since 2010.
    #[must_use]
    pub const fn at(now_ms: u64) -> Self {
        Self(AtomicU64::new(now_ms))
    }

    /// Moves the clock to this time, in milliseconds since 2010, which may be an earlier one.
    pub fn set_ms(&self, now_ms: u64) {
        self.0.store(now_ms, Ordering::SeqCst);
    }

    /// Moves the clock on.
    pub fn advance_ms(&self, by: u64) {
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The moment after `rest`. A rest that no clock can hold ends in a year.
pub(crate) fn later(now: Instant, rest: Duration) -> Instant {
    now.checked_add(rest)
        .unwrap_or(now + Duration::from_secs(365 * 24 * 3600))
}
