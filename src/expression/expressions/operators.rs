//! Comparisons, logic, choice, variables.

use bitflags::bitflags;

use super::super::Expression;
use super::{Operands, binary, nullary, unary, variadic};
use crate::expression::code;

bitflags! {
    /// Flags of a regular expression, as in POSIX.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RegexFlags: u32 {
        /// The extended syntax, with `+`, `?`, `|` and bare groups.
        const EXTENDED = 1;
        /// ASCII letters match in both cases.
        const ICASE = 2;
        /// Accepted without effect: no call returns the place of a match.
        const NOSUB = 4;
        /// Matches each line by itself: `^` and `$` match at its ends, `.` and `[^a]` match no line
        /// break.
        const NEWLINE = 8;
    }
}

/// Returns the unknown value. It fits where any type is expected.
#[must_use]
pub fn unknown() -> Expression {
    nullary(code::UNKNOWN)
}

/// Tests whether two values of one type are equal. Unknown for values without an order: sketches,
/// GeoJSON, and containers that hold a map not ordered by key.
#[must_use]
pub fn eq(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::EQ, a, b)
}

/// Tests whether two values of one type differ.
#[must_use]
pub fn ne(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::NE, a, b)
}

/// Tests whether `a` is greater than `b`.
#[must_use]
pub fn gt(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::GT, a, b)
}

/// Tests whether `a` is greater than or equal to `b`.
#[must_use]
pub fn ge(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::GE, a, b)
}

/// Tests whether `a` is less than `b`.
#[must_use]
pub fn lt(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::LT, a, b)
}

/// Tests whether `a` is less than or equal to `b`.
#[must_use]
pub fn le(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::LE, a, b)
}

/// Tests whether a pattern matches anywhere in a text. O(pattern * text).
#[must_use]
pub fn regex_compare(pattern: &str, flags: RegexFlags, text: impl Into<Expression>) -> Expression {
    Operands::new()
        .int(i64::from(flags.bits()))
        .raw(pattern)
        .operand(&text.into())
        .of(code::REGEX)
}

/// Tests whether one of two geometries is a point and the other a region that contains it.
#[must_use]
pub fn geo_compare(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::GEO, a, b)
}

/// Tests whether a list has an element equal to a value. O(elements).
#[must_use]
pub fn in_list(value: impl Into<Expression>, list: impl Into<Expression>) -> Expression {
    binary(code::IN_LIST, value, list)
}

/// Returns the keys of a map as a list, in order.
#[must_use]
pub fn map_keys(map: impl Into<Expression>) -> Expression {
    unary(code::MAP_KEYS, map)
}

/// Returns the values of a map as a list, in the order of the keys.
#[must_use]
pub fn map_values(map: impl Into<Expression>) -> Expression {
    unary(code::MAP_VALUES, map)
}

/// Tests whether all of two or more operands are true. A false operand decides, even beside an
/// unknown one.
#[must_use]
pub fn and(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::AND, operands)
}

/// Tests whether any of two or more operands is true. A true operand decides, even beside an
/// unknown one.
#[must_use]
pub fn or(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::OR, operands)
}

/// Negates a truth value.
#[must_use]
pub fn not(operand: impl Into<Expression>) -> Expression {
    unary(code::NOT, operand)
}

/// Tests whether exactly one of two or more operands is true.
#[must_use]
pub fn xor(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::EXCLUSIVE, operands)
}

/// Takes conditions and values in turn, then a default. Returns the value of the first condition
/// that is true.
#[must_use]
pub fn cond(cases: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::COND, cases)
}

/// A variable's name and value, for [`exp_let`].
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    name: Box<str>,
    value: Expression,
}

/// Names a value. A name consists of letters, digits and underscores, and does not start with a
/// digit.
#[must_use]
pub fn def(name: &str, value: impl Into<Expression>) -> Definition {
    Definition {
        name: name.into(),
        value: value.into(),
    }
}

/// Evaluates `scope` with variables. A definition may use earlier ones.
#[must_use]
pub fn exp_let(
    definitions: impl IntoIterator<Item = Definition>,
    scope: impl Into<Expression>,
) -> Expression {
    definitions
        .into_iter()
        .fold(Operands::new(), |operands, Definition { name, value }| {
            operands.raw(&name).operand(&value)
        })
        .operand(&scope.into())
        .of(code::LET)
}

/// Returns the value of a variable defined by [`exp_let`].
#[must_use]
pub fn var(name: &str) -> Expression {
    Operands::new().raw(name).of(code::VAR)
}
