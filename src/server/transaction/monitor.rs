//! Requests about the monitor of a transaction: its begin, its keys, its commit and its end.
//!
//! While the transaction is open, its monitor is in memory like the transaction's writes. The
//! commit makes all of them records at once, so a client that does not know whether the commit
//! happened looks for the monitor.

use std::time::Duration;

use super::member::EXPIRED;
use super::part::{MONITOR_SET, monitor_digest};
use super::table::{
    DEFAULT_DURATION, MAX_DURATION, MAX_RECORDS, OpenTransaction, TransactionEnd, TransactionState,
};
use crate::engine::{Before, Provisional, ProvisionalWrite, ReadTouch, RemoteRecord};
use crate::operation::Checked;
use crate::server::command::{CommandAnswer, CommandRefusal, RecordRequest, found, wrote};
use crate::server::fields::Field;
use crate::server::message::Verb;
use crate::server::operation::operations_of;
use crate::server::ops::code;
use crate::server::reply::{AnswerHeader, MessageReply};
use crate::server::result_code;
use crate::value::ParticleType;
use crate::{Error, Expiration, WritePolicy};

/// The bins of a monitor: the number of the transaction, the digests of the records that it writes,
/// whether it is committed.
const NUMBER_BIN: &[u8] = b"id";
const DIGESTS_BIN: &str = "keyds";
const COMMITTED_BIN: &[u8] = b"fwd";

/// How long the monitor of a committed transaction is kept for a client that does not delete it.
const COMMITTED_LIFE: Duration = Duration::from_secs(600);

/// What a write to a monitor is for.
enum MonitorWrite {
    /// More records are going to be written, and perhaps the transaction with this number begins.
    Operate(Option<i64>),
    Commit,
}

impl RecordRequest<'_> {
    /// Answers a request about a monitor.
    pub(crate) fn answer_monitor(&self, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        // Only a read asks its filter.
        let mut request = *self;
        request.address.filter = None;
        match self.command.verb() {
            Verb::Read => self.read_monitor(reply),
            Verb::Delete => request.close(),
            Verb::Write | Verb::Function => match request.monitor_write()? {
                MonitorWrite::Operate(begins) => request.operate(begins, reply),
                MonitorWrite::Commit => request.commit(reply),
            },
        }
    }

    /// Monitors are written as clients write them, and not otherwise.
    fn monitor_write(&self) -> Result<MonitorWrite, CommandRefusal> {
        let (mut begins, mut commits) = (None, false);
        for op in self.command.message.ops.iter() {
            match (op.name, op.code) {
                (COMMITTED_BIN, code::WRITE) => commits = true,
                (NUMBER_BIN, code::WRITE) if op.kind == ParticleType::Integer.number() => {
                    let number = op.value.try_into().map(i64::from_be_bytes).ok();
                    let is_own = |number: &i64| monitor_digest(*number) == self.address.digest;
                    let parameter = CommandRefusal::Code(result_code::PARAMETER);
                    begins = Some(number.filter(is_own).ok_or(parameter)?);
                }
                (name, code::CDT_MODIFY) if name == DIGESTS_BIN.as_bytes() => {}
                _ => {
                    return Err(Error::parameter(format!(
                        "set \"{MONITOR_SET}\" holds transactions, which are not written by hand"
                    ))
                    .into());
                }
            }
        }
        Ok(if commits {
            MonitorWrite::Commit
        } else {
            MonitorWrite::Operate(begins)
        })
    }

    /// Lends the transaction, if it is open.
    ///
    /// # Errors
    /// As for [`Transactions::with_open`](super::table::Transactions::with_open).
    fn with_open<R>(
        &self,
        lend: impl FnOnce(&OpenTransaction, &mut TransactionState) -> R,
    ) -> Result<R, Option<TransactionEnd>> {
        let transactions = &self.command.served.transactions;
        transactions.with_open(&self.address.digest, lend)
    }

    fn read_monitor(&self, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        let read = self.with_open(|_, state| {
            let namespace = &self.command.served.namespace;
            let lend = |record: &RemoteRecord<'_>| self.read_record(record, reply);
            namespace.read_provisional(&state.monitor, &self.address, lend)
        });
        match read {
            Ok(read) => Ok(found(&read?)),
            Err(_) => self.read(reply),
        }
    }

    /// Returns the monitor after the writes of a request.
    fn written(
        &self,
        before: Option<&Provisional>,
        expiration: Expiration,
        reply: &mut MessageReply<'_, '_>,
    ) -> Result<(Provisional, AnswerHeader), CommandRefusal> {
        let command = self.command;
        let operations = operations_of(&command.message)?;
        let checked = Checked::new(&operations, command.mode())?;
        let policy = WritePolicy::default()
            .expiration(expiration)
            .total_timeout(Some(command.timeout()));
        let write = ProvisionalWrite {
            address: self.address,
            policy: &policy,
            before: before.map_or(Before::Nothing, Before::Provisional),
        };
        let (results, namespace) = (&mut command.results(reply), &self.command.served.namespace);
        let (monitor, outcome) = namespace.write_provisional(&write, &checked, results)?;
        if record_count(&monitor) > MAX_RECORDS {
            return Err(result_code::MRT_TOO_MANY_WRITES.into());
        }
        Ok((monitor, wrote(&outcome)))
    }

    fn operate(&self, begins: Option<i64>, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        let served = self.command.served;
        let tell_deadline = |reply: &mut MessageReply<'_, '_>, deadline: u32| {
            reply.field(Field::Deadline, &deadline.to_le_bytes());
        };
        let never = Expiration::Never;
        let operated = self.with_open(|open, state| {
            if begins.is_some() {
                return Err(result_code::MRT_MONITOR_EXISTS.into());
            }
            tell_deadline(reply, open.deadline());
            let (monitor, answer) = self.written(Some(&state.monitor), never, reply)?;
            let kept = served.transactions.keep_monitor(state, monitor);
            kept.map(|()| answer).map_err(CommandRefusal::Code)
        });
        match operated {
            Ok(answer) => answer,
            Err(Some(_)) => Err(EXPIRED),
            Err(None) if self.is_committed()? => Err(result_code::MRT_COMMITTED.into()),
            Err(None) if begins.is_none() => Err(EXPIRED),
            Err(None) => {
                let duration = match self.command.message.head.ttl {
                    0 => DEFAULT_DURATION,
                    seconds => Duration::from_secs(u64::from(seconds)),
                };
                if duration > MAX_DURATION {
                    return Err(Error::parameter(format!(
                        "a transaction takes at most {MAX_DURATION:?}, not {duration:?}"
                    ))
                    .into());
                }
                let deadline_ms = served.namespace.now_ms() + duration.as_millis() as u64;
                let deadline = u32::try_from(deadline_ms.div_ceil(1000)).unwrap_or(u32::MAX);
                tell_deadline(reply, deadline);
                let (monitor, answer) = self.written(None, never, reply)?;
                let begun = served
                    .transactions
                    .begin(self.address.digest, deadline_ms, monitor);
                begun.map(|()| answer).map_err(CommandRefusal::Code)
            }
        }
    }

    /// Whether a transaction that is not open was committed: its monitor is a record then.
    fn is_committed(&self) -> Result<bool, CommandRefusal> {
        let namespace = &self.command.served.namespace;
        match namespace.read_at(&self.address, ReadTouch::Never, |_| Ok(())) {
            Ok(()) => Ok(true),
            Err(refused) if matches!(refused.error, Error::NotFound { .. }) => Ok(false),
            Err(refused) => Err(refused.into()),
        }
    }

    /// Commits: makes all writes of the transaction records, at once.
    fn commit(&self, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        let committed = self.with_open(|open, state| {
            let expires = Expiration::After(COMMITTED_LIFE);
            let (monitor, answer) = self.written(Some(&state.monitor), expires, reply)?;
            self.publish(open, state, &monitor).map(|()| answer)
        });
        match committed {
            Ok(answer) => answer,
            Err(Some(TransactionEnd::Aborted)) => Err(result_code::MRT_ABORTED.into()),
            Err(None) if self.is_committed()? => Err(result_code::MRT_COMMITTED.into()),
            Err(Some(TransactionEnd::Closed) | None) => Err(EXPIRED),
        }
    }

    fn publish(
        &self,
        open: &OpenTransaction,
        state: &mut TransactionState,
        monitor: &Provisional,
    ) -> Result<(), CommandRefusal> {
        let served = self.command.served;
        let all = state.all_with(self.address.digest, monitor);
        let (end, refused) = match served
            .namespace
            .commit_provisionals(&all, self.command.timeout())
        {
            Ok(()) => (None, None),
            Err(error @ Error::Conflict { .. }) => {
                tracing::debug!(%error, "a transaction is rolled back at its commit");
                let aborted = CommandRefusal::Code(result_code::MRT_ABORTED);
                (Some(TransactionEnd::Aborted), Some(aborted))
            }
            // In doubt: the records may have been written, so the transaction must not be noted as
            // aborted.
            Err(error) if error.in_doubt() => (None, Some(error.into())),
            Err(error) if error.is_retryable() || matches!(error, Error::StopWrites { .. }) => {
                return Err(error.into());
            }
            // A retry would fail again and again, and keep all its records locked.
            Err(error) => (Some(TransactionEnd::Aborted), Some(error.into())),
        };
        served.transactions.end(open, state, end);
        refused.map_or(Ok(()), Err)
    }

    /// Deletes the monitor. An uncommitted transaction is rolled back, since it cannot be committed
    /// without its monitor.
    fn close(&self) -> CommandAnswer {
        let served = self.command.served;
        let closed = self.with_open(|open, state| {
            let end = Some(TransactionEnd::Closed);
            served.transactions.end(open, state, end);
        });
        match closed {
            Ok(()) => {}
            Err(Some(TransactionEnd::Closed)) => return Err(result_code::NOT_FOUND.into()),
            Err(ended) => {
                // Committed, so its monitor is a record, or not known at all.
                if ended.is_none() {
                    let policy = WritePolicy::default();
                    served.namespace.delete_at(&self.address, &policy)?;
                }
                served.transactions.note_closed(self.address.digest);
            }
        }
        Ok(AnswerHeader::code(result_code::OK))
    }
}

/// How many records the monitor names.
fn record_count(monitor: &Provisional) -> usize {
    let view = monitor.record().and_then(|record| record.view().ok());
    let digests = view.and_then(|view| view.bin(DIGESTS_BIN)?.as_list());
    digests.map_or(0, |digests| digests.len())
}
