//! The items of encoded lists and maps.

use super::cost;
use crate::value::CodecError;
use crate::value::msgpack::element_len;

pub(crate) use crate::value::ItemShape;

impl ItemShape {
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
