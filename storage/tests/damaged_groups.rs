//! Damage to a record that was edited in groups since it was last durable: it answers with an
//! error, and costs nothing of the others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{
    Chance, NOW_MS, delete, device_bytes, devices, digest, get, options, other_live_bytes, put,
    simulated, version,
};
use spikelet_storage::{
    Change, Durability, Error, Namespace, Opening, OpeningProgress, OpeningStep, Options,
    SECTOR_BYTES, SimulatedDevice, read_state, write_state,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCKS: u64 = 24;
const BYTES: usize = 3_000;

fn options_of(disk: &Arc<SimulatedDevice>) -> Options {
    Options {
        durability: Durability::Process,
        ..options(devices(std::slice::from_ref(disk)), BLOCKS)
    }
}

fn open(disk: &Arc<SimulatedDevice>) -> (Namespace, Opening) {
    Namespace::open(options_of(disk)).unwrap()
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut chance = Chance(seed + 1);
    (0..length).map(|_| chance.next() as u8).collect()
}

/// The payload with the number of an edit in front.
fn edited(payload: &[u8], number: u64) -> Vec<u8> {
    [&number.to_le_bytes(), payload].concat()
}

fn commit(namespace: &Namespace, puts: &[(u64, &[u8])]) {
    let mut puts: Vec<_> = puts
        .iter()
        .map(|(record, payload)| (digest(*record), payload))
        .collect();
    puts.sort_by_key(|(digest, _)| *digest);
    let locked = puts.iter().map(|(digest, payload)| {
        let lock = namespace.lock(digest, None).unwrap();
        (lock, Change::Put(version(payload)))
    });
    namespace.commit_group(locked.collect()).unwrap();
}

/// Where these bytes begin in the first block. There they are once.
fn find(disk: &SimulatedDevice, bytes: &[u8]) -> u64 {
    let block = disk.snapshot_range(0..device_bytes(1));
    let mut all = block.windows(bytes.len());
    let at = all.position(|window| window == bytes).expect("it is there");
    assert!(!all.any(|window| window == bytes), "it is there twice");
    at as u64
}

fn is_damaged(namespace: &Namespace, record: u64) -> bool {
    matches!(get(namespace, &digest(record)), Err(Error::Damaged { .. }))
}

fn holds(namespace: &Namespace, record: u64, payload: &[u8]) -> bool {
    matches!(get(namespace, &digest(record)), Ok(Some(found)) if found == payload)
}

/// How the entry that these bytes are in is damaged: in its body, or with its header.
fn damage(disk: &SimulatedDevice, inside: &[u8], with_header: bool) {
    let at = find(disk, inside);
    disk.invert_byte(at);
    if with_header {
        let sector = (at - 2 * SECTOR_BYTES) / SECTOR_BYTES * SECTOR_BYTES;
        disk.zero(sector..at);
    }
}

/// The durable bytes of a record are damaged, and a later group with other records has edited it.
#[test]
fn damage_to_what_an_edit_builds_on_undoes_no_group() {
    for (others_are_edited, is_chain, with_header) in [
        (false, false, false),
        (true, false, false),
        (true, true, false),
        (true, false, true),
        (false, true, true),
    ] {
        let what = format!("{others_are_edited} {is_chain} {with_header}");
        let disk = simulated(1, BLOCKS).remove(0);
        let (namespace, _) = open(&disk);
        let (first, before) = (bytes(1, BYTES), bytes(2, BYTES));
        put(&namespace, &digest(1), &first).unwrap();
        put(&namespace, &digest(2), &before).unwrap();
        let nothing_else = other_live_bytes(&namespace);
        let mut now = first.clone();
        if is_chain {
            now = edited(&now, 5);
            put(&namespace, &digest(1), &now).unwrap();
        }
        namespace.sync().unwrap();
        now = edited(&now, 9);
        let other = if others_are_edited {
            edited(&before, 7)
        } else {
            bytes(3, BYTES)
        };
        commit(&namespace, &[(1, &now), (2, &other)]);
        // An edit of its own on top.
        now = edited(&now, 10);
        put(&namespace, &digest(1), &now).unwrap();
        let mut left = Arc::new(disk.kill().unwrap());
        drop(namespace);
        damage(&left, &first[1_500..1_564], with_header);
        for opening in 0..3 {
            let (namespace, found) = open(&left);
            assert!(is_damaged(&namespace, 1), "{what}, opening {opening}");
            assert!(holds(&namespace, 2, &other), "{what}, opening {opening}");
            assert_eq!(found.rolled_back_groups, 0, "{what}");
            left = Arc::new(match opening {
                0 => left.kill().unwrap(),
                _ => left.crash(opening).unwrap(),
            });
        }
        let (namespace, _) = open(&left);
        delete(&namespace, &digest(1)).unwrap();
        delete(&namespace, &digest(2)).unwrap();
        assert_eq!(other_live_bytes(&namespace), nothing_else, "{what}");
    }
}

#[test]
fn damage_to_one_record_costs_none_of_those_that_groups_link_to_it() {
    const RECORDS: u64 = 20;
    let disk = simulated(1, BLOCKS).remove(0);
    let (namespace, _) = open(&disk);
    let mut now: Vec<_> = (0..RECORDS).map(|record| bytes(record, BYTES)).collect();
    let first = now[0].clone();
    for (record, payload) in (0..).zip(&now) {
        put(&namespace, &digest(record), payload).unwrap();
    }
    namespace.sync().unwrap();
    for one in 0..RECORDS - 1 {
        let (front, behind) = (one as usize, one as usize + 1);
        now[front] = edited(&now[front], 1);
        now[behind] = edited(&now[behind], 2);
        commit(&namespace, &[(one, &now[front]), (one + 1, &now[behind])]);
    }
    let left = Arc::new(disk.kill().unwrap());
    drop(namespace);
    damage(&left, &first[1_000..1_064], false);
    let (namespace, found) = open(&left);
    assert_eq!((found.damaged_entries, found.rolled_back_groups), (1, 0));
    assert!(is_damaged(&namespace, 0));
    for record in 1..RECORDS {
        let payload = &now[record as usize];
        assert!(holds(&namespace, record, payload), "record {record}");
    }
}

#[test]
fn an_opening_reads_all_blocks_once_however_many_edits_build_on_damage() {
    let disk = simulated(1, BLOCKS).remove(0);
    let (namespace, _) = open(&disk);
    let first = bytes(1, BYTES);
    let mut now = edited(&first, 1);
    put(&namespace, &digest(1), &first).unwrap();
    put(&namespace, &digest(1), &now).unwrap();
    namespace.sync().unwrap();
    for number in 0..20 {
        now = edited(&now, number);
        put(&namespace, &digest(1), &now).unwrap();
    }
    let left = Arc::new(disk.kill().unwrap());
    drop(namespace);
    damage(&left, &first[1_000..1_064], false);
    let readings = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&readings);
    let progress = OpeningProgress::new(move |step, done, total| {
        let is_end = matches!(step, OpeningStep::Scan) && done == total;
        count.fetch_add(u64::from(is_end), Ordering::Relaxed);
    });
    let wanted = Options {
        progress,
        ..options_of(&left)
    };
    let (namespace, _) = Namespace::open(wanted).unwrap();
    assert_eq!(readings.load(Ordering::Relaxed), 1);
    assert!(is_damaged(&namespace, 1));
}

/// A sync that begins while a group is written makes members durable without knowing of their
/// commit entry.
#[test]
fn damage_to_a_durable_member_undoes_no_group_whose_commit_entry_is_younger() {
    for (edits, with_header, failed_power) in [
        (false, false, false),
        (false, false, true),
        (false, true, false),
        (true, false, false),
    ] {
        let what = format!("{edits} {with_header} {failed_power}");
        let disk = simulated(1, BLOCKS).remove(0);
        let (namespace, _) = open(&disk);
        let before = [bytes(1, BYTES), bytes(2, BYTES)];
        put(&namespace, &digest(1), &before[0]).unwrap();
        put(&namespace, &digest(2), &before[1]).unwrap();
        namespace.sync().unwrap();
        let durable_lsn = read_state(&*disk).unwrap().durable_lsn;
        // Bytes in front of the old ones make it an edit.
        let mark = bytes(5, 200);
        let after = if edits {
            [
                [mark.as_slice(), &before[0]].concat(),
                edited(&before[1], 7),
            ]
        } else {
            [bytes(3, BYTES), bytes(4, BYTES)]
        };
        commit(&namespace, &[(1, &after[0]), (2, &after[1])]);
        namespace.sync().unwrap();
        // Both copies, of which either counts after a failure.
        namespace.sync().unwrap();
        let left = if failed_power {
            disk.crash(1).unwrap()
        } else {
            disk.kill().unwrap()
        };
        drop(namespace);
        let mut state = read_state(&left).unwrap();
        for _ in 0..2 {
            state.sequence += 1;
            state.durable_lsn = durable_lsn;
            write_state(&left, &state).unwrap();
        }
        let inside = if edits {
            &mark[100..164]
        } else {
            &after[0][1_500..1_564]
        };
        damage(&left, inside, with_header);
        let mut left = Arc::new(left);
        for opening in 0..2 {
            let (namespace, found) = open(&left);
            assert!(is_damaged(&namespace, 1), "{what}, opening {opening}");
            assert!(holds(&namespace, 2, &after[1]), "{what}, opening {opening}");
            assert_eq!(found.rolled_back_groups, 0, "{what}");
            left = Arc::new(left.kill().unwrap());
        }
    }
}

#[test]
fn a_damaged_chain_takes_no_more_out_of_a_block_than_it_has_there() {
    let disk = simulated(1, BLOCKS).remove(0);
    let (namespace, _) = open(&disk);
    let first = bytes(1, BYTES);
    put(&namespace, &digest(1), &first).unwrap();
    // The edit is in another block than its base.
    for record in 100..110 {
        put(&namespace, &digest(record), &bytes(record, 1 << 20)).unwrap();
    }
    for record in 108..110 {
        delete(&namespace, &digest(record)).unwrap();
    }
    put(&namespace, &digest(1), &edited(&first, 1)).unwrap();
    namespace.sync().unwrap();
    let left = Arc::new(disk.kill().unwrap());
    drop(namespace);
    let (namespace, _) = open(&left);
    damage(&left, &first[1_000..1_064], false);
    assert!(is_damaged(&namespace, 1));
    let before = namespace.stats().live_bytes;
    namespace
        .lock(&digest(1), None)
        .unwrap()
        .delete(NOW_MS)
        .unwrap();
    let after = namespace.stats().live_bytes;
    // The delta goes, and a tombstone comes.
    assert!(before.abs_diff(after) < 200, "{before}, then {after}");
}
