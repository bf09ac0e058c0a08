//! Truncations: older records go at once and for ever, younger ones stay.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::turns::{alone, beside_others};
use common::{NOW_MS, devices, digest, files, get, options, put, simulated};
use spikelet_storage::{
    ChangeKind, Delivery, Error, Namespace, NewVersion, Options, Storage, Truncate,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const BLOCKS: u64 = 8;

fn open(dir: &Path) -> Namespace {
    Namespace::open(options(files(dir, 1), BLOCKS)).unwrap().0
}

fn put_at(namespace: &Namespace, record: u64, set_id: u16, last_update_ms: u64, payload: &[u8]) {
    let version = NewVersion {
        set_id,
        last_update_ms,
        ..common::version(payload)
    };
    namespace
        .lock(&digest(record), None)
        .unwrap()
        .put(&version)
        .unwrap();
}

fn there(namespace: &Namespace, records: impl Iterator<Item = u64>) -> Vec<u64> {
    records
        .filter(|record| get(namespace, &digest(*record)).unwrap().is_some())
        .collect()
}

#[test]
fn what_is_older_goes_at_once_and_does_not_come_back() {
    let _turn = beside_others();
    let dir = tempfile::tempdir().unwrap();
    let namespace = open(dir.path());
    let users = namespace.create_set("users").unwrap();
    let posts = namespace.create_set("posts").unwrap();
    for record in 0..30 {
        // Sets by thirds; the n-th record of each is of n ms after the beginning.
        put_at(
            &namespace,
            record,
            [0, users, posts][record as usize % 3],
            NOW_MS + record / 3,
            b"bytes",
        );
    }
    namespace.sync().unwrap();
    assert_eq!(
        namespace
            .truncate(Truncate::Set(users), Some(NOW_MS + 4))
            .unwrap(),
        4
    );
    assert_eq!(
        namespace
            .truncate(Truncate::Set(users), Some(NOW_MS + 2))
            .unwrap(),
        0,
        "earlier than before"
    );
    assert_eq!(
        namespace
            .truncate(Truncate::Set(0), Some(NOW_MS + 3))
            .unwrap(),
        3
    );
    assert_eq!(
        namespace
            .truncate(Truncate::Namespace, Some(NOW_MS + 1))
            .unwrap(),
        1
    );
    assert_eq!(
        namespace
            .truncate(Truncate::Set(17), Some(NOW_MS + 100))
            .unwrap(),
        0,
        "there is no such set"
    );
    let expected: Vec<u64> = (0..30)
        .filter(|record| record / 3 >= [3, 4, 1][*record as usize % 3])
        .collect();
    let check = |namespace: &Namespace| {
        assert_eq!(there(namespace, 0..30), expected);
        assert_eq!(namespace.stats().records, expected.len() as u64);
        let counts: Vec<u64> = namespace.sets().iter().map(|set| set.records).collect();
        assert_eq!(counts, [7, 6, 9]);
    };
    check(&namespace);
    // A restart that reads the log, one that reads the snapshot, and the log again.
    drop(namespace);
    let namespace = open(dir.path());
    check(&namespace);
    namespace.close().unwrap();
    drop(namespace);
    let namespace = open(dir.path());
    check(&namespace);
    // From the snapshot on, nothing has been read yet.
    assert_eq!(
        namespace
            .truncate(Truncate::Set(posts), Some(NOW_MS + 9))
            .unwrap(),
        8
    );
    drop(namespace);
    let namespace = open(dir.path());
    assert_eq!(
        there(&namespace, (0..30).filter(|record| record % 3 == 2)),
        [29]
    );
}

#[test]
fn a_truncated_record_can_be_written_again() {
    let _turn = beside_others();
    let dir = tempfile::tempdir().unwrap();
    let namespace = open(dir.path());
    put_at(&namespace, 1, 0, NOW_MS, b"old");
    namespace
        .truncate(Truncate::Namespace, Some(NOW_MS + 10))
        .unwrap();
    assert_eq!(get(&namespace, &digest(1)).unwrap(), None);
    assert_eq!(
        (namespace.stats().records, namespace.stats().index_entries),
        (0, 0)
    );
    // The order of the writes counts, not the time that they bear.
    put_at(&namespace, 1, 0, NOW_MS, b"new");
    let check = |namespace: &Namespace| {
        assert_eq!(get(namespace, &digest(1)).unwrap(), Some(b"new".to_vec()));
        assert_eq!(namespace.stats().records, 1);
    };
    check(&namespace);
    drop(namespace);
    check(&open(dir.path()));
}

#[test]
fn what_a_truncation_removes_makes_room() {
    let _turn = alone();
    let (namespace, _) = Namespace::open(options(Storage::Memory, BLOCKS)).unwrap();
    let payload = vec![1; 100 << 10];
    for round in 0..5_u64 {
        let mut count = 0;
        loop {
            let version = NewVersion {
                last_update_ms: NOW_MS + round,
                ..common::version(&payload)
            };
            match namespace.lock(&digest(count), None).unwrap().put(&version) {
                Ok(_) => count += 1,
                Err(Error::StopWrites { .. }) => break,
                Err(other) => panic!("{other}"),
            }
        }
        assert!(count > 100, "round {round}: {count}");
        // Truncation goes on when writes are stopped.
        assert_eq!(
            namespace
                .truncate(Truncate::Namespace, Some(NOW_MS + round + 1))
                .unwrap(),
            count
        );
        assert!(namespace.maintain().unwrap().freed_blocks > 0);
    }
}

/// Writers and a truncation side by side: after each truncation, the truncated records are gone
/// from the counts, too.
#[test]
fn no_write_slips_past_a_truncation() {
    let _turn = beside_others();
    let wanted = Options {
        write_lanes: 2,
        ..options(Storage::Memory, 16)
    };
    let (namespace, _) = Namespace::open(wanted).unwrap();
    let (now_ms, over) = (AtomicU64::new(NOW_MS), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (namespace, now_ms, over) = (&namespace, &now_ms, &over);
            scope.spawn(move || {
                // Fewer than fill the device, however long the truncations take.
                for number in 0..300_000 {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    let time = now_ms.load(Ordering::SeqCst);
                    put_at(namespace, writer * 10 + number % 10, 0, time, b"bytes");
                }
            });
        }
        for _ in 0..300 {
            let before = now_ms.fetch_add(1, Ordering::SeqCst) + 1;
            namespace
                .truncate(Truncate::Namespace, Some(before))
                .unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    let last = now_ms.fetch_add(1, Ordering::SeqCst) + 1;
    namespace.truncate(Truncate::Namespace, Some(last)).unwrap();
    let stats = namespace.stats();
    assert_eq!((stats.records, stats.index_entries), (0, 0));
    assert_eq!(there(&namespace, 0..30), []);
    put(&namespace, &digest(1), b"with an older time").unwrap();
    assert_eq!(namespace.stats().records, 1);
}

#[test]
fn a_truncation_before_the_first_time_removes_nothing_and_is_no_change() {
    let _turn = beside_others();
    let disk = simulated(1, BLOCKS);
    let (namespace, _) = Namespace::open(options(devices(&disk), BLOCKS)).unwrap();
    let set = common::changes::fed(&namespace);
    let start = namespace.last_lsn().get();
    common::changes::put(&namespace, set, 1, 1, b"stays");
    assert_eq!(namespace.truncate(Truncate::Set(set), Some(0)).unwrap(), 0);
    let killed = [Arc::new(disk[0].kill().unwrap())];
    let (reopened, _) = Namespace::open(options(devices(&killed), BLOCKS)).unwrap();
    for namespace in [namespace, reopened] {
        let changes = common::changes::read_from(&namespace, Delivery::Published, start);
        let kinds: Vec<_> = changes.iter().map(|change| change.kind).collect();
        assert_eq!(kinds, [ChangeKind::Put]);
        assert!(get(&namespace, &digest(1)).unwrap().is_some());
    }
}
