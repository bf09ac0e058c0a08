//! Requests about the records of a transaction: reads, writes, verification of reads, and rolls.

use std::num::NonZeroU64;

use super::part::{TransactionPart, transaction_of, version_bytes, version_of};
use super::table::{KnownTransaction, OpenTransaction, TransactionState};
use crate::engine::{Before, Provisional, ProvisionalWrite, WriteRefusal};
use crate::operation::Checked;
use crate::server::command::{CommandAnswer, CommandRefusal, RecordRequest, found, wrote};
use crate::server::fields::Field;
use crate::server::message::{Info1, Info4, Verb};
use crate::server::operation::operations_of;
use crate::server::reply::{AnswerHeader, MessageReply};
use crate::server::result_code;
use crate::{Digest, WritePolicy};

impl RecordRequest<'_> {
    /// Answers a request of a transaction about a record.
    pub(crate) fn answer_member(
        &self,
        part: TransactionPart,
        reply: &mut MessageReply<'_, '_>,
    ) -> CommandAnswer {
        if part == TransactionPart::Verify {
            return self.verify();
        }
        let command = self.command;
        let transaction = transaction_of(&command.message.fields)?;
        if matches!(
            part,
            TransactionPart::RollForward | TransactionPart::RollBack
        ) {
            return self.roll(part, &transaction);
        }
        match command.verb() {
            Verb::Read if command.message.head.info1.contains(Info1::READ) => {
                self.read_member(&transaction, reply)
            }
            Verb::Read => Err(result_code::PARAMETER.into()),
            Verb::Function => {
                self.check_unlocked(Some(&transaction))?;
                Err(result_code::UNSUPPORTED.into())
            }
            Verb::Write => self.write_member(&transaction, reply),
            Verb::Delete => self.delete_member(&transaction),
        }
    }

    /// Refuses a record that another transaction than `own` has locked.
    pub(crate) fn check_unlocked(&self, own: Option<&Digest>) -> Result<(), CommandRefusal> {
        let transactions = &self.command.served.transactions;
        match transactions.is_locked(&self.address.digest, own) {
            true => Err(result_code::MRT_BLOCKED.into()),
            false => Ok(()),
        }
    }

    /// Reads a record. The transaction's own version is answered without a record version, since the client must not verify
    /// it.
    fn read_member(&self, transaction: &Digest, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        let namespace = &self.command.served.namespace;
        let known = self.command.served.transactions.find(transaction);
        if let KnownTransaction::Open(open) = &known
            && let Some(state) = open.state()
            && let Some(write) = state.write_of(&self.address.digest)
        {
            let read = namespace.read_provisional(write, &self.address, |record| {
                self.read_record(record, reply)
            })?;
            return Ok(found(&read));
        }
        self.check_unlocked(Some(transaction))?;
        let (stamp, read) = namespace.read_stamped(&self.address, |record, stamp| {
            tell_version(reply, stamp);
            self.read_record(record, reply)
        });
        match read {
            Ok(metadata) => Ok(found(&metadata)),
            Err(refused) => Err(CommandRefusal::Refused(WriteRefusal {
                stamp: stamp.and_then(NonZeroU64::new),
                ..refused
            })),
        }
    }

    fn write_member(
        &self,
        transaction: &Digest,
        reply: &mut MessageReply<'_, '_>,
    ) -> CommandAnswer {
        let (command, namespace) = (self.command, &self.command.served.namespace);
        command.check_reads()?;
        let operations = operations_of(&command.message)?;
        let checked = Checked::new(&operations, command.mode())?;
        let policy = command.policy()?;
        let outcome = self.change(transaction, &policy, |write| {
            namespace.write_provisional(write, &checked, &mut command.results(reply))
        })?;
        Ok(wrote(&outcome))
    }

    fn delete_member(&self, transaction: &Digest) -> CommandAnswer {
        let policy = self.command.delete_policy();
        self.change(transaction, &policy, |write| {
            let deleted = self.command.served.namespace.delete_provisional(write)?;
            Ok((deleted, ()))
        })?;
        Ok(AnswerHeader::code(result_code::OK))
    }

    /// Keeps the version of a record that `make` returns, and locks the record for the transaction. Returns the second
    /// value of `make`.
    fn change<T>(
        &self,
        transaction: &Digest,
        policy: &WritePolicy,
        make: impl FnOnce(&ProvisionalWrite<'_>) -> Result<(Provisional, T), WriteRefusal>,
    ) -> Result<T, CommandRefusal> {
        let transactions = &self.command.served.transactions;
        // Another transaction's lock is reported before this one's end.
        self.check_unlocked(Some(transaction))?;
        let KnownTransaction::Open(open) = transactions.find(transaction) else {
            return Err(EXPIRED);
        };
        let mut state = open.state().ok_or(EXPIRED)?;
        let write = ProvisionalWrite {
            address: self.address,
            policy,
            before: self.before(&open, &state)?,
        };
        let (kept, outcome) = make(&write)?;
        let kept_for = (&*open, &mut *state);
        transactions.keep(kept_for, self.address.digest, kept)?;
        Ok(outcome)
    }

    /// Returns the version that the transaction's write changes.
    fn before<'s>(
        &self,
        open: &OpenTransaction,
        state: &'s TransactionState,
    ) -> Result<Before<'s>, CommandRefusal> {
        let command = self.command;
        match state.write_of(&self.address.digest) {
            Some(_) if command.message.head.info4.contains(Info4::ON_LOCKING_ONLY) => {
                Err(result_code::MRT_ALREADY_LOCKED.into())
            }
            Some(write) => Ok(Before::Provisional(write)),
            None => Ok(Before::Record {
                transaction: open.monitor,
                read: version_of(&command.message.fields)?,
            }),
        }
    }

    /// Whether the record is unchanged since the transaction read it, and no transaction has it locked.
    fn verify(&self) -> CommandAnswer {
        let Some(stamp) = version_of(&self.command.message.fields)? else {
            return Err(result_code::PARAMETER.into());
        };
        // This also ends a transaction that has held the lock past its deadline.
        let is_free = self.check_unlocked(None).is_ok();
        let namespace = &self.command.served.namespace;
        match is_free && namespace.is_unchanged(&self.address, stamp)? {
            true => Ok(AnswerHeader::code(result_code::OK)),
            false => Err(result_code::MRT_VERSION_MISMATCH.into()),
        }
    }

    /// A commit has made all writes records by now, and an end has forgotten them: there is nothing to do then.
    fn roll(&self, part: TransactionPart, transaction: &Digest) -> CommandAnswer {
        let (address, digest) = (&self.address, &self.address.digest);
        let served = self.command.served;
        if let KnownTransaction::Open(open) = served.transactions.find(transaction)
            && let Some(mut state) = open.state()
        {
            if part == TransactionPart::RollForward {
                tracing::debug!(
                    "one record of a transaction that is not committed cannot be rolled forward"
                );
                return Err(result_code::PARAMETER.into());
            }
            match state.write_of(digest).and_then(Provisional::record) {
                Some(record) => served.namespace.check_set(address, &record)?,
                // The record itself, where the transaction deletes it; a damaged one names no set.
                None => served
                    .namespace
                    .read_scanned(digest, None, |record| {
                        served.namespace.check_set(address, record)
                    })
                    .unwrap_or_default()
                    .unwrap_or(Ok(()))?,
            }
            served.transactions.roll_back((&open, &mut state), digest);
        }
        Ok(AnswerHeader::code(result_code::OK))
    }
}

/// The answer to a transaction that is not open.
pub(super) const EXPIRED: CommandRefusal = CommandRefusal::Code(result_code::MRT_EXPIRED);

/// Adds the version of a record to an answer.
pub(crate) fn tell_version(reply: &mut MessageReply<'_, '_>, stamp: u64) {
    reply.field(Field::Version, &version_bytes(stamp));
}
