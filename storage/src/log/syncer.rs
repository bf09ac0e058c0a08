//! One sync at a time for all who wait for one, and what a failed sync means.

use crate::device::DeviceError;
use crate::entry::Lsn;
use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::waiters::Waiters;
use std::collections::BTreeMap;
use std::task::Waker;
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
struct SyncProgress {
    started: u64,
    completed: u64,
    /// How long those took that succeeded.
    took: Duration,
    running: bool,
    failure: Option<String>,
    /// Tasks that wait for a sequence number to become durable, lowest number first. The background
    /// syncs for them.
    waiting: BTreeMap<Ticket, Waker>,
    /// The next ticket's serial number.
    next_serial: u64,
    /// A background thread syncs when a task waits.
    attended: bool,
    /// No background thread will again.
    ended: bool,
}

/// The number that a task waits for, and its serial number: its place in the list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Ticket {
    lsn: u64,
    serial: u64,
}

/// How far a task that asked has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// Everything up to its number is on stable storage.
    Durable,
    /// A sync has failed, or found the disk full: the reason.
    Failed(String),
    /// The task is on the list and will be woken.
    Listed(Ticket),
    /// No background thread syncs: the task must.
    Unattended,
}

/// A request to the background thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyncRequest {
    /// Tasks wait, the last of them for this number.
    Sync(Lsn),
    /// The time is over.
    Due,
    /// Nothing any more.
    End,
}

/// Runs one sync at a time for everybody who asks, and remembers the first failure for ever: a
/// failed sync is never retried as if nothing had happened, since the kernel may have dropped the
/// pages it could not write. One that found no room for a write of its own has dropped nothing, and
/// the next one tries again.
#[derive(Debug, Default)]
pub(crate) struct Syncer {
    progress: Mutex<SyncProgress>,
    done: Condvar,
    /// Told when a task begins to wait.
    asked: Condvar,
    failed: AtomicBool,
    /// The last sync found the disk full.
    refused: AtomicBool,
    /// Everything up to here was complete before a sync that succeeded.
    durable_lsn: AtomicU64,
    /// Told when a sync has succeeded, or failed.
    pub(crate) followers: Waiters,
}

/// The result of a sync.
pub(crate) type SyncResult<T> = std::result::Result<T, SyncError>;

/// Why a sync has not succeeded.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum SyncError {
    /// A write of it found the disk full. Its bytes are still there for the next one.
    #[error("{0}")]
    Full(String),
    /// It is unknown which bytes reached the devices.
    #[error("{0}")]
    Failed(String),
}

impl From<DeviceError> for SyncError {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Full { .. } => Self::Full(error.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl Syncer {
    /// Returns when a sync that started after this call has succeeded. `sync` is run without any
    /// lock, and returns the number up to which everything was complete before it.
    pub(crate) fn sync(&self, sync: impl Fn() -> SyncResult<u64>) -> SyncResult<()> {
        let progress = self.progress.lock();
        // One that is running may have flushed the caller's lane already.
        let needed = progress.started + 1;
        self.sync_until(|progress| progress.completed >= needed, progress, sync)
    }

    /// Returns when everything up to a number that was given is durable: by a sync that others have
    /// begun, if that covers it.
    pub(crate) fn sync_to(&self, lsn: Lsn, sync: impl Fn() -> SyncResult<u64>) -> SyncResult<()> {
        let is_durable = |_: &SyncProgress| lsn.0 <= self.durable_lsn();
        self.sync_until(is_durable, self.progress.lock(), sync)
    }

    /// Takes part in syncs until enough is done, or one fails.
    fn sync_until<'a>(
        &'a self,
        is_enough: impl Fn(&SyncProgress) -> bool,
        mut progress: MutexGuard<'a, SyncProgress>,
        sync: impl Fn() -> SyncResult<u64>,
    ) -> SyncResult<()> {
        loop {
            if is_enough(&progress) {
                return Ok(());
            }
            if let Some(failure) = &progress.failure {
                return Err(SyncError::Failed(failure.clone()));
            }
            if progress.running {
                self.done.wait(&mut progress);
                continue;
            }
            progress.running = true;
            progress.started += 1;
            let number = progress.started;
            drop(progress);
            let began = Instant::now();
            let result = sync();
            progress = self.progress.lock();
            progress.running = false;
            let mut refused = Ok(());
            self.refused.store(false, Ordering::SeqCst);
            let awake = match result {
                Ok(complete) => {
                    progress.completed = number;
                    progress.took += began.elapsed();
                    // With the list in hand: a task that looks under the lock sees the number, or
                    // is on the list.
                    self.durable_lsn.fetch_max(complete, Ordering::SeqCst);
                    let beyond = Ticket {
                        lsn: complete + 1,
                        serial: 0,
                    };
                    let others = progress.waiting.split_off(&beyond);
                    std::mem::replace(&mut progress.waiting, others)
                }
                Err(SyncError::Failed(failure)) => {
                    // Before `failed`: a writer that sees that quotes the reason.
                    progress.failure = Some(failure);
                    self.failed.store(true, Ordering::SeqCst);
                    std::mem::take(&mut progress.waiting)
                }
                Err(full) => {
                    self.refused.store(true, Ordering::SeqCst);
                    refused = Err(full);
                    std::mem::take(&mut progress.waiting)
                }
            };
            self.done.notify_all();
            drop(progress);
            awake.into_values().for_each(Waker::wake);
            self.followers.wake();
            // Only the thread that ran it gives up: the others run a sync of their own.
            refused?;
            progress = self.progress.lock();
        }
    }

    /// Ends all syncing: no later write becomes durable. Callers hold locks of the log: they call
    /// [`Syncer::wake_failed`] without them.
    pub(super) fn set_failed(&self, reason: String) {
        // The reason first: a writer that sees `failed` quotes it.
        self.progress.lock().failure.get_or_insert(reason);
        self.failed.store(true, Ordering::SeqCst);
    }

    /// Wakes all who wait, after a failure. A waker may run its task at once, which takes locks of
    /// the log.
    pub(super) fn wake_failed(&self) {
        if !self.failed.load(Ordering::SeqCst) {
            return;
        }
        let awake = std::mem::take(&mut self.progress.lock().waiting);
        self.done.notify_all();
        awake.into_values().for_each(Waker::wake);
        self.followers.wake();
    }

    /// Refuses once a sync has failed.
    #[inline]
    pub(crate) fn check(&self, namespace: &str) -> Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(self.read_only(namespace));
        }
        Ok(())
    }

    #[cold]
    fn read_only(&self, namespace: &str) -> Error {
        Error::ReadOnly {
            namespace: namespace.to_owned(),
            reason: self.failure().unwrap_or_default(),
        }
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.progress.lock().failure.clone()
    }

    pub(crate) fn durable_lsn(&self) -> u64 {
        self.durable_lsn.load(Ordering::SeqCst)
    }

    /// After recovery: every entry up to this number is on the devices.
    pub(crate) fn start_from(&self, durable_lsn: u64) {
        self.durable_lsn.store(durable_lsn, Ordering::SeqCst);
    }

    /// Whether the last sync found the disk full.
    pub(crate) fn is_refused(&self) -> bool {
        self.refused.load(Ordering::SeqCst)
    }

    /// How many syncs have succeeded, and how long they took together.
    pub(crate) fn completed(&self) -> (u64, Duration) {
        let progress = self.progress.lock();
        (progress.completed, progress.took)
    }

    /// Looks whether everything up to a number is durable. If it is not, the task is put on the
    /// list of tasks to wake when it is, when a sync fails, or when the background ends. `ticket`:
    /// the task's place on the list, if it has one.
    pub(crate) fn wait(&self, lsn: Lsn, ticket: Option<Ticket>, waker: &Waker) -> Wait {
        if lsn.0 <= self.durable_lsn() {
            return Wait::Durable;
        }
        // Cloned and dropped without the lock: a waker may run any code.
        let waker = waker.clone();
        let mut progress = self.progress.lock();
        // Under the lock: a sync that ends later finds the task on the list.
        if lsn.0 <= self.durable_lsn() {
            return Wait::Durable;
        }
        if let Some(failure) = &progress.failure {
            return Wait::Failed(failure.clone());
        }
        if !progress.attended {
            return Wait::Unattended;
        }
        // Woken, and not durable: the sync that took it off the list was refused. Put back, the
        // task would try a full disk again and again.
        if ticket.is_some_and(|ticket| !progress.waiting.contains_key(&ticket)) && self.is_refused()
        {
            return Wait::Failed("the disk is full".to_owned());
        }
        let ticket = ticket.unwrap_or_else(|| {
            progress.next_serial += 1;
            Ticket {
                lsn: lsn.0,
                serial: progress.next_serial,
            }
        });
        let before = progress.waiting.insert(ticket, waker);
        drop(progress);
        if before.is_none() {
            self.asked.notify_one();
        }
        Wait::Listed(ticket)
    }

    /// Takes a task off the list, if it is still there.
    pub(crate) fn forget(&self, ticket: Ticket) {
        let waker = self.progress.lock().waiting.remove(&ticket);
        // Without the lock, see `wait`.
        drop(waker);
    }

    /// How many tasks are on the list.
    #[cfg(all(test, shuttle))]
    pub(crate) fn waiting(&self) -> usize {
        self.progress.lock().waiting.len()
    }

    /// From here on a background thread syncs when a task waits, until [`Syncer::end`].
    pub(crate) fn attend(&self) {
        let mut progress = self.progress.lock();
        progress.attended = !progress.ended;
    }

    /// Waits until a task waits, or until `until`, or until the end.
    pub(crate) fn wait_for_request(&self, until: Option<Instant>) -> SyncRequest {
        let mut progress = self.progress.lock();
        loop {
            if progress.ended {
                return SyncRequest::End;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return SyncRequest::Due;
            }
            if let Some((last, _)) = progress.waiting.last_key_value() {
                return SyncRequest::Sync(Lsn(last.lsn));
            }
            self.asked.wait_until(&mut progress, until);
        }
    }

    /// The background thread has ended: waiting tasks are woken and sync for themselves.
    pub(crate) fn end(&self) {
        let mut progress = self.progress.lock();
        progress.attended = false;
        progress.ended = true;
        let awake = std::mem::take(&mut progress.waiting);
        self.asked.notify_all();
        drop(progress);
        awake.into_values().for_each(Waker::wake);
    }
}

#[cfg(all(test, shuttle))]
mod shuttle_tests {
    use super::*;
    use crate::sync::{Arc, thread};
    use std::task::Wake;

    /// Random schedules, and ones with few but well-placed switches.
    fn explore(scenario: impl Fn() + Send + Sync + Clone + 'static) {
        shuttle::check_random(scenario.clone(), 3_000);
        shuttle::check_pct(scenario, 3_000, 3);
    }

    /// A task's own thread, asleep until it is woken.
    #[derive(Debug, Default)]
    struct Sleeper {
        woken: Mutex<bool>,
        changed: Condvar,
    }

    impl Wake for Sleeper {
        fn wake(self: Arc<Self>) {
            *self.woken.lock() = true;
            self.changed.notify_one();
        }
    }

    impl Sleeper {
        fn sleep(&self) {
            let mut woken = self.woken.lock();
            while !std::mem::take(&mut *woken) {
                self.changed.wait(&mut woken);
            }
        }
    }

    /// A log of numbers: the given ones, and the ones that a sync has covered.
    #[derive(Debug, Default)]
    struct Model {
        syncer: Syncer,
        last: AtomicU64,
        covered: AtomicU64,
        /// The sync that fails, counted from 1; 0: none.
        failing: u64,
        /// How many syncs find the disk full.
        refused: AtomicU64,
    }

    impl Model {
        fn sync_to(&self, lsn: Lsn) -> SyncResult<()> {
            self.syncer.sync_to(lsn, || {
                let complete = self.last.load(Ordering::SeqCst);
                thread::yield_now();
                let left = self.refused.load(Ordering::SeqCst);
                if left > 0 {
                    self.refused.store(left - 1, Ordering::SeqCst);
                    return Err(SyncError::Full("full".to_owned()));
                }
                if self.syncer.completed().0 + 1 == self.failing {
                    return Err(SyncError::Failed("failed".to_owned()));
                }
                self.covered.fetch_max(complete, Ordering::SeqCst);
                Ok(complete)
            })
        }

        fn attend(&self) {
            loop {
                match self.syncer.wait_for_request(None) {
                    SyncRequest::Sync(lsn) => drop(self.sync_to(lsn)),
                    SyncRequest::Due => {}
                    SyncRequest::End => return,
                }
            }
        }

        /// Polls as a future does. Returns whether a sync failed.
        fn wait(&self, lsn: Lsn) -> bool {
            let sleeper = Arc::new(Sleeper::default());
            let waker = Waker::from(Arc::clone(&sleeper));
            let mut ticket = None;
            loop {
                match self.syncer.wait(lsn, ticket, &waker) {
                    Wait::Durable => {
                        assert!(lsn.0 <= self.covered.load(Ordering::SeqCst), "too early");
                        return false;
                    }
                    Wait::Failed(_) => return true,
                    Wait::Unattended => return self.sync_to(lsn).is_err(),
                    Wait::Listed(place) => {
                        ticket = Some(place);
                        sleeper.sleep();
                    }
                }
            }
        }

        fn write(&self) -> Lsn {
            Lsn(self.last.fetch_add(1, Ordering::SeqCst) + 1)
        }
    }

    fn waiters_and_the_end(failing: u64, refused: u64) {
        let model = Arc::new(Model {
            failing,
            refused: AtomicU64::new(refused),
            ..Model::default()
        });
        model.syncer.attend();
        let spawn = |run: fn(&Model)| {
            let model = Arc::clone(&model);
            thread::spawn(move || run(&model))
        };
        let attendant = spawn(Model::attend);
        let tasks: [fn(&Model); 3] = [
            |model| {
                for _ in 0..2 {
                    model.wait(model.write());
                }
            },
            |model| {
                model.wait(model.write());
            },
            // Blocks instead, and so shares syncs with the tasks.
            |model| drop(model.sync_to(model.write())),
        ];
        let tasks = tasks.map(spawn);
        // One that has lost its interest.
        let lsn = model.write();
        if let Wait::Listed(ticket) = model.syncer.wait(lsn, None, Waker::noop()) {
            model.syncer.forget(ticket);
        }
        let [first, second, third] = tasks;
        first.join().unwrap();
        // The other two go on beside the end.
        model.syncer.end();
        for thread in [second, third, attendant] {
            thread.join().unwrap();
        }
        assert_eq!(model.syncer.waiting(), 0, "left on the list");
    }

    #[test]
    fn every_task_that_waits_is_woken_by_a_sync_or_by_the_end() {
        explore(|| waiters_and_the_end(0, 0));
    }

    #[test]
    fn every_task_that_waits_is_woken_by_a_sync_that_fails() {
        explore(|| waiters_and_the_end(1, 0));
        explore(|| waiters_and_the_end(2, 0));
    }

    #[test]
    fn every_task_that_waits_is_woken_by_a_sync_that_finds_the_disk_full() {
        explore(|| waiters_and_the_end(0, 1));
        explore(|| waiters_and_the_end(2, 2));
    }
}
