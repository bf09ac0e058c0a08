//! Comparisons, logic, choice, variables.

use bitflags::bitflags;

use super::super::Expression;
use super::{Operands, builders};
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

builders! {
    /// Returns the unknown value. It fits where any type is expected.
    unknown() UNKNOWN;

    /// Tests whether two values of one type are equal. Unknown for values without an order:
    /// sketches, GeoJSON, and containers that hold a map not ordered by key.
    eq(a, b) EQ;

    /// Tests whether two values of one type differ.
    ne(a, b) NE;

    /// Tests whether `a` is greater than `b`.
    gt(a, b) GT;

    /// Tests whether `a` is greater than or equal to `b`.
    ge(a, b) GE;

    /// Tests whether `a` is less than `b`.
    lt(a, b) LT;

    /// Tests whether `a` is less than or equal to `b`.
    le(a, b) LE;
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

builders! {
    /// Tests whether one of two geometries is a point and the other a region that contains it.
    geo_compare(a, b) GEO;

    /// Tests whether a list has an element equal to a value. O(elements).
    in_list(value, list) IN_LIST;

    /// Returns the keys of a map as a list, in order.
    map_keys(map) MAP_KEYS;

    /// Returns the values of a map as a list, in the order of the keys.
    map_values(map) MAP_VALUES;

    /// Tests whether all of two or more operands are true. A false operand decides, even beside an
    /// unknown one.
    and(operands..) AND;

    /// Tests whether any of two or more operands is true. A true operand decides, even beside an
    /// unknown one.
    or(operands..) OR;

    /// Negates a truth value.
    not(operand) NOT;

    /// Tests whether exactly one of two or more operands is true.
    xor(operands..) EXCLUSIVE;

    /// Takes conditions and values in turn, then a default. Returns the value of the first
    /// condition that is true.
    cond(operands..) COND;
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
