//! Groups of changes: all of them are there or none, after overwrites, moves and restarts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::turns::{alone, beside_others};
use common::{
    Chance, NOW_MS, delete, devices, digest, files, get, options, other_live_bytes, put, simulated,
    small_header, version,
};
use spikelet_storage::{
    Change, Device, Durability, Error, Namespace, Options, Result, SimulatedDevice, Storage,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex};

const BLOCKS: u64 = 16;
const LARGE: usize = 200 << 10;

fn open(dir: &Path) -> Namespace {
    Namespace::open(options(files(dir, 1), BLOCKS)).unwrap().0
}

/// Commits these changes as one group; None deletes.
fn commit(namespace: &Namespace, changes: &[(u64, Option<&[u8]>)]) -> Result<()> {
    let locked = changes.iter().map(|(record, payload)| {
        let change = payload.map_or(Change::Delete(NOW_MS), |payload| {
            Change::Put(version(payload))
        });
        (namespace.lock(&digest(*record), None).unwrap(), change)
    });
    namespace.commit_group(locked.collect()).map(drop)
}

fn read(namespace: &Namespace, record: u64) -> Option<Vec<u8>> {
    get(namespace, &digest(record)).unwrap()
}

#[test]
fn a_group_changes_all_its_records_and_unlocks_them() {
    let _turn = beside_others();
    let dir = tempfile::tempdir().unwrap();
    let namespace = open(dir.path());
    put(&namespace, &digest(1), b"old").unwrap();
    put(&namespace, &digest(2), b"old").unwrap();
    commit(
        &namespace,
        &[(1, Some(b"new")), (2, None), (3, Some(b"first"))],
    )
    .unwrap();
    let check = |namespace: &Namespace| {
        assert_eq!(read(namespace, 1), Some(b"new".to_vec()));
        assert_eq!(read(namespace, 2), None);
        assert_eq!(read(namespace, 3), Some(b"first".to_vec()));
        assert_eq!(namespace.stats().records, 2);
    };
    check(&namespace);
    drop(namespace);
    let namespace = open(dir.path());
    check(&namespace);
    namespace.close().unwrap();
    drop(namespace);
    let namespace = open(dir.path());
    check(&namespace);
    for record in 1..=3 {
        let lock = namespace
            .lock(&digest(record), Some(std::time::Duration::ZERO))
            .unwrap();
        assert_eq!(lock.entry().unwrap().is_some(), record != 2);
    }
}

#[test]
fn a_group_that_is_refused_changes_nothing() {
    let _turn = beside_others();
    let dir = tempfile::tempdir().unwrap();
    let namespace = open(dir.path());
    put(&namespace, &digest(1), b"old").unwrap();
    let too_large = vec![0; 8 << 20];
    let live = namespace.stats().live_bytes;
    let refused = commit(
        &namespace,
        &[(1, Some(b"new")), (2, Some(b"new")), (3, Some(&too_large))],
    );
    assert!(
        matches!(refused, Err(Error::TooLarge { .. })),
        "{refused:?}"
    );
    let unknown_set = spikelet_storage::NewVersion {
        set_id: 1,
        ..version(b"new")
    };
    let locked = vec![
        (
            namespace.lock(&digest(1), None).unwrap(),
            Change::Put(version(b"new")),
        ),
        (
            namespace.lock(&digest(2), None).unwrap(),
            Change::Put(unknown_set),
        ),
    ];
    let refused = namespace.commit_group(locked).unwrap_err();
    assert!(refused.to_string().contains("set_id = 1"), "{refused}");
    let check = |namespace: &Namespace| {
        assert_eq!(read(namespace, 1), Some(b"old".to_vec()));
        assert_eq!((read(namespace, 2), read(namespace, 3)), (None, None));
        assert_eq!(
            (namespace.stats().records, namespace.stats().live_bytes),
            (1, live)
        );
    };
    check(&namespace);
    drop(namespace);
    let namespace = open(dir.path());
    check(&namespace);
    commit(&namespace, &[]).unwrap();
    check(&namespace);
}

#[test]
fn when_writes_are_stopped_a_group_of_deletes_goes_on_and_one_with_a_new_record_does_not() {
    let _turn = beside_others();
    let (namespace, _) = Namespace::open(options(Storage::Memory, BLOCKS)).unwrap();
    let payload = vec![1; LARGE];
    let count = (0..)
        .find(|record| put(&namespace, &digest(*record), &payload).is_err())
        .unwrap();
    let refused = commit(&namespace, &[(1, None), (count, Some(b"small"))]);
    assert!(
        matches!(refused, Err(Error::StopWrites { .. })),
        "{refused:?}"
    );
    assert!(read(&namespace, 1).is_some());
    for record in (0..count - 1).step_by(2) {
        commit(&namespace, &[(record, None), (record + 1, None)]).unwrap();
    }
    namespace.maintain().unwrap();
    commit(&namespace, &[(1, Some(b"small")), (2, Some(b"small"))]).unwrap();
}

#[test]
fn a_group_writes_its_members_and_nothing_else() {
    let (namespace, _) = Namespace::open(options(Storage::Memory, BLOCKS)).unwrap();
    commit(&namespace, &[(1, Some(b"a")), (2, Some(b"b")), (3, None)]).unwrap();
    assert_eq!(other_live_bytes(&namespace), 0);
    let appended = || namespace.stats().traffic.appended_bytes;
    let before = appended();
    commit(&namespace, &[(1, Some(b"c")), (2, Some(b"d"))]).unwrap();
    // A header of 56 bytes and a byte each, in units of 16.
    assert_eq!(appended() - before, 2 * 64);
}

/// Fills `blocks` blocks with records from 1,000 on, and deletes them.
fn churn(namespace: &Namespace, blocks: u64) {
    let payload = vec![9; LARGE];
    for record in 1_000..1_000 + blocks * 41 {
        put(namespace, &digest(record), &payload).unwrap();
    }
    for record in 1_000..1_000 + blocks * 41 {
        delete(namespace, &digest(record)).unwrap();
    }
}

#[test]
fn members_that_were_moved_stay_and_stand_alone() {
    let _turn = alone();
    let dir = tempfile::tempdir().unwrap();
    let mut namespace = open(dir.path());
    for round in 0..4_u8 {
        commit(
            &namespace,
            &[
                (1, Some(&[round; 100])),
                (2, Some(&[round; 5_000])),
                (3, None),
            ],
        )
        .unwrap();
        if round % 2 == 0 {
            namespace.sync().unwrap();
        }
        churn(&namespace, 2);
        assert!(namespace.maintain().unwrap().freed_blocks > 0);
        put(&namespace, &digest(4), b"another").unwrap();
        for _ in 0..2 {
            assert_eq!(read(&namespace, 1), Some(vec![round; 100]));
            assert_eq!(read(&namespace, 2), Some(vec![round; 5_000]));
            assert_eq!(read(&namespace, 3), None);
            drop(namespace);
            namespace = open(dir.path());
        }
    }
    // Superseded one by one, nothing is left of them.
    put(&namespace, &digest(1), b"alone").unwrap();
    delete(&namespace, &digest(2)).unwrap();
    put(&namespace, &digest(3), b"alone").unwrap();
    assert_eq!(other_live_bytes(&namespace), 0);
}

/// The same record by record and as groups, with everything else that goes on; the store is dropped
/// or closed at times.
#[test]
fn groups_and_single_changes_agree_with_a_map_at_every_restart() {
    let _turn = beside_others();
    let dir = tempfile::tempdir().unwrap();
    let mut namespace = open(dir.path());
    let mut model: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut chance = Chance(3);
    for step in 0..3_000_u64 {
        let mut records: Vec<u64> = (0..1 + chance.below(5)).map(|_| chance.below(60)).collect();
        records.sort_unstable();
        records.dedup();
        let payloads: Vec<Option<Vec<u8>>> = records
            .iter()
            .map(|record| {
                let bytes = chance.below(30_000) as usize;
                (!chance.one_in(4)).then(|| [*record as u8, step as u8].repeat(bytes))
            })
            .collect();
        let changes: Vec<_> = records
            .iter()
            .copied()
            .zip(payloads.iter().map(Option::as_deref))
            .collect();
        match commit(&namespace, &changes) {
            Ok(()) => {
                for (record, payload) in records.iter().zip(&payloads) {
                    match payload {
                        Some(payload) => drop(model.insert(*record, payload.clone())),
                        None => drop(model.remove(record)),
                    }
                }
            }
            Err(Error::StopWrites { .. }) => drop(namespace.maintain().unwrap()),
            Err(other) => panic!("{other}"),
        }
        if chance.one_in(4) {
            let record = chance.below(60);
            if put(&namespace, &digest(record), b"alone").is_ok() {
                model.insert(record, b"alone".to_vec());
            }
        }
        if chance.one_in(50) {
            namespace.sync().unwrap();
        }
        if chance.one_in(200) {
            namespace.maintain().unwrap();
        }
        if chance.one_in(300) {
            if chance.one_in(2) {
                namespace.close().unwrap();
            }
            drop(namespace);
            namespace = open(dir.path());
        }
        if chance.one_in(100) {
            for record in 0..60 {
                assert!(
                    read(&namespace, record).as_ref() == model.get(&record),
                    "{record} at {step}"
                );
            }
            assert_eq!(namespace.stats().records, model.len() as u64);
        }
    }
}

/// Power failures in all places around the moving of members that were not on stable storage yet.
#[test]
fn moving_a_member_does_not_tear_its_group_in_a_power_failure() {
    let _turn = beside_others();
    // Each failure copies the device.
    const SMALL: u64 = 6;
    let disks = simulated(1, SMALL);
    let open = |disk: &Arc<SimulatedDevice>| {
        let storage = devices(std::slice::from_ref(disk));
        let wanted = Options {
            durability: Durability::Process,
            ..options(storage, SMALL)
        };
        Namespace::open(wanted).unwrap().0
    };
    let namespace = open(&disks[0]);
    put(&namespace, &digest(1), b"old").unwrap();
    put(&namespace, &digest(2), b"old").unwrap();
    namespace.sync().unwrap();
    // The first member alone in a block that is worth moving, the second in the next block.
    let payload = vec![7; LARGE];
    for record in 10..40 {
        put(&namespace, &digest(record), &payload).unwrap();
    }
    for record in 10..40 {
        delete(&namespace, &digest(record)).unwrap();
    }
    namespace.sync().unwrap();
    let large = vec![8; 3 << 20];
    commit(
        &namespace,
        &[(1, Some(b"new")), (3, Some(&large)), (2, Some(b"new"))],
    )
    .unwrap();
    // A reader keeps emptied blocks from being given back, which would need a sync.
    namespace
        .get(&digest(1), |_| namespace.maintain().unwrap())
        .unwrap();
    assert!(namespace.stats().traffic.moved_bytes > 0);
    // A member is moved only once it is on stable storage, with all of its group.
    for seed in 0..40 {
        let survivor = Arc::new(disks[0].crash(seed).unwrap());
        let namespace = open(&survivor);
        let is_there = read(&namespace, 1).unwrap() == b"new";
        assert_eq!(
            read(&namespace, 2).unwrap() == b"new",
            is_there,
            "seed {seed}"
        );
        let third = is_there.then_some(&large);
        assert!(read(&namespace, 3).as_ref() == third, "seed {seed}");
    }
}

/// A sync beside the appending of a group calls nothing of it durable, or all of it.
#[test]
fn a_sync_beside_a_group_larger_than_a_block_does_not_tear_it() {
    let _turn = alone();
    for change in 1..=24 {
        let disk = Arc::new(SimulatedDevice::new(&small_header(0, 1, 16)).unwrap());
        let open = |disk: &Arc<SimulatedDevice>| {
            let wanted = Options {
                max_record_bytes: 1 << 20,
                ..options(devices(std::slice::from_ref(disk)), 16)
            };
            Namespace::open(wanted).unwrap().0
        };
        let namespace = open(&disk);
        let payload = vec![change as u8; 700 << 10];
        let begins = Arc::new(Barrier::new(2));
        std::thread::scope(|scope| {
            let of_hook = Arc::clone(&begins);
            disk.before_change(change, move || {
                of_hook.wait();
            });
            scope.spawn(|| {
                begins.wait();
                namespace.sync().unwrap();
            });
            let members = [1, 2, 3].map(|record| (record, Some(payload.as_slice())));
            commit(&namespace, &members).unwrap();
            // The hook of a change that has not come.
            (0..change).for_each(|_| disk.sync().unwrap());
        });
        let namespace = open(&Arc::new(disk.kill().unwrap()));
        for record in 1..=3 {
            let found = read(&namespace, record);
            assert!(found.as_ref() == Some(&payload), "{change}: {record}");
        }
    }
}

/// On a full disk an opening appends a part of the entries that were not durable, makes that part
/// durable, and gives blocks back, before it appends the rest.
#[test]
fn an_opening_that_has_to_make_room_tears_no_group() {
    let _turn = beside_others();
    const GROUPS: u64 = 14;
    let open = |disk: &Arc<SimulatedDevice>| {
        let wanted = Options {
            max_record_bytes: 1 << 20,
            ..options(devices(std::slice::from_ref(disk)), 24)
        };
        Namespace::open(wanted).map(|(namespace, _)| namespace)
    };
    let disk = Arc::new(SimulatedDevice::new(&small_header(0, 1, 24)).unwrap());
    let namespace = open(&disk).unwrap();
    let payload = vec![7; 200 << 10];
    for first in (0..2 * GROUPS).step_by(2) {
        let members = [first, first + 1].map(|record| (record, Some(payload.as_slice())));
        commit(&namespace, &members).unwrap();
    }
    for room in [1_u64 << 19, 1 << 20] {
        for change in (1..160).step_by(4) {
            let killed = Arc::new(disk.kill().unwrap());
            killed.set_space_bytes(killed.allocated_bytes() + room);
            let left = Arc::new(Mutex::new(None));
            let (of_hook, again) = (Arc::clone(&left), Arc::clone(&killed));
            killed.before_change(change, move || {
                *of_hook.lock().unwrap() = Some(again.kill().unwrap());
            });
            let _ = open(&killed);
            killed.before_change(u64::MAX, || {});
            let Some(left) = left.lock().unwrap().take() else {
                break;
            };
            left.set_space_bytes(u64::MAX);
            let namespace = open(&Arc::new(left)).unwrap();
            for record in 0..2 * GROUPS {
                let is_there = read(&namespace, record).is_some();
                assert!(is_there, "room {room}, change {change}: record {record}");
            }
        }
    }
}
