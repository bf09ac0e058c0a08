//! How many references a declared relation has, and how they are spread.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::keys::is_removed;
use super::one_to_many::{LayoutAdvice, LayoutKind, suggest_layout};
use super::reference_path::ReferencePath;
use super::side::RelationSide;
use crate::engine::declaration::{DeclaredSide, RelationDeclaration, RelationKind, SideForm};
use crate::record::{Record, SHARD_OF, companion_name, describes_collection};
use crate::{Key, RecordSet, RecordStore, Result, ValueRef};

/// What one side of a declared relation holds: [`RelationDeclaration::stats`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SideStats {
    /// Records that have references; for [`SideForm::Reference`], records that are referred to.
    pub records: u64,
    /// References in all of them. For a view, its records.
    pub elements: u64,
    /// How many references 99 of 100 of these records have at most.
    pub elements_p99: u64,
    /// The record with the most references, and how many; for [`SideForm::Reference`], the one that
    /// is most referred to.
    pub largest: Option<(Key<'static>, u64)>,
    /// How many of the records have their references sharded.
    pub sharded: u64,
    /// The size of the bins of the largest record without sharded references, in bytes.
    pub record_bytes_max: u64,
    /// The size of the references, in bytes of the bins that hold them, shards included.
    pub element_bytes: u64,
    /// How many references [`SideStats::element_bytes`] was measured of. It differs from
    /// [`SideStats::elements`] while others write, and while a sharded collection changes its
    /// shards.
    pub elements_measured: u64,
    /// For [`SideForm::Reference`], records with a reference of a type that keys cannot have, such
    /// as a double: none of their references is counted.
    pub unreadable: u64,
}

/// The counts of a side, record by record.
#[derive(Default)]
struct Counts {
    stats: SideStats,
    counts: Vec<u64>,
    /// The keys of roots that describe the collection as sharded.
    sharded: BTreeSet<Key<'static>>,
    /// The keys of the roots that companions name: a root need not store its key.
    named: BTreeSet<Key<'static>>,
}

impl Counts {
    fn note(&mut self, key: Option<Key<'static>>, count: u64) {
        if count == 0 {
            return;
        }
        self.counts.push(count);
        self.stats.elements += count;
        let largest = self.stats.largest.as_ref();
        let is_larger = largest.is_none_or(|(_, most)| *most < count);
        if let (true, Some(key)) = (is_larger, key) {
            self.stats.largest = Some((key, count));
        }
    }

    /// Notes a record that may hold a collection of this bin, or a shard of one.
    fn note_record(&mut self, record: &Record, bin: &str) {
        let view = record.view();
        let is_companion = view.bin(SHARD_OF).is_some();
        if !is_companion && describes_collection(view, bin) {
            self.sharded.extend(owned_key(record));
            return;
        }
        let Some(value) = view.bin(bin) else { return };
        let (count, bytes) = length_of(value);
        self.stats.elements_measured += count;
        self.stats.element_bytes += bytes;
        if is_companion {
            let name = companion_name(view);
            self.named.extend(name.map(|name| name.root.into_owned()));
            return;
        }
        self.note(owned_key(record), count);
        let bytes = view.as_bytes().len() as u64;
        self.stats.record_bytes_max = self.stats.record_bytes_max.max(bytes);
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
    /// Counts the content of each side, in the order of [`RelationDeclaration::sides`]. A scan of
    /// the set of each side, two reads and one of each shard for each record with sharded
    /// references; memory for a count a record.
    ///
    /// # Errors
    /// The errors of a scan.
    pub fn stats<S: RecordStore>(&self, store: &S) -> Result<Vec<SideStats>> {
        let (sides, owner) = (self.sides.iter(), self.owner());
        sides
            .map(|side| side.stats(store, owner.as_ref()))
            .collect()
    }

    /// Returns the layout that suits the children of a [`RelationKind::OneToMany`], given the
    /// counts of its sides: the rules of [`suggest_layout`]. `None` for other relations, and where
    /// there are no children. A scan of the children's set, where they are records.
    ///
    /// # Errors
    /// The errors of a scan.
    pub fn suggested_layout<S: RecordStore>(
        &self,
        store: &S,
        stats: &[SideStats],
    ) -> Result<Option<LayoutKind>> {
        let elements = stats.first().map_or(0, |counted| counted.elements);
        if self.kind != RelationKind::OneToMany || elements == 0 {
            return Ok(None);
        }
        Ok(Some(self.advice(store, stats)?.layout))
    }

    /// The layout, with the figures that it follows from. Only children count: records that name a
    /// parent, or, where none does, all records of their set but shards and marks of removal.
    pub(super) fn advice<S: RecordStore>(
        &self,
        store: &S,
        stats: &[SideStats],
    ) -> Result<LayoutAdvice> {
        let counted = stats.first().cloned().unwrap_or_default();
        let parents_bin = |side: Option<&DeclaredSide>| side.and_then(|side| side.bin.clone());
        let children = self.sides.first().and_then(|side| match side.form {
            SideForm::Map => None,
            SideForm::Reference => Some((&side.set, parents_bin(Some(side)))),
            _ => Some((side.to.as_ref()?, parents_bin(self.sides.get(1)))),
        });
        let (mut records, mut bytes) = (counted.elements_measured, counted.element_bytes);
        if let Some((set, bin)) = children {
            (records, bytes) = (0, 0);
            let path = bin.map(|bin| ReferencePath::parse(&bin)).transpose()?;
            let is_child = |record: &Record| match &path {
                Some(path) => {
                    let mut parents = BTreeSet::new();
                    path.collect(record, &mut parents).is_ok() && !parents.is_empty()
                }
                None => record.view().bin(SHARD_OF).is_none() && !is_removed(record),
            };
            store.records(set)?.scan_records(&mut |record| {
                if is_child(record) {
                    records += 1;
                    bytes += record.view().as_bytes().len() as u64;
                }
            })?;
        }
        let child_bytes = bytes.checked_div(records).unwrap_or(0);
        Ok(LayoutAdvice {
            layout: suggest_layout(counted.elements_p99, child_bytes),
            parents: counted.records,
            children_p99: counted.elements_p99,
            child_bytes,
        })
    }
}

impl DeclaredSide {
    pub(super) fn stats<S: RecordStore>(
        &self,
        store: &S,
        owner: Option<&Key<'_>>,
    ) -> Result<SideStats> {
        match (RelationSide::of(self), &self.bin) {
            (Some(side), _) => side.stats(store, owner),
            (None, Some(path)) if self.form == SideForm::Reference => {
                self.referred(store, &ReferencePath::parse(path)?)
            }
            _ => {
                let mut counts = Counts::default();
                store
                    .records(&self.set)?
                    .scan_records(&mut |record| counts.note(owned_key(record), 1))?;
                Ok(counts.finish())
            }
        }
    }

    fn referred<S: RecordStore>(&self, store: &S, path: &ReferencePath) -> Result<SideStats> {
        let mut referred: BTreeMap<Key<'static>, u64> = BTreeMap::new();
        let mut counts = Counts::default();
        store.records(&self.set)?.scan_records(&mut |record| {
            let mut keys = BTreeSet::new();
            if path.collect(record, &mut keys).is_err() {
                counts.stats.unreadable += 1;
                return;
            }
            for key in keys {
                *referred.entry(key).or_default() += 1;
            }
        })?;
        for (key, count) in referred {
            counts.note(Some(key), count);
        }
        Ok(counts.finish())
    }
}

impl RelationSide {
    /// `owner`: the one record that has a collection, if there is only one.
    fn stats<S: RecordStore>(&self, store: &S, owner: Option<&Key<'_>>) -> Result<SideStats> {
        let mut counts = Counts::default();
        store.records(&self.set)?.scan_records(&mut |record| {
            let root = companion_name(record.view()).map(|name| name.root);
            if owner.is_none_or(|owner| root.or(record.key()).as_ref() == Some(owner)) {
                counts.note_record(record, &self.bin);
            }
        })?;
        let (mut sharded, named) = (
            std::mem::take(&mut counts.sharded),
            std::mem::take(&mut counts.named),
        );
        for key in named {
            // The remains of a deleted collection name a root, too.
            if !sharded.contains(&key) && self.at(store, &key).is_sharded()? {
                sharded.insert(key);
            }
        }
        for key in sharded {
            let count = self.at(store, &key).len()?;
            counts.stats.sharded += u64::from(count > 0);
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
