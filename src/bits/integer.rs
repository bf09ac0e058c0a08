//! Integers of up to 64 bits inside a blob, and arithmetic with them.

use super::policy::{BitOverflow, BitSign};
use super::window::{self, BitWindow};

/// The most bits of an integer.
pub(super) const MAX_INTEGER_BITS: u64 = 64;

/// An addition or subtraction on the bits of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arithmetic {
    /// The operand, truncated to the window's number of bits.
    pub(super) value: u64,
    pub(super) subtract: bool,
    pub(super) sign: BitSign,
    pub(super) overflow: BitOverflow,
}

/// Reads the window, up to 64 bits, as an unsigned integer.
pub(super) fn load(blob: &[u8], window: BitWindow) -> u64 {
    window::load(blob, window.offset, window.size)
}

/// Reads the window as an integer; 64 unsigned bits wrap into the sign.
pub(super) fn get(blob: &[u8], window: BitWindow, sign: BitSign) -> i64 {
    let value = load(blob, window);
    match sign {
        BitSign::Unsigned => value.cast_signed(),
        BitSign::Signed => extend(value, window.size),
    }
}

/// Overwrites the window with the low bits of `value`.
pub(super) fn set(out: &mut [u8], window: BitWindow, value: u64) {
    window::store(out, window.offset, window.size, value);
}

/// Extends an integer of `bits` bits in two's complement.
fn extend(value: u64, bits: usize) -> i64 {
    let unused = 64 - bits;
    (value << unused).cast_signed() >> unused
}

impl Arithmetic {
    /// Computes the result for an integer of `bits` bits, in its low bits; `None` if it overflows
    /// and [`BitOverflow::Fail`] applies.
    pub(super) fn apply(&self, old: u64, bits: usize) -> Option<u64> {
        let mask = u64::MAX >> (64 - bits);
        let value = self.value & mask;
        let result = if self.subtract {
            old.wrapping_sub(value)
        } else {
            old.wrapping_add(value)
        } & mask;
        let limit = match self.sign {
            BitSign::Unsigned if self.subtract => (result > old).then_some(0),
            BitSign::Unsigned => (result < old).then_some(mask),
            BitSign::Signed => self.signed_limit(old, value, result, bits),
        };
        match (limit, self.overflow) {
            (None, _) | (_, BitOverflow::Wrap) => Some(result),
            (Some(limit), BitOverflow::Saturate) => Some(limit),
            (Some(_), BitOverflow::Fail) => None,
        }
    }

    /// Returns the limit that a signed result has crossed, if it has. As in Aerospike, a difference
    /// is the sum with the negated operand in the same number of bits, and a sum has crossed a
    /// limit when its sign is opposite to the sign of both operands, 0 having none: the least value
    /// plus itself is 0, and subtracting the least value adds it.
    fn signed_limit(&self, old: u64, value: u64, result: u64, bits: usize) -> Option<u64> {
        let operand = if self.subtract {
            value.wrapping_neg()
        } else {
            value
        };
        let least = 1 << (bits - 1);
        match (
            extend(old, bits).signum(),
            extend(operand, bits).signum(),
            extend(result, bits).signum(),
        ) {
            (-1, -1, 1) => Some(least),
            (1, 1, -1) => Some(least - 1),
            _ => None,
        }
    }
}
