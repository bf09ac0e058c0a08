//! The common ground of lists and maps: both are rows of items, and differ only in the form of an
//! item.

use super::cost;
use crate::value::msgpack::element_len;
use crate::value::{
    CodecError, FLAG_ORDERED, FLAG_PERSIST_INDEX, FLAG_VALUE_ORDERED, ParticleType,
};

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

    /// Returns the length in bytes of the item at the front.
    #[inline]
    pub(super) fn item_len(self, bytes: &[u8]) -> Result<usize, CodecError> {
        let first = element_len(bytes)?;
        match self {
            Self::List => Ok(first),
            Self::Map => Ok(first + element_len(bytes.get(first..).unwrap_or_default())?),
        }
    }

    /// Returns the bytes from the value of the item at the front on.
    #[inline]
    pub(super) fn value_of(self, item: &[u8]) -> &[u8] {
        match self {
            Self::List => item,
            Self::Map => {
                let key = element_len(item).unwrap_or(item.len());
                item.get(key..).unwrap_or_default()
            }
        }
    }

    /// Returns the valid flags of this shape.
    pub(super) const fn legal_flags(self) -> u8 {
        match self {
            Self::List => FLAG_ORDERED | FLAG_PERSIST_INDEX,
            Self::Map => FLAG_ORDERED | FLAG_VALUE_ORDERED | FLAG_PERSIST_INDEX,
        }
    }

    /// Reduces a client's flags to valid ones; an order by value implies the order by key.
    pub(super) const fn flags(self, given: u64) -> u8 {
        let flags = (given & 0xff) as u8 & self.legal_flags();
        if flags & FLAG_VALUE_ORDERED != 0 {
            flags | FLAG_ORDERED
        } else {
            flags
        }
    }
}

/// Iterates over the encoded lengths of consecutive items.
pub(super) fn item_lens(shape: ItemShape, mut bytes: &[u8]) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        cost::visit();
        let len = shape.item_len(bytes).ok()?;
        bytes = bytes.get(len..)?;
        Some(len)
    })
}
