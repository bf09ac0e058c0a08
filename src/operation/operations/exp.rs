//! Operations on the value of an expression.

use super::super::Operation;
use crate::expression::{ExpReadFlags, ExpWriteFlags, Expression};

/// Reads the value of an expression. The result bears the name `bin`, which need not be that of a bin. A value that is
/// unknown is an error, or nil by the flags.
#[must_use]
pub fn read(bin: &str, expression: impl Into<Expression>, flags: ExpReadFlags) -> Operation {
    Operation::on_expression(bin, false, expression.into(), flags.bits())
}

/// Writes the value of an expression to a bin, whatever that holds; nil removes it, if the flags allow. No result. The
/// expression sees the bins as the operations before have left them, and the record's metadata as they will be after
/// the write.
#[must_use]
pub fn write(bin: &str, expression: impl Into<Expression>, flags: ExpWriteFlags) -> Operation {
    Operation::on_expression(bin, true, expression.into(), flags.bits())
}
