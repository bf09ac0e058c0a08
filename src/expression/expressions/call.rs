//! Building calls: shared by the functions for lists, maps, bits and sketches.

use super::super::code::{self, CALL_MODIFIES};
use super::super::{ExpType, Expression};
use super::{Operands, nil};
use crate::call::{CALL_BELOW, Context, encode_path};
use crate::cdt::{ReturnKind, Returns};

/// A call under construction. Its arguments are expressions or plain integers.
pub(super) struct CallExpression {
    operation: u8,
    arguments: Operands,
}

impl CallExpression {
    pub(super) const fn new(operation: u8) -> Self {
        Self {
            operation,
            arguments: Operands::new(),
        }
    }

    /// Starts a call with the return type as first argument.
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

    /// Appends the begin of an interval; a missing one is open.
    pub(super) fn begin(self, begin: Option<Expression>) -> Self {
        self.with(begin.unwrap_or_else(nil))
    }

    /// Appends the end of an interval; a missing one is open.
    pub(super) fn end(self, end: Option<Expression>) -> Self {
        match end {
            Some(end) => self.with(end),
            None => self,
        }
    }

    /// Finishes the call of a system, which reads or writes.
    pub(super) fn of(
        self,
        system: i64,
        kind: ExpType,
        on: impl Into<Expression>,
        contexts: &[Context],
    ) -> Expression {
        let mut call = self.arguments.list(i64::from(self.operation));
        if !contexts.is_empty() {
            let path = encoded_path(contexts);
            call = Operands::new().encoded(path).encoded(call).list(CALL_BELOW);
        }
        call_on(kind, system, call, on)
    }

    /// Finishes a reading call of lists and maps.
    pub(super) fn read(
        self,
        kind: ExpType,
        on: impl Into<Expression>,
        contexts: &[Context],
    ) -> Expression {
        self.of(COLLECTIONS, kind, on, contexts)
    }

    /// Finishes a modifying call of lists and maps. It returns the outermost value: below contexts,
    /// its type may differ from the type that the operation works on.
    pub(super) fn modify(
        self,
        kind: ExpType,
        on: impl Into<Expression>,
        contexts: &[Context],
    ) -> Expression {
        let outer = contexts.first().map(Context::particle);
        let kind = outer.and_then(ExpType::of_particle).unwrap_or(kind);
        self.of(COLLECTIONS | CALL_MODIFIES, kind, on, contexts)
    }
}

/// Returns a path of contexts as calls have it.
pub(super) fn encoded_path(contexts: &[Context]) -> Result<Vec<u8>, Box<str>> {
    encode_path(contexts, 0)
        .map_err(|error| format!("a context cannot be encoded: {error:?}").into())
}

/// Returns the operation of an encoded call on a value.
pub(super) fn call_on(
    kind: ExpType,
    system: i64,
    call: Result<Vec<u8>, Box<str>>,
    on: impl Into<Expression>,
) -> Expression {
    Operands::new()
        .int(kind as i64)
        .int(system)
        .encoded(call)
        .operand(&on.into())
        .of(code::CALL)
}

pub(super) const COLLECTIONS: i64 = 0;

/// Returns the result type of a call on one element of type `value`.
pub(super) const fn kind_of_one(returns: Returns, value: ExpType) -> ExpType {
    match returns.kind {
        _ if returns.inverted => kind_of_many(returns),
        ReturnKind::Index
        | ReturnKind::ReverseIndex
        | ReturnKind::Rank
        | ReturnKind::ReverseRank => ExpType::Int,
        ReturnKind::Key | ReturnKind::Value => value,
        _ => kind_of_many(returns),
    }
}

/// Returns the result type of a call on several elements.
pub(super) const fn kind_of_many(returns: Returns) -> ExpType {
    match returns.kind {
        ReturnKind::None => ExpType::Nil,
        ReturnKind::Count => ExpType::Int,
        ReturnKind::Exists => ExpType::Bool,
        ReturnKind::KeyValue | ReturnKind::UnorderedMap | ReturnKind::OrderedMap => ExpType::Map,
        _ => ExpType::List,
    }
}

/// Defines functions that return a changed list or map. A row has the function, the number, the
/// arguments, and how the policy follows them.
macro_rules! changing {
    ($kind:ident $on:ident $policy:ident; $($(#[$doc:meta])* $name:ident $code:ident($($argument:ident),*) $with:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(
            policy: &$policy,
            $($argument: impl Into<Expression>,)*
            $on: impl Into<Expression>,
            contexts: &[Context],
        ) -> Expression {
            let call = CallExpression::new(code::$code)$(.with($argument))*;
            $with(call, policy).modify(ExpType::$kind, $on, contexts)
        }
    )*};
}

/// Returns the type of an argument, or appends the argument to a call.
macro_rules! argument {
    (begin) => { Option<Expression> };
    (end) => { Option<Expression> };
    ($other:ident) => { impl Into<Expression> };
    ($call:ident begin $begin:ident) => { $call.begin($begin) };
    ($call:ident end $end:ident) => { $call.end($end) };
    ($call:ident $other:ident $argument:ident) => { $call.with($argument) };
}

/// Makes a function that selects elements and returns facts about them.
macro_rules! selecting {
    (Index($arg:ident) $($row:tt)*) => { selecting! { @one $arg $($row)* } };
    (Rank($arg:ident) $($row:tt)*) => { selecting! { @one $arg $($row)* } };
    (Key($arg:ident) $($row:tt)*) => { selecting! { @one $arg $($row)* } };
    (@one $arg:ident $name:ident $code:ident $returns:ident $doc:expr) => {
        #[doc = $doc]
        ///
        /// `value_type` is the type of the key or value, for return types that include it.
        #[must_use]
        pub fn $name(
            returns: impl Into<$returns>,
            value_type: ExpType,
            $arg: impl Into<Expression>,
            on: impl Into<Expression>,
            contexts: &[Context],
        ) -> Expression {
            let returns: $returns = returns.into();
            let returns = Returns::from(returns);
            let call = CallExpression::returning(code::$code, returns).with($arg);
            call.read(kind_of_one(returns, value_type), on, contexts)
        }
    };
    ($selector:ident($($arg:ident),*) $name:ident $code:ident $returns:ident $doc:expr) => {
        #[doc = $doc]
        #[must_use]
        pub fn $name(
            returns: impl Into<$returns>,
            $($arg: argument!($arg),)*
            on: impl Into<Expression>,
            contexts: &[Context],
        ) -> Expression {
            let returns: $returns = returns.into();
            let returns = Returns::from(returns);
            let call = CallExpression::returning(code::$code, returns);
            $(let call = argument!(call $arg $arg);)*
            call.read(kind_of_many(returns), on, contexts)
        }
    };
}

/// Makes a function that returns a list or map with the selected elements removed.
macro_rules! removing {
    ($selector:ident($($arg:ident),*) $name:ident $code:ident $kind:ident $doc:expr) => {
        #[doc = $doc]
        #[must_use]
        pub fn $name(
            $($arg: argument!($arg),)*
            on: impl Into<Expression>,
            contexts: &[Context],
        ) -> Expression {
            let call = CallExpression::returning(code::$code, Returns::NOTHING);
            $(let call = argument!(call $arg $arg);)*
            call.modify(ExpType::$kind, on, contexts)
        }
    };
}

/// Makes, for each row, a function that selects elements and one that returns the collection with
/// them removed.
macro_rules! reading_and_removing {
    ($collection:literal $kind:ident $returns:ident; $($get:ident $get_code:ident, $remove:ident $remove_code:ident, $selector:ident $arguments:tt, $what:literal, $costs:literal;)*) => {
        $(
            selecting! {
                $selector $arguments $get $get_code $returns
                concat!("Selects ", $what, "; `returns` chooses the result.")
            }
            removing! {
                $selector $arguments $remove $remove_code $kind
                concat!("The ", $collection, " without ", $what, ".")
            }
        )*
    };
}

pub(super) use {argument, changing, reading_and_removing, removing, selecting};
