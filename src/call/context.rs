//! Contexts as users write them, and their encoding as a path.

use super::CallError;
use crate::value::msgpack::{write_array_header, write_int};
use crate::value::{CodecError, EncodePurpose, ListOrder, MapOrder, Value, encode};

pub(crate) const LIST_INDEX: i64 = 0x10;
pub(crate) const LIST_RANK: i64 = 0x11;
pub(crate) const LIST_VALUE: i64 = 0x13;
pub(crate) const MAP_INDEX: i64 = 0x20;
pub(crate) const MAP_RANK: i64 = 0x21;
pub(crate) const MAP_KEY: i64 = 0x22;
pub(crate) const MAP_VALUE: i64 = 0x23;

const CREATE_UNORDERED: i64 = 0x40;
const CREATE_PADDED_OR_BY_KEY: i64 = 0x80;
const CREATE_ORDERED: i64 = 0xc0;

/// One level of a path into nested lists and maps: an element of a list, or the value of a map's
/// entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    kind: i64,
    value: Value,
}

impl Context {
    pub(crate) fn new(kind: i64, value: impl Into<Value>) -> Self {
        Self {
            kind,
            value: value.into(),
        }
    }
}

/// The filling of an unordered list with nil, up to the position of an element to be created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListPad {
    /// No filling: a position beyond the end is an error.
    #[default]
    Bounded,
    /// Filling with nil up to the position.
    Padded,
}

impl ListPad {
    /// Returns the bits of a context that create a list.
    pub(crate) const fn create_bits(self, order: ListOrder) -> i64 {
        match (order, self) {
            (ListOrder::Ordered, _) => CREATE_ORDERED,
            (ListOrder::Unordered, Self::Bounded) => CREATE_UNORDERED,
            (ListOrder::Unordered, Self::Padded) => CREATE_PADDED_OR_BY_KEY,
        }
    }
}

/// Returns the bits of a context that create a map.
pub(crate) const fn create_bits(order: MapOrder) -> i64 {
    match order {
        MapOrder::Unordered => CREATE_UNORDERED,
        MapOrder::KeyOrdered => CREATE_PADDED_OR_BY_KEY,
        MapOrder::KeyValueOrdered => CREATE_ORDERED,
    }
}

/// Encodes a path of contexts. `create` has the bits with which the last level creates its value.
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
        encode(value, EncodePurpose::Lookup, &mut out).map_err(CallError::Argument)?;
    }
    Ok(out)
}
