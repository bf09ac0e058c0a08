//! Blocks: parts of a device of one size, append-only within one life (incarnation),
//! self-describing (`docs/format.md`).
//!
//! A header that is lost, or the whole of a block that fell back to an earlier life, shows in the
//! mirror.

use crate::bytes::{seal, unseal};
use crate::device::{BLOCK_BYTES, HEADER_BYTES, NUMBER_MAX, SMALL_BLOCK_BYTES};
use crate::entry::{LSN_BITS, Lsn};
use crate::location::{Location, UNIT_BYTES};
use crate::log::directory::directory_bytes;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// What the header of a block takes.
pub(crate) const BLOCK_HEADER_BYTES: u64 = 64;
/// The offset of the mirror of another block's header: in a sector of its own.
pub(crate) const MIRROR_AT: u64 = 512;
/// The offset of a block's first entry.
pub(crate) const ENTRIES_AT: u64 = 1024;

/// The most that one entry can span: a block less its header, the filler that ends it and one
/// sector of directory.
pub(crate) const fn entry_units_max(block_bytes: u64) -> u32 {
    ((block_bytes - ENTRIES_AT - 64 - 512) / UNIT_BYTES) as u32
}

const _: () = assert!(NUMBER_MAX == (1 << LSN_BITS) - 1);

/// Whether a block can hold this many entries, up to this unit of it, and their directory.
pub(crate) fn can_hold(block_bytes: u64, units: u32, entries: u32) -> bool {
    u64::from(units) * UNIT_BYTES + directory_bytes(entries as usize) <= block_bytes
}

/// A block of a namespace: device number and block number in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct BlockId {
    pub(crate) device: usize,
    pub(crate) index: u32,
    /// The size of the namespace's blocks.
    block_bytes: u32,
}

impl BlockId {
    pub(crate) const fn new(device: usize, index: u32, block_bytes: u64) -> Self {
        Self {
            device,
            index,
            block_bytes: block_bytes as u32,
        }
    }

    /// The size of the block.
    pub(crate) const fn bytes(self) -> u64 {
        self.block_bytes as u64
    }

    /// Offset of the block in its device.
    pub(crate) const fn offset_bytes(self) -> u64 {
        HEADER_BYTES + self.index as u64 * self.bytes()
    }

    /// Whether the block holds an entry.
    pub(crate) fn holds(self, location: Location) -> bool {
        Self::of(location, self.bytes()) == self
    }

    /// The block that holds an entry.
    #[inline]
    pub(crate) const fn of(location: Location, block_bytes: u64) -> Self {
        // Damage may name a place in the header of the device: no block has that number.
        let from_first = location.offset_bytes().wrapping_sub(HEADER_BYTES);
        let index = index_of(from_first, block_bytes);
        Self::new(location.device(), index as u32, block_bytes)
    }
}

/// Returns the number of the block with this distance from the first one. Dividing by a constant
/// takes no division.
#[inline]
pub(crate) const fn index_of(from_first: u64, block_bytes: u64) -> u64 {
    if block_bytes == BLOCK_BYTES {
        from_first / BLOCK_BYTES
    } else {
        from_first / SMALL_BLOCK_BYTES
    }
}

/// Where an opening has ended a block that was not closed. What follows counts only if its number
/// is above the durable one: it was appended again elsewhere, or a power failure took it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EndedBlock {
    /// In 16-byte units from the start of the block.
    pub(crate) units: u32,
    /// How many entries are before the end.
    pub(crate) entries: u32,
    /// None of them has a higher number.
    pub(crate) last_lsn: Lsn,
}

impl EndedBlock {
    /// The two words of a header that say so; both are 0 where no opening has ended the block.
    pub(crate) fn words(ended: Option<Self>) -> [u64; 2] {
        ended.map_or([0, 0], |ended| {
            let entries = u64::from(ended.entries) << 32;
            [u64::from(ended.units) | entries, ended.last_lsn.0]
        })
    }

    pub(crate) const fn from_words([shape, last_lsn]: [u64; 2]) -> Option<Self> {
        match shape as u32 {
            0 => None,
            units => Some(Self {
                units,
                entries: (shape >> 32) as u32,
                last_lsn: Lsn(last_lsn),
            }),
        }
    }
}

/// The header of a block, as on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockHeader {
    pub(crate) index: u32,
    pub(crate) incarnation: u64,
    pub(crate) device_id: u64,
    pub(crate) sequence: u64,
    pub(crate) ended: Option<EndedBlock>,
    /// Cleaning fills the block: it has copies of entries, and no change of its own.
    pub(crate) holds_copies: bool,
}

pub(crate) type RawBlockHeader = [u8; BLOCK_HEADER_BYTES as usize];

impl BlockHeader {
    /// The header of a block that holds nothing.
    pub(crate) const fn free(index: u32, device_id: u64, sequence: u64) -> Self {
        Self {
            index,
            incarnation: 0,
            device_id,
            sequence,
            ended: None,
            holds_copies: false,
        }
    }

    /// Whether a block of this size can have such a header.
    pub(crate) fn fits(&self, block_bytes: u64) -> bool {
        let is_inside = |ended: EndedBlock| can_hold(block_bytes, ended.units, ended.entries);
        self.sequence <= NUMBER_MAX && self.ended.is_none_or(is_inside)
    }

    pub(crate) fn encode(&self) -> RawBlockHeader {
        let [shape, last_lsn] = EndedBlock::words(self.ended);
        seal([
            magic_and(self.index),
            self.incarnation,
            self.device_id,
            self.sequence,
            shape,
            last_lsn,
            u64::from(self.holds_copies),
        ])
    }

    fn decode(raw: &RawBlockHeader, device_id: u64, index: u32) -> Option<Self> {
        let [
            magic,
            incarnation,
            of_device,
            sequence,
            shape,
            last_lsn,
            copies,
        ] = unseal(raw)?;
        (magic == magic_and(index) && of_device == device_id).then_some(Self {
            index,
            incarnation,
            device_id,
            sequence,
            ended: EndedBlock::from_words([shape, last_lsn]),
            holds_copies: copies == 1,
        })
    }
}

/// What the place of a block header, or of its mirror, says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeaderCopy {
    /// Nothing was ever written here.
    Blank,
    Header(BlockHeader),
    /// A header lay here that cannot be made out any more.
    Unreadable,
}

impl HeaderCopy {
    /// Reads a copy of the header of block `index` of a device with blocks of this size.
    pub(crate) fn read(raw: &RawBlockHeader, device_id: u64, index: u32, block_bytes: u64) -> Self {
        if raw.iter().all(|byte| *byte == 0) {
            return Self::Blank;
        }
        let header = BlockHeader::decode(raw, device_id, index);
        let header = header.filter(|header| header.fits(block_bytes));
        header.map_or(Self::Unreadable, Self::Header)
    }

    pub(crate) fn header(&self) -> Option<BlockHeader> {
        match self {
            Self::Header(header) => Some(*header),
            Self::Blank | Self::Unreadable => None,
        }
    }
}

/// The use of a block by its header and the mirror.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockUse {
    /// The block was never used, or was given back.
    Free,
    /// It has entries of this life. `intact`: the header and its mirror are as they were written.
    Used { header: BlockHeader, intact: bool },
    /// The life that the entries belong to is lost, or its entries are: the block holds entries of
    /// an earlier life.
    Unreadable,
}

impl BlockUse {
    /// Judges a block by both copies of its header. Headers with a sequence number below
    /// `next_block` were durable, and so was that of every block below `used_blocks`; a younger one
    /// may have reached the device in one copy only.
    pub(crate) fn judge(
        own: HeaderCopy,
        mirror: HeaderCopy,
        next_block: u64,
        is_known_used: bool,
    ) -> Self {
        let promised = |header: &BlockHeader| header.sequence < next_block;
        let newest = match (own.header(), mirror.header()) {
            // A mirror that is behind was overtaken by a power failure; one that is ahead counts if
            // it was durable.
            (Some(own), Some(mirror)) if mirror.sequence > own.sequence && promised(&mirror) => {
                mirror
            }
            (Some(own), _) => own,
            (None, Some(mirror)) if own == HeaderCopy::Unreadable || promised(&mirror) => mirror,
            // Without a mirror it was never used: that is there before the first entry.
            (None, _) => {
                let is_lost = own == HeaderCopy::Unreadable && mirror != HeaderCopy::Blank;
                return if is_known_used || is_lost {
                    Self::Unreadable
                } else {
                    Self::Free
                };
            }
        };
        if newest.incarnation == 0 {
            return Self::Free;
        }
        // An opening that was interrupted may have ended the block in one copy only.
        let ended_in = |copy: HeaderCopy| {
            let header = copy.header();
            let header = header.filter(|header| header.sequence == newest.sequence);
            header.and_then(|header| header.ended)
        };
        let newest = BlockHeader {
            ended: ended_in(own).or(ended_in(mirror)),
            ..newest
        };
        let is_whole = |copy: HeaderCopy| {
            matches!(copy, HeaderCopy::Header(header)
                if BlockHeader { ended: newest.ended, ..header } == newest)
        };
        let mirror_may_differ =
            !promised(&newest) || mirror.header().is_some_and(|mirror| !promised(&mirror));
        Self::Used {
            header: newest,
            intact: is_whole(own) && (is_whole(mirror) || mirror_may_differ),
        }
    }
}

const fn magic_and(index: u32) -> u64 {
    u32::from_le_bytes(*b"SPK2") as u64 | ((index as u64) << 32)
}

/// The phase of a block. Stored in [`BlockState`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum BlockPhase {
    /// Nothing in it that counts.
    Free = 0,
    /// A lane appends to it.
    Open = 1,
    /// Full, or ended.
    Closed = 2,
    /// Defragmentation empties it.
    Draining = 3,
}

/// Everything in the block is on the device.
const ALL_FLUSHED: u32 = u32::MAX;

/// The state of one block in memory.
#[derive(Debug)]
pub(crate) struct BlockState {
    /// The most units that entries can take.
    capacity_units: u32,
    phase: AtomicU32,
    /// 16-byte units of live entries.
    live_units: AtomicU32,
    incarnation: AtomicU64,
    /// Entries that begin below this unit of the block are on the device; the others are in staging
    /// memory.
    flushed_units: AtomicU32,
    /// The address that byte 0 of the block would have in the staging memory that holds its end.
    staged_at: AtomicUsize,
    /// The units that entries take, of a closed block; 0 = not known.
    filled_units: AtomicU32,
    /// The number under which the block was opened.
    sequence: AtomicU64,
    holds_copies: AtomicBool,
    /// When the block was closed, in terms of the block sequence: its age, by which cleaning
    /// chooses.
    closed_at: AtomicU64,
    /// The lowest and the highest number of a change in the block, for followers of the changes.
    first_lsn: AtomicU64,
    last_lsn: AtomicU64,
    /// Where an opening has ended the block, as its header says.
    ended: [AtomicU64; 2],
    /// What deltas make of emptying the block: see [`BlockState::folded_units`] and
    /// [`BlockState::chained_units`].
    folded_units: AtomicU64,
    chained_units: AtomicU64,
    /// The live units that an attempt to empty the block has left, perhaps [`LEFT_FOR_LONG`].
    left_units: AtomicU32,
}

/// More units than a block has: no attempt to empty it has failed.
const NOT_TRIED: u32 = LEFT_FOR_LONG - 1;
/// With the live units that were left: another attempt would fail, too.
const LEFT_FOR_LONG: u32 = 1 << 31;

impl BlockState {
    pub(crate) fn new(block_bytes: u64) -> Self {
        Self {
            capacity_units: entry_units_max(block_bytes),
            phase: AtomicU32::new(BlockPhase::Free as u32),
            live_units: AtomicU32::new(0),
            incarnation: AtomicU64::new(0),
            flushed_units: AtomicU32::new(ALL_FLUSHED),
            staged_at: AtomicUsize::new(0),
            filled_units: AtomicU32::new(0),
            sequence: AtomicU64::new(0),
            holds_copies: AtomicBool::new(false),
            closed_at: AtomicU64::new(0),
            first_lsn: AtomicU64::new(0),
            last_lsn: AtomicU64::new(u64::MAX),
            ended: Default::default(),
            folded_units: AtomicU64::new(0),
            chained_units: AtomicU64::new(0),
            left_units: AtomicU32::new(NOT_TRIED),
        }
    }

    pub(crate) fn phase(&self) -> BlockPhase {
        match self.phase.load(Ordering::SeqCst) {
            1 => BlockPhase::Open,
            2 => BlockPhase::Closed,
            3 => BlockPhase::Draining,
            _ => BlockPhase::Free,
        }
    }

    pub(crate) fn set_phase(&self, phase: BlockPhase) {
        self.phase.store(phase as u32, Ordering::SeqCst);
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::SeqCst)
    }

    /// Begins the life that the header names.
    pub(crate) fn begin(&self, header: &BlockHeader, phase: BlockPhase) {
        self.sequence.store(header.sequence, Ordering::Relaxed);
        self.set_ended(header.ended);
        self.renew(header.incarnation, header.holds_copies, phase);
    }

    /// Ends a life: the block is free.
    pub(crate) fn free(&self) {
        self.set_ended(None);
        self.renew(0, false, BlockPhase::Free);
    }

    /// Sets the incarnation before the phase, so that a thread that sees the block open sees its
    /// new life.
    fn renew(&self, incarnation: u64, holds_copies: bool, phase: BlockPhase) {
        self.filled_units.store(0, Ordering::Relaxed);
        self.flushed_units.store(ALL_FLUSHED, Ordering::Relaxed);
        self.holds_copies.store(holds_copies, Ordering::Relaxed);
        if holds_copies {
            self.set_change_lsns(u64::MAX, 0)
        } else {
            self.set_change_lsns(0, u64::MAX)
        }
        self.folded_units.store(0, Ordering::Relaxed);
        self.chained_units.store(0, Ordering::Relaxed);
        self.retry();
        self.incarnation.store(incarnation, Ordering::SeqCst);
        self.set_phase(phase);
    }

    /// Whether cleaning has filled the block.
    pub(crate) fn holds_copies(&self) -> bool {
        self.holds_copies.load(Ordering::Relaxed)
    }

    /// The lowest and the highest number that a change in the block may have; (0, `u64::MAX`): not
    /// known. The first is above the last where the block holds none: one that others are emptied
    /// into has copies only.
    pub(crate) fn change_lsns(&self) -> (u64, u64) {
        let first = self.first_lsn.load(Ordering::SeqCst);
        (first, self.last_lsn.load(Ordering::SeqCst))
    }

    pub(crate) fn set_change_lsns(&self, first: u64, last: u64) {
        self.first_lsn.store(first, Ordering::SeqCst);
        self.last_lsn.store(last, Ordering::SeqCst);
    }

    /// Notes that the header is lost. The block counts as full, so that it is never emptied and
    /// used again: the content of it is all there is left.
    pub(crate) fn set_unreadable(&self) {
        self.renew(0, false, BlockPhase::Closed);
        self.add_live(self.capacity_units);
    }

    /// Notes how far entries reach when the block is closed, and when that was.
    pub(crate) fn note_closed(&self, filled_units: u32, closed_at: u64) {
        self.filled_units.store(filled_units, Ordering::Relaxed);
        self.closed_at.store(closed_at, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self) -> Option<EndedBlock> {
        let words = self.ended.each_ref();
        EndedBlock::from_words(words.map(|word| word.load(Ordering::Relaxed)))
    }

    pub(crate) fn set_ended(&self, ended: Option<EndedBlock>) {
        for (target, word) in self.ended.iter().zip(EndedBlock::words(ended)) {
            target.store(word, Ordering::Relaxed);
        }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    pub(crate) fn closed_at(&self) -> u64 {
        self.closed_at.load(Ordering::Relaxed)
    }

    /// The most that moving the block's entries away can win, in units: all of it, where nothing
    /// better is known.
    pub(crate) fn filled_units(&self) -> u32 {
        match self.filled_units.load(Ordering::Relaxed) {
            0 => self.capacity_units,
            units => units,
        }
    }

    /// The first byte behind the entries that count, from the start of a block that is not open.
    pub(crate) fn entries_end(&self) -> u64 {
        match self.ended() {
            Some(ended) => u64::from(ended.units) * UNIT_BYTES,
            None => ENTRIES_AT + u64::from(self.filled_units()) * UNIT_BYTES,
        }
    }

    /// The directory of a closed block begins behind this, from the start of the block: entries up to
    /// here are known to be there, and there may be more.
    pub(crate) fn directory_behind(&self) -> u64 {
        ENTRIES_AT + u64::from(self.filled_units.load(Ordering::Relaxed)) * UNIT_BYTES
    }

    /// Whether the entry that begins at this unit of the block is on the device.
    pub(crate) fn is_flushed(&self, unit: u32) -> bool {
        unit < self.flushed_units.load(Ordering::Acquire)
    }

    /// The address of byte 0 of the block, if its end is in staging memory.
    pub(crate) fn staged_at(&self) -> usize {
        self.staged_at.load(Ordering::Acquire)
    }

    /// From here on the entries from this unit of the block on are in staging memory, where byte 0
    /// would have this address. Everything below must be on the device.
    pub(crate) fn stage(&self, flushed_units: u32, address: usize) {
        // Readers look at the units last: with an address that is newer than the units they look
        // again.
        self.flushed_units.store(flushed_units, Ordering::Release);
        self.staged_at.store(address, Ordering::Release);
    }

    /// Everything below this unit is on the device.
    pub(crate) fn set_flushed(&self, flushed_units: u32) {
        self.flushed_units.store(flushed_units, Ordering::Release);
    }

    /// Everything in the block is on the device.
    pub(crate) fn set_all_flushed(&self) {
        self.set_flushed(ALL_FLUSHED);
    }

    pub(crate) fn live_units(&self) -> u32 {
        self.live_units.load(Ordering::SeqCst)
    }

    pub(crate) fn add_live(&self, units: u32) {
        self.live_units.fetch_add(units, Ordering::SeqCst);
    }

    pub(crate) fn sub_live(&self, units: u32) {
        let before = self.live_units.fetch_sub(units, Ordering::SeqCst);
        debug_assert!(before >= units, "live units of a block went below zero");
    }

    /// Returns the units that emptying the block writes beside its live entries: the whole records
    /// of its deltas.
    pub(crate) fn folded_units(&self) -> u64 {
        self.folded_units.load(Ordering::Relaxed)
    }

    /// Returns the units of the deltas, in any block, that emptying this one makes dead.
    pub(crate) fn chained_units(&self) -> u64 {
        self.chained_units.load(Ordering::Relaxed)
    }

    /// Adds to both, or with negative units subtracts.
    pub(crate) fn weigh(&self, folded_units: i64, chained_units: i64) {
        let add = |counter: &AtomicU64, units: i64| {
            if units != 0 {
                let before = counter.fetch_add(units as u64, Ordering::Relaxed);
                debug_assert!(
                    before as i64 + units >= 0,
                    "a chain was counted once and taken out twice"
                );
            }
        };
        add(&self.folded_units, folded_units);
        add(&self.chained_units, chained_units);
    }

    /// Notes that the block could not be emptied. `for_long`: as long as nothing in it dies;
    /// otherwise a record was locked.
    pub(crate) fn note_left(&self, for_long: bool) {
        let long = if for_long { LEFT_FOR_LONG } else { 0 };
        self.left_units
            .store(self.live_units() | long, Ordering::Relaxed);
    }

    /// Whether an attempt to empty the block has failed, and nothing in it has died since.
    pub(crate) fn is_stuck(&self) -> bool {
        self.left_units.load(Ordering::Relaxed) & !LEFT_FOR_LONG == self.live_units()
    }

    /// Whether the block is stuck, and not because a record was locked.
    pub(crate) fn is_stuck_for_long(&self) -> bool {
        self.left_units.load(Ordering::Relaxed) == self.live_units() | LEFT_FOR_LONG
    }

    /// Has the block tried again that could not be emptied.
    pub(crate) fn retry(&self) {
        self.left_units.store(NOT_TRIED, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
