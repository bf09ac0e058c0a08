//! The background threads of a namespace, and their rhythm.

use crate::core::Core;
use crate::epoch;
use crate::log::syncer::{Request, Syncer};
use crate::sync::{Condvar, Mutex};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the maintenance thread looks around when nothing presses, and when space is short.
const IDLE_TICK: Duration = Duration::from_millis(250);

const TIGHT_TICK: Duration = Duration::from_millis(5);

/// Tombstones are forgotten at each 30th expiry pass (once an hour at the default period), since that reads the directories
/// of most blocks; and when space is short.
const EXPIRY_PASSES_A_TOMBSTONE_PASS: u32 = 30;

/// When space is short, looking at tombstones takes at most one part in this many of the thread's time.
const PRESSED_SHARE: u32 = 8;

impl Core {
    /// One tick of the maintenance thread. Returns how long it may rest.
    fn tick(&self, rhythm: &mut Rhythm) -> Duration {
        if Instant::now() >= rhythm.next_expiry {
            rhythm.next_expiry = after(self.options.expiry_period);
            self.log.space().retry_growth();
            self.forget_stuck();
            // A failure shows in the next write, with its reason; there is nobody here to tell.
            let _ = self.expire();
            let _ = self.tidy_lanes();
            if rhythm.passes.is_multiple_of(EXPIRY_PASSES_A_TOMBSTONE_PASS) {
                let _ = self.drop_tombstones();
            }
            rhythm.passes = rhythm.passes.wrapping_add(1);
        }
        let moved = self.defrag_if_worth().unwrap_or(None);
        let tight = self.log.space().usage().tight;
        epoch::advance();
        let due = Instant::now() >= rhythm.next_checkpoint;
        let freed = self.free_emptied(tight || due).unwrap_or(0);
        if due || freed > 0 {
            rhythm.next_checkpoint = after(self.options.durability.period().max(IDLE_TICK));
        }
        match moved {
            Some(_) if tight => Duration::ZERO,
            Some(bytes) => Duration::from_secs_f64(
                bytes as f64 / self.options.defrag_bytes_per_second.max(1) as f64,
            ),
            None if tight && (freed > 0 || self.has_emptied()) => TIGHT_TICK,
            None if tight => {
                let now = Instant::now();
                if now < rhythm.next_pressed {
                    return IDLE_TICK.min(rhythm.next_pressed - now);
                }
                self.forget_stuck();
                // Deleted records whose tombstones fill the blocks: forget those that nothing depends on any more.
                let dropped = self.drop_tombstones().unwrap_or(0);
                rhythm.next_pressed = after(now.elapsed() * PRESSED_SHARE + TIGHT_TICK);
                if dropped > 0 {
                    Duration::ZERO
                } else {
                    TIGHT_TICK
                }
            }
            None => IDLE_TICK,
        }
    }
}

/// Where the maintenance thread stands.
#[derive(Debug)]
struct Rhythm {
    next_expiry: Instant,
    /// Expiry passes so far.
    passes: u32,
    /// When tombstones are looked at again for want of space.
    next_pressed: Instant,
    /// When emptied blocks are given back, however few they are.
    next_checkpoint: Instant,
}

impl Rhythm {
    fn new(expiry_period: Duration) -> Self {
        Self {
            next_expiry: after(expiry_period),
            passes: 0,
            next_pressed: Instant::now(),
            next_checkpoint: Instant::now(),
        }
    }
}

/// The moment after `rest`. A rest that no clock can hold ends in a year, and begins again.
pub(super) fn after(rest: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(rest)
        .unwrap_or(now + Duration::from_secs(365 * 24 * 3600))
}

#[derive(Debug, Default)]
struct Signal {
    stop: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    fn is_over(&self) -> bool {
        *self.stop.lock()
    }

    /// Rests until `until`. Returns false when it is time to end.
    fn rest(&self, until: Instant) -> bool {
        let mut stop = self.stop.lock();
        while !*stop && Instant::now() < until {
            self.changed.wait_until(&mut stop, Some(until));
        }
        !*stop
    }
}

/// The background threads of a namespace. They end with it.
#[derive(Debug)]
pub(crate) struct Background {
    core: Arc<Core>,
    signal: Arc<Signal>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Background {
    /// Without threads.
    pub(crate) fn idle(core: &Arc<Core>) -> Self {
        Self {
            core: Arc::clone(core),
            signal: Arc::default(),
            threads: Mutex::default(),
        }
    }

    pub(crate) fn start(core: &Arc<Core>) -> std::io::Result<Self> {
        let background = Self::idle(core);
        if core.options.background {
            core.log.syncer().attend();
            background.spawn("spikelet-sync", sync_loop)?;
            background.spawn("spikelet-tidy", tidy_loop)?;
        }
        Ok(background)
    }

    fn spawn(&self, name: &str, run: fn(&Core, &Signal)) -> std::io::Result<()> {
        let (core, signal) = (Arc::clone(&self.core), Arc::clone(&self.signal));
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&core, &signal))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Ends the threads and waits for them.
    pub(crate) fn stop(&self) {
        if self.core.fork.is_child() {
            // The threads are the parent's: here they would be waited for in vain.
            std::mem::forget(std::mem::take(&mut *self.threads.lock()));
            return;
        }
        *self.signal.stop.lock() = true;
        self.signal.changed.notify_all();
        self.core.log.space().end_waits();
        self.core.log.syncer().end();
        for thread in self.threads.lock().drain(..) {
            // A thread that panicked has told so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Tells those who wait when the thread that syncs for them ends, however that comes about.
struct Attendance<'a>(&'a Syncer);

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn sync_loop(core: &Core, _: &Signal) {
    let syncer = core.log.syncer();
    let _attendance = Attendance(syncer);
    let period = core.options.durability.period();
    let mut due = after(period);
    loop {
        // A failure shows in the next write, with its reason, and wakes whoever waits.
        match syncer.wait_for_request(Some(due)) {
            Request::Sync(lsn) => drop(core.log.sync_to(lsn)),
            Request::Due => {
                if core.log.last_lsn() > syncer.durable_lsn() {
                    drop(core.log.sync());
                }
                due = after(period);
            }
            Request::End => return,
        }
    }
}

fn tidy_loop(core: &Core, signal: &Signal) {
    let mut rhythm = Rhythm::new(core.options.expiry_period);
    let mut rest = IDLE_TICK;
    loop {
        core.log.prepare_next();
        let until = after(rest);
        // The rate limit holds only until space is short.
        let is_short = core.log.space().wait_for_shortage(until);
        if signal.is_over() {
            return;
        }
        let left = until.saturating_duration_since(Instant::now());
        if !is_short && !left.is_zero() && core.log.space().wants_next() {
            rest = left;
            continue;
        }
        if !is_short && !signal.rest(until) {
            return;
        }
        rest = core.tick(&mut rhythm);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::device::{BLOCK_BYTES, HEADER_BYTES};
    use crate::digest::Digest;
    use crate::lock::record_lock::NewVersion;
    use crate::namespace::Namespace;
    use crate::options::{Options, Storage};

    fn open(options: Options) -> Namespace {
        let max_device_bytes = HEADER_BYTES + 64 * BLOCK_BYTES;
        Namespace::open(Options {
            max_device_bytes,
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
            generation: 1,
            void_time: 0,
            last_update_ms: 1,
            set_id: 0,
            key: None,
            payload: &payload,
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
            let rest = namespace.core.tick(&mut rhythm);
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

    #[test]
    fn periods_that_no_clock_can_hold_do_no_harm() {
        let namespace = open(Options {
            durability: crate::Durability::Interval(Duration::MAX),
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
