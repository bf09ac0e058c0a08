//! Which collections of a set are sharded, the role of each of their records, and which records
//! should not be there, or are missing. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;

use super::description::{DescribedCollection, Description, Form, in_words};
use super::protocol::{self, view};
use super::record_name::RecordName;
use super::route::RecordRef;
use super::scheme::{DESCRIPTION_BINS, Epoch, FROZEN, SHARD_OF, SUBKEYS, Scheme};
use super::time::layout::{CollectionPart, TimeLayout};
use crate::expressions::{bin_exists, or};
use crate::record::companion_key::KeyForm;
use crate::record::{Record, companion_name};
use crate::value::ValueRef;
use crate::{Error, Expression, Key, RecordSet, Result, Value};

/// A sharded collection, or its remains.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ShardedCollection {
    /// The key of its root.
    pub key: Key<'static>,
    /// Its bin, as the root or the companions say; `None` if neither does.
    pub bin: Option<String>,
    /// Where the collection is, in words.
    pub scheme: String,
    /// The number of its last transition.
    pub epoch: u64,
    /// Whether a transition is under way, or was left unfinished: `advance` of a handle, or its
    /// next writer, ends it.
    pub in_transition: bool,
    /// The number of elements, as reads see them: an element being copied from one record to
    /// another counts once, one being deleted not at all. 1 for each record of a counter.
    pub elements: u64,
    /// What the bins of the root take, in bytes; 0 if there is none.
    pub root_bytes: u64,
    /// Its companions, by their keys.
    pub companions: Vec<ShardRecord>,
    /// Companions that the root asks for and that are not there: elements are lost, and reads
    /// answer [`crate::Error::ShardMissing`].
    pub missing: Vec<u64>,
}

/// The record of one companion.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ShardRecord {
    /// The key of the record: if it stores none, by its name and the description in its root. Where
    /// there is no root to say how its key is formed, it is that of a shard by hash.
    pub key: Key<'static>,
    /// The number of the shard, from 0.
    pub shard: u64,
    /// The beginning of its bucket, or of the year or day of its page, in Unix seconds, where the
    /// collection is sharded by time.
    pub bucket: Option<i64>,
    /// Whether it is a page of the directory of buckets, and holds no elements.
    pub is_page: bool,
    /// The transition that made it.
    pub epoch: u64,
    /// Whether a transition keeps it from being written.
    pub frozen: bool,
    /// How many elements it has; 1 for a counter.
    pub elements: u64,
    /// What its bins take, in bytes.
    pub bytes: u64,
    /// Its role for the root.
    pub status: ShardStatus,
}

/// The role of a companion for its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ShardStatus {
    /// A part of the collection.
    Current,
    /// There is no such root, or the collection is in the root: an unread leftover. It can be
    /// deleted, and the next transition replaces it.
    Orphan,
    /// Of an earlier transition: a leftover as well.
    Stale,
    /// Its root describes the collection in a form that is not understood here, as a later version
    /// may write it. It must stay.
    Unknown,
}

impl fmt::Display for ShardStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "current",
            Self::Orphan => "orphan",
            Self::Stale => "stale",
            Self::Unknown => "unknown",
        })
    }
}

impl ShardedCollection {
    /// Companions that no route leads to.
    pub fn leftovers(&self) -> impl Iterator<Item = &ShardRecord> {
        let companions = self.companions.iter();
        let is_leftover = |status| matches!(status, ShardStatus::Orphan | ShardStatus::Stale);
        companions.filter(move |companion| is_leftover(companion.status))
    }
}

/// A record that says of itself that collections of it are sharded.
struct AuditedRoot {
    subkeys: Value,
    /// `None`: it is not understood.
    description: Option<Description>,
    /// How many elements each of its bins has.
    elements: BTreeMap<String, u64>,
    bytes: u64,
}

impl AuditedRoot {
    /// `None`: the record says nothing of shards.
    fn of(record: &Record) -> Option<Self> {
        Some(Self {
            subkeys: record.get(SUBKEYS)?,
            description: Description::parse(&DESCRIPTION_BINS.map(|bin| record.get(bin))).ok(),
            elements: record
                .bins()
                .map(|(name, value)| (name.to_owned(), element_count(&value)))
                .collect(),
            bytes: bytes(record),
        })
    }
}

/// A companion, and whether it stores its key.
struct AuditedCompanion {
    record: ShardRecord,
    has_key: bool,
}

impl AuditedCompanion {
    /// The companion as its root describes it.
    fn named(self, root: &Key<'_>, entry: &DescribedCollection, keys: KeyForm) -> ShardRecord {
        let Self {
            mut record,
            has_key,
        } = self;
        let place = match record.bucket {
            None => Some(RecordRef::Companion(keys, record.shard)),
            Some(begin) => {
                let layout = TimeLayout::of(&entry.form.value());
                let part = CollectionPart::of(record.is_page, record.shard, begin);
                layout
                    .zip(part)
                    .map(|(layout, part)| RecordRef::Timed(keys, layout, part))
            }
        };
        if let (false, Some(place)) = (has_key, place) {
            let bin = entry.bin;
            record.key = RecordName { root, bin, place }.key();
        }
        record
    }
}

/// The companions of one collection: the key of its root, and the name of its bin where they bear
/// it.
type Name = (Key<'static>, Option<String>);

/// Returns the expression that holds for the roots and companions of sharded collections. A set
/// that is seen through it ([`Set::filtered`](crate::Set::filtered)) shows [`sharded_collections`]
/// all that it needs, and nothing else has to be read.
#[must_use]
pub fn sharded_records() -> Expression {
    or([bin_exists(SUBKEYS), bin_exists(SHARD_OF)])
}

/// All sharded collections of a set, by the keys of their roots and their bins. One scan, and where
/// a root stores no key one batch of the records that companions name; memory for each sharded
/// collection. Of a root that stores no key and has no companion nothing is known.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// let store = spikelet::Store::in_memory()?;
/// let list = spikelet::ShardedList::new(&store, "followers", "alice", "by")?;
/// list.add(1)?;
/// list.shards().activate(2)?;
/// let found = spikelet::shard::sharded_collections(&store.set("followers")?)?;
/// assert_eq!((found[0].scheme.as_str(), found[0].companions.len()), ("in 2 shards", 2));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the records cannot be read.
pub fn sharded_collections<R: RecordSet>(records: &R) -> Result<Vec<ShardedCollection>> {
    let mut roots: BTreeMap<Key<'static>, AuditedRoot> = BTreeMap::new();
    let mut companions: BTreeMap<Name, Vec<AuditedCompanion>> = BTreeMap::new();
    let mut is_keyless = false;
    records.scan_records(&mut |record| {
        if let Some((name, companion)) = companion(record) {
            companions.entry(name).or_default().push(companion);
        } else if let Some(root) = AuditedRoot::of(record) {
            match record.key() {
                Some(key) => drop(roots.insert(key.into_owned(), root)),
                None => is_keyless = true,
            }
        }
    })?;
    if is_keyless {
        let named: BTreeSet<&Key<'_>> = companions.keys().map(|(root, _)| root).collect();
        let unknown = named.into_iter().filter(|root| !roots.contains_key(*root));
        let unknown: Vec<Key<'static>> = unknown.cloned().collect();
        for (key, read) in unknown.iter().zip(records.read_each(&unknown, None)) {
            let found = match read {
                // A set that is seen through a filter.
                Err(Error::FilteredOut { .. }) => None,
                read => read?,
            };
            let root = found.filter(|found| companion_name(found.view()).is_none());
            if let Some(root) = root.as_ref().and_then(AuditedRoot::of) {
                roots.insert(key.clone(), root);
            }
        }
    }
    // After the scan, which meets roots and companions in any order.
    let mut collections = Vec::new();
    for (key, root) in roots {
        match &root.description {
            Some(description) => collections.extend(description.entries().iter().map(|entry| {
                let keys = description.keys(entry.bin);
                let bin = keys.by_bin().then(|| entry.bin.as_str().to_owned());
                let found = companions.remove(&(key.clone(), bin)).unwrap_or_default();
                let named = found.into_iter().map(|one| one.named(&key, entry, keys));
                judged(key.clone(), entry, &root, named.collect())
            })),
            None => {
                let of_root = companions.range((key.clone(), None)..);
                let of_root = of_root.map(|(name, _)| name.clone());
                let names: Vec<Name> = of_root.take_while(|(root, _)| *root == key).collect();
                let found = names.iter().filter_map(|name| companions.remove(name));
                let found = found.flatten().map(|one| one.record);
                let mut companions: Vec<ShardRecord> = found.collect();
                for companion in &mut companions {
                    companion.status = ShardStatus::Unknown;
                }
                let scheme = format!("not understood: {}", in_words(&root.subkeys));
                collections.push(ShardedCollection {
                    root_bytes: root.bytes,
                    ..collection(key.clone(), None, scheme, companions)
                });
            }
        }
    }
    collections.extend(companions.into_iter().map(|((key, bin), companions)| {
        let scheme = "in one record, or deleted".to_owned();
        let companions = companions.into_iter().map(|one| one.record);
        collection(key, bin, scheme, companions.collect())
    }));
    collections.sort_by(|a, b| (&a.key, &a.bin).cmp(&(&b.key, &b.bin)));
    Ok(collections)
}

fn collection(
    key: Key<'static>,
    bin: Option<String>,
    scheme: String,
    mut companions: Vec<ShardRecord>,
) -> ShardedCollection {
    companions.sort_by(|a, b| (a.bucket, a.shard, &a.key).cmp(&(b.bucket, b.shard, &b.key)));
    ShardedCollection {
        key,
        bin,
        scheme,
        epoch: 0,
        in_transition: false,
        elements: 0,
        root_bytes: 0,
        companions,
        missing: Vec::new(),
    }
}

fn judged(
    key: Key<'static>,
    entry: &DescribedCollection,
    root: &AuditedRoot,
    companions: Vec<ShardRecord>,
) -> ShardedCollection {
    let bin = entry.bin.as_str();
    let epoch = entry.epoch;
    let (scheme, in_transition) = entry.state_in_words();
    let mut collection = collection(key, Some(bin.to_owned()), scheme, companions);
    (collection.epoch, collection.root_bytes) = (epoch.0, root.bytes);
    collection.in_transition = in_transition;
    let is_old = |companion: &ShardRecord| companion.epoch < epoch.0;
    match entry.form {
        Form::Hash(scheme) => {
            // Companions below the first number must be there; those below the second may.
            let (must, may, old_too) = match scheme {
                Scheme::Unsharded => (0, 0, false),
                Scheme::Active { shards } => (shards, shards, false),
                Scheme::Activating { shards } => (0, shards, false),
                Scheme::Splitting { from } => (from, from * 2, true),
                Scheme::Merging { from } => (from / 2, from, true),
                Scheme::Deactivating => (0, 1, true),
                Scheme::Deleting { shards } => (0, shards, true),
            };
            for companion in &mut collection.companions {
                companion.status = match is_old(companion) {
                    old if companion.shard < may && (old_too || !old) => ShardStatus::Current,
                    true => ShardStatus::Stale,
                    false => ShardStatus::Orphan,
                };
            }
            let in_root = root.elements.get(bin).copied();
            let state = protocol::CollectionRoot {
                scheme,
                epoch,
                ..protocol::CollectionRoot::default()
            };
            collection.elements = if view::in_root(&state, in_root.is_some()) {
                in_root.unwrap_or(0)
            } else {
                in_companions(&collection.companions, scheme, epoch)
            };
            collection.missing = (0..must)
                .filter(|shard| {
                    !collection.companions.iter().any(|companion| {
                        companion.shard == *shard && companion.status == ShardStatus::Current
                    })
                })
                .collect();
        }
        // By time, a bucket without a write is not there.
        Form::Other(_) => {
            for companion in &mut collection.companions {
                companion.status = if entry.form.is_unknown() {
                    ShardStatus::Unknown
                } else if is_old(companion) {
                    ShardStatus::Stale
                } else if companion.bucket.is_some() {
                    ShardStatus::Current
                } else {
                    ShardStatus::Orphan
                };
            }
            if !collection.in_transition {
                let current = current(&collection.companions);
                collection.elements = current.map(|companion| companion.elements).sum();
            }
        }
    }
    collection
}

fn current(companions: &[ShardRecord]) -> impl Iterator<Item = &ShardRecord> {
    let companions = companions.iter();
    companions.filter(|companion| companion.status == ShardStatus::Current)
}

/// How many elements there are in companions. While companions split or merge, an element may be in
/// two of them.
fn in_companions(companions: &[ShardRecord], scheme: Scheme, epoch: Epoch) -> u64 {
    let new: BTreeSet<u64> = current(companions)
        .filter(|companion| companion.epoch == epoch.0)
        .map(|companion| companion.shard)
        .collect();
    let counts = |companion: &&ShardRecord| match scheme {
        Scheme::Deleting { .. } => false,
        Scheme::Splitting { from } if companion.shard >= from => {
            new.contains(&(companion.shard - from))
        }
        Scheme::Merging { from } if companion.shard >= from / 2 => {
            !new.contains(&(companion.shard - from / 2))
        }
        _ => true,
    };
    let counted = current(companions).filter(counts);
    counted.map(|companion| companion.elements).sum()
}

/// A record with the bin `shard_of`, and the root that it names.
fn companion(record: &Record) -> Option<(Name, AuditedCompanion)> {
    let name = companion_name(record.view())?;
    let is_page = name.shards == 0;
    let stored = record.key().map(Key::into_owned);
    let has_key = stored.is_some();
    let key = stored.unwrap_or_else(|| {
        let [usual, _] = name.keys();
        usual
    });
    let record = ShardRecord {
        key,
        shard: name.shard,
        bucket: name.begin,
        epoch: name.epoch,
        is_page,
        frozen: record.view().bin(FROZEN).is_some(),
        elements: if is_page { 0 } else { elements(record) },
        bytes: bytes(record),
        status: ShardStatus::Orphan,
    };
    let of = (name.root.into_owned(), name.bin.map(str::to_owned));
    Some((of, AuditedCompanion { record, has_key }))
}

fn elements(record: &Record) -> u64 {
    let own = |name: &str| name == SHARD_OF || name == FROZEN;
    record
        .bins()
        .filter(|(name, _)| !own(name))
        .map(|(_, value)| element_count(&value))
        .sum()
}

fn element_count(value: &ValueRef<'_>) -> u64 {
    match value {
        ValueRef::List(list) => list.len() as u64,
        ValueRef::Map(map) => map.len() as u64,
        _ => 1,
    }
}

fn bytes(record: &Record) -> u64 {
    record.view().as_bytes().len() as u64
}
