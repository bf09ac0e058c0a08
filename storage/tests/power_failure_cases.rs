//! Power failures at chosen moments: a set that is lost, a truncation, threads in the middle of
//! writing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{
    Chance, NOW_MS, delete, devices, digest, get, options, payload, put, simulated, version,
};
use spikelet_storage::{
    Atomicity, BLOCK_BYTES, Device, DeviceError, Durability, Error, HEADER_BYTES, Header,
    Namespace, NewVersion, Options, SMALL_BLOCK_BYTES, SimulatedDevice, Truncate,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

const BLOCKS: u64 = 9;

#[test]
fn records_of_a_set_that_was_lost_do_not_appear_in_another() {
    let mut lost = 0;
    for seed in 0..40 {
        let origin = simulated(1, BLOCKS);
        let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
        put(&namespace, &digest(1), b"without a set").unwrap();
        namespace.sync().unwrap();
        let set_id = namespace.create_set("first").unwrap();
        for number in 1..4 {
            let in_set = NewVersion {
                set_id,
                ..version(&[7; 1000])
            };
            namespace
                .lock(&digest(number), None)
                .unwrap()
                .put(&in_set)
                .unwrap();
        }
        let crashed = [Arc::new(origin[0].crash(seed).unwrap())];
        let (namespace, _) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
        let of = |namespace: &Namespace, number| {
            namespace
                .get(&digest(number), |entry| {
                    namespace.set_name(entry.set_id()).unwrap()
                })
                .unwrap()
        };
        let known = namespace.set_id("first").is_some();
        lost += u64::from(!known);
        let found: Vec<_> = (1..4).map(|number| of(&namespace, number)).collect();
        match &found[0] {
            Some(set) => assert!(
                set.is_empty() || (known && set == "first"),
                "seed {seed}: {set}"
            ),
            None => panic!("seed {seed}: what was synced is gone"),
        }
        assert!(
            found[1..]
                .iter()
                .flatten()
                .all(|set| known && set == "first"),
            "seed {seed}: {found:?}"
        );
        if !known {
            assert_eq!(namespace.create_set("second").unwrap(), 1);
        }
        (0..3).for_each(|_| namespace.sync().unwrap());
        let crashed = [Arc::new(crashed[0].crash(seed).unwrap())];
        let (namespace, _) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
        let again: Vec<_> = (1..4).map(|number| of(&namespace, number)).collect();
        assert_eq!(again, found, "seed {seed}");
    }
    assert!(
        (5..35).contains(&lost),
        "the set is lost {lost} times of 40"
    );
}

#[test]
fn what_was_truncated_stays_truncated() {
    let origin = simulated(1, BLOCKS);
    let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
    let set_id = namespace.create_set("users").unwrap();
    for number in 0..20 {
        let set_id = if number < 10 { set_id } else { 0 };
        let last_update_ms = NOW_MS + number % 2;
        let old_or_new = NewVersion {
            set_id,
            last_update_ms,
            ..version(b"x")
        };
        namespace
            .lock(&digest(number), None)
            .unwrap()
            .put(&old_or_new)
            .unwrap();
    }
    assert_eq!(
        namespace
            .truncate(Truncate::Set(set_id), Some(NOW_MS + 1))
            .unwrap(),
        5
    );
    namespace.sync().unwrap();
    for seed in 0..4 {
        let crashed = [Arc::new(origin[0].crash(seed).unwrap())];
        let (namespace, _) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
        for number in 0..20 {
            let expected = (number >= 10 || number % 2 == 1).then(|| b"x".to_vec());
            assert_eq!(
                get(&namespace, &digest(number)).unwrap(),
                expected,
                "record {number}"
            );
        }
        assert_eq!(namespace.stats().records, 15);
        assert_eq!(namespace.set_usage(set_id).0, 5);
    }
}

#[test]
fn a_block_that_was_lost_before_another_one_is_no_damage() {
    let origin = simulated(1, BLOCKS);
    let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
    put(&namespace, &digest(0), &vec![1; 6 << 20]).unwrap();
    namespace.sync().unwrap();
    // Each begins a block. Its header may be lost while the header of the next one is not.
    for number in 1..4 {
        put(&namespace, &digest(number), &vec![2; 6 << 20]).unwrap();
    }
    let mut opened_full = 0;
    for seed in 0..if common::long() { 2000 } else { 60 } {
        let crashed = [Arc::new(origin[0].crash(seed).unwrap())];
        let is_full = seed % 3 > 0;
        if is_full {
            crashed[0].set_space_bytes(0);
        }
        match Namespace::open(options(devices(&crashed), BLOCKS)) {
            Ok((namespace, _)) => {
                namespace.sync().unwrap();
                namespace.sync().unwrap();
                opened_full += u64::from(is_full);
            }
            Err(error) => assert!(is_full, "seed {seed}: {error}"),
        }
        let killed = [Arc::new(crashed[0].kill().unwrap())];
        killed[0].set_space_bytes(u64::MAX);
        let verified = Namespace::verify(&options(devices(&killed), BLOCKS)).unwrap();
        assert!(!verified.is_damaged(), "seed {seed}: {verified:?}");
        let (namespace, _) = Namespace::open(options(devices(&killed), BLOCKS)).unwrap();
        assert!(
            get(&namespace, &digest(0)).unwrap().is_some(),
            "seed {seed}"
        );
    }
    assert!(
        opened_full > 10,
        "{opened_full} stores opened on a full disk"
    );
}

/// Without any copy of a header, a block before one in use counts as lost. A full disk has no page
/// for one.
#[test]
fn a_free_block_without_a_header_is_no_damage_after_an_opening_on_a_full_disk() {
    let origin = simulated(1, BLOCKS);
    let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
    put(&namespace, &digest(0), &vec![1; 6 << 20]).unwrap();
    (0..2).for_each(|_| namespace.sync().unwrap());
    for number in 1..5 {
        put(&namespace, &digest(number), &vec![2; 6 << 20]).unwrap();
    }
    let block = |index: u64| HEADER_BYTES + index * BLOCK_BYTES;
    let is_zero = |disk: &SimulatedDevice, from: u64, bytes: u64| {
        let bytes = disk.snapshot_range(from..from + bytes);
        bytes.iter().all(|byte| *byte == 0)
    };
    // Neither copy of the header of block 1 or 2, and both of block 4.
    let is_wanted = |disk: &SimulatedDevice| {
        let is_blank = |index| is_zero(disk, block(index), 4096);
        (1..3).any(|index| is_blank(index) && is_blank(index + 1))
            && !is_zero(disk, block(4), 64)
            && !is_zero(disk, block(5) + 512, 64)
    };
    let crash = |seed| origin[0].crash_with(seed, Atomicity::Page4096).unwrap();
    let images = (0..60).map(|seed| (seed, crash(seed)));
    let (mut tried, mut refused) = (0, 0);
    for (seed, disk) in images.filter(|(_, disk)| is_wanted(disk)) {
        // The power failure may have taken their space, too.
        for index in (1..4).filter(|index| is_zero(&disk, block(*index), 4096)) {
            disk.release(block(index), 4096).unwrap();
        }
        let crashed = [Arc::new(disk)];
        crashed[0].set_space_bytes(0);
        tried += 1;
        match Namespace::open(options(devices(&crashed), BLOCKS)) {
            Ok((namespace, _)) => (0..2).for_each(|_| namespace.sync().unwrap()),
            Err(Error::Device(DeviceError::Full { .. })) => refused += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
        let killed = [Arc::new(crashed[0].kill().unwrap())];
        killed[0].set_space_bytes(u64::MAX);
        let verified = Namespace::verify(&options(devices(&killed), BLOCKS)).unwrap();
        assert!(!verified.is_damaged(), "seed {seed}: {verified:?}");
        let (namespace, _) = Namespace::open(options(devices(&killed), BLOCKS)).unwrap();
        assert!(get(&namespace, &digest(0)).unwrap().is_some());
    }
    assert!(refused > 0, "none of {tried} refused");
}

/// As many blocks as a device is extended by at a time.
const EXTENDED: u64 = 8;
const SMALL_BLOCKS: u64 = 24;

fn small_bytes(blocks: u64) -> u64 {
    HEADER_BYTES + blocks * SMALL_BLOCK_BYTES
}

fn small_header(index: u8, count: u8) -> Header {
    common::small_header(index, count, SMALL_BLOCKS / u64::from(count))
}

fn on(disks: &[Arc<SimulatedDevice>]) -> Options {
    Options {
        max_record_bytes: 1 << 20,
        ..options(devices(disks), SMALL_BLOCKS)
    }
}

/// The mirror of a block's header is in the next block, and a power failure may leave a device that
/// ends before that.
#[test]
fn a_device_that_ends_before_the_mirror_of_a_header_is_no_damage() {
    let origin = Arc::new(SimulatedDevice::new(&small_header(0, 1)).unwrap());
    let (namespace, _) = Namespace::open(on(std::slice::from_ref(&origin))).unwrap();
    // Of the first extent the last blocks stay free, and backed.
    const END: u64 = 2 * EXTENDED;
    let mut synced = 0;
    for number in 0..END {
        // Each begins a block.
        put(&namespace, &digest(number), &vec![1; 900 << 10]).unwrap();
        if origin.len_bytes() == small_bytes(END) {
            namespace.sync().unwrap();
            synced = number;
        }
    }
    assert!(origin.len_bytes() > small_bytes(END));
    let ends_before = |seed: &u64| origin.crash(*seed).unwrap().len_bytes() == small_bytes(END);
    let seeds: Vec<u64> = (0..8).filter(ends_before).collect();
    assert!(!seeds.is_empty());
    let mut refused = 0;
    let moments = (1..40).flat_map(|change| seeds.iter().map(move |seed| (*seed, change)));
    for (seed, change) in moments {
        let (what, is_full) = (format!("seed {seed}, change {change}"), change % 3 == 0);
        let crashed = Arc::new(origin.crash(seed).unwrap());
        let left = Arc::new(Mutex::new(None));
        let (device, of_hook) = (Arc::clone(&crashed), Arc::clone(&left));
        // The power fails once more, in the middle of the opening.
        crashed.before_change(change, move || {
            *of_hook.lock().unwrap() = Some(device.crash(change).unwrap());
        });
        if is_full {
            crashed.set_space_bytes(0);
        }
        match Namespace::open(on(&[crashed])) {
            Err(Error::Device(DeviceError::Full { .. })) if is_full => refused += 1,
            opened => drop(opened.unwrap_or_else(|error| panic!("{what}: {error}"))),
        }
        let left = left.lock().unwrap().take();
        let Some(left) = left.map(Arc::new) else {
            continue;
        };
        left.set_space_bytes(u64::MAX);
        let left = [left];
        let verified = Namespace::verify(&on(&left)).unwrap();
        assert!(!verified.is_damaged(), "{what}: {verified:?}");
        let (namespace, _) = Namespace::open(on(&left)).unwrap();
        for number in 0..=synced {
            let found = get(&namespace, &digest(number)).unwrap();
            assert!(found.is_some(), "{what}: record {number}");
        }
    }
    assert!(refused > 0);
}

/// A power failure may leave a device that ends within a block of which it has the header, and the
/// first entries. They must not count later, when the device is longer again.
#[test]
fn a_block_that_the_end_of_a_device_has_cut_never_comes_back() {
    let read = |namespace: &Namespace| -> Vec<_> {
        let get = |record| get(namespace, &digest(record)).unwrap().unwrap();
        (100..1_100).map(get).collect()
    };
    let large =
        |namespace: &Namespace, record| put(namespace, &digest(record), &vec![3; 900 << 10]);
    // Both devices are extended at once, by half of these blocks each.
    let device = |index| SimulatedDevice::without_staging(&small_header(index, 2)).unwrap();
    let origin = [0, 1].map(|index| Arc::new(device(index)));
    let first_end = small_bytes(EXTENDED / 2);
    let (namespace, _) = Namespace::open(on(&origin)).unwrap();
    for record in 100..1_100 {
        put(&namespace, &digest(record), &[1; 500]).unwrap();
    }
    for record in 1..EXTENDED {
        large(&namespace, record).unwrap();
        if origin[1].len_bytes() == first_end {
            namespace.sync().unwrap();
        }
    }
    // Until the second device has an entry in its next block.
    let has_header = |disk: &SimulatedDevice| {
        let header = disk.snapshot_range(first_end..first_end + 64);
        header.iter().any(|byte| *byte != 0)
    };
    let mut record = 100;
    while !has_header(&origin[1]) {
        put(&namespace, &digest(record % 1_000 + 100), &[2; 500]).unwrap();
        record += 1;
    }
    let is_cut = |disks: &[SimulatedDevice]| {
        let len_bytes = disks[1].len_bytes();
        len_bytes < first_end + SMALL_BLOCK_BYTES && has_header(&disks[1])
    };
    let images = (0..400).map(|seed| (seed, SimulatedDevice::crash_all(&origin, seed).unwrap()));
    let mut tried = 0;
    for (seed, disks) in images.filter(|(_, disks)| is_cut(disks)).take(8) {
        tried += 1;
        let disks: Vec<_> = disks.into_iter().map(Arc::new).collect();
        let (namespace, _) = Namespace::open(on(&disks)).unwrap();
        let found = read(&namespace);
        // The devices become longer.
        for record in 20..24 {
            large(&namespace, record).unwrap();
            (0..2).for_each(|_| namespace.sync().unwrap());
            let killed = disks.iter().map(|disk| Arc::new(disk.kill().unwrap()));
            let killed: Vec<_> = killed.collect();
            let what = format!("seed {seed}, record {record}");
            let verified = Namespace::verify(&on(&killed)).unwrap();
            assert!(!verified.is_damaged(), "{what}: {verified:?}");
            let (namespace, _) = Namespace::open(on(&killed)).unwrap();
            assert!(read(&namespace) == found, "{what}");
        }
    }
    assert_eq!(tried, 8);
}

/// The mirror of the last block's header is in the first block. A power failure may leave it, and a
/// device that ends before the last block. It must not count later, when the device is longer
/// again.
#[test]
fn the_mirror_of_a_last_block_that_the_device_has_lost_never_counts() {
    let last = small_bytes(EXTENDED);
    let header = Header {
        max_bytes: last + SMALL_BLOCK_BYTES,
        ..small_header(0, 1)
    };
    let on = |disk: &Arc<SimulatedDevice>| Options {
        max_device_bytes: header.max_bytes,
        ..on(std::slice::from_ref(disk))
    };
    let disk = Arc::new(SimulatedDevice::new(&header).unwrap());
    let (namespace, _) = Namespace::open(on(&disk)).unwrap();
    // Two in a block, as far as the reserve; then two catalogs, which may take all but the last
    // block.
    let is_put = |record: &u64| put(&namespace, &digest(*record), &[1; 500 << 10]).is_ok();
    let records = (0..).take_while(is_put).count() as u64;
    (0..2).for_each(|_| namespace.set_catalog(&[7; 512 << 10]).unwrap());
    for record in (0..records - 1).step_by(2) {
        assert!(delete(&namespace, &digest(record)).unwrap());
    }
    (0..2).for_each(|_| namespace.sync().unwrap());
    let begun = disk.kill().unwrap();
    let ends_before = |disk: &SimulatedDevice| disk.len_bytes() < header.max_bytes;
    assert!(ends_before(&begun));
    // Cleaning takes the last block.
    let cleaned_to = |begun: &SimulatedDevice, change, crashes: u64| {
        let disk = Arc::new(begun.kill().unwrap());
        let (namespace, _) = Namespace::open(on(&disk)).unwrap();
        let left = Arc::new(Mutex::new(Vec::new()));
        let (device, of_hook) = (Arc::clone(&disk), Arc::clone(&left));
        disk.before_change(change, move || {
            let crashed = (0..crashes).map(|seed| device.crash(seed).unwrap());
            *of_hook.lock().unwrap() = match crashes {
                0 => vec![Arc::new(device.kill().unwrap())],
                _ => crashed.map(Arc::new).collect(),
            };
        });
        let _ = namespace.maintain();
        std::mem::take(&mut *left.lock().unwrap())
    };
    let is_lost = |disk: &Arc<SimulatedDevice>| {
        let bytes = |at| disk.snapshot_range(at..at + 64);
        let has_header = |at| bytes(at).iter().any(|byte| *byte != 0);
        ends_before(disk) && has_header(HEADER_BYTES + 512) && !has_header(last)
    };
    let lost = (1..60).flat_map(|change| cleaned_to(&begun, change, 16));
    let lost: Vec<_> = lost.filter(is_lost).take(4).collect();
    assert_eq!(lost.len(), 4);
    let mut longer = 0;
    for disk in lost {
        let (namespace, _) = Namespace::open(on(&disk)).unwrap();
        (0..2).for_each(|_| namespace.sync().unwrap());
        let killed = disk.kill().unwrap();
        for disk in (1..60).flat_map(|change| cleaned_to(&killed, change, 0)) {
            longer += u64::from(!ends_before(&disk));
            let verified = Namespace::verify(&on(&disk)).unwrap();
            assert!(!verified.is_damaged(), "{verified:?}");
            let (namespace, _) = Namespace::open(on(&disk)).unwrap();
            let is_there = |record| get(&namespace, &digest(record)).unwrap().is_some();
            assert!((1..records).step_by(2).all(is_there));
        }
    }
    assert!(longer > 0);
}

/// A record of the threads: its attempted versions, and the promised ones.
#[derive(Debug, Default)]
struct Shared {
    versions: Vec<Option<Vec<u8>>>,
    /// How many of them were acknowledged.
    acknowledged: usize,
    /// How many of them a sync has covered that has ended.
    synced: usize,
}

#[test]
fn a_power_failure_while_threads_write_costs_nothing_that_was_synced() {
    const THREADS: u64 = 3;
    const EACH: u64 = 8;
    for seed in 0..if common::long() { 60 } else { 2 } {
        let origin = simulated(1, BLOCKS);
        let background = Options {
            background: true,
            durability: Durability::Interval(Duration::from_millis(20)),
            write_lanes: 2,
            ..options(devices(&origin), BLOCKS)
        };
        let (namespace, _) = Namespace::open(background).unwrap();
        let records: Vec<Mutex<Shared>> = (0..THREADS * EACH)
            .map(|_| {
                Mutex::new(Shared {
                    versions: vec![None],
                    acknowledged: 1,
                    synced: 1,
                })
            })
            .collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (namespace, records, stop) = (&namespace, &records, &stop);
                scope.spawn(move || write_until(stop, namespace, records, thread, EACH, seed));
            }
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let covered: Vec<usize> = records
                        .iter()
                        .map(|record| record.lock().unwrap().acknowledged)
                        .collect();
                    namespace.sync().unwrap();
                    for (record, covered) in records.iter().zip(covered) {
                        record.lock().unwrap().synced = covered;
                    }
                }
            });
            let mut chance = Chance(seed);
            for _ in 0..6 {
                origin[0].writeback(chance.next());
                let synced: Vec<usize> = records
                    .iter()
                    .map(|record| record.lock().unwrap().synced)
                    .collect();
                let crashed = [Arc::new(origin[0].crash(chance.next()).unwrap())];
                let attempted: Vec<_> = records
                    .iter()
                    .map(|record| record.lock().unwrap().versions.clone())
                    .collect();
                let verified = Namespace::verify(&options(devices(&crashed), BLOCKS)).unwrap();
                assert!(!verified.is_damaged(), "seed {seed}: {verified:?}");
                let (found, opening) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
                assert_eq!(
                    opening.damaged_bytes + opening.damaged_entries,
                    0,
                    "{opening:?}"
                );
                for (number, (synced, attempted)) in synced.iter().zip(attempted).enumerate() {
                    let version = get(&found, &digest(number as u64)).unwrap();
                    let allowed = &attempted[*synced - 1..];
                    assert!(
                        allowed.contains(&version),
                        "seed {seed}: record {number} is older than its last sync"
                    );
                }
            }
            stop.store(true, Ordering::SeqCst);
        });
        namespace.close().unwrap();
    }
}

/// Overwrites and deletes the records of one thread.
fn write_until(
    stop: &AtomicBool,
    namespace: &Namespace,
    records: &[Mutex<Shared>],
    thread: u64,
    each: u64,
    seed: u64,
) {
    let mut chance = Chance(seed ^ (thread << 32));
    let mut writes = thread << 40;
    while !stop.load(Ordering::SeqCst) {
        let number = thread * each + chance.below(each);
        let record = &records[number as usize];
        let there = record.lock().unwrap().versions.last().unwrap().is_some();
        writes += 1;
        let new = (!there || !chance.one_in(5)).then(|| payload(writes, chance.one_in(50)));
        record.lock().unwrap().versions.push(new.clone());
        let result = match &new {
            Some(payload) => put(namespace, &digest(number), payload),
            None => delete(namespace, &digest(number)).map(|_| ()),
        };
        let mut record = record.lock().unwrap();
        match result {
            Ok(()) => record.acknowledged = record.versions.len(),
            Err(Error::StopWrites { .. } | Error::NoSpace { .. }) => {
                record.versions.pop();
                drop(record);
                std::thread::yield_now();
            }
            Err(other) => panic!("{other}"),
        }
    }
}

/// A sync takes its numbers while a lane opens a block, and comes to that lane when the block has
/// been filled and closed: the state calls the block durable to its end, and no number in it. A
/// kill leaves its directory of several sectors whole.
#[test]
fn the_directory_of_a_block_without_a_durable_number_is_whole() {
    let mut sectors = 0;
    for moment in 1..16 {
        let disk = Arc::new(SimulatedDevice::new(&common::small_header(0, 1, 8)).unwrap());
        let on = |disk: &Arc<SimulatedDevice>| Options {
            max_record_bytes: 1 << 20,
            write_lanes: 2,
            ..options(devices(std::slice::from_ref(disk)), 8)
        };
        let (namespace, _) = Namespace::open(on(&disk)).unwrap();
        // A thread with a lane of its own: its first put comes while this thread has locked the
        // other one.
        let (jobs, jobs_of_writer) = mpsc::channel::<Vec<(u64, usize)>>();
        let (done, is_done) = mpsc::channel();
        let own = namespace.clone();
        let writer = std::thread::spawn(move || {
            for job in jobs_of_writer {
                for (record, bytes) in job {
                    put(&own, &digest(record), &vec![1; bytes]).unwrap();
                }
                done.send(()).unwrap();
            }
        });
        let is_done = Arc::new(Mutex::new(is_done));
        let large = 400 << 10;
        put(&namespace, &digest(0), &vec![1; 100 << 10]).unwrap();
        let (jobs_of_hook, done_of_hook) = (jobs.clone(), Arc::clone(&is_done));
        disk.before_change(1, move || {
            jobs_of_hook.send(vec![(1, large), (2, large)]).unwrap();
            done_of_hook.lock().unwrap().recv().unwrap();
        });
        put(&namespace, &digest(3), &vec![1; 100 << 10]).unwrap();
        namespace.sync().unwrap();
        put(&namespace, &digest(3), b"staged").unwrap();
        // Before a change of the writer's next put, which opens a block, a sync begins, and waits
        // with its numbers taken until the block has been closed.
        let (release, is_released) = mpsc::channel::<()>();
        let syncing = Arc::new(Mutex::new(None));
        let (device, own, thread) = (Arc::clone(&disk), namespace.clone(), Arc::clone(&syncing));
        disk.before_change(moment, move || {
            let (taken, is_taken) = mpsc::channel();
            device.before_change(1, move || {
                taken.send(()).unwrap();
                is_released.recv().unwrap();
            });
            let sync = std::thread::spawn(move || own.sync().unwrap());
            is_taken.recv().unwrap();
            *thread.lock().unwrap() = Some(sync);
        });
        let small = (10..60).map(|record| (record, 5 << 10));
        let filled = [(4, large)].into_iter().chain(small);
        jobs.send(filled.chain([(5, large), (6, large)]).collect())
            .unwrap();
        is_done.lock().unwrap().recv().unwrap();
        disk.before_change(u64::MAX, || {});
        let _ = release.send(());
        if let Some(sync) = syncing.lock().unwrap().take() {
            sync.join().unwrap();
        }
        drop(jobs);
        writer.join().unwrap();
        let killed = Arc::new(disk.kill().unwrap());
        let verified = Namespace::verify(&on(&killed)).unwrap();
        assert!(!verified.is_damaged(), "{moment}: {verified:?}");
        sectors += verified.blocks;
    }
    assert!(sectors > 30, "{sectors} blocks");
}
