//! What one operation has to say.

use crate::call::Reply;

/// What an operation has to say.
#[derive(Debug, PartialEq)]
pub(super) enum Answer<'a> {
    /// A value, not nil.
    Value(Reply<'a>),
    /// A result that is nil.
    Null,
    /// No result, unless every operation must have one.
    Nothing,
}
