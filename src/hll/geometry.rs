//! How many registers a sketch has, and how wide they are.

/// Bits of a register that hold a rank.
pub(super) const RANK_BITS: u8 = 6;
/// In front of the registers: flags, index bits, min-hash bits, and the cached count.
pub(super) const HEAD_BYTES: usize = 11;

const MIN_INDEX_BITS: u8 = 4;
const MAX_INDEX_BITS: u8 = 16;
const MIN_MIN_HASH_BITS: u8 = 4;
const MAX_MIN_HASH_BITS: u8 = 51;
/// Both come from the same 64 bits of the hash.
const MAX_COMBINED_BITS: u8 = 64;

/// How many registers a sketch has (2 to the power of its index bits, 4 to 16), and how many bits of each are for the
/// comparison of sketches (none, or 4 to 51).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    index_bits: u8,
    min_hash_bits: u8,
}

/// Whether a sketch may have so many index bits.
pub(super) fn are_index_bits(bits: u8) -> bool {
    (MIN_INDEX_BITS..=MAX_INDEX_BITS).contains(&bits)
}

/// Whether a sketch may have so many min-hash bits.
pub(super) fn are_min_hash_bits(bits: u8) -> bool {
    bits == 0 || (MIN_MIN_HASH_BITS..=MAX_MIN_HASH_BITS).contains(&bits)
}

impl Geometry {
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

    /// How many registers there are.
    pub(super) const fn registers(self) -> usize {
        1 << self.index_bits
    }

    /// Bits of a register, 6 to 57.
    pub(super) const fn width(self) -> usize {
        (RANK_BITS + self.min_hash_bits) as usize
    }

    /// Bytes of a sketch, head included.
    pub(super) const fn encoded_len(self) -> usize {
        HEAD_BYTES + (self.width() * self.registers()).div_ceil(8)
    }

    /// The greatest geometry to which two sketches can be folded.
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
