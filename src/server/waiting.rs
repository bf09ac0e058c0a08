//! Writes that wait without a thread: for their record, for space, and where the server holds writes.
//!
//! A connection's task makes every write inside an [`Attempt`]. A write that would have to wait has changed nothing; its task
//! waits, within the client's limit of time, and makes it again.

use std::time::{Duration, Instant};

use spikelet_storage::{Attempt, Lsn};
use tokio::time::{sleep, sleep_until};

use super::command::RecordCommand;
use super::fields::Field;
use super::message::Verb;
use super::response_buffer::ResponseBuffer;
use super::security::Access;
use super::served::ServedNamespace;
use super::shared::ServerShared;

/// How long writes under way may still wait when the server stops.
/// Less than the listener waits for requests under way.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// The pause before a write looks for space again.
const SPACE_PAUSE: Duration = Duration::from_millis(2);

/// The requests about records of a message, made one after the other.
pub(crate) struct Requests<'s> {
    pub(crate) deadline: Instant,
    /// The writes to one namespace, until one has to wait.
    write: Option<WaitingWrite<'s>>,
    /// Whether the next request was checked, and counted for its user, before.
    is_checked: bool,
    /// Whether it has been queued, or tried, before.
    waits: bool,
}

impl<'s> Requests<'s> {
    pub(crate) const fn new(deadline: Instant) -> Self {
        Self {
            deadline,
            write: None,
            is_checked: false,
            waits: false,
        }
    }

    /// Makes a request and appends its answer, without a frame, to `out`. Returns the code, which is not counted yet;
    /// `None`: it must wait and be made again, or the ones before it must be synced. Bytes that were appended mean nothing then.
    pub(crate) fn make(
        &mut self,
        (access, served): (&mut Access, &'s ServedNamespace),
        command: &RecordCommand<'_>,
        out: &mut ResponseBuffer<'_>,
    ) -> Option<u8> {
        let refused = match std::mem::replace(&mut self.is_checked, true) {
            true => None,
            false => access.command(command).err(),
        };
        let code = match (refused, command.verb()) {
            (Some(code), _) => command.refuse(code, out),
            (None, Verb::Read) => command.execute(out),
            (None, _) => self.write(served, command, out)?,
        };
        self.is_checked = false;
        Some(code)
    }

    fn write(
        &mut self,
        served: &'s ServedNamespace,
        command: &RecordCommand<'_>,
        out: &mut ResponseBuffer<'_>,
    ) -> Option<u8> {
        let is_again = std::mem::replace(&mut self.waits, false);
        if !is_again
            && let Some(before) = &self.write
            && !before.serves(served)
        {
            if before.unsynced.is_some() {
                return None;
            }
            self.write = None;
        }
        let write = self.write.get_or_insert_with(|| WaitingWrite {
            served,
            attempt: served.namespace.attempt(),
            hold: None,
            has_waited: false,
            unsynced: None,
        });
        let queued = match is_again {
            true => Ok(()),
            false => write.hold(command),
        };
        let code = match queued {
            Err(code) => command.refuse(code, out),
            Ok(()) if write.must_wait() && !is_again => 0,
            Ok(()) => write.run(|| command.execute(out)),
        };
        self.waits = write.must_wait();
        (!self.waits).then_some(code)
    }

    fn waiting(&mut self) -> Option<&mut WaitingWrite<'s>> {
        self.write.as_mut().filter(|write| write.must_wait())
    }

    /// Leaves the queue of the next request's record: while answers are synced and sent, no record waits.
    pub(crate) fn leave_queue(&mut self) {
        if let Some(write) = self.waiting() {
            write.attempt = write.served.namespace.attempt();
            write.hold = None;
            self.waits = false;
        }
    }

    /// Waits until another try of the next request may succeed.
    pub(crate) async fn wait(&mut self, shared: &ServerShared) {
        let deadline = self.deadline;
        if let Some(write) = self.waiting() {
            write.wait(shared, deadline).await;
        }
    }

    /// Waits until the writes are as durable as their namespace promises. Otherwise the code of the answer.
    pub(crate) async fn synced(&mut self) -> Result<(), u8> {
        if let Some(write) = &mut self.write
            && let Some(lsn) = write.unsynced.take()
        {
            let durable = write.served.namespace.durable(lsn).await;
            durable.map_err(|error| error.result_code())?;
        }
        Ok(())
    }
}

/// A request that writes, from its first run to its last.
struct WaitingWrite<'s> {
    served: &'s ServedNamespace,
    attempt: Attempt,
    /// How long the record is to be kept before the first run.
    hold: Option<Duration>,
    has_waited: bool,
    /// The last write that may have to be durable before it is answered.
    unsynced: Option<Lsn>,
}

impl WaitingWrite<'_> {
    /// Whether another request to this namespace may be made as part of it: patience for one is not patience for the next.
    fn serves(&self, served: &ServedNamespace) -> bool {
        std::ptr::eq(self.served, served) && !self.has_waited
    }

    /// Queues for the record where the server holds writes to its set, and for functions: no writer comes between their read
    /// and their write. Otherwise the code of the answer.
    fn hold(&mut self, command: &RecordCommand<'_>) -> Result<(), u8> {
        let set = command.message.fields.get(Field::Set).unwrap_or_default();
        let config = self.served.hold.as_ref();
        let hold = config.and_then(|config| config.time_of(set));
        let calls_function = command.verb() == Verb::Function;
        if hold.is_some() || calls_function {
            let queued = self
                .served
                .namespace
                .queue(&mut self.attempt, &command.digest);
            queued.map_err(|error| error.result_code())?;
        }
        // A function begins when the record is its own.
        self.hold = hold.or(calls_function.then_some(Duration::ZERO));
        Ok(())
    }

    /// Whether the last run has changed nothing, or there must be a wait before the first.
    fn must_wait(&self) -> bool {
        self.hold.is_some() || self.attempt.must_wait()
    }

    fn run<R>(&mut self, write: impl FnOnce() -> R) -> R {
        let done = self.attempt.run(write);
        self.unsynced = self.attempt.take_unsynced().or(self.unsynced);
        done
    }

    /// Waits until the write is worth another run, or until it can only be refused: `deadline` ends the client's patience.
    async fn wait(&mut self, shared: &ServerShared, deadline: Instant) {
        self.has_waited = true;
        let ends = self.attempt.ends();
        let until = ends.map_or(deadline, |ends| ends.min(deadline));
        if Instant::now() >= until {
            return self.attempt.end_patience();
        }
        let stopped = async {
            shared.told_to_stop().await;
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
                () = shared.told_to_stop() => {}
            },
        }
    }
}
