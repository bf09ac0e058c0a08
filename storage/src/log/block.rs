//! Blocks: 8 MiB of a device, append-only within one life (incarnation), self-describing.
//!
//! ```text
//!  0 [4]  "SPKB"
//!  4 u32  number of the block in its device
//!  8 u64  incarnation; 0 = free
//! 16 u64  device id
//! 24 u64  log sequence number when it was opened
//! 32 [24] zero
//! 56 u64  xxh3_64 of bytes 0..56
//! 64      entries
//! ```

use crate::device::{BLOCK_BYTES, HEADER_BYTES};
use crate::location::UNIT_BYTES;
use crate::log::bit_repair::before_one_flip;
use crate::log::entry::Lsn;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

/// Where the first entry of a block lies.
pub(crate) const BLOCK_HEADER_BYTES: u64 = 64;

/// The most that one entry can span.
pub(crate) const ENTRY_UNITS_MAX: u32 = ((BLOCK_BYTES - BLOCK_HEADER_BYTES) / UNIT_BYTES) as u32;

const MAGIC: [u8; 4] = *b"SPKB";

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
    pub(crate) index: u32,
    pub(crate) incarnation: u64,
    pub(crate) device_id: u64,
    pub(crate) opened: Lsn,
}

pub(crate) type RawBlockHeader = [u8; BLOCK_HEADER_BYTES as usize];

impl BlockHeader {
    pub(crate) fn encode(&self) -> RawBlockHeader {
        let mut raw = [0u8; BLOCK_HEADER_BYTES as usize];
        let fields = [
            u64::from_le_bytes(magic_and(self.index)),
            self.incarnation,
            self.device_id,
            self.opened.0,
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
        let header = Self {
            index,
            incarnation: {
                words
                    .next()
                    .filter(|word| word.to_le_bytes() == magic_and(index))?;
                words.next()?
            },
            device_id: words.next()?,
            opened: Lsn(words.next()?),
        };
        (check == xxh3_64(content).to_le_bytes() && header.device_id == device_id).then_some(header)
    }
}

/// What the place of a block header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockUse {
    /// The block was never used, or was given back.
    Free,
    /// Entries of this life lie in it. `intact`: as it was written; otherwise one flipped bit was undone.
    Used { header: BlockHeader, intact: bool },
    /// A header lay here that cannot be made out any more, and with it the life that the entries belong to.
    Unreadable,
}

impl BlockUse {
    /// Reads the header of block `index` of a device; a single flipped bit costs nothing.
    pub(crate) fn read(raw: &RawBlockHeader, device_id: u64, index: u32) -> Self {
        let judge = |raw: &RawBlockHeader, intact| {
            if raw.iter().all(|byte| *byte == 0) {
                return Some(Self::Free);
            }
            let header = BlockHeader::decode(raw, device_id, index)?;
            Some(if header.incarnation == 0 {
                Self::Free
            } else {
                Self::Used { header, intact }
            })
        };
        judge(raw, true)
            .or_else(|| before_one_flip(raw, |trial| judge(trial, false)))
            .unwrap_or(Self::Unreadable)
    }
}

const fn magic_and(index: u32) -> [u8; 8] {
    let [a, b, c, d] = MAGIC;
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
    /// Full; its dead entries may be recycled.
    Closed = 2,
    /// Defragmentation empties it; nothing new may be placed in it.
    Draining = 3,
}

/// The state of one block in memory.
#[derive(Debug, Default)]
pub(crate) struct BlockState {
    phase: AtomicU32,
    /// 16-byte units of live entries and of reservations under way.
    live_units: AtomicU32,
    incarnation: AtomicU64,
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

    /// Begins a new life. The incarnation is set before the phase, so that whoever sees the block open sees its new life.
    pub(crate) fn begin(&self, incarnation: u64, phase: Phase) {
        self.incarnation.store(incarnation, Ordering::SeqCst);
        self.set_phase(phase);
    }

    /// The header is lost. The block counts as full, so that it is never emptied and used again: what lies in it is all
    /// there is left.
    pub(crate) fn set_unreadable(&self) {
        self.begin(0, Phase::Closed);
        self.add_live(ENTRY_UNITS_MAX);
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

    /// Claims space for a recycled slot. Counted first, checked second: defragmentation marks the block first and looks at
    /// the count second, so one of the two always sees the other.
    pub(crate) fn claim(&self, units: u32, incarnation: u64) -> bool {
        self.add_live(units);
        let usable = matches!(self.phase(), Phase::Open | Phase::Closed)
            && self.incarnation() == incarnation;
        if !usable {
            self.sub_live(units);
        }
        usable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_header_is_laid_out_byte_for_byte() {
        let header = BlockHeader {
            index: 0x0403_0201,
            incarnation: 0x1817_1615_1413_1211,
            device_id: 0x2827_2625_2423_2221,
            opened: Lsn(0x0605_0403_0201),
        };
        let mut expected = b"SPKB\x01\x02\x03\x04".to_vec();
        expected.extend(0x11..=0x18);
        expected.extend(0x21..=0x28);
        expected.extend([1, 2, 3, 4, 5, 6, 0, 0]);
        expected.extend([0; 24]);
        expected.extend(VECTOR_CHECKSUM.to_le_bytes());
        assert_eq!(header.encode().as_slice(), expected);
    }

    const VECTOR_CHECKSUM: u64 = 0x0193_a0bf_f430_4338;

    #[test]
    fn a_block_header_comes_back_and_every_flipped_bit_is_undone() {
        let header = BlockHeader {
            index: 3,
            incarnation: 77,
            device_id: 5,
            opened: Lsn(99),
        };
        let raw = header.encode();
        assert_eq!(
            BlockUse::read(&raw, 5, 3),
            BlockUse::Used {
                header,
                intact: true
            }
        );
        for bit in 0..raw.len() * 8 {
            let mut flipped = raw;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let undone = BlockUse::Used {
                header,
                intact: false,
            };
            assert_eq!(BlockUse::read(&flipped, 5, 3), undone, "bit {bit}");
            flipped[(bit / 8 + 5) % raw.len()] ^= 1;
            assert_eq!(
                BlockUse::read(&flipped, 5, 3),
                BlockUse::Unreadable,
                "bit {bit} and one"
            );
        }
    }

    #[test]
    fn a_block_header_of_another_device_or_place_is_not_believed() {
        let raw = BlockHeader {
            index: 3,
            incarnation: 77,
            device_id: 5,
            opened: Lsn(99),
        }
        .encode();
        assert_eq!(BlockUse::read(&raw, 9, 3), BlockUse::Unreadable);
        assert_eq!(BlockUse::read(&raw, 5, 12), BlockUse::Unreadable);
    }

    #[test]
    fn a_free_block_stays_free_under_every_flipped_bit() {
        let given_back = BlockHeader {
            index: 3,
            incarnation: 0,
            device_id: 5,
            opened: Lsn(0),
        }
        .encode();
        for raw in [given_back, [0; BLOCK_HEADER_BYTES as usize]] {
            assert_eq!(BlockUse::read(&raw, 5, 3), BlockUse::Free);
            for bit in 0..raw.len() * 8 {
                let mut flipped = raw;
                flipped[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(BlockUse::read(&flipped, 5, 3), BlockUse::Free, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_slot_of_an_earlier_life_cannot_be_claimed() {
        let block = BlockState::default();
        block.begin(1, Phase::Open);
        assert!(block.claim(4, 1));
        block.set_phase(Phase::Draining);
        assert!(!block.claim(4, 1));
        block.begin(2, Phase::Open);
        assert!(!block.claim(4, 1));
        assert_eq!(block.live_units(), 4);
    }
}
