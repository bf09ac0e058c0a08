//! Counters, which only rise, and gauges; requests by kind and outcome, and how long they took;
//! queries by kind and end.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::message::Verb;
use super::result_code;

/// A count that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn count(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counts by a number, such as that of a kind.
pub(crate) struct CounterArray<const N: usize>([Counter; N]);

impl<const N: usize> Default for CounterArray<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl<const N: usize> CounterArray<N> {
    pub(crate) fn add(&self, at: usize, more: u64) {
        if let Some(counter) = self.0.get(at) {
            counter.add(more);
        }
    }

    pub(crate) fn get(&self, at: usize) -> u64 {
        self.0.get(at).map_or(0, Counter::get)
    }

    pub(crate) fn all(&self) -> [u64; N] {
        std::array::from_fn(|at| self.get(at))
    }
}

/// Names and values, as statistics show them.
#[derive(Debug, Default)]
pub(crate) struct Pairs(pub(crate) Vec<(String, String)>);

impl Pairs {
    pub(crate) fn add(&mut self, key: impl Into<String>, value: impl Display) {
        self.0.push((key.into(), value.to_string()));
    }

    pub(crate) fn add_all<K: Into<String>, V: Display>(
        &mut self,
        pairs: impl IntoIterator<Item = (K, V)>,
    ) {
        for (key, value) in pairs {
            self.add(key, value);
        }
    }

    /// Adds counts by names behind `front`.
    fn add_counts<const N: usize>(
        &mut self,
        front: &str,
        names: [&str; N],
        counts: &CounterArray<N>,
    ) {
        let names = names.map(|name| format!("{front}_{name}"));
        self.add_all(names.into_iter().zip(counts.all()));
    }

    /// `key=value` between semicolons.
    pub(crate) fn text(&self) -> String {
        let shown = self.0.iter().map(|(key, value)| format!("{key}={value}"));
        shown.collect::<Vec<_>>().join(";")
    }
}

/// How many of a kind there are at present: each has a clone.
#[derive(Debug, Default)]
pub(crate) struct Gauge(Counted);

/// One of them, counted while it lives.
pub(crate) type Counted = Arc<()>;

impl Gauge {
    /// Counts one more, unless there are `most`. Of two at one moment, both may be refused the last
    /// place.
    pub(crate) fn enter(&self, most: u64) -> Option<Counted> {
        let counted = Arc::clone(&self.0);
        (self.get() <= most).then_some(counted)
    }

    pub(crate) fn get(&self) -> u64 {
        Arc::strong_count(&self.0) as u64 - 1
    }
}

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
#[derive(Default)]
pub(crate) struct ByOutcome(CounterArray<5>);

impl ByOutcome {
    pub(crate) fn add(&self, outcome: RequestOutcome, count: u64) {
        self.0.add(outcome as usize, count);
    }

    pub(crate) fn get(&self, outcome: RequestOutcome) -> u64 {
        self.0.get(outcome as usize)
    }

    /// Adds the counts of a kind of request. Outcomes that are not counted apart are errors.
    pub(super) fn add_to(&self, pairs: &mut Pairs, kind: &str, apart: &[RequestOutcome]) {
        use RequestOutcome::{Error, FilteredOut, NotFound, Success, Timeout};
        let success = if kind.ends_with("udf") {
            "complete"
        } else {
            "success"
        };
        let others = [(FilteredOut, "filtered_out"), (NotFound, "not_found")];
        let (apart, errors): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|(outcome, _)| apart.contains(outcome));
        let errors: u64 = errors.iter().map(|(outcome, _)| self.get(*outcome)).sum();
        pairs.add(format!("{kind}_{success}"), self.get(Success));
        pairs.add(format!("{kind}_error"), self.get(Error) + errors);
        pairs.add(format!("{kind}_timeout"), self.get(Timeout));
        for (outcome, name) in apart {
            pairs.add(format!("{kind}_{name}"), self.get(outcome));
        }
    }
}

/// The effect of a function on its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FunctionEffect {
    Read,
    Write,
    Delete,
    /// It failed.
    Error,
}

/// Counts of functions by [`FunctionEffect`].
pub(crate) type FunctionEffects = CounterArray<4>;

/// The names of effects behind the origin of a function.
const EFFECT_NAMES: [&str; 4] = ["read_success", "write_success", "delete_success", "error"];

/// Counts of requests from one origin.
#[derive(Default)]
pub(crate) struct OriginCounters {
    /// By [`Verb`].
    requests: [ByOutcome; 4],
    /// Of calls of functions.
    pub(crate) effects: FunctionEffects,
}

/// Counts of the requests about records of a namespace.
#[derive(Default)]
pub(crate) struct RequestCounters {
    single: OriginCounters,
    rows: OriginCounters,
    /// Requests that were refused for a generation other than the one they named.
    pub(crate) generation_refusals: Counter,
    /// Writes that were refused because the record would be too large.
    pub(crate) too_big_refusals: Counter,
    /// Requests that were refused before they could be executed.
    pub(crate) unexecuted: Counter,
    /// Queries of the primary index.
    pub(crate) primary_queries: QueryCounters,
    /// Queries of secondary indexes.
    pub(crate) index_queries: QueryCounters,
    /// Operations of background queries on single records.
    pub(crate) background_operations: ByOutcome,
    /// Calls of functions by background queries.
    pub(crate) background_functions: ByOutcome,
    pub(crate) background_effects: FunctionEffects,
}

impl RequestCounters {
    /// The counters of the rows of batches, or of single requests.
    pub(crate) const fn origin(&self, of_batch: bool) -> &OriginCounters {
        if of_batch { &self.rows } else { &self.single }
    }

    /// Counts a request by the code of its answer.
    pub(crate) fn count(&self, kind: Verb, of_batch: bool, code: u8) {
        if let Some(counters) = self.origin(of_batch).requests.get(kind as usize) {
            counters.add(RequestOutcome::of(code), 1);
        }
        let refusals = match code {
            result_code::GENERATION => &self.generation_refusals,
            result_code::RECORD_TOO_BIG => &self.too_big_refusals,
            _ => return,
        };
        refusals.count();
    }

    /// Returns the counters of queries by a secondary index, or by the primary one.
    pub(crate) const fn queries(&self, by_index: bool) -> &QueryCounters {
        if by_index {
            &self.index_queries
        } else {
            &self.primary_queries
        }
    }

    /// Adds all counts by outcome, by their names. A kind of request has the outcomes that
    /// Aerospike counts; one that it does not count apart is an error.
    pub(crate) fn add_outcomes_to(&self, pairs: &mut Pairs) {
        // A write that found nothing has failed.
        let (of_writes, of_looks) = (
            &[RequestOutcome::FilteredOut][..],
            &[RequestOutcome::FilteredOut, RequestOutcome::NotFound][..],
        );
        let kinds = [
            ("read", of_looks),
            ("write", of_writes),
            ("delete", of_looks),
            ("udf", of_writes),
        ];
        for (origin, counters) in [("client", &self.single), ("batch_sub", &self.rows)] {
            for ((kind, apart), counts) in kinds.iter().zip(&counters.requests) {
                counts.add_to(pairs, &format!("{origin}_{kind}"), apart);
            }
            pairs.add_counts(&format!("{origin}_lang"), EFFECT_NAMES, &counters.effects);
        }
        for (kind, counts) in [
            ("udf_sub_udf", &self.background_functions),
            ("ops_sub_write", &self.background_operations),
        ] {
            counts.add_to(pairs, kind, of_writes);
        }
        pairs.add_counts("udf_sub_lang", EFFECT_NAMES, &self.background_effects);
    }
}

/// What kind of query a job is. Each kind is counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobKind {
    /// Records are returned, within a second or so.
    Short,
    /// Records are returned.
    Basic,
    /// Operations are done on records, once the client is answered.
    Background,
    /// Records go through the stream of a function.
    Aggregation,
    /// A function is called for records, once the client is answered.
    BackgroundFunction,
}

impl JobKind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Short | Self::Basic => "basic",
            Self::Background => "background-ops",
            Self::Aggregation => "aggregation",
            Self::BackgroundFunction => "background-udf",
        }
    }
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobEnd {
    Complete,
    /// By an info command, by the end of the server, or by the time limit of a short query.
    Aborted,
    /// By an error that its client was told of.
    Failed,
    /// The client went away, or would not read.
    Abandoned,
}

/// Counts of queries by how they ended.
#[derive(Default)]
pub(crate) struct QueryCounters([CounterArray<3>; 5]);

impl QueryCounters {
    /// Counts a query that has ended so.
    pub(crate) fn add(&self, kind: JobKind, how: JobEnd) {
        let outcome = match how {
            JobEnd::Complete => 0,
            JobEnd::Failed | JobEnd::Abandoned => 1,
            JobEnd::Aborted => 2,
        };
        if let Some(counts) = self.0.get(kind as usize) {
            counts.add(outcome, 1);
        }
    }

    /// Adds all counts by Aerospike's names behind `pi_query` or `si_query`.
    pub(crate) fn add_to(&self, pairs: &mut Pairs, index: &str) {
        let kinds = ["short_basic", "long_basic", "ops_bg", "aggr", "udf_bg"];
        for (kind, counts) in kinds.into_iter().zip(&self.0) {
            let ended = match kind {
                "short_basic" => "timeout",
                _ => "abort",
            };
            let names = ["complete", "error", ended];
            pairs.add_counts(&format!("{index}_{kind}"), names, counts);
        }
    }
}

/// Counts of the node, over all namespaces.
#[derive(Default)]
pub(crate) struct NodeCounters {
    /// Connections that are open, were opened, and were refused.
    pub(crate) open: Gauge,
    pub(crate) opened: Counter,
    pub(crate) refused: Counter,
    pub(crate) batches_begun: Counter,
    /// Batches that have ended.
    pub(crate) batches: ByOutcome,
    /// Requests with info commands that were answered.
    pub(crate) infos: Counter,
    /// Frames and bodies that could not be parsed.
    pub(crate) malformed: Counter,
    /// Requests of clients that were refused before a namespace was known to count them for.
    pub(crate) early_refusals: Counter,
    /// Connections that were closed since they were silent for too long.
    pub(crate) idle_closes: Counter,
}

impl NodeCounters {
    /// How many batches were complete, have failed, and were too late.
    pub(crate) fn ended_batches(&self) -> [u64; 3] {
        let all: u64 = self.batches.0.all().iter().sum();
        let complete = self.batches.get(RequestOutcome::Success);
        let late = self.batches.get(RequestOutcome::Timeout);
        [complete, all - complete - late, late]
    }
}

/// The thresholds of a latency histogram: 2^0 to 2^16 ms.
pub(crate) const LATENCY_BUCKETS: usize = 17;

/// How long requests took.
#[derive(Default)]
pub(crate) struct Latency {
    count: Counter,
    /// How many took longer than 2^n ms, and not longer than 2^(n+1); all else is in `count` only.
    longer: CounterArray<LATENCY_BUCKETS>,
    micros: Counter,
}

impl Latency {
    /// Notes a request.
    pub(crate) fn add(&self, took: Duration) {
        self.count.count();
        let micros = took.as_micros().min(u128::from(u64::MAX)) as u64;
        self.micros.add(micros);
        let over = took.as_millis();
        if over > 0 {
            let bucket = (over.ilog2() as usize).min(LATENCY_BUCKETS - 1);
            self.longer.add(bucket, 1);
        }
    }

    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count.get()
    }

    /// How long all of them took together, in microseconds.
    pub(crate) fn micros(&self) -> u64 {
        self.micros.get()
    }

    /// How many took at least 2^0, 2^1 .. 2^16 ms.
    pub(crate) fn at_least(&self) -> [u64; LATENCY_BUCKETS] {
        let mut counts = self.longer.all();
        let mut sum = 0;
        for count in counts.iter_mut().rev() {
            sum += *count;
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
        counters.count(Verb::Read, false, result_code::NOT_FOUND);
        counters.count(Verb::Write, true, result_code::RECORD_TOO_BIG);
        counters.count(Verb::Write, false, result_code::GENERATION);
        counters.count(Verb::Write, false, result_code::NOT_FOUND);
        counters.count(Verb::Function, false, result_code::FILTERED_OUT);
        let mut pairs = Pairs::default();
        counters.add_outcomes_to(&mut pairs);
        let pairs = pairs.0.iter();
        let of = |wanted: &str| {
            let found = pairs.clone().find(|(name, _)| name == wanted);
            found.map(|(_, count)| count.parse::<u64>().unwrap())
        };
        assert_eq!(of("client_read_not_found"), Some(1));
        assert_eq!(of("batch_sub_write_error"), Some(1));
        // A write of a record that must be there, and a wrong generation: Aerospike has no count of
        // writes that found nothing.
        assert_eq!(of("client_write_error"), Some(2));
        assert_eq!(of("client_write_not_found"), None);
        assert_eq!(of("client_udf_filtered_out"), Some(1));
        assert_eq!(counters.generation_refusals.get(), 1);
        assert_eq!(counters.too_big_refusals.get(), 1);
    }

    #[test]
    fn queries_are_counted_by_kind_and_end() {
        let counters = QueryCounters::default();
        for how in [JobEnd::Complete, JobEnd::Aborted] {
            counters.add(JobKind::Short, how);
        }
        counters.add(JobKind::Basic, JobEnd::Aborted);
        counters.add(JobKind::BackgroundFunction, JobEnd::Failed);
        counters.add(JobKind::BackgroundFunction, JobEnd::Abandoned);
        let mut pairs = Pairs::default();
        counters.add_to(&mut pairs, "pi_query");
        let found: Vec<_> = pairs.0.iter().filter(|(_, count)| count != "0").collect();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "pi_query_short_basic_complete",
                "pi_query_short_basic_timeout",
                "pi_query_long_basic_abort",
                "pi_query_udf_bg_error"
            ]
        );
        assert_eq!(pairs.0.len(), 15);
    }
}
