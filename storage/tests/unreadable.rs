//! Sectors that become unreadable while a store is open: their records are damaged, no signal ends
//! the process, and no record is lost.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::turns::{alone, beside_others};
use common::{delete, device_bytes, devices, digest, files, get, options, put, simulated};
use spikelet_storage::{
    BLOCK_BYTES, Device, Error, HEADER_BYTES, Namespace, Options, SimulatedDevice,
};
use std::fs::OpenOptions;
use std::sync::Arc;

const BLOCKS: u64 = 10;

fn on(device: &Arc<SimulatedDevice>) -> Options {
    options(devices(&[Arc::clone(device)]), BLOCKS)
}

fn payload(record: u64, bytes: usize) -> Vec<u8> {
    let mut payload = record.to_le_bytes().repeat(bytes.div_ceil(8));
    payload.truncate(bytes);
    payload
}

/// Where the payloads of records begin: number, offset. Entries begin at multiples of 16 bytes.
fn payloads(bytes: &[u8]) -> Vec<(u64, usize)> {
    let (words, _) = bytes.as_chunks::<8>();
    let mut found: Vec<(u64, usize)> = Vec::new();
    for (at, run) in words.windows(9).enumerate() {
        let is_begin = run[1..].iter().all(|word| *word == run[1]) && run[0] != run[1];
        let record = u64::from_le_bytes(run[1]);
        if is_begin && (1..10_000).contains(&record) {
            found.push((record, (at + 1) * 8));
        }
    }
    found
}

/// The page of the device in which the payload of a record begins.
fn page_of(device: &SimulatedDevice, record: u64) -> u64 {
    let all = device.snapshot_range(HEADER_BYTES..device.len_bytes());
    let found = payloads(&all).into_iter();
    let (_, at) = found.rev().find(|(found, _)| *found == record).unwrap();
    (HEADER_BYTES + at as u64) / 4096 * 4096
}

fn is_damaged(namespace: &Namespace, record: u64) -> bool {
    match get(namespace, &digest(record)) {
        Err(Error::Damaged { .. }) => true,
        Ok(_) => false,
        Err(other) => panic!("{other}"),
    }
}

/// The mapping of a simulated device keeps what a call cannot read: who looks there reads the
/// record as it was.
#[test]
fn a_record_that_opening_could_not_read_is_damaged_without_a_look_at_the_mapping() {
    let _turn = beside_others();
    let device = simulated(1, BLOCKS).remove(0);
    let (namespace, _) = Namespace::open(on(&device)).unwrap();
    for record in 0..100 {
        put(&namespace, &digest(record), &payload(record, 3_000)).unwrap();
    }
    namespace.sync().unwrap();
    let device = Arc::new(device.kill().unwrap());
    let page = page_of(&device, 50);
    device.fail_read(page..page + 4096);
    let (namespace, opening) = Namespace::open(on(&device)).unwrap();
    assert!(opening.damaged_entries > 0, "{opening:?}");
    let damaged: Vec<u64> = (0..100)
        .filter(|record| is_damaged(&namespace, *record))
        .collect();
    assert!(damaged.contains(&50), "{damaged:?}");
    assert_eq!(damaged.len() as u64, opening.damaged_entries, "{damaged:?}");
    assert_eq!(namespace.stats().unreadable_bytes, 4096);
    // A new version goes to another sector.
    for record in &damaged {
        put(&namespace, &digest(*record), b"written anew").unwrap();
    }
    assert!((0..100).all(|record| !is_damaged(&namespace, record)));
}

#[test]
fn cleaning_keeps_a_block_that_it_cannot_read_and_moves_the_rest() {
    let _turn = alone();
    let device = simulated(1, BLOCKS).remove(0);
    let (namespace, _) = Namespace::open(on(&device)).unwrap();
    // Three blocks and a half.
    let count = 900;
    for record in 0..count {
        put(&namespace, &digest(record), &payload(record, 32_000)).unwrap();
    }
    for record in (0..count).filter(|record| record % 10 > 0) {
        delete(&namespace, &digest(record)).unwrap();
    }
    namespace.sync().unwrap();
    let page = page_of(&device, 100) + 4096;
    device.fail_read(page..page + 4096);
    let done = namespace.maintain().unwrap();
    assert!(done.freed_blocks >= 2, "{done:?}");
    let stats = namespace.stats();
    assert_eq!(stats.unreadable_bytes, 4096);
    assert!(stats.damaged > 0, "{stats:?}");
    for record in 0..count {
        match get(&namespace, &digest(record)) {
            Err(Error::Damaged { .. }) => assert_eq!(record, 100),
            found => {
                let expected = (record % 10 == 0).then(|| payload(record, 32_000));
                assert!(found.unwrap() == expected && record != 100, "{record}");
            }
        }
    }
    // The sector can be read again (a cable that was loose): nothing was thrown away.
    namespace.sync().unwrap();
    drop(namespace);
    let device = Arc::new(device.kill().unwrap());
    device.mend_reads();
    let (namespace, opening) = Namespace::open(on(&device)).unwrap();
    assert_eq!(opening.damaged_entries, 0, "{opening:?}");
    let found = get(&namespace, &digest(100)).unwrap();
    assert!(found == Some(payload(100, 32_000)));
    // Once its record is written anew, the block is given back, with other disk space behind it
    // later.
    device.fail_read(page..page + 4096);
    namespace.maintain().unwrap();
    assert_eq!(namespace.stats().unreadable_bytes, 4096);
    put(&namespace, &digest(100), b"written anew").unwrap();
    assert!(namespace.maintain().unwrap().freed_blocks > 0);
    assert_eq!(namespace.stats().unreadable_bytes, 0);
}

#[test]
fn the_tombstone_pass_keeps_what_it_cannot_look_up() {
    let _turn = alone();
    let device = simulated(1, BLOCKS).remove(0);
    let (namespace, _) = Namespace::open(on(&device)).unwrap();
    put(&namespace, &digest(1_000), b"to be deleted").unwrap();
    for record in 0..400 {
        put(&namespace, &digest(record), &payload(record, 32_000)).unwrap();
    }
    delete(&namespace, &digest(1_000)).unwrap();
    namespace.sync().unwrap();
    // Neither the directory of the first block nor the entries at its start can be read.
    let (start, end) = (HEADER_BYTES, HEADER_BYTES + BLOCK_BYTES);
    device.fail_read(end - 8192..end);
    device.fail_read(start + 1024..start + 4096);
    assert_eq!(namespace.maintain().unwrap().dropped_tombstones, 0);
    assert!(namespace.stats().unreadable_bytes > 0);
    let index_entries = namespace.stats().index_entries;
    // They can be read again after a restart, and the deleted record does not come back.
    let device = Arc::new(device.kill().unwrap());
    device.mend_reads();
    let (namespace, _) = Namespace::open(on(&device)).unwrap();
    assert_eq!(namespace.stats().index_entries, index_entries);
    assert_eq!(get(&namespace, &digest(1_000)).unwrap(), None);
}

#[test]
fn an_old_version_that_lies_in_an_unreadable_place_is_known_from_the_directory() {
    let _turn = alone();
    let device = simulated(1, BLOCKS).remove(0);
    let (namespace, _) = Namespace::open(on(&device)).unwrap();
    put(&namespace, &digest(1_000), b"to be deleted").unwrap();
    for record in 0..400 {
        put(&namespace, &digest(record), &payload(record, 32_000)).unwrap();
    }
    delete(&namespace, &digest(1_000)).unwrap();
    namespace.sync().unwrap();
    device.fail_read(HEADER_BYTES + 1024..HEADER_BYTES + 4096);
    assert_eq!(namespace.maintain().unwrap().dropped_tombstones, 0);
    assert_eq!(namespace.stats().unreadable_bytes, 0, "not needed");
}

/// A file that another program cuts off under an open store: reading the mapping behind its end is
/// a signal.
#[test]
fn a_file_that_is_cut_off_under_an_open_store_is_damage_to_cleaning() {
    let _turn = alone();
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        Namespace::open(options(files(dir.path(), 1), BLOCKS))
            .unwrap()
            .0
    };
    let namespace = open();
    let count = 1_000;
    for record in 0..count {
        put(&namespace, &digest(record), &payload(record, 32_000)).unwrap();
    }
    // Free blocks at the front for moves and writes: a write behind the cut would make the file
    // long again.
    for record in 0..500 {
        delete(&namespace, &digest(record)).unwrap();
    }
    namespace.maintain().unwrap();
    namespace.close().unwrap();
    drop(namespace);
    let namespace = open();
    let path = dir.path().join("device-0");
    let device = std::fs::read(&path).unwrap();
    let found = payloads(&device);
    let (_, at) = found.iter().find(|(record, _)| *record == 900).unwrap();
    let cut = *at as u64 / 4096 * 4096;
    let start = HEADER_BYTES + (cut - HEADER_BYTES) / BLOCK_BYTES * BLOCK_BYTES;
    assert!(start >= HEADER_BYTES + 3 * BLOCK_BYTES && cut < device_bytes(BLOCKS));
    // Most of the block that will be cut is dead.
    let block = start as usize..(start + BLOCK_BYTES) as usize;
    let in_block = found.into_iter().filter(|(_, at)| block.contains(at));
    let cut_block: Vec<u64> = in_block.map(|(record, _)| record).collect();
    assert!(cut_block.first() < Some(&890) && cut_block.contains(&900));
    for record in cut_block.iter().filter(|record| *record % 4 > 0) {
        delete(&namespace, &digest(*record)).unwrap();
    }
    namespace.sync().unwrap();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(cut).unwrap();
    // Neither cleaning nor the tombstone pass is ended by a signal.
    let done = namespace.maintain().unwrap();
    assert_eq!(done.dropped_tombstones, 0);
    assert_eq!(
        file.metadata().unwrap().len(),
        cut,
        "nothing was written behind"
    );
    assert!(namespace.stats().unreadable_bytes > 0);
    let left = cut_block.into_iter().filter(|record| record % 4 == 0);
    for record in left {
        assert_eq!(is_damaged(&namespace, record), record >= 900, "{record}");
    }
    assert_eq!(
        get(&namespace, &digest(600)).unwrap(),
        Some(payload(600, 32_000))
    );
}
