//! The whole store under the model checker: readers, writers, defragmentation and sync, in thousands of schedules.
//!
//! Stores into device memory are no steps of the model, but every copy from staging memory is two of them, so that a buffer
//! can be begun anew in the middle of one. What is checked is who may reach which bytes when. Run with
//! `RUSTFLAGS="--cfg shuttle" cargo test -p spikelet-storage --lib --release interleavings`.

use crate::device::{
    BLOCK_BYTES, Device, DeviceError, FORMAT_VERSION, HEADER_BYTES, Header as DeviceHeader, Member,
    SimulatedDevice,
};
use crate::digest::Digest;
use crate::location::UNIT_BYTES;
use crate::lock::record_lock::{Change, NewVersion};
use crate::log::block::{ENTRIES_AT, Phase};
use crate::log::entry::{ENTRY_HEADER_BYTES, EntryView, Header};
use crate::namespace::Namespace;
use crate::options::{Options, Storage};
use crate::sync::{Arc, Mutex, thread};
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCKS: u64 = 10;
/// Enough for the entries of a test at the start of a block.
const WATCHED_BYTES: u64 = 4096;
/// Small payloads are staged.
const SMALL: usize = 40;
/// A payload that goes straight to the device: what is staged is flushed before, and the buffer begun anew behind.
const LARGE: usize = 20 << 10;
/// Written whole and edited by deltas.
const EDITED: usize = 4 << 10;

/// Random schedules, and ones with few but well-placed switches.
fn explore(runs: usize, scenario: impl Fn() + Send + Sync + Clone + 'static) {
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

/// What a device held when a sync of it began: of each block, where it lies and how its entries begin.
type Seen = Vec<(u64, Vec<u8>)>;

/// A disk that keeps what its blocks began with when a sync began, and lets others run during it.
#[derive(Debug)]
struct Watched {
    disk: SimulatedDevice,
    at_sync: Mutex<Seen>,
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

    fn write(&self, offset: u64, parts: &[&[u8]]) -> Result<(), DeviceError> {
        self.disk.write(offset, parts)
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
fn open_with(write_lanes: usize) -> (Namespace, Arc<Watched>) {
    let member = Member {
        namespace: "test".into(),
        index: 0,
        count: 1,
        key_hash: 0,
    };
    let header = DeviceHeader {
        version: FORMAT_VERSION,
        device_id: 7,
        member,
        max_bytes: HEADER_BYTES + BLOCKS * BLOCK_BYTES,
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

fn open() -> Namespace {
    open_with(1).0
}

/// Records 0 and 2 share a partition.
fn digest(record: u8) -> Digest {
    Digest::new([record; Digest::LEN])
}

/// A version of a record: its number fills the payload.
fn version(payload: &[u8]) -> NewVersion<'_> {
    NewVersion {
        generation: u16::from(payload[0]),
        void_time: 0,
        last_update_ms: 1,
        set_id: 0,
        key: None,
        payload,
    }
}

fn put(namespace: &Namespace, record: u8, number: u8) {
    namespace
        .lock(&digest(record), None)
        .unwrap()
        .put(&version(&[number; SMALL]))
        .unwrap();
}

fn delete(namespace: &Namespace, record: u8, now_ms: u64) -> bool {
    let lock = namespace.lock(&digest(record), None).unwrap();
    lock.delete(now_ms).unwrap().is_some()
}

/// Puts the version after the one that is there.
fn increment(namespace: &Namespace, record: u8) {
    let lock = namespace.lock(&digest(record), None).unwrap();
    let old = lock.entry().unwrap().map_or(0, |entry| number_of(&entry));
    lock.put(&version(&[old + 1; SMALL])).unwrap();
}

/// The number of a version, which must be whole, be it looked at late.
fn number_of(entry: &EntryView<'_>) -> u8 {
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

fn read(namespace: &Namespace, record: u8) -> Option<u8> {
    namespace
        .get(&digest(record), |entry| {
            assert_eq!(entry.digest(), digest(record), "another record's bytes");
            number_of(&entry)
        })
        .unwrap()
}

fn spawn(
    namespace: &Namespace,
    run: impl FnOnce(&Namespace) + Send + 'static,
) -> thread::JoinHandle<()> {
    let namespace = namespace.clone();
    thread::spawn(move || run(&namespace))
}

/// The index, the counts of blocks, and the sets tell the same.
fn assert_consistent(namespace: &Namespace) {
    let core = &namespace.core;
    let slots: Vec<_> = (0..crate::PARTITIONS)
        .flat_map(|partition| core.slots_of(partition))
        .collect();
    let units: u32 = slots.iter().map(|(_, slot)| slot.size_units).sum();
    let commits: u32 = core
        .groups
        .lock()
        .iter()
        .map(|(_, _, commit)| commit.units)
        .sum();
    let stats = namespace.stats();
    assert_eq!(
        stats.live_bytes,
        u64::from(units + commits) * UNIT_BYTES,
        "live bytes"
    );
    assert_eq!(
        stats.records,
        slots.iter().filter(|(_, slot)| !slot.tombstone).count() as u64
    );
    for volume in core.log.volumes() {
        for block in volume
            .blocks()
            .iter()
            .filter(|block| block.phase() == Phase::Free)
        {
            assert_eq!(block.live_units(), 0, "live units in a free block");
        }
    }
}

fn readers_see_whole_versions_in_order(records: [u8; 2]) {
    let namespace = open();
    let writers = records.map(|record| {
        spawn(&namespace, move |namespace| {
            (0..3).for_each(|_| increment(namespace, record))
        })
    });
    let reader = spawn(&namespace, move |namespace| {
        let mut last = [0, 0];
        for _ in 0..3 {
            for (record, last) in records.iter().zip(&mut last) {
                let number = read(namespace, *record).unwrap_or(0);
                assert!(number >= *last, "{number} after {last}");
                *last = number;
            }
        }
    });
    writers
        .into_iter()
        .chain([reader])
        .for_each(|thread| thread.join().unwrap());
    let expected = if records[0] == records[1] { 6 } else { 3 };
    for record in records {
        assert_eq!(read(&namespace, record), Some(expected));
    }
    assert_consistent(&namespace);
}

#[test]
fn two_writers_of_one_record_and_a_reader() {
    explore(1_500, || readers_see_whole_versions_in_order([1, 1]));
}

#[test]
fn two_writers_of_two_records_and_a_reader() {
    explore(1_500, || readers_see_whole_versions_in_order([0, 2]));
}

#[test]
fn staged_entries_do_not_change_under_readers_while_buffers_are_flushed_and_begun_anew() {
    explore(2_500, || {
        let namespace = open();
        put(&namespace, 0, 1);
        put(&namespace, 1, 1);
        let writer = spawn(&namespace, |namespace| {
            put(namespace, 0, 2);
            // Ends the buffer: what comes next lies where the first entries were staged.
            let lock = namespace.lock(&digest(4), None).unwrap();
            lock.put(&version(&[1; LARGE])).unwrap();
            put(namespace, 3, 7);
            put(namespace, 3, 8);
            put(namespace, 0, 3);
        });
        let syncer = spawn(&namespace, |namespace| namespace.sync().unwrap());
        let mut last = 0;
        for _ in 0..3 {
            let number = read(&namespace, 0).unwrap();
            assert!(number >= last, "{number} after {last}");
            last = number;
            assert_eq!(read(&namespace, 1), Some(1));
        }
        // A writer that has the record locked goes on seeing the version that it found.
        let lock = namespace.lock(&digest(1), None).unwrap();
        let seen = number_of(&lock.entry().unwrap().unwrap());
        lock.put(&version(&[seen + 1; SMALL])).unwrap();
        writer.join().unwrap();
        syncer.join().unwrap();
        let found = [0, 1, 3, 4].map(|record| read(&namespace, record));
        assert_eq!(found, [Some(3), Some(2), Some(8), Some(1)]);
        assert_consistent(&namespace);
    });
}

/// The number in the middle of a record that is edited there, and whether all the rest is as it was.
fn edited(namespace: &Namespace) -> u8 {
    let number = namespace.get(&digest(9), |entry| {
        let payload = entry.payload();
        let number = payload[EDITED / 2];
        for _ in 0..3 {
            assert_eq!(payload.len(), EDITED, "torn");
            let (before, rest) = payload.split_at(EDITED / 2);
            let (middle, behind) = rest.split_at(8);
            assert!(middle.iter().all(|byte| *byte == number), "torn");
            assert!(before.iter().chain(behind).all(|byte| *byte == 7), "torn");
            assert_eq!(entry.generation(), u16::from(number), "torn");
            thread::yield_now();
        }
        number
    });
    number.unwrap().unwrap()
}

#[test]
fn records_that_are_edited_by_deltas_do_not_change_under_readers() {
    static DELTAS: AtomicU64 = AtomicU64::new(0);
    explore(1_000, || {
        let namespace = open();
        let edit = |namespace: &Namespace, number: u8| {
            let mut payload = [7; EDITED];
            payload[EDITED / 2..][..8].fill(number);
            let lock = namespace.lock(&digest(9), None).unwrap();
            let version = NewVersion {
                generation: u16::from(number),
                ..version(&payload)
            };
            lock.put(&version).unwrap();
        };
        edit(&namespace, 1);
        let before = namespace.stats().traffic.appended_bytes;
        let writer = spawn(&namespace, move |namespace| {
            (2..5).for_each(|number| edit(namespace, number));
        });
        let tidier = spawn(&namespace, |namespace| {
            namespace.core.log.close_lanes().unwrap();
            while namespace.core.defrag_step().unwrap().is_some() {}
            namespace.core.free_emptied(true).unwrap();
        });
        let mut last = 0;
        for _ in 0..3 {
            let number = edited(&namespace);
            assert!(number >= last, "{number} after {last}");
            last = number;
        }
        writer.join().unwrap();
        tidier.join().unwrap();
        assert_eq!(edited(&namespace), 4);
        let appended = namespace.stats().traffic.appended_bytes - before;
        DELTAS.fetch_add(u64::from(appended < 3 * EDITED as u64), Ordering::Relaxed);
    });
    assert!(DELTAS.load(Ordering::Relaxed) > 0, "every edit was whole");
}

/// A closed block that is worth moving: three records that live, and two versions that are dead.
fn closed_block(namespace: &Namespace) {
    put(namespace, 0, 1);
    put(namespace, 1, 1);
    namespace.sync().unwrap();
    put(namespace, 1, 2);
    put(namespace, 3, 1);
    put(namespace, 3, 2);
    namespace.core.log.close_lanes().unwrap();
}

#[test]
fn moved_records_and_reused_blocks_do_not_change_under_readers_and_writers() {
    static FREED: AtomicU64 = AtomicU64::new(0);
    explore(3_000, || {
        let namespace = open();
        closed_block(&namespace);
        let defragmenter = spawn(&namespace, |namespace| {
            let core = &namespace.core;
            for _ in 0..2 {
                core.defrag_step().unwrap();
                core.forget_stuck();
            }
            let freed = core.free_emptied(true).unwrap();
            FREED.fetch_add(freed as u64, Ordering::Relaxed);
            // The next block that is opened is the one that was given back last.
            core.log.close_lanes().unwrap();
            for record in 5..8 {
                let lock = namespace.lock(&digest(record), None).unwrap();
                lock.put(&version(&[9; 200])).unwrap();
            }
        });
        let writer = spawn(&namespace, |namespace| {
            put(namespace, 1, 3);
            put(namespace, 3, 3);
            increment(namespace, 0);
        });
        let mut last = 0;
        for _ in 0..3 {
            let number = read(&namespace, 0).unwrap();
            assert!(number >= last, "{number} after {last}");
            last = number;
        }
        assert!(read(&namespace, 1).unwrap() >= 2);
        writer.join().unwrap();
        defragmenter.join().unwrap();
        for (record, number) in [(0, 2), (1, 3), (3, 3), (5, 9), (6, 9), (7, 9)] {
            assert_eq!(read(&namespace, record), Some(number), "record {record}");
        }
        assert_consistent(&namespace);
    });
    assert!(FREED.load(Ordering::Relaxed) > 0, "no block was given back");
}

#[test]
fn groups_deletes_and_forgotten_tombstones_beside_defragmentation() {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    explore(1_500, || {
        let namespace = open();
        closed_block(&namespace);
        let defragmenter = spawn(&namespace, |namespace| {
            let core = &namespace.core;
            core.defrag_step().unwrap();
            core.free_emptied(true).unwrap();
            DROPPED.fetch_add(core.drop_tombstones().unwrap(), Ordering::Relaxed);
        });
        let writer = spawn(&namespace, |namespace| {
            let locks = [0, 1].map(|record| namespace.lock(&digest(record), None).unwrap());
            let changes = [Change::Put(version(&[7; 40])), Change::Delete(2)];
            namespace
                .commit_group(locks.into_iter().zip(changes).collect())
                .unwrap();
        });
        let deleter = spawn(&namespace, |namespace| {
            assert!(delete(namespace, 3, 2));
            put(namespace, 3, 4);
            assert!(delete(namespace, 3, 3));
        });
        [defragmenter, writer, deleter]
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let found = [0, 1, 3].map(|record| read(&namespace, record));
        assert_eq!(found, [Some(7), None, None]);
        assert_consistent(&namespace);
        // All of it goes to the last byte.
        namespace.core.forget_stuck();
        assert!(delete(&namespace, 0, 4));
        for _ in 0..3 {
            namespace.core.log.close_lanes().unwrap();
            namespace.maintain().unwrap();
        }
        let stats = namespace.stats();
        assert_eq!((stats.index_entries, stats.live_bytes), (0, 0), "{stats:?}");
    });
    assert!(
        DROPPED.load(Ordering::Relaxed) > 0,
        "no tombstone was forgotten in time"
    );
}

/// The numbers of the whole entries with which the blocks began.
fn numbers_in(namespace: &Namespace, seen: &Seen) -> BTreeSet<u64> {
    let volume = &namespace.core.log.volumes()[0];
    let mut found = BTreeSet::new();
    for (first, bytes) in seen {
        let index = (first - HEADER_BYTES) / BLOCK_BYTES;
        let life = volume.block(index as u32).unwrap().incarnation();
        for at in (0..bytes.len() - ENTRY_HEADER_BYTES).step_by(UNIT_BYTES as usize) {
            let raw = bytes[at..].first_chunk().unwrap();
            let place = volume.place(life, first + at as u64);
            if let Some(header) = Header::decode_checked(raw, place) {
                let body = bytes[at + ENTRY_HEADER_BYTES..].get(..header.body_bytes as usize);
                if body.is_some_and(|body| header.body_holds(raw, body)) {
                    found.insert(header.lsn.0);
                }
            }
        }
    }
    found
}

#[test]
fn what_a_sync_calls_durable_was_on_the_device_when_it_began() {
    for lanes in [1, 2] {
        explore(1_500, move || {
            let (namespace, device) = open_with(lanes);
            let first = namespace.last_lsn().get() + 1;
            let writers = [10, 20].map(|first| {
                spawn(&namespace, move |namespace| {
                    (0..3).for_each(|n| put(namespace, first + n, 1))
                })
            });
            for _ in 0..2 {
                let promised = namespace.last_lsn();
                namespace.wait_durable(promised).unwrap();
                let durable = namespace.durable_lsn();
                assert!(durable >= promised);
                let found = numbers_in(&namespace, &device.at_sync.lock());
                for number in first..=durable.get() {
                    assert!(found.contains(&number), "{number} was called durable");
                }
            }
            writers
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
    }
}

#[test]
fn a_truncation_takes_what_came_before_it_and_nothing_that_comes_later() {
    explore(2_000, || {
        let namespace = open();
        put(&namespace, 0, 1);
        let writers =
            [0, 1].map(|record| spawn(&namespace, move |namespace| put(namespace, record, 2)));
        namespace
            .truncate(crate::Truncate::Namespace, None)
            .unwrap();
        put(&namespace, 2, 3);
        writers
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let found = [0, 1, 2].map(|record| read(&namespace, record));
        // The others came before or after.
        assert!(found[0] != Some(1), "a truncated version is back");
        assert_eq!(found[2], Some(3), "what was written after it is gone");
        let records = found.iter().flatten().count() as u64;
        let stats = namespace.stats();
        assert_eq!((stats.records, stats.index_entries), (records, records));
    });
}
