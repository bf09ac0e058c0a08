//! The log of one namespace: devices, blocks, lanes. It places entries and knows which bytes live;
//! their meaning is the index's business.
//!
//! Read `entry.rs`, `block.rs`, `directory.rs` (the bytes on a device), `staging.rs`, `lane.rs`
//! (how it gets there), `volume.rs` (how it is read), `space.rs`, `block_life.rs` (blocks opened,
//! closed and given back), `syncer.rs`, `sync_devices.rs` (syncs, and what the devices' headers say
//! of them), in this order. `grouped.rs` appends entries that count together; `truncation.rs` keeps
//! a truncation and the versions of records apart.

mod append;
pub(crate) mod assembled;
pub(crate) mod block;
mod block_life;
pub(crate) mod block_walk;
pub(crate) mod chain;
mod chain_weight;
pub(crate) mod directory;
pub(crate) mod grouped;
pub(crate) mod lane;
pub(crate) mod space;
pub(crate) mod staging;
mod sync_devices;
pub(crate) mod syncer;
pub(crate) mod truncation;
pub(crate) mod volume;

use crate::device::{BLOCK_BYTES, DeviceReach, DeviceResult, DeviceState, STAGING_LANES_MAX};
use crate::entry::{EntryHeader, EntryView};
use crate::epoch::{Guard, WatchedBlock};
use crate::error::{Error, Result};
use crate::image::{Image, Images};
use crate::location::Location;
use crate::log::block::{BlockId, BlockPhase, BlockState};
use crate::log::chain::content_of;
use crate::log::lane::{LaneState, OpenBlock};
use crate::log::space::{Space, SpacePurpose, lanes_for};
use crate::log::staging::NamespaceStaging;
use crate::log::syncer::Syncer;
use crate::log::truncation::{TruncationUnderWay, Truncations};
use crate::log::volume::{HeldEntry, Volume, prefetch_body};
use crate::stats::Traffic;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::sync::Arc;

/// How far a block that a lane is filling has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilledBlock {
    pub(crate) id: BlockId,
    pub(crate) incarnation: u64,
    /// The first byte behind its entries, from its start: the device has all before it.
    pub(crate) end: u64,
    /// How many lines its directory has.
    pub(crate) entries: usize,
}

impl FilledBlock {
    fn of(open: &OpenBlock) -> Self {
        Self {
            id: open.id,
            incarnation: open.incarnation,
            end: open.flushed,
            entries: open.directory.entries(),
        }
    }
}

/// The state of the devices, as noted last.
#[derive(Debug, Default)]
struct States {
    noted: DeviceState,
    /// Whether notes keep the boots of the state that an opening has found.
    keeps_boots: bool,
}

/// The log.
#[derive(Debug)]
pub(crate) struct Log {
    namespace: String,
    /// Distinguishes the blocks of this log from other logs' in the process.
    number: u64,
    volumes: Vec<Volume>,
    block_bytes: u64,
    staging: Option<Arc<NamespaceStaging>>,
    images: Arc<Images>,
    /// The lanes of writers, and last the one of defragmentation.
    lanes: Vec<CachePadded<Mutex<LaneState>>>,
    next_lsn: CachePadded<AtomicU64>,
    truncations: Truncations,
    /// Rises with every block that is opened or freed.
    block_sequence: AtomicU64,
    /// Held while the entries of a group larger than a block get numbers and blocks, and, where
    /// `writes_may_fail`, while an entry gets its number and is written.
    in_order: Mutex<()>,
    /// Whether an entry can fail to be written after its number was drawn: where entries are not
    /// staged, but in memory.
    writes_may_fail: bool,
    space: Space,
    syncer: Syncer,
    sessions: AtomicU64,
    states: Mutex<States>,
    /// For each device, one more than the highest block that was ever opened.
    used_blocks: Vec<AtomicU32>,
    /// Held while a block gets its first header.
    opening: Mutex<()>,
}

static NUMBERS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

thread_local! {
    static LANE_HINT: Cell<usize> = const { Cell::new(0) };
}

impl Log {
    /// A log over empty or scanned devices; [`Log::start`] begins it. There are fewer lanes than
    /// asked for where the devices are too small for a block and a reserved block for each.
    pub(crate) fn new(
        namespace: String,
        volumes: Vec<Volume>,
        staging: Option<Arc<NamespaceStaging>>,
        write_lanes: usize,
        image_bytes_max: u64,
    ) -> Self {
        let session = std::hash::BuildHasher::hash_one(
            &std::collections::hash_map::RandomState::new(),
            &namespace,
        );
        let blocks: usize = volumes.iter().map(|volume| volume.blocks().len()).sum();
        let mut devices = volumes.iter().map(Volume::device);
        let writes_may_fail = staging.is_none() && devices.any(|device| device.may_refuse_writes());
        let write_lanes = lanes_for(blocks, write_lanes).min(STAGING_LANES_MAX - 1);
        let lane = |number| CachePadded::new(Mutex::new(LaneState::new(number, staging.clone())));
        Self {
            namespace,
            number: NUMBERS.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            used_blocks: volumes.iter().map(|_| AtomicU32::new(0)).collect(),
            block_bytes: volumes.first().map_or(BLOCK_BYTES, Volume::block_bytes),
            volumes,
            lanes: (0..=write_lanes).map(lane).collect(),
            staging,
            images: Arc::new(Images::new(image_bytes_max)),
            next_lsn: CachePadded::new(AtomicU64::new(1)),
            truncations: Truncations::default(),
            block_sequence: AtomicU64::new(1),
            in_order: Mutex::default(),
            writes_may_fail,
            space: Space::new(blocks, write_lanes),
            syncer: Syncer::default(),
            // Odd, so that no incarnation is ever 0; random in its upper half, so that no two
            // openings share one.
            sessions: AtomicU64::new((session << 32) | 1),
            states: Mutex::default(),
            opening: Mutex::default(),
        }
    }

    /// Begins after recovery: blocks in use are marked in their volumes, the others are free.
    pub(crate) fn start(&self, last_lsn: u64, next_block: u64, mut state: DeviceState) {
        self.next_lsn.store(last_lsn + 1, Ordering::SeqCst);
        self.block_sequence.fetch_max(next_block, Ordering::SeqCst);
        self.syncer.start_from(state.durable_lsn);
        let tenancies = self
            .staging()
            .map(NamespaceStaging::tenancies)
            .unwrap_or_default();
        for (lane, tenancy) in tenancies {
            if let Some(lane) = self.lanes.get(lane) {
                // Of two copies the higher number counts: a tenancy with a lower one would lose to
                // the leftover, and its staged entries with it.
                lane.lock().continue_after(tenancy.number);
            }
        }
        for (volume, used) in self.volumes.iter().zip(&self.used_blocks) {
            let mut known = volume.blocks();
            let last = known.rfind(|(_, block)| block.phase() != BlockPhase::Free);
            used.fetch_max(last.map_or(0, |(id, _)| id.index + 1), Ordering::SeqCst);
        }
        state
            .devices
            .resize(self.volumes.len(), DeviceReach::default());
        for (device, volume) in state.devices.iter_mut().zip(&self.volumes) {
            device.id = volume.device_id() as u32;
        }
        self.states.lock().noted = state;
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

    pub(crate) fn staging(&self) -> Option<&NamespaceStaging> {
        self.staging.as_deref()
    }

    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    pub(crate) fn truncations(&self) -> &Truncations {
        &self.truncations
    }

    /// Begins a truncation: see [`Truncations::begin`].
    pub(crate) fn begin_truncation(&self) -> TruncationUnderWay<'_> {
        let pass_lanes = || self.lanes.iter().for_each(|lane| drop(lane.lock()));
        self.truncations.begin(pass_lanes)
    }

    pub(crate) fn syncer(&self) -> &Syncer {
        &self.syncer
    }

    /// The entry at a location of the index, or the image that the location names.
    #[inline]
    pub(crate) fn entry<'a>(
        &'a self,
        location: Location,
        guard: &'a Guard,
    ) -> Option<HeldEntry<'a>> {
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

    /// The image that a location names, if it names one.
    #[inline]
    pub(crate) fn image<'a>(&'a self, location: Location, guard: &'a Guard) -> Option<&'a Image> {
        self.images.get(Images::number_of(location)?, guard)
    }

    /// The content of an image; while an edit changes it, that of its chain: readers never wait for
    /// a writer.
    fn imaged<'a>(&'a self, image: &'a Image, guard: &'a Guard) -> Option<HeldEntry<'a>> {
        if let Some(content) = image.read() {
            return Some(HeldEntry::Image(content));
        }
        let built = content_of(&self.volumes, image.newest(), guard)?;
        Some(HeldEntry::Built(Box::new(built)))
    }

    pub(crate) fn images(&self) -> &Arc<Images> {
        &self.images
    }

    /// Prefetches an entry that is about to be read in full.
    #[inline]
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
    ) -> Option<EntryHeader> {
        self.volume(location)?.checked_header(location, entry)
    }

    /// Whether both checks of the entry at a location hold.
    pub(crate) fn holds(&self, location: Location, entry: &EntryView<'_>) -> bool {
        let volume = self.volume(location);
        volume.is_some_and(|volume| volume.holds(location, entry))
    }

    /// Refuses new versions while space is down to the reserve, and everything after a failed sync.
    #[inline]
    pub(crate) fn check_writable(&self, purpose: SpacePurpose) -> Result<()> {
        self.syncer.check(&self.namespace)?;
        if purpose == SpacePurpose::Write && self.space.writes_are_stopped() {
            return Err(self.stop_writes());
        }
        Ok(())
    }

    /// Counts an entry's bytes as dead.
    pub(crate) fn release(&self, location: Location, units: u32) {
        if let Some(block) = self.block_of(location) {
            block.sub_live(units);
        }
    }

    /// A lane for this thread, locked: the one it had last, or else the first that is not held. So
    /// threads that never meet share the first lane, and further lanes come into use when writers
    /// collide.
    #[inline]
    fn lane(&self, purpose: SpacePurpose) -> Result<MutexGuard<'_, LaneState>> {
        let (own, others) = self.lanes.split_last().ok_or_else(|| self.no_space())?;
        if purpose.is_cleaning() {
            return Ok(own.lock());
        }
        let hint = LANE_HINT.get();
        let hint = if hint < others.len() {
            hint
        } else {
            // The hint is the thread's, for all namespaces: another one may have more lanes.
            hint % others.len()
        };
        let lane = others.get(hint).ok_or_else(|| self.no_space())?;
        let free = lane.try_lock().or_else(|| free_lane(others, hint));
        Ok(free.unwrap_or_else(|| lane.lock()))
    }

    /// Every block the devices can ever have.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (BlockId, &BlockState)> {
        self.volumes.iter().flat_map(Volume::blocks)
    }

    /// Returns the blocks that are full, or ended, and not being emptied.
    pub(crate) fn closed_blocks(&self) -> impl Iterator<Item = (BlockId, &BlockState)> {
        let blocks = self.blocks();
        blocks.filter(|(_, block)| block.phase() == BlockPhase::Closed)
    }

    pub(crate) fn block(&self, id: BlockId) -> Option<&BlockState> {
        self.volumes.get(id.device)?.block(id.index)
    }

    /// The size of every block.
    pub(crate) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// The block that holds an entry.
    #[inline]
    pub(crate) fn block_id_of(&self, location: Location) -> BlockId {
        BlockId::of(location, self.block_bytes())
    }

    fn block_of(&self, location: Location) -> Option<&BlockState> {
        self.block(self.block_id_of(location))
    }

    /// Writes staged entries to the devices. Returns how far the blocks that lanes fill have come.
    pub(crate) fn flush_lanes(&self) -> DeviceResult<Vec<FilledBlock>> {
        let mut filled = Vec::new();
        for lane in &self.lanes {
            if let Some(mut lane) = lane.lock().locked(&self.volumes) {
                lane.flush()?;
                filled.push(FilledBlock::of(lane.open));
            }
        }
        Ok(filled)
    }

    /// Returns how far the blocks that lanes fill have come to the devices, without writing
    /// anything.
    pub(crate) fn filled_blocks(&self) -> Vec<FilledBlock> {
        let lanes = self.lanes.iter().map(|lane| lane.lock());
        let filled = lanes.filter_map(|state| state.open.as_ref().map(FilledBlock::of));
        filled.collect()
    }

    /// Closes the blocks that lanes are filling (at a clean close).
    pub(crate) fn close_lanes(&self) -> Result<()> {
        let mut lanes = self.lanes.iter();
        Ok(lanes.try_for_each(|lane| self.close_block(&mut lane.lock()))?)
    }

    /// Returns how many bytes are left in the block that others are emptied into, or in all open
    /// blocks.
    pub(crate) fn cleaning_room_bytes(&self, all: bool) -> u64 {
        let lanes = if all { 0 } else { self.lanes.len() - 1 };
        let lanes = self.lanes.get(lanes..).unwrap_or_default().iter();
        let open = |lane: &CachePadded<Mutex<LaneState>>| {
            let state = lane.lock();
            state.open.as_ref().map_or(0, |open| open.room_bytes(1))
        };
        lanes.map(open).sum()
    }

    /// How many blocks hold entries.
    pub(crate) fn used_blocks(&self) -> usize {
        let used = |(_, block): &(BlockId, &BlockState)| block.phase() != BlockPhase::Free;
        self.blocks().filter(used).count()
    }

    /// Since the namespace was opened.
    pub(crate) fn traffic(&self) -> Traffic {
        let of_lanes = self.lanes.iter().map(|lane| lane.lock().traffic);
        of_lanes.fold(Traffic::default(), Traffic::plus)
    }

    #[cold]
    pub(super) fn out_of_space(&self, purpose: SpacePurpose) -> Error {
        match purpose {
            SpacePurpose::Write | SpacePurpose::Shrink => self.stop_writes(),
            SpacePurpose::Delete | SpacePurpose::Fold | SpacePurpose::Defrag => self.no_space(),
        }
    }

    #[cold]
    pub(crate) fn stop_writes(&self) -> Error {
        Error::StopWrites {
            namespace: self.namespace.clone(),
            free_blocks: self.space.usage().available_blocks,
        }
    }

    #[cold]
    pub(crate) fn no_space(&self) -> Error {
        Error::NoSpace {
            namespace: self.namespace.clone(),
        }
    }
}

/// A lane that is not held, sought from the one behind `hint` on, locked: the thread's from here
/// on.
#[cold]
fn free_lane(
    lanes: &[CachePadded<Mutex<LaneState>>],
    hint: usize,
) -> Option<MutexGuard<'_, LaneState>> {
    (1..lanes.len()).find_map(|step| {
        let number = (hint + step) % lanes.len();
        let state = lanes.get(number)?.try_lock()?;
        LANE_HINT.set(number);
        Some(state)
    })
}
