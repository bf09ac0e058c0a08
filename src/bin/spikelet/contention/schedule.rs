//! When writes come, to which key, and how long they hold it: drawn before the run, from the seed
//! alone.

use super::case::{Case, Hold, Spread};
use crate::random::Random;

/// Draws the time to the next of events that come at random, `mean` apart on average.
pub(super) fn exponential(random: &mut Random, mean: f64) -> f64 {
    -random.unit().ln() * mean
}

/// Which of several keys: the k-th as often as 1 / k^theta; all alike with theta 0.
#[derive(Clone, Debug)]
pub(super) struct Zipf {
    /// The share of the first keys together, up to each.
    up_to: Vec<f64>,
}

impl Zipf {
    pub(super) fn new(keys: u32, theta: f64) -> Self {
        let mut sum = 0.0;
        let mut up_to: Vec<f64> = (1..=keys)
            .map(|key| {
                sum += f64::from(key).powf(-theta);
                sum
            })
            .collect();
        up_to.iter_mut().for_each(|share| *share /= sum);
        Self { up_to }
    }

    /// Returns the share of the first key, which is drawn most.
    pub(super) fn first_share(&self) -> f64 {
        self.up_to.first().copied().unwrap_or(1.0)
    }

    /// Draws a key, counted from 0.
    pub(super) fn draw(&self, random: &mut Random) -> u32 {
        if self.up_to.len() < 2 {
            return 0;
        }
        let at = random.unit();
        let key = self.up_to.partition_point(|share| *share < at);
        key.min(self.up_to.len() - 1) as u32
    }
}

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
pub(super) struct KeySource {
    zipf: Zipf,
    random: Random,
}

impl KeySource {
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
    let mut keys = KeySource::new(case, 0);
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

    #[test]
    fn gaps_have_their_mean_and_are_as_uneven_as_they_should_be() {
        let mut random = Random::new(7);
        let gaps: Vec<f64> = (0..100_000)
            .map(|_| exponential(&mut random, 3.0))
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let beyond = gaps.iter().filter(|gap| **gap > 3.0).count() as f64 / gaps.len() as f64;
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
        assert!((beyond - (-1f64).exp()).abs() < 0.01, "{beyond}");
    }

    #[test]
    fn keys_are_as_frequent_as_their_rank_says() {
        let mut random = Random::new(1);
        let zipf = Zipf::new(3, 1.0);
        let mut seen = [0u32; 3];
        (0..110_000).for_each(|_| seen[zipf.draw(&mut random) as usize] += 1);
        for (count, expected) in seen.into_iter().zip([60_000, 30_000, 20_000]) {
            assert!(count.abs_diff(expected) < 800, "{seen:?}");
        }
        let even = Zipf::new(2, 0.0);
        let first = (0..10_000).filter(|_| even.draw(&mut random) == 0).count();
        assert!((4_800..5_200).contains(&first), "{first}");
    }
}
