//! The common part of lists and maps: both are rows of items, and differ only in the form of an
//! item.

use super::ParticleType;
use super::msgpack::{Token, write_array_header, write_map_header};

/// The elements are kept in order (lists: by value, maps: by key).
pub(crate) const FLAG_ORDERED: u8 = 0x01;
/// A map is also ordered by value.
pub(crate) const FLAG_VALUE_ORDERED: u8 = 0x02;
/// The top-level container carries index data.
pub(crate) const FLAG_PERSIST_INDEX: u8 = 0x10;

/// The form of the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemShape {
    /// The elements of a list.
    List,
    /// Keys with their values, in the order of the keys.
    Map,
}

impl ItemShape {
    /// Returns the type of a bin that holds it.
    pub(crate) const fn kind(self) -> ParticleType {
        match self {
            Self::List => ParticleType::List,
            Self::Map => ParticleType::Map,
        }
    }

    /// Returns the shape of a value of this type, if it is a list or map.
    pub(crate) const fn of_kind(kind: ParticleType) -> Option<Self> {
        match kind {
            ParticleType::List => Some(Self::List),
            ParticleType::Map => Some(Self::Map),
            _ => None,
        }
    }

    /// Returns the shape of an encoded element, if it is a list or map.
    pub(crate) fn of_element(element: &[u8]) -> Option<Self> {
        match element.first() {
            Some(0x90..=0x9f | 0xdc | 0xdd) => Some(Self::List),
            Some(0x80..=0x8f | 0xde | 0xdf) => Some(Self::Map),
            _ => None,
        }
    }

    /// Appends a header with a count.
    #[inline]
    pub(crate) fn write_header(self, out: &mut Vec<u8>, count: u32) {
        match self {
            Self::List => write_array_header(out, count),
            Self::Map => write_map_header(out, count),
        }
    }

    /// Returns the shape that a header begins, and its count.
    #[inline]
    pub(crate) const fn of_token(token: &Token<'_>) -> Option<(Self, u32)> {
        match token {
            Token::Array(count) => Some((Self::List, *count)),
            Token::Map(count) => Some((Self::Map, *count)),
            _ => None,
        }
    }

    /// Returns the valid flags of this shape.
    pub(crate) const fn legal_flags(self) -> u8 {
        match self {
            Self::List => FLAG_ORDERED | FLAG_PERSIST_INDEX,
            Self::Map => FLAG_ORDERED | FLAG_VALUE_ORDERED | FLAG_PERSIST_INDEX,
        }
    }

    /// Reduces a client's flags to valid ones; an order by value implies the order by key.
    pub(crate) const fn flags(self, given: u64) -> u8 {
        let flags = (given & 0xff) as u8 & self.legal_flags();
        if flags & FLAG_VALUE_ORDERED != 0 {
            flags | FLAG_ORDERED
        } else {
            flags
        }
    }
}
