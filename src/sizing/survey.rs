//! Set by set, what the records come to while they go by. Memory goes with sets, bins and different sizes, not with
//! records; a sample keeps its records until all have gone by.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use super::Options;
use super::measure::{BinKind, Collection, Measured};
use super::sample::Reservoir;
use super::tally::Tally;
use crate::record::MAX_BINS;

/// So many bins of a set are told apart; further ones are one.
const BINS_MAX: usize = 1000;
/// What further bins are called.
const FURTHER_BINS: &str = "(further bins)";

/// All sets.
#[derive(Debug)]
pub(super) struct Survey<'o> {
    options: &'o Options,
    /// Where each set is, by namespace and name.
    places: BTreeMap<(String, String), usize>,
    sets: Vec<SetSurvey>,
}

impl<'o> Survey<'o> {
    pub(super) const fn new(options: &'o Options) -> Self {
        Self {
            options,
            places: BTreeMap::new(),
            sets: Vec::new(),
        }
    }

    /// The place of a set, for [`Survey::at`]; `None` if the set is not asked for.
    pub(super) fn place(&mut self, namespace: &str, set: &str) -> Option<usize> {
        let wanted = self.options.set.as_ref();
        if wanted.is_some_and(|wanted| wanted != set) {
            return None;
        }
        let names = (namespace.to_owned(), set.to_owned());
        Some(*self.places.entry(names).or_insert_with(|| {
            self.sets.push(SetSurvey::new(self.options, namespace, set));
            self.sets.len() - 1
        }))
    }

    /// What is known of the set at a place.
    pub(super) fn at(&mut self, place: usize) -> Option<&mut SetSurvey> {
        self.sets.get_mut(place)
    }

    /// What is known of a set; `None` if it is not asked for.
    pub(super) fn set(&mut self, namespace: &str, set: &str) -> Option<&mut SetSurvey> {
        let place = self.place(namespace, set)?;
        self.at(place)
    }

    /// All sets that have records, by namespace and name. Samples are counted now.
    pub(super) fn finish(self) -> BTreeMap<(String, String), SetSurvey> {
        let mut sets: Vec<Option<SetSurvey>> = self.sets.into_iter().map(Some).collect();
        let places = self.places.into_iter();
        places
            .filter_map(|(names, place)| {
                let mut set = sets.get_mut(place)?.take().filter(|set| set.records > 0)?;
                if let Some(sample) = set.sample.take() {
                    for record in sample.into_items() {
                        set.take(record);
                    }
                }
                Some((names, set))
            })
            .collect()
    }
}

/// A set.
#[derive(Debug)]
pub(super) struct SetSurvey {
    /// Records that went by.
    pub(super) records: u64,
    /// What counts against the limit of a record's size, record by record.
    pub(super) counted: Tally,
    /// What records take on the device.
    pub(super) stored: Tally,
    pub(super) expiring: u64,
    pub(super) times_to_live_s: Tally,
    pub(super) bins: BTreeMap<String, BinSurvey>,
    pub(super) without_key: u64,
    /// Records with the key of an earlier one.
    pub(super) repeated_keys: u64,
    pub(super) colon_in_key: u64,
    pub(super) companions: u64,
    pub(super) too_many_bins: u64,
    pub(super) long_names: u64,
    /// Whether most of the largest record is a list or map.
    pub(super) largest_is_collection: bool,
    pub(super) largest: Top,
    pub(super) most_written: Top,
    sample: Option<Reservoir<Measured>>,
}

/// A bin of a set.
#[derive(Debug, Default)]
pub(super) struct BinSurvey {
    /// How many records have it with which type.
    pub(super) kinds: BTreeMap<BinKind, u64>,
    pub(super) sizes: Tally,
    pub(super) collections: CollectionSurvey,
}

/// The lists and maps of a bin.
#[derive(Debug, Default)]
pub(super) struct CollectionSurvey {
    pub(super) counts: Tally,
    /// What all their elements take.
    pub(super) bytes: u64,
    /// What those of the largest take.
    pub(super) largest_bytes: u64,
    pub(super) indexed: u64,
    /// Collections with keys that are no integer, text or bytes.
    pub(super) with_odd_keys: u64,
}

impl SetSurvey {
    fn new(options: &Options, namespace: &str, set: &str) -> Self {
        // Each set draws its own numbers, so that its sample does not hang on what comes between.
        let own = xxh3_64(format!("{namespace}\0{set}").as_bytes());
        let reservoir = |sample: super::Sample| Reservoir::new(sample.records, sample.seed ^ own);
        Self {
            records: 0,
            counted: Tally::default(),
            stored: Tally::default(),
            expiring: 0,
            times_to_live_s: Tally::default(),
            bins: BTreeMap::new(),
            without_key: 0,
            repeated_keys: 0,
            colon_in_key: 0,
            companions: 0,
            too_many_bins: 0,
            long_names: 0,
            largest_is_collection: false,
            largest: Top::new(options.top),
            most_written: Top::new(options.top),
            sample: options.sample.map(reservoir),
        }
    }

    /// A record goes by; it is measured only if it counts.
    ///
    /// # Errors
    /// What measuring it returns.
    pub(super) fn meet<E>(
        &mut self,
        measure: impl FnOnce() -> Result<Measured, E>,
    ) -> Result<(), E> {
        self.records += 1;
        match &mut self.sample {
            None => self.take(measure()?),
            Some(sample) => {
                if let Some(place) = sample.next_place() {
                    sample.put(place, measure()?);
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, record: Measured) {
        if record.bytes > self.counted.max() {
            self.largest_is_collection = record
                .largest_bin()
                .is_some_and(|bin| bin.collection.is_some());
        }
        self.counted.add(record.bytes);
        self.stored.add(record.stored_bytes);
        if let Some(seconds) = record.time_to_live_s {
            self.times_to_live_s.add(seconds);
        }
        self.expiring += u64::from(record.expires);
        self.without_key += u64::from(record.key.is_empty());
        self.companions += u64::from(record.is_companion);
        self.colon_in_key += u64::from(record.colon_in_key && !record.is_companion);
        self.too_many_bins += u64::from(record.bins.len() > MAX_BINS);
        self.long_names += u64::from(record.bins.iter().any(|bin| bin.has_long_name()));
        for bin in &record.bins {
            let survey = bin_of(&mut self.bins, &bin.name);
            *survey.kinds.entry(bin.kind).or_default() += 1;
            survey.sizes.add(bin.bytes);
            if let Some(collection) = &bin.collection {
                survey.collections.add(collection);
            }
        }
        if record.generation > 1 {
            self.most_written
                .offer(u64::from(record.generation), &record);
        }
        self.largest.offer(record.bytes, &record);
    }
}

fn bin_of<'b>(bins: &'b mut BTreeMap<String, BinSurvey>, name: &str) -> &'b mut BinSurvey {
    let name = if bins.contains_key(name) || bins.len() < BINS_MAX {
        name
    } else {
        FURTHER_BINS
    };
    bins.entry(name.to_owned()).or_default()
}

impl CollectionSurvey {
    fn add(&mut self, collection: &Collection) {
        self.counts.add(collection.count);
        self.bytes += collection.bytes;
        self.largest_bytes = self.largest_bytes.max(collection.bytes);
        self.indexed += u64::from(collection.indexed);
        self.with_odd_keys += u64::from(collection.odd_keys > 0);
    }

    /// The mean size of an element; 0 if there is none.
    pub(super) fn element_bytes(&self) -> f64 {
        self.bytes as f64 / self.counts.total().max(1) as f64
    }
}

/// The records of greatest weight.
#[derive(Clone, Debug)]
pub(super) struct Top {
    most: usize,
    /// The heaviest first.
    records: Vec<(u64, Measured)>,
}

impl Top {
    const fn new(most: usize) -> Self {
        Self {
            most,
            records: Vec::new(),
        }
    }

    /// Takes the record in if it is among the heaviest; of equals those whose key and digest come first.
    fn offer(&mut self, weight: u64, record: &Measured) {
        let comes_before = |(other_weight, other): &(u64, Measured)| {
            let names = |record: &Measured| (record.key.clone(), record.digest.clone());
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

    pub(super) fn iter(&self) -> impl Iterator<Item = &Measured> {
        self.records.iter().map(|(_, record)| record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(weight: u64, key: String) -> Measured {
        Measured {
            bytes: weight,
            key,
            ..Measured::default()
        }
    }

    proptest! {
        #[test]
        fn the_heaviest_are_kept_in_any_order_of_arrival(weights in prop::collection::vec(0_u64..20, 0..60), most in 0_usize..12) {
            let mut records: Vec<Measured> =
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
        let options = Options::default();
        let mut survey = Survey::new(&options);
        for n in 0..BINS_MAX + 5 {
            let name = format!("bin{n}");
            let value = 1.into();
            let set = survey.set("ns", "set").unwrap();
            set.meet(|| Measured::given(None, [(name.as_str(), &value)]))
                .unwrap();
        }
        let sets = survey.finish();
        let set = sets.values().next().unwrap();
        assert_eq!((set.records, set.bins.len()), (1_005, BINS_MAX + 1));
        assert_eq!(set.bins[FURTHER_BINS].sizes.count(), 5);
    }
}
