//! The locks of secondary indexes and of the code that they call, in one place so that the same
//! code runs under the model checker `shuttle` (`RUSTFLAGS="--cfg shuttle"`). Normal builds get
//! `parking_lot`'s locks; model builds get `shuttle`'s behind the same names, without poisoning.
//!
//! A lock that is held while storage is called must be one of these: in the model, another thread
//! may run within each call.

pub(crate) mod guards;

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::{self, Thread};

#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Mutex, RwLock};
#[cfg(not(shuttle))]
pub(crate) use std::sync::atomic;
#[cfg(not(shuttle))]
pub(crate) use std::thread::yield_now;

#[cfg(shuttle)]
pub(crate) use model::{Mutex, RwLock};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic;
#[cfg(shuttle)]
pub(crate) use shuttle::thread::yield_now;

/// Wakes the calling thread, which parks until then. Each thread has one, so that a list of wakers
/// knows the one that comes again.
pub(crate) fn waker_of_this_thread() -> Waker {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    thread_local! {
        static OWN: Waker = Waker::from(Arc::new(Unpark(thread::current())));
    }
    let own = OWN.try_with(Waker::clone);
    own.unwrap_or_else(|_| Waker::from(Arc::new(Unpark(thread::current()))))
}

#[cfg(shuttle)]
mod model {
    use shuttle::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
    use std::sync::PoisonError;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    }

    #[derive(Debug, Default)]
    pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(shuttle::sync::RwLock::new(value))
        }

        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::waker_of_this_thread;

    #[test]
    fn a_thread_has_one_waker() {
        let other = std::thread::spawn(waker_of_this_thread).join().unwrap();
        assert!(waker_of_this_thread().will_wake(&waker_of_this_thread()));
        assert!(!waker_of_this_thread().will_wake(&other));
    }
}
