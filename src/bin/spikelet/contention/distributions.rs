//! Random draws: gaps between arrivals, holds, keys.

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

#[cfg(test)]
mod tests {
    use super::*;

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
