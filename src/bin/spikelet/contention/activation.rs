//! Shards that come to be while a row runs: the collection begins in one record and is sharded
//! under the writers' hands.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use spikelet::Error;

use super::case::Case;
use super::error::Result;
use super::measure::{Figures, MeasuredWindow, Tally, TimedWrite, micros, quantile};
use super::simulate::KEY_BUSY;
use super::target::HotTarget;

/// The pause before a refused activation is tried again.
const PAUSE: Duration = Duration::from_millis(1);

/// How the activation went. Times are in seconds from the beginning of the row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Activation {
    /// When it began.
    pub(crate) began_s: f64,
    /// When all collections were sharded.
    pub(crate) ended_s: f64,
    /// Over how many shards each.
    pub(crate) shards: u32,
    /// How often the one who began it was refused and came again; writers help on their own.
    pub(crate) refused: u64,
}

/// Activates the collection of every hot key.
///
/// # Errors
/// What the store answers, unless another caller has activated the collection first.
pub(super) fn activate(case: &Case, target: &HotTarget, begun: Instant) -> Result<Activation> {
    let began_s = begun.elapsed().as_secs_f64();
    let shards = case.layout.live_shards();
    let mut refused = 0;
    for collection in target.collections() {
        loop {
            match collection.activate(shards) {
                Ok(found) if found == u64::from(shards) => break,
                Ok(_) | Err(Error::KeyBusy { .. }) => refused += 1,
                Err(error) => return Err(error.into()),
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(Activation {
        began_s,
        ended_s: begun.elapsed().as_secs_f64(),
        shards,
        refused,
    })
}

/// The writes before, during or after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// `before`, `during` or `after`.
    pub(crate) name: String,
    /// How long it was.
    pub(crate) seconds: f64,
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

impl Activation {
    /// Keeps the phases apart. A write belongs to "during" if any part of its time does: from when
    /// it was wanted until it was acknowledged.
    pub(super) fn phases(&self, writes: &[TimedWrite], window: MeasuredWindow) -> Vec<Phase> {
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let within = |at_ns: u64| at_ns.clamp(window.from_ns, window.to_ns);
        let (began, ended) = (within(nanos(self.began_s)), within(nanos(self.ended_s)));
        let phase_of = |write: &TimedWrite| match write {
            write if write.wanted_ns >= ended => 2,
            write if write.ended.unwrap_or(write.wanted_ns) < began => 0,
            _ => 1,
        };
        let spans = [
            (window.from_ns, began),
            (began, ended),
            (ended, window.to_ns),
        ];
        let counted = || {
            writes
                .iter()
                .filter(|write| window.contains(write.wanted_ns))
        };
        let names = ["before", "during", "after"];
        let phase = |place: usize, name: &str, (from_ns, to_ns)| {
            let span = MeasuredWindow { from_ns, to_ns };
            let mut tally = Tally::new();
            for write in counted() {
                let done = write.ended.is_ok_and(|at_ns| span.contains(at_ns));
                tally.acked_in_time += u64::from(done);
                match (write.ended, write.latency_ns()) {
                    _ if phase_of(write) != place => {}
                    (_, Some(latency)) => tally.acknowledge(latency, latency),
                    (ended, None) => tally.fail(ended.err().unwrap_or_default()),
                }
            }
            Phase {
                name: name.to_owned(),
                seconds: span.seconds(),
                figures: Figures::of(&tally, span.seconds()),
            }
        };
        let parts = names.into_iter().zip(spans).enumerate();
        parts
            .map(|(place, (name, span))| phase(place, name, span))
            .collect()
    }
}

/// Slices of a timeline.
const SLICES: u64 = 60;

/// A piece of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Moment {
    /// Its beginning, in seconds from that of the row.
    pub(crate) at_s: f64,
    /// Writes a second that were wanted in it.
    pub(crate) offered_per_s: f64,
    /// Acknowledgements a second.
    pub(crate) goodput_per_s: f64,
    /// Writes that were wanted in it and ended with KEY_BUSY, a second.
    pub(crate) key_busy_per_s: f64,
    /// Median latency of the writes that were wanted in it; `None` if none was acknowledged.
    pub(crate) p50_us: Option<f64>,
    /// Their 99th percentile.
    pub(crate) p99_us: Option<f64>,
    /// How many shards take the writes.
    pub(crate) shards: u32,
}

/// Returns the row in time.
pub(super) fn timeline(
    writes: &[TimedWrite],
    window: MeasuredWindow,
    activation: Option<&Activation>,
) -> Vec<Moment> {
    let length_ns = (window.to_ns / SLICES).max(1);
    let moment = |slice: u64| {
        let span = slice * length_ns..(slice + 1) * length_ns;
        let wanted = || {
            writes
                .iter()
                .filter(|write| span.contains(&write.wanted_ns))
        };
        let latencies: Vec<u64> = wanted().filter_map(TimedWrite::latency_ns).collect();
        let acked = |write: &&TimedWrite| write.ended.is_ok_and(|at| span.contains(&at));
        let busy = |write: &&TimedWrite| write.ended == Err(KEY_BUSY);
        let per_s = |count: usize| count as f64 * 1e9 / length_ns as f64;
        let at = |share| quantile(&latencies, share).map(micros);
        let at_s = span.start as f64 / 1e9;
        let is_spread = |activation: &&Activation| activation.ended_s <= at_s;
        Moment {
            at_s,
            offered_per_s: per_s(wanted().count()),
            goodput_per_s: per_s(writes.iter().filter(acked).count()),
            key_busy_per_s: per_s(wanted().filter(busy).count()),
            p50_us: at(0.5),
            p99_us: at(0.99),
            shards: activation.filter(is_spread).map_or(1, |made| made.shards),
        }
    };
    (0..SLICES).map(moment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_before_during_or_after_and_no_figure_mixes_them() {
        let activation = Activation {
            began_s: 2.0,
            ended_s: 3.0,
            shards: 8,
            refused: 0,
        };
        let window = MeasuredWindow {
            from_ns: 0,
            to_ns: 5_000_000_000,
        };
        // 100 writes a second; each takes 100 ms before the end of the activation and 1 ms after
        // it, and each second one of the first two seconds is refused.
        let write = |n: u64| {
            let wanted_ns = n * 10_000_000;
            let takes = if wanted_ns < 3_000_000_000 { 100 } else { 1 };
            let is_busy = wanted_ns < 1_800_000_000 && n.is_multiple_of(2);
            TimedWrite {
                wanted_ns,
                ended: if is_busy {
                    Err(KEY_BUSY)
                } else {
                    Ok(wanted_ns + takes * 1_000_000)
                },
            }
        };
        let writes: Vec<TimedWrite> = (0..500).map(write).collect();
        let phases = activation.phases(&writes, window);
        let found: Vec<_> = phases
            .iter()
            .map(|phase| {
                (
                    phase.name.as_str(),
                    phase.figures.offered,
                    phase.figures.key_busy,
                    phase.figures.p99_us,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("before", 190, 90, 100_000.0),
                ("during", 110, 0, 100_000.0),
                ("after", 200, 0, 1_000.0),
            ]
        );
        assert_eq!(phases.iter().map(|phase| phase.seconds).sum::<f64>(), 5.0);
        assert!(
            phases.iter().all(|phase| phase.figures.p999_us.is_nan()),
            "too few: {phases:?}"
        );
        assert!(
            (phases[2].figures.goodput_per_s - 104.5).abs() < 6.0,
            "{phases:?}"
        );
    }

    #[test]
    fn a_timeline_has_each_write_in_its_slices() {
        let slice = 1_000_000;
        let window = MeasuredWindow {
            from_ns: slice,
            to_ns: SLICES * slice,
        };
        let write = |wanted_ns, ended| TimedWrite { wanted_ns, ended };
        let writes = [
            write(slice + 1, Ok(3 * slice + 1)),
            write(2 * slice, Err(KEY_BUSY)),
            write(2 * slice, Err(9)),
        ];
        let moments = timeline(&writes, window, None);
        let rates: Vec<_> = moments[..4]
            .iter()
            .map(|one| (one.offered_per_s, one.goodput_per_s, one.key_busy_per_s))
            .collect();
        let expected = [
            (0.0, 0.0, 0.0),
            (1e3, 0.0, 0.0),
            (2e3, 0.0, 1e3),
            (0.0, 1e3, 0.0),
        ];
        assert_eq!((rates, moments.len()), (expected.to_vec(), 60));
        assert_eq!((moments[1].p99_us, moments[2].p99_us), (Some(2e3), None));
    }
}
