//! Kinds and ends of queries, and counts by both, as the statistics of a namespace report them.

use super::counter::{Counts, Pairs};

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
#[derive(Debug, Default)]
pub(crate) struct QueryCounters([Counts<3>; 5]);

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
            let words = ["complete", "error", ended].map(|word| format!("{index}_{kind}_{word}"));
            pairs.add_all(words.into_iter().zip(counts.all()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
