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
mod primitives {
    use std::ops::{Deref, DerefMut};
    use std::sync::{PoisonError, TryLockError};
    use std::time::Instant;

    use shuttle::rand::Rng;
    pub(crate) use shuttle::sync::atomic;
    pub(crate) use shuttle::{hint, thread};

    /// `shuttle`'s mutex with `parking_lot`'s calls: no poisoning.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    /// The lock on a [`Mutex`], given back when dropped.
    #[derive(Debug)]
    pub(crate) struct MutexGuard<'a, T> {
        /// `None` only inside a wait, which `shuttle` does by value.
        inner: Option<shuttle::sync::MutexGuard<'a, T>>,
        mutex: &'a Mutex<T>,
    }

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            MutexGuard {
                inner: Some(inner),
                mutex: self,
            }
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            let inner = match self.0.try_lock() {
                Ok(inner) => inner,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return None,
            };
            Some(MutexGuard {
                inner: Some(inner),
                mutex: self,
            })
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        #[expect(
            clippy::expect_used,
            reason = "nobody can look while a wait has the guard"
        )]
        fn deref(&self) -> &T {
            self.inner.as_ref().expect("held outside a wait")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        #[expect(
            clippy::expect_used,
            reason = "nobody can look while a wait has the guard"
        )]
        fn deref_mut(&mut self) -> &mut T {
            self.inner.as_mut().expect("held outside a wait")
        }
    }

    /// `shuttle`'s condition variable, waiting by `&mut` guard.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        pub(crate) const fn new() -> Self {
            Self(shuttle::sync::Condvar::new())
        }

        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            if let Some(inner) = guard.inner.take() {
                let inner = self.0.wait(inner).unwrap_or_else(PoisonError::into_inner);
                guard.inner = Some(inner);
            }
        }

        /// With a deadline this lets the others run and then wakes, timed out or for no reason: it
        /// never depends on a notification, as nothing with a deadline may.
        pub(crate) fn wait_until<T>(
            &self,
            guard: &mut MutexGuard<'_, T>,
            deadline: Option<Instant>,
        ) -> bool {
            if deadline.is_none() {
                self.wait(guard);
                return false;
            }
            guard.inner = None;
            thread::yield_now();
            let inner = guard.mutex.0.lock().unwrap_or_else(PoisonError::into_inner);
            guard.inner = Some(inner);
            shuttle::rand::thread_rng().gen_bool(0.25)
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

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
