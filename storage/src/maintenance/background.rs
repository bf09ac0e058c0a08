//! The rhythm of the background threads.

use crate::clock::later;
use crate::core::Core;
use crate::core::background::Background;
use crate::epoch;
use crate::log::space::RestEnd;
use crate::log::syncer::{SyncRequest, Syncer};
use crate::maintenance::victims::Effort;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the maintenance thread looks around when nothing presses, and when space is short.
const IDLE_TICK: Duration = Duration::from_millis(250);

const TIGHT_TICK: Duration = Duration::from_millis(5);

/// A store without a write for this long is idle.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// An idle store looks at its tombstones once this part of its entries, one in this many, has
/// become tombstones.
const TOMBSTONE_SHARE: u64 = 8;

/// Tombstones are forgotten at each 30th expiry pass (once an hour at the default period), since
/// that reads the directories of most blocks; when space is short; and where they come to outnumber
/// the records.
const EXPIRY_PASSES_A_TOMBSTONE_PASS: u32 = 30;

/// Fewer new tombstones than this are no reason to read directories: a megabyte of index, four of
/// log.
const TOMBSTONES_MIN: u64 = 1 << 16;

/// When space is short, looking at tombstones takes at most one part in this many of the thread's
/// time, and half of that after each look in vain, until the rest is this long: a follower or a
/// reader may have gone.
const PRESSED_SHARE: u32 = 8;
const VAIN_LOOKS_MAX: u32 = 14;
const LOOK_REST_MAX: Duration = Duration::from_secs(60);

impl Core {
    /// One tick of the maintenance thread. Returns how long it may rest.
    fn tick(&self, rhythm: &mut Rhythm, now: Instant) -> Duration {
        if now >= rhythm.next_expiry {
            rhythm.next_expiry = later(now, self.options.expiry_period);
            self.log.retry_growth();
            self.retry_stuck(true);
            rhythm.is_tidy = false;
            // A failure shows in the next write, with its reason; this thread has no caller.
            let _ = self.expire();
            let _ = self.tidy_log();
            let kept = rhythm.tombstones_kept.min(self.tombstones());
            let many = kept + self.sets.records().max(TOMBSTONES_MIN);
            if rhythm.passes.is_multiple_of(EXPIRY_PASSES_A_TOMBSTONE_PASS)
                || self.tombstones() > many
            {
                let _ = self.drop_tombstones();
                rhythm.tombstones_kept = self.tombstones();
            }
            rhythm.passes = rhythm.passes.wrapping_add(1);
        }
        let effort = if rhythm.is_idle(self.log.last_lsn(), now) {
            Effort::Thorough
        } else {
            Effort::BesideWriters
        };
        let moved = match effort {
            Effort::Thorough if rhythm.is_tidy && !rhythm.seen_tight => None,
            effort => self.empty_next(effort, u64::MAX).unwrap_or(None),
        };
        let tight = self.log.space().usage().tight;
        rhythm.seen_tight = tight;
        epoch::advance();
        let due = now >= rhythm.next_checkpoint;
        // An idle store empties no more blocks that could share a checkpoint.
        let is_last = effort == Effort::Thorough && moved.is_none();
        let freed = self.free_emptied(tight || due || is_last).unwrap_or(0);
        if due || freed > 0 {
            rhythm.next_checkpoint = later(now, self.options.durability.period().max(IDLE_TICK));
        }
        if freed > 0 {
            rhythm.vain_looks = 0;
        }
        match moved {
            Some(_) if tight => Duration::ZERO,
            Some(bytes) => Duration::from_secs_f64(
                bytes as f64 / self.options.defrag_bytes_per_second.max(1) as f64,
            ),
            None if tight && (freed > 0 || self.has_emptied()) => TIGHT_TICK,
            None if tight => {
                self.log.space().note_vain_look();
                let rest = LOOK_REST_MAX.min(rhythm.look_rest * (1 << rhythm.vain_looks));
                let next_look = later(rhythm.looked, rest.max(rhythm.look_rest));
                if now < next_look {
                    return IDLE_TICK.min(next_look - now);
                }
                let begun = Instant::now();
                let closed = effort == Effort::Thorough && self.tidy_log().unwrap_or(false);
                let retried = self.retry_stuck(false);
                // Tombstones fill the blocks: forget the ones that nothing depends on any more.
                let dropped = self.drop_tombstones().unwrap_or(0);
                rhythm.looked = now;
                rhythm.look_rest = begun.elapsed() * PRESSED_SHARE + TIGHT_TICK;
                rhythm.vain_looks = if closed || retried || dropped > 0 {
                    0
                } else {
                    VAIN_LOOKS_MAX.min(rhythm.vain_looks + 1)
                };
                if dropped > 0 {
                    Duration::ZERO
                } else {
                    TIGHT_TICK
                }
            }
            None => {
                if effort == Effort::Thorough && !rhythm.is_tidy && !self.has_emptied() {
                    rhythm.is_tidy = !self.tidy_idle(rhythm, now);
                }
                IDLE_TICK
            }
        }
    }

    fn tombstones(&self) -> u64 {
        self.index.len().saturating_sub(self.sets.records())
    }

    /// The work left to an idle store once no closed block is worth emptying. Returns whether there
    /// was any, or is to be.
    fn tidy_idle(&self, rhythm: &mut Rhythm, now: Instant) -> bool {
        // Closed blocks are emptied before older versions are looked for.
        self.tidy_log().unwrap_or(false)
            || self.tidy_tombstones(rhythm)
            || self.retry_locked(rhythm, now)
    }

    /// Has blocks tried again of which a record was locked: ever more seldom, since it may be
    /// locked for long. Returns whether there is one.
    fn retry_locked(&self, rhythm: &mut Rhythm, now: Instant) -> bool {
        if now < rhythm.next_retry {
            let mut blocks = self.log.blocks();
            return blocks.any(|(_, block)| block.is_stuck() && !block.is_stuck_for_long());
        }
        let retried = self.retry_stuck(false);
        if retried {
            rhythm.next_retry = later(now, rhythm.retry_rest);
            rhythm.retry_rest = LOOK_REST_MAX.min(2 * rhythm.retry_rest);
        }
        retried
    }

    fn tidy_tombstones(&self, rhythm: &mut Rhythm) -> bool {
        let entries = self.index.len();
        rhythm.tombstones_kept = rhythm.tombstones_kept.min(self.tombstones());
        // A look at the tombstones costs as much as there are entries.
        if self.tombstones() <= rhythm.tombstones_kept + entries / TOMBSTONE_SHARE {
            return false;
        }
        let dropped = self.drop_tombstones();
        rhythm.tombstones_kept = self.tombstones();
        dropped.is_ok_and(|dropped| dropped > 0)
    }
}

/// The state of the maintenance thread.
#[derive(Debug)]
struct Rhythm {
    next_expiry: Instant,
    /// Expiry passes up to now.
    passes: u32,
    /// When tombstones were looked at for want of space, and the least rest after that.
    looked: Instant,
    look_rest: Duration,
    /// Such looks in a row that found nothing, while nothing was written or given back.
    vain_looks: u32,
    /// When blocks with locked records are tried again, and the rest after that.
    next_retry: Instant,
    retry_rest: Duration,
    /// When emptied blocks are given back, however few they are.
    next_checkpoint: Instant,
    /// The last number in the log, and since when it has been that.
    last_lsn: u64,
    quiet_since: Instant,
    /// Space was short at the last tick.
    seen_tight: bool,
    /// Nothing was left to do when the idle store was looked at last.
    is_tidy: bool,
    /// How many tombstones the last look has left.
    tombstones_kept: u64,
}

impl Rhythm {
    fn new(expiry_period: Duration) -> Self {
        let now = Instant::now();
        Self {
            next_expiry: later(now, expiry_period),
            passes: 0,
            looked: now,
            look_rest: Duration::ZERO,
            vain_looks: 0,
            next_retry: now,
            retry_rest: IDLE_AFTER,
            next_checkpoint: now,
            last_lsn: 0,
            quiet_since: now,
            seen_tight: false,
            is_tidy: false,
            tombstones_kept: 0,
        }
    }

    /// Whether there was no write for a while.
    fn is_idle(&mut self, last_lsn: u64, now: Instant) -> bool {
        if last_lsn != self.last_lsn {
            self.last_lsn = last_lsn;
            self.quiet_since = now;
            self.is_tidy = false;
            self.vain_looks = 0;
            self.retry_rest = IDLE_AFTER;
        }
        now >= self.quiet_since + IDLE_AFTER
    }
}

pub(super) fn after(rest: Duration) -> Instant {
    later(Instant::now(), rest)
}

/// Starts the threads of a namespace that is to have them.
pub(crate) fn start(core: &Arc<Core>) -> std::io::Result<Background> {
    let background = Background::idle(core);
    if core.options.background {
        core.log.syncer().attend();
        background.spawn("spikelet-sync", sync_loop)?;
        background.spawn("spikelet-tidy", tidy_loop)?;
    }
    Ok(background)
}

/// Wakes waiting tasks when the thread that syncs for them ends, for any reason.
struct Attendance<'a>(&'a Syncer);

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn sync_loop(core: &Core) {
    let syncer = core.log.syncer();
    let _attendance = Attendance(syncer);
    let period = core.options.durability.period();
    let mut due = after(period);
    loop {
        // A failure shows in the next write, with its reason, and wakes waiting tasks.
        match syncer.wait_for_request(Some(due)) {
            SyncRequest::Sync(lsn) => drop(core.log.sync_to(lsn)),
            SyncRequest::Due => {
                if core.log.last_lsn() > syncer.durable_lsn() {
                    drop(core.log.sync());
                }
                due = after(period);
            }
            SyncRequest::End => return,
        }
    }
}

fn tidy_loop(core: &Core) {
    let mut rhythm = Rhythm::new(core.options.expiry_period);
    let mut until = after(IDLE_TICK);
    loop {
        core.log.prepare_next();
        // The rate limit holds only until space is short.
        match core.log.space().rest(until, rhythm.seen_tight) {
            RestEnd::WaitsEnded => return,
            RestEnd::NextWanted => {}
            RestEnd::Due => until = after(core.tick(&mut rhythm, Instant::now())),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
