//! What rows mean: where latency and refusals begin to rise, and whether the guideline of 50 writes
//! a second holds.

use serde::Serialize;
use spikelet::shard::arithmetic::{WRITES_PER_SECOND, collision_chance, writes_per_hold};

use super::layout::RowLayout;
use super::row::ReportRow;

/// The latency knee: p99 as a multiple of that of the lowest rate.
pub(crate) const LATENCY_KNEE: f64 = 3.0;
/// The busy knee: this share of writes is refused.
pub(crate) const BUSY_KNEE: f64 = 0.001;
/// Up to this chance of two writes in a hold a record is calm.
pub(crate) const CALM: f64 = 0.02;
/// Up to this one it is within the guideline; beyond it, hot.
pub(crate) const WARM: f64 = 0.10;

/// From which rate on a layout is in trouble. `None`: at none that was measured, or it was not
/// tested.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Knees {
    /// The layout.
    pub(crate) shards: RowLayout,
    /// How many rates were measured: with fewer than two there are no knees.
    pub(crate) rates: usize,
    /// Whether the lowest rate is one to compare others with: something was acknowledged, and less
    /// than [`BUSY_KNEE`] refused.
    pub(crate) lowest_is_calm: bool,
    /// The first rate from which on every p99 is [`LATENCY_KNEE`] times that of the lowest, and the
    /// intervals of both are apart.
    pub(crate) latency_rate: Option<f64>,
    /// The first rate from which on [`BUSY_KNEE`] is refused, and more than by chance.
    pub(crate) busy_rate: Option<f64>,
    /// Whether theory expects anything of every one of these rates.
    pub(crate) is_modelled: bool,
    /// The first rate at which theory expects that.
    pub(crate) expected_busy_rate: Option<f64>,
    /// The most that the layout can serve, in writes a second: one a hold and shard. None with
    /// several hot keys, of which each has a part of the rate.
    pub(crate) capacity_per_s: Option<f64>,
    /// The highest rate that was measured.
    pub(crate) highest_rate: f64,
}

impl Knees {
    /// Returns whether there are enough rates for a busy knee.
    pub(crate) const fn is_tested(&self) -> bool {
        self.rates >= 2
    }

    /// Returns whether there are enough rates for a latency knee, and a lowest one to compare with.
    pub(crate) const fn is_latency_tested(&self) -> bool {
        self.is_tested() && self.lowest_is_calm
    }
}

/// Returns the layouts of the rows of an open loop, in their order.
pub(super) fn open_layouts<'r>(rows: impl IntoIterator<Item = &'r ReportRow>) -> Vec<RowLayout> {
    let mut layouts: Vec<RowLayout> = Vec::new();
    for row in rows {
        if row.rate.is_some() && !layouts.contains(&row.shards) {
            layouts.push(row.shards);
        }
    }
    layouts
}

/// Returns the knees of each layout in an open loop with `hot_keys` hot keys, in the order of the
/// rows.
pub(super) fn knees(rows: &[&ReportRow], hot_keys: u32) -> Vec<Knees> {
    let knees = |shards: RowLayout| {
        let of = rows.iter().filter(|row| row.shards == shards);
        let of = of.filter_map(|row| Some((row.rate?, *row)));
        knees_of(
            shards,
            (hot_keys == 1).then_some(shards.live_shards()),
            of.collect(),
        )
    };
    let layouts = open_layouts(rows.iter().copied());
    layouts.into_iter().map(knees).collect()
}

/// Returns the knees of one layout. `records`: how many records take the writes; `None` with
/// several hot keys.
fn knees_of(shards: RowLayout, records: Option<u32>, mut of: Vec<(f64, &ReportRow)>) -> Knees {
    of.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    of.dedup_by_key(|(rate, _)| *rate);
    let lowest = of
        .first()
        .map(|(_, row)| *row)
        .filter(|row| row.acked > 0 && row.key_busy_share < BUSY_KNEE);
    let hold_us = of.iter().find_map(|(_, row)| row.hold_us);
    // A knee begins a stretch that does not end: one rate in trouble is noise.
    let first = |found: &dyn Fn(&ReportRow) -> bool| {
        let is_tested = of.len() >= 2;
        let from_above = of
            .iter()
            .rev()
            .take_while(|(_, row)| is_tested && found(row));
        from_above.last().map(|(rate, _)| *rate)
    };
    Knees {
        shards,
        rates: of.len(),
        lowest_is_calm: lowest.is_some(),
        latency_rate: lowest.and_then(|lowest| first(&|row| is_slower(row, lowest))),
        busy_rate: first(&is_refused),
        is_modelled: of
            .iter()
            .all(|(_, row)| row.expected_key_busy_share.is_some()),
        expected_busy_rate: first(&|row| {
            let expected = row.expected_key_busy_share;
            expected.is_some_and(|share| share >= BUSY_KNEE)
        }),
        capacity_per_s: records
            .zip(hold_us)
            .map(|(records, hold_us)| f64::from(records) * 1e6 / hold_us),
        highest_rate: of.last().map_or(0.0, |(rate, _)| *rate),
    }
}

/// Returns whether a row's p99 is [`LATENCY_KNEE`] times that of another, and no chance of theirs.
fn is_slower(row: &ReportRow, lowest: &ReportRow) -> bool {
    let apart = row
        .p99_interval_us
        .zip(lowest.p99_interval_us)
        .is_some_and(|((from, _), (_, to))| from > to);
    apart && row.p99_us >= LATENCY_KNEE * lowest.p99_us
}

/// Returns whether more than [`BUSY_KNEE`] of a row's writes are refused, and no less is likely:
/// the lower end of the share's interval (Wilson, 95 in 100) is beyond it.
fn is_refused(row: &ReportRow) -> bool {
    const TWO_SIDED_95: f64 = 1.96;
    let (count, share) = (row.offered.max(1) as f64, row.key_busy_share);
    let squared = TWO_SIDED_95 * TWO_SIDED_95;
    let reach =
        TWO_SIDED_95 * (share * (1.0 - share) / count + squared / (4.0 * count * count)).sqrt();
    let lower = (share + squared / (2.0 * count) - reach) / (1.0 + squared / count);
    lower > BUSY_KNEE
}

/// A finding about the rows of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Finding {
    /// It holds.
    Pass,
    /// It does not.
    Fail,
    /// No row says.
    NotTested,
}

/// The guideline of 50 writes a second on one record, judged for a hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Guideline {
    /// Writes a second.
    pub(crate) rate: f64,
    /// How many times the mean rate a burst has.
    pub(crate) burst: f64,
    /// How long a write holds its record: the hold, or else the median time of a write.
    pub(crate) hold_us: f64,
    /// Writes of a burst in a hold, on average.
    pub(crate) lambda: f64,
    /// The chance of two or more in a hold.
    pub(crate) p2: f64,
    /// `calm`, `warm` or `hot`.
    pub(crate) band: String,
    /// The rate of the row on one record that says most about this one: the same; or a higher one
    /// that was not refused; or a lower one that was.
    pub(crate) tested_rate: Option<f64>,
    /// The refused share of that row.
    pub(crate) key_busy_share: Option<f64>,
    /// Whether the guideline is a safe one for this hold: it fails where the band is hot, or where
    /// writes were refused.
    pub(crate) finding: Finding,
}

/// Judges the guideline by a run with `hot_keys` hot keys.
pub(super) fn guideline(rows: &[&ReportRow], hot_keys: u32, burst: f64) -> Option<Guideline> {
    // Without a hold, the time of a write is one only where no other writer was in its way as a
    // rule.
    let is_calm =
        |row: &&&ReportRow| row.acked > 0 && (row.rate.is_some() || row.writers == Some(1));
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
    // With several keys a record gets a part of the rate.
    let on_one_record =
        |row: &&ReportRow| hot_keys == 1 && row.shards == RowLayout::Hashed(1) && row.offered > 0;
    let mut tested: Vec<(f64, &ReportRow)> = rows
        .iter()
        .copied()
        .filter(on_one_record)
        .filter_map(|row| Some((row.rate?, row)))
        .filter(|(rate, row)| {
            let is_refused = row.key_busy_share >= BUSY_KNEE;
            *rate == WRITES_PER_SECOND || (*rate > WRITES_PER_SECOND) != is_refused
        })
        .collect();
    let distance = |rate: f64| (rate - WRITES_PER_SECOND).abs();
    tested.sort_by(|(a, _), (b, _)| distance(*a).total_cmp(&distance(*b)));
    let tested = tested.first();
    let is_refused = tested.is_some_and(|(_, row)| row.key_busy_share >= BUSY_KNEE);
    Some(Guideline {
        rate: WRITES_PER_SECOND,
        burst,
        hold_us,
        lambda,
        p2,
        band: band.to_owned(),
        tested_rate: tested.map(|(rate, _)| *rate),
        key_busy_share: tested.map(|(_, row)| row.key_busy_share),
        finding: match tested {
            _ if p2 > WARM || is_refused => Finding::Fail,
            Some(_) => Finding::Pass,
            None => Finding::NotTested,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::measure;
    use crate::contention::testing::{changed, open};

    fn row(rate: f64, shards: u32) -> ReportRow {
        measure(&open(rate, shards, |settings| settings.seed = 3))
            .unwrap()
            .row
    }

    #[test]
    fn a_record_has_its_knees_where_the_queue_grows_and_where_it_is_full() {
        let rows: Vec<ReportRow> = [25.0, 50.0, 100.0, 125.0, 200.0, 400.0]
            .into_iter()
            .flat_map(|rate| [row(rate, 1), row(rate, 8)])
            .collect();
        let live: Vec<&ReportRow> = rows.iter().collect();
        let found = knees(&live, 1);
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
        assert!(one.is_latency_tested() && eight.is_latency_tested());
        assert!(one.is_modelled && eight.is_modelled);
        assert_eq!(knees(&live, 2)[0].capacity_per_s, None);
        let without = ReportRow {
            expected_key_busy_share: None,
            ..rows[2].clone()
        };
        assert!(!knees(&[&rows[0], &without], 1)[0].is_modelled);
    }

    #[test]
    fn one_rate_that_stands_out_is_no_knee() {
        let calm = row(25.0, 1);
        let with = |rate: f64, busy: u64, p99: f64, interval: (f64, f64)| {
            changed(calm.clone(), |row| {
                row.rate = Some(rate);
                (row.offered, row.acked, row.key_busy) = (1_000, 1_000 - busy, busy);
                row.key_busy_share = busy as f64 / 1_000.0;
                row.p99_us = calm.p99_us * p99;
                row.p99_interval_us = Some((calm.p99_us * interval.0, calm.p99_us * interval.1));
            })
        };
        let knees_with = |rows: &[ReportRow]| {
            let all: Vec<&ReportRow> = std::iter::once(&calm).chain(rows).collect();
            let found = knees(&all, 1).remove(0);
            (found.latency_rate, found.busy_rate)
        };
        let (quiet, loud) = ((0.9, 1.1), (3.0, 5.0));
        let spike = [
            with(50.0, 50, 4.0, loud),
            with(100.0, 0, 1.0, quiet),
            with(200.0, 300, 4.0, loud),
        ];
        assert_eq!(knees_with(&spike), (Some(200.0), Some(200.0)));
        // Two refusals in 1,000, and a p99 with an interval that reaches down to the lowest rate's.
        let by_chance = [with(100.0, 2, 3.5, (0.8, 6.0))];
        assert_eq!(knees_with(&by_chance), (None, None));
    }

    #[test]
    fn one_rate_has_no_knees_and_a_refused_one_is_nothing_to_compare_latencies_with() {
        let rows = [row(200.0, 1), row(400.0, 1), row(50.0, 1)];
        let of = |rows: &[&ReportRow]| knees(rows, 1).remove(0);
        let single = of(&[&rows[0]]);
        assert_eq!((single.is_tested(), single.busy_rate), (false, None));
        assert_eq!((single.rates, single.expected_busy_rate), (1, None));
        assert!(!of(&[&rows[0], &rows[0]]).is_tested(), "one rate, twice");
        let refused = of(&[&rows[0], &rows[1]]);
        assert!(refused.is_tested() && !refused.is_latency_tested());
        assert_eq!(
            (refused.busy_rate, refused.latency_rate),
            (Some(200.0), None)
        );
        let nothing = changed(rows[2].clone(), |row| {
            (row.acked, row.p99_us) = (0, f64::NAN)
        });
        assert_eq!(of(&[&nothing, &rows[0]]).latency_rate, None);
    }

    #[test]
    fn the_guideline_is_judged_with_its_documented_figures() {
        let rows = [row(50.0, 1)];
        let judged = guideline(&[&rows[0]], 1, 1.0).unwrap();
        assert!((judged.lambda - 0.4).abs() < 1e-9);
        assert!((judged.p2 - 0.0616).abs() < 5e-5);
        assert_eq!(
            (judged.band.as_str(), judged.finding),
            ("warm", Finding::Pass)
        );
        assert_eq!(judged.key_busy_share, Some(0.0));
        let burst = guideline(&[&rows[0]], 1, 2.0).unwrap();
        assert_eq!((burst.band.as_str(), burst.finding), ("hot", Finding::Fail));
        assert_eq!(guideline(&[], 1, 1.0), None);
        let fought_over = ReportRow {
            rate: None,
            writers: Some(16),
            hold_us: None,
            ..rows[0].clone()
        };
        assert_eq!(guideline(&[&fought_over], 1, 1.0), None);
        let alone = ReportRow {
            writers: Some(1),
            service_p50_us: 2.0,
            ..fought_over
        };
        let judged = guideline(&[&alone], 1, 1.0).unwrap();
        assert_eq!((judged.hold_us, judged.finding), (2.0, Finding::NotTested));
    }

    #[test]
    fn the_guideline_passes_only_by_a_row_that_says_so() {
        let with = |rate: f64, shards: u32, busy: f64| {
            changed(row(10.0, 1), |row| {
                (row.rate, row.shards) = (Some(rate), RowLayout::Hashed(shards));
                row.key_busy_share = busy;
            })
        };
        let all = [
            with(10.0, 1, 0.0),
            with(50.0, 1, 0.01),
            with(60.0, 1, 0.0),
            with(100.0, 1, 0.3),
            with(40.0, 1, 0.02),
            with(50.0, 8, 0.0),
            with(400.0, 1, 0.0),
        ];
        for (places, hot_keys, rate, finding) in [
            // A lower rate that is not refused, a higher one that is, several shards or several
            // keys say nothing.
            (&[0, 3, 5][..], 1, None, Finding::NotTested),
            (&[2, 6], 8, None, Finding::NotTested),
            (&[0, 2, 3], 1, Some(60.0), Finding::Pass),
            (&[0, 6], 1, Some(400.0), Finding::Pass),
            (&[1, 2], 1, Some(50.0), Finding::Fail),
            (&[3, 4], 1, Some(40.0), Finding::Fail),
        ] {
            let rows: Vec<&ReportRow> = places.iter().map(|place| &all[*place]).collect();
            let judged = guideline(&rows, hot_keys, 1.0).unwrap();
            assert_eq!(
                (judged.tested_rate, judged.finding),
                (rate, finding),
                "{places:?}"
            );
        }
    }
}
