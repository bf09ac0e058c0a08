//! When writes come, to which key, and how long they hold it: drawn before the run, from the seed
//! alone.

use super::case::{Case, Hold, Spread};
use super::distributions::{Zipf, exponential};
use crate::random::Random;

/// A write that is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlannedWrite {
    /// Its number: no other write of the row has it.
    pub(super) id: u64,
    /// Which hot key.
    pub(super) key: u32,
    /// When it is to be sent, in nanoseconds from the beginning.
    pub(super) at_ns: u64,
}

/// Draws keys.
#[derive(Debug)]
pub(super) struct Keys {
    zipf: Zipf,
    random: Random,
}

impl Keys {
    /// Returns the keys of one `lane` of a seed: each lane draws its own.
    pub(super) fn new(case: &Case, lane: u64) -> Self {
        Self {
            zipf: Zipf::new(case.settings.hot_keys, case.settings.zipf),
            random: stream(case.settings.seed, 1, lane),
        }
    }

    pub(super) fn draw(&mut self) -> u32 {
        self.zipf.draw(&mut self.random)
    }
}

/// Draws holds.
#[derive(Debug)]
pub(super) struct Holds {
    hold: Hold,
    random: Random,
}

impl Holds {
    pub(super) fn new(case: &Case) -> Self {
        Self {
            hold: case.settings.hold,
            random: stream(case.settings.seed, 2, 0),
        }
    }

    /// Draws the next hold, in nanoseconds.
    pub(super) fn draw_ns(&mut self) -> u64 {
        let mean = self.hold.mean.as_nanos() as u64;
        match self.hold.spread {
            Spread::Fixed => mean,
            Spread::Exponential => exponential(&mut self.random, mean as f64) as u64,
        }
    }
}

/// Draws the writes of an open loop at this rate, in their order.
pub(super) fn arrivals(case: &Case, rate: f64) -> impl Iterator<Item = PlannedWrite> + use<> {
    let end_ns = (case.settings.duration + case.settings.warm_up).as_nanos() as u64;
    let mut gaps = stream(case.settings.seed, 0, 0);
    let mut keys = Keys::new(case, 0);
    let mut at = 0.0;
    (0..)
        .map(move |id| {
            at += exponential(&mut gaps, 1e9 / rate);
            PlannedWrite {
                id,
                key: keys.draw(),
                at_ns: at as u64,
            }
        })
        .take_while(move |wanted| wanted.at_ns < end_ns)
}

/// Returns the random numbers for one purpose.
fn stream(seed: u64, purpose: u64, lane: u64) -> Random {
    let mut mixed = Random::new(seed ^ (purpose << 56) ^ (lane << 24));
    Random::new(mixed.next())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::testing::open;

    #[test]
    fn arrivals_are_in_order_within_the_time_and_as_many_as_the_rate_says() {
        let case = open(100.0, 1, |settings| {
            settings.duration = std::time::Duration::from_secs(1_000);
        });
        let all: Vec<PlannedWrite> = arrivals(&case, 100.0).collect();
        assert!(all.len().abs_diff(100_000) < 1_300, "{}", all.len());
        assert!(all.is_sorted_by_key(|wanted| wanted.at_ns));
        assert!(all.iter().zip(0..).all(|(wanted, id)| wanted.id == id));
        assert!(all.iter().all(|wanted| wanted.at_ns < 1_000_000_000_000));
        assert!(
            arrivals(&case, 100.0).eq(all),
            "the same seed, other arrivals"
        );
    }

    #[test]
    fn another_seed_draws_other_arrivals() {
        let first = |seed| {
            let case = open(100.0, 1, |settings| settings.seed = seed);
            arrivals(&case, 100.0).next()
        };
        assert_ne!(first(1), first(2));
    }
}
