//! Conversion of storage errors: errors that callers act on have variants of their own.

use std::time::Duration;

use spikelet_storage::{DeviceError, Error as StorageError};

use super::{Error, StoreHolder, WriteStop};

impl From<StorageError> for Error {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::KeyBusy { waiting, limit } => Self::KeyBusy {
                waiting: waiting as u32,
                limit: limit as u32,
                record: None,
            },
            StorageError::Timeout => Self::Timeout {
                after: Duration::ZERO,
                in_doubt: false,
                record: None,
            },
            StorageError::StopWrites { namespace, .. } => Self::StopWrites {
                namespace: namespace.into(),
                cause: WriteStop::NamespaceFull,
            },
            StorageError::TooLarge { bytes, limit } => Self::RecordTooBig {
                size: bytes,
                limit,
                largest_bin: None,
                record: None,
            },
            StorageError::Device(DeviceError::Locked { path }) => Self::InUse {
                path: path.into(),
                // Callers that find the store in this process say so instead.
                holder: StoreHolder::OtherProcess,
            },
            StorageError::Device(DeviceError::Io {
                path,
                action,
                source,
            }) if source.kind() == std::io::ErrorKind::PermissionDenied => Self::PermissionDenied {
                path: path.into(),
                action,
                source,
            },
            StorageError::ChangesLost {
                position, lost_to, ..
            } => Self::ChangesLost {
                position,
                kept_after: lost_to,
            },
            damage if damage.is_damage() => Self::Damaged {
                source: Box::new(damage),
                record: None,
            },
            other => Self::Storage(Box::new(other)),
        }
    }
}
