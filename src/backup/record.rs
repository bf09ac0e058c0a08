//! A record as a backup holds it.

use spikelet_storage::Digest;

use crate::record::{Key, RecordView};

/// A record of a backup, with its bins in the form in which a store holds them.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedRecord {
    /// The namespace that it was saved from.
    pub namespace: String,
    /// Its set; empty: none.
    pub set: String,
    /// Its digest. Of set and key by RIPEMD-160, if the key is there: Aerospike's.
    pub digest: Digest,
    /// How often it had been written, 1 to 65,535.
    pub generation: u16,
    /// The second, since 2010-01-01T00:00:00Z, after which it expires; 0: never.
    pub void_time: u32,
    /// The line at which it begins, from 1 on.
    pub line: u64,
    /// The byte at which it begins, from 0 on.
    pub offset: u64,
    pub(super) stored_key: Option<Vec<u8>>,
    /// Checked when it was read.
    pub(super) body: Vec<u8>,
}

impl SavedRecord {
    /// The user key, if it was saved. Text that is not UTF-8 reads as bytes.
    #[must_use]
    pub fn key(&self) -> Option<Key<'_>> {
        Key::from_stored(self.stored_key()?).ok()
    }

    /// The user key in its stored form: a byte for the type, then the key (integers as 8 bytes, big-endian).
    #[must_use]
    pub fn stored_key(&self) -> Option<&[u8]> {
        self.stored_key.as_deref()
    }

    /// The bins. O(bins).
    #[must_use]
    pub fn view(&self) -> RecordView<'_> {
        // The body was checked when it was read; the empty body stands for what cannot happen.
        RecordView::parse(&self.body).unwrap_or(RecordView::EMPTY)
    }
}
