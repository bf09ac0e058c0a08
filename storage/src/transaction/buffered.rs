//! A version of a record that is not stored yet.

use crate::digest::Digest;
use crate::entry::{EntryView, NewEntry, RawHeader};
use crate::log::chain::image_header;
use crate::record_lock::NewVersion;

/// A version of a record in memory, which reads as a stored one does.
///
/// ```
/// use spikelet_storage::{BufferedVersion, Digest, NewVersion};
///
/// let version = NewVersion {
///     generation: 1,
///     void_time: 0,
///     last_update_ms: 1,
///     set_id: 0,
///     key: Some(b"alice"),
///     payload: b"bytes",
/// };
/// let buffered = BufferedVersion::new(&Digest::new([7; Digest::LEN]), &version);
/// assert_eq!(buffered.view().payload(), b"bytes");
/// assert_eq!(buffered.version().key, Some(&b"alice"[..]));
/// ```
#[derive(Clone, Debug)]
pub struct BufferedVersion {
    raw: RawHeader,
    /// The key with its length, if it is stored, then the payload.
    body: Vec<u8>,
}

impl BufferedVersion {
    /// Copies a version of the record with this digest.
    #[must_use]
    pub fn new(digest: &Digest, version: &NewVersion<'_>) -> Self {
        let mut entry = NewEntry::new(version.header(digest), version.key, version.payload);
        let body = entry.with_parts(|_, parts| parts.concat());
        Self {
            raw: image_header(entry.header, body.len()),
            body,
        }
    }

    /// Lends the version as readers will see it once it is stored.
    #[must_use]
    pub const fn view(&self) -> EntryView<'_> {
        EntryView::new(&self.raw, self.body.as_slice())
    }

    /// Returns the version to be stored.
    #[must_use]
    pub fn version(&self) -> NewVersion<'_> {
        let view = self.view();
        NewVersion {
            generation: view.generation(),
            void_time: view.void_time(),
            last_update_ms: view.last_update_ms(),
            set_id: view.set_id(),
            key: view.key(),
            payload: view.payload(),
        }
    }

    /// Returns the size of the version in memory, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<RawHeader>() + self.body.len()
    }
}
