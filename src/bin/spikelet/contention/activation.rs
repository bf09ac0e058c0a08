//! Shards that come to be while a row runs: the collection begins in one record and is sharded
//! under the writers' hands.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use spikelet::Error;

use super::case::Case;
use super::measure::{Figures, MeasuredWindow, Tally, TimedWrite};
use super::target::HotTarget;
use crate::failure::Result;

/// The pause before a refused activation is tried again.
const PAUSE: Duration = Duration::from_millis(1);

/// How the activation went. Times are in seconds from the beginning of the row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    for collection in &target.collections {
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
        let within = |seconds: f64| ((seconds * 1e9) as u64).clamp(window.from_ns, window.to_ns);
        let (began, ended) = (within(self.began_s), within(self.ended_s));
        let phase_of = |write: &TimedWrite| match write {
            write if write.wanted_ns >= ended => "after",
            write if write.ended.unwrap_or(write.wanted_ns) < began => "before",
            _ => "during",
        };
        let spans = [
            ("before", window.from_ns, began),
            ("during", began, ended),
            ("after", ended, window.to_ns),
        ];
        let phase = |(name, from_ns, to_ns): (&str, u64, u64)| {
            let span = MeasuredWindow { from_ns, to_ns };
            let is_in =
                |write: &TimedWrite| window.contains(write.wanted_ns) && phase_of(write) == name;
            Phase {
                name: name.to_owned(),
                seconds: span.seconds(),
                figures: figures(writes, span, is_in),
            }
        };
        spans.into_iter().map(phase).collect()
    }
}

/// Returns the figures of the writes that belong to a span; its goodput is of all
/// acknowledgements within it.
fn figures(
    writes: &[TimedWrite],
    span: MeasuredWindow,
    belongs: impl Fn(&TimedWrite) -> bool,
) -> Figures {
    let mut tally = Tally::new();
    for write in writes {
        let is_acked_within = write.ended.is_ok_and(|at_ns| span.contains(at_ns));
        tally.acked_in_time += u64::from(is_acked_within);
        match write.ended {
            _ if !belongs(write) => {}
            Ok(acked_ns) => {
                let latency = acked_ns.saturating_sub(write.wanted_ns);
                tally.acknowledge(latency, latency);
            }
            Err(code) => tally.fail(code),
        }
    }
    Figures::of(&tally, span.seconds())
}

/// Slices of a timeline.
const SLICES: u64 = 60;

/// A slice of a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Moment {
    /// Its beginning, in seconds from that of the row.
    pub(crate) at_s: f64,
    /// How many shards take the writes.
    pub(crate) shards: u32,
    /// The writes that were wanted in it.
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// Returns the row in time.
pub(super) fn timeline(
    writes: &[TimedWrite],
    window: MeasuredWindow,
    activation: &Activation,
) -> Vec<Moment> {
    let length_ns = (window.to_ns / SLICES).max(1);
    let moment = |slice: u64| {
        let (from_ns, to_ns) = (slice * length_ns, (slice + 1) * length_ns);
        let span = MeasuredWindow { from_ns, to_ns };
        let at_s = from_ns as f64 / 1e9;
        Moment {
            at_s,
            shards: if activation.ended_s <= at_s {
                activation.shards
            } else {
                1
            },
            figures: figures(writes, span, |write| span.contains(write.wanted_ns)),
        }
    };
    (0..SLICES).map(moment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::simulate::KEY_BUSY;

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
        let activation = Activation {
            began_s: 0.001,
            ended_s: 0.002,
            shards: 8,
            refused: 0,
        };
        let moments = timeline(&writes, window, &activation);
        let shards: Vec<u32> = moments[..4].iter().map(|one| one.shards).collect();
        assert_eq!(shards, [1, 1, 8, 8]);
        let figures: Vec<&Figures> = moments.iter().map(|one| &one.figures).collect();
        let rates: Vec<_> = figures[..4]
            .iter()
            .map(|one| (one.offered_per_s, one.goodput_per_s, one.key_busy_share))
            .collect();
        let expected = [
            (0.0, 0.0, 0.0),
            (1e3, 0.0, 0.0),
            (2e3, 0.0, 0.5),
            (0.0, 1e3, 0.0),
        ];
        assert_eq!((rates, moments.len()), (expected.to_vec(), 60));
        assert!(figures[1].max_us == 2e3 && figures[2].max_us.is_nan());
    }
}
