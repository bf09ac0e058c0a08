//! Requests about the monitor of a transaction: its begin, its keys, its commit and its end.
//!
//! While the transaction is open, its monitor is in memory like the transaction's writes. The commit makes all of them
//! records at once, so a client that does not know whether the commit happened looks for the monitor.

use std::time::Duration;

use super::member::EXPIRED;
use super::part::{MONITOR_SET, monitor_digest};
use super::table::{
    DEFAULT_DURATION, KnownTransaction, MAX_DURATION, MAX_RECORDS, OpenTransaction, TransactionEnd,
    TransactionState,
};
use crate::engine::{
    Before, DigestAddress, Provisional, ProvisionalWrite, ReadTouch, RemoteRecord,
};
use crate::operation::Checked;
use crate::server::command::{CommandRefusal, RecordCommand, found, wrote};
use crate::server::fields::Field;
use crate::server::message::Verb;
use crate::server::operation::operations_of;
use crate::server::ops::code;
use crate::server::reply::{AnswerHeader, MessageReply};
use crate::server::result_code;
use crate::server::served::ServedNamespace;
use crate::value::ParticleType;
use crate::{Digest, Error, Expiration, WritePolicy};

/// The bins of a monitor: the number of the transaction, the digests of the records that it writes, whether it is committed.
const NUMBER_BIN: &[u8] = b"id";
const DIGESTS_BIN: &str = "keyds";
const COMMITTED_BIN: &[u8] = b"fwd";

/// How long the monitor of a committed transaction is kept for a client that does not delete it.
const COMMITTED_LIFE: Duration = Duration::from_secs(600);

type MonitorAnswer = std::result::Result<AnswerHeader, CommandRefusal>;

/// What a write to a monitor is for.
enum MonitorWrite {
    /// More records are going to be written, and perhaps the transaction with this number begins.
    Operate(Option<i64>),
    Commit,
}

/// Answers a request about a monitor.
pub(crate) fn answer(
    command: &RecordCommand<'_>,
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
    scratch: &mut Vec<u8>,
    reply: &mut MessageReply<'_, '_>,
) -> MonitorAnswer {
    match command.verb() {
        Verb::Read => read(command, served, address, reply),
        Verb::Delete => close(served, address),
        Verb::Write => match write_of(command)? {
            MonitorWrite::Operate(begins) => {
                operate(command, served, address, begins, scratch, reply)
            }
            MonitorWrite::Commit => commit(command, served, address, scratch, reply),
        },
    }
}

/// Monitors are written as clients write them, and not otherwise.
fn write_of(command: &RecordCommand<'_>) -> std::result::Result<MonitorWrite, CommandRefusal> {
    let (mut begins, mut commits) = (None, false);
    for op in command.ops.iter() {
        match (op.name, op.code) {
            (COMMITTED_BIN, code::WRITE) => commits = true,
            (NUMBER_BIN, code::WRITE) if op.kind == ParticleType::Integer.number() => {
                let number = op.value.try_into().map(i64::from_be_bytes);
                let number = number.ok().filter(|number| {
                    let digest = monitor_digest(*number);
                    digest == command.digest
                });
                begins = Some(number.ok_or(CommandRefusal::Code(result_code::PARAMETER))?);
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
    Ok(match commits {
        true => MonitorWrite::Commit,
        false => MonitorWrite::Operate(begins),
    })
}

fn read(
    command: &RecordCommand<'_>,
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
    reply: &mut MessageReply<'_, '_>,
) -> MonitorAnswer {
    let namespace = &served.namespace;
    let known = served.transactions.find(namespace, &address.digest);
    if let KnownTransaction::Open(open) = &known
        && let Some(state) = open.state()
    {
        let lend = |record: &RemoteRecord<'_>| command.read_record(served, record, reply);
        let read = namespace.read_provisional(&state.monitor, address, command.filter, lend)?;
        return Ok(found(&read));
    }
    command.read(served, address, reply)
}

/// Returns the monitor after the writes of a request.
fn written(
    command: &RecordCommand<'_>,
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
    (before, expiration): (Option<&Provisional>, Expiration),
    scratch: &mut Vec<u8>,
    reply: &mut MessageReply<'_, '_>,
) -> std::result::Result<(Provisional, AnswerHeader), CommandRefusal> {
    let operations = operations_of(&command.head, &command.ops)?;
    let checked = Checked::new(&operations, command.mode())?;
    let policy = WritePolicy::default()
        .expiration(expiration)
        .total_timeout(Some(command.timeout()));
    let write = ProvisionalWrite {
        address: *address,
        filter: None,
        policy: &policy,
        before: before.map_or(Before::Nothing, Before::Provisional),
    };
    let mut results = command.results(reply);
    let namespace = &served.namespace;
    let (monitor, outcome) =
        namespace.write_provisional(&write, &checked, scratch, &mut results)?;
    if record_count(&monitor) > MAX_RECORDS {
        return Err(CommandRefusal::Code(result_code::MRT_TOO_MANY_WRITES));
    }
    let answer = wrote(&outcome);
    Ok((monitor, answer))
}

/// How many records the monitor names.
fn record_count(monitor: &Provisional) -> usize {
    let view = monitor.record().and_then(|record| record.view().ok());
    let digests = view.and_then(|view| view.bin(DIGESTS_BIN)?.as_list());
    digests.map_or(0, |digests| digests.len())
}

fn operate(
    command: &RecordCommand<'_>,
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
    begins: Option<i64>,
    scratch: &mut Vec<u8>,
    reply: &mut MessageReply<'_, '_>,
) -> MonitorAnswer {
    let (namespace, transactions) = (&served.namespace, &served.transactions);
    let tell_deadline = |reply: &mut MessageReply<'_, '_>, deadline: u32| {
        reply.field(Field::Deadline, &deadline.to_le_bytes());
    };
    match transactions.find(namespace, &address.digest) {
        KnownTransaction::Open(_) if begins.is_some() => {
            Err(CommandRefusal::Code(result_code::MRT_MONITOR_EXISTS))
        }
        KnownTransaction::Open(open) => {
            let mut state = open.state().ok_or(EXPIRED)?;
            tell_deadline(reply, open.deadline());
            let before = (Some(&state.monitor), Expiration::Never);
            let (monitor, answer) = written(command, served, address, before, scratch, reply)?;
            let kept = transactions.keep_monitor(&mut state, monitor);
            kept.map(|()| answer).map_err(CommandRefusal::Code)
        }
        KnownTransaction::Ended(_) => Err(EXPIRED),
        KnownTransaction::Nothing if is_committed(served, address)? => {
            Err(CommandRefusal::Code(result_code::MRT_COMMITTED))
        }
        KnownTransaction::Nothing if begins.is_none() => Err(EXPIRED),
        KnownTransaction::Nothing => {
            let duration = match command.head.ttl {
                0 => DEFAULT_DURATION,
                seconds => Duration::from_secs(u64::from(seconds)),
            };
            if duration > MAX_DURATION {
                return Err(Error::parameter(format!(
                    "a transaction takes at most {MAX_DURATION:?}, not {duration:?}"
                ))
                .into());
            }
            let deadline_ms = namespace.now_ms() + duration.as_millis() as u64;
            let deadline = u32::try_from(deadline_ms.div_ceil(1000)).unwrap_or(u32::MAX);
            tell_deadline(reply, deadline);
            let before = (None, Expiration::Never);
            let (monitor, answer) = written(command, served, address, before, scratch, reply)?;
            let begun = transactions.begin(address.digest, deadline_ms, monitor);
            begun.map(|_| answer).map_err(CommandRefusal::Code)
        }
    }
}

/// Whether a transaction that is not open was committed: its monitor is a record then.
fn is_committed(
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
) -> std::result::Result<bool, CommandRefusal> {
    let namespace = &served.namespace;
    match namespace.read_at(address, None, ReadTouch::Never, |_| Ok(())) {
        Ok(()) => Ok(true),
        Err(refused) if matches!(refused.error, Error::NotFound { .. }) => Ok(false),
        Err(refused) => Err(refused.into()),
    }
}

/// Commits: makes all writes of the transaction records, at once.
fn commit(
    command: &RecordCommand<'_>,
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
    scratch: &mut Vec<u8>,
    reply: &mut MessageReply<'_, '_>,
) -> MonitorAnswer {
    let transactions = &served.transactions;
    match transactions.find(&served.namespace, &address.digest) {
        KnownTransaction::Open(open) => {
            if let Some(mut state) = open.state() {
                let expires = Expiration::After(COMMITTED_LIFE);
                let before = (Some(&state.monitor), expires);
                let (monitor, answer) = written(command, served, address, before, scratch, reply)?;
                let open = (&*open, &mut *state);
                return publish(command, served, &address.digest, open, &monitor).map(|()| answer);
            }
        }
        KnownTransaction::Ended(TransactionEnd::Aborted) => {
            return Err(CommandRefusal::Code(result_code::MRT_ABORTED));
        }
        KnownTransaction::Ended(TransactionEnd::Closed) => return Err(EXPIRED),
        KnownTransaction::Nothing => {}
    }
    match is_committed(served, address)? {
        true => Err(CommandRefusal::Code(result_code::MRT_COMMITTED)),
        false => Err(EXPIRED),
    }
}

fn publish(
    command: &RecordCommand<'_>,
    served: &ServedNamespace,
    digest: &Digest,
    (open, state): (&OpenTransaction, &mut TransactionState),
    monitor: &Provisional,
) -> std::result::Result<(), CommandRefusal> {
    let (namespace, transactions) = (&served.namespace, &served.transactions);
    let all = state.all_with(*digest, monitor);
    let committed = namespace.commit_provisionals(&all, command.timeout());
    match committed {
        Ok(()) => {
            transactions.end(namespace, open, state, None);
            Ok(())
        }
        Err(error @ Error::Conflict { .. }) => {
            tracing::debug!(%error, "a transaction is rolled back at its commit");
            transactions.end(namespace, open, state, Some(TransactionEnd::Aborted));
            Err(CommandRefusal::Code(result_code::MRT_ABORTED))
        }
        // In doubt: the records may have been written, so the transaction must not be noted as aborted.
        Err(error) if error.in_doubt() => {
            transactions.end(namespace, open, state, None);
            Err(error.into())
        }
        Err(error) if error.is_retryable() || matches!(error, Error::StopWrites { .. }) => {
            Err(error.into())
        }
        // A retry would fail again and again, and keep all its records locked.
        Err(error) => {
            transactions.end(namespace, open, state, Some(TransactionEnd::Aborted));
            Err(error.into())
        }
    }
}

/// Deletes the monitor. An uncommitted transaction is rolled back, since it cannot be committed without its monitor.
fn close(served: &ServedNamespace, address: &DigestAddress<'_>) -> MonitorAnswer {
    let (namespace, transactions) = (&served.namespace, &served.transactions);
    match transactions.find(namespace, &address.digest) {
        KnownTransaction::Open(open) => {
            if let Some(mut state) = open.state() {
                let end = Some(TransactionEnd::Closed);
                transactions.end(namespace, &open, &mut state, end);
                return Ok(AnswerHeader::code(result_code::OK));
            }
        }
        KnownTransaction::Ended(TransactionEnd::Aborted) => {
            transactions.note_closed(namespace, address.digest);
            return Ok(AnswerHeader::code(result_code::OK));
        }
        KnownTransaction::Ended(TransactionEnd::Closed) => {
            return Err(CommandRefusal::Code(result_code::NOT_FOUND));
        }
        KnownTransaction::Nothing => {}
    }
    namespace.delete_at(address, None, &WritePolicy::default())?;
    transactions.note_closed(namespace, address.digest);
    Ok(AnswerHeader::code(result_code::OK))
}
