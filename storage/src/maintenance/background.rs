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
mod tests {
    use super::*;
    use crate::Durability;
    use crate::clock::ManualClock;
    use crate::core::Namespace;
    use crate::device::{BLOCK_BYTES, HEADER_BYTES, SMALL_BLOCK_BYTES};
    use crate::digest::Digest;
    use crate::options::{Options, Storage};
    use crate::record_lock::NewVersion;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    const VERSION: NewVersion<'static> = NewVersion {
        generation: 1,
        void_time: 0,
        last_update_ms: 1,
        set_id: 0,
        key: None,
        payload: &[],
    };

    fn open(options: Options) -> Namespace {
        let max_device_bytes = HEADER_BYTES + 64 * BLOCK_BYTES;
        Namespace::open(Options {
            max_device_bytes,
            max_record_bytes: Options::RECORD_BYTES_MAX,
            ..options
        })
        .unwrap()
        .0
    }

    fn digest(record: u32) -> Digest {
        let mut bytes = [0; Digest::LEN];
        bytes[..4].copy_from_slice(&record.wrapping_mul(0x9e37_79b9).to_le_bytes());
        Digest::new(bytes)
    }

    #[test]
    fn defragmentation_moves_a_block_a_tick_and_rests_as_long_as_its_rate_demands() {
        const RATE: u64 = 1 << 20;
        let namespace = open(Options {
            background: false,
            write_lanes: 1,
            defrag_bytes_per_second: RATE,
            ..Options::new("test", Storage::Memory)
        });
        let payload = vec![1; 100 << 10];
        let version = NewVersion {
            payload: &payload,
            ..VERSION
        };
        for record in 0..500 {
            namespace
                .lock(&digest(record), None)
                .unwrap()
                .put(&version)
                .unwrap();
        }
        for record in (0..500).filter(|record| record % 5 > 0) {
            let lock = namespace.lock(&digest(record), None).unwrap();
            assert!(lock.delete(2).unwrap().is_some());
        }
        let mut rhythm = Rhythm::new(Duration::MAX);
        let mut ticks = 0;
        loop {
            let before = namespace.stats();
            let rest = namespace.core.tick(&mut rhythm, Instant::now());
            let after = namespace.stats();
            let moved = after.traffic.moved_bytes - before.traffic.moved_bytes;
            if after.defragmented_blocks == before.defragmented_blocks {
                assert_eq!((moved, rest), (0, IDLE_TICK));
                break;
            }
            assert_eq!(after.defragmented_blocks, before.defragmented_blocks + 1);
            assert!(moved > 0 && moved < BLOCK_BYTES / 2);
            assert_eq!(rest, Duration::from_secs_f64(moved as f64 / RATE as f64));
            ticks += 1;
        }
        assert!(ticks >= 5, "{ticks}");
    }

    /// Ticks for this long. Returns how often.
    fn tick_for(namespace: &Namespace, rhythm: &mut Rhythm, now: &mut Instant, secs: u64) -> u32 {
        let until = *now + Duration::from_secs(secs);
        let mut ticks = 0;
        while *now < until {
            *now += namespace.core.tick(rhythm, *now) + Duration::from_micros(1);
            ticks += 1;
        }
        ticks
    }

    #[test]
    fn an_idle_store_empties_a_block_soon_after_a_record_in_it_was_unlocked() {
        let namespace = open(Options {
            background: false,
            write_lanes: 1,
            ..Options::new("test", Storage::Memory)
        });
        let version = NewVersion {
            payload: &[1; 100 << 10],
            ..VERSION
        };
        let lock = |record| namespace.lock(&digest(record), None).unwrap();
        for record in 0..500 {
            lock(record).put(&version).unwrap();
        }
        for record in 1..500 {
            assert!(lock(record).delete(2).unwrap().is_some());
        }
        let held = lock(0);
        let (mut rhythm, mut now) = (Rhythm::new(Duration::MAX), Instant::now());
        tick_for(&namespace, &mut rhythm, &mut now, 3);
        assert_eq!(namespace.stats().traffic.moved_bytes, 0, "no copy of it");
        drop(held);
        for _ in 0..5 {
            tick_for(&namespace, &mut rhythm, &mut now, 1);
            // Other tests of this process look at blocks.
            namespace.core.free_all_emptied().unwrap();
        }
        assert_eq!(namespace.stats().used_blocks, 1);
    }

    #[test]
    fn a_full_idle_store_rests_once_nothing_is_to_be_won() {
        let (namespace, _) = Namespace::open(Options {
            background: false,
            write_lanes: 1,
            max_device_bytes: HEADER_BYTES + 10 * SMALL_BLOCK_BYTES,
            ..Options::new("test", Storage::Memory)
        })
        .unwrap();
        let version = NewVersion {
            payload: &[1; 10 << 10],
            ..VERSION
        };
        let lock = |record| namespace.lock(&digest(record), None).unwrap();
        let full = (0..).find(|record| lock(*record).put(&version).is_err());
        // Their blocks are nearly full, and have older versions of them.
        for record in (0..full.unwrap()).filter(|record| record % 50 == 0) {
            assert!(lock(record).delete(2).unwrap().is_some());
        }
        let (mut rhythm, mut now) = (Rhythm::new(Duration::MAX), Instant::now());
        tick_for(&namespace, &mut rhythm, &mut now, 60);
        assert!(namespace.core.tombstones() > 0 && namespace.core.log.space().usage().tight);
        let ticks = tick_for(&namespace, &mut rhythm, &mut now, 60);
        assert!(ticks < 300, "{ticks}");
    }

    #[test]
    fn tombstones_of_expired_records_do_not_outnumber_the_others_for_long() {
        const ROUND: u32 = 80_000;
        let clock = Arc::new(ManualClock::at(0));
        let namespace = open(Options {
            background: false,
            write_lanes: 1,
            clock: clock.clone(),
            ..Options::new("test", Storage::Memory)
        });
        let period = Duration::from_secs(120);
        let (mut rhythm, mut now) = (Rhythm::new(period), Instant::now());
        let mut most = 0;
        for round in 0..6 {
            for record in ROUND * round..ROUND * (round + 1) {
                let version = NewVersion {
                    void_time: 120 * (round + 1),
                    payload: &[1; 100],
                    ..VERSION
                };
                let lock = namespace.lock(&digest(record), None).unwrap();
                lock.put(&version).unwrap();
            }
            clock.advance_ms(121_000);
            let due = rhythm.next_expiry;
            now = now.max(due);
            // Too short for the store to be idle.
            while now < due + IDLE_AFTER / 2 {
                now += namespace.core.tick(&mut rhythm, now) + Duration::from_micros(1);
                // Other tests of this process look at blocks.
                namespace.core.free_all_emptied().unwrap();
            }
            most = most.max(namespace.stats().index_entries);
        }
        assert!(most < 3 * u64::from(ROUND), "{most} entries");
    }

    /// Disk space of all files of a directory.
    fn disk_bytes(dir: &Path) -> u64 {
        let entries = std::fs::read_dir(dir).unwrap();
        let files = entries.map(|entry| entry.unwrap().metadata().unwrap());
        files.map(|file| file.blocks() * 512).sum()
    }

    #[test]
    fn an_idle_store_takes_three_times_what_lives_in_it_after_five_seconds() {
        // Staging memory and the open blocks of lanes take up to 4 MB of disk beside live entries.
        const RECORDS: u32 = 80_000;
        /// Versions of each record, and which part of the records is deleted then.
        const CASES: [(usize, u32); 3] = [(6, 0), (1, 8), (3, 2)];
        for (versions, deleted) in CASES {
            let dir = tempfile::tempdir().unwrap();
            let storage = Storage::Files {
                dir: dir.path().to_owned(),
                devices: 1,
            };
            let namespace = open(Options {
                background: false,
                write_lanes: 4,
                durability: Durability::Process,
                ..Options::new("test", storage)
            });
            // Threads that meet use several lanes.
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let namespace = &namespace;
                    scope.spawn(move || {
                        for version in 1..=versions {
                            let payload = vec![7; 20 * version + 300];
                            let version = NewVersion {
                                payload: &payload,
                                ..VERSION
                            };
                            for record in (thread..RECORDS).step_by(4) {
                                let lock = namespace.lock(&digest(record), None).unwrap();
                                lock.put(&version).unwrap();
                            }
                        }
                    });
                }
            });
            let is_deleted = |record: u32| deleted > 0 && !record.is_multiple_of(deleted);
            for record in (0..RECORDS).filter(|record| is_deleted(*record)) {
                let lock = namespace.lock(&digest(record), None).unwrap();
                assert!(lock.delete(2).unwrap().is_some());
            }
            let before = disk_bytes(dir.path());
            let begun = Instant::now();
            let (mut rhythm, mut now) = (Rhythm::new(Duration::MAX), begun);
            while now < begun + Duration::from_secs(5) {
                // A rest of no time is followed by the next tick at once.
                now += namespace.core.tick(&mut rhythm, now) + Duration::from_micros(1);
                // Other tests of this process look at blocks.
                namespace.core.free_all_emptied().unwrap();
            }
            let records: u64 = namespace.sets().iter().map(|set| set.stored_bytes).sum();
            let after = disk_bytes(dir.path());
            assert!(
                after <= 3 * records,
                "{versions} versions, one of {deleted} left: {records} bytes live, {before} on disk, then {after}"
            );
        }
    }

    #[test]
    fn an_idle_store_gives_emptied_blocks_back_however_far_the_next_sync_is() {
        let namespace = open(Options {
            background: false,
            write_lanes: 1,
            durability: Durability::Interval(Duration::MAX),
            ..Options::new("test", Storage::Memory)
        });
        let version = NewVersion {
            payload: &[1; 100 << 10],
            ..VERSION
        };
        let lock = |record| namespace.lock(&digest(record), None).unwrap();
        for record in 0..300 {
            lock(record).put(&version).unwrap();
        }
        for record in 0..300 {
            assert!(lock(record).delete(2).unwrap().is_some());
        }
        let used_blocks = namespace.stats().used_blocks;
        let begun = Instant::now();
        let (mut rhythm, mut now) = (Rhythm::new(Duration::MAX), begun);
        rhythm.next_checkpoint = later(now, Duration::MAX);
        while namespace.stats().used_blocks + 3 > used_blocks {
            // Other tests of this process look at blocks.
            assert!(begun.elapsed() < Duration::from_secs(20), "kept");
            now += namespace.core.tick(&mut rhythm, now) + Duration::from_micros(1);
        }
    }

    #[test]
    fn space_that_became_short_before_the_rest_ends_it() {
        let namespace = open(Options {
            background: false,
            write_lanes: 1,
            ..Options::new("test", Storage::Memory)
        });
        let space = namespace.core.log.space();
        for record in 0.. {
            if space.usage().tight {
                break;
            }
            let version = NewVersion {
                payload: &[1; 100 << 10],
                ..VERSION
            };
            let lock = namespace.lock(&digest(record), None).unwrap();
            lock.put(&version).unwrap();
        }
        let far = after(Duration::from_secs(60));
        assert_eq!(space.rest(far, false), RestEnd::Due);
        assert!(Instant::now() < far, "rested although space is short");
    }

    #[test]
    fn periods_that_no_clock_can_hold_do_no_harm() {
        let namespace = open(Options {
            durability: Durability::Interval(Duration::MAX),
            expiry_period: Duration::MAX,
            defrag_bytes_per_second: 0,
            ..Options::new("test", Storage::Memory)
        });
        namespace.sync().unwrap();
        // Ends the threads, which rest for a year.
        drop(namespace);
        assert!(after(Duration::MAX) > Instant::now());
    }
}
