//! The log of one namespace: devices, blocks, lanes. It places entries and knows which bytes live; what they mean is the
//! index's business.

use crate::block::{BLOCK_HEADER_BYTES, BlockHeader, BlockId, ENTRY_UNITS_MAX, Phase};
use crate::device::{BLOCK_BYTES, DeviceError, State, read_state, write_state};
use crate::digest::Digest;
use crate::durability::{Horizon, Syncer};
use crate::entry::{ENTRY_HEADER_BYTES, EntryView, FLAG_GROUPED, Header, Kind, Lsn};
use crate::epoch::Guard;
use crate::error::{Error, Result};
use crate::lane::{Lane, LaneCounters, LaneState, OpenBlock};
use crate::location::{Location, UNIT_BYTES};
use crate::recycle::{FreeSlot, rounded};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::volume::{Extent, Volume};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

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

/// Where an entry was put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    pub(crate) location: Location,
    pub(crate) units: u32,
    pub(crate) lsn: Lsn,
}

#[derive(Debug, Default)]
struct Space {
    /// Allocated, nothing in them.
    free: Vec<BlockId>,
    /// Free and written ahead.
    ready: VecDeque<BlockId>,
    /// Blocks that each device can still grow by; none once its disk was full.
    growable: Vec<u32>,
    next_device: usize,
    stop: bool,
}

impl Space {
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

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    namespace: String,
    volumes: Vec<Volume>,
    /// The lanes of writers, and last the one of defragmentation.
    lanes: Vec<Arc<Lane>>,
    next_lsn: CachePadded<AtomicU64>,
    space: Mutex<Space>,
    space_low: Condvar,
    write_stop: AtomicBool,
    /// Blocks that only deletes (and below 2 only defragmentation) may take.
    reserve_blocks: u64,
    syncer: Syncer,
    sessions: AtomicU64,
    state_sequence: Mutex<()>,
}

thread_local! {
    static LANE_HINT: Cell<usize> = const { Cell::new(usize::MAX) };
}

static NEXT_HINT: AtomicHint = AtomicHint::new(0);
type AtomicHint = std::sync::atomic::AtomicUsize;

/// A number for this thread: threads are dealt over the lanes in the order in which they first write.
fn thread_hint() -> usize {
    LANE_HINT.with(|hint| {
        if hint.get() == usize::MAX {
            hint.set(NEXT_HINT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        }
        hint.get()
    })
}

impl Log {
    /// A log over empty or scanned devices; [`Log::start`] tells it what was found. There are fewer lanes than asked for
    /// where the devices are too small for a block and a reserved block for each.
    pub(crate) fn new(namespace: String, volumes: Vec<Volume>, write_lanes: usize) -> Self {
        let session = std::hash::BuildHasher::hash_one(
            &std::collections::hash_map::RandomState::new(),
            &namespace,
        );
        let blocks: usize = volumes.iter().map(|volume| volume.blocks().len()).sum();
        let write_lanes = write_lanes
            .min(blocks.saturating_sub(EXTRA_RESERVE_BLOCKS) / 2)
            .max(1);
        let reserve_blocks = (write_lanes + EXTRA_RESERVE_BLOCKS).min(blocks.saturating_sub(1));
        Self {
            namespace,
            volumes,
            lanes: (0..=write_lanes).map(|_| Arc::default()).collect(),
            next_lsn: CachePadded::new(AtomicU64::new(1)),
            space: Mutex::default(),
            space_low: Condvar::default(),
            write_stop: AtomicBool::new(false),
            reserve_blocks: reserve_blocks as u64,
            syncer: Syncer::default(),
            // Odd, so that no incarnation is ever 0; random in its upper half, so that no two openings share one.
            sessions: AtomicU64::new((session << 32) | 1),
            state_sequence: Mutex::default(),
        }
    }

    /// Begins after recovery: blocks in use are marked in their volumes, the others are free.
    pub(crate) fn start(&self, last_lsn: u64, durable_lsn: u64) {
        self.next_lsn.store(last_lsn + 1, Ordering::SeqCst);
        self.syncer.start_from(last_lsn, durable_lsn);
        let mut space = self.space.lock();
        space.growable = self.growable();
        for volume in &self.volumes {
            let allocated = volume.allocated_blocks();
            for (index, block) in (0..allocated).zip(volume.blocks()) {
                if block.phase() == Phase::Free {
                    space.free.push(volume.block_id(index));
                }
            }
        }
        space.free.reverse();
        self.refresh_stop(&mut space);
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Counts an entry that was found at opening.
    pub(crate) fn count_live(&self, location: Location, units: u32) {
        let id = BlockId::containing(location.device(), location.offset_bytes());
        if let Some(block) = self.block(id) {
            block.add_live(units);
        }
    }

    pub(crate) fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    pub(crate) fn volume(&self, location: Location) -> Option<&Volume> {
        self.volumes.get(location.device())
    }

    pub(crate) fn syncer(&self) -> &Syncer {
        &self.syncer
    }

    pub(crate) fn entry<'a>(
        &'a self,
        location: Location,
        guard: &'a Guard,
    ) -> Option<EntryView<'a>> {
        self.volume(location)?.entry(location, guard)
    }

    /// The highest sequence number given out.
    pub(crate) fn last_lsn(&self) -> u64 {
        self.next_lsn.load(Ordering::SeqCst) - 1
    }

    /// A number that no entry and no other caller has.
    pub(crate) fn draw_number(&self) -> u64 {
        self.next_lsn.fetch_add(1, Ordering::SeqCst)
    }

    /// The header of the entry at a location, if its check holds.
    pub(crate) fn checked_header(
        &self,
        location: Location,
        entry: &EntryView<'_>,
    ) -> Option<Header> {
        let (volume, incarnation) = self.life_of(location)?;
        Header::decode_checked(
            entry.raw(),
            volume.place(incarnation, location.offset_bytes()),
        )
    }

    /// Whether both checks of the entry at a location hold.
    pub(crate) fn holds(&self, location: Location, entry: &EntryView<'_>) -> bool {
        self.checked_header(location, entry)
            .is_some_and(|header| header.body_holds(entry.raw(), entry.body()))
    }

    /// Refuses new versions while space is down to the reserve, and everything after a failed sync.
    pub(crate) fn check_writable(&self, purpose: Purpose) -> Result<()> {
        self.syncer.check(&self.namespace)?;
        if purpose == Purpose::Write && self.write_stop.load(Ordering::Relaxed) {
            return Err(self.stop_writes());
        }
        Ok(())
    }

    /// Places a new entry; it counts as live from now on, and nobody sees it before it is published. `header.lsn` is
    /// drawn here, unless the entry moves (`Purpose::Defrag`) and keeps its own.
    pub(crate) fn append(
        &self,
        purpose: Purpose,
        mut header: Header,
        parts: &[&[u8]],
    ) -> Result<Appended> {
        let body_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let wanted = ENTRY_HEADER_BYTES as u64 + body_bytes as u64;
        let limit = u64::from(ENTRY_UNITS_MAX) * UNIT_BYTES;
        if wanted > limit {
            return Err(Error::TooLarge {
                bytes: wanted,
                limit,
            });
        }
        let units = rounded(Header::span_for(body_bytes)).min(ENTRY_UNITS_MAX);
        let (lane, mut state) = self.lane(purpose)?;
        let extent = self.take_extent(&mut state, units, purpose)?;
        state.counters.entries += 1;
        state.counters.requested_bytes += wanted;
        let ticket = loop {
            match lane.announce(self.next_lsn.load(Ordering::SeqCst)) {
                Some(ticket) => break ticket,
                None => crate::sync::thread::yield_now(),
            }
        };
        if purpose != Purpose::Defrag {
            header.lsn = Lsn(self.next_lsn.fetch_add(1, Ordering::SeqCst));
        }
        drop(state);
        let filled = self
            .volume(extent.location)
            .is_some_and(|volume| volume.fill(&extent, &mut header, parts));
        lane.retract(ticket);
        debug_assert!(filled, "an extent lies inside its device");
        Ok(Appended {
            location: extent.location,
            units: extent.units,
            lsn: header.lsn,
        })
    }

    /// Takes back an entry that was appended and will not be published.
    pub(crate) fn abandon(&self, appended: &Appended) {
        if let Some((volume, incarnation)) = self.life_of(appended.location) {
            let extent = Extent {
                location: appended.location,
                units: appended.units,
                incarnation,
            };
            volume.fill(&extent, &mut filler(), &[]);
        }
        self.release(appended.location, appended.units);
    }

    /// Counts an entry's bytes as dead.
    pub(crate) fn release(&self, location: Location, units: u32) {
        let id = BlockId::containing(location.device(), location.offset_bytes());
        if let Some(block) = self
            .volumes
            .get(id.device)
            .and_then(|volume| volume.block(id.index))
        {
            block.sub_live(units);
        }
    }

    /// Retires an entry that was superseded by one that is published. If nobody can have been promised it, its slot is
    /// recycled once no reader can see it.
    pub(crate) fn retire(
        &self,
        location: Location,
        units: u32,
        entry: Option<EntryView<'_>>,
        guard: &Guard,
    ) {
        let recyclable = entry.is_some_and(|entry| {
            entry.lsn().0 > self.syncer.promised_lsn() && entry.flags() & FLAG_GROUPED == 0
        });
        let life = self.life_of(location).map(|(_, incarnation)| incarnation);
        self.release(location, units);
        if !recyclable {
            return;
        }
        let Some(incarnation) = life else { return };
        let Ok((lane, mut state)) = self.lane(Purpose::Write) else {
            return;
        };
        if let Some(batch) = state.set_aside(FreeSlot {
            location,
            units,
            incarnation,
        }) {
            drop(state);
            let lane = Arc::clone(lane);
            guard.defer(move || lane.absorb(batch));
            guard.flush();
        }
    }

    fn life_of(&self, location: Location) -> Option<(&Volume, u64)> {
        let volume = self.volume(location)?;
        let id = BlockId::containing(location.device(), location.offset_bytes());
        Some((volume, volume.block(id.index)?.incarnation()))
    }

    fn lane(
        &self,
        purpose: Purpose,
    ) -> Result<(&Arc<Lane>, crate::sync::MutexGuard<'_, LaneState>)> {
        let (own, others) = self.lanes.split_last().ok_or_else(|| self.no_space())?;
        if purpose == Purpose::Defrag {
            return Ok((own, own.state.lock()));
        }
        let hint = thread_hint();
        // One's own lane, or else the first that is not being used at this moment.
        for step in 0..others.len() {
            if let Some(lane) = others.get((hint + step) % others.len())
                && let Some(state) = lane.state.try_lock()
            {
                return Ok((lane, state));
            }
        }
        let lane = others
            .get(hint % others.len())
            .ok_or_else(|| self.no_space())?;
        Ok((lane, lane.state.lock()))
    }

    fn take_extent(&self, state: &mut LaneState, units: u32, purpose: Purpose) -> Result<Extent> {
        while let Some(slot) = state.free.take(units) {
            let id = BlockId::containing(slot.location.device(), slot.location.offset_bytes());
            let block = self
                .volumes
                .get(id.device)
                .and_then(|volume| volume.block(id.index));
            if block.is_some_and(|block| block.claim(slot.units, slot.incarnation)) {
                state.counters.recycled_units += u64::from(slot.units);
                return Ok(Extent {
                    location: slot.location,
                    units: slot.units,
                    incarnation: slot.incarnation,
                });
            }
        }
        loop {
            if let Some(open) = &mut state.open {
                let bytes = u64::from(units) * UNIT_BYTES;
                if open.next + bytes <= open.end {
                    let location = Location::new(open.id.device, open.next);
                    open.next += bytes;
                    let incarnation = open.incarnation;
                    if let Some(block) = self.block(open.id) {
                        block.add_live(units);
                    }
                    state.counters.appended_units += u64::from(units);
                    return Ok(Extent {
                        location,
                        units,
                        incarnation,
                    });
                }
            }
            let next = self.open_block(purpose)?;
            if let Some(full) = state.open.replace(next) {
                self.close_block(full);
            }
        }
    }

    fn block(&self, id: BlockId) -> Option<&crate::block::BlockState> {
        self.volumes.get(id.device)?.block(id.index)
    }

    /// Ends a lane's block: a filler spans what is left, so that a scan steps over it.
    fn close_block(&self, open: OpenBlock) {
        let Some(volume) = self.volumes.get(open.id.device) else {
            return;
        };
        let left = open.end - open.next;
        if left >= UNIT_BYTES * u64::from(Header::span_for(0)) {
            let extent = Extent {
                location: Location::new(open.id.device, open.next),
                units: (left / UNIT_BYTES) as u32,
                incarnation: open.incarnation,
            };
            volume.fill(&extent, &mut filler(), &[]);
        }
        let filled = open.next - open.id.offset_bytes() - BLOCK_HEADER_BYTES;
        volume.note_filled(open.id.index, (filled / UNIT_BYTES) as u32);
        if let Some(block) = volume.block(open.id.index) {
            block.set_phase(Phase::Closed);
        }
    }

    /// Closes the blocks that lanes are filling (at a clean close).
    pub(crate) fn close_lanes(&self) {
        for lane in &self.lanes {
            if let Some(open) = lane.state.lock().open.take() {
                self.close_block(open);
            }
        }
    }

    fn open_block(&self, purpose: Purpose) -> Result<OpenBlock> {
        let id = self.take_block(purpose)?;
        let incarnation = self.sessions.fetch_add(2, Ordering::Relaxed);
        let volume = self.volumes.get(id.device).ok_or_else(|| self.no_space())?;
        let header = BlockHeader {
            index: id.index,
            incarnation,
            device_id: volume.device_id(),
            opened: Lsn(self.last_lsn()),
        };
        volume.write_block_header(&header);
        if let Some(block) = volume.block(id.index) {
            block.begin(incarnation, Phase::Open);
        }
        let start = id.offset_bytes();
        Ok(OpenBlock {
            id,
            incarnation,
            next: start + BLOCK_HEADER_BYTES,
            end: start + BLOCK_BYTES,
        })
    }

    fn take_block(&self, purpose: Purpose) -> Result<BlockId> {
        let mut space = self.space.lock();
        let kept = match purpose {
            Purpose::Write => self.reserve_blocks,
            Purpose::Delete => 1,
            Purpose::Defrag => 0,
        };
        // The reserve is allocated, not only promised: on a full disk it must be there.
        while space.allocated() <= kept && self.grow(&mut space)? {}
        let taken = match space.allocated() > kept {
            true => space.ready.pop_front().or_else(|| space.free.pop()),
            false => None,
        };
        self.refresh_stop(&mut space);
        self.space_low.notify_one();
        taken.ok_or_else(|| match purpose {
            Purpose::Write => self.stop_writes_at(space.available()),
            Purpose::Delete | Purpose::Defrag => self.no_space(),
        })
    }

    /// Allocates more of a device. False: the devices, or their disks, are full.
    fn grow(&self, space: &mut Space) -> Result<bool> {
        for _ in 0..self.volumes.len() {
            let turn = space.next_device % self.volumes.len();
            space.next_device += 1;
            let Some((volume, growable)) = self.volumes.get(turn).zip(space.growable.get_mut(turn))
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
                match volume
                    .device()
                    .grow(volume.block_id(allocated + added).offset_bytes())
                {
                    Ok(()) => {
                        *growable -= added;
                        space.free.extend(
                            (allocated..allocated + added)
                                .rev()
                                .map(|index| volume.block_id(index)),
                        );
                        return Ok(true);
                    }
                    Err(DeviceError::Full { .. }) => {}
                    Err(other) => return Err(other.into()),
                }
            }
            *growable = 0;
        }
        Ok(false)
    }

    fn growable(&self) -> Vec<u32> {
        let left = |volume: &Volume| {
            (volume.blocks().len() as u32).saturating_sub(volume.allocated_blocks())
        };
        self.volumes.iter().map(left).collect()
    }

    /// Tries the disks again that were full: somebody may have made room.
    pub(crate) fn retry_growth(&self) {
        let mut space = self.space.lock();
        space.growable = self.growable();
        self.refresh_stop(&mut space);
    }

    fn refresh_stop(&self, space: &mut Space) {
        space.stop = space.available() <= self.reserve_blocks;
        self.write_stop.store(space.stop, Ordering::Relaxed);
    }

    /// Whether a block should be written ahead. Not near the end of space, where one on its way would be missed.
    fn wants_prepared(&self, space: &Space) -> bool {
        space.ready.len() < READY_BLOCKS && space.available() > self.reserve_blocks + 1
    }

    /// Writes blocks ahead for the lanes. Returns whether it did anything.
    pub(crate) fn prepare_block(&self) -> Result<bool> {
        let id = {
            let mut space = self.space.lock();
            if !self.wants_prepared(&space) || (space.free.is_empty() && !self.grow(&mut space)?) {
                return Ok(false);
            }
            let Some(id) = space.free.pop() else {
                return Ok(false);
            };
            id
        };
        if let Some(volume) = self.volumes.get(id.device) {
            volume.device().populate(id.offset_bytes(), BLOCK_BYTES);
        }
        let mut space = self.space.lock();
        space.ready.push_back(id);
        self.refresh_stop(&mut space);
        Ok(true)
    }

    /// Waits until there may be a block to prepare, or until `until`.
    pub(crate) fn wait_for_demand(&self, until: std::time::Instant) {
        let mut space = self.space.lock();
        if !self.wants_prepared(&space) {
            self.space_low.wait_until(&mut space, Some(until));
        }
    }

    pub(crate) fn wake_preparer(&self) {
        self.space_low.notify_all();
    }

    /// Gives blocks back whose entries are all dead, moved and synced, and which no reader can see any more.
    pub(crate) fn give_back(&self, blocks: &[BlockId]) {
        for id in blocks {
            let Some(volume) = self.volumes.get(id.device) else {
                continue;
            };
            volume.write_block_header(&BlockHeader {
                index: id.index,
                incarnation: 0,
                device_id: volume.device_id(),
                opened: Lsn(0),
            });
            if let Some(block) = volume.block(id.index) {
                block.begin(0, Phase::Free);
            }
        }
        let mut space = self.space.lock();
        space.free.extend_from_slice(blocks);
        self.refresh_stop(&mut space);
        self.space_low.notify_all();
    }

    /// Everything appended before this call is on stable storage when it returns.
    pub(crate) fn sync(&self) -> Result<()> {
        self.syncer
            .sync(|| self.horizon(), || self.sync_devices())
            .map_err(|reason| Error::ReadOnly {
                namespace: self.namespace.clone(),
                reason,
            })
    }

    /// A sync, then a sync of what it has made certain: after this, recovery knows without looking that every entry up to
    /// the durable sequence number was complete. Needed before space is used again.
    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.sync()?;
        self.write_states(0)?;
        self.sync()
    }

    /// Notes in the devices' headers how far the log is durable, and whether it was closed cleanly (the snapshot's id).
    pub(crate) fn write_states(&self, clean_close: u64) -> Result<()> {
        let _one_at_a_time = self.state_sequence.lock();
        let durable_lsn = self.syncer.durable_lsn();
        for volume in &self.volumes {
            let device = volume.device().as_ref();
            let before = read_state(device).unwrap_or_default();
            let state = State {
                sequence: before.sequence + 1,
                durable_lsn,
                clean_close,
                len_bytes: volume.synced_bytes().max(before.len_bytes),
            };
            write_state(device, &state)?;
        }
        Ok(())
    }

    fn sync_devices(&self) -> std::result::Result<(), String> {
        self.volumes
            .iter()
            .try_for_each(Volume::sync)
            .map_err(|error| error.to_string())
    }

    /// The last number given out is read first: whoever drew one before that has announced itself.
    fn horizon(&self) -> Horizon {
        let issued = self.last_lsn();
        let in_flight = self
            .lanes
            .iter()
            .filter_map(|lane| lane.lowest_in_flight())
            .min();
        let complete = in_flight.map_or(issued, |lowest| issued.min(lowest.saturating_sub(1)));
        Horizon { issued, complete }
    }

    pub(crate) fn counters(&self) -> (LaneCounters, LaneCounters) {
        let sum = |lanes: &[Arc<Lane>]| {
            lanes.iter().fold(LaneCounters::default(), |mut sum, lane| {
                let counters = lane.state.lock().counters;
                sum.appended_units += counters.appended_units;
                sum.recycled_units += counters.recycled_units;
                sum.entries += counters.entries;
                sum.requested_bytes += counters.requested_bytes;
                sum
            })
        };
        let (writers, defrag) = self.lanes.split_at(self.lanes.len().saturating_sub(1));
        (sum(writers), sum(defrag))
    }

    pub(crate) fn space(&self) -> SpaceUse {
        let space = self.space.lock();
        SpaceUse {
            available_blocks: space.available(),
            reserve_blocks: self.reserve_blocks,
            stop_writes: space.stop,
        }
    }

    fn stop_writes(&self) -> Error {
        self.stop_writes_at(self.space.lock().available())
    }

    fn stop_writes_at(&self, free_blocks: u64) -> Error {
        Error::StopWrites {
            namespace: self.namespace.clone(),
            free_blocks,
        }
    }

    fn no_space(&self) -> Error {
        Error::NoSpace {
            namespace: self.namespace.clone(),
        }
    }
}

/// How much room is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpaceUse {
    pub(crate) available_blocks: u64,
    pub(crate) reserve_blocks: u64,
    pub(crate) stop_writes: bool,
}

/// An entry that is none, for space between entries.
pub(crate) fn filler() -> Header {
    Header {
        kind: Kind::Filler,
        flags: 0,
        span_units: 0,
        lsn: Lsn(0),
        generation: 0,
        last_update_ms: 0,
        void_time: 0,
        set_id: 0,
        digest: Digest::new([0; Digest::LEN]),
        body_bytes: 0,
    }
}
