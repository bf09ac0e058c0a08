//! A set: where records are read and written by key.

mod access;
mod batch;
mod bulk;
mod result;
mod write;

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use spikelet_storage::{Clock, Digest, EntryView, Truncate};

use crate::expression::Expression;
use crate::record::{BinName, Key, Metadata, OwnedBins, Record, RecordView, check_set_name};
use crate::value::ParticleType;
use crate::{Error, Result};

use super::activity::OperationKind;
use super::core::{
    HotRecord, NamespaceCore, ScannedRecord, expired, metadata_of, record_of, record_with_bins,
};
use super::indexes::IndexBuild;
use super::query::Query;
use super::transition_log::TransitionReport;
use crate::index::IndexDefinition;
pub(super) use access::RecordAccess;
pub use batch::RecordCall;
pub use bulk::BulkProgress;
pub use result::{OperateResult, UnshardedRead};
pub(super) use write::{bins_to_put, name_bins, one_each};

/// No number is known yet.
const UNKNOWN: u16 = u16::MAX;

pub(super) struct SetCore {
    pub(super) namespace: Arc<NamespaceCore>,
    pub(super) name: Box<str>,
    id: AtomicU16,
}

impl SetCore {
    /// The number of the set, for a write: made if need be.
    pub(super) fn id_to_write(&self) -> Result<u16> {
        let known = self.id.load(Ordering::Relaxed);
        if known != UNKNOWN {
            return Ok(known);
        }
        let id = self.namespace.storage.create_set(&self.name)?;
        self.id.store(id, Ordering::Relaxed);
        Ok(id)
    }

    pub(super) fn id(&self) -> Option<u16> {
        let known = self.id.load(Ordering::Relaxed);
        if known != UNKNOWN {
            Some(known)
        } else {
            self.find_id()
        }
    }

    #[cold]
    fn find_id(&self) -> Option<u16> {
        let found = self.namespace.storage.set_id(&self.name)?;
        // Sets are never removed, and the next look takes no lock.
        self.id.store(found, Ordering::Relaxed);
        Some(found)
    }
}

/// A set of records in a namespace. Cheap to clone; all clones are the same set.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// let store = spikelet::Store::in_memory()?;
/// let users = store.set("users")?;
/// users.put("alice", [("age", 42.into()), ("city", spikelet::Value::from("Graz"))])?;
/// users.add("alice", [("age", 1)])?;
/// let alice = users.get("alice")?.expect("was put");
/// assert_eq!(alice.get("age"), Some(43.into()));
/// assert_eq!(alice.generation(), 2);
/// assert!(users.delete("alice")?.is_some());
/// # Ok(())
/// # }
/// ```
///
/// Names: a call ending in `_with` takes a policy, and the one without has the default policy;
/// `_bins` names the bins that are wanted, `_as` converts from or to a struct, `_batch` takes many
/// keys. [`Set::read`] and [`Set::read_batch`] lend records to a closure where the others return
/// them.
#[derive(Clone)]
pub struct Set {
    pub(super) core: Arc<SetCore>,
    pub(super) filter: Option<Expression>,
    /// Whether scans, queries of all records and counts show companions.
    companions: bool,
}

/// Shows the names of namespace and set, and the filter.
impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Set")
            .field("namespace", &self.core.namespace.storage.name())
            .field("name", &self.core.name)
            .field("filter", &self.filter)
            .finish()
    }
}

impl Set {
    pub(super) fn new(namespace: &Arc<NamespaceCore>, name: &str) -> Result<Self> {
        check_set_name(name).map_err(Error::parameter)?;
        let id = AtomicU16::new(namespace.storage.set_id(name).unwrap_or(UNKNOWN));
        Ok(Self {
            core: Arc::new(SetCore {
                namespace: Arc::clone(namespace),
                name: name.into(),
                id,
            }),
            filter: None,
            companions: false,
        })
    }

    /// The name; empty for "no set".
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// Returns the set seen through a filter: reads, writes and deletes through this handle are for
    /// records for which the expression holds, and answer [`Error::FilteredOut`] for others; a scan
    /// passes over those. A record that does not exist is not asked, so a write may create one. A
    /// policy with a filter of its own takes precedence.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::expressions::{ge, int_bin, int_val};
    /// let users = spikelet::Store::in_memory()?.set("users")?;
    /// users.put("alice", [("age", 42)])?;
    /// let adults = users.filtered(ge(int_bin("age"), int_val(18)))?;
    /// assert!(adults.get("alice")?.is_some());
    /// users.put("alice", [("age", 12)])?;
    /// assert_eq!(adults.get("alice").unwrap_err().result_code(), 27);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Parameter`] if the expression is malformed, or no truth value.
    pub fn filtered(&self, filter: Expression) -> Result<Self> {
        filter.filter()?;
        Ok(Self {
            filter: Some(filter),
            ..self.clone()
        })
    }

    /// Returns the set with the records that hold shards of its collections: [`Set::scan`],
    /// [`Set::query_all`] and [`Set::len`] show them, too, as a wire client sees them.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// let store = spikelet::Store::in_memory()?;
    /// let followers = spikelet::ShardedList::new(&store, "users", "alice", "followers")?;
    /// followers.add("bob")?;
    /// followers.shards().activate(4)?;
    /// let users = store.set("users")?;
    /// assert_eq!((users.len(), users.with_companions().len()), (1, 5));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn with_companions(&self) -> Self {
        Self {
            companions: true,
            ..self.clone()
        }
    }

    /// The digest of a key in this set.
    #[must_use]
    pub fn digest<'k>(&self, key: impl Into<Key<'k>>) -> Digest {
        self.digest_of(&key.into())
    }

    /// Where the record comes in the order in which groups lock records: that of the digests, as
    /// far as their first bytes say it.
    pub(crate) fn lock_position(&self, key: &Key<'_>) -> u64 {
        let digest = self.digest_of(key);
        let front = digest.as_bytes().first_chunk();
        front.map_or(0, |front| u64::from_be_bytes(*front))
    }

    pub(super) fn digest_of(&self, key: &Key<'_>) -> Digest {
        self.core.namespace.key_hash.digest(&self.core.name, key)
    }

    /// A record with all its bins; `None` if there is none. One allocation; bins are decoded when
    /// they are asked for.
    ///
    /// # Errors
    /// [`Error::KeyMismatch`], or [`Error::Storage`] for a record that is damaged on the device.
    pub fn get<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Record>> {
        self.read_entry(&key.into(), |entry| record_of(&entry))
    }

    /// A record with the wanted bins that it has.
    ///
    /// # Errors
    /// As for [`Set::get`].
    pub fn get_bins<'k>(&self, key: impl Into<Key<'k>>, bins: &[&str]) -> Result<Option<Record>> {
        self.read_entry(&key.into(), |entry| record_with_bins(&entry, bins))
    }

    /// Generation and times of a record, without its bins.
    ///
    /// # Errors
    /// As for [`Set::get`].
    pub fn get_header<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Metadata>> {
        self.read_entry(&key.into(), |entry| Ok(metadata_of(&entry)))
    }

    /// Whether there is a record.
    ///
    /// # Errors
    /// As for [`Set::get`].
    pub fn exists<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool> {
        Ok(self.get_header(key)?.is_some())
    }

    /// Lends a record to `read`, without a copy and without a lock. Keep `read` short: space cannot
    /// be used again while it runs.
    ///
    /// # Errors
    /// As for [`Set::get`].
    pub fn read<'k, R>(
        &self,
        key: impl Into<Key<'k>>,
        read: impl FnOnce(RecordView<'_>) -> R,
    ) -> Result<Option<R>> {
        self.read_entry(&key.into(), |entry| {
            Ok(read(RecordView::parse(entry.payload())?))
        })
    }

    /// A record as a struct with the bins as fields.
    ///
    /// # Errors
    /// As for [`Set::get`], and [`Error::Serde`] if the bins do not fit the type.
    pub fn get_as<'k, T: DeserializeOwned>(&self, key: impl Into<Key<'k>>) -> Result<Option<T>> {
        self.read_entry(&key.into(), |entry| {
            RecordView::parse(entry.payload())?.decode()
        })
    }

    fn read_entry<R>(
        &self,
        key: &Key<'_>,
        read: impl FnOnce(EntryView<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        self.core.namespace.activity.track(OperationKind::Read, || {
            self.read_at(self.filter.as_ref(), key, &self.digest_of(key), read)
        })
    }

    /// The error with the record that it is about.
    pub(super) fn about(&self, key: &Key<'_>, error: Error) -> Error {
        error.about(&self.core.name, key)
    }

    /// Refuses a record of another set, which a wire client may have stored under this digest.
    #[cold]
    fn check_set(&self, entry: &EntryView<'_>) -> Result<()> {
        self.core.namespace.check_set(&self.core.name, None, entry)
    }

    /// A stored record as a read at this time may see it: not at all once it has expired.
    #[inline(always)]
    pub(super) fn checked<'a>(
        &self,
        filter: Option<&Expression>,
        key: &Key<'_>,
        entry: EntryView<'a>,
        now_ms: impl Fn() -> u64,
    ) -> Result<Option<EntryView<'a>>> {
        let namespace = &self.core.namespace;
        if self.core.id() != Some(entry.set_id()) {
            self.check_set(&entry)?;
        }
        // The clock is asked only for records that can expire, and for filters.
        if entry.void_time() != 0 && expired(&entry, now_ms()) {
            return Ok(None);
        }
        if filter.is_some() {
            namespace.check_filter(filter, &entry, &self.core.name, now_ms())?;
        }
        if entry.key().is_some_and(|stored| !key.is_stored_as(stored)) {
            return Err(Error::key_mismatch());
        }
        Ok(Some(entry))
    }

    /// Declares a secondary index of the set and fills it from the records that there are, while
    /// others read and write. Once more with the same definition is no error, and waits where
    /// another call is filling it. The declaration is kept with the store, and the index is filled
    /// anew at each opening.
    ///
    /// Costs a look at every record of the namespace, under its lock; [`Set::build_index`] does not
    /// wait for it.
    ///
    /// # Errors
    /// [`Error::IndexExists`] for a name that is taken, [`Error::Parameter`] for a definition that
    /// cannot be or a record with a key that is too long, [`Error::NotUnique`],
    /// [`Error::IndexMemory`], [`Error::TooManyIndexes`]; [`Error::Forbidden`] within a closure
    /// that reads or writes a record. There is no such index then.
    pub fn create_index(&self, definition: IndexDefinition) -> Result<()> {
        let core = &self.core;
        core.namespace.create_index(Some(&core.name), definition)
    }

    /// Declares a secondary index of the set and begins to fill it, in a thread of its own. Where
    /// another call is filling it, the result waits for that one, and does not cancel it.
    ///
    /// # Errors
    /// As for [`Set::create_index`]; [`IndexBuild::wait`] returns errors of the filling.
    pub fn build_index(&self, definition: IndexDefinition) -> Result<IndexBuild> {
        self.core
            .namespace
            .build_index(Some(&self.core.name), definition)
    }

    /// Forgets a secondary index of the set, or of the namespace, and frees its memory once the
    /// queries that use it have ended.
    ///
    /// # Errors
    /// [`Error::IndexNotFound`], also for an index of another set.
    pub fn drop_index(&self, name: &str) -> Result<()> {
        self.core.namespace.drop_index(name, Some(self.name()))
    }

    /// Begins a query by a secondary index of the set, or of the namespace; of the set's records
    /// only. The set's filter holds, too.
    ///
    /// # Errors
    /// [`Error::IndexNotFound`], and [`Error::IndexBuilding`] while it is not complete.
    pub fn query(&self, index: &str) -> Result<Query> {
        let set = Some((self.name(), self.core.id()));
        let filter = self.filter.as_ref();
        Query::by_index(&self.core.namespace, index, set, filter)
    }

    /// Begins a query over all records of the set, in the order of their digests: a scan that can
    /// be stopped, filtered, and gone on with. Visits the index of the whole namespace. Records
    /// that hold shards are passed over: [`Set::with_companions`].
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// let users = spikelet::Store::in_memory()?.set("users")?;
    /// for id in 0..10 {
    ///     users.put(id, [("visits", id)])?;
    /// }
    /// let mut query = users.query_all().limit(4);
    /// let mut pages = Vec::new();
    /// loop {
    ///     let page = query.keys()?;
    ///     pages.push(page.len());
    ///     match page.cursor() {
    ///         Some(cursor) => query = query.after(cursor),
    ///         None => break,
    ///     }
    /// }
    /// assert_eq!(pages, [4, 4, 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn query_all(&self) -> Query {
        let filter = self.filter.as_ref();
        let set = Some((self.name(), self.core.id()));
        let query = Query::over_all(&self.core.namespace, set, filter);
        if self.companions {
            query.with_companions()
        } else {
            query
        }
    }

    /// How hard writers have fought over this record of late; `None` if it is not among the most
    /// contended records of the namespace.
    #[must_use]
    pub fn hot_record<'k>(&self, key: impl Into<Key<'k>>) -> Option<HotRecord> {
        let digest = self.digest(key);
        let hot = self.core.namespace.hot_records(usize::MAX);
        hot.into_iter().find(|hot| hot.digest == digest)
    }

    /// Refuses to remove a bin as a whole that belongs to a relation now, or to make a collection
    /// of another `kind` of it: one that is declared during the call does not stop it.
    ///
    /// # Errors
    /// [`Error::OwnedBin`].
    pub(crate) fn check_owned(&self, bin: &str, kind: Option<ParticleType>) -> Result<()> {
        let name = BinName::new(bin)?;
        let table = self.core.namespace.relations.table.read();
        let rules = table.by_name.get(self.name());
        rules.map_or(Ok(()), |rules| {
            OwnedBins::new(&rules.owned).check_kind(&name, kind)
        })
    }

    /// Refuses where the store refuses every delete.
    pub(crate) fn check_takes_deletes(&self) -> Result<()> {
        Ok(self.core.namespace.storage.check_deletes()?)
    }

    /// How many roots of sharded collections have lost the description of their shards since the
    /// store was opened.
    pub(crate) fn lost_root_count(&self) -> u64 {
        self.core.namespace.lost_roots.load(Ordering::Acquire)
    }

    /// Remembers how far a transition of a collection of this set has come.
    pub(crate) fn note_transition(&self, report: &TransitionReport<'_>) {
        let core = &self.core.namespace;
        let now_ms = core.clock.now_ms();
        core.transitions.note(&self.core.name, report, now_ms);
    }

    /// The largest size of one record, in bytes.
    pub(crate) fn record_bytes_max(&self) -> u64 {
        self.core.namespace.max_record_bytes
    }

    /// The store's clock.
    pub(crate) fn clock(&self) -> &dyn Clock {
        self.core.namespace.clock.as_ref()
    }

    /// How many records the set has, without its filter. Expired ones count until the expiry pass
    /// has met them. Records that hold shards of collections do not ([`Set::with_companions`]): in
    /// a set that has them, and only there, this reads all records.
    #[must_use]
    pub fn len(&self) -> u64 {
        let Some(id) = self.core.id() else {
            return 0;
        };
        let hidden = if self.companions {
            0
        } else {
            self.core.namespace.count_companions(id)
        };
        let (stored, _) = self.core.namespace.storage.set_usage(id);
        stored.saturating_sub(hidden)
    }

    /// Whether the set has no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all records of the set, or with `before` those last updated before that time.
    /// Returns how many; they and their counts are gone when the call returns, and never come back.
    /// Records written after the call stay, at any time of the clock.
    ///
    /// Where `before` takes a sharded collection, writes of the namespace wait while its records are
    /// looked at once more.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a time in the future, or before 2010; [`Error::ShardRoot`] for a
    /// time between the last updates of the records of one sharded collection.
    pub fn truncate(&self, before: Option<SystemTime>) -> Result<u64> {
        if self.filter.is_some() {
            return Err(Error::parameter(
                "a set seen through a filter cannot be truncated, since a truncation asks no record: use the set itself",
            ));
        }
        match self.core.id() {
            Some(0) => Err(Error::parameter(
                "records without a set are truncated with their namespace only",
            )),
            Some(id) => self.core.namespace.truncate(Truncate::Set(id), before),
            None => Ok(0),
        }
    }

    /// Lends every live record of the set to `read`, in no particular order, until `read` breaks
    /// off; returns what it breaks off with. Visits the index of the whole namespace. Damaged
    /// records of the set come as errors in their places, see
    /// [`Namespace::scan`](crate::Namespace::scan). Records that hold shards are passed over:
    /// [`Set::with_companions`].
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// # fn main() -> spikelet::Result<()> {
    /// let users = spikelet::Store::in_memory()?.set("users")?;
    /// users.put("alice", [("age", 42)])?;
    /// users.put("bob", [("age", 12)])?;
    /// // Ends at the first record that is damaged.
    /// let mut generations = 0;
    /// let ended = users.scan(|record| match record {
    ///     Ok(record) => {
    ///         generations += record.metadata.generation;
    ///         ControlFlow::Continue(())
    ///     }
    ///     Err(error) => ControlFlow::Break(error),
    /// });
    /// assert!(ended.is_continue());
    /// assert_eq!(generations, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn scan<B>(
        &self,
        mut read: impl FnMut(Result<ScannedRecord<'_>>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let Some(id) = self.core.id() else {
            return ControlFlow::Continue(());
        };
        let (filter, companions) = (self.filter.as_ref(), self.companions);
        let set = Some((id, self.core.name.as_ref()));
        let namespace = &self.core.namespace;
        namespace.scan(set, filter, companions, &mut read)
    }
}
