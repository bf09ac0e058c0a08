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
use crate::bits::{BitOverflow, BitPolicy, BitResizeFlags, BitSign, code};

const BITS: i64 = 1;

fn window(code: u8, offset: impl Into<Expression>, size: impl Into<Expression>) -> CallExpression {
    CallExpression::new(code).with(offset).with(size)
}

fn with_policy(call: CallExpression, policy: &BitPolicy) -> CallExpression {
    call.uint(u64::from(policy.write_flags().bits()))
}

fn modify(call: CallExpression, blob: impl Into<Expression>) -> Expression {
    call.of(BITS | CALL_MODIFIES, ExpType::Blob, blob, &[])
}

/// Returns the blob resized to a length in bytes, padded with 0.
#[must_use]
pub fn resize(
    policy: &BitPolicy,
    bytes: impl Into<Expression>,
    flags: BitResizeFlags,
    blob: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(CallExpression::new(code::RESIZE).with(bytes), policy)
            .uint(u64::from(flags.bits())),
        blob,
    )
}

/// Returns the blob with bytes inserted before `byte_offset`.
#[must_use]
pub fn insert(
    policy: &BitPolicy,
    byte_offset: impl Into<Expression>,
    bytes: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(
            CallExpression::new(code::INSERT)
                .with(byte_offset)
                .with(bytes),
            policy,
        ),
        blob,
    )
}

/// Returns the blob with a range of bytes removed.
#[must_use]
pub fn remove(
    policy: &BitPolicy,
    byte_offset: impl Into<Expression>,
    bytes: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(window(code::REMOVE, byte_offset, bytes), policy),
        blob,
    )
}

/// Returns the blob with a range of bits overwritten.
#[must_use]
pub fn set(
    policy: &BitPolicy,
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    bytes: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(window(code::SET, offset, size).with(bytes), policy),
        blob,
    )
}

/// Returns the blob with a range of bits combined with `bytes` by OR.
#[must_use]
pub fn or(
    policy: &BitPolicy,
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    bytes: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(window(code::OR, offset, size).with(bytes), policy),
        blob,
    )
}

/// Returns the blob with a range of bits combined with `bytes` by XOR.
#[must_use]
pub fn xor(
    policy: &BitPolicy,
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    bytes: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(window(code::XOR, offset, size).with(bytes), policy),
        blob,
    )
}

/// Returns the blob with a range of bits combined with `bytes` by AND.
#[must_use]
pub fn and(
    policy: &BitPolicy,
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    bytes: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(window(code::AND, offset, size).with(bytes), policy),
        blob,
    )
}

/// Returns the blob with a range of bits inverted.
#[must_use]
pub fn not(
    policy: &BitPolicy,
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    modify(with_policy(window(code::NOT, offset, size), policy), blob)
}

/// Returns the blob with a range of bits shifted towards the front.
#[must_use]
pub fn lshift(
    policy: &BitPolicy,
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    by: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(window(code::LSHIFT, offset, size).with(by), policy),
        blob,
    )
}

/// Returns the blob with a range of bits shifted towards the end.
#[must_use]
pub fn rshift(
    policy: &BitPolicy,
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    by: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(window(code::RSHIFT, offset, size).with(by), policy),
        blob,
    )
}

/// Returns the blob with a number added to an integer in it.
#[must_use]
pub fn add(
    policy: &BitPolicy,
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    value: impl Into<Expression>,
    sign: BitSign,
    overflow: BitOverflow,
    blob: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(window(code::ADD, offset, size).with(value), policy)
            .uint(sign.to_bits() | overflow.to_bits()),
        blob,
    )
}

/// Returns the blob with a number subtracted from an integer in it.
#[must_use]
pub fn subtract(
    policy: &BitPolicy,
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    value: impl Into<Expression>,
    sign: BitSign,
    overflow: BitOverflow,
    blob: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(window(code::SUBTRACT, offset, size).with(value), policy)
            .uint(sign.to_bits() | overflow.to_bits()),
        blob,
    )
}

/// Returns the blob with an integer in it overwritten.
#[must_use]
pub fn set_int(
    policy: &BitPolicy,
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    value: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    modify(
        with_policy(window(code::SET_INT, offset, size).with(value), policy),
        blob,
    )
}

/// Returns a range of bits, padded with 0 to whole bytes.
#[must_use]
pub fn get(
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    window(code::GET, offset, size).of(BITS, ExpType::Blob, blob, &[])
}

/// Counts the bits that are 1.
#[must_use]
pub fn count(
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    window(code::COUNT, offset, size).of(BITS, ExpType::Int, blob, &[])
}

/// Returns the position of the first bit equal to `bit`, relative to the offset; -1 if there is
/// none.
#[must_use]
pub fn lscan(
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    bit: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    window(code::LSCAN, offset, size)
        .with(bit)
        .of(BITS, ExpType::Int, blob, &[])
}

/// Returns the position of the last bit equal to `bit`, relative to the offset; -1 if there is
/// none.
#[must_use]
pub fn rscan(
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    bit: impl Into<Expression>,
    blob: impl Into<Expression>,
) -> Expression {
    window(code::RSCAN, offset, size)
        .with(bit)
        .of(BITS, ExpType::Int, blob, &[])
}

/// Returns a range of bits as an integer.
#[must_use]
pub fn get_int(
    offset: impl Into<Expression>,
    size: impl Into<Expression>,
    sign: BitSign,
    blob: impl Into<Expression>,
) -> Expression {
    window(code::GET_INT, offset, size)
        .uint(sign.to_bits())
        .of(BITS, ExpType::Int, blob, &[])
}
