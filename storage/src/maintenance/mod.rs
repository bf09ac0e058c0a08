//! What goes on beside reading and writing: syncing, expiry, defragmentation, and forgetting
//! tombstones. Each is a step that can be called; background threads call them in their rhythm.

pub(crate) mod background;
pub(crate) mod defrag;
mod tombstones;
pub(crate) mod victims;

use crate::core::{Core, CoreCounters, Namespace};
use crate::digest::PARTITIONS;
use crate::epoch;
use crate::error::Result;
use crate::log::space::SpacePurpose;
use crate::maintenance::background::after;
use crate::maintenance::victims::Effort;
use crate::record_lock::RecordLock;
use std::time::{Duration, Instant};

/// How long `maintain` waits for the readers of emptied blocks before it leaves the blocks for
/// later: a reader that the system has interrupted comes back within milliseconds.
const READERS_LEAVE: Duration = Duration::from_secs(1);

/// Limits on what an opening moves and empties: a large store may have much that is dead.
const MOVED_AT_OPENING_MAX: u64 = 3 << 20;
const BLOCKS_AT_OPENING_MAX: usize = 64;

/// The result of [`Namespace::maintain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MaintenanceReport {
    /// Expired records removed.
    pub expired: u64,
    /// Blocks given back.
    pub freed_blocks: u64,
    /// Tombstones that were forgotten, since nothing older is left of their records.
    pub dropped_tombstones: u64,
}

impl Namespace {
    /// Does at once what the background threads do bit by bit: removes expired records, forgets
    /// tombstones of which no older version is left, and defragments until no block is worth it.
    /// Takes as long as that takes.
    ///
    /// # Errors
    /// [`crate::Error::ReadOnly`] if a sync fails.
    pub fn maintain(&self) -> Result<MaintenanceReport> {
        let core = &self.core;
        core.retry_stuck(true);
        let mut done = MaintenanceReport {
            expired: core.expire()?,
            ..MaintenanceReport::default()
        };
        core.tidy_log()?;
        // Freed blocks may have held the last older versions of deleted records, and dropped
        // tombstones free blocks.
        loop {
            let freed = core.empty_all()?;
            let dropped = core.drop_tombstones()?;
            done.freed_blocks += freed;
            done.dropped_tombstones += dropped;
            if freed == 0 && dropped == 0 {
                core.tidy_log()?;
                // Not before: while the disk counts as full, blocks that are mostly live are
                // emptied, too.
                core.log.retry_growth();
                return Ok(done);
            }
        }
    }
}

impl Core {
    /// Empties blocks until none is worth it. Returns how many were given back.
    fn empty_all(&self) -> Result<u64> {
        let mut freed = 0;
        while self.empty_next(Effort::Thorough, u64::MAX)?.is_some() {
            epoch::advance();
            freed += self.free_emptied(self.log.space().usage().tight)? as u64;
        }
        Ok(freed + self.free_all_emptied()?)
    }

    /// Empties blocks of which little is left, as earlier openings have left them: each begins a
    /// block of its own, and a program that ends at once leaves no time to the thread that cleans.
    pub(crate) fn tidy_at_opening(&self) -> Result<()> {
        let mut left = MOVED_AT_OPENING_MAX;
        for _ in 0..BLOCKS_AT_OPENING_MAX {
            match self.empty_next(Effort::Thorough, left)? {
                Some(moved) => left = left.saturating_sub(moved),
                None => break,
            }
        }
        self.free_all_emptied().map(drop)
    }

    /// Gives emptied blocks back, if their readers go soon.
    pub(crate) fn free_all_emptied(&self) -> Result<u64> {
        let mut freed = 0;
        let until = after(READERS_LEAVE);
        while self.has_emptied() && Instant::now() < until {
            epoch::advance();
            freed += self.free_emptied(true)? as u64;
            crate::sync::thread::yield_now();
        }
        Ok(freed)
    }

    /// Removes expired records, found from the index alone. A tombstone takes their place: an older
    /// version that would live longer must not come back.
    pub(crate) fn expire(&self) -> Result<u64> {
        self.check_open()?;
        self.log.check_writable(SpacePurpose::Delete)?;
        let mut expired = 0;
        for partition in 0..PARTITIONS {
            let now_ms = self.options.clock.now_ms();
            let over = |void_time: u32| void_time != 0 && u64::from(void_time) < now_ms / 1000;
            let mut digests = Vec::new();
            {
                let guard = epoch::pin();
                for (_, slot) in self.index.lock_partition(partition).iter() {
                    if !slot.tombstone && over(slot.void_time) {
                        digests.extend(
                            self.believed_entry(&slot, &guard)
                                .map(|entry| entry.view().digest()),
                        );
                    }
                }
            }
            for digest in digests {
                // The writer that has the record locked gives it a new time, or the next pass finds
                // it again.
                let Some(lock) = RecordLock::try_acquire(self, &digest, false) else {
                    continue;
                };
                if lock.void_time().is_some_and(over) {
                    lock.bury(now_ms, |entry| {
                        if let Some(observer) = &self.options.observer {
                            let set = entry.set_id();
                            let set_name = || self.sets.name_of(set).unwrap_or_default();
                            observer.expires(entry, &set_name);
                        }
                    })?;
                    CoreCounters::add(&self.counters.expired, 1);
                    expired += 1;
                }
            }
        }
        Ok(expired)
    }
}
