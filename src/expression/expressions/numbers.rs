//! Arithmetic, on integers alone or doubles alone, and on the bits of integers. Integers wrap.

use super::super::Expression;
use super::{binary, unary, variadic};
use crate::expression::code;

/// Adds the operands, all integers or all doubles.
#[must_use]
pub fn num_add(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::ADD, operands)
}

/// Subtracts all others from the first; negates a single operand.
#[must_use]
pub fn num_sub(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::SUB, operands)
}

/// Multiplies the operands, all integers or all doubles.
#[must_use]
pub fn num_mul(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::MUL, operands)
}

/// Divides the first by the product of all others; inverts a single operand. Integer division by 0
/// is unknown.
#[must_use]
pub fn num_div(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::DIV, operands)
}

/// Raises a double to the power of another.
#[must_use]
pub fn num_pow(base: impl Into<Expression>, exponent: impl Into<Expression>) -> Expression {
    binary(code::POW, base, exponent)
}

/// Returns the logarithm of a double to a base.
#[must_use]
pub fn num_log(value: impl Into<Expression>, base: impl Into<Expression>) -> Expression {
    binary(code::LOG, value, base)
}

/// Returns the remainder of an integer division, with the sign of `value`. Unknown for a divisor of
/// 0.
#[must_use]
pub fn num_mod(value: impl Into<Expression>, by: impl Into<Expression>) -> Expression {
    binary(code::MOD, value, by)
}

/// Returns the absolute value of a number.
#[must_use]
pub fn num_abs(value: impl Into<Expression>) -> Expression {
    unary(code::ABS, value)
}

/// Rounds a double down.
#[must_use]
pub fn num_floor(value: impl Into<Expression>) -> Expression {
    unary(code::FLOOR, value)
}

/// Rounds a double up.
#[must_use]
pub fn num_ceil(value: impl Into<Expression>) -> Expression {
    unary(code::CEIL, value)
}

/// Converts a double to an integer: drops the fraction, saturates at the integer range; NaN becomes
/// 0.
#[must_use]
pub fn to_int(value: impl Into<Expression>) -> Expression {
    unary(code::TO_INT, value)
}

/// Converts an integer to a double.
#[must_use]
pub fn to_float(value: impl Into<Expression>) -> Expression {
    unary(code::TO_FLOAT, value)
}

/// Returns the least of some numbers.
#[must_use]
pub fn min(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::MIN, operands)
}

/// Returns the greatest of some numbers.
#[must_use]
pub fn max(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::MAX, operands)
}

/// Combines integers by bitwise AND.
#[must_use]
pub fn int_and(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::INT_AND, operands)
}

/// Combines integers by bitwise OR.
#[must_use]
pub fn int_or(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::INT_OR, operands)
}

/// Combines integers by bitwise XOR.
#[must_use]
pub fn int_xor(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::INT_XOR, operands)
}

/// Inverts all bits of an integer.
#[must_use]
pub fn int_not(value: impl Into<Expression>) -> Expression {
    unary(code::INT_NOT, value)
}

/// Shifts the bits to the left. Only the low six bits of `by` count.
#[must_use]
pub fn int_lshift(value: impl Into<Expression>, by: impl Into<Expression>) -> Expression {
    binary(code::LSHIFT, value, by)
}

/// Shifts the bits to the right, filling with 0. Only the low six bits of `by` count.
#[must_use]
pub fn int_rshift(value: impl Into<Expression>, by: impl Into<Expression>) -> Expression {
    binary(code::RSHIFT, value, by)
}

/// Shifts the bits to the right, filling with the sign. Only the low six bits of `by` count.
#[must_use]
pub fn int_arshift(value: impl Into<Expression>, by: impl Into<Expression>) -> Expression {
    binary(code::ARSHIFT, value, by)
}

/// Counts the bits that are 1.
#[must_use]
pub fn int_count(value: impl Into<Expression>) -> Expression {
    unary(code::INT_COUNT, value)
}

/// Returns the position of the most significant bit equal to `bit`, counted from 0 at the most
/// significant of the 64; -1 if there is none.
#[must_use]
pub fn int_lscan(value: impl Into<Expression>, bit: impl Into<Expression>) -> Expression {
    binary(code::LSCAN, value, bit)
}

/// Returns the position of the least significant bit equal to `bit`, counted from 0 at the most
/// significant of the 64; -1 if there is none.
#[must_use]
pub fn int_rscan(value: impl Into<Expression>, bit: impl Into<Expression>) -> Expression {
    binary(code::RSCAN, value, bit)
}
