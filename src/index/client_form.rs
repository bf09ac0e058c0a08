//! Definitions from Aerospike's clients and backups: one component of one type.

use super::definition::{IndexComponent, IndexDefinition, IndexPart, IndexSource, VALUE_BYTES_MAX};
use super::entries::EntryReader;
use super::key::IndexType;
use crate::expression::{ExpType, Expression};
use crate::{Error, Result};

/// What clients and backups call a type or a part of indexed values: a name in info commands, a
/// number in queries, a letter in backups.
pub(crate) struct ClientTerms<T: 'static>(&'static [(T, &'static str, u8, u8)]);

/// The types, with the numbers of value types.
pub(crate) const CLIENT_TYPES: ClientTerms<IndexType> = ClientTerms(&[
    (IndexType::Integer, "numeric", 1, b'N'),
    (IndexType::String, "string", 3, b'S'),
    (IndexType::Blob, "blob", 4, b'B'),
    (IndexType::GeoJson, "geo2dsphere", 23, b'G'),
]);

/// The parts of a value.
pub(crate) const CLIENT_PARTS: ClientTerms<IndexPart> = ClientTerms(&[
    (IndexPart::Whole, "default", 0, b'N'),
    (IndexPart::Elements, "list", 1, b'L'),
    (IndexPart::Keys, "mapkeys", 2, b'K'),
    (IndexPart::Values, "mapvalues", 3, b'V'),
]);

impl<T: Copy + PartialEq> ClientTerms<T> {
    fn find(
        &self,
        is: impl Fn(&(T, &'static str, u8, u8)) -> bool,
    ) -> Option<(T, &'static str, u8, u8)> {
        self.0.iter().copied().find(is)
    }

    /// `None`: clients cannot ask by it.
    #[cfg(any(feature = "server", feature = "cluster"))]
    pub(crate) fn name(&self, value: T) -> Option<&'static str> {
        Some(self.find(|(known, ..)| *known == value)?.1)
    }

    pub(crate) fn letter(&self, value: T) -> Option<u8> {
        Some(self.find(|(known, ..)| *known == value)?.3)
    }

    /// By a name in letters of any case.
    #[cfg(feature = "server")]
    pub(crate) fn by_name(&self, name: &str) -> Option<T> {
        Some(
            self.find(|(_, known, ..)| known.eq_ignore_ascii_case(name))?
                .0,
        )
    }

    #[cfg(feature = "server")]
    pub(crate) fn by_number(&self, number: u8) -> Option<T> {
        Some(self.find(|(.., known, _)| *known == number)?.0)
    }

    pub(crate) fn by_letter(&self, letter: u8) -> Option<T> {
        Some(self.find(|(.., known)| *known == letter)?.0)
    }
}

impl IndexDefinition {
    /// Builds the index for a client's parameters. Leaves out values above 2,048 bytes.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the name, bin, context or expression is invalid, or the expression
    /// has a value of another type.
    pub(crate) fn of_client(
        name: &str,
        source: IndexSource,
        part: IndexPart,
        kind: IndexType,
    ) -> Result<Self> {
        if let IndexSource::Expression(bytes) = &source {
            let result = Expression::from_bytes(bytes)
                .and_then(|expression| expression.result_type())
                .map_err(|error| Error::parameter(format!("exp: {error}")))?;
            if result != Some(type_of(part, kind)) {
                return Err(Error::parameter(
                    "exp: its value is not of the index's type",
                ));
            }
        }
        let component = IndexComponent::of(source).part(part).of_type(kind);
        let definition = Self::new(name, [component]).ignoring_longer_than(VALUE_BYTES_MAX);
        definition.check_usable()?;
        Ok(definition)
    }

    /// Checks the definition, its paths and its expressions.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.check()?;
        EntryReader::new(self).map(drop)
    }
}

/// Returns the type that an expression must have to be indexed as this type.
const fn type_of(part: IndexPart, kind: IndexType) -> ExpType {
    match (part, kind) {
        (IndexPart::Elements, _) => ExpType::List,
        (IndexPart::Keys | IndexPart::Values | IndexPart::Entries, _) => ExpType::Map,
        (_, IndexType::Integer) => ExpType::Int,
        (_, IndexType::String) => ExpType::String,
        (_, IndexType::Blob) => ExpType::Blob,
        (_, IndexType::GeoJson) => ExpType::Geo,
        (_, IndexType::Bool) => ExpType::Bool,
        (_, IndexType::Float) => ExpType::Float,
    }
}
