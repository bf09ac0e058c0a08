//! Paths that may choose several elements a level: their steps, and the calls that follow them.

use bitflags::bitflags;

use super::super::code::{self, CALL_MODIFIES};
use super::super::{ExpType, Expression};
use super::call::{COLLECTIONS, call_on, encoded_path};
use super::{Operands, builders};
use crate::call::level::{AND, BY_EXPRESSION, BY_KEYS, IN_MAP};
use crate::call::{CALL_SELECT, Context};
use crate::value::msgpack::{write_array_header, write_int};
use crate::value::{EncodePurpose, Value, encode};

/// A property of the element that a path has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LoopVariable {
    /// The key of a map's entry; unknown in a list.
    Key = 0,
    /// The element of a list, or the value of a map's entry.
    Value = 1,
    /// The position in a list; unknown in a map.
    Index = 2,
}

/// Returns a property of the element that a path has reached; unknown if it has another type.
#[must_use]
pub fn loop_var(part: LoopVariable, kind: ExpType) -> Expression {
    Operands::new()
        .int(kind as i64)
        .int(part as i64)
        .of(code::VAR_BUILTIN)
}

builders! {
    /// Removes the element that a path has reached, in place of a new value. Unknown anywhere else.
    result_remove() RESULT_REMOVE;
}

/// One level of a path: chooses elements of a list or entries of a map. A [`Context`] is a level
/// that chooses one.
#[derive(Clone, Debug, PartialEq)]
pub struct PathStep {
    /// The kind and the value.
    encoded: Result<Vec<u8>, Box<str>>,
    and: Option<Expression>,
}

impl PathStep {
    /// Chooses all elements.
    #[must_use]
    pub fn all() -> Self {
        Self::new(BY_EXPRESSION, |out| {
            out.push(0xc3);
            Ok(())
        })
    }

    /// Chooses the elements for which a condition is true. The condition sees them by [`loop_var`],
    /// and nothing else of the record.
    #[must_use]
    pub fn matching(condition: impl Into<Expression>) -> Self {
        let condition = condition.into();
        Self::new(BY_EXPRESSION, |out| {
            out.extend_from_slice(condition.encoded()?);
            Ok(())
        })
    }

    /// Chooses the entries of a map with these keys.
    #[must_use]
    pub fn keys(keys: Vec<Value>) -> Self {
        Self::new(IN_MAP | BY_KEYS, |out| {
            encode(&Value::List(keys.into()), EncodePurpose::Lookup, out)
                .map_err(|error| error.to_string().into())
        })
    }

    /// Narrows the choice to elements for which a condition is true. Applies once per step, and not
    /// to [`PathStep::all`] and [`PathStep::matching`].
    #[must_use]
    pub fn and(self, condition: impl Into<Expression>) -> Self {
        Self {
            and: Some(condition.into()),
            ..self
        }
    }

    fn new(kind: i64, write: impl FnOnce(&mut Vec<u8>) -> Result<(), Box<str>>) -> Self {
        let mut out = Vec::new();
        write_int(&mut out, kind);
        Self {
            encoded: write(&mut out).map(|()| out),
            and: None,
        }
    }
}

impl From<Context> for PathStep {
    fn from(context: Context) -> Self {
        let path = encoded_path(&[context]);
        // Without the head of the list.
        let encoded = path.map(|path| path.get(1..).unwrap_or_default().to_vec());
        Self { encoded, and: None }
    }
}

/// The form of a selection's result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathResult {
    /// The list or map, reduced to the elements that the path reaches.
    #[default]
    Tree = 0,
    /// The elements that the path reaches, as a list.
    Values = 1,
    /// The keys of the entries that the path reaches, as a list.
    Keys = 2,
    /// The keys and values of the entries that the path reaches, in turn, as a list.
    KeysAndValues = 3,
}

bitflags! {
    /// Options for following a path.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PathFlags: u32 {
        /// Treats an unknown condition as false, keeps an element if its new value is unknown, and
        /// skips lists where keys are selected.
        const NO_FAIL = 0x10;
    }
}

const APPLY: i64 = 4;

/// Encodes a selection that returns elements.
pub(crate) fn selection(
    result: PathResult,
    flags: PathFlags,
    steps: impl IntoIterator<Item = PathStep>,
) -> Result<Vec<u8>, Box<str>> {
    Operands::new()
        .encoded(path(steps))
        .int(result as i64 | i64::from(flags.bits()))
        .list(CALL_SELECT)
}

/// Encodes a selection that gives elements new values.
pub(crate) fn modification(
    value: &Expression,
    flags: PathFlags,
    steps: impl IntoIterator<Item = PathStep>,
) -> Result<Vec<u8>, Box<str>> {
    Operands::new()
        .encoded(path(steps))
        .int(APPLY | i64::from(flags.bits()))
        .operand(value)
        .list(CALL_SELECT)
}

fn path(steps: impl IntoIterator<Item = PathStep>) -> Result<Vec<u8>, Box<str>> {
    let mut elements = 0;
    let mut path = Vec::new();
    for PathStep { encoded, and } in steps {
        elements += 2;
        path.extend(encoded?);
        if let Some(condition) = and {
            elements += 2;
            write_int(&mut path, AND | BY_EXPRESSION);
            path.extend_from_slice(condition.encoded()?);
        }
    }
    let mut out = Vec::with_capacity(path.len() + 5);
    write_array_header(&mut out, elements);
    out.extend(path);
    Ok(out)
}

/// Returns the elements that a path reaches in a list or map. `kind` is the result's type for
/// [`PathResult::Tree`]; other results are lists.
#[must_use]
pub fn select_by_path(
    kind: ExpType,
    result: PathResult,
    flags: PathFlags,
    on: impl Into<Expression>,
    steps: impl IntoIterator<Item = PathStep>,
) -> Expression {
    let kind = match result {
        PathResult::Tree => kind,
        _ => ExpType::List,
    };
    call_on(kind, COLLECTIONS, selection(result, flags, steps), on)
}

/// Returns a list or map (`kind` says which) with a new value for each element that a path reaches;
/// [`result_remove`] as the new value removes the element.
#[must_use]
pub fn modify_by_path(
    kind: ExpType,
    value: impl Into<Expression>,
    flags: PathFlags,
    on: impl Into<Expression>,
    steps: impl IntoIterator<Item = PathStep>,
) -> Expression {
    let selection = modification(&value.into(), flags, steps);
    call_on(kind, COLLECTIONS | CALL_MODIFIES, selection, on)
}
