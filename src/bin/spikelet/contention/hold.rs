//! Records that stay locked for a while after each write, as they would while a replica is waited
//! for.
//!
//! How it is done: beside each record there is another of the same key, its gate, in a namespace of
//! its own with the same `max_waiters`. A write is done while its writer holds the gate's lock, and
//! the writer keeps that for the rest of the hold. The gate's lock is an ordinary record lock, so
//! queue, order and KEY_BUSY are the engine's own. Nothing is ever stored in a gate. Without a hold
//! there are no gates, and until the row begins they stand open.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spikelet::storage::HotRecord;
use spikelet::{
    Key, OperateResult, Operation, Record, RecordCall, RecordSet, RecordStore, Result, Set,
    WritePolicy,
};

use super::schedule::Holds;

/// A set with writes that hold their record.
#[derive(Clone)]
pub(super) struct HoldingSet {
    records: Arc<dyn RecordSet + Send + Sync>,
    gates: Option<Arc<Gates>>,
}

struct Gates {
    locks: Set,
    closed: AtomicBool,
    holds: Mutex<Holds>,
    /// How many holds there were, and how long all of them took.
    count: AtomicU64,
    sum_ns: AtomicU64,
}

impl HoldingSet {
    /// Wraps a set. `gates`: a set in a namespace of its own, and how long each write holds;
    /// `None`: no longer than the write takes.
    pub(super) fn new(
        records: impl RecordSet + Send + Sync + 'static,
        gates: Option<(Set, Holds)>,
    ) -> Self {
        let gates = gates.map(|(locks, holds)| Gates {
            locks,
            closed: AtomicBool::new(false),
            holds: Mutex::new(holds),
            count: AtomicU64::new(0),
            sum_ns: AtomicU64::new(0),
        });
        Self {
            records: Arc::new(records),
            gates: gates.map(Arc::new),
        }
    }

    /// Returns the records behind the gates.
    pub(super) fn records(&self) -> &dyn RecordSet {
        &*self.records
    }

    /// Makes writes hold their records from now on.
    pub(super) fn begin(&self) {
        if let Some(gates) = &self.gates {
            gates.closed.store(true, Ordering::Relaxed);
        }
    }

    /// Returns how long records were held on average, in nanoseconds; `None` if none was.
    pub(super) fn mean_hold_ns(&self) -> Option<f64> {
        let gates = self.gates.as_ref()?;
        let count = gates.count.load(Ordering::Relaxed);
        (count > 0).then(|| gates.sum_ns.load(Ordering::Relaxed) as f64 / count as f64)
    }
}

impl Gates {
    fn hold<R>(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        write: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let patience = WritePolicy::default().total_timeout(policy.total_timeout);
        self.locks
            .update_with(&patience, key.clone(), |_| {
                let begun = Instant::now();
                let wrote = write();
                let hold = Duration::from_nanos(self.holds.lock().draw_ns());
                std::thread::sleep(hold.saturating_sub(begun.elapsed()));
                let held = begun.elapsed().as_nanos() as u64;
                self.count.fetch_add(1, Ordering::Relaxed);
                self.sum_ns.fetch_add(held, Ordering::Relaxed);
                Ok(wrote)
            })
            .flatten()
    }
}

impl RecordSet for HoldingSet {
    fn operate_on(
        &self,
        policy: &WritePolicy,
        key: &Key<'_>,
        operations: &[Operation],
    ) -> Result<OperateResult> {
        let write = || self.records.operate_on(policy, key, operations);
        match &self.gates {
            Some(gates)
                if gates.closed.load(Ordering::Relaxed)
                    && operations.iter().any(Operation::is_write) =>
            {
                gates.hold(policy, key, write)
            }
            _ => write(),
        }
    }

    fn operate_on_each(&self, calls: &[RecordCall<'_>]) -> Vec<Result<OperateResult>> {
        if self.gates.is_none() {
            return self.records.operate_on_each(calls);
        }
        let one = |call: &RecordCall<'_>| self.operate_on(call.policy, &call.key, call.operations);
        calls.iter().map(one).collect()
    }

    fn scan_each(&self, each: &mut dyn FnMut(Result<Record>) -> ControlFlow<()>) {
        self.records.scan_each(each);
    }

    fn now_ms(&self) -> u64 {
        self.records.now_ms()
    }

    fn max_record_bytes(&self) -> Option<u64> {
        self.records.max_record_bytes()
    }

    fn lost_roots(&self) -> u64 {
        self.records.lost_roots()
    }

    fn contention_on(&self, key: &Key<'_>) -> Option<HotRecord> {
        match &self.gates {
            Some(gates) => gates.locks.contention_on(key),
            None => self.records.contention_on(key),
        }
    }
}

/// A store of one set, for code written against [`RecordStore`].
impl RecordStore for HoldingSet {
    type Records = Self;
    type Atomic<'a> = Self;

    fn records(&self, _set: &str) -> Result<Self> {
        Ok(self.clone())
    }

    fn atomically<T>(&self, mut make: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        make(self)
    }
}
