//! Contexts: the way from a bin into the lists and maps that are nested in it.
//!
//! Each context is one level. [`Operation::with_context`](crate::Operation::with_context) lets an operation on a list or
//! map apply to what the contexts lead to. A level costs one look-up in its list or map, without persisted index.

use crate::call::CallError;
use crate::value::msgpack::{write_array_header, write_int};
use crate::value::{CodecError, ListOrder, MapOrder, Purpose, Value, encode};

const LIST_INDEX: i64 = 0x10;
const LIST_RANK: i64 = 0x11;
const LIST_VALUE: i64 = 0x13;
const MAP_INDEX: i64 = 0x20;
const MAP_RANK: i64 = 0x21;
const MAP_KEY: i64 = 0x22;
const MAP_VALUE: i64 = 0x23;

const CREATE_UNORDERED: i64 = 0x40;
const CREATE_PADDED_OR_BY_KEY: i64 = 0x80;
const CREATE_ORDERED: i64 = 0xc0;

/// One level of the way into nested lists and maps: an element of a list, or the value of an entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    kind: i64,
    value: Value,
}

/// Whether an unordered list is filled with nil up to the position of an element that is to be created in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListPad {
    /// It is not: a position beyond the end is an error.
    #[default]
    Bounded,
    /// It is.
    Padded,
}

impl ListPad {
    /// The bits of a context that create a list.
    pub(crate) const fn create_bits(self, order: ListOrder) -> i64 {
        match (order, self) {
            (ListOrder::Ordered, _) => CREATE_ORDERED,
            (ListOrder::Unordered, Self::Bounded) => CREATE_UNORDERED,
            (ListOrder::Unordered, Self::Padded) => CREATE_PADDED_OR_BY_KEY,
        }
    }
}

/// The bits of a context that create a map.
pub(crate) const fn create_bits(order: MapOrder) -> i64 {
    match order {
        MapOrder::Unordered => CREATE_UNORDERED,
        MapOrder::KeyOrdered => CREATE_PADDED_OR_BY_KEY,
        MapOrder::KeyValueOrdered => CREATE_ORDERED,
    }
}

fn context(kind: i64, value: impl Into<Value>) -> Context {
    Context {
        kind,
        value: value.into(),
    }
}

/// The element at a position; a negative one counts from the end.
#[must_use]
pub fn list_index(index: i64) -> Context {
    context(LIST_INDEX, index)
}

/// The element at a position, which is created if it is missing: as a list or map, by what follows. If the list itself is
/// missing, it gets this order. An ordered list puts the new element to its place.
#[must_use]
pub fn list_index_create(index: i64, order: ListOrder, pad: ListPad) -> Context {
    context(LIST_INDEX | pad.create_bits(order), index)
}

/// The element of a rank; -1 is the greatest.
#[must_use]
pub fn list_rank(rank: i64) -> Context {
    context(LIST_RANK, rank)
}

/// The first element equal to a value.
#[must_use]
pub fn list_value(value: impl Into<Value>) -> Context {
    context(LIST_VALUE, value)
}

/// The value of the entry at a position in the order of keys.
#[must_use]
pub fn map_index(index: i64) -> Context {
    context(MAP_INDEX, index)
}

/// The value of the entry of a rank in the order of values.
#[must_use]
pub fn map_rank(rank: i64) -> Context {
    context(MAP_RANK, rank)
}

/// The value of a key.
#[must_use]
pub fn map_key(key: impl Into<Value>) -> Context {
    context(MAP_KEY, key)
}

/// The value of a key, which is created if it is missing: as a list or map, by what follows. If the map itself is
/// missing, it gets this order.
#[must_use]
pub fn map_key_create(key: impl Into<Value>, order: MapOrder) -> Context {
    context(MAP_KEY | create_bits(order), key)
}

/// The first value equal to `value`, in the order of keys.
#[must_use]
pub fn map_value(value: impl Into<Value>) -> Context {
    context(MAP_VALUE, value)
}

/// The encoded path of contexts. The last one creates what it names if `create` has bits for that.
pub(crate) fn encode_path(contexts: &[Context], create: i64) -> Result<Vec<u8>, CallError> {
    let elements = u32::try_from(contexts.len())
        .ok()
        .and_then(|levels| levels.checked_mul(2))
        .ok_or(CallError::Argument(CodecError::TooLong))?;
    let mut out = Vec::with_capacity(contexts.len() * 8 + 5);
    write_array_header(&mut out, elements);
    for (at, Context { kind, value }) in contexts.iter().enumerate() {
        let creates = at + 1 == contexts.len() && matches!(*kind, LIST_INDEX | MAP_KEY);
        write_int(&mut out, kind | if creates { create } else { 0 });
        encode(value, Purpose::Lookup, &mut out).map_err(CallError::Argument)?;
    }
    Ok(out)
}
