//! Keeps the number of a truncation out of the middle of a write: between the look at the version
//! that a write changes, and the number of the new one. A version with a higher number than the
//! truncation would bring back the bins that the truncation has taken.
//!
//! A writer notes how many truncations there were when it locks its record, and compares that under
//! the lock of its lane, before it draws a number. A truncation counts its beginning, and then
//! passes through every lane: a writer that has not seen it there has a lower number.

use crate::digest::Digest;
use crate::entry::EntryHeader;
use crate::error::{ConflictCause, Error, Result};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// How many truncations had begun or ended when a record was locked. Even, so that it is never the
/// count of a moment at which one is under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct KnownTruncations(pub(crate) u32);

impl Default for KnownTruncations {
    /// Of entries into which any truncation may come, such as tombstones and copies.
    fn default() -> Self {
        Self(u32::MAX)
    }
}

/// The truncations of a log.
#[derive(Debug, Default)]
pub(crate) struct Truncations {
    /// How many have begun or ended.
    count: AtomicU32,
    /// Held during one.
    alone: Mutex<()>,
}

/// A truncation that is under way until this is dropped.
#[derive(Debug)]
#[must_use = "the truncation ends when this is dropped"]
pub(crate) struct TruncationUnderWay<'a> {
    truncations: &'a Truncations,
    _alone: MutexGuard<'a, ()>,
}

impl Truncations {
    /// Begins a truncation, which draws its number behind this. Until it ends, new versions of
    /// records get none. `pass_lanes` locks and unlocks every lane.
    pub(super) fn begin(&self, pass_lanes: impl FnOnce()) -> TruncationUnderWay<'_> {
        let alone = self.alone.lock();
        self.count.fetch_add(1, Ordering::SeqCst);
        pass_lanes();
        TruncationUnderWay {
            truncations: self,
            _alone: alone,
        }
    }

    /// Returns the truncations that readers and writers see from here on.
    #[inline]
    pub(crate) fn known(&self) -> KnownTruncations {
        KnownTruncations(self.count.load(Ordering::Acquire) & !1)
    }

    /// Waits for a truncation that is under way.
    pub(crate) fn wait(&self) {
        drop(self.alone.lock());
    }

    /// Refuses new versions of records if another truncation than these has begun. The caller has
    /// its lane locked.
    #[inline]
    pub(super) fn check(&self, known: KnownTruncations, headers: &[EntryHeader]) -> Result<()> {
        // The lock of the lane orders this load.
        if self.count.load(Ordering::Relaxed) == known.0 || known == KnownTruncations::default() {
            return Ok(());
        }
        Err(Error::Conflict {
            digest: headers.first().map_or(Digest::NONE, |header| header.digest),
            cause: ConflictCause::Changed,
        })
    }
}

impl Drop for TruncationUnderWay<'_> {
    fn drop(&mut self) {
        self.truncations.count.fetch_add(1, Ordering::Release);
    }
}
