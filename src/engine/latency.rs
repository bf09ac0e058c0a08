//! Times, counted in classes of equal relative width.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;

/// Classes of an octave: a reported time is too long by an eighth at most.
const PER_OCTAVE: u32 = 8;
const PER_OCTAVE_BITS: u32 = PER_OCTAVE.trailing_zeros();
/// Up to 2^41 ns, 36 minutes; longer times are in the last class.
const OCTAVES: u32 = 39;
const CLASSES: usize = (OCTAVES * PER_OCTAVE) as usize;

/// Counts of times, which any number of threads add to.
#[derive(Debug)]
pub(super) struct Latencies {
    classes: Box<[AtomicU64; CLASSES]>,
    nanos: AtomicU64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            classes: Box::new([const { AtomicU64::new(0) }; CLASSES]),
            nanos: AtomicU64::new(0),
        }
    }
}

impl Latencies {
    pub(super) fn add(&self, took: Duration) {
        let nanos = took.as_nanos().min(u128::from(u64::MAX)) as u64;
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        if let Some(class) = self.classes.get(class_of(nanos)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn histogram(&self) -> LatencyHistogram {
        let classes = self.classes.iter();
        LatencyHistogram {
            classes: classes.map(|class| class.load(Ordering::Relaxed)).collect(),
            total: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
        }
    }
}

/// How many times there were of each length, in classes an eighth wide.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::stats::OperationKind;
///
/// let store = spikelet::Store::in_memory()?;
/// let users = store.set("users")?;
/// users.put("alice", [("age", 42)])?;
/// let before = store.namespace("test")?.stats();
/// for _ in 0..160 {
///     users.get("alice")?;
/// }
/// let reads = store.namespace("test")?.stats().operation(OperationKind::Read);
/// let reads = reads.since(&before.operation(OperationKind::Read));
/// assert_eq!((reads.count, reads.latency.count()), (160, 10)); // one read in 16 is timed
/// assert!(reads.latency.quantile(0.5) <= reads.latency.quantile(0.99));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencyHistogram {
    classes: Vec<u64>,
    total: Duration,
}

impl LatencyHistogram {
    /// Returns how many times there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.classes.iter().sum()
    }

    /// Returns the sum of all times.
    #[must_use]
    pub const fn total(&self) -> Duration {
        self.total
    }

    /// Returns the least time that this share of all (0 to 1) did not exceed, up to an eighth too
    /// long; `None` if there are none.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = ((self.count() as f64 * share).ceil() as u64).max(1);
        let mut sum = 0;
        let class = self.classes.iter().position(|count| {
            sum += count;
            sum >= wanted
        })?;
        Some(Duration::from_nanos(end_of(class as u32)))
    }

    /// Returns how many times were shorter than 2^`power` ns. Exact for powers of 4 to 41.
    #[must_use]
    pub fn shorter_than_power(&self, power: u32) -> u64 {
        let classes = (0..).zip(&self.classes);
        classes
            .take_while(|(class, _)| end_of(*class) < 1 << power.min(63))
            .map(|(_, count)| count)
            .sum()
    }

    /// Returns the times added since an earlier look at the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = earlier.classes.iter().copied().chain(std::iter::repeat(0));
        let classes = self.classes.iter().zip(before);
        Self {
            classes: classes
                .map(|(now, before)| now.saturating_sub(before))
                .collect(),
            total: self.total.saturating_sub(earlier.total),
        }
    }
}

/// Below `PER_OCTAVE` a class has one number; above, the first bits behind the leading one give the
/// class.
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
        assert_eq!(latencies.histogram().quantile(0.5), None);
        for micros in 1..=1_000 {
            latencies.add(Duration::from_micros(micros));
        }
        let found = latencies.histogram();
        for (share, exact) in [(0.5, 500), (0.99, 990)] {
            let exact = Duration::from_micros(exact);
            let found = found.quantile(share).unwrap();
            assert!(found >= exact && found <= exact * 9 / 8, "{found:?}");
        }
        assert_eq!(found.total(), Duration::from_micros(500_500));
    }

    #[test]
    fn counts_below_powers_of_two_are_exact_and_histograms_are_subtracted() {
        let latencies = Latencies::default();
        for nanos in [15, 16, 1_023, 1_024, 4_095, 4_096, 1 << 40] {
            latencies.add(Duration::from_nanos(nanos));
        }
        let before = latencies.histogram();
        let below = [4, 5, 10, 12, 40, 41].map(|power| before.shorter_than_power(power));
        assert_eq!(below, [1, 2, 3, 5, 6, 7]);
        latencies.add(Duration::from_micros(1));
        let after = latencies.histogram().since(&before);
        assert_eq!(
            (after.count(), after.total()),
            (1, Duration::from_micros(1))
        );
        assert_eq!(after.quantile(1.0), Some(Duration::from_nanos(1_023)));
    }
}
