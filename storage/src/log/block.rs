//! Blocks: 8 MiB of a device, append-only within one life (incarnation), self-describing.
//!
//! ```text
//!    0 [4]  "SPK2" ("SPKB" in format 1)
//!    4 u32  number of the block in its device
//!    8 u64  incarnation; 0 = free
//!   16 u64  device id
//!   24 u64  sequence: rises with every block that the namespace opens or frees
//!   32 [24] zero
//!   56 u64  xxh3_64 of bytes 0..56
//!  512 [64] mirror of the header of the block before this one (of the last block, in block 0)
//! 1024      entries, one after the other (from 64 in format 1)
//!  ...      a filler up to the directory, once the block is closed
//!           directory, from the end of the block downwards (see `directory`; none in format 1)
//! ```
//! A header that is lost, or the whole of a block that fell back to an earlier life, shows in the mirror.

use crate::device::{BLOCK_BYTES, HEADER_BYTES};
use crate::location::UNIT_BYTES;
use crate::log::bit_repair::before_one_flip;
use crate::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// What the header of a block takes.
pub(crate) const BLOCK_HEADER_BYTES: u64 = 64;
/// Where the mirror of another block's header lies: in a sector of its own.
pub(crate) const MIRROR_AT: u64 = 512;
/// Where the first entry of a block lies.
pub(crate) const ENTRIES_AT: u64 = 1024;

/// The most that one entry can span: a block less its header, the filler that ends it and one sector of directory.
pub(crate) const ENTRY_UNITS_MAX: u32 = ((BLOCK_BYTES - ENTRIES_AT - 64 - 512) / UNIT_BYTES) as u32;

/// The layout of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    /// Slots were recycled in place: a gap between entries is legal, and there is no directory.
    One,
    /// Append-only.
    Two,
}

impl Format {
    const fn magic(self) -> [u8; 4] {
        match self {
            Self::One => *b"SPKB",
            Self::Two => *b"SPK2",
        }
    }

    /// Where the first entry lies.
    pub(crate) const fn entries_at(self) -> u64 {
        match self {
            Self::One => BLOCK_HEADER_BYTES,
            Self::Two => ENTRIES_AT,
        }
    }
}

/// A block of a namespace: device number and block number in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct BlockId {
    pub(crate) device: usize,
    pub(crate) index: u32,
}

impl BlockId {
    /// Offset of the block in its device.
    pub(crate) const fn offset_bytes(self) -> u64 {
        HEADER_BYTES + self.index as u64 * BLOCK_BYTES
    }

    /// The block that holds this offset of a device.
    pub(crate) const fn containing(device: usize, offset_bytes: u64) -> Self {
        Self {
            device,
            index: ((offset_bytes - HEADER_BYTES) / BLOCK_BYTES) as u32,
        }
    }
}

/// The header of a block as it lies on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockHeader {
    pub(crate) format: Format,
    pub(crate) index: u32,
    pub(crate) incarnation: u64,
    pub(crate) device_id: u64,
    pub(crate) sequence: u64,
}

pub(crate) type RawBlockHeader = [u8; BLOCK_HEADER_BYTES as usize];

impl BlockHeader {
    pub(crate) fn encode(&self) -> RawBlockHeader {
        let mut raw = [0u8; BLOCK_HEADER_BYTES as usize];
        let fields = [
            u64::from_le_bytes(magic_and(self.format, self.index)),
            self.incarnation,
            self.device_id,
            self.sequence,
        ];
        for (target, field) in raw.chunks_exact_mut(8).zip(fields) {
            target.copy_from_slice(&field.to_le_bytes());
        }
        let (content, check) = raw.split_at_mut(56);
        check.copy_from_slice(&xxh3_64(content).to_le_bytes());
        raw
    }

    fn decode(raw: &RawBlockHeader, device_id: u64, index: u32) -> Option<Self> {
        let (content, check) = raw.split_at(56);
        let mut words = content.chunks_exact(8).filter_map(|chunk| {
            chunk
                .first_chunk::<8>()
                .map(|bytes| u64::from_le_bytes(*bytes))
        });
        let first = words.next()?.to_le_bytes();
        let format = [Format::Two, Format::One]
            .into_iter()
            .find(|format| first == magic_and(*format, index))?;
        let header = Self {
            format,
            index,
            incarnation: words.next()?,
            device_id: words.next()?,
            sequence: words.next()?,
        };
        (check == xxh3_64(content).to_le_bytes() && header.device_id == device_id).then_some(header)
    }
}

/// What the place of a block header, or of its mirror, says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HeaderCopy {
    /// Nothing was ever written here.
    Blank,
    /// A header. `intact`: as it was written; otherwise one flipped bit was undone.
    Header { header: BlockHeader, intact: bool },
    /// A header lay here that cannot be made out any more.
    Unreadable,
}

impl HeaderCopy {
    /// Reads a copy of the header of block `index` of a device; a single flipped bit is undone.
    pub(crate) fn read(raw: &RawBlockHeader, device_id: u64, index: u32) -> Self {
        if raw.iter().all(|byte| *byte == 0) {
            return Self::Blank;
        }
        if let Some(header) = BlockHeader::decode(raw, device_id, index) {
            return Self::Header {
                header,
                intact: true,
            };
        }
        let judge = |raw: &RawBlockHeader| {
            if raw.iter().all(|byte| *byte == 0) {
                return Some(Self::Blank);
            }
            BlockHeader::decode(raw, device_id, index).map(|header| Self::Header {
                header,
                intact: false,
            })
        };
        before_one_flip(raw, judge).unwrap_or(Self::Unreadable)
    }

    pub(crate) fn header(&self) -> Option<BlockHeader> {
        match self {
            Self::Header { header, .. } => Some(*header),
            Self::Blank | Self::Unreadable => None,
        }
    }
}

/// What is known of a block from its header and the mirror.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockUse {
    /// The block was never used, or was given back.
    Free,
    /// Entries of this life lie in it. `intact`: the header and its mirror are as they were written.
    Used { header: BlockHeader, intact: bool },
    /// The life that the entries belong to is lost, or its entries are: the block holds those of an earlier life.
    Unreadable,
}

impl BlockUse {
    /// Judges a block by both copies of its header. Headers with a sequence number below `next_block` were durable, and so
    /// was that of every block below `used_blocks`; a younger one may have reached the device in one copy only.
    /// `is_mirrored`: there must be a mirror, since no entries of format 1 are or were in its place.
    pub(crate) fn judge(
        own: HeaderCopy,
        mirror: HeaderCopy,
        next_block: u64,
        is_known_used: bool,
        is_mirrored: bool,
    ) -> Self {
        let promised = |header: &BlockHeader| header.sequence < next_block;
        // In format 1 it was a log sequence number. A mirror of such a block is that of a later life.
        let sequence = |header: &BlockHeader| match header.format {
            Format::One => 0,
            Format::Two => header.sequence,
        };
        let newest = match (own.header(), mirror.header()) {
            // A mirror that is behind was overtaken by a power failure; one that is ahead counts if it was durable.
            (Some(own), Some(mirror)) if mirror.sequence > sequence(&own) && promised(&mirror) => {
                mirror
            }
            (Some(own), _) => own,
            (None, Some(mirror)) if own == HeaderCopy::Unreadable || promised(&mirror) => mirror,
            (None, _) if own == HeaderCopy::Unreadable => return Self::Unreadable,
            (None, _) => {
                return if is_known_used {
                    Self::Unreadable
                } else {
                    Self::Free
                };
            }
        };
        if newest.incarnation == 0 {
            return Self::Free;
        }
        let is_whole = |copy: HeaderCopy| {
            copy == HeaderCopy::Header {
                header: newest,
                intact: true,
            }
        };
        let mirror_may_differ = newest.format == Format::One
            || !is_mirrored
            || !promised(&newest)
            || mirror.header().is_some_and(|mirror| !promised(&mirror));
        Self::Used {
            header: newest,
            intact: is_whole(own) && (is_whole(mirror) || mirror_may_differ),
        }
    }
}

const fn magic_and(format: Format, index: u32) -> [u8; 8] {
    let [a, b, c, d] = format.magic();
    let [e, f, g, h] = index.to_le_bytes();
    [a, b, c, d, e, f, g, h]
}

/// What a block is doing. Stored in [`BlockState`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Phase {
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
    phase: AtomicU32,
    /// 16-byte units of live entries.
    live_units: AtomicU32,
    incarnation: AtomicU64,
    /// 1 or 2.
    format: AtomicU32,
    /// Entries that begin below this unit of the block are on the device; the others are in staging memory.
    flushed_units: AtomicU32,
    /// The address that byte 0 of the block would have in the staging memory that holds its end.
    staged_at: AtomicUsize,
    /// The units that entries take, of a closed block; 0 = not known.
    filled_units: AtomicU32,
    /// The number under which the block was opened.
    sequence: AtomicU64,
    /// When the block was closed, in terms of the block sequence: its age for whoever chooses a block to empty.
    closed_at: AtomicU64,
    /// No change in the block has a lower number, and none a higher one: what those who follow the changes must read.
    first_lsn: AtomicU64,
    last_lsn: AtomicU64,
}

impl Default for BlockState {
    fn default() -> Self {
        Self {
            phase: AtomicU32::new(Phase::Free as u32),
            live_units: AtomicU32::new(0),
            incarnation: AtomicU64::new(0),
            format: AtomicU32::new(2),
            flushed_units: AtomicU32::new(ALL_FLUSHED),
            staged_at: AtomicUsize::new(0),
            filled_units: AtomicU32::new(0),
            sequence: AtomicU64::new(0),
            closed_at: AtomicU64::new(0),
            first_lsn: AtomicU64::new(0),
            last_lsn: AtomicU64::new(u64::MAX),
        }
    }
}

impl BlockState {
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            1 => Phase::Open,
            2 => Phase::Closed,
            3 => Phase::Draining,
            _ => Phase::Free,
        }
    }

    pub(crate) fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u32, Ordering::SeqCst);
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::SeqCst)
    }

    pub(crate) fn format(&self) -> Format {
        match self.format.load(Ordering::Relaxed) {
            1 => Format::One,
            _ => Format::Two,
        }
    }

    pub(crate) fn set_format(&self, format: Format) {
        let number = match format {
            Format::One => 1,
            Format::Two => 2,
        };
        self.format.store(number, Ordering::Relaxed);
    }

    /// Begins a new life. The incarnation is set before the phase, so that whoever sees the block open sees its new life.
    pub(crate) fn begin(&self, incarnation: u64, phase: Phase) {
        self.set_format(Format::Two);
        self.filled_units.store(0, Ordering::Relaxed);
        self.flushed_units.store(ALL_FLUSHED, Ordering::Relaxed);
        self.set_change_lsns(0, u64::MAX);
        self.incarnation.store(incarnation, Ordering::SeqCst);
        self.set_phase(phase);
    }

    /// The lowest and the highest number that a change in the block may have; (0, `u64::MAX`): not known. The first is above
    /// the last where the block holds none: one that others are emptied into has copies only.
    pub(crate) fn change_lsns(&self) -> (u64, u64) {
        let first = self.first_lsn.load(Ordering::SeqCst);
        (first, self.last_lsn.load(Ordering::SeqCst))
    }

    pub(crate) fn set_change_lsns(&self, first: u64, last: u64) {
        self.first_lsn.store(first, Ordering::SeqCst);
        self.last_lsn.store(last, Ordering::SeqCst);
    }

    /// Notes that the header is lost. The block counts as full, so that it is never emptied and used again: what lies in
    /// it is all there is left.
    pub(crate) fn set_unreadable(&self) {
        self.begin(0, Phase::Closed);
        self.add_live(ENTRY_UNITS_MAX);
    }

    /// Notes how far entries reach when the block is closed, and when that was.
    pub(crate) fn note_closed(&self, filled_units: u32, closed_at: u64) {
        self.filled_units.store(filled_units, Ordering::Relaxed);
        self.closed_at.store(closed_at, Ordering::Relaxed);
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence.load(Ordering::Relaxed)
    }

    pub(crate) fn set_sequence(&self, sequence: u64) {
        self.sequence.store(sequence, Ordering::Relaxed);
    }

    pub(crate) fn closed_at(&self) -> u64 {
        self.closed_at.load(Ordering::Relaxed)
    }

    /// The most that moving the block's entries away can win, in units: all of it, where nothing better is known.
    pub(crate) fn filled_units(&self) -> u32 {
        match self.filled_units.load(Ordering::Relaxed) {
            0 => ENTRY_UNITS_MAX,
            units => units,
        }
    }

    /// Whether the entry that begins at this unit of the block is on the device.
    pub(crate) fn is_flushed(&self, unit: u32) -> bool {
        unit < self.flushed_units.load(Ordering::Acquire)
    }

    /// The address of byte 0 of the block, as far as its end lies in staging memory.
    pub(crate) fn staged_at(&self) -> usize {
        self.staged_at.load(Ordering::Acquire)
    }

    /// From here on the entries from this unit of the block on are in staging memory, where byte 0 would have this address.
    /// Everything below must be on the device.
    pub(crate) fn stage(&self, flushed_units: u32, address: usize) {
        // Readers look at the units last: with an address that is newer than the units they look again.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(incarnation: u64, sequence: u64) -> BlockHeader {
        BlockHeader {
            format: Format::Two,
            index: 3,
            incarnation,
            device_id: 5,
            sequence,
        }
    }

    fn intact(header: BlockHeader) -> HeaderCopy {
        HeaderCopy::Header {
            header,
            intact: true,
        }
    }

    #[test]
    fn a_block_header_is_laid_out_byte_for_byte() {
        let header = BlockHeader {
            format: Format::Two,
            index: 0x0403_0201,
            incarnation: 0x1817_1615_1413_1211,
            device_id: 0x2827_2625_2423_2221,
            sequence: 0x0605_0403_0201,
        };
        let mut expected = b"SPK2\x01\x02\x03\x04".to_vec();
        expected.extend(0x11..=0x18);
        expected.extend(0x21..=0x28);
        expected.extend([1, 2, 3, 4, 5, 6, 0, 0]);
        expected.extend([0; 24]);
        let check = xxh3_64(&expected);
        expected.extend(check.to_le_bytes());
        assert_eq!(header.encode().as_slice(), expected);
    }

    #[test]
    fn a_block_header_comes_back_and_every_flipped_bit_is_undone() {
        let header = header(77, 99);
        let raw = header.encode();
        assert_eq!(HeaderCopy::read(&raw, 5, 3), intact(header));
        for bit in 0..raw.len() * 8 {
            let mut flipped = raw;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let undone = HeaderCopy::Header {
                header,
                intact: false,
            };
            assert_eq!(HeaderCopy::read(&flipped, 5, 3), undone, "bit {bit}");
            flipped[(bit / 8 + 5) % raw.len()] ^= 1;
            let lost = HeaderCopy::read(&flipped, 5, 3);
            assert_eq!(lost, HeaderCopy::Unreadable, "bit {bit} and one");
        }
    }

    #[test]
    fn a_block_header_of_another_device_or_block_is_not_believed() {
        let raw = header(77, 99).encode();
        assert_eq!(HeaderCopy::read(&raw, 9, 3), HeaderCopy::Unreadable);
        assert_eq!(HeaderCopy::read(&raw, 5, 12), HeaderCopy::Unreadable);
    }

    #[test]
    fn headers_of_format_1_are_read() {
        let old = BlockHeader {
            format: Format::One,
            ..header(77, 99)
        };
        assert_eq!(HeaderCopy::read(&old.encode(), 5, 3), intact(old));
    }

    #[test]
    fn a_lost_header_is_told_by_its_mirror() {
        let (blank, lost) = (HeaderCopy::Blank, HeaderCopy::Unreadable);
        let used = |header, intact| BlockUse::Used { header, intact };
        let (old, new, free) = (header(7, 10), header(9, 20), header(0, 15));
        let cases = [
            // own copy, mirror, next block, known to be used, expected
            (intact(new), intact(new), 30, true, used(new, true)),
            (lost, intact(new), 30, true, used(new, false)),
            (blank, intact(new), 30, true, used(new, false)),
            (intact(new), lost, 30, true, used(new, false)),
            (blank, blank, 30, true, BlockUse::Unreadable),
            (blank, blank, 30, false, BlockUse::Free),
            (lost, blank, 0, false, BlockUse::Unreadable),
            // The block fell back to an earlier life, whose successor was durable.
            (intact(old), intact(new), 30, true, used(new, false)),
            (intact(free), intact(new), 30, true, used(new, false)),
            // A power failure took one of two copies that were not durable yet.
            (intact(old), intact(new), 20, true, used(old, true)),
            (intact(new), intact(old), 20, true, used(new, true)),
            (intact(free), intact(old), 15, true, BlockUse::Free),
            (blank, intact(new), 20, false, BlockUse::Free),
        ];
        for (case, (own, mirror, next, known, expected)) in cases.into_iter().enumerate() {
            let judged = BlockUse::judge(own, mirror, next, known, true);
            assert_eq!(judged, expected, "case {case}");
        }
    }

    #[test]
    fn beside_blocks_of_format_1_a_mirror_may_be_missing() {
        let (blank, lost) = (HeaderCopy::Blank, HeaderCopy::Unreadable);
        let used = |header, intact| BlockUse::Used { header, intact };
        let (old, new) = (
            BlockHeader {
                format: Format::One,
                ..header(7, 1000)
            },
            header(9, 20),
        );
        let cases = [
            // own copy, mirror, mirrored, expected
            (intact(new), blank, false, used(new, true)),
            (intact(new), blank, true, used(new, false)),
            (intact(old), blank, false, used(old, true)),
            (intact(old), lost, true, used(old, true)),
            (lost, blank, false, BlockUse::Unreadable),
            // The block fell back to its life of format 1.
            (intact(old), intact(new), true, used(new, false)),
        ];
        for (case, (own, mirror, is_mirrored, expected)) in cases.into_iter().enumerate() {
            let judged = BlockUse::judge(own, mirror, 30, false, is_mirrored);
            assert_eq!(judged, expected, "case {case}");
        }
    }
}
