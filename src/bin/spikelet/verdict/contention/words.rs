//! Loads and times as sentences have them.

use std::time::Duration;

use crate::contention::ReportRow;
use crate::contention::format::load;
use crate::report::duration;

pub(super) fn load_words(row: &ReportRow) -> String {
    match row.rate {
        Some(_) => load(row).replace("/s", " writes/s"),
        None => load(row),
    }
}

pub(super) fn time(micros: f64) -> String {
    if micros.is_finite() {
        duration(Duration::from_secs_f64(micros.max(0.0) / 1e6))
    } else {
        "not known".to_owned()
    }
}

/// Writes `184 -> 36 ms`.
pub(super) fn arrow(was: f64, is: f64) -> String {
    let (was, is) = (time(was), time(is));
    match (was.rsplit_once(' '), is.rsplit_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} -> {is}"),
        _ => format!("{was} -> {is}"),
    }
}
