//! Constructors of frequent errors.

use std::borrow::Cow;

use super::{Error, RelationPlace};
use crate::value::CodecError;

impl Error {
    /// Values and types of Rust that do not fit each other.
    pub(crate) fn serde(why: impl ToString) -> Self {
        Self::Serde(why.to_string().into())
    }

    /// Returns the error of an invalid argument (code 4).
    pub(crate) fn parameter(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Parameter(text.into())
    }

    /// Returns the error of malformed stored bytes (code 1).
    pub(crate) const fn malformed(what: &'static str, source: CodecError) -> Self {
        Self::Malformed {
            what,
            source,
            record: None,
        }
    }

    /// Adds the relation and its side to the error; one that names them stays as it is, since it
    /// knows them best.
    #[cold]
    pub(crate) fn in_relation(self, relation: &str, side: impl ToString) -> Self {
        if matches!(self, Self::Relation { .. }) {
            return self;
        }
        let at = RelationPlace {
            relation: relation.into(),
            side: side.to_string().into(),
        };
        Self::Relation {
            at: Box::new(at),
            source: Box::new(self),
        }
    }

    /// Returns the error of a value that cannot be stored (code 1).
    pub(crate) const fn not_storable(source: CodecError) -> Self {
        Self::NotStorable {
            source,
            record: None,
        }
    }

    /// Returns the error of a missing record (code 2).
    pub(crate) const fn not_found() -> Self {
        Self::NotFound { record: None }
    }

    /// Returns the error of a record with another user key (code 19).
    pub(crate) const fn key_mismatch() -> Self {
        Self::KeyMismatch { record: None }
    }

    /// Returns the error of a missing bin (code 17).
    pub(crate) fn bin_not_found(bin: impl Into<Box<str>>) -> Self {
        Self::BinNotFound {
            bin: bin.into(),
            record: None,
        }
    }

    /// Returns the error of an operation that does not apply to the current value (code 26).
    pub(crate) const fn not_applicable(why: Cow<'static, str>) -> Self {
        Self::OpNotApplicable { why, record: None }
    }
}
