//! Entries as readers get them: lent in place, or copied.

use crate::bytes::slice;
use crate::entry::{ENTRY_HEADER_BYTES, EntryView, body_bytes_of};
use crate::image::{ImageContent, ImageRef};
use std::cell::Cell;

const HEADER_WORDS: usize = ENTRY_HEADER_BYTES / 8;

/// An entry in place, or a copy.
#[derive(Debug)]
pub(crate) enum HeldEntry<'a> {
    /// In the memory of a device.
    Lent(EntryView<'a>),
    /// In an image, which no thread changes meanwhile.
    Image(ImageRef<'a>),
    /// A copy from staging memory, or of bytes that were read by calls.
    Copied(CopiedEntry),
    /// Put together from a chain.
    Built(Box<ImageContent>),
}

impl HeldEntry<'_> {
    /// The entry, for a caller that keeps the guard under which it was found.
    ///
    /// # Safety
    /// The guard outlives the result, and all that is taken out of it.
    #[inline(always)]
    pub(crate) unsafe fn kept(self) -> HeldEntry<'static> {
        // SAFETY: as above. Only the lifetime differs.
        unsafe { std::mem::transmute::<HeldEntry<'_>, HeldEntry<'static>>(self) }
    }

    #[inline]
    pub(crate) fn view(&self) -> EntryView<'_> {
        // The common case takes one branch, and no table of four.
        if let Self::Lent(view) = self {
            return *view;
        }
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
    words: Vec<[u8; 8]>,
    body_bytes: usize,
}

thread_local! {
    static COPY: Cell<Vec<[u8; 8]>> = const { Cell::new(Vec::new()) };
}

impl CopiedEntry {
    /// Copies an entry of at most `bytes_max` bytes into the memory of the thread's last copy.
    /// `load` reads words at an offset of it, if it can.
    #[inline]
    pub(super) fn load(bytes_max: u64, load: impl Fn(u64, &mut [[u8; 8]]) -> bool) -> Option<Self> {
        let mut copy = Self {
            words: COPY.take(),
            body_bytes: 0,
        };
        copy.words.clear();
        copy.words.resize(HEADER_WORDS, [0; 8]);
        if !load(0, &mut copy.words) {
            return None;
        }
        let body_bytes = body_bytes_of(copy.words.as_flattened().first_chunk()?);
        if ENTRY_HEADER_BYTES as u64 + body_bytes > bytes_max {
            return None;
        }
        copy.body_bytes = body_bytes as usize;
        let words = HEADER_WORDS + copy.body_bytes.div_ceil(8);
        copy.words.resize(words, [0; 8]);
        let (_, body) = copy.words.split_at_mut(HEADER_WORDS);
        load(ENTRY_HEADER_BYTES as u64, body).then_some(copy)
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
