//! Shards that come to be while a row runs: the collection begins in one record and is sharded
//! under the writers' hands.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use spikelet::Error;

use super::case::Case;
use super::error::Result;
use super::measure::{TimedWrite, Window, is_known, quantile};
use super::target::Target;

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
pub(super) fn activate(case: &Case, target: &Target, begun: Instant) -> Result<Activation> {
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

/// The writes before, during or after. A percentile is `None` where no write is beyond it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// `before`, `during` or `after`.
    pub(crate) name: String,
    /// How long it was.
    pub(crate) seconds: f64,
    /// Writes that were wanted.
    pub(crate) offered: u64,
    /// Acknowledged writes.
    pub(crate) acked: u64,
    /// Writes that ended with KEY_BUSY.
    pub(crate) key_busy: u64,
    /// `key_busy` / `offered`.
    pub(crate) key_busy_share: f64,
    /// Acknowledgements a second that came while it lasted.
    pub(crate) goodput_per_s: f64,
    /// Median latency of its acknowledged writes.
    pub(crate) p50_us: Option<f64>,
    /// Their 99th percentile.
    pub(crate) p99_us: Option<f64>,
    /// Their 99.9th percentile.
    pub(crate) p999_us: Option<f64>,
    /// The longest latency.
    pub(crate) max_us: Option<f64>,
    /// The mean latency.
    pub(crate) mean_us: Option<f64>,
}

impl Activation {
    /// Keeps the phases apart. A write belongs to "during" if any part of its time does: from when
    /// it was wanted until it was acknowledged.
    pub(super) fn phases(&self, writes: &[TimedWrite], window: Window) -> Vec<Phase> {
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let within = |at_ns: u64| at_ns.clamp(window.from_ns, window.to_ns);
        let (began, ended) = (within(nanos(self.began_s)), within(nanos(self.ended_s)));
        let phase_of = |write: &TimedWrite| match write {
            write if write.wanted_ns >= ended => 2,
            write if write.acked_ns.unwrap_or(write.wanted_ns) < began => 0,
            _ => 1,
        };
        let spans = [
            (window.from_ns, began),
            (began, ended),
            (ended, window.to_ns),
        ];
        ["before", "during", "after"]
            .into_iter()
            .zip(spans)
            .enumerate()
            .map(|(place, (name, span))| {
                let of = writes.iter().filter(|write| phase_of(write) == place);
                let done = writes.iter().filter_map(|write| write.acked_ns);
                let done = done.filter(|at| (span.0..span.1).contains(at)).count();
                phase(name, span, of, done)
            })
            .collect()
    }
}

/// Adds up the writes of a phase. `done`: acknowledgements that came while it lasted.
fn phase<'w>(
    name: &str,
    (from_ns, to_ns): (u64, u64),
    writes: impl Iterator<Item = &'w TimedWrite>,
    done: usize,
) -> Phase {
    let (mut offered, mut key_busy, mut latencies) = (0, 0, Vec::new());
    for write in writes {
        offered += 1;
        key_busy += u64::from(write.is_busy);
        latencies.extend(write.acked_ns.map(|at| at.saturating_sub(write.wanted_ns)));
    }
    let at = |share: f64| {
        let known = quantile(&latencies, share).filter(|_| is_known(latencies.len() as u64, share));
        known.map(|nanos| nanos as f64 / 1e3)
    };
    let seconds = to_ns.saturating_sub(from_ns) as f64 / 1e9;
    Phase {
        name: name.to_owned(),
        seconds,
        offered,
        acked: latencies.len() as u64,
        key_busy,
        key_busy_share: key_busy as f64 / offered.max(1) as f64,
        goodput_per_s: if seconds > 0.0 {
            done as f64 / seconds
        } else {
            0.0
        },
        p50_us: at(0.5),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: latencies.iter().max().map(|nanos| *nanos as f64 / 1e3),
        mean_us: (!latencies.is_empty())
            .then(|| latencies.iter().sum::<u64>() as f64 / latencies.len() as f64 / 1e3),
    }
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
        let window = Window {
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
                acked_ns: (!is_busy).then_some(wanted_ns + takes * 1_000_000),
                is_busy,
            }
        };
        let writes: Vec<TimedWrite> = (0..500).map(write).collect();
        let phases = activation.phases(&writes, window);
        let found: Vec<_> = phases
            .iter()
            .map(|phase| {
                (
                    phase.name.as_str(),
                    phase.offered,
                    phase.key_busy,
                    phase.p99_us,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("before", 190, 90, Some(100_000.0)),
                ("during", 110, 0, Some(100_000.0)),
                ("after", 200, 0, Some(1_000.0)),
            ]
        );
        assert_eq!(phases.iter().map(|phase| phase.seconds).sum::<f64>(), 5.0);
        assert!(
            phases.iter().all(|phase| phase.p999_us.is_none()),
            "too few: {phases:?}"
        );
        assert!((phases[2].goodput_per_s - 104.5).abs() < 6.0, "{phases:?}");
    }
}
