//! How often a collection has been written of late.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// A rate is measured over this many whole seconds: longer than a burst, short enough to act on.
const WINDOW_SECONDS: u64 = 10;

/// The window and the second that is under way, as a power of two.
const SLOTS: usize = 16;

/// Writes and refusals of the last seconds, shared by all who use a handle. Writes are counted
/// where the store does not report queues: across a network, beside which a lock is nothing.
#[derive(Debug, Default)]
pub(crate) struct WriteWindow {
    /// The transition since which is counted.
    epoch: AtomicU64,
    busy: AtomicU64,
    /// Seconds, and how many writes each had.
    seconds: Mutex<[(u64, u64); SLOTS]>,
}

impl WriteWindow {
    /// Counts a write at this time, in milliseconds, of the collection as it is since this epoch.
    pub(crate) fn wrote(&self, now_ms: u64, epoch: u64) {
        self.turn(epoch);
        let second = now_ms / 1000;
        let mut seconds = self.seconds.lock();
        if let Some((of, count)) = seconds.get_mut(second as usize % SLOTS) {
            *count = if *of == second { *count + 1 } else { 1 };
            *of = second;
        }
    }

    /// Counts a write that was refused with `KeyBusy`. One that was refused before the last
    /// transition does not count.
    pub(crate) fn refused(&self, epoch: u64) {
        self.turn(epoch);
        if self.epoch.load(Ordering::Relaxed) == epoch {
            self.busy.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes a second, over the last ten whole seconds.
    pub(crate) fn writes_per_second(&self, now_ms: u64) -> f64 {
        let now = now_ms / 1000;
        let within = now.saturating_sub(WINDOW_SECONDS)..now;
        let seconds = self.seconds.lock();
        let counted = seconds.iter().filter(|(second, _)| within.contains(second));
        counted.map(|(_, count)| count).sum::<u64>() as f64 / WINDOW_SECONDS as f64
    }

    /// Returns how many writes were refused since this transition; 0 if it is not the last one.
    pub(crate) fn busy(&self, epoch: u64) -> u64 {
        if self.epoch.load(Ordering::Relaxed) == epoch {
            self.busy.load(Ordering::Relaxed)
        } else {
            0
        }
    }

    /// Starts again, for a collection that is back in its root, where writes bear no epoch.
    pub(crate) fn restart(&self) {
        self.epoch.store(0, Ordering::Relaxed);
        self.clear();
    }

    /// Counts from before a transition do not apply after it.
    fn turn(&self, epoch: u64) {
        if self.epoch.load(Ordering::Relaxed) < epoch
            && self.epoch.fetch_max(epoch, Ordering::Relaxed) < epoch
        {
            self.clear();
        }
    }

    fn clear(&self) {
        self.busy.store(0, Ordering::Relaxed);
        *self.seconds.lock() = Default::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(window: &WriteWindow, from_second: u64, seconds: u64, each: u64) {
        for second in from_second..from_second + seconds {
            for write in 0..each {
                window.wrote(second * 1000 + write * 999 / each, 0);
            }
        }
    }

    #[test]
    fn a_steady_rate_is_told_and_fades() {
        let window = WriteWindow::default();
        write(&window, 500_000_000, 100, 70);
        let rate = |second: u64| window.writes_per_second((500_000_000 + second) * 1000);
        assert_eq!(rate(100), 70.0);
        // The second that is under way does not count yet, but the ten before it do.
        assert_eq!(rate(99), 70.0);
        assert_eq!(rate(104), 42.0);
        assert_eq!(rate(109), 7.0);
        assert_eq!(rate(110), 0.0);
        assert_eq!(rate(1_000_000), 0.0);
    }

    #[test]
    fn a_burst_is_no_sustained_rate() {
        let window = WriteWindow::default();
        write(&window, 7, 1, 400);
        assert_eq!(window.writes_per_second(8_000), 40.0);
    }

    #[test]
    fn a_transition_begins_anew_and_late_writers_of_before_do_not() {
        let window = WriteWindow::default();
        window.wrote(1_000, 5);
        window.refused(5);
        assert_eq!(window.busy(5), 1);
        assert_eq!(window.writes_per_second(2_000), 0.1);
        window.wrote(1_000, 6);
        window.refused(5);
        assert_eq!((window.busy(5), window.busy(6)), (0, 0));
        assert_eq!(window.writes_per_second(2_000), 0.1);
    }

    #[test]
    fn threads_lose_no_count_within_a_second() {
        let window = WriteWindow::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| window.wrote(20_000, 0)));
            }
        });
        assert_eq!(window.writes_per_second(21_000), 4_000.0);
    }
}
