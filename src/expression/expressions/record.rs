//! The parts of a record: bins, key, metadata.

use super::super::{ExpType, Expression};
use super::{Operands, ne, nullary};
use crate::expression::code;

fn bin(kind: ExpType, name: &str) -> Expression {
    Operands::new().int(kind as i64).raw(name).of(code::BIN)
}

/// Reads a bin that holds a truth value. Unknown if the bin is missing or of another type, as for
/// all bins.
#[must_use]
pub fn bool_bin(name: &str) -> Expression {
    bin(ExpType::Bool, name)
}

/// Reads a bin that holds an integer.
#[must_use]
pub fn int_bin(name: &str) -> Expression {
    bin(ExpType::Int, name)
}

/// Reads a bin that holds a double.
#[must_use]
pub fn float_bin(name: &str) -> Expression {
    bin(ExpType::Float, name)
}

/// Reads a bin that holds text.
#[must_use]
pub fn string_bin(name: &str) -> Expression {
    bin(ExpType::String, name)
}

/// Reads a bin that holds bytes.
#[must_use]
pub fn blob_bin(name: &str) -> Expression {
    bin(ExpType::Blob, name)
}

/// Reads a bin that holds a list.
#[must_use]
pub fn list_bin(name: &str) -> Expression {
    bin(ExpType::List, name)
}

/// Reads a bin that holds a map.
#[must_use]
pub fn map_bin(name: &str) -> Expression {
    bin(ExpType::Map, name)
}

/// Reads a bin that holds GeoJSON text.
#[must_use]
pub fn geo_bin(name: &str) -> Expression {
    bin(ExpType::Geo, name)
}

/// Reads a bin that holds a HyperLogLog sketch.
#[must_use]
pub fn hll_bin(name: &str) -> Expression {
    bin(ExpType::Hll, name)
}

/// Returns the number of a bin's [`ParticleType`](crate::value::ParticleType); 0 if the bin is
/// missing.
#[must_use]
pub fn bin_type(name: &str) -> Expression {
    Operands::new().raw(name).of(code::BIN_TYPE)
}

/// Tests whether a bin exists.
#[must_use]
pub fn bin_exists(name: &str) -> Expression {
    ne(bin_type(name), 0)
}

/// Returns the user key, if it is stored and of this type: an integer, text, or bytes.
#[must_use]
pub fn key(kind: ExpType) -> Expression {
    Operands::new().int(kind as i64).of(code::KEY)
}

/// Tests whether the user key is stored.
#[must_use]
pub fn key_exists() -> Expression {
    nullary(code::KEY_EXISTS)
}

/// Returns the name of the record's set; empty for a record without a set.
#[must_use]
pub fn set_name() -> Expression {
    nullary(code::SET_NAME)
}

/// Returns the record's size on a device in bytes, a multiple of 16; 0 for a record in memory.
/// Prefer [`record_size`].
#[must_use]
pub fn device_size() -> Expression {
    nullary(code::DEVICE_SIZE)
}

/// Returns the record's size in memory in bytes, a multiple of 16; 0 for a record on a device.
/// Prefer [`record_size`].
#[must_use]
pub fn memory_size() -> Expression {
    nullary(code::MEMORY_SIZE)
}

/// Returns the record's stored size in bytes, a multiple of 16.
#[must_use]
pub fn record_size() -> Expression {
    nullary(code::RECORD_SIZE)
}

/// Returns the time of the last write: nanoseconds since 1970.
#[must_use]
pub fn last_update() -> Expression {
    nullary(code::LAST_UPDATE)
}

/// Returns the time since the last write: milliseconds.
#[must_use]
pub fn since_update() -> Expression {
    nullary(code::SINCE_UPDATE)
}

/// Returns the time of expiry: nanoseconds since 1970; -1 means never.
#[must_use]
pub fn void_time() -> Expression {
    nullary(code::VOID_TIME)
}

/// Returns the remaining time to live: seconds; -1 means for ever.
#[must_use]
pub fn ttl() -> Expression {
    nullary(code::TTL)
}

/// Returns false: expressions never run on tombstones here.
#[must_use]
pub fn is_tombstone() -> Expression {
    nullary(code::IS_TOMBSTONE)
}

/// Returns a number below `modulus` derived from the digest alone, for sampling.
#[must_use]
pub fn digest_modulo(modulus: i64) -> Expression {
    Operands::new().int(modulus).of(code::DIGEST_MODULO)
}
