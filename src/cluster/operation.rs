//! Operations of this crate as the client's.
//!
//! The client has no operation that carries an encoded call, so a call is taken apart, and the
//! client's own function for its number puts it together again.
//!
//! No operation asks for a persisted index of a list or map under any policy: a server with its
//! namespace in memory (seen with 8.1.2) dies of a segmentation fault when a write fills such a
//! list within the call that made it. The index only saves the server time.

use aerospike::operations::cdt_context::{
    CdtContext, ctx_all_children_with_filter, ctx_and_filter, ctx_from_bytes,
};
use aerospike::operations::exp::{ExpReadFlags, ExpWriteFlags, read_exp, write_exp};
use aerospike::operations::path::{ModifyFlag, SelectFlag, modify_by_path, select_by_path};
use aerospike::operations::{self as theirs, Operation as Theirs};
use aerospike::{Bin, expressions};

use super::arguments::{PositionalArguments, integer_above_max};
use super::{bits, lists, maps, sketches, value};
use crate::call::{CallError, CallSystem, Path, PathCall, Payload, Trust};
use crate::operation::{JoinEnd, OperationAction};
use crate::{Error, Operation, Result};

/// Operations on maps have these numbers and above; those on lists have lower ones.
const FIRST_OF_MAPS: i64 = 64;
/// The context of a path that selects elements by an expression, alone and beside another one.
const CONTEXT_EXPRESSION: i64 = 0x04;
const CONTEXT_AND_EXPRESSION: i64 = 0x204;
/// The flag of a selection that changes the selected items; the client sets it.
const SELECTION_APPLIES: i64 = 0x04;

/// An operation as it is sent.
pub(super) fn encode(operation: &Operation) -> Result<Theirs> {
    let bin = operation.bin()?.as_str();
    let in_bin = |error: CallError| error.in_bin(bin);
    Ok(match operation.action() {
        OperationAction::Read => theirs::get_bin(bin),
        OperationAction::ReadAll => theirs::get(),
        OperationAction::Write(value) => theirs::put(&Bin::new(bin, value::bin(value)?)),
        OperationAction::WriteEncoded(kind, bytes) => {
            theirs::put(&Bin::new(bin, value::encoded(*kind, &**bytes)))
        }
        OperationAction::Add(operand) => {
            theirs::add(&Bin::new(bin, value::bin(&*operand.to_value()?)?))
        }
        OperationAction::Join(end, operand) => {
            let joined = Bin::new(bin, value::bin(&*operand.to_value()?)?);
            match end {
                JoinEnd::Back => theirs::append(&joined),
                JoinEnd::Front => theirs::prepend(&joined),
            }
        }
        OperationAction::Touch => theirs::touch(),
        OperationAction::DeleteAll => theirs::delete(),
        OperationAction::Collection { call, .. } => {
            let encoded = call.encode().map_err(in_bin)?;
            encode_call(bin, CallSystem::Collections, call.writes(), &encoded)?
        }
        OperationAction::Call(call) => {
            let encoded = call.encoded().map_err(|error| in_bin(error.clone()))?;
            encode_call(bin, call.system(), call.is_write(), encoded)?
        }
        OperationAction::Evaluate { writes, evaluation } => {
            let evaluation = evaluation.as_ref();
            let (expression, flags) = evaluation.map_err(|error| in_bin(error.clone()))?.parts()?;
            self::evaluation(bin, *writes, expression, flags)
        }
    })
}

fn evaluation(bin: &str, writes: bool, expression: &[u8], flags: u64) -> Theirs {
    let expression = expressions::from_packed_bytes(expression.to_vec());
    let flags = flags.cast_signed();
    if writes {
        write_exp(bin, expression, ExpWriteFlags::from_bits(flags))
    } else {
        read_exp(bin, expression, ExpReadFlags::from_bits(flags))
    }
}

fn encode_call(bin: &str, system: CallSystem, writes: bool, call: &[u8]) -> Result<Theirs> {
    let refused = |error: CallError| error.in_bin(bin);
    match Payload::parse(call, Trust::Normal).map_err(refused)? {
        Payload::Call(call) => {
            let PathCall {
                path,
                operation,
                arguments,
            } = call;
            let arguments = PositionalArguments::decode(arguments).map_err(refused)?;
            let encoded = match system {
                CallSystem::Bits => bits::operation(bin, operation, &arguments)?,
                CallSystem::Hll => sketches::operation(bin, operation, &arguments)?,
                CallSystem::Collections if operation >= FIRST_OF_MAPS => {
                    maps::operation(bin, operation, &arguments)?
                }
                CallSystem::Collections => lists::operation(bin, operation, &arguments)?,
            };
            Ok(match path.levels() {
                0 => encoded,
                _ => encoded.context(contexts(bin, path)?),
            })
        }
        Payload::Select { path, flags, apply } => {
            let contexts = contexts(bin, path)?;
            Ok(match (writes, apply) {
                (true, Some(apply)) => modify_by_path(
                    bin,
                    ModifyFlag::from_bits(flags & !SELECTION_APPLIES),
                    expressions::from_packed_bytes(apply.to_vec()),
                    &contexts,
                ),
                _ => select_by_path(bin, SelectFlag::from_bits(flags), &contexts),
            })
        }
    }
}

/// The contexts of a path. A context that creates a missing level keeps its bits for that.
fn contexts(bin: &str, mut path: Path<'_>) -> Result<Vec<CdtContext>> {
    let refused = |error: CallError| error.in_bin(bin);
    let mut contexts = Vec::with_capacity(path.levels() as usize);
    while let Some((kind, value)) = path.next().map_err(refused)? {
        let expression = || expressions::from_packed_bytes(value.to_vec());
        contexts.push(match kind {
            CONTEXT_EXPRESSION => ctx_all_children_with_filter(expression()),
            CONTEXT_AND_EXPRESSION => ctx_and_filter(expression()),
            kind => context(kind, value)?,
        });
    }
    Ok(contexts)
}

fn context(kind: i64, encoded: &[u8]) -> Result<CdtContext> {
    if matches!(integer_above_max(encoded), Ok(Some(_))) {
        return Err(value::above_max());
    }
    let mut pair = Vec::with_capacity(encoded.len() + 4);
    crate::value::msgpack::write_array_header(&mut pair, 2);
    crate::value::msgpack::write_int(&mut pair, kind);
    pair.extend_from_slice(encoded);
    let refused = || {
        Error::parameter(format!(
            "a context of kind {kind:#x} cannot be sent to a cluster: the client for it has no form for its value"
        ))
    };
    let mut contexts = ctx_from_bytes(&pair).map_err(|_| refused())?;
    contexts.pop().ok_or_else(refused)
}
