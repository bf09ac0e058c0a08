//! One operation and its action.

use super::call::BinCall;
use super::scalar::{JoinEnd, Operand};
use crate::call::{CallError, CallSystem, Context, EncodedCall};
use crate::cdt::{self, PreparedCall};
use crate::expression::{Evaluation, Expression};
use crate::record::BinName;
use crate::value::{ParticleType, Value};
use crate::{Error, Result};

/// One operation on one bin, or on the whole record. Built by the functions of
/// [`operations`](crate::operations).
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::operations::{add, get_bin, lists};
///
/// let pages = spikelet::Store::in_memory()?.set("pages")?;
/// // Prepared once, used often.
/// let visit = [add("visits", 1), lists::append(&Default::default(), "log", "seen"), get_bin("visits")];
/// pages.operate("home", &visit)?;
/// let second = pages.operate("home", &visit)?;
/// assert_eq!(second.bin("visits"), Some(&2.into()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The bin; a name that is not allowed is kept for the message. Empty for operations on the
    /// whole record.
    pub(super) bin: std::result::Result<BinName, Box<str>>,
    pub(super) action: OperationAction,
}

/// The action of an operation on its bin or record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OperationAction {
    Read,
    ReadAll,
    Write(Value),
    /// A value in a client's encoding.
    WriteEncoded(ParticleType, Box<[u8]>),
    Add(Operand),
    Join(JoinEnd, Operand),
    Touch,
    DeleteAll,
    /// An operation on a list or map, its arguments ready for use.
    Collection {
        call: PreparedCall,
        /// Bits for the last context of a path added later: they create the element that it names.
        creates: i64,
    },
    /// A call of the lists and maps, of the bits, or of the sketches, in its encoded form.
    Call(BinCall),
    /// The value of an expression, read or written to the bin.
    Evaluate {
        writes: bool,
        evaluation: std::result::Result<Evaluation, CallError>,
    },
}

impl Operation {
    pub(super) fn on_bin(bin: &str, action: OperationAction) -> Self {
        Self {
            bin: BinName::from_utf8(bin.as_bytes()).ok_or_else(|| bin.into()),
            action,
        }
    }

    pub(super) const fn on_record(action: OperationAction) -> Self {
        Self {
            bin: Ok(BinName::EMPTY),
            action,
        }
    }

    /// An operation that is a call of our own making.
    pub(super) fn on_call(bin: &str, system: CallSystem, writes: bool, call: EncodedCall) -> Self {
        let call = BinCall::new(system, writes, call);
        Self::on_bin(bin, OperationAction::Call(call))
    }

    /// An operation on a list or map, or why its arguments are refused.
    pub(super) fn on_collection(
        bin: &str,
        code: u8,
        call: std::result::Result<PreparedCall, CallError>,
    ) -> Self {
        match call {
            Ok(call) => Self::on_bin(bin, OperationAction::Collection { call, creates: 0 }),
            Err(error) => {
                let writes = cdt::writes(code);
                Self::on_call(bin, CallSystem::Collections, writes, Err(error))
            }
        }
    }

    /// An operation that is a call as a client sent it.
    pub(crate) fn encoded_call(
        bin: &str,
        system: CallSystem,
        writes: bool,
        call: impl Into<Box<[u8]>>,
    ) -> Self {
        let call = BinCall::new(system, writes, Ok(call.into())).foreign();
        Self::on_bin(bin, OperationAction::Call(call))
    }

    /// An operation that reads or writes the value of an expression.
    pub(super) fn on_expression(
        bin: &str,
        writes: bool,
        expression: Expression,
        flags: u32,
    ) -> Self {
        let evaluation = Ok(Evaluation::new(expression, flags));
        Self::on_bin(bin, OperationAction::Evaluate { writes, evaluation })
    }

    /// An operation on an expression as a client sent it: a list of the expression and its flags.
    #[cfg(feature = "server")]
    pub(crate) fn encoded_expression(bin: &str, writes: bool, payload: &[u8]) -> Self {
        let evaluation = Evaluation::parse(payload);
        Self::on_bin(bin, OperationAction::Evaluate { writes, evaluation })
    }

    /// The same, and contexts added later create what the last one names.
    pub(super) fn creating(mut self, bits: i64) -> Self {
        if let OperationAction::Collection { creates, .. } = &mut self.action {
            *creates = bits;
        }
        self
    }

    /// Applies an operation on a list or map to the list or map inside the bin that the contexts
    /// lead to. For other operations, without any context, and the second time, the operation fails
    /// when it is executed.
    #[must_use]
    pub fn in_context(mut self, contexts: impl IntoIterator<Item = Context>) -> Self {
        let contexts: Vec<Context> = contexts.into_iter().collect();
        if let OperationAction::Collection { call, creates } = &self.action {
            let encoded = BinCall::new(CallSystem::Collections, call.writes(), call.encode());
            self.action = OperationAction::Call(encoded.creating(*creates));
        }
        match &mut self.action {
            OperationAction::Call(call) if call.is_of_collections() => call.add_path(&contexts),
            action => {
                let writes = !matches!(action, OperationAction::Read | OperationAction::ReadAll);
                let refused = CallError::parameter(
                    "contexts lead into lists and maps: only their operations can have them",
                );
                let refused = BinCall::new(CallSystem::Collections, writes, Err(refused));
                *action = OperationAction::Call(refused);
            }
        }
        self
    }

    /// The bin's name.
    #[inline]
    pub(crate) fn bin(&self) -> Result<&BinName> {
        match &self.bin {
            Ok(bin) => Ok(bin),
            Err(name) => Err(Error::BinName(name.clone())),
        }
    }

    #[cfg(feature = "cluster")]
    pub(crate) const fn action(&self) -> &OperationAction {
        &self.action
    }

    #[cfg(feature = "cluster")]
    pub(crate) const fn reads_all(&self) -> bool {
        matches!(self.action, OperationAction::ReadAll)
    }

    /// True if the operation deletes the record.
    pub(crate) fn deletes_record(&self) -> bool {
        self.action == OperationAction::DeleteAll
    }

    /// True if the operation changes the record; one such makes the transaction a write.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        match &self.action {
            OperationAction::Read | OperationAction::ReadAll => false,
            OperationAction::Collection { call, .. } => call.writes(),
            OperationAction::Call(call) => call.is_write(),
            OperationAction::Evaluate { writes, .. } => *writes,
            _ => true,
        }
    }

    /// True if the operation may not be combined with the replacement of a record
    /// (semantics.md#replacing-a-record).
    pub(super) fn needs_old_bins(&self) -> bool {
        match &self.action {
            OperationAction::Read | OperationAction::ReadAll | OperationAction::Evaluate { .. } => {
                false
            }
            OperationAction::WriteEncoded(kind, _) => *kind == ParticleType::Null,
            OperationAction::Write(value) => *value == Value::Nil,
            OperationAction::Collection { call, .. } => call.writes(),
            OperationAction::Call(call) => call.is_write(),
            _ => true,
        }
    }

    /// True if the operation may return something.
    pub(super) const fn has_result(&self) -> bool {
        match &self.action {
            OperationAction::Read | OperationAction::Collection { .. } => true,
            OperationAction::Call(call) => call.has_result(),
            OperationAction::Evaluate { writes, .. } => !*writes,
            _ => false,
        }
    }
}
