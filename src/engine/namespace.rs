//! An open namespace.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime};

use spikelet_storage::{
    Clock, Digest, EPOCH_UNIX_SECONDS, Lsn, MaintenanceReport, Opening, PARTITIONS, SetUsage,
    Stats, Truncate,
};

use crate::error::WriteStop;
use crate::expression::Expression;
use crate::record::{Key, KeyHash, Metadata, Record, RecordView};
use crate::{Error, Result};

use super::config::NamespaceConfig;
use super::open_dirs::{OpenDir, name_holder};
use super::policy::WritePolicy;
use super::set::Set;
use super::write::expired;

/// What the handles share.
pub(super) struct Core {
    pub(super) storage: spikelet_storage::Namespace,
    pub(super) key_hash: KeyHash,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) max_record_bytes: u64,
    pub(super) default_time_to_live: Option<Duration>,
    /// Whether the records are in memory and on no device.
    pub(super) in_memory: bool,
    pub(super) opening: Opening,
    /// Behind `storage`, which is dropped first. `None`: in memory.
    _open_dir: Option<OpenDir>,
    /// How many roots have lost the description of their shards to writes that were not those of the collection.
    pub(super) lost_roots: AtomicU64,
}

/// A namespace: records in sets. Cheap to clone; all clones are the same namespace.
#[derive(Clone)]
pub struct Namespace {
    pub(super) core: Arc<Core>,
}

/// A record as a scan meets it, read in place.
#[derive(Clone, Copy, Debug)]
pub struct ScannedRecord<'a> {
    /// The digest of the record.
    pub digest: Digest,
    /// The stored user key; see [`ScannedRecord::key`].
    stored_key: Option<&'a [u8]>,
    /// The number of its set: an index into [`Namespace::sets`]. 0: no set.
    pub set_id: u16,
    /// Generation and times.
    pub metadata: Metadata,
    /// What it takes on the device, in bytes.
    pub stored_bytes: u64,
    /// The bins of the record, lent where they lie.
    pub view: RecordView<'a>,
}

impl<'a> ScannedRecord<'a> {
    /// The user key, if it is stored.
    #[must_use]
    pub fn key(&self) -> Option<Key<'a>> {
        Key::from_stored(self.stored_key?).ok()
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

impl Namespace {
    pub(super) fn open(
        config: &NamespaceConfig,
        options: spikelet_storage::Options,
        read_only: bool,
    ) -> Result<Self> {
        let clock = Arc::clone(&options.clock);
        let in_memory = matches!(options.storage, spikelet_storage::Storage::Memory);
        let dir = match &options.storage {
            spikelet_storage::Storage::Files { dir, .. } => Some(dir.clone()),
            _ => None,
        };
        let opened = if read_only {
            spikelet_storage::Namespace::open_read_only(options)
        } else {
            spikelet_storage::Namespace::open(options)
        };
        let (storage, opening) = opened.map_err(|error| match &dir {
            Some(dir) => name_holder(error.into(), dir),
            None => error.into(),
        })?;
        let core = Core {
            storage,
            key_hash: config.key_hash,
            clock,
            max_record_bytes: config.max_record_bytes,
            default_time_to_live: config.default_time_to_live,
            in_memory,
            opening,
            _open_dir: dir.as_deref().map(OpenDir::new),
            lost_roots: AtomicU64::new(0),
        };
        Ok(Self {
            core: Arc::new(core),
        })
    }

    /// Returns the name of the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        self.core.storage.name()
    }

    /// A set of this namespace; the empty name is "no set". It comes to be with the first write.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name that is too long (63 bytes) or holds a NUL byte.
    pub fn set(&self, name: &str) -> Result<Set> {
        Set::new(&self.core, name)
    }

    /// What opening has found.
    #[must_use]
    pub fn opening(&self) -> &Opening {
        &self.core.opening
    }

    /// How keys become digests.
    #[must_use]
    pub fn key_hash(&self) -> KeyHash {
        self.core.key_hash
    }

    /// A look at the counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.core.storage.stats()
    }

    /// What each set holds, "no set" first. Exact while nobody writes.
    #[must_use]
    pub fn sets(&self) -> Vec<SetUsage> {
        self.core.storage.sets()
    }

    /// The records that writers fight over, the most contended first. Always on; costs nothing where nobody waits.
    #[must_use]
    pub fn hot_records(&self, most: usize) -> Vec<HotRecord> {
        self.core.hot_records(most)
    }

    /// Removes all records, or with `before` those last updated before that time. Returns how many; they and their counts
    /// are gone when the call returns, and never come back. Records written after the call stay, whatever the clock says.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a time in the future, or before 2010.
    pub fn truncate(&self, before: Option<SystemTime>) -> Result<u64> {
        self.core.truncate(Truncate::Namespace, before)
    }

    /// Lends every live record of the namespace to `read`, in no particular order, until `read` breaks off; returns what it
    /// breaks off with. Records written meanwhile may or may not be among them. O(records).
    ///
    /// A record that is damaged on the device comes as an error ([`Error::is_damage`]) in its place, and the scan goes on
    /// with the others unless `read` ends it.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// # fn main() -> spikelet::Result<()> {
    /// let store = spikelet::Store::in_memory()?;
    /// store.set("users")?.put("alice", [("age", 42)])?;
    /// let (mut bytes, mut damaged) = (0, 0);
    /// let all = store.namespace("test")?.scan(|record| {
    ///     match record {
    ///         Ok(record) => bytes += record.stored_bytes,
    ///         Err(_) => damaged += 1,
    ///     }
    ///     ControlFlow::<()>::Continue(())
    /// });
    /// assert!(all.is_continue() && bytes > 0 && damaged == 0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan<B>(
        &self,
        mut read: impl FnMut(Result<ScannedRecord<'_>>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        (0..PARTITIONS)
            .try_for_each(|partition| self.core.scan_partition(partition, None, None, &mut read))
    }

    /// Expires, defragments and forgets tombstones at once instead of bit by bit in the background.
    ///
    /// # Errors
    /// [`Error::Storage`] if the namespace is read-only or has no room at all.
    pub fn maintain(&self) -> Result<MaintenanceReport> {
        Ok(self.core.storage.maintain()?)
    }

    /// Everything acknowledged before this call is on stable storage when it returns.
    ///
    /// # Errors
    /// [`Error::Storage`] if a sync fails, now or earlier.
    pub fn sync(&self) -> Result<()> {
        Ok(self.core.storage.sync()?)
    }

    /// Returns the number of the latest write: once it is durable, so is every write that has returned before this call.
    #[must_use]
    pub fn last_lsn(&self) -> Lsn {
        self.core.storage.last_lsn()
    }

    /// Returns the number up to which every write is on stable storage.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        self.core.storage.durable_lsn()
    }

    /// Blocks until the write with this number, and all before it, are on stable storage, whatever the namespace's
    /// [`Durability`](crate::Durability) is. Returns at once if they are. Callers that wait at the same time share one sync.
    ///
    /// # Errors
    /// [`Error::Storage`] if a sync failed before they were, now or earlier ([`Error::in_doubt`]: the write is applied, and
    /// whether it is durable is unknown), or for a number that no write of this namespace can have returned.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        Ok(self.core.storage.wait_durable(lsn)?)
    }

    /// Returns a future that completes when the write with this number, and all before it, are on stable storage. Needs no
    /// particular runtime; nothing happens before it is polled, and dropping it takes back what it asked for.
    ///
    /// A background thread syncs for all futures that wait, and wakes them: tasks share syncs as threads do. Where there is
    /// none (`NamespaceConfig::background` is false, or the store is closed), the poll itself syncs, and blocks meanwhile.
    ///
    /// ```
    /// use spikelet::{Durability, NamespaceConfig, Store, WritePolicy};
    /// use spikelet::policy::Acknowledge;
    ///
    /// async fn save(store: &Store, name: &str) -> spikelet::Result<()> {
    ///     // Returns as soon as readers see it, without waiting for the disk.
    ///     let policy = WritePolicy::default().acknowledge(Acknowledge::Applied);
    ///     let lsn = store.set("users")?.put_with(&policy, name, [("visits", 1)])?;
    ///     store.namespace("test")?.durable(lsn).await
    /// }
    /// # fn main() -> spikelet::Result<()> {
    /// let mut config = NamespaceConfig::new("test");
    /// config.durability = Durability::Commit;
    /// let store = Store::builder().namespace(config).open()?;
    /// # let mut saved = std::pin::pin!(save(&store, "alice"));
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # while let std::task::Poll::Pending = saved.as_mut().poll(&mut context) {}
    /// # assert!(store.set("users")?.exists("alice")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Namespace::wait_durable`].
    pub fn durable(&self, lsn: Lsn) -> impl Future<Output = Result<()>> + Send + use<> {
        let durable = self.core.storage.durable(lsn);
        async move { Ok(durable.await?) }
    }

    pub(super) fn close(&self) -> Result<()> {
        Ok(self.core.storage.close()?)
    }
}

/// Shows the name, and none of what the namespace holds.
impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Namespace")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl Core {
    pub(super) fn hot_records(&self, most: usize) -> Vec<HotRecord> {
        let key_of = |digest: &Digest| {
            let key = self.storage.get(digest, |entry| {
                entry
                    .key()
                    .and_then(|stored| Key::from_stored(stored).ok().map(Key::into_owned))
            });
            key.ok().flatten().flatten()
        };
        let hot = self.storage.hot_keys(most).into_iter();
        hot.map(|hot| HotRecord {
            digest: hot.digest,
            key: key_of(&hot.digest),
            waits: hot.waits,
            busy: hot.busy,
        })
        .collect()
    }

    pub(super) fn truncate(&self, what: Truncate, before: Option<SystemTime>) -> Result<u64> {
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
        Ok(self.storage.truncate(what, before_ms)?)
    }

    /// Lends the live records of a partition that pass a filter, of one set or of all, to `read`.
    pub(super) fn scan_partition<B>(
        &self,
        partition: usize,
        set_id: Option<u16>,
        filter: Option<&Expression>,
        read: &mut impl FnMut(Result<ScannedRecord<'_>>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let now_ms = self.clock.now_ms();
        let is_wanted = |id| set_id.is_none_or(|wanted| wanted == id);
        self.storage.scan_sets(partition, is_wanted, |entry| {
            let entry = match entry {
                Ok(entry) if expired(&entry, now_ms) => return ControlFlow::Continue(()),
                Ok(entry) => entry,
                Err(error) => return read(Err(error.into())),
            };
            let record = self
                .check_filter(filter, &entry, "", now_ms)
                .and_then(|()| scanned(&entry));
            match record {
                Err(Error::FilteredOut { .. }) => ControlFlow::Continue(()),
                record => read(record),
            }
        })
    }

    /// The digests of the live records of a partition whose sets are wanted, in order. Damage is reported to `damaged`.
    #[cfg(any(feature = "backup", feature = "server"))]
    pub(super) fn digests_in(
        &self,
        partition: usize,
        is_wanted: impl Fn(u16) -> bool,
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
        digests.sort_unstable();
        digests
    }

    /// Puts the policy's limit into a storage error that does not know it.
    pub(super) fn refused(&self, error: spikelet_storage::Error, policy: &WritePolicy) -> Error {
        match error {
            spikelet_storage::Error::Timeout => Error::Timeout {
                after: policy.total_timeout.unwrap_or_default(),
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
            other => other.into(),
        }
    }
}

fn scanned<'a>(entry: &spikelet_storage::EntryView<'a>) -> Result<ScannedRecord<'a>> {
    Ok(ScannedRecord {
        digest: entry.digest(),
        stored_key: entry.key(),
        set_id: entry.set_id(),
        metadata: metadata_of(entry),
        stored_bytes: entry.stored_bytes(),
        view: RecordView::parse(entry.payload())?,
    })
}

pub(super) fn metadata_of(entry: &spikelet_storage::EntryView<'_>) -> Metadata {
    Metadata {
        generation: entry.generation(),
        void_time: entry.void_time(),
        last_update_ms: entry.last_update_ms(),
    }
}

/// A record of its own, from what is lent.
pub(super) fn record_of(entry: &spikelet_storage::EntryView<'_>) -> Result<Record> {
    Record::new(metadata_of(entry), entry.key(), entry.payload())
}
