//! Damage and failures that a test asks for.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::disk::{FailingSync, FreshPages};
use super::mapping::{change_byte, fill_zeros};
use super::{SECTOR_BYTES, SimulatedDevice};
use crate::device::Device;
use crate::device::memory::PAGE_BYTES;

impl SimulatedDevice {
    /// Runs a function before the `nth` change from now, 1 being the next: a write, a sync, an
    /// extension, a reservation or a release. It may make images of this device and of others.
    pub fn before_change(&self, nth: u64, run: impl FnOnce() + Send + 'static) {
        *self.before_change.lock() = Some((nth, Box::new(run)));
    }

    /// Counts a change that is about to be made.
    pub(super) fn announce_change(&self) {
        let mut waiting = self.before_change.lock();
        if let Some((left, _)) = waiting.as_mut() {
            *left = left.saturating_sub(1);
        }
        let due = waiting.take_if(|(left, _)| *left == 0);
        // Without the lock: the function may look at this device.
        drop(waiting);
        if let Some((_, run)) = due {
            run();
        }
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
        self.set_failing_sync(nth, seed, FreshPages::Writable);
    }

    /// Lets the `nth` sync from now fail as [`fail_sync`](Self::fail_sync) does, on a file system
    /// that behaves as ext4: pages that were preallocated or new, and fail their first write-back,
    /// stay unwritten. They show their bytes as long as the system runs, writing them again and
    /// syncing seems to succeed, but [`crash`](Self::crash) finds zeros there. Pages that are
    /// [released](Device::release) whole, or found zero by a crash, can be written again.
    pub fn fail_sync_for_good(&self, nth: u64, seed: u64) {
        self.set_failing_sync(nth, seed, FreshPages::Stranded);
    }

    fn set_failing_sync(&self, nth: u64, seed: u64, fresh_pages: FreshPages) {
        self.disk.lock().failing_sync = Some(FailingSync {
            nth: nth.max(1),
            seed,
            fresh_pages,
        });
    }

    /// Lets the `nth` write from now fail with an I/O error, 1 being the next. It stores a
    /// beginning of its bytes that ends with a sector, which may be empty, or all of them: a disk
    /// never writes a part of a sector.
    pub fn fail_write(&self, nth: u64) {
        self.disk.lock().failing_write = Some(nth.max(1));
    }

    /// Lets the `nth` release from now fail with an I/O error, 1 being the next. It releases
    /// nothing.
    pub fn fail_release(&self, nth: u64) {
        self.disk.lock().failing_release = Some(nth.max(1));
    }

    /// Lets every [`read`](crate::device::Device::read) that overlaps the range fail with an I/O
    /// error, until [`mend_reads`](Self::mend_reads). The mapping keeps the bytes. Found devices
    /// have the same unreadable ranges.
    pub fn fail_read(&self, range: Range<u64>) {
        self.disk.lock().unreadable.push(range);
    }

    /// Makes all ranges readable again.
    pub fn mend_reads(&self) {
        self.disk.lock().unreadable.clear();
    }

    /// Lets the disk have room for this many bytes, in pages of 4 KiB and the staging memory
    /// included: a write that would take more is refused as on a full disk. At first there is no
    /// limit.
    pub fn set_space_bytes(&self, space_bytes: u64) {
        self.disk.lock().space_bytes = space_bytes;
    }

    /// Lets the disk be full, or not, under a file system that writes a page to new space each
    /// time: every write is refused then. Found devices are as full.
    pub fn set_refuses_writes(&self, refuses: bool) {
        self.disk.lock().refuses_writes = refuses;
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
                // A page released without a sync is damaged as the empty page it is.
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
}
