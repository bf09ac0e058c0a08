//! Memory and blocks outlive their readers: memory that a reader may still see is given back only
//! after every guard of its time has been dropped.
//!
//! Normal builds use a collector of `crossbeam-epoch`: `pin()` costs a few nanoseconds and never
//! waits, guards nest, and a deferred function runs on whichever thread collects next. Model builds
//! (`cfg(shuttle)`) use a small model of the same promise, in which a deferred function runs at the
//! first moment at which it may.

//! Beside the epoch, every thread notes its present work, so that a reader that stays for long
//! holds back the block that it reads and no other: a block that is not in the index any more is
//! unseen when no thread is looking records up, or reads an entry of this block.

#[cfg(not(shuttle))]
pub(crate) use watched::{Guard, is_pinned, is_unseen, pin, without_guards};

#[cfg(shuttle)]
pub(crate) use model::{Guard, is_pinned, is_unseen, pin, without_guards};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A block of some namespace, as readers name it: never 0 or 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WatchedBlock(u64);

impl WatchedBlock {
    /// For who reads in no block at all, but in a copy.
    pub(crate) const NONE: Self = Self(u64::MAX);

    /// `namespace` is a number of its own for each namespace of the process.
    pub(crate) const fn new(namespace: u64, device: usize, block: u32) -> Self {
        Self((1 << 63) | ((namespace & 0xff_ffff) << 36) | ((device as u64) << 32) | block as u64)
    }
}

/// Enough to pass the two epochs a deferred function waits for, and to run a few dozen batches of
/// them: one collection takes at most 8.
const ADVANCE_ROUNDS: usize = 8;

/// Runs deferred work that may run: for tests and for close. Not included: work that another
/// thread has deferred and not flushed, and what a guard still protects (the caller's own, too).
pub(crate) fn advance() {
    for _ in 0..ADVANCE_ROUNDS {
        pin().flush();
    }
}

/// Returns a flag that is set once all guards of this moment have been dropped.
pub(crate) fn when_guards_have_left() -> Arc<AtomicBool> {
    let left = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&left);
    let guard = pin();
    guard.defer(move || flag.store(true, Ordering::SeqCst));
    guard.flush();
    left
}

#[cfg(not(shuttle))]
mod watched {
    use super::WatchedBlock;
    use crossbeam_epoch::{Collector, LocalHandle};
    use crossbeam_utils::CachePadded;
    use parking_lot::Mutex;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
    use std::sync::{Arc, LazyLock};

    /// The present work of a thread: none, looking records up, or reading in a block (then the
    /// block's number).
    const IDLE: u64 = 0;
    const LOOKING: u64 = 1;

    type State = CachePadded<AtomicU64>;

    /// No one else pins by it: the outermost pin of a thread is always a full fence.
    static EPOCHS: LazyLock<Collector> = LazyLock::new(Collector::new);
    /// All threads that have ever pinned and live still.
    static THREADS: Mutex<Vec<Arc<State>>> = Mutex::new(Vec::new());
    /// Guards of threads that are ending, and have no state any more.
    static ENDING: AtomicUsize = AtomicUsize::new(0);

    struct Thread {
        state: Arc<State>,
        depth: Cell<usize>,
        epochs: LocalHandle,
    }

    impl Drop for Thread {
        fn drop(&mut self) {
            THREADS
                .lock()
                .retain(|state| !Arc::ptr_eq(state, &self.state));
        }
    }

    thread_local! {
        static THREAD: Thread = {
            let state: Arc<State> = Arc::default();
            THREADS.lock().push(Arc::clone(&state));
            Thread { state, depth: Cell::new(0), epochs: EPOCHS.register() }
        };
    }

    /// Protects what its holder reads, until it is dropped. Two words: every record lock has one.
    #[derive(Debug)]
    pub(crate) struct Guard(Pin);

    #[derive(Debug)]
    enum Pin {
        Of(crossbeam_epoch::Guard),
        /// The thread is ending, and has no state any more.
        OfEnding(crossbeam_epoch::Guard),
        /// Protects nothing.
        Released,
    }

    #[inline]
    pub(crate) fn pin() -> Guard {
        let entered = THREAD.try_with(|thread| {
            let depth = thread.depth.get();
            thread.depth.set(depth + 1);
            // Beside a guard that still looks records up, there is nothing to note.
            if depth == 0 {
                thread.state.store(LOOKING, Ordering::Relaxed);
            } else if thread.state.load(Ordering::Relaxed) != LOOKING {
                thread.state.store(LOOKING, Ordering::Relaxed);
                // The outer guard's pin has had its fence before this store.
                fence(Ordering::SeqCst);
            }
            // The outermost pin is a full fence: a thread that does not see the store above has
            // changed the index before.
            Guard(Pin::Of(thread.epochs.pin()))
        });
        entered.unwrap_or_else(|_| {
            ENDING.fetch_add(1, Ordering::SeqCst);
            Guard(Pin::OfEnding(EPOCHS.register().pin()))
        })
    }

    /// Whether this thread has a guard.
    pub(crate) fn is_pinned() -> bool {
        THREAD
            .try_with(|thread| thread.depth.get() > 0)
            .unwrap_or(false)
    }

    impl Guard {
        /// From here on the holder reads its findings in this block, and looks nothing else up.
        #[inline]
        pub(crate) fn narrow(&self, block: WatchedBlock) {
            let _ = THREAD.try_with(|thread| {
                if thread.depth.get() == 1 {
                    thread.state.store(block.0, Ordering::Release);
                }
            });
        }

        pub(crate) fn defer<R>(&self, f: impl FnOnce() -> R + Send + 'static) {
            match &self.0 {
                Pin::Of(epoch) | Pin::OfEnding(epoch) => epoch.defer(f),
                Pin::Released => pin().defer(f),
            }
        }

        pub(crate) fn flush(&self) {
            if let Pin::Of(epoch) | Pin::OfEnding(epoch) = &self.0 {
                epoch.flush();
            }
        }

        /// From here on it protects nothing.
        #[inline]
        pub(crate) fn release(&mut self) {
            match std::mem::replace(&mut self.0, Pin::Released) {
                Pin::Of(epoch) => drop(epoch),
                Pin::OfEnding(epoch) => {
                    drop(epoch);
                    ENDING.fetch_sub(1, Ordering::SeqCst);
                    return;
                }
                Pin::Released => return,
            }
            // Guards may be dropped in any order: as long as one is left, the thread may look at
            // everything.
            let _ = THREAD.try_with(|thread| {
                let depth = thread.depth.get().saturating_sub(1);
                thread.depth.set(depth);
                let doing = if depth == 0 { IDLE } else { LOOKING };
                thread.state.store(doing, Ordering::Release);
            });
        }
    }

    impl Drop for Guard {
        #[inline]
        fn drop(&mut self) {
            self.release();
        }
    }

    /// Runs `f` while these guards protect nothing.
    pub(crate) fn without_guards<R>(guards: &mut [&mut Guard], f: impl FnOnce() -> R) -> R {
        guards.iter_mut().for_each(|guard| guard.release());
        // Should `f` panic, they protect something again all the same.
        struct Renewal<'a, 'g>(&'a mut [&'g mut Guard]);
        impl Drop for Renewal<'_, '_> {
            fn drop(&mut self) {
                self.0.iter_mut().for_each(|guard| **guard = pin());
            }
        }
        let _renewal = Renewal(guards);
        f()
    }

    /// Whether no thread can see this block, which is not in the index any more: none is looking
    /// records up at this moment, and none reads in the block.
    pub(crate) fn is_unseen(block: WatchedBlock) -> bool {
        fence(Ordering::SeqCst);
        let is_elsewhere = |state: &Arc<State>| {
            let doing = state.load(Ordering::Acquire);
            doing != LOOKING && doing != block.0
        };
        ENDING.load(Ordering::SeqCst) == 0 && THREADS.lock().iter().all(is_elsewhere)
    }
}

#[cfg(shuttle)]
#[path = "epoch/model.rs"]
mod model;

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_reader_that_stays_holds_back_its_own_block_alone() {
        let (own, other) = (WatchedBlock::new(7, 0, 1), WatchedBlock::new(7, 0, 2));
        let unseen_elsewhere = |block| std::thread::spawn(move || is_unseen(block)).join().unwrap();
        let guard = pin();
        assert!(!unseen_elsewhere(own) && !unseen_elsewhere(other));
        guard.narrow(own);
        // Tests beside this one look things up, too, for moments.
        while !unseen_elsewhere(other) {
            std::thread::yield_now();
        }
        assert!(!unseen_elsewhere(own));
        let inner = pin();
        assert!(!unseen_elsewhere(other), "looking things up while it reads");
        drop(guard);
        assert!(!unseen_elsewhere(own) && !unseen_elsewhere(other));
        drop(inner);
        while !unseen_elsewhere(own) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn other_users_of_epochs_in_the_process_hold_nothing_back() {
        let _other = crossbeam_epoch::pin();
        let runs = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&runs);
        let guard = pin();
        guard.defer(move || counter.fetch_add(1, Ordering::Relaxed));
        guard.flush();
        drop(guard);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while runs.load(Ordering::Relaxed) == 0 {
            assert!(std::time::Instant::now() < until, "held back");
            advance();
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_deferred_function_waits_for_its_guard_and_then_runs_once() {
        let runs = Arc::new(AtomicUsize::new(0));
        let guard = pin();
        let counter = Arc::clone(&runs);
        guard.defer(move || counter.fetch_add(1, Ordering::Relaxed));
        guard.flush();
        advance();
        assert_eq!(runs.load(Ordering::Relaxed), 0);

        drop(guard);
        // Tests beside this one pin too, and may hold the epoch back for a moment.
        while runs.load(Ordering::Relaxed) == 0 {
            advance();
            std::thread::yield_now();
        }
        advance();
        assert_eq!(runs.load(Ordering::Relaxed), 1);
    }
}

#[cfg(all(test, shuttle))]
mod shuttle_tests {
    use super::*;
    use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use crate::sync::{Arc, thread};

    /// Two readers look a slot up under a guard and use it, while the writer unlinks slot 0 and
    /// frees it, deferred or (wrongly) at once.
    fn unlink_while_two_readers_look(defer: bool) {
        struct Shared {
            current: AtomicUsize,
            freed: AtomicBool,
        }
        let shared = Arc::new(Shared {
            current: AtomicUsize::new(0),
            freed: AtomicBool::new(false),
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let _guard = pin();
                    if shared.current.load(Ordering::SeqCst) == 0 {
                        let freed = shared.freed.load(Ordering::SeqCst);
                        assert!(!freed, "freed under a reader");
                    }
                })
            })
            .collect();
        let guard = pin();
        shared.current.store(1, Ordering::SeqCst);
        let free = {
            let shared = Arc::clone(&shared);
            move || assert!(!shared.freed.swap(true, Ordering::SeqCst), "freed twice")
        };
        if defer {
            guard.defer(free);
            guard.flush();
        } else {
            free();
        }
        drop(guard);
        for reader in readers {
            reader.join().unwrap();
        }
        advance();
        assert!(shared.freed.load(Ordering::SeqCst), "never freed");
    }

    #[test]
    fn nothing_is_freed_under_a_reader_and_everything_once_they_have_left() {
        shuttle::check_random(|| unlink_while_two_readers_look(true), 3_000);
        shuttle::check_pct(|| unlink_while_two_readers_look(true), 3_000, 3);
    }

    #[test]
    #[should_panic(expected = "freed under a reader")]
    fn the_model_sees_a_block_that_is_freed_without_waiting() {
        shuttle::check_random(|| unlink_while_two_readers_look(false), 3_000);
    }

    #[test]
    fn a_guard_taken_after_the_deferral_does_not_hold_it_back() {
        let scenario = || {
            let runs = Arc::new(AtomicUsize::new(0));
            let early = pin();
            let counter = Arc::clone(&runs);
            early.defer(move || counter.fetch_add(1, Ordering::SeqCst));
            let late = pin();
            drop(early);
            assert_eq!(runs.load(Ordering::SeqCst), 1);
            drop(late);
            assert_eq!(runs.load(Ordering::SeqCst), 1);
        };
        shuttle::check_dfs(scenario, None);
    }
}
