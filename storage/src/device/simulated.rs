//! A disk for tests: it loses power, tears, damages and fails on demand, always the same way for
//! the same seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use memmap2::MmapRaw;
use parking_lot::Mutex;

use super::header::write_header;
use super::memory::{
    PAGE_BYTES, base_of, check_maximum, check_range, map_anonymous, no_staging, total_len,
};
use super::{Device, DeviceError, FullCause, HEADER_BYTES, Header, STAGING_BYTES};

/// The smallest unit that a disk writes whole or not at all.
pub const SECTOR_BYTES: u64 = 512;

const PAGE_LEN: usize = PAGE_BYTES as usize;
const SECTORS_A_PAGE: u64 = PAGE_BYTES / SECTOR_BYTES;

type Page = [u8; PAGE_LEN];
const ZEROS: Page = [0; PAGE_LEN];

/// What a disk writes whole or not at all when the power fails.
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
/// [`fail_write`](Self::fail_write), [`fail_read`](Self::fail_read),
/// [`set_space_bytes`](Self::set_space_bytes)) are asked for by the test.
///
/// All of it may be called while other threads use the device.
pub struct SimulatedDevice {
    memory: MmapRaw,
    staging: Option<MmapRaw>,
    max_bytes: u64,
    len_bytes: AtomicU64,
    disk: Mutex<Disk>,
}

/// The stable side of the device, and what is still to be written to it.
#[derive(Clone)]
struct Disk {
    /// What is on it; pages that it lacks are zero.
    pages: BTreeMap<u64, Arc<Page>>,
    /// The length that survives a power failure for certain.
    len_bytes: u64,
    /// The lengths extended to since, each of which may survive.
    extended_bytes: Vec<u64>,
    /// The sectors written since they were last on the disk.
    dirty: BTreeSet<u64>,
    /// The pages whose space was given back, which the disk does not know yet.
    released: BTreeSet<u64>,
    /// The pages with disk space behind them. Those not among them are zero in memory.
    allocated: BTreeSet<u64>,
    /// Those of them that a power failure may take back.
    allocated_since_sync: BTreeSet<u64>,
    /// The pages of the staging memory with disk space behind them.
    staging_allocated: BTreeSet<u64>,
    /// An earlier content of pages of the staging memory, as the kernel wrote them at some moment.
    staging_pages: BTreeMap<u64, Arc<Page>>,
    /// The most it has room for.
    space_bytes: u64,
    /// How many syncs from now one fails, and the seed of what it still writes.
    failing_sync: Option<(u64, u64)>,
    /// How many writes from now one fails.
    failing_write: Option<u64>,
    /// What cannot be read.
    unreadable: Vec<Range<u64>>,
    /// What happens at moments for which the test gives no seed.
    chance: Coin,
    boot: u64,
    counts: Counts,
}

#[derive(Clone, Default)]
struct Counts {
    syncs: u64,
    synced_bytes: u64,
    writes: u64,
    written_bytes: u64,
    reserved_bytes: u64,
    read_bytes: u64,
}

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
    /// Those of [`new`](Self::new).
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
            failing_sync: None,
            failing_write: None,
            unreadable: Vec::new(),
            chance: Coin::fair(header.device_id),
            boot: 1,
            counts: Counts::default(),
        };
        let device = Self::with_disk(disk, header.max_bytes, HEADER_BYTES, has_staging)?;
        write_header(&device, header)?;
        device.sync()?;
        device.disk.lock().counts = Counts::default();
        Ok(device)
    }

    /// Makes a device whose memory is zero.
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
    /// extension, reservation and release since the last sync may have been lost; what lies beyond
    /// the length is zero. Each unit of the staging memory is as it is now, as it was at an earlier
    /// moment, or zero.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if the system has not the address space.
    pub fn crash_with(&self, seed: u64, atomicity: Atomicity) -> Result<Self, DeviceError> {
        let mut coin = Coin::new(seed);
        let now = self.disk.lock();
        let mut disk = now.clone();
        for page in std::mem::take(&mut disk.released) {
            if coin.toss() {
                disk.pages.remove(&page);
            } else {
                // The page has its old space, hence its old content: what was written later went
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
        disk.allocated.extend(disk.pages.keys());
        disk.cut(disk.len_bytes);
        disk.restart();
        disk.boot += 1;
        let staging = self.staging_after_crash(&now, &mut coin, atomicity);
        drop(now);
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

    /// Flips bit `bit % 8` of the byte at `offset`, in memory and on the disk. Does nothing beyond
    /// the end.
    pub fn flip_bit(&self, offset: u64, bit: u32) {
        let mask = 1 << (bit % 8);
        self.damage(offset..offset.saturating_add(1), |_, byte| byte ^ mask);
    }

    /// Inverts all bits of the byte at `offset`, in memory and on the disk. Does nothing beyond the
    /// end.
    pub fn invert_byte(&self, offset: u64) {
        self.damage(offset..offset.saturating_add(1), |_, byte| !byte);
    }

    /// Zeroes a range, in memory and on the disk, up to the end of the device.
    pub fn zero(&self, range: Range<u64>) {
        self.damage(range, |_, _| 0);
    }

    /// Overwrites the bytes from `offset` on, in memory and on the disk, up to the end of the
    /// device.
    pub fn overwrite(&self, offset: u64, bytes: &[u8]) {
        let end = offset.saturating_add(bytes.len() as u64);
        self.damage(offset..end, |at, byte| {
            bytes.get((at - offset) as usize).copied().unwrap_or(byte)
        });
    }

    /// Exchanges what two sectors hold in memory, and puts it on the disk, too. Sectors are given
    /// by their numbers: offset / [`SECTOR_BYTES`].
    pub fn swap_sectors(&self, a: u64, b: u64) {
        let range = |sector: u64| sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
        let (first, second) = (self.snapshot_range(range(a)), self.snapshot_range(range(b)));
        self.overwrite(range(a).start, &second);
        self.overwrite(range(b).start, &first);
    }

    /// Copies out what is in memory, up to the end of the device.
    #[must_use]
    pub fn snapshot_range(&self, range: Range<u64>) -> Vec<u8> {
        let _no_writes = self.disk.lock();
        let end = range.end.min(self.len_bytes());
        let mut bytes = vec![0; end.saturating_sub(range.start) as usize];
        load(&self.memory, range.start.min(end), &mut bytes);
        bytes
    }

    /// Cuts the device off at `len_bytes`; does nothing if it is not longer. Never used while a
    /// store has it open: it relies on the length. The memory beyond stays valid, but is zero.
    pub fn truncate(&self, len_bytes: u64) {
        let mut disk = self.disk.lock();
        if len_bytes >= self.len_bytes() {
            return;
        }
        for page in disk.allocated.range(len_bytes / PAGE_BYTES..) {
            let start = len_bytes.max(page * PAGE_BYTES);
            let len = (page + 1) * PAGE_BYTES - start;
            fill_zeros(&self.memory, start, len);
        }
        disk.len_bytes = disk.len_bytes.min(len_bytes);
        disk.extended_bytes
            .retain(|extended| *extended <= len_bytes);
        disk.cut(len_bytes);
        self.len_bytes.store(len_bytes, Ordering::Release);
    }

    /// Lets the `nth` sync from now fail with an I/O error, 1 being the next. It writes some of the
    /// dirty pages, as the seed has it, and takes all of them for clean, as a kernel does: no later
    /// sync writes them, unless they are written again.
    pub fn fail_sync(&self, nth: u64, seed: u64) {
        self.disk.lock().failing_sync = Some((nth.max(1), seed));
    }

    /// Lets the `nth` write from now fail with an I/O error, 1 being the next. It stores a
    /// beginning of its bytes that ends with a sector, which may be empty, or all of them: a disk
    /// never writes a part of a sector.
    pub fn fail_write(&self, nth: u64) {
        self.disk.lock().failing_write = Some(nth.max(1));
    }

    /// Lets every [`read`](Device::read) that overlaps the range fail with an I/O error, until
    /// [`mend_reads`](Self::mend_reads). The mapping keeps the bytes. Found devices have the same
    /// unreadable ranges.
    pub fn fail_read(&self, range: Range<u64>) {
        self.disk.lock().unreadable.push(range);
    }

    /// Makes all ranges readable again.
    pub fn mend_reads(&self) {
        self.disk.lock().unreadable.clear();
    }

    /// Lets the disk have room for this many bytes, in pages of 4 KiB and the staging memory
    /// included: what would take more is refused as on a full disk. At first there is no limit.
    pub fn set_space_bytes(&self, space_bytes: u64) {
        self.disk.lock().space_bytes = space_bytes;
    }

    /// Returns how many syncs there were since the device was made, the failed ones included.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.disk.lock().counts.syncs
    }

    /// Returns how many bytes the successful syncs found dirty and wrote, in whole sectors.
    #[must_use]
    pub fn synced_bytes(&self) -> u64 {
        self.disk.lock().counts.synced_bytes
    }

    /// Returns how many writes there were since the device was made, the failed ones included.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.disk.lock().counts.writes
    }

    /// Returns how many bytes the writes stored.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.disk.lock().counts.written_bytes
    }

    /// Returns the disk space that [`reserve`](Device::reserve) took since the device was made, in
    /// bytes; what has been released meanwhile is included.
    #[must_use]
    pub fn reserved_bytes(&self) -> u64 {
        self.disk.lock().counts.reserved_bytes
    }

    /// Returns how many bytes [`read`](Device::read) was asked for since the device was made.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.disk.lock().counts.read_bytes
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
    ) -> Vec<(u64, Page)> {
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

    fn fill_staging(&self, pages: &[(u64, Page)]) {
        if let Some(staging) = &self.staging {
            for (page, content) in pages {
                store(staging, page * PAGE_BYTES, content);
            }
        }
    }

    /// Changes bytes up to the end of the device, in memory and on the disk: `change` gets the
    /// offset and the byte.
    fn damage(&self, range: Range<u64>, change: impl Fn(u64, u8) -> u8) {
        let mut disk = self.disk.lock();
        let end = range.end.min(self.len_bytes());
        let mut start = range.start;
        while start < end {
            let page = start / PAGE_BYTES;
            let next = ((page + 1) * PAGE_BYTES).min(end);
            let empty = !disk.allocated.contains(&page) && !disk.pages.contains_key(&page);
            if !empty || (start..next).any(|offset| change(offset, 0) != 0) {
                disk.allocated.insert(page);
                // What was released without a sync is damaged as the empty page it is.
                if disk.released.remove(&page) {
                    disk.pages.remove(&page);
                }
                let skipped = (start % PAGE_BYTES) as usize;
                let on_disk = disk.page_mut(page).iter_mut().skip(skipped);
                for (offset, byte) in (start..next).zip(on_disk) {
                    change_byte(&self.memory, offset, |byte| change(offset, byte));
                    *byte = change(offset, *byte);
                }
            }
            start = next;
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

impl Disk {
    fn page_mut(&mut self, page: u64) -> &mut Page {
        Arc::make_mut(self.pages.entry(page).or_insert_with(|| Arc::new(ZEROS)))
    }

    fn dirty_pages(&self) -> BTreeSet<u64> {
        self.dirty
            .iter()
            .map(|sector| sector / SECTORS_A_PAGE)
            .collect()
    }

    /// How many more pages there is room for.
    fn room(&self) -> u64 {
        let taken = self.allocated.len() + self.staging_allocated.len();
        (self.space_bytes / PAGE_BYTES).saturating_sub(taken as u64)
    }

    /// Forgets what lies beyond a length.
    fn cut(&mut self, len_bytes: u64) {
        let page = len_bytes / PAGE_BYTES;
        if let Some(content) = self.pages.get_mut(&page) {
            Arc::make_mut(content)
                .iter_mut()
                .skip((len_bytes % PAGE_BYTES) as usize)
                .for_each(|byte| *byte = 0);
        }
        let pages = len_bytes.div_ceil(PAGE_BYTES);
        self.pages.split_off(&pages);
        self.allocated.split_off(&pages);
        self.allocated_since_sync.split_off(&pages);
        self.released.split_off(&pages);
        self.dirty.split_off(&len_bytes.div_ceil(SECTOR_BYTES));
    }

    /// Forgets the failures that were asked for, and the counts.
    fn restart(&mut self) {
        self.failing_sync = None;
        self.failing_write = None;
        self.counts = Counts::default();
    }

    /// Counts down to the failing sync; its seed if this is the one.
    fn is_sync_failing(&mut self) -> Option<u64> {
        let (left, seed) = self.failing_sync.take()?;
        if left > 1 {
            self.failing_sync = Some((left - 1, seed));
            return None;
        }
        Some(seed)
    }

    /// Counts down to the failing write, and tells whether this is the one.
    fn is_write_failing(&mut self) -> bool {
        match self.failing_write.take() {
            Some(left) if left > 1 => {
                self.failing_write = Some(left - 1);
                false
            }
            Some(_) => true,
            None => false,
        }
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
        let mut disk = self.disk.lock();
        if wanted_bytes > self.len_bytes() {
            disk.extended_bytes.push(wanted_bytes);
            self.len_bytes.store(wanted_bytes, Ordering::Release);
        }
        Ok(())
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_range(self, offset, len)?;
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
        let mut disk = self.disk.lock();
        for page in pages_of(offset, len) {
            if !disk.allocated.contains(&page) {
                continue;
            }
            let start = offset.max(page * PAGE_BYTES);
            let end = (offset + len).min((page + 1) * PAGE_BYTES);
            fill_zeros(&self.memory, start, end - start);
            if end - start < PAGE_BYTES {
                disk.dirty.extend(touched_sectors(start, end - start));
                continue;
            }
            sectors_of(page).for_each(|sector| {
                disk.dirty.remove(&sector);
            });
            disk.allocated.remove(&page);
            disk.allocated_since_sync.remove(&page);
            disk.released.insert(page);
        }
        Ok(())
    }

    fn write(&self, offset: u64, parts: &[&[u8]]) -> Result<(), DeviceError> {
        let len = total_len(parts);
        check_range(self, offset, len)?;
        let mut disk = self.disk.lock();
        disk.counts.writes += 1;
        let fails = disk.is_write_failing();
        let wanted = if fails {
            disk.chance.below(len + 1)
        } else {
            len
        };
        let mut end = offset + wanted;
        if wanted < len {
            end = offset.max(end / SECTOR_BYTES * SECTOR_BYTES);
        }
        let wanted = end - offset;
        for page in pages_of(offset, wanted) {
            if disk.allocated.contains(&page) {
                continue;
            }
            if disk.room() == 0 {
                end = offset.max(page * PAGE_BYTES);
                break;
            }
            disk.allocated.insert(page);
            disk.allocated_since_sync.insert(page);
        }
        let mut at = offset;
        for part in parts {
            let (stored, _) = part.split_at(part.len().min((end - at) as usize));
            store_changes(&self.memory, at, stored);
            at += stored.len() as u64;
        }
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
        let mut disk = self.disk.lock();
        disk.counts.syncs += 1;
        let mut chance = disk.chance.clone();
        if chance.toss() {
            self.write_some_staging(&mut disk, &mut chance);
        }
        disk.chance = chance;
        if let Some(seed) = disk.is_sync_failing() {
            let mut coin = Coin::new(seed);
            for page in disk.dirty_pages() {
                if coin.toss() {
                    self.write_page(&mut disk, page);
                }
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

/// The pages that a range touches.
fn pages_of(offset: u64, len: u64) -> Range<u64> {
    if len == 0 {
        return 0..0;
    }
    offset / PAGE_BYTES..(offset + len).div_ceil(PAGE_BYTES)
}

fn sectors_of(page: u64) -> Range<u64> {
    page * SECTORS_A_PAGE..(page + 1) * SECTORS_A_PAGE
}

/// The sectors that a range touches.
fn touched_sectors(offset: u64, len: u64) -> Range<u64> {
    if len == 0 {
        return 0..0;
    }
    offset / SECTOR_BYTES..(offset + len).div_ceil(SECTOR_BYTES)
}

/// Returns where `len` bytes of a mapping begin.
fn bytes_at(mapping: &MmapRaw, offset: u64, len: usize) -> NonNull<u8> {
    let end = (offset as usize).checked_add(len);
    assert!(
        end.is_some_and(|end| end <= mapping.len()),
        "bytes {offset}, {len} of them, are beyond the mapping"
    );
    // SAFETY: the range lies inside the mapping, as was just asserted.
    unsafe { base_of(mapping).add(offset as usize) }
}

/// Copies bytes out of a mapping. Other threads may be storing into staging memory meanwhile: their
/// bytes are old or new, as those a kernel writes would be.
fn load(mapping: &MmapRaw, offset: u64, into: &mut [u8]) {
    let first = bytes_at(mapping, offset, into.len());
    let (words, rest) = into.as_chunks_mut::<8>();
    let done = words.len() * 8;
    for (index, word) in words.iter_mut().enumerate() {
        // SAFETY: inside the range that `bytes_at` has checked. The read is volatile, since stores
        // of other threads may fall into it; no promise is made about bytes whose store had not
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

fn load_page(mapping: &MmapRaw, offset: u64) -> Page {
    let mut page = ZEROS;
    load(mapping, offset, &mut page);
    page
}

/// Copies bytes into a mapping, where nobody reads meanwhile.
fn store(mapping: &MmapRaw, offset: u64, bytes: &[u8]) {
    let to = bytes_at(mapping, offset, bytes.len());
    // SAFETY: inside the range that `bytes_at` has checked; `bytes` is no part of the mapping, of
    // which nobody has a slice to write from.
    unsafe { to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
}

/// Copies bytes into a mapping, from the first that changes on: others may be reading what is
/// written again as it was.
fn store_changes(mapping: &MmapRaw, offset: u64, bytes: &[u8]) {
    let first = bytes_at(mapping, offset, bytes.len());
    // SAFETY: inside the range that `bytes_at` has checked. Writes hold the lock of the disk, so
    // nobody stores here.
    let present = unsafe { std::slice::from_raw_parts(first.as_ptr(), bytes.len()) };
    let same = present
        .iter()
        .zip(bytes)
        .take_while(|(present, byte)| present == byte)
        .count();
    let (_, changed) = bytes.split_at(same);
    store(mapping, offset + same as u64, changed);
}

fn fill_zeros(mapping: &MmapRaw, offset: u64, len: u64) {
    let first = bytes_at(mapping, offset, len as usize);
    // SAFETY: inside the range that `bytes_at` has checked; that nobody reads it is the callers'
    // part.
    unsafe { first.write_bytes(0, len as usize) };
}

/// Changes a byte that others may be reading.
fn change_byte(mapping: &MmapRaw, offset: u64, change: impl Fn(u8) -> u8) {
    let byte = bytes_at(mapping, offset, 1).cast::<AtomicU8>();
    // SAFETY: inside the mapping, as `bytes_at` has checked. Readers get the old or the new byte,
    // as they would with damage by hardware.
    let byte = unsafe { byte.as_ref() };
    byte.store(change(byte.load(Ordering::Relaxed)), Ordering::Relaxed);
}

/// Seeded chance (the SplitMix64 sequence).
#[derive(Clone)]
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

    fn fair(seed: u64) -> Self {
        Self {
            state: seed,
            odds: 4,
        }
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
