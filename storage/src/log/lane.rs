//! Append lanes: each fills a block of its own, so that many writers append at once.
//!
//! An entry is assembled by its writer, then copied under the lane's lock: into the lane's staging
//! buffer if it is small, straight to the device otherwise. A full buffer is flushed by the writer
//! that finds it full. Under the lock everything happens in the order of the bytes, so a block
//! never has a gap.

use std::ops::Range;
use std::sync::Arc;

use crate::device::{DeviceError, DeviceResult};
use crate::entry::{ENTRY_HEADER_BYTES, EntryHeader, Lsn, filler, void_header};
use crate::location::{Location, UNIT_BYTES};
use crate::log::assembled::Assembled;
use crate::log::block::{BlockId, BlockPhase, ENTRIES_AT};
use crate::log::directory::{Directory, DirectoryLine, unit_of};
use crate::log::space::SpacePurpose;
use crate::log::staging::{
    BUFFER_BYTES_MAX, BUFFER_BYTES_MIN, NamespaceStaging, PAGE_BYTES, Tenancy,
};
use crate::log::volume::Volume;
use crate::stats::Traffic;

/// Disk space is put behind a block in pieces: this much at first, then half as much again as it
/// has, up to the most.
const CHUNK_BYTES: u64 = 64 << 10;
const CHUNK_BYTES_MAX: u64 = 1 << 20;
/// What new versions of records leave of the space behind a block, for deletes on a full disk.
pub(crate) const SLACK_BYTES: u64 = 64 << 10;
/// Less than this is not worth giving back when a block is closed.
const RELEASED_BYTES_MIN: u64 = 16 << 10;
/// After this many full buffers in a row a buffer grows.
const FULL_BUFFERS_TO_GROW: u32 = 4;
/// Where nothing is staged the directory goes to the device after this many bytes of it, and at
/// every sync.
const DIRECTORY_PENDING_MAX: u64 = 32 << 10;
/// An end shorter than a header is left as it is when a block is closed.
pub(crate) const FILLER_BYTES_MIN: u64 = (ENTRY_HEADER_BYTES as u64).next_multiple_of(UNIT_BYTES);

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
    /// Headers of entries that the device refused at last are there, and could not be erased.
    pub(super) has_remains: bool,
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
            has_remains: false,
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
    pub(crate) fn back(&mut self, volume: &Volume, to: u64, entries: usize) -> DeviceResult<()> {
        self.back_entries(volume, to)?;
        self.back_directory(volume, self.directory.bytes_with(entries))
    }

    /// Puts disk space behind what ends the block. Where an entry was appended before, it is there.
    fn back_end(&mut self, volume: &Volume) -> DeviceResult<()> {
        self.back_entries(volume, self.tail + FILLER_BYTES_MIN)?;
        self.back_directory(volume, self.directory.bytes_with(0))
    }

    #[inline]
    fn back_entries(&mut self, volume: &Volume, to: u64) -> DeviceResult<()> {
        let to = to.min(self.id.bytes());
        if to <= self.backed_to {
            return Ok(());
        }
        self.extend_entries(volume, to)
    }

    #[cold]
    fn extend_entries(&mut self, volume: &Volume, to: u64) -> DeviceResult<()> {
        let from = self.backed_to;
        let step = (from / 2).clamp(CHUNK_BYTES, CHUNK_BYTES_MAX);
        let wanted = to.max(from + step).min(self.id.bytes());
        let ends = [wanted, to].map(|to| to.next_multiple_of(PAGE_BYTES));
        self.backed_to = self.reserve(volume, ends.map(|end| from..end))?.end;
        Ok(())
    }

    #[inline]
    fn back_directory(&mut self, volume: &Volume, bytes: u64) -> DeviceResult<()> {
        let least = self.id.bytes() - bytes;
        if least >= self.backed_from {
            return Ok(());
        }
        self.extend_directory(volume, least)
    }

    #[cold]
    fn extend_directory(&mut self, volume: &Volume, least: u64) -> DeviceResult<()> {
        let to = self.backed_from;
        let has = self.id.bytes() - to;
        let wanted = least.min(self.id.bytes().saturating_sub(2 * has));
        let starts = [wanted, least].map(|from| from / PAGE_BYTES * PAGE_BYTES);
        self.backed_from = self.reserve(volume, starts.map(|from| from..to))?.start;
        Ok(())
    }

    /// Puts disk space behind a range of the block that is wanted, or behind the least that will
    /// do. Returns which.
    fn reserve(
        &self,
        volume: &Volume,
        [wanted, least]: [Range<u64>; 2],
    ) -> DeviceResult<Range<u64>> {
        let reserve = |range: Range<u64>| {
            let offset = self.id.offset_bytes() + range.start;
            let reserved = volume.device().reserve(offset, range.end - range.start);
            reserved.map(|()| range)
        };
        match reserve(wanted) {
            // The last pages of a disk: no more than is needed.
            Err(DeviceError::Full { .. }) => reserve(least),
            reserved => reserved,
        }
    }

    /// Gives the disk space between the entries and the directory back, but for a part that deletes
    /// need.
    pub(crate) fn release_surplus(&mut self, volume: &Volume) {
        let from = (self.tail + SLACK_BYTES).next_multiple_of(PAGE_BYTES);
        let to = self.backed_from;
        if from + RELEASED_BYTES_MIN > to {
            return;
        }
        let offset = self.id.offset_bytes();
        // Space that cannot be released now is given back when the block is freed.
        let _ = volume.device().release(offset + from, to - from);
        self.backed_to = self.backed_to.min(from);
    }
}

/// What a lane owns, under its lock.
#[derive(Debug)]
pub(crate) struct LaneState {
    pub(crate) open: Option<OpenBlock>,
    pub(super) buffer: LaneBuffer,
    /// Since the namespace was opened.
    pub(super) traffic: Traffic,
}

/// Where the entries of a lane go first.
#[derive(Debug)]
pub(super) struct LaneBuffer {
    /// The lane's place among the lanes, and the buffer's in the staging memory.
    pub(super) number: usize,
    /// `None`: there is no buffer, and each entry is written to its block at once.
    staging: Option<Arc<NamespaceStaging>>,
    bytes: u64,
    /// How much of the buffer has disk space behind it.
    reserved_bytes: u64,
    full_buffers: u32,
    tenancy: u64,
}

impl LaneState {
    pub(crate) fn new(number: usize, staging: Option<Arc<NamespaceStaging>>) -> Self {
        Self {
            open: None,
            buffer: LaneBuffer {
                number,
                staging,
                bytes: BUFFER_BYTES_MIN,
                reserved_bytes: 0,
                full_buffers: 0,
                tenancy: 0,
            },
            traffic: Traffic::default(),
        }
    }

    /// The lane with the block that it fills, if it fills one.
    #[inline]
    pub(super) fn locked<'a>(&'a mut self, volumes: &'a [Volume]) -> Option<LockedLane<'a>> {
        let open = self.open.as_mut()?;
        Some(LockedLane {
            volume: volumes.get(open.id.device)?,
            open,
            buffer: &mut self.buffer,
            traffic: &mut self.traffic,
        })
    }

    /// Whether the lane has been filling buffer after buffer.
    pub(crate) fn streams(&self) -> bool {
        self.buffer.bytes == BUFFER_BYTES_MAX
    }

    /// The lane goes on numbering its tenancies after this one, which an earlier opening has left.
    pub(crate) fn continue_after(&mut self, tenancy: u64) {
        self.buffer.tenancy = self.buffer.tenancy.max(tenancy);
    }
}

/// A lane that its caller has locked, with the block that it fills.
#[derive(Debug)]
pub(super) struct LockedLane<'a> {
    pub(super) open: &'a mut OpenBlock,
    buffer: &'a mut LaneBuffer,
    traffic: &'a mut Traffic,
    pub(super) volume: &'a Volume,
}

impl LockedLane<'_> {
    /// Appends entries that fit into the open block, and returns the location of the first. Their
    /// numbers are drawn when nothing can fail any more but a write to the device.
    ///
    /// An error leaves the entries before as they were. Numbers that were drawn by then are void.
    #[inline(always)]
    pub(super) fn append(
        &mut self,
        purpose: SpacePurpose,
        headers: &mut [EntryHeader],
        entries: &mut Assembled,
        draw: impl FnOnce(&mut [EntryHeader]),
    ) -> DeviceResult<Location> {
        let bytes = entries.bytes();
        // Only new versions leave the slack: on a full disk deletes and cleaning need a little room
        // to win more.
        let slack = match purpose {
            SpacePurpose::Write => SLACK_BYTES,
            _ => FILLER_BYTES_MIN,
        };
        let has_staging = self.buffer.staging.is_some();
        let is_staged = has_staging && bytes <= self.buffer.bytes / 4;
        let to = self.open.tail + bytes + slack;
        // Before a number is drawn: the flush comes after the write was acknowledged, and must find
        // its disk space there.
        self.open.back(self.volume, to, headers.len())?;
        if is_staged {
            let is_full = self.open.tail + bytes - self.open.start > self.buffer.bytes;
            if is_full || self.buffer.reserved_bytes < self.buffer.bytes {
                self.make_room(is_full)?;
            }
        } else if has_staging {
            // The buffer begins where the entries will: a void entry can take their place there.
            self.flush()?;
            self.restart()?;
        }
        let id = self.open.id;
        let from = self.open.tail;
        let offset = id.offset_bytes() + from;
        let is_numbered = headers.first().is_some_and(|header| header.lsn.0 != 0);
        // Under the lane's lock, until the directory has the entry: a sync that takes this number
        // for the last one flushes the lane after that.
        draw(headers);
        let mut at = 0;
        for header in &*headers {
            let place = self.volume.place(self.open.incarnation, offset + at);
            entries.seal(at as usize, header, place);
            at += header.span_bytes();
        }
        let buffer = &*self.buffer;
        match buffer.staging.as_ref().filter(|_| is_staged) {
            Some(staging) => {
                staging.store(buffer.number, from - self.open.start, entries.words());
            }
            None => {
                let words = entries.words().as_flattened();
                if let Err(error) = self.volume.write_entries(offset, words) {
                    // Copies, too: cleaning may fill the rest of a writer's block.
                    self.open.has_remains |= self.volume.has_remains(offset, headers, words);
                    if !is_numbered {
                        self.void(headers);
                    }
                    return Err(error);
                }
                self.open.flushed = from + bytes;
            }
        }
        // Not before the write has succeeded: the next entry takes the place of a refused one, so
        // no gap ends the block early for a scan.
        self.open.tail += bytes;
        let mut at = from;
        for header in &*headers {
            let line = DirectoryLine::of(header);
            self.open.directory.push(line, unit_of(at));
            at += header.span_bytes();
        }
        let is_pending = self.open.directory.pending_bytes() >= DIRECTORY_PENDING_MAX;
        if !is_staged && has_staging {
            // Cannot fail: the restart before the write has reserved the buffer.
            self.restart()?;
        } else if !has_staging && is_pending {
            // The entry is there, and has used its number. A failure here is tried again, at a sync
            // at the latest.
            let _ = self.write_directory();
        }
        // Counted before the lane is unlocked: a block that is closed next has its count.
        let block = self.volume.block(id.index);
        debug_assert!(block.is_some(), "{id:?} is no block of its device");
        if let Some(block) = block {
            block.add_live(unit_of(bytes));
        }
        if purpose.is_cleaning() {
            self.traffic.moved_bytes += bytes;
        } else {
            self.traffic.appended_bytes += bytes;
            self.traffic.requested_bytes += entries.requested_bytes;
        }
        Ok(Location::new(id.device, offset))
    }

    /// Appends an entry that covers numbers drawn for entries that could not be
    /// written: without it recovery would take them for lost. Only where
    /// entries are staged, which cannot fail.
    #[cold]
    fn void(&mut self, headers: &[EntryHeader]) {
        let (Some(staging), Some(first)) = (&self.buffer.staging, headers.first()) else {
            return;
        };
        let open = &mut *self.open;
        let mut header = void_header(first.lsn, headers.len());
        let mut entry = Assembled::default();
        if entry.push(&mut header, &[], open.id.bytes()).is_err() {
            return;
        }
        let offset = open.id.offset_bytes() + open.tail;
        entry.seal(0, &header, self.volume.place(open.incarnation, offset));
        staging.store(self.buffer.number, open.tail - open.start, entry.words());
        open.directory
            .push(DirectoryLine::of(&header), unit_of(open.tail));
        open.tail += entry.bytes();
    }

    /// Puts disk space behind the buffer, and begins it anew if it is full.
    #[cold]
    fn make_room(&mut self, is_full: bool) -> DeviceResult<()> {
        if is_full {
            self.flush()?;
            self.count_full_buffer();
        }
        self.restart()
    }

    fn count_full_buffer(&mut self) {
        let buffer = &mut *self.buffer;
        buffer.full_buffers += 1;
        if buffer.full_buffers >= FULL_BUFFERS_TO_GROW && buffer.bytes < BUFFER_BYTES_MAX {
            buffer.full_buffers = 0;
            buffer.bytes = (buffer.bytes * 2).min(BUFFER_BYTES_MAX);
        }
    }

    /// Begins the buffer anew where the block ends. Everything before is on the device.
    pub(super) fn restart(&mut self) -> DeviceResult<()> {
        let (open, buffer) = (&mut *self.open, &mut *self.buffer);
        let Some(staging) = &buffer.staging else {
            return Ok(());
        };
        if buffer.reserved_bytes < buffer.bytes {
            match staging.reserve(buffer.number, buffer.bytes) {
                // The lane goes on with the buffer that it has.
                Err(DeviceError::Full { .. }) if buffer.reserved_bytes > 0 => {
                    buffer.bytes = buffer.reserved_bytes;
                }
                reserved => {
                    reserved?;
                    buffer.reserved_bytes = buffer.bytes;
                }
            }
        }
        // Entries that are staged already keep their place.
        if open.flushed == open.tail {
            open.start = open.tail;
            buffer.tenancy += 1;
            if let Some(block) = self.volume.block(open.id.index) {
                let address = staging.address(buffer.number);
                let address = address.wrapping_sub(open.start as usize);
                // Before the new tenancy: a reader that has copied bytes of it looks at the units
                // once more, and finds that its entry is on the device.
                block.stage(unit_of(open.flushed), address);
            }
            let tenancy = Tenancy {
                number: buffer.tenancy,
                block: (open.id.device, open.id.index),
                device_id: self.volume.device_id(),
                incarnation: open.incarnation,
                start: open.start,
            };
            staging.begin(buffer.number, &tenancy);
        }
        Ok(())
    }

    /// Brings the staged entries to the device, and the directory. An error leaves it staged.
    pub(super) fn flush(&mut self) -> DeviceResult<()> {
        let open = &mut *self.open;
        if let Some(staging) = &self.buffer.staging
            && open.flushed < open.tail
        {
            let (from, to) = (open.flushed - open.start, open.tail - open.start);
            let offset = open.id.offset_bytes() + open.flushed;
            let device = self.volume.device();
            device.write(offset, staging.bytes(self.buffer.number, from, to))?;
            device.populate(offset, to - from);
            // Only now: readers of flushed entries go to the mapping.
            open.flushed = open.tail;
            if let Some(block) = self.volume.block(open.id.index) {
                block.set_flushed(unit_of(open.flushed));
            }
        }
        self.write_directory()
    }

    fn write_directory(&mut self) -> DeviceResult<()> {
        let (id, directory) = (self.open.id, &mut self.open.directory);
        if let Some((from_end, bytes)) = directory.pending() {
            let offset = id.offset_bytes() + id.bytes() - from_end;
            self.volume.device().write(offset, &bytes)?;
            directory.written();
        }
        Ok(())
    }

    /// Ends the open block: from its last entry to its directory it is one filler, so that every
    /// byte of it parses. `closed_at`: the block sequence, which gives the block's age. `last_lsn`:
    /// no entry of the block has a higher number.
    pub(super) fn close(&mut self, closed_at: u64, last_lsn: Lsn) -> DeviceResult<()> {
        self.flush()?;
        let open = &mut *self.open;
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
            self.volume
                .write_entries(offset + open.tail, &header.encode(place, &[]))
                .inspect_err(|_| open.directory.doubt())?;
        }
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
            // Last: cleaning takes a closed block without a known last number for one of an earlier
            // opening, all of it durable, and would copy entries that a power failure can take.
            block.set_phase(BlockPhase::Closed);
        }
        Ok(())
    }
}
