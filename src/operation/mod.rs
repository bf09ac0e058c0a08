//! Operations on one record: what users and the wire protocol build, and their execution on a record's bytes.
//!
//! Pure: the bytes of the old record and the operations go in, the bytes of the new record and the results come out.
//! Locks, generations, times, existence and size limits are the engine's.
//!
//! * [`operations`]: the constructors that users call.
//! * `check`: what can be refused before the record is looked up; the entry points of execution.
//! * `execute`: the run over a record that writes; `read`: the run that only reads.
//! * `scalar`, `call`, `evaluate`: what one operation does to one bin.
//! * `change`: the new value of a bin, not yet written; `slots`: the bins of a record under way.
//! * `merge`: the common put, without operations. `whole`: what may be written as a whole bin.

mod call;
mod change;
mod check;
mod evaluate;
mod execute;
mod merge;
pub mod operations;
mod read;
mod scalar;
mod slots;
#[cfg(test)]
mod tests;
mod whole;

pub(crate) use check::{Checked, Mode};
pub(crate) use merge::merge;
#[cfg(feature = "server")]
pub(crate) use read::ResultSink;
pub(crate) use scalar::End;
pub(crate) use whole::check_whole;

use self::call::BinCall;
use self::scalar::Operand;
use crate::call::CallError;
use crate::expression::Evaluation;
use crate::record::BinName;
use crate::value::{ParticleType, Value};
use crate::{Error, Result};

/// The most operations in one transaction: Aerospike's limit.
pub const MAX_OPERATIONS: usize = 32_768;

/// One operation on one bin, or on the whole record. Built by the functions of [`operations`].
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// The bin; a name that is not allowed is kept for the message. Empty for operations on the whole record.
    bin: std::result::Result<BinName, Box<str>>,
    action: Action,
}

/// What an operation does.
#[derive(Clone, Debug, PartialEq)]
enum Action {
    Read,
    ReadAll,
    Write(Value),
    /// A value in a client's encoding.
    WriteEncoded(ParticleType, Box<[u8]>),
    Add(Operand),
    Join(End, Operand),
    Touch,
    DeleteAll,
    /// A call of the lists and maps, of the bits, or of the sketches.
    Call(BinCall),
    /// The value of an expression, read or written to the bin.
    Evaluate {
        writes: bool,
        evaluation: std::result::Result<Evaluation, CallError>,
    },
}

impl Operation {
    fn on_bin(bin: &str, action: Action) -> Self {
        Self {
            bin: BinName::from_utf8(bin.as_bytes()).ok_or_else(|| bin.into()),
            action,
        }
    }

    const fn on_record(action: Action) -> Self {
        Self {
            bin: Ok(BinName::EMPTY),
            action,
        }
    }

    /// The bin's name.
    fn bin(&self) -> Result<BinName> {
        self.bin
            .as_ref()
            .copied()
            .map_err(|name| Error::BinName(name.clone()))
    }

    /// True if the operation changes the record; one such makes the transaction a write.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        match &self.action {
            Action::Read | Action::ReadAll => false,
            Action::Call(call) => call.is_write(),
            Action::Evaluate { writes, .. } => *writes,
            _ => true,
        }
    }

    /// True if the operation may not be combined with the replacement of a record
    /// (semantics.md#replacing-a-record).
    fn needs_old_bins(&self) -> bool {
        match &self.action {
            Action::Read | Action::ReadAll | Action::Evaluate { .. } => false,
            Action::WriteEncoded(kind, _) => *kind == ParticleType::Null,
            Action::Write(value) => *value == Value::Nil,
            Action::Call(call) => call.is_write(),
            _ => true,
        }
    }

    /// True if the operation may return something.
    const fn has_result(&self) -> bool {
        match &self.action {
            Action::Read => true,
            Action::Call(call) => call.has_result(),
            Action::Evaluate { writes, .. } => !*writes,
            _ => false,
        }
    }
}

/// What one operation returned.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationResult {
    /// The position of the operation among those that were executed together.
    pub operation: usize,
    /// The bin.
    pub bin: BinName,
    /// What was read; [`Value::Nil`] if there is no value.
    pub value: Value,
}
