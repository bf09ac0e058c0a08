//! The common part of a set's own calls and a transaction's: they differ in how a record is read
//! and written, not in the operations on it.

use spikelet_storage::{ConflictCause, Digest, EntryView, Lsn};

use super::{OperateResult, Set, UnshardedRead};
use crate::engine::entry::record_bytes;
use crate::engine::policy::{GenerationPolicy, WritePolicy};
use crate::engine::refusals::conflict;
use crate::engine::transaction::TransactionRun;
use crate::engine::write::{EditOutcome, WriteEdit, WriteOutcome};
use crate::expression::Expression;
use crate::operation::{Checked, Mode, Operation, OperationResults, SingleRead, rewrite};
use crate::record::{Bins, Key, RecordView, ShardRole};
use crate::{Error, Result};

/// A way to the records of a set.
pub(in crate::engine) trait RecordAccess {
    /// The set: its name, its filter, how its keys become digests.
    fn base(&self) -> &Set;

    /// The attempt of a transaction that it is part of.
    fn attempt(&self) -> Option<&TransactionRun> {
        None
    }

    /// The time of the access, in milliseconds since 2010.
    fn now_ms(&self) -> u64;

    /// Whether a write that leaves no bin deletes a record with its edges, as a deletion does.
    fn deletes_emptied(&self) -> bool {
        true
    }

    /// Lends the record with this key and this digest to `read`, as readers may see it.
    fn read_at<R>(
        &self,
        filter: Option<&Expression>,
        key: &Key<'_>,
        digest: &Digest,
        read: impl FnOnce(EntryView<'_>) -> Result<R>,
    ) -> Result<Option<R>>;

    /// Writes the record with this key: see `engine::write`.
    fn write(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        must_exist: bool,
        edit: &mut WriteEdit<'_>,
    ) -> Result<WriteOutcome>;

    /// Sets bins of a record.
    #[inline]
    fn merge_at(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        bins: &Bins,
    ) -> Result<WriteOutcome> {
        self.write_first(policy, key, digest, false, &mut |old, facts, body| {
            EditOutcome::of_put(bins, (old, facts), body)
        })
    }

    /// Writes, and goes the way of [`RecordAccess::write_or_delete`] only once a record with edges
    /// has refused: most have none.
    #[inline]
    fn write_first(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        must_exist: bool,
        edit: &mut WriteEdit<'_>,
    ) -> Result<WriteOutcome> {
        match self.write(policy, key, digest, must_exist, edit) {
            Ok(outcome) => Ok(outcome),
            Err(Error::HasEdges { .. }) if self.deletes_emptied() => {
                self.write_or_delete(policy, key, digest, must_exist, edit)
            }
            Err(error) => Err(error),
        }
    }

    /// Changes a record by a closure. It is not called again for the record as another writer has
    /// left it.
    fn update_at<R>(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        edit: impl FnOnce(&mut Bins) -> Result<R>,
    ) -> Result<R> {
        let (mut edit, mut result) = (Some(edit), None);
        self.write_or_delete(policy, key, digest, false, &mut |old, facts, body| {
            // A closure runs once: if another writer has come between, its caller begins anew.
            let edit = edit.take().ok_or(conflict(ConflictCause::Changed))?;
            let old = old.unwrap_or(RecordView::EMPTY);
            let mut bins = old.to_bins()?;
            result = Some(edit(&mut bins)?);
            let from = body.len();
            let count = rewrite(old, &bins, body)?;
            if !bins.is_empty() {
                let new = body.get(from..).unwrap_or_default();
                facts.owned.check_unchanged(old, new)?;
            }
            Ok(match count {
                0 => EditOutcome::Emptied,
                count => EditOutcome::Body(count),
            })
        })?;
        result.ok_or_else(Error::not_found)
    }

    /// Writes a record, or deletes it with its edges if the write leaves no bin, as long as the
    /// relations let it. Calls `edit` again if another writer comes between.
    #[inline(never)]
    fn write_or_delete(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        must_exist: bool,
        edit: &mut WriteEdit<'_>,
    ) -> Result<WriteOutcome> {
        loop {
            let mut edited = None;
            let wrote = self.write(policy, key, digest, must_exist, &mut |old, facts, body| {
                let outcome = edit(old, facts, body)?;
                edited = Some(facts.metadata.generation);
                Ok(outcome)
            });
            // An error of the edit itself is the caller's.
            let (Err(Error::HasEdges { .. }), Some(next)) = (&wrote, edited) else {
                return wrote;
            };
            // The record that `edit` has found, and no other.
            let found = next.checked_sub(1).filter(|found| *found > 0);
            let generation = GenerationPolicy::ExpectEqual(found.unwrap_or(u16::MAX).into());
            match self.delete_edges(&policy.clone().generation(generation), key) {
                Ok(Some(lsn)) => {
                    return Ok(WriteOutcome {
                        lsn: Some(lsn),
                        ..WriteOutcome::default()
                    });
                }
                Ok(None) => {}
                Err(Error::Generation { .. }) if policy.generation == GenerationPolicy::None => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Does operations on the record with this key and this digest.
    fn operate_at(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        if let Some(operation) = SingleRead::of(operations) {
            return self.read_results(policy, key, &digest, |entry, results| {
                operation.read_into(entry.payload(), results)
            });
        }
        let checked = Checked::new(operations, Mode::of(policy.replaces()))?;
        if !checked.is_write() {
            return self.read_results(policy, key, &digest, |entry, results| {
                let record = RecordView::parse(entry.payload())?;
                if !checked.evaluates() {
                    return checked.read_into(record, results);
                }
                let base = self.base();
                let namespace = &base.core.namespace;
                let facts = namespace.facts(entry, &base.core.name, self.now_ms());
                checked.seeing(&facts).read_into(record, results)
            });
        }
        self.base().core.namespace.storage.prefetch(&digest);
        let must_exist = checked.must_exist();
        let mut result = OperateResult::default();
        let results = &mut result.results;
        let edit: &mut WriteEdit<'_> = &mut |old, facts, body| {
            // Another run begins anew.
            results.clear();
            EditOutcome::of_operations(&checked, (old, facts), body, results)
        };
        let outcome = self.write_first(policy, key, digest, must_exist, edit)?;
        outcome.note_in(&mut result);
        Ok(result)
    }

    /// Deletes a record with its edges, since a deletion of it alone was refused. Returns the
    /// number of a write that includes it; `None`: there was no record.
    #[cold]
    fn delete_edges(&self, policy: &WritePolicy, key: &Key<'_>) -> Result<Option<Lsn>> {
        let base = self.base();
        match base.delete_edges_in(self.attempt(), key, policy) {
            Ok(true) => Ok(Some(base.core.namespace.storage.last_lsn())),
            Ok(false) => Ok(None),
            Err(error) => Err(base.about(key, error)),
        }
    }

    /// Lends what a read of a list or map returns to `show`, called once, unless a collection of
    /// the record is sharded.
    fn read_unsharded_at(
        &self,
        key: &Key<'_>,
        digest: &Digest,
        operation: SingleRead<'_>,
        mut show: impl FnMut(Result<UnshardedRead<'_>>),
    ) {
        let filter = self.base().filter.as_ref();
        let found = self.read_at(filter, key, digest, |entry| {
            lend_unsharded(&entry, operation, |read| show(Ok(read)))
        });
        match found {
            Ok(Some(())) => {}
            Ok(None) => show(Ok(UnshardedRead::NotFound)),
            Err(error) => show(Err(error)),
        }
    }

    /// What operations that only read return of the record with this key.
    #[inline]
    fn read_results(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: &Digest,
        read: impl FnOnce(&EntryView<'_>, &mut OperationResults) -> Result<()>,
    ) -> Result<OperateResult> {
        let filter = policy.filter.as_ref().or(self.base().filter.as_ref());
        // Filled where it is: it is large.
        let mut result = OperateResult::default();
        let found = self.read_at(filter, key, digest, |entry| {
            result.generation = entry.generation();
            result.record_bytes = record_bytes(entry.key(), entry.payload());
            result.void_time = entry.void_time();
            read(&entry, &mut result.results)
        })?;
        match found {
            Some(()) => Ok(result),
            None => Err(self.base().about(key, Error::not_found())),
        }
    }
}

impl WriteOutcome {
    /// Adds the outcome to the operations' results.
    #[inline]
    pub(in crate::engine) fn note_in(self, result: &mut OperateResult) {
        result.generation = self.generation;
        result.record_bytes = self.record_bytes;
        result.void_time = self.void_time;
        result.queued_behind = Some(self.queued_behind);
        result.lsn = self.lsn;
    }
}

/// Lends what a read of a list or map returns to `show`, unless a collection of the record is
/// sharded. After an error `show` was not called.
pub(super) fn lend_unsharded(
    entry: &EntryView<'_>,
    operation: SingleRead<'_>,
    show: impl FnOnce(UnshardedRead<'_>),
) -> Result<()> {
    let body = entry.payload();
    if ShardRole::of(body) != ShardRole::None {
        show(UnshardedRead::Sharded);
        return Ok(());
    }
    operation.lend(body, |value| show(UnshardedRead::Value(value)))
}
