//! Definitions as Aerospike's clients and backups give them: one component, of one type.

use super::definition::{IndexComponent, IndexDefinition, IndexPart, IndexSource};
use super::entries::EntryReader;
use super::key::IndexType;
use crate::expression::{ExpType, Expression};
use crate::{Error, Result};

/// Strings and blobs above this length are left out of the index: Aerospike's limit.
pub(crate) const VALUE_BYTES_MAX: u32 = 2048;

impl IndexDefinition {
    /// The index that a client asks for with these parameters. Leaves out values above 2,048 bytes.
    ///
    /// # Errors
    /// [`Error::Parameter`] if the definition cannot be used: its name, bin, context or expression, or an expression
    /// with a value that is not of this type.
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

    /// Checks the definition, and that its paths and expressions can be read.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub(crate) fn check_usable(&self) -> Result<()> {
        self.check()?;
        EntryReader::new(self).map(drop)
    }
}

/// The type that an expression must have so that an index can be of its value.
const fn type_of(part: IndexPart, kind: IndexType) -> ExpType {
    match (part, kind) {
        (IndexPart::Elements, _) => ExpType::List,
        (IndexPart::Keys | IndexPart::Values, _) => ExpType::Map,
        (_, IndexType::Integer) => ExpType::Int,
        (_, IndexType::String) => ExpType::String,
        (_, IndexType::Blob) => ExpType::Blob,
        (_, IndexType::GeoJson) => ExpType::Geo,
        (_, IndexType::Bool) => ExpType::Bool,
        (_, IndexType::Float) => ExpType::Float,
    }
}
