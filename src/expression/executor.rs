//! Execution of encoded calls on lists and maps, bits and sketches, selections by paths included.
//! Operations and expressions share it.

use super::path::{ElementProgram, PathSelection, select};
use crate::call::{CallError, CallReply, CallSystem, PathCall, Payload};
use crate::cdt::CollectionEdit;
use crate::value::ParticleType;
use crate::{bits, cdt, hll};

/// The change that a call makes to a value.
pub(crate) enum CallChange<'a> {
    None,
    /// An edited list or map, not yet written.
    Edited(CollectionEdit<'a>),
    /// A new value in its stored form.
    Value(ParticleType, Vec<u8>),
}

/// Executes a call that reads a value; `P` are the expressions of its path.
pub(super) fn read<'a, P: ElementProgram>(
    system: CallSystem,
    payload: Payload<'a>,
    current: (ParticleType, &'a [u8]),
) -> Result<CallReply<'a>, CallError> {
    match (system, payload) {
        (CallSystem::Collections, Payload::Select { path, flags, apply }) => {
            match select::<P>(current, path, flags, apply, false)? {
                PathSelection::Reply(reply) => Ok(reply),
                PathSelection::Applied(..) => Ok(CallReply::Nil),
            }
        }
        (CallSystem::Collections, payload) => cdt::read(current, &payload),
        (CallSystem::Bits, payload) => bits::read(current, &single(payload)?),
        (CallSystem::Hll, payload) => hll::read(current, &single(payload)?),
    }
}

/// Executes a call that changes a value, or creates it if `current` is `None`.
pub(super) fn modify<'a, P: ElementProgram>(
    system: CallSystem,
    payload: Payload<'a>,
    current: Option<(ParticleType, &'a [u8])>,
) -> Result<(CallChange<'a>, CallReply<'a>), CallError> {
    match (system, payload) {
        (CallSystem::Collections, Payload::Select { path, flags, apply }) => {
            let current = current.unwrap_or((ParticleType::Null, &[]));
            Ok(match select::<P>(current, path, flags, apply, true)? {
                PathSelection::Reply(reply) => (CallChange::None, reply),
                PathSelection::Applied(kind, value) => {
                    (CallChange::Value(kind, value), CallReply::Nil)
                }
            })
        }
        (CallSystem::Collections, payload) => {
            let (edit, reply) = cdt::modify(current, &payload)?;
            Ok((edit.map_or(CallChange::None, CallChange::Edited), reply))
        }
        (CallSystem::Bits, payload) => {
            let blob = bits::modify(current, &single(payload)?)?;
            Ok((changed(ParticleType::Blob, blob), CallReply::Nil))
        }
        (CallSystem::Hll, payload) => {
            let (sketch, reply) = hll::modify(current, &single(payload)?)?;
            Ok((changed(ParticleType::Hll, sketch), reply))
        }
    }
}

fn changed<'a>(kind: ParticleType, value: Option<Vec<u8>>) -> CallChange<'a> {
    value.map_or(CallChange::None, |value| CallChange::Value(kind, value))
}

/// Returns the call of a payload that selects nothing: bits and sketches have nothing inside.
fn single(payload: Payload<'_>) -> Result<PathCall<'_>, CallError> {
    match payload {
        Payload::Call(call) => Ok(call),
        Payload::Select { .. } => Err(CallError::parameter(
            "a selection by a path: only lists and maps have paths",
        )),
    }
}
