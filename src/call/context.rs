//! Contexts as users write them, and their encoding as a path.

use super::CallError;
use super::level::{
    BY_INDEX, BY_KEY, BY_RANK, BY_VALUE, CREATES_ORDERED, CREATES_PADDED_OR_BY_KEY,
    CREATES_UNORDERED, IN_LIST, IN_MAP,
};
use crate::value::msgpack::{write_array_header, write_int};
use crate::value::{CodecError, EncodePurpose, ListOrder, MapOrder, ParticleType, Value, encode};

pub(crate) const LIST_INDEX: i64 = IN_LIST | BY_INDEX;
pub(crate) const LIST_RANK: i64 = IN_LIST | BY_RANK;
pub(crate) const LIST_VALUE: i64 = IN_LIST | BY_VALUE;
pub(crate) const MAP_INDEX: i64 = IN_MAP | BY_INDEX;
pub(crate) const MAP_RANK: i64 = IN_MAP | BY_RANK;
pub(crate) const MAP_KEY: i64 = IN_MAP | BY_KEY;
pub(crate) const MAP_VALUE: i64 = IN_MAP | BY_VALUE;

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

    /// Returns the type of the list or map in which the level looks.
    pub(crate) const fn particle(&self) -> ParticleType {
        if self.kind & IN_LIST == 0 {
            ParticleType::Map
        } else {
            ParticleType::List
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
            (ListOrder::Ordered, _) => CREATES_ORDERED,
            (ListOrder::Unordered, Self::Bounded) => CREATES_UNORDERED,
            (ListOrder::Unordered, Self::Padded) => CREATES_PADDED_OR_BY_KEY,
        }
    }
}

/// Returns the bits of a context that create a map.
pub(crate) const fn create_bits(order: MapOrder) -> i64 {
    match order {
        MapOrder::Unordered => CREATES_UNORDERED,
        MapOrder::KeyOrdered => CREATES_PADDED_OR_BY_KEY,
        MapOrder::KeyValueOrdered => CREATES_ORDERED,
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
