//! Samples: which records are in one, and how far its figures can be trusted.

use serde::Serialize;

use super::size_histogram::SizeHistogram;
use crate::random::Random;

/// A fixed number of the items that come by, each with the same chance, however many come.
#[derive(Clone, Debug)]
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

    /// Meets the next item, which is made only if it is taken.
    ///
    /// # Errors
    /// What making it returns.
    pub(super) fn meet<E>(&mut self, make: impl FnOnce() -> Result<T, E>) -> Result<(), E> {
        self.met += 1;
        if self.items.len() < self.room {
            self.items.push(make()?);
        } else if let Some(slot) = self.items.get_mut(self.random.below(self.met) as usize) {
            *slot = make()?;
        }
        Ok(())
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
    /// The median.
    pub(crate) p50: (u64, u64),
    /// The 95th percentile.
    pub(crate) p95: (u64, u64),
    /// The 99th percentile.
    pub(crate) p99: (u64, u64),
    /// The mean.
    pub(crate) mean: (f64, f64),
}

/// Returns the intervals of percentiles: the sizes at the ranks that they may have by chance; and
/// that of the mean, by its standard error.
pub(super) fn intervals(sizes: &SizeHistogram) -> Intervals {
    const TWO_SIDED_95: f64 = 1.96;
    let (count, mean) = (sizes.count().max(1) as f64, sizes.mean());
    let of = |share: f64| {
        let reach = TWO_SIDED_95 * (share * (1.0 - share) / count).sqrt();
        (sizes.quantile(share - reach), sizes.quantile(share + reach))
    };
    let squared = |(size, times): (u64, u64)| (size as f64 - mean).powi(2) * times as f64;
    let variance = sizes.iter().map(squared).sum::<f64>() / (count - 1.0).max(1.0);
    let reach = TWO_SIDED_95 * (variance / count).sqrt();
    Intervals {
        p50: of(0.5),
        p95: of(0.95),
        p99: of(0.99),
        mean: ((mean - reach).max(0.0), mean + reach),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(of: u64, room: usize, seed: u64) -> Vec<u64> {
        let mut reservoir = Reservoir::new(room, seed);
        for item in 0..of {
            reservoir.meet(|| Ok::<_, ()>(item)).unwrap();
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
            let found = intervals(&sizes);
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
        let found = intervals(&SizeHistogram::default());
        assert_eq!((found.p50, found.p99), ((0, 0), (0, 0)));
    }
}
