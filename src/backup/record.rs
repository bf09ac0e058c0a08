//! A record as a backup holds it.

use spikelet_storage::Digest;

use crate::engine::SavedVersion;
use crate::record::{Key, RecordView};

/// A record of a backup, with its bins in stored form.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedRecord {
    /// The namespace it was saved from.
    pub namespace: String,
    /// The record's set; empty for a record without a set.
    pub set: String,
    /// The record's digest: if the key is saved, Aerospike's (RIPEMD-160 of set and key).
    pub digest: Digest,
    /// The number of writes, 1 to 65,535.
    pub generation: u16,
    /// The expiry, in seconds since 2010-01-01T00:00:00Z; 0 means never.
    pub void_time: u32,
    /// The line where the record begins, counted from 1.
    pub line: u64,
    /// The byte where the record begins, counted from 0.
    pub offset: u64,
    pub(super) stored_key: Option<Vec<u8>>,
    /// Validated when read.
    pub(super) body: Vec<u8>,
}

impl SavedRecord {
    /// Returns the saved user key; `None` for bytes that form no [`Key`], such as text that is not
    /// UTF-8.
    #[must_use]
    pub fn key(&self) -> Option<Key<'_>> {
        Key::from_stored(self.stored_key()?).ok()
    }

    /// Returns the user key in stored form: a type byte, then the key (integers as 8 bytes,
    /// big-endian).
    #[must_use]
    pub fn stored_key(&self) -> Option<&[u8]> {
        self.stored_key.as_deref()
    }

    /// Returns the bytes of key and bins in stored form.
    #[must_use]
    pub fn stored_bytes(&self) -> usize {
        self.stored_key.as_ref().map_or(0, Vec::len) + self.body.len()
    }

    /// Returns the bins. O(bins).
    #[must_use]
    pub fn view(&self) -> RecordView<'_> {
        // Cannot fail: the body was validated when read.
        RecordView::parse(&self.body).unwrap_or(RecordView::EMPTY)
    }

    /// Returns the version to write.
    pub(super) fn version(&self) -> SavedVersion<'_> {
        SavedVersion {
            digest: self.digest,
            key: self.stored_key(),
            generation: self.generation,
            void_time: self.void_time,
            bins: self.view(),
        }
    }
}
