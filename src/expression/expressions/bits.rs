//! Calls on the bits of blobs. A modifying call returns the modified blob and stores nothing.
//! Meanings and costs as for [`operations::bits`](crate::operations::bits); an error there is an
//! unknown value here.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::expressions::{bits, blob_bin, gt};
//!
//! let days = spikelet::Store::in_memory()?.set("days")?;
//! days.put("alice", [("seen", &[0b0101_0000_u8][..])])?;
//! let seen_twice = gt(bits::count(0, 8, blob_bin("seen")), 1);
//! assert!(days.filtered(seen_twice)?.get("alice")?.is_some());
//! # Ok(())
//! # }
//! ```

use super::super::code::CALL_MODIFIES;
use super::super::{ExpType, Expression};
use super::call::CallExpression;
use crate::bits::{BitOverflow, BitPolicy, BitResizeFlags, BitSign, bit_operations, code};

const BITS: i64 = 1;

/// Defines the function of each row.
macro_rules! functions {
    ($($access:ident $name:ident $code:ident $number:literal $kind:ident $arguments:tt $settings:tt $bin:literal $value:literal;)*) => {
        $(functions! { @$access $name $code $kind $arguments $settings $value })*
    };
    (@write $($row:tt)*) => { functions! { @function (BITS | CALL_MODIFIES) (policy: &BitPolicy) $($row)* } };
    (@read $($row:tt)*) => { functions! { @function (BITS) () $($row)* } };
    (
        @function ($system:expr) ($($policy:ident: $policy_type:ty)?) $name:ident $code:ident $kind:ident
        ($($argument:ident: $shape:ident),*) ($($first:ident: $first_type:ty $(, $setting:ident: $type:ty)*)?) $doc:literal
    ) => {
        #[doc = $doc]
        #[must_use]
        pub fn $name(
            $($policy: $policy_type,)?
            $($argument: impl Into<Expression>,)*
            $($first: $first_type, $($setting: $type,)*)?
            blob: impl Into<Expression>,
        ) -> Expression {
            let call = CallExpression::new(code::$code)$(.with($argument))*;
            $(let call = call.uint(u64::from($policy.write_flags().bits()));)?
            $(let call = call.uint($first.to_bits() $(| $setting.to_bits())*);)?
            call.of($system, ExpType::$kind, blob, &[])
        }
    };
}

bit_operations!(functions);
