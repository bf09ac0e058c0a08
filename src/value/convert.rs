//! Conversions from the usual Rust types.

use super::{List, Map, Value};

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
    u8 => Int: i64::from,
    u16 => Int: i64::from,
    u32 => Int: i64::from,
    f32 => Float: f64::from,
    f64 => Float: std::convert::identity,
    &str => String: str::to_owned,
    String => String: std::convert::identity,
    Box<str> => String: String::from,
    &[u8] => Blob: <[u8]>::to_vec,
    Vec<u8> => Blob: std::convert::identity,
    List => List: std::convert::identity,
    Map => Map: std::convert::identity,
    Vec<Value> => List: List::from,
    Vec<(Value, Value)> => Map: Map::from,
}

impl<const N: usize> From<&[u8; N]> for Value {
    fn from(value: &[u8; N]) -> Self {
        Self::Blob(value.to_vec())
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Nil, Into::into)
    }
}

impl From<Vec<Value>> for List {
    fn from(items: Vec<Value>) -> Self {
        Self::new(items, super::ListOrder::Unordered)
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
        Self::new(entries, super::MapOrder::Unordered)
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
