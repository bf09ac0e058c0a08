//! The size of one record, part by part.

use spikelet::record::{BinName, companion_name};
use spikelet::{Bins, Digest, Key, Metadata, RecordView, Result, ScannedRecord, Value, ValueRef};

use super::remedy::{Obstacle, Part, SizeRemedy, is_blocked, parts};

use crate::report;

/// The header of a record in the log.
const HEADER_BYTES: u64 = 56;
/// Records are padded to a multiple of this many bytes.
const PADDING_BYTES: u64 = 16;
/// The bin by which a companion of a sharded collection describes itself.
pub(super) const COMPANION_BIN: &str = "shard_of";
/// The bin that keeps a companion from being written during a transition.
const FROZEN_BIN: &str = "frozen";
/// So many bins are named where several make a record large.
const BINS_NAMED: usize = 3;
/// A list that is less than one part in this many of its record is not taken for the contended bin.
const CONTENDED_PART: u64 = 20;
/// A name for measuring a bin when its own name is counted apart.
const STAND_IN: &str = "b";

/// A record, measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecordMeasure {
    /// Its key, as people write it; empty if it is not stored.
    pub(crate) key: String,
    pub(crate) digest: Option<String>,
    /// Header, key and bins: what counts against the limit of a record's size.
    pub(crate) bytes: u64,
    /// Bytes on the device; of a given record the least that it may take: the log rounds up
    /// by a 32nd at most.
    pub(crate) stored_bytes: u64,
    /// 0: not known.
    pub(crate) generation: u16,
    /// In milliseconds since 2010-01-01; 0: not known.
    pub(crate) last_update_ms: u64,
    pub(crate) expires: bool,
    /// Seconds from the last write to expiry; `None`: never expires, or not known when it was
    /// written.
    pub(crate) time_to_live_s: Option<u64>,
    pub(crate) colon_in_key: bool,
    /// Which sharded collection the record holds a shard of.
    pub(crate) companion: Option<CompanionDescription>,
    pub(crate) bins: Vec<BinMeasure>,
}

/// A companion's description of the collection that it holds a shard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompanionDescription {
    /// The key of the root, as people write it.
    pub(crate) root: String,
    /// The bin of the collection; `None`: only the root names it.
    pub(crate) bin: Option<String>,
    /// Over how many records it is sharded; of time shards, in each bucket. 0: it is a page of a
    /// directory of buckets, and holds no elements.
    pub(crate) shards: u64,
    /// Whether it is one of several buckets of time.
    pub(crate) in_bucket: bool,
}

/// A bin, measured.
#[derive(Clone, Debug)]
pub(crate) struct BinMeasure {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// With its name and head.
    pub(crate) bytes: u64,
    pub(crate) collection: Option<CollectionMeasure>,
}

/// A list or map, measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct CollectionMeasure {
    /// Elements of a list, entries of a map.
    pub(crate) count: u64,
    /// What they take, without the collection's head and index.
    pub(crate) bytes: u64,
    pub(crate) indexed: bool,
    /// The mean element, each weighed by its size: how far shards differ goes with it. 0: not
    /// known, and of a collection that needs no shards.
    pub(crate) weighed_element_bytes: f64,
    /// Keys of a map of other types than integer, text and bytes.
    pub(crate) odd_keys: u64,
    /// Why shards would not make it small enough.
    pub(crate) obstacle: Option<Obstacle>,
}

impl RecordMeasure {
    /// Measures a record that a scan has met, by the most that a shard should hold.
    pub(crate) fn scanned(record: &ScannedRecord<'_>, shard_bytes_max: u64) -> Self {
        let key = record.key();
        let mut measured = Self::viewed(record.digest, key.as_ref(), record.view, shard_bytes_max)
            .with_metadata(&record.metadata);
        measured.stored_bytes = record.stored_bytes;
        measured
    }

    /// Measures a record with bins in their stored form, as spikelet would store it.
    pub(crate) fn viewed(
        digest: Digest,
        key: Option<&Key<'_>>,
        view: RecordView<'_>,
        shard_bytes_max: u64,
    ) -> Self {
        let bins = BinMeasure::of_view(view, shard_bytes_max).collect();
        let mut measured = Self::new(key, view.as_bytes().len() as u64, bins);
        measured.digest = Some(digest.to_string());
        measured.companion = CompanionDescription::of(view);
        measured
    }

    /// Measures a record of another source, as spikelet would store it. Names of bins may be longer
    /// than a store takes, and bins more.
    ///
    /// # Errors
    /// A value that cannot be stored.
    pub(crate) fn given(
        key: Option<&Key<'_>>,
        bins: impl IntoIterator<Item = (String, Value)>,
        shard_bytes_max: u64,
    ) -> Result<Self> {
        let mut measured = Vec::new();
        let mut body_bytes = 0;
        let mut body = Vec::new();
        let mut companion = None;
        for (name, value) in bins {
            body.clear();
            let mut bins = Bins::new();
            let stand_in = match name.as_str() {
                COMPANION_BIN => COMPANION_BIN,
                _ => STAND_IN,
            };
            bins.set(stand_in, value)?;
            bins.write_body(&mut body)?;
            // A bin without a value does not count.
            let view = RecordView::parse(&body)?;
            companion = companion.or_else(|| CompanionDescription::of(view));
            for mut bin in BinMeasure::of_view(view, shard_bytes_max) {
                bin.bytes += name.len() as u64 - stand_in.len() as u64;
                bin.name.clone_from(&name);
                body_bytes += bin.bytes;
                measured.push(bin);
            }
        }
        body_bytes += varint_bytes(measured.len());
        Ok(Self {
            companion,
            ..Self::new(key, body_bytes, measured)
        })
    }

    /// Measures a record by what the servers of a cluster say of it: its size, and of its lists and
    /// maps the number of elements and what some of these take.
    ///
    /// # Errors
    /// An element that no record can hold.
    #[cfg(feature = "cluster")]
    pub(crate) fn told(
        record: &spikelet::cluster::MeasuredRecord,
        shard_bytes_max: u64,
    ) -> Result<Self> {
        let bins = record.collections.iter();
        let bins = bins.map(|found| BinMeasure::told(found, shard_bytes_max));
        let mut measured = Self::new(record.key.as_ref(), 0, bins.collect::<Result<_>>()?)
            .with_metadata(&record.metadata);
        measured.digest = Some(record.digest.to_string());
        let mut described = record.collections.iter();
        if let Some(described) = described.find(|found| found.bin == COMPANION_BIN) {
            let whole = Value::from(described.elements.clone());
            let alone = Self::given(None, [(COMPANION_BIN.to_owned(), whole)], shard_bytes_max)?;
            measured.companion = alone.companion;
        }
        measured.bytes = record.bytes;
        measured.stored_bytes = record.bytes.next_multiple_of(PADDING_BYTES);
        Ok(measured)
    }

    /// Builds a record of its key and the size of its body.
    fn new(key: Option<&Key<'_>>, body: u64, bins: Vec<BinMeasure>) -> Self {
        let mut record = Self {
            bytes: HEADER_BYTES + body,
            ..Self::default()
        };
        let mut key_head = 0;
        if let Some(key) = key {
            let mut stored = Vec::new();
            key.write_stored(&mut stored);
            key_head = varint_bytes(stored.len());
            record.bytes += stored.len() as u64;
            record.key = report::key(key);
            record.colon_in_key = stored.contains(&b':') && !matches!(key, Key::Integer(_));
        }
        // The log says how long the key is, which does not count against the limit.
        record.stored_bytes = (record.bytes + key_head).next_multiple_of(PADDING_BYTES);
        record.bins = bins;
        record
    }

    /// Adds generation and times.
    pub(crate) fn with_metadata(mut self, metadata: &Metadata) -> Self {
        self.generation = metadata.generation;
        self.last_update_ms = metadata.last_update_ms;
        self.expires = metadata.void_time != 0;
        let known = self.expires && metadata.last_update_ms > 0;
        self.time_to_live_s = known
            .then(|| u64::from(metadata.void_time).saturating_sub(metadata.last_update_ms / 1000));
        self
    }

    /// Returns the bin that takes most.
    pub(crate) fn largest_bin(&self) -> Option<&BinMeasure> {
        self.bins.iter().max_by_key(|bin| bin.bytes)
    }

    /// Returns a bin by its name.
    pub(crate) fn bin(&self, name: &str) -> Option<&BinMeasure> {
        self.bins.iter().find(|bin| bin.name == name)
    }

    /// Returns the largest bins with their part of the record: `tags 52 %`.
    pub(crate) fn bin_shares(&self) -> Vec<String> {
        let mut bins: Vec<&BinMeasure> = self.bins.iter().collect();
        bins.sort_by_key(|bin| std::cmp::Reverse(bin.bytes));
        let share = |bin: &&BinMeasure| 100.0 * bin.bytes as f64 / self.bytes.max(1) as f64;
        bins.iter()
            .take(BINS_NAMED)
            .map(|bin| format!("{} {} %", bin.name, report::decimal(share(bin), 0)))
            .collect()
    }

    /// Returns what would make the record smaller: what most of its bytes ask for.
    pub(crate) fn remedy(&self, shard_bytes_max: u64) -> Option<SizeRemedy> {
        let largest = self.largest_bin()?;
        let Some(collection) = &largest.collection else {
            return Some(SizeRemedy::StoreElsewhere);
        };
        if let Some(obstacle) = &collection.obstacle {
            return Some(obstacle.remedy());
        }
        // Shards of one collection leave the other bins.
        let rest = self.bytes - largest.bytes;
        Some(if rest > shard_bytes_max {
            SizeRemedy::SeveralRecords
        } else if largest.bytes > shard_bytes_max || rest <= shard_bytes_max / 2 {
            SizeRemedy::Shard
        } else if self.bins.len() > 2 && largest.bytes * 2 < self.bytes {
            SizeRemedy::SeveralRecords
        } else {
            SizeRemedy::Shard
        })
    }

    /// Returns the bin that writers most likely meet in: the largest list, map or counter.
    pub(crate) fn contended_bin(&self) -> Option<&str> {
        // A list that is hardly a part of the record is no likely place to meet in.
        let is_spread = |bin: &&BinMeasure| {
            let is_large = bin.bytes * CONTENDED_PART >= self.bytes;
            (bin.collection.is_some() && is_large) || bin.kind == "integer"
        };
        let bins = self.bins.iter().filter(is_spread);
        bins.max_by_key(|bin| bin.bytes)
            .map(|bin| bin.name.as_str())
    }

    /// Returns the remedy that takes writes from the record: shards, of its collection or counter;
    /// or a record for each bin.
    pub(crate) fn remedy_for_rate(&self) -> SizeRemedy {
        let is_spread = |bin: &BinMeasure| bin.collection.is_some() || bin.kind == "integer";
        let collection = self.largest_bin().and_then(|bin| bin.collection.as_ref());
        if let Some(obstacle) = collection.and_then(|found| found.obstacle.as_ref()) {
            return obstacle.remedy();
        }
        if self.companion.is_some() || self.bins.iter().any(is_spread) {
            SizeRemedy::Shard
        } else {
            SizeRemedy::SeveralRecords
        }
    }
}

impl CompanionDescription {
    fn of(view: RecordView<'_>) -> Option<Self> {
        let name = companion_name(view)?;
        Some(Self {
            root: report::key(&name.root),
            bin: name.bin.map(str::to_owned),
            shards: u64::try_from(name.shards).ok()?,
            in_bucket: name.begin.is_some(),
        })
    }
}

impl BinMeasure {
    /// Measures the bins of a stored record, in their order.
    fn of_view(view: RecordView<'_>, shard_bytes_max: u64) -> impl Iterator<Item = Self> {
        let particles = view.particles();
        view.iter()
            .zip(particles)
            .map(move |((name, value), (_, kind, stored))| Self {
                name: name.to_owned(),
                kind: kind.name(),
                bytes: bin_bytes(name, stored.len()),
                collection: CollectionMeasure::of(&value, shard_bytes_max),
            })
    }

    /// Estimates a collection by some of its elements.
    #[cfg(feature = "cluster")]
    fn told(
        collection: &spikelet::cluster::MeasuredCollection,
        shard_bytes_max: u64,
    ) -> Result<Self> {
        let some = Value::from(collection.elements.clone());
        let sampled = [(STAND_IN.to_owned(), some)];
        let sampled = RecordMeasure::given(None, sampled, shard_bytes_max)?;
        let sampled = sampled.bins.iter().find_map(|bin| bin.collection.as_ref());
        let sampled = sampled.map_or(0, |sampled| sampled.bytes);
        let (count, sampled_count) = (collection.count, collection.elements.len() as u64);
        let bytes = count * sampled / sampled_count.max(1);
        let element_bytes = sampled / sampled_count.max(1);
        let is_blocked = is_blocked(shard_bytes_max, bytes, element_bytes as f64, count);
        Ok(Self {
            name: collection.bin.clone(),
            kind: if collection.is_map { "map" } else { "list" },
            bytes,
            collection: Some(CollectionMeasure {
                count,
                bytes,
                obstacle: is_blocked.then_some(Obstacle::Element {
                    bytes: element_bytes,
                }),
                ..CollectionMeasure::default()
            }),
        })
    }

    /// Returns whether the bin describes a companion, and holds no part of the collection.
    pub(crate) fn is_description(&self) -> bool {
        [COMPANION_BIN, FROZEN_BIN].contains(&self.name.as_str())
    }

    /// Returns whether the name is longer than Aerospike and spikelet allow.
    pub(crate) fn has_long_name(&self) -> bool {
        self.name.len() > BinName::MAX_BYTES
    }
}

impl CollectionMeasure {
    /// Measures a list or map; `None` for another value. O(1) for a list that fits a record,
    /// O(elements) for a larger one and for a map, since its keys are looked at.
    fn of(value: &ValueRef<'_>, shard_bytes_max: u64) -> Option<Self> {
        let mut measured = Self::default();
        let (count, bytes) = match value {
            ValueRef::List(list) => {
                measured.indexed = list.is_indexed();
                (list.len(), list.content_bytes())
            }
            ValueRef::Map(map) => {
                measured.indexed = map.is_indexed();
                let entries = map.iter().flatten();
                measured.odd_keys = entries.filter(|(key, _)| is_odd_key(key)).count() as u64;
                (map.len(), map.content_bytes())
            }
            _ => return None,
        };
        (measured.count, measured.bytes) = (count as u64, bytes as u64);
        if measured.bytes > shard_bytes_max {
            let (mut sum, mut squares, mut largest) = (0.0, 0.0, 0);
            for Part { bytes, .. } in parts(value) {
                sum += bytes as f64;
                squares += bytes as f64 * bytes as f64;
                largest = largest.max(bytes);
            }
            measured.weighed_element_bytes = squares / f64::max(sum, 1.0);
            measured.obstacle = Obstacle::of(value, shard_bytes_max).or_else(|| {
                let element_bytes = measured.weighed_element_bytes;
                is_blocked(
                    shard_bytes_max,
                    measured.bytes,
                    element_bytes,
                    measured.count,
                )
                .then_some(Obstacle::Element { bytes: largest })
            });
        }
        Some(measured)
    }
}

/// Returns whether a key of a map is of a type that clients of Aerospike should not use.
const fn is_odd_key(key: &ValueRef<'_>) -> bool {
    !matches!(
        key,
        ValueRef::Int(_) | ValueRef::String(_) | ValueRef::Blob(_)
    )
}

/// Returns the bytes of a bin in the body of a record: length of the name, name, type, length of
/// the value, value.
fn bin_bytes(name: &str, value_bytes: usize) -> u64 {
    (2 + name.len() + value_bytes) as u64 + varint_bytes(value_bytes)
}

/// Returns the bytes of a length that is written in groups of seven bits.
fn varint_bytes(value: usize) -> u64 {
    u64::from(value.max(1).ilog2() / 7 + 1)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use spikelet::shard::arithmetic::SWEET_SPOT_BYTES;
    use spikelet::value::Map;
    use spikelet::{MapOrder, Store};

    fn given(name: &str, value: Value) -> RecordMeasure {
        RecordMeasure::given(None, [(name.to_owned(), value)], SWEET_SPOT_BYTES).unwrap()
    }

    #[test]
    fn a_list_that_is_hardly_a_part_of_its_record_is_no_place_to_meet_in() {
        for (text_bytes, expected) in [(100, Some("tags")), (100_000, None)] {
            let tags = Value::List((0..200).collect());
            let bins = [("text", "x".repeat(text_bytes).into()), ("tags", tags)];
            let bins = bins.map(|(name, value)| (name.to_owned(), value));
            let record = RecordMeasure::given(None, bins, SWEET_SPOT_BYTES).unwrap();
            assert_eq!(record.contended_bin(), expected, "{text_bytes}");
        }
    }

    #[test]
    fn what_is_told_of_given_bins_is_what_the_store_keeps() {
        let values: [(&str, Value); 7] = [
            ("int", 70_000.into()),
            ("float", 1.5.into()),
            ("text", "x".repeat(300).into()),
            ("blob", vec![0_u8; 20_000].into()),
            ("list", Value::List((0..500).collect())),
            (
                "map",
                Value::Map(Map::new(vec![("a".into(), 1.into())], MapOrder::KeyOrdered)),
            ),
            ("yes", true.into()),
        ];
        let store = Store::in_memory().unwrap();
        for count in 0..=values.len() {
            for key in [Key::from(7), "a:b".into(), "k".repeat(200).into()] {
                let bins = &values[..count];
                let set = store.set(&format!("set-{count}")).unwrap();
                if count == 0 {
                    continue;
                }
                set.put(
                    &key,
                    bins.iter().map(|(name, value)| (*name, value.clone())),
                )
                .unwrap();
                let given = bins
                    .iter()
                    .cloned()
                    .map(|(name, value)| (name.to_owned(), value));
                let given = RecordMeasure::given(Some(&key), given, SWEET_SPOT_BYTES).unwrap();
                let mut scanned = Vec::new();
                let _: ControlFlow<()> = set.scan(|record| {
                    scanned.push(RecordMeasure::scanned(&record.unwrap(), SWEET_SPOT_BYTES));
                    ControlFlow::Continue(())
                });
                let scanned = scanned.iter().find(|found| found.key == given.key).unwrap();
                assert_eq!(given.bytes, scanned.bytes, "{count} {key:?}");
                let rounded = given.stored_bytes..=given.stored_bytes * 33 / 32;
                assert!(rounded.contains(&scanned.stored_bytes), "{count} {key:?}");
                assert_eq!(given.colon_in_key, key == "a:b".into());
                for (given, scanned) in given.bins.iter().zip(&scanned.bins) {
                    assert_eq!(
                        (given.bytes, &given.kind),
                        (scanned.bytes, &scanned.kind),
                        "{}",
                        given.name
                    );
                }
            }
        }
    }

    #[test]
    fn elements_are_counted_without_their_collections_head() {
        let list: Value = Value::List((0..100).collect());
        let record = given("l", list);
        let found = record.bins[0].collection.clone().unwrap();
        assert_eq!((found.count, found.bytes, found.indexed), (100, 100, false));
        assert_eq!(record.largest_bin().unwrap().name, "l");
        assert!(given("n", Value::Int(1)).bins[0].collection.is_none());
    }

    #[test]
    fn nil_is_no_bin() {
        let record = given("n", Value::Nil);
        assert_eq!((record.bins.len(), record.bytes), (0, 57));
    }
}
