//! What rows mean: where latency and refusals begin to rise, and whether the guideline of 50 writes a second holds.

use serde::Serialize;

use super::row::{Row, Shards};
use crate::arithmetic::{WRITES_PER_SECOND, collision_chance, writes_per_hold};

/// The latency knee: p99 is so many times that of the lowest rate.
pub const LATENCY_KNEE: f64 = 3.0;
/// The busy knee: this share of writes is refused.
pub const BUSY_KNEE: f64 = 0.001;
/// Up to this chance of two writes in a hold a record is calm.
pub const CALM: f64 = 0.02;
/// Up to this one it is within the guideline; beyond it, hot.
pub const WARM: f64 = 0.10;

/// From which rate on a layout is in trouble. `None`: at none that was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Knees {
    /// The layout.
    pub shards: Shards,
    /// The first rate with a p99 of [`LATENCY_KNEE`] times that of the lowest.
    pub latency_rate: Option<f64>,
    /// The first rate with [`BUSY_KNEE`] refused.
    pub busy_rate: Option<f64>,
    /// The first rate at which theory expects that.
    pub expected_busy_rate: Option<f64>,
    /// What the layout can serve at most, in writes a second: one a hold and shard.
    pub capacity_per_s: Option<f64>,
    /// The highest rate that was measured.
    pub highest_rate: f64,
}

/// The knees of each layout in an open loop, in the order of the rows.
pub(super) fn knees(rows: &[(&Row, u32)]) -> Vec<Knees> {
    let mut layouts: Vec<(&Shards, u32)> = Vec::new();
    for (row, live) in rows.iter().filter(|(row, _)| row.rate.is_some()) {
        if !layouts.iter().any(|(shards, _)| **shards == row.shards) {
            layouts.push((&row.shards, *live));
        }
    }
    layouts
        .into_iter()
        .map(|(shards, live)| {
            let mut of: Vec<(f64, &Row)> = rows
                .iter()
                .filter(|(row, _)| row.shards == *shards)
                .filter_map(|(row, _)| row.rate.map(|rate| (rate, *row)))
                .collect();
            of.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            let first = |found: &dyn Fn(&Row) -> bool| {
                of.iter().find(|(_, row)| found(row)).map(|(rate, _)| *rate)
            };
            let lowest = of.first().map_or(f64::INFINITY, |(_, row)| row.p99_us);
            let hold_us = of.iter().find_map(|(_, row)| row.hold_us);
            Knees {
                shards: shards.clone(),
                latency_rate: first(&|row| row.acked > 0 && row.p99_us >= LATENCY_KNEE * lowest),
                busy_rate: first(&|row| row.key_busy_share >= BUSY_KNEE),
                expected_busy_rate: first(&|row| {
                    row.expected_key_busy_share
                        .is_some_and(|share| share >= BUSY_KNEE)
                }),
                capacity_per_s: hold_us.map(|hold_us| f64::from(live) * 1e6 / hold_us),
                highest_rate: of.last().map_or(0.0, |(rate, _)| *rate),
            }
        })
        .collect()
}

/// The guideline of so many writes a second on one record, judged for a hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Guideline {
    /// Writes a second.
    pub rate: f64,
    /// How many times the mean rate a burst has.
    pub burst: f64,
    /// How long a write holds its record: the hold, or else the median time of a write.
    pub hold_us: f64,
    /// Writes of a burst in a hold, on average.
    pub lambda: f64,
    /// The chance of two or more in a hold.
    pub p2: f64,
    /// `calm`, `warm` or `hot`.
    pub band: String,
    /// The refused share at this rate on one record, where it was measured.
    pub key_busy_share: Option<f64>,
    /// Whether the guideline is a safe one for this hold: not hot, and not refused where it was measured.
    pub passes: bool,
}

/// Judges the guideline by a run.
pub(super) fn guideline(rows: &[&Row], burst: f64) -> Option<Guideline> {
    // Without a hold, the time of a write is one only where no other writer was in its way as a rule.
    let is_calm = |row: &&&Row| row.acked > 0 && (row.rate.is_some() || row.writers == Some(1));
    let hold_us = rows.iter().find_map(|row| row.hold_us).or_else(|| {
        let times = rows.iter().filter(is_calm).map(|row| row.service_p50_us);
        times.min_by(f64::total_cmp)
    })?;
    let lambda = writes_per_hold(WRITES_PER_SECOND * burst, hold_us / 1e3);
    let p2 = collision_chance(lambda);
    let band = match p2 {
        _ if p2 <= CALM => "calm",
        _ if p2 <= WARM => "warm",
        _ => "hot",
    };
    let at_rate =
        |row: &&&Row| row.rate == Some(WRITES_PER_SECOND) && row.shards == Shards::Hashed(1);
    let key_busy_share = rows.iter().find(at_rate).map(|row| row.key_busy_share);
    Some(Guideline {
        rate: WRITES_PER_SECOND,
        burst,
        hold_us,
        lambda,
        p2,
        band: band.to_owned(),
        key_busy_share,
        passes: p2 <= WARM && key_busy_share.is_none_or(|share| share < BUSY_KNEE),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::measure;
    use crate::contention::testing::open;

    fn row(rate: f64, shards: u32) -> Row {
        measure(&open(rate, shards, |settings| settings.seed = 3))
            .unwrap()
            .row
    }

    #[test]
    fn a_record_has_its_knees_where_the_queue_grows_and_where_it_is_full() {
        let rows: Vec<Row> = [25.0, 50.0, 100.0, 125.0, 200.0, 400.0]
            .into_iter()
            .flat_map(|rate| [row(rate, 1), row(rate, 8)])
            .collect();
        let live: Vec<(&Row, u32)> = rows.iter().zip([1, 8].into_iter().cycle()).collect();
        let found = knees(&live);
        let [one, eight] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!(
            (one.latency_rate, one.busy_rate),
            (Some(100.0), Some(125.0))
        );
        assert_eq!(one.expected_busy_rate, Some(125.0));
        assert_eq!(
            (one.capacity_per_s, eight.capacity_per_s),
            (Some(125.0), Some(1_000.0))
        );
        assert_eq!((eight.latency_rate, eight.busy_rate), (None, None));
        assert_eq!(eight.highest_rate, 400.0);
    }

    #[test]
    fn the_guideline_is_judged_with_its_documented_figures() {
        let rows = [row(50.0, 1)];
        let judged = guideline(&[&rows[0]], 1.0).unwrap();
        assert!((judged.lambda - 0.4).abs() < 1e-9);
        assert!((judged.p2 - 0.0616).abs() < 5e-5);
        assert_eq!((judged.band.as_str(), judged.passes), ("warm", true));
        assert_eq!(judged.key_busy_share, Some(0.0));
        let burst = guideline(&[&rows[0]], 2.0).unwrap();
        assert_eq!((burst.band.as_str(), burst.passes), ("hot", false));
        assert_eq!(guideline(&[], 1.0), None);
        let fought_over = Row {
            rate: None,
            writers: Some(16),
            hold_us: None,
            ..rows[0].clone()
        };
        assert_eq!(guideline(&[&fought_over], 1.0), None);
        let alone = Row {
            writers: Some(1),
            service_p50_us: 2.0,
            ..fought_over
        };
        assert_eq!(guideline(&[&alone], 1.0).unwrap().hold_us, 2.0);
    }
}
