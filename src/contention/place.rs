//! Which record a write goes to: one function, for the simulation and for the engine.

use xxhash_rust::xxh3::xxh3_64;

use super::layout::{Bucket, Layout};

/// Milliseconds from 1970 to 2010, where a store's time begins.
pub(super) const EPOCH_2010_MS: u64 = 1_262_304_000_000;

/// A record of a hot key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    /// The hot key.
    pub(super) key: u32,
    /// The bucket of time: how long it is, and which one since 1970.
    bucket: Option<(Bucket, u64)>,
    /// The shard, where there are several.
    shard: Option<u32>,
}

impl Place {
    /// The record of this key that a write with this number goes to, at this time (milliseconds since 2010).
    pub(super) fn of(layout: Layout, key: u32, id: u64, now_ms: u64) -> Self {
        let bucket = match layout {
            Layout::Hashed(_) => None,
            Layout::Timed(bucket, _) => {
                Some((bucket, (now_ms + EPOCH_2010_MS) / 1000 / bucket.seconds()))
            }
        };
        let shards = layout.live_shards();
        let shard = (shards > 1).then(|| xxh3_64(&id.to_le_bytes()) as u32 & (shards - 1));
        Self { key, bucket, shard }
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
        if let Some((bucket, number)) = self.bucket {
            let seconds = number * bucket.seconds();
            let (year, month, day) = date(seconds / 86_400);
            key.push_str(&format!(":{year:04}-{month:02}-{day:02}"));
            if bucket == Bucket::Hour {
                key.push_str(&format!("-{:02}", seconds % 86_400 / 3_600));
            }
        }
        if let Some(shard) = self.shard {
            key.push_str(&format!(":{shard}"));
        }
        key
    }
}

/// Year, month and day of a day since 1970-01-01, by the Gregorian calendar: eras of 400 years that begin in March.
fn date(day: u64) -> (u64, u64, u64) {
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let day = of_year - (153 * march + 2) / 5 + 1;
    (era * 400 + year + u64::from(month <= 2), month, day)
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
