//! A row of the report: a case and what it has measured, as JSON has it.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::case::{Case, Load};
use super::layout::Layout;
use super::ledger::Correctness;
use super::measure::{Tally, Window, quantile};
use super::simulate::KEY_BUSY;
use super::theory;

/// The columns of a row. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `open` or `closed`.
    #[serde(rename = "loop")]
    pub kind: String,
    /// Writes a second that were meant to come; none in a closed loop.
    pub rate: Option<f64>,
    /// Into which records: a number of shards, or a name such as `hourly`.
    pub shards: Shards,
    /// Writers of a closed loop; the threads of an open one on the engine.
    pub writers: Option<u64>,
    /// Whether the holds of this row are simulated ones.
    pub simulated_hold: bool,
    /// Writes that were wanted.
    pub offered: u64,
    /// Those that were acknowledged.
    pub acked: u64,
    /// Those that ended with KEY_BUSY.
    pub key_busy: u64,
    /// `key_busy` / `offered`.
    pub key_busy_share: f64,
    /// Writes a second that were meant, or were sent in a closed loop.
    pub offered_per_s: f64,
    /// Acknowledgements a second, within the time.
    pub goodput_per_s: f64,
    /// Of the acknowledged, from the intended time on.
    pub p50_us: f64,
    /// The same.
    pub p99_us: f64,
    /// The same.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// Of the acknowledged, from the time they were really sent for the last time.
    pub service_p50_us: f64,
    /// The same.
    pub service_p99_us: f64,
    /// How long a record was held on average, if it was on purpose.
    pub hold_us: Option<f64>,
    /// How often KEY_BUSY was told, retries included.
    pub refusals: u64,
    /// How often a refused write was tried again.
    pub retries: u64,
    /// Writes that failed in the end, by result code.
    pub errors: BTreeMap<u8, u64>,
    /// Writes that the harness sent more than a millisecond late.
    pub sent_late: u64,
    /// Acknowledged writes that are not there.
    pub lost: u64,
    /// Writes that are there twice, or without having been acknowledged.
    pub duplicates: u64,
    /// Acknowledged writes that a read right afterwards did not show.
    pub invisible: u64,
    /// Acknowledged writes, those while warming up included.
    pub acknowledged_in_all: u64,
    /// How many of them were found.
    pub found: u64,
    /// How many were read back right after their acknowledgement.
    pub read_back: u64,
    /// What queueing theory expects of KEY_BUSY, as a share; only of one hot key, without retries, where writes choose their
    /// shards at random.
    pub expected_key_busy_share: Option<f64>,
    /// What it expects of the mean latency.
    pub expected_mean_us: Option<f64>,
}

/// Into which records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Shards {
    /// So many, by hash.
    Hashed(u32),
    /// By time: `hourly`, `daily+8`.
    Named(String),
}

impl Shards {
    fn of(layout: Layout) -> Self {
        match layout {
            Layout::Hashed(shards) => Self::Hashed(shards),
            named => Self::Named(named.to_string()),
        }
    }
}

impl std::fmt::Display for Shards {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Hashed(shards) => shards.fmt(out),
            Self::Named(name) => name.fmt(out),
        }
    }
}

/// A row with what does not go into a table.
#[derive(Debug)]
pub struct Measured {
    /// What was measured.
    pub case: Case,
    /// The figures.
    pub row: Row,
    /// Acknowledged = found?
    pub correctness: Correctness,
    /// Latencies of the acknowledged from the intended time on, in nanoseconds.
    pub latency: Histogram<u64>,
    /// How shards came to be while the row ran.
    pub activation: Option<Activation>,
    /// The row in time; empty unless shards were activated while it ran.
    pub timeline: Vec<Moment>,
}

/// A piece of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// Its beginning, in seconds from that of the row.
    pub at_s: f64,
    /// Writes a second that were wanted in it.
    pub offered_per_s: f64,
    /// Acknowledgements a second.
    pub goodput_per_s: f64,
    /// KEY_BUSY a second.
    pub key_busy_per_s: f64,
    /// Of the writes that were wanted in it; none if none was acknowledged.
    pub p50_us: Option<f64>,
    /// The same.
    pub p99_us: Option<f64>,
    /// How many shards take the writes.
    pub shards: u32,
}

impl Row {
    /// Whether this is the row of such a case, with whatever settings.
    pub(super) fn is_of(&self, case: &Case) -> bool {
        let is_same_load = match case.load {
            Load::Open { rate } => self.rate == Some(rate),
            Load::Closed { writers } => self.rate.is_none() && self.writers == Some(writers as u64),
        };
        is_same_load && self.shards == Shards::of(case.layout)
    }

    /// Whether this is the row of this rate or number of writers, in any layout.
    #[must_use]
    pub fn has_load_of(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.rate == other.rate
            && (self.rate.is_some() || self.writers == other.writers)
    }

    pub(super) fn new(
        case: &Case,
        window: Window,
        tally: &Tally,
        correctness: &Correctness,
        threads: Option<usize>,
        hold_us: Option<f64>,
    ) -> Self {
        let settings = &case.settings;
        let (kind, rate, writers) = match case.load {
            Load::Open { rate } => ("open", Some(rate), threads),
            Load::Closed { writers } => ("closed", None, Some(writers)),
        };
        let key_busy = tally.errors.get(&KEY_BUSY).copied().unwrap_or(0);
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        // A histogram answers with the upper end of a bucket: what nobody took is no percentile.
        let at = |histogram: &Histogram<u64>, quantile| {
            micros(
                histogram
                    .value_at_quantile(quantile)
                    .min(tally.latency_ns_max),
            )
        };
        let is_plain = settings.hot_keys == 1
            && settings.retries == 0
            && !case.activates()
            && case.is_spread_at_random();
        let expected = rate
            .zip(hold_us)
            .filter(|_| is_plain)
            .and_then(|(rate, hold_us)| {
                let each = rate / f64::from(case.layout.live_shards());
                let load = each * hold_us / 1e6;
                let expected =
                    theory::expected(load, settings.max_waiters(), settings.hold.spread)?;
                Some((expected.busy, expected.mean_holds * hold_us))
            });
        Self {
            kind: kind.to_owned(),
            rate,
            shards: Shards::of(case.layout),
            writers: writers.map(|writers| writers as u64),
            simulated_hold: !settings.hold.mean.is_zero(),
            offered: tally.offered,
            acked: tally.acked,
            key_busy,
            key_busy_share: share(key_busy, tally.offered),
            offered_per_s: tally.offered as f64 / window.seconds(),
            goodput_per_s: tally.acked_in_time as f64 / window.seconds(),
            p50_us: at(&tally.latency, 0.5),
            p99_us: at(&tally.latency, 0.99),
            p999_us: at(&tally.latency, 0.999),
            max_us: micros(tally.latency_ns_max),
            mean_us: rounded(tally.latency_ns_sum / tally.acked.max(1) as f64 / 1e3),
            service_p50_us: at(&tally.service, 0.5),
            service_p99_us: at(&tally.service, 0.99),
            hold_us: hold_us.map(rounded),
            refusals: tally.refusals,
            retries: tally.retries,
            errors: tally.errors.clone(),
            sent_late: tally.sent_late,
            lost: correctness.lost,
            duplicates: correctness.duplicates,
            invisible: correctness.invisible,
            acknowledged_in_all: correctness.acknowledged,
            found: correctness.found,
            read_back: correctness.read_back,
            expected_key_busy_share: expected.map(|(busy, _)| busy),
            expected_mean_us: expected.map(|(_, mean)| rounded(mean)),
        }
    }
}

/// The pieces of a timeline.
pub(super) fn timeline(
    tally: &Tally,
    window: Window,
    activation: Option<&Activation>,
) -> Vec<Moment> {
    let length_s = window.to_ns as f64 / 1e9 / super::measure::SLICES as f64;
    let moment = |(place, slice): (usize, &super::measure::Slice)| {
        let at_s = place as f64 * length_s;
        let is_spread = |activation: &&Activation| activation.ended_s <= at_s;
        let at = |share| quantile(&slice.latencies, share).map(micros);
        Moment {
            at_s,
            offered_per_s: slice.offered as f64 / length_s,
            goodput_per_s: slice.acked as f64 / length_s,
            key_busy_per_s: slice.refusals as f64 / length_s,
            p50_us: at(0.5),
            p99_us: at(0.99),
            shards: activation
                .filter(is_spread)
                .map_or(1, |activation| activation.shards),
        }
    };
    tally.slices.iter().enumerate().map(moment).collect()
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// To a thousandth.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
