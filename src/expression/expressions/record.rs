//! The parts of a record: bins, key, metadata.

use super::super::{ExpType, Expression};
use super::{Operands, builders, ne};
use crate::expression::code;

/// Defines functions that read a bin of a type.
macro_rules! typed_bins {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(name: &str) -> Expression {
            Operands::new().int(ExpType::$kind as i64).raw(name).of(code::BIN)
        }
    )*};
}

typed_bins! {
    /// Reads a bin that holds a truth value. Unknown if the bin is missing or of another type, as
    /// for all bins.
    bool_bin Bool;

    /// Reads a bin that holds an integer.
    int_bin Int;

    /// Reads a bin that holds a double.
    float_bin Float;

    /// Reads a bin that holds text.
    string_bin String;

    /// Reads a bin that holds bytes.
    blob_bin Blob;

    /// Reads a bin that holds a list.
    list_bin List;

    /// Reads a bin that holds a map.
    map_bin Map;

    /// Reads a bin that holds GeoJSON text.
    geo_bin Geo;

    /// Reads a bin that holds a HyperLogLog sketch.
    hll_bin Hll;
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

builders! {
    /// Tests whether the user key is stored.
    key_exists() KEY_EXISTS;

    /// Returns the name of the record's set; empty for a record without a set.
    set_name() SET_NAME;

    /// Returns the record's size on a device in bytes, a multiple of 16; 0 for a record in memory.
    /// Prefer [`record_size`].
    device_size() DEVICE_SIZE;

    /// Returns the record's size in memory in bytes, a multiple of 16; 0 for a record on a device.
    /// Prefer [`record_size`].
    memory_size() MEMORY_SIZE;

    /// Returns the record's stored size in bytes, a multiple of 16.
    record_size() RECORD_SIZE;

    /// Returns the time of the last write: nanoseconds since 1970.
    last_update() LAST_UPDATE;

    /// Returns the time since the last write: milliseconds.
    since_update() SINCE_UPDATE;

    /// Returns the time of expiry: nanoseconds since 1970; -1 means never.
    void_time() VOID_TIME;

    /// Returns the remaining time to live: seconds; -1 means for ever.
    ttl() TTL;

    /// Returns false: expressions never run on tombstones here.
    is_tombstone() IS_TOMBSTONE;
}

/// Returns a number below `modulus` derived from the digest alone, for sampling.
#[must_use]
pub fn digest_modulo(modulus: i64) -> Expression {
    Operands::new().int(modulus).of(code::DIGEST_MODULO)
}
