//! An operation as it is sent to a cluster.

use std::borrow::Cow;

use super::action::{Operation, OperationAction};
use super::call::BinCall;
use super::scalar::{JoinEnd, Operand};
use crate::Result;
use crate::call::CallSystem;
use crate::record::BinName;
use crate::value::{ParticleType, Value};

/// An operation's action in the parts of a message.
#[derive(Debug)]
pub(crate) enum WireOperation<'a> {
    Read,
    ReadAll,
    Write(&'a Value),
    WriteEncoded(ParticleType, &'a [u8]),
    Add(Cow<'a, Value>),
    Join(JoinEnd, Cow<'a, Value>),
    Touch,
    DeleteAll,
    /// A call of the lists and maps, of the bits, or of the sketches, in its encoded form.
    Call {
        system: CallSystem,
        writes: bool,
        call: Cow<'a, [u8]>,
    },
    Evaluate {
        writes: bool,
        expression: &'a [u8],
        flags: u64,
    },
}

impl Operation {
    /// True if the operation reads all bins.
    pub(crate) const fn reads_all(&self) -> bool {
        matches!(self.action, OperationAction::ReadAll)
    }

    /// True if the operation deletes the record.
    pub(crate) const fn deletes_all(&self) -> bool {
        matches!(self.action, OperationAction::DeleteAll)
    }

    /// Returns the bin and its operation. Encodes the values of calls on lists and maps.
    ///
    /// # Errors
    /// [`crate::Error::BinName`], and [`crate::Error::Parameter`] for arguments that have no
    /// encoding.
    pub(crate) fn on_wire(&self) -> Result<(&BinName, WireOperation<'_>)> {
        let bin = self.bin()?;
        let operation = match &self.action {
            OperationAction::Read => WireOperation::Read,
            OperationAction::ReadAll => WireOperation::ReadAll,
            OperationAction::Write(value) => WireOperation::Write(value),
            OperationAction::WriteEncoded(kind, bytes) => WireOperation::WriteEncoded(*kind, bytes),
            OperationAction::Add(operand) => WireOperation::Add(value_of(operand)?),
            OperationAction::Join(end, operand) => WireOperation::Join(*end, value_of(operand)?),
            OperationAction::Touch => WireOperation::Touch,
            OperationAction::DeleteAll => WireOperation::DeleteAll,
            OperationAction::Collection { call, .. } => {
                let encoded = call.encode();
                WireOperation::Call {
                    system: CallSystem::Collections,
                    writes: call.writes(),
                    call: Cow::Owned(encoded.map_err(|error| error.in_bin(bin.as_str()))?.into()),
                }
            }
            OperationAction::Call(call) => encoded(bin, call)?,
            OperationAction::Evaluate { writes, evaluation } => {
                let evaluation = evaluation.as_ref();
                let evaluation = evaluation.map_err(|error| error.clone().in_bin(bin.as_str()))?;
                let (expression, flags) = evaluation.parts()?;
                WireOperation::Evaluate {
                    writes: *writes,
                    expression,
                    flags,
                }
            }
        };
        Ok((bin, operation))
    }
}

fn encoded<'a>(bin: &BinName, call: &'a BinCall) -> Result<WireOperation<'a>> {
    let bytes = call.encoded();
    Ok(WireOperation::Call {
        system: call.system(),
        writes: call.is_write(),
        call: Cow::Borrowed(bytes.map_err(|error| error.clone().in_bin(bin.as_str()))?),
    })
}

fn value_of(operand: &Operand) -> Result<Cow<'_, Value>> {
    Ok(match operand {
        Operand::Value(value) => Cow::Borrowed(value),
        Operand::Stored(kind, bytes) => {
            let stored = crate::ValueRef::stored(*kind, bytes)?;
            Cow::Owned(stored.to_value()?)
        }
    })
}
