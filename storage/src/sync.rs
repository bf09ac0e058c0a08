//! The synchronisation primitives of this package, in one place so that the same production code
//! runs under the model checker `shuttle` (`RUSTFLAGS="--cfg shuttle"`). Normal builds get
//! `parking_lot` and `std` at no cost; model builds get `shuttle`'s versions behind the same names.
//!
//! Two limits of the model: every atomic is sequentially consistent there, so weak orderings still
//! need an argument of their own; and there is no clock, so a wait with a deadline may time out at
//! any moment, which is the harshest reading of a deadline.

#[cfg(not(shuttle))]
mod primitives {
    use std::time::Instant;

    pub(crate) use parking_lot::{Mutex, MutexGuard};
    pub(crate) use std::sync::atomic;
    pub(crate) use std::{hint, thread};

    /// A condition variable that waits by `&mut` guard, as `parking_lot` does.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) const fn new() -> Self {
            Self(parking_lot::Condvar::new())
        }

        /// Waits for a notification. May wake for no reason.
        #[inline]
        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            self.0.wait(guard);
        }

        /// Waits for a notification, at most until `deadline`; `None` waits for ever. True if the
        /// deadline has passed. May wake for no reason.
        #[inline]
        pub(crate) fn wait_until<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            deadline: Option<Instant>,
        ) -> bool {
            match deadline {
                Some(deadline) => self.0.wait_until(guard, deadline).timed_out(),
                None => {
                    self.0.wait(guard);
                    false
                }
            }
        }

        #[inline]
        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        #[inline]
        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(shuttle)]
#[path = "sync/model.rs"]
mod model;

#[cfg(shuttle)]
pub(crate) use model::*;
#[cfg(not(shuttle))]
pub(crate) use primitives::*;
pub(crate) use std::sync::Arc;

#[cfg(all(test, shuttle))]
mod shuttle_tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_wait_gives_the_mutex_up_and_takes_it_back() {
        let scenario = || {
            let shared = Arc::new((Mutex::new(0), Condvar::new()));
            let other = Arc::clone(&shared);
            let setter = thread::spawn(move || {
                *other.0.lock() = 1;
                other.1.notify_one();
            });
            let mut value = shared.0.lock();
            while *value == 0 {
                shared.1.wait(&mut value);
            }
            assert!(shared.0.try_lock().is_none());
            drop(value);
            setter.join().unwrap();
        };
        shuttle::check_dfs(scenario, None);
    }

    #[test]
    fn a_wait_with_a_deadline_ends_although_nobody_notifies() {
        let scenario = || {
            let (mutex, condvar) = (Mutex::new(()), Condvar::new());
            let mut guard = mutex.lock();
            while !condvar.wait_until(&mut guard, Some(Instant::now())) {}
            assert!(mutex.try_lock().is_none());
        };
        shuttle::check_random(scenario, 100);
    }
}
