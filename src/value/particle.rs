//! The type number of a bin's value.

use super::CodecError;

/// Defines the types. A row has the type, its number, and its name for messages.
macro_rules! types {
    ($($(#[$doc:meta])* $kind:ident = $number:literal $name:literal,)*) => {
        /// The type of a stored value, with Aerospike's numbers (`as_bytes` types of the wire
        /// protocol).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum ParticleType {
            $($(#[$doc])* $kind = $number,)*
        }

        impl ParticleType {
            /// Returns the type with a number, or [`CodecError::UnknownType`].
            pub(crate) const fn from_number(number: u8) -> Result<Self, CodecError> {
                Ok(match number {
                    $($number => Self::$kind,)*
                    other => return Err(CodecError::UnknownType(other)),
                })
            }

            /// Returns the type's name, for messages.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

types! {
    /// No value. Written to a bin, it removes the bin.
    Null = 0 "null",
    /// A 64-bit signed integer.
    Integer = 1 "integer",
    /// A double.
    Float = 2 "float",
    /// A text.
    String = 3 "string",
    /// A blob.
    Blob = 4 "blob",
    /// Bytes that a Java client serialised.
    JavaBlob = 7 "Java blob",
    /// Bytes that a C# client serialised.
    CSharpBlob = 8 "C# blob",
    /// Bytes that a Python client serialised.
    PythonBlob = 9 "Python blob",
    /// Bytes that a Ruby client serialised.
    RubyBlob = 10 "Ruby blob",
    /// Bytes that a PHP client serialised.
    PhpBlob = 11 "PHP blob",
    /// Bytes that an Erlang client serialised.
    ErlangBlob = 12 "Erlang blob",
    /// A vector, handled like a blob.
    Vector = 16 "vector",
    /// A truth value.
    Bool = 17 "bool",
    /// A HyperLogLog sketch.
    Hll = 18 "HyperLogLog",
    /// A map, as MessagePack.
    Map = 19 "map",
    /// A list, as MessagePack.
    List = 20 "list",
    /// GeoJSON text.
    GeoJson = 23 "GeoJSON",
}

impl ParticleType {
    /// Returns the type of text or bytes in a list or map, which begin with its number; a blob if
    /// the number is not of such a type.
    pub(super) const fn of_subtype(number: u8) -> Self {
        match Self::from_number(number) {
            Err(_)
            | Ok(Self::Null | Self::Integer | Self::Float | Self::Bool | Self::Map | Self::List) => {
                Self::Blob
            }
            Ok(kind) => kind,
        }
    }

    /// Returns Aerospike's number of the type.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
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
