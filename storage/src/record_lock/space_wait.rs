//! Waiting for space with records locked, and for a truncation.

use super::{Change, NewVersion, RecordLock};
use crate::attempt::{self, Patience};
use crate::core::{Core, CoreCounters};
use crate::entry::Lsn;
use crate::epoch::{self, Guard};
use crate::error::{Error, Result};
use std::cell::OnceCell;
use std::time::Instant;

/// How long a write may still wait for space.
#[derive(Debug, Default)]
pub(super) struct SpaceWait {
    /// When it is over, once the write has begun to wait. The inner `None`: never.
    ends: Option<Option<Instant>>,
}

impl SpaceWait {
    /// Waits until this many blocks can be had. Returns false where cleaning cannot win them, or
    /// where the patience of the namespace or of the locks' owners is over. The records stay
    /// locked, but their entries are let go, and they may be moved: blocks are not freed while a
    /// thread looks.
    #[cold]
    pub(super) fn wait(
        &mut self,
        core: &Core,
        locks: &mut [&mut RecordLock<'_>],
        blocks: u64,
    ) -> bool {
        let patience = core.options.max_space_wait;
        if !core.options.background || patience.is_zero() || !core.can_win_space(blocks) {
            return false;
        }
        let limits = locks.iter().filter_map(|lock| lock.limit.ends());
        let limit = limits.min();
        if attempt::patience(core) != Patience::Thread {
            if limit.is_none_or(|limit| Instant::now() < limit) {
                attempt::await_space(core, blocks);
            }
            return false;
        }
        let ends = *self.ends.get_or_insert_with(|| {
            CoreCounters::add(&core.counters.space_waits, 1);
            let own = Instant::now().checked_add(patience);
            limit.into_iter().chain(own).min()
        });
        if ends.is_some_and(|ends| Instant::now() >= ends) {
            return false;
        }
        rest(core, locks, || core.log.space().wait_for_room(blocks, ends));
        true
    }
}

/// The version that a change was made of.
struct Base {
    set_id: u16,
    lsn: Lsn,
    last_update_ms: u64,
}

impl RecordLock<'_> {
    /// Writes a change, and waits for space where it needs any, or for a truncation.
    /// `None`: there is nothing to delete.
    #[inline]
    pub(super) fn write(&mut self, change: &Change<'_>) -> Result<Option<Lsn>> {
        match self.try_write(change) {
            Ok(lsn) => Ok(lsn),
            Err(refused) => self.write_again(change, refused),
        }
    }

    /// Writes a change as soon as it can be. `refused`: what the first attempt met.
    #[cold]
    fn write_again(&mut self, change: &Change<'_>, mut refused: Error) -> Result<Option<Lsn>> {
        let core = self.core;
        let mut patience = SpaceWait::default();
        // Before a wait for space, in which the version may be removed.
        let base = self.base();
        loop {
            match &refused {
                // Another writer may take the space that this one has waited for.
                Error::StopWrites { .. } if patience.wait(core, &mut [&mut *self], 1) => {}
                Error::Conflict { .. } => {
                    if let Some(lsn) = self.meet_truncation(change, base.as_ref()) {
                        return Ok(Some(lsn));
                    }
                }
                _ => return Err(refused),
            }
            match self.try_write(change) {
                Err(again) => refused = again,
                done => return done,
            }
        }
    }

    /// Decides about a change that a truncation has come before, once that has ended. Returns a
    /// number if the owner of the lock has seen the record before the truncation, which takes the
    /// new version, too: the write counts as one before the truncation. The number covers both.
    fn meet_truncation(&mut self, change: &Change<'_>, base: Option<&Base>) -> Option<Lsn> {
        let log = &self.core.log;
        log.truncations().wait();
        self.truncations.learn(log.truncations().known());
        let has_shown = self.truncations.has_shown_record();
        match (change, base) {
            (Change::Put(version), Some(base)) if has_shown && self.took(base, version) => {}
            _ => return None,
        }
        if !self.hold.is_kept() {
            self.unlock();
        }
        Some(Lsn(log.last_lsn()))
    }

    /// The version in the slot that was seen.
    fn base(&self) -> Option<Base> {
        let seen = self.seen.filter(|slot| !slot.tombstone)?;
        let entry = self.core.log.entry(seen.location, &self.guard)?;
        Some(Base {
            set_id: seen.set_id,
            lsn: entry.view().lsn(),
            last_update_ms: entry.view().last_update_ms(),
        })
    }

    /// Whether truncations have taken the version that the owner of the lock has seen, and would
    /// have taken this one with it.
    fn took(&self, base: &Base, version: &NewVersion<'_>) -> bool {
        let sets = &self.core.sets;
        let last_update_ms = version.last_update_ms.max(base.last_update_ms);
        if version.set_id == base.set_id {
            sets.hides(version.set_id, base.lsn, last_update_ms)
        } else {
            sets.hides_from_all(base.lsn, last_update_ms)
        }
    }
}

/// Runs `pause` with the records still locked, but nothing looked at: others may move them
/// meanwhile.
pub(crate) fn rest(core: &Core, locks: &mut [&mut RecordLock<'_>], pause: impl FnOnce()) {
    for lock in locks.iter_mut() {
        lock.entry = OnceCell::new();
        core.index.lock(&lock.digest).held().rest(&lock.digest);
    }
    let mut guards: Vec<&mut Guard> = locks.iter_mut().map(|lock| &mut lock.guard).collect();
    epoch::without_guards(&mut guards, pause);
    locks.iter_mut().for_each(|lock| lock.find_again());
}
