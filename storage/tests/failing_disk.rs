//! Disks that fail at syncs or are full: the namespace says so and costs nothing that was promised.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{
    delete, devices, digest, get, get_or_damaged, options, payload, payload_of, put, simulated,
    version,
};
use spikelet_storage::{Change, Durability, Error, Namespace, Options};
use std::sync::Arc;

const BLOCKS: u64 = 9;

#[test]
fn a_failed_sync_makes_the_namespace_read_only_and_says_why() {
    let origin = simulated(1, BLOCKS);
    let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
    put(&namespace, &digest(1), b"synced").unwrap();
    namespace.sync().unwrap();
    put(&namespace, &digest(1), b"unsynced").unwrap();
    origin[0].fail_sync(1, 0);
    // The disk is well again after the first failure, and that makes no difference.
    for _ in 0..2 {
        let lock = |number| namespace.lock(&digest(number), None).unwrap();
        let attempts = [
            namespace.sync(),
            put(&namespace, &digest(1), b"refused"),
            put(&namespace, &digest(2), b"refused"),
            delete(&namespace, &digest(1)).map(|_| ()),
            namespace
                .commit_group(vec![(lock(1), Change::Put(version(b"refused")))])
                .map(drop),
            namespace.create_set("refused").map(|_| ()),
        ];
        for (number, attempt) in attempts.into_iter().enumerate() {
            match attempt {
                Err(Error::ReadOnly { namespace, reason }) => {
                    assert_eq!(namespace, common::NAME);
                    assert!(reason.contains("simulated I/O error"), "{reason}");
                }
                other => panic!("attempt {number}: {other:?}"),
            }
        }
        assert_eq!(
            get(&namespace, &digest(1)).unwrap().unwrap(),
            b"unsynced",
            "reads go on"
        );
        assert!(
            namespace
                .stats()
                .read_only
                .unwrap()
                .contains("simulated I/O error")
        );
    }
    for seed in 0..8 {
        let crashed = [Arc::new(origin[0].crash(seed).unwrap())];
        let (namespace, _) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
        let found = get(&namespace, &digest(1)).unwrap().unwrap();
        assert!(found == b"synced" || found == b"unsynced", "{found:?}");
        assert_eq!(get(&namespace, &digest(2)).unwrap(), None);
        put(&namespace, &digest(1), b"goes on").unwrap();
        namespace.sync().unwrap();
    }
}

#[test]
fn a_write_whose_sync_fails_is_in_doubt() {
    let origin = simulated(1, BLOCKS);
    let commit = Options {
        durability: Durability::Commit,
        ..options(devices(&origin), BLOCKS)
    };
    let (namespace, _) = Namespace::open(commit).unwrap();
    put(&namespace, &digest(1), b"acknowledged").unwrap();
    origin[0].fail_sync(1, 0);
    match put(&namespace, &digest(1), b"in doubt") {
        Err(Error::InDoubt { reason }) => {
            assert!(reason.contains("simulated I/O error"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        get(&namespace, &digest(1)).unwrap().unwrap(),
        b"in doubt",
        "it was applied"
    );
    let refused = put(&namespace, &digest(1), b"refused").unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
}

/// Puts records of 4 KB, after others that a sync has made durable, on a disk that strands pages of the next sync. Opens
/// the store again, makes it durable, and then takes the system down.
fn what_is_durable_after_a_reopening_survives_a_remount(records: u64) {
    let record = |number| payload_of(number, 0, 4000);
    for seed in 0..8 {
        let origin = simulated(1, BLOCKS);
        let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
        for number in 0..10 {
            put(&namespace, &digest(number), &record(number)).unwrap();
            namespace.sync().unwrap();
        }
        for number in 10..records {
            put(&namespace, &digest(number), &record(number)).unwrap();
        }
        origin[0].fail_sync_for_good(1, seed);
        namespace.sync().unwrap_err();

        let reopened = [Arc::new(origin[0].kill().unwrap())];
        let commit = Options {
            durability: Durability::Commit,
            ..options(devices(&reopened), BLOCKS)
        };
        let (namespace, _) = Namespace::open(commit).unwrap();
        for number in 0..records {
            let found = get(&namespace, &digest(number)).unwrap();
            assert!(
                found == Some(record(number)),
                "seed {seed}, record {number}"
            );
        }
        namespace.sync().unwrap();
        put(&namespace, &digest(records), &record(records)).unwrap();

        let remounted = [Arc::new(reopened[0].crash(seed).unwrap())];
        let (namespace, opening) = Namespace::open(options(devices(&remounted), BLOCKS)).unwrap();
        let lost = (0..=records)
            .filter(|number| {
                get_or_damaged(&namespace, &digest(*number)) != Some(Some(record(*number)))
            })
            .count();
        assert_eq!(lost, 0, "seed {seed}: {opening:?}");
        assert_eq!(
            (opening.damaged_entries, opening.damaged_blocks),
            (0, 0),
            "seed {seed}"
        );
    }
}

#[test]
fn what_is_durable_after_a_reopening_survives_a_remount_that_zeroes_pages_of_an_open_block() {
    what_is_durable_after_a_reopening_survives_a_remount(400);
}

#[test]
fn what_is_durable_after_a_reopening_survives_a_remount_that_zeroes_pages_of_new_blocks() {
    what_is_durable_after_a_reopening_survives_a_remount(5_000);
}

#[test]
fn a_full_disk_refuses_writes_and_costs_nothing() {
    let origin = simulated(1, 20);
    let (namespace, _) = Namespace::open(options(devices(&origin), 20)).unwrap();
    origin[0].set_space_bytes(common::device_bytes(9));
    let mut stored = 0;
    let refused = loop {
        match put(&namespace, &digest(stored), &payload(stored, true)) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::StopWrites { .. }), "{refused}");
    namespace.sync().unwrap();
    let crashed = [Arc::new(origin[0].crash(1).unwrap())];
    let (namespace, _) = Namespace::open(options(devices(&crashed), 20)).unwrap();
    for number in 0..stored {
        assert!(get(&namespace, &digest(number)).unwrap().unwrap() == payload(number, true));
    }
    assert!(delete(&namespace, &digest(0)).unwrap(), "deleting goes on");
}
