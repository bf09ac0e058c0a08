//! The binary form of sketches.
//!
//! ```text
//! 0   flags, 0
//! 1   index bits: there are 2^(index bits) registers
//! 2   min-hash bits
//! 3   the count as last estimated, 8 bytes little-endian; 0: unknown
//! 11  registers of 6 + (min-hash bits) bits, packed, first bit first: rank, then min-hash
//! ```
//!
//! The hash of an element has two halves of 64 bits. The low bits of the first half select the
//! register, the next ones are the min-hash; the rank is 1 plus the number of zeros at the low end
//! of the second half. A register keeps the greatest value, so a union takes the greater of each
//! two registers, and folding to fewer registers unites the halves.

use super::geometry::{HEAD_BYTES, RANK_BITS, SketchGeometry};
use super::murmur3::murmur3;
use crate::bits::{load_bits, store_bits};
use crate::value::CodecError;

const FLAGS: usize = 0;
const INDEX_BITS: usize = 1;
const MIN_HASH_BITS: usize = 2;
const CACHED_COUNT: std::ops::Range<usize> = 3..HEAD_BYTES;

/// The greatest rank that fits in its bits.
pub(super) const MAX_RANK: u8 = (1 << RANK_BITS) - 1;

/// A sketch with a checked head and length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sketch<'a> {
    geometry: SketchGeometry,
    bytes: &'a [u8],
}

/// A sketch under construction.
#[derive(Clone, Debug)]
pub(super) struct SketchBuffer {
    geometry: SketchGeometry,
    bytes: Vec<u8>,
}

/// An element's contribution: its register and the value there.
struct RegisterMark {
    register: usize,
    value: u64,
}

impl RegisterMark {
    fn of(element: &[u8], geometry: SketchGeometry) -> Self {
        let [first, second] = murmur3(element);
        let min_hash_bits = geometry.min_hash_bits();
        let min_hash = (first >> geometry.index_bits()) & !(u64::MAX << min_hash_bits);
        let rank = (second.trailing_zeros() + 1).min(u32::from(MAX_RANK));
        Self {
            register: first as usize & (geometry.registers() - 1),
            value: (u64::from(rank) << min_hash_bits) | min_hash,
        }
    }
}

impl<'a> Sketch<'a> {
    /// Parses a sketch. O(1).
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, CodecError> {
        let geometry = match bytes {
            [0, index_bits, min_hash_bits, ..] => SketchGeometry::new(*index_bits, *min_hash_bits),
            _ => None,
        };
        geometry
            .filter(|geometry| geometry.encoded_len() == bytes.len())
            .map(|geometry| Self { geometry, bytes })
            .ok_or(CodecError::Scalar {
                what: "HyperLogLog sketch",
                len: bytes.len(),
            })
    }

    pub(super) const fn geometry(&self) -> SketchGeometry {
        self.geometry
    }

    /// Returns the last estimate, if nothing was added since.
    pub(super) fn cached_count(&self) -> Option<u64> {
        let bytes = self.bytes.get(CACHED_COUNT)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes)).filter(|count| *count != 0)
    }

    /// Returns the value of a register.
    pub(super) fn register(&self, at: usize) -> u64 {
        let width = self.geometry.width();
        load_bits(self.bytes, HEAD_BYTES * 8 + at * width, width)
    }

    /// Iterates over the values of all registers.
    pub(super) fn registers(self) -> impl Iterator<Item = u64> + use<'a> {
        (0..self.geometry.registers()).map(move |at| self.register(at))
    }

    /// Iterates over the ranks in the registers; 0 in unused ones.
    pub(super) fn ranks(self) -> impl Iterator<Item = u8> + use<'a> {
        let min_hash_bits = self.geometry.min_hash_bits();
        self.registers()
            .map(move |value| (value >> min_hash_bits) as u8)
    }

    /// Returns `false` if the element was certainly never added.
    pub(super) fn may_contain(&self, element: &[u8]) -> bool {
        let mark = RegisterMark::of(element, self.geometry);
        self.register(mark.register) >= mark.value
    }

    /// Copies the sketch for changing it.
    pub(super) fn to_buffer(self) -> SketchBuffer {
        SketchBuffer {
            geometry: self.geometry,
            bytes: self.bytes.to_vec(),
        }
    }
}

impl SketchBuffer {
    /// Makes an empty sketch.
    pub(super) fn empty(geometry: SketchGeometry) -> Self {
        let mut bytes = vec![0; geometry.encoded_len()];
        let head = [
            (FLAGS, 0),
            (INDEX_BITS, geometry.index_bits()),
            (MIN_HASH_BITS, geometry.min_hash_bits()),
        ];
        for (at, byte) in head {
            if let Some(to) = bytes.get_mut(at) {
                *to = byte;
            }
        }
        Self { geometry, bytes }
    }

    /// Unites sketches, folded to a geometry that suits all of them: its min-hash bits are 0, or
    /// the same as of each sketch.
    pub(super) fn union<'s>(
        geometry: SketchGeometry,
        sketches: impl IntoIterator<Item = Sketch<'s>>,
    ) -> Self {
        let mut union = Self::empty(geometry);
        for sketch in sketches {
            let dropped = sketch.geometry.min_hash_bits() - geometry.min_hash_bits();
            for (at, value) in sketch.registers().enumerate() {
                union.raise(at & (geometry.registers() - 1), value >> dropped);
            }
        }
        union
    }

    /// Adds an encoded element. Returns whether the sketch changed.
    pub(super) fn add(&mut self, element: &[u8]) -> bool {
        let mark = RegisterMark::of(element, self.geometry);
        let raised = self.raise(mark.register, mark.value);
        if raised {
            self.set_cached_count(0);
        }
        raised
    }

    fn raise(&mut self, at: usize, value: u64) -> bool {
        let lower = self.as_sketch().register(at) < value;
        if lower {
            let width = self.geometry.width();
            store_bits(&mut self.bytes, HEAD_BYTES * 8 + at * width, width, value);
        }
        lower
    }

    /// Caches an estimate.
    pub(super) fn set_cached_count(&mut self, count: u64) {
        if let Some(to) = self.bytes.get_mut(CACHED_COUNT) {
            to.copy_from_slice(&count.to_le_bytes());
        }
    }

    pub(super) fn as_sketch(&self) -> Sketch<'_> {
        Sketch {
            geometry: self.geometry,
            bytes: &self.bytes,
        }
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
