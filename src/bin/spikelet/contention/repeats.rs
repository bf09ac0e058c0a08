//! The repeats of a row, and whether two rows differ by more than these do among themselves.

use serde::{Deserialize, Serialize};

use super::row::Row;
use super::student::{Difference, difference};

/// Fewer repeats say nothing of how much a figure varies.
pub(super) const REPEATS_MIN: usize = 3;
/// Percentiles are compared where at least this many writes are beyond them.
const BEYOND_MIN: f64 = 5.0;

/// The figures of one repeat that rows are compared by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Repeat {
    /// Acknowledged writes.
    pub(crate) acked: u64,
    /// Acknowledgements a second, within the time.
    pub(crate) goodput_per_s: f64,
    /// The part of the writes that ended with KEY_BUSY.
    pub(crate) key_busy_share: f64,
    /// Median latency; `None`: too few writes.
    pub(crate) p50_us: Option<f64>,
    /// The 99th percentile; `None`: too few writes.
    pub(crate) p99_us: Option<f64>,
}

impl Repeat {
    pub(super) fn of(row: &Row) -> Self {
        let percentile = |value: f64, share: f64| {
            let beyond = row.acked as f64 * (1.0 - share);
            (value.is_finite() && beyond >= BEYOND_MIN).then_some(value)
        };
        Self {
            acked: row.acked,
            goodput_per_s: row.goodput_per_s,
            key_busy_share: row.key_busy_share,
            p50_us: percentile(row.p50_us, 0.5),
            p99_us: percentile(row.p99_us, 0.99),
        }
    }
}

/// A figure that rows are compared by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    /// Reads it of a repeat; `None`: too few writes.
    pub(super) read: fn(&Repeat) -> Option<f64>,
    pub(super) more_is_better: bool,
    /// A smaller change never counts.
    pub(super) least: f64,
}

/// The compared figures of each row. A tenth of a percent of writes refused, and a microsecond, are
/// nothing.
pub(super) const FIGURES: [Figure; 4] = [
    Figure {
        name: "goodput_per_s",
        read: |repeat| Some(repeat.goodput_per_s),
        more_is_better: true,
        least: 0.0,
    },
    Figure {
        name: "key_busy_share",
        read: |repeat| Some(repeat.key_busy_share),
        more_is_better: false,
        least: 0.001,
    },
    Figure {
        name: "p50_us",
        read: |repeat| repeat.p50_us,
        more_is_better: false,
        least: 1.0,
    },
    Figure {
        name: "p99_us",
        read: |repeat| repeat.p99_us,
        more_is_better: false,
        least: 1.0,
    },
];

/// How the repeats of two rows differ in a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Compared {
    pub(super) before: f64,
    pub(super) now: f64,
    pub(super) difference: Difference,
}

/// Why a figure of two rows is not compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotCompared {
    /// Fewer than [`REPEATS_MIN`] repeats.
    Repeats,
    /// Too few writes in some of them for the percentile.
    Writes,
}

/// Compares a figure. Both means are of the repeats.
pub(super) fn compared(
    figure: &Figure,
    before: &[Repeat],
    now: &[Repeat],
) -> Result<Compared, NotCompared> {
    if before.len().min(now.len()) < REPEATS_MIN {
        return Err(NotCompared::Repeats);
    }
    let read = |repeats: &[Repeat]| -> Result<Vec<f64>, NotCompared> {
        let values = repeats.iter().map(|repeat| (figure.read)(repeat));
        values
            .collect::<Option<Vec<f64>>>()
            .ok_or(NotCompared::Writes)
    };
    let (before, now) = (read(before)?, read(now)?);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let difference = difference(&before, &now).ok_or(NotCompared::Repeats)?;
    Ok(Compared {
        before: mean(&before),
        now: mean(&now),
        difference,
    })
}

#[cfg(test)]
mod tests;
