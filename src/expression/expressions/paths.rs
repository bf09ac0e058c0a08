//! Paths whose levels may choose several elements: what they are put together from, and calls by them.

use bitflags::bitflags;

use super::super::code::{self, CALL_MODIFIES, CALL_SELECT};
use super::super::{ExpType, Expression};
use super::{Operands, nullary};
use crate::call::{Context, encode_path};
use crate::value::msgpack::{write_array_header, write_int};
use crate::value::{Purpose, Value, encode};

/// Which part of an element is meant.
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

/// A part of the element that a path has led to, if it is of this type.
#[must_use]
pub fn loop_var(part: LoopVariable, kind: ExpType) -> Expression {
    Operands::new()
        .int(kind as i64)
        .int(part as i64)
        .of(code::VAR_BUILTIN)
}

/// Instead of a new value: the element that a path has led to is to be removed. Unknown anywhere else.
#[must_use]
pub fn result_remove() -> Expression {
    nullary(code::RESULT_REMOVE)
}

const BY_KEYS: i64 = 0x2a;
const BY_EXPRESSION: i64 = 0x04;
const AND: i64 = 0x204;

/// One level of a path: the elements of a list, or the entries of a map, that it goes on with. A [`Context`] is a level
/// that goes on with one.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Kind and value.
    encoded: Result<Vec<u8>, Box<str>>,
    and: Option<Expression>,
}

impl Step {
    /// All of them.
    #[must_use]
    pub fn all() -> Self {
        Self::new(BY_EXPRESSION, |out| {
            out.push(0xc3);
            Ok(())
        })
    }

    /// Those for which a condition is true; it knows them by [`loop_var`], and nothing else of the record.
    #[must_use]
    pub fn matching(condition: impl Into<Expression>) -> Self {
        let condition = condition.into();
        Self::new(BY_EXPRESSION, |out| {
            out.extend_from_slice(condition.encoded()?);
            Ok(())
        })
    }

    /// The entries of a map with these keys.
    #[must_use]
    pub fn keys(keys: Vec<Value>) -> Self {
        Self::new(BY_KEYS, |out| {
            encode(&Value::List(keys.into()), Purpose::Lookup, out)
                .map_err(|error| error.to_string().into())
        })
    }

    /// Those of them for which a condition is true, too. Once, and not for [`Step::all`] and [`Step::matching`].
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

impl From<Context> for Step {
    fn from(context: Context) -> Self {
        let encoded = match encode_path(&[context], 0) {
            // Behind the head of the list.
            Ok(path) => Ok(path.get(1..).unwrap_or_default().to_vec()),
            Err(error) => Err(format!("a context cannot be encoded: {error:?}").into()),
        };
        Self { encoded, and: None }
    }
}

/// What a selection returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PathResult {
    /// The list or map with nothing but what the path leads to.
    #[default]
    Tree = 0,
    /// What the path leads to, as a list.
    Values = 1,
    /// The keys of the entries that the path leads to, as a list.
    Keys = 2,
    /// The keys and values of the entries that the path leads to, in turn, as a list.
    KeysAndValues = 3,
}

bitflags! {
    /// How a path is followed.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct PathFlags: u32 {
        /// A condition that is unknown is false; a new value that is unknown changes nothing; where keys are asked for,
        /// lists are passed over.
        const NO_FAIL = 0x10;
    }
}

const APPLY: i64 = 4;

/// What a selection is encoded as: of elements.
pub(crate) fn selection(
    result: PathResult,
    flags: PathFlags,
    steps: impl IntoIterator<Item = Step>,
) -> Result<Vec<u8>, Box<str>> {
    Operands::new()
        .encoded(path(steps))
        .int(result as i64 | i64::from(flags.bits()))
        .list(CALL_SELECT)
}

/// The same: of elements that get new values.
pub(crate) fn modification(
    value: &Expression,
    flags: PathFlags,
    steps: impl IntoIterator<Item = Step>,
) -> Result<Vec<u8>, Box<str>> {
    Operands::new()
        .encoded(path(steps))
        .int(APPLY | i64::from(flags.bits()))
        .operand(value)
        .list(CALL_SELECT)
}

fn path(steps: impl IntoIterator<Item = Step>) -> Result<Vec<u8>, Box<str>> {
    let mut elements = 0;
    let mut path = Vec::new();
    for Step { encoded, and } in steps {
        elements += 2;
        path.extend(encoded?);
        if let Some(condition) = and {
            elements += 2;
            write_int(&mut path, AND);
            path.extend_from_slice(condition.encoded()?);
        }
    }
    let mut out = Vec::with_capacity(path.len() + 5);
    write_array_header(&mut out, elements);
    out.extend(path);
    Ok(out)
}

/// What a path leads to in a list or map. `kind` is the type of that for [`PathResult::Tree`]; the others are lists.
#[must_use]
pub fn select_by_path(
    kind: ExpType,
    result: PathResult,
    flags: PathFlags,
    on: impl Into<Expression>,
    steps: impl IntoIterator<Item = Step>,
) -> Expression {
    let kind = match result {
        PathResult::Tree => kind,
        _ => ExpType::List,
    };
    call(kind, 0, selection(result, flags, steps), on)
}

/// A list or map (`kind` says which) with a new value for each element that a path leads to, or without those for which
/// it is [`result_remove`].
#[must_use]
pub fn modify_by_path(
    kind: ExpType,
    value: impl Into<Expression>,
    flags: PathFlags,
    on: impl Into<Expression>,
    steps: impl IntoIterator<Item = Step>,
) -> Expression {
    let selection = modification(&value.into(), flags, steps);
    call(kind, CALL_MODIFIES, selection, on)
}

fn call(
    kind: ExpType,
    system: i64,
    selection: Result<Vec<u8>, Box<str>>,
    on: impl Into<Expression>,
) -> Expression {
    Operands::new()
        .int(kind as i64)
        .int(system)
        .encoded(selection)
        .operand(&on.into())
        .of(code::CALL)
}
