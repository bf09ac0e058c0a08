//! Operations on list and map bins by paths of which each level may choose several elements: see
//! [`PathStep`].
//!
//! They walk over the bin once: O(bytes), plus the conditions. Reads of a missing bin give no
//! result; to change one is an error.

use super::super::Operation;
use crate::call::CallSystem;
use crate::call::{CallError, EncodedCall};
use crate::expression::Expression;
use crate::expression::expressions::{PathFlags, PathResult, PathStep, modification, selection};

fn call(encoded: Result<Vec<u8>, Box<str>>) -> EncodedCall {
    match encoded {
        Ok(call) => Ok(call.into()),
        Err(why) => Err(CallError::parameter(String::from(why))),
    }
}

/// What a path leads to.
#[must_use]
pub fn select_by_path(
    bin: &str,
    result: PathResult,
    flags: PathFlags,
    steps: impl IntoIterator<Item = PathStep>,
) -> Operation {
    let call = call(selection(result, flags, steps));
    Operation::on_call(bin, CallSystem::Collections, false, call)
}

/// Gives each element that a path leads to a new value, or removes those for which it is
/// [`result_remove`](crate::expressions::result_remove). Ordered lists are sorted again. No result.
#[must_use]
pub fn modify_by_path(
    bin: &str,
    value: impl Into<Expression>,
    flags: PathFlags,
    steps: impl IntoIterator<Item = PathStep>,
) -> Operation {
    let call = call(modification(&value.into(), flags, steps));
    Operation::on_call(bin, CallSystem::Collections, true, call)
}
