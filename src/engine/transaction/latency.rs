//! How long transactions took, counted in classes of equal relative width.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Classes of an octave: a reported time is too long by an eighth at most.
const PER_OCTAVE: u32 = 8;
const PER_OCTAVE_BITS: u32 = PER_OCTAVE.trailing_zeros();
/// Up to 2^41 ns, 36 minutes; longer times are in the last class.
const OCTAVES: u32 = 39;
const CLASSES: usize = (OCTAVES * PER_OCTAVE) as usize;

/// Counts of durations, which any number of threads add to.
#[derive(Debug)]
pub(super) struct Latencies {
    classes: Box<[AtomicU64; CLASSES]>,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            classes: Box::new([const { AtomicU64::new(0) }; CLASSES]),
        }
    }
}

impl Latencies {
    pub(super) fn add(&self, took: Duration) {
        let nanos = took.as_nanos().min(u128::from(u64::MAX)) as u64;
        if let Some(class) = self.classes.get(class_of(nanos)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The least time that these shares of all, in ascending order, did not exceed; zero if there are none.
    pub(super) fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [Duration; N] {
        let counts: Vec<u64> = self
            .classes
            .iter()
            .map(|class| class.load(Ordering::Relaxed))
            .collect();
        let all: u64 = counts.iter().sum();
        shares.map(|share| {
            let wanted = (all as f64 * share).ceil() as u64;
            let mut sum = 0;
            let class = counts.iter().position(|count| {
                sum += count;
                sum >= wanted.max(1)
            });
            class.map_or(Duration::ZERO, |class| {
                Duration::from_nanos(end_of(class as u32))
            })
        })
    }
}

/// Below `PER_OCTAVE` a class has one number; above, the first bits behind the leading one give the class.
fn class_of(nanos: u64) -> usize {
    let class = match nanos.checked_ilog2() {
        Some(octave) if octave > PER_OCTAVE_BITS => {
            let shift = octave - PER_OCTAVE_BITS;
            u64::from(shift * PER_OCTAVE) + (nanos >> shift)
        }
        _ => nanos,
    };
    class.min(CLASSES as u64 - 1) as usize
}

/// The largest number of a class.
const fn end_of(class: u32) -> u64 {
    if class < 2 * PER_OCTAVE {
        return class as u64;
    }
    let shift = class / PER_OCTAVE - 1;
    let lead = (class % PER_OCTAVE + PER_OCTAVE) as u64;
    ((lead + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_each_other_without_gaps_and_are_narrow() {
        let mut before = 0;
        for class in 1..CLASSES as u32 {
            let end = end_of(class);
            assert_eq!(class_of(before + 1), class as usize);
            assert_eq!(class_of(end), class as usize);
            assert!(
                (end - before - 1) as f64 <= (before + 1) as f64 / 8.0,
                "{class}"
            );
            before = end;
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn quantiles_are_an_eighth_too_long_at_most() {
        let latencies = Latencies::default();
        assert_eq!(latencies.quantiles([0.5, 0.99]), [Duration::ZERO; 2]);
        for micros in 1..=1_000 {
            latencies.add(Duration::from_micros(micros));
        }
        let [median, p99] = latencies.quantiles([0.5, 0.99]);
        for (found, exact) in [(median, 500), (p99, 990)] {
            let exact = Duration::from_micros(exact);
            assert!(found >= exact && found <= exact * 9 / 8, "{found:?}");
        }
    }
}
