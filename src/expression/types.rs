//! The types of expressions.

use crate::value::ParticleType;

/// The type of an expression's value, with Aerospike's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum ExpType {
    /// The nil value.
    Nil = 0,
    /// A truth value.
    Bool = 1,
    /// A 64-bit signed integer.
    Int = 2,
    /// A text.
    String = 3,
    /// A list.
    List = 4,
    /// A map.
    Map = 5,
    /// A blob.
    Blob = 6,
    /// A double-precision number.
    Float = 7,
    /// GeoJSON text.
    Geo = 8,
    /// A HyperLogLog sketch.
    Hll = 9,
}

impl ExpType {
    /// Returns the type with a number.
    pub(super) const fn from_number(number: i64) -> Option<Self> {
        Some(match number {
            0 => Self::Nil,
            1 => Self::Bool,
            2 => Self::Int,
            3 => Self::String,
            4 => Self::List,
            5 => Self::Map,
            6 => Self::Blob,
            7 => Self::Float,
            8 => Self::Geo,
            9 => Self::Hll,
            _ => return None,
        })
    }

    /// Returns the type of a bin's values; `None` for bin types that expressions cannot read.
    pub(super) const fn of_particle(kind: ParticleType) -> Option<Self> {
        Some(match kind {
            ParticleType::Null => Self::Nil,
            ParticleType::Bool => Self::Bool,
            ParticleType::Integer => Self::Int,
            ParticleType::Float => Self::Float,
            ParticleType::String => Self::String,
            ParticleType::Blob => Self::Blob,
            ParticleType::List => Self::List,
            ParticleType::Map => Self::Map,
            ParticleType::GeoJson => Self::Geo,
            ParticleType::Hll => Self::Hll,
            _ => return None,
        })
    }

    /// Returns the type of a bin that holds values of this type.
    pub(super) const fn particle(self) -> ParticleType {
        match self {
            Self::Nil => ParticleType::Null,
            Self::Bool => ParticleType::Bool,
            Self::Int => ParticleType::Integer,
            Self::Float => ParticleType::Float,
            Self::String => ParticleType::String,
            Self::Blob => ParticleType::Blob,
            Self::List => ParticleType::List,
            Self::Map => ParticleType::Map,
            Self::Geo => ParticleType::GeoJson,
            Self::Hll => ParticleType::Hll,
        }
    }

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
