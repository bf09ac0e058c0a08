//! Errors of the storage engine.

use crate::device::DeviceError;
use crate::digest::Digest;
use crate::location::Location;

/// An error of the storage engine. Nothing was changed, unless the text says otherwise.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A device refused: I/O, a lock held by another process, a foreign or damaged file.
    #[error(transparent)]
    Device(#[from] DeviceError),

    /// The record is being written and `waiting` writers queue for it already, which is the limit.
    #[error(
        "key busy: {waiting} writers wait for this record and the limit is {limit}; retry later, spread the record, or raise max_waiters"
    )]
    KeyBusy {
        /// How many writers were waiting.
        waiting: usize,
        /// The namespace's `max_waiters`.
        limit: usize,
    },

    /// The record stayed locked until the deadline.
    #[error("timed out waiting for the record's lock; nothing was changed")]
    Timeout,

    /// A transaction or group cannot be committed, since a record that it has read has changed, or
    /// a truncation has begun meanwhile.
    #[error(
        "the transaction conflicts with another writer in record {digest}: {cause}; run it again"
    )]
    Conflict {
        /// The record.
        digest: Digest,
        /// The change.
        cause: ConflictCause,
    },

    /// An entry does not fit into a block.
    #[error("an entry of {bytes} bytes exceeds the {limit} bytes that a block can hold")]
    TooLarge {
        /// The entry's size with its header.
        bytes: u64,
        /// The most that fits.
        limit: u64,
    },

    /// Free space is down to the reserve that deletes and defragmentation need, or the disk is
    /// full.
    #[error(
        "namespace {namespace} is full ({free_blocks} free blocks left; a few are reserved for deletes and defragmentation, many mean that the disk is full): delete records, raise its max size, or make room on the disk"
    )]
    StopWrites {
        /// The namespace.
        namespace: String,
        /// Blocks left.
        free_blocks: u64,
    },

    /// Not even the reserve has room. Retry when defragmentation has freed a block.
    #[error(
        "namespace {namespace} has no free block left, not even in its reserve; retry when defragmentation has caught up"
    )]
    NoSpace {
        /// The namespace.
        namespace: String,
    },

    /// A sync failed earlier. Writes acknowledged since the last good sync may be lost in a power
    /// failure.
    #[error(
        "namespace {namespace} is read-only since a sync failed ({reason}): check the device, then open the store again"
    )]
    ReadOnly {
        /// The namespace.
        namespace: String,
        /// The first failure.
        reason: String,
    },

    /// The write is applied and visible, but the sync that should make it durable failed. Or the
    /// device refused it, with a part of it stored that cannot be erased: the next opening shows
    /// all of it, or nothing.
    #[error(
        "whether the write is durable is unknown ({reason}); read before you repeat it, and open the store again first if it takes no writes"
    )]
    InDoubt {
        /// The failure.
        reason: String,
    },

    /// The stored bytes of a record do not match their checksum.
    #[error(
        "the record is damaged on the device (device {device}, offset {offset}); delete or overwrite it, or restore it from a backup"
    )]
    Damaged {
        /// Number of the device in the namespace.
        device: usize,
        /// Offset of the entry in bytes.
        offset: u64,
    },

    /// Bytes of the log are lost, and their records are unknown: a version written before may be
    /// out of date.
    #[error(
        "namespace {namespace} has lost part of its log and the list of what was in it, so this record may have had a newer version; write it anew, or restore the namespace from a backup (`verify` shows the damage)"
    )]
    MaybeStale {
        /// The namespace.
        namespace: String,
    },

    /// The process is a fork of the one that has opened the namespace.
    #[error(
        "namespace {namespace} was opened by the process that this one was forked from: open the store after the fork, in one process"
    )]
    Forked {
        /// The namespace.
        namespace: String,
    },

    /// A namespace has 4,095 sets already.
    #[error("set {name:?} would be number {limit_plus_one} of the namespace, the limit is {limit}: use fewer sets", limit_plus_one = limit + 1)]
    TooManySets {
        /// The set that was refused.
        name: String,
        /// The limit.
        limit: usize,
    },

    /// A name that is not allowed.
    #[error("{what} {name:?} is not allowed: {rule}")]
    BadName {
        /// The name given.
        what: &'static str,
        /// The name.
        name: String,
        /// The rule.
        rule: &'static str,
    },

    /// An option that cannot be used.
    #[error("option {option} = {value} cannot be used: {rule}")]
    BadOption {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// The rule.
        rule: &'static str,
    },

    /// Stored metadata of the namespace (sets, truncations) does not decode.
    #[error(
        "the stored metadata of namespace {namespace} does not decode ({reason}); `verify` shows the damage"
    )]
    DamagedMetadata {
        /// The namespace.
        namespace: String,
        /// The finding.
        reason: String,
    },

    /// Changes that a reader has not read yet are gone: it was too slow, or asks for changes older
    /// than those kept.
    #[error(
        "changes of namespace {namespace} after {position} are not all there any more: the first that are have numbers above {lost_to}; read the records anew and go on from now, and raise change_bytes_max if readers are slower than that"
    )]
    ChangesLost {
        /// The namespace.
        namespace: String,
        /// The number up to which the reader has read.
        position: u64,
        /// Changes up to this number may be gone.
        lost_to: u64,
    },

    /// A handle has closed the namespace.
    #[error("namespace {namespace} takes no writes, since it was closed: open the store again")]
    Closed {
        /// The namespace.
        namespace: String,
    },

    /// The namespace was opened for reading.
    #[error(
        "namespace {namespace} takes no writes, since it was opened for reading: open the store for writing"
    )]
    OpenedForReading {
        /// The namespace.
        namespace: String,
    },
}

impl Error {
    #[cold]
    pub(crate) const fn damaged_at(location: Location) -> Self {
        Self::Damaged {
            device: location.device(),
            offset: location.offset_bytes(),
        }
    }

    /// Whether stored bytes are lost: the record is damaged, or may have had a newer version that
    /// is.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged { .. } | Self::MaybeStale { .. })
    }
}

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a transaction cannot be committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ConflictCause {
    /// Another writer has changed a record since it was read.
    Changed,
    /// Another writer holds the lock of a record.
    Locked,
    /// A record has expired since it was read.
    Expired,
}

impl std::fmt::Display for ConflictCause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Changed => "another writer has changed it since it was read",
            Self::Locked => "another writer has it locked",
            Self::Expired => "it has expired since it was read",
        })
    }
}
