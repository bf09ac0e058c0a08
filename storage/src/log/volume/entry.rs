//! Entries as readers get them: lent in place, or copied.

use crate::bytes::slice;
use crate::entry::{ENTRY_HEADER_BYTES, EntryView};
use crate::image::{ImageContent, ImageRef};
use std::cell::Cell;

pub(super) const HEADER_WORDS: usize = ENTRY_HEADER_BYTES / 8;

/// An entry in place, or a copy.
#[derive(Debug)]
pub(crate) enum VolumeEntry<'a> {
    /// In the memory of a device.
    Lent(EntryView<'a>),
    /// In an image, which no thread changes meanwhile.
    Image(ImageRef<'a>),
    /// A copy from staging memory, or of what was read by calls.
    Copied(CopiedEntry),
    /// Put together from a chain.
    Built(Box<ImageContent>),
}

impl VolumeEntry<'_> {
    /// The entry, for a caller that keeps the guard under which it was found.
    ///
    /// # Safety
    /// The guard outlives the result, and all that is taken out of it.
    #[inline(always)]
    pub(crate) unsafe fn kept(self) -> VolumeEntry<'static> {
        // SAFETY: as above. Only the lifetime differs.
        unsafe { std::mem::transmute::<VolumeEntry<'_>, VolumeEntry<'static>>(self) }
    }

    #[inline]
    pub(crate) fn view(&self) -> EntryView<'_> {
        match self {
            Self::Lent(view) => *view,
            Self::Image(image) => image.content().view(),
            Self::Copied(copy) => copy.view(),
            Self::Built(content) => content.view(),
        }
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
