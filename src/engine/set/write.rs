//! What users do to single records of a set: puts, deletes, operations, updates by a closure.

use serde::Serialize;
use serde::de::DeserializeOwned;
use spikelet_storage::{Digest, EntryView, Lsn};

use super::access::RecordAccess;
use super::{OperateResult, Set};
use crate::engine::activity::OperationKind;
use crate::engine::policy::{DEFAULT_WRITE, RecordExistsAction, WritePolicy};
use crate::engine::scratch::Scratch;
use crate::engine::write::{WriteEdit, WriteOutcome, WriteTarget};
use crate::expression::Expression;
use crate::operation::{Operation, operations};
use crate::record::{Bins, Key, MAX_BINS, from_bins, to_bins};
use crate::value::Value;
use crate::{Error, Result};

impl Set {
    /// Sets bins of a record, which is created if need be; its other bins stay. A bin set to
    /// [`Value::Nil`] is removed. Returns the number of the write.
    ///
    /// Gives the record the namespace's default time to live, counted from now, in place of the
    /// time it had left: where that default is "never", as it is unless
    /// [`NamespaceConfig::default_time_to_live`](crate::NamespaceConfig) says otherwise, **a record
    /// that was to expire does so no more**. To keep its time:
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::{Expiration, WritePolicy};
    /// use std::time::Duration;
    ///
    /// let sessions = spikelet::Store::in_memory()?.set("sessions")?;
    /// let hour = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(3600)));
    /// sessions.put_with(&hour, "alice", [("visits", 1)])?;
    /// let keep = WritePolicy::default().expiration(Expiration::DontUpdate);
    /// sessions.put_with(&keep, "alice", [("visits", 2)])?;
    /// let metadata = sessions.get_header("alice")?.expect("was put");
    /// assert!(metadata.expires_at().is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::KeyBusy`] and [`Error::Timeout`] if the record is fought over,
    /// [`Error::RecordTooBig`], [`Error::StopWrites`] if there is no room, and what the policy
    /// demands. [`Error::ShardRoot`] and [`Error::ShardCompanion`] where the write would break a
    /// sharded collection, see [`WritePolicy::override_shards`]. Nothing was changed then.
    pub fn put<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Lsn> {
        self.put_with(&DEFAULT_WRITE, key, bins)
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
    ) -> Result<Lsn> {
        let key = key.into();
        let digest = self.target(&key);
        let mut named = Bins::new();
        name_bins(&mut named, policy, bins)?;
        self.merge(policy, &key, digest, &named)
    }

    fn merge(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        bins: &Bins,
    ) -> Result<Lsn> {
        self.core
            .namespace
            .activity
            .track(OperationKind::Write, || {
                written(self.merge_at(policy, key, digest, bins)?.lsn)
            })
    }

    /// Hashes a key that is to be written, and has the index's memory fetched for it: the new
    /// version is put together meanwhile.
    #[inline]
    pub(in crate::engine) fn target(&self, key: &Key<'_>) -> Digest {
        let digest = self.digest_of(key);
        self.core.namespace.storage.prefetch(&digest);
        digest
    }

    /// The number of the set for a write: a write that creates nothing makes no set, either.
    #[inline]
    pub(in crate::engine) fn id_for(
        &self,
        policy: &WritePolicy,
        must_exist: bool,
    ) -> Result<Option<u16>> {
        if must_exist || policy.updates_only() {
            Ok(self.core.id())
        } else {
            self.core.id_to_write().map(Some)
        }
    }

    /// What a write or delete of the record with this stored key is about.
    #[inline]
    pub(in crate::engine) fn target_of<'a>(
        &'a self,
        policy: &'a WritePolicy,
        digest: Digest,
        set_id: Option<u16>,
        stored_key: &'a [u8],
    ) -> WriteTarget<'a> {
        WriteTarget {
            digest,
            set_name: &self.core.name,
            set_id,
            key: Some(stored_key),
            store_key: policy.send_key,
            filter: policy.filter.as_ref().or(self.filter.as_ref()),
            shards: policy.shard_access(),
            #[cfg(feature = "server")]
            yields: false,
        }
    }

    /// Stores a struct, its fields being the bins, in place of all that the record had. Sets the
    /// time to live as [`Set::put`] does.
    ///
    /// # Errors
    /// As for [`Set::put`], and [`Error::Serde`] if it is no struct or map.
    pub fn put_as<'k, T: Serialize + ?Sized>(
        &self,
        key: impl Into<Key<'k>>,
        value: &T,
    ) -> Result<Lsn> {
        let policy = WritePolicy::default().record_exists_action(RecordExistsAction::Replace);
        self.put_as_with(&policy, key, value)
    }

    /// [`Set::put_as`] by a policy: its [`record_exists_action`](WritePolicy::record_exists_action)
    /// says whether the record's other bins stay. By the default policy they do, and a field that
    /// is `None` removes its bin.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// #[derive(serde::Serialize)]
    /// struct Contact<'a> { mail: &'a str, phone: Option<&'a str> }
    ///
    /// let users = spikelet::Store::in_memory()?.set("users")?;
    /// users.put("alice", [("age", 42), ("phone", 5551)])?;
    /// let contact = Contact { mail: "a@example.org", phone: None };
    /// users.put_as_with(&spikelet::WritePolicy::default(), "alice", &contact)?;
    /// let alice = users.get("alice")?.expect("was put");
    /// assert_eq!((alice.get("age"), alice.get("phone")), (Some(42.into()), None));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Set::put_as`].
    pub fn put_as_with<'k, T: Serialize + ?Sized>(
        &self,
        policy: &WritePolicy,
        key: impl Into<Key<'k>>,
        value: &T,
    ) -> Result<Lsn> {
        let key = key.into();
        let digest = self.target(&key);
        self.merge(policy, &key, digest, &to_bins(value)?)
    }

    /// Adds numbers to bins, which begin with 0. Integers wrap; integer and float do not mix. Sets
    /// the time to live as [`Set::put`] does.
    ///
    /// # Errors
    /// As for [`Set::put`], and [`Error::IncompatibleType`].
    pub fn add<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Lsn> {
        self.each(key, bins, operations::add)
    }

    /// Appends to strings or blobs, which begin empty. Sets the time to live as
    /// [`Set::put`] does.
    ///
    /// # Errors
    /// As for [`Set::put`], and [`Error::IncompatibleType`].
    pub fn append<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Lsn> {
        self.each(key, bins, operations::append)
    }

    /// Puts something in front of strings or blobs, which begin empty. Sets the time to live as
    /// [`Set::put`] does.
    ///
    /// # Errors
    /// As for [`Set::put`], and [`Error::IncompatibleType`].
    pub fn prepend<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<Lsn> {
        self.each(key, bins, operations::prepend)
    }

    fn each<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
        operation: fn(&str, Value) -> Operation,
    ) -> Result<Lsn> {
        written(self.operate(key, &one_each(bins, operation))?.lsn)
    }

    /// Gives a record the namespace's default time to live from now on, and a new generation; its
    /// bins stay.
    ///
    /// # Errors
    /// [`Error::NotFound`], and as for [`Set::put`].
    pub fn touch<'k>(&self, key: impl Into<Key<'k>>) -> Result<Lsn> {
        self.touch_with(&DEFAULT_WRITE, key)
    }

    /// [`Set::touch`] by a policy: its [`expiration`](WritePolicy::expiration) is the new time to
    /// live.
    ///
    /// # Errors
    /// As for [`Set::touch`].
    pub fn touch_with<'k>(&self, policy: &WritePolicy, key: impl Into<Key<'k>>) -> Result<Lsn> {
        written(self.operate_with(policy, key, &[operations::touch()])?.lsn)
    }

    /// Deletes a record. Returns the number of the deletion; `None` if there was no record. A
    /// deleted record never comes back, not even over restarts.
    ///
    /// # Errors
    /// [`Error::KeyBusy`], [`Error::Timeout`]; [`Error::ShardRoot`] and [`Error::ShardCompanion`]
    /// for records of a sharded collection, see [`WritePolicy::override_shards`]. Deletes go on
    /// when writes are stopped for want of space.
    pub fn delete<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Lsn>> {
        self.delete_with(&DEFAULT_WRITE, key)
    }

    /// [`Set::delete`] by a policy: its generation, filter, timeout, acknowledgement and
    /// `override_shards` count.
    ///
    /// # Errors
    /// As for [`Set::delete`], and [`Error::Generation`].
    pub fn delete_with<'k>(
        &self,
        policy: &WritePolicy,
        key: impl Into<Key<'k>>,
    ) -> Result<Option<Lsn>> {
        let key = key.into();
        let digest = self.target(&key);
        let namespace = &self.core.namespace;
        namespace.activity.track(OperationKind::Write, || {
            let stored_key = key.stored();
            let target = self.target_of(policy, digest, self.core.id(), &stored_key);
            let deleted = namespace.delete(&target, policy);
            match deleted.map_err(|refused| refused.error) {
                Err(Error::NotFound { .. }) => Ok(None),
                // The edges lead to other records: that takes a transaction.
                Err(Error::HasEdges { .. }) => self.delete_edges(policy, &key),
                deleted => deleted.map(Some).map_err(|error| self.about(&key, error)),
            }
        })
    }

    /// Does several operations on one record, in order, atomically: the record is locked, no reader
    /// sees a state between them, and either all have taken place or, with the first error, none.
    /// Without a write among them nothing is locked. A write among them sets the time to live as
    /// [`Set::put`] does.
    ///
    /// # Errors
    /// As for [`Set::put`], and the refusals of each operation. [`Error::NotFound`] where reads, or
    /// a touch, meet no record.
    pub fn operate<'k>(
        &self,
        key: impl Into<Key<'k>>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        self.operate_with(&DEFAULT_WRITE, key, operations)
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
    ) -> Result<OperateResult> {
        let key = key.into();
        let activity = &self.core.namespace.activity;
        activity.track(OperationKind::Operate, || {
            self.operate_at(policy, &key, self.digest_of(&key), operations)
        })
    }

    /// Changes a record by a closure while it is locked. `edit` gets its bins, none if there is no
    /// record, and what it leaves in them is stored; if it leaves none, the record is deleted. An
    /// error of `edit` changes nothing. Sets the time to live as [`Set::put`] does.
    ///
    /// `edit` must not use the same record otherwise: it would wait for itself. Nor should it write
    /// other records: two such updates can wait for each other, until the policy's timeout ends it.
    /// It must not close the store, which waits for every writer. Creating an index there, or
    /// subscribing to changes from now on, is [`Error::Forbidden`] for the same reason.
    ///
    /// After an update that was only applied
    /// ([`Acknowledge::Applied`](crate::policy::Acknowledge)), wait for
    /// [`Namespace::last_lsn`](crate::Namespace::last_lsn).
    ///
    /// # Errors
    /// As for [`Set::put`], and what `edit` returns.
    pub fn update<'k, R>(
        &self,
        key: impl Into<Key<'k>>,
        edit: impl FnOnce(&mut Bins) -> Result<R>,
    ) -> Result<R> {
        self.update_with(&DEFAULT_WRITE, key, edit)
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
        self.core
            .namespace
            .activity
            .track(OperationKind::Write, || {
                self.update_at(policy, &key, digest, edit)
            })
    }

    /// Changes some bins of a record as a struct, by a closure while the record is locked: `T` has
    /// the fields that the edit is about, and other bins stay. A field that is left `None` removes
    /// its bin, and one that `edit` leaves as it was keeps its stored form. Returns what `edit`
    /// returns; `None` if there is no record. Rules for `edit` as for [`Set::update`].
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// #[derive(serde::Serialize, serde::Deserialize)]
    /// struct Visits { visits: u64, last: Option<String> }
    ///
    /// let users = spikelet::Store::in_memory()?.set("users")?;
    /// users.put("alice", [("age", 42), ("visits", 1)])?;
    /// let visits = users.update_as("alice", |user: &mut Visits| {
    ///     user.visits += 1;
    ///     user.last = Some("today".into());
    ///     Ok(user.visits)
    /// })?;
    /// assert_eq!(visits, Some(2));
    /// assert_eq!(users.get("alice")?.and_then(|alice| alice.get("age")), Some(42.into()));
    /// assert_eq!(users.update_as("bob", |_: &mut Visits| Ok(()))?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Set::update`], and [`Error::Serde`] if the bins do not fit the type.
    pub fn update_as<'k, T: Serialize + DeserializeOwned, R>(
        &self,
        key: impl Into<Key<'k>>,
        edit: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<Option<R>> {
        self.update_as_with(&DEFAULT_WRITE, key, edit)
    }

    /// [`Set::update_as`] by a policy. The record must exist under any
    /// [`record_exists_action`](WritePolicy::record_exists_action) of the policy.
    ///
    /// # Errors
    /// As for [`Set::update_as`].
    pub fn update_as_with<'k, T: Serialize + DeserializeOwned, R>(
        &self,
        policy: &WritePolicy,
        key: impl Into<Key<'k>>,
        edit: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<Option<R>> {
        let existing = RecordExistsAction::UpdateOnly;
        let policy = policy.clone().record_exists_action(existing);
        let mut is_there = false;
        let updated = self.update_with(&policy, key, |bins| {
            is_there = true;
            let mut value: T = from_bins(bins)?;
            // `edit` may mend what cannot be stored.
            let before = to_bins(&value).unwrap_or_default();
            let result = edit(&mut value)?;
            for (name, value) in to_bins(&value)? {
                // The form of a field is not that of every bin: one that was not edited stays.
                let converted = before
                    .get(name.as_str())
                    .filter(|_| bins.get(name.as_str()).is_some());
                if !converted.is_some_and(|before| before.is_same(&value)) {
                    bins.insert(name, value);
                }
            }
            Ok(result)
        });
        match updated {
            Ok(result) => Ok(Some(result)),
            // One that `edit` returns is the caller's.
            Err(Error::NotFound { .. }) if !is_there => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl RecordAccess for Set {
    fn base(&self) -> &Set {
        self
    }

    fn now_ms(&self) -> u64 {
        self.core.namespace.clock.now_ms()
    }

    #[inline]
    fn read_at<R>(
        &self,
        filter: Option<&Expression>,
        key: &Key<'_>,
        digest: &Digest,
        read: impl FnOnce(EntryView<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let namespace = &self.core.namespace;
        let found = namespace.storage.get(digest, |entry| {
            match self.checked(filter, key, entry, || namespace.clock.now_ms()) {
                Ok(Some(entry)) => read(entry).map(Some),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            }
        });
        match found {
            Ok(Some(Ok(read))) => Ok(read),
            Ok(None) => Ok(None),
            Ok(Some(Err(error))) => Err(self.about(key, error)),
            Err(error) => Err(self.about(key, error.into())),
        }
    }

    fn write(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        must_exist: bool,
        edit: &mut WriteEdit<'_>,
    ) -> Result<WriteOutcome> {
        let set_id = self.id_for(policy, must_exist)?;
        let stored_key = key.stored();
        let target = self.target_of(policy, digest, set_id, &stored_key);
        let namespace = &self.core.namespace;
        match namespace.write(&mut Scratch::take(), &target, policy, must_exist, edit) {
            Ok(outcome) => Ok(outcome),
            Err(refused) => Err(self.about(key, refused.error)),
        }
    }
}

/// The number of a write that cannot have had nothing to write.
fn written(lsn: Option<Lsn>) -> Result<Lsn> {
    debug_assert!(lsn.is_some(), "a write without a number");
    lsn.ok_or_else(Error::not_found)
}

/// One operation for each of these bins.
pub(in crate::engine) fn one_each<N: AsRef<str>, V: Into<Value>>(
    bins: impl IntoIterator<Item = (N, V)>,
    operation: fn(&str, Value) -> Operation,
) -> Vec<Operation> {
    bins.into_iter()
        .map(|(name, value)| operation(name.as_ref(), value.into()))
        .collect()
}

/// Bins by checked names, for a put; a name that comes twice takes its last value.
#[inline]
pub(in crate::engine) fn bins_to_put<N: AsRef<str>, V: Into<Value>>(
    policy: &WritePolicy,
    bins: impl IntoIterator<Item = (N, V)>,
) -> Result<Bins> {
    let mut named = Bins::new();
    name_bins(&mut named, policy, bins)?;
    Ok(named)
}

/// As [`bins_to_put`], into `named`, which has none yet: bins are large to move.
#[inline]
pub(in crate::engine) fn name_bins<N: AsRef<str>, V: Into<Value>>(
    named: &mut Bins,
    policy: &WritePolicy,
    bins: impl IntoIterator<Item = (N, V)>,
) -> Result<()> {
    // Not moved into a loop: an iterator over values is large.
    let mut bins = bins.into_iter();
    named.reserve(bins.size_hint().0.min(MAX_BINS));
    bins.try_for_each(|(name, value)| named.set(name.as_ref(), value))?;
    if named.is_empty() {
        return Err(Error::parameter(
            "a put without bins: name at least one, or use touch or delete",
        ));
    }
    if policy.replaces() && named.iter().any(|(_, value)| *value == Value::Nil) {
        return Err(Error::parameter(
            "a bin cannot be removed from a record that is replaced: leave it out, or update",
        ));
    }
    Ok(())
}
