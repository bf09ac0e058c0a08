//! Entries as readers get them: lent in place, or copied.

use crate::bytes::slice;
use crate::entry::{ENTRY_HEADER_BYTES, EntryView, RawHeader};
use crate::image::{Content, HeldImage, ImageRef};
use std::cell::Cell;
use std::ptr::NonNull;

pub(super) const HEADER_WORDS: usize = ENTRY_HEADER_BYTES / 8;

/// An entry in place, or a copy of one that is still staged.
#[derive(Debug)]
pub(crate) enum Entry<'a> {
    Lent(EntryView<'a>),
    Image(ImageRef<'a>),
    Owned(OwnedEntry),
}

/// An entry of the reader's own.
#[derive(Debug)]
pub(crate) enum OwnedEntry {
    /// In the memory of a device, for a caller that keeps a guard besides.
    Lent(LentEntry),
    /// A copy from staging memory.
    Copied(CopiedEntry),
    /// Put together from a chain.
    Built(Box<Content>),
    /// An image that a record lock holds.
    Held(HeldImage),
}

impl Entry<'_> {
    /// The entry, for a caller that keeps the guard under which it was found.
    ///
    /// # Safety
    /// The guard outlives the result.
    pub(crate) unsafe fn kept(self) -> OwnedEntry {
        match self {
            // SAFETY: as above.
            Self::Lent(view) => OwnedEntry::Lent(unsafe { LentEntry::new(view) }),
            // SAFETY: as above.
            Self::Image(image) => OwnedEntry::Held(unsafe { HeldImage::new(image) }),
            Self::Owned(own) => own,
        }
    }

    #[inline]
    pub(crate) fn view(&self) -> EntryView<'_> {
        match self {
            Self::Lent(view) => *view,
            Self::Image(image) => image.content().view(),
            Self::Owned(owned) => owned.view(),
        }
    }
}

impl OwnedEntry {
    #[inline]
    pub(crate) fn view(&self) -> EntryView<'_> {
        match self {
            Self::Lent(entry) => entry.view(),
            Self::Copied(copy) => copy.view(),
            Self::Built(content) => content.view(),
            Self::Held(image) => image.content().view(),
        }
    }
}

/// An entry in the memory of a device, kept beside the guard under which it was found.
#[derive(Debug)]
pub(crate) struct LentEntry {
    raw: NonNull<RawHeader>,
    body: NonNull<[u8]>,
}

impl LentEntry {
    /// # Safety
    /// The guard under which the entry was found outlives the result.
    pub(crate) unsafe fn new(entry: EntryView<'_>) -> Self {
        Self {
            raw: NonNull::from(entry.raw()),
            body: NonNull::from(entry.body()),
        }
    }

    #[inline]
    fn view(&self) -> EntryView<'_> {
        // SAFETY: the guard keeps the entry where it is and as it is.
        unsafe { EntryView::new(self.raw.as_ref(), self.body.as_ref()) }
    }
}

/// The bytes of a staged entry. Their memory is used again by the thread's next copy.
#[derive(Debug)]
pub(crate) struct CopiedEntry {
    pub(super) words: Vec<[u8; 8]>,
    pub(super) body_bytes: usize,
}

thread_local! {
    static COPY: Cell<Vec<[u8; 8]>> = const { Cell::new(Vec::new()) };
}

impl CopiedEntry {
    /// A copy of a header that is not there yet, in the memory of the thread's last copy.
    pub(super) fn of_a_header() -> Self {
        let mut words = COPY.take();
        words.clear();
        words.resize(HEADER_WORDS, [0; 8]);
        Self {
            words,
            body_bytes: 0,
        }
    }

    pub(super) fn view(&self) -> EntryView<'_> {
        let bytes = self.words.as_flattened();
        match bytes.split_first_chunk::<ENTRY_HEADER_BYTES>() {
            Some((raw, rest)) => EntryView::new(raw, slice(rest, ..self.body_bytes)),
            None => {
                debug_assert!(false, "a copy of {} bytes", bytes.len());
                EntryView::new(&[0; ENTRY_HEADER_BYTES], &[])
            }
        }
    }
}

impl Drop for CopiedEntry {
    fn drop(&mut self) {
        COPY.set(std::mem::take(&mut self.words));
    }
}
