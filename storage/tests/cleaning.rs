//! Cleaning of stores that are nearly full of deltas: before a block is free, the record of each
//! live delta in it must be written whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::turns::{alone, beside_others};
use common::{Chance, delete, digest, files, get, options, put};
use spikelet_storage::{BLOCK_BYTES, Error, HEADER_BYTES, Namespace, Options, SMALL_BLOCK_BYTES};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const RECORD_BYTES: usize = 10_000;

/// The number of blocks that fit into `bytes` bytes.
const fn blocks_of(bytes: u64) -> u64 {
    bytes / BLOCK_BYTES
}

/// A record of which each edit changes a few hundred bytes.
struct Edited {
    bytes: Vec<u8>,
}

impl Edited {
    fn new(record: u64) -> Self {
        let mut bytes = vec![b'q'; RECORD_BYTES];
        bytes[..8].copy_from_slice(&record.to_le_bytes());
        Self { bytes }
    }

    fn edit(&mut self, chance: &mut Chance) -> &[u8] {
        let at = 8 + 400 * chance.below(20) as usize;
        for word in self.bytes[at..at + 400].chunks_exact_mut(8) {
            word.copy_from_slice(&chance.next().to_le_bytes());
        }
        &self.bytes
    }
}

#[test]
fn edits_at_random_never_jam_a_store_that_is_two_thirds_full() {
    let _turn = alone();
    const DEVICE_BYTES: u64 = 192 * MIB;
    const RECORDS: u64 = DEVICE_BYTES * 2 / 3 / (RECORD_BYTES as u64 + 80);
    let dir = tempfile::tempdir().unwrap();
    let wanted = options(files(dir.path(), 1), blocks_of(DEVICE_BYTES));
    let (namespace, _) = Namespace::open(wanted).unwrap();
    let mut records: Vec<_> = (0..RECORDS).map(Edited::new).collect();
    for (number, record) in (0..).zip(&records) {
        put(&namespace, &digest(number), &record.bytes).unwrap();
    }
    let mut chance = Chance(3);
    let mut cleanings = 0;
    for edit in 0..250_000 {
        let number = chance.below(RECORDS);
        let bytes = records[number as usize].edit(&mut chance);
        let refused = put(&namespace, &digest(number), bytes).is_err();
        if refused {
            let cleaned = namespace.maintain();
            cleanings += 1;
            put(&namespace, &digest(number), bytes).unwrap_or_else(|error| {
                panic!("edit {edit}: {cleaned:?}, {error}; {:?}", namespace.stats())
            });
        }
    }
    assert!(cleanings > 1, "{cleanings} {:?}", namespace.stats());
    for (number, record) in (0..).zip(&records) {
        let found = get(&namespace, &digest(number)).unwrap();
        assert!(found.as_ref() == Some(&record.bytes), "record {number}");
    }
}

#[test]
fn several_writers_edit_records_on_a_small_device_that_is_two_thirds_full() {
    let _turn = beside_others();
    const WRITERS: u64 = 4;
    const DEVICE_BYTES: u64 = 192 * MIB;
    const EACH: u64 = DEVICE_BYTES * 2 / 3 / (RECORD_BYTES as u64 + 80) / WRITERS;
    let dir = tempfile::tempdir().unwrap();
    let wanted = Options {
        background: true,
        write_lanes: 0,
        max_space_wait: Duration::from_secs(20),
        ..options(files(dir.path(), 1), blocks_of(DEVICE_BYTES))
    };
    let (namespace, _) = Namespace::open(wanted).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let namespace = &namespace;
            scope.spawn(move || {
                let mut chance = Chance(writer);
                let key = |record: u64| digest(record * WRITERS + writer);
                let mut records: Vec<_> = (0..EACH).map(Edited::new).collect();
                for (number, record) in (0..).zip(&records) {
                    put(namespace, &key(number), &record.bytes).unwrap();
                }
                for edit in 0..60_000 {
                    let number = chance.below(EACH);
                    let bytes = records[number as usize].edit(&mut chance);
                    put(namespace, &key(number), bytes).unwrap_or_else(|error| {
                        panic!("edit {edit}: {error}; {:?}", namespace.stats())
                    });
                }
                for (number, record) in (0..).zip(&records) {
                    let found = get(namespace, &key(number)).unwrap();
                    assert!(found.as_ref() == Some(&record.bytes), "record {number}");
                }
            });
        }
    });
}

#[test]
fn deletes_make_room_in_a_store_that_edits_have_filled() {
    let _turn = alone();
    const BLOCKS: u64 = 12;
    let dir = tempfile::tempdir().unwrap();
    let (namespace, _) = Namespace::open(options(files(dir.path(), 1), BLOCKS)).unwrap();
    // All that fits, then edits until neither writing nor cleaning goes on.
    let mut records = Vec::new();
    let mut chance = Chance(5);
    while namespace.stats().used_blocks < BLOCKS - 4 {
        let record = Edited::new(records.len() as u64);
        put(&namespace, &digest(records.len() as u64), &record.bytes).unwrap();
        records.push(record);
    }
    let mut refusals = 0;
    while refusals < 20 {
        let number = chance.below(records.len() as u64);
        let bytes = records[number as usize].edit(&mut chance);
        match put(&namespace, &digest(number), bytes) {
            Ok(()) => {}
            Err(Error::StopWrites { .. }) => {
                refusals += 1;
                let _ = namespace.maintain();
            }
            Err(other) => panic!("{other}"),
        }
    }
    for number in 0..records.len() as u64 / 2 {
        assert!(delete(&namespace, &digest(number)).unwrap());
    }
    namespace.maintain().unwrap();
    for number in records.len() as u64 / 2..records.len() as u64 {
        let bytes = records[number as usize].edit(&mut chance);
        put(&namespace, &digest(number), bytes)
            .unwrap_or_else(|error| panic!("record {number}: {error}; {:?}", namespace.stats()));
        let found = get(&namespace, &digest(number)).unwrap();
        assert!(found.as_deref() == Some(bytes), "record {number}");
    }
}

/// Lists that grow by edits: each is much larger than it was when it was written whole first.
#[test]
fn deletes_make_room_in_a_store_that_growing_records_have_filled() {
    let _turn = alone();
    const BLOCKS: u64 = 40;
    for (first_bytes, grown_bytes) in [(64 << 10, 3 << 10), (64 << 10, 7 << 10), (8 << 10, 900)] {
        let dir = tempfile::tempdir().unwrap();
        let wanted = Options {
            max_device_bytes: HEADER_BYTES + BLOCKS * SMALL_BLOCK_BYTES,
            max_record_bytes: 1 << 20,
            ..options(files(dir.path(), 1), 1)
        };
        let (namespace, _) = Namespace::open(wanted).unwrap();
        let mut chance = Chance(5);
        let mut noise = |bytes: usize| -> Vec<u8> {
            let words = (0..bytes.div_ceil(8)).map(|_| chance.next());
            words.flat_map(u64::to_le_bytes).collect()
        };
        let count = BLOCKS * SMALL_BLOCK_BYTES / (12 * first_bytes as u64);
        let mut records: Vec<_> = (0..count).map(|_| noise(first_bytes)).collect();
        for (number, bytes) in (0..).zip(&records) {
            put(&namespace, &digest(number), bytes).unwrap();
        }
        // In turn, until neither writing nor cleaning goes on.
        'full: loop {
            for (number, bytes) in (0..).zip(&mut records) {
                let before = bytes.len();
                bytes.extend(noise(grown_bytes));
                let put = || put(&namespace, &digest(number), bytes);
                let done = put().or_else(|_| namespace.maintain().and_then(|_| put()));
                if let Err(refused) = done {
                    assert!(matches!(refused, Error::StopWrites { .. }), "{refused}");
                    bytes.truncate(before);
                    break 'full;
                }
            }
        }
        for number in (0..count).step_by(2) {
            assert!(delete(&namespace, &digest(number)).unwrap());
        }
        namespace.maintain().unwrap();
        for number in (1..count).step_by(2) {
            let bytes = &mut records[number as usize];
            bytes[100] ^= 1;
            put(&namespace, &digest(number), bytes).unwrap_or_else(|error| {
                panic!("record {number}: {error}; {:?}", namespace.stats())
            });
            let found = get(&namespace, &digest(number)).unwrap();
            assert!(found.as_ref() == Some(bytes), "record {number}");
        }
    }
}

#[test]
fn records_that_edits_have_shrunk_do_not_fill_a_store() {
    let _turn = alone();
    const BLOCKS: u64 = 24;
    let dir = tempfile::tempdir().unwrap();
    let wanted = Options {
        max_device_bytes: HEADER_BYTES + BLOCKS * SMALL_BLOCK_BYTES,
        max_record_bytes: 1 << 20,
        ..options(files(dir.path(), 1), 1)
    };
    let (namespace, _) = Namespace::open(wanted).unwrap();
    let mut chance = Chance(7);
    // A queue that runs full and is worked off, again and again, in record after record.
    for number in 0..100 {
        let noise = (0..60_000).flat_map(|_| chance.next().to_le_bytes());
        let mut queue: Vec<u8> = noise.collect();
        for bytes in [480_000, 100_000, 20_000, 4_000] {
            queue.truncate(bytes);
            if put(&namespace, &digest(number), &queue).is_err() {
                let cleaned = namespace.maintain();
                put(&namespace, &digest(number), &queue).unwrap_or_else(|error| {
                    panic!(
                        "record {number}: {cleaned:?}, {error}; {:?}",
                        namespace.stats()
                    )
                });
            }
        }
        assert!(get(&namespace, &digest(number)).unwrap() == Some(queue));
    }
}
