//! The naive model of lists and maps: every rule of semantics.md about them on decoded values, with
//! whole copies, linear searches and full sorts, so that each rule can be seen to be right.
//!
//! * `call`: an operation, and the path to its list or map.
//! * `order`: how two values compare (semantics.md#order-of-values).
//! * `reply`: the picked elements, and the reply about them (semantics.md#return-types).
//! * `lists`, `maps`: the operations (semantics.md#lists-operations, semantics.md#maps-operations).
//! * `path`: which list or map an operation is for, and how a missing one is made
//!   (semantics.md#contexts-what-they-create).

pub mod call;
mod lists;
mod maps;
mod order;
mod path;
mod reply;

use spikelet::Value;

pub use path::apply;

/// Aerospike's number of an error.
pub type Code = u8;

/// The call itself is wrong.
pub const PARAMETER: Code = 4;
/// The bin's type does not fit.
pub const WRONG_TYPE: Code = 12;
/// A key that must be there is not.
pub const NOT_THERE: Code = 23;
/// An element or key that must not be there is.
pub const THERE: Code = 24;
/// The operation does not apply to the value as it is.
pub const NOT_APPLICABLE: Code = 26;

/// A bin: its value, and whether the list or map in it has a persisted index (which never shows in
/// the value).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bin {
    pub value: Option<Value>,
    pub persist: bool,
}

impl Bin {
    /// A bin as a whole-bin write leaves it.
    pub fn of(value: Value) -> Self {
        let value = (value != Value::Nil).then(|| normal(value));
        Self {
            value,
            persist: false,
        }
    }
}

/// A value in the order in which it is stored (semantics.md#normal-form): entries by key, and the
/// elements of ordered lists sorted.
pub fn normal(value: Value) -> Value {
    match value {
        Value::List(list) => lists::List::of(list).into_value(),
        Value::Map(map) => maps::Map::of(map).into_value(),
        scalar => scalar,
    }
}
