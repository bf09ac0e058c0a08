//! Waiting for space with records locked.

use super::RecordLock;
use crate::epoch::{self, Guard};
use crate::namespace::{Core, Counters};
use std::cell::OnceCell;
use std::time::Instant;

/// How long a write may still wait for space.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// When it is over, once the write has begun to wait. The inner `None`: never.
    ends: Option<Option<Instant>>,
}

impl Patience {
    /// Waits while space is short and can be won. Returns false if none can be, or if the namespace's
    /// patience is over. The records stay locked, but what was seen of them is let go: blocks are not
    /// freed while somebody looks.
    #[cold]
    pub(super) fn wait(&mut self, core: &Core, locks: &mut [&mut RecordLock<'_>]) -> bool {
        let patience = core.options.max_space_wait;
        if !core.options.background || patience.is_zero() || !core.can_win_space() {
            return false;
        }
        let ends = *self.ends.get_or_insert_with(|| {
            Counters::add(&core.counters.space_waits, 1);
            Instant::now().checked_add(patience)
        });
        if ends.is_some_and(|ends| Instant::now() >= ends) {
            return false;
        }
        locks
            .iter_mut()
            .for_each(|lock| lock.copy = OnceCell::new());
        let mut guards: Vec<&mut Guard> = locks.iter_mut().map(|lock| &mut lock.guard).collect();
        epoch::without_guards(&mut guards, || core.log.space().wait_for_room(ends));
        locks.iter_mut().for_each(|lock| lock.find_again());
        true
    }
}
