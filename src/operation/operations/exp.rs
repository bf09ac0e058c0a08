//! Operations on the value of an expression.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::expressions::{ExpReadFlags, ExpWriteFlags, int_bin, num_mul};
//! use spikelet::operations::exp;
//!
//! let orders = spikelet::Store::in_memory()?.set("orders")?;
//! orders.put(1, [("price", 20), ("count", 3)])?;
//! let total = num_mul([int_bin("price"), int_bin("count")]);
//! let result = orders.operate(1, &[
//!     exp::write("total", total.clone(), ExpWriteFlags::empty()),
//!     exp::read("twice", num_mul([total, 2.into()]), ExpReadFlags::empty()),
//! ])?;
//! assert_eq!(result.bin("twice"), Some(&120.into()));
//! assert_eq!(orders.get(1)?.expect("was put").get("total"), Some(60.into()));
//! # Ok(())
//! # }
//! ```

use super::super::Operation;
use crate::expression::{ExpReadFlags, ExpWriteFlags, Expression};

/// Reads the value of an expression. The result bears the name `bin`, which need not be that of a
/// bin. A value that is unknown is an error, or nil by the flags.
#[must_use]
pub fn read(bin: &str, expression: impl Into<Expression>, flags: ExpReadFlags) -> Operation {
    Operation::on_expression(bin, false, expression.into(), flags.bits())
}

/// Writes the value of an expression to a bin of any type; nil removes it, if the flags allow. No
/// result. The expression sees the bins as the operations before have left them, and the record's
/// metadata as they will be after the write.
#[must_use]
pub fn write(bin: &str, expression: impl Into<Expression>, flags: ExpWriteFlags) -> Operation {
    Operation::on_expression(bin, true, expression.into(), flags.bits())
}
