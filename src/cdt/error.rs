//! What can go wrong in an operation on a collection.

use crate::Error;
use crate::value::CodecError;

/// Why an operation on a collection was refused. It becomes an [`Error`] once the bin is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CdtError {
    /// An element that must be unique is there already.
    ElementExists,
    /// The operation does not apply to the present value.
    NotApplicable(&'static str),
    /// An argument cannot be encoded or stored.
    Argument(CodecError),
    /// The stored collection is malformed.
    Stored(CodecError),
}

impl CdtError {
    /// The error of the public API.
    pub(crate) fn in_bin(self, bin: &str) -> Error {
        match self {
            Self::ElementExists => Error::ElementExists {
                bin: bin.into(),
                hint: "the write flags ask for unique elements; add NO_FAIL to pass over duplicates",
            },
            Self::NotApplicable(why) => {
                Error::OpNotApplicable(format!("{why} (bin \"{bin}\")").into())
            }
            Self::Argument(source) => Error::parameter(format!("{source} (bin \"{bin}\")")),
            Self::Stored(source) => Error::malformed("list or map", source),
        }
    }
}
