//! Copies bytes into and out of a mapping that other threads may use at the same time.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, Ordering};

use memmap2::MmapRaw;

use super::disk::{DiskPage, ZEROS};
use crate::device::memory::base_of;

/// Returns where `len` bytes of a mapping begin.
fn bytes_at(mapping: &MmapRaw, offset: u64, len: usize) -> NonNull<u8> {
    let end = (offset as usize).checked_add(len);
    assert!(
        end.is_some_and(|end| end <= mapping.len()),
        "bytes {offset}, {len} of them, are beyond the mapping"
    );
    // SAFETY: the range is inside the mapping, as was just asserted.
    unsafe { base_of(mapping).add(offset as usize) }
}

/// Copies bytes out of a mapping. Other threads may be storing into staging memory meanwhile: their
/// bytes are old or new, as those a kernel writes would be.
pub(super) fn load(mapping: &MmapRaw, offset: u64, into: &mut [u8]) {
    let first = bytes_at(mapping, offset, into.len());
    let (words, rest) = into.as_chunks_mut::<8>();
    let done = words.len() * 8;
    for (index, word) in words.iter_mut().enumerate() {
        // SAFETY: inside the range that `bytes_at` has checked. The read is volatile, since stores
        // of other threads may fall into it; no promise is made about bytes of a store that had not
        // ended.
        *word = unsafe {
            let from = first.add(index * 8).cast::<u64>().as_ptr();
            if from.is_aligned() {
                from.read_volatile()
            } else {
                from.read_unaligned()
            }
        }
        .to_ne_bytes();
    }
    for (index, byte) in rest.iter_mut().enumerate() {
        // SAFETY: as above.
        *byte = unsafe { first.add(done + index).read_volatile() };
    }
}

pub(super) fn load_page(mapping: &MmapRaw, offset: u64) -> DiskPage {
    let mut page = ZEROS;
    load(mapping, offset, &mut page);
    page
}

/// Copies bytes into a mapping that no thread reads meanwhile.
pub(super) fn store(mapping: &MmapRaw, offset: u64, bytes: &[u8]) {
    let to = bytes_at(mapping, offset, bytes.len());
    // SAFETY: inside the range that `bytes_at` has checked; `bytes` is no part of the mapping, of
    // of which no thread has a writable slice.
    unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
}

/// Copies bytes into a mapping, from the first that changes on: other threads may be reading the
/// bytes that stay as they were.
pub(super) fn store_changes(mapping: &MmapRaw, offset: u64, bytes: &[u8]) {
    let first = bytes_at(mapping, offset, bytes.len());
    // SAFETY: inside the range that `bytes_at` has checked. Writes hold the lock of the disk, so
    // no thread stores here.
    let present = unsafe { std::slice::from_raw_parts(first.as_ptr(), bytes.len()) };
    let same = present
        .iter()
        .zip(bytes)
        .take_while(|(present, byte)| present == byte)
        .count();
    let (_, changed) = bytes.split_at(same);
    store(mapping, offset + same as u64, changed);
}

pub(super) fn fill_zeros(mapping: &MmapRaw, offset: u64, len: u64) {
    let first = bytes_at(mapping, offset, len as usize);
    // SAFETY: inside the range that `bytes_at` has checked; that no thread reads it is the callers'
    // part.
    unsafe { first.write_bytes(0, len as usize) };
}

/// Changes a byte that others may be reading.
pub(super) fn change_byte(mapping: &MmapRaw, offset: u64, change: impl Fn(u8) -> u8) {
    let byte = bytes_at(mapping, offset, 1).cast::<AtomicU8>();
    // SAFETY: inside the mapping, as `bytes_at` has checked. Readers get the old or the new byte,
    // as they would with damage by hardware.
    let byte = unsafe { byte.as_ref() };
    byte.store(change(byte.load(Ordering::Relaxed)), Ordering::Relaxed);
}
