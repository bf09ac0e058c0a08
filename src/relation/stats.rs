//! How many references a declared relation has, and how they are spread.

use std::collections::BTreeMap;

use super::declared::{DeclaredSide, RelationDeclaration, RelationKind, SideForm};
use super::one_to_many::{LayoutKind, suggest_layout};
use super::reference_path::ReferencePath;
use super::side::Side;
use crate::record::{Record, SHARD_OF, SUBKEYS};
use crate::{Key, RecordSet, RecordStore, Result, ValueRef};

/// What one side of a declared relation holds: [`RelationDeclaration::stats`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SideStats {
    /// Records that have references; for [`SideForm::Reference`], records that are referred to.
    pub records: u64,
    /// References in all of them. For a view, its records.
    pub elements: u64,
    /// How many references 99 of 100 of these records have at most.
    pub elements_p99: u64,
    /// The record with the most references, and how many; for [`SideForm::Reference`], the one that is most referred to.
    pub largest: Option<(Key<'static>, u64)>,
    /// How many of the records have their references sharded.
    pub sharded: u64,
    /// What the bins of the largest record that is not sharded take, in bytes.
    pub record_bytes_max: u64,
    /// What the references of all records take that are not sharded, in bytes of their bins.
    pub element_bytes: u64,
}

/// The counts of a side, record by record.
#[derive(Default)]
struct Counts {
    stats: SideStats,
    counts: Vec<u64>,
    sharded: Vec<Key<'static>>,
}

impl Counts {
    fn note(&mut self, key: Option<Key<'static>>, count: u64) {
        if count == 0 {
            return;
        }
        self.counts.push(count);
        self.stats.elements += count;
        let is_larger = self
            .stats
            .largest
            .as_ref()
            .is_none_or(|(_, most)| *most < count);
        if let (true, Some(key)) = (is_larger, key) {
            self.stats.largest = Some((key, count));
        }
    }

    fn finish(mut self) -> SideStats {
        self.stats.records = self.counts.len() as u64;
        self.counts.sort_unstable();
        let rank = (self.counts.len() * 99).div_ceil(100).saturating_sub(1);
        self.stats.elements_p99 = self.counts.get(rank).copied().unwrap_or(0);
        self.stats
    }
}

impl RelationDeclaration {
    /// Counts what each side holds, in the order of [`RelationDeclaration::sides`]. A scan of the set of each side, one read for
    /// each record whose references are sharded; memory for a count a record.
    ///
    /// # Errors
    /// Those of a scan.
    pub fn stats<S: RecordStore>(&self, store: &S) -> Result<Vec<SideStats>> {
        let sides = self.sides.iter();
        sides.map(|side| side.stats(store)).collect()
    }

    /// Returns the layout that suits the children of a [`RelationKind::OneToMany`], given the counts of its sides: the rules of
    /// [`suggest_layout`]. `None` for other relations, and where there are no children. A scan of the children's set, where
    /// they are records.
    ///
    /// # Errors
    /// Those of a scan.
    pub fn suggested_layout<S: RecordStore>(
        &self,
        store: &S,
        stats: &[SideStats],
    ) -> Result<Option<LayoutKind>> {
        let (Some(side), Some(counted)) = (self.sides.first(), stats.first()) else {
            return Ok(None);
        };
        if self.kind != RelationKind::OneToMany || counted.elements == 0 {
            return Ok(None);
        }
        let children = match (side.form, &side.to) {
            (SideForm::Map, _) | (_, None) => None,
            (SideForm::Reference, Some(_)) => Some(&side.set),
            (_, Some(children)) => Some(children),
        };
        let child_bytes = match children {
            None => counted.element_bytes / counted.elements,
            Some(set) => {
                let (mut records, mut bytes) = (0_u64, 0_u64);
                store.records(set)?.scan_records(&mut |record| {
                    records += 1;
                    bytes += record.view().as_bytes().len() as u64;
                })?;
                bytes.checked_div(records).unwrap_or(0)
            }
        };
        Ok(Some(suggest_layout(counted.elements_p99, child_bytes)))
    }
}

impl DeclaredSide {
    fn stats<S: RecordStore>(&self, store: &S) -> Result<SideStats> {
        match (self.form, &self.bin) {
            (SideForm::Reference, Some(path)) => self.referred(store, &ReferencePath::parse(path)?),
            (SideForm::List | SideForm::Map, Some(bin)) => self.collections(store, bin),
            _ => {
                let mut counts = Counts::default();
                store
                    .records(&self.set)?
                    .scan_records(&mut |record| counts.note(owned_key(record), 1))?;
                Ok(counts.finish())
            }
        }
    }

    fn collections<S: RecordStore>(&self, store: &S, bin: &str) -> Result<SideStats> {
        let mut side = Side::new(&self.set, bin);
        side.has_attributes = self.form == SideForm::Map;
        let mut counts = Counts::default();
        store.records(&self.set)?.scan_records(&mut |record| {
            let view = record.view();
            if view.bin(SHARD_OF).is_some() {
                return;
            }
            if view.bin(SUBKEYS).is_some() {
                counts.sharded.extend(owned_key(record));
            } else if let Some(value) = view.bin(bin) {
                let (count, bytes) = length_of(value);
                counts.note(owned_key(record), count);
                counts.stats.element_bytes += bytes;
                let bytes = view.as_bytes().len() as u64;
                counts.stats.record_bytes_max = counts.stats.record_bytes_max.max(bytes);
            }
        })?;
        for key in std::mem::take(&mut counts.sharded) {
            let count = side.len(store, &key)?;
            // The record may have another collection that is sharded.
            counts.stats.sharded += u64::from(count > 0);
            counts.note(Some(key), count);
        }
        Ok(counts.finish())
    }

    fn referred<S: RecordStore>(&self, store: &S, path: &ReferencePath) -> Result<SideStats> {
        let mut referred: BTreeMap<Key<'static>, u64> = BTreeMap::new();
        let mut failed = None;
        store.records(&self.set)?.scan_records(&mut |record| {
            let mut keys = std::collections::BTreeSet::new();
            match path.collect(record, &mut keys) {
                Ok(()) => {
                    for key in keys {
                        *referred.entry(key).or_default() += 1;
                    }
                }
                Err(error) => failed = failed.take().or(Some(error)),
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        let mut counts = Counts::default();
        for (key, count) in referred {
            counts.note(Some(key), count);
        }
        Ok(counts.finish())
    }
}

fn owned_key(record: &Record) -> Option<Key<'static>> {
    record.key().map(Key::into_owned)
}

/// How many elements a collection has, and what they take in bytes.
fn length_of(value: ValueRef<'_>) -> (u64, u64) {
    let list = value
        .as_list()
        .map(|list| (list.len(), list.content_bytes()));
    let map = || value.as_map().map(|map| (map.len(), map.content_bytes()));
    let (count, bytes) = list.or_else(map).unwrap_or_default();
    (count as u64, bytes as u64)
}
