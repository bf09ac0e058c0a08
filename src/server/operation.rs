//! From a client's operations to ours.

use super::message::{Info1, Message};
use super::ops::{WireOp, code};
use crate::call::CallSystem;
use crate::operation::{JoinEnd, Operation, operations};
use crate::record::BinName;
use crate::value::{ParticleType, check_wire_scalar, from_wire};
use crate::{Error, Result};

/// The operations of a request that writes, or that reads by more than names.
///
/// # Errors
/// [`Error::Parameter`] for an unknown operation or value, [`Error::BinName`] for an invalid name.
pub(crate) fn operations_of(message: &Message<'_>) -> Result<Vec<Operation>> {
    let reads_all = message.head.info1.contains(Info1::GET_ALL);
    let ops = message.ops.iter();
    ops.map(|op| operation(&op, reads_all)).collect()
}

fn operation(op: &WireOp<'_>, reads_all: bool) -> Result<Operation> {
    let bin = bin_name(op.name)?;
    let name = bin.as_str();
    let call = |system, writes| Operation::encoded_call(name, system, writes, op.value);
    Ok(match op.code {
        code::READ if op.name.is_empty() && reads_all => operations::get(),
        code::READ => operations::get_bin(name),
        code::WRITE => operations::put_encoded(name, value_type(op)?, op.value),
        code::ADD => operations::add_stored(name, stored(op)?),
        code::APPEND => operations::join_stored(name, JoinEnd::Back, stored(op)?),
        code::PREPEND => operations::join_stored(name, JoinEnd::Front, stored(op)?),
        code::TOUCH => operations::touch(),
        code::DELETE_ALL => operations::delete_all_bins(),
        code::CDT_READ => call(CallSystem::Collections, false),
        code::CDT_MODIFY => call(CallSystem::Collections, true),
        code::EXP_READ => Operation::encoded_expression(name, false, op.value),
        code::EXP_MODIFY => Operation::encoded_expression(name, true, op.value),
        code::BITS_READ => call(CallSystem::Bits, false),
        code::BITS_MODIFY => call(CallSystem::Bits, true),
        code::HLL_READ => call(CallSystem::Hll, false),
        code::HLL_MODIFY => call(CallSystem::Hll, true),
        other => {
            return Err(Error::parameter(format!(
                "operation {other} is not known to this server"
            )));
        }
    })
}

/// The name of a bin as it came.
pub(crate) fn bin_name(name: &[u8]) -> Result<BinName> {
    BinName::from_utf8(name)
        .ok_or_else(|| Error::BinName(String::from_utf8_lossy(name).into_owned().into()))
}

/// The type of an operation's value, if the value can be of it: sizes are a question of the request
/// (code 4), contents are judged when they are written.
fn value_type(op: &WireOp<'_>) -> Result<ParticleType> {
    let kind = ParticleType::from_number(op.kind);
    let kind = kind.and_then(|kind| check_wire_scalar(kind, op.value).map(|()| kind));
    kind.map_err(|error| Error::parameter(error.to_string()))
}

/// The operand of an operation, in its stored form.
fn stored(op: &WireOp<'_>) -> Result<(ParticleType, Vec<u8>)> {
    let kind = value_type(op)?;
    let mut stored = Vec::with_capacity(op.value.len());
    from_wire(kind, op.value, &mut stored)?;
    Ok((kind, stored))
}
