//! Equality and hashes of values, which floats do not provide.

use std::hash::{Hash, Hasher};
use std::mem;

use super::Value;

/// Values of different types are never equal: an integer does not equal a double. A double that is
/// not a number equals every other such double, as in the order by which lists are sorted, and 0.0
/// equals -0.0.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Nil, Self::Nil)
            | (Self::Wildcard, Self::Wildcard)
            | (Self::Infinity, Self::Infinity) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Int(one), Self::Int(other)) => one == other,
            (Self::BigInt(one), Self::BigInt(other)) => one == other,
            (Self::Float(one), Self::Float(other)) => {
                one == other || (one.is_nan() && other.is_nan())
            }
            (Self::String(one), Self::String(other))
            | (Self::GeoJson(one), Self::GeoJson(other)) => one == other,
            (Self::Blob(one), Self::Blob(other)) | (Self::Hll(one), Self::Hll(other)) => {
                one == other
            }
            (Self::List(one), Self::List(other)) => one == other,
            (Self::Map(one), Self::Map(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Value {
    /// Whether the two are equal to the bit: unlike `==`, this tells zeros by their signs, and
    /// doubles that are not numbers by their bits.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(one), Self::Float(other)) => one.to_bits() == other.to_bits(),
            (Self::List(one), Self::List(other)) => {
                one.order() == other.order()
                    && one.len() == other.len()
                    && one
                        .iter()
                        .zip(other.iter())
                        .all(|(one, other)| one.is_same(other))
            }
            (Self::Map(one), Self::Map(other)) => {
                let mut pairs = one.iter().zip(other.iter());
                one.order() == other.order()
                    && one.len() == other.len()
                    && pairs.all(|(one, other)| one.0.is_same(&other.0) && one.1.is_same(&other.1))
            }
            _ => self == other,
        }
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        mem::discriminant(self).hash(state);
        match self {
            Self::Nil | Self::Wildcard | Self::Infinity => {}
            Self::Bool(value) => value.hash(state),
            Self::Int(value) => value.hash(state),
            Self::BigInt(value) => value.hash(state),
            Self::Float(value) => hashed_bits(*value).hash(state),
            Self::String(text) | Self::GeoJson(text) => text.hash(state),
            Self::Blob(bytes) | Self::Hll(bytes) => bytes.hash(state),
            Self::List(list) => list.hash(state),
            Self::Map(map) => map.hash(state),
        }
    }
}

/// Returns equal bits for equal doubles.
fn hashed_bits(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else {
        // -0.0 + 0.0 is 0.0; every other number stays.
        (value + 0.0).to_bits()
    }
}
