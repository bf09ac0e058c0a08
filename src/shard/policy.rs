//! Decides when a collection is sharded of its own accord, and into how many shards.
//!
//! The decision is pure: what a handle knows of a collection goes in as a [`ObservedLoad`], the
//! number of shards it should have comes out.
//!
//! * `window`: counts writes and refusals, for stores that report nothing else.
//! * `contention`: how many writes had to queue, and whether splits have helped.
//! * `quiet`: whether fewer shards would do.

mod contention;
mod quiet;
mod window;

pub(crate) use contention::{ContentionMonitor, QueueLoad};
pub(crate) use quiet::{Census, QuietMonitor, ShardReading};
pub(crate) use window::WriteWindow;

use super::arithmetic::{
    SHARDS_MAX, SWEET_SPOT_BYTES, WRITES_PER_SECOND, power_of_two, shards_by_rate, shards_by_size,
};
use crate::RecordSet;
use crate::setters::setters;

/// The share of writes that may have to queue before contention asks for more shards.
pub(crate) const QUEUED_SHARE_MAX: f64 = 0.2;

/// The share of writes that should still have to queue once there are more shards: half of
/// [`QUEUED_SHARE_MAX`], so that the result of a transition is not split at once.
const QUEUED_SHARE_AFTER: f64 = 0.1;

/// The most shards that contention alone asks for by default: a read of a counter asks all of them.
const CONTENTION_SHARDS_MAX: u64 = 64;

/// Writes a second to each record that a quiet collection may have after a merge, in a store that
/// reports queues. A record takes hundreds of thousands; queues begin above some ten thousand.
const QUIET_WRITES_PER_SECOND: f64 = 1_000.0;

/// Whether a time is ahead, by this long at most. One that is further ahead was noted before the
/// clock was set back, and holds nothing up.
pub(crate) const fn is_ahead(until_ms: u64, now_ms: u64, most_ms: u64) -> bool {
    now_ms < until_ms && until_ms - now_ms <= most_ms
}

/// When a collection is sharded, or gets more or fewer shards, of its own accord. Judged after
/// writes (by [`elements_max`](Self::elements_max): after writes that add), by the record that was
/// written: the root, or a shard.
///
/// ```
/// use spikelet::shard::ShardPolicy;
///
/// // A record of more than 64 KiB, or one that writers have to queue for.
/// let policy = ShardPolicy::default().record_bytes_max(64 * 1024).contention(true);
/// assert_eq!(policy.record_bytes_max, Some(65_536));
/// ```
///
/// By size and by count, the number of shards is the smallest power of two by which every shard
/// stays within the limits that are given here (128 KiB if none is), times the growth that is
/// expected.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShardPolicy {
    /// Shards a record that is larger than this, in bytes, or than half of a record's size limit.
    /// `None`: size alone shards nothing. 128 KiB by default. Elements that are larger by
    /// themselves do not count, since no number of shards makes them smaller; where there are
    /// several, shards part them once the record takes more than half of its size limit. To see
    /// that, a write that leaves its record too large reads it, and a handle remembers the result.
    pub record_bytes_max: Option<u64>,
    /// Shards a record that has more elements than this. `None`, the default: their count alone
    /// shards nothing.
    pub elements_max: Option<u64>,
    /// Shards a record that writers have to queue for. Off by default.
    ///
    /// In a store that reports how many writers each write found before it
    /// ([`OperateResult::queued_behind`](crate::OperateResult::queued_behind)), more than one write
    /// in five must have queued in three windows in a row, of 100 ms and 200 writes at least, for
    /// an activation or a split. A split after which almost as many queue is not followed by
    /// another one for ten minutes. Where the store does not report it,
    /// [`writes_per_second_max`](Self::writes_per_second_max) counts instead. A write that is
    /// refused with [`Error::KeyBusy`](crate::Error::KeyBusy) counts in both. Each handle counts
    /// for itself, for all threads that share it.
    pub contention: bool,
    /// The most shards that contention alone leads to: 64 by default. Every read of a whole
    /// collection asks all of them.
    pub contention_shards_max: u64,
    /// Writes a second of one record, over ten seconds, beyond which
    /// [`contention`](Self::contention) shards it in a store that does not report queues: 50 by
    /// default, for records across a network.
    pub writes_per_second_max: f64,
    /// Whether shards are merged again, down to one record, when [`contention`](Self::contention)
    /// is on and the collection has become quiet: at most 1,000 writes a second, by all handles,
    /// for each record that would be left (or a quarter of `writes_per_second_max`, where that
    /// counts) for half a minute, and records that stay within half of the limits of size and
    /// count. On by default. After a merge that had to be undone, the next one waits for twice as
    /// long. A collection that receives no writes stays as it is.
    pub merge_when_quiet: bool,
    /// By how much size, count and rate are expected to grow soon: 2.0 is twice as much. A value
    /// below 1, or not a number, counts as 1, the default: an even distribution then leaves every
    /// shard between a half and the whole of its limit.
    pub growth: f64,
}

impl Default for ShardPolicy {
    /// By size: when a record passes 128 KiB.
    fn default() -> Self {
        Self::manual().record_bytes_max(SWEET_SPOT_BYTES)
    }
}

impl ShardPolicy {
    /// Returns the policy that shards nothing by itself.
    #[must_use]
    pub const fn manual() -> Self {
        Self {
            record_bytes_max: None,
            elements_max: None,
            contention: false,
            contention_shards_max: CONTENTION_SHARDS_MAX,
            writes_per_second_max: WRITES_PER_SECOND,
            merge_when_quiet: true,
            growth: 1.0,
        }
    }

    setters! {
        /// Sets [`record_bytes_max`](Self::record_bytes_max).
        record_bytes_max: impl Into<Option<u64>>,
        /// Sets [`elements_max`](Self::elements_max).
        elements_max: impl Into<Option<u64>>,
    }

    setters! { const
        /// Sets [`contention`](Self::contention).
        contention: bool,
        /// Sets [`contention_shards_max`](Self::contention_shards_max).
        contention_shards_max: u64,
        /// Sets [`writes_per_second_max`](Self::writes_per_second_max).
        writes_per_second_max: f64,
        /// Sets [`merge_when_quiet`](Self::merge_when_quiet).
        merge_when_quiet: bool,
        /// Sets [`growth`](Self::growth).
        growth: f64,
    }

    /// Returns the policy for these records. One that limits the size limits it to at most half of
    /// a record's size limit: a transition needs room in the record, too.
    pub(crate) fn of_records<R: RecordSet>(self, records: &R) -> Self {
        let half = records.max_record_bytes().map_or(u64::MAX, |max| max / 2);
        let record_bytes_max = self.record_bytes_max.map(|limit| limit.min(half));
        self.record_bytes_max(record_bytes_max)
    }

    /// Returns whether a record of this size, with `count` elements, is too large.
    pub(crate) fn is_too_large(&self, record_bytes: u64, count: u64) -> bool {
        let over = |found: u64, limit: Option<u64>| limit.is_some_and(|limit| found > limit);
        over(record_bytes, self.record_bytes_max) || over(count, self.elements_max)
    }

    /// Returns how many shards the collection should have; `None` if it should stay as it is.
    pub(crate) fn decide(&self, load: &ObservedLoad) -> Option<u64> {
        let now = load.shards.max(1);
        let wanted = self
            .by_limits(load, now)
            .max(self.by_contention(load, now))?;
        // One shard relieves nothing, and a shard is split in two.
        let wanted = power_of_two(wanted).max(now.saturating_mul(2));
        (now < SHARDS_MAX).then_some(wanted.min(SHARDS_MAX))
    }

    /// Returns how many shards size and count ask for.
    fn by_limits(&self, load: &ObservedLoad, now: u64) -> Option<u64> {
        if !self.is_too_large(load.record_bytes, load.count) {
            return None;
        }
        let bytes_max = self.record_bytes_max.or(Some(SWEET_SPOT_BYTES));
        let by_size = self.parts(load.record_bytes, bytes_max);
        let by_count = self.parts(load.count, self.elements_max);
        Some(now.saturating_mul(by_size.max(by_count)))
    }

    /// Returns how many shards contention asks for.
    fn by_contention(&self, load: &ObservedLoad, now: u64) -> Option<u64> {
        // Rounded down: the limit need not be a power of two.
        let power = self.contention_shards_max.min(SHARDS_MAX).checked_ilog2()?;
        let limit = 1 << power;
        if !self.contention || now >= limit {
            return None;
        }
        let of_each = load.writes_per_second / now as f64;
        let by_rate = (of_each > self.writes_per_second_max).then(|| {
            let limit = self.writes_per_second_max.min(WRITES_PER_SECOND);
            shards_by_rate(of_each * self.expected(), limit)
        });
        let by_queue = load.queue.map(|queue| {
            // Twice as many shards, half as many queue; no more shards than writers were seen at
            // once.
            let parts = (queue.share / QUEUED_SHARE_AFTER).ceil() as u64;
            parts.min(queue.longest.saturating_add(1))
        });
        let refused = (load.busy > 0).then_some(2);
        let parts = by_rate.max(by_queue).max(refused)?.max(2);
        Some(power_of_two(now.saturating_mul(parts)).min(limit))
    }

    /// Returns whether a collection that has been counted twice, a time apart, would do with half
    /// as many shards.
    pub(crate) fn is_quiet(&self, census: &Census, knows_queues: bool) -> bool {
        let left = (census.shards / 2).max(1);
        let quiet = if knows_queues {
            QUIET_WRITES_PER_SECOND
        } else {
            self.writes_per_second_max / 4.0
        };
        let fits = |found: u64, limit: Option<u64>| {
            limit.is_none_or(|limit| found as f64 * self.expected() <= limit as f64 / 2.0)
        };
        census.writes_per_second / left as f64 <= quiet
            && fits(census.record_bytes_merged, self.record_bytes_max)
            && fits(census.elements_merged, self.elements_max)
    }

    /// Returns how many parts a record of this size is split into.
    fn parts(&self, found: u64, limit: Option<u64>) -> u64 {
        let expected = (found as f64 * self.expected()).ceil() as u64;
        limit.map_or(1, |limit| shards_by_size(expected, limit))
    }

    const fn expected(&self) -> f64 {
        // Not a number is no growth, either.
        if self.growth > 1.0 { self.growth } else { 1.0 }
    }
}

/// What a handle knows of a collection when it has written one of its records, or was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ObservedLoad {
    /// How many shards there are; 0: it is in one record.
    pub(crate) shards: u64,
    /// The size of the record, or the size that was refused; 0: not known.
    pub(crate) record_bytes: u64,
    /// How many elements the record has; 0: not known, or not counted.
    pub(crate) count: u64,
    /// Writes a second to the whole collection, where the store does not report queues; else 0.
    pub(crate) writes_per_second: f64,
    /// How many writes were refused with `KeyBusy` since the number of shards last changed.
    pub(crate) busy: u64,
    /// The writes that had to queue, if there were too many for some time.
    pub(crate) queue: Option<QueueLoad>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn load(shards: u64, record_bytes: u64) -> ObservedLoad {
        ObservedLoad {
            shards,
            record_bytes,
            ..ObservedLoad::default()
        }
    }

    #[test]
    fn a_record_is_sharded_when_it_passes_its_size() {
        let default = ShardPolicy::default();
        let small = ShardPolicy::manual().record_bytes_max(1_000);
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
            (small.record_bytes_max(0), 0, 3, Some(4)),
            (ShardPolicy::manual(), 0, 1 << 20, None),
            (ShardPolicy::manual().elements_max(10), 0, 1 << 20, None),
        ] {
            let found = policy.decide(&load(shards, bytes));
            assert_eq!(found, wanted, "{shards} shards, {bytes} bytes, {policy:?}");
        }
    }

    #[test]
    fn a_record_is_sharded_when_it_passes_its_count_and_then_its_size_counts_too() {
        let policy = ShardPolicy::manual().elements_max(100);
        for (shards, count, record_bytes, wanted) in [
            (0, 100, 0, None),
            (0, 101, 0, Some(2)),
            (4, 101, 0, Some(8)),
            (0, 1_000, 0, Some(16)),
            (0, 101, 500 * KIB, Some(4)),
        ] {
            let found = policy.decide(&ObservedLoad {
                count,
                ..load(shards, record_bytes)
            });
            assert_eq!(found, wanted, "{shards} shards, {count}, {record_bytes}");
        }
    }

    #[test]
    fn a_record_is_sharded_when_it_is_written_too_often_or_refused() {
        let policy = ShardPolicy::manual().contention(true);
        for (policy, shards, writes_per_second, busy, wanted) in [
            (policy, 0, 50.0, 0, None),
            (policy, 0, 51.0, 0, Some(2)),
            (policy, 0, 400.0, 0, Some(8)),
            (policy, 0, 401.0, 0, Some(16)),
            (policy, 0, 1e9, 0, Some(64)),
            (policy, 8, 400.0, 0, None),
            (policy, 8, 401.0, 0, Some(16)),
            (policy, 0, 0.0, 1, Some(2)),
            (policy, 0, 300.0, 1, Some(8)),
            (policy, 8, 10.0, 1, Some(16)),
            (policy, 64, 1e9, 9, None),
            (policy.contention_shards_max(100), 32, 1e9, 9, Some(64)),
            (policy.contention_shards_max(3), 2, 1e9, 9, None),
            (policy.contention_shards_max(0), 0, 1e9, 9, None),
            (policy.growth(2.0), 0, 100.0, 0, Some(4)),
            (policy, 0, f64::NAN, 0, None),
            (policy, 0, f64::INFINITY, 0, Some(2)),
            // A higher limit shards later, and then as far as is advised; a lower one shards
            // further.
            (policy.writes_per_second_max(200.0), 0, 200.0, 0, None),
            (policy.writes_per_second_max(200.0), 0, 201.0, 0, Some(8)),
            (policy.writes_per_second_max(10.0), 0, 40.0, 0, Some(4)),
            (ShardPolicy::default(), 0, 400.0, 9, None),
        ] {
            let found = policy.decide(&ObservedLoad {
                writes_per_second,
                busy,
                ..load(shards, 0)
            });
            assert_eq!(
                found, wanted,
                "{shards} shards, {writes_per_second}/s, {busy} busy, {policy:?}"
            );
        }
    }

    #[test]
    fn queues_ask_for_as_many_shards_as_leave_few_of_them_and_no_more_than_writers() {
        let policy = ShardPolicy::manual().contention(true);
        for (policy, shards, share, longest, wanted) in [
            (policy, 0, 0.94, 60, Some(16)),
            (policy, 0, 0.94, 7, Some(8)),
            (policy, 0, 0.9, 1, Some(2)),
            (policy, 0, 0.25, 60, Some(4)),
            (policy, 4, 0.25, 60, Some(16)),
            (policy, 32, 0.9, 60, Some(64)),
            (policy, 64, 0.9, 60, None),
            (policy.contention_shards_max(8), 0, 0.94, 60, Some(8)),
            (policy.contention(false), 0, 0.94, 60, None),
        ] {
            let queue = Some(QueueLoad { share, longest });
            let found = policy.decide(&ObservedLoad {
                queue,
                ..load(shards, 0)
            });
            assert_eq!(found, wanted, "{shards} shards, {queue:?}, {policy:?}");
        }
    }

    #[test]
    fn a_large_and_hot_record_is_sharded_for_whichever_asks_for_more() {
        let policy = ShardPolicy::default().contention(true);
        for (record_bytes, writes_per_second, wanted) in [
            (200 * KIB, 400.0, Some(8)),
            (200 * KIB, 1.0, Some(2)),
            (2_000 * KIB, 100.0, Some(16)),
            // Contention alone ends at 64 shards, size does not.
            (20_000 * KIB, 1e9, Some(256)),
        ] {
            let found = policy.decide(&ObservedLoad {
                writes_per_second,
                ..load(0, record_bytes)
            });
            assert_eq!(found, wanted, "{record_bytes} bytes, {writes_per_second}/s");
        }
    }

    #[test]
    fn a_collection_is_quiet_when_half_as_many_records_would_be_written_little() {
        let waits = ShardPolicy::default().contention(true).elements_max(1_000);
        for (shards, writes_per_second, bytes, elements, knows_queues, quiet) in [
            (8, 4_000.0, 0, 0, true, true),
            (8, 4_001.0, 0, 0, true, false),
            (1, 1_000.0, 0, 0, true, true),
            (2, 1_001.0, 0, 0, true, false),
            // Without reports of queues, a quarter of 50 writes a second counts.
            (8, 50.0, 0, 0, false, true),
            (8, 51.0, 0, 0, false, false),
            // What would soon be too large again is not merged.
            (8, 0.0, 64 * KIB, 500, true, true),
            (8, 0.0, 64 * KIB + 1, 0, true, false),
            (8, 0.0, 0, 501, true, false),
        ] {
            let census = Census {
                shards,
                writes_per_second,
                record_bytes_merged: bytes,
                elements_merged: elements,
            };
            assert_eq!(waits.is_quiet(&census, knows_queues), quiet, "{census:?}");
        }
    }

    #[test]
    fn nothing_leads_to_shards_by_the_manual_policy() {
        let all = ObservedLoad {
            shards: 2,
            record_bytes: u64::MAX,
            count: u64::MAX,
            writes_per_second: 1e9,
            busy: u64::MAX,
            queue: Some(QueueLoad {
                share: 1.0,
                longest: 1_000,
            }),
        };
        assert_eq!(ShardPolicy::manual().decide(&all), None);
    }
}
