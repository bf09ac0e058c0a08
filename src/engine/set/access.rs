//! The common part of a set's own calls and a transaction's: they differ in how a record is read and
//! written, not in the operations on it.

use spikelet_storage::{Digest, EntryView};

use super::{OperateResult, Set, UnshardedRead};
use crate::engine::policy::WritePolicy;
use crate::engine::write::{EditOutcome, WriteOutcome, record_bytes};
use crate::expression::{Expression, RecordFacts};
use crate::operation::{
    Checked, Mode, Operation, OperationResults, SingleRead, check_bin_value, merge,
};
use crate::record::{Bins, Key, RecordView, ShardRole};
use crate::{Error, Result};

/// A way to the records of a set.
pub(in crate::engine) trait RecordAccess {
    /// The set: its name, its filter, how its keys become digests.
    fn base(&self) -> &Set;

    /// The time of the access, in milliseconds since 2010.
    fn now_ms(&self) -> u64;

    /// Lends the record with this key and this digest to `read`, as readers may see it.
    fn read_at<R>(
        &self,
        filter: Option<&Expression>,
        key: &Key<'_>,
        digest: &Digest,
        read: impl FnOnce(EntryView<'_>) -> Result<R>,
    ) -> Result<Option<R>>;

    /// Writes the record with this key: see `engine::write`.
    fn write<R>(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        must_exist: bool,
        edit: impl FnOnce(
            Option<RecordView<'_>>,
            &RecordFacts<'_>,
            &mut Vec<u8>,
        ) -> Result<(EditOutcome, R)>,
    ) -> Result<WriteOutcome<R>>;

    /// Sets bins of a record. There are no results: the caller says of which type.
    #[inline]
    fn merge_at<R: Default>(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        bins: &Bins,
    ) -> Result<WriteOutcome<R>> {
        self.write(policy, key, digest, false, |old, _, body| {
            let count = merge(old, bins, body)?;
            Ok((EditOutcome::Body(count), R::default()))
        })
    }

    /// Changes a record by a closure.
    fn update_at<R>(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        digest: Digest,
        edit: impl FnOnce(&mut Bins) -> Result<R>,
    ) -> Result<WriteOutcome<R>> {
        self.write(policy, key, digest, false, |old, _, body| {
            let mut bins = old.map_or_else(|| Ok(Bins::new()), |view| view.to_bins())?;
            let result = edit(&mut bins)?;
            bins.iter()
                .try_for_each(|(_, value)| check_bin_value(value))?;
            let edited = match bins.write_body(body)? {
                0 => EditOutcome::Emptied,
                count => EditOutcome::Body(count as u32),
            };
            Ok((edited, result))
        })
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
            return self.read_results(policy, key, &digest, |entry| {
                operation.read(entry.payload())
            });
        }
        let checked = Checked::new(operations, Mode::of(policy.replaces()))?;
        if !checked.is_write() {
            return self.read_results(policy, key, &digest, |entry| {
                let record = RecordView::parse(entry.payload())?;
                if !checked.evaluates() {
                    return checked.read(record);
                }
                let base = self.base();
                let namespace = &base.core.namespace;
                let facts = namespace.facts(entry, &base.core.name, self.now_ms());
                checked.seeing(&facts).read(record)
            });
        }
        self.base().core.namespace.storage.prefetch(&digest);
        let must_exist = checked.must_exist();
        let wrote = self.write(policy, key, digest, must_exist, |old, facts, body| {
            let outcome = checked.seeing(facts).execute(old, body)?;
            Ok((EditOutcome::Body(outcome.bin_count), outcome.results))
        })?;
        Ok(wrote.into_result())
    }

    /// Lends what a read of a list or map returns to `show`, called once, unless a collection of the record is sharded.
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
        read: impl FnOnce(&EntryView<'_>) -> Result<OperationResults>,
    ) -> Result<OperateResult> {
        let filter = policy.filter.as_ref().or(self.base().filter.as_ref());
        let found = self.read_at(filter, key, digest, |entry| {
            Ok(OperateResult {
                generation: entry.generation(),
                record_bytes: record_bytes(entry.key(), entry.payload()),
                void_time: entry.void_time(),
                queued_behind: None,
                lsn: None,
                results: read(&entry)?,
            })
        })?;
        found.ok_or_else(|| self.base().about(key, Error::not_found()))
    }
}

impl WriteOutcome<OperationResults> {
    /// The outcome as callers get it.
    pub(in crate::engine) fn into_result(self) -> OperateResult {
        OperateResult {
            generation: self.generation,
            record_bytes: self.record_bytes,
            void_time: self.void_time,
            queued_behind: Some(self.queued_behind),
            lsn: self.lsn,
            results: self.results,
        }
    }
}

/// Lends what a read of a list or map returns to `show`, unless a collection of the record is sharded. After an error `show` was
/// not called.
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
