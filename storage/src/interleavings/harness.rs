//! Parts that the scenarios share: a disk that is watched, versions with a number, and the checks
//! at the end.

use crate::core::Namespace;
use crate::device::{
    BLOCK_BYTES, Device, DeviceError, HEADER_BYTES, Header as DeviceHeader, Member, SimulatedDevice,
};
use crate::digest::Digest;
use crate::entry::EntryView;
use crate::location::UNIT_BYTES;
use crate::log::block::{BlockPhase, ENTRIES_AT};
use crate::options::{Options, Storage};
use crate::record_lock::NewVersion;
use crate::sync::{Arc, Mutex, thread};
use std::ptr::NonNull;

pub(crate) const BLOCKS: u64 = 10;
/// Enough for the entries of a test at the start of a block.
pub(crate) const WATCHED_BYTES: u64 = 4096;
/// Small payloads are staged.
pub(crate) const SMALL: usize = 40;
/// A payload that goes straight to the device: staged entries are flushed before, and the buffer
/// begun anew behind.
pub(crate) const LARGE: usize = 20 << 10;
/// Written whole and edited by deltas.
pub(crate) const EDITED: usize = 4 << 10;

/// Random schedules, and ones with few but well-placed switches.
pub(crate) fn explore(runs: usize, scenario: impl Fn() + Send + Sync + Clone + 'static) {
    let config = || {
        let mut config = shuttle::Config::default();
        // Opening a namespace takes more stack than the model's threads have by default.
        config.stack_size = 256 << 10;
        config
    };
    let random = shuttle::scheduler::RandomScheduler::new(runs);
    shuttle::Runner::new(random, config()).run(scenario.clone());
    let few_switches = shuttle::scheduler::PctScheduler::new(3, runs);
    shuttle::Runner::new(few_switches, config()).run(scenario);
}

/// The content of a device when a sync of it began: of each block, its offset and the beginning of
/// its entries.
pub(crate) type Seen = Vec<(u64, Vec<u8>)>;

/// A disk that keeps what its blocks began with when a sync began, and lets others run during it.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(super) disk: SimulatedDevice,
    pub(super) at_sync: Mutex<Seen>,
}

impl Watched {
    fn starts_of_blocks(&self) -> Seen {
        let blocks = (0..BLOCKS).map(|block| HEADER_BYTES + block * BLOCK_BYTES + ENTRIES_AT);
        let reachable = blocks.filter(|at| at + WATCHED_BYTES <= self.disk.len_bytes());
        reachable
            .map(|at| (at, self.disk.snapshot_range(at..at + WATCHED_BYTES)))
            .collect()
    }
}

// SAFETY: all that is promised is promised by the disk.
unsafe impl Device for Watched {
    fn base(&self) -> NonNull<u8> {
        self.disk.base()
    }

    fn max_bytes(&self) -> u64 {
        self.disk.max_bytes()
    }

    fn len_bytes(&self) -> u64 {
        self.disk.len_bytes()
    }

    fn extend(&self, wanted_bytes: u64) -> Result<(), DeviceError> {
        self.disk.extend(wanted_bytes)
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.disk.reserve(offset, len)
    }

    fn release(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.disk.release(offset, len)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.disk.write(offset, bytes)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.disk.read(offset, into)
    }

    fn populate(&self, _offset: u64, _len: u64) {}

    fn sync(&self) -> Result<(), DeviceError> {
        *self.at_sync.lock() = self.starts_of_blocks();
        thread::yield_now();
        self.disk.sync()
    }

    fn staging(&self) -> Option<NonNull<u8>> {
        self.disk.staging()
    }

    fn reserve_staging(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.disk.reserve_staging(offset, len)
    }

    fn allocated_bytes(&self) -> u64 {
        self.disk.allocated_bytes()
    }

    fn boot(&self) -> u64 {
        self.disk.boot()
    }

    fn describe(&self) -> String {
        "watched".to_owned()
    }
}

/// Returns an empty namespace with this number of lanes, and the device under it.
pub(crate) fn open_with(write_lanes: usize) -> (Namespace, Arc<Watched>) {
    let member = Member {
        namespace: "test".into(),
        index: 0,
        count: 1,
        key_hash: 0,
    };
    let header = DeviceHeader {
        device_id: 7,
        member,
        max_bytes: HEADER_BYTES + BLOCKS * BLOCK_BYTES,
        block_bytes: BLOCK_BYTES,
        created_unix_ms: 1,
    };
    let device = Arc::new(Watched {
        disk: SimulatedDevice::new(&header).unwrap(),
        at_sync: Mutex::default(),
    });
    let storage = Storage::Devices(vec![Arc::clone(&device) as Arc<dyn Device>]);
    let options = Options {
        background: false,
        defrag_threshold_percent: 95,
        write_lanes,
        ..Options::new("test", storage)
    };
    (Namespace::open(options).unwrap().0, device)
}

pub(crate) fn open() -> Namespace {
    open_with(1).0
}

/// Records 0 and 2 share a partition.
pub(crate) fn digest(record: u8) -> Digest {
    Digest::new([record; Digest::LEN])
}

/// A version of a record: its number fills the payload.
pub(crate) fn version(payload: &[u8]) -> NewVersion<'_> {
    NewVersion {
        generation: u16::from(payload[0]),
        void_time: 0,
        last_update_ms: 1,
        set_id: 0,
        key: None,
        payload,
    }
}

pub(crate) fn put(namespace: &Namespace, record: u8, number: u8) {
    namespace
        .lock(&digest(record), None)
        .unwrap()
        .put(&version(&[number; SMALL]))
        .unwrap();
}

pub(crate) fn delete(namespace: &Namespace, record: u8, now_ms: u64) -> bool {
    let lock = namespace.lock(&digest(record), None).unwrap();
    lock.delete(now_ms).unwrap().is_some()
}

/// Puts the version after the one that is there.
pub(crate) fn increment(namespace: &Namespace, record: u8) {
    let lock = namespace.lock(&digest(record), None).unwrap();
    let old = lock.entry().unwrap().map_or(0, |entry| number_of(&entry));
    lock.put(&version(&[old + 1; SMALL])).unwrap();
}

/// The number of a version, which must be whole, be it looked at late.
pub(crate) fn number_of(entry: &EntryView<'_>) -> u8 {
    let number = entry.payload()[0];
    for _ in 0..4 {
        assert!(
            [SMALL, 200, LARGE].contains(&entry.payload().len())
                && entry.payload().iter().all(|byte| *byte == number),
            "torn"
        );
        assert_eq!(entry.generation(), u16::from(number), "torn");
        thread::yield_now();
    }
    number
}

pub(crate) fn read(namespace: &Namespace, record: u8) -> Option<u8> {
    namespace
        .get(&digest(record), |entry| {
            assert_eq!(entry.digest(), digest(record), "another record's bytes");
            number_of(&entry)
        })
        .unwrap()
}

pub(crate) fn spawn(
    namespace: &Namespace,
    run: impl FnOnce(&Namespace) + Send + 'static,
) -> thread::JoinHandle<()> {
    let namespace = namespace.clone();
    thread::spawn(move || run(&namespace))
}

/// Asserts that the index, the counts of blocks, and the sets agree.
pub(crate) fn assert_consistent(namespace: &Namespace) {
    let core = &namespace.core;
    let slots: Vec<_> = (0..crate::PARTITIONS)
        .flat_map(|partition| core.slots_of(partition))
        .collect();
    let units: u32 = slots.iter().map(|(_, slot)| slot.size_units).sum();
    let stats = namespace.stats();
    assert_eq!(
        stats.live_bytes,
        u64::from(units) * UNIT_BYTES,
        "live bytes"
    );
    assert_eq!(
        stats.records,
        slots.iter().filter(|(_, slot)| !slot.tombstone).count() as u64
    );
    for (_, block) in core.log.blocks() {
        if block.phase() == BlockPhase::Free {
            assert_eq!(block.live_units(), 0, "live units in a free block");
        }
    }
}
