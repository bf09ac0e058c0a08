//! Edits of large records in groups: they write what they change, and what builds on a group that a
//! power failure has undone is undone with it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{
    Chance, NOW_MS, devices, digest, get, long, options, other_live_bytes, put, simulated, version,
};
use spikelet_storage::{
    Change, Durability, Error, Namespace, Options, RecordChange, SeenRecord, SimulatedDevice,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const BLOCKS: u64 = 24;
const RECORDS: u64 = 10;

/// How large records are, and what an edit puts in front of them.
struct Size {
    record_bytes: usize,
    piece_bytes: usize,
}

/// Edits fill the buffers of lanes.
const LARGE: Size = Size {
    record_bytes: 100_000,
    piece_bytes: 1_000,
};
/// Few sectors each.
const SMALL: Size = Size {
    record_bytes: 1_600,
    piece_bytes: 8,
};

fn open(disk: &Arc<SimulatedDevice>, write_lanes: usize) -> Namespace {
    let wanted = Options {
        durability: Durability::Process,
        write_lanes,
        ..options(devices(std::slice::from_ref(disk)), BLOCKS)
    };
    Namespace::open(wanted).unwrap().0
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut chance = Chance(seed);
    (0..length).map(|_| chance.next() as u8).collect()
}

fn fill(namespace: &Namespace, size: &Size, records: Range<u64>) {
    for record in records {
        put(
            namespace,
            &digest(record),
            &bytes(record, size.record_bytes),
        )
        .unwrap();
    }
}

/// Puts a piece with the number of the edit in front of each of these records, in one group.
fn edit(namespace: &Namespace, size: &Size, records: &[u64], number: u64) {
    let look = |record: &u64| {
        let digest = digest(*record);
        namespace.get_versioned(&digest, |version, found| {
            let mut payload = found.unwrap().unwrap().payload().to_vec();
            payload.splice(0..0, number.to_le_bytes().repeat(size.piece_bytes / 8));
            (SeenRecord { digest, version }, payload)
        })
    };
    loop {
        let mut edited: Vec<_> = records.iter().map(look).collect();
        edited.sort_by_key(|(seen, _)| seen.digest);
        let changes: Vec<_> = edited
            .iter()
            .map(|(seen, payload)| RecordChange {
                seen: *seen,
                change: Change::Put(version(payload)),
            })
            .collect();
        match namespace.lock_unchanged(&[], &changes, 0, None) {
            Ok(locked) => {
                namespace.commit_group(locked).unwrap();
                return;
            }
            Err(Error::Conflict { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
}

/// The numbers that stand in front of a record, oldest first.
fn numbers(namespace: &Namespace, size: &Size, record: u64) -> Vec<u64> {
    let payload = get(namespace, &digest(record)).unwrap().unwrap();
    let (front, body) = payload.split_at(payload.len() - size.record_bytes);
    assert_eq!(body, bytes(record, size.record_bytes), "record {record}");
    let numbers = front
        .chunks_exact(size.piece_bytes)
        .map(|piece| u64::from_le_bytes(piece[..8].try_into().unwrap()));
    numbers.rev().collect()
}

fn pick(chance: &mut Chance) -> Vec<u64> {
    let first = chance.below(RECORDS);
    let second = (first + 1 + chance.below(RECORDS - 1)) % RECORDS;
    vec![first, second]
}

#[test]
fn an_edit_in_a_group_writes_what_it_changes() {
    let disk = simulated(1, BLOCKS).remove(0);
    let namespace = open(&disk, 1);
    fill(&namespace, &LARGE, 0..RECORDS);
    let before = namespace.stats().traffic.appended_bytes;
    for number in 0..60 {
        edit(&namespace, &LARGE, &[0, 1], number);
    }
    let written = namespace.stats().traffic.appended_bytes - before;
    // A delta takes 56 bytes and its group, the version before and the piece; the commit entry 80.
    assert!(
        written / 60 <= 2 * (LARGE.piece_bytes as u64 + 112) + 80,
        "{} bytes a group",
        written / 60
    );
    assert_eq!(numbers(&namespace, &LARGE, 1), (0..60).collect::<Vec<_>>());
}

/// Threads with lanes of their own, which lose their tails apart.
#[test]
fn what_builds_on_an_undone_group_is_undone_with_it() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..if long() { 2_000 } else { 25 } {
        let disk = simulated(1, BLOCKS).remove(0);
        let namespace = open(&disk, 4);
        fill(&namespace, &LARGE, 0..RECORDS);
        namespace.sync().unwrap();
        let next = AtomicU64::new(0);
        let groups = Mutex::new(BTreeMap::new());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (namespace, disk, next, groups) = (&namespace, &disk, &next, &groups);
                scope.spawn(move || {
                    let mut chance = Chance(seed * 4 + thread + 1);
                    // So few that no record is written whole: that would be there without what it
                    // builds on.
                    for _ in 0..40 {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let records = pick(&mut chance);
                        groups.lock().unwrap().insert(number, records.clone());
                        edit(namespace, &LARGE, &records, number);
                        if chance.one_in(6) {
                            disk.writeback(chance.next());
                        }
                    }
                });
            }
        });
        let groups = groups.into_inner().unwrap();
        let all: Vec<_> = (0..RECORDS)
            .map(|record| numbers(&namespace, &LARGE, record))
            .collect();
        // A kill costs nothing.
        let killed = open(&Arc::new(disk.kill().unwrap()), 4);
        for (record, all) in (0..).zip(&all) {
            assert_eq!(numbers(&killed, &LARGE, record), *all, "seed {seed}");
        }
        drop(killed);
        let mut left = Arc::new(disk.crash(seed).unwrap());
        drop(namespace);
        // The second recovery finds the same as the first, which by then is noted as durable.
        for opening in 0..2 {
            let namespace = open(&left, 4);
            let found: Vec<_> = (0..RECORDS)
                .map(|record| numbers(&namespace, &LARGE, record))
                .collect();
            for (record, found) in found.iter().enumerate() {
                assert!(
                    all[record].starts_with(found),
                    "seed {seed}: record {record}"
                );
            }
            for (number, records) in &groups {
                let there = records
                    .iter()
                    .filter(|record| found[**record as usize].contains(number));
                match there.count() {
                    0 => lost += 1,
                    2 => kept += 1,
                    _ => panic!(
                        "seed {seed}, opening {opening}: half of group {number}, {records:?}"
                    ),
                }
            }
            namespace.sync().unwrap();
            left = Arc::new(left.crash(seed).unwrap());
        }
    }
    assert!(lost > 100 && kept > 100, "{lost} lost, {kept} kept");
}

/// Loses power when some of the writes have reached the device, and opens the rest.
fn lose_power(disk: &SimulatedDevice, namespace: Namespace, chance: &mut Chance) -> Namespace {
    disk.writeback(chance.next());
    let left = Arc::new(disk.crash(chance.next()).unwrap());
    drop(namespace);
    open(&left, 2)
}

/// Small records, half of them beside dead bytes, so that their block is worth emptying.
fn fill_around_dead_bytes(namespace: &Namespace) {
    fill(namespace, &SMALL, 0..RECORDS / 2);
    for content in [0, 1_000] {
        for record in 100..107 {
            let payload = bytes(record + content, 1 << 20);
            put(namespace, &digest(record), &payload).unwrap();
        }
    }
    fill(namespace, &SMALL, RECORDS / 2..RECORDS);
    namespace.sync().unwrap();
}

/// Cleaning would write edited records whole, elsewhere than the rest of their group.
#[test]
fn cleaning_moves_no_edit_that_is_not_durable() {
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..if long() { 1_000 } else { 60 } {
        let disk = simulated(1, BLOCKS).remove(0);
        let namespace = open(&disk, 2);
        fill_around_dead_bytes(&namespace);
        let mut chance = Chance(seed + 1);
        for one in 0..RECORDS / 2 {
            edit(&namespace, &SMALL, &[one, one + RECORDS / 2], one);
        }
        let before = namespace.stats().traffic.moved_bytes;
        disk.fail_sync(1, chance.next());
        let _ = namespace.maintain();
        assert_eq!(namespace.stats().traffic.moved_bytes, before, "seed {seed}");
        let namespace = lose_power(&disk, namespace, &mut chance);
        for one in 0..RECORDS / 2 {
            let other = numbers(&namespace, &SMALL, one + RECORDS / 2);
            let one = numbers(&namespace, &SMALL, one);
            assert_eq!(one, other, "seed {seed}");
            *(if one.is_empty() { &mut lost } else { &mut kept }) += 1;
        }
    }
    println!("{lost} lost, {kept} kept");
    assert!(lost > 0 && kept > 0, "{lost} lost, {kept} kept");
}

/// A record that is written whole stays when the chain that it was is undone.
#[test]
fn cleaning_writes_no_record_whole_over_a_group_that_may_be_undone() {
    let (mut lost, mut kept, mut moved) = (0, 0, 0);
    for seed in 0..if long() { 600 } else { 40 } {
        let disk = simulated(1, BLOCKS).remove(0);
        let namespace = open(&disk, 2);
        fill_around_dead_bytes(&namespace);
        for one in 0..RECORDS / 2 {
            edit(&namespace, &SMALL, &[one, one + RECORDS / 2], 1);
        }
        for one in 0..RECORDS / 2 {
            let mut payload = get(&namespace, &digest(one)).unwrap().unwrap();
            payload.splice(0..0, 2u64.to_le_bytes());
            put(&namespace, &digest(one), &payload).unwrap();
        }
        let before = namespace.stats().traffic.moved_bytes;
        let mut chance = Chance(seed + 77);
        // Without that, cleaning makes the groups durable first.
        let fails = seed % 4 != 0;
        if fails {
            disk.fail_sync(1, chance.next());
        }
        let _ = namespace.maintain();
        if !fails {
            moved += namespace.stats().traffic.moved_bytes - before;
        }
        let namespace = lose_power(&disk, namespace, &mut chance);
        for one in 0..RECORDS / 2 {
            let other = numbers(&namespace, &SMALL, one + RECORDS / 2);
            let one = numbers(&namespace, &SMALL, one);
            assert_eq!(one.contains(&1), other.contains(&1), "seed {seed}");
            *(if other.is_empty() {
                &mut lost
            } else {
                &mut kept
            }) += 1;
        }
    }
    let records_moved = moved / SMALL.record_bytes as u64;
    assert!(
        lost > 10 && kept > 10 && records_moved >= 10 * RECORDS / 2,
        "{lost} lost, {kept} kept, {records_moved} records moved"
    );
}

#[test]
fn what_lives_is_counted_the_same_beside_writers_and_by_every_opening() {
    for seed in 0..if long() { 400 } else { 8 } {
        let mut chance = Chance(seed + 1);
        let mut disk = simulated(1, BLOCKS).remove(0);
        let mut namespace = open(&disk, 1);
        put(&namespace, &digest(99), b"metadata is there").unwrap();
        let nothing_else = other_live_bytes(&namespace);
        fill(&namespace, &LARGE, 0..RECORDS);
        for number in 0..300 {
            match chance.below(40) {
                0 => {
                    let record = chance.below(RECORDS);
                    put(
                        &namespace,
                        &digest(record),
                        &bytes(record, LARGE.record_bytes),
                    )
                    .unwrap();
                }
                1 => namespace.sync().unwrap(),
                2 => drop(namespace.maintain().unwrap()),
                3 => {
                    let live = namespace.stats().live_bytes;
                    let found: Vec<_> = (0..RECORDS)
                        .map(|record| numbers(&namespace, &LARGE, record))
                        .collect();
                    let is_closed = chance.one_in(3);
                    if is_closed {
                        namespace.close().unwrap();
                    }
                    disk = Arc::new(disk.kill().unwrap());
                    namespace = open(&disk, 1);
                    let again: Vec<_> = (0..RECORDS)
                        .map(|record| numbers(&namespace, &LARGE, record))
                        .collect();
                    assert_eq!(again, found, "seed {seed}, edit {number}");
                    let now = namespace.stats().live_bytes;
                    assert_eq!(now, live, "seed {seed}, edit {number}, closed: {is_closed}");
                }
                _ => edit(&namespace, &LARGE, &pick(&mut chance), number),
            }
        }
        for record in 0..RECORDS {
            let lock = namespace.lock(&digest(record), None).unwrap();
            assert!(lock.delete(NOW_MS).unwrap().is_some());
        }
        assert_eq!(other_live_bytes(&namespace), nothing_else, "seed {seed}");
    }
}
