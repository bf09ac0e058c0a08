//! Record locks: one lock a record, never a stripe, so two records never make each other wait.
//!
//! A partition keeps its [`HeldLocks`] behind the mutex that guards its part of the index. A writer
//! is in there for the lookup anyway, so an uncontended lock costs two small stores and no
//! synchronisation of its own. Who finds the record locked queues, in FIFO order and at most
//! `max_waiters` deep; a release hands the lock to the first in the queue directly, so no thread
//! that comes later can overtake.
//!
//! ```text
//! let mut partition = mutex.lock();
//! match partition.locks.acquire(&digest, max_waiters) {
//!     Acquire::Granted => ..,                        // look up, drop the mutex, edit, write
//!     Acquire::Busy { waiting } => ..,               // KeyBusy
//!     Acquire::Queued(waiter) => {
//!         drop(partition);
//!         if !waiter.wait(deadline) && mutex.lock().locks.give_up(&digest, &waiter) {
//!             ..                                     // Timeout, nothing is held
//!         }                                          // else: granted after all
//!     }
//! }
//! ..
//! let next = mutex.lock().locks.release(&digest);  // the mutex is free at the `;`
//! if let Some(next) = next { next.notify(); }
//! ```

use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

use crate::digest::Digest;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Arc, Condvar, Mutex, hint};

/// How often a waiter looks before it sleeps: a few microseconds. A record lock is usually held for
/// less than one, and going to sleep and back costs five or more.
#[cfg(not(shuttle))]
const SPINS: u32 = 100;
/// The model has no time to save: once covers the path.
#[cfg(shuttle)]
const SPINS: u32 = 1;

/// What became of an attempt to lock a record.
#[derive(Debug)]
pub(crate) enum Acquire {
    /// The caller owns the lock.
    Granted,
    /// The lock is held and the caller is in the queue: it must wait, and give up if the wait
    /// fails. A waiter that is simply dropped would be handed the lock and never release it.
    Queued(Arc<Waiter>),
    /// The lock is held and the queue is full: `waiting` are in it.
    Busy { waiting: usize },
}

/// The locks held in one partition, and the threads that wait for one. Accessed under the
/// partition's mutex. Most of the time empty or of one element, which takes no allocation.
#[derive(Default, Debug)]
pub(crate) struct HeldLocks {
    first: Option<Digest>,
    /// Absent until two locks of this partition are held at once or one is waited for, then kept.
    more: Option<Box<More>>,
}

// There are 4,096 of these a namespace.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<HeldLocks>() == 32);

#[derive(Default, Debug)]
struct More {
    /// Held beside the first, in no order.
    held: Vec<Digest>,
    /// Held, while the owners wait for space and look at nothing, in no order.
    resting: Vec<Digest>,
    /// All who wait in this partition, in the order in which they came. One queue for all records:
    /// it is no longer than there are threads that wait here, and mostly for one record.
    queue: VecDeque<(Digest, Arc<Waiter>)>,
}

impl HeldLocks {
    /// Takes the lock if it is free, queues if fewer than `max_waiters` wait for it, and is refused
    /// at once otherwise (always, with 0). A thread that asks for a lock it holds waits for itself.
    pub(crate) fn acquire(&mut self, digest: &Digest, max_waiters: usize) -> Acquire {
        if self.try_acquire(digest) {
            return Acquire::Granted;
        }
        let waiting = self.waiting(digest);
        if waiting >= max_waiters {
            return Acquire::Busy { waiting };
        }
        let waiter = Arc::new(Waiter::new(waiting));
        let more = self.more.get_or_insert_default();
        more.queue.push_back((*digest, Arc::clone(&waiter)));
        Acquire::Queued(waiter)
    }

    /// Returns the digests of the records that are locked.
    pub(crate) fn digests(&self) -> Vec<Digest> {
        let more = self.more.iter().flat_map(|more| more.held.iter());
        self.first.iter().chain(more).copied().collect()
    }

    /// Takes the lock if it is free. For background passes, which come back later instead.
    pub(crate) fn try_acquire(&mut self, digest: &Digest) -> bool {
        if self.is_held(digest) {
            return false;
        }
        if self.first.is_none() {
            self.first = Some(*digest);
        } else {
            self.more.get_or_insert_default().held.push(*digest);
        }
        true
    }

    /// Gives back a lock that the caller owns: to the first that waits for it, if any does. Notify
    /// after the partition's mutex was dropped, so that the new owner finds the mutex free.
    pub(crate) fn release(&mut self, digest: &Digest) -> Option<Handover> {
        debug_assert!(
            self.is_held(digest),
            "lock of {digest} released but not held"
        );
        if let Some(more) = &mut self.more {
            let next = more
                .queue
                .iter()
                .position(|(waited_for, _)| waited_for == digest);
            if let Some((_, waiter)) = next.and_then(|place| more.queue.remove(place)) {
                return Some(Handover(waiter));
            }
        }
        if self.first.as_ref() == Some(digest) {
            self.first = None;
        } else if let Some(more) = &mut self.more
            && let Some(place) = more.held.iter().position(|held| held == digest)
        {
            more.held.swap_remove(place);
        }
        None
    }

    /// After a wait that timed out. True: out of the queue, nothing is held. False: the lock had
    /// been handed over meanwhile, and the caller owns it.
    pub(crate) fn give_up(&mut self, digest: &Digest, waiter: &Arc<Waiter>) -> bool {
        debug_assert!(
            self.is_held(digest),
            "waiting for {digest}, which nobody holds"
        );
        let Some(more) = &mut self.more else {
            return false;
        };
        let place = more
            .queue
            .iter()
            .position(|(_, queued)| Arc::ptr_eq(queued, waiter));
        place.and_then(|place| more.queue.remove(place)).is_some()
    }

    /// Notes that the owner of a lock waits for space: until [`HeldLocks::resume`] others may move
    /// the record. Without, records of waiting writers would keep blocks from being emptied, and so
    /// the space away that they wait for.
    pub(crate) fn rest(&mut self, digest: &Digest) {
        debug_assert!(self.is_held(digest), "{digest} rests but is not held");
        self.more.get_or_insert_default().resting.push(*digest);
    }

    /// Notes that the owner of a lock goes on.
    pub(crate) fn resume(&mut self, digest: &Digest) {
        if let Some(more) = &mut self.more {
            more.resting.retain(|resting| resting != digest);
        }
    }

    /// Returns whether the lock is held by an owner that waits for space.
    pub(crate) fn is_resting(&self, digest: &Digest) -> bool {
        self.more
            .as_ref()
            .is_some_and(|more| more.resting.contains(digest))
    }

    pub(crate) fn is_held(&self, digest: &Digest) -> bool {
        self.first.as_ref() == Some(digest)
            || self
                .more
                .as_ref()
                .is_some_and(|more| more.held.contains(digest))
    }

    /// How many wait for this lock.
    pub(crate) fn waiting(&self, digest: &Digest) -> usize {
        self.more.as_ref().map_or(0, |more| {
            more.queue
                .iter()
                .filter(|(waited_for, _)| waited_for == digest)
                .count()
        })
    }
}

/// A lock on its way to the waiter who owns it now. That one is woken when this is dropped, even
/// if the thread that gave the lock back panics.
#[derive(Debug)]
#[must_use = "notify once the partition's mutex is free"]
pub(crate) struct Handover(Arc<Waiter>);

impl Handover {
    /// Wakes the new owner.
    pub(crate) fn notify(self) {}
}

impl Drop for Handover {
    fn drop(&mut self) {
        self.0.wake();
    }
}

/// The place of a thread or a task in the queue for a lock.
#[derive(Debug)]
pub(crate) struct Waiter {
    /// Set under `task`, so that no wake-up falls between the look and the sleep.
    woken: AtomicBool,
    /// The task that waits, if it is no thread.
    task: Mutex<Option<Waker>>,
    wakeup: Condvar,
    /// How many waited before this one when it came. Only the first in line spins, or a hot record
    /// would keep every core busy.
    waiters_before: usize,
}

impl Waiter {
    fn new(waiters_before: usize) -> Self {
        Self {
            woken: AtomicBool::new(false),
            task: Mutex::new(None),
            wakeup: Condvar::new(),
            waiters_before,
        }
    }

    /// The waiter that owns a lock for which it had to wait for no other.
    pub(crate) fn granted() -> Self {
        let waiter = Self::new(0);
        waiter.woken.store(true, Ordering::Release);
        waiter
    }

    /// Returns how many writers held the lock or waited for it when this one came.
    pub(crate) const fn queued_behind(&self) -> usize {
        self.waiters_before + 1
    }

    fn wake(&self) {
        let mut task = self.task.lock();
        self.woken.store(true, Ordering::Release);
        let woken = task.take();
        drop(task);
        self.wakeup.notify_one();
        // Without the lock: a waker may run its task at once.
        if let Some(woken) = woken {
            woken.wake();
        }
    }

    /// Returns whether the lock was handed over; the task is woken when it is.
    pub(crate) fn is_granted(&self, waker: &Waker) -> bool {
        let mut task = self.task.lock();
        let is_granted = self.woken.load(Ordering::Acquire);
        if !is_granted {
            task.get_or_insert_with(|| waker.clone()).clone_from(waker);
        }
        is_granted
    }

    /// Waits until the lock is handed over, at most until `deadline`; `None` waits for ever. True:
    /// the caller owns the lock. False: the deadline has passed, and [`HeldLocks::give_up`] says
    /// who owns it. Not to be called with the partition's mutex held.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> bool {
        if self.waiters_before == 0 {
            for _ in 0..SPINS {
                if self.woken.load(Ordering::Acquire) {
                    return true;
                }
                hint::spin_loop();
            }
        }
        let mut asleep = self.task.lock();
        let mut timed_out = false;
        while !self.woken.load(Ordering::Acquire) {
            if timed_out {
                return false;
            }
            timed_out = self.wakeup.wait_until(&mut asleep, deadline);
        }
        true
    }
}

#[cfg(test)]
mod harness;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
#[cfg(all(test, not(shuttle)))]
mod tests;
