//! How the library makes the errors that it makes often.

use std::borrow::Cow;

use super::{Error, RelationPlace};
use crate::value::CodecError;

impl Error {
    /// An error of a wrong argument (code 4).
    pub(crate) fn parameter(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Parameter(text.into())
    }

    /// Malformed bytes in something that is stored (code 1).
    pub(crate) const fn malformed(what: &'static str, source: CodecError) -> Self {
        Self::Malformed {
            what,
            source,
            record: None,
        }
    }

    /// The error with the relation, and the side of it, where it came up.
    #[cold]
    pub(crate) fn in_relation(self, relation: &str, side: &str) -> Self {
        let at = RelationPlace {
            relation: relation.into(),
            side: side.into(),
        };
        Self::Relation {
            at: Box::new(at),
            source: Box::new(self),
        }
    }

    /// A value that cannot be stored (code 1).
    pub(crate) const fn not_storable(source: CodecError) -> Self {
        Self::NotStorable {
            source,
            record: None,
        }
    }

    /// There is no such record (code 2).
    pub(crate) const fn not_found() -> Self {
        Self::NotFound { record: None }
    }

    /// A record has another user key (code 19).
    pub(crate) const fn key_mismatch() -> Self {
        Self::KeyMismatch { record: None }
    }

    /// There is no such bin (code 17).
    pub(crate) fn bin_not_found(bin: impl Into<Box<str>>) -> Self {
        Self::BinNotFound {
            bin: bin.into(),
            record: None,
        }
    }

    /// An operation that does not apply to what is there (code 26).
    pub(crate) const fn not_applicable(why: Cow<'static, str>) -> Self {
        Self::OpNotApplicable { why, record: None }
    }
}
