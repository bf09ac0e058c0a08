//! Why an expression is refused.

/// What is wrong with an expression, as a message says it.
pub(super) type Refusal = Box<str>;

/// Refuses an expression.
pub(super) fn refuse<T>(why: impl Into<Refusal>) -> Result<T, Refusal> {
    Err(why.into())
}
