//! A store that notes its calls, and may fail after some of them, or be used by another writer
//! then.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spikelet::storage::HotRecord;
use spikelet::{
    Error, Key, OperateResult, Operation, Record, RecordSet, RecordStore, Result, Set, Store,
    WritePolicy,
};

/// The keys of the records that were operated on.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Mutex<Noted>>, Arc<Mutex<Other>>);

/// Another writer, and how many calls it lets pass before it comes.
#[derive(Default)]
struct Other(Option<(usize, Box<dyn FnOnce() + Send>)>);

impl fmt::Debug for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Other").field(&self.0.is_some()).finish()
    }
}

#[derive(Debug, Default)]
struct Noted {
    keys: Vec<String>,
    /// How many operations each of the calls had.
    operations: Vec<usize>,
    /// So many are answered still; none: all.
    left: Option<usize>,
    /// Whether a restart may bring back deleted records.
    may_bring_back: bool,
}

impl Calls {
    /// Returns the calls since the last time.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().keys)
    }

    /// How many operations each call had since the last time.
    pub fn take_operations(&self) -> Vec<usize> {
        std::mem::take(&mut self.0.lock().unwrap().operations)
    }

    /// Answers `limit` more calls, then fails.
    pub fn only(&self, limit: usize) {
        self.0.lock().unwrap().left = Some(limit);
    }

    /// From now on a restart may bring back deleted records, as on a cluster without durable
    /// deletes.
    pub fn bring_back(&self) {
        self.0.lock().unwrap().may_bring_back = true;
    }

    /// Has another writer come after this number of calls.
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

    fn note(&self, key: &Key<'_>, operations: usize) -> Result<()> {
        self.let_other_write();
        let mut noted = self.0.lock().unwrap();
        if let Some(left) = &mut noted.left {
            *left = left.checked_sub(1).ok_or(Error::Timeout {
                after: Duration::ZERO,
                in_doubt: false,
                record: None,
            })?;
        }
        noted.operations.push(operations);
        noted.keys.push(match key {
            Key::String(text) => text.to_string(),
            key => format!("{key:?}"),
        });
        Ok(())
    }
}

/// A store, or a set of it.
#[derive(Debug)]
pub struct Watched<T> {
    inner: T,
    calls: Calls,
}

impl<T> Watched<T> {
    pub fn new(inner: T, calls: &Calls) -> Self {
        let calls = calls.clone();
        Self { inner, calls }
    }

    pub fn into_inner(self) -> T {
        self.inner
    }
}

impl RecordStore for Watched<Store> {
    type Records = Watched<Set>;
    type Atomic<'a> = Self;

    fn records(&self, set: &str) -> Result<Watched<Set>> {
        Ok(Watched::new(self.inner.records(set)?, &self.calls))
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
        self.calls.note(key, operations.len())?;
        self.inner.operate_on(policy, key, operations)
    }

    fn scan_each(&self, each: &mut dyn FnMut(Result<Record>) -> ControlFlow<()>) {
        self.inner.scan_each(each);
    }

    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    fn may_bring_back(&self, _: &WritePolicy) -> bool {
        self.calls.0.lock().unwrap().may_bring_back
    }

    fn contention_on(&self, key: &Key<'_>) -> Option<HotRecord> {
        self.inner.contention_on(key)
    }
}
