//! Access to the bits of a blob, 64 at a time.

use std::borrow::Cow;

/// A range of bits inside a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BitWindow {
    pub(super) offset: usize,
    /// More than 0.
    pub(super) size: usize,
}

impl BitWindow {
    /// Splits the window, front to back, into pieces of up to 64 bits: position in the window and
    /// number of bits. All but the first begin at a byte of the blob, so most are eight whole
    /// bytes.
    fn pieces(self) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        let first = self.size.min(64 - self.offset % 8);
        let others = (self.size - first).div_ceil(64);
        std::iter::once((0, first)).chain((0..others).map(move |piece| {
            let at = first + piece * 64;
            (at, (self.size - at).min(64))
        }))
    }
}

/// Returns the bytes from the one with bit `at` on, as the front of a 128-bit word; missing bytes
/// read as 0.
fn word(bytes: &[u8], at: usize) -> u128 {
    let rest = bytes.get(at / 8..).unwrap_or_default();
    let mut word = [0; 16];
    match rest.first_chunk() {
        Some(chunk) => word = *chunk,
        None => word.iter_mut().zip(rest).for_each(|(to, from)| *to = *from),
    }
    u128::from_be_bytes(word)
}

/// Returns a word with the lowest `bits` bits set. `bits` is 1 to 64.
fn mask(bits: usize) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Returns `bits` bits, 1 to 64, from position `at` on, in the low end of a word.
#[inline]
pub(crate) fn load(bytes: &[u8], at: usize, bits: usize) -> u64 {
    if bits == 64
        && at.is_multiple_of(8)
        && let Some(whole) = bytes.get(at / 8..).and_then(|rest| rest.first_chunk())
    {
        return u64::from_be_bytes(*whole);
    }
    (word(bytes, at) >> (128 - at % 8 - bits)) as u64 & mask(bits)
}

/// Overwrites `bits` bits from position `at` on, 1 to 64, with the low end of `value`.
#[inline]
pub(crate) fn store(bytes: &mut [u8], at: usize, bits: usize, value: u64) {
    if bits == 64
        && at.is_multiple_of(8)
        && let Some(whole) = bytes
            .get_mut(at / 8..)
            .and_then(|rest| rest.first_chunk_mut())
    {
        *whole = value.to_be_bytes();
        return;
    }
    let shift = 128 - at % 8 - bits;
    let mask = mask(bits);
    let new =
        (word(bytes, at) & !(u128::from(mask) << shift)) | (u128::from(value & mask) << shift);
    let touched = (at % 8 + bits).div_ceil(8);
    let target = bytes.get_mut(at / 8..).unwrap_or_default();
    for (to, from) in target.iter_mut().zip(new.to_be_bytes()).take(touched) {
        *to = from;
    }
}

/// Copies the bits of the window to the front of a new blob; the rest of its last byte is 0.
pub(super) fn get(blob: &[u8], window: BitWindow) -> Cow<'_, [u8]> {
    if window.offset.is_multiple_of(8) && window.size.is_multiple_of(8) {
        let start = window.offset / 8;
        return Cow::Borrowed(blob.get(start..start + window.size / 8).unwrap_or_default());
    }
    let mut out = vec![0; window.size.div_ceil(8)];
    let target = BitWindow {
        offset: 0,
        size: window.size,
    };
    for (at, bits) in target.pieces() {
        store(&mut out, at, bits, load(blob, window.offset + at, bits));
    }
    Cow::Owned(out)
}

/// Counts the bits that are 1.
pub(super) fn count(blob: &[u8], window: BitWindow) -> i64 {
    window
        .pieces()
        .map(|(at, bits)| i64::from(load(blob, window.offset + at, bits).count_ones()))
        .sum()
}

/// Returns the bits of a piece that equal `bit`, as ones.
fn equal_to(piece: u64, bits: usize, bit: bool) -> u64 {
    if bit { piece } else { !piece & mask(bits) }
}

/// Returns the position in the window of its first bit equal to `bit`; -1 if there is none.
pub(super) fn left_scan(blob: &[u8], window: BitWindow, bit: bool) -> i64 {
    window
        .pieces()
        .find_map(|(at, bits)| {
            let found = equal_to(load(blob, window.offset + at, bits), bits, bit);
            (found != 0).then(|| (at + bits - 1 - found.ilog2() as usize) as i64)
        })
        .unwrap_or(-1)
}

/// Returns the position in the window of its last bit equal to `bit`; -1 if there is none.
pub(super) fn right_scan(blob: &[u8], window: BitWindow, bit: bool) -> i64 {
    window
        .pieces()
        .rev()
        .find_map(|(at, bits)| {
            let found = equal_to(load(blob, window.offset + at, bits), bits, bit);
            (found != 0).then(|| (at + bits - 1 - found.trailing_zeros() as usize) as i64)
        })
        .unwrap_or(-1)
}

/// Replaces the bits of the window by `combine(old bits, bits of bytes)`.
pub(super) fn combine(
    out: &mut [u8],
    window: BitWindow,
    bytes: &[u8],
    combine: impl Fn(u64, u64) -> u64,
) {
    for (at, bits) in window.pieces() {
        let position = window.offset + at;
        let new = combine(load(out, position, bits), load(bytes, at, bits));
        store(out, position, bits, new);
    }
}

/// Inverts the bits of the window.
pub(super) fn negate(out: &mut [u8], window: BitWindow) {
    for (at, bits) in window.pieces() {
        let position = window.offset + at;
        store(out, position, bits, !load(out, position, bits));
    }
}

/// Moves the bits of the window of `blob` towards its front, filling with 0.
pub(super) fn left_shift(out: &mut [u8], blob: &[u8], window: BitWindow, by: usize) {
    for (at, bits) in window.pieces() {
        let left = window.size.saturating_sub(at + by).min(bits);
        let piece = match left {
            0 => 0,
            left => load(blob, window.offset + at + by, left) << (bits - left),
        };
        store(out, window.offset + at, bits, piece);
    }
}

/// Moves the bits of the window of `blob` towards its end, filling with 0.
pub(super) fn right_shift(out: &mut [u8], blob: &[u8], window: BitWindow, by: usize) {
    for (at, bits) in window.pieces() {
        let left = (at + bits).saturating_sub(by).min(bits);
        let piece = match left {
            0 => 0,
            left => load(blob, window.offset + at + bits - left - by, left),
        };
        store(out, window.offset + at, bits, piece);
    }
}
