//! The one error type of the public API.

use std::borrow::Cow;
use std::time::Duration;

use crate::value::CodecError;

/// Everything that can go wrong, with what a person needs to act on it.
///
/// [`Error::result_code`] gives Aerospike's number for it. An error means that nothing was changed, unless
/// [`Error::in_doubt`] says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that should hold a value or a record do not (code 1).
    #[error("malformed {what}: {source}")]
    Malformed {
        /// What was being read.
        what: &'static str,
        /// What was wrong with the bytes.
        #[source]
        source: CodecError,
    },
    /// The record does not exist, has expired or was truncated (code 2).
    #[error("record not found")]
    NotFound,
    /// The record's generation is not the one that the policy asks for (code 3).
    #[error(
        "generation {expected} was expected, the record is at {found}: read it again and repeat the edit"
    )]
    Generation {
        /// The generation of the policy.
        expected: u32,
        /// The generation of the record; 0 when there is no record.
        found: u16,
    },
    /// The request itself is wrong (code 4).
    #[error("invalid request: {0}")]
    Parameter(Cow<'static, str>),
    /// A create-only write met a live record (code 5).
    #[error("record already exists: update or replace it instead of creating it")]
    RecordExists,
    /// A create-only operation met a bin that exists (code 6).
    #[error(
        "bin \"{0}\" already exists: leave out CREATE_ONLY, or add NO_FAIL to keep what is there"
    )]
    BinExists(Box<str>),
    /// The namespace takes no writes (code 8).
    #[error("writes are stopped: {reason}")]
    StopWrites {
        /// Which limit was reached, and what to do.
        reason: Cow<'static, str>,
    },
    /// The time limit of the policy passed (code 9).
    #[error(
        "timed out after {after:?}; {}",
        if *in_doubt { "the write may have been applied: read before repeating it" } else { "nothing was applied" }
    )]
    Timeout {
        /// How long the call waited.
        after: Duration,
        /// True when the write may nevertheless have been applied.
        in_doubt: bool,
    },
    /// The bin's type does not fit the operation (code 12).
    #[error("{operation} does not apply to bin \"{bin}\", which holds a {found}")]
    IncompatibleType {
        /// The bin.
        bin: Box<str>,
        /// The type that the bin has.
        found: &'static str,
        /// The operation that was tried.
        operation: &'static str,
    },
    /// The record would exceed the namespace's limit (code 13).
    #[error(
        "record of {size} bytes exceeds the limit of {limit}{}: split it, or raise the namespace's limit",
        largest(largest_bin)
    )]
    RecordTooBig {
        /// The size that the record would have, in bytes.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
        /// The largest bin and its size in bytes.
        largest_bin: Option<(Box<str>, u64)>,
    },
    /// Too many operations already wait for this record (code 14). Nothing was applied.
    #[error(
        "key busy: {waiting} operations already wait for this record, the limit is {limit}: back off and retry, or spread the load over more records"
    )]
    KeyBusy {
        /// How many operations were waiting.
        waiting: u32,
        /// The limit of the namespace.
        limit: u32,
    },
    /// The operation needs a bin that does not exist (code 17).
    #[error("bin \"{0}\" does not exist: create it first, or add NO_FAIL to pass over it")]
    BinNotFound(Box<str>),
    /// The stored user key differs from the given one (code 19).
    #[error(
        "the record stores another user key than the one given: two keys share a digest, or the digest was given by hand"
    )]
    KeyMismatch,
    /// There is no such namespace (code 20).
    #[error("unknown namespace \"{0}\"")]
    Namespace(Box<str>),
    /// A bin name is not allowed (code 21).
    #[error("bin name {0:?} is not allowed: at most 15 bytes of UTF-8, none of them NUL")]
    BinName(Box<str>),
    /// The operation is not allowed at present (code 22).
    #[error("forbidden: {0}")]
    Forbidden(Cow<'static, str>),
    /// The element to be changed is not there (code 23).
    #[error("element not found in bin \"{bin}\": {hint}")]
    ElementNotFound {
        /// The bin.
        bin: Box<str>,
        /// What was looked for, and what to do.
        hint: &'static str,
    },
    /// An element that must be unique is there already (code 24).
    #[error("element already exists in bin \"{bin}\": {hint}")]
    ElementExists {
        /// The bin.
        bin: Box<str>,
        /// What was tried, and what to do.
        hint: &'static str,
    },
    /// The operation does not apply to the present value (code 26).
    #[error("operation not applicable: {0}")]
    OpNotApplicable(Cow<'static, str>),
    /// The policy's filter expression does not hold for the record (code 27).
    #[error("filtered out: the policy's expression does not hold for this record")]
    FilteredOut,
    /// A companion of a sharded collection is not there, or is not what its root says (code 1). The other shards are as they
    /// were.
    #[error(
        "shard {shard} of \"{key}\" is missing: its record was deleted or has expired; restore it, or delete the collection"
    )]
    ShardMissing {
        /// The key of the root.
        key: Box<str>,
        /// The number of the shard.
        shard: u64,
    },
    /// A record that belongs to something else has the key of a companion (code 5). Nothing was written to it.
    #[error(
        "record \"{key}\" is in the way of a shard: delete it, or keep the collection under another key or in another set"
    )]
    ShardKeyCollision {
        /// The key of that record.
        key: Box<str>,
    },
    /// A time whose bucket ended longer than the retention ago (code 22). Nothing was written.
    #[error(
        "late data: bucket {bucket} ended longer than the retention ago and may have expired; raise the retention, or leave it out"
    )]
    PastRetention {
        /// The bucket, by the beginning of its hour or day in UTC.
        bucket: Box<str>,
    },
    /// What a root says of its shards is not understood here (code 1).
    #[error("sharded collection: {found} is not understood: {why}")]
    ShardScheme {
        /// What was found.
        found: Box<str>,
        /// Why, and what to do.
        why: &'static str,
    },
    /// Text that should be GeoJSON is not (code 160).
    #[error("invalid GeoJSON: {0}")]
    GeoJson(Cow<'static, str>),
    /// The storage engine could not do it: a device refused or failed, a record is damaged or may be out of date
    /// ([`Error::is_damage`]), the namespace is read-only or closed, or was opened by the process that this one is a fork of (codes 1, 4, 8, 22; see [`Error::result_code`]).
    #[error(transparent)]
    Storage(spikelet_storage::Error),
    /// A Rust value and bins could not be converted into one another (code 4).
    #[error("cannot convert between bins and a Rust type: {0}")]
    Serde(Box<str>),
}

/// The part of the message of [`Error::RecordTooBig`] that names the largest bin.
fn largest(bin: &Option<(Box<str>, u64)>) -> String {
    bin.as_ref()
        .map(|(name, size)| format!(" (largest bin: \"{name}\", {size} bytes)"))
        .unwrap_or_default()
}

impl Error {
    /// Aerospike's result code.
    #[must_use]
    pub const fn result_code(&self) -> u8 {
        match self {
            Self::Malformed { .. } | Self::ShardMissing { .. } | Self::ShardScheme { .. } => 1,
            Self::NotFound => 2,
            Self::Generation { .. } => 3,
            Self::Parameter(_) | Self::Serde(_) => 4,
            Self::RecordExists | Self::ShardKeyCollision { .. } => 5,
            Self::BinExists(_) => 6,
            Self::StopWrites { .. } => 8,
            Self::Timeout { .. } => 9,
            Self::IncompatibleType { .. } => 12,
            Self::RecordTooBig { .. } => 13,
            Self::KeyBusy { .. } => 14,
            Self::BinNotFound(_) => 17,
            Self::KeyMismatch => 19,
            Self::Namespace(_) => 20,
            Self::BinName(_) => 21,
            Self::Forbidden(_) | Self::PastRetention { .. } => 22,
            Self::ElementNotFound { .. } => 23,
            Self::ElementExists { .. } => 24,
            Self::OpNotApplicable(_) => 26,
            Self::FilteredOut => 27,
            Self::GeoJson(_) => 160,
            Self::Storage(error) => match error {
                spikelet_storage::Error::BadName { .. }
                | spikelet_storage::Error::BadOption { .. }
                | spikelet_storage::Error::TooManySets { .. } => 4,
                spikelet_storage::Error::NoSpace { .. } => 8,
                spikelet_storage::Error::ReadOnly { .. }
                | spikelet_storage::Error::Forked { .. }
                | spikelet_storage::Error::Closed { .. } => 22,
                _ => 1,
            },
        }
    }

    /// True when the same call may succeed later, and was certainly not applied now.
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::KeyBusy { .. }
                | Self::Timeout {
                    in_doubt: false,
                    ..
                }
                | Self::Storage(spikelet_storage::Error::NoSpace { .. })
        )
    }

    /// True when stored bytes of the record are lost: they do not match their checksums, do not decode, or belong to a part
    /// of the log in which a newer version may have been. Replacing or deleting the record mends it; other records are not
    /// concerned.
    ///
    /// A scan gives such errors in the records' places, and goes on.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        match self {
            Self::Malformed { .. } => true,
            Self::Storage(error) => error.is_damage(),
            _ => false,
        }
    }

    /// True when it is not known whether the write was applied.
    #[must_use]
    pub const fn in_doubt(&self) -> bool {
        matches!(
            self,
            Self::Timeout { in_doubt: true, .. }
                | Self::Storage(spikelet_storage::Error::InDoubt { .. })
        )
    }

    /// An error of a wrong argument (code 4).
    pub(crate) fn parameter(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Parameter(text.into())
    }

    /// Malformed bytes in something that is stored or written whole (code 1).
    pub(crate) const fn malformed(what: &'static str, source: CodecError) -> Self {
        Self::Malformed { what, source }
    }
}

impl From<spikelet_storage::Error> for Error {
    fn from(error: spikelet_storage::Error) -> Self {
        use spikelet_storage::Error as Storage;
        match error {
            Storage::KeyBusy { waiting, limit } => Self::KeyBusy {
                waiting: waiting as u32,
                limit: limit as u32,
            },
            Storage::Timeout => Self::Timeout {
                after: Duration::ZERO,
                in_doubt: false,
            },
            Storage::StopWrites { .. } => Self::StopWrites {
                reason: error.to_string().into(),
            },
            Storage::TooLarge { bytes, limit } => Self::RecordTooBig {
                size: bytes,
                limit,
                largest_bin: None,
            },
            other => Self::Storage(other),
        }
    }
}

impl From<CodecError> for Error {
    fn from(source: CodecError) -> Self {
        Self::malformed("value", source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_aerospikes_number_and_says_whether_to_retry() {
        let none = || "x".into();
        let table = [
            (Error::malformed("record", CodecError::Truncated), 1, false),
            (Error::NotFound, 2, false),
            (
                Error::Generation {
                    expected: 1,
                    found: 2,
                },
                3,
                false,
            ),
            (Error::parameter("no operations"), 4, false),
            (Error::Serde(none()), 4, false),
            (Error::RecordExists, 5, false),
            (
                Error::StopWrites {
                    reason: "full".into(),
                },
                8,
                false,
            ),
            (
                Error::Timeout {
                    after: Duration::from_millis(5),
                    in_doubt: false,
                },
                9,
                true,
            ),
            (
                Error::Timeout {
                    after: Duration::from_millis(5),
                    in_doubt: true,
                },
                9,
                false,
            ),
            (
                Error::IncompatibleType {
                    bin: none(),
                    found: "map",
                    operation: "append",
                },
                12,
                false,
            ),
            (
                Error::RecordTooBig {
                    size: 2,
                    limit: 1,
                    largest_bin: None,
                },
                13,
                false,
            ),
            (
                Error::KeyBusy {
                    waiting: 20,
                    limit: 20,
                },
                14,
                true,
            ),
            (Error::KeyMismatch, 19, false),
            (Error::Namespace(none()), 20, false),
            (Error::BinName(none()), 21, false),
            (Error::Forbidden("ttl".into()), 22, false),
            (
                Error::ElementNotFound {
                    bin: none(),
                    hint: "",
                },
                23,
                false,
            ),
            (
                Error::ElementExists {
                    bin: none(),
                    hint: "",
                },
                24,
                false,
            ),
            (Error::OpNotApplicable("index".into()), 26, false),
            (Error::BinExists(none()), 6, false),
            (Error::BinNotFound(none()), 17, false),
            (Error::FilteredOut, 27, false),
            (Error::GeoJson("x".into()), 160, false),
            (
                Error::ShardMissing {
                    key: none(),
                    shard: 3,
                },
                1,
                false,
            ),
            (Error::ShardKeyCollision { key: none() }, 5, false),
            (Error::PastRetention { bucket: none() }, 22, false),
            (
                Error::ShardScheme {
                    found: none(),
                    why: "",
                },
                1,
                false,
            ),
        ];
        for (error, code, retryable) in table {
            assert_eq!(error.result_code(), code, "{error}");
            assert_eq!(error.is_retryable(), retryable, "{error}");
        }
    }

    #[test]
    fn a_record_too_big_names_the_bin_to_blame() {
        let error = Error::RecordTooBig {
            size: 1_048_600,
            limit: 1_048_576,
            largest_bin: Some(("friends".into(), 1_000_000)),
        };
        assert!(
            error
                .to_string()
                .contains("largest bin: \"friends\", 1000000 bytes")
        );
    }
}
