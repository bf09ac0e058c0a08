//! Set by set, what the records come to while they go by. Memory goes with sets, bins and different
//! sizes, not with records; a sample keeps its records until all have gone by.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use spikelet::record::MAX_BINS;
use spikelet::shard::arithmetic::SWEET_SPOT_BYTES;
use spikelet::storage::SetUsage;
use xxhash_rust::xxh3::xxh3_64;

use super::SizingOptions;
use super::measure::{BinMeasure, CollectionMeasure, CompanionDescription, RecordMeasure};
use super::remedy::{Obstacle, SizeRemedy};
use super::sample::Reservoir;
use super::size_histogram::SizeHistogram;

/// The most bins of a set that are counted apart; further ones are counted as one.
const BINS_MAX: usize = 1000;
/// Verdicts go by the first of the largest and most written records, also where none are listed.
const TOP_MIN: usize = 3;
/// The name that stands for all further bins.
const FURTHER_BINS: &str = "(further bins)";

/// The names of a namespace and a set.
pub(crate) type SetName = (String, String);

/// All sets.
#[derive(Debug)]
pub(crate) struct StatsBySet<'o> {
    options: &'o SizingOptions,
    sets: BTreeMap<SetName, SetStats>,
}

impl<'o> StatsBySet<'o> {
    pub(crate) const fn new(options: &'o SizingOptions) -> Self {
        Self {
            options,
            sets: BTreeMap::new(),
        }
    }

    /// Returns the statistics of a set; `None` if it is not asked for.
    pub(crate) fn set(&mut self, namespace: &str, set: &str) -> Option<&mut SetStats> {
        let wanted = self.options.set.as_ref();
        if wanted.is_some_and(|wanted| wanted != set) {
            return None;
        }
        let name = (namespace.to_owned(), set.to_owned());
        let new = || SetStats::new(self.options, namespace, set);
        Some(self.sets.entry(name).or_insert_with(new))
    }

    /// Returns the statistics of these sets of a namespace, in their order; `None` of a set that is
    /// not asked for.
    pub(crate) fn sets(
        &mut self,
        namespace: &str,
        names: &[SetUsage],
    ) -> Vec<Option<&mut SetStats>> {
        for name in names {
            self.set(namespace, &name.name);
        }
        let mut known: HashMap<&str, &mut SetStats> = self
            .sets
            .iter_mut()
            .filter(|((of, _), _)| of == namespace)
            .map(|((_, set), stats)| (set.as_str(), stats))
            .collect();
        names.iter().map(|name| known.remove(&*name.name)).collect()
    }

    /// Returns all sets that have records, by namespace and name, and counts the samples.
    pub(crate) fn finish(mut self) -> BTreeMap<SetName, SetStats> {
        self.sets.retain(|_, set| set.records > 0);
        for set in self.sets.values_mut() {
            for record in set.sample.take().map_or(Vec::new(), Reservoir::into_items) {
                set.take(record);
            }
        }
        self.sets
    }
}

/// A set.
#[derive(Clone, Debug, Default)]
pub(crate) struct SetStats {
    /// The most that a shard should hold, in bytes.
    pub(crate) shard_bytes_max: u64,
    /// Records that went by.
    pub(crate) records: u64,
    /// What counts against the limit of a record's size, record by record.
    pub(crate) counted: SizeHistogram,
    /// That of the records that are judged: companions are judged with their collection.
    pub(crate) judged: SizeHistogram,
    /// What records take on the device.
    pub(crate) stored: SizeHistogram,
    pub(crate) times_to_live_s: SizeHistogram,
    pub(crate) bins: BTreeMap<String, BinStats>,
    /// How many records a rule of the lints applies to, by the name of the rule.
    pub(crate) noted: BTreeMap<&'static str, u64>,
    /// What helps the records beyond 128 KiB, and how many it helps.
    pub(crate) remedies: BTreeMap<SizeRemedy, u64>,
    /// The largest record to judge, of any size.
    pub(crate) heaviest: Option<RecordMeasure>,
    /// The sharded collections, by root and bin.
    pub(crate) sharded: BTreeMap<(String, Option<String>), ShardedStats>,
    pub(crate) largest: Top,
    pub(crate) most_written: Top,
    sample: Option<Reservoir<RecordMeasure>>,
}

/// A bin of a set.
#[derive(Clone, Debug, Default)]
pub(crate) struct BinStats {
    /// How many records have it with which type.
    pub(crate) kinds: BTreeMap<&'static str, u64>,
    pub(crate) sizes: SizeHistogram,
    pub(crate) collections: CollectionStats,
}

/// The lists and maps of a bin.
#[derive(Clone, Debug, Default)]
pub(crate) struct CollectionStats {
    pub(crate) counts: SizeHistogram,
    /// What the elements of each take.
    pub(crate) sizes: SizeHistogram,
    pub(crate) indexed: u64,
    /// The largest collection, and its mean element weighed by size.
    pub(crate) largest: (u64, f64),
    /// Collections with keys of other types than integer, text and bytes.
    pub(crate) with_odd_keys: u64,
    /// Collections that shards would not make small enough.
    pub(crate) blocked: u64,
    /// The obstacle in the largest of these, and its size.
    pub(crate) obstacle: Option<(u64, Obstacle)>,
}

/// A sharded collection: its companions together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct ShardedStats {
    /// Over how many records it is sharded; of time shards, in each bucket.
    pub(crate) shards: u64,
    /// Whether its shards are buckets of time.
    pub(crate) by_time: bool,
    pub(crate) companions: u64,
    pub(crate) elements: u64,
    pub(crate) bytes: u64,
    /// Bytes of its largest companion.
    pub(crate) largest_bytes: u64,
}

impl SetStats {
    fn new(options: &SizingOptions, namespace: &str, set: &str) -> Self {
        // Each set draws its own numbers, so that its sample does not depend on records of other
        // sets.
        let own = xxh3_64(format!("{namespace}\0{set}").as_bytes());
        let reservoir = |sample: super::Sample| Reservoir::new(sample.records, sample.seed ^ own);
        Self {
            shard_bytes_max: options.shard_bytes_max(),
            largest: Top::new(options.top.max(TOP_MIN)),
            most_written: Top::new(options.top.max(TOP_MIN)),
            sample: options.sample().map(reservoir),
            ..Self::default()
        }
    }

    /// Returns the most shards that a collection of the set has.
    pub(crate) fn shards_max(&self) -> Option<u64> {
        self.sharded.values().map(|found| found.shards).max()
    }

    /// Counts a record, and measures it only if it is needed, by the most that a shard should hold.
    ///
    /// # Errors
    /// What measuring it returns.
    pub(crate) fn meet<E>(
        &mut self,
        measure: impl FnOnce(u64) -> Result<RecordMeasure, E>,
    ) -> Result<(), E> {
        self.records += 1;
        let most = self.shard_bytes_max;
        match &mut self.sample {
            Some(sample) => sample.meet(|| measure(most)),
            None => {
                self.take(measure(most)?);
                Ok(())
            }
        }
    }

    fn take(&mut self, record: RecordMeasure) {
        self.counted.add(record.bytes);
        match &record.companion {
            Some(companion) => self.take_companion(companion, &record),
            None => self.judge(&record),
        }
        self.stored.add(record.stored_bytes);
        if let Some(seconds) = record.time_to_live_s {
            self.times_to_live_s.add(seconds);
        }
        let is_judged = record.companion.is_none();
        let has_long_name = record.bins.iter().any(BinMeasure::has_long_name);
        self.note("bin_name_too_long", has_long_name);
        self.note("too_many_bins", record.bins.len() > MAX_BINS);
        self.note("expiry_without_nsup", record.expires);
        self.note("colon_in_key", record.colon_in_key && is_judged);
        self.note("key_not_stored", record.key.is_empty());
        self.note("shards", !is_judged);
        for bin in &record.bins {
            let stats = bin_of(&mut self.bins, &bin.name);
            *stats.kinds.entry(bin.kind).or_default() += 1;
            stats.sizes.add(bin.bytes);
            if let Some(collection) = bin.collection.as_ref().filter(|_| is_judged) {
                stats.collections.add(collection);
            }
        }
        if record.generation > 1 {
            self.most_written
                .offer(u64::from(record.generation), &record);
        }
        self.largest.offer(record.bytes, &record);
    }

    /// Counts a record for a rule of the lints, if it applies.
    pub(crate) fn note(&mut self, rule: &'static str, applies: bool) {
        debug_assert!(super::lint::rules().any(|(name, _)| name == rule), "{rule}");
        if applies {
            *self.noted.entry(rule).or_default() += 1;
        }
    }

    /// Counts a record other than a companion for the verdict.
    fn judge(&mut self, record: &RecordMeasure) {
        if self.judged.count() == 0 || record.bytes > self.judged.max() {
            self.heaviest = Some(record.clone());
        }
        self.judged.add(record.bytes);
        if record.bytes > SWEET_SPOT_BYTES
            && let Some(remedy) = record.remedy(self.shard_bytes_max)
        {
            *self.remedies.entry(remedy).or_default() += 1;
        }
    }

    /// Counts a companion with its collection. A page of a directory of buckets is none.
    fn take_companion(&mut self, companion: &CompanionDescription, record: &RecordMeasure) {
        if companion.shards == 0 {
            return;
        }
        let name = (companion.root.clone(), companion.bin.clone());
        let collection = self.sharded.entry(name).or_default();
        collection.shards = collection.shards.max(companion.shards);
        collection.by_time |= companion.in_bucket;
        collection.companions += 1;
        collection.bytes += record.bytes;
        collection.largest_bytes = collection.largest_bytes.max(record.bytes);
        let own = |bin: &&BinMeasure| !bin.is_description();
        let counts = record.bins.iter().filter(own);
        collection.elements += counts
            .map(|bin| bin.collection.as_ref().map_or(1, |found| found.count))
            .sum::<u64>();
    }
}

fn bin_of<'b>(bins: &'b mut BTreeMap<String, BinStats>, name: &str) -> &'b mut BinStats {
    let name = if bins.contains_key(name) || bins.len() < BINS_MAX {
        name
    } else {
        FURTHER_BINS
    };
    bins.entry(name.to_owned()).or_default()
}

impl CollectionStats {
    fn add(&mut self, collection: &CollectionMeasure) {
        self.counts.add(collection.count);
        self.sizes.add(collection.bytes);
        if let Some(obstacle) = &collection.obstacle {
            self.blocked += 1;
            let is_larger = |(bytes, _): &(u64, Obstacle)| *bytes < collection.bytes;
            if self.obstacle.as_ref().is_none_or(is_larger) {
                self.obstacle = Some((collection.bytes, obstacle.clone()));
            }
        }
        if collection.bytes > self.largest.0 {
            self.largest = (collection.bytes, collection.weighed_element_bytes);
        }
        self.indexed += u64::from(collection.indexed);
        self.with_odd_keys += u64::from(collection.odd_keys > 0);
    }

    /// Returns the mean size of an element; 0 if there is none.
    pub(crate) fn element_bytes(&self) -> f64 {
        self.sizes.total() as f64 / self.counts.total().max(1) as f64
    }
}

/// The records of greatest weight.
#[derive(Clone, Debug, Default)]
pub(crate) struct Top {
    most: usize,
    /// The heaviest first.
    records: Vec<(u64, RecordMeasure)>,
}

impl Top {
    const fn new(most: usize) -> Self {
        Self {
            most,
            records: Vec::new(),
        }
    }

    /// Keeps the record if it is among the heaviest; of equals, the first by key and digest.
    fn offer(&mut self, weight: u64, record: &RecordMeasure) {
        let comes_before = |(other_weight, other): &(u64, RecordMeasure)| {
            let names = |record: &RecordMeasure| (record.key.clone(), record.digest.clone());
            *other_weight > weight || (*other_weight == weight && names(other) <= names(record))
        };
        let full = self.records.len() >= self.most;
        if full && self.records.last().is_none_or(|(least, _)| *least > weight) {
            return;
        }
        let place = self.records.partition_point(comes_before);
        if place < self.most {
            self.records.insert(place, (weight, record.clone()));
            self.records.truncate(self.most);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &RecordMeasure> {
        self.weighed().map(|(_, record)| record)
    }

    /// Returns the records, each behind its weight.
    pub(crate) fn weighed(&self) -> impl Iterator<Item = &(u64, RecordMeasure)> {
        self.records.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(weight: u64, key: String) -> RecordMeasure {
        RecordMeasure {
            bytes: weight,
            key,
            ..RecordMeasure::default()
        }
    }

    proptest! {
        #[test]
        fn the_heaviest_are_kept_in_any_order_of_arrival(weights in prop::collection::vec(0_u64..20, 0..60), most in 0_usize..12) {
            let mut records: Vec<RecordMeasure> =
                weights.iter().enumerate().map(|(n, weight)| record(*weight, format!("{n:03}"))).collect();
            let mut top = Top::new(most);
            for record in records.iter().rev() {
                top.offer(record.bytes, record);
            }
            records.sort_by_key(|record| (std::cmp::Reverse(record.bytes), record.key.clone()));
            let expected: Vec<_> = records.iter().take(most).map(|record| record.key.clone()).collect();
            let found: Vec<_> = top.iter().map(|record| record.key.clone()).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn bins_beyond_number_are_counted_as_one() {
        let options = SizingOptions::default();
        let mut stats = StatsBySet::new(&options);
        for n in 0..BINS_MAX + 5 {
            let name = format!("bin{n}");
            let value = 1.into();
            let set = stats.set("ns", "set").unwrap();
            set.meet(|most| RecordMeasure::given(None, [(name, value)], most))
                .unwrap();
        }
        let sets = stats.finish();
        let set = sets.values().next().unwrap();
        assert_eq!((set.records, set.bins.len()), (1_005, BINS_MAX + 1));
        assert_eq!(set.bins[FURTHER_BINS].sizes.count(), 5);
    }
}
