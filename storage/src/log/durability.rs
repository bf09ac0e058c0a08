//! When an acknowledged write is on stable storage.

use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

/// What a power failure may cost. A process that is killed loses nothing acknowledged under any of them: what is
/// acknowledged lies in a shared mapping and belongs to the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Writes are synced every 30 s, and when defragmentation needs it. A power failure costs at most what was written
    /// since; what is left is consistent record by record.
    Process,
    /// Writes are synced in the background once an interval. A power failure costs at most the last two intervals.
    Interval(Duration),
    /// A write is acknowledged after the sync that covers it; writers that wait at the same time share one sync.
    Commit,
}

impl Durability {
    /// The period of the background sync of [`Durability::Process`]: that of the kernel's own write-back of old pages.
    pub(crate) const PROCESS_PERIOD: Duration = Duration::from_secs(30);

    /// How often the background syncs; `Commit` has nothing left to do but what defragmentation moved.
    pub(crate) const fn period(self) -> Duration {
        match self {
            Self::Process | Self::Commit => Self::PROCESS_PERIOD,
            Self::Interval(period) => period,
        }
    }
}

impl Default for Durability {
    fn default() -> Self {
        Self::Interval(Duration::from_millis(100))
    }
}

#[derive(Debug, Default)]
struct Progress {
    started: u64,
    completed: u64,
    running: bool,
    failure: Option<String>,
    /// Tasks that wait for a sequence number to become durable.
    wakers: Vec<(u64, Waker)>,
    /// The highest number that a task waits for: the background syncs for it.
    requested_lsn: u64,
    /// Nobody syncs in the background any more.
    ended: bool,
}

/// Runs one sync at a time for everybody who asks, and remembers the first failure for ever: a failed sync is never
/// retried as if nothing had happened, since the kernel may have dropped the pages it could not write.
#[derive(Debug, Default)]
pub(crate) struct Syncer {
    progress: Mutex<Progress>,
    done: Condvar,
    /// Told when a task begins to wait.
    asked: Condvar,
    failed: AtomicBool,
    /// Everything up to here was complete before a sync that succeeded.
    durable_lsn: AtomicU64,
}

/// What a sync covers, read when it starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Horizon {
    /// Every entry up to here has been handed to the devices.
    pub(crate) complete: u64,
}

impl Syncer {
    /// Returns when a sync that started after this call has succeeded. `horizon` is asked when the sync starts, then
    /// `sync` is run without any lock.
    pub(crate) fn sync(
        &self,
        horizon: impl Fn() -> std::result::Result<Horizon, String>,
        sync: impl Fn(Horizon) -> std::result::Result<(), String>,
    ) -> std::result::Result<(), String> {
        let mut progress = self.progress.lock();
        let needed = progress.started + 1;
        loop {
            if let Some(failure) = &progress.failure {
                return Err(failure.clone());
            }
            if progress.completed >= needed {
                return Ok(());
            }
            if progress.running {
                self.done.wait(&mut progress);
                continue;
            }
            progress.running = true;
            progress.started += 1;
            let number = progress.started;
            drop(progress);
            let result = horizon().and_then(|at| sync(at).map(|()| at));
            progress = self.progress.lock();
            progress.running = false;
            let awake = match result {
                Ok(at) => {
                    progress.completed = number;
                    self.durable_lsn.fetch_max(at.complete, Ordering::SeqCst);
                    let reached = |(lsn, _): &mut (u64, Waker)| *lsn <= at.complete;
                    progress.wakers.extract_if(.., reached).collect()
                }
                Err(failure) => {
                    progress.failure = Some(failure);
                    self.failed.store(true, Ordering::SeqCst);
                    std::mem::take(&mut progress.wakers)
                }
            };
            self.done.notify_all();
            if !awake.is_empty() {
                drop(progress);
                awake.into_iter().for_each(|(_, waker)| waker.wake());
                progress = self.progress.lock();
            }
        }
    }

    /// Refuses once a sync has failed.
    pub(crate) fn check(&self, namespace: &str) -> Result<()> {
        if !self.failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        let reason = self.progress.lock().failure.clone().unwrap_or_default();
        Err(Error::ReadOnly {
            namespace: namespace.to_owned(),
            reason,
        })
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.progress.lock().failure.clone()
    }

    pub(crate) fn durable_lsn(&self) -> u64 {
        self.durable_lsn.load(Ordering::SeqCst)
    }

    /// After recovery: what was found up to this number is on the devices.
    pub(crate) fn start_from(&self, durable_lsn: u64) {
        self.durable_lsn.store(durable_lsn, Ordering::SeqCst);
    }

    /// How many syncs have succeeded.
    pub(crate) fn completed(&self) -> u64 {
        self.progress.lock().completed
    }

    /// Has a task woken when everything up to this number is durable, or a sync has failed. False: there is nobody who
    /// syncs in the background.
    pub(crate) fn wake_at(&self, lsn: u64, waker: &Waker) -> bool {
        let mut progress = self.progress.lock();
        if progress.ended {
            return false;
        }
        if progress.failure.is_some() || lsn <= self.durable_lsn() {
            waker.wake_by_ref();
            return true;
        }
        let known = progress
            .wakers
            .iter()
            .any(|(at, known)| *at == lsn && known.will_wake(waker));
        if !known {
            progress.wakers.push((lsn, waker.clone()));
        }
        progress.requested_lsn = progress.requested_lsn.max(lsn);
        self.asked.notify_all();
        true
    }

    /// Waits until a task wants more to be durable than is, or until `until`, or until the end. Whether to go on.
    pub(crate) fn wait_for_request(&self, until: Option<Instant>) -> bool {
        let mut progress = self.progress.lock();
        loop {
            let is_asked =
                progress.failure.is_none() && progress.requested_lsn > self.durable_lsn();
            let is_over = until.is_some_and(|until| Instant::now() >= until);
            if progress.ended || is_asked || is_over {
                return !progress.ended;
            }
            match until {
                Some(_) => {
                    self.asked.wait_until(&mut progress, until);
                }
                None => self.asked.wait(&mut progress),
            }
        }
    }

    /// Nobody syncs in the background any more: tasks that wait are woken and sync for themselves.
    pub(crate) fn end(&self) {
        let mut progress = self.progress.lock();
        progress.ended = true;
        let awake = std::mem::take(&mut progress.wakers);
        self.asked.notify_all();
        drop(progress);
        awake.into_iter().for_each(|(_, waker)| waker.wake());
    }
}
