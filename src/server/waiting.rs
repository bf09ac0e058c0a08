//! Writes that wait without a thread: for their record, for space, and where the server holds writes.
//!
//! A connection's task makes every write inside an [`Attempt`]. A write that would have to wait has changed nothing; its task
//! waits, within the client's limit of time, and makes it again.

use std::time::{Duration, Instant};

use spikelet_storage::{Attempt, Lsn};
use tokio::sync::watch;
use tokio::time::{sleep, sleep_until};

use super::command::RecordCommand;
use super::fields::Field;
use super::served::ServedNamespace;

/// How long writes under way may still wait when the server stops.
/// Less than the listener waits for requests under way.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// The pause before a write looks for space again.
const SPACE_PAUSE: Duration = Duration::from_millis(2);

/// A request that writes, from its first run to its last.
#[derive(Debug)]
pub(crate) struct WaitingWrite<'s> {
    served: &'s ServedNamespace,
    attempt: Attempt,
    /// The end of the client's patience.
    deadline: Instant,
    /// How long the record is to be kept before the first run.
    hold: Option<Duration>,
    has_waited: bool,
    /// The last write that may have to be durable before it is answered.
    unsynced: Option<Lsn>,
}

impl<'s> WaitingWrite<'s> {
    pub(crate) fn begin(served: &'s ServedNamespace, deadline: Instant) -> Self {
        Self {
            served,
            attempt: served.namespace.attempt(),
            deadline,
            hold: None,
            has_waited: false,
            unsynced: None,
        }
    }

    /// Whether another request to this namespace may be made as part of it: patience for one is not patience for the next.
    pub(crate) fn serves(&self, served: &ServedNamespace) -> bool {
        std::ptr::eq(self.served, served) && !self.has_waited
    }

    pub(crate) const fn is_unsynced(&self) -> bool {
        self.unsynced.is_some()
    }

    /// Queues for the record where the server holds writes to its set, and for functions: no writer comes between their read
    /// and their write. Otherwise the code of the answer.
    pub(crate) fn hold(&mut self, command: &RecordCommand<'_>) -> Result<(), u8> {
        let set = command.fields.get(Field::Set).unwrap_or_default();
        let config = self.served.hold.as_ref();
        let hold = config.and_then(|config| config.time_of(set));
        if hold.is_some() || command.calls_function() {
            let queued = self
                .served
                .namespace
                .queue(&mut self.attempt, &command.digest);
            queued.map_err(|error| error.result_code())?;
        }
        // A function begins when the record is its own.
        self.hold = hold.or(command.calls_function().then_some(Duration::ZERO));
        Ok(())
    }

    /// Whether the last run has changed nothing, or there must be a wait before the first.
    pub(crate) fn must_wait(&self) -> bool {
        self.hold.is_some() || self.attempt.must_wait()
    }

    /// Leaves the queue and begins anew: before something is done that may take long.
    pub(crate) fn leave_queue(&mut self) {
        self.attempt = self.served.namespace.attempt();
        self.hold = None;
    }

    pub(crate) fn run<R>(&mut self, write: impl FnOnce() -> R) -> R {
        let done = self.attempt.run(write);
        self.unsynced = self.attempt.take_unsynced().or(self.unsynced);
        done
    }

    /// Waits until the write is worth another run, or until it can only be refused.
    pub(crate) async fn wait(&mut self, stopping: &watch::Receiver<bool>) {
        self.has_waited = true;
        let ends = self.attempt.ends();
        let until = ends.map_or(self.deadline, |ends| ends.min(self.deadline));
        if Instant::now() >= until {
            return self.attempt.end_patience();
        }
        let stopped = async {
            told_to_stop(stopping.clone()).await;
            sleep(STOP_GRACE).await;
        };
        let is_ready = tokio::select! {
            biased;
            () = self.attempt.ready() => true,
            () = sleep_until(until.into()) => false,
            () = stopped => false,
        };
        match (is_ready, self.hold.take()) {
            (false, _) => self.attempt.end_patience(),
            // Others may have taken the space, and a group may need more than there is: it does not try all the time.
            (true, None) if ends.is_some() => sleep(SPACE_PAUSE).await,
            (true, None | Some(Duration::ZERO)) => {}
            (true, Some(time)) => tokio::select! {
                () = sleep(time) => {}
                () = told_to_stop(stopping.clone()) => {}
            },
        }
    }

    /// Waits until the writes are as durable as the namespace promises. Otherwise the code of the answer.
    pub(crate) async fn synced(&mut self) -> Result<(), u8> {
        match self.unsynced.take() {
            None => Ok(()),
            Some(lsn) => {
                let durable = self.served.namespace.durable(lsn).await;
                durable.map_err(|error| error.result_code())
            }
        }
    }
}

/// Waits until the server stops.
pub(crate) async fn told_to_stop(mut stopping: watch::Receiver<bool>) {
    // An error means that the sender is gone: the server has stopped.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
