//! Values read straight from stored bytes, without a copy.

use std::fmt;

use super::container::Container;
use super::msgpack::{
    EXT_SPECIAL, SUBTYPE_GEOJSON, SUBTYPE_HLL, SUBTYPE_STRING, Token, TokenReader,
};
use super::{CodecError, FLAG_PERSIST_INDEX, ListOrder, MapOrder, accessors};

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

    accessors! {
        /// Returns the integer; `None` for another type.
        pub as_i64 -> i64 = Int(value) *value;

        /// Returns the double; `None` for another type.
        pub as_f64 -> f64 = Float(value) *value;

        /// Returns the text; `None` for another type.
        pub as_str -> &'a str = String(text) text;

        /// Returns the bytes; `None` unless it is a blob.
        pub as_blob -> &'a [u8] = Blob(bytes) bytes;

        /// Returns the list; `None` for another type.
        pub as_list -> ListRef<'a> = List(list) *list;

        /// Returns the map; `None` for another type.
        pub as_map -> MapRef<'a> = Map(map) *map;
    }
}

/// Defines the references to encoded collections. A row has the type, the parser of its head, its
/// order, its iterator, and the words for it and for its items.
macro_rules! collections {
    ($($(#[$doc:meta])* $name:ident $parse:ident $order:ident $iterator:ident $what:literal $items:literal $(#[$example:meta])*;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'a> {
            /// The whole encoding.
            pub(super) bytes: &'a [u8],
            head: Container<'a>,
        }

        impl<'a> $name<'a> {
            pub(super) fn new(bytes: &'a [u8]) -> Result<Self, CodecError> {
                let head = Container::$parse(bytes)?;
                Ok(Self { bytes, head })
            }

            #[doc = concat!("Returns the number of ", $items, ". O(1).")]
            #[must_use]
            pub const fn len(&self) -> usize {
                self.head.count as usize
            }

            #[doc = concat!("Returns whether the ", $what, " has no ", $items, ". O(1).")]
            #[must_use]
            pub const fn is_empty(&self) -> bool {
                self.head.count == 0
            }

            #[doc = concat!("Returns the order of the ", $items, ".")]
            #[must_use]
            pub const fn order(&self) -> $order {
                $order::of_flags(self.head.flags)
            }

            #[doc = concat!("Returns the bytes that the ", $items, " take, without the ", $what, "'s head and index. O(1).")]
            $(#[$example])*
            #[must_use]
            pub const fn content_bytes(&self) -> usize {
                self.head.content.len()
            }

            #[doc = concat!("Returns whether the ", $what, " carries a persisted index. O(1).")]
            #[must_use]
            pub const fn is_indexed(&self) -> bool {
                self.head.flags & FLAG_PERSIST_INDEX != 0
            }

            #[doc = concat!("Iterates over the ", $items, " in order. A malformed one yields an error and ends the iteration.")]
            #[must_use]
            pub const fn iter(&self) -> $iterator<'a> {
                $iterator::of(&self.head)
            }
        }

        impl PartialEq for $name<'_> {
            fn eq(&self, other: &Self) -> bool {
                self.iter().eq(other.iter())
            }
        }

        impl<'a> IntoIterator for $name<'a> {
            type Item = <$iterator<'a> as Iterator>::Item;
            type IntoIter = $iterator<'a>;

            fn into_iter(self) -> Self::IntoIter {
                self.iter()
            }
        }
    )*};
}

collections! {
    /// An encoded list.
    ListRef list ListOrder ListItems "list" "elements"
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
    ;

    /// An encoded map; its entries come by key.
    MapRef map MapOrder MapEntries "map" "entries";
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

/// Iterates over the elements of a [`ListRef`].
#[derive(Clone, Debug)]
pub struct ListItems<'a> {
    left: u32,
    reader: TokenReader<'a>,
}

impl<'a> ListItems<'a> {
    const fn of(head: &Container<'a>) -> Self {
        Self {
            left: head.count,
            reader: TokenReader::new(head.content),
        }
    }
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

/// Iterates over the entries of a [`MapRef`].
#[derive(Clone, Debug)]
pub struct MapEntries<'a> {
    /// Counts pairs in `left`.
    items: ListItems<'a>,
}

impl<'a> MapEntries<'a> {
    const fn of(head: &Container<'a>) -> Self {
        Self {
            items: ListItems::of(head),
        }
    }
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
