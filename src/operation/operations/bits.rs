//! Operations on the bits of blob bins. Offsets and sizes are in bits unless they are called bytes;
//! bit 0 is the most significant bit of the first byte, and a negative offset counts from the end.
//! Integers are big-endian.
//!
//! Reads of a missing bin give no result, and cost O(size). [`resize`] and [`insert`] create a
//! missing bin; the others that write need one, copy it once, and have no result. Bits beyond the
//! end are an error.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::operations::bits::{self, BitPolicy, BitResizeFlags};
//!
//! let days = spikelet::Store::in_memory()?.set("days")?;
//! let policy = BitPolicy::default();
//! let result = days.operate("alice", &[
//!     bits::resize(&policy, "seen", 46, BitResizeFlags::empty()), // 366 bits
//!     bits::set(&policy, "seen", 41, 1, &[0x80]),
//!     bits::count("seen", 0, 366),
//!     bits::lscan("seen", 0, 366, true),
//! ])?;
//! assert_eq!(result.value(2), Some(&1.into()));
//! assert_eq!(result.value(3), Some(&41.into()));
//! # Ok(())
//! # }
//! ```

pub use crate::bits::{BitOverflow, BitPolicy, BitResizeFlags, BitSign, BitWriteFlags};

use super::super::Operation;
use crate::bits::{bit_operations, code};
use crate::call::{CallSystem, CallWriter};
use crate::value::{EncodePurpose, Value};

/// Returns the type of an argument, or appends the argument to a call.
macro_rules! argument {
    (int) => { i64 };
    (size) => { u64 };
    (bit) => { bool };
    (blob) => { impl Into<Vec<u8>> };
    ($call:ident int $value:ident) => { $call.int($value) };
    ($call:ident size $value:ident) => { $call.uint($value) };
    ($call:ident bit $value:ident) => {
        $call.value(&$value.into(), EncodePurpose::Storage)
    };
    ($call:ident blob $value:ident) => {
        $call.value(&Value::Blob($value.into()), EncodePurpose::Storage)
    };
}

/// Defines the function of each row.
macro_rules! functions {
    ($($access:ident $name:ident $code:ident $number:literal $kind:ident $arguments:tt $settings:tt $bin:literal $value:literal;)*) => {
        $(functions! { @$access $name $code $arguments $settings $bin })*
    };
    (@write $($row:tt)*) => { functions! { @function true (policy: &BitPolicy) $($row)* } };
    (@read $($row:tt)*) => { functions! { @function false () $($row)* } };
    (
        @function $writes:literal ($($policy:ident: $policy_type:ty)?) $name:ident $code:ident
        ($($argument:ident: $kind:ident),*) ($($first:ident: $first_type:ty $(, $setting:ident: $type:ty)*)?) $doc:literal
    ) => {
        #[doc = $doc]
        #[must_use]
        pub fn $name(
            $($policy: $policy_type,)? bin: &str, $($argument: argument!($kind),)* $($first: $first_type, $($setting: $type),*)?
        ) -> Operation {
            let call = CallWriter::new(code::$code);
            $(let call = argument!(call $kind $argument);)*
            $(let call = call.uint(u64::from($policy.write_flags().bits()));)?
            $(let call = call.uint($first.to_bits() $(| $setting.to_bits())*);)?
            Operation::on_call(bin, CallSystem::Bits, $writes, call.finish())
        }
    };
}

bit_operations!(functions);
