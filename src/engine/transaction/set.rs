//! A set of records inside a transaction.

use serde::Serialize;
use serde::de::DeserializeOwned;
use spikelet_storage::{Digest, EntryView};

use super::Transaction;
use super::attempt::TransactionRun;
use crate::engine::core::{expired, metadata_of, record_of, record_with_bins};
use crate::engine::policy::{DEFAULT_WRITE, RecordExistsAction, WritePolicy};
use crate::engine::set::{OperateResult, RecordAccess, Set, bins_to_put, one_each};
use crate::engine::write::{WriteEdit, WriteOutcome};
use crate::error::if_there;
use crate::expression::Expression;
use crate::operation::{Operation, operations};
use crate::record::{Bins, Key, Metadata, Record, RecordView, to_bins};
use crate::value::Value;
use crate::{Error, Result};

/// A set of records as a transaction sees it, from [`Transaction::set`] or [`Transaction::in_set`].
///
/// Its calls do the same as a [`Set`]'s, by the same rules, but the transaction alone sees its
/// writes until it is committed, and their writes have no number yet. Of a [`WritePolicy`], the
/// timeout and the acknowledgement do not count.
#[derive(Clone, Debug)]
pub struct TransactionSet<'t> {
    attempt: &'t TransactionRun,
    set: Set,
    deletes_emptied: bool,
}

impl<'t> TransactionSet<'t> {
    pub(super) const fn new(transaction: &Transaction<'t>, set: Set) -> Self {
        Self {
            attempt: transaction.attempt,
            set,
            deletes_emptied: true,
        }
    }

    /// Refuses writes that leave no bin of a record with edges, unless they are deletions.
    pub(super) const fn keeping_edges(mut self) -> Self {
        self.deletes_emptied = false;
        self
    }

    /// Returns the set outside the transaction.
    #[must_use]
    pub const fn outside(&self) -> &Set {
        &self.set
    }

    /// Returns a record with all its bins; `None` if there is none. As [`Set::get`].
    ///
    /// # Errors
    /// As for [`Set::get`]; [`Error::Conflict`] if another writer has changed the record since the
    /// transaction has first seen it. The transaction is run again then, even if the closure drops
    /// the error.
    pub fn get<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Record>> {
        self.read_by(&key.into(), |entry| record_of(&entry))
    }

    /// Returns a record with the wanted bins that it has. As [`Set::get_bins`].
    ///
    /// # Errors
    /// As for [`TransactionSet::get`].
    pub fn get_bins<'k>(&self, key: impl Into<Key<'k>>, bins: &[&str]) -> Result<Option<Record>> {
        self.read_by(&key.into(), |entry| record_with_bins(&entry, bins))
    }

    /// Returns generation and times of a record. As [`Set::get_header`].
    ///
    /// # Errors
    /// As for [`TransactionSet::get`].
    pub fn get_header<'k>(&self, key: impl Into<Key<'k>>) -> Result<Option<Metadata>> {
        self.read_by(&key.into(), |entry| Ok(metadata_of(&entry)))
    }

    /// Returns whether there is a record. As [`Set::exists`].
    ///
    /// # Errors
    /// As for [`TransactionSet::get`].
    pub fn exists<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool> {
        Ok(self.get_header(key)?.is_some())
    }

    /// Returns a record as a struct with the bins as fields. As [`Set::get_as`].
    ///
    /// # Errors
    /// As for [`Set::get_as`] and [`TransactionSet::get`].
    pub fn get_as<'k, T: DeserializeOwned>(&self, key: impl Into<Key<'k>>) -> Result<Option<T>> {
        self.read_by(&key.into(), |entry| {
            RecordView::parse(entry.payload())?.decode()
        })
    }

    /// Returns the records of these keys, in the order of the keys; `None` for a key without a
    /// record. All are of the transaction's one moment. As [`Set::get_batch`].
    ///
    /// # Errors
    /// Each record has a result of its own, with the errors of [`TransactionSet::get`].
    #[must_use = "each record has its own result"]
    pub fn get_batch<'k, K: Into<Key<'k>>>(
        &self,
        keys: impl IntoIterator<Item = K>,
    ) -> Vec<Result<Option<Record>>> {
        let keys: Vec<Key<'k>> = keys.into_iter().map(Into::into).collect();
        let namespace = &self.set.core.namespace;
        let digests = namespace
            .key_hash
            .digests(&self.set.core.name, &keys, |key| key);
        let filter = self.set.filter.as_ref();
        namespace.storage.prefetch_batch(&digests);
        keys.iter()
            .zip(&digests)
            .map(|(key, digest)| self.read_at(filter, key, digest, |entry| record_of(&entry)))
            .collect()
    }

    /// Sets bins of a record, which is created if need be. As [`Set::put`].
    ///
    /// # Errors
    /// As for [`Set::put`], [`Error::TransactionLimit`], and [`Error::Conflict`] as for
    /// [`TransactionSet::get`].
    pub fn put<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.put_with(&DEFAULT_WRITE, key, bins)
    }

    /// [`TransactionSet::put`] by a policy.
    ///
    /// # Errors
    /// As for [`TransactionSet::put`].
    pub fn put_with<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        policy: &WritePolicy,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        let key = key.into();
        let digest = self.set.digest_of(&key);
        let bins = bins_to_put(policy, bins)?;
        self.merge_at(policy, &key, digest, &bins).map(drop)
    }

    /// Stores a struct, its fields being the bins, in place of all that the record had. As
    /// [`Set::put_as`].
    ///
    /// # Errors
    /// As for [`Set::put_as`] and [`TransactionSet::put`].
    pub fn put_as<'k, T: Serialize + ?Sized>(
        &self,
        key: impl Into<Key<'k>>,
        value: &T,
    ) -> Result<()> {
        let policy = WritePolicy::default().record_exists_action(RecordExistsAction::Replace);
        let key = key.into();
        let digest = self.set.digest_of(&key);
        self.merge_at(&policy, &key, digest, &to_bins(value)?)
            .map(drop)
    }

    /// Adds numbers to bins, which begin with 0. As [`Set::add`].
    ///
    /// # Errors
    /// As for [`Set::add`] and [`TransactionSet::put`].
    pub fn add<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.operate(key, &one_each(bins, operations::add))
            .map(drop)
    }

    /// Appends to strings or blobs, which begin empty. As [`Set::append`].
    ///
    /// # Errors
    /// As for [`Set::append`] and [`TransactionSet::put`].
    pub fn append<'k, N: AsRef<str>, V: Into<Value>>(
        &self,
        key: impl Into<Key<'k>>,
        bins: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.operate(key, &one_each(bins, operations::append))
            .map(drop)
    }

    /// Gives a record a new time to live and a new generation. As [`Set::touch`].
    ///
    /// # Errors
    /// As for [`Set::touch`] and [`TransactionSet::put`].
    pub fn touch<'k>(&self, key: impl Into<Key<'k>>) -> Result<()> {
        self.touch_with(&DEFAULT_WRITE, key)
    }

    /// [`TransactionSet::touch`] by a policy. As [`Set::touch_with`].
    ///
    /// # Errors
    /// As for [`Set::touch`] and [`TransactionSet::put`].
    pub fn touch_with<'k>(&self, policy: &WritePolicy, key: impl Into<Key<'k>>) -> Result<()> {
        self.operate_with(policy, key, &[operations::touch()])
            .map(drop)
    }

    /// Deletes a record. Returns whether there was one. As [`Set::delete`].
    ///
    /// # Errors
    /// As for [`Set::delete`] and [`TransactionSet::put`].
    pub fn delete<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool> {
        self.delete_with(&DEFAULT_WRITE, key)
    }

    /// [`TransactionSet::delete`] by a policy: its generation, filter and `override_shards` count.
    ///
    /// # Errors
    /// As for [`Set::delete_with`] and [`TransactionSet::put`].
    pub fn delete_with<'k>(&self, policy: &WritePolicy, key: impl Into<Key<'k>>) -> Result<bool> {
        let key = key.into();
        let digest = self.set.digest_of(&key);
        let (stored_key, set_id) = (key.stored(), self.set.core.id());
        let target = self.set.target_of(policy, digest, set_id, &stored_key);
        let deleted = self.attempt.delete(&self.set, &key, &target, policy);
        match deleted.map_err(|refused| refused.error) {
            Ok(()) => Ok(true),
            Err(Error::NotFound { .. }) => Ok(false),
            Err(Error::HasEdges { .. }) => Ok(self.delete_edges(policy, &key)?.is_some()),
            Err(error) => Err(self.set.about(&key, error)),
        }
    }

    /// Does several operations on one record, in order. As [`Set::operate`].
    ///
    /// # Errors
    /// As for [`Set::operate`] and [`TransactionSet::put`].
    pub fn operate<'k>(
        &self,
        key: impl Into<Key<'k>>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        self.operate_with(&DEFAULT_WRITE, key, operations)
    }

    /// [`TransactionSet::operate`] by a policy.
    ///
    /// # Errors
    /// As for [`TransactionSet::operate`].
    pub fn operate_with<'k>(
        &self,
        policy: &WritePolicy,
        key: impl Into<Key<'k>>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        let key = key.into();
        let digest = self.set.digest_of(&key);
        let mut result = self.operate_at(policy, &key, digest, operations)?;
        // There was no wait yet.
        result.queued_behind = None;
        Ok(result)
    }

    /// Changes a record by a closure, which may use other records of the transaction. As
    /// [`Set::update`].
    ///
    /// # Errors
    /// As for [`Set::update`] and [`TransactionSet::put`].
    pub fn update<'k, R>(
        &self,
        key: impl Into<Key<'k>>,
        edit: impl FnOnce(&mut Bins) -> Result<R>,
    ) -> Result<R> {
        self.update_with(&DEFAULT_WRITE, key, edit)
    }

    /// [`TransactionSet::update`] by a policy.
    ///
    /// # Errors
    /// As for [`TransactionSet::update`].
    pub fn update_with<'k, R>(
        &self,
        policy: &WritePolicy,
        key: impl Into<Key<'k>>,
        edit: impl FnOnce(&mut Bins) -> Result<R>,
    ) -> Result<R> {
        let key = key.into();
        let digest = self.set.digest_of(&key);
        self.update_at(policy, &key, digest, edit)
    }

    /// Refuses a record for which the policy's existence action, generation or filter does not
    /// hold. Returns the record.
    pub(crate) fn check(&self, policy: &WritePolicy, key: &Key<'_>) -> Result<OperateResult> {
        let digest = self.set.digest_of(key);
        let found = self.read_at(None, key, &digest, |entry| Ok(entry.generation()))?;
        policy
            .check(found)
            .map_err(|error| self.set.about(key, error))?;
        let found = if_there(self.read_results(policy, key, &digest, |_, _| Ok(())))?;
        // A missing record has no results.
        Ok(found.unwrap_or_default())
    }

    /// Refuses where every delete would be refused.
    pub(crate) fn check_takes_deletes(&self) -> Result<()> {
        self.attempt.check_takes_writes()?;
        self.set.check_takes_deletes()
    }

    /// How many roots have lost the description of their shards, this transaction's included.
    pub(crate) fn lost_root_count(&self) -> u64 {
        self.set.lost_root_count() + self.attempt.lost_roots()
    }

    /// The time of the attempt, in milliseconds since 2010.
    pub(crate) fn time_ms(&self) -> u64 {
        self.attempt.now_ms
    }

    fn read_by<R>(
        &self,
        key: &Key<'_>,
        read: impl FnOnce(EntryView<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let digest = self.set.digest_of(key);
        self.read_at(self.set.filter.as_ref(), key, &digest, read)
    }
}

impl RecordAccess for TransactionSet<'_> {
    fn base(&self) -> &Set {
        &self.set
    }

    fn attempt(&self) -> Option<&TransactionRun> {
        Some(self.attempt)
    }

    fn now_ms(&self) -> u64 {
        self.attempt.now_ms
    }

    fn deletes_emptied(&self) -> bool {
        self.deletes_emptied
    }

    fn read_at<R>(
        &self,
        filter: Option<&Expression>,
        key: &Key<'_>,
        digest: &Digest,
        read: impl FnOnce(EntryView<'_>) -> Result<R>,
    ) -> Result<Option<R>> {
        let now_ms = self.attempt.now_ms;
        let found: Result<Option<R>> = self.attempt.look(&self.set, key, digest, |found| {
            let Some(entry) = found?.filter(|entry| !expired(entry, now_ms)) else {
                return Ok(None);
            };
            let checked = self.set.checked(filter, key, entry, || now_ms)?;
            checked.map(read).transpose()
        });
        found.map_err(|error| self.set.about(key, error))
    }

    fn write(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        must_exist: bool,
        edit: &mut WriteEdit<'_>,
    ) -> Result<WriteOutcome> {
        self.attempt.check_takes_writes()?;
        let (stored_key, set_id) = (key.stored(), self.set.id_for(policy, must_exist)?);
        let target = self.set.target_of(policy, digest, set_id, &stored_key);
        let written = self
            .attempt
            .write(&self.set, key, &target, policy, must_exist, edit);
        written.map_err(|refused| self.set.about(key, refused.error))
    }
}
