//! A disk for tests: it loses power, tears, damages and fails on demand, always the same way for
//! the same seed.
//!
//! - `disk.rs`: the stable side, by pages and sectors
//! - `faults.rs`: damage and failures that a test asks for
//! - `counts.rs`: how much was written, read and synced
//! - `mapping.rs`: copies into and out of memory that other threads use
//! - `chance.rs`: seeded chance

mod chance;
mod counts;
mod disk;
mod faults;
mod mapping;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fmt, io};

use memmap2::MmapRaw;
use parking_lot::Mutex;

use super::header::write_header;
use super::memory::{PAGE_BYTES, base_of, check_maximum, check_range, map_anonymous, no_staging};
use super::{Device, DeviceError, FullCause, HEADER_BYTES, Header, STAGING_BYTES};
use chance::Coin;
pub use disk::SECTOR_BYTES;
use disk::{
    Disk, DiskCounts, DiskPage, FreshPages, SECTORS_A_PAGE, ZEROS, is_failing, pages_of,
    sectors_of, touched_sectors,
};
use mapping::{fill_zeros, load, load_page, store, store_changes};

/// The unit that a disk writes whole or not at all when the power fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Atomicity {
    /// Sectors of 512 bytes.
    Sector512,
    /// Pages of 4096 bytes.
    Page4096,
}

impl Atomicity {
    fn sectors(self) -> u64 {
        match self {
            Self::Sector512 => 1,
            Self::Page4096 => SECTORS_A_PAGE,
        }
    }
}

/// A device in memory with the disk behind it: what a power failure would leave is known at every
/// moment.
///
/// Writes go to the memory, as to the page cache of a system, and make the sectors they touch
/// dirty, also where nothing changes. [`sync`](Device::sync) writes the dirty sectors to the disk;
/// [`writeback`](Self::writeback) writes some pages, as a kernel does on its own and in any order.
/// [`crash`](Self::crash) and [`kill`](Self::kill) make the device that is found after a power
/// failure or after the end of the process; the device itself goes on unchanged, so one run can be
/// crashed in many ways.
///
/// Damage ([`flip_bit`](Self::flip_bit), [`invert_byte`](Self::invert_byte), [`zero`](Self::zero),
/// [`swap_sectors`](Self::swap_sectors), [`overwrite`](Self::overwrite),
/// [`truncate`](Self::truncate)) and failures ([`fail_sync`](Self::fail_sync),
/// [`fail_sync_for_good`](Self::fail_sync_for_good), [`fail_write`](Self::fail_write),
/// [`fail_release`](Self::fail_release), [`fail_read`](Self::fail_read),
/// [`set_space_bytes`](Self::set_space_bytes)) are asked for by the test.
///
/// All of it may be called while other threads use the device.
pub struct SimulatedDevice {
    memory: MmapRaw,
    staging: Option<MmapRaw>,
    max_bytes: u64,
    len_bytes: AtomicU64,
    disk: Mutex<Disk>,
    /// Run before one of the next changes: how many are left, and the function.
    before_change: Mutex<Option<(u64, BeforeChange)>>,
}

type BeforeChange = Box<dyn FnOnce() + Send>;

impl SimulatedDevice {
    /// Makes a device with this header, [`HEADER_BYTES`] long and synced, and with staging memory.
    ///
    /// # Errors
    /// [`DeviceError::BadOption`] for a header that cannot be, [`DeviceError::Io`] if the system
    /// has not that much address space.
    pub fn new(header: &Header) -> Result<Self, DeviceError> {
        Self::with_header(header, true)
    }

    /// Makes a device as [`new`](Self::new) does, but without staging memory.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn without_staging(header: &Header) -> Result<Self, DeviceError> {
        Self::with_header(header, false)
    }

    fn with_header(header: &Header, has_staging: bool) -> Result<Self, DeviceError> {
        header.validate("simulated")?;
        let disk = Disk {
            pages: BTreeMap::new(),
            len_bytes: HEADER_BYTES,
            extended_bytes: Vec::new(),
            dirty: BTreeSet::new(),
            released: BTreeSet::new(),
            allocated: BTreeSet::new(),
            allocated_since_sync: BTreeSet::new(),
            staging_allocated: BTreeSet::new(),
            staging_pages: BTreeMap::new(),
            space_bytes: u64::MAX,
            refuses_writes: false,
            stranded: BTreeSet::new(),
            failing_sync: None,
            failing_write: None,
            failing_release: None,
            unreadable: Vec::new(),
            chance: Coin::fair(header.device_id),
            boot: 1,
            counts: DiskCounts::default(),
        };
        let device = Self::with_disk(disk, header.max_bytes, HEADER_BYTES, has_staging)?;
        write_header(&device, header)?;
        device.sync()?;
        device.disk.lock().counts = DiskCounts::default();
        Ok(device)
    }

    /// Makes a device with zeroed memory.
    fn with_disk(
        disk: Disk,
        max_bytes: u64,
        len_bytes: u64,
        has_staging: bool,
    ) -> Result<Self, DeviceError> {
        let map = |bytes| {
            map_anonymous(bytes).map_err(DeviceError::io("simulated", "reserve address space for"))
        };
        Ok(Self {
            memory: map(max_bytes)?,
            staging: has_staging.then(|| map(STAGING_BYTES)).transpose()?,
            max_bytes,
            len_bytes: AtomicU64::new(len_bytes),
            disk: Mutex::new(disk),
            before_change: Mutex::default(),
        })
    }

    /// Writes some of the dirty pages to the disk, each or not as the seed has it, and some of the
    /// staging memory.
    pub fn writeback(&self, seed: u64) {
        let mut disk = self.disk.lock();
        let mut coin = Coin::new(seed);
        for page in disk.dirty_pages() {
            if coin.toss() {
                self.write_page(&mut disk, page);
            }
        }
        self.write_some_staging(&mut disk, &mut coin);
    }

    /// Makes the device that a power failure at this moment leaves, on a disk that writes sectors
    /// of 512 bytes whole.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if the system has not the address space.
    pub fn crash(&self, seed: u64) -> Result<Self, DeviceError> {
        self.crash_with(seed, Atomicity::Sector512)
    }

    /// Makes the device that a power failure at this moment leaves.
    ///
    /// That is the disk, but each dirty unit may or may not have been written just before, and each
    /// extension, reservation and release since the last sync may have been lost; bytes beyond the
    /// length are zero. Each unit of the staging memory is as it is now, as it was at an earlier
    /// moment, or zero.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if the system has not the address space.
    pub fn crash_with(&self, seed: u64, atomicity: Atomicity) -> Result<Self, DeviceError> {
        self.crashed(&self.disk.lock(), seed, atomicity)
    }

    /// Makes the devices that a power failure of all of these at one moment leaves, as
    /// [`crash`](Self::crash) does for one.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if the system has not the address space.
    pub fn crash_all(devices: &[Arc<Self>], seed: u64) -> Result<Vec<Self>, DeviceError> {
        // All locked before the first is copied: no write falls between two devices.
        let disks: Vec<_> = devices.iter().map(|device| device.disk.lock()).collect();
        let seeds = (0..).map(|number: u64| seed ^ number.rotate_right(8));
        let devices = devices.iter().zip(&disks).zip(seeds);
        devices
            .map(|((device, now), seed)| device.crashed(now, seed, Atomicity::Sector512))
            .collect()
    }

    fn crashed(&self, now: &Disk, seed: u64, atomicity: Atomicity) -> Result<Self, DeviceError> {
        let mut coin = Coin::new(seed);
        let mut disk = now.clone();
        // First: of a stranded page no later write survives either.
        disk.remount();
        for page in std::mem::take(&mut disk.released) {
            if coin.toss() {
                disk.pages.remove(&page);
            } else {
                // The page has its old space, hence its old content: later writes went
                // elsewhere.
                sectors_of(page).for_each(|sector| {
                    disk.dirty.remove(&sector);
                });
            }
        }
        let mut unit = None;
        for sector in std::mem::take(&mut disk.dirty) {
            let index = sector / atomicity.sectors();
            let survives = match unit {
                Some((same, survives)) if same == index => survives,
                _ => coin.toss(),
            };
            unit = Some((index, survives));
            if survives {
                self.write_sector(&mut disk, sector);
            }
        }
        let survived = coin.below(disk.extended_bytes.len() as u64 + 1) as usize;
        if let Some(len_bytes) = disk.extended_bytes.iter().take(survived).next_back() {
            disk.len_bytes = *len_bytes;
        }
        disk.extended_bytes.clear();
        for page in std::mem::take(&mut disk.allocated_since_sync) {
            if !coin.toss() {
                disk.allocated.remove(&page);
            }
        }
        // A page with content has its space, even where the coin has taken it.
        disk.allocated.extend(disk.pages.keys());
        disk.cut(disk.len_bytes);
        disk.restart();
        disk.boot += 1;
        let staging = self.staging_after_crash(now, &mut coin, atomicity);
        disk.staging_pages = staging
            .iter()
            .map(|(page, content)| (*page, Arc::new(*content)))
            .collect();
        let len_bytes = disk.len_bytes;
        let has_staging = self.staging.is_some();
        let found = Self::with_disk(disk, self.max_bytes, len_bytes, has_staging)?;
        for (page, content) in &found.disk.lock().pages {
            store(&found.memory, page * PAGE_BYTES, content.as_slice());
        }
        found.fill_staging(&staging);
        Ok(found)
    }

    /// Makes the device that the end of the process alone leaves: memory and staging memory as they
    /// are, synced or not, with the same dirty sectors.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if the system has not the address space.
    pub fn kill(&self) -> Result<Self, DeviceError> {
        // Until the copy is made: a write is in the image as a whole, or not at all.
        let now = self.disk.lock();
        let mut disk = now.clone();
        disk.restart();
        let has_staging = self.staging.is_some();
        let found = Self::with_disk(disk, self.max_bytes, self.len_bytes(), has_staging)?;
        for page in &now.allocated {
            let offset = page * PAGE_BYTES;
            store(&found.memory, offset, &load_page(&self.memory, offset));
        }
        if let Some(staging) = &self.staging {
            let content = |page: &u64| (*page, load_page(staging, page * PAGE_BYTES));
            let pages: Vec<_> = now.staging_allocated.iter().map(content).collect();
            found.fill_staging(&pages);
        }
        Ok(found)
    }

    /// Copies the memory out, up to the end of the device.
    #[must_use]
    pub fn snapshot_range(&self, range: Range<u64>) -> Vec<u8> {
        let _no_writes = self.disk.lock();
        let end = range.end.min(self.len_bytes());
        let mut bytes = vec![0; end.saturating_sub(range.start) as usize];
        load(&self.memory, range.start.min(end), &mut bytes);
        bytes
    }

    /// Writes the dirty sectors of a page to the disk.
    fn write_page(&self, disk: &mut Disk, page: u64) {
        if disk.released.remove(&page) {
            disk.pages.remove(&page);
        }
        for sector in sectors_of(page) {
            if disk.dirty.remove(&sector) {
                self.write_sector(disk, sector);
            }
        }
    }

    fn write_sector(&self, disk: &mut Disk, sector: u64) {
        let page = disk.page_mut(sector / SECTORS_A_PAGE);
        let at = (sector % SECTORS_A_PAGE * SECTOR_BYTES) as usize;
        let to = page.iter_mut().skip(at).take(SECTOR_BYTES as usize);
        let mut content = [0; SECTOR_BYTES as usize];
        load(&self.memory, sector * SECTOR_BYTES, &mut content);
        to.zip(content).for_each(|(to, from)| *to = from);
    }

    /// Keeps the present content of some pages of the staging memory for crashes to come.
    fn write_some_staging(&self, disk: &mut Disk, coin: &mut Coin) {
        let Some(staging) = &self.staging else {
            return;
        };
        for page in &disk.staging_allocated {
            if coin.toss() {
                let content = load_page(staging, page * PAGE_BYTES);
                disk.staging_pages.insert(*page, Arc::new(content));
            }
        }
    }

    /// A mix of present, earlier and zero units.
    fn staging_after_crash(
        &self,
        disk: &Disk,
        coin: &mut Coin,
        atomicity: Atomicity,
    ) -> Vec<(u64, DiskPage)> {
        let Some(staging) = &self.staging else {
            return Vec::new();
        };
        let unit_len = (atomicity.sectors() * SECTOR_BYTES) as usize;
        let mix = |page: &u64| {
            let present = load_page(staging, page * PAGE_BYTES);
            let earlier = disk.staging_pages.get(page).map_or(&ZEROS, |page| page);
            let mut content = ZEROS;
            let units = content.chunks_mut(unit_len);
            let choices = present.chunks(unit_len).zip(earlier.chunks(unit_len));
            for (unit, (present, earlier)) in units.zip(choices) {
                if coin.toss() {
                    unit.copy_from_slice(present);
                } else if coin.below(3) > 0 {
                    unit.copy_from_slice(earlier);
                }
            }
            (*page, content)
        };
        disk.staging_allocated.iter().map(mix).collect()
    }

    fn fill_staging(&self, pages: &[(u64, DiskPage)]) {
        if let Some(staging) = &self.staging {
            for (page, content) in pages {
                store(staging, page * PAGE_BYTES, content);
            }
        }
    }

    fn refuse(&self, from: u64, to: u64) -> DeviceError {
        DeviceError::Full {
            path: self.describe(),
            len_bytes: from,
            wanted_bytes: to,
            cause: FullCause::Disk,
        }
    }

    fn io_error(&self, action: &'static str) -> DeviceError {
        DeviceError::io(&self.describe(), action)(io::Error::other("simulated I/O error"))
    }
}

// SAFETY: the mapping covers `max_bytes`, lives as long as the device and is never moved, so memory
// up to any length ever told stays valid. The staging memory is a mapping of STAGING_BYTES.
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

    fn extend(&self, wanted_bytes: u64) -> Result<(), DeviceError> {
        check_maximum(self, wanted_bytes)?;
        self.announce_change();
        let mut disk = self.disk.lock();
        if wanted_bytes > self.len_bytes() {
            disk.extended_bytes.push(wanted_bytes);
            self.len_bytes.store(wanted_bytes, Ordering::Release);
        }
        Ok(())
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_range(self, offset, len)?;
        self.announce_change();
        let mut disk = self.disk.lock();
        let wanted: Vec<u64> = pages_of(offset, len)
            .filter(|page| !disk.allocated.contains(page))
            .collect();
        if wanted.len() as u64 > disk.room() {
            return Err(self.refuse(offset, offset + len));
        }
        disk.counts.reserved_bytes += wanted.len() as u64 * PAGE_BYTES;
        disk.allocated_since_sync.extend(&wanted);
        disk.allocated.extend(wanted);
        Ok(())
    }

    fn release(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_range(self, offset, len)?;
        self.announce_change();
        let mut disk = self.disk.lock();
        if is_failing(&mut disk.failing_release) {
            return Err(self.io_error("release space of"));
        }
        for page in pages_of(offset, len) {
            if !disk.allocated.contains(&page) {
                continue;
            }
            let start = offset.max(page * PAGE_BYTES);
            let end = (offset + len).min((page + 1) * PAGE_BYTES);
            fill_zeros(&self.memory, start, end - start);
            // A file system zeroes parts of a page, and gives whole pages back.
            if end - start < PAGE_BYTES {
                disk.dirty.extend(touched_sectors(start, end - start));
                continue;
            }
            sectors_of(page).for_each(|sector| {
                disk.dirty.remove(&sector);
            });
            disk.allocated.remove(&page);
            disk.allocated_since_sync.remove(&page);
            disk.stranded.remove(&page);
            disk.released.insert(page);
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        let len = bytes.len() as u64;
        check_range(self, offset, len)?;
        self.announce_change();
        let mut disk = self.disk.lock();
        disk.counts.writes += 1;
        if disk.refuses_writes {
            return Err(self.refuse(offset, offset + len));
        }
        let fails = is_failing(&mut disk.failing_write);
        let wanted = if fails {
            disk.chance.below(len + 1)
        } else {
            len
        };
        let mut end = offset + wanted;
        if wanted < len {
            // A disk writes no part of a sector.
            end = offset.max(end / SECTOR_BYTES * SECTOR_BYTES);
        }
        let wanted = end - offset;
        for page in pages_of(offset, wanted) {
            if disk.allocated.contains(&page) {
                continue;
            }
            if disk.room() == 0 {
                // As a file system does: the pages before are stored.
                end = offset.max(page * PAGE_BYTES);
                break;
            }
            disk.allocated.insert(page);
            disk.allocated_since_sync.insert(page);
        }
        let (stored, _) = bytes.split_at((end - offset) as usize);
        store_changes(&self.memory, offset, stored);
        disk.dirty.extend(touched_sectors(offset, end - offset));
        disk.counts.written_bytes += end - offset;
        if end < offset + wanted {
            return Err(self.refuse(offset, offset + len));
        }
        if fails {
            return Err(self.io_error("write"));
        }
        Ok(())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let end = offset.saturating_add(into.len() as u64);
        check_range(self, offset, into.len() as u64)?;
        let mut disk = self.disk.lock();
        disk.counts.read_bytes += into.len() as u64;
        let overlaps = |range: &Range<u64>| range.start < end && offset < range.end;
        if disk.unreadable.iter().any(overlaps) {
            return Err(self.io_error("read"));
        }
        load(&self.memory, offset, into);
        Ok(())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.announce_change();
        let mut disk = self.disk.lock();
        disk.counts.syncs += 1;
        let mut chance = disk.chance.clone();
        if chance.toss() {
            // A kernel writes the staging file when it likes; a sync of the device does not cover
            // it.
            self.write_some_staging(&mut disk, &mut chance);
        }
        disk.chance = chance;
        if let Some(failing) = disk.take_failing_sync() {
            let mut coin = Coin::new(failing.seed);
            for page in disk.dirty_pages() {
                if coin.toss() {
                    self.write_page(&mut disk, page);
                }
            }
            if failing.fresh_pages == FreshPages::Stranded {
                let failed = disk.dirty_pages();
                disk.strand(failed);
            }
            disk.dirty.clear();
            return Err(self.io_error("sync"));
        }
        disk.counts.synced_bytes += disk.dirty.len() as u64 * SECTOR_BYTES;
        for page in std::mem::take(&mut disk.released) {
            disk.pages.remove(&page);
        }
        for sector in std::mem::take(&mut disk.dirty) {
            self.write_sector(&mut disk, sector);
        }
        disk.allocated_since_sync.clear();
        disk.len_bytes = self.len_bytes();
        disk.extended_bytes.clear();
        Ok(())
    }

    fn populate(&self, _offset: u64, _len: u64) {}

    fn staging(&self) -> Option<NonNull<u8>> {
        self.staging.as_ref().map(base_of)
    }

    fn reserve_staging(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        if self.staging.is_none() {
            return Err(no_staging(self));
        }
        let inside = offset.checked_add(len).filter(|end| *end <= STAGING_BYTES);
        let Some(end) = inside else {
            let source = io::ErrorKind::InvalidInput.into();
            return Err(DeviceError::io(
                &self.describe(),
                "reserve staging memory of",
            )(source));
        };
        let mut disk = self.disk.lock();
        let wanted: Vec<u64> = pages_of(offset, len)
            .filter(|page| !disk.staging_allocated.contains(page))
            .collect();
        if wanted.len() as u64 > disk.room() {
            return Err(self.refuse(offset, end));
        }
        disk.staging_allocated.extend(wanted);
        Ok(())
    }

    fn allocated_bytes(&self) -> u64 {
        let disk = self.disk.lock();
        (disk.allocated.len() + disk.staging_allocated.len()) as u64 * PAGE_BYTES
    }

    fn boot(&self) -> u64 {
        self.disk.lock().boot
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

#[cfg(test)]
mod tests;
