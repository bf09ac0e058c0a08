//! One secondary index.

use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use crate::sync::{Mutex, RwLock};
use spikelet_storage::{Digest, PARTITIONS};

use crate::Result;
use crate::expression::RecordFacts;
use crate::index::{
    EntryList, EntryRange, EntryReader, GUARDS, Guard, IndexDefinition, OrderedEntries,
};
use crate::record::{RecordView, ShardRole};

/// How many keys of a unique index can be added at the same time.
const UNIQUE_LOCKS: usize = 64;

/// What can be done with an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum IndexState {
    /// Records are being put into it.
    Building = 0,
    Ready = 1,
    /// It was dropped, or could not be built.
    Dropped = 2,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Index {
    /// The one under which it was declared, or that it has been given since.
    name: RwLock<Arc<str>>,
    /// With the name under which it was declared.
    pub(in crate::engine) definition: IndexDefinition,
    /// `None`: the records of all sets.
    pub(in crate::engine) set: Option<Box<str>>,
    set_id: Option<u16>,
    pub(in crate::engine) reader: EntryReader,
    pub(in crate::engine) entries: OrderedEntries,
    state: AtomicU8,
    /// How many partitions have been built.
    built: AtomicU64,
    begun: Instant,
    /// How long building it has taken, once it is ready.
    built_in_ms: AtomicU64,
    pub(in crate::engine) counters: Counters,
    /// Whoever adds a key to a unique index holds the key's lock.
    unique: Box<[Mutex<()>]>,
}

#[derive(Debug, Default)]
pub(in crate::engine) struct Counters {
    added: AtomicU64,
    removed: AtomicU64,
    /// Entries whose records had gone unseen, removed by who met them.
    pub(in crate::engine) cleaned: AtomicU64,
    pub(in crate::engine) queries: AtomicU64,
    pub(in crate::engine) unreadable: AtomicU64,
}

/// What an index holds and has cost.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct IndexStats {
    /// Its name.
    pub name: Box<str>,
    /// The set that it is of; `None`: the records of all sets.
    pub set: Option<Box<str>>,
    /// Whether queries can use it. False while it is built.
    pub is_ready: bool,
    /// How many partitions of 4,096 have been built.
    pub partitions_built: u64,
    /// How long it took to build, in milliseconds; 0 while it is built.
    pub build_ms: u64,
    /// How many entries it has: one for each record, or for each element, key or value of a collection.
    pub entries: u64,
    /// How many different keys they have: entries for each key tell how far an equality narrows. Exact up to some
    /// 2 MiB of memory while nobody writes, beyond that an estimate from about a thousand samples of neighbouring entries.
    pub distinct_keys: u64,
    /// The memory that it takes, in bytes.
    pub memory_bytes: u64,
    /// Entries added since the store was opened.
    pub added: u64,
    /// Entries removed since the store was opened.
    pub removed: u64,
    /// Entries of records that were gone, removed when they were met. Part of `removed`.
    pub cleaned: u64,
    /// Queries that have used it since the store was opened; each page counts.
    pub queries: u64,
    /// Records that could not be read when it was built, because they are damaged: no query finds them by it.
    pub unreadable: u64,
}

impl Index {
    pub(super) fn new(
        definition: IndexDefinition,
        set: Option<&str>,
        set_id: Option<u16>,
    ) -> Result<Self> {
        Ok(Self {
            reader: EntryReader::new(&definition)?,
            unique: match definition.unique {
                true => (0..UNIQUE_LOCKS).map(|_| Mutex::new(())).collect(),
                false => Box::default(),
            },
            name: RwLock::new(definition.name.as_ref().into()),
            definition,
            set: set.map(Into::into),
            set_id,
            entries: OrderedEntries::new(),
            state: AtomicU8::new(IndexState::Building as u8),
            built: AtomicU64::new(0),
            begun: Instant::now(),
            built_in_ms: AtomicU64::new(0),
            counters: Counters::default(),
        })
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.set == other.set && self.definition() == other.definition()
    }

    /// Its name.
    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name.read())
    }

    #[cfg(feature = "server")]
    pub(super) fn rename(&self, name: &str) {
        *self.name.write() = name.into();
    }

    /// What it is of, under the name that it has.
    pub(crate) fn definition(&self) -> IndexDefinition {
        IndexDefinition {
            name: self.name().as_ref().into(),
            ..self.definition.clone()
        }
    }

    /// Whether records of this set are in it.
    pub(in crate::engine) fn is_of(&self, set_id: u16) -> bool {
        self.set_id.is_none_or(|id| id == set_id)
    }

    /// The name of its set; empty where it has none.
    pub(crate) fn set_name(&self) -> &str {
        self.set.as_deref().unwrap_or_default()
    }

    pub(crate) fn state(&self) -> IndexState {
        match self.state.load(Ordering::Acquire) {
            0 => IndexState::Building,
            1 => IndexState::Ready,
            _ => IndexState::Dropped,
        }
    }

    pub(super) fn set_state(&self, state: IndexState) {
        if state == IndexState::Ready {
            let took = self.begun.elapsed().as_millis() as u64;
            self.built_in_ms.store(took, Ordering::Relaxed);
        }
        self.state.store(state as u8, Ordering::Release);
    }

    /// How many partitions have been built, and of how many.
    pub(in crate::engine) fn progress(&self) -> (u64, u64) {
        (self.built.load(Ordering::Relaxed), PARTITIONS as u64)
    }

    /// Counts a record that is damaged, so that nobody knows its entries.
    pub(super) fn note_unreadable(&self) {
        self.counters.unreadable.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn note_built(&self) {
        self.built.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether its entries depend on an expression, and so perhaps on more than bins.
    pub(in crate::engine) fn has_expression(&self) -> bool {
        self.reader.has_expression()
    }

    /// Whether a record has the same entries in two versions, as far as a look at bins can tell.
    pub(super) fn is_same_in(&self, old: RecordView<'_>, new: RecordView<'_>) -> bool {
        self.reader.is_same(old, new)
    }

    /// Appends the entries that a record has in this index: none for a record that holds a shard of a collection.
    pub(in crate::engine) fn entries_of(
        &self,
        record: RecordView<'_>,
        facts: &RecordFacts<'_>,
        out: &mut EntryList,
    ) -> Result<()> {
        match ShardRole::of(record.as_bytes()) {
            ShardRole::Companion => Ok(()),
            _ => self.entries_of_user(record, facts, out),
        }
    }

    /// The same of a record that holds no shard.
    pub(in crate::engine) fn entries_of_user(
        &self,
        record: RecordView<'_>,
        facts: &RecordFacts<'_>,
        out: &mut EntryList,
    ) -> Result<()> {
        self.reader
            .entries(&self.definition.name, record, facts, out)
    }

    /// Appends the one entry of a record that holds no shard, where [`EntryReader::is_plain`] says that it is the only one.
    pub(in crate::engine) fn plain_entry_of(
        &self,
        record: RecordView<'_>,
        digest: &Digest,
        out: &mut EntryList,
    ) -> Result<()> {
        self.reader
            .plain_entry(&self.definition.name, record, digest, out)
    }

    pub(super) fn insert(&self, entry: &[u8]) {
        if self.entries.insert(entry) {
            self.counters.added.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(in crate::engine) fn remove(&self, entry: &[u8]) {
        if self.entries.remove(entry) {
            self.counters.removed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Adds an entry to a unique index, if `check` agrees to each other entry with the same key.
    pub(super) fn insert_unique(
        &self,
        entry: &[u8],
        check: impl Fn(&Digest, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (key, _) = split_entry(entry);
        let hash = xxhash_rust::xxh3::xxh3_64(key) as usize;
        let lock = self.unique.get(hash % UNIQUE_LOCKS);
        let _adding = lock
            .filter(|_| GUARDS.keep(Guard::UniqueKeyLocked))
            .map(Mutex::lock);
        let mut same_key = EntryList::default();
        let range = EntryRange::with_prefix(key);
        self.entries.copy(&range, false, usize::MAX, &mut same_key);
        for known in same_key.iter().filter(|known| *known != entry) {
            let (_, digest) = split_entry(known);
            check(&digest, known)?;
        }
        self.insert(entry);
        Ok(())
    }

    /// The memory that its entries take, in bytes.
    #[cfg(feature = "server")]
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.entries.memory_bytes()
    }

    /// How many entries were removed by who met them.
    #[cfg(feature = "server")]
    pub(crate) fn cleaned(&self) -> u64 {
        self.counters.cleaned.load(Ordering::Relaxed)
    }

    pub(crate) fn stats(&self) -> IndexStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        IndexStats {
            name: self.name().as_ref().into(),
            set: self.set.clone(),
            is_ready: self.state() == IndexState::Ready,
            partitions_built: self.progress().0,
            build_ms: read(&self.built_in_ms),
            entries: self.entries.len(),
            distinct_keys: self.entries.distinct_keys(Digest::LEN),
            memory_bytes: self.entries.memory_bytes(),
            added: read(&self.counters.added),
            removed: read(&self.counters.removed),
            cleaned: read(&self.counters.cleaned),
            queries: read(&self.counters.queries),
            unreadable: read(&self.counters.unreadable),
        }
    }
}

/// The key of an entry, and the digest of its record.
pub(in crate::engine) fn split_entry(entry: &[u8]) -> (&[u8], Digest) {
    match entry.split_last_chunk::<{ Digest::LEN }>() {
        Some((key, digest)) => (key, Digest::new(*digest)),
        // Every entry ends with a digest.
        None => (entry, Digest::new([0; Digest::LEN])),
    }
}
