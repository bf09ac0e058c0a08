//! A disk for tests: it loses power, tears, damages and fails on demand, always the same way for the same seed.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use memmap2::MmapRaw;
use parking_lot::Mutex;

use super::header::write_header;
use super::memory::{base_of, check_maximum, map_anonymous};
use super::{Device, DeviceError, FullCause, HEADER_BYTES, Header};

/// What a disk writes whole or not at all.
pub const SECTOR_BYTES: u64 = 512;

const SECTOR_LEN: usize = SECTOR_BYTES as usize;
type Sector = [u8; SECTOR_LEN];
const ZEROS: Sector = [0; SECTOR_LEN];

/// A device in memory with the disk behind it: what a power failure would leave is known at every moment.
///
/// Stores go to the memory. [`sync`](Device::sync) copies it to the disk; [`writeback`](Self::writeback) copies a part,
/// as a kernel does on its own and in any order. [`crash`](Self::crash) and [`kill`](Self::kill) make the device that
/// is found after a power failure or after the end of the process; the device itself goes on unchanged, so one run
/// can be crashed in many ways. Damage ([`flip_bit`](Self::flip_bit), [`zero`](Self::zero),
/// [`truncate`](Self::truncate)) and failures ([`fail_sync`](Self::fail_sync),
/// [`set_space_bytes`](Self::set_space_bytes)) are asked for by the test.
///
/// All of it may be called while other threads store. A sync reads all of the memory: tests keep devices small.
pub struct SimulatedDevice {
    memory: MmapRaw,
    max_bytes: u64,
    len_bytes: AtomicU64,
    disk: Mutex<Disk>,
}

/// The stable side of the device.
#[derive(Clone)]
struct Disk {
    /// What is on it; sectors that it lacks are zero.
    sectors: Vec<Sector>,
    /// The length that survives a power failure for certain.
    len_bytes: u64,
    /// The lengths grown to since, each of which may survive.
    grown_bytes: Vec<u64>,
    /// Sectors that a failed sync gave up, as they were: the kernel takes them for written until they change again.
    given_up: HashMap<usize, Sector>,
    /// The most it has room for.
    space_bytes: u64,
    /// How many syncs from now one fails, and the seed of what it still writes.
    failure: Option<(u64, u64)>,
    syncs: u64,
    synced_bytes: u64,
}

impl SimulatedDevice {
    /// A new device with this header, [`HEADER_BYTES`] long and synced.
    ///
    /// # Errors
    /// [`DeviceError::BadOption`] for a header that cannot be, [`DeviceError::Io`] if the system has not that much
    /// address space.
    pub fn new(header: &Header) -> Result<Self, DeviceError> {
        header.validate("simulated")?;
        let disk = Disk {
            sectors: Vec::new(),
            len_bytes: HEADER_BYTES,
            grown_bytes: Vec::new(),
            given_up: HashMap::new(),
            space_bytes: header.max_bytes,
            failure: None,
            syncs: 0,
            synced_bytes: 0,
        };
        let device = Self::with_disk(disk, header.max_bytes, HEADER_BYTES)?;
        write_header(&device, header)?;
        device.sync()?;
        device.disk.lock().forget_counts();
        Ok(device)
    }

    fn with_disk(disk: Disk, max_bytes: u64, len_bytes: u64) -> Result<Self, DeviceError> {
        let memory = map_anonymous(max_bytes)
            .map_err(DeviceError::io("simulated", "reserve address space for"))?;
        let len_bytes = AtomicU64::new(len_bytes);
        Ok(Self {
            memory,
            max_bytes,
            len_bytes,
            disk: Mutex::new(disk),
        })
    }

    /// Writes some of the changed sectors to the disk, each or not as the seed has it.
    pub fn writeback(&self, seed: u64) {
        let mut disk = self.disk.lock();
        let mut coin = Coin::new(seed);
        for (index, sector) in self.dirty(&disk) {
            if coin.toss() {
                disk.write(index, sector);
            }
        }
    }

    /// What a power failure at this moment leaves: the disk, but each changed sector may or may not have been written
    /// just before, and each growth since the last sync may have been lost; what lies beyond is then zero.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if the system has not the address space.
    pub fn crash(&self, seed: u64) -> Result<Self, DeviceError> {
        let mut coin = Coin::new(seed);
        let mut disk = self.disk.lock().clone();
        for (index, sector) in self.dirty(&disk) {
            if coin.toss() {
                disk.write(index, sector);
            }
        }
        let survived = coin.below(disk.grown_bytes.len() as u64 + 1) as usize;
        if let Some(len_bytes) = disk.grown_bytes.iter().take(survived).next_back() {
            disk.len_bytes = *len_bytes;
        }
        disk.grown_bytes.clear();
        disk.given_up.clear();
        disk.failure = None;
        disk.forget_counts();
        disk.cut();
        let len_bytes = disk.len_bytes;
        let found = Self::with_disk(disk, self.max_bytes, len_bytes)?;
        for (index, sector) in found.disk.lock().sectors.iter().enumerate() {
            if *sector != ZEROS {
                found.store(index, sector);
            }
        }
        Ok(found)
    }

    /// What the end of the process alone leaves: the memory as it is, synced or not.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if the system has not the address space.
    pub fn kill(&self) -> Result<Self, DeviceError> {
        let mut disk = self.disk.lock().clone();
        disk.failure = None;
        disk.forget_counts();
        let found = Self::with_disk(disk, self.max_bytes, self.len_bytes())?;
        for index in 0..self.sector_count() {
            let sector = self.load(index);
            if sector != ZEROS {
                found.store(index, &sector);
            }
        }
        Ok(found)
    }

    /// Flips bit `bit % 8` of the byte at `offset`, in memory and on the disk. Does nothing beyond the end.
    pub fn flip_bit(&self, offset: u64, bit: u32) {
        self.damage(offset..offset.saturating_add(1), |byte| {
            byte ^ (1 << (bit % 8))
        });
    }

    /// Zeroes a range, in memory and on the disk, up to the end of the device.
    pub fn zero(&self, range: Range<u64>) {
        self.damage(range, |_| 0);
    }

    /// Cuts the device off at `len_bytes`; does nothing if it is not longer. Never used while a store has it open:
    /// its writers rely on the length. The memory beyond stays valid, but is zero.
    pub fn truncate(&self, len_bytes: u64) {
        if len_bytes >= self.len_bytes() {
            return;
        }
        let whole = len_bytes.next_multiple_of(SECTOR_BYTES);
        self.zero(len_bytes..whole);
        let mut disk = self.disk.lock();
        let lost = (whole / SECTOR_BYTES) as usize..self.sector_count();
        lost.for_each(|index| self.store(index, &ZEROS));
        disk.len_bytes = disk.len_bytes.min(len_bytes);
        disk.grown_bytes.retain(|grown| *grown <= len_bytes);
        disk.cut();
        self.len_bytes.store(len_bytes, Ordering::Release);
    }

    /// Lets the `nth` sync from now fail with an I/O error, 1 being the next. It writes some of the changed sectors,
    /// as the seed has it, and gives up the others, as a kernel does: no later sync writes them, unless they change.
    pub fn fail_sync(&self, nth: u64, seed: u64) {
        self.disk.lock().failure = Some((nth.max(1), seed));
    }

    /// Lets every growth past this many bytes fail as on a full disk.
    pub fn set_space_bytes(&self, space_bytes: u64) {
        self.disk.lock().space_bytes = space_bytes;
    }

    /// How many syncs there were since the device was made, the failed ones included.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.disk.lock().syncs
    }

    /// How many bytes the syncs found changed and wrote, in whole sectors.
    #[must_use]
    pub fn synced_bytes(&self) -> u64 {
        self.disk.lock().synced_bytes
    }

    /// How many sectors the device has, the last one perhaps in part.
    fn sector_count(&self) -> usize {
        self.len_bytes().div_ceil(SECTOR_BYTES) as usize
    }

    /// The sectors that a kernel would write now, with their content in memory.
    fn dirty(&self, disk: &Disk) -> Vec<(usize, Sector)> {
        (0..self.sector_count())
            .filter(|index| self.differs(*index, disk.sectors.get(*index).unwrap_or(&ZEROS)))
            .map(|index| (index, self.load(index)))
            .filter(|(index, sector)| disk.given_up.get(index) != Some(sector))
            .collect()
    }

    fn differs(&self, index: usize, sector: &Sector) -> bool {
        let first = self.sector_at(index);
        sector
            .as_chunks::<8>()
            .0
            .iter()
            .enumerate()
            .any(|(word, bytes)| {
                // SAFETY: inside the sector, and aligned; as in `load`.
                unsafe { first.add(word).read_volatile() != u64::from_ne_bytes(*bytes) }
            })
    }

    fn sector_at(&self, index: usize) -> NonNull<u64> {
        assert!(
            index < self.memory.len() / SECTOR_LEN,
            "sector {index} is beyond the mapping"
        );
        // SAFETY: the sector lies inside the mapping, as was just asserted.
        unsafe { base_of(&self.memory).add(index * SECTOR_LEN) }.cast()
    }

    fn load(&self, index: usize) -> Sector {
        let first = self.sector_at(index);
        let mut sector = ZEROS;
        for (word, bytes) in sector.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // SAFETY: inside the sector, which is valid, and aligned, since sectors are. Other threads may be storing
            // here: the volatile read gives some mixture of old and new bytes, as a disk that reads the memory of a
            // running machine would get; no promise is made about bytes whose store had not ended.
            *bytes = unsafe { first.add(word).read_volatile() }.to_ne_bytes();
        }
        sector
    }

    /// For a device that nobody else has yet.
    fn store(&self, index: usize, sector: &Sector) {
        let first = self.sector_at(index);
        for (word, bytes) in sector.as_chunks::<8>().0.iter().enumerate() {
            // SAFETY: inside the sector, which is valid, and aligned, since sectors are.
            unsafe { first.add(word).write_volatile(u64::from_ne_bytes(*bytes)) };
        }
    }

    /// Changes bytes up to the end of the device, in memory and on the disk.
    fn damage(&self, range: Range<u64>, change: impl Fn(u8) -> u8) {
        let mut disk = self.disk.lock();
        for offset in range.start..range.end.min(self.len_bytes()) {
            let index = (offset / SECTOR_BYTES) as usize;
            let at = (offset % SECTOR_BYTES) as usize;
            let byte = self.sector_at(index).cast::<AtomicU8>();
            // SAFETY: inside the sector. The threads that store here meanwhile lose or keep their byte, as they would
            // with damage by hardware.
            let byte = unsafe { byte.add(at).as_ref() };
            byte.store(change(byte.load(Ordering::Relaxed)), Ordering::Relaxed);
            if let Some(byte) = disk.sector_mut(index).get_mut(at) {
                *byte = change(*byte);
            }
        }
    }
}

impl Disk {
    #[expect(
        clippy::indexing_slicing,
        reason = "the sectors were just extended to the index"
    )]
    fn sector_mut(&mut self, index: usize) -> &mut Sector {
        if index >= self.sectors.len() {
            self.sectors.resize(index + 1, ZEROS);
        }
        &mut self.sectors[index]
    }

    fn write(&mut self, index: usize, sector: Sector) {
        *self.sector_mut(index) = sector;
        self.given_up.remove(&index);
    }

    /// Forgets what lies beyond the length.
    fn cut(&mut self) {
        let whole = (self.len_bytes / SECTOR_BYTES) as usize;
        if let Some(last) = self.sectors.get_mut(whole) {
            last.iter_mut()
                .skip((self.len_bytes % SECTOR_BYTES) as usize)
                .for_each(|byte| *byte = 0);
        }
        self.sectors
            .truncate(self.len_bytes.div_ceil(SECTOR_BYTES) as usize);
    }

    /// Counts down to the failure; its seed if this sync is the one.
    fn failing_now(&mut self) -> Option<u64> {
        let (left, seed) = self.failure.take()?;
        if left > 1 {
            self.failure = Some((left - 1, seed));
            return None;
        }
        Some(seed)
    }

    fn forget_counts(&mut self) {
        self.syncs = 0;
        self.synced_bytes = 0;
    }
}

// SAFETY: the mapping covers `max_bytes`, lives as long as the device and is never moved, so memory up to any length
// ever told stays valid.
unsafe impl Device for SimulatedDevice {
    fn base(&self) -> NonNull<u8> {
        base_of(&self.memory)
    }

    fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes.load(Ordering::Acquire)
    }

    fn grow(&self, wanted_bytes: u64) -> Result<(), DeviceError> {
        check_maximum(self, wanted_bytes)?;
        let mut disk = self.disk.lock();
        let len_bytes = self.len_bytes();
        if wanted_bytes <= len_bytes {
            return Ok(());
        }
        if wanted_bytes > disk.space_bytes {
            let (path, cause) = (self.describe(), FullCause::Disk);
            return Err(DeviceError::Full {
                path,
                len_bytes,
                wanted_bytes,
                cause,
            });
        }
        disk.grown_bytes.push(wanted_bytes);
        self.len_bytes.store(wanted_bytes, Ordering::Release);
        Ok(())
    }

    fn populate(&self, _offset: u64, _len: u64) {}

    fn sync(&self) -> Result<(), DeviceError> {
        let mut disk = self.disk.lock();
        disk.syncs += 1;
        let dirty = self.dirty(&disk);
        if let Some(seed) = disk.failing_now() {
            let mut coin = Coin::new(seed);
            for (index, sector) in dirty {
                if coin.toss() {
                    disk.write(index, sector);
                } else {
                    disk.given_up.insert(index, sector);
                }
            }
            let source = io::Error::other("simulated I/O error");
            return Err(DeviceError::Io {
                path: self.describe(),
                action: "sync",
                source,
            });
        }
        disk.synced_bytes += dirty.len() as u64 * SECTOR_BYTES;
        dirty
            .into_iter()
            .for_each(|(index, sector)| disk.write(index, sector));
        disk.len_bytes = self.len_bytes();
        disk.grown_bytes.clear();
        Ok(())
    }

    fn describe(&self) -> String {
        "simulated".to_owned()
    }
}

impl fmt::Debug for SimulatedDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDevice")
            .field("len_bytes", &self.len_bytes())
            .field("max_bytes", &self.max_bytes)
            .finish_non_exhaustive()
    }
}

/// Seeded chance (the SplitMix64 sequence).
struct Coin {
    state: u64,
    /// How many of 8 tosses come out, 0 to 8: some seeds keep all or nothing.
    odds: u64,
}

impl Coin {
    fn new(seed: u64) -> Self {
        let mut coin = Self {
            state: seed,
            odds: 0,
        };
        coin.odds = coin.below(9);
        coin
    }

    fn toss(&mut self) -> bool {
        self.below(8) < self.odds
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit.max(1)
    }
}

#[cfg(test)]
mod tests;
