//! Arithmetic, on integers alone or doubles alone, and on the bits of integers. Integers wrap.

use super::super::Expression;
use super::{binary, unary, variadic};
use crate::expression::code;

/// The sum of the operands, which are all integers or all doubles.
#[must_use]
pub fn num_add(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::ADD, operands)
}

/// The first less all others; of one alone, its negative.
#[must_use]
pub fn num_sub(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::SUB, operands)
}

/// The product of the operands, which are all integers or all doubles.
#[must_use]
pub fn num_mul(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::MUL, operands)
}

/// The first divided by the product of all others; of one alone, its reciprocal. Unknown for integers and 0.
#[must_use]
pub fn num_div(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::DIV, operands)
}

/// A double to the power of another.
#[must_use]
pub fn num_pow(base: impl Into<Expression>, exponent: impl Into<Expression>) -> Expression {
    binary(code::POW, base, exponent)
}

/// The logarithm of a double to a base.
#[must_use]
pub fn num_log(value: impl Into<Expression>, base: impl Into<Expression>) -> Expression {
    binary(code::LOG, value, base)
}

/// The remainder of an integer division, with the sign of `value`. Unknown for 0.
#[must_use]
pub fn num_mod(value: impl Into<Expression>, by: impl Into<Expression>) -> Expression {
    binary(code::MOD, value, by)
}

/// The number without its sign.
#[must_use]
pub fn num_abs(value: impl Into<Expression>) -> Expression {
    unary(code::ABS, value)
}

/// A double, rounded down.
#[must_use]
pub fn num_floor(value: impl Into<Expression>) -> Expression {
    unary(code::FLOOR, value)
}

/// A double, rounded up.
#[must_use]
pub fn num_ceil(value: impl Into<Expression>) -> Expression {
    unary(code::CEIL, value)
}

/// A double as an integer, without what follows the point; the nearest integer if there is none.
#[must_use]
pub fn to_int(value: impl Into<Expression>) -> Expression {
    unary(code::TO_INT, value)
}

/// An integer as a double.
#[must_use]
pub fn to_float(value: impl Into<Expression>) -> Expression {
    unary(code::TO_FLOAT, value)
}

/// The least of some numbers.
#[must_use]
pub fn min(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::MIN, operands)
}

/// The greatest of some numbers.
#[must_use]
pub fn max(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::MAX, operands)
}

/// The bits that all have.
#[must_use]
pub fn int_and(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::INT_AND, operands)
}

/// The bits that any has.
#[must_use]
pub fn int_or(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::INT_OR, operands)
}

/// The bits that an odd number of them have.
#[must_use]
pub fn int_xor(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::INT_XOR, operands)
}

/// All bits inverted.
#[must_use]
pub fn int_not(value: impl Into<Expression>) -> Expression {
    unary(code::INT_NOT, value)
}

/// The bits moved towards the most significant one. The low six bits of `by` count.
#[must_use]
pub fn int_lshift(value: impl Into<Expression>, by: impl Into<Expression>) -> Expression {
    binary(code::LSHIFT, value, by)
}

/// The bits moved towards the least significant one, filled with 0.
#[must_use]
pub fn int_rshift(value: impl Into<Expression>, by: impl Into<Expression>) -> Expression {
    binary(code::RSHIFT, value, by)
}

/// The bits moved towards the least significant one, filled with the sign.
#[must_use]
pub fn int_arshift(value: impl Into<Expression>, by: impl Into<Expression>) -> Expression {
    binary(code::ARSHIFT, value, by)
}

/// How many bits are 1.
#[must_use]
pub fn int_count(value: impl Into<Expression>) -> Expression {
    unary(code::INT_COUNT, value)
}

/// The position of the most significant bit that is `bit`, which is 0 for the first of 64; -1 if there is none.
#[must_use]
pub fn int_lscan(value: impl Into<Expression>, bit: impl Into<Expression>) -> Expression {
    binary(code::LSCAN, value, bit)
}

/// The position of the least significant bit that is `bit`, which is 63 for the last of 64; -1 if there is none.
#[must_use]
pub fn int_rscan(value: impl Into<Expression>, bit: impl Into<Expression>) -> Expression {
    binary(code::RSCAN, value, bit)
}
