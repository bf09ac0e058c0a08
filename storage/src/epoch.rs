//! Memory and blocks outlive their readers: what a reader may still see is given back only after
//! every guard of its time has been dropped.
//!
//! Normal builds use `crossbeam-epoch` as it is: `pin()` costs a few nanoseconds and never waits,
//! guards nest, and a deferred function runs on whichever thread collects next. Model builds
//! (`cfg(shuttle)`) use a small model of the same promise, in which a deferred function runs at the
//! first moment at which it may.

#[cfg(not(shuttle))]
pub(crate) use crossbeam_epoch::{Guard, pin};

#[cfg(shuttle)]
pub(crate) use model::{Guard, pin};

/// Enough to pass the two epochs a deferred function waits for, and to run a few dozen batches of
/// them: one collection takes at most 8.
const ADVANCE_ROUNDS: usize = 8;

/// Runs what has been deferred and may run: for tests and for close. Not included: what another
/// thread has deferred and not flushed, and what a guard still protects (the caller's own, too).
pub(crate) fn advance() {
    for _ in 0..ADVANCE_ROUNDS {
        pin().flush();
    }
}

#[cfg(shuttle)]
mod model {
    use std::collections::BTreeSet;

    use crate::sync::Mutex;

    type Deferred = Box<dyn FnOnce() + Send>;

    #[derive(Default)]
    struct State {
        next_id: u64,
        live: BTreeSet<u64>,
        /// Each with the id of the first guard it does *not* wait for.
        deferred: Vec<(u64, Deferred)>,
    }

    shuttle::lazy_static! {
        static ref STATE: Mutex<State> = Mutex::new(State::default());
    }

    /// Protects what its holder reads, until it is dropped.
    #[derive(Debug)]
    pub(crate) struct Guard {
        id: u64,
        /// As in `crossbeam-epoch`, a guard stays on its thread.
        _not_send: std::marker::PhantomData<*const ()>,
    }

    pub(crate) fn pin() -> Guard {
        let mut state = STATE.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.live.insert(id);
        Guard {
            id,
            _not_send: std::marker::PhantomData,
        }
    }

    impl Guard {
        /// Runs `f` once every guard that exists now, this one included, has been dropped.
        pub(crate) fn defer<R>(&self, f: impl FnOnce() -> R + Send + 'static) {
            let mut state = STATE.lock();
            let waits_below = state.next_id;
            state
                .deferred
                .push((waits_below, Box::new(move || drop(f()))));
        }

        /// Runs `f` while this guard protects nothing.
        pub(crate) fn repin_after<R>(&mut self, f: impl FnOnce() -> R) -> R {
            drop(std::mem::replace(self, pin()));
            // The new guard has been there all the while: the model is stricter than the promise.
            f()
        }

        /// Nothing to do: the model keeps nothing back.
        pub(crate) fn flush(&self) {}
    }

    impl Drop for Guard {
        fn drop(&mut self) {
            let due = {
                let mut state = STATE.lock();
                state.live.remove(&self.id);
                let oldest = state.live.first().copied().unwrap_or(u64::MAX);
                let (due, waiting) = std::mem::take(&mut state.deferred)
                    .into_iter()
                    .partition::<Vec<_>, _>(|(waits_below, _)| *waits_below <= oldest);
                state.deferred = waiting;
                due
            };
            for (_, f) in due {
                f();
            }
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

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
