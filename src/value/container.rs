//! The head of an encoded list or map: count, flags, index data, start of the elements.

use super::msgpack::{EXT_SPECIAL, Token, TokenReader};
use super::{CodecError, ItemShape, MAX_NESTING};

/// The head of a container, parsed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container<'a> {
    /// Elements of a list, pairs of a map, not counting the flags.
    pub(crate) count: u32,
    pub(crate) flags: u8,
    /// Index data; empty when there is none.
    pub(crate) index: &'a [u8],
    /// The encoded elements. Bytes of the surrounding container may follow.
    pub(crate) content: &'a [u8],
}

impl<'a> Container<'a> {
    /// Parses the head of the list at the front of `bytes`.
    #[inline]
    pub(crate) fn list(bytes: &'a [u8]) -> Result<Self, CodecError> {
        // Fast path for short lists without an index, the most common ones.
        match bytes {
            [first @ 0x91..=0x9f, 0xc7, 0, flags, content @ ..] if *flags != EXT_SPECIAL => {
                let count = u32::from(first & 0x0f) - 1;
                Ok(Self::plain(count, *flags, content))
            }
            [first @ 0x91..=0x9f, content @ ..] if matches!(content, [0..=0xc0, ..]) => {
                Ok(Self::plain(u32::from(first & 0x0f), 0, content))
            }
            _ => Self::any(ItemShape::List, bytes),
        }
    }

    /// A head without index data.
    pub(super) const fn plain(count: u32, flags: u8, content: &'a [u8]) -> Self {
        Self {
            count,
            flags,
            index: &[],
            content,
        }
    }

    /// Parses the head of the map at the front of `bytes`.
    #[inline]
    pub(crate) fn map(bytes: &'a [u8]) -> Result<Self, CodecError> {
        match bytes {
            [first @ 0x81..=0x8f, 0xc7, 0, flags, 0xc0, content @ ..] if *flags != EXT_SPECIAL => {
                let count = u32::from(first & 0x0f) - 1;
                Ok(Self::plain(count, *flags, content))
            }
            _ => Self::any(ItemShape::Map, bytes),
        }
    }

    /// Parses the head of the list or map at the front of `bytes`.
    #[inline]
    pub(crate) fn of(shape: ItemShape, bytes: &'a [u8]) -> Result<Self, CodecError> {
        match shape {
            ItemShape::List => Self::list(bytes),
            ItemShape::Map => Self::map(bytes),
        }
    }

    #[inline(never)]
    fn any(shape: ItemShape, bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut reader = TokenReader::new(bytes);
        match ItemShape::of_token(&reader.token()?) {
            Some((found, count)) if found == shape => Self::read(shape, count, reader),
            _ => Err(CodecError::NotAContainer),
        }
    }

    /// Parses the rest of a head, after the header with the count. Flags and index data are an
    /// extension other than wildcard and infinity: the first element of a list; the first key of a
    /// map, with the value nil.
    #[inline(always)]
    pub(crate) fn read(
        shape: ItemShape,
        count: u32,
        reader: TokenReader<'a>,
    ) -> Result<Self, CodecError> {
        let starts_with_ext =
            count > 0 && matches!(reader.rest().first(), Some(0xc7..=0xc9 | 0xd4..=0xd8));
        let mut ahead = reader;
        if starts_with_ext
            && let Token::Ext(flags, index) = ahead.token()?
            && flags != EXT_SPECIAL
        {
            if shape == ItemShape::Map {
                ahead.element()?;
            }
            return Ok(Self {
                count: count - 1,
                flags,
                index,
                content: ahead.rest(),
            });
        }
        Ok(Self::plain(count, 0, reader.rest()))
    }

    /// Moves the reader to the elements, after checking depth and count.
    pub(super) fn enter(
        self,
        reader: &mut TokenReader<'a>,
        depth: u32,
    ) -> Result<Self, CodecError> {
        if depth >= MAX_NESTING {
            return Err(CodecError::TooDeep);
        }
        if self.count as usize > self.content.len() {
            return Err(CodecError::Truncated);
        }
        *reader = TokenReader::new(self.content);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{FLAG_ORDERED, FLAG_PERSIST_INDEX};

    #[test]
    fn flags_and_index_data_are_not_elements() {
        let list = Container::list(&[0x93, 0xc7, 2, 0x11, 7, 8, 1, 2]).unwrap();
        assert_eq!(
            (list.count, list.flags),
            (2, FLAG_ORDERED | FLAG_PERSIST_INDEX)
        );
        assert_eq!((list.index, list.content), (&[7, 8][..], &[1, 2][..]));
        let map = Container::map(&[0x82, 0xc7, 0, 0x01, 0xc0, 1, 2]).unwrap();
        assert_eq!(
            (map.count, map.flags, map.content),
            (1, FLAG_ORDERED, &[1, 2][..])
        );
    }

    #[test]
    fn short_heads_are_read_as_long_ones_are() {
        let lists: [&[u8]; 7] = [
            &[0x90],
            &[0x91, 0xc7, 0, 1],
            &[0x93, 0xc7, 0, 1, 1, 2],
            &[0x93, 0xc7, 0, 0xff, 1, 2],
            &[0x92, 1, 2],
            &[0x91, 0xd4, 0xff, 0],
            &[0x92, 0xc7],
        ];
        let maps: [&[u8]; 4] = [
            &[0x80],
            &[0x81, 0xc7, 0, 1, 0xc0],
            &[0x82, 0xc7, 0, 1, 0xc0, 1, 2],
            &[0x82, 0xc7, 0, 1, 7, 1, 2],
        ];
        let parts = |head: Result<Container<'_>, CodecError>| {
            head.map(|head| {
                (
                    head.count,
                    head.flags,
                    head.index.len(),
                    head.content.to_vec(),
                )
            })
        };
        for bytes in lists {
            let (short, long) = (
                Container::list(bytes),
                Container::any(ItemShape::List, bytes),
            );
            assert_eq!(parts(short), parts(long), "{bytes:x?}");
        }
        for bytes in maps {
            let (short, long) = (Container::map(bytes), Container::any(ItemShape::Map, bytes));
            assert_eq!(parts(short), parts(long), "{bytes:x?}");
        }
    }

    #[test]
    fn a_wildcard_in_front_is_an_element() {
        let list = Container::list(&[0x91, 0xd4, 0xff, 0]).unwrap();
        assert_eq!((list.count, list.flags), (1, 0));
    }
}
