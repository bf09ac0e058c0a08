//! The content of a namespace, and its costs.

/// Bytes written over the life of a namespace, as far as it was closed cleanly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Traffic {
    /// Headers and bodies that callers asked to store.
    pub requested_bytes: u64,
    /// Fresh log taken for them.
    pub appended_bytes: u64,
    /// Bytes that defragmentation has moved.
    pub moved_bytes: u64,
}

impl Traffic {
    /// Bytes of log used for each byte asked for; 1 before anything was written.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.requested_bytes == 0 {
            return 1.0;
        }
        (self.appended_bytes + self.moved_bytes) as f64 / self.requested_bytes as f64
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            requested_bytes: self.requested_bytes + other.requested_bytes,
            appended_bytes: self.appended_bytes + other.appended_bytes,
            moved_bytes: self.moved_bytes + other.moved_bytes,
        }
    }
}

/// A look at a namespace. Counters run from its opening, [`Stats::traffic`] from its creation.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Stats {
    /// Live records; expired ones until the expiry pass has met them.
    pub records: u64,
    /// Index entries, tombstones included.
    pub index_entries: u64,
    /// Memory of the index.
    pub index_bytes: u64,
    /// Memory of images: records that are edited by deltas, kept whole.
    pub image_bytes: u64,
    /// Bytes of live entries in the log.
    pub live_bytes: u64,
    /// Blocks that hold entries.
    pub used_blocks: u64,
    /// Disk space that the devices take, staging memory included.
    pub device_bytes: u64,
    /// Blocks that are free, or that the devices can grow by.
    pub available_blocks: u64,
    /// Blocks kept for deletes and defragmentation: with no more than these available, writes are
    /// stopped.
    pub reserve_blocks: u64,
    /// Writes are stopped for want of space.
    pub stop_writes: bool,
    /// Why the namespace is read-only, if it is.
    pub read_only: Option<String>,
    /// Bytes that were written to the devices, by what for.
    pub traffic: Traffic,
    /// Syncs that succeeded.
    pub syncs: u64,
    /// How long they took together.
    pub sync_time: std::time::Duration,
    /// Writers refused because too many waited.
    pub key_busy: u64,
    /// Writers that had to wait.
    pub waits: u64,
    /// Writers that gave up waiting.
    pub timeouts: u64,
    /// Writers that had to wait for space.
    pub space_waits: u64,
    /// Times a damaged record was met.
    pub damaged: u64,
    /// Bytes of the devices that opening, cleaning or the tombstone pass could not read. Their
    /// content is [`crate::Error::Damaged`], and its blocks are kept.
    pub unreadable_bytes: u64,
    /// Expired records removed.
    pub expired: u64,
    /// Blocks emptied by defragmentation.
    pub defragmented_blocks: u64,
    /// Tombstones that were forgotten, since nothing older is left of their records.
    pub dropped_tombstones: u64,
}

impl Stats {
    /// Memory of the index for each of its entries, in bytes.
    #[must_use]
    pub fn index_bytes_per_record(&self) -> f64 {
        self.index_bytes as f64 / self.index_entries.max(1) as f64
    }
}
