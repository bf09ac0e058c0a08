//! Values back to the usual Rust types: accessors that borrow, and conversions that check.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::hash::{BuildHasher, Hash};

use super::{List, ListElement, Map, Value, accessors};

/// Why a value does not convert to the Rust type asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConversionError {
    /// The value has another type.
    #[error("the value is of type {found}, and {wanted} was asked for")]
    WrongType {
        /// The type that was asked for.
        wanted: &'static str,
        /// The type of the value, as [`Value::type_name`] gives it.
        found: &'static str,
    },
    /// The value is an integer that the type cannot hold.
    #[error("the integer {value} does not fit {wanted}")]
    OutOfRange {
        /// The type that was asked for.
        wanted: &'static str,
        /// The integer, in digits.
        value: Box<str>,
    },
}

impl From<Infallible> for ConversionError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl Value {
    /// Returns the name of the value's type, for messages.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::BigInt(_) => "integer",
            Self::Float(_) => "float",
            Self::String(_) => "string",
            Self::Blob(_) => "blob",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::GeoJson(_) => "GeoJSON",
            Self::Hll(_) => "HLL",
            Self::Wildcard => "wildcard",
            Self::Infinity => "infinity",
        }
    }

    /// Returns whether this is [`Value::Nil`].
    #[must_use]
    pub const fn is_nil(&self) -> bool {
        matches!(self, Self::Nil)
    }

    accessors! {
        /// Returns the truth value; `None` for a value of another type.
        pub as_bool -> bool = Bool(value) *value;

        /// Returns the integer; `None` for a value of another type, and for a [`Value::BigInt`].
        pub as_i64 -> i64 = Int(value) *value;

        /// Returns the double; `None` for a value of another type. An integer is not a double.
        pub as_f64 -> f64 = Float(value) *value;

        /// Returns the text; `None` for a value of another type, GeoJSON included.
        pub as_str -> &str = String(text) text.as_str();

        /// Returns the bytes of a blob; `None` for a value of another type.
        pub as_blob -> &[u8] = Blob(bytes) bytes.as_slice();

        /// Returns the list; `None` for a value of another type.
        pub as_list -> &List = List(list) list;

        /// Returns the map; `None` for a value of another type.
        pub as_map -> &Map = Map(map) map;
    }

    fn wrong_type(&self, wanted: &'static str) -> ConversionError {
        ConversionError::WrongType {
            wanted,
            found: self.type_name(),
        }
    }
}

macro_rules! integers {
    ($($type:ident)*) => {$(
        /// Fails for a value of another type, and for an integer out of range.
        impl TryFrom<Value> for $type {
            type Error = ConversionError;

            fn try_from(value: Value) -> Result<Self, ConversionError> {
                let wide = match value {
                    Value::Int(value) => i128::from(value),
                    Value::BigInt(value) => i128::from(value),
                    other => return Err(other.wrong_type("integer")),
                };
                Self::try_from(wide).map_err(|_| ConversionError::OutOfRange {
                    wanted: stringify!($type),
                    value: wide.to_string().into(),
                })
            }
        }
    )*};
}

integers!(i8 i16 i32 i64 isize u8 u16 u32 u64 usize);

macro_rules! variants {
    ($($type:ty, $variant:ident, $name:literal;)*) => {$(
        /// Fails for a value of another type.
        impl TryFrom<Value> for $type {
            type Error = ConversionError;

            fn try_from(value: Value) -> Result<Self, ConversionError> {
                match value {
                    Value::$variant(value) => Ok(value),
                    other => Err(other.wrong_type($name)),
                }
            }
        }
    )*};
}

variants! {
    bool, Bool, "bool";
    f64, Float, "float";
    String, String, "string";
    Vec<u8>, Blob, "blob";
    List, List, "list";
    Map, Map, "map";
}

/// Fails for a value of another type, and for a list with an element that does not convert.
impl<T> TryFrom<Value> for Vec<T>
where
    T: ListElement + TryFrom<Value>,
    ConversionError: From<<T as TryFrom<Value>>::Error>,
{
    type Error = ConversionError;

    fn try_from(value: Value) -> Result<Self, ConversionError> {
        let items = List::try_from(value)?.into_iter();
        items.map(|item| Ok(T::try_from(item)?)).collect()
    }
}

macro_rules! of_maps {
    ($($map:ident<K, V $(, $hasher:ident)?>($($bounds:tt)*);)*) => {$(
        /// Fails for a value of another type, and for a map with a key or value that does not
        /// convert.
        impl<K, V $(, $hasher)?> TryFrom<Value> for $map<K, V $(, $hasher)?>
        where
            K: TryFrom<Value>,
            V: TryFrom<Value>,
            $($bounds)*,
            ConversionError: From<<K as TryFrom<Value>>::Error> + From<<V as TryFrom<Value>>::Error>,
        {
            type Error = ConversionError;

            fn try_from(value: Value) -> Result<Self, ConversionError> {
                let entries = Map::try_from(value)?.into_iter();
                entries
                    .map(|(key, value)| Ok((K::try_from(key)?, V::try_from(value)?)))
                    .collect()
            }
        }
    )*};
}

of_maps! {
    BTreeMap<K, V>(K: Ord);
    HashMap<K, V, S>(K: Eq + Hash, S: BuildHasher + Default);
}
