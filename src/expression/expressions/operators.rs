//! Comparisons, logic, choice, variables.

use bitflags::bitflags;

use super::super::Expression;
use super::{Operands, binary, nullary, unary, variadic};
use crate::expression::code;

bitflags! {
    /// How a regular expression is read and matched: the flags of POSIX.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RegexFlags: u32 {
        /// The extended syntax, with `+`, `?`, `|` and bare groups.
        const EXTENDED = 1;
        /// ASCII letters match in both cases.
        const ICASE = 2;
        /// Accepted without effect.
        const NOSUB = 4;
        /// Lines are matched each for itself: `^` and `$` match at their ends, `.` and `[^a]` no line break.
        const NEWLINE = 8;
    }
}

/// Always unknown. It fits where any type is wanted.
#[must_use]
pub fn unknown() -> Expression {
    nullary(code::UNKNOWN)
}

/// Whether two values of one type are equal. Sketches and GeoJSON have no order, nor has what holds a map that is not
/// ordered by key: that is unknown.
#[must_use]
pub fn eq(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::EQ, a, b)
}

/// Whether two values of one type are different.
#[must_use]
pub fn ne(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::NE, a, b)
}

/// Whether `a` is greater than `b`.
#[must_use]
pub fn gt(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::GT, a, b)
}

/// Whether `a` is greater than `b`, or equal.
#[must_use]
pub fn ge(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::GE, a, b)
}

/// Whether `a` is less than `b`.
#[must_use]
pub fn lt(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::LT, a, b)
}

/// Whether `a` is less than `b`, or equal.
#[must_use]
pub fn le(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::LE, a, b)
}

/// Whether a pattern matches anywhere in a text. O(pattern * text).
#[must_use]
pub fn regex_compare(pattern: &str, flags: RegexFlags, text: impl Into<Expression>) -> Expression {
    Operands::new()
        .int(i64::from(flags.bits()))
        .raw(pattern)
        .operand(&text.into())
        .of(code::REGEX)
}

/// Whether one of two geometries is a point and the other a region that contains it.
#[must_use]
pub fn geo_compare(a: impl Into<Expression>, b: impl Into<Expression>) -> Expression {
    binary(code::GEO, a, b)
}

/// Whether a list has an element equal to a value. O(elements).
#[must_use]
pub fn in_list(value: impl Into<Expression>, list: impl Into<Expression>) -> Expression {
    binary(code::IN_LIST, value, list)
}

/// The keys of a map, as a list in their order.
#[must_use]
pub fn map_keys(map: impl Into<Expression>) -> Expression {
    unary(code::MAP_KEYS, map)
}

/// The values of a map, as a list in the order of the keys.
#[must_use]
pub fn map_values(map: impl Into<Expression>) -> Expression {
    unary(code::MAP_VALUES, map)
}

/// Whether all are true, two or more. One that is false decides, even if another one is unknown.
#[must_use]
pub fn and(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::AND, operands)
}

/// Whether any is true, of two or more. One that is true decides, even if another one is unknown.
#[must_use]
pub fn or(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::OR, operands)
}

/// True where the operand is false, and false where it is true.
#[must_use]
pub fn not(operand: impl Into<Expression>) -> Expression {
    unary(code::NOT, operand)
}

/// Whether exactly one is true, of two or more.
#[must_use]
pub fn xor(operands: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::EXCLUSIVE, operands)
}

/// Conditions and values in turn, then a default: the value of the first condition that is true.
#[must_use]
pub fn cond(cases: impl IntoIterator<Item = Expression>) -> Expression {
    variadic(code::COND, cases)
}

/// A variable and its value, for [`exp_let`].
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    name: Box<str>,
    value: Expression,
}

/// Names a value. Names are of letters, digits and underscores, without a digit in front.
#[must_use]
pub fn def(name: &str, value: impl Into<Expression>) -> Definition {
    Definition {
        name: name.into(),
        value: value.into(),
    }
}

/// A value that may use variables. A definition may use those before it.
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

/// The value of a variable that [`exp_let`] defines.
#[must_use]
pub fn var(name: &str) -> Expression {
    Operands::new().raw(name).of(code::VAR)
}
