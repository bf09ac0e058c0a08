//! Which record a write goes to, and what it adds there: one function, for the simulation and for
//! the engine. Each write adds an element to a list: different for different writes, and in no
//! order.

use std::time::{Duration, SystemTime};

use spikelet::Value;
use spikelet::shard::TimeWidth;
use spikelet::shard::arithmetic::shard_of;

use super::layout::RowLayout;

/// Milliseconds from 1970 to 2010, where a store's time begins.
pub(super) const EPOCH_2010_MS: u64 = 1_262_304_000_000;
/// The keys of all records of a row begin with this.
pub(super) const KEY_PREFIX: &str = "hot";

/// The first number of the elements that are in the lists beforehand; writes have smaller ones.
pub(super) const INITIAL_FROM: u64 = 1 << 31;
/// The number of a foreign element: no list of the harness has that many.
const FOREIGN: u32 = u32::MAX;
/// Odd, so that it has an inverse.
const FACTOR: u32 = 0x9e37_79b1;
/// Its inverse, modulo 2^32.
const INVERSE: u32 = 0x0e8b_2f51;

/// Returns the element that the write of this number adds.
pub(super) fn element(id: u64) -> Value {
    Value::Int(i64::from((id as u32).wrapping_mul(FACTOR)))
}

/// Returns the number of an element, with or without its time; [`FOREIGN`] for any other value.
pub(super) fn number(element: &Value) -> u32 {
    let element = match element {
        Value::List(timed) => timed.iter().last(),
        alone => Some(alone),
    };
    match element {
        Some(Value::Int(element)) => {
            u32::try_from(*element).map_or(FOREIGN, |element| element.wrapping_mul(INVERSE))
        }
        _ => FOREIGN,
    }
}

/// A record of a hot key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct HotRoute {
    /// The hot key.
    pub(super) key: u32,
    /// The bucket of time: how long it is, and when it begins, in seconds since 1970.
    bucket: Option<(TimeWidth, u64)>,
    /// The shard, where there are several.
    shard: Option<u32>,
}

impl HotRoute {
    /// Returns the record of this key that the write of this number goes to at this time
    /// (milliseconds since 2010): where the sharded handles put its element.
    pub(super) fn of(layout: RowLayout, key: u32, id: u64, now_ms: u64) -> Self {
        Self::at(layout, key, id, (now_ms + EPOCH_2010_MS) / 1_000)
    }

    /// Returns the record for a time in seconds since 1970, such as the beginning of its bucket.
    pub(super) fn at(layout: RowLayout, key: u32, id: u64, at_s: u64) -> Self {
        let bucket = match layout {
            RowLayout::Hashed(_) => None,
            RowLayout::Timed(width, _) => Some((width, at_s - at_s % width.duration().as_secs())),
        };
        let whole = Self {
            key,
            bucket,
            shard: None,
        };
        let shards = layout.live_shards();
        let of = || {
            // Numbers have a shard, and layouts with a number of shards that is no power of two are
            // refused.
            let shard = shard_of(&whole.child(id), shards.into());
            debug_assert!(shard.is_ok(), "write {id} of {shards} shards: {shard:?}");
            shard.map_or(0, |shard| shard as u32)
        };
        let shard = (shards > 1).then(of);
        Self { shard, ..whole }
    }

    /// Returns when its bucket begins, in seconds since 1970; 0 in layouts without time.
    pub(super) fn begins_s(&self) -> u64 {
        self.bucket.map_or(0, |(_, begins_s)| begins_s)
    }

    /// Returns what a write adds to the list of this record: its element, with its time in a bucket
    /// of time.
    pub(super) fn child(&self, id: u64) -> Value {
        match self.bucket {
            None => element(id),
            Some(_) => {
                let at = self.micros(id).cast_signed();
                Value::List(vec![Value::Int(at), element(id)].into())
            }
        }
    }

    /// Returns when time shards say a write's element was added.
    pub(super) fn time(&self, id: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_micros(self.micros(id))
    }

    /// Returns when time shards say a write's element was added, in microseconds since 1970: its
    /// number in microseconds after the beginning of its bucket, which no bucket is too short for.
    fn micros(&self, id: u64) -> u64 {
        let begins = self.begins_s().saturating_mul(1_000_000);
        begins.saturating_add(id & (u32::MAX as u64 >> 1))
    }

    /// Returns the route of the hot key alone.
    pub(super) const fn whole(&self) -> Self {
        Self {
            key: self.key,
            bucket: None,
            shard: None,
        }
    }

    /// Returns the record of a shard, in layouts without time.
    pub(super) fn hashed(key: u32, shards: u32, shard: u32) -> Self {
        Self {
            key,
            bucket: None,
            shard: (shards > 1).then_some(shard),
        }
    }

    /// Returns the records of all shards of a key, in layouts without time.
    pub(super) fn all_of(key: u32, shards: u32) -> impl Iterator<Item = Self> {
        (0..shards).map(move |shard| Self::hashed(key, shards, shard))
    }

    /// Returns its shard; 0 if there is only one.
    pub(super) fn shard_number(&self) -> u32 {
        self.shard.unwrap_or(0)
    }

    /// Returns the key of the record: that of the hot key, with its bucket (`{key}:2026-01-31-23`
    /// or `{key}:2026-01-31`) and its shard.
    pub(super) fn record_key(&self) -> String {
        let mut key = format!("{KEY_PREFIX}{}", self.key);
        if let Some((width, begins_s)) = self.bucket {
            let begins = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(begins_s));
            let name = begins.and_then(|begins| width.bucket_name(begins).ok());
            key.push(':');
            // A time past the year 9999 is that of a damaged journal, and no record has this key.
            key.push_str(&name.unwrap_or_else(|| begins_s.to_string()));
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
            let route = HotRoute::of(layout.parse().unwrap(), 3, 99, at);
            assert_eq!(route.record_key(), name, "{layout}");
        }
    }

    #[test]
    fn a_write_is_known_by_its_element() {
        let timed = HotRoute::of("hourly".parse().unwrap(), 0, 0, NOW_MS);
        for id in [0, 1, 77, 20_000_000, INITIAL_FROM - 1, INITIAL_FROM] {
            assert_eq!(number(&element(id)), id as u32);
            assert_eq!(number(&timed.child(id)), id as u32);
        }
        let foreign = [Value::Nil, Value::List(vec![].into()), Value::Int(1 << 32)];
        for other in foreign {
            assert_eq!(number(&other), FOREIGN);
        }
    }

    #[test]
    fn a_time_past_the_year_9999_names_no_bucket() {
        let at = |layout: &str, at_s| HotRoute::at(layout.parse().unwrap(), 0, 1, at_s);
        assert_eq!(at("hourly", 0).record_key(), "hot0:1970-01-01-00");
        for at_s in [300_000_000_000, u64::MAX] {
            let begins_s = at_s - at_s % 3_600;
            let name = format!("hot0:{begins_s}");
            assert_eq!(at("hourly", at_s).record_key(), name);
            assert!(at("hourly+8", at_s).record_key().starts_with(&name));
            assert_eq!(at("1", at_s).record_key(), "hot0");
        }
    }

    #[test]
    fn hashing_reaches_all_shards_evenly_and_time_only_one() {
        for (layout, records) in [("1", 1), ("8", 8), ("hourly", 1), ("daily+8", 8)] {
            let layout = layout.parse().unwrap();
            let routes: Vec<HotRoute> = (0..8_000)
                .map(|id| HotRoute::of(layout, 0, id, NOW_MS))
                .collect();
            let names: BTreeSet<String> = routes.iter().map(HotRoute::record_key).collect();
            assert_eq!(names.len(), records, "{layout}");
            let first = routes.iter().filter(|route| **route == routes[0]).count();
            assert!(first.abs_diff(8_000 / records) < 120, "{layout}: {first}");
        }
    }
}
