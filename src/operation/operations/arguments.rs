//! What the constructors of operations on lists and maps share.

use super::super::Operation;
use crate::call::CallSystem;
use crate::call::CallWriter;
use crate::cdt::Returns;
use crate::value::{Purpose, Value};

/// An operation that reads a list or map.
pub(super) fn read(bin: &str, call: CallWriter) -> Operation {
    Operation::on_call(bin, CallSystem::Collections, false, call.finish())
}

/// An operation that changes a list or map.
pub(super) fn write(bin: &str, call: CallWriter) -> Operation {
    Operation::on_call(bin, CallSystem::Collections, true, call.finish())
}

/// The arguments that operations on lists and maps have.
pub(super) trait CollectionArguments {
    /// What to return.
    fn returns(self, returns: impl Into<Returns>) -> Self;
    /// A value that will be stored.
    fn stored(self, value: impl Into<Value>) -> Self;
    /// A value that is looked for.
    fn sought(self, value: impl Into<Value>) -> Self;
    /// Begin and end of an interval, both of them open if they are missing.
    fn interval(self, begin: Option<Value>, end: Option<Value>) -> Self;
}

impl CollectionArguments for CallWriter {
    fn returns(self, returns: impl Into<Returns>) -> Self {
        self.uint(returns.into().code())
    }

    fn stored(self, value: impl Into<Value>) -> Self {
        self.value(&value.into(), Purpose::Storage)
    }

    fn sought(self, value: impl Into<Value>) -> Self {
        self.value(&value.into(), Purpose::Lookup)
    }

    fn interval(self, begin: Option<Value>, end: Option<Value>) -> Self {
        let begun = self.sought(begin.unwrap_or(Value::Nil));
        match end {
            Some(end) => begun.sought(end),
            None => begun,
        }
    }
}
