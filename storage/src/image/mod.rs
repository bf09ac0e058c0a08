//! Images: records in memory whose newest versions are in the log as deltas.
//!
//! An edit of a large record writes a *delta* against the version before it: a chain that ends at a whole record. Readers
//! borrow one contiguous slice, so the present version of a record with a chain is kept in memory, as an image, as far as
//! the namespace's budget goes. Images are a cache: evicting one drops the image and keeps the chain, and whoever reads a
//! chain leaves an image behind. A chain that grows too long is *folded*: the record is written whole again.
//!
//! Read `delta.rs` (what an edit writes), this file (where images are kept), `chain.rs` (from chains to images and back).

pub(crate) mod chain;
pub(crate) mod delta;

use crate::epoch::Guard;
use crate::location::{DEVICES_MAX, Location, UNIT_BYTES};
use crate::log::entry::{EntryView, RawHeader};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The device number that locations of images have: no device has it.
const IMAGE_DEVICE: usize = DEVICES_MAX;

/// Images come in segments, whose memory is taken when it is first needed.
const SEGMENT: usize = 1 << 14;
const SEGMENTS: usize = 64;

/// Images of this size are not left waiting for others that are dropped together.
const LARGE_BYTES: usize = 64 << 10;

/// What an image takes beside its body and its parts.
const OVERHEAD_BYTES: u64 = 160;

/// An entry of a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) location: Location,
    pub(crate) units: u32,
}

/// The present version of a record with a chain.
#[derive(Debug)]
pub(crate) struct Image {
    pub(crate) raw: RawHeader,
    pub(crate) body: Vec<u8>,
    /// The whole record first, then the deltas in their order.
    pub(crate) parts: Vec<Part>,
    /// Somebody has looked at it since the hand of the clock came by.
    used: AtomicBool,
}

impl Image {
    pub(crate) fn new(raw: RawHeader, body: Vec<u8>, parts: Vec<Part>) -> Self {
        Self {
            raw,
            body,
            parts,
            used: AtomicBool::new(true),
        }
    }

    pub(crate) fn view(&self) -> EntryView<'_> {
        EntryView::new(&self.raw, &self.body)
    }

    /// What its chain takes in the log.
    pub(crate) fn units(&self) -> u32 {
        self.parts.iter().map(|part| part.units).sum()
    }

    /// The newest entry of the chain.
    pub(crate) fn newest(&self) -> Option<Part> {
        self.parts.last().copied()
    }

    fn memory_bytes(&self) -> u64 {
        let parts = self.parts.capacity() * size_of::<Part>();
        (self.body.capacity() + parts) as u64 + OVERHEAD_BYTES
    }
}

type Segment = Box<[AtomicPtr<Image>]>;

/// The images of a namespace.
#[derive(Debug)]
pub(crate) struct Images {
    segments: [OnceLock<Segment>; SEGMENTS],
    numbers: Mutex<Numbers>,
    bytes: AtomicU64,
    bytes_max: u64,
}

#[derive(Debug, Default)]
struct Numbers {
    free: Vec<u32>,
    next: u32,
    /// Where the clock that looks for images to evict stands.
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

    /// The number of the image that a location stands for.
    #[inline]
    pub(crate) fn number_of(location: Location) -> Option<u32> {
        (location.device() == IMAGE_DEVICE).then(|| (location.offset_bytes() / UNIT_BYTES) as u32)
    }

    /// The location that stands for an image.
    pub(crate) fn location_of(number: u32) -> Location {
        Location::of_image(IMAGE_DEVICE, u64::from(number))
    }

    fn slot(&self, number: u32) -> Option<&AtomicPtr<Image>> {
        let segment = self.segments.get(number as usize / SEGMENT)?;
        segment.get()?.get(number as usize % SEGMENT)
    }

    /// The image with this number. Whoever found the number in the index under this guard finds the image.
    #[inline]
    pub(crate) fn get<'a>(&'a self, number: u32, _guard: &'a Guard) -> Option<&'a Image> {
        let image = self.slot(number)?.load(Ordering::Acquire);
        // SAFETY: an image that was linked when the guard was pinned, or later, is dropped after the guard.
        let image = unsafe { image.as_ref() }?;
        if !image.used.load(Ordering::Relaxed) {
            image.used.store(true, Ordering::Relaxed);
        }
        Some(image)
    }

    /// Keeps an image. `None`: there is no number left; the image is dropped.
    pub(crate) fn insert(&self, image: Image) -> Option<u32> {
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
            .fetch_add(image.memory_bytes(), Ordering::Relaxed);
        let slot = self.slot(number)?;
        slot.store(Box::into_raw(Box::new(image)), Ordering::Release);
        Some(number)
    }

    /// Drops an image once nobody looks at it. Its number is given out again after that. Only for who has taken it out of the
    /// index, or has never put it in.
    pub(crate) fn remove(self: &Arc<Self>, number: u32, guard: &Guard) {
        let Some(image) = self.get(number, guard) else {
            return;
        };
        self.bytes
            .fetch_sub(image.memory_bytes(), Ordering::Relaxed);
        let is_large = image.body.len() >= LARGE_BYTES;
        let images = Arc::clone(self);
        guard.defer(move || images.forget(number));
        if is_large {
            guard.flush();
        }
    }

    fn forget(&self, number: u32) {
        let Some(slot) = self.slot(number) else {
            return;
        };
        let image = slot.swap(std::ptr::null_mut(), Ordering::AcqRel);
        if !image.is_null() {
            // SAFETY: unlinked by this call alone; every guard that could have found the number is gone.
            drop(unsafe { Box::from_raw(image) });
            self.numbers.lock().free.push(number);
        }
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

    /// The next image that nobody has looked at since the hand of the clock came by last.
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
                // SAFETY: linked, so nobody else drops it; nobody has the namespace any more.
                drop(unsafe { Box::from_raw(image) });
            }
        }
    }
}
