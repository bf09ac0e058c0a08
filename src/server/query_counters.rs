//! Counts of queries by kind and end, as the statistics of a namespace report them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::result_code;

/// The kinds of query that are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryKind {
    /// It returns records and has to be done within a second or so.
    Short,
    /// It returns records.
    Long,
    /// It operates on records once its client is answered.
    Background,
    /// It sends records through the stream of a function.
    Aggregation,
    /// It calls a function for records once its client is answered.
    BackgroundFunction,
}

/// How a query ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryOutcome {
    Complete,
    /// By an error, or its client went away.
    Error,
    /// A short query took too long; another one was aborted by an info command or by the end of the server.
    Ended,
}

impl QueryOutcome {
    /// Returns the outcome of a query of `kind` after its last message, which had `code`.
    pub(crate) const fn of(kind: QueryKind, code: Option<u8>) -> Self {
        match (kind, code) {
            (_, Some(result_code::OK)) => Self::Complete,
            (QueryKind::Short, Some(result_code::TIMEOUT))
            | (QueryKind::Long | QueryKind::Aggregation, Some(result_code::ABORTED)) => Self::Ended,
            _ => Self::Error,
        }
    }
}

/// Counts of queries by how they ended.
#[derive(Debug, Default)]
pub(crate) struct QueryCounters([[AtomicU64; 3]; 5]);

impl QueryCounters {
    pub(crate) fn add(&self, kind: QueryKind, outcome: QueryOutcome) {
        let of_kind = self.0.get(kind as usize);
        if let Some(counter) = of_kind.and_then(|counts| counts.get(outcome as usize)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All counts by Aerospike's names behind `pi_query` or `si_query`.
    pub(crate) fn by_name(&self) -> Vec<(String, u64)> {
        let mut pairs = Vec::new();
        let kinds = ["short_basic", "long_basic", "ops_bg", "aggr", "udf_bg"];
        for (kind, counts) in kinds.into_iter().zip(&self.0) {
            let ended = match kind {
                "short_basic" => "timeout",
                _ => "abort",
            };
            for (word, count) in ["complete", "error", ended].into_iter().zip(counts) {
                pairs.push((format!("{kind}_{word}"), count.load(Ordering::Relaxed)));
            }
        }
        pairs
    }
}

/// Counts the query under way, once: as an error if nothing else is known when it is dropped.
#[derive(Debug)]
pub(crate) struct QueryCount<'c> {
    pub(crate) counters: &'c QueryCounters,
    pub(crate) kind: QueryKind,
    pub(crate) outcome: QueryOutcome,
}

impl Drop for QueryCount<'_> {
    fn drop(&mut self) {
        self.counters.add(self.kind, self.outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_counted_once_and_as_an_error_unless_its_end_is_known() {
        let counters = QueryCounters::default();
        for outcome in [QueryOutcome::Complete, QueryOutcome::Ended] {
            let mut count = QueryCount {
                counters: &counters,
                kind: QueryKind::Short,
                outcome: QueryOutcome::Error,
            };
            count.outcome = outcome;
        }
        counters.add(QueryKind::Long, QueryOutcome::Ended);
        let pairs = counters.by_name();
        let found: Vec<_> = pairs.iter().filter(|(_, count)| *count > 0).collect();
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "short_basic_complete",
                "short_basic_timeout",
                "long_basic_abort"
            ]
        );
        assert_eq!(pairs.len(), 15);
    }
}
