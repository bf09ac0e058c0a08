//! An open namespace.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::SystemTime;

#[cfg(any(feature = "monitor", feature = "server", feature = "backup"))]
use spikelet_storage::Digest;
use spikelet_storage::{Attempt, Lsn, MaintenanceReport, Opening, SetUsage, Truncate};

use crate::index::{IndexComponent, IndexDefinition};
use crate::record::KeyHash;
use crate::{Error, Result};

use super::activity::NamespaceStats;
use super::changes::Changes;
use super::config::NamespaceConfig;
#[cfg(feature = "monitor")]
use super::core::scanned;
use super::core::{HotRecord, NamespaceCore, ScannedRecord};
use super::indexes::{Index, IndexBuild, IndexStats};
use super::query::Query;
use super::set::Set;
use super::transition_log::RecentTransition;

/// A namespace: records in sets. Cheap to clone; all clones are the same namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    pub(super) core: Arc<NamespaceCore>,
}

impl Namespace {
    pub(super) fn open(
        config: &NamespaceConfig,
        options: spikelet_storage::Options,
        read_only: bool,
    ) -> Result<Self> {
        Ok(Self {
            core: Arc::new(NamespaceCore::open(config, options, read_only)?),
        })
    }

    /// Returns the name of the namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        self.core.storage.name()
    }

    /// A set of this namespace; the empty name is "no set". It comes to be with the first write,
    /// which writes the list of all sets anew: up to 512 KiB.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name that is too long (63 bytes) or holds a NUL byte.
    pub fn set(&self, name: &str) -> Result<Set> {
        Set::new(&self.core, name)
    }

    /// The report of the opening.
    #[must_use]
    pub fn opening(&self) -> &Opening {
        &self.core.opening
    }

    /// How keys become digests.
    #[must_use]
    pub fn key_hash(&self) -> KeyHash {
        self.core.key_hash
    }

    /// A look at the counters. Costs a visit of every block's state and some 2,000 counters, not of
    /// records.
    #[must_use]
    pub fn stats(&self) -> NamespaceStats {
        self.core.activity.stats(self.core.storage.stats())
    }

    /// Counts an operation of a wire client that has ended: a query, a batch.
    #[cfg(feature = "server")]
    pub(crate) fn note_operation(&self, kind: super::OperationKind, began: std::time::Instant) {
        self.core.activity.begin(kind);
        self.core.activity.end(kind, Some(began), None);
    }

    /// The usage of each set, "no set" first. Exact while there are no writes.
    #[must_use]
    pub fn sets(&self) -> Vec<SetUsage> {
        self.core.storage.sets()
    }

    /// The records that writers fight over, the most contended first. Always on; costs nothing
    /// without waits.
    #[must_use]
    pub fn hot_records(&self, most: usize) -> Vec<HotRecord> {
        self.core.hot_records(most)
    }

    /// Declares a secondary index of the records of all sets, and fills it: as
    /// [`Set::create_index`].
    ///
    /// # Errors
    /// As for [`Set::create_index`].
    pub fn create_index(&self, definition: IndexDefinition) -> Result<()> {
        self.core.create_index(None, definition)
    }

    /// Declares a secondary index of the records of all sets, and begins to fill it: as
    /// [`Set::build_index`].
    ///
    /// # Errors
    /// As for [`Set::create_index`].
    pub fn build_index(&self, definition: IndexDefinition) -> Result<IndexBuild> {
        self.core.build_index(None, definition)
    }

    /// Forgets a secondary index, of whichever set: as [`Set::drop_index`].
    ///
    /// # Errors
    /// [`Error::IndexNotFound`](crate::Error::IndexNotFound).
    pub fn drop_index(&self, name: &str) -> Result<()> {
        self.core.drop_index(name, None)
    }

    /// What the secondary indexes hold and have cost, in the order in which they were declared.
    #[must_use]
    pub fn indexes(&self) -> Vec<IndexStats> {
        self.core.indexes.stats()
    }

    /// The definition of a secondary index, and the name of its set; `None` for the set: it is of
    /// all sets.
    #[must_use]
    pub fn index_definition(&self, name: &str) -> Option<(Option<Box<str>>, IndexDefinition)> {
        let index = self.core.indexes.by_name(name)?;
        Some((index.set.clone(), index.definition()))
    }

    /// Refuses an index of this name that is another set's, or lacks records that it would have by
    /// this definition.
    ///
    /// # Errors
    /// [`Error::IndexNotFound`], also where there is none.
    pub(crate) fn check_index(&self, set: &str, wanted: &IndexDefinition) -> Result<()> {
        let is_wanted = |index: &Index| {
            index.set.as_deref().is_none_or(|of| of == set) && index.definition.has_all_of(wanted)
        };
        match self.core.indexes.by_name(wanted.name()) {
            Some(index) if is_wanted(&index) => Ok(()),
            _ => Err(Error::IndexNotFound(wanted.name().into())),
        }
    }

    /// The name of an index over this component of a set's records, and no other.
    pub(crate) fn index_over(&self, set: &str, component: &IndexComponent) -> Option<Arc<str>> {
        let all = self.core.indexes.all();
        let found = all.iter().find(|index| {
            index.set.as_deref() == Some(set)
                && index.definition.components() == std::slice::from_ref(component)
        });
        found.map(|index| index.name())
    }

    /// Begins a query by a secondary index, over the records of all sets that are in it.
    ///
    /// # Errors
    /// As for [`Set::query`].
    pub fn query(&self, index: &str) -> Result<Query> {
        Query::by_index(&self.core, index, None, None)
    }

    /// Begins a query over all records of all sets: as [`Set::query_all`].
    /// [`Query::with_companions`] shows records that hold shards, too.
    pub fn query_all(&self) -> Query {
        Query::over_all(&self.core, None, None)
    }

    /// The changes of the namespace: which sets keep them, and who follows them.
    #[must_use]
    pub fn changes(&self) -> Changes {
        Changes::new(&self.core)
    }

    /// The latest transitions of sharded collections that handles of this process have carried on,
    /// the latest first: at most
    /// 64. Always on; costs nothing where no transition is under way.
    #[must_use]
    pub fn recent_transitions(&self) -> Vec<RecentTransition> {
        self.core.transitions.latest()
    }

    /// Removes all records, or with `before` those last updated before that time. Returns how many;
    /// they and their counts are gone when the call returns, and never come back. Records written
    /// after the call stay, at any time of the clock. With `before`, the declarations of relations
    /// stay.
    ///
    /// Where `before` takes a sharded collection, writes of the namespace wait while its records are
    /// looked at once more.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a time in the future, or before 2010; [`Error::ShardRoot`] for a
    /// time between the last updates of the records of one sharded collection. With `before`, a
    /// namespace without room for writes truncates its largest sets first, one by one, until the
    /// declarations of relations can be renewed: an error then, such as [`Error::StopWrites`], or
    /// the end of the process, comes after the records of these sets are gone. Repeat the call.
    pub fn truncate(&self, before: Option<SystemTime>) -> Result<u64> {
        self.core.truncate(Truncate::Namespace, before)
    }

    /// Lends every live record of the namespace to `read`, in no particular order, until `read`
    /// breaks off; returns what it breaks off with. Records written meanwhile may or may not be
    /// among them. O(records). Shows everything that is stored, records that hold shards of
    /// collections, too.
    ///
    /// A record that is damaged on the device comes as an error ([`Error::is_damage`]) in its
    /// place, and the scan goes on with the others unless `read` ends it.
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
        self.core.scan(None, None, true, &mut read)
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
    /// [`Error::Storage`] if a sync fails, now or earlier. [`Error::StopWrites`] if it finds the
    /// disk full; the next one tries again.
    pub fn sync(&self) -> Result<()> {
        let synced = self.core.storage.sync();
        synced.map_err(|error| self.core.not_written(error))
    }

    /// Returns the number of the latest write: once it is durable, so is every write that has
    /// returned before this call.
    #[must_use]
    pub fn last_lsn(&self) -> Lsn {
        self.core.storage.last_lsn()
    }

    /// Returns the number up to which every write is on stable storage.
    #[must_use]
    pub fn durable_lsn(&self) -> Lsn {
        self.core.storage.durable_lsn()
    }

    /// Blocks until the write with this number, and all before it, are on stable storage, under any
    /// [`Durability`](crate::Durability). Returns at once if they are. Callers that wait at the
    /// same time share one sync.
    ///
    /// # Errors
    /// [`Error::Storage`] if a sync failed before they were, now or earlier ([`Error::in_doubt`]:
    /// the write is applied, and whether it is durable is unknown), or for a number that no write
    /// of this namespace can have returned.
    pub fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        Ok(self.core.storage.wait_durable(lsn)?)
    }

    /// Returns a future that completes when the write with this number, and all before it, are on
    /// stable storage. Needs no particular runtime; nothing happens before it is polled, and
    /// dropping it takes back what it asked for.
    ///
    /// A background thread syncs for all futures that wait, and wakes them: tasks share syncs as
    /// threads do. Where there is none (`NamespaceConfig::background` is false, or the store is
    /// closed), the poll itself syncs, and blocks meanwhile.
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
    /// As for [`Namespace::wait_durable`].
    pub fn durable(&self, lsn: Lsn) -> impl Future<Output = Result<()>> + Send + use<> {
        let durable = self.core.storage.durable(lsn);
        async move { Ok(durable.await?) }
    }

    /// Begins a write of a task in a thread that must not wait: neither for the record, nor for
    /// space, nor for a sync. Where the write would wait, it fails at once, nothing is changed, and
    /// the task waits instead.
    ///
    /// The limit of time in the write's policy has no effect: end the task's patience with
    /// [`Attempt::end_patience`], or drop the attempt. It costs one allocation; a write that need
    /// not wait takes no longer than without.
    ///
    /// ```
    /// # use spikelet::{Result, Store};
    /// async fn count(store: &Store, page: &str) -> Result<()> {
    ///     let (namespace, set) = (store.namespace("test")?, store.set("visits")?);
    ///     let mut attempt = namespace.attempt();
    ///     loop {
    ///         let counted = attempt.run(|| set.add(page, [("count", 1)]));
    ///         if !attempt.must_wait() {
    ///             counted?;
    ///             break;
    ///         }
    ///         attempt.ready().await;
    ///     }
    ///     match attempt.take_unsynced() {
    ///         Some(lsn) => namespace.durable(lsn).await,
    ///         None => Ok(()),
    ///     }
    /// }
    /// # fn main() -> Result<()> {
    /// # let store = Store::in_memory()?;
    /// # let mut counted = std::pin::pin!(count(&store, "home"));
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # while let std::task::Poll::Pending = counted.as_mut().poll(&mut context) {}
    /// # Ok(())
    /// # }
    /// ```
    pub fn attempt(&self) -> Attempt {
        self.core.storage.attempt()
    }

    /// Lends a record to `read` by its digest, with the name of its set. `None`: there is none, or
    /// it cannot be read.
    #[cfg(feature = "monitor")]
    pub(crate) fn look_at<R>(
        &self,
        digest: &Digest,
        read: impl FnOnce(String, ScannedRecord<'_>) -> R,
    ) -> Option<R> {
        let core = &self.core;
        let found = core.read_live(digest, |entry| {
            let set = core.storage.set_name(entry.set_id()).unwrap_or_default();
            scanned(entry).ok().map(|record| read(set, record))
        });
        found.ok().flatten().flatten()
    }

    /// The digests of a partition's live records of some sets (`None`: of all) that come after a
    /// digest, in order. Records that are damaged are reported to `damaged`.
    #[cfg(any(feature = "server", feature = "backup"))]
    pub(crate) fn digests_in(
        &self,
        partition: usize,
        sets: Option<&[u16]>,
        after: Option<&Digest>,
        damaged: impl FnMut(Error),
    ) -> Vec<Digest> {
        let is_wanted = |id| sets.is_none_or(|sets| sets.contains(&id));
        self.core.digests_in(partition, is_wanted, after, damaged)
    }

    pub(super) fn close(&self) -> Result<()> {
        Ok(self.core.storage.close()?)
    }
}
