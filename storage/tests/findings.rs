//! Promises that the first log did not keep, each as the smallest program that showed it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{NOW_MS, delete, devices, digest, get, options, put, simulated, version};
use spikelet_storage::{
    Change, Device, Error, HEADER_BYTES, ManualClock, Namespace, NewVersion, Options,
    SimulatedDevice, Truncate,
};
use std::sync::Arc;

const BLOCKS: u64 = 9;

fn new_device() -> Arc<SimulatedDevice> {
    simulated(1, BLOCKS).remove(0)
}

fn on(device: &Arc<SimulatedDevice>) -> Options {
    options(devices(&[Arc::clone(device)]), BLOCKS)
}

fn open(device: &Arc<SimulatedDevice>) -> Namespace {
    Namespace::open(on(device)).unwrap().0
}

fn killed(device: &SimulatedDevice) -> Arc<SimulatedDevice> {
    Arc::new(device.kill().unwrap())
}

/// The offset of the last occurrence of these bytes on a device.
fn find_last(device: &SimulatedDevice, needle: &[u8]) -> u64 {
    let all = device.snapshot_range(HEADER_BYTES..device.len_bytes());
    let at = all
        .windows(needle.len())
        .rposition(|window| window == needle);
    HEADER_BYTES + at.unwrap() as u64
}

/// Finding 1.
#[test]
fn a_sync_after_a_failed_sync_and_a_reopening_writes_what_the_failed_one_did_not() {
    for seed in 0..if common::long() { 200 } else { 10 } {
        let device = new_device();
        let namespace = open(&device);
        for number in 0..2_000 {
            put(&namespace, &digest(number), &number.to_le_bytes()).unwrap();
        }
        device.fail_sync(1, seed);
        namespace.sync().unwrap_err();
        drop(namespace);
        let device = killed(&device);
        let namespace = open(&device);
        namespace.sync().unwrap();
        let left = Arc::new(device.crash(seed).unwrap());
        let namespace = open(&left);
        for number in 0..2_000u64 {
            let found = get(&namespace, &digest(number)).unwrap();
            assert_eq!(
                found,
                Some(number.to_le_bytes().to_vec()),
                "seed {seed}, record {number}"
            );
        }
    }
}

/// Findings 2 and 7.
#[test]
fn a_plain_power_failure_is_no_damage() {
    for seed in 0..if common::long() { 2_000 } else { 60 } {
        let device = new_device();
        let namespace = open(&device);
        for number in 0..40 {
            put(
                &namespace,
                &digest(number),
                &vec![1; 40 + number as usize % 7 * 90],
            )
            .unwrap();
        }
        namespace.sync().unwrap();
        for number in 0..20 {
            assert!(delete(&namespace, &digest(number)).unwrap());
            put(&namespace, &digest(number + 20), &[2; 300]).unwrap();
        }
        device.writeback(seed);
        let left = Arc::new(device.crash(seed).unwrap());
        let verified = Namespace::verify(&on(&left)).unwrap();
        assert!(!verified.is_damaged(), "seed {seed}: {verified:?}");
        let (namespace, opening) = Namespace::open(on(&left)).unwrap();
        let counted = opening.damaged_entries + opening.damaged_bytes + opening.damaged_blocks;
        assert_eq!(counted, 0, "seed {seed}: {opening:?}");
        for number in 0..40 {
            get(&namespace, &digest(number)).unwrap();
        }
    }
}

/// Finding 7: a killed store, too.
#[test]
fn a_kill_is_no_damage() {
    let device = new_device();
    let namespace = open(&device);
    for number in 0..5_000 {
        put(
            &namespace,
            &digest(number % 700),
            &vec![3; number as usize % 900],
        )
        .unwrap();
    }
    let verified = Namespace::verify(&on(&killed(&device))).unwrap();
    assert!(!verified.is_damaged(), "{verified:?}");
    assert_eq!(verified.records, 700);
}

/// Finding 3.
#[test]
fn a_deleted_version_does_not_come_back_by_a_clock_that_goes_back_and_a_truncation() {
    let device = new_device();
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let clocked = Options {
        clock: clock.clone(),
        ..on(&device)
    };
    let (namespace, _) = Namespace::open(clocked).unwrap();
    put(&namespace, &digest(1), b"the first version").unwrap();
    // A truncation by time must not hide the second one alone.
    let earlier = |payload| NewVersion {
        last_update_ms: NOW_MS - 60_000,
        ..version(payload)
    };
    clock.set_ms(NOW_MS - 60_000);
    let lock = |number| namespace.lock(&digest(number), None).unwrap();
    assert!(lock(1).delete(NOW_MS - 60_000).unwrap().is_some());
    namespace.maintain().unwrap();
    lock(1).put(&earlier(b"the second version")).unwrap();
    namespace
        .truncate(Truncate::Namespace, Some(NOW_MS - 30_000))
        .unwrap();
    let before = get(&namespace, &digest(1)).unwrap();
    assert_ne!(before, Some(b"the first version".to_vec()));
    namespace.maintain().unwrap();
    namespace.sync().unwrap();
    let namespace = open(&killed(&device));
    assert_eq!(get(&namespace, &digest(1)).unwrap(), before);
}

/// Finding 3, without a clock.
#[test]
fn a_deleted_version_does_not_come_back_by_another_set_that_is_truncated() {
    let device = new_device();
    let namespace = open(&device);
    let set_id = namespace.create_set("other").unwrap();
    put(&namespace, &digest(1), b"the first version").unwrap();
    assert!(delete(&namespace, &digest(1)).unwrap());
    let in_set = NewVersion {
        set_id,
        ..version(b"in the other set")
    };
    namespace
        .lock(&digest(1), None)
        .unwrap()
        .put(&in_set)
        .unwrap();
    namespace.truncate(Truncate::Set(set_id), None).unwrap();
    for _ in 0..2 {
        namespace.maintain().unwrap();
        assert_eq!(get(&namespace, &digest(1)).unwrap(), None);
    }
    namespace.sync().unwrap();
    let namespace = open(&killed(&device));
    assert_eq!(get(&namespace, &digest(1)).unwrap(), None);
}

/// Finding 4.
#[test]
fn damage_to_a_commit_entry_does_not_undo_its_group() {
    let device = new_device();
    let namespace = open(&device);
    for number in 0..3 {
        put(&namespace, &digest(number), b"before the group").unwrap();
    }
    namespace.sync().unwrap();
    let from = device.snapshot_range(HEADER_BYTES..HEADER_BYTES + 20_000);
    let lock = |number| namespace.lock(&digest(number), None).unwrap();
    let changes = vec![
        (lock(0), Change::Put(version(b"of the group"))),
        (lock(1), Change::Put(version(b"of the group"))),
        (lock(2), Change::Delete(NOW_MS)),
    ];
    namespace.commit_group(changes).unwrap();
    namespace.sync().unwrap();
    namespace.sync().unwrap();
    let to = device.snapshot_range(HEADER_BYTES..HEADER_BYTES + 20_000);
    let changed = |at: &usize| from[*at] != to[*at];
    let first = (1024..to.len()).find(changed).unwrap();
    let last = (1024..to.len()).rfind(changed).unwrap();
    // The commit entry is the last.
    for (one, other) in (last.saturating_sub(90).max(first)..last).map(|at| (at, at + 1)) {
        let left = killed(&device);
        left.flip_bit(HEADER_BYTES + one as u64, 3);
        left.flip_bit(HEADER_BYTES + other as u64, 5);
        let what = format!("bits of bytes {one} and {other} flipped");
        let namespace = open(&left);
        for number in 0..2 {
            match get(&namespace, &digest(number)) {
                Ok(found) => assert_eq!(found, Some(b"of the group".to_vec()), "{what}"),
                Err(Error::Damaged { .. }) => {}
                Err(other) => panic!("{what}: {other}"),
            }
        }
        assert!(
            !matches!(get(&namespace, &digest(2)), Ok(Some(_))),
            "{what}"
        );
    }
}

/// Finding 5.
#[test]
fn a_zeroed_sector_or_an_inverted_byte_never_shows_an_older_version() {
    let device = new_device();
    let namespace = open(&device);
    for round in ["the older version", "the newest version"] {
        put(&namespace, &digest(1), round.as_bytes()).unwrap();
        put(&namespace, &digest(2), b"another record").unwrap();
        namespace.sync().unwrap();
    }
    let body = find_last(&device, b"the newest version");
    let mut damaged: Vec<Arc<SimulatedDevice>> = (body - 56..body + 10)
        .map(|at| {
            let left = killed(&device);
            left.invert_byte(at);
            left
        })
        .collect();
    let zeroed = killed(&device);
    zeroed.zero(body / 512 * 512..body / 512 * 512 + 512);
    damaged.push(zeroed);
    for (number, left) in damaged.iter().enumerate() {
        assert!(
            Namespace::verify(&on(left)).unwrap().is_damaged(),
            "damage {number}"
        );
        let (namespace, opening) = Namespace::open(on(left)).unwrap();
        assert!(opening.damaged_entries > 0, "damage {number}: {opening:?}");
        let found = get(&namespace, &digest(1));
        assert!(
            matches!(found, Err(Error::Damaged { .. })),
            "damage {number}: {found:?}"
        );
    }
}

/// Finding 6.
#[test]
fn an_unreadable_sector_is_damage_and_the_store_opens() {
    let device = new_device();
    let namespace = open(&device);
    for number in 0..100 {
        put(&namespace, &digest(number), &[number as u8; 3000]).unwrap();
    }
    namespace.sync().unwrap();
    let left = killed(&device);
    let at = find_last(&left, &[50; 2000]) / 4096 * 4096;
    left.fail_read(at..at + 4096);
    assert!(Namespace::verify(&on(&left)).unwrap().is_damaged());
    let (namespace, opening) = Namespace::open(on(&left)).unwrap();
    assert!((1..=3).contains(&opening.damaged_entries), "{opening:?}");
    for number in 0..100 {
        // The memory of a simulated device keeps what a call could not read.
        match get(&namespace, &digest(number)) {
            Ok(found) => assert_eq!(found, Some(vec![number as u8; 3000])),
            Err(Error::Damaged { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    // A new version is whole.
    put(&namespace, &digest(50), b"written anew").unwrap();
    assert_eq!(
        get(&namespace, &digest(50)).unwrap(),
        Some(b"written anew".to_vec())
    );
}

/// Finding 9.
#[test]
fn a_scan_reports_damaged_records() {
    let device = new_device();
    let namespace = open(&device);
    for number in 0..30 {
        let payload = format!("the payload of record {number:2}");
        put(&namespace, &digest(number), payload.as_bytes()).unwrap();
    }
    namespace.sync().unwrap();
    let left = killed(&device);
    left.invert_byte(find_last(&left, b"the payload of record 17"));
    let namespace = open(&left);
    assert_eq!(common::scan(&namespace), (29, 1));
}
