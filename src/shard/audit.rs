//! Which collections of a set are sharded, what each of their records is, and which records should not be there, or are
//! missing. Changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::protocol::{self, view};
use super::scheme::{
    Epoch, FROZEN, SHARD_OF, SUBKEYS, SUBKEYS_BIN, SUBKEYS_EPOCH, Scheme, key_value,
};
use crate::record::Record;
use crate::value::ValueRef;
use crate::{Key, RecordSet, Result, Value};

/// A sharded collection, or what is left of one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShardedCollection {
    /// The key of its root.
    pub key: Key<'static>,
    /// The bin that is sharded, as the root says; `None` if there is no root.
    pub bin: Option<String>,
    /// Where the collection is, in words.
    pub scheme: String,
    /// The number of its last transition.
    pub epoch: u64,
    /// Whether a transition is under way, or was left by somebody: `help` of a handle, or its next writer, ends it.
    pub in_transition: bool,
    /// How many elements it has, as reads see them: what is copied from one record to another counts once, and what is
    /// being deleted not at all. 1 for each record of a counter.
    pub elements: u64,
    /// What the bins of the root take, in bytes; 0 if there is none.
    pub root_bytes: u64,
    /// Its companions, by their keys.
    pub companions: Vec<ShardRecord>,
    /// Companions that the root asks for and that are not there: elements are lost, and reads answer
    /// [`crate::Error::ShardMissing`].
    pub missing: Vec<u64>,
}

/// A companion.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ShardRecord {
    /// Its key.
    pub key: Key<'static>,
    /// Its number.
    pub shard: u64,
    /// The beginning of its bucket, in Unix seconds, where the collection is sharded by time.
    pub bucket: Option<i64>,
    /// The transition that made it what it is.
    pub epoch: u64,
    /// Whether a transition keeps it from being written.
    pub frozen: bool,
    /// How many elements it has; 1 for a counter.
    pub elements: u64,
    /// What its bins take, in bytes.
    pub bytes: u64,
    /// What it is to the root.
    pub standing: ShardStanding,
}

/// What a companion is to its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardStanding {
    /// A part of the collection.
    Current,
    /// There is no such root, or the collection is in the root: a leftover that nobody reads. It can be deleted, and the
    /// next transition replaces it.
    Orphan,
    /// Of an earlier transition: a leftover as well.
    Stale,
}

impl fmt::Display for ShardStanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Current => "current",
            Self::Orphan => "orphan",
            Self::Stale => "stale",
        })
    }
}

impl ShardedCollection {
    /// Companions that nobody reads.
    pub fn leftovers(&self) -> impl Iterator<Item = &ShardRecord> {
        let companions = self.companions.iter();
        companions.filter(|companion| companion.standing != ShardStanding::Current)
    }
}

/// What a root says.
struct Root {
    subkeys: Value,
    epoch: Epoch,
    bin: Option<String>,
    /// How many elements that bin has; `None` if it is not there.
    elements: Option<u64>,
    bytes: u64,
}

/// All sharded collections of a set, by the keys of their roots. One scan; memory for what is sharded.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// let store = spikelet::Store::in_memory()?;
/// let list = spikelet::ShardedList::new(&store, "followers", "alice", "by")?;
/// list.add(1)?;
/// list.activate(2)?;
/// let found = spikelet::sharded_collections(&store.set("followers")?)?;
/// assert_eq!((found[0].scheme.as_str(), found[0].companions.len()), ("in 2 shards", 2));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the records cannot be read.
pub fn sharded_collections<R: RecordSet>(records: &R) -> Result<Vec<ShardedCollection>> {
    let mut roots: BTreeMap<Key<'static>, Root> = BTreeMap::new();
    let mut companions: BTreeMap<Key<'static>, Vec<ShardRecord>> = BTreeMap::new();
    records.scan_records(&mut |record| {
        let Some(key) = record.key().map(Key::into_owned) else {
            return;
        };
        if let Some((root, companion)) = companion(&key, record) {
            companions.entry(root).or_default().push(companion);
        } else if let Some(subkeys) = record.get(SUBKEYS) {
            let epoch = record.get(SUBKEYS_EPOCH).as_ref().and_then(Epoch::of);
            let bin = match record.get(SUBKEYS_BIN) {
                Some(Value::String(bin)) => Some(bin),
                _ => None,
            };
            let own = record
                .bins()
                .find(|(name, _)| Some(*name) == bin.as_deref());
            let root = Root {
                subkeys,
                epoch: epoch.unwrap_or_default(),
                elements: own.map(|(_, value)| children(&value)),
                bytes: bytes(record),
                bin,
            };
            roots.insert(key, root);
        }
    })?;
    let mut collections: Vec<_> = roots
        .into_iter()
        .map(|(key, root)| {
            let companions = companions.remove(&key).unwrap_or_default();
            judged(key, root, companions)
        })
        .collect();
    collections.extend(companions.into_iter().map(|(key, companions)| {
        let bin = None;
        let scheme = "in one record, or deleted".to_owned();
        collection(key, bin, scheme, companions)
    }));
    collections.sort_by(|a, b| a.key.cmp(&b.key));
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

fn judged(key: Key<'static>, root: Root, companions: Vec<ShardRecord>) -> ShardedCollection {
    let Root {
        subkeys,
        epoch,
        bin,
        elements,
        bytes,
    } = root;
    let mut collection = collection(key, bin, String::new(), companions);
    (collection.epoch, collection.root_bytes) = (epoch.0, bytes);
    let is_old = |companion: &ShardRecord| companion.epoch < epoch.0;
    match Scheme::parse(Some(&subkeys)) {
        Ok(scheme) => {
            collection.scheme = scheme.to_string();
            collection.in_transition = scheme.is_transition();
            // Companions below the first number must be there; those below the second may.
            let (must, may, old_too) = match scheme {
                Scheme::Whole => (0, 0, false),
                Scheme::Active { shards } => (shards, shards, false),
                Scheme::Activating { shards } => (0, shards, false),
                Scheme::Splitting { from } => (from, from * 2, true),
                Scheme::Merging { from } => (from / 2, from, true),
                Scheme::Demoting => (0, 1, true),
                Scheme::Deleting { shards } => (0, shards, true),
            };
            for companion in &mut collection.companions {
                companion.standing = match is_old(companion) {
                    old if companion.shard < may && (old_too || !old) => ShardStanding::Current,
                    true => ShardStanding::Stale,
                    false => ShardStanding::Orphan,
                };
            }
            let root = protocol::Root { scheme, epoch };
            collection.elements = match elements {
                in_root if view::in_root(root, in_root.is_some()) => in_root.unwrap_or(0),
                _ => in_companions(&collection.companions, scheme, epoch),
            };
            collection.missing = (0..must)
                .filter(|shard| {
                    !collection.companions.iter().any(|companion| {
                        companion.shard == *shard && companion.standing == ShardStanding::Current
                    })
                })
                .collect();
        }
        // By time, a bucket that nobody has written is not there.
        Err(_) => {
            collection.scheme = in_words(&subkeys);
            collection.in_transition = collection.scheme.contains("deleting");
            for companion in &mut collection.companions {
                companion.standing = match is_old(companion) {
                    true => ShardStanding::Stale,
                    false if companion.bucket.is_some() => ShardStanding::Current,
                    false => ShardStanding::Orphan,
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
    companions.filter(|companion| companion.standing == ShardStanding::Current)
}

/// How many elements there are in companions. Half of those that split or merge may have what the other half has, too.
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

/// A bin `subkeys` as it stands there.
fn in_words(subkeys: &Value) -> String {
    match subkeys {
        Value::List(items) => {
            let words: Vec<String> = items
                .iter()
                .map(|item| match item {
                    Value::String(word) => word.clone(),
                    Value::Int(number) => number.to_string(),
                    other => format!("{other:?}"),
                })
                .collect();
            words.join(" ")
        }
        other => format!("{other:?}"),
    }
}

/// A record that says that it is a companion, and the key of its root.
fn companion(key: &Key<'static>, record: &Record) -> Option<(Key<'static>, ShardRecord)> {
    let Some(Value::List(items)) = record.get(SHARD_OF) else {
        return None;
    };
    let (root, epoch, shard, bucket) = match &items[..] {
        [root, _, Value::Int(shard), epoch] => (root, epoch, *shard, None),
        [root, _, Value::Int(shard), epoch, Value::Int(bucket)] => {
            (root, epoch, *shard, Some(*bucket))
        }
        _ => return None,
    };
    let companion = ShardRecord {
        key: key.clone(),
        shard: u64::try_from(shard).ok()?,
        bucket,
        epoch: Epoch::of(epoch)?.0,
        frozen: record.view().bin(FROZEN).is_some(),
        elements: elements(record),
        bytes: bytes(record),
        standing: ShardStanding::Orphan,
    };
    Some((key_of(root)?, companion))
}

fn elements(record: &Record) -> u64 {
    let own = |name: &str| name == SHARD_OF || name == FROZEN;
    record
        .bins()
        .filter(|(name, _)| !own(name))
        .map(|(_, value)| children(&value))
        .sum()
}

fn children(value: &ValueRef<'_>) -> u64 {
    match value {
        ValueRef::List(list) => list.len() as u64,
        ValueRef::Map(map) => map.len() as u64,
        _ => 1,
    }
}

fn bytes(record: &Record) -> u64 {
    record.view().as_bytes().len() as u64
}

fn key_of(value: &Value) -> Option<Key<'static>> {
    let key = match value {
        Value::Int(number) => Key::Integer(*number),
        Value::String(text) => Key::from(text.clone()),
        Value::Blob(bytes) => Key::from(bytes.clone()),
        _ => return None,
    };
    debug_assert_eq!(key_value(&key), *value);
    Some(key)
}
