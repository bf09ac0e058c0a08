//! Which blocks are free, who may take the last of them, and when writes are stopped.

use crate::device::{BLOCK_BYTES, DeviceError};
use crate::log::block::{BlockId, Phase};
use crate::log::volume::Volume;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Blocks kept written ahead for the lanes.
const READY_BLOCKS: usize = 2;
/// The same for each lane while writers stream: the system may be slow to find memory for one.
const READY_BLOCKS_A_LANE: usize = 2;
/// A device file grows by half of what it has, and by so many blocks at most (64 MiB): one file-system transaction
/// instead of eight.
const GROW_BLOCKS_MAX: u32 = 8;
/// Writers stream if each lane takes a block, and one of them a second one, in so short a time.
const STREAM_PERIOD: Duration = Duration::from_secs(1);
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
    /// Held by who makes a device grow, which takes milliseconds at times: nobody who finds a block waits for it.
    /// Taken before `blocks`.
    growing: Mutex<()>,
    taken: Condvar,
    stop_writes: AtomicBool,
    /// With no more than these available, writes are stopped.
    reserve_blocks: u64,
    lanes: usize,
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
    /// When the latest blocks were taken, one more than there are lanes.
    takes: VecDeque<Instant>,
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
            growing: Mutex::default(),
            taken: Condvar::default(),
            stop_writes: AtomicBool::new(false),
            reserve_blocks,
            lanes,
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
        while blocks.allocated() <= kept {
            drop(blocks);
            let grown = self.grow(volumes, kept)?;
            blocks = self.blocks.lock();
            if !grown {
                break;
            }
        }
        let taken = match blocks.allocated() > kept {
            true => blocks.ready.pop_front().or_else(|| blocks.free.pop()),
            false => None,
        };
        if blocks.takes.len() > self.lanes {
            blocks.takes.pop_front();
        }
        blocks.takes.push_back(Instant::now());
        self.refresh(&blocks);
        self.taken.notify_all();
        Ok(taken)
    }

    /// Allocates more of a device, unless more than `kept` blocks are there by the time it is this caller's turn. False:
    /// the devices, or their disks, are full.
    fn grow(&self, volumes: &[Volume], kept: u64) -> Result<bool, DeviceError> {
        let _one_at_a_time = self.growing.lock();
        if self.blocks.lock().allocated() > kept {
            return Ok(true);
        }
        for _ in 0..volumes.len() {
            let (turn, growable) = {
                let mut blocks = self.blocks.lock();
                let turn = blocks.next_device % volumes.len();
                blocks.next_device += 1;
                (turn, blocks.growable.get(turn).copied().unwrap_or_default())
            };
            let Some(volume) = volumes.get(turn) else {
                continue;
            };
            let allocated = volume.allocated_blocks();
            let step = (allocated / 2).clamp(1, GROW_BLOCKS_MAX);
            // The last blocks of a disk one by one.
            for step in [step, 1] {
                let added = step.min(growable);
                if added == 0 {
                    break;
                }
                let target = allocated + added;
                match volume.device().grow(volume.block_id(target).offset_bytes()) {
                    Ok(()) => {
                        let mut blocks = self.blocks.lock();
                        if let Some(left) = blocks.growable.get_mut(turn) {
                            *left -= added;
                        }
                        let added = (allocated..target).map(|index| volume.block_id(index));
                        // The lowest is popped first.
                        blocks.free.splice(0..0, added.rev());
                        return Ok(true);
                    }
                    Err(DeviceError::Full { .. }) => {}
                    Err(other) => return Err(other),
                }
            }
            if let Some(left) = self.blocks.lock().growable.get_mut(turn) {
                *left = 0;
            }
        }
        Ok(false)
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
        let _not_beside_a_growth = self.growing.lock();
        let mut blocks = self.blocks.lock();
        blocks.growable = growable(volumes);
        self.refresh(&blocks);
    }

    /// Whether lanes fill their blocks so quickly that the next ones are needed soon.
    fn is_streaming(&self, blocks: &FreeBlocks) -> bool {
        let earliest = blocks
            .takes
            .front()
            .filter(|_| blocks.takes.len() > self.lanes);
        earliest.is_some_and(|taken| taken.elapsed() < STREAM_PERIOD)
    }

    fn ready_wanted(&self, blocks: &FreeBlocks) -> usize {
        match self.is_streaming(blocks) {
            true => READY_BLOCKS.max(READY_BLOCKS_A_LANE * self.lanes),
            false => READY_BLOCKS,
        }
    }

    /// Whether a block should be written ahead. Not near the end of space, where one on its way would be missed.
    fn wants_prepared(&self, blocks: &FreeBlocks) -> bool {
        blocks.ready.len() < self.ready_wanted(blocks)
            && blocks.available() > self.reserve_blocks + 1
    }

    /// Writes a block ahead for the lanes, and allocates what they will take beside the reserve. Returns whether there
    /// was one to prepare.
    pub(crate) fn prepare(&self, volumes: &[Volume]) -> Result<bool, DeviceError> {
        let wanted = {
            let blocks = self.blocks.lock();
            if !self.wants_prepared(&blocks) {
                return Ok(false);
            }
            self.ready_wanted(&blocks) as u64
        };
        self.grow(volumes, self.reserve_blocks + wanted)?;
        let Some(id) = self.blocks.lock().free.pop() else {
            return Ok(false);
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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::device::{HEADER_BYTES, Header, Member, MemoryDevice};
    use std::sync::Arc;

    #[test]
    fn a_device_grows_by_half_of_what_it_has_and_by_64_mib_at_most() {
        const BLOCKS: u32 = 64;
        let header = Header {
            device_id: 1,
            member: Member {
                namespace: "test".into(),
                index: 0,
                count: 1,
                key_hash: 0,
            },
            max_bytes: HEADER_BYTES + u64::from(BLOCKS) * BLOCK_BYTES,
            created_unix_ms: 0,
        };
        let device = Arc::new(MemoryDevice::new(&header).unwrap());
        let volumes = [Volume::new(device, 0, 1)];
        let space = Space::new(BLOCKS as usize, 1);
        space.start(&volumes);
        let mut lengths = vec![0];
        for index in 0..BLOCKS {
            let taken = space.take(&volumes, Purpose::Defrag).unwrap().unwrap();
            assert_eq!(taken.index, index, "the lowest first");
            let allocated = volumes[0].allocated_blocks();
            if lengths.last() != Some(&allocated) {
                lengths.push(allocated);
            }
        }
        assert_eq!(
            lengths,
            [0, 1, 2, 3, 4, 6, 9, 13, 19, 27, 35, 43, 51, 59, 64]
        );
        assert!(space.take(&volumes, Purpose::Defrag).unwrap().is_none());
    }
}
