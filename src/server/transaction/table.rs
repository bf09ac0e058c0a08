//! The transactions of a namespace, their writes, and their end.
//!
//! A transaction is known by the digest of its monitor. While it is open, one request at a time
//! holds its state. Lock order: the state first, then the table; a thread that holds the table must
//! not wait for a state.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::counters::TransactionCounters;
use crate::engine::Provisional;
use crate::server::counters::Pairs;
use crate::server::result_code;
use crate::{Digest, Namespace};

/// How long a transaction may take if its client does not say, and the longest that a client may
/// say: Aerospike's.
pub(crate) const DEFAULT_DURATION: Duration = Duration::from_secs(10);
pub(crate) const MAX_DURATION: Duration = Duration::from_secs(120);

/// How many records a transaction writes at most: Aerospike's limit.
pub(crate) const MAX_RECORDS: usize = 4096;

/// The memory of all provisional versions of a namespace.
const MAX_BYTES: usize = 256 << 20;

/// The memory of a transaction besides its writes, in bytes, about.
const TRANSACTION_BYTES: usize = 512;

/// How many transactions are remembered that have ended, and for how long: clients may still ask
/// for them.
const MAX_ENDED: usize = 65_536;
const ENDED_LIFE: Duration = MAX_DURATION;

/// How a transaction ended without a commit. A commit is not listed: its monitor in the store shows
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionEnd {
    /// It was rolled back by the server.
    Aborted,
    /// Its client has deleted the monitor.
    Closed,
}

/// The transactions of a namespace.
pub(crate) struct Transactions {
    namespace: Namespace,
    table: Mutex<TransactionTable>,
    /// The bytes of all provisional versions and of the open transactions.
    bytes: AtomicUsize,
    /// How many records open transactions have written.
    records: AtomicUsize,
    pub(crate) counters: TransactionCounters,
}

#[derive(Default)]
struct TransactionTable {
    open: HashMap<Digest, Arc<OpenTransaction>>,
    ended: HashMap<Digest, TransactionEnd>,
    /// When each ended transaction is forgotten, in the order of their ends.
    forgotten: VecDeque<(u64, Digest)>,
}

/// A transaction that is neither committed nor rolled back.
pub(crate) struct OpenTransaction {
    /// The digest of its monitor.
    pub(crate) monitor: Digest,
    /// When it is rolled back, in milliseconds since 2010.
    deadline_ms: u64,
    state: Mutex<TransactionState>,
}

/// The writes of a transaction.
pub(crate) struct TransactionState {
    /// False if the transaction ended while a thread waited for this lock.
    is_open: bool,
    pub(crate) monitor: Provisional,
    writes: BTreeMap<Digest, Provisional>,
}

impl OpenTransaction {
    /// Whether the deadline has passed. A deadline further away than `MAX_DURATION` is from before
    /// the clock was set back, and counts as passed.
    fn is_over(&self, now_ms: u64) -> bool {
        self.deadline_ms < now_ms || self.deadline_ms - now_ms > MAX_DURATION.as_millis() as u64
    }

    /// When it is rolled back, in seconds since 2010.
    pub(crate) fn deadline(&self) -> u32 {
        u32::try_from(self.deadline_ms.div_ceil(1000)).unwrap_or(u32::MAX)
    }
}

impl TransactionState {
    /// Returns the transaction's version of a record, if it has written the record.
    pub(crate) fn write_of(&self, digest: &Digest) -> Option<&Provisional> {
        self.writes.get(digest)
    }

    /// Returns all writes of the transaction, and this monitor, in the order of their digests.
    pub(crate) fn all_with<'s>(
        &'s self,
        digest: Digest,
        monitor: &'s Provisional,
    ) -> Vec<(Digest, &'s Provisional)> {
        let writes = self.writes.iter().map(|(digest, write)| (*digest, write));
        let mut all: Vec<_> = writes.chain([(digest, monitor)]).collect();
        all.sort_unstable_by_key(|(digest, _)| *digest);
        all
    }
}

impl Transactions {
    pub(crate) fn new(namespace: Namespace) -> Self {
        Self {
            namespace,
            table: Mutex::default(),
            bytes: AtomicUsize::new(0),
            records: AtomicUsize::new(0),
            counters: TransactionCounters::default(),
        }
    }

    /// Lends an open transaction and its writes. It is rolled back first if its deadline has
    /// passed.
    ///
    /// # Errors
    /// How the transaction has ended; `None`: it has never begun, or was committed, or has ended
    /// long ago or before the server was started.
    pub(crate) fn with_open<R>(
        &self,
        monitor: &Digest,
        lend: impl FnOnce(&OpenTransaction, &mut TransactionState) -> R,
    ) -> Result<R, Option<TransactionEnd>> {
        loop {
            let (open, ended) = {
                let table = self.table.lock();
                let open = table.open.get(monitor).map(Arc::clone);
                // Under one hold of the table: a transaction that ends is always in one of the two.
                (open, table.ended.get(monitor).copied())
            };
            let open = open.ok_or(ended)?;
            let mut state = open.state.lock();
            if open.is_over(self.namespace.now_ms()) {
                self.expire(&open, Some(state));
            } else if state.is_open {
                return Ok(lend(&open, &mut state));
            }
            // It has ended, perhaps while its state was waited for: the table knows how.
        }
    }

    /// Begins a transaction with its monitor.
    ///
    /// # Errors
    /// Code 127 if another request has begun it, 18 if there is no memory for it.
    pub(crate) fn begin(
        &self,
        monitor: Digest,
        deadline_ms: u64,
        content: Provisional,
    ) -> Result<(), u8> {
        let bytes = TRANSACTION_BYTES + content.bytes();
        let mut table = self.table.lock();
        let Entry::Vacant(free) = table.open.entry(monitor) else {
            return Err(result_code::MRT_MONITOR_EXISTS);
        };
        self.take(0, bytes)?;
        free.insert(Arc::new(OpenTransaction {
            monitor,
            deadline_ms,
            state: Mutex::new(TransactionState {
                is_open: true,
                monitor: content,
                writes: BTreeMap::new(),
            }),
        }));
        Ok(())
    }

    /// Replaces `before` bytes by `bytes`, unless the sum over all transactions would exceed the
    /// limit.
    fn take(&self, before: usize, bytes: usize) -> Result<(), u8> {
        let more = bytes.saturating_sub(before);
        if more == 0 {
            self.bytes.fetch_sub(before - bytes, Ordering::Relaxed);
            return Ok(());
        }
        let taken = self.bytes.fetch_add(more, Ordering::Relaxed);
        if taken + more > MAX_BYTES {
            self.bytes.fetch_sub(more, Ordering::Relaxed);
            return Err(result_code::OVERLOAD);
        }
        Ok(())
    }

    /// Replaces the monitor's content.
    ///
    /// # Errors
    /// Code 18 if there is no memory for it.
    pub(crate) fn keep_monitor(
        &self,
        state: &mut TransactionState,
        monitor: Provisional,
    ) -> Result<(), u8> {
        self.take(state.monitor.bytes(), monitor.bytes())?;
        state.monitor = monitor;
        Ok(())
    }

    /// Keeps a transaction's version of a record. The record is locked already.
    ///
    /// # Errors
    /// Code 123 for too many records, 18 if there is no memory for it. The record is as before
    /// then.
    pub(crate) fn keep(
        &self,
        (transaction, state): (&OpenTransaction, &mut TransactionState),
        digest: Digest,
        write: Provisional,
    ) -> Result<(), u8> {
        let known = state.writes.get(&digest);
        let is_new = known.is_none();
        let (before, bytes) = (known.map_or(0, Provisional::bytes), write.bytes());
        let taken = if is_new && state.writes.len() >= MAX_RECORDS {
            Err(result_code::MRT_TOO_MANY_WRITES)
        } else {
            self.take(before, bytes)
        };
        if let Err(code) = taken {
            if is_new {
                self.namespace
                    .unlock_provisionals(&transaction.monitor, [digest].iter());
            }
            return Err(code);
        }
        state.writes.insert(digest, write);
        self.records
            .fetch_add(usize::from(is_new), Ordering::Relaxed);
        Ok(())
    }

    /// Forgets a transaction's version of a record, and unlocks the record.
    pub(crate) fn roll_back(
        &self,
        (transaction, state): (&OpenTransaction, &mut TransactionState),
        digest: &Digest,
    ) {
        if let Some(write) = state.writes.remove(digest) {
            self.bytes.fetch_sub(write.bytes(), Ordering::Relaxed);
            self.records.fetch_sub(1, Ordering::Relaxed);
            self.namespace
                .unlock_provisionals(&transaction.monitor, [*digest].iter());
        }
    }

    /// Ends a transaction: unlocks its records and forgets its writes. Notes `end`, which is `None`
    /// after a commit and when the server ends.
    pub(crate) fn end(
        &self,
        transaction: &OpenTransaction,
        state: &mut TransactionState,
        end: Option<TransactionEnd>,
    ) {
        state.is_open = false;
        let writes = std::mem::take(&mut state.writes);
        self.namespace
            .unlock_provisionals(&transaction.monitor, writes.keys());
        let bytes = writes.values().map(Provisional::bytes).sum::<usize>();
        let bytes = TRANSACTION_BYTES + state.monitor.bytes() + bytes;
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.records.fetch_sub(writes.len(), Ordering::Relaxed);
        // Before the state is let go: a request that has waited for it looks into the table next.
        let mut table = self.table.lock();
        table.open.remove(&transaction.monitor);
        if let Some(end) = end {
            table.note_end(transaction.monitor, end, self.namespace.now_ms());
        }
    }

    /// Notes that a transaction which is not open has ended.
    pub(crate) fn note_closed(&self, monitor: Digest) {
        let mut table = self.table.lock();
        table.note_end(monitor, TransactionEnd::Closed, self.namespace.now_ms());
    }

    /// Whether a transaction other than `own` has the record locked. It is rolled back first if its
    /// deadline has passed.
    pub(crate) fn is_locked(&self, digest: &Digest, own: Option<&Digest>) -> bool {
        let owner = || self.namespace.provisional_owner(digest);
        let Some(other) = owner().filter(|owner| Some(owner) != own) else {
            return false;
        };
        let open = self.table.lock().open.get(&other).map(Arc::clone);
        if let Some(open) = open.filter(|open| open.is_over(self.namespace.now_ms())) {
            // A transaction that a request is using now is rolled back later: this must not wait
            // for its state.
            self.expire(&open, open.state.try_lock());
        }
        // Asked again: it may have ended, by this call or by itself.
        owner().is_some_and(|owner| Some(&owner) != own)
    }

    fn expire(
        &self,
        transaction: &OpenTransaction,
        state: Option<MutexGuard<'_, TransactionState>>,
    ) {
        let Some(mut state) = state.filter(|state| state.is_open) else {
            return;
        };
        let records = state.writes.len() as u64;
        self.end(transaction, &mut state, Some(TransactionEnd::Aborted));
        self.counters.expired_records.add(records);
    }

    /// Rolls back the transactions that have passed their deadline, except one that a request is
    /// using now.
    pub(crate) fn expire_due(&self) {
        let now_ms = self.namespace.now_ms();
        let due: Vec<_> = {
            let mut table = self.table.lock();
            table.forget(now_ms);
            let open = table.open.values();
            let due = open.filter(|open| open.is_over(now_ms));
            due.map(Arc::clone).collect()
        };
        for open in due {
            self.expire(&open, open.state.try_lock());
        }
    }

    /// Adds all counts, by Aerospike's names. Waits for no transaction.
    pub(crate) fn add_statistics_to(&self, pairs: &mut Pairs) {
        self.expire_due();
        self.counters.add_to(pairs);
        let records = self.records.load(Ordering::Relaxed);
        pairs.add("mrt_provisionals", records);
        pairs.add("mrt_monitors", self.table.lock().open.len());
    }
}

/// Rolls back the open transactions: after the server ends, no client can commit them.
impl Drop for Transactions {
    fn drop(&mut self) {
        let all: Vec<_> = self.table.lock().open.drain().collect();
        for (_, open) in all {
            self.end(&open, &mut open.state.lock(), None);
        }
    }
}

impl TransactionTable {
    fn note_end(&mut self, monitor: Digest, end: TransactionEnd, now_ms: u64) {
        self.forget(now_ms);
        if self.ended.insert(monitor, end).is_none() {
            let until_ms = now_ms.saturating_add(ENDED_LIFE.as_millis() as u64);
            self.forgotten.push_back((until_ms, monitor));
        }
    }

    /// Forgets the transactions that ended long ago, and the oldest where too many are remembered.
    fn forget(&mut self, now_ms: u64) {
        while let Some((until_ms, monitor)) = self.forgotten.front() {
            if *until_ms >= now_ms && self.forgotten.len() < MAX_ENDED {
                return;
            }
            self.ended.remove(monitor);
            self.forgotten.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WritePolicy;
    use crate::engine::{Before, DigestAddress, ProvisionalWrite};
    use crate::operation::{Checked, Mode, OperationResults, operations};

    #[test]
    fn memory_is_taken_up_to_the_limit_and_given_back() {
        let store = crate::Store::in_memory().unwrap();
        let transactions = Transactions::new(store.namespaces().remove(0));
        assert_eq!(transactions.take(0, MAX_BYTES - 10), Ok(()));
        assert_eq!(transactions.take(5, 16), Err(result_code::OVERLOAD));
        assert_eq!(transactions.take(5, 15), Ok(()));
        assert_eq!(transactions.take(0, 1), Err(result_code::OVERLOAD));
        assert_eq!(transactions.take(20, 10), Ok(()));
        assert_eq!(transactions.take(0, 10), Ok(()));
    }

    #[test]
    fn who_waits_for_a_transaction_that_ends_learns_how_it_has_ended() {
        let store = crate::Store::in_memory().unwrap();
        let namespace = store.namespaces().remove(0);
        let transactions = Transactions::new(namespace.clone());
        let address = DigestAddress {
            digest: Digest::new([1; 20]),
            set: "",
            key: None,
            filter: None,
        };
        let write = ProvisionalWrite {
            address,
            policy: &WritePolicy::default(),
            before: Before::Nothing,
        };
        let put = [operations::put("n", 1)];
        let put = Checked::new(&put, Mode::empty()).unwrap();
        let ignored = &mut OperationResults::default();
        let monitor = namespace
            .write_provisional(&write, &put, ignored)
            .unwrap()
            .0;
        let deadline_ms = namespace.now_ms() + MAX_DURATION.as_millis() as u64;
        transactions
            .begin(address.digest, deadline_ms, monitor)
            .unwrap();
        let open = Arc::clone(&transactions.table.lock().open[&address.digest]);
        std::thread::scope(|scope| {
            let wait = || scope.spawn(|| transactions.with_open(&address.digest, |_, _| ()));
            let waiting = transactions.with_open(&address.digest, |_, state| {
                let waiting = wait();
                // It has found the transaction.
                while Arc::strong_count(&open) < 4 {
                    std::thread::yield_now();
                }
                transactions.end(&open, state, Some(TransactionEnd::Aborted));
                waiting
            });
            let told = waiting.unwrap().join().unwrap();
            assert_eq!(told, Err(Some(TransactionEnd::Aborted)));
        });
    }

    #[test]
    fn ends_are_forgotten_by_time_and_by_number() {
        let mut table = TransactionTable::default();
        let digest = |number: usize| {
            let mut bytes = [0; Digest::LEN];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            Digest::new(bytes)
        };
        for number in 0..MAX_ENDED + 5 {
            table.note_end(digest(number), TransactionEnd::Aborted, 1_000);
        }
        assert_eq!(table.ended.len(), MAX_ENDED);
        assert!(!table.ended.contains_key(&digest(0)));
        table.note_end(digest(7), TransactionEnd::Closed, 1_000);
        assert_eq!(table.ended.get(&digest(7)), Some(&TransactionEnd::Closed));
        let later_ms = 1_001 + ENDED_LIFE.as_millis() as u64;
        table.note_end(digest(1), TransactionEnd::Aborted, later_ms);
        assert_eq!((table.ended.len(), table.forgotten.len()), (1, 1));
    }
}
