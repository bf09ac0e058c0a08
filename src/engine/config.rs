//! How a namespace is kept.

use std::sync::Arc;
use std::time::Duration;

use spikelet_storage::{Clock, Durability, OpeningProgress, Options, ReadMode, Storage};

use crate::record::KeyHash;
use crate::setters::setters;
use crate::{Error, Result};

use super::policy::check_time_to_live;

/// How a namespace is kept: size, durability, limits.
///
/// Options fixed at the namespace's creation are taken from its files when it is opened again.
/// Begin with [`NamespaceConfig::new`] and change what should differ:
///
/// ```
/// use spikelet::{Durability, NamespaceConfig, Store};
///
/// # fn main() -> spikelet::Result<()> {
/// let config = NamespaceConfig::new("sessions")
///     .durability(Durability::Commit)
///     .max_device_bytes(4 << 30);
/// let store = Store::builder().namespace(config).open()?;
/// assert_eq!(store.namespaces().len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NamespaceConfig {
    /// 1 to 31 bytes; on disk also the name of its directory: letters, digits, `_` and `-`.
    pub name: String,
    /// How many files the log is striped over (1..=15). Fixed at creation. Default: 1.
    pub devices: usize,
    /// The most each of them may grow to, in bytes: at most 512 GiB, and room for five blocks in
    /// all of them together. Blocks have 8 MiB, or 17/16 MiB up to 4 GiB (see `max_record_bytes`).
    /// Fixed at creation. Default: 64 GiB.
    pub max_device_bytes: u64,
    /// How keys become digests. Fixed at creation. Default: XXH3.
    pub key_hash: KeyHash,
    /// The cost of a power failure. Default: `Interval(100 ms)`.
    pub durability: Durability,
    /// The largest record with its header, in bytes: 64 B..=8 MiB, of which a block holds 1,600 B
    /// less. Default: 1 MiB, Aerospike's. A namespace of small devices (up to 4 GiB each) that was
    /// created with 1 MiB or less cannot be opened with more.
    pub max_record_bytes: u64,
    /// The time to live of records when the writer leaves it to the namespace. Default: never.
    pub default_time_to_live: Option<Duration>,
    /// Memory for records that are edited by small changes, in bytes: their present versions are
    /// kept whole in it, and only the changes of an edit are written. 0: every edit writes its
    /// record whole. Default: 256 MiB, taken as it is needed.
    pub image_bytes_max: u64,
    /// The most memory that the secondary indexes may take, in bytes: writes that would add entries
    /// beyond get [`Error::IndexMemory`]. 0, the default: no limit.
    pub index_bytes_max: u64,
    /// How much that is dead may be kept in the log for subscriptions to changes, in bytes: one
    /// that needs older changes gets [`Error::ChangesLost`]. 0, the default: an eighth of the
    /// devices' maximum size.
    pub change_bytes_max: u64,
    /// How long a write may wait while space is short and defragmentation can win some, at most the
    /// policy's [`total_timeout`](crate::WritePolicy::total_timeout); after that, and at once where
    /// nothing can be won, it gets [`Error::StopWrites`]. Default: 5 s. Needs `background`.
    pub max_space_wait: Duration,
    /// How records are read from the devices: in a mapping, the default, or by calls, so that a
    /// sector that has become unreadable is an error and not a signal.
    pub read_mode: ReadMode,
    /// How many writers may queue for one record; one more gets [`Error::KeyBusy`]. 0 = never
    /// queue. Default: 1,000, so that threads of one service wait for one another, as long as their
    /// policy's [`total_timeout`](crate::WritePolicy::total_timeout) says; a server has Aerospike's
    /// limit (`ServerConfig::namespace_of`).
    pub max_waiters: usize,
    /// How many blocks are filled at once (1..=64). 0, the default: one for each core, at most 8,
    /// and at most one for every 24 blocks that the devices may grow to.
    pub write_lanes: usize,
    /// Blocks with a live share below this percentage are defragmented. Default: 50.
    pub defrag_threshold_percent: u8,
    /// Live bytes that defragmentation may move a second, unless space is short. Default: 64 MiB.
    pub defrag_bytes_per_second: u64,
    /// How often expired records are looked for. Default: 120 s, Aerospike's usual `nsup-period`.
    pub expiry_period: Duration,
    /// Whether threads sync, defragment and expire in the background. Default: true.
    pub background: bool,
}

/// The smallest limit of a record's size: Aerospike's.
const MIN_MAX_RECORD_BYTES: u64 = 64;

/// More than the threads that services block; see decision 8.
const DEFAULT_MAX_WAITERS: usize = 1_000;

/// The largest limit of a record's size: Aerospike's. A block holds a little less.
const MAX_MAX_RECORD_BYTES: u64 = 8 << 20;

impl NamespaceConfig {
    /// The defaults for a namespace of this name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let of_storage = Options::new(name, Storage::Memory);
        Self {
            name: name.to_owned(),
            devices: 1,
            max_device_bytes: of_storage.max_device_bytes,
            key_hash: KeyHash::default(),
            durability: of_storage.durability,
            max_record_bytes: 1 << 20,
            default_time_to_live: None,
            image_bytes_max: of_storage.image_bytes_max,
            index_bytes_max: 0,
            change_bytes_max: 0,
            max_space_wait: of_storage.max_space_wait,
            read_mode: of_storage.read_mode,
            max_waiters: DEFAULT_MAX_WAITERS,
            write_lanes: of_storage.write_lanes,
            defrag_threshold_percent: of_storage.defrag_threshold_percent,
            defrag_bytes_per_second: of_storage.defrag_bytes_per_second,
            expiry_period: of_storage.expiry_period,
            background: true,
        }
    }

    setters! { const
        /// Sets [`NamespaceConfig::devices`]: how many files the log is striped over (1..=15).
        devices: usize,
        /// Sets [`NamespaceConfig::max_device_bytes`]: the most that each file may grow to, in
        /// bytes.
        max_device_bytes: u64,
        /// Sets [`NamespaceConfig::key_hash`]: how keys become digests.
        key_hash: KeyHash,
        /// Sets [`NamespaceConfig::durability`]: the cost of a power failure.
        durability: Durability,
        /// Sets [`NamespaceConfig::max_record_bytes`]: the largest record with its header, in
        /// bytes.
        max_record_bytes: u64,
    }

    setters! {
        /// Sets [`NamespaceConfig::default_time_to_live`]: the time to live of records when the
        /// writer leaves it to the namespace; `None`: no end.
        default_time_to_live: impl Into<Option<Duration>>,
    }

    setters! { const
        /// Sets [`NamespaceConfig::image_bytes_max`]: the memory for records that are edited by
        /// small changes, in bytes.
        image_bytes_max: u64,
        /// Sets [`NamespaceConfig::index_bytes_max`]: the most memory that the secondary indexes
        /// may take, in bytes; 0: no limit.
        index_bytes_max: u64,
        /// Sets [`NamespaceConfig::change_bytes_max`]: how much that is dead may be kept for
        /// subscriptions, in bytes; 0: an eighth of the devices' greatest size.
        change_bytes_max: u64,
        /// Sets [`NamespaceConfig::read_mode`]: how records are read from the devices.
        read_mode: ReadMode,
        /// Sets [`NamespaceConfig::max_space_wait`]: how long a write may wait while space is
        /// short.
        max_space_wait: Duration,
        /// Sets [`NamespaceConfig::max_waiters`]: how many writers may queue for one record; 0:
        /// none.
        max_waiters: usize,
        /// Sets [`NamespaceConfig::write_lanes`]: how many blocks are filled at once.
        write_lanes: usize,
        /// Sets [`NamespaceConfig::defrag_threshold_percent`]: below which live share, in percent,
        /// a block is defragmented.
        defrag_threshold_percent: u8,
        /// Sets [`NamespaceConfig::defrag_bytes_per_second`]: how many live bytes defragmentation
        /// may move a second.
        defrag_bytes_per_second: u64,
        /// Sets [`NamespaceConfig::expiry_period`]: how often expired records are looked for.
        expiry_period: Duration,
        /// Sets [`NamespaceConfig::background`]: whether threads sync, defragment and expire in the
        /// background.
        background: bool,
    }

    pub(super) fn check(&self) -> Result<()> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if self.name.is_empty() || self.name.len() > 31 || !self.name.chars().all(plain) {
            return Err(Error::parameter(format!(
                "namespace {:?}: a name has 1 to 31 letters, digits, '_' or '-'",
                self.name
            )));
        }
        if !(MIN_MAX_RECORD_BYTES..=MAX_MAX_RECORD_BYTES).contains(&self.max_record_bytes) {
            return Err(Error::parameter(format!(
                "max_record_bytes = {}: {MIN_MAX_RECORD_BYTES} to {MAX_MAX_RECORD_BYTES} bytes are possible",
                self.max_record_bytes
            )));
        }
        self.default_time_to_live.map_or(Ok(()), check_time_to_live)
    }

    pub(super) fn options(
        &self,
        storage: Storage,
        clock: &Arc<dyn Clock>,
        progress: &OpeningProgress,
    ) -> Options {
        let mut options = Options::new(&self.name, storage);
        options.max_device_bytes = self.max_device_bytes;
        options.max_record_bytes = self
            .max_record_bytes
            .min(spikelet_storage::Options::RECORD_BYTES_MAX);
        options.key_hash = match self.key_hash {
            KeyHash::Xxh3 => 0,
            KeyHash::Ripemd160 => 1,
        };
        options.durability = self.durability;
        options.image_bytes_max = self.image_bytes_max;
        options.change_bytes_max = self.change_bytes_max;
        options.max_space_wait = self.max_space_wait;
        options.read_mode = self.read_mode;
        options.max_waiters = self.max_waiters;
        options.write_lanes = self.write_lanes;
        options.defrag_threshold_percent = self.defrag_threshold_percent;
        options.defrag_bytes_per_second = self.defrag_bytes_per_second;
        options.expiry_period = self.expiry_period;
        options.background = self.background;
        options.clock = Arc::clone(clock);
        options.progress = progress.clone();
        options
    }
}

/// The function of a stored number.
pub(super) fn key_hash_of(number: u8) -> Result<KeyHash> {
    match number {
        0 => Ok(KeyHash::Xxh3),
        1 => Ok(KeyHash::Ripemd160),
        other => Err(Error::parameter(format!(
            "the namespace was created with key hash number {other}, which this version does not know: use a newer one"
        ))),
    }
}
