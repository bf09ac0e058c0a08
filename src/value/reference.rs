//! Values read straight from stored bytes, without a copy.

use std::fmt;

use super::container::{Container, FLAG_PERSIST_INDEX};
use super::msgpack::{
    EXT_SPECIAL, SUBTYPE_GEOJSON, SUBTYPE_HLL, SUBTYPE_STRING, Token, TokenReader,
};
use super::{CodecError, ListOrder, MapOrder};

/// A value inside a stored record.
///
/// Text that is not UTF-8 (only wire clients can store it) reads as [`ValueRef::Blob`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ValueRef<'a> {
    /// The nil element of a list or map.
    Nil,
    /// A truth value.
    Bool(bool),
    /// A signed integer of 64 bits.
    Int(i64),
    /// A double: 64 bits of IEEE 754.
    Float(f64),
    /// Text in UTF-8.
    String(&'a str),
    /// Bytes of any content.
    Blob(&'a [u8]),
    /// A list, decoded during iteration.
    List(ListRef<'a>),
    /// A map, decoded during iteration.
    Map(MapRef<'a>),
    /// GeoJSON: a point, a polygon or a circle, as text.
    GeoJson(&'a str),
    /// A HyperLogLog sketch.
    Hll(&'a [u8]),
}

impl<'a> ValueRef<'a> {
    /// Reads one encoded element and moves the reader past it.
    fn read(reader: &mut TokenReader<'a>) -> Result<Self, CodecError> {
        let mut container = *reader;
        match reader.token()? {
            Token::Array(_) => {
                let bytes = container.element()?;
                *reader = container;
                ListRef::new(bytes).map(Self::List)
            }
            Token::Map(_) => {
                let bytes = container.element()?;
                *reader = container;
                MapRef::new(bytes).map(Self::Map)
            }
            token => Self::scalar(token),
        }
    }

    /// Returns the value of a token that is not the head of a list or map.
    pub(super) fn scalar(token: Token<'a>) -> Result<Self, CodecError> {
        Ok(match token {
            Token::Nil => Self::Nil,
            Token::Bool(value) => Self::Bool(value),
            Token::Int(value) => Self::Int(value),
            Token::BigInt(value) => Self::Int(value.cast_signed()),
            Token::Float32(value) => Self::Float(f64::from(value)),
            Token::Float(value) => Self::Float(value),
            Token::Raw(raw) => match raw.split_first() {
                None => Self::Blob(raw),
                Some((&SUBTYPE_HLL, bytes)) => Self::Hll(bytes),
                Some((subtype, bytes)) => match (*subtype, std::str::from_utf8(bytes)) {
                    (SUBTYPE_STRING, Ok(text)) => Self::String(text),
                    (SUBTYPE_GEOJSON, Ok(text)) => Self::GeoJson(text),
                    _ => Self::Blob(bytes),
                },
            },
            Token::Array(_) | Token::Map(_) | Token::Ext(EXT_SPECIAL, _) => {
                return Err(CodecError::NotStorable);
            }
            Token::Ext(kind, _) => return Err(CodecError::UnknownExtension(kind)),
        })
    }

    /// Returns the integer; `None` for another type.
    #[must_use]
    pub const fn as_i64(&self) -> Option<i64> {
        if let Self::Int(value) = self {
            Some(*value)
        } else {
            None
        }
    }

    /// Returns the double; `None` for another type.
    #[must_use]
    pub const fn as_f64(&self) -> Option<f64> {
        if let Self::Float(value) = self {
            Some(*value)
        } else {
            None
        }
    }

    /// Returns the text; `None` for another type.
    #[must_use]
    pub const fn as_str(&self) -> Option<&'a str> {
        if let Self::String(text) = self {
            Some(text)
        } else {
            None
        }
    }

    /// Returns the bytes; `None` unless it is a blob.
    #[must_use]
    pub const fn as_blob(&self) -> Option<&'a [u8]> {
        if let Self::Blob(bytes) = self {
            Some(bytes)
        } else {
            None
        }
    }

    /// Returns the list; `None` for another type.
    #[must_use]
    pub const fn as_list(&self) -> Option<ListRef<'a>> {
        if let Self::List(list) = self {
            Some(*list)
        } else {
            None
        }
    }

    /// Returns the map; `None` for another type.
    #[must_use]
    pub const fn as_map(&self) -> Option<MapRef<'a>> {
        if let Self::Map(map) = self {
            Some(*map)
        } else {
            None
        }
    }
}

/// An encoded list.
#[derive(Clone, Copy)]
pub struct ListRef<'a> {
    /// The whole encoding.
    pub(super) bytes: &'a [u8],
    head: Container<'a>,
}

impl<'a> ListRef<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, CodecError> {
        Ok(Self {
            bytes,
            head: Container::list(bytes)?,
        })
    }

    /// Returns the number of elements. O(1).
    #[must_use]
    pub const fn len(&self) -> usize {
        self.head.count as usize
    }

    /// Returns whether the list has no elements. O(1).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.head.count == 0
    }

    /// Returns whether the list keeps its elements sorted.
    #[must_use]
    pub const fn order(&self) -> ListOrder {
        ListOrder::of_flags(self.head.flags)
    }

    /// Returns the bytes that the elements take, without the list's head and index. O(1).
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::{ListOrder, ListPolicy, ListWriteFlags, Store, operations::lists};
    /// let users = Store::in_memory()?.set("users")?;
    /// let policy = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE).persist_index(true);
    /// users.operate("ada", &[lists::append(&policy, "scores", 7), lists::append(&policy, "scores", 9)])?;
    /// let record = users.get("ada")?.expect("was written");
    /// let scores = record.view().bin("scores").and_then(|bin| bin.as_list());
    /// assert_eq!(scores.map(|list| (list.len(), list.content_bytes(), list.is_indexed())), Some((2, 2, true)));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub const fn content_bytes(&self) -> usize {
        self.head.content.len()
    }

    /// Returns whether the list carries a persisted index. O(1).
    #[must_use]
    pub const fn is_indexed(&self) -> bool {
        self.head.flags & FLAG_PERSIST_INDEX != 0
    }

    /// Iterates over the elements in order. A malformed element yields an error and ends the
    /// iteration.
    #[must_use]
    pub const fn iter(&self) -> ListItems<'a> {
        ListItems {
            left: self.head.count,
            reader: TokenReader::new(self.head.content),
        }
    }
}

impl PartialEq for ListRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// Shows the elements; a malformed one shows as its error.
impl fmt::Debug for ListRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_list();
        for element in self.iter() {
            match element {
                Ok(element) => list.entry(&element),
                Err(error) => list.entry(&error),
            };
        }
        list.finish()
    }
}

impl<'a> IntoIterator for ListRef<'a> {
    type Item = Result<ValueRef<'a>, CodecError>;
    type IntoIter = ListItems<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterates over the elements of a [`ListRef`].
#[derive(Clone, Debug)]
pub struct ListItems<'a> {
    left: u32,
    reader: TokenReader<'a>,
}

impl<'a> Iterator for ListItems<'a> {
    type Item = Result<ValueRef<'a>, CodecError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        if let Some(value) = self.reader.unsigned_int() {
            return Some(Ok(ValueRef::Int(value)));
        }
        let item = ValueRef::read(&mut self.reader);
        if item.is_err() {
            self.left = 0;
        }
        Some(item)
    }
}

/// An encoded map.
#[derive(Clone, Copy)]
pub struct MapRef<'a> {
    /// The whole encoding.
    pub(super) bytes: &'a [u8],
    head: Container<'a>,
}

impl<'a> MapRef<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, CodecError> {
        Ok(Self {
            bytes,
            head: Container::map(bytes)?,
        })
    }

    /// Returns the number of entries. O(1).
    #[must_use]
    pub const fn len(&self) -> usize {
        self.head.count as usize
    }

    /// Returns whether the map has no entries. O(1).
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.head.count == 0
    }

    /// Returns the order that the map promises.
    #[must_use]
    pub const fn order(&self) -> MapOrder {
        MapOrder::of_flags(self.head.flags)
    }

    /// Returns the bytes that the entries take, without the map's head and index. O(1).
    #[must_use]
    pub const fn content_bytes(&self) -> usize {
        self.head.content.len()
    }

    /// Returns whether the map carries a persisted index. O(1).
    #[must_use]
    pub const fn is_indexed(&self) -> bool {
        self.head.flags & FLAG_PERSIST_INDEX != 0
    }

    /// Iterates over the entries by key. A malformed entry yields an error and ends the iteration.
    #[must_use]
    pub const fn iter(&self) -> MapEntries<'a> {
        MapEntries {
            items: ListItems {
                left: self.head.count,
                reader: TokenReader::new(self.head.content),
            },
        }
    }
}

impl PartialEq for MapRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

/// Shows the entries; a malformed one shows as its error.
impl fmt::Debug for MapRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for entry in self.iter() {
            match entry {
                Ok((key, value)) => map.entry(&key, &value),
                Err(error) => map.entry(&"malformed", &error),
            };
        }
        map.finish()
    }
}

impl<'a> IntoIterator for MapRef<'a> {
    type Item = Result<(ValueRef<'a>, ValueRef<'a>), CodecError>;
    type IntoIter = MapEntries<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Iterates over the entries of a [`MapRef`].
#[derive(Clone, Debug)]
pub struct MapEntries<'a> {
    /// Counts pairs in `left`.
    items: ListItems<'a>,
}

impl<'a> Iterator for MapEntries<'a> {
    type Item = Result<(ValueRef<'a>, ValueRef<'a>), CodecError>;

    fn next(&mut self) -> Option<Self::Item> {
        let key = self.items.next()?;
        let entry = key.and_then(|key| Ok((key, ValueRef::read(&mut self.items.reader)?)));
        if entry.is_err() {
            self.items.left = 0;
        }
        Some(entry)
    }
}
