//! A device with the state of its blocks: the one place where device memory is read and written.

use crate::block::{
    BLOCK_HEADER_BYTES, BlockHeader, BlockId, BlockState, BlockUse, ENTRY_UNITS_MAX,
};
use crate::device::{BLOCK_BYTES, Device, DeviceError, HEADER_BYTES};
use crate::entry::{ENTRY_HEADER_BYTES, EntryView, Header, Place, RawHeader};
use crate::epoch::Guard;
use crate::location::{Location, UNIT_BYTES};
use crate::sync::atomic::{AtomicU64, Ordering};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, fence};

/// A device, and what its blocks are doing.
#[derive(Debug)]
pub(crate) struct Volume {
    device: Arc<dyn Device>,
    /// The device's base, which never changes: asked for once.
    base: NonNull<u8>,
    number: usize,
    device_id: u64,
    blocks: Box<[BlockState]>,
    /// The units that entries took in each block that was closed since the opening; 0 = not known.
    filled_units: Box<[AtomicU32]>,
    /// The device's length that is known to survive a power failure, in bytes.
    synced_bytes: AtomicU64,
}

/// A writer reads its record from one end to the other, but in a list it first jumps to and fro: fetched ahead, the
/// lines come at the same time instead of one after the other. The rest is fetched by the processor's own guess.
const PREFETCH_BYTES: u64 = 8 << 10;
/// From touch to touch: the system brings in at least 64 KiB for each where it is told of reading in order, and maps as
/// much of what it has.
const TOUCH_BYTES: usize = 16 << 10;
/// What [`Volume::entry`] has fetched: three cache lines.
const SMALL_BYTES: u64 = 3 * 64;

/// A piece of a block that one writer may fill: nobody else reads or writes it until its entry is published.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) location: Location,
    pub(crate) units: u32,
    pub(crate) incarnation: u64,
}

// SAFETY: `base` points into memory that the device owns; a device may be used from any thread, and stores to its memory
// are kept apart by who owns an extent.
unsafe impl Send for Volume {}
// SAFETY: as above.
unsafe impl Sync for Volume {}

impl Volume {
    pub(crate) fn new(device: Arc<dyn Device>, number: usize, device_id: u64) -> Self {
        let count = device.max_bytes().saturating_sub(HEADER_BYTES) / BLOCK_BYTES;
        let blocks = (0..count).map(|_| BlockState::default()).collect();
        let filled_units = (0..count).map(|_| AtomicU32::new(0)).collect();
        Self {
            base: device.base(),
            device,
            number,
            device_id,
            blocks,
            filled_units,
            synced_bytes: AtomicU64::new(0),
        }
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    pub(crate) fn device_id(&self) -> u64 {
        self.device_id
    }

    /// Syncs the device. The length it had before is safe from then on.
    pub(crate) fn sync(&self) -> Result<(), DeviceError> {
        let len_bytes = self.device.len_bytes();
        self.device.sync()?;
        self.synced_bytes.fetch_max(len_bytes, Ordering::SeqCst);
        Ok(())
    }

    /// The length that survives a power failure, as far as this opening has made sure of it; 0 = not yet.
    pub(crate) fn synced_bytes(&self) -> u64 {
        self.synced_bytes.load(Ordering::SeqCst)
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Every block the device can ever have.
    pub(crate) fn blocks(&self) -> &[BlockState] {
        &self.blocks
    }

    pub(crate) fn block(&self, index: u32) -> Option<&BlockState> {
        self.blocks.get(index as usize)
    }

    /// Notes how far a block was filled when its lane left it: no entry fitted into the rest.
    pub(crate) fn note_filled(&self, index: u32, units: u32) {
        if let Some(filled) = self.filled_units.get(index as usize) {
            filled.store(units, Ordering::Relaxed);
        }
    }

    /// The most that moving a block's entries away can win, in units: all of it, where nothing better is known.
    pub(crate) fn filled_units(&self, index: u32) -> u32 {
        let filled = self.filled_units.get(index as usize);
        filled
            .map(|units| units.load(Ordering::Relaxed))
            .filter(|units| *units != 0)
            .unwrap_or(ENTRY_UNITS_MAX)
    }

    /// How many blocks have space allocated for them.
    pub(crate) fn allocated_blocks(&self) -> u32 {
        (self.device.len_bytes().saturating_sub(HEADER_BYTES) / BLOCK_BYTES) as u32
    }

    pub(crate) fn block_id(&self, index: u32) -> BlockId {
        BlockId {
            device: self.number,
            index,
        }
    }

    pub(crate) fn place(&self, incarnation: u64, offset: u64) -> Place {
        Place {
            device_id: self.device_id,
            incarnation,
            offset,
        }
    }

    fn at(&self, offset: u64, bytes: u64) -> Option<*mut u8> {
        let inside = offset.checked_add(bytes)? <= self.device.len_bytes();
        // SAFETY: the device's memory is valid over its length, which was just compared.
        inside.then(|| unsafe { self.base.as_ptr().add(offset as usize) })
    }

    /// The entry at a location that the index holds, or held since the guard was pinned. None if what lies there cannot
    /// be an entry (damage).
    #[inline]
    pub(crate) fn entry<'a>(
        &'a self,
        location: Location,
        _guard: &'a Guard,
    ) -> Option<EntryView<'a>> {
        let offset = location.offset_bytes();
        let in_block = offset.checked_sub(HEADER_BYTES)? % BLOCK_BYTES;
        let start = self.at(offset, ENTRY_HEADER_BYTES as u64)?;
        prefetch_behind(start);
        // SAFETY: inside the device (above). A published entry is not written again before every guard that could have
        // seen its location is gone, so these bytes do not change while the guard lives.
        let raw = unsafe { &*start.cast::<RawHeader>() };
        let (_, length_word) = raw.split_at_checked(16)?;
        let length = u64::from_le_bytes(*length_word.first_chunk::<8>()?) >> 40;
        if in_block + ENTRY_HEADER_BYTES as u64 + length > BLOCK_BYTES {
            return None;
        }
        self.at(offset, ENTRY_HEADER_BYTES as u64 + length)?;
        // SAFETY: the same, for the body, whose end was compared with the device's length.
        let body =
            unsafe { std::slice::from_raw_parts(start.add(ENTRY_HEADER_BYTES), length as usize) };
        Some(EntryView::new(raw, body))
    }

    /// Has what [`Volume::entry`] looks at fetched.
    #[inline]
    pub(crate) fn prefetch_start(&self, location: Location) {
        if let Some(start) = self.at(location.offset_bytes(), SMALL_BYTES) {
            prefetch_lines(start, SMALL_BYTES as usize);
        }
    }

    /// Has the memory of an entry fetched, up to [`PREFETCH_BYTES`].
    pub(crate) fn prefetch(&self, location: Location, units: u32) {
        let bytes = (u64::from(units) * UNIT_BYTES).min(PREFETCH_BYTES);
        // Whoever looks at a small entry has all of it fetched anyway.
        if bytes > SMALL_BYTES
            && let Some(start) = self.at(location.offset_bytes(), bytes)
        {
            prefetch_lines(start, bytes as usize);
        }
    }

    /// A copy of the header at an offset that another thread may be writing at this moment: for scans, which check it.
    pub(crate) fn header_copy(&self, offset: u64) -> Option<RawHeader> {
        let start = self.at(offset, ENTRY_HEADER_BYTES as u64)?.cast::<u32>();
        let mut raw = [0u8; ENTRY_HEADER_BYTES];
        for (word, target) in raw.chunks_exact_mut(4).enumerate() {
            // SAFETY: inside the device (above) and aligned, since entries lie on multiples of 16 bytes; atomic, because
            // a writer may be storing here.
            let value = unsafe { AtomicU32::from_ptr(start.add(word)) }.load(Ordering::Relaxed);
            target.copy_from_slice(&value.to_ne_bytes());
        }
        Some(raw)
    }

    /// The bytes of a whole block, while nobody writes to it (recovery, offline checks).
    pub(crate) fn quiet_block(&self, index: u32) -> Option<&[u8]> {
        let start = self.at(self.block_id(index).offset_bytes(), BLOCK_BYTES)?;
        // SAFETY: inside the device (above); the callers run before the first writer starts.
        Some(unsafe { std::slice::from_raw_parts(start, BLOCK_BYTES as usize) })
    }

    /// Brings a block into memory, while nobody writes to it, and waits for it.
    pub(crate) fn touch_block(&self, index: u32) {
        let block = self.quiet_block(index).unwrap_or_default();
        for byte in block.iter().step_by(TOUCH_BYTES) {
            std::hint::black_box(*byte);
        }
    }

    /// Begins to bring the headers of all blocks into memory, for whoever is about to look at each of them.
    pub(crate) fn prefetch_block_headers(&self) {
        for index in 0..self.allocated_blocks() {
            let offset = self.block_id(index).offset_bytes();
            self.device.prefetch(offset, BLOCK_HEADER_BYTES);
        }
    }

    /// What the header of a block says, without keeping it in memory.
    pub(crate) fn peek_block_use(&self, index: u32) -> BlockUse {
        let mut raw = [0; BLOCK_HEADER_BYTES as usize];
        let offset = self.block_id(index).offset_bytes();
        if self.device.peek(offset, &mut raw) {
            BlockUse::read(&raw, self.device_id, index)
        } else {
            // Never free for want of a better answer.
            self.block_use(index)
        }
    }

    /// Begins to bring a block into memory, for whoever is about to walk over it.
    pub(crate) fn prefetch_block(&self, index: u32) {
        self.device
            .prefetch(self.block_id(index).offset_bytes(), BLOCK_BYTES);
    }

    /// What the header of a block says, as it lies on the device.
    pub(crate) fn block_use(&self, index: u32) -> BlockUse {
        let Some(raw) = self.at(self.block_id(index).offset_bytes(), BLOCK_HEADER_BYTES) else {
            return BlockUse::Free;
        };
        // SAFETY: inside the device (above); block headers are written only while their block is free.
        let raw = unsafe { &*raw.cast() };
        BlockUse::read(raw, self.device_id, index)
    }

    /// Writes the header of a free block.
    pub(crate) fn write_block_header(&self, header: &BlockHeader) {
        let raw = header.encode();
        if let Some(target) = self.at(self.block_id(header.index).offset_bytes(), raw.len() as u64)
        {
            // SAFETY: inside the device (above); the block is free, so nobody else looks at it.
            unsafe { target.copy_from_nonoverlapping(raw.as_ptr(), raw.len()) };
        }
    }

    /// Fills an extent with an entry. The head check goes last: a process killed half-way leaves no valid entry there,
    /// neither the new one nor the old one of a recycled extent.
    pub(crate) fn fill(&self, extent: &Extent, header: &mut Header, parts: &[&[u8]]) -> bool {
        let bytes = u64::from(extent.units) * UNIT_BYTES;
        let body_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let offset = extent.location.offset_bytes();
        let Some(start) = self.at(offset, bytes) else {
            return false;
        };
        if ENTRY_HEADER_BYTES as u64 + body_bytes as u64 > bytes {
            return false;
        }
        header.span_units = extent.units;
        header.body_bytes = body_bytes as u32;
        // SAFETY: the extent is inside the device (above), belongs to this writer alone, and is aligned to 16 bytes; no
        // reader reaches it before it is published, scans read it by atomic copies.
        unsafe {
            let check = AtomicU32::from_ptr(start.cast());
            check.store(0, Ordering::Relaxed);
            fence(Ordering::Release);
            let body = start.add(ENTRY_HEADER_BYTES);
            let mut at = body;
            for part in parts {
                at.copy_from_nonoverlapping(part.as_ptr(), part.len());
                at = at.add(part.len());
            }
            let body = std::slice::from_raw_parts(body, body_bytes);
            let raw = header.encode(self.place(extent.incarnation, offset), body);
            let (first, rest) = raw.split_at(4);
            start
                .add(4)
                .copy_from_nonoverlapping(rest.as_ptr(), rest.len());
            let first = first
                .first_chunk::<4>()
                .map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            check.store(first, Ordering::Release);
        }
        true
    }
}

/// Asks the processor for the two cache lines behind the one in which an entry begins: key and payload lie there, and
/// whoever looks at the header goes on to them.
#[cfg(target_arch = "x86_64")]
fn prefetch_behind(start: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch is a hint; it changes nothing and faults on no address.
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(64).cast());
        _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(128).cast());
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch_behind(_start: *const u8) {}

#[cfg(target_arch = "x86_64")]
fn prefetch_lines(start: *const u8, bytes: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for at in (0..bytes).step_by(64) {
        // SAFETY: a prefetch is a hint; it changes nothing and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(at).cast()) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch_lines(_start: *const u8, _bytes: usize) {}
