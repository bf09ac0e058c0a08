//! What the functions for calls share.

use super::super::code::{self, CALL_BELOW, CALL_MODIFIES};
use super::super::{ExpType, Expression};
use super::{Operands, nil};
use crate::call::{Context, encode_path};
use crate::cdt::Returns;
use crate::value::msgpack::{Reader, Token};

/// A call under way: its arguments are expressions, or integers that are none.
pub(super) struct Call {
    operation: u8,
    arguments: Operands,
}

impl Call {
    pub(super) const fn new(operation: u8) -> Self {
        Self {
            operation,
            arguments: Operands::new(),
        }
    }

    /// A call whose first argument says what to return.
    pub(super) fn returning(operation: u8, returns: Returns) -> Self {
        Self::new(operation).uint(returns.code())
    }

    pub(super) fn with(mut self, argument: impl Into<Expression>) -> Self {
        self.arguments = self.arguments.operand(&argument.into());
        self
    }

    pub(super) fn uint(mut self, value: u64) -> Self {
        self.arguments = self.arguments.int(value.cast_signed());
        self
    }

    /// Begin and end of an interval, both of them open if they are missing.
    pub(super) fn interval(self, begin: Option<Expression>, end: Option<Expression>) -> Self {
        let begun = self.with(begin.unwrap_or_else(nil));
        match end {
            Some(end) => begun.with(end),
            None => begun,
        }
    }

    /// The call of a system, that reads or writes.
    pub(super) fn of(
        self,
        system: i64,
        kind: ExpType,
        on: impl Into<Expression>,
        contexts: &[Context],
    ) -> Expression {
        let mut call = self.arguments.list(i64::from(self.operation));
        if !contexts.is_empty() {
            let path = encode_path(contexts, 0)
                .map_err(|error| format!("a context cannot be encoded: {error:?}").into());
            call = Operands::new().encoded(path).encoded(call).list(CALL_BELOW);
        }
        Operands::new()
            .int(kind as i64)
            .int(system)
            .encoded(call)
            .operand(&on.into())
            .of(code::CALL)
    }

    /// A call of lists and maps that reads.
    pub(super) fn read(
        self,
        kind: ExpType,
        on: impl Into<Expression>,
        contexts: &[Context],
    ) -> Expression {
        self.of(COLLECTIONS, kind, on, contexts)
    }

    /// A call of lists and maps that modifies. Its value is what it is called on, which below contexts need not be of
    /// the type that the operation is for.
    pub(super) fn modify(
        self,
        kind: ExpType,
        on: impl Into<Expression>,
        contexts: &[Context],
    ) -> Expression {
        let kind = outermost(contexts).unwrap_or(kind);
        self.of(COLLECTIONS | CALL_MODIFIES, kind, on, contexts)
    }
}

const COLLECTIONS: i64 = 0;
/// The bits of a context for lists, and for maps.
const IN_LIST: i64 = 0x10;
const IN_MAP: i64 = 0x20;

/// The type of what the first context leads into.
fn outermost(contexts: &[Context]) -> Option<ExpType> {
    let path = encode_path(contexts.get(..1)?, 0).ok()?;
    let mut reader = Reader::new(&path);
    match (reader.token(), reader.token()) {
        (Ok(Token::Array(_)), Ok(Token::Int(kind))) if kind & IN_LIST != 0 => Some(ExpType::List),
        (Ok(Token::Array(_)), Ok(Token::Int(kind))) if kind & IN_MAP != 0 => Some(ExpType::Map),
        _ => None,
    }
}

/// The low bits of an encoded return type say what is returned.
const WHAT: u64 = 0xffff;

/// The type of what is returned about one element, whose own type is `value`.
pub(super) const fn kind_of_one(returns: Returns, value: ExpType) -> ExpType {
    match returns.code() & WHAT {
        // Index or rank, from either end.
        1..=4 if !returns.inverted => ExpType::Int,
        // Key or value.
        6 | 7 if !returns.inverted => value,
        _ => kind_of_many(returns),
    }
}

/// The type of what is returned about several elements.
pub(super) const fn kind_of_many(returns: Returns) -> ExpType {
    match returns.code() & WHAT {
        // Nothing, a count, whether there are any.
        0 => ExpType::Nil,
        5 => ExpType::Int,
        13 => ExpType::Bool,
        // Entries of maps.
        8 | 16 | 17 => ExpType::Map,
        _ => ExpType::List,
    }
}
