//! The state that the handles of a namespace share, and the common part of reads and writes: errors
//! with the namespace's limits, what of a record may be seen, scans.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use crate::sync::Mutex;
use spikelet_storage::{
    Clock, Digest, Durability, EPOCH_UNIX_SECONDS, EntryView, Error as StorageError, Observer,
    Opening, PARTITIONS, Truncate,
};

use crate::error::WriteStop;
use crate::expression::{Expression, RecordFacts};
use crate::record::{Key, KeyHash, Metadata, Record, RecordView};
use crate::{Error, Result};

use super::activity::{Activity, OperationKind};
use super::catalog::Catalog;
use super::companion_sets::{SetBits, is_companion};
use super::config::NamespaceConfig;
use super::declaration::DECLARATION_SET;
use super::entry::facts_of;
pub(super) use super::entry::{expired, key_of, metadata_of, record_of, record_with_bins};
use super::hot_keys::HotKeys;
use super::indexes::{Index, Indexes};
use super::open_dirs::{OpenDir, name_holder};
#[cfg(feature = "server")]
use super::provisional::locks::ProvisionalLocks;
use super::refusals::conflict;
use super::relation_rules::RelationRules;
use super::transaction::TransactionCounts;
use super::transition_log::TransitionLog;

/// The name of a subscription, and the number of a share.
pub(super) type ConsumedShare = (Box<str>, usize);

/// What the handles share.
pub(super) struct NamespaceCore {
    pub(super) storage: spikelet_storage::Namespace,
    pub(super) key_hash: KeyHash,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) max_record_bytes: u64,
    /// Seconds; 0: no end.
    pub(super) default_ttl: AtomicU64,
    /// Whether the records are in memory and on no device.
    pub(super) in_memory: bool,
    pub(super) opening: Opening,
    /// Behind `storage`, which is dropped first. `None`: in memory.
    _open_dir: Option<OpenDir>,
    /// How many roots have lost the description of their shards to writes other than the
    /// collection's.
    pub(super) lost_roots: AtomicU64,
    pub(super) indexes: Arc<Indexes>,
    pub(super) companion_sets: SetBits,
    pub(super) relations: RelationRules,
    pub(super) hot_keys: Arc<HotKeys>,
    /// The declarations, as in the log.
    pub(super) catalog: Mutex<Catalog>,
    /// The shares of subscriptions that have a consumer.
    pub(super) consumed: Mutex<Vec<Arc<ConsumedShare>>>,
    /// The names of operations in the background that run.
    pub(super) background: Mutex<Vec<Box<str>>>,
    /// Whether the namespace syncs by itself, without a waiting writer.
    pub(super) syncs_by_itself: bool,
    /// Whether it was opened for reading as a crash has left it: the ends of its blocks are not put
    /// in order.
    pub(super) is_unrepaired: bool,
    pub(super) transitions: TransitionLog,
    pub(super) transactions: TransactionCounts,
    pub(super) activity: Activity,
    /// Records that transactions of wire clients have locked.
    #[cfg(feature = "server")]
    pub(super) provisional_locks: ProvisionalLocks,
}

/// Shows the name of the namespace.
impl fmt::Debug for NamespaceCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceCore")
            .field("namespace", &self.storage.name())
            .finish_non_exhaustive()
    }
}

/// Takes storage's reports: entries of expired records out of the indexes, and contention into the
/// list of hot keys, which is kept across a clean close.
#[derive(Debug)]
struct StorageObserver {
    indexes: Arc<Indexes>,
    hot_keys: Arc<HotKeys>,
    clock: Arc<dyn Clock>,
}

impl Observer for StorageObserver {
    fn expires(&self, entry: &EntryView<'_>, set_name: &dyn Fn() -> String) {
        self.indexes.forget_expired(entry, set_name);
    }

    fn contends(&self, digest: &Digest, refused: bool) {
        self.hot_keys.note(digest, refused, self.clock.now_ms());
    }

    fn notes(&self) -> Vec<u8> {
        self.hot_keys.encode(self.clock.now_ms())
    }

    fn restore(&self, notes: &[u8]) {
        self.hot_keys.decode(notes);
    }
}

/// A record as a scan meets it, read in place.
#[derive(Clone, Copy, Debug)]
pub struct ScannedRecord<'a> {
    /// The digest of the record.
    pub digest: Digest,
    /// The stored user key; see [`ScannedRecord::key`].
    stored_key: Option<&'a [u8]>,
    /// The number of its set: an index into [`Namespace::sets`](crate::Namespace::sets). 0: no set.
    pub set_id: u16,
    /// Generation and times.
    pub metadata: Metadata,
    /// Its size on the device, in bytes.
    pub stored_bytes: u64,
    /// The bins of the record, lent without a copy.
    pub view: RecordView<'a>,
}

impl<'a> ScannedRecord<'a> {
    /// The user key, if the record stores one that is a [`Key`].
    #[must_use]
    pub fn key(&self) -> Option<Key<'a>> {
        Key::from_stored(self.stored_key?).ok()
    }

    pub(super) const fn stored_key(&self) -> Option<&'a [u8]> {
        self.stored_key
    }

    /// The record, owned. O(bytes).
    ///
    /// # Errors
    /// [`Error::Malformed`] if its bins are malformed.
    pub fn to_record(&self) -> Result<Record> {
        Record::new(self.metadata, self.stored_key, self.view.as_bytes())
    }
}

/// A record on which writers have waited or were refused. After 5 minutes an event counts half.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HotRecord {
    /// The digest of the record.
    pub digest: Digest,
    /// Its user key, if it exists and stores one.
    pub key: Option<Key<'static>>,
    /// How often a writer had to wait.
    pub waits: u64,
    /// How often a writer was refused with [`Error::KeyBusy`].
    pub busy: u64,
}

impl NamespaceCore {
    pub(super) fn open(
        config: &NamespaceConfig,
        mut options: spikelet_storage::Options,
        read_only: bool,
    ) -> Result<Self> {
        let clock = Arc::clone(&options.clock);
        let in_memory = matches!(options.storage, spikelet_storage::Storage::Memory);
        let dir = match &options.storage {
            spikelet_storage::Storage::Files { dir, .. } => Some(dir.clone()),
            _ => None,
        };
        let indexes = Arc::new(Indexes::new(config.index_bytes_max, in_memory));
        let hot_keys = Arc::new(HotKeys::default());
        // Background threads run from the opening on, so expiry must reach the indexes while
        // `restore_indexes` fills them.
        options.observer = Some(Arc::new(StorageObserver {
            indexes: Arc::clone(&indexes),
            hot_keys: Arc::clone(&hot_keys),
            clock: Arc::clone(&clock),
        }));
        let syncs_by_itself =
            options.background && matches!(options.durability, Durability::Interval(_));
        let opened = if read_only {
            spikelet_storage::Namespace::open_read_only(options)
        } else {
            spikelet_storage::Namespace::open(options)
        };
        let (storage, opening) = opened.map_err(|error| match &dir {
            Some(dir) => name_holder(error.into(), dir),
            None => error.into(),
        })?;
        let is_unrepaired = read_only && !opening.from_snapshot;
        let catalog = Catalog::decode(&storage.catalog())?;
        let set_id = |name: &str| match name {
            "" => Some(0),
            name => storage.set_id(name),
        };
        let companions = catalog.companions.iter();
        let companion_sets = SetBits::new(companions.filter_map(|name| set_id(name)));
        let core = Self {
            storage,
            key_hash: config.key_hash,
            clock,
            max_record_bytes: config.max_record_bytes,
            default_ttl: AtomicU64::new(
                config.default_time_to_live.map_or(0, |live| live.as_secs()),
            ),
            in_memory,
            opening,
            _open_dir: dir.as_deref().map(OpenDir::new),
            lost_roots: AtomicU64::new(0),
            indexes,
            companion_sets,
            relations: RelationRules::default(),
            hot_keys,
            catalog: Mutex::new(catalog),
            consumed: Mutex::default(),
            background: Mutex::default(),
            syncs_by_itself,
            is_unrepaired,
            transitions: TransitionLog::default(),
            transactions: TransactionCounts::default(),
            activity: Activity::default(),
            #[cfg(feature = "server")]
            provisional_locks: ProvisionalLocks::default(),
        };
        core.note_needed();
        core.restore_indexes()?;
        core.read_declarations();
        Ok(core)
    }

    /// Changes the declarations. They count once they are in the log.
    pub(super) fn change_catalog<R>(
        &self,
        change: impl FnOnce(&mut Catalog) -> Result<R>,
    ) -> Result<R> {
        let mut current = self.catalog.lock();
        let mut changed = current.clone();
        let result = change(&mut changed)?;
        self.storage.set_catalog(&changed.encode()?)?;
        // Only now: a declaration counts once it is in the log.
        *current = changed;
        Ok(result)
    }

    pub(super) fn hot_records(&self, most: usize) -> Vec<HotRecord> {
        let hot = self.hot_keys.top(most, self.clock.now_ms()).into_iter();
        hot.map(|hot| HotRecord {
            digest: hot.digest,
            key: self.stored_key(&hot.digest),
            waits: hot.waits,
            busy: hot.busy,
        })
        .collect()
    }

    pub(super) fn truncate(
        self: &Arc<Self>,
        what: Truncate,
        before: Option<SystemTime>,
    ) -> Result<u64> {
        let now_ms = self.clock.now_ms();
        let before_ms = before.map(|time| {
            let unix_ms = time
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64);
            unix_ms.saturating_sub(EPOCH_UNIX_SECONDS * 1000)
        });
        if before_ms.is_some_and(|before_ms| before_ms == 0 || before_ms > now_ms) {
            return Err(Error::parameter(
                "a truncation needs a time between 2010 and now; leave it out to remove everything",
            ));
        }
        let going = match before_ms {
            Some(before_ms) => self.going_collections(what, before_ms)?,
            None => Vec::new(),
        };
        let has_removed = Cell::new(false);
        let remove = |what| {
            let check = || match before_ms {
                // Others may have written to them since, and wait from here on.
                Some(before_ms) => self.check_going(&going, before_ms),
                None => Ok(()),
            };
            let removed = self.storage.truncate_if(what, before_ms, check)?;
            has_removed.set(true);
            Ok(removed)
        };
        let rules = self.relations.begin_truncation();
        let removed = self.remove_truncated(what, before_ms, remove);
        let is_refused = |error: &Error| match error {
            Error::ShardRoot { .. } => !has_removed.get(),
            Error::Storage(error) => {
                matches!(
                    **error,
                    StorageError::Closed { .. } | StorageError::OpenedForReading { .. }
                )
            }
            _ => false,
        };
        // Another error may come behind the removal: all that follows it is due.
        let is_due = !removed.as_ref().is_err_and(is_refused);
        if is_due {
            self.read_declarations();
        }
        drop(rules);
        if is_due {
            // Entries of records that are gone do no harm meanwhile, since a query looks at the
            // record.
            self.clean_indexes(what);
            // Any root may be among the records.
            self.note_lost_roots(1);
        }
        removed
    }

    fn remove_truncated(
        self: &Arc<Self>,
        what: Truncate,
        before_ms: Option<u64>,
        remove: impl Fn(Truncate) -> Result<u64>,
    ) -> Result<u64> {
        let mut removed = 0;
        if before_ms.is_some() && what == Truncate::Namespace {
            let mut others = self.storage.sets();
            others.retain(|set| set.name != DECLARATION_SET);
            others.sort_by_key(|set| set.stored_bytes);
            while let Err(error) = self.renew_declarations() {
                // A full store takes no write: the largest set makes room first.
                let is_full = matches!(error, Error::StopWrites { .. });
                let other = others.pop().filter(|_| is_full);
                let other = other.and_then(|set| match &*set.name {
                    "" => Some(0),
                    name => self.storage.set_id(name),
                });
                removed += remove(Truncate::Set(other.ok_or(error)?))?;
                self.storage.maintain()?;
            }
        }
        Ok(removed + remove(what)?)
    }

    /// Lends the live records of one set, or of all, to `read`, until it breaks off.
    pub(super) fn scan<B>(
        &self,
        set: Option<(u16, &str)>,
        filter: Option<&Expression>,
        with_companions: bool,
        read: &mut impl FnMut(Result<ScannedRecord<'_>>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let began = self.activity.begin(OperationKind::Scan);
        let ended = (0..PARTITIONS).try_for_each(|partition| {
            self.scan_partition(partition, set, filter, with_companions, read)
        });
        self.activity.end(OperationKind::Scan, began, None);
        ended
    }

    /// Lends the live records of a partition that pass a filter, of one set (number and name) or of
    /// all, to `read`: companions, too, if they are asked for.
    pub(super) fn scan_partition<B>(
        &self,
        partition: usize,
        set: Option<(u16, &str)>,
        filter: Option<&Expression>,
        with_companions: bool,
        read: &mut impl FnMut(Result<ScannedRecord<'_>>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let now_ms = self.clock.now_ms();
        let is_wanted = |id| set.is_none_or(|(wanted, _)| wanted == id);
        let set_name = set.map_or("", |(_, name)| name);
        self.storage.scan_sets(partition, is_wanted, |entry| {
            let entry = match entry {
                Ok(entry) if expired(&entry, now_ms) => return ControlFlow::Continue(()),
                Ok(entry) => entry,
                Err(error) => return read(Err(error.into())),
            };
            match self.passes(filter, &entry, set_name, now_ms) {
                Ok(true) if !with_companions && self.hides(&entry) => ControlFlow::Continue(()),
                Ok(true) => read(scanned(&entry)),
                Ok(false) => ControlFlow::Continue(()),
                Err(error) => read(Err(error)),
            }
        })
    }

    /// Lends a record to `read`; `None` if there is none, or it has expired.
    pub(super) fn read_live<R>(
        &self,
        digest: &Digest,
        read: impl FnOnce(&EntryView<'_>) -> R,
    ) -> Result<Option<R>> {
        let now_ms = self.clock.now_ms();
        let found = self.storage.get(digest, |entry| {
            (!expired(&entry, now_ms)).then(|| read(&entry))
        })?;
        Ok(found.flatten())
    }

    /// Whether a record holds a shard, and is shown only to callers that ask for such records. One
    /// look at a bit where the set has none.
    #[inline]
    pub(super) fn hides(&self, entry: &EntryView<'_>) -> bool {
        self.companion_sets.contains(entry.set_id()) && is_companion(entry)
    }

    /// How many records of a set hold shards. O(records of the set), where the set has ever had
    /// any; else O(1).
    pub(super) fn count_companions(&self, set_id: u16) -> u64 {
        if !self.companion_sets.contains(set_id) {
            return 0;
        }
        let mut count = 0;
        for partition in 0..PARTITIONS {
            let is_wanted = |id| id == set_id;
            let _ = self.storage.scan_sets(partition, is_wanted, |entry| {
                count += u64::from(entry.is_ok_and(|entry| is_companion(&entry)));
                ControlFlow::<()>::Continue(())
            });
        }
        count
    }

    /// The digests of the live records of wanted sets of a partition that come after a digest, in
    /// order. Damage is reported to `damaged`.
    pub(super) fn digests_in(
        &self,
        partition: usize,
        is_wanted: impl Fn(u16) -> bool,
        after: Option<&Digest>,
        mut damaged: impl FnMut(Error),
    ) -> Vec<Digest> {
        let now_ms = self.clock.now_ms();
        let mut digests = Vec::new();
        let _: ControlFlow<()> = self.storage.scan_sets(partition, is_wanted, |entry| {
            match entry {
                Ok(entry) if expired(&entry, now_ms) => {}
                Ok(entry) => digests.push(entry.digest()),
                Err(error) => damaged(error.into()),
            }
            ControlFlow::Continue(())
        });
        if let Some(after) = after {
            digests.retain(|digest| after < digest);
        }
        digests.sort_unstable();
        digests
    }

    /// The user key that the record of a digest stores.
    pub(super) fn stored_key(&self, digest: &Digest) -> Option<Key<'static>> {
        let key = self.storage.get(digest, |entry| key_of(&entry));
        key.ok().flatten().flatten()
    }

    /// Puts the caller's time limit into a storage error that does not know it.
    pub(super) fn refused(
        &self,
        error: spikelet_storage::Error,
        timeout: Option<Duration>,
    ) -> Error {
        match error {
            spikelet_storage::Error::Timeout => Error::Timeout {
                after: timeout.unwrap_or_default(),
                in_doubt: false,
                record: None,
            },
            other => self.not_written(other),
        }
    }

    /// The error of a write that storage refused, with the limit of space that it has met.
    pub(super) fn not_written(&self, error: spikelet_storage::Error) -> Error {
        match error {
            // Where more blocks are free than the reserve has, the file system does not give them.
            spikelet_storage::Error::StopWrites {
                namespace,
                free_blocks,
            } if free_blocks > self.storage.stats().reserve_blocks => Error::StopWrites {
                namespace: namespace.into(),
                cause: WriteStop::FileSystemFull,
            },
            spikelet_storage::Error::Conflict { cause, .. } => conflict(cause),
            other => other.into(),
        }
    }

    /// Refuses a record for which a filter does not hold: see [`NamespaceCore::passes`].
    pub(super) fn check_filter(
        &self,
        filter: Option<&Expression>,
        entry: &EntryView<'_>,
        set_name: &str,
        now_ms: u64,
    ) -> Result<()> {
        if self.passes(filter, entry, set_name, now_ms)? {
            Ok(())
        } else {
            Err(Error::FilteredOut { record: None })
        }
    }

    /// Whether a filter holds for a record. `set_name` is the name of its set, or empty if it was
    /// not looked up.
    #[inline]
    pub(super) fn passes(
        &self,
        filter: Option<&Expression>,
        entry: &EntryView<'_>,
        set_name: &str,
        now_ms: u64,
    ) -> Result<bool> {
        let Some(filter) = filter else {
            return Ok(true);
        };
        let filter = filter.filter()?;
        if !filter.reads_facts() {
            return filter.passes_stored(None, entry.payload());
        }
        let looked_up;
        let set_name = if set_name.is_empty() && entry.set_id() != 0 {
            looked_up = self.storage.set_name(entry.set_id()).unwrap_or_default();
            &looked_up
        } else {
            set_name
        };
        let facts = self.facts(entry, set_name, now_ms);
        filter.passes_stored(Some(&facts), entry.payload())
    }

    /// The name of a record's set, if the entries of an index depend on it.
    pub(super) fn set_name_for<'i>(&self, index: &'i Index, set_id: u16) -> Cow<'i, str> {
        if index.needs_set_name(set_id) {
            Cow::Owned(self.storage.set_name(set_id).unwrap_or_default())
        } else {
            Cow::Borrowed(index.set_name())
        }
    }

    /// What expressions see of a stored record besides its bins.
    pub(super) fn facts<'a>(
        &self,
        entry: &EntryView<'a>,
        set_name: &'a str,
        now_ms: u64,
    ) -> RecordFacts<'a> {
        facts_of(entry, set_name, now_ms, self.in_memory)
    }
}

pub(super) fn scanned<'a>(entry: &EntryView<'a>) -> Result<ScannedRecord<'a>> {
    Ok(viewed(entry, RecordView::parse(entry.payload())?))
}

/// A record with checked bins.
#[inline]
pub(super) fn viewed<'a>(entry: &EntryView<'a>, view: RecordView<'a>) -> ScannedRecord<'a> {
    ScannedRecord {
        digest: entry.digest(),
        stored_key: entry.key(),
        set_id: entry.set_id(),
        metadata: metadata_of(entry),
        stored_bytes: entry.stored_bytes(),
        view,
    }
}
