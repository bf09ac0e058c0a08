//! Words and numbers of the report.

use super::layout::RowLayout;
use super::row::ReportRow;
use crate::report::{Cell, count, decimal, exact};

/// Returns the number of decimals with which microseconds are shown as milliseconds: more for short
/// times.
fn millis_decimals(micros: f64) -> usize {
    match micros {
        _ if micros >= 10_000.0 => 1,
        _ if micros >= 100.0 => 2,
        _ => 4,
    }
}

/// Shows microseconds as milliseconds; a dash if they are not known.
pub(super) fn millis(micros: impl Into<Option<f64>>) -> Cell {
    let micros = micros.into().filter(|micros| micros.is_finite());
    Cell::optional(micros, |micros| {
        let shown = decimal(micros / 1e3, millis_decimals(micros));
        Cell::shown(shown, micros.to_string())
    })
}

/// Rounds microseconds to what [`millis`] shows.
pub(super) fn micros_as_shown(micros: f64) -> f64 {
    let parts = 10_f64.powi(millis_decimals(micros) as i32);
    (micros / 1e3 * parts).round() / parts * 1e3
}

/// Shows a share in percent, to a thousandth of a percent; a dash if it is not known.
pub(super) fn share(share: impl Into<Option<f64>>) -> Cell {
    Cell::share(share, 3)
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
