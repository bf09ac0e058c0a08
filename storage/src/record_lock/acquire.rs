//! Locking a record, and looking it up.

use super::{Hold, RecordLock, SeenTruncations, WaitLimit};
use crate::attempt::{self, Patience};
use crate::core::{Core, CoreCounters};
use crate::digest::Digest;
use crate::entry::EntryKind;
use crate::epoch::{self, Guard};
use crate::error::{Error, Result};
use crate::image::Images;
use crate::index::{IndexSlot, PartitionGuard, TablePosition};
use crate::location::Location;
use crate::lock::{Acquire, Handover, Waiter};
use crate::log::volume::HeldEntry;
use std::cell::{Cell, OnceCell};
use std::time::{Duration, Instant};

/// The index's slot for a digest before the lock was asked for: its memory is fetched while no
/// other writer waits for it, and it need not be looked at again under the lock.
struct LikelyEntry {
    location: Location,
    position: TablePosition,
    entry: HeldEntry<'static>,
}

impl LikelyEntry {
    /// Looks once. `None`: it is not there, or takes a closer look: a record with an image or a
    /// chain, or one that no thread has checked yet.
    ///
    /// # Safety
    /// The guard outlives the result.
    #[inline(always)]
    unsafe fn find(core: &Core, digest: &Digest, guard: &Guard) -> Option<Self> {
        let (position, candidate) = core.index.at(digest).first_candidate(guard)?;
        if candidate.unverified || Images::number_of(candidate.location).is_some() {
            return None;
        }
        let entry = core.log.entry(candidate.location, guard)?;
        let view = entry.view();
        if !view.has_digest(digest) || view.kind_is(EntryKind::Delta) {
            return None;
        }
        Some(Self {
            location: candidate.location,
            position,
            // SAFETY: as above.
            entry: unsafe { entry.kept() },
        })
    }

    /// Its slot, if the index still has it there.
    #[inline]
    fn slot_in(
        &self,
        partition: &PartitionGuard<'_>,
        digest: &Digest,
    ) -> Option<(IndexSlot, TablePosition)> {
        let at = partition.find_near(self.position, digest.tag(), self.location)?;
        let slot = partition.get(at);
        (!slot.unverified).then_some((slot, at))
    }
}

impl<'n> RecordLock<'n> {
    #[inline]
    pub(crate) fn acquire(
        core: &'n Core,
        digest: &Digest,
        timeout: Option<Duration>,
    ) -> Result<Self> {
        let limit = timeout.map_or(WaitLimit::Never, WaitLimit::after);
        Self::acquire_waiting(core, digest, limit, |waiter, ends| waiter.wait(ends))
    }

    /// Locks a record; `wait` waits in the queue until the given end and returns whether the lock
    /// was handed over.
    #[inline]
    pub(crate) fn acquire_waiting(
        core: &'n Core,
        digest: &Digest,
        limit: WaitLimit,
        wait: impl FnOnce(&Waiter, Option<Instant>) -> bool,
    ) -> Result<Self> {
        let guard = epoch::pin();
        // SAFETY: the lock has the guard, which it drops after the entry; where it waits first, the
        // entry is dropped.
        let likely = unsafe { LikelyEntry::find(core, digest, &guard) };
        let mut partition = core.index.lock(digest);
        // Under the lock that a close goes through: it waits for every writer that gets past this.
        core.check_open()?;
        if partition.held().try_acquire(digest) {
            return Ok(Self::granted(core, digest, guard, partition, likely, limit));
        }
        drop(likely);
        // The clock is asked by waiters alone: most locks are free.
        let ends = limit.ends();
        let mut lock = Self::acquire_held(core, digest, (ends, wait), guard, partition)?;
        lock.limit = ends.map_or(WaitLimit::Never, WaitLimit::At);
        Ok(lock)
    }

    /// Waits for a record that another thread has locked.
    #[cold]
    fn acquire_held(
        core: &'n Core,
        digest: &Digest,
        (ends, wait): (
            Option<Instant>,
            impl FnOnce(&Waiter, Option<Instant>) -> bool,
        ),
        mut guard: Guard,
        mut partition: PartitionGuard<'n>,
    ) -> Result<Self> {
        let mut queued_behind = 0;
        if let Some(waiter) = attempt::take_granted(core, digest, partition.held()) {
            queued_behind = waiter.queued_behind();
        } else {
            match partition.held().acquire(digest, core.options.max_waiters) {
                Acquire::Granted => {}
                Acquire::Busy { waiting } => {
                    drop(partition);
                    return Err(core.key_busy(digest, waiting));
                }
                Acquire::Queued(waiter) => {
                    drop(partition);
                    // A waiting thread must not hold back blocks that others have retired.
                    drop(guard);
                    queued_behind = waiter.queued_behind();
                    let patience = attempt::patience(core);
                    if patience != Patience::Over {
                        core.note_wait(digest);
                    }
                    let may_wait = ends.is_none_or(|ends| Instant::now() < ends);
                    if patience == Patience::Task && may_wait {
                        attempt::keep_place(core, digest, waiter);
                        return Err(Error::Timeout);
                    }
                    let granted = patience == Patience::Thread && wait(&waiter, ends);
                    guard = epoch::pin();
                    partition = core.index.lock(digest);
                    if !granted && partition.held().give_up(digest, &waiter) {
                        CoreCounters::add(&core.counters.timeouts, 1);
                        return Err(Error::Timeout);
                    }
                }
            }
        }
        let mut lock = Self::granted_anew(core, digest, guard, partition);
        lock.queued_behind = queued_behind.try_into().unwrap_or(u16::MAX);
        Ok(lock)
    }

    /// For background passes: locks the record only if it is free and the namespace is open.
    /// `may_borrow`: a record is lent, not locked, while its owner waits for space.
    pub(crate) fn try_acquire(core: &'n Core, digest: &Digest, may_borrow: bool) -> Option<Self> {
        let guard = epoch::pin();
        let mut partition = core.index.lock(digest);
        core.check_open().ok()?;
        let held = partition.held();
        let is_free = held.try_acquire(digest);
        if !(is_free || may_borrow && held.is_resting(digest)) {
            return None;
        }
        let mut lock = Self::granted_anew(core, digest, guard, partition);
        if !is_free {
            lock.hold = Hold::Released;
        }
        Some(lock)
    }

    /// Looks the record up again: the same version, perhaps at another location. From here on no
    /// other thread moves it.
    pub(super) fn find_again(&mut self) {
        let core = self.core;
        let mut partition = core.index.lock(&self.digest);
        // Under one hold of the partition with the look: nothing moves the record in between.
        partition.held().resume(&self.digest);
        self.seen = core.slot_in(&partition, &self.digest, &self.guard);
    }

    /// The lock, once it is the caller's, without an earlier look at the record.
    #[inline(never)]
    fn granted_anew(
        core: &'n Core,
        digest: &Digest,
        guard: Guard,
        partition: PartitionGuard<'_>,
    ) -> Self {
        Self::granted(core, digest, guard, partition, None, WaitLimit::Never)
    }

    /// The lock, once it is the caller's. Unlocks the partition. Inlined, since all of its
    /// parameters would be copied.
    #[inline(always)]
    fn granted(
        core: &'n Core,
        digest: &Digest,
        guard: Guard,
        partition: PartitionGuard<'_>,
        likely: Option<LikelyEntry>,
        limit: WaitLimit,
    ) -> Self {
        let mut had_image = true;
        let mut position = TablePosition::default();
        let (seen, entry) = if let Some(likely) = likely
            && let Some((slot, at)) = likely.slot_in(&partition, digest)
        {
            position = at;
            drop(partition);
            core.log.prefetch(slot.location, slot.size_units, &guard);
            // An entry that was looked at already is no delta.
            (Some(slot), OnceCell::from(likely.entry))
        } else {
            let mut seen = core.slot_in(&partition, digest, &guard);
            drop(partition);
            if let Some(slot) = seen {
                core.log.prefetch(slot.location, slot.size_units, &guard);
                had_image = !core.makes_image(&slot, &guard);
                if !had_image {
                    seen = core.slot_in(&core.index.lock(digest), digest, &guard);
                }
            }
            (seen, OnceCell::new())
        };
        // Made last, where the caller wants it: a record lock is large.
        Self {
            core,
            digest: *digest,
            guard,
            seen,
            position,
            hold: Hold::Change,
            queued_behind: 0,
            limit,
            entry,
            had_image,
            truncations: SeenTruncations(Cell::new(core.log.truncations().known().0)),
        }
    }
}

impl Core {
    /// Unlocks a partition in which a record was published or unlocked, and then wakes who waits
    /// for that.
    #[inline]
    pub(crate) fn hand_over(&self, partition: PartitionGuard<'_>, next: Option<Handover>) {
        drop(partition);
        self.followers.published.wake();
        if let Some(next) = next {
            next.notify();
        }
    }

    /// Counts a writer that queues for a record.
    pub(crate) fn note_wait(&self, digest: &Digest) {
        CoreCounters::add(&self.counters.waits, 1);
        self.note_contention(digest, false);
    }

    /// Counts a writer that is refused, since `waiting` others queue for the record.
    pub(crate) fn key_busy(&self, digest: &Digest, waiting: usize) -> Error {
        CoreCounters::add(&self.counters.key_busy, 1);
        self.note_contention(digest, true);
        Error::KeyBusy {
            waiting,
            limit: self.options.max_waiters,
        }
    }

    /// Looks a record up in its locked partition.
    #[inline(never)]
    pub(crate) fn slot_in(
        &self,
        partition: &PartitionGuard<'_>,
        digest: &Digest,
        guard: &Guard,
    ) -> Option<IndexSlot> {
        let is_of = |slot: &IndexSlot| self.is_of(slot, digest, guard);
        let at = partition.find(digest.tag(), is_of);
        at.map(|at| partition.get(at))
    }

    /// Makes the image of a record that has a chain and no image yet. Returns whether it is such a
    /// record. What goes wrong shows when the record is read.
    fn makes_image(&self, slot: &IndexSlot, guard: &Guard) -> bool {
        let lacks_image = !slot.tombstone
            && Images::number_of(slot.location).is_none()
            && self.is_delta(slot, guard) == Some(true);
        if lacks_image {
            let _ = self.checked_entry(slot, guard);
        }
        lacks_image
    }
}
