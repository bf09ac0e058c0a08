//! Counts of requests by kind and outcome, and how long they took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::message::Verb;
use super::query_counters::QueryCounters;
use super::result_code;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOutcome {
    Success,
    NotFound,
    FilteredOut,
    Timeout,
    Error,
}

impl RequestOutcome {
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
}

/// Counts by outcome.
#[derive(Debug, Default)]
pub(crate) struct ByOutcome([AtomicU64; 5]);

impl ByOutcome {
    fn add(&self, outcome: RequestOutcome) {
        self.add_many(outcome, 1);
    }

    pub(crate) fn add_many(&self, outcome: RequestOutcome, count: u64) {
        if let Some(counter) = self.0.get(outcome as usize) {
            counter.fetch_add(count, Ordering::Relaxed);
        }
    }

    pub(crate) fn get(&self, outcome: RequestOutcome) -> u64 {
        self.0
            .get(outcome as usize)
            .map_or(0, |counter| counter.load(Ordering::Relaxed))
    }
}

/// What a request about a record is counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    Read,
    Write,
    Delete,
    /// A call of a user-defined function.
    Function,
}

impl From<Verb> for RequestKind {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Read => Self::Read,
            Verb::Write => Self::Write,
            Verb::Delete => Self::Delete,
        }
    }
}

/// Counts of the requests about records of a namespace.
#[derive(Debug, Default)]
pub(crate) struct RequestCounters {
    read: ByOutcome,
    write: ByOutcome,
    delete: ByOutcome,
    batch_read: ByOutcome,
    batch_write: ByOutcome,
    batch_delete: ByOutcome,
    function: ByOutcome,
    batch_function: ByOutcome,
    /// Requests that were refused for a generation other than the one they named.
    pub(crate) generation_refusals: AtomicU64,
    /// Writes that were refused because the record would be too large.
    pub(crate) too_big_refusals: AtomicU64,
    /// Requests that were refused before they could be executed.
    pub(crate) unexecuted: AtomicU64,
    /// Queries of the primary index.
    pub(crate) primary_queries: QueryCounters,
    /// Queries of secondary indexes.
    pub(crate) index_queries: QueryCounters,
    /// Operations of background queries on single records.
    pub(crate) background_operations: ByOutcome,
    /// Calls of functions by background queries.
    pub(crate) background_functions: ByOutcome,
}

impl RequestCounters {
    /// Counts a request by the code of its answer.
    pub(crate) fn count(&self, kind: RequestKind, of_batch: bool, code: u8) {
        let counters = match (kind, of_batch) {
            (RequestKind::Read, false) => &self.read,
            (RequestKind::Write, false) => &self.write,
            (RequestKind::Delete, false) => &self.delete,
            (RequestKind::Function, false) => &self.function,
            (RequestKind::Read, true) => &self.batch_read,
            (RequestKind::Write, true) => &self.batch_write,
            (RequestKind::Delete, true) => &self.batch_delete,
            (RequestKind::Function, true) => &self.batch_function,
        };
        counters.add(RequestOutcome::of(code));
        let refusals = match code {
            result_code::GENERATION => &self.generation_refusals,
            result_code::RECORD_TOO_BIG => &self.too_big_refusals,
            _ => return,
        };
        refusals.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the counters of queries by a secondary index, or by the primary one.
    pub(crate) const fn queries(&self, by_index: bool) -> &QueryCounters {
        match by_index {
            true => &self.index_queries,
            false => &self.primary_queries,
        }
    }

    /// All counts by outcome, by their names. A kind of request has the outcomes that Aerospike
    /// counts; one that it does not count apart is an error.
    pub(crate) fn by_outcome(&self) -> Vec<(String, u64)> {
        const FOUND: &[RequestOutcome] = &[RequestOutcome::NotFound, RequestOutcome::FilteredOut];
        const FILTERED: &[RequestOutcome] = &[RequestOutcome::FilteredOut];
        let all = [
            ("client_read", "success", &self.read, FOUND),
            ("client_write", "success", &self.write, FILTERED),
            ("client_delete", "success", &self.delete, FOUND),
            ("client_udf", "complete", &self.function, FILTERED),
            ("batch_sub_read", "success", &self.batch_read, FOUND),
            ("batch_sub_write", "success", &self.batch_write, FILTERED),
            ("batch_sub_delete", "success", &self.batch_delete, FOUND),
            ("batch_sub_udf", "complete", &self.batch_function, FILTERED),
            (
                "udf_sub_udf",
                "complete",
                &self.background_functions,
                FILTERED,
            ),
            (
                "ops_sub_write",
                "success",
                &self.background_operations,
                FILTERED,
            ),
        ];
        let mut pairs = Vec::new();
        for (kind, success, counts, apart) in all {
            let not_found = match apart.contains(&RequestOutcome::NotFound) {
                true => 0,
                false => counts.get(RequestOutcome::NotFound),
            };
            pairs.push((
                format!("{kind}_{success}"),
                counts.get(RequestOutcome::Success),
            ));
            let errors = counts.get(RequestOutcome::Error) + not_found;
            pairs.push((format!("{kind}_error"), errors));
            pairs.push((
                format!("{kind}_timeout"),
                counts.get(RequestOutcome::Timeout),
            ));
            for outcome in apart {
                let word = match outcome {
                    RequestOutcome::NotFound => "not_found",
                    _ => "filtered_out",
                };
                pairs.push((format!("{kind}_{word}"), counts.get(*outcome)));
            }
        }
        pairs
    }
}

/// Counts of the node, over all namespaces.
#[derive(Debug, Default)]
pub(crate) struct NodeCounters {
    pub(crate) batches_begun: AtomicU64,
    pub(crate) batches_complete: AtomicU64,
    pub(crate) batches_failed: AtomicU64,
    pub(crate) batches_timed_out: AtomicU64,
    /// Requests with info commands that were answered.
    pub(crate) infos: AtomicU64,
    /// Frames and bodies that could not be parsed.
    pub(crate) malformed: AtomicU64,
    /// Requests of clients that were refused before a namespace was known to count them for.
    pub(crate) early_refusals: AtomicU64,
    /// Connections that were closed since they were silent for too long.
    pub(crate) idle_closes: AtomicU64,
}

impl NodeCounters {
    /// How many batches have begun and not ended.
    pub(crate) fn batches_under_way(&self) -> u64 {
        let ended = [
            &self.batches_complete,
            &self.batches_failed,
            &self.batches_timed_out,
        ];
        let ended: u64 = ended
            .map(|count| count.load(Ordering::Relaxed))
            .iter()
            .sum();
        let begun = self.batches_begun.load(Ordering::Relaxed);
        begun.saturating_sub(ended)
    }

    /// Counts the end of a batch by the code of its last message.
    pub(crate) fn end_batch(&self, code: u8) {
        let counter = match code {
            result_code::OK => &self.batches_complete,
            result_code::TIMEOUT => &self.batches_timed_out,
            _ => &self.batches_failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
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
        let counters = RequestCounters::default();
        counters.count(RequestKind::Read, false, result_code::NOT_FOUND);
        counters.count(RequestKind::Write, true, result_code::RECORD_TOO_BIG);
        counters.count(RequestKind::Write, false, result_code::GENERATION);
        counters.count(RequestKind::Write, false, result_code::NOT_FOUND);
        counters.count(RequestKind::Function, false, result_code::FILTERED_OUT);
        let pairs = counters.by_outcome();
        let of = |wanted: &str| pairs.iter().find(|(name, _)| name == wanted).map(|it| it.1);
        assert_eq!(of("client_read_not_found"), Some(1));
        assert_eq!(of("batch_sub_write_error"), Some(1));
        // A write of a record that must be there, and a wrong generation: Aerospike has no count of
        // writes that found nothing.
        assert_eq!(of("client_write_error"), Some(2));
        assert_eq!(of("client_write_not_found"), None);
        assert_eq!(of("client_udf_filtered_out"), Some(1));
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!(read(&counters.generation_refusals), 1);
        assert_eq!(read(&counters.too_big_refusals), 1);
    }
}
