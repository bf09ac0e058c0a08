//! What one operation has to say.

use crate::call::CallReply;

/// What an operation has to say.
#[derive(Debug, PartialEq)]
pub(super) enum OperationAnswer<'a> {
    /// A value, not nil.
    Value(CallReply<'a>),
    /// A result that is nil.
    Null,
    /// No result, unless every operation must have one.
    Nothing,
}
