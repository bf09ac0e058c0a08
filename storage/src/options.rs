//! The options of a namespace, and the report of its opening.

use crate::clock::{Clock, SystemClock};
use crate::device::{
    BLOCK_BYTES, Device, HEADER_BYTES, NAMESPACE_BYTES_MAX, ReadMode, block_bytes_for,
};
use crate::digest::Digest;
use crate::durability::Durability;
use crate::entry::EntryView;
use crate::error::{Error, Result};
use crate::location::{DEVICES_MAX, UNIT_BYTES};
use crate::log::block::entry_units_max;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// One block to write to and one to defragment into, both kept open, one more, and two in reserve.
const BLOCKS_MIN: u64 = 5;

/// Where a namespace keeps its log.
#[derive(Clone, Debug)]
pub enum Storage {
    /// In anonymous memory, gone with the process. The same code as for files.
    Memory,
    /// In files `device-0` .. of a directory, which is created if need be, striped over `devices`
    /// of them (1..=15). On ext4, XFS and tmpfs small entries are staged in mapped memory; on other
    /// file systems each is written by a call.
    Files {
        /// The directory; one namespace each.
        dir: PathBuf,
        /// How many files. Fixed when the namespace is created.
        devices: usize,
    },
    /// On devices of one's own making, already created with their headers. There is no index
    /// snapshot.
    Devices(Vec<Arc<dyn Device>>),
}

/// How a namespace is opened. Build it from [`Options::new`] and change what should differ.
#[derive(Clone, Debug)]
pub struct Options {
    /// 1 to 31 bytes.
    pub name: String,
    /// Where the log is.
    pub storage: Storage,
    /// The most each device may grow to, in bytes (up to 512 GiB; together at least five blocks, of
    /// which two are kept for deletes and defragmentation). Fixed when the namespace is created.
    /// Blocks have 8 MiB; on devices of up to 4 GiB they have 17/16 MiB, unless `max_record_bytes`
    /// asks for larger ones.
    pub max_device_bytes: u64,
    /// The largest record with its header, in bytes, that blocks must hold: up to
    /// [`Options::RECORD_BYTES_MAX`]. Above 1 MiB a namespace is created with large blocks.
    /// Default: 1 MiB.
    pub max_record_bytes: u64,
    /// A number for the function that makes digests of keys. Fixed when the namespace is created.
    pub key_hash: u8,
    /// The cost of a power failure.
    pub durability: Durability,
    /// Memory for records that are edited by deltas, in bytes: their present versions are kept
    /// whole in it. 0: every edit writes its record whole. Default: 256 MiB, taken as it is needed.
    pub image_bytes_max: u64,
    /// How many writers may queue for one record; one more gets `KeyBusy`. 0 = never queue.
    pub max_waiters: usize,
    /// How records are read. Default: [`ReadMode::Mapped`].
    pub read_mode: ReadMode,
    /// How many blocks are filled at once (1..=64): about one for each thread that writes at the
    /// same time. Each keeps a block open and another in reserve. 0, the default, is one for each
    /// core, at most 8, and at most one for every 24 blocks that the devices may grow to.
    pub write_lanes: usize,
    /// Blocks with a live share below this percentage (1..=95) are defragmented.
    pub defrag_threshold_percent: u8,
    /// Live bytes that defragmentation may move a second, unless space is short.
    pub defrag_bytes_per_second: u64,
    /// How long a write may wait while space is short and defragmentation can win some, at most as
    /// long as the caller waits for locks; after that, and at once where nothing can be won, it is
    /// refused with [`Error::StopWrites`]. Default: 5 s. Needs `background`.
    pub max_space_wait: Duration,
    /// How often expired records are looked for.
    pub expiry_period: Duration,
    /// Whether threads sync, defragment and expire in the background. Without, nothing happens
    /// unless called: [`crate::Namespace::sync`], [`crate::Namespace::maintain`].
    pub background: bool,
    /// The clock: for expiry, last-update times and truncations.
    pub clock: Arc<dyn Clock>,
    /// Told how opening and closing get on.
    pub progress: OpeningProgress,
    /// Hears of records that expire, and of writers that meet.
    pub observer: Option<Arc<dyn Observer>>,
    /// How many dead bytes may be kept in the log for followers of the changes, before they lose
    /// the oldest. 0, the default: an eighth of the devices' maximum size.
    pub change_bytes_max: u64,
}

impl Options {
    /// How many may queue for one record: Aerospike's `transaction-pending-limit`.
    pub const DEFAULT_MAX_WAITERS: usize = 20;
    /// 64 GiB. Address space only: a device takes disk space for its content.
    pub const DEFAULT_MAX_DEVICE_BYTES: u64 = 64 << 30;
    /// The largest record that a block can hold, with its header, in bytes: 8 MiB less 1,600 B.
    pub const RECORD_BYTES_MAX: u64 = entry_units_max(BLOCK_BYTES) as u64 * UNIT_BYTES;
    /// The default of [`Options::image_bytes_max`]: 256 MiB.
    pub const DEFAULT_IMAGE_BYTES_MAX: u64 = 256 << 20;
    /// The default of [`Options::defrag_threshold_percent`], which is Aerospike's `defrag-lwm-pct`:
    /// 50 %.
    pub const DEFAULT_DEFRAG_THRESHOLD_PERCENT: u8 = 50;
    /// 64 MiB a second: an eighth of a plain SSD's rate.
    pub const DEFAULT_DEFRAG_BYTES_PER_SECOND: u64 = 64 << 20;

    /// The defaults for a namespace of this name.
    #[must_use]
    pub fn new(name: &str, storage: Storage) -> Self {
        Self {
            name: name.to_owned(),
            storage,
            max_device_bytes: Self::DEFAULT_MAX_DEVICE_BYTES,
            max_record_bytes: 1 << 20,
            key_hash: 0,
            durability: Durability::default(),
            image_bytes_max: Self::DEFAULT_IMAGE_BYTES_MAX,
            max_waiters: Self::DEFAULT_MAX_WAITERS,
            read_mode: ReadMode::default(),
            write_lanes: 0,
            defrag_threshold_percent: Self::DEFAULT_DEFRAG_THRESHOLD_PERCENT,
            defrag_bytes_per_second: Self::DEFAULT_DEFRAG_BYTES_PER_SECOND,
            max_space_wait: Duration::from_secs(5),
            expiry_period: Duration::from_secs(120),
            background: true,
            clock: Arc::new(SystemClock),
            progress: OpeningProgress::default(),
            observer: None,
            change_bytes_max: 0,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        let refuse = |option, value: String, rule| {
            Err(Error::BadOption {
                option,
                value,
                rule,
            })
        };
        if self.name.is_empty() || self.name.len() > NAMESPACE_BYTES_MAX || self.name.contains('\0')
        {
            return Err(Error::BadName {
                what: "namespace",
                name: self.name.clone(),
                rule: "a namespace's name has 1 to 31 bytes and no NUL byte",
            });
        }
        if self.write_lanes > 64 {
            return refuse(
                "write_lanes",
                self.write_lanes.to_string(),
                "1 to 64, or 0 for the default",
            );
        }
        if !(1..=95).contains(&self.defrag_threshold_percent) {
            let value = self.defrag_threshold_percent.to_string();
            return refuse("defrag_threshold_percent", value, "1 to 95");
        }
        let devices = match &self.storage {
            Storage::Memory => 1,
            Storage::Files { devices, .. } => *devices,
            Storage::Devices(devices) => devices.len(),
        };
        if !(1..=DEVICES_MAX).contains(&devices) {
            return refuse("devices", devices.to_string(), "1 to 15");
        }
        if self.max_record_bytes > Self::RECORD_BYTES_MAX {
            let value = self.max_record_bytes.to_string();
            return refuse("max_record_bytes", value, "at most 8 MiB less 1,600 B");
        }
        let block_bytes = block_bytes_for(self.max_device_bytes, self.max_record_bytes);
        let blocks = self.max_device_bytes.saturating_sub(HEADER_BYTES) / block_bytes;
        if blocks * (devices as u64) < BLOCKS_MIN {
            let value = self.max_device_bytes.to_string();
            return refuse(
                "max_device_bytes",
                value,
                "room for five blocks over all devices, besides the header of each: 6 MiB for one, or 41 MiB for records above 1 MiB",
            );
        }
        if self.durability == Durability::Interval(Duration::ZERO) {
            return refuse(
                "durability",
                "Interval(0)".into(),
                "use Commit to sync at every write",
            );
        }
        Ok(())
    }
}

/// The present step of an opening or a close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OpeningStep {
    /// Reading the log, in blocks.
    Scan,
    /// Reading the index snapshot, in partitions.
    ReadSnapshot,
    /// Writing the index snapshot, in partitions.
    WriteSnapshot,
}

type Callback = dyn Fn(OpeningStep, u64, u64) + Send + Sync;

/// A callback `(step, done, total)`, called from several threads. Does nothing by default.
#[derive(Clone, Default)]
pub struct OpeningProgress(Option<Arc<Callback>>);

impl OpeningProgress {
    /// Reports progress to `callback`.
    #[must_use]
    pub fn new(callback: impl Fn(OpeningStep, u64, u64) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(callback)))
    }

    pub(crate) fn report(&self, step: OpeningStep, done: u64, total: u64) {
        if let Some(callback) = &self.0 {
            callback(step, done, total);
        }
    }
}

impl fmt::Debug for OpeningProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "OpeningProgress(..)"
        } else {
            "OpeningProgress(none)"
        })
    }
}

/// The reports of a namespace to the program above it. The calls must be short, and must not use
/// the namespace.
pub trait Observer: fmt::Debug + Send + Sync {
    /// This record was removed, since its time is over. It is still locked. `set_name` returns the name
    /// of its set.
    fn expires(&self, entry: &EntryView<'_>, set_name: &dyn Fn() -> String);

    /// A writer had to wait for a record, or was refused with [`Error::KeyBusy`].
    fn contends(&self, digest: &Digest, refused: bool);

    /// Returns what a clean close keeps for [`Observer::restore`], at most 64 KiB.
    fn notes(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes the notes of the last clean close. A store that was not closed has none.
    fn restore(&self, _notes: &[u8]) {}
}

/// The findings of an opening. From a snapshot, which spares it the log, it finds damage in headers
/// of devices alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// The namespace is new.
    pub created: bool,
    /// The index came from the snapshot of a clean close; otherwise the log was read.
    pub from_snapshot: bool,
    /// Blocks in use.
    pub blocks: u64,
    /// Entries read from the log (0 with a snapshot).
    pub entries: u64,
    /// Durable entries with changed bytes. Their records answer with [`Error::Damaged`], except
    /// where a newer version is whole.
    pub damaged_entries: u64,
    /// Copies of the devices' static headers with changed bytes. Each has another copy; an opening
    /// to write mends it.
    pub damaged_headers: u64,
    /// Blocks with unreadable headers, so that their entries are lost. They are left alone, and not
    /// used again.
    pub damaged_blocks: u64,
    /// Durable bytes that hold no entry any more. Their records are known, unless they are among
    /// `unknown_bytes`.
    pub damaged_bytes: u64,
    /// Durable bytes that cannot be attributed to records: every record that was not written since
    /// answers with [`Error::MaybeStale`].
    pub unknown_bytes: u64,
    /// Groups of entries that were not whole, of which nothing was taken.
    pub rolled_back_groups: u64,
}
