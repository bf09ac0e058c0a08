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

/// Defines functions that return a literal of one type.
macro_rules! typed_literals {
    ($($(#[$doc:meta])* $name:ident($value:ident: $type:ty) $literal:expr;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name($value: $type) -> Expression {
            val($literal)
        }
    )*};
}

typed_literals! {
    /// Returns a literal truth value.
    bool_val(value: bool) value;

    /// Returns a literal integer.
    int_val(value: i64) value;

    /// Returns a literal double.
    float_val(value: f64) value;

    /// Returns a literal text.
    string_val(value: impl Into<String>) value.into();

    /// Returns literal bytes.
    blob_val(value: impl Into<Vec<u8>>) value.into();

    /// Returns a literal point or region, as GeoJSON.
    geo_val(value: impl Into<String>) Value::GeoJson(value.into());

    /// Returns a literal list.
    list_val(value: impl Into<List>) value.into();

    /// Returns a literal map. It compares with other maps only if it is ordered by key.
    map_val(value: impl Into<Map>) value.into();
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
