//! A store that counts its record operations, and which may die after some of them, or be used by
//! another writer then. It has no transactions.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spikelet::query::IndexDefinition;
use spikelet::storage::HotRecord;
use spikelet::{
    Error, IndexQuery, IndexedRecordSet, Key, KeyPage, OperateResult, Operation, Record,
    RecordCall, RecordSet, RecordStore, Result, Set, Store, WritePolicy,
};

/// The calls that a store received.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Mutex<Counts>>, Arc<Mutex<Other>>);

/// Another writer, and how many operations it lets pass before it comes.
#[derive(Default)]
struct Other(Option<(usize, Box<dyn FnOnce() + Send>)>);

impl fmt::Debug for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Other").field(&self.0.is_some()).finish()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Operations on one record that did not come in a batch.
    pub single: usize,
    /// Batches received.
    pub batches: usize,
    /// Operations that are answered still; `None`: all.
    left: Option<usize>,
}

impl Calls {
    /// Returns the calls since the last time: operations on single records, and batches.
    pub fn take(&self) -> (usize, usize) {
        let mut counts = self.0.lock().unwrap();
        let taken = (counts.single, counts.batches);
        (counts.single, counts.batches) = (0, 0);
        taken
    }

    /// Answers `operations` more operations, then fails.
    pub fn die_after(&self, operations: usize) {
        self.0.lock().unwrap().left = Some(operations);
    }

    /// Has another writer come after this number of operations.
    pub fn interrupt(&self, after: usize, other: impl FnOnce() + Send + 'static) {
        self.1.lock().unwrap().0 = Some((after, Box::new(other)));
    }

    fn let_other_write(&self) {
        let mut waiting = self.1.lock().unwrap();
        if let Some((left @ 1.., _)) = &mut waiting.0 {
            *left -= 1;
        } else if let Some((_, other)) = waiting.0.take() {
            drop(waiting);
            other();
        }
    }

    fn spend(&self) -> Result<()> {
        self.let_other_write();
        let mut counts = self.0.lock().unwrap();
        if let Some(left) = &mut counts.left {
            *left = left.checked_sub(1).ok_or(Error::Timeout {
                after: Duration::ZERO,
                in_doubt: false,
                record: None,
            })?;
        }
        Ok(())
    }
}

/// A store, or a set of it.
#[derive(Clone, Debug)]
pub struct Watched<T> {
    inner: T,
    calls: Calls,
    has_indexes: bool,
}

impl Watched<Store> {
    pub fn new(store: &Store, calls: &Calls) -> Self {
        Self {
            inner: store.clone(),
            calls: calls.clone(),
            has_indexes: true,
        }
    }

    /// Without ordered indexes, as a cluster is.
    pub fn without_indexes(store: &Store, calls: &Calls) -> Self {
        Self {
            has_indexes: false,
            ..Self::new(store, calls)
        }
    }
}

impl RecordStore for Watched<Store> {
    type Records = Watched<Set>;
    type Atomic<'a> = Self;

    fn records(&self, set: &str) -> Result<Watched<Set>> {
        Ok(Watched {
            inner: self.inner.set(set)?,
            calls: self.calls.clone(),
            has_indexes: self.has_indexes,
        })
    }

    fn atomically<T>(&self, mut make: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        make(self)
    }
}

impl RecordSet for Watched<Set> {
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        self.calls.spend()?;
        self.calls.0.lock().unwrap().single += 1;
        self.inner.operate_on(policy, key, operations)
    }

    fn operate_on_each(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        self.calls.0.lock().unwrap().batches += 1;
        let each = calls.iter().map(|call| {
            self.calls.spend()?;
            self.inner
                .operate_on(call.policy, &call.key, call.operations)
        });
        each.collect()
    }

    fn read_each(&self, keys: &[Key<'_>], bins: Option<&[&str]>) -> Vec<Result<Option<Record>>> {
        self.calls.0.lock().unwrap().batches += 1;
        match self.calls.spend() {
            Ok(()) => self.inner.read_each(keys, bins),
            Err(_) => keys
                .iter()
                .map(|_| self.calls.spend().map(|()| None))
                .collect(),
        }
    }

    fn scan_each(&self, each: &mut dyn FnMut(Result<Record>) -> ControlFlow<()>) {
        self.inner.scan_each(each);
    }

    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    fn max_record_bytes(&self) -> Option<u64> {
        self.inner.max_record_bytes()
    }

    fn contention_on(&self, key: &Key<'_>) -> Option<HotRecord> {
        self.inner.contention_on(key)
    }
}

/// A query counts as a batch.
impl IndexedRecordSet for Watched<Set> {
    fn has_ordered_indexes(&self) -> bool {
        self.has_indexes
    }

    fn ensure_index(&self, definition: IndexDefinition) -> Result<()> {
        assert!(self.has_indexes);
        self.inner.ensure_index(definition)
    }

    fn query_keys(&self, query: &IndexQuery<'_>) -> Result<KeyPage> {
        assert!(self.has_indexes);
        self.calls.0.lock().unwrap().batches += 1;
        self.calls.spend()?;
        self.inner.query_keys(query)
    }
}
