//! The rows as comma-separated values.

use super::run::Run;
use crate::report::{Cell, Table};

impl Run {
    /// Returns the rows as comma-separated values, after a heading. The columns have the names of
    /// the JSON fields.
    #[must_use]
    pub(crate) fn to_csv(&self) -> String {
        let columns = [
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
        let mut table = Table::new("rows", &columns);
        for row in self.rows() {
            let number = |value: f64| match value.is_finite() {
                true => Cell::text(value.to_string()),
                false => Cell::missing(),
            };
            let whole = |value: u64| Cell::text(value.to_string());
            table.row([
                Cell::text(&row.kind),
                row.rate.map_or_else(Cell::missing, number),
                Cell::text(row.shards.to_string()),
                row.writers.map_or_else(Cell::missing, whole),
                whole(row.offered),
                whole(row.acked),
                whole(row.key_busy),
                number(row.key_busy_share),
                number(row.goodput_per_s),
                number(row.p50_us),
                number(row.p99_us),
                number(row.p999_us),
                number(row.max_us),
                number(row.mean_us),
                number(row.service_p50_us),
                number(row.service_p99_us),
                whole(row.refusals),
                whole(row.retries),
                whole(row.errors.values().sum()),
                whole(row.sent_late),
                whole(row.lost),
                whole(row.duplicates),
                whole(row.invisible),
                Cell::text(row.simulated_hold.to_string()),
            ]);
        }
        table.to_csv()
    }
}
