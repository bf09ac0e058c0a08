//! Counters, which only rise, and gauges.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A count that many threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn count(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many of a kind there are at present.
#[derive(Debug, Default)]
pub(crate) struct Gauge(Arc<AtomicU64>);

/// One of them, counted while it lives.
#[derive(Debug)]
pub(crate) struct Counted(Arc<AtomicU64>);

impl Gauge {
    /// Counts one more, unless there are `most`.
    pub(crate) fn enter(&self, most: u64) -> Option<Counted> {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(Arc::clone(&self.0));
        (before < most).then_some(counted)
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
