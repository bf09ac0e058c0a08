//! Contexts: the way from a bin into the lists and maps that are nested in it.
//!
//! Each context is one level. [`Operation::in_context`](crate::Operation::in_context) lets an
//! operation on a list or map apply to what the contexts lead to. A level costs one look-up in its
//! list or map, without persisted index.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::operations::{ctx, lists};
//! use spikelet::{ListPolicy, MapOrder};
//!
//! let users = spikelet::Store::in_memory()?.set("users")?;
//! let add = lists::append(&ListPolicy::default(), "phones", "555-1234")
//!     .in_context([ctx::map_key_create("home", MapOrder::KeyOrdered)]);
//! users.operate("alice", &[add])?;
//! let first = lists::get("phones", 0).in_context([ctx::map_key("home")]);
//! let result = users.operate("alice", &[first])?;
//! assert_eq!(result.value(0), Some(&"555-1234".into()));
//! # Ok(())
//! # }
//! ```

use crate::call::context::{
    LIST_INDEX, LIST_RANK, LIST_VALUE, MAP_INDEX, MAP_KEY, MAP_RANK, MAP_VALUE, create_bits,
};
use crate::value::{ListOrder, MapOrder, Value};

pub use crate::call::context::{Context, ListPad};

/// The element at a position; a negative one counts from the end.
#[must_use]
pub fn list_index(index: i64) -> Context {
    Context::new(LIST_INDEX, index)
}

/// The element at a position, which is created if it is missing: as a list or map, by what follows.
/// If the list itself is missing, it gets this order. An ordered list puts the new element to its
/// place.
#[must_use]
pub fn list_index_create(index: i64, order: ListOrder, pad: ListPad) -> Context {
    Context::new(LIST_INDEX | pad.create_bits(order), index)
}

/// The element of a rank; -1 is the greatest.
#[must_use]
pub fn list_rank(rank: i64) -> Context {
    Context::new(LIST_RANK, rank)
}

/// The first element equal to a value.
#[must_use]
pub fn list_value(value: impl Into<Value>) -> Context {
    Context::new(LIST_VALUE, value)
}

/// The value of the entry at a position in the order of keys.
#[must_use]
pub fn map_index(index: i64) -> Context {
    Context::new(MAP_INDEX, index)
}

/// The value of the entry of a rank in the order of values.
#[must_use]
pub fn map_rank(rank: i64) -> Context {
    Context::new(MAP_RANK, rank)
}

/// The value of a key.
#[must_use]
pub fn map_key(key: impl Into<Value>) -> Context {
    Context::new(MAP_KEY, key)
}

/// The value of a key, which is created if it is missing: as a list or map, by what follows. If the
/// map itself is missing, it gets this order.
#[must_use]
pub fn map_key_create(key: impl Into<Value>, order: MapOrder) -> Context {
    Context::new(MAP_KEY | create_bits(order), key)
}

/// The first value equal to `value`, in the order of keys.
#[must_use]
pub fn map_value(value: impl Into<Value>) -> Context {
    Context::new(MAP_VALUE, value)
}
