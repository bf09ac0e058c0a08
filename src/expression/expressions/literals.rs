//! Literal values.

use super::super::Expression;
use crate::expression::code;
use crate::value::msgpack::{write_array_header, write_int};
use crate::value::{EncodePurpose, List, Map, Value, encode};

/// Returns a literal. A map compares with other maps only if it is ordered by key.
#[must_use]
pub fn val(value: impl Into<Value>) -> Expression {
    let value = value.into();
    let mut out = Vec::new();
    if matches!(value, Value::List(_)) {
        // A bare list would be read as an operation.
        write_array_header(&mut out, 2);
        write_int(&mut out, code::QUOTE);
    }
    let encoded = encode(&value, EncodePurpose::Lookup, &mut out);
    Expression::of(match encoded {
        Ok(()) => Ok(out.into()),
        Err(error) => Err(error.to_string().into()),
    })
}

/// Returns nil.
#[must_use]
pub fn nil() -> Expression {
    val(Value::Nil)
}

/// Returns a literal truth value.
#[must_use]
pub fn bool_val(value: bool) -> Expression {
    val(value)
}

/// Returns a literal integer.
#[must_use]
pub fn int_val(value: i64) -> Expression {
    val(value)
}

/// Returns a literal double.
#[must_use]
pub fn float_val(value: f64) -> Expression {
    val(value)
}

/// Returns a literal text.
#[must_use]
pub fn string_val(value: impl Into<String>) -> Expression {
    val(value.into())
}

/// Returns literal bytes.
#[must_use]
pub fn blob_val(value: impl Into<Vec<u8>>) -> Expression {
    val(value.into())
}

/// Returns a literal point or region, as GeoJSON.
#[must_use]
pub fn geo_val(value: impl Into<String>) -> Expression {
    val(Value::GeoJson(value.into()))
}

/// Returns a literal list.
#[must_use]
pub fn list_val(value: impl Into<List>) -> Expression {
    val(value.into())
}

/// Returns a literal map. It compares with other maps only if it is ordered by key.
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
