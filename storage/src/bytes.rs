//! Ranges of bytes that hold by construction, and numbers of variable length (LEB128).

use std::slice::SliceIndex;

use xxhash_rust::xxh3::xxh3_64;

/// Returns `bytes[range]`, which the caller has made sure of: a range outside stops a debug build,
/// and is empty in a release build.
#[inline]
pub(crate) fn slice<R>(bytes: &[u8], range: R) -> &[u8]
where
    R: SliceIndex<[u8], Output = [u8]>,
{
    bytes.get(range).unwrap_or_else(|| {
        debug_assert!(false, "a range outside of {} bytes", bytes.len());
        &[]
    })
}

/// Returns the `N` bytes at `at`, without a copy; both are constants of the layout.
#[inline]
pub(crate) fn chunk<const N: usize>(bytes: &[u8], at: usize) -> &[u8; N] {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.unwrap_or_else(|| {
        debug_assert!(false, "{N} bytes at {at} of {}", bytes.len());
        const { &[0; N] }
    })
}

/// Copies `value` to `at`; both are constants of the layout.
#[inline]
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    match bytes.get_mut(at..at + value.len()) {
        Some(target) => target.copy_from_slice(value),
        None => debug_assert!(false, "{} bytes at {at}", value.len()),
    }
}

/// Returns a copy of the `N` bytes at `at`; both are constants of the layout.
#[inline]
pub(crate) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *chunk(bytes, at)
}

/// Returns seven words and their checksum, as they are stored.
pub(crate) fn seal(words: [u64; 7]) -> [u8; 64] {
    let mut raw = [0; 64];
    let (content, check) = raw.split_at_mut(56);
    for (target, word) in content.as_chunks_mut().0.iter_mut().zip(words) {
        *target = word.to_le_bytes();
    }
    check.copy_from_slice(&xxh3_64(content).to_le_bytes());
    raw
}

/// Returns the words that were sealed, if their checksum holds.
pub(crate) fn unseal(raw: &[u8; 64]) -> Option<[u64; 7]> {
    let (content, check) = raw.split_at(56);
    let word = |at| u64::from_le_bytes(take(content, 8 * at));
    (check == xxh3_64(content).to_le_bytes()).then(|| std::array::from_fn(word))
}

/// Asks the processor for a cache line: a hint, sound for any address.
#[inline]
pub(crate) fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; it changes nothing and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks the processor for all cache lines of a range.
#[inline]
pub(crate) fn prefetch_lines(start: *const u8, bytes: usize) {
    for at in (0..bytes).step_by(64) {
        prefetch(start.wrapping_add(at));
    }
}

/// A number of up to 32 bits in LEB128: one to five bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Varint {
    bytes: [u8; 5],
    len: usize,
}

impl Varint {
    #[inline]
    pub(crate) fn new(value: usize) -> Self {
        if value < 0x80 {
            return Self {
                bytes: [value as u8, 0, 0, 0, 0],
                len: 1,
            };
        }
        Self::of_many(value)
    }

    #[inline(never)]
    fn of_many(value: usize) -> Self {
        let mut bytes = [0u8; 5];
        let mut rest = value as u32;
        let mut len = 0;
        for byte in &mut bytes {
            len += 1;
            *byte = (rest & 0x7f) as u8;
            rest >>= 7;
            if rest == 0 {
                break;
            }
            *byte |= 0x80;
        }
        Self { bytes, len }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        slice(&self.bytes, ..self.len)
    }
}

/// Splits `bytes` into the number they begin with and the rest. `None`: they end within it, or it
/// has more than 32 bits.
pub(crate) fn take_varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut value = 0u32;
    for (at, byte) in bytes.iter().take(5).enumerate() {
        value |= u32::from(byte & 0x7f).checked_shl(7 * at as u32)?;
        if byte & 0x80 == 0 {
            return Some((value as usize, bytes.get(at + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_refuse_what_is_cut() {
        for value in [
            0usize,
            1,
            127,
            128,
            16_383,
            16_384,
            1 << 23,
            u32::MAX as usize,
        ] {
            let varint = Varint::new(value);
            let bytes = varint.bytes();
            assert_eq!(take_varint(bytes), Some((value, &[][..])));
            assert_eq!(take_varint(&bytes[..bytes.len() - 1]), None);
        }
    }
}
