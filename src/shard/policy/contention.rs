//! Counts how many writes had to queue, in windows, and remembers whether splits have helped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{QUEUED_SHARE_MAX, is_ahead};

/// The shortest window: too short for a caller to notice, longer than a thread is off its core.
const WINDOW_MS: u64 = 100;

/// A window has at least this many writes: fewer say nothing.
const WINDOW_WRITES: u64 = 200;

/// A window that has not that many writes by now is dropped: so few writes are no load.
const WINDOW_MS_MAX: u64 = 1_000;

/// As many contended windows in a row are contention, fewer are a burst.
const WINDOWS: u32 = 3;

/// A split has helped if this much of the share that had to queue is left at most.
const HELPED: f64 = 0.8;

/// After a split that did not help, contention leads to no other one for this long: 10 minutes.
const BACK_OFF_MS: u64 = 600_000;

/// The writes that had to queue in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QueueLoad {
    /// Their share of all writes.
    pub(crate) share: f64,
    /// The most writers that one of them found before it.
    pub(crate) longest: u64,
}

/// Watches the queues of a collection's records. All users of a handle share it; a write that met
/// no other costs one addition to an atomic number.
#[derive(Debug, Default)]
pub(crate) struct ContentionMonitor {
    /// Whether the store reports queues.
    is_told: AtomicBool,
    /// The transition since which is counted.
    epoch: AtomicU64,
    writes: AtomicU64,
    queued: AtomicU64,
    longest: AtomicU64,
    /// When the window ends at the earliest, in milliseconds of the store's clock.
    ends_ms: AtomicU64,
    history: Mutex<History>,
}

#[derive(Debug, Default)]
struct History {
    /// When the window began; `None` before the first write.
    began_ms: Option<u64>,
    epoch: u64,
    shards: u64,
    /// How many windows in a row were contended, and the sum of their shares.
    contended: u32,
    shares: f64,
    longest: u64,
    /// The share by which the last split was asked for.
    share_before: Option<f64>,
    backs_off_until_ms: u64,
}

impl ContentionMonitor {
    /// Counts a write of a collection that has had this many shards since this epoch (in the root:
    /// 0, since 0). Returns what has queued if that has been too much for some time.
    pub(crate) fn wrote(
        &self,
        now_ms: u64,
        epoch: u64,
        shards: u64,
        queued_behind: usize,
    ) -> Option<QueueLoad> {
        if !self.is_told.load(Ordering::Relaxed) {
            self.is_told.store(true, Ordering::Relaxed);
        }
        if epoch < self.epoch.load(Ordering::Relaxed) {
            // Written before the last transition.
            return None;
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        if queued_behind > 0 {
            self.queued.fetch_add(1, Ordering::Relaxed);
            self.longest
                .fetch_max(queued_behind as u64, Ordering::Relaxed);
        }
        if is_ahead(self.ends_ms.load(Ordering::Relaxed), now_ms, WINDOW_MS) {
            return None;
        }
        // One thread closes the window for all.
        let mut history = self.history.try_lock().ok()?;
        self.close(&mut history, now_ms, epoch, shards)
    }

    /// Returns whether the store has told of any write whether it had to queue.
    pub(crate) fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    fn close(
        &self,
        history: &mut History,
        now_ms: u64,
        epoch: u64,
        shards: u64,
    ) -> Option<QueueLoad> {
        if epoch < history.epoch {
            return None;
        }
        let age_ms = match history.began_ms {
            Some(began_ms) if began_ms <= now_ms => now_ms - began_ms,
            // The first window, or a clock that was set back.
            _ => WINDOW_MS_MAX + 1,
        };
        if epoch != history.epoch || age_ms > WINDOW_MS_MAX {
            if epoch != history.epoch {
                history.turn(epoch, shards);
                self.epoch.store(epoch, Ordering::Relaxed);
            }
            history.calm();
            self.open(history, now_ms);
            return None;
        }
        let writes = self.writes.load(Ordering::Relaxed);
        if age_ms < WINDOW_MS || writes < WINDOW_WRITES {
            return None;
        }
        let share = self.queued.load(Ordering::Relaxed) as f64 / writes as f64;
        let longest = self.longest.load(Ordering::Relaxed);
        self.open(history, now_ms);
        history.window(now_ms, share.min(1.0), longest)
    }

    fn open(&self, history: &mut History, now_ms: u64) {
        history.began_ms = Some(now_ms);
        self.ends_ms
            .store(now_ms.saturating_add(WINDOW_MS), Ordering::Relaxed);
        for count in [&self.writes, &self.queued, &self.longest] {
            count.store(0, Ordering::Relaxed);
        }
    }

    /// Starts again, for a collection that is back in its root, where writes bear no epoch.
    pub(crate) fn restart(&self) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.calm();
        (history.epoch, history.shards, history.began_ms) = (0, 0, None);
        self.epoch.store(0, Ordering::Relaxed);
        self.ends_ms.store(0, Ordering::Relaxed);
    }

    /// Notes that a transition was begun for this load: the load after it shows whether it has
    /// helped.
    pub(crate) fn acted_on(&self, queue: QueueLoad) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.share_before = Some(queue.share);
    }

    /// Notes that the transition has failed: the load after it shows nothing.
    pub(crate) fn failed(&self) {
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        history.share_before = None;
    }
}

impl History {
    fn calm(&mut self) {
        (self.contended, self.shares, self.longest) = (0, 0.0, 0);
    }

    /// Takes up a collection that has other shards than before.
    fn turn(&mut self, epoch: u64, shards: u64) {
        if shards <= self.shards {
            // What a split of more shards brought says nothing of fewer.
            (self.share_before, self.backs_off_until_ms) = (None, 0);
        }
        (self.epoch, self.shards) = (epoch, shards);
    }

    fn window(&mut self, now_ms: u64, share: f64, longest: u64) -> Option<QueueLoad> {
        if share <= QUEUED_SHARE_MAX {
            self.calm();
            return None;
        }
        self.contended += 1;
        self.shares += share;
        self.longest = self.longest.max(longest);
        if self.contended < WINDOWS {
            return None;
        }
        let queue = QueueLoad {
            share: self.shares / f64::from(self.contended),
            longest: self.longest,
        };
        self.calm();
        if is_ahead(self.backs_off_until_ms, now_ms, BACK_OFF_MS) {
            return None;
        }
        if self
            .share_before
            .take()
            .is_some_and(|before| queue.share > before * HELPED)
        {
            self.backs_off_until_ms = now_ms.saturating_add(BACK_OFF_MS);
            return None;
        }
        Some(queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: u64 = 500_000_000_000;

    /// Feeds windows of 1,000 writes, each 100 ms after the one before, of which this share had to
    /// queue behind `longest`.
    struct Feed {
        monitor: ContentionMonitor,
        now_ms: u64,
    }

    impl Feed {
        fn new() -> Self {
            let monitor = ContentionMonitor::default();
            monitor.wrote(START_MS, 0, 0, 0);
            Self {
                monitor,
                now_ms: START_MS,
            }
        }

        fn window(
            &mut self,
            epoch: u64,
            shards: u64,
            share: f64,
            longest: usize,
        ) -> Option<QueueLoad> {
            let queued = (share * 1_000.0) as usize;
            let mut found = None;
            for write in 0..1_000 {
                if write == 999 {
                    self.now_ms += WINDOW_MS;
                }
                let behind = if write < queued { longest } else { 0 };
                let load = self.monitor.wrote(self.now_ms, epoch, shards, behind);
                found = found.or(load);
            }
            found
        }

        fn windows(
            &mut self,
            many: u32,
            epoch: u64,
            shards: u64,
            share: f64,
        ) -> Vec<Option<QueueLoad>> {
            (0..many)
                .map(|_| self.window(epoch, shards, share, 7))
                .collect()
        }
    }

    #[test]
    fn three_contended_windows_in_a_row_are_contention() {
        let mut feed = Feed::new();
        let found = feed.windows(3, 0, 0, 0.9);
        assert_eq!(found[..2], [None, None]);
        let queue = found[2].unwrap();
        assert!((0.89..0.91).contains(&queue.share), "{queue:?}");
        assert_eq!(queue.longest, 7);
        // A calm one in between begins anew.
        assert_eq!(feed.windows(2, 0, 0, 0.9), [None, None]);
        assert_eq!(feed.windows(1, 0, 0, 0.1), [None]);
        assert_eq!(feed.windows(2, 0, 0, 0.9), [None, None]);
        assert!(feed.window(0, 0, 0.9, 7).is_some());
    }

    #[test]
    fn few_writes_are_no_contention_however_many_queue() {
        let monitor = ContentionMonitor::default();
        // 150 writes a second, each behind another one, for a minute.
        for write in 0..9_000_u64 {
            let now_ms = START_MS + write * 1_000 / 150;
            assert_eq!(monitor.wrote(now_ms, 0, 0, 3), None);
        }
        assert!(monitor.is_told());
    }

    #[test]
    fn a_split_that_did_not_help_is_not_repeated_until_it_has_rested() {
        let mut feed = Feed::new();
        let queue = feed.windows(3, 0, 0, 0.9)[2].unwrap();
        feed.monitor.acted_on(queue);
        // The first window of an epoch only begins it.
        feed.windows(1, 5, 2, 0.0);
        assert_eq!(feed.windows(30, 5, 2, 0.85), vec![None; 30]);
        feed.now_ms += BACK_OFF_MS;
        let found = feed.windows(4, 5, 2, 0.85);
        assert!(found.iter().any(Option::is_some), "{found:?}");
    }

    #[test]
    fn a_split_that_failed_is_not_held_against_the_next_one() {
        let mut feed = Feed::new();
        let queue = feed.windows(3, 0, 0, 0.9)[2].unwrap();
        feed.monitor.acted_on(queue);
        feed.monitor.failed();
        assert!(feed.windows(3, 0, 0, 0.9)[2].is_some());
    }

    #[test]
    fn a_split_that_helped_may_be_followed_by_another_one() {
        let mut feed = Feed::new();
        let queue = feed.windows(3, 0, 0, 0.9)[2].unwrap();
        feed.monitor.acted_on(queue);
        feed.windows(1, 5, 2, 0.0);
        assert!(feed.windows(3, 5, 2, 0.5)[2].is_some());
    }

    #[test]
    fn writes_of_before_a_transition_do_not_count_after_it() {
        let mut feed = Feed::new();
        feed.windows(2, 5, 2, 0.9);
        feed.windows(1, 6, 4, 0.9);
        assert_eq!(feed.windows(2, 5, 2, 0.9), [None, None]);
        assert_eq!(feed.windows(2, 6, 4, 0.0), [None, None]);
    }

    #[test]
    fn a_clock_that_was_set_back_hides_no_contention() {
        let mut feed = Feed::new();
        feed.windows(2, 0, 0, 0.9);
        feed.now_ms -= 86_400_000;
        let found = feed.windows(4, 0, 0, 0.9);
        assert!(found.iter().any(Option::is_some), "{found:?}");
    }
}
