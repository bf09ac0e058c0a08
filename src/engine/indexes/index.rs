//! One secondary index.

use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use crate::sync::{Mutex, RwLock};
use parking_lot::Condvar;
use spikelet_storage::{Digest, PARTITIONS};

use crate::expression::RecordFacts;
use crate::index::{
    EntryList, EntryRange, EntryRanges, EntryReader, GUARDS, IndexComponent, IndexDefinition,
    IndexRule, OrderedEntries, forms_len,
};
use crate::record::{
    KeyHash, RecordView, SUBKEYS, ShardRole, companion_name, is_by_hash, sharded_bins,
};
use crate::{Error, Result};

/// How many keys of a unique index can be added at the same time.
const UNIQUE_LOCKS: usize = 64;

/// The state of an index.
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
    key_hash: KeyHash,
    /// How many values an entry has.
    pub(in crate::engine) values: usize,
    /// Whether companions have, or had, entries. Set before the first one is added.
    has_companions: AtomicBool,
    state: AtomicU8,
    /// Notified, with the lock, after each change of the state.
    changed: (parking_lot::Mutex<()>, Condvar),
    /// Whether its build is to end.
    is_cancelled: AtomicBool,
    /// How many partitions have been built.
    built: AtomicU64,
    begun: Instant,
    /// How long building it has taken, once it is ready.
    built_in_ms: AtomicU64,
    pub(in crate::engine) counters: IndexCounters,
    /// A writer that adds a key to a unique index holds the key's lock.
    unique: Box<[Mutex<()>]>,
}

#[derive(Debug, Default)]
pub(in crate::engine) struct IndexCounters {
    added: AtomicU64,
    removed: AtomicU64,
    /// Entries of records that had gone unseen, removed by the query that met them.
    pub(in crate::engine) cleaned: AtomicU64,
    pub(in crate::engine) queries: AtomicU64,
    pub(in crate::engine) unreadable: AtomicU64,
}

/// The size of an index, and its costs.
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
    /// How many entries it has: one for each record, or for each element, key or value of a
    /// collection; an expired record's count until the expiry pass removes it.
    pub entries: u64,
    /// How many different keys they have: entries for each key show how far an equality narrows.
    /// Exact up to some 2 MiB of memory without writes meanwhile, beyond that an estimate from
    /// about a thousand samples of neighbouring entries.
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
    /// Records that no query finds by it: damaged ones that could not be read when it was built,
    /// and expired ones that the index cannot hold, which live again if the clock is set back.
    pub unreadable: u64,
}

impl Index {
    pub(super) fn new(
        definition: IndexDefinition,
        set: Option<&str>,
        set_id: Option<u16>,
        key_hash: KeyHash,
    ) -> Result<Self> {
        let reader = EntryReader::new(&definition)?;
        let values = definition.components().iter();
        let values = values.map(IndexComponent::value_count).sum();
        Ok(Self {
            key_hash,
            values,
            has_companions: AtomicBool::new(false),
            // An element that moves between root and companions has one entry at least at every
            // moment.
            entries: match (reader.parts_of(), values) {
                (Some(_), 1) => OrderedEntries::in_groups(|entry| root_entry_len(entry, 1)),
                (Some(_), _) => OrderedEntries::in_groups(|entry| root_entry_len(entry, 2)),
                (None, _) => OrderedEntries::new(),
            },
            reader,
            unique: if definition.unique {
                (0..UNIQUE_LOCKS).map(|_| Mutex::new(())).collect()
            } else {
                Box::default()
            },
            name: RwLock::new(definition.name.as_ref().into()),
            definition,
            set: set.map(Into::into),
            set_id,
            state: AtomicU8::new(IndexState::Building as u8),
            changed: Default::default(),
            is_cancelled: AtomicBool::new(false),
            built: AtomicU64::new(0),
            begun: Instant::now(),
            built_in_ms: AtomicU64::new(0),
            counters: IndexCounters::default(),
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

    /// Its definition, with its name.
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

    /// Whether its entries of a record may depend on the name of the record's set, and it is not of
    /// that set alone.
    pub(in crate::engine) fn needs_set_name(&self, set_id: u16) -> bool {
        self.set.is_none() && set_id != 0 && (self.has_expression() || self.is_of_parts())
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

    pub(super) fn cancel_build(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Ends the build of an index that was cancelled or dropped.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub(super) fn check_goes_on(&self) -> Result<()> {
        if self.is_cancelled.load(Ordering::Relaxed) || self.state() == IndexState::Dropped {
            return Err(Error::Forbidden(
                "the build of the index was cancelled".into(),
            ));
        }
        Ok(())
    }

    /// Refuses to answer from an index that was dropped: no write changes it any more.
    ///
    /// # Errors
    /// [`Error::IndexNotFound`].
    pub(in crate::engine) fn check_kept(&self) -> Result<()> {
        match self.state() {
            IndexState::Dropped => Err(Error::IndexNotFound(self.name().as_ref().into())),
            _ => Ok(()),
        }
    }

    pub(super) fn set_state(&self, state: IndexState) {
        if state == IndexState::Ready {
            let took = self.begun.elapsed().as_millis() as u64;
            self.built_in_ms.store(took, Ordering::Relaxed);
        }
        // A build that ends beside a drop does not bring the index back.
        self.state.fetch_max(state as u8, Ordering::AcqRel);
        let (lock, changed) = &self.changed;
        // Who waits has looked at the state with the lock.
        drop(lock.lock());
        changed.notify_all();
    }

    /// Waits for the end of its build.
    pub(super) fn await_built(&self) {
        let (lock, changed) = &self.changed;
        let mut locked = lock.lock();
        while self.state() == IndexState::Building {
            changed.wait(&mut locked);
        }
    }

    /// How many partitions have been built, and of how many.
    pub(in crate::engine) fn progress(&self) -> (u64, u64) {
        (self.built.load(Ordering::Relaxed), PARTITIONS as u64)
    }

    /// Counts a record without entries in the index: it is damaged, or it has expired and does not
    /// fit the index.
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

    /// Appends the entries that a record has in this index. A companion's are its root's, with the
    /// companion behind.
    pub(in crate::engine) fn entries_of(
        &self,
        record: RecordView<'_>,
        facts: &RecordFacts<'_>,
        out: &mut EntryList,
    ) -> Result<()> {
        self.entries_of_role(ShardRole::of(record.as_bytes()), record, facts, out)
    }

    /// [`Index::entries_of`] a record of a known role.
    pub(super) fn entries_of_role(
        &self,
        role: ShardRole,
        record: RecordView<'_>,
        facts: &RecordFacts<'_>,
        out: &mut EntryList,
    ) -> Result<()> {
        match role {
            ShardRole::Companion => self.entries_of_companion(record, facts, out),
            _ => self.entries_of_user(record, facts, out),
        }
    }

    /// Appends the entries of a record that holds no shard.
    pub(in crate::engine) fn entries_of_user(
        &self,
        record: RecordView<'_>,
        facts: &RecordFacts<'_>,
        out: &mut EntryList,
    ) -> Result<()> {
        self.reader
            .entries(&self.definition.name, record, facts, out)
    }

    /// Appends the entries of a record that holds a shard by hash.
    fn entries_of_companion(
        &self,
        record: RecordView<'_>,
        facts: &RecordFacts<'_>,
        out: &mut EntryList,
    ) -> Result<()> {
        let Some(name) = companion_name(record).filter(|_| self.is_of_parts()) else {
            return Ok(());
        };
        let of_root = RecordFacts {
            digest: self.key_hash.digest(facts.set_name, &name.root),
            ..*facts
        };
        let mut entries = EntryList::default();
        self.entries_of_user(record, &of_root, &mut entries)?;
        if !entries.is_empty() {
            // Before the entries are added: a query that meets one knows that there may be more of
            // its root.
            self.has_companions.store(true, Ordering::SeqCst);
        }
        for entry in entries.iter() {
            out.push_with(|out| {
                out.extend_from_slice(entry);
                out.extend_from_slice(facts.digest.as_bytes());
            });
        }
        Ok(())
    }

    /// Whether companions may have entries: the index has the parts of one collection alone.
    pub(in crate::engine) fn is_of_parts(&self) -> bool {
        self.reader.parts_of().is_some()
    }

    /// Whether some of the entries are, or were, companions'.
    pub(in crate::engine) fn has_companions(&self) -> bool {
        self.has_companions.load(Ordering::SeqCst)
    }

    /// Refuses a record that describes collections as sharded which the index would lose, unless it
    /// described them before.
    ///
    /// # Errors
    /// [`Error::ShardIndexed`].
    pub(super) fn check_sharded(
        &self,
        old: Option<RecordView<'_>>,
        new: RecordView<'_>,
    ) -> Result<()> {
        let described =
            |record: RecordView<'_>| Some(record.find(SUBKEYS.as_bytes())?.bytes.to_vec());
        if old.and_then(described) == described(new) {
            return Ok(());
        }
        let known = old.map(sharded_bins).unwrap_or_default();
        for (bin, form) in sharded_bins(new) {
            if !known.iter().any(|(name, _)| *name == bin)
                && let Some(why) = self.reader.loses_by_sharding(bin, is_by_hash(form))
            {
                return Err(Error::ShardIndexed {
                    bin: bin.into(),
                    index: self.name().as_ref().into(),
                    why,
                });
            }
        }
        Ok(())
    }

    /// Appends the first entries of ranges to `out`, `most` at most, and leaves the rest of the
    /// ranges; returns how many were taken. An entry of a companion is shortened to that of its
    /// root, and comes once however many companions have it.
    pub(in crate::engine) fn take(
        &self,
        ranges: &mut EntryRanges,
        descending: bool,
        most: usize,
        out: &mut EntryList,
    ) -> usize {
        let before = out.len();
        ranges.take(&self.entries, descending, most, out);
        let taken = out.len() - before;
        if self.has_companions() {
            let mut pairs = EntryList::default();
            for entry in out.iter() {
                let pair = self.without_companion(entry);
                if pairs.last() != Some(pair) {
                    pairs.push(pair);
                }
            }
            *out = pairs;
        }
        // The first companion of all may come right now.
        if let Some(last) = out.last().filter(|_| self.is_of_parts()) {
            self.cut(ranges, last, descending);
        }
        taken
    }

    /// Cuts ranges to their parts behind a record's entry, and behind the entries of its
    /// companions.
    pub(in crate::engine) fn cut(&self, ranges: &mut EntryRanges, entry: &[u8], descending: bool) {
        if self.is_of_parts() && !descending {
            ranges.cut(&[entry, &[u8::MAX; Digest::LEN]].concat(), descending)
        } else {
            ranges.cut(entry, descending)
        }
    }

    /// An entry without the digest of a companion behind it: the entry that the root would have.
    pub(in crate::engine) fn without_companion<'e>(&self, entry: &'e [u8]) -> &'e [u8] {
        if !self.is_of_parts() {
            return entry;
        }
        let root_len = root_entry_len(entry, self.values);
        entry.get(..root_len).unwrap_or(entry)
    }

    /// Appends the one entry of a record that holds no shard, where [`EntryReader::is_plain`] says
    /// that it is the only one.
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
            .filter(|_| GUARDS.keep(IndexRule::UniqueKeyLocked))
            .map(Mutex::lock);
        let mut same_key = EntryList::default();
        let range = EntryRange::with_prefix(key);
        self.entries.copy(&range, false, usize::MAX, &mut same_key);
        for known in same_key.iter().filter(|known| *known != entry) {
            let (_, digest) = split_entry(known);
            check(&digest, known)?;
        }
        // Still with the lock of the key: the next writer of the same key meets this entry.
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
            distinct_keys: self.entries.distinct_keys(|entry| {
                self.without_companion(entry).len() - Digest::LEN.min(entry.len())
            }),
            memory_bytes: self.entries.memory_bytes(),
            added: read(&self.counters.added),
            removed: read(&self.counters.removed),
            cleaned: read(&self.counters.cleaned),
            queries: read(&self.counters.queries),
            unreadable: read(&self.counters.unreadable),
        }
    }
}

/// How long the root's part of an entry is: the whole entry, or what precedes the companion's
/// digest.
fn root_entry_len(entry: &[u8], values: usize) -> usize {
    forms_len(entry, values).map_or(entry.len(), |key| key + Digest::LEN)
}

/// The key of an entry, and the digest of its record.
pub(in crate::engine) fn split_entry(entry: &[u8]) -> (&[u8], Digest) {
    match entry.split_last_chunk::<{ Digest::LEN }>() {
        Some((key, digest)) => (key, Digest::new(*digest)),
        // Every entry ends with a digest.
        None => (entry, Digest::new([0; Digest::LEN])),
    }
}
