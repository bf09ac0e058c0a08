//! Values of bins and of elements: their types, encoding and order.
//!
//! [`Value`] is the owned form, which converts from and to Rust's own types; [`ValueRef`] borrows
//! from a stored record. Lists and maps of either form are [`List`] and [`Map`], [`ListRef`] and
//! [`MapRef`]. Values of all types have one order among them, by which ordered lists and maps sort.
//!
//! ```
//! # fn main() -> Result<(), spikelet::value::ConversionError> {
//! use spikelet::Value;
//! let tags = Value::from(vec!["storage", "rust"]);
//! assert_eq!(tags.as_list().map(|tags| tags.len()), Some(2));
//! let tags: Vec<String> = tags.try_into()?;
//! assert_eq!(tags, ["storage", "rust"]);
//! # Ok(())
//! # }
//! ```

// * `Value`, `List`, `Map`: the owned form that users build and get.
// * `ValueRef`, `ListRef`, `MapRef`: the borrowed form, read straight from a stored record.
// * `codec_error`: errors of values and of their encoding, and the limit on nesting.
// * `msgpack`, `container`: MessagePack token by token, and the heads of encoded lists and maps.
// * `encode`, `decode`, `normalize`: owned form to bytes, bytes to owned form, a client's bytes to
//   our bytes.
// * `convert`, `extract`, `display`, `equality`: from and to the usual Rust types, text for people,
//   `Eq` and `Hash`.
// * `stored`: the form of a value inside a stored record, by `ParticleType`.
// * `order`: the one order of values, on encoded bytes. Everything that sorts or searches uses it.
//
// This layer knows nothing of records, bins or operations.

mod codec_error;
mod container;
mod convert;
mod decode;
mod display;
mod encode;
mod equality;
mod extract;
mod normalize;
mod particle;
mod reference;
mod serde;
mod shape;
mod stored;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) mod msgpack;
pub(crate) mod order;

pub use codec_error::CodecError;
pub use convert::ListElement;
pub use extract::ConversionError;
pub use particle::ParticleType;
pub use reference::{ListItems, ListRef, MapEntries, MapRef, ValueRef};

pub(crate) use codec_error::MAX_NESTING;
pub(crate) use container::Container;
pub(crate) use encode::{EncodePurpose, Spans, encode, write_head};
pub(crate) use normalize::element_of_call as normalize_element;
pub(crate) use shape::{FLAG_ORDERED, FLAG_PERSIST_INDEX, FLAG_VALUE_ORDERED, ItemShape};
pub(crate) use stored::{
    check_stored, element_to_stored, from_wire, is_indexed, stored_to_element, write_stored,
};
#[cfg(feature = "server")]
pub(crate) use stored::{check_wire_scalar, write_answer};

use std::ops::Deref;

/// Defines functions that return the content of one variant, and `None` for all others.
macro_rules! accessors {
    ($($(#[$doc:meta])* $visibility:vis $name:ident -> $type:ty = $variant:ident($held:ident) $result:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        $visibility const fn $name(&self) -> Option<$type> {
            match self {
                Self::$variant($held) => Some($result),
                _ => None,
            }
        }
    )*};
}

pub(crate) use accessors;

/// The value of a bin, or of an element inside a list or map.
///
/// The usual Rust types convert into values, and values back into them:
///
/// ```
/// use spikelet::Value;
/// use std::collections::BTreeMap;
///
/// let tags = Value::from(["rust", "storage"]);
/// assert_eq!(tags.as_list().map(|tags| tags.len()), Some(2));
/// let visits = Value::from(BTreeMap::from([("home", 3), ("about", 1)]));
/// assert_eq!(visits.to_string(), r#"{"about": 1, "home": 3}"#);
/// let age: u8 = Value::from(42).try_into()?;
/// assert_eq!(age, 42);
/// assert!(u8::try_from(Value::from(300)).is_err());
/// # Ok::<(), spikelet::value::ConversionError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Value {
    /// No value. Written to a bin, it removes the bin; inside a list or map it is a value like any
    /// other.
    Nil,
    /// A truth value.
    Bool(bool),
    /// A signed integer of 64 bits.
    Int(i64),
    /// An integer above `i64::MAX`, made from a `u64`. In lookups only: storing it is an error,
    /// since a stored integer has 64 bits with sign.
    BigInt(u64),
    /// A double: 64 bits of IEEE 754.
    Float(f64),
    /// Text in UTF-8.
    String(String),
    /// Bytes of any content.
    Blob(Vec<u8>),
    /// A list of values of any types.
    List(List),
    /// A map from keys to values of any types.
    Map(Map),
    /// GeoJSON: a point, a polygon or a circle, as text.
    GeoJson(String),
    /// A HyperLogLog sketch, in its binary form.
    Hll(Vec<u8>),
    /// Equal to every value; inside a list, a match of all elements after it. In lookups only:
    /// storing it is an error.
    Wildcard,
    /// Greater than anything, for the open end of an interval. In lookups only: storing it is an
    /// error.
    Infinity,
}

/// Whether a list keeps its elements sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ListOrder {
    /// Elements stay where they are put.
    #[default]
    Unordered,
    /// Elements are kept in the order of values across types.
    Ordered,
}

impl ListOrder {
    pub(crate) const fn flags(self) -> u8 {
        match self {
            Self::Unordered => 0,
            Self::Ordered => FLAG_ORDERED,
        }
    }

    pub(crate) const fn of_flags(flags: u8) -> Self {
        if flags & FLAG_ORDERED == 0 {
            Self::Unordered
        } else {
            Self::Ordered
        }
    }
}

/// The order of a map's entries. All maps are stored by key; the order is the map's promise to
/// readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MapOrder {
    /// No order is promised.
    #[default]
    Unordered,
    /// Ordered by key.
    KeyOrdered,
    /// Ordered by key, and searched by value too.
    KeyValueOrdered,
}

impl MapOrder {
    pub(crate) const fn flags(self) -> u8 {
        match self {
            Self::Unordered => 0,
            Self::KeyOrdered => FLAG_ORDERED,
            Self::KeyValueOrdered => FLAG_ORDERED | FLAG_VALUE_ORDERED,
        }
    }

    pub(crate) const fn of_flags(flags: u8) -> Self {
        if flags & FLAG_VALUE_ORDERED != 0 {
            Self::KeyValueOrdered
        } else if flags & FLAG_ORDERED != 0 {
            Self::KeyOrdered
        } else {
            Self::Unordered
        }
    }
}

/// A list of values. Dereferences to its elements.
///
/// An ordered list is sorted when it is encoded, not before: read it back to see its order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct List {
    items: Vec<Value>,
    order: ListOrder,
}

impl List {
    /// Makes a list with the given elements and order.
    #[must_use]
    pub const fn new(items: Vec<Value>, order: ListOrder) -> Self {
        Self { items, order }
    }

    /// Returns whether the list keeps its elements sorted.
    #[must_use]
    pub const fn order(&self) -> ListOrder {
        self.order
    }

    /// Returns the elements, without a copy.
    #[must_use]
    pub fn into_items(self) -> Vec<Value> {
        self.items
    }

    /// Appends an element.
    pub fn push(&mut self, value: impl Into<Value>) {
        self.items.push(value.into());
    }
}

impl Deref for List {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.items
    }
}

/// A map of values. Dereferences to its entries, which come back from a record in the order of
/// their keys.
///
/// Keys must be integers, text or bytes, and unique. Both are checked when the map is encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Map {
    entries: Vec<(Value, Value)>,
    order: MapOrder,
}

impl Map {
    /// Makes a map with the given entries and order.
    #[must_use]
    pub const fn new(entries: Vec<(Value, Value)>, order: MapOrder) -> Self {
        Self { entries, order }
    }

    /// Returns the order that the map promises.
    #[must_use]
    pub const fn order(&self) -> MapOrder {
        self.order
    }

    /// Returns the entries, without a copy.
    #[must_use]
    pub fn into_entries(self) -> Vec<(Value, Value)> {
        self.entries
    }

    /// Returns the value of a key. O(entries).
    #[must_use]
    pub fn get(&self, key: &Value) -> Option<&Value> {
        self.entries
            .iter()
            .find_map(|(k, v)| (k == key).then_some(v))
    }
}

impl Deref for Map {
    type Target = [(Value, Value)];

    fn deref(&self) -> &[(Value, Value)] {
        &self.entries
    }
}
