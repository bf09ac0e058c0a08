//! The log of one namespace: devices, blocks, lanes. It places entries and knows which bytes live; what they mean is the
//! index's business.

use crate::block::{BLOCK_HEADER_BYTES, BlockHeader, BlockId, BlockUse, ENTRY_UNITS_MAX, Phase};
use crate::device::{BLOCK_BYTES, State, read_state, write_state};
use crate::digest::Digest;
use crate::durability::{Horizon, Syncer};
use crate::entry::{ENTRY_HEADER_BYTES, EntryView, FLAG_GROUPED, Header, Kind, Lsn};
use crate::epoch::Guard;
use crate::error::{Error, Result};
use crate::lane::{Lane, LaneCounters, LaneState, OpenBlock};
use crate::location::{Location, UNIT_BYTES};
use crate::recycle::{FreeSlot, rounded};
use crate::space::{Purpose, Space, lanes_for};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::volume::{Extent, Volume};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::Arc;

/// Where an entry was put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    pub(crate) location: Location,
    pub(crate) units: u32,
    pub(crate) lsn: Lsn,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    namespace: String,
    volumes: Vec<Volume>,
    /// The lanes of writers, and last the one of defragmentation.
    lanes: Vec<Arc<Lane>>,
    next_lsn: CachePadded<AtomicU64>,
    space: Space,
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
        let write_lanes = lanes_for(blocks, write_lanes);
        Self {
            namespace,
            volumes,
            lanes: (0..=write_lanes).map(|_| Arc::default()).collect(),
            next_lsn: CachePadded::new(AtomicU64::new(1)),
            space: Space::new(blocks, write_lanes),
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
        self.space.start(&self.volumes);
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

    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// Writes a block ahead for the lanes. Returns whether there was one to prepare.
    pub(crate) fn prepare_block(&self) -> Result<bool> {
        Ok(self.space.prepare(&self.volumes)?)
    }

    /// Tries the disks again that were full.
    pub(crate) fn retry_growth(&self) {
        self.space.retry_growth(&self.volumes);
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

    /// Has the memory of an entry fetched, for whoever is about to read all of it.
    pub(crate) fn prefetch(&self, location: Location, units: u32) {
        if let Some(volume) = self.volume(location) {
            volume.prefetch(location, units);
        }
    }

    /// Has the first cache lines of an entry fetched.
    #[inline]
    pub(crate) fn prefetch_start(&self, location: Location) {
        if let Some(volume) = self.volume(location) {
            volume.prefetch_start(location);
        }
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

    /// Writes the headers anew of blocks that are known to be in use, where they cannot be read: the next recovery needs
    /// them.
    pub(crate) fn restore_block_headers(&self) {
        for volume in &self.volumes {
            volume.prefetch_block_headers();
            for (index, block) in (0..volume.allocated_blocks()).zip(volume.blocks()) {
                let incarnation = block.incarnation();
                let is_known = |header: &BlockHeader| header.incarnation == incarnation;
                let readable = matches!(
                    volume.block_use(index),
                    BlockUse::Used { header, .. } if is_known(&header)
                );
                // A block that no recovery could make out has no incarnation, and stays as it is.
                if block.phase() != Phase::Free && incarnation != 0 && !readable {
                    volume.write_block_header(&BlockHeader {
                        index,
                        incarnation,
                        device_id: volume.device_id(),
                        opened: Lsn(0),
                    });
                }
            }
        }
    }

    /// Whether both checks of the entry at a location hold.
    pub(crate) fn holds(&self, location: Location, entry: &EntryView<'_>) -> bool {
        self.checked_header(location, entry)
            .is_some_and(|header| header.body_holds(entry.raw(), entry.body()))
    }

    /// Refuses new versions while space is down to the reserve, and everything after a failed sync.
    pub(crate) fn check_writable(&self, purpose: Purpose) -> Result<()> {
        self.syncer.check(&self.namespace)?;
        if purpose == Purpose::Write && self.space.writes_are_stopped() {
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

    /// The blocks that lanes are filling at this moment.
    pub(crate) fn open_blocks(&self) -> Vec<OpenBlock> {
        self.lanes
            .iter()
            .filter_map(|lane| lane.state.lock().open)
            .collect()
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
        self.space
            .take(&self.volumes, purpose)?
            .ok_or_else(|| match purpose {
                Purpose::Write => self.stop_writes(),
                Purpose::Delete | Purpose::Defrag => self.no_space(),
            })
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
        self.space.give_back(blocks);
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
    /// Returns that number.
    pub(crate) fn checkpoint(&self) -> Result<u64> {
        self.sync()?;
        let durable_lsn = self.syncer.durable_lsn();
        self.write_states(0)?;
        self.sync()?;
        Ok(durable_lsn)
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

    fn stop_writes(&self) -> Error {
        Error::StopWrites {
            namespace: self.namespace.clone(),
            free_blocks: self.space.usage().available_blocks,
        }
    }

    fn no_space(&self) -> Error {
        Error::NoSpace {
            namespace: self.namespace.clone(),
        }
    }
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
