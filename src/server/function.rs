//! User-defined functions of records: calls of clients, and the writes that come of them.

use std::time::Instant;

use tokio::task::block_in_place;

use super::command::{CommandAnswer, CommandRefusal, RecordRequest, expiration, found, wrote};
use super::counters::{FunctionEffect, FunctionEffects};
use super::function_call::{FunctionCall, FunctionChange, RecordInput};
use super::memory_budget::NoRoom;
use super::reply::{AnswerHeader, MessageReply};
use super::result_code;
use super::served::ServedNamespace;
use crate::engine::{DigestAddress, ReadTouch};
use crate::operation::{Checked, Mode, OperationResults, operations};
use crate::policy::{GenerationPolicy, RecordExistsAction};
use crate::record::Metadata;
use crate::value::{ParticleType, write_answer};
use crate::{Error, Value, WritePolicy};

/// The most calls at once: each may take the memory of a state.
const CALLS_MAX: u64 = 128;

/// The most that stands in front of a value in an answer.
const VALUE_HEAD_BYTES: usize = 64;

/// A call on records, one after the other.
pub(crate) struct RecordFunction<'a> {
    pub(crate) served: &'a ServedNamespace,
    pub(crate) call: &'a FunctionCall,
    pub(crate) policy: &'a WritePolicy,
    pub(crate) effects: &'a FunctionEffects,
}

/// The value that a function returned, in its stored form, and the head of the answer.
pub(crate) type Applied = (ParticleType, Vec<u8>, AnswerHeader);

/// A record that a function is called for.
pub(crate) trait CalledRecord {
    fn read(&mut self) -> Result<RecordInput, CommandRefusal>;
    fn write(&mut self, policy: &WritePolicy, operations: &Checked<'_>) -> CommandAnswer;
    fn delete(&mut self, policy: &WritePolicy) -> CommandAnswer;
}

/// A record outside of transactions.
pub(crate) struct PlainRecord<'a> {
    pub(crate) served: &'a ServedNamespace,
    pub(crate) address: DigestAddress<'a>,
    /// Whether a record that is not there is an error, and not passed to the function as absent.
    pub(crate) must_exist: bool,
}

impl CalledRecord for PlainRecord<'_> {
    fn read(&mut self) -> Result<RecordInput, CommandRefusal> {
        let (namespace, address) = (&self.served.namespace, &self.address);
        let read = namespace.read_at(address, ReadTouch::Never, |record| {
            RecordInput::of_address(namespace, record, address)
        });
        if self.must_exist {
            return Ok(read?);
        }
        Ok(RecordInput::found_or_absent(namespace, address, read)?)
    }

    fn write(&mut self, policy: &WritePolicy, operations: &Checked<'_>) -> CommandAnswer {
        let (served, address) = (self.served, &self.address);
        served.keeping_deleted(&address.digest, || {
            let ignored = &mut OperationResults::default();
            let outcome = served
                .namespace
                .write_at(address, policy, operations, ignored)?;
            Ok(wrote(&outcome))
        })
    }

    fn delete(&mut self, policy: &WritePolicy) -> CommandAnswer {
        let (served, address) = (self.served, &self.address);
        served.keeping_deleted(&address.digest, || {
            served.namespace.delete_at(address, policy)?;
            Ok(AnswerHeader::default())
        })
    }
}

impl RecordFunction<'_> {
    /// Calls the function, and writes its change to the record: all of it or nothing. If another
    /// writer has come between, calls it again for the record as that has left it.
    pub(crate) fn apply(
        &self,
        called: &mut impl CalledRecord,
        ends: Instant,
        mut reserve: impl FnMut(usize) -> Result<(), NoRoom>,
    ) -> Result<Applied, CommandRefusal> {
        let functions = &self.served.functions;
        let running = self.served.calls.enter(CALLS_MAX);
        let _running = running.ok_or(CommandRefusal::Code(result_code::OVERLOAD))?;
        loop {
            let record = called.read()?;
            let met = record.metadata;
            // It may take long: another thread serves the connections of this one meanwhile.
            let result = block_in_place(|| functions.call(self.call, record, ends));
            let (result, change) = result.map_err(|text| {
                self.effects.add(FunctionEffect::Error as usize, 1);
                CommandRefusal::Function(text)
            })?;
            let effect = match &change {
                FunctionChange::None => FunctionEffect::Read,
                FunctionChange::Remove => FunctionEffect::Delete,
                FunctionChange::Write { .. } => FunctionEffect::Write,
            };
            // Encode the value before the write: a call whose value cannot be sent has changed
            // nothing.
            let mut value = Vec::new();
            let kind = write_answer(&result, &mut value).map_err(Error::from)?;
            reserve(value.len() + VALUE_HEAD_BYTES)
                .map_err(|NoRoom| CommandRefusal::Code(result_code::OVERLOAD))?;
            match self.write(called, met.as_ref(), change) {
                Ok(answer) => {
                    self.effects.add(effect as usize, 1);
                    return Ok((kind, value, answer));
                }
                Err(refused) if refused.has_come_late(met.is_some()) && Instant::now() < ends => {}
                Err(refused) => return Err(refused),
            }
        }
    }

    fn write(
        &self,
        called: &mut impl CalledRecord,
        met: Option<&Metadata>,
        change: FunctionChange,
    ) -> CommandAnswer {
        let generation = met.map_or(GenerationPolicy::None, |met| {
            GenerationPolicy::ExpectEqual(met.generation.into())
        });
        let policy = self.policy.clone().generation(generation);
        match change {
            FunctionChange::None => Ok(met.map(found).unwrap_or_default()),
            FunctionChange::Remove => called.delete(&policy),
            FunctionChange::Write {
                is_new,
                is_emptied,
                bins,
                time_to_live,
            } => {
                let mut writes = Vec::with_capacity(bins.len() + 1);
                if is_emptied {
                    writes.push(operations::delete_all_bins());
                }
                let put = |(name, value): (String, Value)| operations::put(&name, value);
                writes.extend(bins.into_iter().map(put));
                if writes.is_empty() {
                    writes.push(operations::touch());
                }
                let action = if is_new {
                    RecordExistsAction::CreateOnly
                } else {
                    RecordExistsAction::UpdateOnly
                };
                let mut policy = policy.record_exists_action(action);
                if let Some(seconds) = time_to_live {
                    policy = policy.expiration(expiration(seconds, self.served)?);
                }
                called.write(&policy, &Checked::new(&writes, Mode::empty())?)
            }
        }
    }
}

impl RecordRequest<'_> {
    /// Calls a function for the record.
    pub(crate) fn apply(&self, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        let record = &mut PlainRecord {
            served: self.command.served,
            address: self.address,
            must_exist: false,
        };
        let (kind, value, answer) = self.apply_to(record, reply)?;
        reply.bin(b"SUCCESS", kind, &value)?;
        Ok(answer)
    }

    pub(crate) fn apply_to(
        &self,
        record: &mut impl CalledRecord,
        reply: &mut MessageReply<'_, '_>,
    ) -> Result<Applied, CommandRefusal> {
        let (command, served) = (self.command, self.command.served);
        let function = RecordFunction {
            served,
            call: &FunctionCall::of(&command.message.fields)?,
            policy: &command.policy()?,
            effects: &served.counters.origin(command.row.is_some()).effects,
        };
        let ends = Instant::now() + command.timeout();
        function.apply(record, ends, |bytes| reply.reserve(bytes))
    }
}
