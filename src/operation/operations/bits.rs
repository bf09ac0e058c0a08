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
use crate::bits::code;
use crate::call::CallSystem;
use crate::call::CallWriter;
use crate::value::{EncodePurpose, Value};

/// Begins a call on a window of bits.
fn window(code: u8, offset: i64, size: u64) -> CallWriter {
    CallWriter::new(code).int(offset).uint(size)
}

fn blob(call: CallWriter, bytes: impl Into<Vec<u8>>) -> CallWriter {
    call.value(&Value::Blob(bytes.into()), EncodePurpose::Storage)
}

fn with_policy(call: CallWriter, policy: &BitPolicy) -> CallWriter {
    call.uint(u64::from(policy.write_flags().bits()))
}

fn write(bin: &str, call: CallWriter) -> Operation {
    Operation::on_call(bin, CallSystem::Bits, true, call.finish())
}

fn read(bin: &str, call: CallWriter) -> Operation {
    Operation::on_call(bin, CallSystem::Bits, false, call.finish())
}

/// Gives the blob a length in bytes, and fills with 0. Creates a missing bin, unless the length is
/// 0.
#[must_use]
pub fn resize(policy: &BitPolicy, bin: &str, bytes: u64, flags: BitResizeFlags) -> Operation {
    let call = with_policy(CallWriter::new(code::RESIZE).uint(bytes), policy);
    write(bin, call.uint(u64::from(flags.bits())))
}

/// Inserts bytes before the one at `byte_offset`; a gap behind the end is filled with 0. Creates a
/// missing bin.
#[must_use]
pub fn insert(
    policy: &BitPolicy,
    bin: &str,
    byte_offset: i64,
    bytes: impl Into<Vec<u8>>,
) -> Operation {
    let call = blob(CallWriter::new(code::INSERT).int(byte_offset), bytes);
    write(bin, with_policy(call, policy))
}

/// Removes `bytes` bytes from `byte_offset` on; the blob becomes shorter.
#[must_use]
pub fn remove(policy: &BitPolicy, bin: &str, byte_offset: i64, bytes: u64) -> Operation {
    let call = window(code::REMOVE, byte_offset, bytes);
    write(bin, with_policy(call, policy))
}

/// Overwrites `size` bits with the first ones of `bytes`, which must have as many.
#[must_use]
pub fn set(
    policy: &BitPolicy,
    bin: &str,
    offset: i64,
    size: u64,
    bytes: impl Into<Vec<u8>>,
) -> Operation {
    let call = blob(window(code::SET, offset, size), bytes);
    write(bin, with_policy(call, policy))
}

/// Sets the bits of the window that are 1 in `bytes`, which must have `size` bits or more.
#[must_use]
pub fn or(
    policy: &BitPolicy,
    bin: &str,
    offset: i64,
    size: u64,
    bytes: impl Into<Vec<u8>>,
) -> Operation {
    let call = blob(window(code::OR, offset, size), bytes);
    write(bin, with_policy(call, policy))
}

/// Inverts the bits of the window that are 1 in `bytes`, which must have `size` bits or more.
#[must_use]
pub fn xor(
    policy: &BitPolicy,
    bin: &str,
    offset: i64,
    size: u64,
    bytes: impl Into<Vec<u8>>,
) -> Operation {
    let call = blob(window(code::XOR, offset, size), bytes);
    write(bin, with_policy(call, policy))
}

/// Clears the bits of the window that are 0 in `bytes`, which must have `size` bits or more.
#[must_use]
pub fn and(
    policy: &BitPolicy,
    bin: &str,
    offset: i64,
    size: u64,
    bytes: impl Into<Vec<u8>>,
) -> Operation {
    let call = blob(window(code::AND, offset, size), bytes);
    write(bin, with_policy(call, policy))
}

/// Inverts `size` bits.
#[must_use]
pub fn not(policy: &BitPolicy, bin: &str, offset: i64, size: u64) -> Operation {
    write(bin, with_policy(window(code::NOT, offset, size), policy))
}

/// Moves `size` bits by `by` places towards the front, and fills with 0.
#[must_use]
pub fn lshift(policy: &BitPolicy, bin: &str, offset: i64, size: u64, by: u64) -> Operation {
    let call = window(code::LSHIFT, offset, size).uint(by);
    write(bin, with_policy(call, policy))
}

/// Moves `size` bits by `by` places towards the end, and fills with 0.
#[must_use]
pub fn rshift(policy: &BitPolicy, bin: &str, offset: i64, size: u64, by: u64) -> Operation {
    let call = window(code::RSHIFT, offset, size).uint(by);
    write(bin, with_policy(call, policy))
}

/// Adds to an integer of `size` bits, at most 64. Only as many low bits of `value` count.
#[must_use]
pub fn add(
    policy: &BitPolicy,
    bin: &str,
    offset: i64,
    size: u64,
    value: i64,
    sign: BitSign,
    overflow: BitOverflow,
) -> Operation {
    let call = with_policy(window(code::ADD, offset, size).int(value), policy);
    write(bin, call.uint(sign.to_bits() | overflow.to_bits()))
}

/// Subtracts from an integer of `size` bits, at most 64. Only as many low bits of `value` count.
#[must_use]
pub fn subtract(
    policy: &BitPolicy,
    bin: &str,
    offset: i64,
    size: u64,
    value: i64,
    sign: BitSign,
    overflow: BitOverflow,
) -> Operation {
    let call = with_policy(window(code::SUBTRACT, offset, size).int(value), policy);
    write(bin, call.uint(sign.to_bits() | overflow.to_bits()))
}

/// Overwrites an integer of `size` bits, at most 64, with the low bits of `value`.
#[must_use]
pub fn set_int(policy: &BitPolicy, bin: &str, offset: i64, size: u64, value: i64) -> Operation {
    let call = window(code::SET_INT, offset, size).int(value);
    write(bin, with_policy(call, policy))
}

/// Reads `size` bits. Result: a blob that begins with them; the rest of its last byte is 0.
#[must_use]
pub fn get(bin: &str, offset: i64, size: u64) -> Operation {
    read(bin, window(code::GET, offset, size))
}

/// How many of `size` bits are 1.
#[must_use]
pub fn count(bin: &str, offset: i64, size: u64) -> Operation {
    read(bin, window(code::COUNT, offset, size))
}

/// Looks for the first of `size` bits that equals `bit`. Result: its distance from `offset`; -1 if
/// there is none.
#[must_use]
pub fn lscan(bin: &str, offset: i64, size: u64, bit: bool) -> Operation {
    let call = window(code::LSCAN, offset, size);
    read(bin, call.value(&bit.into(), EncodePurpose::Storage))
}

/// Looks for the last of `size` bits that equals `bit`. Result: its distance from `offset`; -1 if
/// there is none.
#[must_use]
pub fn rscan(bin: &str, offset: i64, size: u64, bit: bool) -> Operation {
    let call = window(code::RSCAN, offset, size);
    read(bin, call.value(&bit.into(), EncodePurpose::Storage))
}

/// Reads an integer of `size` bits, at most 64. All 64 are read as signed in any case.
#[must_use]
pub fn get_int(bin: &str, offset: i64, size: u64, sign: BitSign) -> Operation {
    let call = window(code::GET_INT, offset, size);
    read(bin, call.uint(sign.to_bits()))
}
