//! The followers of a namespace's changes, as the storage knows them.

use crate::sync::Mutex;
use crate::waiters::Waiters;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    /// Woken when a version is published, and when a record is unlocked.
    pub(crate) published: Waiters,
    /// For each follower, the number above which it needs changes. `None`: not known yet, so all
    /// are needed.
    needs: Mutex<Option<Vec<u64>>>,
}

impl Followers {
    /// Returns the number above which a follower needs changes, leaving out followers that have
    /// lost some already. `u64::MAX`: all changes may go.
    pub(crate) fn needed_after(&self, lost_to: u64) -> u64 {
        match &*self.needs.lock() {
            None => lost_to,
            Some(needs) => {
                let needs = needs.iter().copied();
                let kept = needs.filter(|after| *after >= lost_to);
                kept.min().unwrap_or(u64::MAX)
            }
        }
    }

    pub(crate) fn set_needs(&self, needs: Vec<u64>) {
        *self.needs.lock() = Some(needs);
    }
}
