//! Words and numbers of the report.

use super::layout::RowLayout;
use super::row::ReportRow;
use crate::report::{count, exact, millis_decimals};

/// Rounds microseconds to the milliseconds that are shown of them.
pub(super) fn micros_as_shown(micros: f64) -> f64 {
    let parts = 10_f64.powi(millis_decimals(micros) as i32);
    (micros / 1e3 * parts).round() / parts * 1e3
}

pub(super) fn rate_words(rate: f64) -> String {
    format!("{}/s", exact(rate))
}

pub(super) fn writers_words(writers: Option<u64>) -> String {
    match writers.unwrap_or(0) {
        1 => "1 writer".to_owned(),
        writers => format!("{} writers", count(writers)),
    }
}

/// Writes the load of a row: `50/s`, `16 writers`.
pub(crate) fn load(row: &ReportRow) -> String {
    row.rate
        .map_or_else(|| writers_words(row.writers), rate_words)
}

/// Writes a layout: `1 shard`, `8 shards`, `hourly`.
pub(crate) fn shards(layout: RowLayout) -> String {
    match layout {
        RowLayout::Hashed(1) => "1 shard".to_owned(),
        RowLayout::Hashed(shards) => format!("{shards} shards"),
        RowLayout::Timed(..) => layout.to_string(),
    }
}
