//! Exact counts of sizes.
//!
//! A [`SizeHistogram`] holds how often each size came. Percentiles, total and maximum are exact,
//! and memory grows with the number of different sizes, not of records: about 30 bytes each, and
//! records of at most 8 MiB have no more than 8 million.

use std::collections::BTreeMap;

use serde::Serialize;
use spikelet::shard::arithmetic::{SWEET_SPOT_BYTES, SWEET_SPOT_FROM_BYTES};

const MIB: u64 = 1 << 20;

/// How often each value came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SizeHistogram {
    counts: BTreeMap<u64, u64>,
    count: u64,
    total: u64,
}

/// The summary of a size histogram. All zero if nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Distribution {
    /// Half of the values are no larger.
    pub(crate) p50: u64,
    /// 95 of 100 values are no larger.
    pub(crate) p95: u64,
    /// 99 of 100 values are no larger.
    pub(crate) p99: u64,
    /// The largest value that was seen.
    pub(crate) max: u64,
    /// The mean.
    pub(crate) mean: f64,
    /// The sum.
    pub(crate) total: u64,
}

/// A part of the records, by size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SizeShare {
    /// Its name.
    pub(crate) label: &'static str,
    /// How many records.
    pub(crate) records: u64,
    /// Their part of all records, 0 to 1.
    pub(crate) share: f64,
    /// Their part of all bytes, 0 to 1.
    pub(crate) bytes_share: f64,
}

/// A bucket of a histogram with doubling buckets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SizeBucket {
    /// As `asinfo` writes it: `[64-128)`, `[1K-2K)`.
    pub(crate) label: String,
    /// The least size in it.
    pub(crate) from: u64,
    /// The least size beyond it.
    pub(crate) to: u64,
    /// Records by what they take on the device.
    pub(crate) stored: u64,
    /// Records by what counts against the limit of a record's size.
    pub(crate) counted: u64,
}

impl SizeHistogram {
    /// Counts a value. O(log of the different values).
    pub(crate) fn add(&mut self, value: u64) {
        *self.counts.entry(value).or_default() += 1;
        self.count += 1;
        self.total = self.total.saturating_add(value);
    }

    /// Returns how many values were counted.
    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns the sum of the values.
    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    /// Returns the largest value; 0 if there is none.
    pub(crate) fn max(&self) -> u64 {
        self.counts.last_key_value().map_or(0, |(value, _)| *value)
    }

    /// Returns the mean; 0 if there is none.
    pub(crate) fn mean(&self) -> f64 {
        self.total as f64 / self.count.max(1) as f64
    }

    /// Returns the least value that `per_mille` of a thousand values do not exceed (nearest rank).
    /// O(different values).
    pub(crate) fn per_mille(&self, per_mille: u64) -> u64 {
        let rank = u128::from(self.count) * u128::from(per_mille);
        self.at_rank(u64::try_from(rank.div_ceil(1000)).unwrap_or(u64::MAX))
    }

    /// Returns the least value that about this share of the values do not exceed.
    pub(crate) fn quantile(&self, share: f64) -> u64 {
        self.at_rank((share * self.count as f64).ceil() as u64)
    }

    /// Returns the value of a rank, counted from 1.
    fn at_rank(&self, rank: u64) -> u64 {
        let mut passed = 0;
        for (value, count) in &self.counts {
            passed += count;
            if passed >= rank.max(1) {
                return *value;
            }
        }
        self.max()
    }

    /// Returns how many values are larger than this one.
    pub(crate) fn beyond(&self, value: u64) -> u64 {
        let larger = (std::ops::Bound::Excluded(value), std::ops::Bound::Unbounded);
        self.counts.range(larger).map(|(_, count)| count).sum()
    }

    /// Returns the usual figures.
    pub(crate) fn distribution(&self) -> Distribution {
        Distribution {
            p50: self.per_mille(500),
            p95: self.per_mille(950),
            p99: self.per_mille(990),
            max: self.max(),
            mean: self.mean(),
            total: self.total,
        }
    }

    /// Returns the values and how often each came, from the least.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.counts.iter().map(|(value, count)| (*value, *count))
    }

    /// Returns how many values are in each bucket that has any.
    fn by_power(&self) -> BTreeMap<u32, u64> {
        let mut counts = BTreeMap::new();
        for (value, count) in self.iter() {
            *counts.entry(power(value)).or_default() += count;
        }
        counts
    }

    /// Returns records and bytes below 1 KiB, up to 128 KiB, 1 MiB, 8 MiB (all inclusive), and
    /// above.
    pub(crate) fn shares(&self) -> Vec<SizeShare> {
        let part = |label, from: u64, to: u64| {
            let (mut records, mut bytes) = (0, 0_u64);
            for (value, count) in self.counts.range(from..=to) {
                records += count;
                bytes = bytes.saturating_add(value.saturating_mul(*count));
            }
            SizeShare {
                label,
                records,
                share: records as f64 / self.count.max(1) as f64,
                bytes_share: bytes as f64 / self.total.max(1) as f64,
            }
        };
        vec![
            part("<1 KiB", 0, SWEET_SPOT_FROM_BYTES - 1),
            part("1-128 KiB", SWEET_SPOT_FROM_BYTES, SWEET_SPOT_BYTES),
            part("128 KiB-1 MiB", SWEET_SPOT_BYTES + 1, MIB),
            part("1-8 MiB", MIB + 1, 8 * MIB),
            part(">8 MiB", 8 * MIB + 1, u64::MAX),
        ]
    }
}

/// Returns a histogram of both, from the first bucket that holds something to the last.
pub(crate) fn histogram(stored: &SizeHistogram, counted: &SizeHistogram) -> Vec<SizeBucket> {
    let [stored, counted] = [stored, counted].map(SizeHistogram::by_power);
    let powers = || stored.keys().chain(counted.keys());
    let (Some(first), Some(last)) = (powers().min(), powers().max()) else {
        return Vec::new();
    };
    let of = |counts: &BTreeMap<u32, u64>, power| counts.get(&power).copied().unwrap_or(0);
    (*first..=*last)
        .map(|power| {
            let from = 1_u64 << power;
            let to = 1_u64.checked_shl(power + 1).unwrap_or(u64::MAX);
            SizeBucket {
                label: format!("[{}-{})", edge(from), edge(to)),
                from,
                to,
                stored: of(&stored, power),
                counted: of(&counted, power),
            }
        })
        .collect()
}

/// Returns the bucket of a value, as a power of two. 0 is in the first.
const fn power(value: u64) -> u32 {
    match value.checked_ilog2() {
        Some(power) => power,
        None => 0,
    }
}

/// Writes a power of two as `asinfo` does: `512`, `1K`, `128K`, `1M`.
pub(crate) fn edge(value: u64) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    let steps = power(value) / 10;
    let unit = UNITS.get(steps as usize).copied().unwrap_or("E");
    format!("{}{unit}", value >> (10 * steps))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn values(values: impl IntoIterator<Item = u64>) -> SizeHistogram {
        values
            .into_iter()
            .fold(SizeHistogram::default(), |mut values, value| {
                values.add(value);
                values
            })
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let hundred = values(1..=100);
        let found = hundred.distribution();
        assert_eq!(
            (found.p50, found.p95, found.p99, found.max),
            (50, 95, 99, 100)
        );
        assert_eq!((found.total, found.mean), (5_050, 50.5));
        assert_eq!(values([7]).per_mille(990), 7);
        assert_eq!(
            SizeHistogram::default().distribution(),
            Distribution::default()
        );
    }

    #[test]
    fn buckets_are_labelled_as_asinfo_does() {
        let sizes = values([64, 127, 128, 1023, 1024, 131_072, 1 << 20]);
        let labels: Vec<_> = histogram(&sizes, &sizes)
            .into_iter()
            .map(|bucket| bucket.label)
            .collect();
        for label in [
            "[64-128)",
            "[128-256)",
            "[512-1K)",
            "[1K-2K)",
            "[128K-256K)",
            "[1M-2M)",
        ] {
            assert!(
                labels.iter().any(|found| found == label),
                "{label}: {labels:?}"
            );
        }
        assert_eq!(labels.len(), 15);
    }

    #[test]
    fn the_ends_of_shares_belong_to_the_sweet_spot() {
        let sizes = values([
            1_023,
            1_024,
            131_072,
            131_073,
            MIB,
            MIB + 1,
            8 * MIB,
            8 * MIB + 1,
        ]);
        let records: Vec<u64> = sizes.shares().iter().map(|share| share.records).collect();
        assert_eq!(records, [1, 2, 2, 2, 1]);
    }

    proptest! {
        #[test]
        fn shares_add_up_and_a_histogram_holds_every_record(
            sizes in prop::collection::vec(prop_oneof![0_u64..3_000, any::<u64>().prop_map(|n| n >> 38)], 1..300),
        ) {
            let values = values(sizes.iter().copied());
            let shares = values.shares();
            prop_assert_eq!(shares.iter().map(|share| share.records).sum::<u64>(), values.count());
            prop_assert!((shares.iter().map(|share| share.share).sum::<f64>() - 1.0).abs() < 1e-9);
            let buckets = histogram(&values, &values);
            prop_assert_eq!(buckets.iter().map(|bucket| bucket.stored).sum::<u64>(), values.count());
            for bucket in &buckets {
                let inside = sizes.iter().filter(|size| (bucket.from..bucket.to).contains(&(**size).max(1))).count();
                prop_assert_eq!(bucket.counted, inside as u64);
            }
            let mut sorted = sizes;
            sorted.sort_unstable();
            for per_mille in [1, 500, 950, 990, 1000] {
                let rank = (sorted.len() as u64 * per_mille).div_ceil(1000).max(1);
                prop_assert_eq!(values.per_mille(per_mille), sorted[rank as usize - 1]);
            }
        }
    }
}
