//! When an acknowledged write is on stable storage.

use crate::error::{Error, Result};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use std::time::Duration;

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
}

/// Runs one sync at a time for everybody who asks, and remembers the first failure for ever: a failed sync is never
/// retried as if nothing had happened, since the kernel may have dropped the pages it could not write.
#[derive(Debug, Default)]
pub(crate) struct Syncer {
    progress: Mutex<Progress>,
    done: Condvar,
    failed: AtomicBool,
    /// Everything up to here may be covered by a sync that has started: somebody may be promised it. Written by whoever
    /// runs the sync; rises, but for a moment at the start of each sync in which it is the largest number.
    promised_lsn: AtomicU64,
    /// Everything up to here was complete before a sync that succeeded.
    durable_lsn: AtomicU64,
}

/// The sequence numbers a sync deals in, read when it starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Horizon {
    /// The highest number given out.
    pub(crate) issued: u64,
    /// Every entry up to here is complete in memory.
    pub(crate) complete: u64,
}

impl Syncer {
    /// Returns when a sync that started after this call has succeeded. `horizon` is asked when the sync starts, then
    /// `sync` is run without any lock.
    pub(crate) fn sync(
        &self,
        horizon: impl Fn() -> Horizon,
        sync: impl Fn() -> std::result::Result<(), String>,
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
            // From before the horizon is read until it is known, everything counts as promised: a version of which the
            // horizon knows must not be recycled in favour of one that the sync may miss.
            self.promised_lsn.store(u64::MAX, Ordering::SeqCst);
            let at = horizon();
            self.promised_lsn.store(at.issued, Ordering::SeqCst);
            let result = sync();
            progress = self.progress.lock();
            progress.running = false;
            match result {
                Ok(()) => {
                    progress.completed = number;
                    self.durable_lsn.fetch_max(at.complete, Ordering::SeqCst);
                }
                Err(failure) => {
                    progress.failure = Some(failure);
                    self.failed.store(true, Ordering::SeqCst);
                }
            }
            self.done.notify_all();
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

    pub(crate) fn promised_lsn(&self) -> u64 {
        self.promised_lsn.load(Ordering::SeqCst)
    }

    pub(crate) fn durable_lsn(&self) -> u64 {
        self.durable_lsn.load(Ordering::SeqCst)
    }

    /// After recovery: everything that was found is on the device already.
    pub(crate) fn start_from(&self, issued: u64, durable: u64) {
        self.promised_lsn.store(issued, Ordering::SeqCst);
        self.durable_lsn.store(durable, Ordering::SeqCst);
    }

    /// How many syncs have succeeded.
    pub(crate) fn completed(&self) -> u64 {
        self.progress.lock().completed
    }
}
