//! What the tombstone pass reads, and what it forgets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::turns::alone;
use common::{delete, devices, digest, get, options, put, simulated};
use spikelet_storage::{BLOCK_BYTES, Namespace, Options, SimulatedDevice};
use std::sync::{Arc, Mutex, PoisonError};

const BLOCKS: u64 = 16;

/// A reader in any thread of the process, so also in another test, makes a pass read more blocks.
static ALONE: Mutex<()> = Mutex::new(());

fn on(device: &Arc<SimulatedDevice>) -> Options {
    options(devices(&[Arc::clone(device)]), BLOCKS)
}

/// Several blocks of small records, of which only the second block holds superseded ones.
fn filled(device: &Arc<SimulatedDevice>) -> (Namespace, u64) {
    let (namespace, _) = Namespace::open(on(device)).unwrap();
    let mut records = 0;
    while namespace.stats().used_blocks < 5 {
        put(&namespace, &digest(records), &[records as u8; 200]).unwrap();
        records += 1;
    }
    namespace.sync().unwrap();
    (namespace, records)
}

#[test]
fn blocks_without_superseded_bytes_are_not_read_and_of_others_the_directory_alone() {
    let _turn = alone();
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = simulated(1, BLOCKS).remove(0);
    let (namespace, records) = filled(&device);
    // In the middle of the second of four full blocks.
    let deleted = records * 3 / 8..records * 3 / 8 + 200;
    for record in deleted.clone() {
        assert!(delete(&namespace, &digest(record)).unwrap());
    }
    namespace.sync().unwrap();
    let before = device.read_bytes();
    assert_eq!(namespace.maintain().unwrap().dropped_tombstones, 0);
    let read = device.read_bytes() - before;
    // The directories of the second block and of the one that is being filled, and the tombstones:
    // 12 bytes an entry in sectors, 56 a tombstone.
    let in_a_block = records / 4;
    let directory = in_a_block.div_ceil(41) * 512;
    println!("{read} bytes read, a directory has {directory}, a block {BLOCK_BYTES}");
    assert!(read > 0 && read <= directory + (64 << 10), "{read}");
    for record in deleted {
        assert_eq!(get(&namespace, &digest(record)).unwrap(), None);
    }
}

#[test]
fn tombstones_go_once_the_blocks_with_older_versions_are_gone_and_nothing_returns() {
    let _turn = alone();
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = simulated(1, BLOCKS).remove(0);
    let (namespace, records) = filled(&device);
    for record in (0..records).filter(|record| record % 8 > 0) {
        assert!(delete(&namespace, &digest(record)).unwrap());
    }
    let done = namespace.maintain().unwrap();
    assert!(done.dropped_tombstones > records / 2, "{done:?}");
    namespace.sync().unwrap();
    for device in [device.kill().unwrap(), device.crash(3).unwrap()] {
        let (namespace, opening) = Namespace::open(on(&Arc::new(device))).unwrap();
        assert_eq!(opening.damaged_entries, 0);
        for record in 0..records {
            let expected = (record % 8 == 0).then(|| vec![record as u8; 200]);
            assert_eq!(get(&namespace, &digest(record)).unwrap(), expected);
        }
    }
}

#[test]
fn a_block_whose_directory_is_damaged_is_looked_at_entry_by_entry() {
    let _turn = alone();
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = simulated(1, BLOCKS).remove(0);
    let (namespace, records) = filled(&device);
    let deleted = records * 3 / 8;
    assert!(delete(&namespace, &digest(deleted)).unwrap());
    namespace.sync().unwrap();
    let end_of_second = spikelet_storage::HEADER_BYTES + 2 * BLOCK_BYTES;
    device.zero(end_of_second - (64 << 10)..end_of_second);
    let before = device.read_bytes();
    assert_eq!(namespace.maintain().unwrap().dropped_tombstones, 0);
    assert!(device.read_bytes() - before > BLOCK_BYTES / 2);
    let (namespace, _) = Namespace::open(on(&Arc::new(device.kill().unwrap()))).unwrap();
    assert_eq!(get(&namespace, &digest(deleted)).unwrap(), None);
}

#[test]
fn of_a_block_that_is_being_filled_the_entries_are_read_alone() {
    let _turn = alone();
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let device = simulated(1, BLOCKS).remove(0);
    let (namespace, _) = Namespace::open(on(&device)).unwrap();
    (0..100).for_each(|record| put(&namespace, &digest(record), b"first").unwrap());
    assert!(delete(&namespace, &digest(7)).unwrap());
    namespace.sync().unwrap();
    // Its lane may write the directory at the same moment.
    let end = spikelet_storage::HEADER_BYTES + BLOCK_BYTES;
    device.fail_read(end - 4096..end);
    assert_eq!(namespace.maintain().unwrap().dropped_tombstones, 0);
    assert_eq!(namespace.stats().unreadable_bytes, 0);
}
