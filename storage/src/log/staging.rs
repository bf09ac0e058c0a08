//! Staging memory: it has entries until their block has them.
//!
//! Each lane has a buffer in memory that outlives the process (a shared mapping of a file beside
//! the device). Entries are stored there before they are published, so a killed process loses
//! nothing; a full buffer goes to its block by one write. `docs/format.md` has the layout.
//!
//! **Which copy counts?** The block's, always; behind its last entry, the buffer that continues it
//! without a gap. Every entry's check is seeded with device, incarnation and offset, and an offset
//! is written once in each life of a block: bytes of an earlier tenancy never pass for entries of
//! this one, in any state of the file after a power failure.

use crate::bytes::{seal, unseal};
use crate::device::{
    BLOCK_BYTES, Device, DeviceError, NUMBER_MAX, STAGING_BYTES, STAGING_LANE_BYTES,
    STAGING_LANES_MAX,
};
use crate::sync::atomic::{Ordering, fence};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A page of the file system.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Where a lane's buffer begins.
const BUFFER_AT: u64 = 4096;
/// The size of a buffer at first: what a small store pays for each lane in use.
pub(crate) const BUFFER_BYTES_MIN: u64 = 64 << 10;
/// The size of a buffer under load.
pub(crate) const BUFFER_BYTES_MAX: u64 = STAGING_LANE_BYTES - BUFFER_AT;

const TENANCY_BYTES: usize = 64;
const COPY_AT: [u64; 2] = [0, 512];
const MAGIC: u32 = u32::from_le_bytes(*b"SPKT");

/// The block of the entries in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tenancy {
    /// Rises with each tenancy of the lane.
    pub(crate) number: u64,
    /// The block: device and number.
    pub(crate) block: (usize, u32),
    pub(crate) device_id: u64,
    pub(crate) incarnation: u64,
    /// Where in the block the buffer's first byte belongs.
    pub(crate) start: u64,
}

impl Tenancy {
    fn encode(&self) -> [u8; TENANCY_BYTES] {
        seal([
            u64::from(MAGIC) | ((self.block.0 as u64) << 32),
            self.number,
            u64::from(self.block.1),
            self.incarnation,
            self.start,
            self.device_id,
            0,
        ])
    }

    fn decode(raw: &[u8; TENANCY_BYTES]) -> Option<Self> {
        let [
            magic_device,
            number,
            index,
            incarnation,
            start,
            device_id,
            _,
        ] = unseal(raw)?;
        // A right checksum is no promise: the offsets and the next number are computed from these.
        let is_possible = number <= NUMBER_MAX && start <= BLOCK_BYTES;
        (is_possible && magic_device as u32 == MAGIC).then_some(Self {
            number,
            block: ((magic_device >> 32) as usize, u32::try_from(index).ok()?),
            device_id,
            incarnation,
            start,
        })
    }
}

/// The staging memory of a namespace: that of its first device.
#[derive(Debug)]
pub(crate) struct NamespaceStaging {
    device: Arc<dyn Device>,
    base: NonNull<u8>,
}

// SAFETY: `base` points into memory that the device owns, which may be used from any thread; words
// are stored and loaded atomically, and each buffer is stored to under its lane's lock alone.
unsafe impl Send for NamespaceStaging {}
// SAFETY: as above.
unsafe impl Sync for NamespaceStaging {}

impl NamespaceStaging {
    /// `None`: the device has no such memory, and every entry is written to its block at once.
    pub(crate) fn of(device: &Arc<dyn Device>) -> Option<Self> {
        Some(Self {
            base: device.staging()?,
            device: Arc::clone(device),
        })
    }

    /// Puts disk space behind the first `bytes` of a lane's buffer, and behind its tenancies.
    pub(crate) fn reserve(&self, lane: usize, bytes: u64) -> Result<(), DeviceError> {
        self.device
            .reserve_staging(lane as u64 * STAGING_LANE_BYTES, BUFFER_AT + bytes)
    }

    /// The address of the first byte of a lane's buffer.
    pub(crate) fn address(&self, lane: usize) -> usize {
        self.base.as_ptr().addr() + (lane as u64 * STAGING_LANE_BYTES + BUFFER_AT) as usize
    }

    fn words(&self, offset: u64, count: usize) -> Option<&[AtomicU64]> {
        let end = offset.checked_add(8 * count as u64)?;
        if end > STAGING_BYTES || !offset.is_multiple_of(8) {
            return None;
        }
        // SAFETY: inside the staging memory (above), aligned, and accessed by atomic words alone
        // while the namespace runs.
        Some(unsafe {
            let first = self.base.as_ptr().add(offset as usize).cast::<AtomicU64>();
            std::slice::from_raw_parts(first, count)
        })
    }

    /// Notes the block of the entries that the lane's buffer will have. The other copy keeps the
    /// tenancy before.
    pub(crate) fn begin(&self, lane: usize, tenancy: &Tenancy) {
        // Not over the newest copy: a kill in the middle of these stores leaves that one.
        let at = if tenancy.number.is_multiple_of(2) {
            COPY_AT[0]
        } else {
            COPY_AT[1]
        };
        let offset = lane as u64 * STAGING_LANE_BYTES + at;
        self.put(offset, tenancy.encode().as_chunks().0);
        // Readers that see a store from here on see, too, that the tenancy before has ended.
        fence(Ordering::Release);
    }

    /// Stores an entry at an offset of the lane's buffer. The caller holds the lane and has looked
    /// at its size.
    pub(crate) fn store(&self, lane: usize, at: u64, entry: &[[u8; 8]]) {
        debug_assert!(at + 8 * entry.len() as u64 <= BUFFER_BYTES_MAX);
        let offset = lane as u64 * STAGING_LANE_BYTES + BUFFER_AT + at;
        self.put(offset, entry);
    }

    #[inline(always)]
    fn put(&self, offset: u64, words: &[[u8; 8]]) {
        if let Some(targets) = self.words(offset, words.len()) {
            for (target, word) in targets.iter().zip(words) {
                target.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            }
        }
    }

    /// A range of the lane's buffer. The caller holds the lane, so no other thread stores there.
    pub(crate) fn bytes(&self, lane: usize, from: u64, to: u64) -> &[u8] {
        let to = to.min(BUFFER_BYTES_MAX);
        let from = from.min(to);
        let offset = lane as u64 * STAGING_LANE_BYTES + BUFFER_AT + from;
        // SAFETY: inside the lane's buffer (above), which is stored to under the lane's lock alone;
        // the caller holds it.
        unsafe {
            let first = self.base.as_ptr().add(offset as usize);
            std::slice::from_raw_parts(first, (to - from) as usize)
        }
    }

    /// As much of a range of a lane's buffer as was ever filled, for recovery.
    pub(crate) fn filled_bytes(&self, lane: usize, from: u64, to: u64) -> &[u8] {
        let buffer = lane as u64 * STAGING_LANE_BYTES + BUFFER_AT;
        let first = from / PAGE_BYTES * PAGE_BYTES;
        let mut pages = (first..to.min(BUFFER_BYTES_MAX)).step_by(PAGE_BYTES as usize);
        let hole = pages.find(|at| !self.device.may_be_staged(buffer + at, PAGE_BYTES));
        self.bytes(lane, from, hole.unwrap_or(to))
    }

    /// Loads words from an address inside the staging memory, which may be stored to at the same
    /// time: the caller finds out afterwards whether they are what it wanted. False: the address is
    /// not inside.
    pub(crate) fn load(&self, address: usize, into: &mut [[u8; 8]]) -> bool {
        let Some(offset) = address.checked_sub(self.base.as_ptr().addr()) else {
            return false;
        };
        let Some(words) = self.words(offset as u64, into.len()) else {
            return false;
        };
        // The words are no steps of the model; the lane may go on before them, and between header
        // and body.
        #[cfg(shuttle)]
        crate::sync::thread::yield_now();
        for (target, word) in into.iter_mut().zip(words) {
            *target = word.load(Ordering::Relaxed).to_ne_bytes();
        }
        true
    }

    /// The newest tenancy of every lane, for recovery: lane, tenancy.
    pub(crate) fn tenancies(&self) -> Vec<(usize, Tenancy)> {
        let newest = |lane: usize| {
            let lane_at = lane as u64 * STAGING_LANE_BYTES;
            let copies = COPY_AT.iter().filter_map(|at| {
                let at = lane_at + at;
                if !self.device.may_be_staged(at, TENANCY_BYTES as u64) {
                    return None;
                }
                let mut copy = [[0; 8]; TENANCY_BYTES / 8];
                self.load(self.base.as_ptr().addr() + at as usize, &mut copy);
                Tenancy::decode(copy.as_flattened().first_chunk()?)
            });
            copies.max_by_key(|tenancy| tenancy.number)
        };
        (0..STAGING_LANES_MAX)
            .filter_map(|lane| Some((lane, newest(lane)?)))
            .collect()
    }
}
