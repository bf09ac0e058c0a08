//! A request about one record, from its parts to its answer.

use super::command::{CommandAnswer, CommandRefusal, RecordCommand, RecordRequest};
use super::message::{Info1, Verb};
use super::modules::MODULE_SET;
use super::reply::{AnswerHeader, MessageReply};
use super::response_buffer::ResponseBuffer;
use super::result_code;
use super::transaction::member;
use super::transaction::part::TransactionPart;
use crate::engine::{DigestAddress, WriteRefusal};
use crate::value::ParticleType;

impl RecordCommand<'_> {
    /// Executes the request and appends its answer, without a frame, to `out`. Returns the answer's
    /// code, which is not counted yet.
    pub(crate) fn execute(&self, out: &mut ResponseBuffer<'_>) -> u8 {
        let mut reply = MessageReply::begin(out);
        let answer = self.answer(&mut reply);
        let answer = answer.unwrap_or_else(|refused| {
            let answer = refused.answer();
            if reply.clear().is_err() {
                return AnswerHeader {
                    code: result_code::OVERLOAD,
                    ..answer
                };
            }
            match refused {
                CommandRefusal::Refused(WriteRefusal {
                    stamp: Some(stamp), ..
                }) => member::tell_version(&mut reply, stamp.get()),
                CommandRefusal::Function(text) => {
                    // Without room for the text the code says enough.
                    let _ = reply.bin(b"FAILURE", ParticleType::String, text.as_bytes());
                }
                _ => {}
            }
            answer
        });
        reply.finish(&AnswerHeader {
            row: self.row.unwrap_or_default(),
            ..answer
        });
        answer.code
    }

    /// Appends the answer of a request that is not executed. Returns its code.
    pub(crate) fn refuse(&self, code: u8, out: &mut ResponseBuffer<'_>) -> u8 {
        AnswerHeader::refuse_row(self.row.unwrap_or_default(), code, out)
    }

    /// Counts a request that was answered with this code.
    pub(crate) fn count(&self, code: u8) {
        let served = self.served;
        if served.transactions.counters.count(self.part, code) {
            return;
        }
        served.counters.count(self.verb(), self.row.is_some(), code);
    }

    fn answer(&self, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        let request = RecordRequest {
            command: self,
            address: DigestAddress {
                digest: self.digest,
                set: self.set()?,
                key: self.key()?,
                filter: self.filter,
            },
        };
        if request.changes_module() {
            return Err(result_code::FORBIDDEN.into());
        }
        if let Some(community) = &self.served.community {
            community.check(&self.message, self.part)?;
            return request.answer_single(reply);
        }
        match self.part {
            TransactionPart::None => {}
            TransactionPart::Monitor => return request.answer_monitor(reply),
            _ => return request.answer_member(reply),
        }
        if self.verb() != Verb::Read {
            request.check_unlocked(None)?;
        }
        request.answer_single(reply)
    }
}

impl RecordRequest<'_> {
    /// Whether it writes a module: what the server knows of modules changes with what is stored.
    fn changes_module(&self) -> bool {
        let (namespace, digest) = (&self.command.served.namespace, &self.address.digest);
        match self.command.verb() {
            Verb::Read => false,
            // Without a set they change the record of any.
            Verb::Delete | Verb::Function if self.address.set.is_empty() => {
                namespace.set_number(MODULE_SET).is_some_and(|set| {
                    let met = namespace.read_scanned(digest, Some(set), |_| ());
                    matches!(met, Ok(Some(())))
                })
            }
            _ => self.address.set == MODULE_SET,
        }
    }

    /// Answers a request that is in no transaction.
    fn answer_single(&self, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        match self.command.verb() {
            Verb::Delete => self.delete(),
            Verb::Function => self.apply(reply),
            Verb::Write => self.write(reply),
            Verb::Read if self.command.message.head.info1.contains(Info1::READ) => self.read(reply),
            Verb::Read => Err(result_code::PARAMETER.into()),
        }
    }
}
