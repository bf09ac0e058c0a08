//! Execution of encoded calls on lists and maps, bits and sketches, selections by paths included.
//! Operations and expressions share it.

use std::borrow::Cow;

use super::budget::Budget;
use super::node::Selection;
use super::path::{PathSelection, select};
use crate::call::{CallError, CallReply, CallSystem, Payload};
use crate::cdt::CollectionEdit;
use crate::value::ParticleType;
use crate::{bits, cdt, hll};

/// Bits and sketches have nothing inside.
const NO_PATHS: CallError = CallError::Parameter(Cow::Borrowed(
    "a selection by a path: only lists and maps have paths",
));

/// The change that a call makes to a value.
#[expect(
    clippy::large_enum_variant,
    reason = "an edit is moved once; a box would be an allocation for each"
)]
pub(crate) enum CallChange<'a> {
    None,
    /// An edited list or map, not yet written.
    Edited(CollectionEdit<'a>),
    /// A new value in its stored form.
    Value(ParticleType, Vec<u8>),
}

/// Executes a call that reads a value.
pub(crate) fn read<'a>(
    system: CallSystem,
    payload: Payload<'a>,
    current: (ParticleType, &'a [u8]),
) -> Result<CallReply<'a>, CallError> {
    match (system, payload) {
        (CallSystem::Collections, Payload::Select { path, flags, apply }) => {
            let selection = Selection::parse(path, flags, apply, false)?;
            match select(current, &selection, &Budget::default())? {
                PathSelection::Reply(reply) => Ok(reply),
                PathSelection::Applied(..) => Ok(CallReply::Nil),
            }
        }
        (_, Payload::Select { .. }) => Err(NO_PATHS),
        (CallSystem::Collections, Payload::Call(call)) => cdt::read(current, &call),
        (CallSystem::Bits, Payload::Call(call)) => bits::read(current, &call),
        (CallSystem::Hll, Payload::Call(call)) => hll::read(current, &call),
    }
}

/// Executes a call that changes a value, or creates it if `current` is `None`.
pub(crate) fn modify<'a>(
    system: CallSystem,
    payload: Payload<'a>,
    current: Option<(ParticleType, &'a [u8])>,
) -> Result<(CallChange<'a>, CallReply<'a>), CallError> {
    match (system, payload) {
        (CallSystem::Collections, Payload::Select { path, flags, apply }) => {
            let current = current.unwrap_or((ParticleType::Null, &[]));
            let selection = Selection::parse(path, flags, apply, true)?;
            Ok(match select(current, &selection, &Budget::default())? {
                PathSelection::Reply(reply) => (CallChange::None, reply),
                PathSelection::Applied(kind, value) => {
                    (CallChange::Value(kind, value), CallReply::Nil)
                }
            })
        }
        (_, Payload::Select { .. }) => Err(NO_PATHS),
        (CallSystem::Collections, Payload::Call(call)) => {
            let (edit, reply) = cdt::modify(current, &call)?;
            Ok((edit.map_or(CallChange::None, CallChange::Edited), reply))
        }
        (CallSystem::Bits, Payload::Call(call)) => {
            let blob = bits::modify(current, &call)?;
            Ok((changed(ParticleType::Blob, blob), CallReply::Nil))
        }
        (CallSystem::Hll, Payload::Call(call)) => {
            let (sketch, reply) = hll::modify(current, &call)?;
            Ok((changed(ParticleType::Hll, sketch), reply))
        }
    }
}

/// Checks a call before there is a value: the number of its operation and of its arguments, and its
/// path. Returns a selection, compiled.
pub(super) fn check(
    system: CallSystem,
    payload: Payload<'_>,
    writes: bool,
) -> Result<Option<Selection>, CallError> {
    match (system, payload) {
        (CallSystem::Collections, Payload::Select { path, flags, apply }) => {
            return Selection::parse(path, flags, apply, writes).map(Some);
        }
        (_, Payload::Select { .. }) => return Err(NO_PATHS),
        (CallSystem::Collections, Payload::Call(call)) => cdt::check(&call, writes)?,
        (CallSystem::Bits, Payload::Call(call)) => bits::check(&call, writes)?,
        (CallSystem::Hll, Payload::Call(call)) => hll::check(&call, writes)?,
    }
    Ok(None)
}

fn changed<'a>(kind: ParticleType, value: Option<Vec<u8>>) -> CallChange<'a> {
    value.map_or(CallChange::None, |value| CallChange::Value(kind, value))
}
