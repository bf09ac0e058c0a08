//! A set: where records are read and written by key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::SystemTime;

use serde::Serialize;
use serde::de::DeserializeOwned;
use spikelet_storage::{Digest, EntryView, PARTITIONS, Truncate};

use crate::expression::{Expression, RecordFacts};
use crate::operation::{Checked, Mode, Operation, OperationResult, check_whole, merge, operations};
use crate::record::{Bins, Key, Metadata, Record, RecordView, to_bins};
use crate::value::Value;
use crate::{Error, Result};

use super::namespace::{Core, ScannedRecord, metadata_of, record_of};
use super::policy::{RecordExistsAction, WritePolicy};
use super::write::{Edited, Target, Wrote, expired, with_scratch, with_stored_key};

/// The longest name of a set, in bytes: Aerospike's limit.
const NAME_BYTES_MAX: usize = 63;

/// No number is known yet.
const UNKNOWN: u16 = u16::MAX;

#[derive(Debug)]
pub(super) struct SetCore {
    pub(super) namespace: Arc<Core>,
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

    fn id(&self) -> Option<u16> {
        let known = self.id.load(Ordering::Relaxed);
        if known != UNKNOWN {
            Some(known)
        } else {
            self.namespace.storage.set_id(&self.name)
        }
    }
}

/// What operations on a record have returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Operated {
    /// The record's generation now; 0 if it was deleted.
    pub generation: u16,
    /// The results of those operations that have one, in their order.
    pub results: Vec<OperationResult>,
}

impl Operated {
    /// The result of the operation at this position among those given; `None` if it has none.
    #[must_use]
    pub fn value(&self, operation: usize) -> Option<&Value> {
        self.results
            .iter()
            .find(|result| result.operation == operation)
            .map(|result| &result.value)
    }

    /// The last result of this bin.
    #[must_use]
    pub fn bin(&self, name: &str) -> Option<&Value> {
        self.results
            .iter()
            .rev()
            .find(|result| result.bin.as_str() == name)
            .map(|result| &result.value)
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
/// assert!(users.delete("alice")?);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Set {
    core: Arc<SetCore>,
    filter: Option<Expression>,
}

impl Set {
    pub(super) fn new(namespace: &Arc<Core>, name: &str) -> Result<Self> {
        if name.len() > NAME_BYTES_MAX || name.contains('\0') {
            return Err(Error::parameter(format!(
                "set {name:?}: a name has at most {NAME_BYTES_MAX} bytes and no NUL byte"
            )));
        }
        let id = AtomicU16::new(namespace.storage.set_id(name).unwrap_or(UNKNOWN));
        Ok(Self {
            core: Arc::new(SetCore {
                namespace: Arc::clone(namespace),
                name: name.into(),
                id,
            }),
            filter: None,
        })
    }

    /// The name; empty for "no set".
    #[must_use]
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The same set, seen through a filter: reads, writes and deletes through this handle are for records for which the
    /// expression holds, and answer [`Error::FilteredOut`] for others; a scan passes over those. A record that does not
    /// exist is not asked, so a write may create one. A policy with a filter of its own takes precedence.
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
            core: Arc::clone(&self.core),
            filter: Some(filter),
        })
    }

    /// The digest of a key in this set.
    #[must_use]
    pub fn digest<'k>(&self, key: impl Into<Key<'k>>) -> Digest {
        self.core
            .namespace
            .key_hash
            .digest(&self.core.name, &key.into())
    }

    /// A record with all its bins; `None` if there is none. One allocation; bins are decoded when they are asked for.
    ///
    /// # Errors
    /// [`Error::KeyMismatch`], or [`Error::Storage`] for a record that is damaged on the device.
    pub fn get<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Record>> {
        self.read(&key.into(), |entry| record_of(&entry))
    }

    /// A record with some of its bins: those of `bins` that it has.
    ///
    /// # Errors
    /// As for [`Set::get`].
    pub fn get_bins<'k>(&self, key: impl Into<Key<'k>>, bins: &[&str]) -> Result<Option<Record>> {
        self.read(&key.into(), |entry| {
            let body = RecordView::parse(entry.payload())?.select(bins);
            Record::new(metadata_of(&entry), entry.key(), &body)
        })
    }

    /// Generation and times of a record, without its bins.
    ///
    /// # Errors
    /// As for [`Set::get`].
    pub fn get_header<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Metadata>> {
        self.read(&key.into(), |entry| Ok(metadata_of(&entry)))
    }

    /// Whether there is a record.
    ///
    /// # Errors
    /// As for [`Set::get`].
    pub fn exists<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool> {
        Ok(self.get_header(key)?.is_some())
    }

    /// Lends a record to `read` where it lies, without a copy and without a lock. Keep `read` short: space cannot be
    /// used again while it runs.
    ///
    /// # Errors
    /// As for [`Set::get`].
    pub fn get_with<'k, R>(
        &self,
        key: impl Into<Key<'k>>,
        read: impl FnOnce(RecordView<'_>) -> R,
    ) -> Result<Option<R>> {
        self.read(&key.into(), |entry| {
            Ok(read(RecordView::parse(entry.payload())?))
        })
    }

    /// A record as a struct whose fields are the bins.
    ///
    /// # Errors
    /// As for [`Set::get`], and [`Error::Serde`] if the bins do not fit the type.
    pub fn get_as<'k, T: DeserializeOwned>(&self, key: impl Into<Key<'k>>) -> Result<Option<T>> {
        self.read(&key.into(), |entry| {
            RecordView::parse(entry.payload())?.decode()
        })
    }

    /// Many records, in the order of their keys. Memory is fetched ahead for all of them.
    #[must_use = "each record has its own result"]
    pub fn get_batch<'k, K: Into<Key<'k>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Record>>> {
        let keys: Vec<Key<'k>> = keys.into_iter().map(Into::into).collect();
        let storage = &self.core.namespace.storage;
        for key in &keys {
            storage.prefetch(&self.core.namespace.key_hash.digest(&self.core.name, key));
        }
        keys.iter()
            .map(|key| self.read(key, |entry| record_of(&entry)))
            .collect()
    }

    fn read<R>(
        &self,
        key: &Key<'_>,
        read: impl FnOnce(EntryView<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        self.read_by(self.filter.as_ref(), key, read)
    }

    fn read_by<R>(
        &self,
        filter: Option<&Expression>,
        key: &Key<'_>,
        read: impl FnOnce(EntryView<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let namespace = &self.core.namespace;
        let digest = namespace.key_hash.digest(&self.core.name, key);
        let found = namespace.storage.get(&digest, |entry| {
            // The clock is asked only for records that can expire, and for filters.
            if entry.void_time() != 0 && expired(&entry, namespace.clock.now_ms()) {
                return Ok(None);
            }
            if let Some(filter) = filter {
                let now_ms = namespace.clock.now_ms();
                namespace.check_filter(Some(filter), &entry, &self.core.name, now_ms)?;
            }
            if entry.key().is_some_and(|stored| !key.is_stored_as(stored)) {
                return Err(Error::KeyMismatch);
            }
            read(entry).map(Some)
        })?;
        found.unwrap_or(Ok(None))
    }

    /// Sets bins of a record, which is created if need be; its other bins stay. A bin set to [`Value::Nil`] is removed.
    ///
    /// # Errors
    /// [`Error::KeyBusy`] and [`Error::Timeout`] if the record is fought over, [`Error::RecordTooBig`],
    /// [`Error::StopWrites`] if there is no room, and what the policy demands. Nothing was changed then.
    pub fn put<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.put_with(&WritePolicy::default(), key, bins)
    }

    /// [`Set::put`] by a policy.
    ///
    /// # Errors
    /// As for [`Set::put`].
    pub fn put_with<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        policy: &WritePolicy,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        let key = key.into();
        let digest = self.target(&key);
        let bins = named(bins)?;
        if bins.is_empty() {
            return Err(Error::parameter(
                "a put without bins: name at least one, or use touch or delete",
            ));
        }
        if policy.replaces() && bins.iter().any(|(_, value)| *value == Value::Nil) {
            return Err(Error::parameter(
                "a bin cannot be removed from a record that is replaced: leave it out, or update",
            ));
        }
        self.merge(policy, &key, digest, &bins)
    }

    fn merge(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        bins: &Bins,
    ) -> Result<()> {
        self.write(policy, key, digest, false, |old, _, body| {
            Ok((Edited::Body(merge(old, bins, body)?), ()))
        })
        .map(drop)
    }

    /// Hashes a key that is to be written, and has the index's memory fetched for it: what is to be written is put
    /// together meanwhile.
    fn target(&self, key: &Key<'_>) -> Digest {
        let digest = self.core.namespace.key_hash.digest(&self.core.name, key);
        self.core.namespace.storage.prefetch(&digest);
        digest
    }

    fn write<R>(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        must_exist: bool,
        edit: impl FnOnce(Option<RecordView<'_>>, &RecordFacts<'_>, &mut Vec<u8>) -> Result<(Edited, R)>,
    ) -> Result<Wrote<R>> {
        // A write that creates nothing makes no set, either.
        let only_existing = matches!(
            policy.record_exists_action,
            RecordExistsAction::UpdateOnly | RecordExistsAction::ReplaceOnly
        );
        let set_id = if must_exist || only_existing {
            self.core.id()
        } else {
            Some(self.core.id_to_write()?)
        };
        with_stored_key(key, |stored| {
            let target = Target {
                digest,
                set_name: &self.core.name,
                set_id,
                key: Some(stored),
                store_key: policy.send_key,
                filter: policy.filter.as_ref().or(self.filter.as_ref()),
            };
            with_scratch(|body| {
                self.core
                    .namespace
                    .write(body, &target, policy, must_exist, edit)
            })
        })
        .map_err(|refused| refused.error)
    }

    /// Stores a struct, its fields being the bins, in the place of whatever the record had.
    ///
    /// # Errors
    /// As for [`Set::put`], and [`Error::Serde`] if it is no struct or map.
    pub fn put_as<'k, T: Serialize + ?Sized>(
        &self,
        key: impl Into<Key<'k>>,
        value: &T,
    ) -> Result<()> {
        let policy = WritePolicy::default().record_exists_action(RecordExistsAction::Replace);
        self.put_as_with(&policy, key, value)
    }

    /// [`Set::put_as`] by a policy.
    ///
    /// # Errors
    /// As for [`Set::put_as`].
    pub fn put_as_with<'k, T: Serialize + ?Sized>(
        &self,
        policy: &WritePolicy,
        key: impl Into<Key<'k>>,
        value: &T,
    ) -> Result<()> {
        let key = key.into();
        let digest = self.target(&key);
        self.merge(policy, &key, digest, &to_bins(value)?)
    }

    /// Adds numbers to bins, which begin with 0. Integers wrap; integer and float do not mix.
    ///
    /// # Errors
    /// As for [`Set::put`], and [`Error::IncompatibleType`].
    pub fn add<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.each(key, bins, operations::add)
    }

    /// Appends to strings or blobs, which begin empty.
    ///
    /// # Errors
    /// As for [`Set::put`], and [`Error::IncompatibleType`].
    pub fn append<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.each(key, bins, operations::append)
    }

    /// Puts something in front of strings or blobs, which begin empty.
    ///
    /// # Errors
    /// As for [`Set::put`], and [`Error::IncompatibleType`].
    pub fn prepend<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.each(key, bins, operations::prepend)
    }

    fn each<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
        operation: fn(&str, Value) -> Operation,
    ) -> Result<()> {
        let operations: Vec<_> = bins
            .into_iter()
            .map(|(name, value)| operation(name.as_ref(), value.into()))
            .collect();
        self.operate(key, &operations).map(|_| ())
    }

    /// Gives a record a new time to live and a new generation; its bins stay.
    ///
    /// # Errors
    /// [`Error::NotFound`], and as for [`Set::put`].
    pub fn touch<'k>(&self, policy: &WritePolicy, key: impl Into<Key<'k>>) -> Result<()> {
        self.operate_with(policy, key, &[operations::touch()])
            .map(|_| ())
    }

    /// Deletes a record. Returns whether there was one. A deleted record never comes back, whatever is restarted.
    ///
    /// # Errors
    /// [`Error::KeyBusy`], [`Error::Timeout`]; deletes go on when writes are stopped for want of space.
    pub fn delete<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool> {
        self.delete_with(&WritePolicy::default(), key)
    }

    /// [`Set::delete`] by a policy: its generation and timeout count.
    ///
    /// # Errors
    /// As for [`Set::delete`], and [`Error::Generation`].
    pub fn delete_with<'k>(&self, policy: &WritePolicy, key: impl Into<Key<'k>>) -> Result<bool> {
        let key = key.into();
        let digest = self.target(&key);
        let deleted = with_stored_key(&key, |stored| {
            let target = Target {
                digest,
                set_name: &self.core.name,
                set_id: self.core.id(),
                key: Some(stored),
                store_key: false,
                filter: policy.filter.as_ref().or(self.filter.as_ref()),
            };
            self.core.namespace.delete(&target, policy)
        });
        match deleted.map_err(|refused| refused.error) {
            Err(Error::NotFound) => Ok(false),
            deleted => deleted.map(|()| true),
        }
    }

    /// Does several operations on one record, in order, atomically: the record is locked, nobody sees a state between
    /// them, and either all have taken place or, with the first error, none. Without a write among them nothing is
    /// locked.
    ///
    /// # Errors
    /// As for [`Set::put`], and what each operation may refuse. [`Error::NotFound`] where reads, or a touch, meet no
    /// record.
    pub fn operate<'k>(
        &self,
        key: impl Into<Key<'k>>,
        operations: &[Operation],
    ) -> Result<Operated> {
        self.operate_with(&WritePolicy::default(), key, operations)
    }

    /// [`Set::operate`] by a policy.
    ///
    /// # Errors
    /// As for [`Set::operate`].
    pub fn operate_with<'k>(
        &self,
        policy: &WritePolicy,
        key: impl Into<Key<'k>>,
        operations: &[Operation],
    ) -> Result<Operated> {
        let key = key.into();
        let mode = if policy.replaces() {
            Mode::REPLACE
        } else {
            Mode::empty()
        };
        let checked = Checked::new(operations, mode)?;
        if !checked.is_write() {
            let filter = policy.filter.as_ref().or(self.filter.as_ref());
            let read = self.read_by(filter, &key, |entry| {
                let now_ms = self.core.namespace.clock.now_ms();
                let facts = self.core.namespace.facts(&entry, &self.core.name, now_ms);
                let record = RecordView::parse(entry.payload())?;
                let results = checked.seeing(&facts).read(record)?;
                Ok(Operated {
                    generation: entry.generation(),
                    results,
                })
            })?;
            return read.ok_or(Error::NotFound);
        }
        let digest = self.target(&key);
        let must_exist = checked.must_exist();
        let wrote = self.write(policy, &key, digest, must_exist, |old, facts, body| {
            let outcome = checked.seeing(facts).execute(old, body)?;
            Ok((Edited::Body(outcome.bin_count), outcome.results))
        })?;
        Ok(Operated {
            generation: wrote.generation,
            results: wrote.results,
        })
    }

    /// Changes a record by a closure while it is locked. `edit` gets its bins, none if there is no record, and what it
    /// leaves in them is stored; if it leaves none, the record is deleted. An error of `edit` changes nothing.
    ///
    /// `edit` must not use the same record otherwise: it would wait for itself. Nor should it write other records: two
    /// such updates can wait for each other, until the policy's timeout ends it. It must not close the store.
    ///
    /// # Errors
    /// As for [`Set::put`], and what `edit` returns.
    pub fn update<'k, R>(
        &self,
        key: impl Into<Key<'k>>,
        edit: impl FnOnce(&mut Bins) -> Result<R>,
    ) -> Result<R> {
        self.update_with(&WritePolicy::default(), key, edit)
    }

    /// [`Set::update`] by a policy.
    ///
    /// # Errors
    /// As for [`Set::update`].
    pub fn update_with<'k, R>(
        &self,
        policy: &WritePolicy,
        key: impl Into<Key<'k>>,
        edit: impl FnOnce(&mut Bins) -> Result<R>,
    ) -> Result<R> {
        let key = key.into();
        let digest = self.target(&key);
        let wrote = self.write(policy, &key, digest, false, |old, _, body| {
            let mut bins = old.map_or_else(|| Ok(Bins::new()), |view| view.to_bins())?;
            let result = edit(&mut bins)?;
            bins.iter().try_for_each(|(_, value)| check_whole(value))?;
            let edited = match bins.write_body(body)? {
                0 => Edited::Emptied,
                count => Edited::Body(count as u32),
            };
            Ok((edited, result))
        })?;
        Ok(wrote.results)
    }

    /// How many records the set has, whatever its filter. Expired ones count until the expiry pass has met them.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.core
            .id()
            .map_or(0, |id| self.core.namespace.storage.set_usage(id).0)
    }

    /// Whether the set has no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all records of the set last updated before `before` (`None`: before now). Returns how many; they and
    /// their counts are gone when the call returns, and never come back.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a time in the future, or before 2010.
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

    /// Lends every live record of the set to `read`, in no particular order. Visits the whole namespace.
    pub fn scan(&self, mut read: impl FnMut(ScannedRecord<'_>)) {
        let Some(id) = self.core.id() else { return };
        let filter = self.filter.as_ref();
        for partition in 0..PARTITIONS {
            self.core
                .namespace
                .scan_partition(partition, filter, &mut |record| {
                    if record.is_of_set(id) {
                        read(record);
                    }
                });
        }
    }
}

/// Bins by checked names; a name that comes twice takes its last value.
fn named<N: AsRef<str>, V: Into<Value>>(bins: impl IntoIterator<Item = (N, V)>) -> Result<Bins> {
    let mut named = Bins::new();
    for (name, value) in bins {
        named.set(name.as_ref(), value)?;
    }
    Ok(named)
}
