//! Retrying refused calls.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::Result;
use crate::setters::setters;

/// The number of attempts and the pauses for repeating calls that were refused temporarily.
///
/// Repeats calls with a [retryable](crate::Error::is_retryable) error, such as
/// [`Error::KeyBusy`](crate::Error::KeyBusy): nothing was applied then. Pauses double up to a
/// limit. Each is shortened by a random part of up to a half, so that callers refused together do
/// not return together.
///
/// A [timeout](crate::Error::Timeout) is retryable, too, unless the call may have been applied.
/// Each attempt waits for [`WritePolicy::total_timeout`](crate::WritePolicy::total_timeout) anew (1
/// s by default): calls that always time out take `max_attempts` times that, plus the pauses, more
/// than 10 s by default. Callers with a deadline set both.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::RetryPolicy;
/// use std::time::Duration;
///
/// let counters = spikelet::Store::in_memory()?.set("counters")?;
/// let policy = RetryPolicy::default().max_attempts(5).max_pause(Duration::from_millis(20));
/// let lsn = policy.retry(|| counters.add("visits", [("n", 1)]))?;
/// # let _ = lsn;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// The most attempts, the first one included; 0 counts as 1. Default: 10.
    pub max_attempts: u32,
    /// The pause before the second attempt. Default: 1 ms.
    pub first_pause: Duration,
    /// The longest pause. Default: 100 ms.
    pub max_pause: Duration,
}

impl Default for RetryPolicy {
    /// 10 attempts with pauses of 1 ms to 100 ms: about a third of a second of pauses in all.
    fn default() -> Self {
        Self {
            max_attempts: 10,
            first_pause: Duration::from_millis(1),
            max_pause: Duration::from_millis(100),
        }
    }
}

impl RetryPolicy {
    setters! { const
        /// Sets [`RetryPolicy::max_attempts`]: the most attempts.
        max_attempts: u32,
        /// Sets [`RetryPolicy::first_pause`]: the pause before the second attempt.
        first_pause: Duration,
        /// Sets [`RetryPolicy::max_pause`]: the longest pause.
        max_pause: Duration,
    }

    /// Makes `call` until it succeeds, fails with an error that is not retryable, or the attempts
    /// are used up. Blocks the thread during the pauses.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub fn retry<T>(&self, call: impl FnMut() -> Result<T>) -> Result<T> {
        self.retry_pausing(std::thread::sleep, call)
    }

    /// Makes `call` like [`RetryPolicy::retry`], and calls `pause` for each pause.
    ///
    /// # Errors
    /// The error of the last attempt.
    pub fn retry_pausing<T>(
        &self,
        mut pause: impl FnMut(Duration),
        mut call: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let mut attempt = 1;
        loop {
            match call() {
                Err(error) if error.is_retryable() && attempt < self.max_attempts => {
                    pause(self.pause_after(attempt));
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    /// Returns the pause after this attempt, counted from 1. Async code uses it directly:
    ///
    /// ```
    /// # use spikelet::{Result, RetryPolicy, Set};
    /// # async fn sleep(_: std::time::Duration) {}
    /// async fn count(counters: &Set) -> Result<()> {
    ///     let policy = RetryPolicy::default();
    ///     let mut attempt = 1;
    ///     loop {
    ///         match counters.add("visits", [("n", 1)]) {
    ///             Err(error) if error.is_retryable() && attempt < policy.max_attempts => {
    ///                 sleep(policy.pause_after(attempt)).await; // such as tokio::time::sleep
    ///                 attempt += 1;
    ///             }
    ///             result => return result.map(drop),
    ///         }
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn pause_after(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1).min(31);
        let pause = self.first_pause.saturating_mul(1 << doublings);
        let pause = pause.min(self.max_pause);
        // Each hasher has a new seed: random enough, without a dependency.
        let random = RandomState::new().hash_one(attempt) >> 32;
        pause - pause.mul_f64(random as f64 / f64::from(u32::MAX) / 2.0)
    }
}
