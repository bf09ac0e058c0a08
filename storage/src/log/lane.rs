//! Append lanes: each fills a block of its own, so that many writers append at once.
//!
//! An entry is assembled by its writer, then copied under the lane's lock: into the lane's staging buffer if it is small,
//! straight to the device otherwise. A full buffer is flushed by the writer that finds it full. Under the lock everything happens
//! in the order of the bytes, so a block never has a gap.

use std::cell::Cell;

use crate::bytes::slice;
use crate::device::DeviceError;
use crate::entry::{ENTRY_HEADER_BYTES, EntryHeader, EntryPlace, Lsn, filler, void_header};
use crate::error::{Error, Result};
use crate::location::{Location, UNIT_BYTES};
use crate::log::block::{BlockId, BlockPhase, ENTRIES_AT, entry_units_max};
use crate::log::directory::{Directory, DirectoryLine, unit_of};
use crate::log::space::SpacePurpose;
use crate::log::staging::{
    BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, NamespaceStaging, PAGE_BYTES, Tenancy,
};
use crate::log::volume::Volume;
use crate::sync::Mutex;

/// Disk space is put behind a block in pieces: this much at first, then half as much again as it has, up to the most.
const CHUNK_BYTES: u64 = 64 << 10;
const CHUNK_BYTES_MAX: u64 = 1 << 20;
/// What new versions of records leave of the space behind a block, for deletes on a full disk.
pub(crate) const SLACK_BYTES: u64 = 64 << 10;
/// Less than this is not worth giving back when a block is closed.
const RELEASED_BYTES_MIN: u64 = 16 << 10;
/// After this many full buffers in a row a buffer grows.
const FULL_BUFFERS_TO_GROW: u32 = 4;
/// Where nothing is staged the directory goes to the device after this many bytes of it, and at every sync.
const DIRECTORY_PENDING_MAX: u64 = 32 << 10;
/// An end shorter than a header is left as it is when a block is closed.
pub(crate) const FILLER_BYTES_MIN: u64 = (ENTRY_HEADER_BYTES as u64).next_multiple_of(UNIT_BYTES);

/// Entries as the log will have them, one after the other, in words: header, body, padding each.
#[derive(Debug)]
pub(crate) struct Assembled {
    words: Vec<[u8; 8]>,
    /// Words that belong to entries; remains of an earlier use follow.
    used: usize,
    /// Bytes of headers and bodies, without padding.
    requested_bytes: u64,
}

thread_local! {
    static ASSEMBLED: Cell<Vec<[u8; 8]>> = const { Cell::new(Vec::new()) };
}

/// A thread keeps the memory of entries up to this size (64 KiB), and larger memory while groups use an eighth of it: giving it
/// back to the system and taking it again costs more than filling it.
const KEPT_WORDS_MAX: usize = 8 << 10;

impl Assembled {
    pub(crate) fn new() -> Self {
        Self {
            words: ASSEMBLED.take(),
            used: 0,
            requested_bytes: 0,
        }
    }

    /// Adds an entry, with a body put together from its parts. Its header gets the two sizes; its
    /// bytes are written when its number and location are known.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if no block of this size can hold it. Nothing was added.
    #[inline(always)]
    pub(crate) fn push(
        &mut self,
        header: &mut EntryHeader,
        parts: &[&[u8]],
        block_bytes: u64,
    ) -> Result<()> {
        let body_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let bytes = (ENTRY_HEADER_BYTES + body_bytes) as u64;
        let limit = u64::from(entry_units_max(block_bytes)) * UNIT_BYTES;
        if bytes > limit {
            return Err(Error::TooLarge { bytes, limit });
        }
        self.requested_bytes += bytes;
        header.body_bytes = body_bytes as u32;
        header.span_units = EntryHeader::span_for(body_bytes);
        let from = self.used;
        self.used += header.span_units as usize * (UNIT_BYTES as usize / 8);
        self.words.resize(self.used, [0; 8]);
        // Padding: zeros compress, and the bytes of an earlier entry do not.
        if let Some(padded) = self.words.last_chunk_mut() {
            *padded = [[0; 8]; UNIT_BYTES as usize / 8];
        }
        let entry = self.words.as_flattened_mut().split_at_mut(8 * from).1;
        let mut rest = entry.split_at_mut(ENTRY_HEADER_BYTES).1;
        for part in parts {
            let (target, behind) = rest.split_at_mut(part.len());
            match (target, part) {
                // The length of a key: not worth a call.
                ([target], [byte]) => *target = *byte,
                (target, part) => target.copy_from_slice(part),
            }
            rest = behind;
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> u64 {
        8 * self.used as u64
    }

    /// Writes the header of the entry that begins at `at`.
    #[inline(always)]
    fn seal(&mut self, at: usize, header: &EntryHeader, place: EntryPlace) {
        let entry = self.words.as_flattened_mut().split_at_mut(at).1;
        if let Some((raw, rest)) = entry.split_first_chunk_mut() {
            let body = slice(rest, ..header.body_bytes as usize);
            header.encode_to(raw, place, header.body_check(body));
        }
    }
}

impl Drop for Assembled {
    #[inline]
    fn drop(&mut self) {
        if self.words.capacity() <= KEPT_WORDS_MAX.max(8 * self.used) {
            ASSEMBLED.set(std::mem::take(&mut self.words));
        }
    }
}

/// The block that a lane is filling. Offsets are those in the block.
#[derive(Debug)]
pub(crate) struct OpenBlock {
    pub(crate) id: BlockId,
    pub(crate) incarnation: u64,
    /// The next free byte.
    pub(crate) tail: u64,
    /// Up to here the device has everything.
    pub(crate) flushed: u64,
    /// Where the staging buffer's first byte belongs.
    start: u64,
    /// Up to here, and from there on, disk space is behind the block.
    backed_to: u64,
    backed_from: u64,
    pub(crate) directory: Directory,
}

impl OpenBlock {
    /// A block of which entries reach up to `tail`, all on the device.
    pub(crate) fn new(volume: &Volume, id: BlockId, incarnation: u64, tail: u64) -> Self {
        Self {
            id,
            incarnation,
            tail,
            flushed: tail,
            start: tail,
            backed_to: 0,
            backed_from: id.bytes(),
            directory: Directory::new(volume.place(incarnation, id.offset_bytes())),
        }
    }

    /// Whether `entries` entries of `bytes` bytes in all fit between the others and the directory.
    pub(crate) fn fits(&self, bytes: u64, entries: usize) -> bool {
        bytes <= self.room_bytes(entries)
    }

    /// How many bytes of entries fit, of this many.
    pub(crate) fn room_bytes(&self, entries: usize) -> u64 {
        let taken = self.tail + FILLER_BYTES_MIN + self.directory.bytes_with(entries);
        self.id.bytes().saturating_sub(taken)
    }

    /// Puts disk space behind the block up to `to` and for the lines of `entries` more entries.
    pub(crate) fn back(
        &mut self,
        volume: &Volume,
        to: u64,
        entries: usize,
    ) -> std::result::Result<(), DeviceError> {
        self.back_entries(volume, to)?;
        self.back_directory(volume, self.directory.bytes_with(entries))
    }

    /// Puts disk space behind what ends the block. Where an entry was appended before, it is there.
    fn back_end(&mut self, volume: &Volume) -> std::result::Result<(), DeviceError> {
        self.back_entries(volume, self.tail + FILLER_BYTES_MIN)?;
        self.back_directory(volume, self.directory.bytes_when_ended())
    }

    #[inline]
    fn back_entries(&mut self, volume: &Volume, to: u64) -> std::result::Result<(), DeviceError> {
        let to = to.min(self.id.bytes());
        if to <= self.backed_to {
            return Ok(());
        }
        self.extend_entries(volume, to)
    }

    #[cold]
    fn extend_entries(&mut self, volume: &Volume, to: u64) -> std::result::Result<(), DeviceError> {
        let offset = self.id.offset_bytes();
        let step = (self.backed_to / 2).clamp(CHUNK_BYTES, CHUNK_BYTES_MAX);
        let wanted = to.max(self.backed_to + step).min(self.id.bytes());
        let wanted = wanted.next_multiple_of(PAGE_BYTES);
        let from = self.backed_to;
        let backed = match volume.device().reserve(offset + from, wanted - from) {
            Ok(()) => wanted,
            // The last pages of a disk: no more than is needed.
            Err(DeviceError::Full { .. }) => {
                let least = to.next_multiple_of(PAGE_BYTES);
                volume.device().reserve(offset + from, least - from)?;
                least
            }
            Err(other) => return Err(other),
        };
        self.backed_to = backed;
        Ok(())
    }

    #[inline]
    fn back_directory(
        &mut self,
        volume: &Volume,
        bytes: u64,
    ) -> std::result::Result<(), DeviceError> {
        let least = self.id.bytes() - bytes;
        if least >= self.backed_from {
            return Ok(());
        }
        self.extend_directory(volume, least)
    }

    #[cold]
    fn extend_directory(
        &mut self,
        volume: &Volume,
        least: u64,
    ) -> std::result::Result<(), DeviceError> {
        let offset = self.id.offset_bytes();
        let has = self.id.bytes() - self.backed_from;
        let least = least / PAGE_BYTES * PAGE_BYTES;
        let wanted = least.min(self.id.bytes().saturating_sub(2 * has) / PAGE_BYTES * PAGE_BYTES);
        let reserve = |from: u64| {
            let device = volume.device();
            device.reserve(offset + from, self.backed_from - from)
        };
        self.backed_from = match reserve(wanted) {
            Ok(()) => wanted,
            // The last pages of a disk: no more than is needed.
            Err(DeviceError::Full { .. }) if least > wanted => {
                reserve(least)?;
                least
            }
            Err(other) => return Err(other),
        };
        Ok(())
    }
}

impl OpenBlock {
    /// Gives the disk space between the entries and the directory back, but for a part that deletes need.
    pub(crate) fn release_surplus(&mut self, volume: &Volume) {
        let from = (self.tail + SLACK_BYTES).next_multiple_of(PAGE_BYTES);
        let to = self.backed_from;
        if from + RELEASED_BYTES_MIN > to {
            return;
        }
        let offset = self.id.offset_bytes();
        // What stays is given back when the block is freed.
        let _ = volume.device().release(offset + from, to - from);
        self.backed_to = self.backed_to.min(from);
    }
}

/// What a lane owns, under its lock.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) open: Option<OpenBlock>,
    pub(crate) counters: LaneCounters,
    buffer_bytes: u64,
    /// How much of the buffer has disk space behind it.
    reserved_bytes: u64,
    full_buffers: u32,
    tenancy: u64,
    /// Whether entries go to the lane's buffer first, where the namespace has staging memory.
    pub(crate) is_staged: bool,
}

impl Default for LaneState {
    fn default() -> Self {
        Self {
            open: None,
            counters: LaneCounters::default(),
            buffer_bytes: BUFFER_BYTES_MIN,
            reserved_bytes: 0,
            full_buffers: 0,
            tenancy: 0,
            is_staged: true,
        }
    }
}

impl LaneState {
    /// A lane without a buffer.
    pub(crate) fn unstaged() -> Self {
        Self {
            is_staged: false,
            ..Self::default()
        }
    }

    /// Whether the lane has been filling buffer after buffer.
    pub(crate) fn streams(&self) -> bool {
        self.buffer_bytes == BUFFER_BYTES_MAX
    }

    /// The lane goes on numbering its tenancies after this one, which an earlier opening has left.
    pub(crate) fn continue_after(&mut self, tenancy: u64) {
        self.tenancy = self.tenancy.max(tenancy);
    }
}

/// The counters of a lane since the namespace was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneCounters {
    /// Units of log taken.
    pub(crate) appended_units: u64,
    pub(crate) entries: u64,
    /// Bytes of headers and bodies that callers asked to store.
    pub(crate) requested_bytes: u64,
}

/// One lane.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    pub(crate) state: Mutex<LaneState>,
}

/// A lane that its caller has locked, with its device and its buffer.
#[derive(Debug)]
pub(crate) struct LockedLane<'a> {
    pub(crate) number: usize,
    pub(crate) state: &'a mut LaneState,
    pub(crate) volume: &'a Volume,
    pub(crate) staging: Option<&'a NamespaceStaging>,
}

impl LockedLane<'_> {
    /// Appends entries that fit into the open block, and returns the location of the first. Their
    /// numbers are drawn when nothing can fail any more but a write to the device.
    ///
    /// An error leaves the entries before as they were. Numbers that were drawn by then are void.
    #[inline(always)]
    pub(crate) fn append(
        &mut self,
        purpose: SpacePurpose,
        headers: &mut [EntryHeader],
        entries: &mut Assembled,
        draw: impl FnOnce(&mut [EntryHeader]),
    ) -> std::result::Result<Option<Location>, DeviceError> {
        let bytes = entries.bytes();
        let slack = match purpose {
            SpacePurpose::Write => SLACK_BYTES,
            SpacePurpose::Delete | SpacePurpose::Fold | SpacePurpose::Defrag => FILLER_BYTES_MIN,
        };
        let is_staged = self.staging.is_some() && bytes <= self.state.buffer_bytes / 4;
        let Some(open) = self.state.open.as_mut() else {
            return Ok(None);
        };
        open.back(self.volume, open.tail + bytes + slack, headers.len())?;
        if is_staged {
            let is_full = open.tail + bytes - open.start > self.state.buffer_bytes;
            if is_full || self.state.reserved_bytes < self.state.buffer_bytes {
                self.make_room(is_full)?;
            }
        } else if self.staging.is_some() {
            // The buffer begins where the entries will: a void entry can take their place there.
            self.flush()?;
            self.restart()?;
        }
        let Some(open) = self.state.open.as_mut() else {
            return Ok(None);
        };
        let id = open.id;
        let from = open.tail;
        let offset = id.offset_bytes() + from;
        let is_numbered = headers.first().is_some_and(|header| header.lsn.0 != 0);
        draw(headers);
        let mut at = 0;
        for header in &*headers {
            let place = self.volume.place(open.incarnation, offset + at);
            entries.seal(at as usize, header, place);
            at += u64::from(header.span_units) * UNIT_BYTES;
        }
        match self.staging.filter(|_| is_staged) {
            Some(staging) => staging.store(self.number, from - open.start, &entries.words),
            None => {
                let words = entries.words.as_flattened();
                if let Err(error) = write_entries(self.volume, offset, words) {
                    if !is_numbered {
                        self.void(headers);
                    }
                    return Err(error);
                }
                open.flushed = from + bytes;
            }
        }
        open.tail += bytes;
        let mut at = from;
        for header in &*headers {
            open.directory.push(DirectoryLine::of(header), unit_of(at));
            at += u64::from(header.span_units) * UNIT_BYTES;
        }
        let is_pending = open.directory.pending_bytes() >= DIRECTORY_PENDING_MAX;
        if !is_staged && self.staging.is_some() {
            self.restart()?;
        } else if self.staging.is_none() && is_pending {
            // The entry is there, and has used its number. A failure here is tried again, at a sync at the latest.
            let _ = self.write_directory();
        }
        // Counted before the lane is unlocked: a block that is closed next has its count.
        let block = self.volume.block(id.index);
        debug_assert!(block.is_some(), "{id:?} is no block of its device");
        if let Some(block) = block {
            block.add_live(unit_of(bytes));
        }
        let counters = &mut self.state.counters;
        counters.entries += headers.len() as u64;
        counters.appended_units += bytes / UNIT_BYTES;
        counters.requested_bytes += entries.requested_bytes;
        Ok(Some(Location::new(id.device, offset)))
    }

    /// Appends an entry that covers numbers drawn for entries that could not be
    /// written: without it recovery would take them for lost. Only where
    /// entries are staged, which cannot fail.
    #[cold]
    fn void(&mut self, headers: &[EntryHeader]) {
        let (Some(staging), Some(open)) = (self.staging, self.state.open.as_mut()) else {
            return;
        };
        let Some(first) = headers.first() else {
            return;
        };
        let mut header = void_header(first.lsn, headers.len());
        let mut entry = Assembled::new();
        if entry.push(&mut header, &[], open.id.bytes()).is_err() {
            return;
        }
        let offset = open.id.offset_bytes() + open.tail;
        entry.seal(0, &header, self.volume.place(open.incarnation, offset));
        staging.store(self.number, open.tail - open.start, &entry.words);
        open.directory
            .push(DirectoryLine::of(&header), unit_of(open.tail));
        open.tail += entry.bytes();
    }

    /// Puts disk space behind the buffer, and begins it anew if it is full.
    #[cold]
    fn make_room(&mut self, is_full: bool) -> std::result::Result<(), DeviceError> {
        if is_full {
            self.flush()?;
            self.count_full_buffer();
        }
        self.restart()
    }

    fn count_full_buffer(&mut self) {
        let state = &mut *self.state;
        state.full_buffers += 1;
        if state.full_buffers >= FULL_BUFFERS_TO_GROW && state.buffer_bytes < BUFFER_BYTES_MAX {
            state.full_buffers = 0;
            state.buffer_bytes = (state.buffer_bytes * 2).min(BUFFER_BYTES_MAX);
        }
    }

    /// Begins the buffer anew where the block ends. Everything before is on the device.
    pub(crate) fn restart(&mut self) -> std::result::Result<(), DeviceError> {
        let (Some(staging), state) = (self.staging, &mut *self.state) else {
            return Ok(());
        };
        let Some(open) = state.open.as_mut() else {
            return Ok(());
        };
        if state.reserved_bytes < state.buffer_bytes {
            staging.reserve(self.number, state.buffer_bytes)?;
            state.reserved_bytes = state.buffer_bytes;
        }
        // Entries that are staged already keep their place.
        if open.flushed == open.tail {
            open.start = open.tail;
            state.tenancy += 1;
            if let Some(block) = self.volume.block(open.id.index) {
                let address = staging
                    .address(self.number)
                    .wrapping_sub(open.start as usize);
                block.stage(unit_of(open.flushed), address);
            }
            let tenancy = Tenancy {
                number: state.tenancy,
                block: (open.id.device, open.id.index),
                device_id: self.volume.device_id(),
                incarnation: open.incarnation,
                start: open.start,
            };
            staging.begin(self.number, &tenancy);
        }
        Ok(())
    }

    /// Brings the staged entries to the device, and the directory. An error leaves it staged.
    pub(crate) fn flush(&mut self) -> std::result::Result<(), DeviceError> {
        let Some(open) = self.state.open.as_mut() else {
            return Ok(());
        };
        if let Some(staging) = self.staging.filter(|_| open.flushed < open.tail) {
            let (from, to) = (open.flushed - open.start, open.tail - open.start);
            let offset = open.id.offset_bytes() + open.flushed;
            let device = self.volume.device();
            device.write(offset, staging.bytes(self.number, from, to))?;
            device.populate(offset, to - from);
            open.flushed = open.tail;
            if let Some(block) = self.volume.block(open.id.index) {
                block.set_flushed(unit_of(open.flushed));
            }
        }
        self.write_directory()
    }

    fn write_directory(&mut self) -> std::result::Result<(), DeviceError> {
        let Some(open) = self.state.open.as_mut() else {
            return Ok(());
        };
        if let Some((from_end, bytes)) = open.directory.pending() {
            let offset = open.id.offset_bytes() + open.id.bytes() - from_end;
            self.volume.device().write(offset, &bytes)?;
            open.directory.written();
        }
        Ok(())
    }

    /// Ends the open block: from its last entry to its directory it is one filler, so that every byte of it parses.
    /// `closed_at`: the block sequence, which gives the block's age. `last_lsn`: no entry of the block has a higher
    /// number.
    pub(crate) fn close(
        &mut self,
        closed_at: u64,
        last_lsn: Lsn,
    ) -> std::result::Result<(), DeviceError> {
        self.flush()?;
        let Some(open) = self.state.open.as_mut() else {
            return Ok(());
        };
        let device = self.volume.device();
        let offset = open.id.offset_bytes();
        open.back_end(self.volume)?;
        let (from_end, directory) = open.directory.ended(unit_of(open.tail));
        let end = open.id.bytes() - from_end;
        let ended = device.write(offset + end, &directory);
        ended.inspect_err(|_| open.directory.doubt())?;
        // Last: if it cannot be written, entries go on in its place.
        let left = end.saturating_sub(open.tail);
        if left >= FILLER_BYTES_MIN {
            let header = EntryHeader {
                span_units: unit_of(left),
                lsn: last_lsn,
                ..filler()
            };
            let place = self.volume.place(open.incarnation, offset + open.tail);
            write_entries(self.volume, offset + open.tail, &header.encode(place, &[]))
                .inspect_err(|_| open.directory.doubt())?;
        }
        let Some(open) = self.state.open.take() else {
            return Ok(());
        };
        // Disk space that the block does not need goes back, now or when the block is freed.
        let from = (open.tail + FILLER_BYTES_MIN).next_multiple_of(PAGE_BYTES);
        let to = (end / PAGE_BYTES * PAGE_BYTES).min(open.backed_to.max(open.backed_from));
        if to >= from + RELEASED_BYTES_MIN {
            let _ = device.release(offset + from, to - from);
        }
        if let Some(block) = self.volume.block(open.id.index) {
            block.set_all_flushed();
            block.note_closed(unit_of(open.tail - ENTRIES_AT), closed_at);
            let (first, last) = block.change_lsns();
            block.set_change_lsns(first, last.min(last_lsn.0));
            block.set_phase(BlockPhase::Closed);
        }
        Ok(())
    }
}

/// Writes entries, or leaves none of them.
fn write_entries(volume: &Volume, at: u64, bytes: &[u8]) -> std::result::Result<(), DeviceError> {
    let device = volume.device();
    device.write(at, bytes).inspect_err(|_| {
        // The rest reads as zeros, and so may be what was to be written.
        let _ = device.write(at, &[0; ENTRY_HEADER_BYTES]);
    })
}
