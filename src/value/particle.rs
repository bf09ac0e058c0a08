//! The type number of a bin's value.

use super::CodecError;

/// The type of a stored value, with Aerospike's numbers (`as_bytes` types of the wire protocol).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum ParticleType {
    /// No value. Written to a bin, it removes the bin.
    Null = 0,
    /// A 64-bit signed integer.
    Integer = 1,
    /// A double.
    Float = 2,
    /// A text.
    String = 3,
    /// A blob.
    Blob = 4,
    /// Bytes that a Java client serialised.
    JavaBlob = 7,
    /// Bytes that a C# client serialised.
    CSharpBlob = 8,
    /// Bytes that a Python client serialised.
    PythonBlob = 9,
    /// Bytes that a Ruby client serialised.
    RubyBlob = 10,
    /// Bytes that a PHP client serialised.
    PhpBlob = 11,
    /// Bytes that an Erlang client serialised.
    ErlangBlob = 12,
    /// A vector, handled like a blob.
    Vector = 16,
    /// A truth value.
    Bool = 17,
    /// A HyperLogLog sketch.
    Hll = 18,
    /// A map, as MessagePack.
    Map = 19,
    /// A list, as MessagePack.
    List = 20,
    /// GeoJSON text.
    GeoJson = 23,
}

impl ParticleType {
    /// Returns the type with a number, or [`CodecError::UnknownType`].
    pub(crate) const fn from_number(number: u8) -> Result<Self, CodecError> {
        Ok(match number {
            0 => Self::Null,
            1 => Self::Integer,
            2 => Self::Float,
            3 => Self::String,
            4 => Self::Blob,
            7 => Self::JavaBlob,
            8 => Self::CSharpBlob,
            9 => Self::PythonBlob,
            10 => Self::RubyBlob,
            11 => Self::PhpBlob,
            12 => Self::ErlangBlob,
            16 => Self::Vector,
            17 => Self::Bool,
            18 => Self::Hll,
            19 => Self::Map,
            20 => Self::List,
            23 => Self::GeoJson,
            other => return Err(CodecError::UnknownType(other)),
        })
    }

    /// Returns Aerospike's number of the type.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the type's name, for messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Integer => "integer",
            Self::Float => "float",
            Self::String => "string",
            Self::Blob => "blob",
            Self::JavaBlob => "Java blob",
            Self::CSharpBlob => "C# blob",
            Self::PythonBlob => "Python blob",
            Self::RubyBlob => "Ruby blob",
            Self::PhpBlob => "PHP blob",
            Self::ErlangBlob => "Erlang blob",
            Self::Vector => "vector",
            Self::Bool => "bool",
            Self::Hll => "HyperLogLog",
            Self::Map => "map",
            Self::List => "list",
            Self::GeoJson => "GeoJSON",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_that_is_a_type_names_itself() {
        let known: Vec<u8> = (0..=255)
            .filter(|n| ParticleType::from_number(*n).is_ok())
            .collect();
        assert_eq!(
            known,
            [0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 16, 17, 18, 19, 20, 23]
        );
        for number in known {
            assert_eq!(ParticleType::from_number(number).unwrap().number(), number);
        }
    }
}
