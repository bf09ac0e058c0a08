//! Errors of a device.

use super::{FORMAT_VERSION, Member};

/// Why there is no space on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FullCause {
    /// The file system has no space left.
    Disk,
    /// The user's or project's quota is used up.
    Quota,
    /// The device's own maximum size.
    DeviceMaximum,
}

impl std::fmt::Display for FullCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Disk => "the disk is full: free space on it, or delete records",
            Self::Quota => "the disk quota is used up: raise it, or delete records",
            Self::DeviceMaximum => {
                "that is past its maximum size: delete records, or add a device to a new namespace"
            }
        })
    }
}

/// The result of a call on a device.
pub(crate) type DeviceResult<T> = Result<T, DeviceError>;

/// An error of a device. `path` is what [`Device::describe`](super::Device::describe) gives.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The operating system refused.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The device.
        path: String,
        /// The action, such as `open`.
        action: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },

    /// There is no space for a part of the device, or of its staging memory. Its length is as
    /// before.
    #[error("device {path} has no space from byte {len_bytes} to {wanted_bytes}: {cause}")]
    Full {
        /// The device.
        path: String,
        /// Where the refused part begins, in bytes; for an extension the device's length.
        len_bytes: u64,
        /// Where the refused part ends, in bytes; for an extension the length asked for.
        wanted_bytes: u64,
        /// The obstacle.
        cause: FullCause,
    },

    /// Another store, in this process or another, has the device open.
    #[error(
        "device {path} is in use by another store, in this process or another: close that first"
    )]
    Locked {
        /// The device.
        path: String,
    },

    /// The device was opened for reading.
    #[error("device {path} is open read-only: cannot {action} it")]
    ReadOnly {
        /// The device.
        path: String,
        /// The action.
        action: &'static str,
    },

    /// A device cannot be created over something that holds data.
    #[error("{path} exists and is not empty: open it, or create the device under another path")]
    AlreadyExists {
        /// The path.
        path: String,
    },

    /// An option with which no device can be created.
    #[error("option {option} = {value} cannot be used for device {path}: {rule}")]
    BadOption {
        /// The device.
        path: String,
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// The rule.
        rule: String,
    },

    /// Not a device of a store at all.
    #[error(
        "{path} is not a device of a store ({found}): check the path, or restore it from a backup; if its creation was interrupted, remove the file"
    )]
    NotADevice {
        /// The path.
        path: String,
        /// The content that is there instead.
        found: &'static str,
    },

    /// The device is of a format that this version does not read.
    #[error(
        "device {path} has format version {found}, this program reads version {supported}: use a program of that version",
        supported = FORMAT_VERSION
    )]
    UnsupportedVersion {
        /// The device.
        path: String,
        /// The version in the header.
        found: u32,
    },

    /// The header is that of a device, but its bytes are not as they were written.
    #[error("the header of device {path} is damaged ({reason}): restore the device from a backup")]
    DamagedHeader {
        /// The device.
        path: String,
        /// The reason.
        reason: &'static str,
    },

    /// The device is shorter than its header, than it was when it was last synced, or than the part
    /// asked for.
    #[error(
        "device {path} is cut off: {len_bytes} bytes, expected at least {expected_bytes}: restore it from a backup"
    )]
    Truncated {
        /// The device.
        path: String,
        /// Its length in bytes.
        len_bytes: u64,
        /// The least length it had.
        expected_bytes: u64,
    },

    /// The device belongs elsewhere: to another namespace, or to another place in it.
    #[error(
        "device {path} was created as {found}, not as {expected}: give all paths of the namespace, in their order, and the key hash it has, which cannot be changed"
    )]
    WrongMember {
        /// The device.
        path: String,
        /// Where it belongs.
        found: Member,
        /// Where it was to be opened.
        expected: Member,
    },

    /// The devices are of several stores.
    #[error(
        "device {path} is of another store than the device with the newest state: open the devices that were created together, or restore the namespace from a backup"
    )]
    OtherStore {
        /// The device.
        path: String,
    },
}

impl DeviceError {
    /// Whether the bytes of a header cannot be read, are not as they were written, or were never a
    /// header.
    pub(super) const fn is_header_damage(&self) -> bool {
        matches!(
            self,
            Self::NotADevice { .. } | Self::DamagedHeader { .. } | Self::Io { .. }
        )
    }

    /// For `map_err`: an I/O error of this device.
    pub(crate) fn io(path: &str, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io {
            path: path.to_owned(),
            action,
            source,
        }
    }
}
