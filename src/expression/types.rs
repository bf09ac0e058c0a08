//! The types of expressions.

use crate::value::ParticleType;

/// Defines the types. A row has the type, its number, and the type of a bin that holds its values.
macro_rules! types {
    ($($(#[$doc:meta])* $kind:ident = $number:literal $particle:ident,)*) => {
        /// The type of an expression's value, with Aerospike's numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum ExpType {
            $($(#[$doc])* $kind = $number,)*
        }

        impl ExpType {
            /// Returns the type with a number.
            pub(super) const fn from_number(number: i64) -> Option<Self> {
                Some(match number {
                    $($number => Self::$kind,)*
                    _ => return None,
                })
            }

            /// Returns the type of a bin's values; `None` for bin types that expressions cannot
            /// read.
            pub(super) const fn of_particle(kind: ParticleType) -> Option<Self> {
                Some(match kind {
                    $(ParticleType::$particle => Self::$kind,)*
                    _ => return None,
                })
            }

            /// Returns the type of a bin that holds values of this type.
            pub(super) const fn particle(self) -> ParticleType {
                match self {
                    $(Self::$kind => ParticleType::$particle,)*
                }
            }
        }
    };
}

types! {
    /// The nil value.
    Nil = 0 Null,
    /// A truth value.
    Bool = 1 Bool,
    /// A 64-bit signed integer.
    Int = 2 Integer,
    /// A text.
    String = 3 String,
    /// A list.
    List = 4 List,
    /// A map.
    Map = 5 Map,
    /// A blob.
    Blob = 6 Blob,
    /// A double-precision number.
    Float = 7 Float,
    /// GeoJSON text.
    Geo = 8 GeoJson,
    /// A HyperLogLog sketch.
    Hll = 9 Hll,
}

impl ExpType {
    /// Returns the name, for messages.
    pub(super) const fn name(self) -> &'static str {
        self.particle().name()
    }
}

/// A type as far as it is known before evaluation; `None` fits any type, as the unknown value does.
pub(super) type StaticType = Option<ExpType>;

/// Returns the common type of two expressions, or both types as the error.
pub(super) fn unify(a: StaticType, b: StaticType) -> Result<StaticType, (ExpType, ExpType)> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => Err((a, b)),
        (a, b) => Ok(a.or(b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_particles_name_the_same_types() {
        let types: Vec<ExpType> = (-1..12).filter_map(ExpType::from_number).collect();
        assert_eq!(types.len(), 10);
        for (number, kind) in types.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(ExpType::of_particle(kind.particle()), Some(kind));
        }
        assert_eq!(ExpType::of_particle(ParticleType::JavaBlob), None);
    }
}
