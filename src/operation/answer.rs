//! The answer of one operation.

use crate::call::CallReply;

/// The answer of an operation, before the rules on empty results apply.
#[derive(Debug, PartialEq)]
pub(super) enum OperationAnswer<'a> {
    /// A value, not nil.
    Value(CallReply<'a>),
    /// A result that is nil.
    Null,
    /// No result, unless every operation must have one.
    Nothing,
}
