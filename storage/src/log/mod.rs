//! The log of one namespace: devices, blocks, lanes. It places entries and knows which bytes live; what they mean is the
//! index's business.
//!
//! Read `entry.rs`, `block.rs`, `directory.rs` (what lies on a device), `staging.rs`, `lane.rs` (how it gets there),
//! `volume.rs` (how it is read), `space.rs`, `durability.rs`, in this order.

pub(crate) mod bit_repair;
pub(crate) mod block;
pub(crate) mod directory;
pub(crate) mod durability;
pub(crate) mod entry;
pub(crate) mod group;
pub(crate) mod lane;
pub(crate) mod space;
pub(crate) mod staging;
pub(crate) mod unreadable;
pub(crate) mod volume;

use crate::device::{
    BLOCK_BYTES, Device, DeviceError, DurableExtent, STAGING_LANES_MAX, State, read_state,
    write_state,
};
use crate::epoch::{Guard, WatchedBlock};
use crate::error::{Error, Result};
use crate::image::chain::content_of;
use crate::image::{Image, Images};
use crate::location::{Location, UNIT_BYTES};
use crate::log::block::{
    BlockHeader, BlockId, BlockState, ENTRIES_AT, ENTRY_UNITS_MAX, Format, Phase,
};
use crate::log::directory::unit_of;
use crate::log::durability::{Horizon, Syncer};
use crate::log::entry::{ENTRY_HEADER_BYTES, EntryView, Header, Lsn};
use crate::log::lane::{
    Assembled, Lane, LaneCounters, LaneState, LockedLane, OpenBlock, PAGE_BYTES, SLACK_BYTES,
};
use crate::log::space::{Purpose, Space, backed_of, lanes_for};
use crate::log::staging::{BUFFER_BYTES_MIN, Staging};
use crate::log::volume::{Entry, OwnedEntry, Volume, prefetch_body};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::Arc;

/// From so many bytes of entries on, a free block is kept backed for defragmentation.
const BACKED_BLOCK_FROM_BYTES: u64 = 4 * BLOCK_BYTES;

/// With so much in it, a block that is being filled is worth emptying.
const DEAD_LANE_BYTES_MIN: u64 = 1 << 20;

/// Where an entry was put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Appended {
    pub(crate) location: Location,
    pub(crate) units: u32,
    pub(crate) lsn: Lsn,
}

/// How far a block that a lane is filling has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilledBlock {
    pub(crate) id: BlockId,
    /// The first byte behind its entries, from its start.
    pub(crate) end: u64,
    /// How many lines its directory has.
    pub(crate) entries: usize,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    namespace: String,
    /// Tells the blocks of this log from those of others in the process.
    number: u64,
    volumes: Vec<Volume>,
    staging: Option<Arc<Staging>>,
    images: Arc<Images>,
    /// The lanes of writers, and last the one of defragmentation.
    lanes: Vec<CachePadded<Lane>>,
    next_lsn: CachePadded<AtomicU64>,
    /// Rises with every block that is opened or freed.
    block_sequence: AtomicU64,
    space: Space,
    syncer: Syncer,
    sessions: AtomicU64,
    states: Mutex<States>,
    /// For each device, one more than the highest block that was ever opened.
    used_blocks: Vec<AtomicU32>,
    /// Held while a block gets its first header.
    opening: Mutex<()>,
}

/// What the devices' headers say of how far they are durable.
#[derive(Debug, Default)]
struct States {
    /// As noted last, one for each device.
    noted: Vec<State>,
    /// What the sync under way will make durable.
    syncing: Reach,
}

/// How far the log reached when a sync began.
#[derive(Debug, Default)]
struct Reach {
    next_block: u64,
    /// For each device: blocks that had a header, and how far the open ones were filled.
    devices: Vec<(u32, Vec<DurableExtent>)>,
}

static NUMBERS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

thread_local! {
    static LANE_HINT: Cell<usize> = const { Cell::new(0) };
}

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

impl Log {
    /// A log over empty or scanned devices; [`Log::start`] begins it. There are fewer lanes than asked for where the
    /// devices are too small for a block and a reserved block for each.
    pub(crate) fn new(
        namespace: String,
        volumes: Vec<Volume>,
        staging: Option<Arc<Staging>>,
        write_lanes: usize,
        image_bytes_max: u64,
    ) -> Self {
        // Where every append is written at once a whole record costs what a delta costs.
        let image_bytes_max = if staging.is_some() {
            image_bytes_max
        } else {
            0
        };
        let session = std::hash::BuildHasher::hash_one(
            &std::collections::hash_map::RandomState::new(),
            &namespace,
        );
        let blocks: usize = volumes.iter().map(|volume| volume.blocks().len()).sum();
        let write_lanes = lanes_for(blocks, write_lanes).min(STAGING_LANES_MAX - 1);
        Self {
            namespace,
            number: NUMBERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            used_blocks: volumes.iter().map(|_| AtomicU32::new(0)).collect(),
            volumes,
            staging,
            images: Arc::new(Images::new(image_bytes_max)),
            lanes: (0..=write_lanes).map(|_| CachePadded::default()).collect(),
            next_lsn: CachePadded::new(AtomicU64::new(1)),
            block_sequence: AtomicU64::new(1),
            space: Space::new(blocks, write_lanes),
            syncer: Syncer::default(),
            // Odd, so that no incarnation is ever 0; random in its upper half, so that no two openings share one.
            sessions: AtomicU64::new((session << 32) | 1),
            states: Mutex::default(),
            opening: Mutex::default(),
        }
    }

    /// Begins after recovery: blocks in use are marked in their volumes, the others are free.
    pub(crate) fn start(&self, last_lsn: u64, durable_lsn: u64, next_block: u64) {
        self.next_lsn.store(last_lsn + 1, Ordering::SeqCst);
        self.block_sequence.fetch_max(next_block, Ordering::SeqCst);
        self.syncer.start_from(durable_lsn);
        let tenancies = self.staging().map(Staging::tenancies).unwrap_or_default();
        for (lane, tenancy) in tenancies {
            if let Some(lane) = self.lanes.get(lane) {
                lane.state.lock().continue_after(tenancy.number);
            }
        }
        let mut states = self.states.lock();
        for (volume, used) in self.volumes.iter().zip(&self.used_blocks) {
            let known = (0u32..).zip(volume.blocks());
            let last = known.filter(|(_, block)| block.phase() != Phase::Free);
            used.fetch_max(
                last.last().map_or(0, |(index, _)| index + 1),
                Ordering::SeqCst,
            );
            let noted = read_state(volume.device().as_ref()).unwrap_or_default();
            states.noted.push(noted);
        }
        self.space.start(&self.volumes);
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Counts an entry that was found at opening.
    pub(crate) fn count_live(&self, location: Location, units: u32) {
        if let Some(block) = self.block_of(location) {
            block.add_live(units);
        }
    }

    pub(crate) fn volumes(&self) -> &[Volume] {
        &self.volumes
    }

    pub(crate) fn volume(&self, location: Location) -> Option<&Volume> {
        self.volumes.get(location.device())
    }

    pub(crate) fn staging(&self) -> Option<&Staging> {
        self.staging.as_deref()
    }

    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    pub(crate) fn syncer(&self) -> &Syncer {
        &self.syncer
    }

    /// The entry at a location of the index, or the image that the location stands for.
    #[inline]
    pub(crate) fn entry<'a>(&'a self, location: Location, guard: &'a Guard) -> Option<Entry<'a>> {
        match self.volumes.get(location.device()) {
            Some(volume) => volume.entry(location, guard),
            None => self.imaged(self.image(location, guard)?, guard),
        }
    }

    /// The entry at a location, if it can be lent from a device's memory.
    #[inline]
    pub(crate) fn lent_entry<'a>(
        &'a self,
        location: Location,
        guard: &'a Guard,
    ) -> Option<EntryView<'a>> {
        let volume = self.volumes.get(location.device())?;
        volume.lent_entry(location, guard)
    }

    /// A block as readers name it.
    #[inline]
    pub(crate) fn watched(&self, id: BlockId) -> WatchedBlock {
        WatchedBlock::new(self.number, id.device, id.index)
    }

    /// The image that a location stands for, if it does.
    #[inline]
    pub(crate) fn image<'a>(&'a self, location: Location, guard: &'a Guard) -> Option<&'a Image> {
        self.images.get(Images::number_of(location)?, guard)
    }

    /// The content of an image; while an edit changes it, that of its chain: readers never wait for a writer.
    fn imaged<'a>(&'a self, image: &'a Image, guard: &'a Guard) -> Option<Entry<'a>> {
        if let Some(content) = image.read() {
            return Some(Entry::Image(content));
        }
        let built = content_of(self, image.newest(), guard)?;
        Some(Entry::Owned(OwnedEntry::Built(Box::new(built))))
    }

    pub(crate) fn images(&self) -> &Arc<Images> {
        &self.images
    }

    /// Has the memory of an entry fetched, for whoever is about to read all of it.
    pub(crate) fn prefetch(&self, location: Location, units: u32, guard: &Guard) {
        if let Some(volume) = self.volume(location) {
            volume.prefetch(location, units);
        } else if let Some(image) = self.image(location, guard)
            && let Some(content) = image.read()
        {
            prefetch_body(&content.content().body);
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

    /// The sequence number that the next block to be opened or freed gets.
    pub(crate) fn next_block(&self) -> u64 {
        self.block_sequence.load(Ordering::SeqCst)
    }

    fn draw_block_sequence(&self) -> u64 {
        self.block_sequence.fetch_add(1, Ordering::SeqCst)
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
        if purpose == Purpose::Write && self.space.writes_are_stopped() {
            return Err(self.stop_writes());
        }
        Ok(())
    }

    /// Appends an entry. The header's sequence number and sizes are filled in; an entry that moves keeps its number.
    /// `group`: the number of the group that a commit entry makes whole.
    ///
    /// An error leaves nothing behind.
    pub(crate) fn append(
        &self,
        purpose: Purpose,
        mut header: Header,
        parts: &[&[u8]],
        group: Option<u64>,
    ) -> Result<Appended> {
        let body_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let wanted = (ENTRY_HEADER_BYTES + body_bytes) as u64;
        let limit = u64::from(ENTRY_UNITS_MAX) * UNIT_BYTES;
        if wanted > limit {
            return Err(Error::TooLarge {
                bytes: wanted,
                limit,
            });
        }
        let mut entry = Assembled::new(parts, body_bytes);
        let (number, mut state) = self.lane(purpose)?;
        let volume = self.open_block_for(number, &mut state, entry.bytes(), purpose)?;
        let mut lane = LockedLane {
            number,
            state: &mut state,
            volume,
            staging: self.staging(),
        };
        let draw = |header: &mut Header| {
            if purpose != Purpose::Defrag {
                header.lsn = Lsn(self.next_lsn.fetch_add(1, Ordering::SeqCst));
            }
        };
        let location = lane
            .append(purpose, &mut header, &mut entry, group, draw)
            .map_err(|error| self.refused(purpose, error))?
            .ok_or_else(|| self.no_space())?;
        // Counted before the lane is unlocked: a block that is closed next has its count.
        if let Some(block) = self.block_of(location) {
            block.add_live(header.span_units);
        }
        state.counters.requested_bytes += wanted;
        Ok(Appended {
            location,
            units: header.span_units,
            lsn: header.lsn,
        })
    }

    /// The error of an append for want of space, or another one of a device.
    fn refused(&self, purpose: Purpose, error: DeviceError) -> Error {
        if !matches!(error, DeviceError::Full { .. }) {
            return Error::Device(error);
        }
        self.space.set_disk_full(true);
        match purpose {
            Purpose::Write => self.stop_writes(),
            Purpose::Delete | Purpose::Defrag => self.no_space(),
        }
    }

    /// Counts an entry as dead that was appended and will not be published. It stays where it is.
    pub(crate) fn abandon(&self, appended: &Appended) {
        self.release(appended.location, appended.units);
    }

    /// Counts an entry's bytes as dead.
    pub(crate) fn release(&self, location: Location, units: u32) {
        if let Some(block) = self.block_of(location) {
            block.sub_live(units);
        }
    }

    fn life_of(&self, location: Location) -> Option<(&Volume, u64)> {
        let volume = self.volume(location)?;
        let id = BlockId::containing(location.device(), location.offset_bytes());
        Some((volume, volume.block(id.index)?.incarnation()))
    }

    /// A lane for this thread, locked: the one it had last, or else the first that nobody holds. So threads that never
    /// meet share the first lane, and further lanes come into use when writers collide.
    fn lane(&self, purpose: Purpose) -> Result<(usize, crate::sync::MutexGuard<'_, LaneState>)> {
        let (own, others) = self.lanes.split_last().ok_or_else(|| self.no_space())?;
        if purpose == Purpose::Defrag {
            return Ok((others.len(), own.state.lock()));
        }
        let hint = LANE_HINT.get() % others.len();
        for step in 0..others.len() {
            let number = (hint + step) % others.len();
            if let Some(lane) = others.get(number)
                && let Some(state) = lane.state.try_lock()
            {
                if step > 0 {
                    LANE_HINT.set(number);
                }
                return Ok((number, state));
            }
        }
        let lane = others.get(hint).ok_or_else(|| self.no_space())?;
        Ok((hint, lane.state.lock()))
    }

    /// Sees to it that the lane has an open block into which so many bytes fit. Returns its volume.
    fn open_block_for(
        &self,
        number: usize,
        state: &mut LaneState,
        bytes: u64,
        purpose: Purpose,
    ) -> Result<&Volume> {
        loop {
            if let Some(open) = &state.open {
                let volume = self.volumes.get(open.id.device);
                let volume = volume.ok_or_else(|| self.no_space())?;
                if open.fits(bytes) {
                    return Ok(volume);
                }
                // First a new one: without it, what is open stays so, and smaller entries may still fit.
                if purpose == Purpose::Write {
                    self.keep_backed_block()
                        .map_err(|error| self.refused(purpose, error))?;
                }
                let next = self.take_block(purpose)?;
                let closed = self
                    .back_block(next)
                    .and_then(|()| self.close_block(number, state, volume));
                if let Err(error) = closed {
                    self.space.give_back(next, false);
                    return Err(self.refused(purpose, error));
                }
                self.open_block(number, state, next, purpose)?;
            } else {
                let next = self.take_block(purpose)?;
                self.open_block(number, state, next, purpose)?;
            }
        }
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
        let volume = self.volumes.get(id.device);
        let backed = self.back_block(id).and_then(|()| {
            volume.map_or(Ok(()), |volume| {
                volume.device().reserve(id.offset_bytes(), BLOCK_BYTES)
            })
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
        let Some(volume) = self.volumes.get(id.device) else {
            return Ok(());
        };
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
        let Some(volume) = self.volumes.get(id.device) else {
            return Ok(());
        };
        // The next block must be reachable, since it holds the mirror, and must have space for that.
        let holder = BlockId::containing(id.device, volume.mirror_offset(id.index)).offset_bytes();
        let device = volume.device();
        if device.len_bytes() < holder + PAGE_BYTES {
            device.extend(holder + PAGE_BYTES)?;
        }
        OpenBlock::new(volume, id, 0, ENTRIES_AT).back(volume, ENTRIES_AT + SLACK_BYTES)?;
        device.reserve(holder, PAGE_BYTES)
    }

    fn close_block(
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
        let Some(volume) = self.volumes.get(id.device) else {
            return Ok(());
        };
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
        if let Some(block) = volume.block(id.index) {
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
        let Some(used) = self.used_blocks.get(volume.number()) else {
            return Ok(());
        };
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
        let volume = self.volumes.get(open.id.device);
        let volume = volume.ok_or_else(|| self.no_space())?;
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

    pub(crate) fn block(&self, id: BlockId) -> Option<&BlockState> {
        self.volumes.get(id.device)?.block(id.index)
    }

    fn block_of(&self, location: Location) -> Option<&BlockState> {
        self.block(BlockId::containing(
            location.device(),
            location.offset_bytes(),
        ))
    }

    /// Brings what is staged to the devices. Returns how far the blocks that lanes are filling have come.
    pub(crate) fn flush_lanes(&self) -> Result<Vec<FilledBlock>> {
        let mut filled = Vec::new();
        for (number, lane) in self.lanes.iter().enumerate() {
            let mut state = lane.state.lock();
            let device = state.open.as_ref().map(|open| open.id.device);
            let Some(volume) = device.and_then(|device| self.volumes.get(device)) else {
                continue;
            };
            LockedLane {
                number,
                state: &mut state,
                volume,
                staging: self.staging(),
            }
            .flush()
            .map_err(Error::Device)?;
            filled.extend(state.open.as_ref().map(|open| FilledBlock {
                id: open.id,
                end: open.tail,
                entries: open.directory.entries(),
            }));
        }
        Ok(filled)
    }

    /// Closes the blocks that lanes are filling (at a clean close).
    pub(crate) fn close_lanes(&self) -> Result<()> {
        for (number, lane) in self.lanes.iter().enumerate() {
            let mut state = lane.state.lock();
            let device = state.open.as_ref().map(|open| open.id.device);
            if let Some(volume) = device.and_then(|device| self.volumes.get(device)) {
                self.close_block(number, &mut state, volume)
                    .map_err(Error::Device)?;
            }
        }
        Ok(())
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

    fn take_block(&self, purpose: Purpose) -> Result<BlockId> {
        self.space
            .take(&self.volumes, purpose)?
            .ok_or_else(|| match purpose {
                Purpose::Write => self.stop_writes(),
                Purpose::Delete | Purpose::Defrag => self.no_space(),
            })
    }

    /// How many blocks hold entries.
    pub(crate) fn used_blocks(&self) -> usize {
        let blocks = self.volumes.iter().flat_map(Volume::blocks);
        blocks.filter(|block| block.phase() != Phase::Free).count()
    }

    /// Notes in the header of a block that it is free: its entries are all dead, or moved, and that is durable.
    pub(crate) fn note_free(&self, id: BlockId) -> Result<()> {
        let Some(volume) = self.volumes.get(id.device) else {
            return Ok(());
        };
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
        let Some(volume) = self.volumes.get(id.device) else {
            return Ok(());
        };
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

    /// Everything appended before this call is on stable storage when it returns, and the devices' headers say so (which
    /// the next sync makes durable).
    pub(crate) fn sync(&self) -> Result<()> {
        self.syncer
            .sync(|| self.horizon(), |at| self.sync_devices(at))
            .map_err(|reason| Error::ReadOnly {
                namespace: self.namespace.clone(),
                reason,
            })
    }

    /// Everything up to a number that was given is on stable storage when this returns. Writers that wait at the same time
    /// share one sync.
    pub(crate) fn sync_to(&self, lsn: Lsn) -> Result<()> {
        if lsn.0 <= self.syncer.durable_lsn() {
            return Ok(());
        }
        self.syncer
            .sync_to(lsn, || self.horizon(), |at| self.sync_devices(at))
            .map_err(|reason| Error::InDoubt { reason })
    }

    /// Flushes every lane and notes how far each has come. Whoever drew a number before has left its lane.
    fn horizon(&self) -> std::result::Result<Horizon, String> {
        let complete = self.last_lsn();
        let next_block = self.next_block();
        let mut devices: Vec<(u32, Vec<DurableExtent>)> = self
            .used_blocks
            .iter()
            .map(|used| (used.load(Ordering::SeqCst), Vec::new()))
            .collect();
        for (number, lane) in self.lanes.iter().enumerate() {
            let mut state = lane.state.lock();
            let Some(device) = state.open.as_ref().map(|open| open.id.device) else {
                continue;
            };
            let Some(volume) = self.volumes.get(device) else {
                continue;
            };
            LockedLane {
                number,
                state: &mut state,
                volume,
                staging: self.staging(),
            }
            .flush()
            .map_err(|error| error.to_string())?;
            if let (Some(open), Some((_, extents))) = (&state.open, devices.get_mut(device)) {
                extents.push(DurableExtent {
                    block: open.id.index,
                    incarnation: open.incarnation,
                    durable_units: unit_of(open.flushed),
                    entries: open.directory.entries() as u32,
                });
            }
        }
        self.states.lock().syncing = Reach {
            next_block,
            devices,
        };
        Ok(Horizon { complete })
    }

    /// Syncs all devices side by side, then notes what has become durable.
    fn sync_devices(&self, at: Horizon) -> std::result::Result<(), String> {
        match self.volumes.as_slice() {
            [only] => only.sync().map_err(|error| error.to_string())?,
            several => std::thread::scope(|scope| {
                let syncs: Vec<_> = several
                    .iter()
                    .map(|volume| scope.spawn(move || volume.sync()))
                    .collect();
                syncs.into_iter().try_for_each(|sync| match sync.join() {
                    Ok(done) => done.map_err(|error| error.to_string()),
                    Err(_) => Err("the thread that synced a device panicked".to_owned()),
                })
            })?,
        }
        let mut states = self.states.lock();
        let Reach {
            next_block,
            devices,
        } = std::mem::take(&mut states.syncing);
        for ((state, volume), (used, open)) in
            states.noted.iter_mut().zip(&self.volumes).zip(devices)
        {
            state.durable_lsn = state.durable_lsn.max(at.complete);
            state.next_block = next_block;
            state.used_blocks = used;
            state.open = open;
            state.len_bytes = volume.synced_bytes().max(state.len_bytes);
        }
        self.write_states(&mut states)
            .map_err(|error| error.to_string())
    }

    fn write_states(&self, states: &mut States) -> std::result::Result<(), DeviceError> {
        for (state, volume) in states.noted.iter_mut().zip(&self.volumes) {
            state.sequence += 1;
            state.boot = volume.device().boot();
            write_state(volume.device().as_ref(), state)?;
        }
        Ok(())
    }

    /// Notes whether the namespace is in use (0), or the id of the snapshot of its clean close. Every later note says the same.
    pub(crate) fn set_clean_close(&self, id: u64) -> Result<()> {
        let mut states = self.states.lock();
        states
            .noted
            .iter_mut()
            .for_each(|state| state.clean_close = id);
        self.write_states(&mut states).map_err(Error::Device)
    }

    pub(crate) fn counters(&self) -> (LaneCounters, LaneCounters) {
        let sum = |lanes: &[CachePadded<Lane>]| {
            lanes.iter().fold(LaneCounters::default(), |mut sum, lane| {
                let counters = lane.state.lock().counters;
                sum.appended_units += counters.appended_units;
                sum.entries += counters.entries;
                sum.requested_bytes += counters.requested_bytes;
                sum
            })
        };
        let (writers, defrag) = self.lanes.split_at(self.lanes.len().saturating_sub(1));
        (sum(writers), sum(defrag))
    }

    pub(crate) fn stop_writes(&self) -> Error {
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

/// The staging memory of these devices: that of the first.
pub(crate) fn staging_of(devices: &[Arc<dyn Device>]) -> Option<Arc<Staging>> {
    devices.first().and_then(Staging::of).map(Arc::new)
}
