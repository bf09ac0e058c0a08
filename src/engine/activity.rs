//! The activity of a namespace: operations by kind, how long they take, and the errors that they
//! end with.
//!
//! Each front door counts its operation as it begins. The counters are striped, and a thread keeps
//! to one stripe, so that threads do not fight over a cache line. Asking the clock costs more than
//! a count: reads and writes of single records are timed once in 16, everything else always.

use std::borrow::Borrow;
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use serde::Serialize;
use spikelet_storage::{Attempt, Stats};

use super::latency::{Latencies, LatencyHistogram};
use crate::Error;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// A read of one record: [`Set::get`](crate::Set::get), [`Set::read`](crate::Set::read) and
    /// those like them.
    Read,
    /// A put, an update or a delete of one record.
    Write,
    /// [`Set::operate`](crate::Set::operate), and the calls built on it: collections in shards,
    /// counters.
    Operate,
    /// A call that is for several records of a set.
    Batch,
    /// A page or a pass of a query by a secondary index.
    Query,
    /// A page or a pass over all records of a set or namespace.
    Scan,
    /// A transaction, a snapshot read, or a group of writes.
    Transaction,
}

impl OperationKind {
    /// All kinds.
    pub const ALL: [Self; KINDS] = [
        Self::Read,
        Self::Write,
        Self::Operate,
        Self::Batch,
        Self::Query,
        Self::Scan,
        Self::Transaction,
    ];

    /// Returns the name, as metrics have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Operate => "operate",
            Self::Batch => "batch",
            Self::Query => "query",
            Self::Scan => "scan",
            Self::Transaction => "transaction",
        }
    }

    /// Returns the bits that the number of a timed operation has not.
    const fn untimed(self) -> u64 {
        match self {
            Self::Read | Self::Write | Self::Operate => 15,
            Self::Batch | Self::Query | Self::Scan | Self::Transaction => 0,
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many kinds of operations there are.
const KINDS: usize = 7;
/// More threads than this share stripes.
const STRIPES: usize = 16;

/// The counts of the threads of a stripe. Processors fetch cache lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe([AtomicU64; KINDS]);

/// The operations of a namespace.
#[derive(Debug)]
pub(super) struct Activity {
    stripes: [Stripe; STRIPES],
    latencies: [Latencies; KINDS],
    /// By result code.
    errors: [AtomicU64; 256],
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            stripes: Default::default(),
            latencies: Default::default(),
            errors: [const { AtomicU64::new(0) }; 256],
        }
    }
}

const UNKNOWN: usize = usize::MAX;

thread_local! {
    static STRIPE: Cell<usize> = const { Cell::new(UNKNOWN) };
}

/// Gives a thread its stripe.
#[cold]
fn take_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let taken = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    STRIPE.with(|stripe| stripe.set(taken));
    taken
}

impl Activity {
    /// Counts an operation that begins; returns when, if it is timed.
    #[inline]
    pub(super) fn begin(&self, kind: OperationKind) -> Option<Instant> {
        let known = STRIPE.with(Cell::get);
        let stripe = if known == UNKNOWN {
            take_stripe()
        } else {
            known
        };
        let stripe = self.stripes.get(stripe % STRIPES)?;
        let before = stripe.0.get(kind as usize)?.fetch_add(1, Ordering::Relaxed);
        (before & kind.untimed() == 0).then(Instant::now)
    }

    /// Notes the end of an operation.
    #[inline]
    pub(super) fn end(&self, kind: OperationKind, began: Option<Instant>, error: Option<&Error>) {
        if let Some(error) = error {
            return self.ended_with(kind, began, error);
        }
        if let Some(began) = began {
            self.took(kind, began);
        }
    }

    /// Counts the error of an operation, or takes back the count of one that its task makes again.
    #[cold]
    fn ended_with(&self, kind: OperationKind, began: Option<Instant>, error: &Error) {
        if !Attempt::is_put_off() {
            self.failed(error);
            return began.into_iter().for_each(|began| self.took(kind, began));
        }
        let stripe = self.stripes.get(STRIPE.with(Cell::get) % STRIPES);
        if let Some(count) = stripe.and_then(|stripe| stripe.0.get(kind as usize)) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[cold]
    fn took(&self, kind: OperationKind, began: Instant) {
        if let Some(latencies) = self.latencies.get(kind as usize) {
            latencies.add(began.elapsed());
        }
    }

    /// Counts an error.
    #[cold]
    pub(super) fn failed(&self, error: &Error) {
        if let Some(count) = self.errors.get(usize::from(error.result_code())) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Runs an operation.
    #[inline]
    pub(super) fn track<R, E: Borrow<Error>>(
        &self,
        kind: OperationKind,
        run: impl FnOnce() -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let began = self.begin(kind);
        let done = run();
        self.end(kind, began, done.as_ref().err().map(E::borrow));
        done
    }

    pub(super) fn latency(&self, kind: OperationKind) -> LatencyHistogram {
        let latencies = self.latencies.get(kind as usize);
        latencies.map_or_else(LatencyHistogram::default, Latencies::histogram)
    }

    fn operation(&self, kind: OperationKind) -> OperationStats {
        let stripes = self.stripes.iter();
        let counts = stripes.filter_map(|stripe| stripe.0.get(kind as usize));
        OperationStats {
            kind,
            count: counts.map(|count| count.load(Ordering::Relaxed)).sum(),
            latency: self.latency(kind),
        }
    }

    /// Returns all counts, beside the counts of the storage.
    pub(super) fn stats(&self, storage: Stats) -> NamespaceStats {
        let errors = (0..=u8::MAX).zip(&self.errors);
        let errors = errors.map(|(code, count)| (code, count.load(Ordering::Relaxed)));
        NamespaceStats {
            storage,
            operations: OperationKind::ALL.map(|kind| self.operation(kind)).into(),
            errors: errors.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

/// The operations of a kind since the namespace was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OperationStats {
    /// The kind.
    pub kind: OperationKind,
    /// How many have begun. Those within a transaction or a batch are not counted by themselves.
    pub count: u64,
    /// How long they took, from the call to the return: one in 16 of the reads and writes of a
    /// single record, and every other operation. Of transactions, only committed ones.
    pub latency: LatencyHistogram,
}

impl OperationStats {
    /// Returns the counts since an earlier look.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            kind: self.kind,
            count: self.count.saturating_sub(earlier.count),
            latency: self.latency.since(&earlier.latency),
        }
    }
}

/// The counts of a namespace since it was opened: its storage's, to which this dereferences, and
/// its operations'.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::operations::add;
/// use spikelet::stats::OperationKind;
///
/// let store = spikelet::Store::in_memory()?;
/// let pages = store.set("pages")?;
/// pages.operate("home", &[add("visits", 1)])?;
/// assert!(pages.touch("nowhere").is_err());
/// let stats = store.namespace("test")?.stats();
/// assert_eq!(stats.records, 1);
/// assert_eq!(stats.operation(OperationKind::Operate).count, 2);
/// assert_eq!(stats.errors, [(2, 1)]); // not found
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct NamespaceStats {
    /// The counts of the storage.
    #[serde(flatten)]
    pub storage: Stats,
    /// The operations, in the order of [`OperationKind::ALL`].
    pub operations: Vec<OperationStats>,
    /// How often operations ended with an error: result code and count, by code. A record that a
    /// read does not find is an error for clients over the wire only.
    pub errors: Vec<(u8, u64)>,
}

impl NamespaceStats {
    /// Returns the operations of a kind.
    #[must_use]
    pub fn operation(&self, kind: OperationKind) -> OperationStats {
        let found = self.operations.iter().find(|stats| stats.kind == kind);
        found.cloned().unwrap_or_else(|| OperationStats {
            kind,
            count: 0,
            latency: LatencyHistogram::default(),
        })
    }
}

impl Deref for NamespaceStats {
    type Target = Stats;

    fn deref(&self) -> &Stats {
        &self.storage
    }
}
