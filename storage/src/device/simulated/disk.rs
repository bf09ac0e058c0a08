//! The stable side of a simulated device, by pages and sectors.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::chance::Coin;
use crate::device::memory::PAGE_BYTES;

/// The smallest unit that a disk writes whole or not at all.
pub const SECTOR_BYTES: u64 = 512;

pub(super) const PAGE_LEN: usize = PAGE_BYTES as usize;

pub(super) const SECTORS_A_PAGE: u64 = PAGE_BYTES / SECTOR_BYTES;

pub(super) type DiskPage = [u8; PAGE_LEN];

pub(super) const ZEROS: DiskPage = [0; PAGE_LEN];

/// The stable side of the device, and the sectors still to be written to it.
#[derive(Clone)]
pub(super) struct Disk {
    /// Its pages; missing ones are zero.
    pub(super) pages: BTreeMap<u64, Arc<DiskPage>>,
    /// The length that survives a power failure for certain.
    pub(super) len_bytes: u64,
    /// The lengths extended to since, each of which may survive.
    pub(super) extended_bytes: Vec<u64>,
    /// The sectors written since they were last on the disk.
    pub(super) dirty: BTreeSet<u64>,
    /// Released pages, which the disk does not know yet.
    pub(super) released: BTreeSet<u64>,
    /// The pages with disk space behind them. Those not among them are zero in memory.
    pub(super) allocated: BTreeSet<u64>,
    /// The allocated pages that a power failure may take back.
    pub(super) allocated_since_sync: BTreeSet<u64>,
    /// The pages of the staging memory with disk space behind them.
    pub(super) staging_allocated: BTreeSet<u64>,
    /// An earlier content of pages of the staging memory, as the kernel wrote them at some moment.
    pub(super) staging_pages: BTreeMap<u64, Arc<DiskPage>>,
    /// The most it has room for.
    pub(super) space_bytes: u64,
    /// Whether it has no room even for a rewrite.
    pub(super) refuses_writes: bool,
    /// Pages that a remount reads as zeros after any write: the file system never
    /// learned that they hold data.
    pub(super) stranded: BTreeSet<u64>,
    /// The sync that will fail.
    pub(super) failing_sync: Option<FailingSync>,
    /// How many writes from now one fails.
    pub(super) failing_write: Option<u64>,
    /// The same for releases.
    pub(super) failing_release: Option<u64>,
    /// What cannot be read.
    pub(super) unreadable: Vec<Range<u64>>,
    /// What happens at moments for which the test gives no seed.
    pub(super) chance: Coin,
    pub(super) boot: u64,
    pub(super) counts: DiskCounts,
}

/// A sync that a test lets fail.
#[derive(Clone, Copy)]
pub(super) struct FailingSync {
    /// How many syncs from now it is, 1 being the next.
    pub(super) nth: u64,
    /// Decides which pages it writes all the same.
    pub(super) seed: u64,
    /// The fate of pages that were never written before, and are not now.
    pub(super) fresh_pages: FreshPages,
}

/// The fate of a page after its first write-back has failed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FreshPages {
    /// It can be written later.
    Writable,
    /// It is stranded.
    Stranded,
}

#[derive(Clone, Default)]
pub(super) struct DiskCounts {
    pub(super) syncs: u64,
    pub(super) synced_bytes: u64,
    pub(super) writes: u64,
    pub(super) written_bytes: u64,
    pub(super) reserved_bytes: u64,
    pub(super) read_bytes: u64,
}

impl Disk {
    pub(super) fn page_mut(&mut self, page: u64) -> &mut DiskPage {
        Arc::make_mut(self.pages.entry(page).or_insert_with(|| Arc::new(ZEROS)))
    }

    pub(super) fn dirty_pages(&self) -> BTreeSet<u64> {
        self.dirty
            .iter()
            .map(|sector| sector / SECTORS_A_PAGE)
            .collect()
    }

    /// How many more pages there is room for.
    pub(super) fn room(&self) -> u64 {
        let taken = self.allocated.len() + self.staging_allocated.len();
        (self.space_bytes / PAGE_BYTES).saturating_sub(taken as u64)
    }

    /// Forgets bytes beyond a length.
    pub(super) fn cut(&mut self, len_bytes: u64) {
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
        self.stranded.split_off(&pages);
        self.dirty.split_off(&len_bytes.div_ceil(SECTOR_BYTES));
    }

    /// Strands the pages that the file system has no written content of.
    pub(super) fn strand(&mut self, pages: BTreeSet<u64>) {
        let is_fresh = |page: &u64| !self.pages.contains_key(page) || self.released.contains(page);
        self.stranded.extend(pages.into_iter().filter(is_fresh));
    }

    /// Lets the stranded pages be what a remount finds: zero, and ready to be written.
    pub(super) fn remount(&mut self) {
        for page in std::mem::take(&mut self.stranded) {
            // Of its old space, should it have that again, the file system knows.
            if self.released.contains(&page) {
                continue;
            }
            self.pages.remove(&page);
            sectors_of(page).for_each(|sector| {
                self.dirty.remove(&sector);
            });
        }
    }

    /// Forgets the failures that were asked for, and the counts.
    pub(super) fn restart(&mut self) {
        self.failing_sync = None;
        (self.failing_write, self.failing_release) = (None, None);
        self.counts = DiskCounts::default();
    }

    /// Counts down to the failing sync, and returns it if this is the one.
    pub(super) fn take_failing_sync(&mut self) -> Option<FailingSync> {
        let mut failing = self.failing_sync.take()?;
        if failing.nth > 1 {
            failing.nth -= 1;
            self.failing_sync = Some(failing);
            return None;
        }
        Some(failing)
    }
}

/// Counts down to the call that fails. Returns whether this is the one.
pub(super) fn is_failing(calls_left: &mut Option<u64>) -> bool {
    *calls_left = calls_left.map(|left| left - 1);
    calls_left.take_if(|left| *left == 0).is_some()
}

/// The pages that a range touches.
pub(super) fn pages_of(offset: u64, len: u64) -> Range<u64> {
    if len == 0 {
        return 0..0;
    }
    offset / PAGE_BYTES..(offset + len).div_ceil(PAGE_BYTES)
}

pub(super) fn sectors_of(page: u64) -> Range<u64> {
    page * SECTORS_A_PAGE..(page + 1) * SECTORS_A_PAGE
}

/// The sectors that a range touches.
pub(super) fn touched_sectors(offset: u64, len: u64) -> Range<u64> {
    if len == 0 {
        return 0..0;
    }
    offset / SECTOR_BYTES..(offset + len).div_ceil(SECTOR_BYTES)
}
