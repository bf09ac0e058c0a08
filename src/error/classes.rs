//! Properties of errors for callers: result code, retryability.

use spikelet_storage::{ConflictCause, DeviceError, Error as StorageError};

use super::{Error, StoreHolder};
use crate::Result;

impl Error {
    /// Returns Aerospike's result code.
    #[must_use]
    pub const fn result_code(&self) -> u8 {
        match self {
            Self::Malformed { .. }
            | Self::NotStorable { .. }
            | Self::ShardMissing { .. }
            | Self::ShardScheme { .. }
            | Self::Damaged { .. }
            | Self::InUse { .. }
            | Self::PermissionDenied { .. } => 1,
            Self::NotFound { .. } => 2,
            Self::Generation { .. } => 3,
            Self::Conflict {
                cause: ConflictCause::Locked,
                ..
            } => 120,
            Self::Conflict { .. } => 121,
            Self::TransactionLimit { .. } => 123,
            Self::Parameter(_) | Self::Serde(_) | Self::Conversion(_) => 4,
            Self::RecordExists { .. } | Self::ShardKeyCollision { .. } => 5,
            Self::BinExists { .. } => 6,
            Self::StopWrites { .. } => 8,
            Self::Timeout { .. } => 9,
            Self::IncompatibleType { .. } => 12,
            Self::RecordTooBig { .. } | Self::KeyTooBig { .. } => 13,
            Self::KeyBusy { .. } => 14,
            Self::BinNotFound { .. } => 17,
            Self::KeyMismatch { .. } => 19,
            #[cfg(feature = "cluster")]
            Self::Cluster(failure) => failure.result_code(),
            Self::Namespace(_) => 20,
            Self::BinName(_) => 21,
            Self::IndexExists(_) => 200,
            Self::IndexNotFound(_) => 201,
            Self::IndexMemory { .. } => 202,
            Self::IndexBuilding { .. } => 203,
            Self::TooManyIndexes { .. } => 206,
            Self::NotUnique { .. }
            | Self::ChangesLost { .. }
            | Self::Forbidden(_)
            | Self::WritesRefused { .. }
            | Self::PastRetention { .. }
            | Self::ShardRoot { .. }
            | Self::ShardIndexed { .. }
            | Self::OwnedBin { .. }
            | Self::HasEdges { .. }
            | Self::ShardCompanion { .. } => 22,
            Self::ElementNotFound { .. } => 23,
            Self::ElementExists { .. } => 24,
            Self::OpNotApplicable { .. } => 26,
            Self::FilteredOut { .. } => 27,
            Self::GeoJson(_) => 160,
            Self::Relation { source, .. } => source.result_code(),
            // Busy, full, damaged and too large have variants of their own (`From<StorageError>`):
            // what is left is about a namespace or a device.
            Self::Storage(error) => match **error {
                StorageError::BadName { .. }
                | StorageError::BadOption { .. }
                | StorageError::TooManySets { .. } => 4,
                StorageError::NoSpace { .. } | StorageError::Device(DeviceError::Full { .. }) => 8,
                StorageError::ReadOnly { .. }
                | StorageError::Forked { .. }
                | StorageError::Closed { .. }
                | StorageError::OpenedForReading { .. } => 22,
                _ => 1,
            },
        }
    }

    /// Returns whether the same call may succeed after a wait and was certainly not applied: the
    /// record was busy ([`Error::KeyBusy`], [`Error::Timeout`]), an index is being built
    /// ([`Error::IndexBuilding`]), defragmentation has to catch up ([`StorageError::NoSpace`]), or
    /// another process has the store open ([`Error::InUse`]).
    ///
    /// False where waiting alone changes nothing: after a generation error the record must be read
    /// again, and a full namespace or file system needs room ([`Error::StopWrites`] comes after the
    /// wait of [`NamespaceConfig::max_space_wait`](crate::NamespaceConfig::max_space_wait)).
    #[must_use]
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::KeyBusy { .. }
            | Self::IndexBuilding { .. }
            | Self::Conflict { .. }
            | Self::Timeout {
                in_doubt: false, ..
            }
            | Self::InUse {
                holder: StoreHolder::OtherProcess,
                ..
            } => true,
            Self::Storage(error) => matches!(**error, StorageError::NoSpace { .. }),
            Self::Relation { source, .. } => source.is_retryable(),
            #[cfg(feature = "cluster")]
            Self::Cluster(failure) => failure.is_transient() && !failure.in_doubt(),
            _ => false,
        }
    }

    /// Returns whether stored bytes of the record are lost: they do not match their checksums, do
    /// not decode, or belong to a part of the log that may have held a newer version. Replacing or
    /// deleting the record repairs it; other records are not affected.
    ///
    /// A scan yields such errors in place of the records, and continues.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Malformed { .. } | Self::Damaged { .. })
    }

    /// Returns whether the write may or may not have been applied.
    #[must_use]
    pub const fn in_doubt(&self) -> bool {
        match self {
            Self::Timeout { in_doubt, .. } => *in_doubt,
            Self::Storage(error) => matches!(**error, StorageError::InDoubt { .. }),
            Self::Relation { source, .. } => source.in_doubt(),
            #[cfg(feature = "cluster")]
            Self::Cluster(failure) => failure.in_doubt(),
            _ => false,
        }
    }
}

/// The result of a call on a record that may not be there.
pub(crate) fn if_there<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
