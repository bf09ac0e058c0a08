//! Requests about the records of a transaction: reads, writes, verification of reads, and rolls.

use std::num::NonZeroU64;

use super::part::{TransactionPart, transaction_of, version_bytes, version_of};
use super::table::{OpenTransaction, TransactionState};
use crate::engine::{Before, Provisional, ProvisionalWrite, RemoteRecord, WriteRefusal};
use crate::operation::{Checked, OperationResults};
use crate::server::command::{CommandAnswer, CommandRefusal, RecordRequest, found, wrote};
use crate::server::fields::Field;
use crate::server::function::CalledRecord;
use crate::server::function_call::RecordInput;
use crate::server::message::{Info1, Info4, Verb};
use crate::server::operation::operations_of;
use crate::server::reply::{AnswerHeader, MessageReply};
use crate::server::result_code;
use crate::{Digest, WritePolicy};

impl RecordRequest<'_> {
    /// Answers a request of a transaction about a record.
    pub(crate) fn answer_member(&self, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        let command = self.command;
        if command.part == TransactionPart::Verify {
            return self.verify();
        }
        let transaction = transaction_of(&command.message.fields)?;
        if command.part != TransactionPart::Member {
            return self.roll(&transaction);
        }
        match command.verb() {
            Verb::Read if command.message.head.info1.contains(Info1::READ) => {
                self.read_member(&transaction, reply)
            }
            Verb::Read => Err(result_code::PARAMETER.into()),
            Verb::Function => self.apply_member(transaction, reply),
            Verb::Write => self.write_member(&transaction, reply),
            Verb::Delete => self.delete_provisional(&transaction, &command.delete_policy()),
        }
    }

    /// Refuses a record that another transaction than `own` has locked.
    pub(crate) fn check_unlocked(&self, own: Option<&Digest>) -> Result<(), CommandRefusal> {
        let transactions = &self.command.served.transactions;
        if transactions.is_locked(&self.address.digest, own) {
            Err(result_code::MRT_BLOCKED.into())
        } else {
            Ok(())
        }
    }

    /// Reads a record. The transaction's own version is answered without a record version, since
    /// the client must not verify it.
    fn read_member(&self, transaction: &Digest, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        let namespace = &self.command.served.namespace;
        let transactions = &self.command.served.transactions;
        let own = transactions.with_open(transaction, |_, state| {
            let write = state.write_of(&self.address.digest)?;
            Some(namespace.read_provisional(write, &self.address, |record| {
                self.read_record(record, reply)
            }))
        });
        if let Ok(Some(read)) = own {
            return Ok(found(&read?));
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

    fn delete_provisional(&self, transaction: &Digest, policy: &WritePolicy) -> CommandAnswer {
        self.change(transaction, policy, |write| {
            let deleted = self.command.served.namespace.delete_provisional(write)?;
            Ok((deleted, ()))
        })?;
        Ok(AnswerHeader::code(result_code::OK))
    }

    /// Calls a function for the record, and keeps its change for the transaction. A call that
    /// changes nothing is a read.
    fn apply_member(&self, transaction: Digest, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        let mut record = MemberRecord {
            request: self,
            transaction,
            read: None,
        };
        let (kind, value, answer) = self.apply_to(&mut record, reply)?;
        if let Some(stamp) = record.read {
            tell_version(reply, stamp);
        }
        reply.bin(b"SUCCESS", kind, &value)?;
        Ok(answer)
    }

    /// Keeps the version of a record that `make` returns, and locks the record for the transaction.
    /// Returns the second value of `make`.
    fn change<T>(
        &self,
        transaction: &Digest,
        policy: &WritePolicy,
        make: impl FnOnce(&ProvisionalWrite<'_>) -> Result<(Provisional, T), WriteRefusal>,
    ) -> Result<T, CommandRefusal> {
        let transactions = &self.command.served.transactions;
        // Another transaction's lock is reported before this one's end.
        self.check_unlocked(Some(transaction))?;
        let changed = transactions.with_open(transaction, |open, state| {
            let write = ProvisionalWrite {
                address: self.address,
                policy,
                before: self.before(open, state)?,
            };
            let (kept, outcome) = make(&write)?;
            transactions.keep((open, state), self.address.digest, kept)?;
            Ok(outcome)
        });
        changed.map_err(|_| EXPIRED)?
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

    /// Whether the record is unchanged since the transaction read it, and no transaction has it
    /// locked.
    fn verify(&self) -> CommandAnswer {
        let Some(stamp) = version_of(&self.command.message.fields)? else {
            return Err(result_code::PARAMETER.into());
        };
        // This also ends a transaction that has held the lock past its deadline.
        let is_free = self.check_unlocked(None).is_ok();
        let namespace = &self.command.served.namespace;
        if is_free && namespace.is_unchanged(&self.address, stamp)? {
            Ok(AnswerHeader::code(result_code::OK))
        } else {
            Err(result_code::MRT_VERSION_MISMATCH.into())
        }
    }

    /// A commit has made all writes records by now, and an end has forgotten them: there is nothing
    /// to do then.
    fn roll(&self, transaction: &Digest) -> CommandAnswer {
        let (address, digest) = (&self.address, &self.address.digest);
        let served = self.command.served;
        let rolled = served.transactions.with_open(transaction, |open, state| {
            if self.command.part == TransactionPart::RollForward {
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
            served.transactions.roll_back((open, state), digest);
            Ok(AnswerHeader::code(result_code::OK))
        });
        rolled.unwrap_or(Ok(AnswerHeader::code(result_code::OK)))
    }
}

/// A record as its transaction sees it.
struct MemberRecord<'r> {
    request: &'r RecordRequest<'r>,
    transaction: Digest,
    /// The stamp of the version that was read, unless the transaction has written the record.
    read: Option<u64>,
}

impl CalledRecord for MemberRecord<'_> {
    fn read(&mut self) -> Result<RecordInput, CommandRefusal> {
        let (request, address) = (self.request, &self.request.address);
        let served = request.command.served;
        let namespace = &served.namespace;
        let take = |record: &RemoteRecord<'_>| RecordInput::of_address(namespace, record, address);
        let transactions = &served.transactions;
        let own = transactions.with_open(&self.transaction, |_, state| {
            let write = state.write_of(&address.digest)?;
            Some(namespace.read_provisional(write, address, take))
        });
        let read = match own {
            Ok(Some(read)) => read,
            _ => {
                request.check_unlocked(Some(&self.transaction))?;
                let (stamp, read) = namespace.read_stamped(address, |record, _| take(record));
                let known = version_of(&request.command.message.fields)?;
                if known.is_some() && known != stamp {
                    return Err(result_code::MRT_VERSION_MISMATCH.into());
                }
                self.read = stamp.filter(|_| read.is_ok());
                read
            }
        };
        Ok(RecordInput::found_or_absent(namespace, address, read)?)
    }

    fn write(&mut self, policy: &WritePolicy, operations: &Checked<'_>) -> CommandAnswer {
        let namespace = &self.request.command.served.namespace;
        let ignored = &mut OperationResults::default();
        let change =
            |write: &ProvisionalWrite<'_>| namespace.write_provisional(write, operations, ignored);
        let outcome = self.request.change(&self.transaction, policy, change)?;
        self.read = None;
        Ok(wrote(&outcome))
    }

    fn delete(&mut self, policy: &WritePolicy) -> CommandAnswer {
        self.read = None;
        self.request.delete_provisional(&self.transaction, policy)
    }
}

/// The answer to a transaction that is not open.
pub(super) const EXPIRED: CommandRefusal = CommandRefusal::Code(result_code::MRT_EXPIRED);

/// Adds the version of a record to an answer.
pub(crate) fn tell_version(reply: &mut MessageReply<'_, '_>, stamp: u64) {
    reply.field(Field::Version, &version_bytes(stamp));
}
