//! Operations that read the value of an expression, or write it to a bin.

use super::answer::OperationAnswer;
use super::change::BinChange;
use crate::Result;
use crate::call::CallError;
use crate::expression::{EvaluatedWrite, Evaluation, Scope};
use crate::record::BinName;

/// An expression and its flags, or why there is none, returned when the operation is executed.
type Given = std::result::Result<Evaluation, CallError>;

/// Reads the value. The bin is only its name.
pub(super) fn read<'a>(
    given: &'a Given,
    bin: &BinName,
    scope: Scope<'a>,
) -> Result<OperationAnswer<'a>> {
    let reply = evaluation(given)
        .and_then(|evaluation| evaluation.read(scope))
        .map_err(|error| error.in_bin(bin.as_str()))?;
    Ok(if reply.is_nil() {
        OperationAnswer::Null
    } else {
        OperationAnswer::Value(reply)
    })
}

/// Returns the change that the value makes to a bin, existing or missing.
pub(super) fn write<'a>(
    given: &'a Given,
    bin: &BinName,
    exists: bool,
    scope: Scope<'a>,
) -> Result<BinChange<'a>> {
    let written = evaluation(given)
        .and_then(|evaluation| evaluation.write(exists, scope))
        .map_err(|error| error.in_bin(bin.as_str()))?;
    Ok(match written {
        EvaluatedWrite::Same => BinChange::None,
        EvaluatedWrite::Removed => BinChange::Remove,
        EvaluatedWrite::Value(kind, value) => BinChange::Stored(kind, value.into_owned()),
    })
}

fn evaluation(given: &Given) -> std::result::Result<&Evaluation, CallError> {
    given.as_ref().map_err(CallError::clone)
}
