//! Queries by an index as wire clients ask them: of some partitions, each from its beginning or behind a record.
//!
//! Clients take the records of a partition in the order of the index's values, and of digests where these are equal; how
//! partitions follow each other is left to the server. The order of the index is such an order of each partition, so a query
//! goes through it once and passes over the entries of other partitions, and over the ones that a page before has brought.
//! A page begins where the first of its partitions does. Clients that take pages name a place for every partition that has
//! brought something, so it passes again over the entries since the last record of the rarest partition.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use spikelet_storage::{Digest, PARTITIONS};
use xxhash_rust::xxh3::xxh3_64;

use super::super::by_digest::RemoteRecord;
use super::super::core::expired;
use super::super::indexes::{Index, split_entry};
use super::super::namespace::Namespace;
use super::conditions::matching;
use super::sharded::MetRoots;
use super::standing::{EntryStanding, MetRecord};
use crate::Result;
use crate::geo::Geometry;
use crate::index::{
    EntryList, EntryRange, EntryRanges, EntrySelection, GeometryKey, end_of_prefix, form_of,
    geometry_key, order_of_form, write_stored,
};
use crate::value::{ParticleType, Value};

/// How many entries are copied out at first.
const ENTRIES_AT_FIRST: usize = 64;
/// How many at most.
const ENTRIES_AT_ONCE: usize = 1024;

/// The memory of this many records is asked for at once: they are read one by one soon after.
const RECORDS_AHEAD: usize = 32;

/// What a wire query asks the one component of an index for.
#[derive(Clone, Debug)]
pub(crate) enum IndexBound {
    /// Integers from the first to the last.
    Integers(i64, i64),
    /// A text, which need not be UTF-8.
    Text(Box<[u8]>),
    Blob(Box<[u8]>),
    /// Points in a region, or regions around a point.
    Geometry(Box<Geometry>),
}

/// Where a query of a partition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartitionStart {
    Beginning,
    /// Behind a record, named by its value in the index and its digest.
    Behind(i64, Digest),
}

/// A query under way.
#[derive(Debug)]
pub(crate) struct PartitionQuery {
    index: Arc<Index>,
    asked: EntrySelection,
    values: ValueOrder,
    /// By partition; `None`: it is not asked for.
    starts: Box<[Option<PartitionStart>]>,
    rest: EntryRanges,
    /// Copied out, and not looked at from `next` on.
    entries: EntryList,
    next: usize,
    /// The memory of the records of the entries before this one was asked for.
    asked_ahead: usize,
    at_once: usize,
    met: MetRoots,
}

/// The next item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextEntry {
    /// An entry, with the number of its value and the digest of its record.
    Found {
        value: i64,
        digest: Digest,
    },
    /// So many entries were passed over, and there may be more.
    Paused,
    End,
}

/// How values stand for their place in the index on the wire.
#[derive(Debug)]
enum ValueOrder {
    /// By themselves.
    Integers,
    /// By the cells of geometries.
    Cells(GeometryKey),
    /// One value is asked for: its form, and a number for it.
    One { form: Box<[u8]>, number: i64 },
}

/// The fate of an entry.
enum Met<R> {
    Shown(R),
    NotShown,
    /// The record does not have the entry.
    Stale,
}

impl IndexBound {
    fn values(&self) -> ValueOrder {
        let one = |kind, stored: &[u8]| {
            let mut form = Vec::new();
            // Texts and blobs have one.
            write_stored(kind, stored, &mut form);
            ValueOrder::One {
                form: form.into(),
                // 0 means "nothing yet".
                number: (xxh3_64(stored) | 1).cast_signed(),
            }
        };
        match self {
            Self::Integers(..) => ValueOrder::Integers,
            Self::Text(text) => one(ParticleType::String, text),
            Self::Blob(bytes) => one(ParticleType::Blob, bytes),
            Self::Geometry(geometry) => ValueOrder::Cells(match **geometry {
                Geometry::Point(_) => GeometryKey::Region,
                Geometry::Region(_) => GeometryKey::Point,
            }),
        }
    }

    fn selection(&self, values: &ValueOrder) -> EntrySelection {
        match (self, values) {
            (Self::Geometry(geometry), _) => matching(&[], 0, (**geometry).clone()),
            (_, ValueOrder::One { form, .. }) => EntryRange::with_prefix(form).into(),
            (Self::Integers(first, last), _) => EntryRange {
                start: Bound::Included(integer_form(*first).into()),
                end: end_of_prefix(&integer_form(*last)),
            }
            .into(),
            (Self::Text(_) | Self::Blob(_), _) => EntryRanges::new(Vec::new()).into(),
        }
    }
}

impl ValueOrder {
    /// The number that represents the value of a key.
    fn number(&self, key: &[u8]) -> i64 {
        let order = || order_of_form(key).unwrap_or_default();
        match self {
            Self::Integers => (order() ^ 1 << 63).cast_signed(),
            Self::Cells(_) => order().cast_signed(),
            Self::One { number, .. } => *number,
        }
    }

    /// Numbers of places are in the order of entries.
    fn place(&self, number: i64, digest: Digest) -> (u64, Digest) {
        match self {
            Self::Integers => (number.cast_unsigned() ^ 1 << 63, digest),
            Self::Cells(_) => (number.cast_unsigned(), digest),
            Self::One { .. } => (0, digest),
        }
    }

    fn entry((order, digest): (u64, Digest), values: &Self) -> Vec<u8> {
        let key = match values {
            Self::Integers => integer_form((order ^ 1 << 63).cast_signed()),
            Self::Cells(kind) => geometry_key(*kind, order),
            Self::One { form, .. } => form.to_vec(),
        };
        [key.as_slice(), digest.as_bytes()].concat()
    }
}

impl PartitionQuery {
    /// `starts`: partitions, none of them twice.
    pub(crate) fn new(
        index: &Arc<Index>,
        bound: &IndexBound,
        starts: impl IntoIterator<Item = (usize, PartitionStart)>,
    ) -> Self {
        index.counters.queries.fetch_add(1, Ordering::Relaxed);
        let values = bound.values();
        let asked = bound.selection(&values);
        let mut rest = asked.ranges.clone();
        let mut by_partition = vec![None; PARTITIONS];
        for (partition, start) in starts {
            if let Some(slot) = by_partition.get_mut(partition) {
                *slot = Some(match (start, &values) {
                    // No value is 0 there: nothing has come yet.
                    (PartitionStart::Behind(0, _), ValueOrder::One { .. }) => {
                        PartitionStart::Beginning
                    }
                    (start, _) => start,
                });
            }
        }
        let places = by_partition.iter().flatten().map(|start| match start {
            PartitionStart::Beginning => None,
            PartitionStart::Behind(number, digest) => Some(values.place(*number, *digest)),
        });
        // `None` is below all.
        if let Some(Some(first)) = places.min() {
            index.cut(&mut rest, &ValueOrder::entry(first, &values), false);
        }
        Self {
            index: Arc::clone(index),
            asked,
            values,
            starts: by_partition.into(),
            rest,
            entries: EntryList::default(),
            next: 0,
            asked_ahead: 0,
            at_once: ENTRIES_AT_FIRST,
            met: MetRoots::of_page(),
        }
    }

    /// How many entries are left in the index, other partitions included.
    pub(crate) fn entries_left(&self) -> u64 {
        self.rest.count(&self.index.entries)
    }

    /// Goes to the next entry of the partitions. Takes one from `most` for each entry it looks at, and pauses at 0.
    pub(crate) fn advance(&mut self, most: &mut usize) -> NextEntry {
        loop {
            if self.next >= self.entries.len() {
                self.entries.clear();
                self.next = 0;
                self.asked_ahead = 0;
                self.index
                    .take(&mut self.rest, false, self.at_once, &mut self.entries);
                self.at_once = (self.at_once * 2).min(ENTRIES_AT_ONCE);
            }
            let Some(entry) = self.entries.get(self.next) else {
                return NextEntry::End;
            };
            let Some(less) = most.checked_sub(1) else {
                return NextEntry::Paused;
            };
            *most = less;
            self.next += 1;
            let (value, digest) = self.value_of(entry);
            if self.is_asked_for(value, digest) {
                return NextEntry::Found { value, digest };
            }
        }
    }

    /// The number of an entry's value, and the digest of its record.
    fn value_of(&self, entry: &[u8]) -> (i64, Digest) {
        let (key, digest) = split_entry(entry);
        (self.values.number(key), digest)
    }

    fn is_asked_for(&self, value: i64, digest: Digest) -> bool {
        match self.starts.get(digest.partition()).copied().flatten() {
            None => false,
            Some(PartitionStart::Beginning) => true,
            Some(PartitionStart::Behind(after, last)) => {
                self.values.place(value, digest) > self.values.place(after, last)
            }
        }
    }

    /// Asks for the memory of the present record and of some behind it, once for all of them. For callers that read each record
    /// that [`PartitionQuery::advance`] comes to.
    pub(crate) fn prefetch(&mut self, namespace: &Namespace) {
        if self.next <= self.asked_ahead {
            return;
        }
        let present = self.next.saturating_sub(1);
        let behind = (present + RECORDS_AHEAD).min(self.entries.len());
        let mut digests = [Digest::new([0; Digest::LEN]); RECORDS_AHEAD];
        let asked_for = (present..behind)
            .filter_map(|at| self.entries.get(at))
            .map(|entry| self.value_of(entry))
            .filter(|(value, digest)| self.is_asked_for(*value, *digest));
        let mut count = 0;
        for (place, (_, digest)) in digests.iter_mut().zip(asked_for) {
            *place = digest;
            count += 1;
        }
        let digests = digests.get(..count).unwrap_or_default();
        namespace.core.storage.prefetch_batch(digests);
        self.asked_ahead = behind;
    }

    /// Lends the record of the entry that [`PartitionQuery::advance`] has come to, if it is shown there: if it has the entry, at
    /// none that comes before, and is of the set. Removes an entry that the record does not have.
    ///
    /// # Errors
    /// That of a record that is damaged.
    pub(crate) fn read<R>(
        &self,
        namespace: &Namespace,
        set_id: Option<u16>,
        read: impl FnOnce(&RemoteRecord<'_>) -> R,
    ) -> Result<Option<R>> {
        let entry = self.next.checked_sub(1).and_then(|at| self.entries.get(at));
        let Some(entry) = entry else {
            return Ok(None);
        };
        let (_, digest) = split_entry(entry);
        let mut read = Some(read);
        let mut take = |record: &RemoteRecord<'_>| read.take().map(|read| read(record));
        if !self.index.has_companions() {
            match self.meet(namespace, &digest, set_id, Some(entry), &mut take)? {
                Met::Shown(read) => return Ok(read),
                Met::NotShown => return Ok(None),
                // Its collection has been sharded since the entry was copied.
                Met::Stale if self.index.has_companions() => {}
                Met::Stale => {
                    namespace.core.clean_entry(&self.index, entry);
                    return Ok(None);
                }
            }
        }
        let mut found = None;
        let (index, core) = (&self.index, &namespace.core);
        core.find_entry(index, &self.asked, &self.met, entry, &mut |stored, _| {
            if set_id.is_none_or(|id| id == stored.set_id()) {
                found = take(&RemoteRecord::new(*stored));
            }
        })?;
        Ok(found)
    }

    /// Lends a record that was found before, if it is still wanted.
    ///
    /// # Errors
    /// That of a record that is damaged.
    pub(crate) fn read_again<R>(
        &self,
        namespace: &Namespace,
        digest: &Digest,
        set_id: Option<u16>,
        read: impl FnOnce(&RemoteRecord<'_>) -> R,
    ) -> Result<Option<R>> {
        if namespace
            .core
            .companions_fit(&self.index, &self.asked, digest)?
        {
            let storage = &namespace.core.storage;
            return Ok(storage.get(digest, |stored| read(&RemoteRecord::new(stored)))?);
        }
        match self.meet(namespace, digest, set_id, None, read)? {
            Met::Shown(read) => Ok(Some(read)),
            Met::NotShown | Met::Stale => Ok(None),
        }
    }

    fn meet<R>(
        &self,
        namespace: &Namespace,
        digest: &Digest,
        set_id: Option<u16>,
        entry: Option<&[u8]>,
        read: impl FnOnce(&RemoteRecord<'_>) -> R,
    ) -> Result<Met<R>> {
        let core = &namespace.core;
        let now_ms = core.clock.now_ms();
        let found = core.storage.get(digest, |stored| {
            if expired(&stored, now_ms) {
                return Ok(Met::NotShown);
            }
            if !self.index.is_of(stored.set_id()) {
                return Ok(Met::Stale);
            }
            if set_id.is_some_and(|id| id != stored.set_id()) {
                return Ok(Met::NotShown);
            }
            let met = MetRecord {
                asked: &self.asked,
                descending: false,
                entry,
                // As in Aerospike: one result for each geometry that matches.
                at_each: self.asked.geometry.is_some() && self.index.values == 1,
                stored: &stored,
            };
            let scratch = &mut EntryList::default();
            let (standing, _) = core.standing(&self.index, &met, scratch)?;
            Ok(match standing {
                EntryStanding::Shown => Met::Shown(read(&RemoteRecord::new(stored))),
                EntryStanding::NotShown => Met::NotShown,
                EntryStanding::Absent => Met::Stale,
            })
        })?;
        found.unwrap_or(Ok(Met::Stale))
    }
}

fn integer_form(value: i64) -> Vec<u8> {
    form_of(&Value::Int(value)).unwrap_or_default()
}
