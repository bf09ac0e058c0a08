//! Operations on bins, to be executed together on one record, in order and all or nothing.

mod arguments;
pub mod bits;
pub mod ctx;
pub mod exp;
pub mod hll;
pub mod lists;
pub mod maps;
pub mod paths;

pub use super::{MAX_OPERATIONS, OperationResult, OperationResults};

use super::action::{Operation, OperationAction};
use super::scalar::{JoinEnd, Operand};
use crate::value::{ParticleType, Value};

/// Reads a bin. A missing bin gives no result.
#[must_use]
pub fn get_bin(bin: &str) -> Operation {
    Operation::on_bin(bin, OperationAction::Read)
}

/// Reads all bins: one result each. Not together with other operations that return something.
#[must_use]
pub const fn get() -> Operation {
    Operation::on_record(OperationAction::ReadAll)
}

/// Writes a bin of any type, or a new one. [`Value::Nil`] removes it.
#[must_use]
pub fn put(bin: &str, value: impl Into<Value>) -> Operation {
    Operation::on_bin(bin, OperationAction::Write(value.into()))
}

/// Writes a bin with a value that is encoded as on Aerospike's wire; lists and maps are checked and
/// brought into normal form. [`ParticleType::Null`] removes the bin.
#[must_use]
pub fn put_encoded(bin: &str, kind: ParticleType, value: impl Into<Box<[u8]>>) -> Operation {
    Operation::on_bin(bin, OperationAction::WriteEncoded(kind, value.into()))
}

/// Removes a bin; a missing one is no error.
#[must_use]
pub fn delete_bin(bin: &str) -> Operation {
    put(bin, Value::Nil)
}

/// Adds to an integer (wrapping) or a float of the same type. A missing bin becomes `value`.
#[must_use]
pub fn add(bin: &str, value: impl Into<Value>) -> Operation {
    Operation::on_bin(bin, OperationAction::Add(Operand::Value(value.into())))
}

/// Puts text behind text, or bytes behind bytes. A missing bin becomes `value`.
#[must_use]
pub fn append(bin: &str, value: impl Into<Value>) -> Operation {
    Operation::on_bin(
        bin,
        OperationAction::Join(JoinEnd::Back, Operand::Value(value.into())),
    )
}

/// Puts text before text, or bytes before bytes. A missing bin becomes `value`.
#[must_use]
pub fn prepend(bin: &str, value: impl Into<Value>) -> Operation {
    Operation::on_bin(
        bin,
        OperationAction::Join(JoinEnd::Front, Operand::Value(value.into())),
    )
}

/// Adds a value in its stored form, of any type.
#[cfg(feature = "server")]
pub(crate) fn add_stored(bin: &str, (kind, value): (ParticleType, Vec<u8>)) -> Operation {
    Operation::on_bin(bin, OperationAction::Add(Operand::Stored(kind, value)))
}

/// Joins a value in its stored form, of any type.
#[cfg(feature = "server")]
pub(crate) fn join_stored(
    bin: &str,
    end: JoinEnd,
    (kind, value): (ParticleType, Vec<u8>),
) -> Operation {
    Operation::on_bin(
        bin,
        OperationAction::Join(end, Operand::Stored(kind, value)),
    )
}

/// Changes no bin: generation and times are set as by any write. The record must exist.
#[must_use]
pub const fn touch() -> Operation {
    Operation::on_record(OperationAction::Touch)
}

/// Removes all bins; later operations may write new ones. A record left without bins is deleted.
#[must_use]
pub const fn delete_all_bins() -> Operation {
    Operation::on_record(OperationAction::DeleteAll)
}
