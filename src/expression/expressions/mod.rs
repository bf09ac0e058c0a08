//! Builders of expressions, named as in Aerospike's clients.
//!
//! ```
//! use spikelet::expressions::{and, eq, ge, int_bin, num_add, string_bin};
//!
//! let adult_in_graz = and([ge(int_bin("age"), 18), eq(string_bin("city"), "Graz")]);
//! adult_in_graz.check()?;
//! assert!(num_add([int_bin("age"), string_bin("city")]).check().is_err());
//! # Ok::<(), spikelet::Error>(())
//! ```
//!
//! Operands are expressions or plain values. An operand of a wrong type is reported when the
//! expression is first used, or by [`Expression::check`]. The value of a missing bin is *unknown*,
//! and makes every result computed from it unknown, except where [`and`], [`or`] and [`cond`] are
//! decided by the other operands.

pub mod bits;
pub mod hll;
pub mod lists;
pub mod maps;

mod call;
mod literals;
mod numbers;
mod operators;
mod paths;
mod record;

pub use literals::{
    blob_val, bool_val, float_val, geo_val, int_val, list_val, map_val, nil, string_val, val,
};
pub use numbers::{
    int_and, int_arshift, int_count, int_lscan, int_lshift, int_not, int_or, int_rscan, int_rshift,
    int_xor, max, min, num_abs, num_add, num_ceil, num_div, num_floor, num_log, num_mod, num_mul,
    num_pow, num_sub, to_float, to_int,
};
pub use operators::{
    Definition, RegexFlags, and, cond, def, eq, exp_let, ge, geo_compare, gt, in_list, le, lt,
    map_keys, map_values, ne, not, or, regex_compare, unknown, var, xor,
};
pub use paths::{loop_var, modify_by_path, result_remove, select_by_path};
pub use record::{
    bin_exists, bin_type, blob_bin, bool_bin, device_size, digest_modulo, float_bin, geo_bin,
    hll_bin, int_bin, is_tombstone, key, key_exists, last_update, list_bin, map_bin, memory_size,
    record_size, set_name, since_update, string_bin, ttl, void_time,
};

pub use super::{ExpReadFlags, ExpType, ExpWriteFlags};
pub use paths::{LoopVariable, PathFlags, PathResult, PathStep};

pub(crate) use paths::{modification, selection};

use super::Expression;
use crate::value::msgpack::{write_array_header, write_int, write_raw_header};

/// An operation's operands, under construction.
struct Operands {
    count: u32,
    /// The encoded operands in order, or the reason that one has no encoding.
    encoded: Result<Vec<u8>, Box<str>>,
}

impl Operands {
    const fn new() -> Self {
        Self {
            count: 0,
            encoded: Ok(Vec::new()),
        }
    }

    fn with(mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), Box<str>>) -> Self {
        if let Ok(out) = &mut self.encoded {
            self.count += 1;
            if let Err(why) = write(out) {
                self.encoded = Err(why);
            }
        }
        self
    }

    fn operand(self, operand: &Expression) -> Self {
        self.with(|out| {
            out.extend_from_slice(operand.encoded()?);
            Ok(())
        })
    }

    /// Appends an integer literal that is not compiled as an expression.
    fn int(self, value: i64) -> Self {
        self.with(|out| {
            write_int(out, value);
            Ok(())
        })
    }

    /// Appends text without its leading type byte.
    fn raw(self, text: &str) -> Self {
        self.with(|out| {
            write_raw_header(out, text.len()).map_err(|error| error.to_string())?;
            out.extend_from_slice(text.as_bytes());
            Ok(())
        })
    }

    /// Appends an encoded element.
    fn encoded(self, element: Result<Vec<u8>, Box<str>>) -> Self {
        self.with(|out| {
            out.extend(element?);
            Ok(())
        })
    }

    /// Finishes the operation.
    fn of(self, code: i64) -> Expression {
        Expression::of(self.list(code).map(Into::into))
    }

    /// Encodes the operands as a list that begins with a number.
    fn list(self, first: i64) -> Result<Vec<u8>, Box<str>> {
        let operands = self.encoded?;
        let mut out = Vec::with_capacity(operands.len() + 4);
        write_array_header(&mut out, self.count + 1);
        write_int(&mut out, first);
        out.extend(operands);
        Ok(out)
    }
}

/// Defines functions that build operations. A row has a function, its operands in their order
/// (`operands..`: any number of them), and the number of the operation.
macro_rules! builders {
    () => {};
    ($(#[$doc:meta])* $name:ident(operands..) $code:ident; $($rest:tt)*) => {
        $(#[$doc])*
        #[must_use]
        pub fn $name(operands: impl IntoIterator<Item = Expression>) -> Expression {
            let operands = operands.into_iter();
            operands.fold(Operands::new(), |all, operand| all.operand(&operand)).of(code::$code)
        }

        builders! { $($rest)* }
    };
    ($(#[$doc:meta])* $name:ident($($operand:ident),*) $code:ident; $($rest:tt)*) => {
        $(#[$doc])*
        #[must_use]
        pub fn $name($($operand: impl Into<Expression>),*) -> Expression {
            Operands::new()$(.operand(&$operand.into()))*.of(code::$code)
        }

        builders! { $($rest)* }
    };
}

use builders;
