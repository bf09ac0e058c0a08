//! Operations that are calls: their encoded form, and the choice of the executor.

use super::change::BinChange;
use crate::call::{
    CallError, CallReply, CallSystem, Context, EncodedCall, PathCall, Payload, Trust, below,
    encode_path,
};
use crate::expression::{modify_call, read_call};
use crate::value::ParticleType;

/// A call on a bin.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BinCall {
    system: CallSystem,
    writes: bool,
    trust: Trust,
    call: EncodedCall,
    /// Bits for the last context of a path added later: they create the element that it names.
    creates: i64,
}

impl BinCall {
    /// A call of our own making.
    pub(super) const fn new(system: CallSystem, writes: bool, call: EncodedCall) -> Self {
        Self {
            system,
            writes,
            trust: Trust::Normal,
            call,
            creates: 0,
        }
    }

    /// The same, as a client sent it.
    pub(super) fn foreign(self) -> Self {
        Self {
            trust: Trust::Foreign,
            ..self
        }
    }

    /// The same, and a path added later creates what its last context names.
    pub(super) fn creating(self, creates: i64) -> Self {
        Self { creates, ..self }
    }

    /// True if it is of lists and maps, the only ones that have contexts.
    pub(super) const fn is_of_collections(&self) -> bool {
        matches!(self.system, CallSystem::Collections)
    }

    pub(crate) const fn is_write(&self) -> bool {
        self.writes
    }

    /// True if it may return something. Writing calls on bits never do.
    pub(super) const fn has_result(&self) -> bool {
        !self.writes || !matches!(self.system, CallSystem::Bits)
    }

    #[cfg(feature = "cluster")]
    pub(crate) const fn system(&self) -> CallSystem {
        self.system
    }

    /// The encoded call.
    #[cfg(feature = "cluster")]
    pub(crate) fn encoded(&self) -> Result<&[u8], &CallError> {
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

    fn payload(&self) -> Result<Payload<'_>, CallError> {
        match &self.call {
            Ok(call) => Payload::parse(call, self.trust),
            Err(error) => Err(error.clone()),
        }
    }

    /// Executes a call that reads a bin.
    pub(super) fn read<'a>(
        &'a self,
        kind: ParticleType,
        value: &'a [u8],
    ) -> Result<CallReply<'a>, CallError> {
        read_call(self.system, self.payload()?, (kind, value))
    }

    /// Executes a call that writes a bin, as far as the change that it makes.
    pub(super) fn write<'a>(
        &'a self,
        current: Option<(ParticleType, &'a [u8])>,
    ) -> Result<(BinChange<'a>, CallReply<'a>), CallError> {
        let (change, reply) = modify_call(self.system, self.payload()?, current)?;
        Ok((change.into(), reply))
    }
}
