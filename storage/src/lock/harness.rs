//! What the tests of record locks share.

use super::*;
use crate::sync::atomic::AtomicUsize;

pub(super) fn digest(n: u8) -> Digest {
    Digest::new([n; 20])
}

/// Why a thread did not get a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refused {
    Busy,
    Timeout,
}

/// A partition as the index has it: the locks behind a mutex, and what they protect.
#[derive(Default)]
pub(super) struct Partition {
    pub(super) locks: Mutex<HeldLocks>,
    owners: [AtomicUsize; 2],
}

impl Partition {
    pub(super) fn lock(
        &self,
        record: u8,
        max_waiters: usize,
        deadline: Option<Instant>,
    ) -> Result<(), Refused> {
        let digest = digest(record);
        let mut locks = self.locks.lock();
        let acquired = locks.acquire(&digest, max_waiters);
        assert!(locks.waiting(&digest) <= max_waiters, "too many wait");
        drop(locks);
        match acquired {
            Acquire::Granted => {}
            Acquire::Busy { waiting } => {
                assert_eq!(waiting, max_waiters, "refused although there is room");
                return Err(Refused::Busy);
            }
            Acquire::Queued(waiter) => {
                if !waiter.wait(deadline) && self.locks.lock().give_up(&digest, &waiter) {
                    return Err(Refused::Timeout);
                }
            }
        }
        let owners = self.owners[usize::from(record)].fetch_add(1, Ordering::SeqCst);
        assert_eq!(owners, 0, "two own one lock");
        assert!(self.locks.lock().is_held(&digest), "owned but not held");
        Ok(())
    }

    pub(super) fn unlock(&self, record: u8) {
        self.owners[usize::from(record)].fetch_sub(1, Ordering::SeqCst);
        let next = self.locks.lock().release(&digest(record));
        if let Some(next) = next {
            next.notify();
        }
    }

    /// Asserts that nothing is held, no thread waits, and each lock can be taken.
    pub(super) fn assert_free(&self) {
        let mut locks = self.locks.lock();
        for record in 0..2 {
            let digest = digest(record);
            assert!(!locks.is_held(&digest), "a lock was lost");
            assert_eq!(locks.waiting(&digest), 0);
            assert!(locks.try_acquire(&digest));
            assert!(locks.release(&digest).is_none());
        }
    }
}
