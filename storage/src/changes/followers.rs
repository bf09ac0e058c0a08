//! What a namespace knows of those who follow its changes.

use crate::changes::waiters::Waiters;
use crate::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    /// Told when a version is published, and when a record is unlocked.
    pub(crate) published: Waiters,
    /// Changes with a higher number are needed by somebody. 0, until somebody says better: all of them.
    needed_after: AtomicU64,
}

impl Followers {
    pub(crate) fn needed_after(&self) -> u64 {
        self.needed_after.load(Ordering::SeqCst)
    }

    pub(crate) fn set_needed_after(&self, lsn: u64) {
        self.needed_after.store(lsn, Ordering::SeqCst);
    }
}
