//! The rows as comma-separated values.

use super::run::Run;
use crate::report::csv;

/// The fields of a row that are one number or word; how many writes failed, by any result code.
const COLUMNS: [&str; 24] = [
    "loop",
    "rate",
    "shards",
    "writers",
    "offered",
    "acked",
    "key_busy",
    "key_busy_share",
    "goodput_per_s",
    "p50_us",
    "p99_us",
    "p999_us",
    "max_us",
    "mean_us",
    "service_p50_us",
    "service_p99_us",
    "refusals",
    "retries",
    "errors",
    "sent_late",
    "lost",
    "duplicates",
    "invisible",
    "simulated_hold",
];

impl Run {
    /// Returns the rows as comma-separated values, after a heading. The columns have the names of
    /// the JSON fields.
    #[must_use]
    pub(crate) fn to_csv(&self) -> String {
        csv(self.rows(), &COLUMNS.map(|name| (name, name)))
    }
}
