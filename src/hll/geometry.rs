//! The geometry of a sketch: the number and the width of its registers.

/// Bits of a register that hold a rank.
pub(super) const RANK_BITS: u8 = 6;
/// Bytes before the registers: flags, index bits, min-hash bits, and the cached count.
pub(super) const HEAD_BYTES: usize = 11;

const MIN_INDEX_BITS: u8 = 4;
const MAX_INDEX_BITS: u8 = 16;
const MIN_MIN_HASH_BITS: u8 = 4;
const MAX_MIN_HASH_BITS: u8 = 51;
/// Both come from the same 64 bits of the hash.
const MAX_COMBINED_BITS: u8 = 64;

/// The numbers of index bits (4 to 16: a sketch has 2 to their power registers) and of min-hash
/// bits (none, or 4 to 51: a part of each register for comparing sketches).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SketchGeometry {
    index_bits: u8,
    min_hash_bits: u8,
}

/// Returns whether a sketch may have this number of index bits.
pub(super) fn are_index_bits(bits: u8) -> bool {
    (MIN_INDEX_BITS..=MAX_INDEX_BITS).contains(&bits)
}

/// Returns whether a sketch may have this number of min-hash bits.
pub(super) fn are_min_hash_bits(bits: u8) -> bool {
    bits == 0 || (MIN_MIN_HASH_BITS..=MAX_MIN_HASH_BITS).contains(&bits)
}

impl SketchGeometry {
    pub(super) fn new(index_bits: u8, min_hash_bits: u8) -> Option<Self> {
        let valid = are_index_bits(index_bits)
            && are_min_hash_bits(min_hash_bits)
            && index_bits + min_hash_bits <= MAX_COMBINED_BITS;
        valid.then_some(Self {
            index_bits,
            min_hash_bits,
        })
    }

    pub(super) const fn index_bits(self) -> u8 {
        self.index_bits
    }

    pub(super) const fn min_hash_bits(self) -> u8 {
        self.min_hash_bits
    }

    /// Returns the number of registers.
    pub(super) const fn registers(self) -> usize {
        1 << self.index_bits
    }

    /// Returns the bits of a register, 6 to 57.
    pub(super) const fn width(self) -> usize {
        (RANK_BITS + self.min_hash_bits) as usize
    }

    /// Returns the bytes of a sketch, head included.
    pub(super) const fn encoded_len(self) -> usize {
        HEAD_BYTES + (self.width() * self.registers()).div_ceil(8)
    }

    /// Returns the greatest geometry to which two sketches can be folded.
    pub(super) fn common(self, other: Self) -> Self {
        Self {
            index_bits: self.index_bits.min(other.index_bits),
            min_hash_bits: if self.min_hash_bits == other.min_hash_bits {
                self.min_hash_bits
            } else {
                0
            },
        }
    }
}
