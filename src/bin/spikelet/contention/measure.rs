//! The counts and latencies of a row.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

/// Significant decimal digits of latencies.
const DIGITS: u8 = 3;
/// Longer ones count as this one: 1,000 s.
const LATENCY_NS_MAX: u64 = 1_000_000_000_000;
/// Slices of a timeline.
pub(super) const SLICES: u64 = 60;

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
pub(super) struct Window {
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

impl Window {
    fn contains(self, at_ns: u64) -> bool {
        (self.from_ns..self.to_ns).contains(&at_ns)
    }

    pub(super) fn seconds(self) -> f64 {
        self.to_ns.saturating_sub(self.from_ns) as f64 / 1e9
    }
}

/// Counts the fates of writes. Times are in nanoseconds from the beginning of the row.
#[derive(Debug)]
pub(super) struct Recorder {
    window: Window,
    pub(super) tally: Tally,
}

/// Counts and latencies.
#[derive(Debug)]
pub(super) struct Tally {
    /// Writes that were wanted.
    pub(super) offered: u64,
    /// Acknowledged writes among them.
    pub(super) acked: u64,
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
    pub(super) latency_ns_max: u64,
    pub(super) latency_ns_sum: f64,
    /// Writes that were sent late, because the harness was busy: by more than a millisecond.
    pub(super) sent_late: u64,
    /// How late writes were sent, in nanoseconds.
    pub(super) lateness: Histogram<u64>,
    /// The row, piece by piece.
    pub(super) slices: Vec<Slice>,
    /// Each write on its own, of a row with a timeline.
    pub(super) writes: Vec<TimedWrite>,
}

/// A write of a row with a timeline. Times are in nanoseconds from the beginning of the row.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimedWrite {
    /// When it was meant to be sent.
    pub(super) wanted_ns: u64,
    /// When it was acknowledged; `None`: it failed.
    pub(super) acked_ns: Option<u64>,
    /// Whether it ended with KEY_BUSY.
    pub(super) is_busy: bool,
}

/// A piece of the time of a row.
#[derive(Clone, Debug, Default)]
pub(super) struct Slice {
    pub(super) offered: u64,
    pub(super) acked: u64,
    pub(super) refusals: u64,
    /// Of the writes that were wanted in it, in nanoseconds.
    pub(super) latencies: Vec<u64>,
}

/// A write that is sent later than planned by more than this is late, in nanoseconds.
const LATE_NS: u64 = 1_000_000;

impl Recorder {
    /// Returns an empty recorder. With `timeline`, it also keeps latencies slice by slice.
    pub(super) fn new(window: Window, timeline: bool) -> Self {
        let slices = if timeline { SLICES as usize } else { 0 };
        Self {
            window,
            tally: Tally {
                offered: 0,
                acked: 0,
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
                slices: vec![Slice::default(); slices],
                writes: Vec::new(),
            },
        }
    }

    /// Keeps a write that is wanted in time, if there is a timeline.
    fn keep(&mut self, write: TimedWrite) {
        if !self.tally.slices.is_empty() && self.window.contains(write.wanted_ns) {
            self.tally.writes.push(write);
        }
    }

    fn slice(&mut self, at_ns: u64) -> Option<&mut Slice> {
        let length = (self.window.to_ns / SLICES).max(1);
        self.tally.slices.get_mut((at_ns / length) as usize)
    }

    /// Records an acknowledged write.
    pub(super) fn acknowledged(&mut self, wanted_ns: u64, sent_ns: u64, done_ns: u64) {
        let latency = done_ns.saturating_sub(wanted_ns);
        if let Some(slice) = self.slice(wanted_ns) {
            slice.offered += 1;
            slice.latencies.push(latency);
        }
        if let Some(slice) = self.slice(done_ns) {
            slice.acked += 1;
        }
        self.keep(TimedWrite {
            wanted_ns,
            acked_ns: Some(done_ns),
            is_busy: false,
        });
        let in_time = self.window.contains(done_ns);
        let counts = self.window.contains(wanted_ns);
        let tally = &mut self.tally;
        tally.acked_in_time += u64::from(in_time);
        if !counts {
            return;
        }
        tally.offered += 1;
        tally.acked += 1;
        tally.latency.saturating_record(latency);
        tally
            .service
            .saturating_record(done_ns.saturating_sub(sent_ns));
        tally.latency_ns_max = tally.latency_ns_max.max(latency);
        tally.latency_ns_sum += latency as f64;
    }

    /// Records a write that failed for good.
    pub(super) fn failed(&mut self, wanted_ns: u64, code: u8) {
        if let Some(slice) = self.slice(wanted_ns) {
            slice.offered += 1;
        }
        self.keep(TimedWrite {
            wanted_ns,
            acked_ns: None,
            is_busy: code == super::simulate::KEY_BUSY,
        });
        if self.window.contains(wanted_ns) {
            self.tally.offered += 1;
            *self.tally.errors.entry(code).or_default() += 1;
        }
    }

    /// Records a refusal (KEY_BUSY). `again`: the write is tried once more.
    pub(super) fn refused(&mut self, wanted_ns: u64, now_ns: u64, again: bool) {
        if let Some(slice) = self.slice(now_ns) {
            slice.refusals += 1;
        }
        if self.window.contains(wanted_ns) {
            self.tally.refusals += 1;
            self.tally.retries += u64::from(again);
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

    /// Adds the counts of another recorder of the same window.
    pub(super) fn add(&mut self, other: Self) {
        self.tally.add(&other.tally);
    }
}

impl Tally {
    /// Adds the counts of another row, but for its timeline.
    pub(super) fn add(&mut self, other: &Self) {
        let tally = self;
        tally.offered += other.offered;
        tally.acked += other.acked;
        tally.acked_in_time += other.acked_in_time;
        for (code, count) in &other.errors {
            *tally.errors.entry(*code).or_default() += count;
        }
        tally.refusals += other.refusals;
        tally.retries += other.retries;
        // All histograms have the same range.
        let _ = tally.latency.add(&other.latency);
        let _ = tally.service.add(&other.service);
        let _ = tally.lateness.add(&other.lateness);
        tally.latency_ns_max = tally.latency_ns_max.max(other.latency_ns_max);
        tally.latency_ns_sum += other.latency_ns_sum;
        tally.sent_late += other.sent_late;
    }
}

/// Returns whether a sample is large enough for this quantile: at least one value is beyond it.
pub(super) fn is_known(count: u64, quantile: f64) -> bool {
    count as f64 * (1.0 - quantile) >= 1.0 - 1e-9
}

/// Returns the least value that this share of the values do not exceed; `None` of no values.
pub(super) fn quantile(values: &[u64], share: f64) -> Option<u64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        from_ns: 1_000_000_000,
        to_ns: 2_000_000_000,
    };

    #[test]
    fn what_is_wanted_while_warming_up_or_after_the_end_does_not_count() {
        let mut recorder = Recorder::new(WINDOW, false);
        for wanted in [0, 999_999_999, 1_000_000_000, 1_999_999_999, 2_000_000_000] {
            recorder.acknowledged(wanted, wanted + 2, wanted + 5);
            recorder.failed(wanted, 14);
            recorder.refused(wanted, wanted, false);
        }
        let tally = &recorder.tally;
        assert_eq!((tally.offered, tally.acked, tally.refusals), (4, 2, 2));
        assert_eq!(tally.errors, BTreeMap::from([(14, 2)]));
        // The one that was acknowledged beyond the end is no throughput, the one from before the
        // beginning is.
        assert_eq!(tally.acked_in_time, 2);
        assert_eq!((tally.latency_ns_max, tally.latency.max()), (5, 5));
        assert_eq!(tally.service.max(), 3);
    }

    #[test]
    fn recorders_add_up() {
        let mut all = Recorder::new(WINDOW, false);
        for _ in 0..3 {
            let mut one = Recorder::new(WINDOW, false);
            one.acknowledged(1_500_000_000, 1_502_000_000, 1_503_000_000);
            one.sent(1_500_000_000, 1_502_000_000);
            one.failed(1_500_000_000, 9);
            all.add(one);
        }
        let tally = all.tally;
        assert_eq!((tally.offered, tally.acked, tally.sent_late), (6, 3, 3));
        assert_eq!((tally.latency.len(), tally.errors[&9]), (3, 3));
        assert!((tally.latency_ns_sum - 9e6).abs() < 1.0);
    }

    #[test]
    fn a_timeline_has_each_event_in_its_slice() {
        let mut recorder = Recorder::new(WINDOW, true);
        let slice = 2_000_000_000 / SLICES;
        recorder.acknowledged(slice + 1, slice + 1, 3 * slice + 1);
        recorder.refused(2 * slice, 2 * slice, false);
        recorder.failed(2 * slice, 14);
        let slices = recorder.tally.slices;
        let counts: Vec<_> = slices[..4]
            .iter()
            .map(|slice| (slice.offered, slice.acked, slice.refusals))
            .collect();
        assert_eq!(counts, [(0, 0, 0), (1, 0, 0), (1, 0, 1), (0, 1, 0)]);
        assert_eq!(quantile(&slices[1].latencies, 0.99), Some(2 * slice));
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        let values: Vec<u64> = (1..=100).rev().collect();
        for (share, value) in [(0.0, 1), (0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100)] {
            assert_eq!(quantile(&values, share), Some(value));
        }
        assert_eq!(quantile(&[], 0.5), None);
    }
}
