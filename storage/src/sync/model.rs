//! `shuttle`'s primitives behind the names of `parking_lot`'s.

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
