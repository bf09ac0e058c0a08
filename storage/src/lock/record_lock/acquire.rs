//! Locking a record, and finding what the index holds of it.

use super::RecordLock;
use crate::core::{Core, Counters};
use crate::digest::Digest;
use crate::epoch::{self, Guard};
use crate::error::{Error, Result};
use crate::image::Images;
use crate::index::{PartitionGuard, Slot};
use crate::lock::Acquire;
use crate::log::entry::Kind;
use crate::sync::atomic::Ordering;
use std::cell::OnceCell;
use std::time::{Duration, Instant};

impl<'n> RecordLock<'n> {
    pub(crate) fn acquire(
        core: &'n Core,
        digest: &Digest,
        timeout: Option<Duration>,
    ) -> Result<Self> {
        let limit = core.options.max_waiters;
        let mut guard = epoch::pin();
        core.prefetch_entry(digest, &guard);
        let mut partition = core.index.lock(digest);
        // Under the lock that a close goes through: whoever gets past this is waited for.
        core.check_open()?;
        let mut queued_behind = 0;
        match partition.held().acquire(digest, limit) {
            Acquire::Granted => {}
            Acquire::Busy { waiting } => {
                drop(partition);
                Counters::add(&core.counters.key_busy, 1);
                core.note_contention(digest, true);
                return Err(Error::KeyBusy { waiting, limit });
            }
            Acquire::Queued(waiter) => {
                drop(partition);
                // Whoever waits must not hold back what others have retired.
                drop(guard);
                queued_behind = waiter.queued_behind();
                Counters::add(&core.counters.waits, 1);
                core.note_contention(digest, false);
                // A deadline beyond the clock's range is none.
                let granted =
                    waiter.wait(timeout.and_then(|timeout| Instant::now().checked_add(timeout)));
                guard = epoch::pin();
                partition = core.index.lock(digest);
                if !granted && partition.held().give_up(digest, &waiter) {
                    Counters::add(&core.counters.timeouts, 1);
                    return Err(Error::Timeout);
                }
            }
        }
        let mut lock = Self::granted(core, digest, guard, &partition);
        lock.queued_behind = queued_behind;
        drop(partition);
        Ok(lock.with_image())
    }

    /// For background passes: locks the record only if nobody holds it and the namespace is open.
    pub(crate) fn try_acquire(core: &'n Core, digest: &Digest) -> Option<Self> {
        let guard = epoch::pin();
        let mut partition = core.index.lock(digest);
        let granted = core.check_open().is_ok() && partition.held().try_acquire(digest);
        if !granted {
            return None;
        }
        let lock = Self::granted(core, digest, guard, &partition);
        drop(partition);
        Some(lock.with_image())
    }

    /// A record with a chain and no image gets one. What goes wrong shows when the record is read.
    fn with_image(mut self) -> Self {
        let core = self.core;
        let Some(seen) = self.seen.filter(|slot| !slot.tombstone) else {
            return self;
        };
        if !core.any_deltas.load(Ordering::Relaxed) || Images::number_of(seen.location).is_some() {
            return self;
        }
        let is_delta = core
            .log
            .entry(seen.location, &self.guard)
            .is_some_and(|entry| entry.view().kind_is(Kind::Delta));
        if is_delta {
            self.had_image = false;
            let checked = core
                .checked_entry(seen.location, seen.unverified, &self.guard)
                .is_ok();
            if checked {
                let partition = core.index.lock(&self.digest);
                self.seen = self.slot_in(&partition);
            }
        }
        self
    }

    /// For defragmentation: as [`RecordLock::try_acquire`], and a record whose owner waits for space is lent, not locked.
    pub(crate) fn try_borrow(core: &'n Core, digest: &Digest) -> Option<Self> {
        if let Some(lock) = Self::try_acquire(core, digest) {
            return Some(lock);
        }
        let guard = epoch::pin();
        let mut partition = core.index.lock(digest);
        if core.check_open().is_err() || !partition.held().is_resting(digest) {
            return None;
        }
        let mut lock = Self::granted(core, digest, guard, &partition);
        lock.held = false;
        drop(partition);
        Some(lock.with_image())
    }

    /// Looks up what the index holds of the record now: the same version, perhaps at another location. From here on nobody
    /// moves it.
    pub(super) fn find_again(&mut self) {
        let core = self.core;
        let mut partition = core.index.lock(&self.digest);
        partition.held().resume(&self.digest);
        self.seen = self.slot_in(&partition);
    }

    fn slot_in(&self, partition: &PartitionGuard<'_>) -> Option<Slot> {
        let is_of = |slot: &Slot| self.core.is_of(slot, &self.digest, &self.guard);
        let at = partition.find(self.digest.tag(), is_of);
        at.map(|at| partition.get(at))
    }

    fn granted(
        core: &'n Core,
        digest: &Digest,
        guard: Guard,
        partition: &PartitionGuard<'_>,
    ) -> Self {
        let seen = partition
            .find(digest.tag(), |slot| core.is_of(slot, digest, &guard))
            .map(|at| partition.get(at));
        if let Some(slot) = &seen {
            core.log.prefetch(slot.location, slot.size_units, &guard);
        }
        Self {
            core,
            digest: *digest,
            guard,
            seen,
            held: true,
            keeps: false,
            expires: false,
            queued_behind: 0,
            copy: OnceCell::new(),
            had_image: true,
        }
    }
}
