//! A row of the report: a case and its measurements, as JSON has it.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::activation::{Activation, Moment, Phase};
use super::case::{Arrivals, Case};
use super::layout::RowLayout;
use super::ledger::Correctness;
use super::measure::{Figures, Tally, micros, nan_if_null, rounded};
use super::theory;

/// A row, as JSON has it. Times are in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReportRow {
    /// `open` or `closed`.
    #[serde(rename = "loop")]
    pub(crate) kind: String,
    /// Writes a second that were meant to come; none in a closed loop.
    pub(crate) rate: Option<f64>,
    /// Into which records: a number of shards, or a name such as `hourly`.
    pub(crate) shards: RowLayout,
    /// Writers of a closed loop; the threads of an open one on the engine.
    pub(crate) writers: Option<u64>,
    /// Whether the holds of this row are simulated ones.
    pub(crate) simulated_hold: bool,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    /// Median time of acknowledged writes from the last time they were sent.
    #[serde(deserialize_with = "nan_if_null")]
    pub(crate) service_p50_us: f64,
    /// The 99th percentile of that time.
    #[serde(deserialize_with = "nan_if_null")]
    pub(crate) service_p99_us: f64,
    /// How long a record was held on average; `None` without simulated holds.
    pub(crate) hold_us: Option<f64>,
    /// Refusals (KEY_BUSY), retried writes included.
    pub(crate) refusals: u64,
    /// How often a refused write was tried again.
    pub(crate) retries: u64,
    /// Writes that failed in the end, by result code.
    pub(crate) errors: BTreeMap<u8, u64>,
    /// Writes that the harness sent more than a millisecond late.
    pub(crate) sent_late: u64,
    /// By how much the latest 1 % of the writes were sent late at least.
    pub(crate) late_p99_us: f64,
    /// The part of the time that the processors of this machine worked, for any program; `None`
    /// of a virtual run, and where the system does not say.
    pub(crate) processors_busy: Option<f64>,
    /// Acknowledged = found?
    #[serde(flatten)]
    pub(crate) correctness: Correctness,
    /// What queueing theory expects of KEY_BUSY, as a share; only of one hot key, without retries,
    /// where writes choose their shards at random.
    pub(crate) expected_key_busy_share: Option<f64>,
    /// What it expects of the mean latency.
    pub(crate) expected_mean_us: Option<f64>,
    /// The repeats that the row is made of.
    pub(crate) repeats: Vec<Figures>,
    /// The row before, during and after its shards were activated; empty if they were not. What
    /// figures above mix the three.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) phases: Vec<Phase>,
    /// How shards were activated while the row ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) activation: Option<Activation>,
    /// The row in time; empty unless shards were activated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) moments: Vec<Moment>,
}

/// A row is above all its figures.
impl Deref for ReportRow {
    type Target = Figures;

    fn deref(&self) -> &Figures {
        &self.figures
    }
}

/// A row with the measurements that do not go into a table.
#[derive(Debug)]
pub(crate) struct Measurement {
    /// The measured case.
    pub(crate) case: Case,
    /// The figures.
    pub(crate) row: ReportRow,
    /// The counts, with the latencies of the acknowledged.
    pub(super) tally: Tally,
    /// How long was measured, in seconds: all repeats together.
    pub(crate) seconds: f64,
    /// Whether it was interrupted.
    pub(crate) is_partial: bool,
    /// The threads of an open loop on the engine.
    pub(super) threads: Option<usize>,
}

impl Measurement {
    /// Joins the repeats of a case to one row; `None` of none. The timeline is that of the first.
    pub(crate) fn join(repeats: Vec<Self>) -> Option<Self> {
        let mut repeats = repeats.into_iter();
        let mut all = repeats.next()?;
        let mut rows = all.row.repeats.clone();
        let mut holds: Vec<f64> = all.row.hold_us.into_iter().collect();
        let mut busy: Vec<f64> = all.row.processors_busy.into_iter().collect();
        for other in repeats {
            all.tally.add(&other.tally);
            all.row.correctness.add(&other.row.correctness);
            all.seconds += other.seconds;
            all.is_partial |= other.is_partial;
            rows.extend(other.row.repeats);
            holds.extend(other.row.hold_us);
            busy.extend(other.row.processors_busy);
        }
        let mean = |values: Vec<f64>| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let (threads, found) = (all.threads, all.row.correctness);
        let row = ReportRow::new(
            &all.case,
            all.seconds,
            &all.tally,
            found,
            threads,
            mean(holds),
        );
        all.row = ReportRow {
            repeats: rows,
            processors_busy: mean(busy),
            phases: all.row.phases,
            activation: all.row.activation,
            moments: all.row.moments,
            ..row
        };
        Some(all)
    }
}

impl ReportRow {
    /// Returns whether this is the row of a case, under any settings.
    pub(super) fn is_of(&self, case: &Case) -> bool {
        let is_same_load = match case.load {
            Arrivals::Open { rate } => self.rate == Some(rate),
            Arrivals::Closed { writers } => {
                self.rate.is_none() && self.writers == Some(writers as u64)
            }
        };
        is_same_load && self.shards == case.layout
    }

    /// Returns whether this row has the same rate or number of writers as another, in any layout.
    pub(crate) fn has_load_of(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.rate == other.rate
            && (self.rate.is_some() || self.writers == other.writers)
    }

    pub(super) fn new(
        case: &Case,
        seconds: f64,
        tally: &Tally,
        correctness: Correctness,
        threads: Option<usize>,
        hold_us: Option<f64>,
    ) -> Self {
        let settings = &case.settings;
        let (kind, rate, writers) = match case.load {
            Arrivals::Open { rate } => ("open", Some(rate), threads),
            Arrivals::Closed { writers } => ("closed", None, Some(writers)),
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
        let figures = Figures::of(tally, seconds);
        Self {
            kind: kind.to_owned(),
            rate,
            shards: case.layout,
            writers: writers.map(|writers| writers as u64),
            simulated_hold: !settings.hold.mean.is_zero(),
            service_p50_us: tally.micros_at(&tally.service, 0.5),
            service_p99_us: tally.micros_at(&tally.service, 0.99),
            hold_us: hold_us.map(rounded),
            refusals: tally.refusals,
            retries: tally.retries,
            errors: tally.errors.clone(),
            sent_late: tally.sent_late,
            late_p99_us: micros(tally.lateness.value_at_quantile(0.99)),
            processors_busy: None,
            correctness,
            expected_key_busy_share: expected.map(|(busy, _)| busy),
            expected_mean_us: expected.map(|(_, mean)| rounded(mean)),
            repeats: vec![figures.clone()],
            phases: Vec::new(),
            activation: None,
            moments: Vec::new(),
            figures,
        }
    }
}
