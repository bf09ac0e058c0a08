//! What has happened: counts of requests by kind and outcome, and how long they took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::message::Verb;
use super::result_code;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Success,
    NotFound,
    FilteredOut,
    Timeout,
    Error,
}

impl Outcome {
    /// Of a result code.
    pub(crate) const fn of(code: u8) -> Self {
        match code {
            result_code::OK => Self::Success,
            result_code::NOT_FOUND => Self::NotFound,
            result_code::FILTERED_OUT => Self::FilteredOut,
            result_code::TIMEOUT => Self::Timeout,
            _ => Self::Error,
        }
    }

    /// All of them, with the last word of their counters' names.
    pub(crate) const ALL: [(Self, &'static str); 5] = [
        (Self::Success, "success"),
        (Self::NotFound, "not_found"),
        (Self::FilteredOut, "filtered_out"),
        (Self::Timeout, "timeout"),
        (Self::Error, "error"),
    ];
}

/// Counts by outcome.
#[derive(Debug, Default)]
pub(crate) struct ByOutcome([AtomicU64; 5]);

impl ByOutcome {
    fn add(&self, outcome: Outcome) {
        if let Some(counter) = self.0.get(outcome as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, outcome: Outcome) -> u64 {
        self.0
            .get(outcome as usize)
            .map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}

/// Counts of the requests about records of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    read: ByOutcome,
    write: ByOutcome,
    delete: ByOutcome,
    batch_read: ByOutcome,
    batch_write: ByOutcome,
    batch_delete: ByOutcome,
    /// Queries that returned all that they were to.
    pub(crate) queries_complete: AtomicU64,
    /// Queries that were ended early, by their clients or by an error.
    pub(crate) queries_aborted: AtomicU64,
    /// Short queries that came to their end.
    pub(crate) short_queries_complete: AtomicU64,
    /// Short queries that took too long.
    pub(crate) short_queries_timed_out: AtomicU64,
    /// Short queries that ended before, otherwise.
    pub(crate) short_queries_failed: AtomicU64,
}

impl Counters {
    /// Counts a request.
    pub(crate) fn count(&self, verb: Verb, of_batch: bool, outcome: Outcome) {
        let counters = match (verb, of_batch) {
            (Verb::Read, false) => &self.read,
            (Verb::Write, false) => &self.write,
            (Verb::Delete, false) => &self.delete,
            (Verb::Read, true) => &self.batch_read,
            (Verb::Write, true) => &self.batch_write,
            (Verb::Delete, true) => &self.batch_delete,
        };
        counters.add(outcome);
    }

    /// All counts by outcome, with the first words of their names.
    pub(crate) fn by_outcome(&self) -> [(&'static str, &ByOutcome); 6] {
        [
            ("client_read", &self.read),
            ("client_write", &self.write),
            ("client_delete", &self.delete),
            ("batch_sub_read", &self.batch_read),
            ("batch_sub_write", &self.batch_write),
            ("batch_sub_delete", &self.batch_delete),
        ]
    }
}

/// The thresholds of a latency histogram: 2^0 to 2^16 ms.
pub(crate) const LATENCY_BUCKETS: usize = 17;

/// How long requests took.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    count: AtomicU64,
    /// How many took longer than 2^n ms, and not longer than 2^(n+1); all else is in `count` only.
    longer: [AtomicU64; LATENCY_BUCKETS],
    micros: AtomicU64,
}

impl Latency {
    /// Notes a request.
    pub(crate) fn add(&self, took: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let micros = took.as_micros().min(u128::from(u64::MAX)) as u64;
        self.micros.fetch_add(micros, Ordering::Relaxed);
        let over = took.as_millis();
        if over > 0 {
            let bucket = (over.ilog2() as usize).min(LATENCY_BUCKETS - 1);
            if let Some(counter) = self.longer.get(bucket) {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How long all of them took together, in microseconds.
    pub(crate) fn micros(&self) -> u64 {
        self.micros.load(Ordering::Relaxed)
    }

    /// How many took at least 2^0, 2^1 .. 2^16 ms.
    pub(crate) fn at_least(&self) -> [u64; LATENCY_BUCKETS] {
        let mut counts = [0; LATENCY_BUCKETS];
        let mut sum = 0;
        for (count, counter) in counts.iter_mut().zip(&self.longer).rev() {
            sum += counter.load(Ordering::Relaxed);
            *count = sum;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_counted_by_powers_of_two() {
        let latency = Latency::default();
        for micros in [10, 999, 1000, 1999, 2000, 4500, 1 << 40] {
            latency.add(Duration::from_micros(micros));
        }
        let counts = latency.at_least();
        assert_eq!(latency.count(), 7);
        assert_eq!(counts[..4], [5, 3, 2, 1]);
        assert_eq!(counts[16], 1);
    }

    #[test]
    fn requests_are_counted_by_kind_and_outcome() {
        let counters = Counters::default();
        counters.count(Verb::Read, false, Outcome::of(2));
        counters.count(Verb::Write, true, Outcome::of(13));
        let of = |name, outcome| {
            let all = counters.by_outcome();
            all.iter()
                .find(|(it, _)| *it == name)
                .unwrap()
                .1
                .get(outcome)
        };
        assert_eq!(of("client_read", Outcome::NotFound), 1);
        assert_eq!(of("batch_sub_write", Outcome::Error), 1);
        assert_eq!(of("client_write", Outcome::Error), 0);
    }
}
