//! Writes of tasks: the thread that makes an attempt waits for nothing.
//!
//! A write waits for its record, for space and for its sync. A thread that runs many tasks must not
//! wait. It makes the write inside an [`Attempt`]. Where the write would wait, it fails at once and
//! changes nothing, and the attempt keeps the place in the record's queue, or remembers that it
//! needs space. The task waits, and makes the write again.
//!
//! The thread knows its attempt, so no call passes it along, and a write that need not wait looks
//! for none.

use crate::clock::later;
use crate::core::{Core, CoreCounters};
use crate::digest::Digest;
use crate::entry::Lsn;
use crate::error::Result;
use crate::lock::{Acquire, HeldLocks, Waiter};
use std::cell::RefCell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

/// A write of a task, made by a thread that waits for nothing.
/// [`Namespace::attempt`](crate::Namespace::attempt) begins one.
///
/// One attempt serves one write: of a record, or of several as a group or a transaction. It is
/// bound to its namespace; inside [`Attempt::run`], writes to other namespaces wait as they always
/// do. Dropping it leaves the queue of the record.
#[derive(Debug)]
#[must_use = "an attempt does nothing until it is run"]
pub struct Attempt {
    /// `None`: the thread that runs it has it.
    state: Option<Box<QueueState>>,
}

#[derive(Debug)]
struct QueueState {
    core: Arc<Core>,
    awaited: Awaited,
    /// Whether the last run met something to wait for.
    must_wait: bool,
    /// From now on a write that would have to wait fails for good.
    is_last: bool,
    /// When the namespace's patience for space is over, once the write has begun to wait for it.
    space_ends: Option<Instant>,
    /// The last write that is to be durable before the task goes on.
    unsynced: Option<Lsn>,
    /// The record of a write that is made in steps, once one of them has changed something.
    begun: Option<Digest>,
}

#[derive(Debug)]
enum Awaited {
    Nothing,
    Record(QueuePlace),
    /// Room for new versions, in blocks. The count of vain looks for blocks to empty when the write
    /// found none.
    Space {
        blocks: u64,
        vain_looks: u64,
    },
}

/// A place in the queue of a record. Dropping it leaves the queue, or gives the record back if it
/// was handed over.
#[derive(Debug)]
struct QueuePlace {
    core: Arc<Core>,
    digest: Digest,
    waiter: Option<Arc<Waiter>>,
}

#[cfg(not(shuttle))]
thread_local! {
    /// The attempt that this thread runs.
    static RUNNING: RefCell<Option<Box<QueueState>>> = const { RefCell::new(None) };
}
#[cfg(shuttle)]
shuttle::thread_local! {
    static RUNNING: RefCell<Option<Box<QueueState>>> = RefCell::new(None);
}

/// How a writer behaves that finds its record locked, or no space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Patience {
    /// Its thread waits.
    Thread,
    /// It fails, and its task waits.
    Task,
    /// It fails.
    Over,
}

impl Attempt {
    pub(crate) fn new(core: &Arc<Core>) -> Self {
        Self {
            state: Some(Box::new(QueueState {
                core: Arc::clone(core),
                awaited: Awaited::Nothing,
                must_wait: false,
                is_last: false,
                space_ends: None,
                unsynced: None,
                begun: None,
            })),
        }
    }

    /// Makes the write. Where it would wait for a record or for space, it fails with
    /// [`Error::Timeout`](crate::Error::Timeout) or
    /// [`Error::StopWrites`](crate::Error::StopWrites), nothing is changed but by earlier steps
    /// ([`Attempt::begin_steps`]), and [`Attempt::must_wait`] is true: then await
    /// [`Attempt::ready`], and run it again. Where it would wait for a sync, it succeeds: see
    /// [`Attempt::take_unsynced`].
    ///
    /// Limits of time in the write itself have no effect, except that a write without any patience
    /// is refused at once.
    pub fn run<R>(&mut self, write: impl FnOnce() -> R) -> R {
        if let Some(state) = &mut self.state {
            state.must_wait = false;
        }
        let running = RunningAttempt::begin(self);
        let done = write();
        drop(running);
        if let Some(state) = &mut self.state
            && !state.must_wait
        {
            // The write ended without the record that was handed over.
            state.awaited = Awaited::Nothing;
            state.begun = None;
            state.space_ends = None;
        }
        done
    }

    /// Returns whether the last run has changed nothing because it would have had to wait.
    #[must_use]
    pub fn must_wait(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.must_wait)
    }

    /// Returns whether the attempt that this thread runs has met something to wait for.
    #[must_use]
    pub fn is_put_off() -> bool {
        let must_wait = |running: &RefCell<Option<Box<QueueState>>>| {
            let running = running.borrow();
            running.as_ref().is_some_and(|state| state.must_wait)
        };
        RUNNING.try_with(must_wait).unwrap_or(false)
    }

    /// Notes in the attempt that this thread runs, if it runs one, that a step of the write of this
    /// record has changed something: where a later step has to wait, the next run goes on from
    /// there.
    pub fn begin_steps(digest: &Digest) {
        let begin = |running: &RefCell<Option<Box<QueueState>>>| {
            if let Some(state) = &mut *running.borrow_mut() {
                state.begun = Some(*digest);
            }
        };
        // A thread that ends runs no attempt.
        let _ = RUNNING.try_with(begin);
    }

    /// Returns whether the attempt that this thread runs has begun the steps of a write of this
    /// record, in this run or in an earlier one.
    #[must_use]
    pub fn has_begun(digest: &Digest) -> bool {
        let has_begun = |running: &RefCell<Option<Box<QueueState>>>| {
            let running = running.borrow();
            (running.as_ref()).is_some_and(|state| state.begun == Some(*digest))
        };
        RUNNING.try_with(has_begun).unwrap_or(false)
    }

    /// Leaves the queue of the record. The next run queues again.
    pub fn leave_queue(&mut self) {
        if let Some(state) = &mut self.state {
            state.must_wait = false;
            state.awaited = Awaited::Nothing;
        }
    }

    /// Queues for a record before the write, and then owns it until the write is run: for writers
    /// that keep a record for a while. [`Attempt::ready`] waits for it.
    ///
    /// # Errors
    /// [`Error::KeyBusy`](crate::Error::KeyBusy) if `max_waiters` writers queue already; the errors
    /// of a namespace that takes no writes.
    pub fn queue(&mut self, digest: &Digest) -> Result<()> {
        let Some(state) = &mut self.state else {
            return Ok(());
        };
        let core = Arc::clone(&state.core);
        // Before the partition is locked: a place that is given up locks its own.
        state.awaited = Awaited::Nothing;
        let mut partition = core.index.lock(digest);
        core.check_open()?;
        let limit = core.options.max_waiters;
        let waiter = match partition.held().acquire(digest, limit) {
            Acquire::Granted => {
                drop(partition);
                Arc::new(Waiter::granted())
            }
            Acquire::Queued(waiter) => {
                drop(partition);
                core.note_wait(digest);
                waiter
            }
            Acquire::Busy { waiting } => {
                drop(partition);
                return Err(core.key_busy(digest, waiting));
            }
        };
        state.awaited = Awaited::Record(state.place(digest, waiter));
        Ok(())
    }

    /// Waits until the write is worth another run. Needs no particular runtime.
    pub async fn ready(&mut self) {
        poll_fn(|context| self.poll_ready(context)).await;
    }

    /// Returns whether the write is worth another run; the task is woken when it is.
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(state) = &mut self.state else {
            return Poll::Ready(());
        };
        let is_ready = match &state.awaited {
            Awaited::Nothing => true,
            Awaited::Record(place) => place.is_granted(context),
            Awaited::Space { blocks, vain_looks } => {
                let space = state.core.log.space();
                space.has_changed(*blocks, *vain_looks, context.waker())
            }
        };
        if is_ready {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    /// Returns when the namespace's patience for space is over, if the write waits for that. Run
    /// the write once more then.
    #[must_use]
    pub fn ends(&self) -> Option<Instant> {
        let state = self.state.as_ref()?;
        let waits = matches!(state.awaited, Awaited::Space { .. });
        state.space_ends.filter(|_| waits)
    }

    /// Ends the patience: from here on a run that would have to wait fails as a write at the end of
    /// its limit.
    pub fn end_patience(&mut self) {
        if let Some(state) = &mut self.state {
            state.is_last = true;
        }
    }

    /// Returns the number of the last write that the runs have made, if the namespace promises that
    /// it is durable ([`Durability::Commit`](crate::Durability::Commit)): the task waits for
    /// [`Namespace::durable`](crate::Namespace::durable).
    pub fn take_unsynced(&mut self) -> Option<Lsn> {
        self.state.as_mut()?.unsynced.take()
    }
}

impl QueueState {
    fn place(&self, digest: &Digest, waiter: Arc<Waiter>) -> QueuePlace {
        QueuePlace {
            core: Arc::clone(&self.core),
            digest: *digest,
            waiter: Some(waiter),
        }
    }
}

/// Gives the thread's attempt back, and the one that ran around it its place.
struct RunningAttempt<'a> {
    attempt: &'a mut Attempt,
    around: Option<Box<QueueState>>,
}

impl<'a> RunningAttempt<'a> {
    fn begin(attempt: &'a mut Attempt) -> Self {
        let state = attempt.state.take();
        let around = RUNNING.try_with(|running| running.replace(state));
        Self {
            attempt,
            around: around.ok().flatten(),
        }
    }
}

impl Drop for RunningAttempt<'_> {
    fn drop(&mut self) {
        let around = self.around.take();
        let state = RUNNING.try_with(|running| running.replace(around));
        self.attempt.state = state.ok().flatten();
    }
}

/// Runs `with` on the attempt of this thread, if there is one and it is for this namespace.
fn with_running<R>(core: &Core, with: impl FnOnce(&mut QueueState) -> R) -> Option<R> {
    let found = RUNNING.try_with(|running| {
        let mut running = running.borrow_mut();
        let state = running.as_mut()?;
        std::ptr::eq(Arc::as_ptr(&state.core), core).then(|| with(state))
    });
    found.ok().flatten()
}

/// Returns what a writer of this thread does that would have to wait.
#[cold]
pub(crate) fn patience(core: &Core) -> Patience {
    with_running(core, |state| {
        if state.is_last {
            Patience::Over
        } else {
            Patience::Task
        }
    })
    .unwrap_or(Patience::Thread)
}

/// Takes over a record that was handed to the attempt of this thread. Returns its place in the
/// queue; `None`: it was not handed over. The caller has the partition locked.
#[cold]
pub(crate) fn take_granted(
    core: &Core,
    digest: &Digest,
    held: &mut HeldLocks,
) -> Option<Arc<Waiter>> {
    let place = with_running(core, |state| match &mut state.awaited {
        Awaited::Record(place) if place.digest == *digest => {
            state.must_wait = false;
            place.waiter.take()
        }
        _ => None,
    });
    let waiter = place.flatten()?;
    if held.give_up(digest, &waiter) {
        return None;
    }
    held.resume(digest);
    Some(waiter)
}

/// Keeps a place in the queue of a record for the task.
pub(crate) fn keep_place(core: &Core, digest: &Digest, waiter: Arc<Waiter>) {
    let before = with_running(core, |state| {
        state.must_wait = true;
        let place = state.place(digest, waiter);
        std::mem::replace(&mut state.awaited, Awaited::Record(place))
    });
    // Outside, since it may wake another task.
    drop(before);
}

/// Notes that the task waits for this many blocks, unless its patience is over.
pub(crate) fn await_space(core: &Core, blocks: u64) {
    let vain_looks = core.log.space().vain_looks();
    let now = Instant::now();
    let before = with_running(core, |state| {
        let ends = *state.space_ends.get_or_insert_with(|| {
            CoreCounters::add(&core.counters.space_waits, 1);
            later(now, core.options.max_space_wait)
        });
        (!state.is_last && now < ends).then(|| {
            state.must_wait = true;
            std::mem::replace(&mut state.awaited, Awaited::Space { blocks, vain_looks })
        })
    });
    drop(before);
}

/// Leaves the sync of a write to the task. False: this thread runs no attempt.
#[cold]
pub(crate) fn defer_sync(core: &Core, lsn: Lsn) -> bool {
    with_running(core, |state| state.unsynced = state.unsynced.max(Some(lsn))).is_some()
}

impl QueuePlace {
    /// Whether the record was handed over; the task is woken when it is. From then on others may
    /// move it until the write runs.
    fn is_granted(&self, context: &Context<'_>) -> bool {
        let Some(waiter) = &self.waiter else {
            return true;
        };
        if !waiter.is_granted(context.waker()) {
            return false;
        }
        let mut partition = self.core.index.lock(&self.digest);
        let held = partition.held();
        if !held.is_resting(&self.digest) {
            held.rest(&self.digest);
        }
        true
    }
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take() else {
            return;
        };
        // In the child of a fork no thread may ever unlock the partition.
        if self.core.fork.is_child() {
            return;
        }
        let mut partition = self.core.index.lock(&self.digest);
        let held = partition.held();
        if held.give_up(&self.digest, &waiter) {
            return;
        }
        held.resume(&self.digest);
        let next = held.release(&self.digest);
        self.core.hand_over(partition, next);
    }
}
