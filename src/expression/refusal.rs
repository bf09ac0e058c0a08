//! Why an expression is refused.

/// The reason for refusing an expression, as messages print it.
pub(super) type Refusal = Box<str>;

/// Refuses an expression.
pub(super) fn refuse<T>(why: impl Into<Refusal>) -> Result<T, Refusal> {
    Err(why.into())
}
