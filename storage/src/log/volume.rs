//! A device with the state of its blocks: the one place where device memory is read.
//!
//! - `entry.rs`: entries as readers get them
//! - `headers.rs`: the headers of blocks and their mirrors

mod entry;
mod headers;

use crate::bytes::prefetch_lines;
use crate::device::{
    Device, DeviceError, DeviceResult, HEADER_BYTES, Header as DeviceHeader, ReadMode,
};
use crate::entry::{
    ENTRY_HEADER_BYTES, EntryHeader, EntryPlace, EntryView, RawHeader, body_bytes_of,
};
use crate::epoch::Guard;
use crate::location::{Location, UNIT_BYTES};
use crate::log::block::{BlockId, BlockState, index_of};
use crate::log::directory::unit_of;
use crate::log::staging::NamespaceStaging;
use crate::ranges::ByteRanges;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering, fence};
use entry::CopiedEntry;
pub(crate) use entry::HeldEntry;
use std::ptr::NonNull;
use std::sync::Arc;

/// A device, and the states of its blocks.
#[derive(Debug)]
pub(crate) struct Volume {
    device: Arc<dyn Device>,
    /// The device's base, which never changes: asked for once.
    base: NonNull<u8>,
    number: usize,
    device_id: u64,
    block_bytes: u64,
    blocks: Box<[BlockState]>,
    /// Ranges that are not read through the mapping.
    unreadable: ByteRanges,
    /// The places of the ends of open blocks.
    staging: Option<Arc<NamespaceStaging>>,
    read_mode: ReadMode,
    /// A lower bound of the device's length, in bytes: asking the device is a call through a table.
    least_bytes: AtomicU64,
    /// The device's length that is known to survive a power failure, in bytes.
    synced_bytes: AtomicU64,
    /// Held while the header of a block and its mirror are written.
    headers: Mutex<()>,
}

/// A writer reads its record from one end to the other, but in a list it first jumps to and fro:
/// fetched ahead, the lines come at the same time instead of one after the other. The rest is
/// fetched by the processor's own guess.
const PREFETCH_BYTES: u64 = 8 << 10;
/// Fetched by [`Volume::entry`]: three cache lines.
const SMALL_BYTES: u64 = 3 * 64;

// SAFETY: `base` points into memory that the device owns; a device may be used from any thread, and
// its memory is only read.
unsafe impl Send for Volume {}
// SAFETY: as above.
unsafe impl Sync for Volume {}

impl Volume {
    /// A device with this header. The header alone says which block is the last and so has its
    /// mirror in the first: a device that is open to read may report that it cannot grow.
    pub(crate) fn new(
        device: Arc<dyn Device>,
        number: usize,
        header: &DeviceHeader,
        staging: Option<Arc<NamespaceStaging>>,
        read_mode: ReadMode,
    ) -> Self {
        let block_bytes = header.block_bytes;
        let count = header.max_bytes.saturating_sub(HEADER_BYTES) / block_bytes;
        let blocks = (0..count).map(|_| BlockState::new(block_bytes)).collect();
        Self {
            base: device.base(),
            device,
            number,
            device_id: header.device_id,
            block_bytes,
            blocks,
            unreadable: ByteRanges::default(),
            staging,
            read_mode,
            least_bytes: AtomicU64::new(0),
            synced_bytes: AtomicU64::new(0),
            headers: Mutex::default(),
        }
    }

    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    pub(crate) fn device_id(&self) -> u64 {
        self.device_id
    }

    /// Syncs the device. The length it had before is safe from then on.
    pub(crate) fn sync(&self) -> Result<(), DeviceError> {
        let len_bytes = self.device.len_bytes();
        // The length from before: the sync may not cover one that the device gets meanwhile.
        self.device.sync()?;
        self.synced_bytes.fetch_max(len_bytes, Ordering::SeqCst);
        Ok(())
    }

    /// The length that survives a power failure, as far as this opening has made sure of it; 0 =
    /// not yet.
    pub(crate) fn synced_bytes(&self) -> u64 {
        self.synced_bytes.load(Ordering::SeqCst)
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Every block the device can ever have.
    pub(crate) fn blocks(
        &self,
    ) -> impl DoubleEndedIterator<Item = (BlockId, &BlockState)> + ExactSizeIterator {
        let numbered = self.blocks.iter().enumerate();
        numbered.map(|(index, block)| (self.block_id(index as u32), block))
    }

    pub(crate) fn block(&self, index: u32) -> Option<&BlockState> {
        self.blocks.get(index as usize)
    }

    /// Writes entries, or leaves none of them.
    #[inline(always)]
    pub(super) fn write_entries(&self, at: u64, bytes: &[u8]) -> DeviceResult<()> {
        let written = self.device.write(at, bytes);
        if written.is_err() {
            // All of them: others get their numbers, and recovery would join the two.
            let _ = self.device.write(at, &vec![0; bytes.len()]);
        }
        written
    }

    /// Whether the header of one of the entries is there after all.
    #[cold]
    pub(super) fn has_remains(&self, at: u64, headers: &[EntryHeader], bytes: &[u8]) -> bool {
        let mut from = 0;
        headers.iter().any(|header| {
            let mut found = [0; ENTRY_HEADER_BYTES];
            let is_read = self.device.read(at + from, &mut found).is_ok();
            let is_there = bytes.split_at(from as usize).1.starts_with(&found);
            from += header.span_bytes();
            is_there || !is_read
        })
    }

    /// Ranges that a call has failed to read.
    pub(crate) fn unreadable(&self) -> &ByteRanges {
        &self.unreadable
    }

    /// How many blocks fit into the device's length.
    pub(crate) fn reachable_blocks(&self) -> u32 {
        let bytes = self.device.len_bytes().saturating_sub(HEADER_BYTES);
        (bytes / self.block_bytes).min(self.blocks.len() as u64) as u32
    }

    pub(crate) fn block_id(&self, index: u32) -> BlockId {
        BlockId::new(self.number, index, self.block_bytes)
    }

    /// Returns the header of the entry at a location, if its check holds.
    pub(crate) fn checked_header(
        &self,
        location: Location,
        entry: &EntryView<'_>,
    ) -> Option<EntryHeader> {
        let id = BlockId::of(location, self.block_bytes);
        let incarnation = self.block(id.index)?.incarnation();
        EntryHeader::decode_checked(
            entry.raw(),
            self.place(incarnation, location.offset_bytes()),
        )
    }

    /// Returns whether both checks of the entry at a location hold.
    pub(crate) fn holds(&self, location: Location, entry: &EntryView<'_>) -> bool {
        self.checked_header(location, entry)
            .is_some_and(|header| header.body_holds(entry.raw(), entry.body()))
    }

    pub(crate) fn place(&self, incarnation: u64, offset: u64) -> EntryPlace {
        EntryPlace {
            device_id: self.device_id,
            incarnation,
            offset,
        }
    }

    #[inline]
    fn at(&self, offset: u64, bytes: u64) -> Option<*const u8> {
        let end = offset.checked_add(bytes)?;
        let inside = end <= self.least_bytes.load(Ordering::Acquire) || self.reaches(end);
        // SAFETY: the device's memory is valid over its length, which was just compared.
        inside.then(|| unsafe { self.base.as_ptr().add(offset as usize).cast_const() })
    }

    #[cold]
    fn reaches(&self, end: u64) -> bool {
        let len_bytes = self.device.len_bytes();
        self.least_bytes.fetch_max(len_bytes, Ordering::AcqRel);
        end <= len_bytes
    }

    /// The block and the offset in it of a location.
    #[inline]
    fn block_at(&self, location: Location) -> Option<(&BlockState, u64)> {
        let from_first = location.offset_bytes().checked_sub(HEADER_BYTES)?;
        let index = index_of(from_first, self.block_bytes);
        let block = self.blocks.get(index as usize)?;
        Some((block, from_first - index * self.block_bytes))
    }

    /// The entry at a location that the index holds, or held since the guard was pinned. `None` if
    /// the bytes there cannot be an entry (damage).
    #[inline]
    pub(crate) fn entry<'a>(
        &'a self,
        location: Location,
        guard: &'a Guard,
    ) -> Option<HeldEntry<'a>> {
        match self.lent_entry(location, guard) {
            Some(view) => Some(HeldEntry::Lent(view)),
            None => self.copied_entry(location, guard),
        }
    }

    /// The entry as [`Volume::entry`] gives it, if it can be lent from the device's memory.
    #[inline]
    pub(crate) fn lent_entry<'a>(
        &'a self,
        location: Location,
        _guard: &'a Guard,
    ) -> Option<EntryView<'a>> {
        let (block, in_block) = self.block_at(location)?;
        if !block.is_flushed(unit_of(in_block)) || self.read_mode == ReadMode::Copied {
            return None;
        }
        let offset = location.offset_bytes();
        if self.unreadable.overlap(offset, ENTRY_HEADER_BYTES as u64) {
            return None;
        }
        let start = self.at(offset, ENTRY_HEADER_BYTES as u64)?;
        // Key and payload are in the two lines behind the one in which an entry begins, and a
        // reader of the header goes on to them.
        prefetch_lines(start.wrapping_add(64), 128);
        // SAFETY: inside the device (above). A published entry that is on the device is not written
        // again before every guard that could have seen its location is gone, so these bytes do not
        // change while the guard lives.
        let raw = unsafe { &*start.cast::<RawHeader>() };
        let length = body_bytes_of(raw);
        // The header may be damaged, and no check was made yet: its length must not lead out of the
        // block.
        if in_block + ENTRY_HEADER_BYTES as u64 + length > self.block_bytes {
            return None;
        }
        if self
            .unreadable
            .overlap(offset, ENTRY_HEADER_BYTES as u64 + length)
        {
            return None;
        }
        self.at(offset, ENTRY_HEADER_BYTES as u64 + length)?;
        // SAFETY: the same, for the body: its end was compared with the device's length.
        let body =
            unsafe { std::slice::from_raw_parts(start.add(ENTRY_HEADER_BYTES), length as usize) };
        Some(EntryView::new(raw, body))
    }

    /// The entry, if it cannot be lent: a copy from staging memory, or one read by calls of the
    /// system.
    fn copied_entry<'a>(&'a self, location: Location, guard: &'a Guard) -> Option<HeldEntry<'a>> {
        let (block, in_block) = self.block_at(location)?;
        if !block.is_flushed(unit_of(in_block))
            && let Some(copy) = self.staged_entry(block, in_block)
        {
            return Some(HeldEntry::Copied(copy));
        }
        match self.read_mode {
            ReadMode::Copied => {
                let offset = location.offset_bytes();
                let read = |at, words: &mut [[u8; 8]]| {
                    let words = words.as_flattened_mut();
                    self.device.read(offset + at, words).is_ok()
                };
                CopiedEntry::load(self.block_bytes - in_block, read).map(HeldEntry::Copied)
            }
            // It has got there meanwhile, or the bytes are no entry.
            ReadMode::Mapped => self.lent_entry(location, guard).map(HeldEntry::Lent),
        }
    }

    /// Reads a range by calls of the system. Unreadable bytes are zero, and noted, in parts of
    /// `part` bytes and at most to the next multiple of it. Returns how much that is.
    pub(crate) fn read_readable(&self, offset: u64, target: &mut [u8], part: usize) -> u64 {
        if self.device.read(offset, target).is_ok() {
            return 0;
        }
        let (mut at, mut left, mut unreadable) = (offset, target, 0);
        while !left.is_empty() {
            let to_end = part - at as usize % part;
            let (piece, rest) = left.split_at_mut(to_end.min(left.len()));
            if self.device.read(at, piece).is_err() {
                piece.fill(0);
                self.unreadable.insert(at, piece.len() as u64);
                unreadable += piece.len() as u64;
            }
            at += piece.len() as u64;
            left = rest;
        }
        unreadable
    }

    /// A copy of an entry that was staged when the caller looked. None: it is on the device by now,
    /// or it is damaged.
    fn staged_entry(&self, block: &BlockState, in_block: u64) -> Option<CopiedEntry> {
        let staging = self.staging.as_ref()?;
        loop {
            let address = block.staged_at().wrapping_add(in_block as usize);
            let copy = CopiedEntry::load(self.block_bytes - in_block, |at, words| {
                staging.load(address.wrapping_add(at as usize), words)
            });
            // A writer of another tenancy's bytes has noted before that this entry is on the
            // device.
            fence(Ordering::Acquire);
            if block.is_flushed(unit_of(in_block)) {
                return None;
            }
            // If nothing moved, the bytes there are no entry.
            if copy.is_some() || block.staged_at().wrapping_add(in_block as usize) == address {
                return copy;
            }
        }
    }

    /// Returns the header of an entry if its check holds, without reading the mapping. `None`: it
    /// cannot be read, or it is damaged.
    pub(crate) fn read_entry_header(&self, location: Location) -> Option<EntryHeader> {
        let (block, in_block) = self.block_at(location)?;
        let offset = location.offset_bytes();
        let place = self.place(block.incarnation(), offset);
        if !block.is_flushed(unit_of(in_block))
            && let Some(copy) = self.staged_entry(block, in_block)
        {
            return EntryHeader::decode_checked(copy.view().raw(), place);
        }
        let mut raw = [0; ENTRY_HEADER_BYTES];
        if self.device.read(offset, &mut raw).is_err() {
            self.unreadable.insert(offset, ENTRY_HEADER_BYTES as u64);
            return None;
        }
        EntryHeader::decode_checked(&raw, place)
    }

    /// The address of an entry, for a hint.
    fn address(&self, location: Location, bytes: u64) -> Option<*const u8> {
        let (block, in_block) = self.block_at(location)?;
        if block.is_flushed(unit_of(in_block)) {
            return self.at(location.offset_bytes(), bytes);
        }
        let address = block.staged_at().wrapping_add(in_block as usize);
        Some(std::ptr::without_provenance(address))
    }

    /// Has what [`Volume::entry`] looks at fetched.
    #[inline]
    pub(crate) fn prefetch_start(&self, location: Location) {
        if let Some(start) = self.address(location, SMALL_BYTES) {
            prefetch_lines(start, SMALL_BYTES as usize);
        }
    }

    /// Has the memory of an entry fetched, up to [`PREFETCH_BYTES`].
    #[inline]
    pub(crate) fn prefetch(&self, location: Location, units: u32) {
        let bytes = (u64::from(units) * UNIT_BYTES).min(PREFETCH_BYTES);
        // A look at a small entry fetches all of it anyway.
        if bytes > SMALL_BYTES
            && let Some(start) = self.address(location, bytes)
        {
            prefetch_lines(start, bytes as usize);
        }
    }

    /// Begins to bring a block into memory that is about to be walked over.
    pub(crate) fn prefetch_block(&self, index: u32) {
        self.device
            .prefetch(self.block_id(index).offset_bytes(), self.block_bytes);
    }
}

/// Has a record's memory fetched, up to [`PREFETCH_BYTES`].
pub(crate) fn prefetch_body(body: &[u8]) {
    prefetch_lines(body.as_ptr(), body.len().min(PREFETCH_BYTES as usize));
}
