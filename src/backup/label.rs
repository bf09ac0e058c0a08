//! The letters of value types.

use crate::value::ParticleType;

/// The letter of a bin without a value.
pub(super) const NIL: u8 = b'N';
/// A truth value: `T` or `F`.
pub(super) const BOOL: u8 = b'Z';
/// An integer.
pub(super) const INTEGER: u8 = b'I';
/// A float.
pub(super) const FLOAT: u8 = b'D';
/// Text, as it is.
pub(super) const STRING: u8 = b'S';
/// Text in Base64, in old files.
pub(super) const ENCODED_STRING: u8 = b'X';
/// GeoJSON, as it is.
pub(super) const GEOJSON: u8 = b'G';
/// A blob, in Base64 unless [`RAW`] follows.
pub(super) const BLOB: u8 = b'B';
/// A large data type; servers dropped these in 2016.
pub(super) const LARGE_DATA: u8 = b'U';
/// Follows the letter of bytes that are not in Base64.
pub(super) const RAW: u8 = b'!';

/// The blob types and their letters.
const BYTES: [(ParticleType, u8); 10] = [
    (ParticleType::Blob, BLOB),
    (ParticleType::JavaBlob, b'J'),
    (ParticleType::CSharpBlob, b'C'),
    (ParticleType::PythonBlob, b'P'),
    (ParticleType::RubyBlob, b'R'),
    (ParticleType::PhpBlob, b'H'),
    (ParticleType::ErlangBlob, b'E'),
    (ParticleType::Hll, b'Y'),
    (ParticleType::Map, b'M'),
    (ParticleType::List, b'L'),
];

/// Returns the letter of a blob type. Types without one, such as vectors, are written as plain
/// bytes.
pub(super) fn of_bytes(kind: ParticleType) -> u8 {
    BYTES
        .iter()
        .find_map(|(known, label)| (*known == kind).then_some(*label))
        .unwrap_or(BLOB)
}

/// Returns the blob type with a letter.
pub(super) fn bytes_of(label: u8) -> Option<ParticleType> {
    BYTES
        .iter()
        .find_map(|(kind, known)| (*known == label).then_some(*kind))
}
