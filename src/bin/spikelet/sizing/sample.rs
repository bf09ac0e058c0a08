//! Samples: which records are in one, and how far its figures can be trusted.

use serde::{Deserialize, Serialize};

use super::size_histogram::SizeHistogram;
use crate::random::Random;

/// How often the sample is drawn again for an interval.
const RESAMPLES: usize = 400;
/// More draws than that in all are not made: larger samples are drawn again less often, but never
/// less than this often.
const DRAWS_MAX: usize = 40_000_000;
const RESAMPLES_MIN: usize = 100;

/// A fixed number of the items that come by, each with the same chance, however many come.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reservoir<T> {
    items: Vec<T>,
    room: usize,
    met: u64,
    random: Random,
}

impl<T> Reservoir<T> {
    pub(super) const fn new(room: usize, seed: u64) -> Self {
        Self {
            items: Vec::new(),
            room,
            met: 0,
            random: Random::new(seed),
        }
    }

    /// Returns where the next item goes, if it is taken. `put` must follow then.
    pub(super) fn next_place(&mut self) -> Option<usize> {
        self.met += 1;
        if self.items.len() < self.room {
            return Some(self.items.len());
        }
        let place = self.random.below(self.met) as usize;
        (place < self.room).then_some(place)
    }

    pub(super) fn put(&mut self, place: usize, item: T) {
        match self.items.get_mut(place) {
            Some(slot) => *slot = item,
            None => self.items.push(item),
        }
    }

    pub(super) fn into_items(self) -> Vec<T> {
        self.items
    }
}

/// The interval of a figure of all records, with a confidence of 95 in 100, going by the
/// sample.
///
/// There is none for the maximum: a sample says nothing about the largest record that it does not
/// hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Intervals {
    /// How often the sample was drawn again.
    pub(crate) resamples: usize,
    /// The median.
    pub(crate) p50: (u64, u64),
    /// The 95th percentile.
    pub(crate) p95: (u64, u64),
    /// The 99th percentile.
    pub(crate) p99: (u64, u64),
    /// The mean.
    pub(crate) mean: (f64, f64),
}

/// Bootstraps: draws as many values as there are from the sample with replacement, again and again;
/// the middle 95 % of the results is the interval. O(resamples x values).
pub(super) fn intervals(sizes: &SizeHistogram, seed: u64) -> Intervals {
    let values: Vec<u64> = sizes
        .iter()
        .flat_map(|(value, count)| (0..count).map(move |_| value))
        .collect();
    let resamples = (DRAWS_MAX / values.len().max(1)).clamp(RESAMPLES_MIN, RESAMPLES);
    let mut random = Random::new(seed);
    let mut drawn = vec![0_u32; values.len()];
    let (mut p50, mut p95, mut p99, mut means) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..resamples {
        drawn.fill(0);
        for _ in 0..values.len() {
            if let Some(times) = drawn.get_mut(random.below(values.len() as u64) as usize) {
                *times += 1;
            }
        }
        // Values are in order, so one pass over the draws meets every percentile.
        let rank = |per_mille: u64| (values.len() as u64 * per_mille).div_ceil(1000).max(1);
        let (mut passed, mut sum) = (0, 0_u128);
        for (value, times) in values.iter().zip(&drawn) {
            let before = passed;
            passed += u64::from(*times);
            sum += u128::from(*value) * u128::from(*times);
            for (per_mille, found) in [(500, &mut p50), (950, &mut p95), (990, &mut p99)] {
                if (before + 1..=passed).contains(&rank(per_mille)) {
                    found.push(*value);
                }
            }
        }
        means.push(sum as f64 / values.len().max(1) as f64);
    }
    means.sort_by(f64::total_cmp);
    Intervals {
        resamples,
        p50: middle(p50),
        p95: middle(p95),
        p99: middle(p99),
        mean: ends(&means),
    }
}

fn middle(mut values: Vec<u64>) -> (u64, u64) {
    values.sort_unstable();
    ends(&values)
}

/// Returns where the middle 95 % of sorted values begin and end.
fn ends<T: Copy + Default>(sorted: &[T]) -> (T, T) {
    let cut = sorted.len() / 40;
    let at = |place: usize| sorted.get(place).copied().unwrap_or_default();
    (at(cut), at(sorted.len().saturating_sub(cut + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(of: u64, room: usize, seed: u64) -> Vec<u64> {
        let mut reservoir = Reservoir::new(room, seed);
        for item in 0..of {
            if let Some(place) = reservoir.next_place() {
                reservoir.put(place, item);
            }
        }
        reservoir.into_items()
    }

    #[test]
    fn every_item_has_the_same_chance() {
        let mut times = [0_u32; 50];
        for seed in 0..4_000 {
            let items = sample(50, 10, seed);
            assert_eq!(items.len(), 10);
            for item in items {
                times[item as usize] += 1;
            }
        }
        // 800 are expected of each; 5 standard deviations are 126.
        assert!(
            times.iter().all(|times| (670..930).contains(times)),
            "{times:?}"
        );
    }

    #[test]
    fn fewer_items_than_room_are_all_taken_and_a_seed_repeats() {
        assert_eq!(sample(5, 10, 1), [0, 1, 2, 3, 4]);
        assert_eq!(sample(5_000, 100, 7), sample(5_000, 100, 7));
        assert_ne!(sample(5_000, 100, 7), sample(5_000, 100, 8));
    }

    #[test]
    fn intervals_hold_the_true_figures_about_as_often_as_they_say() {
        // All of 0..100,000 evenly: the median is 50,000, the mean 49,999.5.
        let (mut median, mut mean) = (0, 0);
        for seed in 0..100 {
            let mut sizes = SizeHistogram::default();
            sample(100_000, 400, seed)
                .into_iter()
                .for_each(|size| sizes.add(size));
            let found = intervals(&sizes, seed);
            median += u32::from((found.p50.0..=found.p50.1).contains(&50_000));
            mean += u32::from((found.mean.0..=found.mean.1).contains(&49_999.5));
            assert!(found.p99.1 <= sizes.max());
        }
        assert!(median >= 86 && mean >= 86, "{median} {mean}");
        assert!(
            median < 100 || mean < 100,
            "an interval that always holds is too wide"
        );
    }

    #[test]
    fn an_empty_sample_has_empty_intervals() {
        let found = intervals(&SizeHistogram::default(), 1);
        assert_eq!((found.p50, found.p99), ((0, 0), (0, 0)));
    }
}
