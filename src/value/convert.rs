//! Conversions from the usual Rust types.
//!
//! Sequences of `u8` are bytes, sequences of pairs are maps, and all other sequences are lists:
//! [`ListElement`] draws the line.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use super::{List, ListOrder, Map, MapOrder, Value};

/// A type with sequences that convert to a list: every type that converts to a [`Value`], except
/// `u8` (bytes) and pairs (maps).
///
/// Implement it for a type that converts to a value, and its vectors, slices and arrays convert,
/// too:
///
/// ```
/// use spikelet::Value;
/// use spikelet::value::ListElement;
///
/// struct Tag(&'static str);
///
/// impl From<Tag> for Value {
///     fn from(tag: Tag) -> Self {
///         tag.0.into()
///     }
/// }
/// impl ListElement for Tag {}
///
/// assert_eq!(Value::from(vec![Tag("a"), Tag("b")]), Value::from(["a", "b"]));
/// ```
pub trait ListElement: Into<Value> {}

macro_rules! from {
    ($($type:ty => $variant:ident: $convert:expr,)*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant($convert(value))
            }
        }
    )*};
}

from! {
    bool => Bool: std::convert::identity,
    i8 => Int: i64::from,
    i16 => Int: i64::from,
    i32 => Int: i64::from,
    i64 => Int: std::convert::identity,
    // At most 64 bits on every platform.
    isize => Int: |value| value as i64,
    u8 => Int: i64::from,
    u16 => Int: i64::from,
    u32 => Int: i64::from,
    f32 => Float: f64::from,
    f64 => Float: std::convert::identity,
    &str => String: str::to_owned,
    &String => String: String::clone,
    String => String: std::convert::identity,
    Box<str> => String: String::from,
    Cow<'_, str> => String: Cow::into_owned,
    &[u8] => Blob: <[u8]>::to_vec,
    Vec<u8> => Blob: std::convert::identity,
    Box<[u8]> => Blob: <[u8]>::into_vec,
    List => List: std::convert::identity,
    Map => Map: std::convert::identity,
}

macro_rules! list_elements {
    ($($type:ty)*) => {$(
        impl ListElement for $type {}
    )*};
}

list_elements! {
    bool i8 i16 i32 i64 isize u16 u32 u64 usize f32 f64
    &str &String String Box<str> Cow<'_, str> Vec<u8> Box<[u8]> List Map Value
}

impl<T: ListElement> ListElement for Vec<T> {}
impl<T: ListElement, const N: usize> ListElement for [T; N] {}
impl<T: Into<Value>> ListElement for Option<T> {}
impl<K: Into<Value>, V: Into<Value>> ListElement for BTreeMap<K, V> {}
impl<K: Into<Value>, V: Into<Value>, S> ListElement for HashMap<K, V, S> {}

/// Integers above `i64::MAX` become [`Value::BigInt`], which serves comparisons and cannot be
/// stored.
impl From<u64> for Value {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::BigInt(value), Self::Int)
    }
}

/// As for `u64`.
impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::from(value as u64)
    }
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(value: &[u8; N]) -> Self {
        Self::Blob(value.to_vec())
    }
}

impl<const N: usize> From<[u8; N]> for Value {
    fn from(value: [u8; N]) -> Self {
        Self::Blob(value.to_vec())
    }
}

/// `None` is [`Value::Nil`], which removes a bin it is written to.
impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nil, Into::into)
    }
}

/// A list without order. Bytes are a blob, and pairs are a map.
impl<T: ListElement> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        Self::List(items.into_iter().collect())
    }
}

/// As for `Vec<T>`.
impl<T: ListElement, const N: usize> From<[T; N]> for Value {
    fn from(items: [T; N]) -> Self {
        Self::List(items.into_iter().collect())
    }
}

/// As for `Vec<T>`.
impl<T: ListElement + Clone> From<&[T]> for Value {
    fn from(items: &[T]) -> Self {
        Self::List(items.iter().cloned().collect())
    }
}

/// A map without order. Keys must be integers, text or bytes, which is checked when the map is
/// stored.
impl<K: Into<Self>, V: Into<Self>> From<Vec<(K, V)>> for Value {
    fn from(entries: Vec<(K, V)>) -> Self {
        Self::Map(entries.into_iter().collect())
    }
}

/// As for `Vec<(K, V)>`.
impl<K: Into<Self>, V: Into<Self>, const N: usize> From<[(K, V); N]> for Value {
    fn from(entries: [(K, V); N]) -> Self {
        Self::Map(entries.into_iter().collect())
    }
}

/// A map without order.
impl<K: Into<Self>, V: Into<Self>, S> From<HashMap<K, V, S>> for Value {
    fn from(entries: HashMap<K, V, S>) -> Self {
        Self::Map(entries.into_iter().collect())
    }
}

/// A map ordered by key.
impl<K: Into<Self>, V: Into<Self>> From<BTreeMap<K, V>> for Value {
    fn from(entries: BTreeMap<K, V>) -> Self {
        let entries = entries.into_iter();
        let entries = entries.map(|(key, value)| (key.into(), value.into()));
        Self::Map(Map::new(entries.collect(), MapOrder::KeyOrdered))
    }
}

impl From<Vec<Value>> for List {
    fn from(items: Vec<Value>) -> Self {
        Self::new(items, ListOrder::Unordered)
    }
}

impl<T: Into<Value>> FromIterator<T> for List {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        items
            .into_iter()
            .map(Into::into)
            .collect::<Vec<Value>>()
            .into()
    }
}

impl From<Vec<(Value, Value)>> for Map {
    fn from(entries: Vec<(Value, Value)>) -> Self {
        Self::new(entries, MapOrder::Unordered)
    }
}

impl<K: Into<Value>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        entries
            .into_iter()
            .map(|(key, value)| (key.into(), value.into()))
            .collect::<Vec<(Value, Value)>>()
            .into()
    }
}

impl IntoIterator for List {
    type Item = Value;
    type IntoIter = std::vec::IntoIter<Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_items().into_iter()
    }
}

impl IntoIterator for Map {
    type Item = (Value, Value);
    type IntoIter = std::vec::IntoIter<(Value, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_entries().into_iter()
    }
}
