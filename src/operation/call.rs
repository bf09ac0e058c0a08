//! Operations that are calls: their encoded form, and the choice of the executor.

use super::answer::OperationAnswer;
use super::change::BinChange;
use crate::Result;
use crate::call::{
    CallError, CallSystem, Context, EncodedCall, PathCall, Payload, Trust, below, encode_path,
};
use crate::cdt::PreparedCall;
use crate::expression::{modify_call, read_call};
use crate::record::BinName;
use crate::value::ParticleType;

/// A call on a bin.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BinCall {
    system: CallSystem,
    writes: bool,
    trust: Trust,
    call: EncodedCall,
    /// Bits for the last context of a path added later: they create the element that it names.
    creates: i64,
}

impl BinCall {
    pub(super) const fn new(
        system: CallSystem,
        writes: bool,
        trust: Trust,
        call: EncodedCall,
        creates: i64,
    ) -> Self {
        Self {
            system,
            writes,
            trust,
            call,
            creates,
        }
    }

    /// True if it is of lists and maps, the only ones that have contexts.
    pub(super) const fn is_of_collections(&self) -> bool {
        matches!(self.system, CallSystem::Collections)
    }

    pub(super) const fn is_write(&self) -> bool {
        self.writes
    }

    /// True if it may return something. Writing calls on bits never do.
    pub(super) const fn has_result(&self) -> bool {
        !self.writes || !matches!(self.system, CallSystem::Bits)
    }

    #[cfg(feature = "cluster")]
    pub(super) const fn system(&self) -> CallSystem {
        self.system
    }

    /// The encoded call.
    #[cfg(feature = "cluster")]
    pub(super) fn encoded(&self) -> std::result::Result<&[u8], &CallError> {
        self.call.as_deref()
    }

    /// Puts a path in front of the call.
    pub(super) fn add_path(&mut self, contexts: &[Context]) {
        let Ok(call) = &self.call else {
            return;
        };
        let is_plain = matches!(
            Payload::parse(call, self.trust),
            Ok(Payload::Call(PathCall { path, .. })) if path.levels() == 0
        );
        self.call = if is_plain {
            encode_path(contexts, self.creates).map(|path| below(&path, call))
        } else {
            Err(CallError::parameter(
                "an operation has contexts already: give all of them at once",
            ))
        };
    }

    fn payload(&self) -> std::result::Result<Payload<'_>, CallError> {
        match &self.call {
            Ok(call) => Payload::parse(call, self.trust),
            Err(error) => Err(error.clone()),
        }
    }

    /// Executes a call that reads a bin.
    pub(super) fn read<'a>(
        &'a self,
        bin: &BinName,
        kind: ParticleType,
        value: &'a [u8],
    ) -> Result<OperationAnswer<'a>> {
        let payload = self.payload();
        let read = payload.and_then(|payload| read_call(self.system, payload, (kind, value)));
        let reply = read.map_err(|error| error.in_bin(bin.as_str()))?;
        Ok(if reply.is_nil() {
            OperationAnswer::Null
        } else {
            OperationAnswer::Value(reply)
        })
    }

    /// Executes a call that writes a bin, as far as the change that it makes.
    pub(super) fn write<'a>(
        &'a self,
        bin: &BinName,
        current: Option<(ParticleType, &'a [u8])>,
    ) -> Result<(BinChange<'a>, OperationAnswer<'a>)> {
        let payload = self.payload();
        let written = payload.and_then(|payload| modify_call(self.system, payload, current));
        let (change, reply) = written.map_err(|error| error.in_bin(bin.as_str()))?;
        let answer = if reply.is_nil() {
            OperationAnswer::Nothing
        } else {
            OperationAnswer::Value(reply)
        };
        Ok((change.into(), answer))
    }
}

/// Executes an operation that reads a list or map.
pub(super) fn read_collection<'a>(
    call: &'a PreparedCall,
    bin: &BinName,
    kind: ParticleType,
    value: &'a [u8],
) -> Result<OperationAnswer<'a>> {
    match call.read(kind, value) {
        Ok(reply) if reply.is_nil() => Ok(OperationAnswer::Null),
        Ok(reply) => Ok(OperationAnswer::Value(reply)),
        Err(error) => Err(error.in_bin(bin.as_str())),
    }
}

/// Executes an operation that writes a list or map, as far as the change that it makes: `change`, if there is one.
pub(super) fn write_collection<'a>(
    call: &'a PreparedCall,
    bin: &BinName,
    current: Option<(ParticleType, &'a [u8])>,
    change: &mut BinChange<'a>,
) -> Result<OperationAnswer<'a>> {
    match call.modify(current) {
        Ok((edit, reply)) => {
            if let Some(edit) = edit {
                *change = BinChange::Collection(edit);
            }
            Ok(if reply.is_nil() {
                OperationAnswer::Nothing
            } else {
                OperationAnswer::Value(reply)
            })
        }
        Err(error) => Err(error.in_bin(bin.as_str())),
    }
}
