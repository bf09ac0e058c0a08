//! Which blocks are free, who may take the last of them, and when writes are stopped.

use crate::block::{BlockId, Phase};
use crate::device::{BLOCK_BYTES, DeviceError};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::volume::Volume;
use std::collections::VecDeque;
use std::time::Instant;

/// Blocks kept written ahead for the lanes.
const READY_BLOCKS: usize = 2;
/// A device file grows by so many blocks at a time (64 MiB): one file-system transaction instead of eight.
const GROW_BLOCKS: u32 = 8;
/// Reserved beside a block for each lane's deletes: one that only defragmentation may take, and one it is filling.
const EXTRA_RESERVE_BLOCKS: usize = 2;

/// Who asks for space, in rising order of right to the last of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Purpose {
    /// A new version of a record.
    Write,
    /// A tombstone or the namespace's metadata: must go on when writes are stopped.
    Delete,
    /// Moving a live entry out of a block that will be freed.
    Defrag,
}

/// How much room is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceUse {
    pub(crate) available_blocks: u64,
    pub(crate) reserve_blocks: u64,
    /// Space is so short that defragmentation comes before everything else.
    pub(crate) tight: bool,
}

/// The free blocks of a namespace.
#[derive(Debug)]
pub(crate) struct Space {
    blocks: Mutex<FreeBlocks>,
    taken: Condvar,
    stop_writes: AtomicBool,
    /// With no more than these available, writes are stopped.
    reserve_blocks: u64,
}

#[derive(Debug, Default)]
struct FreeBlocks {
    /// Allocated, nothing in them.
    free: Vec<BlockId>,
    /// Free and written ahead.
    ready: VecDeque<BlockId>,
    /// Blocks that each device can still grow by; none once its disk was full.
    growable: Vec<u32>,
    /// The device whose turn it is to grow.
    next_device: usize,
    /// Nobody may wait any more: the namespace ends.
    waits_ended: bool,
}

impl FreeBlocks {
    fn allocated(&self) -> u64 {
        (self.free.len() + self.ready.len()) as u64
    }

    fn available(&self) -> u64 {
        self.allocated()
            + self
                .growable
                .iter()
                .map(|blocks| u64::from(*blocks))
                .sum::<u64>()
    }

    /// Allocates more of a device. False: the devices, or their disks, are full.
    fn grow(&mut self, volumes: &[Volume]) -> Result<bool, DeviceError> {
        for _ in 0..volumes.len() {
            let turn = self.next_device % volumes.len();
            self.next_device += 1;
            let Some((volume, growable)) = volumes.get(turn).zip(self.growable.get_mut(turn))
            else {
                continue;
            };
            let allocated = volume.allocated_blocks();
            // The last blocks of a disk one by one.
            for step in [GROW_BLOCKS, 1] {
                let added = step.min(*growable);
                if added == 0 {
                    break;
                }
                let target = allocated + added;
                match volume.device().grow(volume.block_id(target).offset_bytes()) {
                    Ok(()) => {
                        *growable -= added;
                        self.free.extend(
                            (allocated..target)
                                .rev()
                                .map(|index| volume.block_id(index)),
                        );
                        return Ok(true);
                    }
                    Err(DeviceError::Full { .. }) => {}
                    Err(other) => return Err(other),
                }
            }
            *growable = 0;
        }
        Ok(false)
    }
}

fn growable(volumes: &[Volume]) -> Vec<u32> {
    let left =
        |volume: &Volume| (volume.blocks().len() as u32).saturating_sub(volume.allocated_blocks());
    volumes.iter().map(left).collect()
}

/// How many lanes devices with so many blocks can feed: each keeps a block open, dead or alive, and has one reserved for
/// its deletes; defragmentation keeps one open, too, and there must be one left to write to.
pub(crate) fn lanes_for(blocks: usize, wanted: usize) -> usize {
    wanted
        .min(blocks.saturating_sub(EXTRA_RESERVE_BLOCKS + 2) / 2)
        .max(1)
}

impl Space {
    /// None yet: [`Space::start`] finds it.
    pub(crate) fn new(blocks: usize, lanes: usize) -> Self {
        let reserve_blocks =
            (lanes + EXTRA_RESERVE_BLOCKS).min(blocks.saturating_sub(lanes + 2)) as u64;
        Self {
            blocks: Mutex::default(),
            taken: Condvar::default(),
            stop_writes: AtomicBool::new(false),
            reserve_blocks,
        }
    }

    /// After recovery: what is not in use is free.
    pub(crate) fn start(&self, volumes: &[Volume]) {
        let mut blocks = self.blocks.lock();
        blocks.growable = growable(volumes);
        for volume in volumes {
            let allocated = (0..volume.allocated_blocks()).zip(volume.blocks());
            let free = allocated.filter(|(_, block)| block.phase() == Phase::Free);
            blocks
                .free
                .extend(free.map(|(index, _)| volume.block_id(index)));
        }
        blocks.free.reverse();
        self.refresh(&blocks);
    }

    fn refresh(&self, blocks: &FreeBlocks) {
        let stop = blocks.available() <= self.reserve_blocks;
        self.stop_writes.store(stop, Ordering::Relaxed);
    }

    /// Whether new versions of records are refused.
    pub(crate) fn writes_are_stopped(&self) -> bool {
        self.stop_writes.load(Ordering::Relaxed)
    }

    /// Takes a free block. None: those that are left are kept for others.
    pub(crate) fn take(
        &self,
        volumes: &[Volume],
        purpose: Purpose,
    ) -> Result<Option<BlockId>, DeviceError> {
        let kept = match purpose {
            Purpose::Write => self.reserve_blocks,
            Purpose::Delete => 1,
            Purpose::Defrag => 0,
        };
        let mut blocks = self.blocks.lock();
        // The reserve is allocated, not only promised: on a full disk it must be there.
        while blocks.allocated() <= kept && blocks.grow(volumes)? {}
        let taken = match blocks.allocated() > kept {
            true => blocks.ready.pop_front().or_else(|| blocks.free.pop()),
            false => None,
        };
        self.refresh(&blocks);
        self.taken.notify_all();
        Ok(taken)
    }

    /// Adds blocks that are free again.
    pub(crate) fn give_back(&self, freed: &[BlockId]) {
        let mut blocks = self.blocks.lock();
        blocks.free.extend_from_slice(freed);
        self.refresh(&blocks);
        self.taken.notify_all();
    }

    /// Tries the disks again that were full: somebody may have made room.
    pub(crate) fn retry_growth(&self, volumes: &[Volume]) {
        let mut blocks = self.blocks.lock();
        blocks.growable = growable(volumes);
        self.refresh(&blocks);
    }

    /// Whether a block should be written ahead. Not near the end of space, where one on its way would be missed.
    fn wants_prepared(&self, blocks: &FreeBlocks) -> bool {
        blocks.ready.len() < READY_BLOCKS && blocks.available() > self.reserve_blocks + 1
    }

    /// Writes a block ahead for the lanes. Returns whether there was one to prepare.
    pub(crate) fn prepare(&self, volumes: &[Volume]) -> Result<bool, DeviceError> {
        let id = {
            let mut blocks = self.blocks.lock();
            if !self.wants_prepared(&blocks) || (blocks.free.is_empty() && !blocks.grow(volumes)?) {
                return Ok(false);
            }
            let Some(id) = blocks.free.pop() else {
                return Ok(false);
            };
            id
        };
        if let Some(volume) = volumes.get(id.device) {
            volume.device().populate(id.offset_bytes(), BLOCK_BYTES);
        }
        let mut blocks = self.blocks.lock();
        blocks.ready.push_back(id);
        self.refresh(&blocks);
        Ok(true)
    }

    /// Waits until there may be a block to prepare, or until `until`.
    pub(crate) fn wait_for_demand(&self, until: Instant) {
        let mut blocks = self.blocks.lock();
        if !self.wants_prepared(&blocks) && !blocks.waits_ended {
            self.taken.wait_until(&mut blocks, Some(until));
        }
    }

    fn is_tight(&self, blocks: &FreeBlocks) -> bool {
        blocks.available() <= 2 * self.reserve_blocks
    }

    /// Waits until space becomes short (true), or until `until`. False at once if it is short already.
    pub(crate) fn wait_for_shortage(&self, until: Instant) -> bool {
        let mut blocks = self.blocks.lock();
        if self.is_tight(&blocks) {
            return false;
        }
        while !blocks.waits_ended && Instant::now() < until {
            self.taken.wait_until(&mut blocks, Some(until));
            if self.is_tight(&blocks) {
                return true;
            }
        }
        blocks.waits_ended
    }

    /// Ends all waits, present and future ones.
    pub(crate) fn end_waits(&self) {
        self.blocks.lock().waits_ended = true;
        self.taken.notify_all();
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
