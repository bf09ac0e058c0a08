//! User-defined functions of records: calls of clients, and the writes that come of them.

use std::time::Instant;

use tokio::task::block_in_place;

use super::command::{CommandAnswer, CommandRefusal, RecordRequest, expiration, found, wrote};
use super::counters::{FunctionEffect, FunctionEffects};
use super::function_call::{FunctionCall, FunctionChange, RecordInput, key_value};
use super::memory_budget::NoRoom;
use super::reply::{AnswerHeader, MessageReply};
use super::result_code;
use super::served::ServedNamespace;
use crate::engine::{DigestAddress, ReadTouch};
use crate::operation::{Checked, Mode, OperationResults, operations};
use crate::policy::{GenerationPolicy, RecordExistsAction};
use crate::record::{Bins, Metadata};
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
type Applied = (ParticleType, Vec<u8>, AnswerHeader);

impl RecordFunction<'_> {
    /// Calls the function, and writes its change to the record: all of it or nothing. If another writer has come
    /// between, calls it again for the record as that has left it.
    pub(crate) fn apply(
        &self,
        address: &DigestAddress<'_>,
        ends: Instant,
        mut reserve: impl FnMut(usize) -> Result<(), NoRoom>,
    ) -> Result<Applied, CommandRefusal> {
        let functions = &self.served.functions;
        let running = self.served.calls.enter(CALLS_MAX);
        let _running = running.ok_or(CommandRefusal::Code(result_code::OVERLOAD))?;
        loop {
            let record = self.read(address)?;
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
            // Encode the value before the write: a call whose value cannot be sent has changed nothing.
            let mut value = Vec::new();
            let kind = write_answer(&result, &mut value).map_err(Error::from)?;
            reserve(value.len() + VALUE_HEAD_BYTES)
                .map_err(|NoRoom| CommandRefusal::Code(result_code::OVERLOAD))?;
            match self.write(address, met.as_ref(), change) {
                Ok(answer) => {
                    self.effects.add(effect as usize, 1);
                    return Ok((kind, value, answer));
                }
                Err(refused) if refused.has_come_late(met.is_some()) && Instant::now() < ends => {}
                Err(refused) => return Err(refused),
            }
        }
    }

    fn read(&self, address: &DigestAddress<'_>) -> Result<RecordInput, CommandRefusal> {
        let namespace = &self.served.namespace;
        let read = namespace.read_at(address, ReadTouch::Never, |record| {
            let set = namespace.set_name_or(record.set_id(), address.set);
            RecordInput::of(namespace, record, address.digest, &set)
        });
        match read {
            Err(refused) if matches!(refused.error, Error::NotFound { .. }) => Ok(RecordInput {
                bins: Bins::new(),
                metadata: None,
                key: address.key.and_then(key_value),
                set: address.set.to_owned(),
                digest: address.digest,
                bytes: 0,
                now_ms: namespace.now_ms(),
            }),
            read => Ok(read?),
        }
    }

    fn write(
        &self,
        address: &DigestAddress<'_>,
        met: Option<&Metadata>,
        change: FunctionChange,
    ) -> Result<AnswerHeader, CommandRefusal> {
        let served = self.served;
        if matches!(change, FunctionChange::None) {
            return Ok(met.map(found).unwrap_or_default());
        }
        let generation = met.map_or(GenerationPolicy::None, |met| {
            GenerationPolicy::ExpectEqual(met.generation.into())
        });
        let policy = self.policy.clone().generation(generation);
        served.keeping_deleted(&address.digest, || match change {
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
                let action = match is_new {
                    true => RecordExistsAction::CreateOnly,
                    false => RecordExistsAction::UpdateOnly,
                };
                let mut policy = policy.record_exists_action(action);
                if let Some(seconds) = time_to_live {
                    policy = policy.expiration(expiration(seconds, served)?);
                }
                let checked = Checked::new(&writes, Mode::empty())?;
                let mut ignored = OperationResults::default();
                let outcome =
                    served
                        .namespace
                        .write_at(address, &policy, &checked, &mut ignored)?;
                Ok(wrote(&outcome))
            }
            FunctionChange::None | FunctionChange::Remove => {
                served.namespace.delete_at(address, &policy)?;
                Ok(AnswerHeader::default())
            }
        })
    }
}

impl RecordRequest<'_> {
    /// Calls a function for the record.
    pub(crate) fn apply(&self, reply: &mut MessageReply<'_, '_>) -> CommandAnswer {
        let (command, served) = (self.command, self.command.served);
        let call = FunctionCall::of(&command.message.fields)?;
        let function = RecordFunction {
            served,
            call: &call,
            policy: &command.policy()?,
            effects: &served.counters.origin(command.row.is_some()).effects,
        };
        let ends = Instant::now() + command.timeout();
        let reserve = |bytes| reply.reserve(bytes);
        let (kind, value, answer) = function.apply(&self.address, ends, reserve)?;
        reply.bin(b"SUCCESS", kind, &value)?;
        Ok(answer)
    }
}
