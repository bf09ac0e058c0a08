//! Records by digest, for a caller without a user key: the wire server.
//!
//! The checks come in Aerospike's order (semantics.md#order-of-checks), and the first that fails
//! decides. A refusal carries the record's header, since answers have generation and expiry of a
//! record even then.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use spikelet_storage::{Attempt, Change, Digest, EntryView, Lsn, NewVersion};

use crate::expression::{Expression, RecordFacts};
use crate::operation::{Checked, ResultSink};
use crate::record::{Metadata, RecordView};
use crate::{Error, Result};

use super::activity::OperationKind;
use super::core::{NamespaceCore, expired, metadata_of};
use super::indexes::{Index, IndexBuild};
use super::namespace::Namespace;
use super::policy::{Expiration, ShardAccess, WritePolicy};
use super::refusals::check_key;
use super::scratch::Scratch;
use super::write::{EditOutcome, WriteEdit, WriteOutcome, WriteRefusal, WriteTarget};
use crate::index::IndexDefinition;

/// A record as a wire client names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DigestAddress<'a> {
    pub(crate) digest: Digest,
    /// Empty: none is named.
    pub(crate) set: &'a str,
    /// The user key in its stored form, if the client sends it.
    pub(crate) key: Option<&'a [u8]>,
    /// Asked about a record that exists.
    pub(crate) filter: Option<&'a Expression>,
}

impl<'a> DigestAddress<'a> {
    pub(super) const fn target(&self, set_id: Option<u16>) -> WriteTarget<'a> {
        WriteTarget {
            digest: self.digest,
            set_name: self.set,
            set_id,
            key: self.key,
            store_key: true,
            filter: self.filter,
            // As in Aerospike, which knows nothing of shards.
            shards: ShardAccess::Remote,
            yields: true,
        }
    }
}

/// A record that was found, read in place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RemoteRecord<'a> {
    entry: EntryView<'a>,
}

impl<'a> RemoteRecord<'a> {
    pub(super) const fn new(entry: EntryView<'a>) -> Self {
        Self { entry }
    }

    /// The user key in its stored form, if it is stored.
    pub(crate) fn key(&self) -> Option<&'a [u8]> {
        self.entry.key()
    }

    /// The number of its set; 0: none.
    pub(crate) fn set_id(&self) -> u16 {
        self.entry.set_id()
    }

    /// Its generation and times.
    pub(crate) fn metadata(&self) -> Metadata {
        metadata_of(&self.entry)
    }

    /// Its bins.
    pub(crate) fn view(&self) -> Result<RecordView<'a>> {
        RecordView::parse(self.entry.payload())
    }
}

/// When a read gives the record more time to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadTouch {
    Never,
    /// When no more than this percentage (1 to 100) of its time to live is left.
    Percent(u32),
    /// Of an invalid number: refused if the record can expire.
    Illegal,
}

impl Namespace {
    /// The number of a set that is named in a request: 0 for none, `None` if there is no such set.
    pub(crate) fn set_number(&self, name: &str) -> Option<u16> {
        if name.is_empty() {
            return Some(0);
        }
        self.core.storage.set_id(name)
    }

    /// Refuses a record of another set than the address names.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub(crate) fn check_set(
        &self,
        address: &DigestAddress<'_>,
        record: &RemoteRecord<'_>,
    ) -> Result<()> {
        self.core.check_set(address.set, None, &record.entry)
    }

    /// The name of a set.
    pub(crate) fn set_name_of(&self, id: u16) -> Option<String> {
        self.core.storage.set_name(id)
    }

    /// Whether a truncation behind this point of the log has removed a record of a set that was
    /// last updated then.
    pub(crate) fn is_truncated(&self, set: &str, lsn: Lsn, last_update_ms: u64) -> bool {
        let set_id = self.set_number(set).unwrap_or_default();
        self.core.storage.is_truncated(set_id, lsn, last_update_ms)
    }

    /// The options of the storage.
    pub(crate) fn options(&self) -> &spikelet_storage::Options {
        self.core.storage.options()
    }

    /// The time to live, in seconds, of records when the writer leaves it to the namespace; 0: no
    /// end. The next write takes the value stored here.
    pub(crate) fn default_ttl(&self) -> &AtomicU64 {
        &self.core.default_ttl
    }

    /// Has the memory fetched that requests for these digests will touch.
    pub(crate) fn prefetch_batch(&self, digests: &[Digest]) {
        self.core.storage.prefetch_batch(digests);
    }

    /// Queues an attempt of this namespace for a record.
    ///
    /// # Errors
    /// [`Error::KeyBusy`] if too many writers queue already.
    pub(crate) fn queue(&self, attempt: &mut Attempt, digest: &Digest) -> Result<()> {
        let queued = attempt.queue(digest).map_err(Error::from);
        queued.inspect_err(|error| self.core.activity.failed(error))
    }

    /// Returns the users and roles that are kept with the namespace; `None` if there are none.
    ///
    /// # Errors
    /// [`Error::Serde`](crate::Error::Serde) if they were written in another form.
    pub(crate) fn kept_access<T: serde::de::DeserializeOwned>(&self) -> Result<Option<T>> {
        self.core.catalog.lock().access()
    }

    /// Keeps users and roles with the namespace, where no request about records reaches them and no
    /// truncation.
    ///
    /// # Errors
    /// As for a declaration of an index.
    pub(crate) fn keep_access(&self, access: &impl serde::Serialize) -> Result<()> {
        self.core
            .change_catalog(|catalog| catalog.declare(|catalog| catalog.set_access(access)))
    }

    /// Milliseconds since 2010.
    pub(crate) fn now_ms(&self) -> u64 {
        self.core.clock.now_ms()
    }

    /// The name of a record's set; `given` if that is it.
    pub(crate) fn set_name_or<'a>(&self, id: u16, given: &'a str) -> Cow<'a, str> {
        match (id, given) {
            (0, _) => Cow::Borrowed(""),
            (_, "") => Cow::Owned(self.set_name_of(id).unwrap_or_default()),
            (_, given) => Cow::Borrowed(given),
        }
    }

    /// What expressions see of a record besides its bins.
    pub(crate) fn facts<'a>(
        &self,
        record: &RemoteRecord<'a>,
        set_name: &'a str,
    ) -> RecordFacts<'a> {
        self.core.facts(&record.entry, set_name, self.now_ms())
    }

    /// Refuses a record for which a filter does not hold. `set_name` is the name of its set.
    pub(crate) fn check_filter(
        &self,
        filter: Option<&Expression>,
        record: &RemoteRecord<'_>,
        set_name: &str,
    ) -> Result<()> {
        self.core
            .check_filter(filter, &record.entry, set_name, self.now_ms())
    }

    /// Lends a record to `read`, without a copy. It must be short: space cannot be used again while
    /// it runs.
    ///
    /// # Errors
    /// [`Error::NotFound`], a set or key that is not the record's, and what `read` returns.
    pub(crate) fn read_at<R>(
        &self,
        address: &DigestAddress<'_>,
        touch: ReadTouch,
        read: impl FnOnce(&RemoteRecord<'_>) -> Result<R>,
    ) -> std::result::Result<R, WriteRefusal> {
        let core = &self.core;
        let mut touch_due = false;
        let read = |entry: EntryView<'_>| {
            let found = Some(metadata_of(&entry));
            core.check_set(address.set, self.set_number(address.set), &entry)
                .map_err(WriteRefusal::having_found(found))?;
            if entry.void_time() != 0 {
                let now_ms = core.clock.now_ms();
                if expired(&entry, now_ms) {
                    return Err(Error::not_found().into());
                }
                match touch {
                    ReadTouch::Never => {}
                    ReadTouch::Percent(percent) => {
                        touch_due = touched(&metadata_of(&entry), percent, now_ms).is_some();
                    }
                    ReadTouch::Illegal => {
                        let error = Error::parameter(
                            "a read-touch percentage is 1 to 100, 0 for the default, or -1 for never",
                        );
                        return Err(error).map_err(WriteRefusal::having_found(found));
                    }
                }
            }
            let record = RemoteRecord { entry };
            self.check_filter(address.filter, &record, address.set)
                .and_then(|()| check_key(address.key, entry.key()))
                .and_then(|()| read(&record))
                .map_err(WriteRefusal::having_found(found))
        };
        let result = self.core.activity.track(OperationKind::Read, || {
            let found = core.storage.get(&address.digest, read)?;
            found.unwrap_or(Err(Error::not_found().into()))
        });
        if let (true, true, ReadTouch::Percent(percent)) = (result.is_ok(), touch_due, touch) {
            // A touch that cannot be done now is done by a later read.
            let _ = core.touch_read(&address.digest, percent);
        }
        result
    }

    /// The number of the set of a record to write; the set is made if the write may create a
    /// record.
    pub(super) fn set_to_write(
        &self,
        set: &str,
        policy: &WritePolicy,
        operations: &Checked<'_>,
    ) -> Result<Option<u16>> {
        match self.set_number(set) {
            None if !operations.must_exist() && !policy.updates_only() => {
                Ok(Some(self.core.storage.create_set(set)?))
            }
            known => Ok(known),
        }
    }

    /// Executes operations that write.
    ///
    /// # Errors
    /// The refusals of the policy and of the operations, [`Error::KeyBusy`],
    /// [`Error::RecordTooBig`]. Nothing was changed then.
    pub(crate) fn write_at(
        &self,
        address: &DigestAddress<'_>,
        policy: &WritePolicy,
        operations: &Checked<'_>,
        results: &mut dyn ResultSink,
    ) -> std::result::Result<WriteOutcome, WriteRefusal> {
        let set_id = self.set_to_write(address.set, policy, operations)?;
        let target = address.target(set_id);
        self.core.activity.track(OperationKind::Write, || {
            let must_exist = operations.must_exist();
            let edit: &mut WriteEdit<'_> = &mut |old, facts, body| {
                EditOutcome::of_operations(operations, (old, facts), body, results)
            };
            if !operations.only_deletes() || !Attempt::has_begun(&address.digest) {
                let scratch = &mut Scratch::take();
                match self.core.write(scratch, &target, policy, must_exist, edit) {
                    Err(refused) if refused.has_edges() && operations.only_deletes() => {}
                    written => return written,
                }
            }
            self.delete_edges_at(address, policy)?;
            Ok(WriteOutcome::default())
        })
    }

    /// Deletes a record. Of the policy, generation and timeout count.
    ///
    /// # Errors
    /// [`Error::NotFound`], a set or key that is not the record's, [`Error::Generation`],
    /// [`Error::KeyBusy`].
    pub(crate) fn delete_at(
        &self,
        address: &DigestAddress<'_>,
        policy: &WritePolicy,
    ) -> std::result::Result<(), WriteRefusal> {
        let target = address.target(self.set_number(address.set));
        self.core.activity.track(OperationKind::Write, || {
            match self.core.delete(&target, policy) {
                Err(refused) if refused.has_edges() => Ok(self.delete_edges_at(address, policy)?),
                deleted => deleted.map(drop),
            }
        })
    }

    fn delete_edges_at(&self, address: &DigestAddress<'_>, policy: &WritePolicy) -> Result<()> {
        let mut policy = policy.clone();
        policy.access = ShardAccess::Remote;
        self.delete_edges_of(&address.digest, address.filter, &policy)
    }

    /// All secondary indexes, in the order in which they were declared.
    pub(crate) fn all_indexes(&self) -> Arc<Vec<Arc<Index>>> {
        self.core.indexes.all()
    }

    /// The secondary index of a name.
    pub(crate) fn index_by_name(&self, name: &str) -> Option<Arc<Index>> {
        self.core.indexes.by_name(name)
    }

    /// Declares a secondary index of a set, or of all sets, and begins to build it. One that is the
    /// same but for its name gets the name, as in Aerospike.
    ///
    /// # Errors
    /// As for [`Namespace::build_index`].
    pub(crate) fn declare_index(
        &self,
        set: Option<&str>,
        definition: IndexDefinition,
    ) -> Result<Option<IndexBuild>> {
        if self.core.rename_index(set, &definition)? {
            Ok(None)
        } else {
            // The handle of a build under way stays with the call that has begun it.
            let build = self.core.build_index(set, definition)?;
            Ok(Some(build).filter(|build| !build.is_of_another_call()))
        }
    }

    /// About how many entries a record has that has some in an index, from a sample.
    pub(crate) fn entries_per_record(&self, index: &Index) -> f64 {
        self.core.entries_per_record(index)
    }

    /// Lends a record that a scan has met to `read`; `None` if it is gone meanwhile, or in another
    /// set.
    ///
    /// # Errors
    /// [`Error::Storage`] if the record is damaged.
    pub(crate) fn read_scanned<R>(
        &self,
        digest: &Digest,
        set_id: Option<u16>,
        read: impl FnOnce(&RemoteRecord<'_>) -> R,
    ) -> Result<Option<R>> {
        let found = self.core.read_live(digest, |entry| {
            let wanted = set_id.is_none_or(|id| entry.set_id() == id);
            wanted.then(|| read(&RemoteRecord { entry: *entry }))
        })?;
        Ok(found.flatten())
    }
}

impl NamespaceCore {
    /// Gives a record its time to live again, if that is still due. Its generation stays.
    fn touch_read(&self, digest: &Digest, percent: u32) -> Result<()> {
        let Some(mut lock) = self.storage.try_lock(digest)? else {
            return Ok(());
        };
        let now_ms = self.clock.now_ms();
        let is_provisional = self.provisional_locks.owner(digest).is_some();
        let live = lock.entry()?.filter(|entry| !expired(entry, now_ms));
        let Some(entry) = live.filter(|_| !is_provisional) else {
            return Ok(());
        };
        let metadata = metadata_of(&entry);
        let Some(live) = touched(&metadata, percent, now_ms) else {
            return Ok(());
        };
        let void_time = Expiration::After(live).void_time(now_ms, 0, None)?;
        let (set_id, key) = (entry.set_id(), entry.key().map(<[u8]>::to_vec));
        let payload = entry.payload().to_vec();
        let change = Change::Put(NewVersion {
            generation: metadata.generation,
            void_time,
            last_update_ms: now_ms.max(metadata.last_update_ms),
            set_id,
            key: key.as_deref(),
            payload: &payload,
        });
        // A read waits for no sync.
        self.publish(&mut lock, &change).map(drop)
    }
}

/// The time to live that a record was written with, if no more than this percentage of it is left.
fn touched(metadata: &Metadata, percent: u32, now_ms: u64) -> Option<Duration> {
    let void_time = u64::from(metadata.void_time);
    let live = void_time.checked_sub(metadata.last_update_ms / 1000)?;
    let due = void_time.checked_sub(live * u64::from(percent) / 100)?;
    (live > 0 && now_ms / 1000 >= due).then(|| Duration::from_secs(live))
}
