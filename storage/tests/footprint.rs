//! What small stores take on disk, and that they can still be emptied when the disk is full.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{Chance, delete, device_bytes, devices, digest, files, get, options, put, simulated};
use spikelet_storage::{BLOCK_BYTES, Device, Error, Namespace, Options, SimulatedDevice};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

/// What a file system may take for a file beside its content, and the index snapshot.
const SLACK_BYTES: u64 = 1 << 20;

/// What all files of a directory take, whatever their length.
fn allocated_bytes(dir: &Path) -> u64 {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|file| file.unwrap().metadata().unwrap().blocks() * 512)
        .sum()
}

/// As a store is opened by default on a machine with many processors.
fn by_default(dir: &Path) -> Options {
    Options {
        write_lanes: 8,
        ..Options::new(common::NAME, files(dir, 1))
    }
}

#[test]
fn a_store_of_few_records_takes_one_block() {
    for records in [0, 1, 1000] {
        let dir = tempfile::tempdir().unwrap();
        let (namespace, _) = Namespace::open(by_default(dir.path())).unwrap();
        namespace.create_set("users").unwrap();
        for record in 0..records {
            put(&namespace, &digest(record), &[7; 100]).unwrap();
        }
        // Threads of its own for each write: none brings a lane of its own into use.
        std::thread::scope(|scope| {
            for record in 0..8 {
                let namespace = &namespace;
                scope
                    .spawn(move || put(namespace, &digest(record), &[8; 100]).unwrap())
                    .join()
                    .unwrap();
            }
        });
        namespace.close().unwrap();
        let taken = allocated_bytes(dir.path());
        assert!(
            taken <= device_bytes(1) + SLACK_BYTES,
            "{records} records take {taken} bytes"
        );
    }
}

#[test]
fn a_small_store_goes_on_in_its_block_at_each_opening() {
    for closes in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let open = || Namespace::open(by_default(dir.path())).unwrap().0;
        let mut live = 0;
        for record in 0..20 {
            let namespace = open();
            put(&namespace, &digest(record), &[record as u8; 100]).unwrap();
            assert!(record < 5 || delete(&namespace, &digest(record - 5)).unwrap());
            live = namespace.stats().records;
            if closes {
                namespace.close().unwrap();
            }
        }
        let taken = allocated_bytes(dir.path());
        assert!(
            taken <= device_bytes(1) + SLACK_BYTES,
            "closed: {closes}: {taken} bytes"
        );
        let namespace = open();
        assert_eq!(namespace.stats().records, live);
        for record in 0..20 {
            let expected = (record >= 15).then(|| vec![record as u8; 100]);
            assert_eq!(get(&namespace, &digest(record)).unwrap(), expected);
        }
        drop(namespace);
        let verified = Namespace::verify(&by_default(dir.path())).unwrap();
        assert_eq!((verified.damaged_headers, verified.damaged_entries), (0, 0));
    }
}

/// Puts records from `from` on until the store refuses. Returns the first number that was refused.
fn fill(namespace: &Namespace, from: u64, bytes: usize) -> u64 {
    (from..)
        .find(
            |record| match put(namespace, &digest(*record), &vec![1; bytes]) {
                Ok(()) => false,
                Err(Error::StopWrites { .. }) => true,
                Err(other) => panic!("{other}"),
            },
        )
        .unwrap()
}

/// Opens the disks anew: after a clean end, or as a kill leaves them.
fn reopened(disks: &mut Vec<Arc<SimulatedDevice>>, space_bytes: u64) -> Namespace {
    let left = disks.iter().map(|disk| Arc::new(disk.kill().unwrap()));
    *disks = left.collect();
    disks[0].set_space_bytes(space_bytes);
    Namespace::open(options(devices(disks), 40)).unwrap().0
}

#[test]
fn every_record_of_a_small_store_can_be_deleted_on_a_full_disk() {
    // From a disk that has room for a single block, to one that the reserve of a store just fits on.
    for blocks in 1..=6 {
        // Of the smallest records there are, only as many as it takes to delete without defragmentation in between.
        let sizes: &[usize] = if blocks <= 3 { &[0, 10_000] } else { &[10_000] };
        for bytes in sizes.iter().copied() {
            let space_bytes = device_bytes(blocks);
            let mut disks = simulated(1, 40);
            disks[0].set_space_bytes(space_bytes);
            let namespace = Namespace::open(options(devices(&disks), 40)).unwrap().0;
            let what = format!("{blocks} blocks, records of {bytes} bytes");
            // Without a reserve half of the block is left to deletes.
            let count = fill(&namespace, 0, bytes);
            assert!(
                count * (bytes as u64 + 64) > BLOCK_BYTES / 2 - (128 << 10),
                "{what}: {count}"
            );
            assert!(namespace.stats().stop_writes, "{what}");
            drop(namespace);
            let mut namespace = reopened(&mut disks, space_bytes);
            assert!(
                fill(&namespace, count, bytes) < count + count / 4 + 200,
                "{what}"
            );
            for record in 0..count {
                if record == count / 2 {
                    drop(namespace);
                    namespace = reopened(&mut disks, space_bytes);
                }
                let deleted = delete(&namespace, &digest(record));
                assert!(
                    matches!(deleted, Ok(true)),
                    "{what}: {record} of {count}: {deleted:?}, {:?}",
                    namespace.stats()
                );
            }
            // And when there is room, it is as good as new.
            disks[0].set_space_bytes(device_bytes(40));
            let maintained = namespace.maintain();
            assert!(
                maintained.is_ok(),
                "{what}: {maintained:?}, {:?}",
                namespace.stats()
            );
            put(&namespace, &digest(0), b"there is room").unwrap();
            assert_eq!(get(&namespace, &digest(1)).unwrap(), None, "{what}");
        }
    }
}

#[test]
fn the_reserve_is_allocated_before_a_small_store_fills_its_block() {
    let disks = simulated(1, 40);
    let namespace = Namespace::open(options(devices(&disks), 40)).unwrap().0;
    let blocks = || (disks[0].len_bytes() - device_bytes(0)) / BLOCK_BYTES;
    put(&namespace, &digest(0), &[1; 1000]).unwrap();
    assert_eq!(blocks(), 1);
    let reserve = namespace.stats().reserve_blocks;
    let mut written = 0;
    while written < BLOCK_BYTES - (64 << 10) {
        put(&namespace, &digest(written), &[1; 1000]).unwrap();
        written += 1064;
        assert!(
            blocks() > reserve || written < BLOCK_BYTES / 2 + (64 << 10),
            "{written}"
        );
    }
    assert!(blocks() > reserve);
}

#[test]
fn a_small_store_that_goes_on_in_its_block_loses_nothing_synced_to_power_failures() {
    const RECORDS: u64 = 8;
    const ROUNDS: u64 = 8;
    let (mut failures, mut in_one_block) = (0, 0);
    for seed in 0..if common::long() { 400 } else { 30 } {
        let mut chance = Chance(seed);
        let mut disks = simulated(1, 40);
        let mut versions: Vec<Vec<Option<Vec<u8>>>> = vec![vec![None]; RECORDS as usize];
        for round in 0..ROUNDS {
            let (namespace, _) = Namespace::open(options(devices(&disks), 40)).unwrap();
            for (record, possible) in (0..).zip(&mut versions) {
                let found = get(&namespace, &digest(record)).unwrap();
                assert!(
                    possible.contains(&found),
                    "seed {seed}, round {round}: {record}"
                );
                *possible = vec![found];
            }
            in_one_block += u64::from(namespace.stats().used_blocks <= 1);
            for write in 0..chance.below(40) {
                let record = chance.below(RECORDS);
                let possible = &mut versions[record as usize];
                if chance.one_in(6) {
                    delete(&namespace, &digest(record)).unwrap();
                    possible.push(None);
                } else {
                    let payload = common::payload(round * 100 + write, chance.one_in(50));
                    put(&namespace, &digest(record), &payload).unwrap();
                    possible.push(Some(payload));
                }
                if chance.one_in(10) {
                    namespace.sync().unwrap();
                    versions.iter_mut().for_each(|possible| {
                        possible.drain(..possible.len() - 1);
                    });
                }
                if chance.one_in(10) {
                    disks[0].writeback(chance.next());
                }
            }
            drop(namespace);
            disks = vec![Arc::new(disks[0].crash(chance.next()).unwrap())];
            failures += 1;
        }
    }
    assert!(in_one_block * 4 > failures, "{in_one_block} of {failures}");
}
