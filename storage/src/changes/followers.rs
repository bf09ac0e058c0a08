//! What a namespace knows of those who follow its changes.

use crate::changes::waiters::Waiters;
use crate::sync::Mutex;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Followers {
    /// Told when a version is published, and when a record is unlocked.
    pub(crate) published: Waiters,
    /// Above which number each of those who follow the changes needs them. `None`: not known yet, so all are needed.
    needs: Mutex<Option<Vec<u64>>>,
}

impl Followers {
    /// Above which number somebody needs changes, of those who have not lost any. `u64::MAX`: nobody does.
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
