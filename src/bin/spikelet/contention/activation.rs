//! Shards that come to be while a row runs: the collection begins in one record and is spread under
//! the writers' hands.

use std::time::{Duration, Instant};

use serde::Serialize;
use spikelet::Error;

use super::case::Case;
use super::error::Result;
use super::row::Moment;
use super::target::Target;

/// A refused activation is tried again after so long.
const PAUSE: Duration = Duration::from_millis(1);

/// How the activation went. Times are in seconds from the beginning of the row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Activation {
    /// When it began.
    pub(crate) began_s: f64,
    /// When all collections were spread.
    pub(crate) ended_s: f64,
    /// Over how many shards each.
    pub(crate) shards: u32,
    /// How often the one who began it was refused and came again; writers help on their own.
    pub(crate) refused: u64,
}

/// Waits for its time and spreads the collection of every hot key.
///
/// # Errors
/// What the store answers, unless another caller has activated the collection first.
pub(super) fn activate(case: &Case, target: &Target, begun: Instant) -> Result<Option<Activation>> {
    let Some(at) = case.settings.activate_at.filter(|_| case.activates()) else {
        return Ok(None);
    };
    std::thread::sleep(at.saturating_sub(begun.elapsed()));
    let began_s = begun.elapsed().as_secs_f64();
    let shards = case.layout.live_shards();
    let mut refused = 0;
    for collection in target.collections() {
        loop {
            match collection.spread(shards) {
                Ok(spread) if spread == u64::from(shards) => break,
                Ok(_) | Err(Error::KeyBusy { .. }) => refused += 1,
                Err(error) => return Err(error.into()),
            }
            std::thread::sleep(PAUSE);
        }
    }
    Ok(Some(Activation {
        began_s,
        ended_s: begun.elapsed().as_secs_f64(),
        shards,
        refused,
    }))
}

/// What writers saw before, during and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) seconds: f64,
    pub(super) offered_per_s: f64,
    pub(super) goodput_per_s: f64,
    pub(super) key_busy_per_s: f64,
    /// The median and the greatest of the p99 of its pieces.
    pub(super) p99_us: Option<(f64, f64)>,
}

impl Activation {
    /// Assigns each slice of a timeline to the phase in which it begins; a slice that reaches into
    /// another phase is "during".
    pub(super) fn phases(&self, moments: &[Moment]) -> Vec<Phase> {
        let length_s = match moments {
            [first, second, ..] => second.at_s - first.at_s,
            _ => return Vec::new(),
        };
        let phase = |name, is_in: &dyn Fn(&Moment) -> bool| {
            let of: Vec<&Moment> = moments.iter().filter(|moment| is_in(moment)).collect();
            let count = of.len().max(1) as f64;
            let mean = |read: fn(&Moment) -> f64| {
                of.iter().map(|moment| read(moment)).sum::<f64>() / count
            };
            let mut p99: Vec<f64> = of.iter().filter_map(|moment| moment.p99_us).collect();
            p99.sort_by(f64::total_cmp);
            let median = p99.get(p99.len() / 2).copied();
            Phase {
                name,
                seconds: of.len() as f64 * length_s,
                offered_per_s: mean(|moment| moment.offered_per_s),
                goodput_per_s: mean(|moment| moment.goodput_per_s),
                key_busy_per_s: mean(|moment| moment.key_busy_per_s),
                p99_us: median.zip(p99.last().copied()),
            }
        };
        let is_before = |moment: &Moment| moment.at_s + length_s <= self.began_s;
        let is_after = |moment: &Moment| moment.at_s >= self.ended_s;
        vec![
            phase("before", &is_before),
            phase("during", &|moment| !is_before(moment) && !is_after(moment)),
            phase("after", &is_after),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_of_a_timeline_is_before_during_or_after() {
        let activation = Activation {
            began_s: 2.5,
            ended_s: 3.2,
            shards: 8,
            refused: 0,
        };
        let moment = |second: u32| Moment {
            at_s: f64::from(second),
            offered_per_s: 10.0,
            goodput_per_s: f64::from(second),
            key_busy_per_s: 1.0,
            p50_us: None,
            p99_us: (second != 1).then_some(f64::from(second)),
            shards: 1,
        };
        let moments: Vec<Moment> = (0..6).map(moment).collect();
        let phases = activation.phases(&moments);
        let found: Vec<_> = phases
            .iter()
            .map(|phase| (phase.name, phase.seconds, phase.goodput_per_s, phase.p99_us))
            .collect();
        assert_eq!(
            found,
            [
                ("before", 2.0, 0.5, Some((0.0, 0.0))),
                ("during", 2.0, 2.5, Some((3.0, 3.0))),
                ("after", 2.0, 4.5, Some((5.0, 5.0))),
            ]
        );
        assert!(activation.phases(&moments[..1]).is_empty());
    }
}
