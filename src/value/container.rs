//! The head of an encoded list or map: count, flags, index data, start of the elements.

use super::CodecError;
use super::msgpack::{EXT_SPECIAL, Token, TokenReader};

/// The elements are kept in order (lists: by value, maps: by key).
pub(crate) const FLAG_ORDERED: u8 = 0x01;
/// A map is also ordered by value.
pub(crate) const FLAG_VALUE_ORDERED: u8 = 0x02;
/// The top-level container carries index data.
pub(crate) const FLAG_PERSIST_INDEX: u8 = 0x10;

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
            _ => Self::any_list(bytes),
        }
    }

    const fn plain(count: u32, flags: u8, content: &'a [u8]) -> Self {
        Self {
            count,
            flags,
            index: &[],
            content,
        }
    }

    #[inline(never)]
    fn any_list(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut reader = TokenReader::new(bytes);
        match reader.token()? {
            Token::Array(count) => Self::of_list(count, reader),
            _ => Err(CodecError::NotAContainer),
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
            _ => Self::any_map(bytes),
        }
    }

    #[inline(never)]
    fn any_map(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let mut reader = TokenReader::new(bytes);
        match reader.token()? {
            Token::Map(count) => Self::of_map(count, reader),
            _ => Err(CodecError::NotAContainer),
        }
    }

    /// Parses the rest of a list's head, after the array header.
    pub(crate) fn of_list(count: u32, mut reader: TokenReader<'a>) -> Result<Self, CodecError> {
        let flags = Flags::read(count, &mut reader)?;
        Ok(Self::with(count, flags, reader))
    }

    /// Parses the rest of a map's head, after the map header. The flags are a key with the value
    /// nil.
    pub(crate) fn of_map(count: u32, mut reader: TokenReader<'a>) -> Result<Self, CodecError> {
        let flags = Flags::read(count, &mut reader)?;
        if flags.is_some() {
            reader.element()?;
        }
        Ok(Self::with(count, flags, reader))
    }

    fn with(count: u32, flags: Option<Flags<'a>>, content: TokenReader<'a>) -> Self {
        let content = content.rest();
        match flags {
            Some(Flags { flags, index }) => Self {
                count: count - 1,
                flags,
                index,
                content,
            },
            None => Self {
                count,
                flags: 0,
                index: &[],
                content,
            },
        }
    }
}

/// The extension that carries a container's flags and index data.
struct Flags<'a> {
    flags: u8,
    index: &'a [u8],
}

impl<'a> Flags<'a> {
    /// Reads the flags, if the first element is an extension other than wildcard and infinity.
    #[inline]
    fn read(count: u32, reader: &mut TokenReader<'a>) -> Result<Option<Self>, CodecError> {
        let starts_with_ext =
            count > 0 && matches!(reader.rest().first(), Some(0xc7..=0xc9 | 0xd4..=0xd8));
        if !starts_with_ext {
            return Ok(None);
        }
        let mut ahead = *reader;
        match ahead.token()? {
            Token::Ext(flags, index) if flags != EXT_SPECIAL => {
                *reader = ahead;
                Ok(Some(Self { flags, index }))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let (short, long) = (Container::list(bytes), Container::any_list(bytes));
            assert_eq!(parts(short), parts(long), "{bytes:x?}");
        }
        for bytes in maps {
            let (short, long) = (Container::map(bytes), Container::any_map(bytes));
            assert_eq!(parts(short), parts(long), "{bytes:x?}");
        }
    }

    #[test]
    fn a_wildcard_in_front_is_an_element() {
        let list = Container::list(&[0x91, 0xd4, 0xff, 0]).unwrap();
        assert_eq!((list.count, list.flags), (1, 0));
    }
}
