//! `RecordStore`: the few calls that everything above the engine is written against.
//!
//! What is built on it (sharding, relations, reports) uses atomic operations on single records alone, guarded by a filter
//! or a generation, so that the one algorithm is right in the embedded engine and wherever else records can be kept.

use std::ops::{Bound, ControlFlow};
use std::sync::LazyLock;

use crate::engine::{
    HotRecord, Namespace, OperateResult, RecordCall, Set, Store, Transaction, TransactionSet,
    TransitionReport, UnshardedRead, WritePolicy,
};
use crate::expression::Expression;
use crate::expressions::{and, bin_exists, not};
use crate::index::IndexDefinition;
use crate::operation::{Operation, SingleRead, operations};
use crate::record::{Key, Record, SHARD_OF, SUBKEYS};
use crate::value::{Value, ValueRef, write_stored};
use crate::{Error, Result};

/// A place that keeps records in sets.
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
    /// A set of it.
    type Records: RecordSet;

    /// The set of this name; it comes to be with the first write.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a name that is not allowed, [`Error::Namespace`] if there is no namespace to choose.
    fn records(&self, set: &str) -> Result<Self::Records>;

    /// Returns whether this is a transaction: what is read of it is of one moment, and what is written takes place at that
    /// moment, or not at all. Default: it is none.
    fn is_transaction(&self) -> bool {
        false
    }

    /// Makes these calls as one group, all of them or none: as [`Namespace::write_together`]. `None`, the default: the store
    /// has no such groups.
    ///
    /// # Errors
    /// Those of [`Namespace::write_together`].
    fn operate_together(
        &self,
        calls: &[(&Self::Records, RecordCall<'_>)],
    ) -> Option<Result<Vec<OperateResult>>> {
        let _ = calls;
        None
    }

    /// Makes writes to several records that belong together. A store with transactions makes all of them or none; this
    /// default makes them in their order, and a process that dies in between leaves the first of them.
    ///
    /// # Errors
    /// What [`AtomicWrites::make`] returns.
    fn atomically<W: AtomicWrites>(&self, writes: &W) -> Result<W::Output>
    where
        Self: Sized,
    {
        writes.make(self)
    }
}

/// Writes to several records that belong together: what [`RecordStore::atomically`] makes.
pub trait AtomicWrites {
    /// What they return.
    type Output;

    /// Makes them in a store, or in a transaction of it. It may be called again, if another writer came between.
    ///
    /// # Errors
    /// The first one ends it.
    fn make<S: RecordStore>(&self, store: &S) -> Result<Self::Output>;
}

/// A set of records, each of which can be operated on atomically.
pub trait RecordSet {
    /// Does several operations on one record, in order, atomically, by a policy: as [`Set::operate_with`].
    ///
    /// [`OperateResult::record_bytes`] must say what the record takes then: policies by size
    /// ([`ShardPolicy::record_bytes_max`](crate::shard::ShardPolicy::record_bytes_max)), and whether one record can hold what
    /// is to be brought together, are judged by it alone. Where it is 0, a collection is sharded for its size only once a
    /// write was refused as too large.
    ///
    /// # Errors
    /// As for [`Set::operate`].
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult>;

    /// Makes several such calls, one after the other and each for itself: one may fail while others succeed. The results
    /// come in the order of the calls. A [`Set`] has the memory of all records fetched ahead.
    fn operate_on_each(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        calls
            .iter()
            .map(|call| self.operate_on(call.policy, &call.key, call.operations))
            .collect()
    }

    /// Returns the records of these keys, in their order, each with those of `bins` that it has (`None`: with all bins);
    /// `None` for a key without a record. One batch.
    ///
    /// # Errors
    /// Each record has its own.
    fn read_each(&self, keys: &[Key<'_>], bins: Option<&[&str]>) -> Vec<Result<Option<Record>>> {
        let policy = WritePolicy::default();
        let reads: Vec<Operation> = match bins {
            None => vec![operations::get()],
            // A call needs an operation: users' records have no such bin.
            Some([]) => vec![operations::get_bin(SHARD_OF)],
            Some(bins) => bins.iter().map(|bin| operations::get_bin(bin)).collect(),
        };
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
            .map(|(key, result)| match result {
                Ok(read) => read.into_record(key).map(Some),
                Err(Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            })
            .collect()
    }

    /// Reads a list or map of each of these records by one operation, such as
    /// [`lists::get_by_value`](crate::operations::lists::get_by_value), and lends what it returned to `show`, with the position
    /// of the key, in the order of the keys. One batch; one call of [`RecordSet::operate_on`] for a single key.
    ///
    /// A collection that may be sharded is read by this first: most are not, and cost one read of one record then, without
    /// the handle. Where a collection of the record is sharded, `show` gets [`UnshardedRead::Sharded`]. A [`Set`] reads in
    /// place, so keep `show` short, and call nothing of the store in it.
    ///
    /// # Errors
    /// Passed to `show`: each record has its own.
    fn read_unsharded(
        &self,
        keys: &[Key<'_>],
        operation: &Operation,
        show: &mut dyn FnMut(usize, Result<UnshardedRead<'_>>),
    ) {
        read_filtered(self, keys, operation, show);
    }

    /// Shows every live record of the set to `each`, in no particular order, until `each` breaks off. A record that cannot
    /// be read comes as an error in its place, and the scan goes on with the others unless `each` ends it.
    fn scan_each(&self, each: &mut dyn FnMut(Result<Record>) -> ControlFlow<()>);

    /// Shows every live record of the set that can be read to `each`, in no particular order.
    ///
    /// # Errors
    /// If a record cannot be read: the first such error, after all others have been shown.
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

    /// The store's time, in milliseconds since 2010-01-01T00:00:00Z.
    fn now_ms(&self) -> u64;

    /// What one record may take at most, in bytes; `None` where that is not known.
    fn max_record_bytes(&self) -> Option<u64> {
        None
    }

    /// How many roots have lost the description of their shards, since the store was opened, to writes that were allowed to
    /// ([`WritePolicy::override_shards`]) or came over the wire. A handle that remembers where companions are looks at its
    /// root again when this has changed. 0 where nobody counts.
    fn lost_roots(&self) -> u64 {
        0
    }

    /// Takes note of how far a transition of a sharded collection has come, for those who watch the store. Nothing depends on
    /// it. Default: nobody watches.
    fn note_transition(&self, report: &TransitionReport<'_>) {
        let _ = report;
    }

    /// How hard writers have fought over this record of late; `None` where nobody keeps count, or nobody fought.
    fn contention_on(&self, key: &Key<'_>) -> Option<HotRecord>;
}

/// The filter of a record none of whose collections is sharded, and which holds no shard: made once, since it is compiled once.
pub(crate) static NONE_SHARDED: LazyLock<Expression> =
    LazyLock::new(|| and([not(bin_exists(SUBKEYS)), not(bin_exists(SHARD_OF))]));

/// Reads a list or map of each of these records by calls with a filter, and lends what they returned to `show`.
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

/// Lends a result to `show` in its stored form.
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

/// A set whose records are found by secondary indexes.
pub trait IndexedRecordSet: RecordSet {
    /// Declares an index of the set and waits until it is complete. Does nothing if there is the same one.
    ///
    /// # Errors
    /// [`Error::IndexExists`] if there is another one of this name; those of [`Set::create_index`].
    fn ensure_index(&self, definition: IndexDefinition) -> Result<()>;

    /// Returns the keys of the records that an index leads to, a page of them in the order of the index.
    ///
    /// # Errors
    /// [`Error::IndexNotFound`]; [`Error::Parameter`] for a record without a stored key, and for a cursor of another query.
    fn query_keys(&self, query: &IndexQuery<'_>) -> Result<KeyPage>;
}

/// What is asked of a secondary index.
#[derive(Clone, Copy, Debug)]
pub struct IndexQuery<'a> {
    /// The name of the index.
    pub index: &'a str,
    /// What the first components are equal to.
    pub equal: &'a [Value],
    /// What the next component is to be.
    pub range: IndexRange<'a>,
    /// How many keys at most.
    pub limit: usize,
    /// The cursor of the page before; `None`: the first page.
    pub after: Option<&'a str>,
}

/// What is asked of the component of an index behind those that have one value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum IndexRange<'a> {
    /// Nothing.
    #[default]
    Any,
    /// To lie between two bounds of one type.
    Between(Bound<&'a Value>, Bound<&'a Value>),
    /// To begin with this text, or these bytes.
    BeginsWith(&'a Value),
}

/// Keys that a secondary index has led to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyPage {
    /// The keys, in the order of the index.
    pub keys: Vec<Key<'static>>,
    /// The cursor of the next page; `None`: there is none.
    pub cursor: Option<String>,
}

impl IndexedRecordSet for Set {
    fn ensure_index(&self, definition: IndexDefinition) -> Result<()> {
        self.create_index(definition)
    }

    fn query_keys(&self, query: &IndexQuery<'_>) -> Result<KeyPage> {
        let mut asked = self.query(query.index)?.limit(query.limit);
        for value in query.equal {
            asked = asked.eq(value.clone());
        }
        asked = match query.range {
            IndexRange::Any => asked,
            IndexRange::Between(from, to) => asked.range((from.cloned(), to.cloned())),
            IndexRange::BeginsWith(prefix) => asked.begins_with(prefix.clone()),
        };
        if let Some(cursor) = query.after {
            asked = asked.after(&cursor.parse()?);
        }
        let page = asked.keys()?;
        let cursor = page.cursor().map(ToString::to_string);
        let keys = page.into_iter().map(|found| {
            let found = found?;
            found.key.ok_or_else(|| {
                Error::parameter(format!(
                    "the record of digest {} has no stored key, so it cannot be addressed: write it with WritePolicy::send_key",
                    found.digest
                ))
            })
        });
        Ok(KeyPage {
            keys: keys.collect::<Result<_>>()?,
            cursor,
        })
    }
}

impl RecordStore for Store {
    type Records = Set;

    fn records(&self, set: &str) -> Result<Set> {
        self.set(set)
    }

    fn operate_together(
        &self,
        calls: &[(&Set, RecordCall<'_>)],
    ) -> Option<Result<Vec<OperateResult>>> {
        Some(self.write_together(|group| group.operate_all(calls)))
    }

    fn atomically<W: AtomicWrites>(&self, writes: &W) -> Result<W::Output> {
        self.transaction(|transaction| writes.make(transaction))
    }
}

impl RecordStore for Namespace {
    type Records = Set;

    fn records(&self, set: &str) -> Result<Set> {
        self.set(set)
    }

    fn operate_together(
        &self,
        calls: &[(&Set, RecordCall<'_>)],
    ) -> Option<Result<Vec<OperateResult>>> {
        Some(self.write_together(|group| group.operate_all(calls)))
    }

    fn atomically<W: AtomicWrites>(&self, writes: &W) -> Result<W::Output> {
        self.transaction(|transaction| writes.make(transaction))
    }
}

impl<'t> RecordStore for Transaction<'t> {
    type Records = TransactionSet<'t>;

    fn records(&self, set: &str) -> Result<TransactionSet<'t>> {
        self.set(set)
    }

    fn is_transaction(&self) -> bool {
        true
    }
}

impl<T: RecordStore> RecordStore for &T {
    type Records = T::Records;

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

    fn atomically<W: AtomicWrites>(&self, writes: &W) -> Result<W::Output> {
        (**self).atomically(writes)
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
        // Why it ended is known to `each`.
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

    fn lost_roots(&self) -> u64 {
        self.lost_root_count()
    }

    fn note_transition(&self, report: &TransitionReport<'_>) {
        Self::note_transition(self, report);
    }

    fn contention_on(&self, key: &Key<'_>) -> Option<HotRecord> {
        self.hot_record(key)
    }
}

/// A query is no part of the transaction: it sees what is committed.
impl IndexedRecordSet for TransactionSet<'_> {
    fn ensure_index(&self, definition: IndexDefinition) -> Result<()> {
        self.outside().ensure_index(definition)
    }

    fn query_keys(&self, query: &IndexQuery<'_>) -> Result<KeyPage> {
        self.outside().query_keys(query)
    }
}

/// Operations are part of the transaction; a scan is not: it sees what is committed, at no particular moment.
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

    fn lost_roots(&self) -> u64 {
        self.lost_root_count()
    }

    /// What the transaction changes may never be; what keeps it from a change is as it is.
    fn note_transition(&self, report: &TransitionReport<'_>) {
        if report.refused.is_some() {
            self.outside().note_transition(report);
        }
    }

    /// Nobody fights over what only the transaction sees.
    fn contention_on(&self, _: &Key<'_>) -> Option<HotRecord> {
        None
    }
}
