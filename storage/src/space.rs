//! Which blocks are free, who may take the last of them, and when writes are stopped.
//!
//! A full disk must leave room for deletes and for defragmentation, so a *reserve* of blocks is allocated before anything
//! else. A small store goes without: the first block that writers fill is left half empty instead, which is room for a
//! tombstone for every record there is, until there is more to be written and the reserve is allocated after all.

use crate::block::{BLOCK_HEADER_BYTES, BlockId, Phase};
use crate::device::{BLOCK_BYTES, DeviceError};
use crate::location::UNIT_BYTES;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::volume::Volume;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Blocks kept written ahead for the lanes, and no more than are in use.
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

/// One lane more takes blocks of its own for so many blocks in use.
const BLOCKS_A_LANE: u64 = 2;
/// And for so often that writers found every lane in use: a small store that many write to at once is worth the blocks.
const COLLISIONS_A_LANE: usize = 4096;

/// With more than this live, or more blocks in use, a store is not small any more, and has its reserve.
const SMALL_BYTES: u64 = BLOCK_BYTES / 2;
pub(crate) const SMALL_BLOCKS: usize = 4;

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

/// A block that was free, for a lane to fill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    pub(crate) id: BlockId,
    /// How far versions of records may fill it, in bytes of the block, while the reserve is not allocated.
    pub(crate) unreserved_bytes: u64,
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
    /// Every block that the devices can have.
    blocks_max: usize,
    /// The lanes that take blocks; those behind them are not used yet.
    lanes: AtomicUsize,
    lanes_max: usize,
    /// How often writers found every lane in use.
    collisions: AtomicUsize,
}

#[derive(Debug, Default)]
struct FreeBlocks {
    /// Allocated, nothing in them.
    free: Vec<BlockId>,
    /// Free and written ahead.
    ready: VecDeque<BlockId>,
    /// Neither free nor on their way to being written ahead.
    in_use: u64,
    /// There is enough to be written that the reserve has to be allocated.
    reserve_wanted: bool,
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

/// What is live in blocks, in bytes.
fn live_bytes(volumes: &[Volume]) -> u64 {
    let units = |volume: &Volume| {
        let allocated = volume
            .blocks()
            .iter()
            .take(volume.allocated_blocks() as usize);
        allocated
            .map(|block| u64::from(block.live_units()))
            .sum::<u64>()
    };
    volumes.iter().map(units).sum::<u64>() * UNIT_BYTES
}

/// How far a block of which `filled` bytes are taken may be filled, if what is left of it must hold a tombstone for
/// every record: for those that live now, and for those to come. A tombstone is a record without its body.
fn unreserved_bytes(live: u64, filled: u64) -> u64 {
    let room = BLOCK_BYTES.saturating_sub(filled).saturating_sub(live) / 2;
    filled + room
}

impl Space {
    /// None yet: [`Space::start`] finds it.
    pub(crate) fn new(blocks: usize, lanes: usize) -> Self {
        Self {
            blocks: Mutex::default(),
            growing: Mutex::default(),
            taken: Condvar::default(),
            stop_writes: AtomicBool::new(false),
            blocks_max: blocks,
            lanes: AtomicUsize::new(1),
            lanes_max: lanes,
            collisions: AtomicUsize::new(0),
        }
    }

    /// After recovery: what is not in use is free.
    pub(crate) fn start(&self, volumes: &[Volume]) {
        let mut blocks = self.blocks.lock();
        blocks.growable = growable(volumes);
        for volume in volumes {
            let allocated = (0..volume.allocated_blocks()).zip(volume.blocks());
            for (index, block) in allocated {
                if block.phase() == Phase::Free {
                    blocks.free.push(volume.block_id(index));
                } else {
                    blocks.in_use += 1;
                }
            }
        }
        blocks.free.reverse();
        self.add_lanes((blocks.in_use / BLOCKS_A_LANE) as usize);
        blocks.reserve_wanted =
            blocks.in_use > SMALL_BLOCKS as u64 || live_bytes(volumes) > SMALL_BYTES;
        self.refresh(&blocks);
    }

    /// How many lanes may take blocks.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.load(Ordering::Relaxed)
    }

    /// There are at least so many lanes from now on, as far as the devices can feed them.
    fn add_lanes(&self, wanted: usize) {
        self.lanes
            .fetch_max(wanted.min(self.lanes_max), Ordering::Relaxed);
    }

    /// Notes that a writer found every lane in use.
    #[cold]
    pub(crate) fn note_collision(&self) {
        let collisions = self.collisions.fetch_add(1, Ordering::Relaxed) + 1;
        if collisions.is_multiple_of(COLLISIONS_A_LANE) {
            self.add_lanes(self.lanes() + 1);
        }
    }

    /// With no more than these available, writes are stopped: a block for the deletes of each lane, and
    /// [`EXTRA_RESERVE_BLOCKS`].
    fn reserve_blocks(&self) -> u64 {
        let lanes = self.lanes();
        (lanes + EXTRA_RESERVE_BLOCKS).min(self.blocks_max.saturating_sub(lanes + 2)) as u64
    }

    fn refresh(&self, blocks: &FreeBlocks) {
        let stop = blocks.available() <= self.reserve_blocks();
        self.stop_writes.store(stop, Ordering::Relaxed);
    }

    /// Whether new versions of records are refused.
    pub(crate) fn writes_are_stopped(&self) -> bool {
        self.stop_writes.load(Ordering::Relaxed)
    }

    /// How far versions of records may fill a block of which `filled` bytes are taken, while the reserve is not allocated.
    /// No further than it is filled, unless the store is small.
    pub(crate) fn unreserved_bytes(&self, volumes: &[Volume], filled: u64) -> u64 {
        // With several lanes, the room that is left in the block of one would not serve the others.
        if self.blocks.lock().reserve_wanted || self.lanes() > 1 {
            return filled;
        }
        match live_bytes(volumes) {
            live if live > SMALL_BYTES => filled,
            live => unreserved_bytes(live, filled),
        }
    }

    /// Takes a free block. None: those that are left are kept for others.
    pub(crate) fn take(
        &self,
        volumes: &[Volume],
        purpose: Purpose,
    ) -> Result<Option<Taken>, DeviceError> {
        let unreserved_bytes = match purpose {
            Purpose::Write | Purpose::Delete => self.unreserved_bytes(volumes, BLOCK_HEADER_BYTES),
            Purpose::Defrag => BLOCK_HEADER_BYTES,
        };
        let is_small = unreserved_bytes > BLOCK_HEADER_BYTES;
        let mut blocks = self.blocks.lock();
        let reserve = self.reserve_blocks();
        let kept = match purpose {
            // Promised, and not allocated yet.
            Purpose::Write if is_small && blocks.available() > reserve => 0,
            Purpose::Delete if is_small => 0,
            Purpose::Write => {
                blocks.reserve_wanted = true;
                reserve
            }
            Purpose::Delete => 1,
            Purpose::Defrag => 0,
        };
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
        if taken.is_some() {
            blocks.in_use += 1;
            self.add_lanes((blocks.in_use / BLOCKS_A_LANE) as usize);
        }
        if blocks.takes.len() > self.lanes_max {
            blocks.takes.pop_front();
        }
        blocks.takes.push_back(Instant::now());
        self.refresh(&blocks);
        self.taken.notify_all();
        let unreserved_bytes = match blocks.allocated() >= reserve {
            true => BLOCK_BYTES,
            false => unreserved_bytes,
        };
        Ok(taken.map(|id| Taken {
            id,
            unreserved_bytes,
        }))
    }

    /// Has the reserve allocated in the background, where there are threads for it: it will be needed soon.
    pub(crate) fn want_reserve(&self) {
        self.blocks.lock().reserve_wanted = true;
        self.taken.notify_all();
    }

    /// Allocates the reserve. False: the devices, or their disks, are full.
    pub(crate) fn allocate_reserve(&self, volumes: &[Volume]) -> Result<bool, DeviceError> {
        self.want_reserve();
        loop {
            let reserve = self.reserve_blocks();
            let allocated = self.blocks.lock().allocated();
            if allocated >= reserve {
                return Ok(true);
            }
            if !self.grow(volumes, reserve - 1)? {
                self.refresh(&self.blocks.lock());
                return Ok(false);
            }
        }
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
        blocks.in_use = blocks.in_use.saturating_sub(freed.len() as u64);
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
        let earliest = blocks.takes.iter().rev().nth(self.lanes());
        earliest.is_some_and(|taken| taken.elapsed() < STREAM_PERIOD)
    }

    fn ready_wanted(&self, blocks: &FreeBlocks) -> usize {
        if !blocks.reserve_wanted {
            // The first block, and no other before that one is nearly full.
            return usize::from(blocks.in_use == 0);
        }
        match self.is_streaming(blocks) {
            true => READY_BLOCKS.max(READY_BLOCKS_A_LANE * self.lanes()),
            false => READY_BLOCKS.min(blocks.in_use as usize),
        }
    }

    /// What should be allocated, the blocks that are written ahead included.
    fn allocated_wanted(&self, blocks: &FreeBlocks) -> u64 {
        let reserve = match blocks.reserve_wanted {
            true => self.reserve_blocks(),
            false => 0,
        };
        reserve + self.ready_wanted(blocks) as u64
    }

    /// Whether a block should be written ahead, or more be allocated. Not near the end of space, where a block on its way
    /// would be missed.
    fn wants_prepared(&self, blocks: &FreeBlocks) -> bool {
        let can_grow = blocks.available() > blocks.allocated();
        (blocks.ready.len() < self.ready_wanted(blocks)
            || (can_grow && blocks.allocated() < self.allocated_wanted(blocks)))
            && blocks.available() > self.reserve_blocks() + 1
    }

    /// Writes a block ahead for the lanes, and allocates what they will take beside the reserve. Returns whether there
    /// was anything to do.
    pub(crate) fn prepare(&self, volumes: &[Volume]) -> Result<bool, DeviceError> {
        let (allocated, ready) = {
            let blocks = self.blocks.lock();
            if !self.wants_prepared(&blocks) {
                return Ok(false);
            }
            (self.allocated_wanted(&blocks), self.ready_wanted(&blocks))
        };
        let grown = self.grow(volumes, allocated.saturating_sub(1))?;
        let next = {
            let blocks = self.blocks.lock();
            if blocks.ready.len() >= ready {
                return Ok(grown);
            }
            blocks.free.last().copied()
        };
        let Some(id) = next else {
            return Ok(false);
        };
        // It stays where it is meanwhile: whoever needs a block takes it rather than to have another one allocated.
        if let Some(volume) = volumes.get(id.device) {
            volume.device().populate(id.offset_bytes(), BLOCK_BYTES);
        }
        let mut blocks = self.blocks.lock();
        if let Some(at) = blocks.free.iter().rposition(|free| *free == id) {
            blocks.free.remove(at);
            blocks.ready.push_back(id);
        }
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
        blocks.available() <= 2 * self.reserve_blocks()
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
            reserve_blocks: self.reserve_blocks(),
            tight: self.is_tight(&blocks),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::device::{HEADER_BYTES, Header, Member, MemoryDevice};
    use std::sync::Arc;

    const BLOCKS: u32 = 64;

    fn volumes() -> [Volume; 1] {
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
        [Volume::new(device, 0, 1)]
    }

    #[test]
    fn a_device_grows_by_half_of_what_it_has_and_by_64_mib_at_most() {
        let volumes = volumes();
        let space = Space::new(BLOCKS as usize, 1);
        space.start(&volumes);
        let mut lengths = vec![0];
        for index in 0..BLOCKS {
            let taken = space.take(&volumes, Purpose::Defrag).unwrap().unwrap();
            assert_eq!(taken.id.index, index, "the lowest first");
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

    #[test]
    fn a_lane_comes_into_use_with_every_second_block_or_with_many_collisions() {
        let volumes = volumes();
        let space = Space::new(BLOCKS as usize, 3);
        space.start(&volumes);
        let mut lanes = Vec::new();
        for _ in 0..8 {
            lanes.push((space.lanes(), space.usage().reserve_blocks));
            space.take(&volumes, Purpose::Defrag).unwrap().unwrap();
        }
        let expected = [1, 1, 1, 1, 2, 2, 3, 3].map(|lanes| (lanes, lanes as u64 + 2));
        assert_eq!(lanes, expected);

        let space = Space::new(BLOCKS as usize, 3);
        space.start(&volumes);
        let lanes = [1, 2, 3, 3].map(|expected| {
            for _ in 1..COLLISIONS_A_LANE {
                space.note_collision();
            }
            assert_eq!(space.lanes(), expected);
            space.note_collision();
            space.lanes()
        });
        assert_eq!(lanes, [2, 3, 3, 3]);
    }

    #[test]
    fn the_first_block_is_written_ahead_alone_and_the_reserve_once_it_is_wanted() {
        let volumes = volumes();
        let space = Space::new(BLOCKS as usize, 1);
        space.start(&volumes);
        let allocated = || volumes[0].allocated_blocks();
        let prepare_all = || while space.prepare(&volumes).unwrap() {};
        prepare_all();
        assert_eq!(allocated(), 1);
        let first = space.take(&volumes, Purpose::Write).unwrap().unwrap();
        let half = BLOCK_HEADER_BYTES + (BLOCK_BYTES - BLOCK_HEADER_BYTES) / 2;
        assert_eq!((first.id.index, first.unreserved_bytes), (0, half));
        prepare_all();
        assert_eq!(allocated(), 1);
        space.want_reserve();
        prepare_all();
        let reserve = space.usage().reserve_blocks;
        assert!(
            u64::from(allocated()) > 1 + reserve,
            "and a block to go on in"
        );
        assert!(space.allocate_reserve(&volumes).unwrap());
        let next = space.take(&volumes, Purpose::Write).unwrap().unwrap();
        assert_eq!(next.unreserved_bytes, BLOCK_BYTES);
    }
}
