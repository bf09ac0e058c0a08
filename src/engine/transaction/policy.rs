//! How a transaction is run, and the counts of earlier ones.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::engine::latency::LatencyHistogram;
use crate::engine::policy::Acknowledge;
use crate::retry::RetryPolicy;
use crate::setters::setters;

/// How a transaction is run. All fields have sensible defaults; change what should differ:
///
/// ```
/// use spikelet::TransactionPolicy;
/// use spikelet::policy::Acknowledge;
///
/// let policy = TransactionPolicy::default()
///     .max_attempts(5)
///     .acknowledge(Acknowledge::Applied);
/// # assert_eq!(policy.retry.max_attempts, 5);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionPolicy {
    /// How often the closure is run at most, and how long the pauses in between are. The second
    /// attempt follows at once. Default: 1,000 attempts with pauses of 20 µs to 5 ms.
    pub retry: RetryPolicy,
    /// After this time no further attempt begins, and no lock is waited for; `None`: no limit.
    /// Default: 5 s.
    pub total_timeout: Option<Duration>,
    /// What the commit waits for before the call returns. Default: [`Acknowledge::Durable`].
    pub acknowledge: Acknowledge,
    /// How many records a transaction writes at most. Default: 4,096, Aerospike's limit.
    pub max_records: usize,
    /// How many bytes the new versions of these records have at most, keys included. Default: 32
    /// MiB.
    pub max_bytes: usize,
    /// How long the token of
    /// [`Namespace::write_together_once`](crate::Namespace::write_together_once) is known. Default:
    /// 10 minutes, DynamoDB's.
    pub token_time_to_live: Duration,
    /// Whether a commit is refused that has met a record which a wire client's transaction has
    /// locked: that of another client's call.
    #[cfg(feature = "server")]
    pub(super) yields: bool,
}

impl Default for TransactionPolicy {
    fn default() -> Self {
        Self {
            retry: RetryPolicy {
                max_attempts: 1_000,
                first_pause: Duration::from_micros(20),
                max_pause: Duration::from_millis(5),
            },
            total_timeout: Some(Duration::from_secs(5)),
            acknowledge: Acknowledge::Durable,
            max_records: 4_096,
            max_bytes: 32 << 20,
            token_time_to_live: Duration::from_secs(600),
            #[cfg(feature = "server")]
            yields: false,
        }
    }
}

impl TransactionPolicy {
    setters! { in const
        /// Sets how often the closure is run at most; 0 counts as 1.
        max_attempts(max_attempts: u32) => retry.max_attempts = max_attempts,
    }

    setters! {
        /// Sets [`TransactionPolicy::total_timeout`].
        total_timeout: impl Into<Option<Duration>>,
    }

    setters! { const
        /// Sets [`TransactionPolicy::token_time_to_live`]: how long tokens are known.
        token_time_to_live: Duration,
        /// Sets [`TransactionPolicy::acknowledge`].
        acknowledge: Acknowledge,
        /// Sets [`TransactionPolicy::max_records`].
        max_records: usize,
        /// Sets [`TransactionPolicy::max_bytes`].
        max_bytes: usize,
    }
}

/// The counts of a namespace's transactions since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransactionStats {
    /// How often a closure was run.
    pub attempts: u64,
    /// Transactions that were committed, those without writes included.
    pub commits: u64,
    /// Attempts that met another writer.
    pub conflicts: u64,
    /// Attempts that were made after a conflict. Conflicts that no retry followed ended in
    /// [`Error::Conflict`](crate::Error::Conflict).
    pub retries: u64,
    /// Transactions with a closure that returned an error of its own.
    pub aborts: u64,
    /// What half of the committed transactions did not exceed, from the call to the return, further
    /// attempts and pauses included. Up to an eighth too long, as `p99`; zero before the first
    /// commit.
    pub p50: Duration,
    /// What 99 of 100 of them did not exceed.
    pub p99: Duration,
}

/// The counters behind [`TransactionStats`].
#[derive(Debug, Default)]
pub(in crate::engine) struct TransactionCounts {
    pub(super) attempts: AtomicU64,
    pub(super) commits: AtomicU64,
    pub(super) conflicts: AtomicU64,
    pub(super) retries: AtomicU64,
    pub(super) aborts: AtomicU64,
}

impl TransactionCounts {
    pub(super) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// `latency`: of the transactions that were committed.
    pub(super) fn stats(&self, latency: &LatencyHistogram) -> TransactionStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let [p50, p99] = [0.5, 0.99].map(|share| latency.quantile(share).unwrap_or_default());
        TransactionStats {
            attempts: read(&self.attempts),
            commits: read(&self.commits),
            conflicts: read(&self.conflicts),
            retries: read(&self.retries),
            aborts: read(&self.aborts),
            p50,
            p99,
        }
    }
}
