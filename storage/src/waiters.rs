//! Tasks that wait for an event, such as a version that is published.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

/// Wakers of tasks that wait. Waking costs one load while no task waits.
///
/// A task that waits adds its waker first and then looks for the event; a thread that brings the
/// event makes it visible first and then wakes. With both under a lock that the two share, or in
/// sequentially consistent operations, one of them sees the other.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
}

impl Waiters {
    /// Wakes all that wait.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        let awake = {
            let mut wakers = self.wakers.lock();
            self.waiting.store(0, Ordering::SeqCst);
            std::mem::take(&mut *wakers)
        };
        // Without the lock: a waker may run its task at once.
        awake.into_iter().for_each(Waker::wake);
    }

    /// Has a task woken by the next [`Waiters::wake`].
    pub(crate) fn add(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|known| known.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        self.waiting.store(wakers.len(), Ordering::SeqCst);
    }
}
