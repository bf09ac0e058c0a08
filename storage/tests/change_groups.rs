//! Changes of groups: each group is read whole and once, beside syncs and cleaning.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::changes::{fed, put, read_all, read_from};
use common::{Chance, delete, devices, digest, options, simulated, version};
use spikelet_storage::{
    Change, ChangeKind, Delivery, Durability, Namespace, NewVersion, Options, ReadEnd, Storage,
    Truncate,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Commits a group that puts a version of each of these records.
fn commit(namespace: &Namespace, set_id: u16, records: std::ops::Range<u64>, payload: &[u8]) {
    let new = NewVersion {
        set_id,
        ..version(payload)
    };
    let lock = |number| namespace.lock(&digest(number), None).unwrap();
    let changes = records.map(|number| (lock(number), Change::Put(new)));
    namespace.commit_group(changes.collect()).unwrap();
}

#[test]
fn a_group_is_shown_whole_whenever_a_sync_falls_into_it() {
    const MEMBERS: u64 = 300;
    for round in 0..8 {
        let options = Options {
            durability: Durability::Process,
            ..options(Storage::Memory, 24)
        };
        let (namespace, _) = Namespace::open(options).unwrap();
        let set = fed(&namespace);
        namespace.sync().unwrap();
        let start = namespace.last_lsn();
        let mut reader = namespace.read_changes(Delivery::Durable, start);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                commit(&namespace, set, 0..MEMBERS, &vec![7; 60_000]);
                done.store(true, Ordering::SeqCst);
            });
            let is_within = || namespace.last_lsn().get() >= start.get() + 10;
            while !is_within() && !done.load(Ordering::SeqCst) {
                std::hint::spin_loop();
            }
            namespace.sync().unwrap();
        });
        let mut reads: Vec<usize> = (0..2)
            .map(|_| reader.read(10_000, |_, _| true).unwrap().changes.len())
            .collect();
        namespace.sync().unwrap();
        reads.push(read_all(&mut reader).len());
        reads.retain(|changes| *changes > 0);
        assert_eq!(reads, [MEMBERS as usize], "round {round}");
    }
}

#[test]
fn a_lock_on_a_record_that_is_gone_holds_no_follower_up() {
    let (namespace, _) = Namespace::open(options(Storage::Memory, 24)).unwrap();
    let set = fed(&namespace);
    let check = |number, start, expected: &[ChangeKind]| {
        let _held = namespace.lock(&digest(number), None).unwrap();
        let mut reader = namespace.read_changes(Delivery::Published, start);
        let read = reader.read(100, |_, _| true).unwrap();
        let kinds: Vec<_> = read.changes.iter().map(|change| change.kind).collect();
        assert_eq!((read.end, kinds), (ReadEnd::Last, expected.to_vec()));
    };
    let start = namespace.last_lsn();
    put(&namespace, set, 1, 1, b"truncated");
    namespace.truncate(Truncate::Set(set), None).unwrap();
    let truncation = ChangeKind::Truncate { before_ms: None };
    check(1, start, &[ChangeKind::Put, truncation]);
    // The only version is in a block that is emptied, and so its tombstone is forgotten.
    put(&namespace, set, 2, 1, b"deleted");
    ballast(&namespace, 1);
    let start = namespace.last_lsn();
    namespace.need_changes_after(&[start]);
    for number in (1_000..1_009).chain([2]) {
        delete(&namespace, &digest(number)).unwrap();
    }
    assert!(namespace.maintain().unwrap().dropped_tombstones > 0);
    check(2, start, &[ChangeKind::Delete]);
}

/// Fills blocks with versions that the next call makes dead.
fn ballast(namespace: &Namespace, seed: u64) {
    let mut chance = Chance(seed);
    for record in 0..9 {
        let payload: Vec<u8> = (0..1 << 20).map(|_| chance.next() as u8).collect();
        let lock = namespace.lock(&digest(1_000 + record), None).unwrap();
        lock.put(&version(&payload)).unwrap();
    }
}

#[test]
fn a_group_is_shown_once_and_whole_after_cleaning_has_folded_a_member() {
    let mut disks = simulated(1, 12);
    let open = |disks: &[Arc<_>]| {
        let options = Options {
            defrag_threshold_percent: 95,
            durability: Durability::Process,
            ..options(devices(disks), 12)
        };
        Namespace::open(options).unwrap().0
    };
    let namespace = open(&disks);
    let set = fed(&namespace);
    let mut edited = vec![1; 3_000];
    put(&namespace, set, 1, 1, &edited);
    for seed in 0..4 {
        ballast(&namespace, seed);
    }
    namespace.sync().unwrap();
    let start = namespace.last_lsn();
    namespace.need_changes_after(&[start]);
    edited[5] = 9;
    let key = 1u64.to_le_bytes();
    let new = |key, payload| NewVersion {
        set_id: set,
        generation: 2,
        key,
        ..version(payload)
    };
    let changes = vec![
        (
            namespace.lock(&digest(1), None).unwrap(),
            Change::Put(new(Some(&key[..]), &edited[..])),
        ),
        (
            namespace.lock(&digest(2), None).unwrap(),
            Change::Put(new(None, b"B")),
        ),
    ];
    namespace.commit_group(changes).unwrap();
    namespace.sync().unwrap();
    let before = read_from(&namespace, Delivery::Durable, start.get());
    assert_eq!(before.len(), 2);
    for _ in 0..3 {
        namespace.maintain().unwrap();
        namespace.sync().unwrap();
    }
    assert!(namespace.stats().defragmented_blocks > 0);
    let cleaned = read_from(&namespace, Delivery::Durable, start.get());
    assert_eq!(cleaned, before);
    disks = vec![Arc::new(disks[0].kill().unwrap())];
    drop(namespace);
    let namespace = open(&disks);
    for delivery in [Delivery::Durable, Delivery::Published] {
        let reopened = read_from(&namespace, delivery, start.get());
        assert_eq!(reopened, before, "{delivery:?}");
    }
}

#[test]
fn changes_are_followed_from_their_first_number_beside_groups_that_have_begun() {
    for round in 0..40 {
        let options = options(Storage::Memory, 48);
        let (namespace, _) = Namespace::open(options).unwrap();
        let other = namespace.create_set("others").unwrap();
        let created = namespace.last_lsn();
        let done = AtomicBool::new(false);
        let delivery = [Delivery::Durable, Delivery::Published][round % 2];
        let read = std::thread::scope(|scope| {
            for thread in 0..3 {
                let (namespace, done) = (&namespace, &done);
                scope.spawn(move || {
                    // As many as fit: a slow machine reads late.
                    for _ in 0..10_000 {
                        if done.load(Ordering::SeqCst) {
                            break;
                        }
                        let first = thread * 1_000;
                        commit(namespace, other, first..first + 60, &[7; 100]);
                    }
                });
            }
            while namespace.last_lsn().get() < created.get() + 500 {
                std::thread::yield_now();
            }
            fed(&namespace);
            let start = namespace.last_lsn();
            namespace.wait_for_writers().unwrap();
            namespace.sync().unwrap();
            let mut reader = namespace.read_changes(delivery, start);
            let read = reader.read(10, |_, _| true);
            done.store(true, Ordering::SeqCst);
            read
        });
        assert!(read.is_ok(), "round {round}, {delivery:?}: {read:?}");
    }
}

/// Staging memory has the entries of a closing namespace until its lanes are closed.
#[test]
fn changes_that_are_staged_when_a_close_begins_are_read() {
    let (namespace, _) = Namespace::open(options(devices(&simulated(1, 9)), 9)).unwrap();
    let set = fed(&namespace);
    let position = namespace.last_lsn().get();
    put(&namespace, set, 1, 1, b"staged");
    // The close waits for its owner.
    let held = namespace.lock(&digest(2), None).unwrap();
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| namespace.close());
        while namespace.lock(&digest(3), None).is_ok() {}
        let changes = read_from(&namespace, Delivery::Published, position);
        drop(held);
        assert_eq!(changes.len(), 1, "{changes:?}");
        closing.join().unwrap().unwrap();
    });
}
