//! Removals that leave no trace in the index: a truncation, and the forgetting of a tombstone.
//!
//! A transaction that has found neither a record nor a tombstone cannot see in the index whether a
//! record has come and gone since. It notes how many removals had begun; if a further one has begun
//! at its commit, it is repeated.

use crate::sync::atomic::{AtomicU64, Ordering};

/// How many removals have begun, and how many have ended.
#[derive(Debug, Default)]
pub(crate) struct Removals {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A removal that is under way until this is dropped.
#[derive(Debug)]
#[must_use = "the removal ends when this is dropped"]
pub(crate) struct Removal<'a>(&'a Removals);

impl Removals {
    /// Call it before anything disappears.
    pub(crate) fn begin(&self) -> Removal<'_> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        Removal(self)
    }

    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::SeqCst)
    }

    /// How many have begun, if none is under way.
    pub(crate) fn settled(&self) -> Option<u64> {
        // In this order: a removal that has ended by the first look and begun by the second has
        // ended all the while between them.
        let ended = self.ended.load(Ordering::SeqCst);
        (self.begun() == ended).then_some(ended)
    }
}

impl Drop for Removal<'_> {
    fn drop(&mut self) {
        self.0.ended.fetch_add(1, Ordering::SeqCst);
    }
}
