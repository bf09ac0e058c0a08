//! The reasons for refusing a call.

use std::borrow::Cow;

use super::MAX_COLLECTION_BYTES;
use crate::Error;
use crate::value::{CodecError, ParticleType};

/// The reason why an operation on a bin was refused. It becomes an [`Error`] once the bin is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// The call itself is wrong: its number, its arguments, its flags (code 4).
    Parameter(Cow<'static, str>),
    /// An argument is malformed or cannot be encoded or stored (code 4).
    Argument(CodecError),
    /// A bin exists that must not (code 6).
    BinExists,
    /// The bin's value has the wrong type for the operation (code 12).
    WrongType {
        found: ParticleType,
        operation: &'static str,
    },
    /// A bin does not exist that must (code 17).
    BinNotFound,
    /// The element to change does not exist (code 23).
    ElementNotFound,
    /// An element that must be unique exists already (code 24).
    ElementExists,
    /// The operation does not apply to the current value (code 26).
    NotApplicable(&'static str),
    /// The new value would be larger than any record can be (code 13).
    TooBig { bytes: u64 },
    /// The bin's stored value is malformed (code 1).
    Stored(CodecError),
}

impl CallError {
    /// Returns the error of a wrong call.
    pub(crate) fn parameter(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Parameter(why.into())
    }

    /// Returns the error of the public API.
    pub(crate) fn in_bin(self, bin: &str) -> Error {
        match self {
            Self::Parameter(why) => Error::parameter(format!("{why} (bin \"{bin}\")")),
            Self::Argument(source) => Error::parameter(format!("{source} (bin \"{bin}\")")),
            Self::BinExists => Error::BinExists {
                bin: bin.into(),
                record: None,
            },
            Self::WrongType { found, operation } => Error::IncompatibleType {
                bin: bin.into(),
                found: found.name(),
                operation,
                record: None,
            },
            Self::BinNotFound => Error::bin_not_found(bin),
            Self::ElementNotFound => Error::ElementNotFound {
                bin: bin.into(),
                hint: "the write flags ask for keys that exist; add NO_FAIL to pass over missing ones",
                record: None,
            },
            Self::ElementExists => Error::ElementExists {
                bin: bin.into(),
                hint: "the write flags ask for elements that do not exist yet; add NO_FAIL to pass over those that do",
                record: None,
            },
            Self::NotApplicable(why) => {
                Error::not_applicable(format!("{why} (bin \"{bin}\")").into())
            }
            Self::TooBig { bytes } => Error::RecordTooBig {
                size: bytes,
                limit: MAX_COLLECTION_BYTES as u64,
                largest_bin: Some((bin.into(), bytes)),
                record: None,
            },
            Self::Stored(source) => Error::malformed("bin", source),
        }
    }
}
