//! Values that stand for themselves.

use super::super::Expression;
use crate::expression::code;
use crate::value::msgpack::{write_array_header, write_int};
use crate::value::{List, Map, Purpose, Value, encode};

/// A value. Maps compare with others only if they are ordered by key.
#[must_use]
pub fn val(value: impl Into<Value>) -> Expression {
    let value = value.into();
    let mut out = Vec::new();
    if matches!(value, Value::List(_)) {
        // A bare list would be an operation.
        write_array_header(&mut out, 2);
        write_int(&mut out, code::QUOTE);
    }
    let encoded = encode(&value, Purpose::Lookup, &mut out);
    Expression::of(match encoded {
        Ok(()) => Ok(out.into()),
        Err(error) => Err(error.to_string().into()),
    })
}

/// The value nil.
#[must_use]
pub fn nil() -> Expression {
    val(Value::Nil)
}

/// A truth value.
#[must_use]
pub fn bool_val(value: bool) -> Expression {
    val(value)
}

/// An integer that stands for itself.
#[must_use]
pub fn int_val(value: i64) -> Expression {
    val(value)
}

/// A double that stands for itself.
#[must_use]
pub fn float_val(value: f64) -> Expression {
    val(value)
}

/// A text that stands for itself.
#[must_use]
pub fn string_val(value: impl Into<String>) -> Expression {
    val(value.into())
}

/// Bytes that stand for themselves.
#[must_use]
pub fn blob_val(value: impl Into<Vec<u8>>) -> Expression {
    val(value.into())
}

/// A point or region, as GeoJSON.
#[must_use]
pub fn geo_val(value: impl Into<String>) -> Expression {
    val(Value::GeoJson(value.into()))
}

/// A list that stands for itself.
#[must_use]
pub fn list_val(value: impl Into<List>) -> Expression {
    val(value.into())
}

/// A map. It compares with others only if it is ordered by key.
#[must_use]
pub fn map_val(value: impl Into<Map>) -> Expression {
    val(value.into())
}

macro_rules! from {
    ($($type:ty)*) => {$(
        impl From<$type> for Expression {
            fn from(value: $type) -> Self {
                val(value)
            }
        }
    )*};
}

from!(bool i32 i64 u32 f64 &str String List Map Value);
