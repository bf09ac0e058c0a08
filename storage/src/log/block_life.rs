//! The life of a block in the log: opened for a lane, closed when it is full, and given back once it is empty.

use crate::device::{BLOCK_BYTES, DeviceError};
use crate::error::{Error, Result};
use crate::location::UNIT_BYTES;
use crate::log::Log;
use crate::log::block::{BlockHeader, BlockId, ENTRIES_AT, Format, Phase};
use crate::log::entry::Lsn;
use crate::log::lane::{LaneState, LockedLane, OpenBlock, PAGE_BYTES, SLACK_BYTES};
use crate::log::space::{Purpose, backed_of};
use crate::log::staging::BUFFER_BYTES_MIN;
use crate::log::volume::Volume;
use crate::sync::atomic::Ordering;
use std::io::ErrorKind;

/// A store with at least this many bytes of entries keeps a free block backed for defragmentation.
const BACKED_BLOCK_FROM_BYTES: u64 = 4 * BLOCK_BYTES;

/// A block that is being filled is worth emptying once it holds this many bytes.
const DEAD_LANE_BYTES_MIN: u64 = 1 << 20;

/// A block with less room than this is closed although its lane gets no other one.
const ROOM_BYTES_MIN: u64 = 128 << 10;

/// What processors map by one entry of the page table at most.
const LARGE_PAGE_BYTES: u64 = 2 << 20;

/// Has the pages of a block that will soon be full in memory before anything is written to it: those it begins with were
/// prepared with the block before. Up to the end of the last one the device has to be as long, if it may.
fn prepare_block(volume: &Volume, id: BlockId) {
    let device = volume.device();
    let begin = id.offset_bytes().next_multiple_of(LARGE_PAGE_BYTES);
    let end = (id.offset_bytes() + BLOCK_BYTES).next_multiple_of(LARGE_PAGE_BYTES);
    if device.len_bytes() < end && device.extend(end.min(device.max_bytes())).is_err() {
        return;
    }
    device.prepare(begin, end - begin);
}

/// The error of a block whose device the log does not have: an invariant of the log is broken.
#[cold]
pub(super) fn no_device(number: usize) -> DeviceError {
    debug_assert!(false, "the log has no device {number}");
    DeviceError::io(&format!("device {number} of the log"), "find")(ErrorKind::NotFound.into())
}

impl Log {
    /// Returns the device of a block.
    pub(super) fn volume_of(&self, id: BlockId) -> std::result::Result<&Volume, DeviceError> {
        let volume = self.volumes.get(id.device);
        volume.ok_or_else(|| no_device(id.device))
    }

    /// Opens a block for the lane unless its open block has room for `bytes` more. Returns the block's volume.
    #[inline]
    pub(super) fn open_block_for(
        &self,
        number: usize,
        state: &mut LaneState,
        bytes: u64,
        purpose: Purpose,
    ) -> Result<&Volume> {
        if let Some(open) = &state.open
            && open.fits(bytes)
            && let Some(volume) = self.volumes.get(open.id.device)
        {
            return Ok(volume);
        }
        self.next_block_for(number, state, bytes, purpose)
    }

    /// Completes [`Log::open_block_for`] where there is no open block with room.
    #[inline(never)]
    fn next_block_for(
        &self,
        number: usize,
        state: &mut LaneState,
        bytes: u64,
        purpose: Purpose,
    ) -> Result<&Volume> {
        loop {
            if let Some(open) = &state.open {
                let volume = self.volume_of(open.id)?;
                if open.fits(bytes) {
                    return Ok(volume);
                }
                // First a new one: without it, what is open stays so, and smaller entries may still fit.
                if purpose == Purpose::Write {
                    self.keep_backed_block()
                        .map_err(|error| self.refused(purpose, error))?;
                }
                let is_full = !open.fits(ROOM_BYTES_MIN);
                let next = match self.take_block(purpose) {
                    Err(refused) if is_full => {
                        // What is dead in it can be won back once it is closed.
                        self.close_block(number, state, volume)
                            .map_err(|error| self.refused(purpose, error))?;
                        return Err(refused);
                    }
                    next => next?,
                };
                self.replace_open_block(number, state, next, purpose)?;
            } else {
                let next = self.take_block(purpose)?;
                self.open_block(number, state, next, purpose)?;
            }
        }
    }

    /// Closes the lane's open block and opens another one in its place.
    pub(super) fn replace_open_block(
        &self,
        number: usize,
        state: &mut LaneState,
        next: BlockId,
        purpose: Purpose,
    ) -> Result<()> {
        let closed = self.back_block(next).and_then(|()| match &state.open {
            Some(open) => {
                let volume = self.volume_of(open.id)?;
                self.close_block(number, state, volume)
            }
            None => Ok(()),
        });
        if let Err(error) = closed {
            self.space.give_back(next, false);
            return Err(self.refused(purpose, error));
        }
        self.open_block(number, state, next, purpose)
    }

    /// Keeps a free block backed, once that is a small part of the store: on a full disk, defragmentation could move nothing
    /// without it.
    fn keep_backed_block(&self) -> std::result::Result<(), DeviceError> {
        if self.space.has_backed() || !self.is_worth_a_backed_block() {
            return Ok(());
        }
        if let Some(staging) = self.staging() {
            staging.reserve(self.lanes.len().saturating_sub(1), BUFFER_BYTES_MIN)?;
        }
        let Some(id) = self.space.take(&self.volumes, Purpose::Defrag)? else {
            return Ok(());
        };
        let backed = self.back_block(id).and_then(|()| {
            let device = self.volume_of(id)?.device();
            device.reserve(id.offset_bytes(), BLOCK_BYTES)
        });
        self.space.give_back(id, backed.is_ok());
        backed
    }

    fn is_worth_a_backed_block(&self) -> bool {
        let blocks = self.volumes.iter().flat_map(Volume::blocks);
        let closed = blocks.filter(|block| block.phase() == Phase::Closed);
        let filled: u64 = closed.map(|block| u64::from(block.filled_units())).sum();
        filled * UNIT_BYTES >= BACKED_BLOCK_FROM_BYTES
    }

    /// Gives the disk space of free blocks back that a store of this size does not need.
    pub(crate) fn release_surplus(&self) -> Result<()> {
        let most = match self.is_worth_a_backed_block() {
            true => backed_of(self.used_blocks()).max(1),
            false => 0,
        };
        while let Some(id) = self.space.take_backed_beyond(most) {
            let released = self.release_block(id);
            self.space.give_back(id, released.is_err());
            released?;
        }
        Ok(())
    }

    /// Gives the disk space of a block back, but for the first page, which keeps the header, and the mirror of another one.
    fn release_block(&self, id: BlockId) -> std::result::Result<(), DeviceError> {
        let volume = self.volume_of(id)?;
        let offset = id.offset_bytes();
        volume
            .device()
            .release(offset + PAGE_BYTES, BLOCK_BYTES - PAGE_BYTES)?;
        volume.unreadable().forget(offset, BLOCK_BYTES);
        Ok(())
    }

    /// Closes the blocks being filled of which more than half is dead, so that defragmentation can empty them. Of the others
    /// of a small store, disk space goes back that they were taken with.
    pub(crate) fn tidy_lanes(&self) -> Result<()> {
        let is_small = !self.is_worth_a_backed_block();
        for (number, lane) in self.lanes.iter().enumerate() {
            let mut state = lane.state.lock();
            let Some(open) = state.open.as_ref() else {
                continue;
            };
            let (Some(volume), Some(block)) =
                (self.volumes.get(open.id.device), self.block(open.id))
            else {
                continue;
            };
            let filled = open.tail - ENTRIES_AT;
            let live = u64::from(block.live_units()) * UNIT_BYTES;
            if filled >= DEAD_LANE_BYTES_MIN && 2 * live < filled {
                self.close_block(number, &mut state, volume)
                    .map_err(Error::Device)?;
            } else if is_small {
                open.release_surplus(volume).map_err(Error::Device)?;
            }
        }
        Ok(())
    }

    /// Puts disk space behind what a block needs to be opened.
    fn back_block(&self, id: BlockId) -> std::result::Result<(), DeviceError> {
        let volume = self.volume_of(id)?;
        // The next block must be reachable, since it holds the mirror, and must have space for that.
        let holder = BlockId::containing(id.device, volume.mirror_offset(id.index)).offset_bytes();
        let device = volume.device();
        if device.len_bytes() < holder + PAGE_BYTES {
            device.extend(holder + PAGE_BYTES)?;
        }
        OpenBlock::new(volume, id, 0, ENTRIES_AT).back(volume, ENTRIES_AT + SLACK_BYTES)?;
        device.reserve(holder, PAGE_BYTES)
    }

    pub(super) fn close_block(
        &self,
        number: usize,
        state: &mut LaneState,
        volume: &Volume,
    ) -> std::result::Result<(), DeviceError> {
        let mut lane = LockedLane {
            number,
            state,
            volume,
            staging: self.staging(),
        };
        lane.close(self.next_block(), Lsn(self.last_lsn()))
    }

    /// Begins a new life of a free block.
    fn open_block(
        &self,
        number: usize,
        state: &mut LaneState,
        id: BlockId,
        purpose: Purpose,
    ) -> Result<()> {
        self.try_open_block(number, state, id).map_err(|error| {
            if state.open.as_ref().is_none_or(|open| open.id != id) {
                self.space.give_back(id, false);
            }
            self.refused(purpose, error)
        })
    }

    fn try_open_block(
        &self,
        number: usize,
        state: &mut LaneState,
        id: BlockId,
    ) -> std::result::Result<(), DeviceError> {
        let volume = self.volume_of(id)?;
        let incarnation = self.sessions.fetch_add(2, Ordering::Relaxed);
        let mut open = OpenBlock::new(volume, id, incarnation, ENTRIES_AT);
        self.back_block(id)?;
        open.back(volume, ENTRIES_AT + SLACK_BYTES)?;
        if state.streams() {
            prepare_block(volume, id);
            self.space.want_next();
        }
        let header = BlockHeader {
            format: Format::Two,
            index: id.index,
            incarnation,
            device_id: volume.device_id(),
            sequence: self.draw_block_sequence(),
        };
        if let Err(error) = self.write_first_header(volume, &header) {
            // One copy may be there: the block must not count as used later.
            let _ = self.note_free(id);
            return Err(error);
        }
        let block = volume.block(id.index);
        debug_assert!(block.is_some(), "{id:?} is no block of its device");
        if let Some(block) = block {
            block.set_sequence(header.sequence);
            block.begin(incarnation, Phase::Open);
        }
        self.space.set_disk_full(false);
        state.open = Some(open);
        let mut lane = LockedLane {
            number,
            state,
            volume,
            staging: self.staging(),
        };
        match lane.restart() {
            Ok(()) => Ok(()),
            Err(error) => {
                // Without staging memory the lane cannot go on. Nothing is in the block, so nothing in it would parse.
                state.open = None;
                let _ = self.note_free(id);
                if let Some(block) = volume.block(id.index) {
                    block.begin(0, Phase::Free);
                }
                Err(error)
            }
        }
    }

    /// Writes the header of a block that is being opened. Blocks before it that never had one get one, too: a block without a
    /// header that lies before one in use counts as lost.
    fn write_first_header(
        &self,
        volume: &Volume,
        header: &BlockHeader,
    ) -> std::result::Result<(), DeviceError> {
        let _one_at_a_time = self.opening.lock();
        // A block that were opened without a header would be lost at the next opening.
        let used = self.used_blocks.get(volume.number());
        let used = used.ok_or_else(|| no_device(volume.number()))?;
        for index in used.load(Ordering::SeqCst)..header.index {
            let id = volume.block_id(index);
            volume.device().reserve(id.offset_bytes(), PAGE_BYTES)?;
            volume.write_block_header(&self.free_header(volume, id))?;
        }
        volume.write_block_header(header)?;
        used.fetch_max(header.index + 1, Ordering::SeqCst);
        Ok(())
    }

    fn free_header(&self, volume: &Volume, id: BlockId) -> BlockHeader {
        BlockHeader {
            format: Format::Two,
            index: id.index,
            incarnation: 0,
            device_id: volume.device_id(),
            sequence: self.draw_block_sequence(),
        }
    }

    /// Closes a block that recovery has read to its end, so that from then on every byte of it parses. `open` knows its
    /// directory. Nobody else writes yet.
    pub(crate) fn seal(&self, open: OpenBlock) -> Result<()> {
        let volume = self.volume_of(open.id)?;
        let mut state = LaneState::with(open);
        let mut lane = LockedLane {
            number: 0,
            state: &mut state,
            volume,
            staging: None,
        };
        lane.close(self.next_block(), Lsn(self.last_lsn()))
            .map_err(Error::Device)
    }

    /// Prepares the block that the next lane will open, if one streams: that takes longer than anything else a writer would
    /// have to do.
    pub(crate) fn prepare_next(&self) {
        if let Some(id) = self.space.choose_next(&self.volumes)
            && let Some(volume) = self.volumes.get(id.device)
        {
            prepare_block(volume, id);
        }
    }

    pub(super) fn take_block(&self, purpose: Purpose) -> Result<BlockId> {
        self.space
            .take(&self.volumes, purpose)?
            .ok_or_else(|| match purpose {
                Purpose::Write => self.stop_writes(),
                Purpose::Delete | Purpose::Defrag => self.no_space(),
            })
    }

    /// Notes in the header of a block that it is free: its entries are all dead, or moved, and that is durable.
    pub(crate) fn note_free(&self, id: BlockId) -> Result<()> {
        let volume = self.volume_of(id)?;
        volume.write_block_header(&self.free_header(volume, id))?;
        if let Some(block) = volume
            .block(id.index)
            .filter(|block| block.format() == Format::One)
        {
            block.set_format(Format::Two);
            // Tried again with the header if it fails.
            volume
                .write_missing_mirror(id.index)
                .inspect_err(|_| block.set_format(Format::One))?;
        }
        Ok(())
    }

    /// Gives a block back that no reader can see any more, once it is durable that it is free. Its disk space goes back,
    /// too, unless it will be used again soon.
    pub(crate) fn give_back(&self, id: BlockId) -> Result<()> {
        let volume = self.volume_of(id)?;
        // Where a part of it cannot be read, other disk space must take its place.
        let is_readable = !volume.unreadable().overlap(id.offset_bytes(), BLOCK_BYTES);
        let is_backed = is_readable && self.space.wants_backed(self.used_blocks());
        if !is_backed {
            self.release_block(id)?;
        }
        if let Some(block) = volume.block(id.index) {
            block.begin(0, Phase::Free);
        }
        self.space.give_back(id, is_backed);
        self.space.set_disk_full(false);
        Ok(())
    }
}
