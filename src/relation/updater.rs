//! `Updater`: keeps derived records current, by the changes of their sources.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::changes::{Change, ChangeBatch, ChangeOptions, Consumer, Start};
use crate::engine::declaration::RelationDeclaration;
use crate::query::Query;
use crate::{Error, Key, Lsn, Namespace, Result};

#[cfg(test)]
mod crashes;

/// How many changes are applied before they are acknowledged.
const CHANGES_AT_ONCE: usize = 512;
/// How long an updater sleeps without looking whether it is to stop.
const STOP_CHECK: Duration = Duration::from_millis(50);
/// How many failures are kept one by one.
const FAILURES_KEPT: usize = 1_000;
/// How many records are looked at between two pages of a query.
const PAGE: usize = 512;
/// The first pause after a refusal that may pass, and the longest.
const PAUSE: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Records that are derived from others, as their changes come.
pub(super) trait Derived: Send + 'static {
    /// Derives all of them: sources written before the first change that [`Derived::apply`] gets.
    fn build(&self, state: &UpdateState) -> Result<()>;

    /// Derives anew what these changes concern. It gets a change again after a crash, so it must do
    /// no harm twice.
    fn apply(&self, changes: &[Change], state: &UpdateState) -> Result<()>;

    /// Under which name it is declared, and subscribes.
    fn declaration(&self) -> RelationDeclaration;

    /// The sets that it follows.
    fn sources(&self) -> Vec<Box<str>>;
}

/// How far an [`Updater`] has come, and how many records it has written and looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UpdateProgress {
    /// All changes up to this log sequence number have been applied; `None` until an updater has
    /// applied its first batch since the store was opened, or since all records had to be looked at
    /// again.
    pub applied: Option<Lsn>,
    /// Changes that were applied.
    pub changes: u64,
    /// Records that were written.
    pub written: u64,
    /// Records that were looked at and were as they should be.
    pub unchanged: u64,
    /// Records on which it failed: [`Updater::take_failures`] says why.
    pub failed: u64,
    /// Changes of records without a stored key, which were passed over: write them with
    /// [`WritePolicy::send_key`](crate::WritePolicy::send_key).
    pub keyless: u64,
}

/// A record that an [`Updater`] or a propagation could not update. The record stays as it was; that
/// of a new item in a view has no bin but `sources` until the item can be shown.
#[derive(Debug)]
pub struct UpdateFailure {
    /// The key of the record; `None` of a damaged one whose key cannot be read.
    pub key: Option<Key<'static>>,
    /// Why the record could not be updated.
    pub error: Error,
}

/// The state that an updater and the threads that wait for it share.
#[derive(Debug, Default)]
pub(super) struct UpdateState {
    inner: Mutex<UpdaterInner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct UpdaterInner {
    progress: UpdateProgress,
    failures: Vec<UpdateFailure>,
    /// Why the updater has ended.
    ended: Option<String>,
}

impl UpdateState {
    pub(super) fn progress(&self) -> UpdateProgress {
        self.inner.lock().progress
    }

    /// Notes whether a record was written, or that it could not be updated.
    ///
    /// # Errors
    /// An error that may pass, or concerns all records.
    pub(super) fn note_record(&self, key: &Key<'_>, updated: Result<bool>) -> Result<()> {
        match updated {
            Ok(true) => self.inner.lock().progress.written += 1,
            Ok(false) => self.inner.lock().progress.unchanged += 1,
            Err(error) => self.note_failure(Some(key), error)?,
        }
        Ok(())
    }

    fn note_failure(&self, key: Option<&Key<'_>>, error: Error) -> Result<()> {
        let inner = &mut *self.inner.lock();
        keep_failure(&mut inner.failures, key, error)?;
        inner.progress.failed += 1;
        Ok(())
    }

    /// Shows the keys of the records that a query finds. Damaged records, and ones without a stored
    /// key, are noted and passed over.
    ///
    /// # Errors
    /// As for [`UpdateState::note_record`]; the errors of the query, and of `each`.
    pub(super) fn each_found(
        &self,
        query: &Query,
        mut each: impl FnMut(&Key<'static>) -> Result<()>,
    ) -> Result<()> {
        let mut query = query.clone().limit(PAGE);
        loop {
            let page = query.keys()?;
            let next = page.cursor().cloned();
            for found in page {
                match found.map(|found| found.key) {
                    Ok(Some(key)) => each(&key)?,
                    Ok(None) => self.note_keyless(),
                    Err(error) => self.note_failure(None, error)?,
                }
            }
            match next {
                Some(next) => query = query.after(&next),
                None => return Ok(()),
            }
        }
    }

    pub(super) fn note_keyless(&self) {
        self.inner.lock().progress.keyless += 1;
    }

    fn take_failures(&self) -> Vec<UpdateFailure> {
        std::mem::take(&mut self.inner.lock().failures)
    }

    fn note_applied(&self, lsn: Lsn, changes: usize) {
        let progress = &mut self.inner.lock().progress;
        progress.changes += changes as u64;
        progress.applied = progress.applied.max(Some(lsn));
        self.changed.notify_all();
    }

    fn note_end(&self, why: Option<String>) {
        self.inner.lock().ended = Some(why.unwrap_or_else(|| "it was stopped".into()));
        self.changed.notify_all();
    }

    /// Waits until everything up to a log sequence number has been applied.
    ///
    /// # Errors
    /// [`Error::Timeout`]; [`Error::Forbidden`] if the updater has ended before.
    pub(super) fn wait_until(&self, lsn: Lsn, timeout: Duration) -> Result<()> {
        let begun = Instant::now();
        let mut inner = self.inner.lock();
        while inner.progress.applied.is_none_or(|applied| applied < lsn) {
            if let Some(why) = &inner.ended {
                return Err(Error::Forbidden(
                    format!("the updater has ended before log sequence number {lsn}: {why}").into(),
                ));
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if self.changed.wait_for(&mut inner, left).timed_out() && left.is_zero() {
                return Err(Error::Timeout {
                    after: timeout,
                    in_doubt: false,
                    record: None,
                });
            }
        }
        Ok(())
    }
}

/// Keeps the records of a [`Joined`](super::Joined) or the copies of a
/// [`Propagate`](super::Propagate) current. It consumes a durable subscription that has the
/// relation's name, so it goes on after a crash where it was: changes it had applied and not
/// acknowledged, 512 changes at most, is looked at again, and found as it should be.
///
/// A relation has one updater at a time. Apply the present changes by [`Updater::catch_up`], in a
/// thread of yours, or let [`Updater::start`] do it in one of its own.
pub struct Updater {
    namespace: Namespace,
    derived: Box<dyn Derived>,
    consumer: Consumer,
    state: Arc<UpdateState>,
    is_built: bool,
    /// How many records had been written when all of them were made durable last; `None`: what an
    /// updater before this one has written, and had not acknowledged, may not be durable.
    durable: Option<u64>,
    /// Changes that could not be applied yet.
    pending: Option<ChangeBatch>,
}

impl fmt::Debug for Updater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Updater")
            .field("relation", &self.derived.declaration().name)
            .field("progress", &self.state.progress())
            .finish_non_exhaustive()
    }
}

impl Updater {
    /// Declares the derived records, has the changes of their sources kept, and subscribes to them.
    pub(super) fn new(
        namespace: &Namespace,
        derived: impl Derived,
        state: &Arc<UpdateState>,
    ) -> Result<Self> {
        let changes = namespace.changes();
        let declaration = derived.declaration();
        let options = derived
            .sources()
            .iter()
            .fold(ChangeOptions::default(), |options, set| options.set(set));
        let known = changes.subscription(&declaration.name).ok();
        let resumes = known
            .as_ref()
            .is_some_and(|known| *known.options() == options && known.is_whole());
        if known.is_some() && !resumes && !declaration.is_declared(namespace)? {
            return Err(Error::parameter(format!(
                "subscription {:?} is not one of a relation: give the relation another name, or remove the subscription by Changes::unsubscribe",
                declaration.name
            )));
        }
        // Before anything is changed beneath another updater.
        if let Some(known) = &known {
            known.check_free()?;
        }
        for set in &options.sets {
            changes.enable(set)?;
        }
        let mut is_built = declaration.declare_derived(namespace)?;
        // Changes that came while they were not kept are not known: all is looked at, by the next
        // updater if this one does not come to it.
        if is_built && !resumes {
            declaration.store(namespace, false)?;
        }
        is_built &= resumes;
        if known.is_some() && !resumes {
            changes.unsubscribe(&declaration.name)?;
        }
        // Before anything is built: a record that changes behind the look at it comes again by
        // this.
        let subscription = changes.subscribe(&declaration.name, Start::Now, options)?;
        let consumer = subscription.consumer()?;
        let mut inner = state.inner.lock();
        inner.ended = None;
        if !is_built {
            inner.progress.applied = None;
        }
        drop(inner);
        Ok(Self {
            namespace: namespace.clone(),
            consumer,
            derived: Box::new(derived),
            state: Arc::clone(state),
            is_built,
            durable: None,
            pending: None,
        })
    }

    /// Returns how far the updater has come.
    #[must_use]
    pub fn progress(&self) -> UpdateProgress {
        self.state.progress()
    }

    /// Returns the records that could not be updated since the last call, at most a thousand, and
    /// forgets them.
    #[must_use]
    pub fn take_failures(&self) -> Vec<UpdateFailure> {
        self.state.take_failures()
    }

    /// Applies all changes up to now, in this thread. The first call looks at all records. One
    /// sync, since changes are applied when they are durable.
    ///
    /// # Errors
    /// The error that ended the updater, or one that may pass ([`Error::is_retryable`]): the next
    /// call goes on. [`Error::ChangesLost`] where the changes were not kept until they were read:
    /// open another updater then, which looks at all records. Errors of single records are counted,
    /// and returned by [`Updater::take_failures`].
    pub fn catch_up(&mut self) -> Result<UpdateProgress> {
        let target = self.namespace.last_lsn();
        self.namespace.wait_durable(target)?;
        let mut wait = Duration::ZERO;
        loop {
            let before = self.progress().applied;
            if before.is_some_and(|applied| applied >= target) {
                return Ok(self.progress());
            }
            self.apply_next(wait)?;
            // Writers may be about to publish the next change.
            wait = if self.progress().applied == before {
                STOP_CHECK
            } else {
                Duration::ZERO
            };
        }
    }

    /// Applies changes as they come, in a thread of its own, until [`RunningUpdater::stop`].
    ///
    /// # Errors
    /// [`Error::Forbidden`] if there is no thread to be had.
    pub fn start(self) -> Result<RunningUpdater> {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, state) = (Arc::clone(&stop), Arc::clone(&self.state));
        state.inner.lock().ended = None;
        let thread = std::thread::Builder::new().name("spikelet-updater".into());
        let thread = thread.spawn(move || self.run(&asked)).map_err(|error| {
            Error::Forbidden(format!("no thread for an updater: {error}").into())
        })?;
        Ok(RunningUpdater {
            stop,
            state,
            thread: Some(thread),
        })
    }

    fn run(mut self, stop: &AtomicBool) -> Result<()> {
        // A waiting thread learns of a panic, too.
        let state = Arc::clone(&self.state);
        let mut end = NotedEnd {
            state: &state,
            why: Some("it has panicked".into()),
        };
        let mut pause = PAUSE.0;
        let mut ended = Ok(());
        while !stop.load(Ordering::Relaxed) {
            match self.apply_next(STOP_CHECK) {
                Ok(()) => pause = PAUSE.0,
                Err(error) if error.is_retryable() => {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE.1);
                }
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        end.why = ended.as_ref().err().map(Error::to_string);
        ended
    }

    /// Builds the derived records if they were not built, or applies the next changes.
    fn apply_next(&mut self, wait: Duration) -> Result<()> {
        if !self.is_built {
            self.derived.build(&self.state)?;
            // Before the note: a power failure must not keep that and lose records.
            self.namespace.wait_durable(self.namespace.last_lsn())?;
            self.derived.declaration().store(&self.namespace, true)?;
            self.is_built = true;
        }
        let batch = match self.pending.take() {
            Some(batch) => batch,
            None => match self.consumer.next_batch(CHANGES_AT_ONCE, wait) {
                Err(error @ Error::ChangesLost { .. }) => {
                    self.derived.declaration().store(&self.namespace, false)?;
                    self.namespace
                        .changes()
                        .unsubscribe(&self.derived.declaration().name)?;
                    return Err(error);
                }
                batch => batch?,
            },
        };
        if let Err(error) = self.derived.apply(&batch, &self.state) {
            self.pending = Some(batch);
            return Err(error);
        }
        if !batch.is_empty()
            && let Err(error) = self.acknowledge(&batch)
        {
            self.pending = Some(batch);
            return Err(error);
        }
        self.state.note_applied(batch.position().lsn(), batch.len());
        Ok(())
    }

    /// Acknowledges changes that were applied. A power failure must not keep the acknowledgement
    /// without the writes for them, at whichever attempt.
    fn acknowledge(&mut self, batch: &ChangeBatch) -> Result<()> {
        let progress = self.progress();
        // A record on which it failed may follow other sources since.
        let written = progress.written + progress.failed;
        if self.durable != Some(written) {
            self.namespace.wait_durable(self.namespace.last_lsn())?;
            self.durable = Some(written);
        }
        self.consumer.ack(batch)
    }
}

/// Notes that an updater's thread has ended, and why, when it is dropped.
struct NotedEnd<'a> {
    state: &'a UpdateState,
    why: Option<String>,
}

impl Drop for NotedEnd<'_> {
    fn drop(&mut self) {
        self.state.note_end(self.why.take());
    }
}

/// An [`Updater`] that runs in a thread of its own: [`Updater::start`]. Dropping this handle stops
/// the thread.
#[derive(Debug)]
pub struct RunningUpdater {
    stop: Arc<AtomicBool>,
    state: Arc<UpdateState>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl RunningUpdater {
    /// Returns how far the updater has come.
    #[must_use]
    pub fn progress(&self) -> UpdateProgress {
        self.state.progress()
    }

    /// Returns the records that could not be updated since the last call, at most a thousand, and
    /// forgets them.
    #[must_use]
    pub fn take_failures(&self) -> Vec<UpdateFailure> {
        self.state.take_failures()
    }

    /// Stops the updater, and waits until the current batch of changes is applied.
    ///
    /// # Errors
    /// The error that ended the updater before.
    pub fn stop(mut self) -> Result<()> {
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(ended)) => ended,
            Some(Err(_)) => Err(Error::Forbidden(
                "the updater has panicked: what it had not acknowledged comes again".into(),
            )),
        }
    }
}

impl Drop for RunningUpdater {
    fn drop(&mut self) {
        // A waiting thread learns why it has ended.
        let _ = self.join();
    }
}

/// Keeps why a record could not be updated, unless the error may pass or concerns all records: then
/// it is returned.
pub(super) fn keep_failure(
    failures: &mut Vec<UpdateFailure>,
    key: Option<&Key<'_>>,
    error: Error,
) -> Result<()> {
    if !is_of_record(&error) {
        return Err(error);
    }
    if failures.len() < FAILURES_KEPT {
        let key = key.map(|key| key.clone().into_owned());
        failures.push(UpdateFailure { key, error });
    }
    Ok(())
}

/// Whether an error concerns the record alone on which it came up, and will not pass.
pub(super) fn is_of_record(error: &Error) -> bool {
    !error.is_retryable() && !ends_all(error)
}

/// Whether an error concerns more than the record on which it came up.
const fn ends_all(error: &Error) -> bool {
    match error {
        Error::Storage(_) | Error::StopWrites { .. } | Error::IndexMemory { .. } => true,
        Error::Relation { source, .. } => ends_all(source),
        _ => false,
    }
}
