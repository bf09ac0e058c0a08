//! The life of a block in the log: opened for a lane, closed when it is full, and given back once
//! it is empty.

use crate::device::{DeviceError, DeviceResult};
use crate::entry::Lsn;
use crate::error::Result;
use crate::location::UNIT_BYTES;
use crate::log::Log;
use crate::log::block::{BlockHeader, BlockId, BlockPhase, BlockState, ENTRIES_AT};
use crate::log::lane::{LaneState, LockedLane, OpenBlock, SLACK_BYTES};
use crate::log::space::{BACKED_KEPT, SpacePurpose, backed_of};
use crate::log::staging::BUFFER_BYTES_MIN;
use crate::log::staging::PAGE_BYTES;
use crate::log::volume::Volume;
use crate::stats::Traffic;
use crate::sync::atomic::Ordering;
use std::io::ErrorKind;

/// A store with at least this many blocks of entries keeps a free block backed for defragmentation.
const BACKED_BLOCK_FROM: u64 = 4;

/// A block with less room than this is closed although its lane gets no other one.
const ROOM_BYTES_MIN: u64 = 128 << 10;

/// What processors map by one entry of the page table at most.
const LARGE_PAGE_BYTES: u64 = 2 << 20;

/// Has the pages of a block that will soon be full in memory before anything is written to it:
/// those it begins with were prepared with the block before. Up to the end of the last one the
/// device has to be as long, if it may.
fn prepare_block(volume: &Volume, id: BlockId) {
    let device = volume.device();
    let begin = id.offset_bytes().next_multiple_of(LARGE_PAGE_BYTES);
    let end = (id.offset_bytes() + id.bytes()).next_multiple_of(LARGE_PAGE_BYTES);
    if device.len_bytes() < end && device.extend(end.min(device.max_bytes())).is_err() {
        return;
    }
    device.prepare(begin, end - begin);
}

/// The error of a block on an unknown device: an invariant of the log is broken.
#[cold]
pub(super) fn no_device(number: usize) -> DeviceError {
    debug_assert!(false, "the log has no device {number}");
    DeviceError::io(&format!("device {number} of the log"), "find")(ErrorKind::NotFound.into())
}

/// So many free blocks are tried at an opening.
const BACKED_TRIES_AT_OPENING: usize = 64;

impl Log {
    /// Returns the device of a block.
    pub(super) fn volume_of(&self, id: BlockId) -> DeviceResult<&Volume> {
        let volume = self.volumes.get(id.device);
        volume.ok_or_else(|| no_device(id.device))
    }

    /// Returns the lane with a block that has room for `entries` more of `bytes` in all: the open
    /// one, or a new one.
    #[inline]
    pub(super) fn lane_with_room<'a>(
        &'a self,
        state: &'a mut LaneState,
        bytes: u64,
        entries: usize,
        purpose: SpacePurpose,
    ) -> Result<LockedLane<'a>> {
        let has_room = |open: &OpenBlock| open.fits(bytes, entries);
        if !state.open.as_ref().is_some_and(has_room) {
            self.open_next(state, bytes, entries, purpose)?;
        }
        state.locked(&self.volumes).ok_or_else(|| self.no_space())
    }

    /// Opens blocks for the lane until one has room.
    #[inline(never)]
    fn open_next(
        &self,
        state: &mut LaneState,
        bytes: u64,
        entries: usize,
        purpose: SpacePurpose,
    ) -> Result<()> {
        let has_room = |open: &OpenBlock| open.fits(bytes, entries);
        let is_full = |open: &OpenBlock| !open.fits(ROOM_BYTES_MIN, 1);
        while !state.open.as_ref().is_some_and(has_room) {
            // First a new one: without it, the open block stays open, and smaller entries may still
            // fit.
            if state.open.is_some() && purpose == SpacePurpose::Write {
                self.keep_backed_blocks()
                    .map_err(|error| self.refused(purpose, error))?;
            }
            let next = match self.take_block(purpose) {
                Err(refused) if state.open.as_ref().is_some_and(is_full) => {
                    // Dead entries in it can be won back once it is closed.
                    self.close_block(state)
                        .map_err(|error| self.refused(purpose, error))?;
                    return Err(refused);
                }
                next => next?,
            };
            self.replace_open_block(state, next, purpose)?;
        }
        Ok(())
    }

    /// Closes the lane's open block, if it has one, and opens another one in its place.
    pub(super) fn replace_open_block(
        &self,
        state: &mut LaneState,
        next: BlockId,
        purpose: SpacePurpose,
    ) -> Result<()> {
        // The space for the next block first: refused, it leaves the lane the block that it has.
        let opened = self
            .back_block(next)
            .and_then(|()| self.close_block(state))
            .and_then(|()| self.open_block(state, next));
        if opened.is_ok() && purpose == SpacePurpose::Write {
            self.space.set_disk_full(false);
        }
        opened.map_err(|error| {
            self.space.give_back(next, false);
            self.refused(purpose, error)
        })
    }

    /// Keeps free blocks backed, once that is a small part of the store: on a full disk, deletes
    /// had no room without one of them, and defragmentation could move nothing without the other.
    fn keep_backed_blocks(&self) -> DeviceResult<()> {
        while self.space.backed_blocks() < BACKED_KEPT && self.backed_max() > 0 {
            if let Some(staging) = self.staging() {
                // Cleaning may not have begun yet: its lane's buffer takes disk space, too.
                staging.reserve(self.lanes.len().saturating_sub(1), BUFFER_BYTES_MIN)?;
            }
            let Some(id) = self.space.take_unbacked(&self.volumes)? else {
                return Ok(());
            };
            let backed = self.back_whole(id);
            self.space.give_back(id, backed.is_ok());
            backed?;
        }
        Ok(())
    }

    /// Finds the free blocks that an earlier opening has kept backed, or keeps others.
    /// `was_closed`: no other free block has disk space behind it.
    pub(crate) fn renew_backed(&self, was_closed: bool) -> Result<()> {
        let free = self.space.free_blocks();
        if !was_closed {
            // Which of them had disk space only the process before knew.
            free.iter().try_for_each(|id| self.release_block(*id))?;
        }
        if self.backed_max() > 0 {
            // On a full disk a reservation succeeds for these alone.
            let tried = free.iter().rev().take(BACKED_TRIES_AT_OPENING);
            let backed = tried.filter(|id| self.back_whole(**id).is_ok());
            for id in backed.take(BACKED_KEPT) {
                self.space.note_backed(*id);
            }
        }
        Ok(())
    }

    /// Returns how many free blocks may stay backed: none in a small store, and two in any other.
    fn backed_max(&self) -> usize {
        let closed = self.closed_blocks();
        let filled = closed.map(|(_, block)| u64::from(block.filled_units()));
        let filled: u64 = filled.sum();
        if filled * UNIT_BYTES >= BACKED_BLOCK_FROM * self.block_bytes() {
            backed_of(self.used_blocks()).max(BACKED_KEPT)
        } else {
            0
        }
    }

    /// Gives the disk space of free blocks back that a store of this size does not need, or has
    /// more of than `most`.
    pub(crate) fn release_surplus(&self, most: usize) -> Result<()> {
        let most = self.backed_max().min(most);
        while let Some(id) = self.space.take_backed_beyond(most) {
            let released = self.release_block(id);
            self.space.give_back(id, released.is_err());
            released?;
        }
        Ok(())
    }

    /// Gives the disk space of a block back, but for the first page, which keeps the header, and
    /// the mirror of another one.
    fn release_block(&self, id: BlockId) -> DeviceResult<()> {
        let volume = self.volume_of(id)?;
        let offset = id.offset_bytes();
        volume
            .device()
            .release(offset + PAGE_BYTES, id.bytes() - PAGE_BYTES)?;
        volume.unreadable().remove(offset, id.bytes());
        Ok(())
    }

    /// Closes the blocks being filled that are worn, which is asked with the bytes that their
    /// entries take. Of the others disk space goes back that no entry needs yet. Returns whether a
    /// block was closed.
    pub(crate) fn tidy_lanes(
        &self,
        is_worn: impl Fn(BlockId, &BlockState, u64) -> bool,
    ) -> Result<bool> {
        let mut closed = false;
        for lane in &self.lanes {
            let state = &mut *lane.lock();
            let Some(LockedLane { open, volume, .. }) = state.locked(&self.volumes) else {
                continue;
            };
            let block = volume.block(open.id.index);
            if block.is_some_and(|block| is_worn(open.id, block, open.tail - ENTRIES_AT)) {
                self.close_block(state)?;
                closed = true;
            } else {
                open.release_surplus(volume);
            }
        }
        Ok(closed)
    }

    /// Puts disk space behind all of a block.
    pub(super) fn back_whole(&self, id: BlockId) -> DeviceResult<()> {
        self.back_block(id)?;
        let device = self.volume_of(id)?.device();
        device.reserve(id.offset_bytes(), id.bytes())
    }

    /// Puts disk space behind what a block needs to be opened.
    fn back_block(&self, id: BlockId) -> DeviceResult<()> {
        let volume = self.volume_of(id)?;
        volume.reach_mirror(id.index)?;
        OpenBlock::new(volume, id, 0, ENTRIES_AT).back(volume, ENTRIES_AT + SLACK_BYTES, 1)?;
        let holder = volume.mirror_block(id.index).offset_bytes();
        volume.device().reserve(holder, PAGE_BYTES)
    }

    /// Closes the block that the lane fills, if it fills one.
    pub(super) fn close_block(&self, state: &mut LaneState) -> DeviceResult<()> {
        if let Some(mut lane) = state.locked(&self.volumes) {
            // No entry of the block has a higher number: each drew its own under this lane's lock.
            lane.close(self.next_block(), Lsn(self.last_lsn()))?;
            state.open = None;
        }
        Ok(())
    }

    /// Begins a new life of a free block, behind which there is what it needs to be opened.
    fn open_block(&self, state: &mut LaneState, id: BlockId) -> DeviceResult<()> {
        let volume = self.volume_of(id)?;
        let incarnation = self.sessions.fetch_add(2, Ordering::Relaxed);
        let mut open = OpenBlock::new(volume, id, incarnation, ENTRIES_AT);
        // Reserved by `back_block` already: this notes how far.
        open.back(volume, ENTRIES_AT + SLACK_BYTES, 1)?;
        match self.staging() {
            Some(_) if state.streams() => {
                prepare_block(volume, id);
                self.space.want_next();
            }
            // No buffer shows how fast the lane fills: an earlier full block is reason enough for
            // one more.
            None if state.traffic != Traffic::default() => self.space.want_next(),
            _ => {}
        }
        let header = BlockHeader {
            index: id.index,
            incarnation,
            device_id: volume.device_id(),
            sequence: self.draw_block_sequence(),
            ended: None,
            holds_copies: state.buffer.number + 1 == self.lanes.len(),
        };
        // Before the first entry: a block without a header and a mirror counts as never used.
        if let Err(error) = self.write_first_header(volume, &header) {
            // One copy may be there: the block must not count as used later.
            let _ = self.note_free(id);
            return Err(error);
        }
        let block = volume.block(id.index);
        debug_assert!(block.is_some(), "{id:?} is no block of its device");
        if let Some(block) = block {
            block.begin(&header, BlockPhase::Open);
            if !header.holds_copies {
                // Entries of this block draw theirs later, under this lane's lock.
                block.set_change_lsns(self.last_lsn() + 1, u64::MAX);
            }
        }
        state.open = Some(open);
        let lane = state.locked(&self.volumes);
        let restarted = lane.map_or(Ok(()), |mut lane| lane.restart());
        restarted.inspect_err(|_| {
            // Without staging memory the lane cannot go on. Nothing is in the block, so nothing in
            // it would parse.
            state.open = None;
            let _ = self.note_free(id);
            if let Some(block) = volume.block(id.index) {
                block.free();
            }
        })
    }

    /// Writes the header of a block that is being opened. Blocks before it that never had one get
    /// one, too: a block without a header before one in use counts as lost.
    fn write_first_header(&self, volume: &Volume, header: &BlockHeader) -> DeviceResult<()> {
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
        // After the header: a state that counts the block as used is written behind a sync of it.
        used.fetch_max(header.index + 1, Ordering::SeqCst);
        Ok(())
    }

    fn free_header(&self, volume: &Volume, id: BlockId) -> BlockHeader {
        BlockHeader::free(id.index, volume.device_id(), self.draw_block_sequence())
    }

    /// Prepares the block that the next lane will open, if one streams: that takes longer than
    /// anything else a writer would have to do.
    pub(crate) fn prepare_next(&self) {
        if let Some(id) = self.space.choose_next(&self.volumes)
            && let Some(volume) = self.volumes.get(id.device)
        {
            prepare_block(volume, id);
        }
    }

    pub(super) fn take_block(&self, purpose: SpacePurpose) -> Result<BlockId> {
        self.space
            .take(&self.volumes, purpose)?
            .ok_or_else(|| self.out_of_space(purpose))
    }

    /// Notes in the header of a block that it is free: its entries are all dead, or moved, and that
    /// is durable.
    pub(crate) fn note_free(&self, id: BlockId) -> Result<()> {
        let volume = self.volume_of(id)?;
        Ok(volume.write_block_header(&self.free_header(volume, id))?)
    }

    /// Does so for several blocks, and makes it durable.
    pub(crate) fn note_all_free(&self, blocks: &[BlockId]) -> Result<()> {
        blocks.iter().try_for_each(|id| self.note_free(*id))?;
        self.sync()
    }

    /// Gives a block back that no reader can see any more, once it is durable that it is free. Its
    /// disk space goes back, too, unless it will be used again soon.
    pub(crate) fn give_back(&self, id: BlockId) -> Result<()> {
        let volume = self.volume_of(id)?;
        // Where a part of it cannot be read, other disk space must take its place.
        let is_readable = !volume.unreadable().overlap(id.offset_bytes(), id.bytes());
        let is_kept = is_readable && self.space.backed_blocks() < self.backed_max();
        // A block that was closed early has no disk space behind its middle.
        let is_backed = is_kept && self.back_whole(id).is_ok();
        if !is_backed {
            self.release_block(id)?;
        }
        if let Some(block) = volume.block(id.index) {
            // Before another lane can take the block and begin its next life.
            block.free();
        }
        self.space.give_back(id, is_backed);
        // Blocks that are kept backed are no room for writes: until there is some, cleaning goes
        // on.
        if !is_backed || self.space.backed_blocks() > BACKED_KEPT {
            self.space.set_disk_full(false);
        }
        Ok(())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use crate::core::Namespace;
    use crate::digest::Digest;
    use crate::log::space::RestEnd;
    use crate::options::{Options, Storage};
    use crate::record_lock::NewVersion;
    use std::time::{Duration, Instant};

    #[test]
    fn in_memory_a_lane_has_the_block_after_its_second_one_prepared() {
        let (namespace, _) = Namespace::open(Options {
            background: false,
            write_lanes: 1,
            ..Options::new("test", Storage::Memory)
        })
        .unwrap();
        let log = &namespace.core.log;
        let mut records = 0_u32;
        let mut fill = |blocks| {
            while log.used_blocks() < blocks {
                records += 1;
                let mut digest = [0; Digest::LEN];
                digest[..4].copy_from_slice(&records.wrapping_mul(0x9e37_79b9).to_le_bytes());
                let version = NewVersion {
                    generation: 1,
                    void_time: 0,
                    last_update_ms: 1,
                    set_id: 0,
                    key: None,
                    payload: &[7; 100 << 10],
                };
                let lock = namespace.lock(&Digest::new(digest), None).unwrap();
                lock.put(&version).unwrap();
            }
        };
        // A wish ends the rest at once.
        let wants_next = |rest_s| {
            let until = Instant::now() + Duration::from_secs_f64(rest_s);
            log.space().rest(until, true) == RestEnd::NextWanted
        };
        fill(1);
        assert!(!wants_next(0.001));
        fill(2);
        assert!(wants_next(60.0));
        log.prepare_next();
        assert!(!wants_next(0.001));
        let prepared = log.space().choose_next(log.volumes());
        assert_eq!(prepared, None, "none is wanted");
        fill(3);
        assert!(wants_next(60.0));
    }
}
