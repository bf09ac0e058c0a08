//! Which blocks are free, who may take the last of them, and when writes are stopped.

use crate::device::{DeviceResult, HEADER_BYTES};
use crate::log::block::{BlockId, BlockPhase};
use crate::log::volume::Volume;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::waiters::Waiters;
use std::collections::VecDeque;
use std::task::Waker;
use std::time::Instant;

/// A device file is extended by this many blocks at a time: an entry in the file system's journal,
/// no disk space.
const EXTEND_BLOCKS: u32 = 8;
/// Reserved: a block for deletes, one that only defragmentation may take, and one it is filling. A
/// lane that gets no block for its deletes goes to one that another lane has open.
const RESERVE_BLOCKS: usize = 3;
/// Limit on the default number of lanes, and the blocks that the devices must have for each.
const LANES_DEFAULT_MAX: usize = 8;
const BLOCKS_A_DEFAULT_LANE: usize = 24;
/// With this many blocks beside the reserve space is short.
const TIGHT_BLOCKS: u64 = 2;
/// For this many blocks in use one free block may stay backed by disk space, up to 512 MiB: it will
/// be used again soon, and its pages are in memory.
const USED_BLOCKS_A_BACKED_ONE: usize = 4;
const BACKED_MAX: usize = 64;
/// This many free blocks stay backed for the time when the disk is full: one for deletes, and one
/// for cleaning, without which the space of the records that they delete would never come back.
pub(crate) const BACKED_KEPT: usize = 2;

/// Returns how many free blocks may stay backed.
pub(crate) fn backed_of(used_blocks: usize) -> usize {
    (used_blocks / USED_BLOCKS_A_BACKED_ONE).min(BACKED_MAX)
}

/// Who asks for space, in rising order of right to the last of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SpacePurpose {
    /// A new version of a record.
    Write,
    /// A group with a deletion that makes no record larger: may take one block of the reserve, so
    /// that single deletes find another.
    Shrink,
    /// A tombstone or the namespace's metadata: must go on when writes are stopped.
    Delete,
    /// Writing a record whole that has deltas in a block to be freed: may take more than that wins.
    Fold,
    /// Moving a live entry out of a block that will be freed.
    Defrag,
}

impl SpacePurpose {
    /// How many of the backed blocks are kept from it.
    pub(crate) const fn backed_kept(self) -> usize {
        match self {
            Self::Write | Self::Shrink => BACKED_KEPT,
            Self::Delete | Self::Fold => 1,
            Self::Defrag => 0,
        }
    }

    /// Whether blocks are being emptied: the entry exists already, with its number.
    pub(crate) const fn is_cleaning(self) -> bool {
        matches!(self, Self::Fold | Self::Defrag)
    }
}

/// How much room is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceUse {
    pub(crate) available_blocks: u64,
    pub(crate) reserve_blocks: u64,
    /// Space is so short that defragmentation comes before everything else.
    pub(crate) tight: bool,
}

/// Why a rest of the thread that cleans has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RestEnd {
    /// The time is over, or space has become short meanwhile.
    Due,
    /// A block is to be prepared for the next lane.
    NextWanted,
    /// The namespace ends.
    WaitsEnded,
}

/// The free blocks of a namespace.
#[derive(Debug)]
pub(crate) struct Space {
    blocks: Mutex<FreeBlocks>,
    changed: Condvar,
    /// Tasks that wait for room.
    tasks: Waiters,
    stop_writes: AtomicBool,
    /// The disk had no room for a chunk; until a write finds room, new versions are refused.
    disk_full: AtomicBool,
    /// With no more than these available, writes are stopped.
    reserve_blocks: u64,
}

#[derive(Debug, Default)]
struct FreeBlocks {
    /// Inside the devices' lengths, nothing in them. The last is taken first.
    free: Vec<BlockId>,
    /// The same, with disk space behind all of it.
    backed: VecDeque<BlockId>,
    /// Some lane streams, and the next block should be prepared.
    wants_next: bool,
    /// Blocks that each device can still be extended by.
    beyond: Vec<u32>,
    /// How often cleaning has found nothing to empty.
    vain_looks: u64,
    /// Waits have ended with the namespace.
    waits_ended: bool,
}

impl FreeBlocks {
    fn available(&self) -> u64 {
        let beyond: u64 = self.beyond.iter().map(|blocks| u64::from(*blocks)).sum();
        (self.free.len() + self.backed.len()) as u64 + beyond
    }
}

/// Whether the next block is one with disk space behind all of it. Extends the devices if no block
/// is left.
fn takes_backed(
    blocks: &mut FreeBlocks,
    volumes: &[Volume],
    purpose: SpacePurpose,
) -> DeviceResult<bool> {
    let spares_backed = blocks.backed.len() <= purpose.backed_kept();
    if blocks.free.is_empty() && (spares_backed || blocks.backed.is_empty()) {
        extend(blocks, volumes)?;
    }
    Ok(!blocks.backed.is_empty() && (blocks.free.is_empty() || !spares_backed))
}

/// Returns how many lanes `blocks` can feed: each keeps a block open, dead or alive, and should
/// have another to go on; defragmentation keeps one open, too, and there must be one left to write
/// to. `wanted` 0: one for each core, unless what they keep would weigh on the devices.
pub(crate) fn lanes_for(blocks: usize, wanted: usize) -> usize {
    let wanted = match wanted {
        0 => std::thread::available_parallelism()
            .map_or(2, usize::from)
            .min(LANES_DEFAULT_MAX)
            .min(blocks / BLOCKS_A_DEFAULT_LANE),
        wanted => wanted,
    };
    wanted
        .min(blocks.saturating_sub(RESERVE_BLOCKS + 1) / 2)
        .max(1)
}

impl Space {
    /// Nothing is free yet: [`Space::start`] finds it.
    pub(crate) fn new(blocks: usize, lanes: usize) -> Self {
        let reserve_blocks = RESERVE_BLOCKS.min(blocks.saturating_sub(lanes + 2)) as u64;
        Self {
            blocks: Mutex::default(),
            changed: Condvar::default(),
            tasks: Waiters::default(),
            stop_writes: AtomicBool::new(false),
            disk_full: AtomicBool::new(false),
            reserve_blocks,
        }
    }

    /// After recovery: blocks that are not in use are free.
    pub(crate) fn start(&self, volumes: &[Volume]) {
        let mut blocks = self.blocks.lock();
        blocks.beyond = volumes
            .iter()
            .map(|volume| volume.blocks().len() as u32 - volume.reachable_blocks())
            .collect();
        for volume in volumes {
            let reachable = volume.blocks().take(volume.reachable_blocks() as usize);
            let free = reachable.filter(|(_, block)| block.phase() == BlockPhase::Free);
            blocks.free.extend(free.map(|(id, _)| id));
        }
        // The lowest of every device is taken first, one device after the other.
        blocks
            .free
            .sort_unstable_by_key(|id| std::cmp::Reverse((id.index, id.device)));
        self.refresh(&blocks);
    }

    fn refresh(&self, blocks: &FreeBlocks) {
        let stop = blocks.available() <= self.reserve_blocks;
        self.stop_writes.store(stop, Ordering::Relaxed);
    }

    /// Whether new versions of records are refused.
    pub(crate) fn writes_are_stopped(&self) -> bool {
        self.stop_writes.load(Ordering::Relaxed) || self.disk_full.load(Ordering::Relaxed)
    }

    /// Notes whether the disk had room for the last chunk.
    pub(crate) fn set_disk_full(&self, is_full: bool) {
        if self.disk_full.load(Ordering::Relaxed) != is_full {
            self.disk_full.store(is_full, Ordering::Relaxed);
            // A writer that has looked before the store waits by now, or is known as waiting.
            drop(self.blocks.lock());
            self.wake_writers();
        }
    }

    /// Takes a free block. `None`: the rest is kept for other purposes.
    pub(crate) fn take(
        &self,
        volumes: &[Volume],
        purpose: SpacePurpose,
    ) -> DeviceResult<Option<BlockId>> {
        let kept = match purpose {
            SpacePurpose::Write => self.reserve_blocks,
            SpacePurpose::Shrink => self.reserve_blocks.min(2),
            SpacePurpose::Delete | SpacePurpose::Fold => 1,
            SpacePurpose::Defrag => 0,
        };
        let mut blocks = self.blocks.lock();
        if blocks.available() <= kept {
            return Ok(None);
        }
        let taken = if takes_backed(&mut blocks, volumes, purpose)? {
            blocks.backed.pop_front()
        } else {
            blocks.free.pop()
        };
        self.refresh(&blocks);
        // The thread that cleans may rest until space is short.
        self.changed.notify_all();
        Ok(taken)
    }

    /// Has the background thread prepare a block for the next lane that asks.
    pub(crate) fn want_next(&self) {
        self.blocks.lock().wants_next = true;
        self.changed.notify_all();
    }

    /// The block to prepare, if one is wanted and space is not short: the one that a writer takes
    /// next.
    pub(crate) fn choose_next(&self, volumes: &[Volume]) -> Option<BlockId> {
        let mut blocks = self.blocks.lock();
        let is_wanted = std::mem::take(&mut blocks.wants_next);
        if !is_wanted || self.is_tight(&blocks) {
            return None;
        }
        // What goes wrong shows when a lane asks.
        if takes_backed(&mut blocks, volumes, SpacePurpose::Write).ok()? {
            blocks.backed.front().copied()
        } else {
            blocks.free.last().copied()
        }
    }

    /// The free blocks that are not known to have disk space behind them, the next one last.
    pub(crate) fn free_blocks(&self) -> Vec<BlockId> {
        self.blocks.lock().free.clone()
    }

    /// Notes that a free block has disk space behind all of it.
    pub(crate) fn note_backed(&self, id: BlockId) {
        let mut blocks = self.blocks.lock();
        if let Some(at) = blocks.free.iter().rposition(|free| *free == id) {
            blocks.free.remove(at);
            blocks.backed.push_back(id);
        }
    }

    /// Takes a free block that has no disk space behind all of it, to keep it backed.
    pub(crate) fn take_unbacked(&self, volumes: &[Volume]) -> DeviceResult<Option<BlockId>> {
        let mut blocks = self.blocks.lock();
        if blocks.free.is_empty() {
            extend(&mut blocks, volumes)?;
        }
        let taken = blocks.free.pop();
        self.refresh(&blocks);
        Ok(taken)
    }

    /// How many free blocks have disk space behind all of them.
    pub(crate) fn backed_blocks(&self) -> usize {
        self.blocks.lock().backed.len()
    }

    /// Takes a free block with disk space behind it, if there are more than `most`.
    pub(crate) fn take_backed_beyond(&self, most: usize) -> Option<BlockId> {
        let mut blocks = self.blocks.lock();
        if blocks.backed.len() > most {
            blocks.backed.pop_back()
        } else {
            None
        }
    }

    /// Adds a block that is free again. `backed`: with disk space behind all of it.
    pub(crate) fn give_back(&self, id: BlockId, backed: bool) {
        let mut blocks = self.blocks.lock();
        if backed {
            blocks.backed.push_back(id);
        } else {
            blocks.free.push(id);
        }
        self.refresh(&blocks);
        drop(blocks);
        self.wake_writers();
    }

    fn is_tight(&self, blocks: &FreeBlocks) -> bool {
        blocks.available() <= self.reserve_blocks + TIGHT_BLOCKS
            || self.disk_full.load(Ordering::Relaxed)
    }

    /// Rests until `until`, or until there is something to do before. `seen_tight`: the caller
    /// knows that space is short; else that ends the rest, also where it was short before the rest
    /// began.
    pub(crate) fn rest(&self, until: Instant, seen_tight: bool) -> RestEnd {
        let mut blocks = self.blocks.lock();
        loop {
            if blocks.waits_ended {
                return RestEnd::WaitsEnded;
            }
            if Instant::now() >= until || (!seen_tight && self.is_tight(&blocks)) {
                return RestEnd::Due;
            }
            if blocks.wants_next {
                return RestEnd::NextWanted;
            }
            self.changed.wait_until(&mut blocks, Some(until));
        }
    }

    fn lacks(&self, blocks: &FreeBlocks, wanted: u64) -> bool {
        blocks.available() < self.reserve_blocks + wanted || self.disk_full.load(Ordering::Relaxed)
    }

    /// Whether new versions that need this many blocks would be refused.
    pub(crate) fn is_short_of(&self, wanted: u64) -> bool {
        self.lacks(&self.blocks.lock(), wanted)
    }

    /// Waits until there are as many blocks as wanted for new versions, until cleaning finds
    /// nothing to empty, until `until`, or until waits have ended.
    pub(crate) fn wait_for_room(&self, wanted: u64, until: Option<Instant>) {
        let mut blocks = self.blocks.lock();
        let vain_looks = blocks.vain_looks;
        while self.lacks(&blocks, wanted) && blocks.vain_looks == vain_looks && !blocks.waits_ended
        {
            if until.is_some_and(|until| Instant::now() >= until) {
                return;
            }
            self.changed.wait_until(&mut blocks, until);
        }
    }

    /// How often cleaning has found nothing to empty.
    pub(crate) fn vain_looks(&self) -> u64 {
        self.blocks.lock().vain_looks
    }

    /// Whether a task that waits for room should look again: as [`Space::wait_for_room`]. Else the
    /// task is woken when it should.
    pub(crate) fn has_changed(&self, wanted: u64, vain_looks: u64, task: &Waker) -> bool {
        let has_changed = || {
            let blocks = self.blocks.lock();
            !self.lacks(&blocks, wanted) || blocks.vain_looks != vain_looks || blocks.waits_ended
        };
        has_changed() || {
            // Looked at again once the task is listed: a change in between has woken no one else
            // for it.
            self.tasks.add(task);
            has_changed()
        }
    }

    /// Wakes threads and tasks that wait for room, without the lock on the blocks: a waker may run
    /// its task at once.
    fn wake_writers(&self) {
        self.changed.notify_all();
        self.tasks.wake();
    }

    /// Wakes writers that wait for room, to look whether any can be won.
    pub(crate) fn note_vain_look(&self) {
        self.blocks.lock().vain_looks += 1;
        self.wake_writers();
    }

    /// Ends all waits, present and future ones.
    pub(crate) fn end_waits(&self) {
        self.blocks.lock().waits_ended = true;
        self.wake_writers();
    }

    /// How much room is left.
    pub(crate) fn usage(&self) -> SpaceUse {
        let blocks = self.blocks.lock();
        SpaceUse {
            available_blocks: blocks.available(),
            reserve_blocks: self.reserve_blocks,
            tight: self.is_tight(&blocks),
        }
    }
}

/// Extends every device by its share of some blocks, which are taken from one device after the
/// other. Costs no disk space.
fn extend(blocks: &mut FreeBlocks, volumes: &[Volume]) -> DeviceResult<()> {
    let share = EXTEND_BLOCKS.div_ceil(volumes.len().max(1) as u32);
    let mut new = Vec::new();
    let mut refused = None;
    for (volume, beyond) in volumes.iter().zip(&mut blocks.beyond) {
        let added = share.min(*beyond);
        if added == 0 {
            continue;
        }
        // Preparing a block may have made the device longer than these.
        let known = volume.blocks().len() as u32 - *beyond;
        let end = HEADER_BYTES + u64::from(known + added) * volume.block_bytes();
        if let Err(error) = volume.device().extend(end) {
            refused = Some(error);
            continue;
        }
        *beyond -= added;
        let indexes = (0..).zip(known..known + added);
        new.extend(indexes.map(|(turn, index)| (turn, volume.block_id(index))));
    }
    if let Some(error) = refused.filter(|_| new.is_empty()) {
        return Err(error);
    }
    new.sort_unstable_by_key(|(turn, id): &(u32, BlockId)| std::cmp::Reverse((*turn, id.device)));
    blocks.free.splice(0..0, new.into_iter().map(|(_, id)| id));
    Ok(())
}
