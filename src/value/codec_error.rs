//! Errors of encoding, decoding and validating values.

/// How deep containers may nest in one value. Reading, writing and comparing recurse once a level,
/// so this bounds the stack that hostile bytes can use (a few hundred bytes a level). Real data
/// stays below ten.
pub(crate) const MAX_NESTING: u32 = 128;

/// The reason why bytes are not a value, or a value cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The bytes end before what their headers announce.
    #[error("the bytes end before what their headers announce")]
    Truncated,
    /// Bytes are left over after the value.
    #[error("{0} bytes follow the value")]
    TrailingBytes(usize),
    /// A byte that MessagePack does not use.
    #[error("byte {0:#04x} begins no MessagePack element")]
    UnknownByte(u8),
    /// A type number without a type.
    #[error("{0} is no type of a value")]
    UnknownType(u8),
    /// An extension with a type unknown here.
    #[error("extension {0:#04x} is not a value that can be read")]
    UnknownExtension(u8),
    /// A fixed-size value of another size, or a truth value that is neither 0 nor 1.
    #[error("{len} bytes are not a {what}")]
    Scalar {
        /// The type.
        what: &'static str,
        /// The number of bytes found.
        len: usize,
    },
    /// Containers nest too deep.
    #[error("lists and maps nest deeper than {MAX_NESTING} levels")]
    TooDeep,
    /// A length that the format cannot encode.
    #[error("a length exceeds 4 GiB")]
    TooLong,
    /// A list or map was expected.
    #[error("a list or map was expected")]
    NotAContainer,
    /// A wildcard or infinity in a value to be stored.
    #[error("wildcard and infinity are for lookups and cannot be stored")]
    NotStorable,
    /// An integer in a value to be stored that is above `i64::MAX`.
    #[error(
        "the integer {0} does not fit the 64 bits with sign that are stored: store it as text or bytes"
    )]
    IntegerTooBig(u64),
    /// A map key of a type that no key may have.
    #[error("a map key is neither integer, string nor blob")]
    IllegalKey,
    /// Two entries of a map have the same key.
    #[error("a map has the same key twice")]
    DuplicateKey,
    /// A container is flagged as ordered, but its elements are not in order.
    #[error("a list or map marked as ordered is not in order")]
    NotInOrder,
    /// Index data that does not fit its list.
    #[error("the index of a list does not fit its elements")]
    BadIndex,
    /// An expression applied to an element is unknown for it.
    #[error(
        "the expression applied to an element has no value; NO_FAIL leaves the element as it is"
    )]
    NoValue,
    /// A name of a bin that is too long, not UTF-8, or contains NUL.
    #[error("a bin name is longer than 15 bytes, not UTF-8, or contains NUL")]
    BinName,
}
