//! Values as text for people.

use std::fmt::{self, Display, Formatter};

use super::{List, Map, Value};

/// Writes the value like JSON, with extensions: bytes as `x"0aff"`, nil as `nil`, a sketch by its
/// size. Meant for people; cannot be parsed back.
impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::BigInt(value) => value.fmt(f),
            // With a decimal point, unlike an integer.
            Self::Float(value) => fmt::Debug::fmt(value, f),
            Self::String(text) => fmt::Debug::fmt(text, f),
            Self::GeoJson(text) => f.write_str(text),
            Self::Blob(bytes) => {
                f.write_str("x\"")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                f.write_str("\"")
            }
            Self::Hll(bytes) => write!(f, "HLL({} bytes)", bytes.len()),
            Self::List(list) => list.fmt(f),
            Self::Map(map) => map.fmt(f),
            Self::Wildcard => f.write_str("*"),
            Self::Infinity => f.write_str("INF"),
        }
    }
}

impl Display for List {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, item) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{item}")?;
        }
        f.write_str("]")
    }
}

impl Display for Map {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (at, (key, value)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { ", " };
            write!(f, "{comma}{key}: {value}")?;
        }
        f.write_str("}")
    }
}
