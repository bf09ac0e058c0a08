//! When a collection spreads itself, and over how many shards.
//!
//! The decision is pure: what a handle knows of a collection goes in as a [`Load`], the number of shards it should have
//! comes out. How fast it is written is counted by a [`WriteWindow`].

mod window;

pub(crate) use window::WriteWindow;

use super::arithmetic::{
    SHARDS_MAX, SWEET_SPOT_BYTES, WRITES_PER_SECOND, power_of_two, shards_by_rate, shards_by_size,
};

/// When a collection is spread over shards, or over more of them, without being asked to. It is judged after writes (by its
/// count: after those that add), by the record that was written: the root, or a shard of it.
///
/// ```
/// use spikelet::shard::ShardPolicy;
///
/// // A record of more than 64 KiB, or one that is fought over.
/// let policy = ShardPolicy::default().by_size(64 * 1024).by_contention(50.0);
/// # assert_ne!(policy, ShardPolicy::by_hand());
/// ```
///
/// The number of shards is the smallest power of two by which every shard stays within the size and the count that are
/// given here (128 KiB if none is) and within 50 writes a second, all of them times the growth that is expected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShardPolicy {
    bytes_max: Option<u64>,
    count_max: Option<u64>,
    writes_per_second_max: Option<f64>,
    growth: f64,
}

impl Default for ShardPolicy {
    /// By size: when a record passes 128 KiB.
    fn default() -> Self {
        Self::by_hand().by_size(SWEET_SPOT_BYTES)
    }
}

impl ShardPolicy {
    /// Only when somebody asks for it.
    #[must_use]
    pub const fn by_hand() -> Self {
        Self {
            bytes_max: None,
            count_max: None,
            writes_per_second_max: None,
            growth: 1.0,
        }
    }

    /// When a record is larger than this, in bytes, or than half of what a record may have.
    #[must_use]
    pub const fn by_size(self, bytes_max: u64) -> Self {
        Self {
            bytes_max: Some(bytes_max),
            ..self
        }
    }

    /// When a record has more elements than this.
    #[must_use]
    pub const fn by_count(self, count_max: u64) -> Self {
        Self {
            count_max: Some(count_max),
            ..self
        }
    }

    /// When a write is refused with [`Error::KeyBusy`](crate::Error::KeyBusy), or when the handle, from all threads that
    /// share it, writes the record more often than this, in writes a second over ten seconds. Each handle counts for itself.
    #[must_use]
    pub const fn by_contention(self, writes_per_second_max: f64) -> Self {
        Self {
            writes_per_second_max: Some(writes_per_second_max),
            ..self
        }
    }

    /// By how much size, count and rate are expected to grow soon: 2.0 is twice as much. What is less than 1, or no number,
    /// counts as 1, the default: an even spread then leaves every shard between a half and the whole of what it may have.
    #[must_use]
    pub const fn growth(self, growth: f64) -> Self {
        Self { growth, ..self }
    }

    /// The same, but no size beyond this is waited for.
    pub(crate) fn at_most(self, bytes: u64) -> Self {
        Self {
            bytes_max: self.bytes_max.map(|bytes_max| bytes_max.min(bytes)),
            ..self
        }
    }

    /// Whether the size of the record counts.
    pub(crate) const fn watches_size(&self) -> bool {
        self.bytes_max.is_some()
    }

    /// Whether the number of elements counts.
    pub(crate) const fn watches_count(&self) -> bool {
        self.count_max.is_some()
    }

    /// Whether writes have to be counted.
    pub(crate) const fn watches_writes(&self) -> bool {
        self.writes_per_second_max.is_some()
    }

    /// How many shards the collection should have; `None` if it is well as it is.
    pub(crate) fn decide(&self, load: &Load) -> Option<u64> {
        let now = load.shards.max(1);
        let of_each = load.writes_per_second / now as f64;
        let over = |found: u64, limit: Option<u64>| limit.is_some_and(|limit| found > limit);
        let is_due = over(load.record_bytes, self.bytes_max)
            || over(load.count, self.count_max)
            || self
                .writes_per_second_max
                .is_some_and(|limit| load.busy > 0 || of_each > limit);
        if !is_due || now >= SHARDS_MAX {
            return None;
        }
        let by_size = self.shards(load.record_bytes, self.bytes_max.or(Some(SWEET_SPOT_BYTES)));
        let by_count = self.shards(load.count, self.count_max);
        let limit = self
            .writes_per_second_max
            .unwrap_or(WRITES_PER_SECOND)
            .min(WRITES_PER_SECOND);
        let by_rate = shards_by_rate(of_each * self.expected(), limit);
        // One shard relieves nothing, and a shard is split in two.
        let each_into = by_size.max(by_count).max(by_rate).max(2);
        Some(power_of_two(now.saturating_mul(each_into)).min(SHARDS_MAX))
    }

    /// Into how many a record goes that has so much of something.
    fn shards(&self, found: u64, limit: Option<u64>) -> u64 {
        let expected = (found as f64 * self.expected()).ceil() as u64;
        limit.map_or(1, |limit| shards_by_size(expected, limit))
    }

    const fn expected(&self) -> f64 {
        // Not a number is no growth, either.
        if self.growth > 1.0 { self.growth } else { 1.0 }
    }
}

/// What is known of a collection after a write. What is not known is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Load {
    /// How many shards there are; 0: the collection is in the root.
    pub(crate) shards: u64,
    /// The size of the record that was written: the root, or one shard.
    pub(crate) record_bytes: u64,
    /// How many elements that record has.
    pub(crate) count: u64,
    /// Writes to the whole collection.
    pub(crate) writes_per_second: f64,
    /// How often a write was refused with `KeyBusy` since there are so many shards.
    pub(crate) busy: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn load(shards: u64, record_bytes: u64) -> Load {
        Load {
            shards,
            record_bytes,
            ..Load::default()
        }
    }

    #[test]
    fn a_record_is_spread_when_it_passes_its_size() {
        let default = ShardPolicy::default();
        let small = ShardPolicy::by_hand().by_size(1_000);
        for (policy, shards, bytes, wanted) in [
            (default, 0, 128 * KIB, None),
            (default, 0, 128 * KIB + 1, Some(2)),
            (default, 0, 300_000 * 15, Some(64)),
            (default, 1, 128 * KIB + 1, Some(2)),
            (default, 64, 128 * KIB, None),
            (default, 64, 128 * KIB + 1, Some(128)),
            (default, 4_096, 1 << 20, None),
            (default, 0, u64::MAX, Some(4_096)),
            (default.growth(2.0), 0, 128 * KIB, None),
            (default.growth(2.0), 0, 128 * KIB + 1, Some(4)),
            (default.growth(2.0), 8, 130 * KIB, Some(32)),
            (default.growth(0.1), 0, 129 * KIB, Some(2)),
            (default.growth(f64::NAN), 0, 129 * KIB, Some(2)),
            (small, 0, 1_000, None),
            (small, 0, 3_500, Some(4)),
            (small.by_size(0), 0, 3, Some(4)),
            (ShardPolicy::by_hand(), 0, 1 << 20, None),
            (ShardPolicy::by_hand().by_count(10), 0, 1 << 20, None),
        ] {
            let found = policy.decide(&load(shards, bytes));
            assert_eq!(found, wanted, "{shards} shards, {bytes} bytes, {policy:?}");
        }
    }

    #[test]
    fn a_record_is_spread_when_it_passes_its_count_and_then_its_size_counts_too() {
        let policy = ShardPolicy::by_hand().by_count(100);
        for (shards, count, record_bytes, wanted) in [
            (0, 100, 0, None),
            (0, 101, 0, Some(2)),
            (4, 101, 0, Some(8)),
            (0, 1_000, 0, Some(16)),
            (0, 101, 500 * KIB, Some(4)),
        ] {
            let found = policy.decide(&Load {
                count,
                ..load(shards, record_bytes)
            });
            assert_eq!(found, wanted, "{shards} shards, {count}, {record_bytes}");
        }
    }

    #[test]
    fn a_record_is_spread_when_it_is_written_too_often_or_refused() {
        let policy = ShardPolicy::by_hand().by_contention(50.0);
        for (policy, shards, writes_per_second, busy, wanted) in [
            (policy, 0, 50.0, 0, None),
            (policy, 0, 51.0, 0, Some(2)),
            (policy, 0, 400.0, 0, Some(8)),
            (policy, 0, 401.0, 0, Some(16)),
            (policy, 8, 400.0, 0, None),
            (policy, 8, 401.0, 0, Some(16)),
            (policy, 0, 0.0, 1, Some(2)),
            (policy, 0, 300.0, 1, Some(8)),
            (policy, 8, 10.0, 1, Some(16)),
            (policy.growth(2.0), 0, 100.0, 0, Some(4)),
            (policy, 0, f64::NAN, 0, None),
            (policy, 0, f64::INFINITY, 0, Some(2)),
            // A higher limit spreads later, and then as far as is advised; a lower one spreads further.
            (policy.by_contention(200.0), 0, 200.0, 0, None),
            (policy.by_contention(200.0), 0, 201.0, 0, Some(8)),
            (policy.by_contention(10.0), 0, 40.0, 0, Some(4)),
            (ShardPolicy::default(), 0, 400.0, 9, None),
        ] {
            let found = policy.decide(&Load {
                writes_per_second,
                busy,
                ..load(shards, 0)
            });
            assert_eq!(
                found, wanted,
                "{shards} shards, {writes_per_second}/s, {busy} busy"
            );
        }
    }

    #[test]
    fn a_large_and_hot_record_is_spread_for_whichever_asks_for_more() {
        let policy = ShardPolicy::default();
        let found = policy.decide(&Load {
            writes_per_second: 400.0,
            ..load(0, 200 * KIB)
        });
        assert_eq!(found, Some(8));
    }

    #[test]
    fn nothing_is_watched_by_hand() {
        let all = Load {
            shards: 2,
            record_bytes: u64::MAX,
            count: u64::MAX,
            writes_per_second: 1e9,
            busy: u64::MAX,
        };
        assert_eq!(ShardPolicy::by_hand().decide(&all), None);
        assert!(!ShardPolicy::default().watches_writes());
        assert!(ShardPolicy::by_hand().by_contention(1.0).watches_writes());
    }
}
