//! The rows as comma-separated values.

use serde_json::Value;

use super::row::Row;
use super::run::Run;
use crate::report::{Cell, Table};

/// The fields of a row that are one number or word.
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
        let mut table = Table::new("rows", &COLUMNS);
        for row in self.rows() {
            let fields = serde_json::to_value(row).unwrap_or_default();
            let cell = |name: &&str| match fields.get(name) {
                Some(Value::Object(_)) => errors(row),
                Some(Value::String(text)) => Cell::text(text),
                Some(Value::Number(number)) if number.is_f64() => {
                    Cell::text(number.as_f64().unwrap_or_default().to_string())
                }
                None | Some(Value::Null) => Cell::missing(),
                Some(value) => Cell::text(value.to_string()),
            };
            table.row(COLUMNS.iter().map(cell));
        }
        table.to_csv()
    }
}

/// Returns how many writes failed, whatever their result codes.
fn errors(row: &Row) -> Cell {
    Cell::text(row.errors.values().sum::<u64>().to_string())
}
