//! Images: records in memory that have deltas as newest versions in the log.
//!
//! An edit of a large record writes a *delta* against the version before it: a chain that ends at a
//! whole record. Readers borrow one contiguous slice, so the present version of a record with a
//! chain is kept in memory, as an image, as far as the namespace's budget goes. Images are a cache:
//! evicting one drops the image and keeps the chain, and a reader of a chain leaves an image
//! behind. A chain that grows too long is *folded*: the record is written whole again.
//!
//! Read `delta.rs` (the entry of an edit), and this file (where images are kept); `log/chain.rs`
//! has the chains, `imaged.rs` goes from chains to images and back.

pub(crate) mod delta;

use crate::digest::Digest;
use crate::entry::{EntryView, RawHeader};
use crate::epoch::Guard;
use crate::location::{DEVICES_MAX, Location, UNIT_BYTES};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::cell::UnsafeCell;
use std::sync::{Arc, OnceLock};

/// The device number that locations of images have: no device has it.
const IMAGE_DEVICE: usize = DEVICES_MAX;

/// Images come in segments. Their memory is taken when it is first needed.
const SEGMENT: usize = 1 << 14;
const SEGMENTS: usize = 64;

/// The size of an image without its body and its parts.
const OVERHEAD_BYTES: u64 = 160;

/// An entry of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChainPart {
    pub(crate) location: Location,
    pub(crate) units: u32,
}

/// The present version of a record with a chain.
#[derive(Debug)]
pub(crate) struct Image {
    /// How many look at the content; [`WRITING`] while an edit changes it.
    state: AtomicU32,
    /// A thread has looked at it since the hand of the clock came by.
    used: AtomicBool,
    /// The newest entry of the chain, or for the moment of an edit the one before.
    newest: AtomicU64,
    digest: Digest,
    content: UnsafeCell<ImageContent>,
}

// SAFETY: the content is read by threads counted in `state`, and changed by one that found none
// counted.
unsafe impl Sync for Image {}

/// No thread may look at the content: it is being changed.
const WRITING: u32 = 1 << 31;

/// The content of an image.
#[derive(Clone, Debug)]
pub(crate) struct ImageContent {
    pub(crate) raw: RawHeader,
    pub(crate) body: Vec<u8>,
    /// The whole record first, then the deltas in their order.
    pub(crate) parts: Vec<ChainPart>,
    /// What the deltas take together.
    pub(crate) delta_units: u32,
}

impl ImageContent {
    pub(crate) fn new(raw: RawHeader, body: Vec<u8>, parts: Vec<ChainPart>) -> Self {
        let delta_units = parts.iter().skip(1).map(|part| part.units).sum();
        Self {
            raw,
            body,
            parts,
            delta_units,
        }
    }

    /// Adds a delta to the chain.
    pub(crate) fn push(&mut self, part: ChainPart) {
        self.parts.push(part);
        self.delta_units += part.units;
    }

    pub(crate) fn view(&self) -> EntryView<'_> {
        EntryView::new(&self.raw, &self.body)
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        let parts = self.parts.capacity() * size_of::<ChainPart>();
        (self.body.capacity() + parts) as u64 + OVERHEAD_BYTES
    }
}

impl Image {
    fn new(content: ImageContent) -> Self {
        let newest = content.parts.last();
        let newest = newest.map_or(0, |part| part.location.packed());
        Self {
            state: AtomicU32::new(0),
            used: AtomicBool::new(true),
            newest: AtomicU64::new(newest),
            digest: content.view().digest(),
            content: UnsafeCell::new(content),
        }
    }

    /// The newest entry of the chain, or the one before it if it is just being added.
    pub(crate) fn newest(&self) -> Location {
        Location::from_packed(self.newest.load(Ordering::Acquire))
    }

    /// The digest of the record.
    pub(crate) fn digest(&self) -> &Digest {
        &self.digest
    }

    /// Keeps the content from being changed. None: it is being changed.
    #[inline]
    pub(crate) fn read(&self) -> Option<ImageRef<'_>> {
        // Counted before the look: an edit that begins later gives way, and one under way turns it
        // back.
        if self.state.fetch_add(1, Ordering::Acquire) & WRITING != 0 {
            self.state.fetch_sub(1, Ordering::Release);
            return None;
        }
        // Looked at first: a store by each reader would take the line from the others.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
        Some(ImageRef { image: self })
    }

    /// Changes the content, unless a thread looks at it (false). For the owner of the record's
    /// lock.
    pub(crate) fn edit(&self, change: impl FnOnce(&mut ImageContent)) -> bool {
        // No wait for readers, which may be slow: the caller makes another image instead.
        if self
            .state
            .compare_exchange(0, WRITING, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return false;
        }
        // SAFETY: no reader is counted, and a later one sees that it is being changed.
        let content = unsafe { &mut *self.content.get() };
        change(content);
        if let Some(part) = content.parts.last() {
            self.newest.store(part.location.packed(), Ordering::Release);
        }
        // Behind `newest`: a reader that was turned back reads the chain from there.
        self.state.fetch_sub(WRITING, Ordering::Release);
        true
    }
}

/// An image with a content that stays as it is.
#[derive(Debug)]
pub(crate) struct ImageRef<'a> {
    image: &'a Image,
}

impl ImageRef<'_> {
    pub(crate) fn content(&self) -> &ImageContent {
        // SAFETY: counted, so no thread changes it.
        unsafe { &*self.image.content.get() }
    }
}

impl Drop for ImageRef<'_> {
    fn drop(&mut self) {
        self.image.state.fetch_sub(1, Ordering::Release);
    }
}

type ImageTableSegment = Box<[AtomicPtr<Image>]>;

/// The images of a namespace.
#[derive(Debug)]
pub(crate) struct Images {
    segments: [OnceLock<ImageTableSegment>; SEGMENTS],
    numbers: Mutex<Numbers>,
    bytes: AtomicU64,
    bytes_max: u64,
}

#[derive(Debug, Default)]
struct Numbers {
    free: Vec<u32>,
    next: u32,
    /// The position of the clock that looks for images to evict.
    hand: u32,
}

impl Images {
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self {
            segments: [const { OnceLock::new() }; SEGMENTS],
            numbers: Mutex::default(),
            bytes: AtomicU64::new(0),
            bytes_max,
        }
    }

    /// The number of the image that a location names.
    #[inline]
    pub(crate) fn number_of(location: Location) -> Option<u32> {
        (location.device() == IMAGE_DEVICE).then(|| (location.offset_bytes() / UNIT_BYTES) as u32)
    }

    /// The location that names an image.
    pub(crate) fn location_of(number: u32) -> Location {
        Location::of_image(IMAGE_DEVICE, u64::from(number))
    }

    fn slot(&self, number: u32) -> Option<&AtomicPtr<Image>> {
        let segment = self.segments.get(number as usize / SEGMENT)?;
        segment.get()?.get(number as usize % SEGMENT)
    }

    /// The image with this number. A caller that found the number in the index under this guard
    /// finds the image.
    #[inline]
    pub(crate) fn get<'a>(&'a self, number: u32, _guard: &'a Guard) -> Option<&'a Image> {
        let image = self.slot(number)?.load(Ordering::Acquire);
        // SAFETY: an image that was linked when the guard was pinned, or later, is dropped after
        // the guard.
        unsafe { image.as_ref() }
    }

    /// Keeps an image with this content. `None`: there is no number left.
    pub(crate) fn insert(&self, content: ImageContent) -> Option<u32> {
        let number = {
            let mut numbers = self.numbers.lock();
            match numbers.free.pop() {
                Some(number) => number,
                None if (numbers.next as usize) < SEGMENT * SEGMENTS => {
                    numbers.next += 1;
                    numbers.next - 1
                }
                None => return None,
            }
        };
        let segment = self.segments.get(number as usize / SEGMENT)?;
        let empty = || AtomicPtr::new(std::ptr::null_mut());
        segment.get_or_init(|| (0..SEGMENT).map(|_| empty()).collect());
        self.bytes
            .fetch_add(content.memory_bytes(), Ordering::Relaxed);
        let slot = self.slot(number)?;
        let image = Box::new(Image::new(content));
        // Before the caller puts the number into the index: a reader that finds it there finds the
        // image.
        slot.store(Box::into_raw(image), Ordering::Release);
        Some(number)
    }

    /// Drops an image once no thread looks at it. Its number is given out again after that. Only
    /// for the thread that has taken it out of the index, or has never put it in.
    pub(crate) fn remove(self: &Arc<Self>, number: u32, guard: &Guard) {
        let Some(image) = self.get(number, guard) else {
            return;
        };
        // Counted as gone at once: a thread that looks whether there are too many must not evict
        // others for it.
        if let Some(content) = image.read() {
            let bytes = content.content().memory_bytes();
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        let images = Arc::clone(self);
        guard.defer(move || images.forget(number));
    }

    fn forget(&self, number: u32) {
        let Some(slot) = self.slot(number) else {
            return;
        };
        let image = slot.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !image.is_null() {
            // SAFETY: unlinked by this call alone; every guard that could have found the number is
            // gone.
            drop(unsafe { Box::from_raw(image) });
            // Behind the swap, which would take out an image that gets the number before.
            self.numbers.lock().free.push(number);
        }
    }

    /// Counts the growth by an edit in place.
    pub(crate) fn count_edit(&self, before_bytes: u64, after_bytes: u64) {
        self.bytes
            .fetch_add(after_bytes.wrapping_sub(before_bytes), Ordering::Relaxed);
    }

    /// Memory of all images, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn is_over_budget(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    /// Whether records may have chains at all.
    pub(crate) fn are_wanted(&self) -> bool {
        self.bytes_max > 0
    }

    /// The next image without a look since the hand of the clock came by last.
    pub(crate) fn next_cold(&self) -> Option<u32> {
        let mut numbers = self.numbers.lock();
        // Twice around at most: the first time may find all of them used.
        for _ in 0..2 * u64::from(numbers.next) {
            numbers.hand = (numbers.hand + 1) % numbers.next.max(1);
            let number = numbers.hand;
            let Some(slot) = self.slot(number) else {
                continue;
            };
            let guard = crate::epoch::pin();
            let image = slot.load(Ordering::Acquire);
            // SAFETY: as in `get`.
            let Some(image) = (unsafe { image.as_ref() }) else {
                continue;
            };
            let was_used = image.used.swap(false, Ordering::Relaxed);
            drop(guard);
            if !was_used {
                return Some(number);
            }
        }
        None
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        for slot in self.segments.iter().filter_map(OnceLock::get).flatten() {
            let image = slot.load(Ordering::Acquire);
            if !image.is_null() {
                // SAFETY: linked, so no other thread drops it; no thread has the namespace any
                // more.
                drop(unsafe { Box::from_raw(image) });
            }
        }
    }
}
