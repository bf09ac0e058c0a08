//! Requests about the records of a transaction: reads, writes, verification of reads, and rolls.

use std::num::NonZeroU64;
use std::sync::Arc;

use super::part::{TransactionPart, transaction_of, version_bytes, version_of};
use super::table::{KnownTransaction, OpenTransaction, TransactionState};
use crate::engine::{Before, DigestAddress, Provisional, ProvisionalWrite, WriteRefusal};
use crate::operation::Checked;
use crate::server::command::{CommandRefusal, RecordCommand, found, wrote};
use crate::server::fields::Field;
use crate::server::message::{Info1, Info4, Verb};
use crate::server::operation::operations_of;
use crate::server::reply::{AnswerHeader, MessageReply};
use crate::server::result_code;
use crate::server::served::ServedNamespace;
use crate::{Digest, WritePolicy};

type MemberAnswer = std::result::Result<AnswerHeader, CommandRefusal>;

/// Answers a request of a transaction about a record.
pub(crate) fn answer(
    command: &RecordCommand<'_>,
    part: TransactionPart,
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
    scratch: &mut Vec<u8>,
    reply: &mut MessageReply<'_, '_>,
) -> MemberAnswer {
    if part == TransactionPart::Verify {
        return verify(command, served, address);
    }
    let transaction = transaction_of(&command.fields)?;
    if matches!(
        part,
        TransactionPart::RollForward | TransactionPart::RollBack
    ) {
        return roll(part, served, address, &transaction);
    }
    match command.verb() {
        Verb::Read if command.head.info1.contains(Info1::READ) => {
            read(command, served, address, &transaction, reply)
        }
        Verb::Read => Err(CommandRefusal::Code(result_code::PARAMETER)),
        Verb::Write if command.calls_function() => {
            check_unlocked(served, &address.digest, Some(&transaction))?;
            Err(CommandRefusal::Code(result_code::UNSUPPORTED))
        }
        Verb::Write => write(command, served, address, &transaction, scratch, reply),
        Verb::Delete => delete(command, served, address, &transaction),
    }
}

/// Refuses a record that another transaction than `own` has locked.
pub(crate) fn check_unlocked(
    served: &ServedNamespace,
    digest: &Digest,
    own: Option<&Digest>,
) -> std::result::Result<(), CommandRefusal> {
    match served
        .transactions
        .is_locked(&served.namespace, digest, own)
    {
        true => Err(CommandRefusal::Code(result_code::MRT_BLOCKED)),
        false => Ok(()),
    }
}

/// Adds the version of a record to an answer.
pub(crate) fn tell_version(reply: &mut MessageReply<'_, '_>, stamp: u64) {
    reply.field(Field::Version, &version_bytes(stamp));
}

/// Reads a record. The transaction's own version is answered without a record version, since the client must not verify
/// it.
fn read(
    command: &RecordCommand<'_>,
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
    transaction: &Digest,
    reply: &mut MessageReply<'_, '_>,
) -> MemberAnswer {
    let namespace = &served.namespace;
    let known = served.transactions.find(namespace, transaction);
    if let KnownTransaction::Open(open) = &known
        && let Some(state) = open.state()
        && let Some(write) = state.write_of(&address.digest)
    {
        let read = namespace.read_provisional(write, address, command.filter, |record| {
            command.read_record(served, record, reply)
        })?;
        return Ok(found(&read));
    }
    check_unlocked(served, &address.digest, Some(transaction))?;
    let (stamp, read) = namespace.read_stamped(address, command.filter, |record, stamp| {
        tell_version(reply, stamp);
        command.read_record(served, record, reply)
    });
    match read {
        Ok(metadata) => Ok(found(&metadata)),
        Err(refused) => Err(CommandRefusal::Refused(WriteRefusal {
            stamp: stamp.and_then(NonZeroU64::new),
            ..refused
        })),
    }
}

fn write(
    command: &RecordCommand<'_>,
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
    transaction: &Digest,
    scratch: &mut Vec<u8>,
    reply: &mut MessageReply<'_, '_>,
) -> MemberAnswer {
    command.check_reads()?;
    let operations = operations_of(&command.head, &command.ops)?;
    let checked = Checked::new(&operations, command.mode())?;
    let policy = command.policy(served)?;
    let outcome = change(command, served, address, transaction, &policy, |write| {
        let mut results = command.results(reply);
        served
            .namespace
            .write_provisional(write, &checked, scratch, &mut results)
    })?;
    Ok(wrote(&outcome))
}

fn delete(
    command: &RecordCommand<'_>,
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
    transaction: &Digest,
) -> MemberAnswer {
    let policy = command.delete_policy();
    change(command, served, address, transaction, &policy, |write| {
        let deleted = served.namespace.delete_provisional(write)?;
        Ok((deleted, ()))
    })?;
    Ok(AnswerHeader::code(result_code::OK))
}

/// Keeps the version of a record that `make` returns, and locks the record for the transaction. Returns the second
/// value of `make`.
fn change<T>(
    command: &RecordCommand<'_>,
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
    transaction: &Digest,
    policy: &WritePolicy,
    make: impl FnOnce(&ProvisionalWrite<'_>) -> std::result::Result<(Provisional, T), WriteRefusal>,
) -> std::result::Result<T, CommandRefusal> {
    let open = open_for(served, address, transaction)?;
    let mut state = open.state().ok_or(EXPIRED)?;
    let write = ProvisionalWrite {
        address: *address,
        filter: command.filter,
        policy,
        before: before(command, address, &open, &state)?,
    };
    let (kept, outcome) = make(&write)?;
    let kept_for = (&*open, &mut *state);
    served
        .transactions
        .keep(&served.namespace, kept_for, address.digest, kept)
        .map_err(CommandRefusal::Code)?;
    Ok(outcome)
}

/// The answer to a transaction that is not open.
pub(super) const EXPIRED: CommandRefusal = CommandRefusal::Code(result_code::MRT_EXPIRED);

/// Returns the transaction that writes a record. Another transaction's lock is reported before this one's end.
fn open_for(
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
    transaction: &Digest,
) -> std::result::Result<Arc<OpenTransaction>, CommandRefusal> {
    check_unlocked(served, &address.digest, Some(transaction))?;
    match served.transactions.find(&served.namespace, transaction) {
        KnownTransaction::Open(open) => Ok(open),
        KnownTransaction::Ended(_) | KnownTransaction::Nothing => Err(EXPIRED),
    }
}

/// Returns the version that the transaction's write changes.
fn before<'s>(
    command: &RecordCommand<'_>,
    address: &DigestAddress<'_>,
    open: &OpenTransaction,
    state: &'s TransactionState,
) -> std::result::Result<Before<'s>, CommandRefusal> {
    match state.write_of(&address.digest) {
        Some(_) if command.head.info4.contains(Info4::ON_LOCKING_ONLY) => {
            Err(CommandRefusal::Code(result_code::MRT_ALREADY_LOCKED))
        }
        Some(write) => Ok(Before::Provisional(write)),
        None => Ok(Before::Record {
            transaction: open.monitor,
            read: version_of(&command.fields)?,
        }),
    }
}

/// Whether the record is unchanged since the transaction read it, and no transaction has it locked.
fn verify(
    command: &RecordCommand<'_>,
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
) -> MemberAnswer {
    let Some(stamp) = version_of(&command.fields)? else {
        return Err(CommandRefusal::Code(result_code::PARAMETER));
    };
    let (namespace, digest) = (&served.namespace, &address.digest);
    // This also ends a transaction that has held the lock past its deadline.
    let is_locked = served.transactions.is_locked(namespace, digest, None);
    match !is_locked && namespace.is_unchanged(address, stamp)? {
        true => Ok(AnswerHeader::code(result_code::OK)),
        false => Err(CommandRefusal::Code(result_code::MRT_VERSION_MISMATCH)),
    }
}

/// A commit has made all writes records by now, and an end has forgotten them: there is nothing to do then.
fn roll(
    part: TransactionPart,
    served: &ServedNamespace,
    address: &DigestAddress<'_>,
    transaction: &Digest,
) -> MemberAnswer {
    let namespace = &served.namespace;
    if let KnownTransaction::Open(open) = served.transactions.find(namespace, transaction)
        && let Some(mut state) = open.state()
    {
        if part == TransactionPart::RollForward {
            tracing::debug!(
                "one record of a transaction that is not committed cannot be rolled forward"
            );
            return Err(CommandRefusal::Code(result_code::PARAMETER));
        }
        let written = state
            .write_of(&address.digest)
            .and_then(Provisional::record);
        match written {
            Some(record) => namespace.check_set(address, &record)?,
            // The record itself, where the transaction deletes it; a damaged one names no set.
            None => namespace
                .read_scanned(&address.digest, None, |record| {
                    namespace.check_set(address, record)
                })
                .unwrap_or_default()
                .unwrap_or(Ok(()))?,
        }
        let open = (&*open, &mut *state);
        served
            .transactions
            .roll_back(namespace, open, &address.digest);
    }
    Ok(AnswerHeader::code(result_code::OK))
}
