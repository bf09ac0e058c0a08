//! Why an expression is refused.

/// The reason for refusing an expression, as messages print it.
pub(super) type ExpressionRefusal = Box<str>;

/// Refuses an expression.
pub(super) fn refuse<T>(why: impl Into<ExpressionRefusal>) -> Result<T, ExpressionRefusal> {
    Err(why.into())
}
