//! Writes that wait without a thread: for their record, for space, and where the server holds
//! writes.
//!
//! A connection's task makes every write inside an [`Attempt`]. A write that would have to wait has
//! changed nothing; its task waits, within the client's limit of time, and makes it again.

use std::time::{Duration, Instant};

use spikelet_storage::{Attempt, Lsn};
use tokio::task::yield_now;
use tokio::time::{sleep, sleep_until};

use super::command::RecordCommand;
use super::fields::Field;
use super::message::Verb;
use super::response_buffer::ResponseBuffer;
use super::result_code;
use super::security::Access;
use super::served::ServedNamespace;
use super::shared::ServerShared;
use crate::Digest;

/// How long clients' writes under way may still wait when the server stops.
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

    /// Makes a request and appends its answer, without a frame, to `out`. Returns the code, which
    /// is not counted yet; `None`: it must wait and be made again, or the ones before it must be
    /// synced. Bytes that were appended mean nothing then.
    pub(crate) fn make(
        &mut self,
        (access, served): (&mut Access, &'s ServedNamespace),
        command: &RecordCommand<'_>,
        out: &mut ResponseBuffer<'_>,
    ) -> Option<u8> {
        let refused = if std::mem::replace(&mut self.is_checked, true) {
            None
        } else {
            access.command(command).err()
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
        let new = || WaitingWrite::new(served);
        let write = self.write.get_or_insert_with(new);
        let queued = match is_again {
            // A function does not begin without its record.
            true if write.is_late && command.verb() == Verb::Function => {
                write.leave_queue();
                Err(result_code::TIMEOUT)
            }
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

    /// Leaves the queue of the next request's record: while answers are synced and sent, no record
    /// waits.
    pub(crate) fn leave_queue(&mut self) {
        if let Some(write) = self.waiting() {
            write.leave_queue();
            self.waits = false;
        }
    }

    /// Waits until another try of the next request may succeed. Where none is queued, other
    /// connections of this thread have their turn: a queued one may own its record already.
    pub(crate) async fn wait(&mut self, shared: &ServerShared) {
        let deadline = self.deadline;
        match self.waiting() {
            Some(write) => write.wait(shared, deadline, STOP_GRACE).await,
            None => yield_now().await,
        }
    }

    /// Waits until the writes are as durable as their namespace promises. Otherwise the code of the
    /// answer.
    pub(crate) async fn synced(&mut self) -> Result<(), u8> {
        match &mut self.write {
            Some(write) => write.synced().await,
            None => Ok(()),
        }
    }
}

/// A request that writes, from its first run to its last.
pub(super) struct WaitingWrite<'s> {
    served: &'s ServedNamespace,
    attempt: Attempt,
    /// How long the record is to be kept before the first run.
    hold: Option<Duration>,
    has_waited: bool,
    /// Whether the time was over before the record was its own.
    pub(super) is_late: bool,
    /// The last write that may have to be durable before it is answered.
    unsynced: Option<Lsn>,
}

impl<'s> WaitingWrite<'s> {
    pub(super) fn new(served: &'s ServedNamespace) -> Self {
        Self {
            served,
            attempt: served.namespace.attempt(),
            hold: None,
            has_waited: false,
            is_late: false,
            unsynced: None,
        }
    }

    /// Whether another request to this namespace may be made as part of it: patience for one is not
    /// patience for the next.
    fn serves(&self, served: &ServedNamespace) -> bool {
        std::ptr::eq(self.served, served) && !self.has_waited
    }

    /// Queues for the record where the server holds writes to its set, and for functions: no writer
    /// comes between their read and their write. Otherwise the code of the answer.
    fn hold(&mut self, command: &RecordCommand<'_>) -> Result<(), u8> {
        let set = command.message.fields.get(Field::Set).unwrap_or_default();
        let config = self.served.hold.as_ref();
        let hold = config.and_then(|config| config.time_of(set));
        let calls_function = command.verb() == Verb::Function;
        // A function begins when the record is its own.
        let hold = hold.or(calls_function.then_some(Duration::ZERO));
        hold.map_or(Ok(()), |time| self.queue(&command.digest, time))
    }

    /// Queues for a record that is kept for some time before the first run. Otherwise the code of
    /// the answer.
    pub(super) fn queue(&mut self, digest: &Digest, hold: Duration) -> Result<(), u8> {
        let queued = self.served.namespace.queue(&mut self.attempt, digest);
        queued.map_err(|error| error.result_code())?;
        self.hold = Some(hold);
        Ok(())
    }

    fn leave_queue(&mut self) {
        self.attempt.leave_queue();
        self.hold = None;
    }

    /// Whether the last run has changed nothing, or there must be a wait before the first.
    pub(super) fn must_wait(&self) -> bool {
        self.hold.is_some() || self.attempt.must_wait()
    }

    /// When the namespace's patience for space is over, if the write waits for that.
    pub(super) fn space_ends(&self) -> Option<Instant> {
        self.attempt.ends()
    }

    pub(super) fn run<R>(&mut self, write: impl FnOnce() -> R) -> R {
        let done = self.attempt.run(write);
        self.unsynced = self.attempt.take_unsynced().or(self.unsynced);
        done
    }

    /// Waits until the writes are as durable as their namespace promises. Otherwise the code of the
    /// answer.
    pub(super) async fn synced(&mut self) -> Result<(), u8> {
        if let Some(lsn) = self.unsynced.take() {
            let durable = self.served.namespace.durable(lsn).await;
            durable.map_err(|error| error.result_code())?;
        }
        Ok(())
    }

    /// Waits until the write is worth another run, or until it can only be refused: `deadline` ends
    /// the client's patience, and so does the stop of the server after a time of `grace`.
    pub(super) async fn wait(&mut self, shared: &ServerShared, deadline: Instant, grace: Duration) {
        self.has_waited = true;
        let ends = self.space_ends();
        let until = ends.map_or(deadline, |ends| ends.min(deadline));
        // A record that is free by now is taken.
        if self.hold.is_none() && Instant::now() >= until {
            return self.attempt.end_patience();
        }
        let is_ready = tokio::select! {
            biased;
            () = self.attempt.ready() => true,
            // Before the timer, which a runtime that has ended does not have.
            () = shared.stopping_for(grace) => false,
            () = sleep_until(until.into()) => false,
        };
        match (is_ready, self.hold.take()) {
            (false, hold) => {
                self.is_late = hold.is_some();
                self.attempt.end_patience();
            }
            // Others may have taken the space, and a group may need more than there is: it does not
            // try all the time.
            (true, None) if ends.is_some() => sleep(SPACE_PAUSE).await,
            (true, Some(time)) if !time.is_zero() && Instant::now() < deadline => tokio::select! {
                () = sleep(time) => {}
                () = shared.told_to_stop() => {}
            },
            (true, _) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use tokio::runtime::Runtime;

    use super::super::builder::Server;
    use super::super::config::ServerConfig;
    use super::super::fields::write_field;
    use super::super::message::Message;
    use super::super::transaction::part::TransactionPart;
    use super::*;
    use crate::record::KeyHash;
    use crate::{Key, Store};

    /// A write to record 1 of set `s`: an addition of 1 to bin `n`, or, with a package, a call of a
    /// function.
    fn write(package: Option<&[u8]>) -> Vec<u8> {
        let mut body = vec![22, 0, 1, 0, 0, 0];
        body.extend([0; 12]);
        body.extend([0, 3 + u8::from(package.is_some()), 0, 1]);
        write_field(&mut body, Field::Namespace as u8, b"test");
        write_field(&mut body, Field::Set as u8, b"s");
        write_field(&mut body, Field::Digest as u8, digest().as_bytes());
        if let Some(name) = package {
            write_field(&mut body, Field::UdfPackage as u8, name);
        }
        body.extend(b"\0\0\0\x0d\x05\x01\0\x01n\0\0\0\0\0\0\0\x01");
        body
    }

    fn store() -> Store {
        let config = ServerConfig::namespace_of("test");
        Store::builder().namespace(config).open().unwrap()
    }

    fn digest() -> Digest {
        KeyHash::Ripemd160.digest("s", &Key::from(1))
    }

    fn command<'a>(body: &'a [u8], served: &'a ServedNamespace) -> RecordCommand<'a> {
        RecordCommand {
            message: Message::parse(body).unwrap(),
            part: TransactionPart::None,
            digest: digest(),
            filter: None,
            row: None,
            served,
        }
    }

    fn make<'s>(
        requests: &mut Requests<'s>,
        shared: &'s ServerShared,
        command: &RecordCommand<'s>,
    ) -> Option<u8> {
        let mut access = Access::new(None, [127, 0, 0, 1].into());
        let mut out = ResponseBuffer::new(shared.budget.share());
        requests.make((&mut access, command.served), command, &mut out)
    }

    fn runtime() -> Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap()
    }

    fn is_ready(waits: impl Future<Output = ()>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(waits).poll(&mut context).is_ready()
    }

    #[test]
    fn a_request_gives_way_to_other_connections_only_while_it_has_no_place_in_a_queue() {
        let store = store();
        let server = Server::builder(&store).hold_writes(Duration::ZERO, &[]);
        let shared = ServerShared::new(&server, 0, None).unwrap();
        let served = shared.namespace(b"test").unwrap();
        let body = write(None);
        let command = command(&body, served);
        let mut requests = Requests::new(Instant::now() + Duration::from_secs(3_600));
        let runtime = runtime();
        let _entered = runtime.enter();
        assert_eq!(make(&mut requests, &shared, &command), None);
        requests.leave_queue();
        assert!(!is_ready(requests.wait(&shared)));
        assert_eq!(make(&mut requests, &shared, &command), None);
        assert!(is_ready(requests.wait(&shared)));
        assert_eq!(make(&mut requests, &shared, &command), Some(0));
    }

    #[test]
    fn a_write_in_the_background_waits_no_longer_than_the_server_runs() {
        let store = store();
        let shared = ServerShared::new(&Server::builder(&store), 0, None).unwrap();
        let served = shared.namespace(b"test").unwrap();
        let mut owner = served.namespace.attempt();
        served.namespace.queue(&mut owner, &digest()).unwrap();
        let mut write = WaitingWrite::new(served);
        write.queue(&digest(), Duration::ZERO).unwrap();
        let ended = runtime();
        let handle = ended.handle().clone();
        shared.close();
        drop(ended);
        let deadline = Instant::now() + Duration::from_secs(3_600);
        handle.block_on(write.wait(&shared, deadline, Duration::ZERO));
        assert!(write.is_late);
    }

    #[test]
    fn a_call_that_is_refused_as_late_leaves_the_queue_of_its_record() {
        let store = store();
        let shared = ServerShared::new(&Server::builder(&store), 0, None).unwrap();
        let served = shared.namespace(b"test").unwrap();
        let body = write(Some(b"m"));
        let command = command(&body, served);
        let queued = || {
            let mut attempt = served.namespace.attempt();
            served.namespace.queue(&mut attempt, &digest()).unwrap();
            attempt
        };
        let owner = queued();
        let mut requests = Requests::new(Instant::now());
        assert_eq!(make(&mut requests, &shared, &command), None);
        runtime().block_on(requests.wait(&shared));
        assert_eq!(make(&mut requests, &shared, &command), Some(9));
        drop(owner);
        assert!(is_ready(queued().ready()));
    }

    #[test]
    fn a_write_that_finds_its_time_over_before_it_waits_is_made_once_or_not_at_all() {
        let store = store();
        let server = Server::builder(&store).hold_writes(Duration::from_secs(3_600), &[]);
        let shared = ServerShared::new(&server, 0, None).unwrap();
        let served = shared.namespace(b"test").unwrap();
        let set = store.set("s").unwrap();
        let body = write(None);
        let command = command(&body, served);
        let runtime = runtime();
        let made = || {
            let mut requests = Requests::new(Instant::now());
            (0..3).find_map(|_| {
                let code = make(&mut requests, &shared, &command);
                if code.is_none() {
                    runtime.block_on(requests.wait(&shared));
                }
                code
            })
        };
        let n = || {
            set.get(1)
                .unwrap()
                .unwrap()
                .get("n")
                .and_then(|n| n.as_i64())
        };
        // The record is free: there is nothing to wait for, and no time to keep it.
        assert_eq!(made(), Some(0));
        assert_eq!(n(), Some(1));
        let mut other = served.namespace.attempt();
        served.namespace.queue(&mut other, &digest()).unwrap();
        assert_eq!(made(), Some(9));
        drop(other);
        assert_eq!(n(), Some(1));
        assert_eq!(made(), Some(0));
        assert_eq!(n(), Some(2));
    }
}
