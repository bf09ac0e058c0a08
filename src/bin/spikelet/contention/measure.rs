//! The counts and latencies of a row.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize};

use super::simulate::KEY_BUSY;

/// Significant decimal digits of latencies.
const DIGITS: u8 = 3;
/// Longer ones count as this one: 1,000 s.
const LATENCY_NS_MAX: u64 = 1_000_000_000_000;
/// A write that is sent later than planned by more than this is late, in nanoseconds.
const LATE_NS: u64 = 1_000_000;

/// A histogram of latencies in nanoseconds.
#[expect(
    clippy::expect_used,
    reason = "both limits are constants, and possible"
)]
fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_NS_MAX, DIGITS).expect("a quarter of an hour in nanoseconds")
}

/// The stretch of a row that is measured: writes that are wanted in it count.
#[derive(Clone, Copy, Debug)]
pub(super) struct MeasuredWindow {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

impl MeasuredWindow {
    pub(super) fn contains(self, at_ns: u64) -> bool {
        (self.from_ns..self.to_ns).contains(&at_ns)
    }

    pub(super) fn seconds(self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }
}

/// Counts the fates of the writes that are wanted in a window. Times are in nanoseconds from the
/// beginning of the row.
#[derive(Debug)]
pub(super) struct Recorder {
    window: MeasuredWindow,
    pub(super) tally: Tally,
    /// Each write on its own, of a row with a timeline, those while warming up included.
    pub(super) timeline: Option<Vec<TimedWrite>>,
}

/// Counts and latencies.
#[derive(Debug)]
pub(super) struct Tally {
    /// Writes that were wanted.
    pub(super) offered: u64,
    /// Acknowledgements that came within the time, whenever the write was wanted.
    pub(super) acked_in_time: u64,
    /// Writes that failed in the end, by result code.
    pub(super) errors: BTreeMap<u8, u64>,
    /// Refusals (KEY_BUSY), also of writes that were retried.
    pub(super) refusals: u64,
    /// How often a refused write was tried again.
    pub(super) retries: u64,
    /// Acknowledged writes, from the time they were wanted, in nanoseconds.
    pub(super) latency: Histogram<u64>,
    /// Acknowledged writes, from the time they were sent, in nanoseconds.
    pub(super) service: Histogram<u64>,
    latency_ns_max: u64,
    latency_ns_sum: f64,
    /// Writes that were sent late, because the harness was busy: by more than a millisecond.
    pub(super) sent_late: u64,
    /// How late writes were sent, in nanoseconds.
    pub(super) lateness: Histogram<u64>,
}

/// A write of a row with a timeline. Times are in nanoseconds from the beginning of the row.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedWrite {
    /// When it was meant to be sent.
    pub(super) wanted_ns: u64,
    /// When it was acknowledged, or the result code with which it failed.
    pub(super) ended: Result<u64, u8>,
}

impl Recorder {
    /// Returns an empty recorder. With `timeline`, it also keeps each write.
    pub(super) fn new(window: MeasuredWindow, timeline: bool) -> Self {
        Self {
            window,
            tally: Tally::new(),
            timeline: timeline.then(Vec::new),
        }
    }

    fn keep(&mut self, wanted_ns: u64, ended: Result<u64, u8>) {
        if let Some(writes) = &mut self.timeline {
            writes.push(TimedWrite { wanted_ns, ended });
        }
    }

    /// Records an acknowledged write.
    pub(super) fn acknowledged(&mut self, wanted_ns: u64, sent_ns: u64, done_ns: u64) {
        self.keep(wanted_ns, Ok(done_ns));
        self.tally.acked_in_time += u64::from(self.window.contains(done_ns));
        if self.window.contains(wanted_ns) {
            let [latency, service] = [wanted_ns, sent_ns].map(|from| done_ns.saturating_sub(from));
            self.tally.acknowledge(latency, service);
        }
    }

    /// Records a write that failed for good.
    pub(super) fn failed(&mut self, wanted_ns: u64, code: u8) {
        self.keep(wanted_ns, Err(code));
        if self.window.contains(wanted_ns) {
            self.tally.fail(code);
        }
    }

    /// Records a refusal (KEY_BUSY). `again`: the write is tried once more; otherwise it has
    /// failed.
    pub(super) fn refused(&mut self, wanted_ns: u64, again: bool) {
        if self.window.contains(wanted_ns) {
            self.tally.refusals += 1;
            self.tally.retries += u64::from(again);
        }
        if !again {
            self.failed(wanted_ns, KEY_BUSY);
        }
    }

    /// Records that a write was sent.
    pub(super) fn sent(&mut self, wanted_ns: u64, sent_ns: u64) {
        if self.window.contains(wanted_ns) {
            let late_ns = sent_ns.saturating_sub(wanted_ns);
            self.tally.sent_late += u64::from(late_ns > LATE_NS);
            self.tally.lateness.saturating_record(late_ns);
        }
    }
}

impl Tally {
    pub(super) fn new() -> Self {
        Self {
            offered: 0,
            acked_in_time: 0,
            errors: BTreeMap::new(),
            refusals: 0,
            retries: 0,
            latency: histogram(),
            service: histogram(),
            latency_ns_max: 0,
            latency_ns_sum: 0.0,
            sent_late: 0,
            lateness: histogram(),
        }
    }

    pub(super) fn acknowledge(&mut self, latency_ns: u64, service_ns: u64) {
        self.offered += 1;
        self.latency.saturating_record(latency_ns);
        self.service.saturating_record(service_ns);
        self.latency_ns_max = self.latency_ns_max.max(latency_ns);
        self.latency_ns_sum += latency_ns as f64;
    }

    pub(super) fn fail(&mut self, code: u8) {
        self.offered += 1;
        *self.errors.entry(code).or_default() += 1;
    }

    /// Adds the counts of another row.
    pub(super) fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.acked_in_time += other.acked_in_time;
        for (code, count) in &other.errors {
            *self.errors.entry(*code).or_default() += count;
        }
        self.refusals += other.refusals;
        self.retries += other.retries;
        // All histograms have the same range.
        let _ = self.latency.add(&other.latency);
        let _ = self.service.add(&other.service);
        let _ = self.lateness.add(&other.lateness);
        self.latency_ns_max = self.latency_ns_max.max(other.latency_ns_max);
        self.latency_ns_sum += other.latency_ns_sum;
        self.sent_late += other.sent_late;
    }

    /// Returns a quantile of one of the histograms, in microseconds; NaN where no write is beyond
    /// it. A histogram answers with the upper end of a bucket: a time that no write took is none.
    pub(super) fn micros_at(&self, histogram: &Histogram<u64>, quantile: f64) -> f64 {
        if !is_known(histogram.len(), quantile) && (quantile > 0.5 || histogram.is_empty()) {
            return f64::NAN;
        }
        micros(
            histogram
                .value_at_quantile(quantile)
                .min(self.latency_ns_max),
        )
    }
}

/// The figures of a row, of a phase of it, or of one repeat. Times are in microseconds from the
/// intended time on; NaN, and null in JSON, where no write is beyond a percentile, or none was
/// acknowledged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Writes that were wanted.
    pub(crate) offered: u64,
    /// Acknowledged writes.
    pub(crate) acked: u64,
    /// Writes that ended with KEY_BUSY.
    pub(crate) key_busy: u64,
    /// `key_busy` / `offered`.
    pub(crate) key_busy_share: f64,
    /// Writes a second that were meant, or were sent in a closed loop.
    pub(crate) offered_per_s: f64,
    /// Acknowledgements a second, within the time.
    pub(crate) goodput_per_s: f64,
    /// Median latency of acknowledged writes.
    #[serde(deserialize_with = "nan_if_null")]
    pub(crate) p50_us: f64,
    /// Their 99th percentile.
    #[serde(deserialize_with = "nan_if_null")]
    pub(crate) p99_us: f64,
    /// The interval of the percentile, with a confidence of 95 in 100, going by the number of
    /// writes alone.
    pub(crate) p99_interval_us: Option<(f64, f64)>,
    /// Their 99.9th percentile.
    #[serde(deserialize_with = "nan_if_null")]
    pub(crate) p999_us: f64,
    /// The longest latency.
    #[serde(deserialize_with = "nan_if_null")]
    pub(crate) max_us: f64,
    /// The mean latency.
    #[serde(deserialize_with = "nan_if_null")]
    pub(crate) mean_us: f64,
}

impl Figures {
    pub(super) fn of(tally: &Tally, seconds: f64) -> Self {
        let acked = tally.latency.len();
        let key_busy = tally.errors.get(&KEY_BUSY).copied().unwrap_or(0);
        let at = |quantile| tally.micros_at(&tally.latency, quantile);
        // Of no time there is no rate.
        let rate = |count: u64| {
            count as f64
                / if seconds > 0.0 {
                    seconds
                } else {
                    f64::INFINITY
                }
        };
        let known = |micros: f64| if acked > 0 { micros } else { f64::NAN };
        Self {
            offered: tally.offered,
            acked,
            key_busy,
            key_busy_share: key_busy as f64 / tally.offered.max(1) as f64,
            offered_per_s: rate(tally.offered),
            goodput_per_s: rate(tally.acked_in_time),
            p50_us: at(0.5),
            p99_us: at(0.99),
            p99_interval_us: p99_interval(tally),
            p999_us: at(0.999),
            max_us: known(micros(tally.latency_ns_max)),
            mean_us: known(rounded(tally.latency_ns_sum / acked as f64 / 1e3)),
        }
    }
}

/// Reads a time that is not known.
pub(super) fn nan_if_null<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// Returns the interval of the 99th percentile: that of the ranks which it may have by chance.
fn p99_interval(tally: &Tally) -> Option<(f64, f64)> {
    const SHARE: f64 = 0.99;
    const TWO_SIDED_95: f64 = 1.96;
    let count = tally.latency.len();
    let reach = TWO_SIDED_95 * (SHARE * (1.0 - SHARE) / count as f64).sqrt();
    let at = |share: f64| {
        let nanos = tally.latency.value_at_quantile(share.clamp(0.0, 1.0));
        micros(nanos.min(tally.latency_ns_max))
    };
    is_known(count, SHARE).then(|| (at(SHARE - reach), at(SHARE + reach)))
}

pub(super) fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// Rounds to a thousandth.
pub(super) fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Returns whether a sample is large enough for this quantile: at least one value is beyond it.
pub(super) fn is_known(count: u64, quantile: f64) -> bool {
    count as f64 * (1.0 - quantile) >= 1.0 - 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: MeasuredWindow = MeasuredWindow {
        from_ns: 1_000_000_000,
        to_ns: 2_000_000_000,
    };

    #[test]
    fn what_is_wanted_while_warming_up_or_after_the_end_does_not_count() {
        let mut recorder = Recorder::new(WINDOW, false);
        for wanted in [0, 999_999_999, 1_000_000_000, 1_999_999_999, 2_000_000_000] {
            recorder.acknowledged(wanted, wanted + 2, wanted + 5);
            recorder.refused(wanted, false);
        }
        let tally = &recorder.tally;
        assert_eq!(
            (tally.offered, tally.latency.len(), tally.refusals),
            (4, 2, 2)
        );
        assert_eq!(tally.errors, BTreeMap::from([(14, 2)]));
        // The one that was acknowledged beyond the end is no throughput, the one from before the
        // beginning is.
        assert_eq!(tally.acked_in_time, 2);
        assert_eq!((tally.latency_ns_max, tally.latency.max()), (5, 5));
        assert_eq!(tally.service.max(), 3);
    }

    #[test]
    fn recorders_add_up() {
        let mut all = Tally::new();
        for _ in 0..3 {
            let mut one = Recorder::new(WINDOW, false);
            one.acknowledged(1_500_000_000, 1_502_000_000, 1_503_000_000);
            one.sent(1_500_000_000, 1_502_000_000);
            one.failed(1_500_000_000, 9);
            all.add(&one.tally);
        }
        assert_eq!((all.offered, all.sent_late), (6, 3));
        assert_eq!((all.latency.len(), all.errors[&9]), (3, 3));
        assert!((all.latency_ns_sum - 9e6).abs() < 1.0);
    }
}
