//! Which record a write goes to: one function, for the simulation and for the engine.

use std::time::SystemTime;

use super::element::{element, time, timed};
use super::layout::Layout;
use crate::shard::{hash_of, shard_of_hash};
use crate::{TimeWidth, Value};

/// Milliseconds from 1970 to 2010, where a store's time begins.
pub(super) const EPOCH_2010_MS: u64 = 1_262_304_000_000;

/// A record of a hot key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    /// The hot key.
    pub(super) key: u32,
    /// The bucket of time: how long it is, and when it begins, in seconds since 1970.
    bucket: Option<(TimeWidth, u64)>,
    /// The shard, where there are several.
    shard: Option<u32>,
}

impl Place {
    /// The record of this key that a write with this number goes to, at this time (milliseconds since 2010): where the
    /// sharded handles put its element.
    pub(super) fn of(layout: Layout, key: u32, id: u64, now_ms: u64) -> Self {
        Self::in_bucket(layout, key, id, (now_ms + EPOCH_2010_MS) / 1_000)
    }

    /// The same at a time in seconds since 1970, such as the beginning of its bucket.
    pub(super) fn in_bucket(layout: Layout, key: u32, id: u64, at_s: u64) -> Self {
        let bucket = match layout {
            Layout::Hashed(_) => None,
            Layout::Timed(width, _) => Some((width, at_s - at_s % width.seconds().unsigned_abs())),
        };
        let whole = Self {
            key,
            bucket,
            shard: None,
        };
        let shards = layout.live_shards();
        // Every number has a hash.
        let hash = |child: Value| hash_of(&child).unwrap_or_default();
        let shard =
            (shards > 1).then(|| shard_of_hash(hash(whole.child(id)), u64::from(shards)) as u32);
        Self { shard, ..whole }
    }

    /// When its bucket begins, in seconds since 1970; 0 where time plays no part.
    pub(super) fn begins_s(&self) -> u64 {
        self.bucket.map_or(0, |(_, begins_s)| begins_s)
    }

    /// What is added to the list of this place by a write: its element, with its time in a bucket of time.
    pub(super) fn child(&self, id: u64) -> Value {
        match self.bucket {
            None => element(id),
            Some((_, begins_s)) => timed(begins_s, id),
        }
    }

    /// When that is added to a bucket of time; the beginning of all time where there is none.
    pub(super) fn time(&self, id: u64) -> SystemTime {
        time(self.begins_s(), id)
    }

    /// The hot key alone.
    pub(super) const fn whole(&self) -> Self {
        Self {
            key: self.key,
            bucket: None,
            shard: None,
        }
    }

    /// The record of a shard, where time plays no part.
    pub(super) fn hashed(key: u32, shards: u32, shard: u32) -> Self {
        Self {
            key,
            bucket: None,
            shard: (shards > 1).then_some(shard),
        }
    }

    /// Its shard; 0 where there is one only.
    pub(super) fn shard_number(&self) -> u32 {
        self.shard.unwrap_or(0)
    }

    /// The record's key: that of the hot key, of its bucket `{key}:2026-01-31-23` or `{key}:2026-01-31`, and of its shard.
    pub(super) fn record_key(&self) -> String {
        let mut key = format!("hot{}", self.key);
        if let Some((width, begins_s)) = self.bucket {
            key.push(':');
            key.push_str(&width.name_at(begins_s.cast_signed()));
        }
        if let Some(shard) = self.shard {
            key.push_str(&format!(":{shard}"));
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// 2026-03-01T13:59:59.999Z.
    const NOW_MS: u64 = 1_772_373_599_999 - EPOCH_2010_MS;

    #[test]
    fn records_are_named_by_key_bucket_and_shard() {
        for (layout, at, name) in [
            ("1", NOW_MS, "hot3"),
            ("hourly", NOW_MS, "hot3:2026-03-01-13"),
            ("hourly", NOW_MS + 1, "hot3:2026-03-01-14"),
            ("daily", NOW_MS, "hot3:2026-03-01"),
            ("daily", NOW_MS - 86_400_000, "hot3:2026-02-28"),
        ] {
            let place = Place::of(layout.parse().unwrap(), 3, 99, at);
            assert_eq!(place.record_key(), name, "{layout}");
        }
    }

    #[test]
    fn hashing_reaches_all_shards_evenly_and_time_only_one() {
        for (layout, records) in [("1", 1), ("8", 8), ("hourly", 1), ("daily+8", 8)] {
            let layout = layout.parse().unwrap();
            let places: Vec<Place> = (0..8_000)
                .map(|id| Place::of(layout, 0, id, NOW_MS))
                .collect();
            let names: BTreeSet<String> = places.iter().map(Place::record_key).collect();
            assert_eq!(names.len(), records, "{layout}");
            let first = places.iter().filter(|place| **place == places[0]).count();
            assert!(first.abs_diff(8_000 / records) < 120, "{layout}: {first}");
        }
    }
}
