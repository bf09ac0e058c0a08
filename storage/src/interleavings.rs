//! The whole store under the model checker: readers, writers, defragmentation and sync, in thousands of schedules.
//!
//! Stores into device memory are no steps of the model, so an entry is written at once; what is checked is who may reach
//! which bytes when. Run with `RUSTFLAGS="--cfg shuttle" cargo test -p spikelet-storage --lib --release interleavings`.

use crate::device::{
    BLOCK_BYTES, Device, DeviceError, HEADER_BYTES, Header as DeviceHeader, Member, MemoryDevice,
};
use crate::digest::Digest;
use crate::location::UNIT_BYTES;
use crate::lock::record_lock::{Change, NewVersion};
use crate::log::block::{BLOCK_HEADER_BYTES, Phase};
use crate::log::entry::{ENTRY_HEADER_BYTES, EntryView, Header, Kind};
use crate::namespace::Namespace;
use crate::options::{Options, Storage};
use crate::sync::{Arc, Mutex, thread};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCKS: u64 = 10;
/// Enough for the entries of a test at the start of the first block.
const WATCHED_BYTES: usize = 4096;

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

/// Memory that keeps what the start of its first block was when a sync began, and lets others run during it.
#[derive(Debug)]
struct Watched {
    memory: MemoryDevice,
    at_sync: Mutex<Option<Vec<u8>>>,
}

impl Watched {
    fn start_of_first_block(&self) -> Vec<u8> {
        let at = (HEADER_BYTES + BLOCK_HEADER_BYTES) as usize;
        // SAFETY: the first block is allocated before the first sync of a test, and threads of the model do not run at
        // the same time.
        unsafe { std::slice::from_raw_parts(self.base().as_ptr().add(at), WATCHED_BYTES) }.to_vec()
    }
}

// SAFETY: all that is promised is promised by the memory.
unsafe impl Device for Watched {
    fn base(&self) -> NonNull<u8> {
        self.memory.base()
    }

    fn max_bytes(&self) -> u64 {
        self.memory.max_bytes()
    }

    fn len_bytes(&self) -> u64 {
        self.memory.len_bytes()
    }

    fn grow(&self, len_bytes: u64) -> Result<(), DeviceError> {
        self.memory.grow(len_bytes)
    }

    fn populate(&self, _offset: u64, _len: u64) {}

    fn sync(&self) -> Result<(), DeviceError> {
        if self.len_bytes() > HEADER_BYTES {
            *self.at_sync.lock() = Some(self.start_of_first_block());
        }
        thread::yield_now();
        Ok(())
    }

    fn describe(&self) -> String {
        "watched".to_owned()
    }
}

/// An empty namespace of one lane, and the device under it.
fn open() -> (Namespace, Arc<Watched>) {
    let member = Member {
        namespace: "test".into(),
        index: 0,
        count: 1,
        key_hash: 0,
    };
    let max_bytes = HEADER_BYTES + BLOCKS * BLOCK_BYTES;
    let header = DeviceHeader {
        device_id: 7,
        member,
        max_bytes,
        created_unix_ms: 1,
    };
    let memory = MemoryDevice::new(&header).unwrap();
    let device = Arc::new(Watched {
        memory,
        at_sync: Mutex::new(None),
    });
    let storage = Storage::Devices(vec![Arc::clone(&device) as Arc<dyn Device>]);
    let options = Options {
        background: false,
        defrag_threshold_percent: 95,
        write_lanes: 1,
        ..Options::new("test", storage)
    };
    (Namespace::open(options).unwrap().0, device)
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
        .put(&version(&[number; 40]))
        .unwrap();
}

/// Puts the version after the one that is there.
fn increment(namespace: &Namespace, record: u8) {
    let lock = namespace.lock(&digest(record), None).unwrap();
    let old = lock.entry().unwrap().map_or(0, |entry| number_of(&entry));
    lock.put(&version(&[old + 1; 40])).unwrap();
}

/// The number of a version, which must be whole, be it looked at late.
fn number_of(entry: &EntryView<'_>) -> u8 {
    let number = entry.payload()[0];
    for _ in 0..4 {
        assert!(
            [40, 200].contains(&entry.payload().len())
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
    let (namespace, _) = open();
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
fn recycled_space_does_not_change_under_a_reader() {
    static RECYCLED_BYTES: AtomicU64 = AtomicU64::new(0);
    explore(2_000, || {
        let (namespace, _) = open();
        put(&namespace, 0, 1);
        let writer = spawn(&namespace, |namespace| {
            (2..6).for_each(|number| put(namespace, 0, number))
        });
        // Takes what the other frees.
        let other = spawn(&namespace, |namespace| {
            (1..4).for_each(|number| put(namespace, 1, number))
        });
        let mut last = 0;
        for _ in 0..3 {
            let number = read(&namespace, 0).unwrap();
            assert!(number >= last, "{number} after {last}");
            last = number;
        }
        writer.join().unwrap();
        other.join().unwrap();
        assert_eq!(
            (read(&namespace, 0), read(&namespace, 1)),
            (Some(5), Some(3))
        );
        assert_consistent(&namespace);
        let recycled_bytes = namespace.stats().traffic.recycled_bytes;
        RECYCLED_BYTES.fetch_add(recycled_bytes, Ordering::Relaxed);
    });
    assert!(
        RECYCLED_BYTES.load(Ordering::Relaxed) > 0,
        "nothing was recycled"
    );
}

/// A closed block that is worth moving: two records that live, a promised version that is dead, and a free slot.
fn closed_block(namespace: &Namespace) {
    put(namespace, 0, 1);
    put(namespace, 1, 1);
    namespace.sync().unwrap();
    put(namespace, 1, 2);
    put(namespace, 3, 1);
    put(namespace, 3, 2);
    namespace.core.log.close_lanes();
}

#[test]
fn moved_records_and_reused_blocks_do_not_change_under_readers_and_writers() {
    static FREED: AtomicU64 = AtomicU64::new(0);
    explore(3_000, || {
        let (namespace, _) = open();
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
            core.log.close_lanes();
            // Too large for the free slots elsewhere.
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
        let (namespace, _) = open();
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
            assert!(namespace.lock(&digest(3), None).unwrap().delete(2).unwrap());
            put(namespace, 3, 4);
            assert!(namespace.lock(&digest(3), None).unwrap().delete(3).unwrap());
        });
        [defragmenter, writer, deleter]
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let found = [0, 1, 3].map(|record| read(&namespace, record));
        assert_eq!(found, [Some(7), None, None]);
        assert_consistent(&namespace);
        // All of it goes to the last byte.
        namespace.core.forget_stuck();
        assert!(namespace.lock(&digest(0), None).unwrap().delete(4).unwrap());
        for _ in 0..3 {
            namespace.core.log.close_lanes();
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

/// The whole entries of records at the start of the first block: (offset, header, units).
fn entries_of(namespace: &Namespace, bytes: &[u8]) -> Vec<(usize, Header)> {
    let volume = &namespace.core.log.volumes()[0];
    let life = volume.block(0).unwrap().incarnation();
    let first = HEADER_BYTES + BLOCK_HEADER_BYTES;
    let mut found = Vec::new();
    for at in (0..WATCHED_BYTES - 2 * ENTRY_HEADER_BYTES).step_by(UNIT_BYTES as usize) {
        let raw = bytes[at..].first_chunk().unwrap();
        if let Some(header) = Header::decode_checked(raw, volume.place(life, first + at as u64)) {
            let body = &bytes[at + ENTRY_HEADER_BYTES..][..header.body_bytes as usize];
            if header.kind == Kind::Record && header.body_holds(raw, body) {
                found.push((at, header));
            }
        }
    }
    found
}

#[test]
fn what_a_sync_calls_durable_was_complete_when_it_began() {
    explore(2_000, || {
        let (namespace, device) = open();
        put(&namespace, 0, 1);
        // New records only, so nothing is overwritten and no number is missing.
        let writers = [10, 20].map(|first| {
            spawn(&namespace, move |namespace| {
                (0..3).for_each(|n| put(namespace, first + n, 1))
            })
        });
        for _ in 0..2 {
            namespace.sync().unwrap();
            let durable = namespace.core.log.syncer().durable_lsn();
            let at_sync = device.at_sync.lock().clone().unwrap();
            let complete = entries_of(&namespace, &at_sync);
            let covered = complete
                .iter()
                .filter(|(_, header)| header.lsn.0 <= durable)
                .count();
            assert_eq!(
                covered as u64, durable,
                "an incomplete entry was called durable"
            );
        }
        writers
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_version_that_a_sync_promised_is_never_overwritten_for_one_that_it_missed() {
    explore(4_000, || {
        let (namespace, device) = open();
        put(&namespace, 0, 1);
        let writer = spawn(&namespace, |namespace| {
            (2..7).for_each(|number| put(namespace, 0, number))
        });
        let promised = namespace
            .get(&digest(0), |entry| entry.lsn())
            .unwrap()
            .unwrap();
        namespace.sync().unwrap();
        writer.join().unwrap();
        // A power failure may now leave anything where bytes were stored since the sync began, and nothing of later ones.
        let at_sync = device.at_sync.lock().clone().unwrap();
        let now = device.start_of_first_block();
        let survives = entries_of(&namespace, &at_sync)
            .into_iter()
            .any(|(at, header)| {
                let span = at..at + header.span_units as usize * UNIT_BYTES as usize;
                header.digest == digest(0)
                    && header.lsn >= promised
                    && at_sync[span.clone()] == now[span]
            });
        assert!(survives, "nothing of what was promised is left");
    });
}

#[test]
fn no_write_slips_past_a_truncation() {
    explore(2_000, || {
        let (namespace, _) = open();
        put(&namespace, 0, 1);
        // Versions of the time 1, and a truncation of all before 2.
        let writers =
            [0, 1].map(|record| spawn(&namespace, move |namespace| put(namespace, record, 2)));
        namespace.truncate(crate::Truncate::Namespace, 2).unwrap();
        writers
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!((read(&namespace, 0), read(&namespace, 1)), (None, None));
        let stats = namespace.stats();
        assert_eq!((stats.records, stats.index_entries), (0, 0));
    });
}
