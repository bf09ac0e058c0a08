//! Arithmetic, on integers alone or doubles alone, and on the bits of integers. Integers wrap.

use super::super::Expression;
use super::{Operands, builders};
use crate::expression::code;

builders! {
    /// Adds the operands, all integers or all doubles.
    num_add(operands..) ADD;

    /// Subtracts all others from the first; negates a single operand.
    num_sub(operands..) SUB;

    /// Multiplies the operands, all integers or all doubles.
    num_mul(operands..) MUL;

    /// Divides the first by the product of all others; inverts a single operand. Integer division
    /// by 0 is unknown.
    num_div(operands..) DIV;

    /// Raises a double to the power of another.
    num_pow(base, exponent) POW;

    /// Returns the logarithm of a double to a base.
    num_log(value, base) LOG;

    /// Returns the remainder of an integer division, with the sign of `value`. Unknown for a
    /// divisor of 0.
    num_mod(value, by) MOD;

    /// Returns the absolute value of a number.
    num_abs(value) ABS;

    /// Rounds a double down.
    num_floor(value) FLOOR;

    /// Rounds a double up.
    num_ceil(value) CEIL;

    /// Converts a double to an integer: drops the fraction, saturates at the integer range; NaN
    /// becomes 0.
    to_int(value) TO_INT;

    /// Converts an integer to a double.
    to_float(value) TO_FLOAT;

    /// Returns the least of some numbers.
    min(operands..) MIN;

    /// Returns the greatest of some numbers.
    max(operands..) MAX;

    /// Combines integers by bitwise AND.
    int_and(operands..) INT_AND;

    /// Combines integers by bitwise OR.
    int_or(operands..) INT_OR;

    /// Combines integers by bitwise XOR.
    int_xor(operands..) INT_XOR;

    /// Inverts all bits of an integer.
    int_not(value) INT_NOT;

    /// Shifts the bits to the left. Only the low six bits of `by` count.
    int_lshift(value, by) LSHIFT;

    /// Shifts the bits to the right, filling with 0. Only the low six bits of `by` count.
    int_rshift(value, by) RSHIFT;

    /// Shifts the bits to the right, filling with the sign. Only the low six bits of `by` count.
    int_arshift(value, by) ARSHIFT;

    /// Counts the bits that are 1.
    int_count(value) INT_COUNT;

    /// Returns the position of the most significant bit equal to `bit`, counted from 0 at the most
    /// significant of the 64; -1 if there is none.
    int_lscan(value, bit) LSCAN;

    /// Returns the position of the least significant bit equal to `bit`, counted from 0 at the most
    /// significant of the 64; -1 if there is none.
    int_rscan(value, bit) RSCAN;
}
