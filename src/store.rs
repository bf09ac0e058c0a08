//! `RecordStore`: the small interface on which everything above the engine is built.
//!
//! Sharding, relations and reports use only atomic operations on single records, guarded by a
//! filter or a generation. One algorithm is thus right in the embedded engine and in every other
//! store of records.

use std::ops::ControlFlow;
use std::sync::LazyLock;

mod indexed;

#[cfg(feature = "cluster")]
pub(crate) use indexed::without_key;
pub use indexed::{IndexQuery, IndexRange, IndexedRecordSet, KeyPage};

use crate::engine::{
    Acknowledge, HotRecord, Namespace, OperateResult, RecordCall, RelationGuard, Set, Store,
    Transaction, TransactionPolicy, TransactionSet, TransitionReport, UnshardedRead, WritePolicy,
};
use crate::error::if_there;
use crate::expression::Expression;
use crate::expressions::{and, bin_exists, not};
use crate::operation::{Operation, SingleRead, operations};
use crate::record::{Key, Record, SHARD_OF, SUBKEYS};
use crate::value::{ParticleType, Value, ValueRef, write_stored};
use crate::{Error, Result};

/// A store of records in sets.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::{RecordSet, RecordStore, Store, WritePolicy, operations};
///
/// // Runs on any store that does single-record operations: this one, or a cluster's client.
/// fn visit<S: RecordStore>(store: &S, page: &str) -> spikelet::Result<u16> {
///     let pages = store.records("pages")?;
///     let visit = [operations::add("visits", 1)];
///     Ok(pages.operate_on(&WritePolicy::default(), &page.into(), &visit)?.generation)
/// }
///
/// assert_eq!(visit(&Store::in_memory()?, "home")?, 1);
/// # Ok(())
/// # }
/// ```
pub trait RecordStore {
    /// The type of its sets.
    type Records: RecordSet;

    /// The store in which writes that belong together are made: a transaction of this one, or
    /// `Self` for a store without transactions.
    type Atomic<'a>: RecordStore;

    /// Returns the set with a name; the first write creates it.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an invalid name, [`Error::Namespace`] if there is no namespace to
    /// choose.
    fn records(&self, set: &str) -> Result<Self::Records>;

    /// Returns whether this is a transaction: all reads and writes take effect at one moment, or
    /// not at all. Default: false.
    fn is_transaction(&self) -> bool {
        false
    }

    /// Returns the relations that the store knows and guards: a plain write keeps their bins, and a
    /// delete obeys their rules. `None`, the default: it guards none.
    ///
    /// # Errors
    /// As for [`RecordStore::records`].
    fn relation_guard(&self) -> Result<Option<RelationGuard<'_>>> {
        Ok(None)
    }

    /// Makes these calls as one group, all or none, like [`Namespace::write_together`], with any
    /// number of records. `None`, the default: the store has no groups; an empty group asks.
    ///
    /// # Errors
    /// As for [`Namespace::write_together`].
    fn operate_together(
        &self,
        calls: &[(&Self::Records, RecordCall<'_>)],
    ) -> Option<Result<Vec<OperateResult>>> {
        let _ = calls;
        None
    }

    /// Makes writes to several records that belong together. A store with transactions makes all or
    /// none, and so does a transaction, which goes on without them. A store without transactions
    /// calls `make` with itself: a process that dies in between leaves only the first writes.
    /// `make` runs again if another writer interfered.
    ///
    /// # Errors
    /// The error of `make`.
    fn atomically<T>(&self, make: impl FnMut(&Self::Atomic<'_>) -> Result<T>) -> Result<T>;
}

/// A set of records with atomic operations on each record.
pub trait RecordSet {
    /// Executes several operations on one record, in order, atomically, under a policy: like
    /// [`Set::operate_with`].
    ///
    /// [`OperateResult::record_bytes`] must be the record's new size: policies by size
    /// ([`ShardPolicy::record_bytes_max`](crate::shard::ShardPolicy::record_bytes_max)) depend on
    /// it, as does the check whether a merged collection fits one record. If it is 0, a collection
    /// is sharded by size only after a write was refused as too large.
    ///
    /// # Errors
    /// As for [`Set::operate`].
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult>;

    /// Makes several such calls, in order and independently: one may fail while others succeed.
    /// Results come in the order of the calls. A [`Set`] prefetches the memory of all records.
    fn operate_on_each(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        calls
            .iter()
            .map(|call| self.operate_on(call.policy, &call.key, call.operations))
            .collect()
    }

    /// Returns the records of these keys in order, with the bins in `bins` that each has (`None`
    /// means all bins); `None` for a key without a record. One batch.
    ///
    /// # Errors
    /// Each record has its own result.
    fn read_each(&self, keys: &[Key<'_>], bins: Option<&[&str]>) -> Vec<Result<Option<Record>>> {
        let policy = WritePolicy::default();
        let reads = reads_of(bins);
        let calls: Vec<RecordCall<'_>> = keys
            .iter()
            .map(|key| RecordCall {
                policy: &policy,
                key: Key::from(key),
                operations: &reads,
            })
            .collect();
        let results = self.operate_on_each(&calls);
        let found = keys.iter().zip(results);
        found
            .map(|(key, result)| record_read(key, result))
            .collect()
    }

    /// Reads a list or map of each of these records with one operation, such as
    /// [`lists::get_by_value`](crate::operations::lists::get_by_value), and passes each result to
    /// `show`, with the position of its key, in the order of the keys. One batch; for a single key,
    /// one call of [`RecordSet::operate_on`].
    ///
    /// Reads of collections that may be sharded try this first: most are unsharded, and then cost
    /// one read of one record, without the handle. For a record with a sharded collection, `show`
    /// gets [`UnshardedRead::Sharded`]. A [`Set`] reads in place, so `show` must be short and must
    /// not call the store.
    ///
    /// # Errors
    /// Passed to `show`, for each record by itself.
    fn read_unsharded(
        &self,
        keys: &[Key<'_>],
        operation: &Operation,
        show: &mut dyn FnMut(usize, Result<UnshardedRead<'_>>),
    ) {
        read_filtered(self, keys, operation, show);
    }

    /// Passes every live record of the set to `each`, in no particular order, until `each` breaks.
    /// An unreadable record comes as an error in its place, and the scan continues unless `each`
    /// ends it.
    fn scan_each(&self, each: &mut dyn FnMut(Result<Record>) -> ControlFlow<()>);

    /// Passes every live, readable record of the set to `each`, in no particular order.
    ///
    /// # Errors
    /// If a record is unreadable: the first such error, after all other records were passed.
    fn scan_records(&self, each: &mut dyn FnMut(&Record)) -> Result<()> {
        let mut failed: Option<Error> = None;
        self.scan_each(&mut |record| {
            match record {
                Ok(record) => each(&record),
                Err(error) => failed = failed.take().or(Some(error)),
            }
            ControlFlow::Continue(())
        });
        failed.map_or(Ok(()), Err)
    }

    /// Returns the store's time, in milliseconds since 2010-01-01T00:00:00Z.
    fn now_ms(&self) -> u64;

    /// Returns the limit of a record in bytes; `None` if it is unknown.
    fn max_record_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns an error if the store refuses every delete by this policy. Callers ask before the
    /// first of several steps that end with a delete; the store remembers a policy that it takes.
    /// Default: deletes are taken.
    ///
    /// # Errors
    /// What such a delete fails with.
    fn check_deletes(&self, policy: &WritePolicy) -> Result<()> {
        let _ = policy;
        Ok(())
    }

    /// Returns whether a restart of the store may bring back a record that this policy deletes, as
    /// it was before the delete. A caller then closes the record by a write before it deletes it.
    /// Default: false.
    fn may_bring_back(&self, policy: &WritePolicy) -> bool {
        let _ = policy;
        false
    }

    /// Returns the number of roots that have lost the description of their shards since the store
    /// was opened, through writes with [`WritePolicy::override_shards`] or over the wire. A handle
    /// that remembers companions reads its root again when this number has changed. 0 if the store
    /// does not count.
    fn lost_roots(&self) -> u64 {
        0
    }

    /// Reports the progress of a transition of a sharded collection, for observers. Nothing depends
    /// on it. Default: ignored.
    fn note_transition(&self, report: &TransitionReport<'_>) {
        let _ = report;
    }

    /// Refuses to remove a bin as a whole that belongs to a relation; with `kind`, to make a
    /// collection of another type of it. Default: never.
    ///
    /// # Errors
    /// [`Error::OwnedBin`].
    fn check_owned(&self, bin: &str, kind: Option<ParticleType>) -> Result<()> {
        let _ = (bin, kind);
        Ok(())
    }

    /// Returns where a record comes in the order in which [`RecordStore::operate_together`] locks
    /// records. A large group with its calls in this order goes through memory once. Default: 0.
    fn group_position(&self, key: &Key<'_>) -> u64 {
        let _ = key;
        0
    }

    /// Returns the recent contention on this record; `None` if there was none or the store does not
    /// count.
    fn contention_on(&self, key: &Key<'_>) -> Option<HotRecord>;
}

/// The operations that read these bins of a record; `None`: all.
pub(crate) fn reads_of(bins: Option<&[&str]>) -> Vec<Operation> {
    match bins {
        None => vec![operations::get()],
        // A call needs an operation: this one reads a bin that no user's record has.
        Some([]) => vec![operations::get_bin(SHARD_OF)],
        Some(bins) => bins.iter().map(|bin| operations::get_bin(bin)).collect(),
    }
}

/// The record that such a call has read.
pub(crate) fn record_read(key: &Key<'_>, result: Result<OperateResult>) -> Result<Option<Record>> {
    if_there(result)?
        .map(|read| read.into_record(key))
        .transpose()
}

/// Passes only records without sharded collections that hold no shard. A static, so that it is
/// compiled once.
pub(crate) static NONE_SHARDED: LazyLock<Expression> =
    LazyLock::new(|| and([not(bin_exists(SUBKEYS)), not(bin_exists(SHARD_OF))]));

/// Reads a list or map of each of these records by filtered calls, and passes the results to
/// `show`.
fn read_filtered<R: RecordSet + ?Sized>(
    records: &R,
    keys: &[Key<'_>],
    operation: &Operation,
    show: &mut dyn FnMut(usize, Result<UnshardedRead<'_>>),
) {
    let operations = std::slice::from_ref(operation);
    let policy = WritePolicy::default().filter(NONE_SHARDED.clone());
    let results = match keys {
        [key] => vec![records.operate_on(&policy, key, operations)],
        keys => {
            let calls: Vec<RecordCall<'_>> = keys
                .iter()
                .map(|key| RecordCall {
                    policy: &policy,
                    key: Key::from(key),
                    operations,
                })
                .collect();
            records.operate_on_each(&calls)
        }
    };
    for (position, result) in results.into_iter().enumerate() {
        match result {
            Ok(result) => lend(result.value(0), |read| show(position, read)),
            Err(Error::NotFound { .. }) => show(position, Ok(UnshardedRead::NotFound)),
            Err(Error::FilteredOut { .. }) => show(position, Ok(UnshardedRead::Sharded)),
            Err(error) => show(position, Err(error)),
        }
    }
}

/// Passes a result to `show` in its stored form.
fn lend(result: Option<&Value>, show: impl FnOnce(Result<UnshardedRead<'_>>)) {
    let result = result.filter(|value| !matches!(value, Value::Nil));
    let Some(value) = result else {
        return show(Ok(UnshardedRead::Value(None)));
    };
    let mut stored = Vec::new();
    let value = write_stored(value, &mut stored)
        .and_then(|kind| ValueRef::stored(kind, &stored))
        .map_err(|source| Error::malformed("bin", source));
    show(value.map(|value| UnshardedRead::Value(Some(value))));
}

impl RecordStore for Store {
    type Records = Set;
    type Atomic<'a> = Transaction<'a>;

    fn records(&self, set: &str) -> Result<Set> {
        self.set(set)
    }

    fn relation_guard(&self) -> Result<Option<RelationGuard<'_>>> {
        Ok(Some(self.default_namespace()?.relation_guard()))
    }

    fn operate_together(
        &self,
        calls: &[(&Set, RecordCall<'_>)],
    ) -> Option<Result<Vec<OperateResult>>> {
        match self.default_namespace() {
            Ok(namespace) => namespace.operate_together(calls),
            Err(error) => Some(Err(error)),
        }
    }

    fn atomically<T>(&self, make: impl FnMut(&Transaction<'_>) -> Result<T>) -> Result<T> {
        self.default_namespace()?.transaction(make)
    }
}

impl RecordStore for Namespace {
    type Records = Set;
    type Atomic<'a> = Transaction<'a>;

    fn records(&self, set: &str) -> Result<Set> {
        self.set(set)
    }

    fn relation_guard(&self) -> Result<Option<RelationGuard<'_>>> {
        Ok(Some(Self::relation_guard(self)))
    }

    fn operate_together(
        &self,
        calls: &[(&Set, RecordCall<'_>)],
    ) -> Option<Result<Vec<OperateResult>>> {
        // Callers bound a group by the bytes of its records. It waits as long as the most impatient
        // of the calls.
        let policies = || calls.iter().map(|(_, call)| call.policy);
        let limit = policies().filter_map(|policy| policy.total_timeout).min();
        let mut policy = TransactionPolicy::default()
            .max_records(usize::MAX)
            .total_timeout(limit);
        let is_applied = |policy: &WritePolicy| policy.acknowledge == Acknowledge::Applied;
        if !calls.is_empty() && policies().all(is_applied) {
            policy = policy.acknowledge(Acknowledge::Applied);
        }
        Some(self.write_together_with(&policy, |group| group.operate_all(calls)))
    }

    fn atomically<T>(&self, make: impl FnMut(&Transaction<'_>) -> Result<T>) -> Result<T> {
        self.transaction(make)
    }
}

impl<'t> RecordStore for Transaction<'t> {
    type Records = TransactionSet<'t>;
    type Atomic<'a> = Self;

    fn records(&self, set: &str) -> Result<TransactionSet<'t>> {
        self.set(set)
    }

    fn is_transaction(&self) -> bool {
        true
    }

    fn relation_guard(&self) -> Result<Option<RelationGuard<'_>>> {
        Ok(Some(Self::relation_guard(self)))
    }

    fn atomically<T>(&self, mut make: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        self.all_or_none(|| make(self))
    }
}

impl<T: RecordStore> RecordStore for &T {
    type Records = T::Records;
    type Atomic<'a> = T::Atomic<'a>;

    fn records(&self, set: &str) -> Result<T::Records> {
        (**self).records(set)
    }

    fn is_transaction(&self) -> bool {
        (**self).is_transaction()
    }

    fn operate_together(
        &self,
        calls: &[(&Self::Records, RecordCall<'_>)],
    ) -> Option<Result<Vec<OperateResult>>> {
        (**self).operate_together(calls)
    }

    fn relation_guard(&self) -> Result<Option<RelationGuard<'_>>> {
        (**self).relation_guard()
    }

    fn atomically<R>(&self, make: impl FnMut(&T::Atomic<'_>) -> Result<R>) -> Result<R> {
        (**self).atomically(make)
    }
}

impl RecordSet for Set {
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        self.operate_with(policy, key, operations)
    }

    fn operate_on_each(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        self.operate_each(calls)
    }

    fn read_each(&self, keys: &[Key<'_>], bins: Option<&[&str]>) -> Vec<Result<Option<Record>>> {
        match bins {
            None => self.get_batch(keys),
            Some(bins) => self.get_batch_bins(keys, bins),
        }
    }

    fn read_unsharded(
        &self,
        keys: &[Key<'_>],
        operation: &Operation,
        show: &mut dyn FnMut(usize, Result<UnshardedRead<'_>>),
    ) {
        match SingleRead::of(std::slice::from_ref(operation)) {
            Some(operation) => self.read_each_unsharded(keys, operation, show),
            None => read_filtered(self, keys, operation, show),
        }
    }

    fn scan_each(&self, each: &mut dyn FnMut(Result<Record>) -> ControlFlow<()>) {
        // `each` knows why the scan ended.
        let _: ControlFlow<()> = self
            .with_companions()
            .scan(|scanned| each(scanned.and_then(|scanned| scanned.to_record())));
    }

    fn now_ms(&self) -> u64 {
        self.clock().now_ms()
    }

    fn max_record_bytes(&self) -> Option<u64> {
        Some(self.record_bytes_max())
    }

    fn check_deletes(&self, _: &WritePolicy) -> Result<()> {
        self.check_takes_deletes()
    }

    fn lost_roots(&self) -> u64 {
        self.lost_root_count()
    }

    fn note_transition(&self, report: &TransitionReport<'_>) {
        Self::note_transition(self, report);
    }

    fn check_owned(&self, bin: &str, kind: Option<ParticleType>) -> Result<()> {
        Self::check_owned(self, bin, kind)
    }

    fn group_position(&self, key: &Key<'_>) -> u64 {
        self.lock_position(key)
    }

    fn contention_on(&self, key: &Key<'_>) -> Option<HotRecord> {
        self.hot_record(key)
    }
}

/// Operations are part of the transaction. A scan is not: it sees committed records, at no
/// particular moment.
impl RecordSet for TransactionSet<'_> {
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        self.operate_with(policy, key, operations)
    }

    fn read_each(&self, keys: &[Key<'_>], bins: Option<&[&str]>) -> Vec<Result<Option<Record>>> {
        match bins {
            None => self.get_batch(keys),
            Some(bins) => keys.iter().map(|key| self.get_bins(key, bins)).collect(),
        }
    }

    fn scan_each(&self, each: &mut dyn FnMut(Result<Record>) -> ControlFlow<()>) {
        self.outside().scan_each(each);
    }

    fn now_ms(&self) -> u64 {
        self.time_ms()
    }

    fn max_record_bytes(&self) -> Option<u64> {
        Some(self.outside().record_bytes_max())
    }

    fn check_deletes(&self, _: &WritePolicy) -> Result<()> {
        self.check_takes_deletes()
    }

    fn lost_roots(&self) -> u64 {
        self.lost_root_count()
    }

    /// Passes refusals on at once, because their causes are outside the transaction. Its own
    /// transitions may never be committed, and are not noted.
    fn note_transition(&self, report: &TransitionReport<'_>) {
        if report.refused.is_some() {
            self.outside().note_transition(report);
        }
    }

    fn check_owned(&self, bin: &str, kind: Option<ParticleType>) -> Result<()> {
        self.outside().check_owned(bin, kind)
    }

    /// Always `None`: the transaction's versions are visible to itself only.
    fn contention_on(&self, _: &Key<'_>) -> Option<HotRecord> {
        None
    }
}
