//! What a record has: bins, key, metadata.

use super::super::{ExpType, Expression};
use super::{Operands, ne, nullary};
use crate::expression::code;

fn bin(kind: ExpType, name: &str) -> Expression {
    Operands::new().int(kind as i64).raw(name).of(code::BIN)
}

/// A bin that holds a truth value. Unknown if it is missing or holds something else, as for all bins.
#[must_use]
pub fn bool_bin(name: &str) -> Expression {
    bin(ExpType::Bool, name)
}

/// A bin that holds an integer.
#[must_use]
pub fn int_bin(name: &str) -> Expression {
    bin(ExpType::Int, name)
}

/// A bin that holds a double.
#[must_use]
pub fn float_bin(name: &str) -> Expression {
    bin(ExpType::Float, name)
}

/// A bin that holds text.
#[must_use]
pub fn string_bin(name: &str) -> Expression {
    bin(ExpType::String, name)
}

/// A bin that holds bytes.
#[must_use]
pub fn blob_bin(name: &str) -> Expression {
    bin(ExpType::Blob, name)
}

/// A bin that holds a list.
#[must_use]
pub fn list_bin(name: &str) -> Expression {
    bin(ExpType::List, name)
}

/// A bin that holds a map.
#[must_use]
pub fn map_bin(name: &str) -> Expression {
    bin(ExpType::Map, name)
}

/// A bin that holds GeoJSON text.
#[must_use]
pub fn geo_bin(name: &str) -> Expression {
    bin(ExpType::Geo, name)
}

/// A bin that holds a HyperLogLog sketch.
#[must_use]
pub fn hll_bin(name: &str) -> Expression {
    bin(ExpType::Hll, name)
}

/// The number of a bin's [`ParticleType`](crate::value::ParticleType); 0 if it is missing.
#[must_use]
pub fn bin_type(name: &str) -> Expression {
    Operands::new().raw(name).of(code::BIN_TYPE)
}

/// Whether there is a bin.
#[must_use]
pub fn bin_exists(name: &str) -> Expression {
    ne(bin_type(name), 0)
}

/// The user key, if it is stored and of this type: an integer, text, or bytes.
#[must_use]
pub fn key(kind: ExpType) -> Expression {
    Operands::new().int(kind as i64).of(code::KEY)
}

/// Whether the user key is stored.
#[must_use]
pub fn key_exists() -> Expression {
    nullary(code::KEY_EXISTS)
}

/// The name of the record's set; empty if it is in none.
#[must_use]
pub fn set_name() -> Expression {
    nullary(code::SET_NAME)
}

/// The bytes that the record takes on a device, a multiple of 16; 0 if it is stored in memory. Prefer [`record_size`].
#[must_use]
pub fn device_size() -> Expression {
    nullary(code::DEVICE_SIZE)
}

/// The bytes that the record takes in memory, a multiple of 16; 0 if it is stored on a device. Prefer [`record_size`].
#[must_use]
pub fn memory_size() -> Expression {
    nullary(code::MEMORY_SIZE)
}

/// The bytes that the record takes where it is stored now, a multiple of 16.
#[must_use]
pub fn record_size() -> Expression {
    nullary(code::RECORD_SIZE)
}

/// When the record was last written: nanoseconds since 1970.
#[must_use]
pub fn last_update() -> Expression {
    nullary(code::LAST_UPDATE)
}

/// How long ago the record was last written: milliseconds.
#[must_use]
pub fn since_update() -> Expression {
    nullary(code::SINCE_UPDATE)
}

/// When the record expires: nanoseconds since 1970; -1: never.
#[must_use]
pub fn void_time() -> Expression {
    nullary(code::VOID_TIME)
}

/// How long the record still has to live: seconds; -1: for ever.
#[must_use]
pub fn ttl() -> Expression {
    nullary(code::TTL)
}

/// Whether the record is a tombstone: never, since those are not records here.
#[must_use]
pub fn is_tombstone() -> Expression {
    nullary(code::IS_TOMBSTONE)
}

/// A number below `modulus` that depends on the record's digest alone: for sampling.
#[must_use]
pub fn digest_modulo(modulus: i64) -> Expression {
    Operands::new().int(modulus).of(code::DIGEST_MODULO)
}
