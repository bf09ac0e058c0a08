//! Space: dead bytes come back, a full namespace reports it and recovers, and deleted records stay
//! deleted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::turns::{alone, beside_others};
use common::{Chance, NOW_MS, delete, digest, files, fill, get, options, payload_of, put, version};
use spikelet_storage::{
    BLOCK_BYTES, Change, Durability, Error, ManualClock, Namespace, NewVersion, Options, Storage,
};
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

const BLOCKS: u64 = 10;
/// So large that a small device is full after few writes.
const LARGE: usize = 100 << 10;

fn memory(blocks: u64) -> Namespace {
    Namespace::open(options(Storage::Memory, blocks)).unwrap().0
}

#[test]
fn overwriting_many_times_the_size_of_the_device_never_fills_it() {
    let _turn = alone();
    let namespace = memory(BLOCKS);
    let records = 40;
    let mut chance = Chance(1);
    let mut newest = BTreeMap::new();
    let written = 10 * BLOCKS * BLOCK_BYTES;
    for version in 0..written / LARGE as u64 {
        let record = chance.below(records);
        put(
            &namespace,
            &digest(record),
            &payload_of(record, version, LARGE),
        )
        .unwrap();
        newest.insert(record, version);
        if version % 200 == 0 {
            namespace.maintain().unwrap();
        }
    }
    let traffic = namespace.stats().traffic;
    assert!(
        traffic.appended_bytes > 8 * BLOCKS * BLOCK_BYTES,
        "{traffic:?}"
    );
    for (record, version) in newest {
        assert_eq!(
            get(&namespace, &digest(record)).unwrap(),
            Some(payload_of(record, version, LARGE))
        );
    }
}

#[test]
fn background_threads_bring_space_back_by_themselves() {
    let _turn = beside_others();
    let (namespace, _) = Namespace::open(Options {
        background: true,
        durability: Durability::Interval(Duration::from_millis(1)),
        ..options(Storage::Memory, 24)
    })
    .unwrap();
    let records = 100;
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let namespace = &namespace;
            scope.spawn(move || {
                for version in 0..4_000 {
                    let record = version * 7 % records * 2 + writer;
                    let payload = payload_of(record, version, LARGE);
                    // A writer that is faster than defragmentation is refused for a moment, never
                    // for ever.
                    while let Err(error) = put(namespace, &digest(record), &payload) {
                        assert!(matches!(error, Error::StopWrites { .. }), "{error}");
                        std::thread::yield_now();
                    }
                    let read = get(namespace, &digest(record)).unwrap().unwrap();
                    assert!(read == payload, "record {record}, version {version}");
                }
            });
        }
    });
    assert!(
        namespace.stats().defragmented_blocks > 50,
        "{:?}",
        namespace.stats()
    );
}

#[test]
fn a_writer_that_waited_for_space_waits_on_when_another_one_takes_it() {
    let _turn = beside_others();
    const WRITERS: u64 = 4;
    const EACH: u64 = 250;
    let (namespace, _) = Namespace::open(Options {
        background: true,
        write_lanes: WRITERS as usize,
        max_space_wait: Duration::from_secs(60),
        ..options(Storage::Memory, 32)
    })
    .unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let namespace = &namespace;
            scope.spawn(move || {
                let mut chance = Chance(writer);
                for version in 0..4_000 {
                    let record = writer * EACH + chance.below(EACH);
                    put(
                        namespace,
                        &digest(record),
                        &payload_of(record, version, LARGE),
                    )
                    .unwrap();
                }
            });
        }
    });
    assert!(namespace.stats().space_waits > 0, "{:?}", namespace.stats());
}

#[test]
fn a_reader_keeps_what_it_sees_from_being_overwritten() {
    let _turn = beside_others();
    let namespace = memory(BLOCKS);
    put(&namespace, &digest(1), &payload_of(1, 0, 900)).unwrap();
    let seen = namespace.get(&digest(1), |entry| {
        for version in 1..2_000 {
            put(&namespace, &digest(1), &payload_of(1, version, 900)).unwrap();
        }
        namespace.maintain().unwrap();
        entry.payload().to_vec()
    });
    assert_eq!(seen.unwrap(), Some(payload_of(1, 0, 900)));
    assert_eq!(
        get(&namespace, &digest(1)).unwrap(),
        Some(payload_of(1, 1_999, 900))
    );
}

#[test]
fn a_tombstone_stays_while_an_older_version_may_be_found() {
    let _turn = alone();
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        Namespace::open(options(files(dir.path(), 1), BLOCKS))
            .unwrap()
            .0
    };
    let mut namespace = open();
    put(&namespace, &digest(0), b"to be deleted").unwrap();
    // Its block stays mostly live, so that nothing moves it.
    for record in 1..100 {
        put(&namespace, &digest(record), &payload_of(record, 0, LARGE)).unwrap();
    }
    namespace.sync().unwrap();
    assert!(delete(&namespace, &digest(0)).unwrap());
    for _ in 0..3 {
        assert_eq!(namespace.maintain().unwrap().dropped_tombstones, 0);
        assert_eq!(get(&namespace, &digest(0)).unwrap(), None);
        assert_eq!(namespace.stats().index_entries, 100);
        drop(namespace);
        namespace = open();
        assert_eq!(get(&namespace, &digest(0)).unwrap(), None);
    }
    // Now the block goes, and its tombstones can be dropped.
    for record in 1..80 {
        assert!(delete(&namespace, &digest(record)).unwrap());
    }
    assert_eq!(namespace.maintain().unwrap().dropped_tombstones, 80);
    assert_eq!(namespace.stats().index_entries, 20);
    drop(namespace);
    let namespace = open();
    for record in 0..80 {
        assert_eq!(get(&namespace, &digest(record)).unwrap(), None);
    }
    assert_eq!(namespace.stats().records, 20);
}

#[test]
fn deleted_records_never_return_whatever_is_moved_forgotten_and_restarted() {
    let _turn = alone();
    let dir = tempfile::tempdir().unwrap();
    let open = || Namespace::open(options(files(dir.path(), 2), 5)).unwrap().0;
    let mut namespace = open();
    let mut model = BTreeMap::new();
    let mut chance = Chance(7);
    let mut dropped = 0;
    for step in 0..6_000_u64 {
        let record = chance.below(300);
        if chance.one_in(3) {
            let was = model.remove(&record).is_some();
            assert_eq!(delete(&namespace, &digest(record)).unwrap(), was);
        } else {
            let bytes = chance.below(20_000) as usize;
            match put(
                &namespace,
                &digest(record),
                &payload_of(record, step, bytes),
            ) {
                Ok(()) => {
                    model.insert(record, (step, bytes));
                }
                Err(Error::StopWrites { .. }) => {
                    dropped += namespace.maintain().unwrap().dropped_tombstones;
                }
                Err(other) => panic!("{other}"),
            }
        }
        if chance.one_in(100) {
            namespace.sync().unwrap();
        }
        if chance.one_in(300) {
            dropped += namespace.maintain().unwrap().dropped_tombstones;
        }
        if chance.one_in(600) {
            if chance.one_in(2) {
                namespace.close().unwrap();
            }
            drop(namespace);
            namespace = open();
        }
        if chance.one_in(300) {
            for record in 0..300 {
                let expected = model
                    .get(&record)
                    .map(|(step, bytes)| payload_of(record, *step, *bytes));
                assert!(
                    get(&namespace, &digest(record)).unwrap() == expected,
                    "{record} at {step}"
                );
            }
            assert_eq!(namespace.stats().records, model.len() as u64);
        }
    }
    assert!(dropped > 100, "{dropped}");
}

#[test]
fn maintenance_ends_although_large_records_leave_much_of_each_block_unused() {
    let _turn = alone();
    for bytes in [5 << 20, 3 << 20, 1 << 20] {
        let namespace = memory(BLOCKS);
        let count = fill(&namespace, bytes);
        let before = namespace.stats().traffic.moved_bytes;
        namespace.maintain().unwrap();
        assert_eq!(
            namespace.stats().traffic.moved_bytes,
            before,
            "nothing is to be won"
        );
        for record in 0..count {
            assert!(
                get(&namespace, &digest(record)).unwrap().unwrap() == payload_of(record, 0, bytes)
            );
        }
    }
}

#[test]
fn expired_records_make_room() {
    let _turn = alone();
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let (namespace, _) = Namespace::open(Options {
        clock: clock.clone(),
        ..options(Storage::Memory, BLOCKS)
    })
    .unwrap();
    let now_s = (NOW_MS / 1000) as u32;
    let payload = vec![1; LARGE];
    let mut count = 0;
    loop {
        let void_time = if count % 2 == 0 { now_s + 10 } else { 0 };
        let version = NewVersion {
            void_time,
            ..version(&payload)
        };
        match namespace.lock(&digest(count), None).unwrap().put(&version) {
            Ok(_) => count += 1,
            Err(Error::StopWrites { .. }) => break,
            Err(other) => panic!("{other}"),
        }
    }
    clock.advance_ms(10_000);
    assert_eq!(
        namespace.maintain().unwrap().expired,
        0,
        "the last second counts"
    );
    clock.advance_ms(1_000);
    let done = namespace.maintain().unwrap();
    assert_eq!(done.expired, count.div_ceil(2));
    assert!(done.freed_blocks >= 2);
    assert_eq!(namespace.stats().records, count / 2);
    put(&namespace, &digest(0), b"again").unwrap();
    for record in 1..count {
        assert_eq!(
            get(&namespace, &digest(record)).unwrap().is_some(),
            record % 2 == 1
        );
    }
}

#[test]
fn a_damaged_record_is_left_where_it_is_and_the_rest_is_defragmented() {
    let _turn = alone();
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        Namespace::open(options(files(dir.path(), 1), BLOCKS))
            .unwrap()
            .0
    };
    let namespace = open();
    let count = 300;
    for record in 0..count {
        put(&namespace, &digest(record), &payload_of(record, 0, LARGE)).unwrap();
    }
    namespace.sync().unwrap();
    drop(namespace);
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(dir.path().join("device-0"))
        .unwrap();
    let device = std::fs::read(dir.path().join("device-0")).unwrap();
    let victim = 10;
    let needle = &payload_of(victim, 0, 32);
    let at = device
        .windows(32)
        .position(|window| window == needle)
        .unwrap() as u64;
    file.write_at(&[device[at as usize] ^ 1], at).unwrap();

    let namespace = open();
    for record in (0..count).filter(|record| record % 10 > 0) {
        assert!(delete(&namespace, &digest(record)).unwrap());
    }
    let done = namespace.maintain().unwrap();
    assert!(done.freed_blocks >= 2, "{done:?}");
    for record in (0..count).step_by(10) {
        match get(&namespace, &digest(record)) {
            Err(Error::Damaged { offset, .. }) => assert!(record == victim && offset < at),
            found => {
                assert!(record != victim && found.unwrap() == Some(payload_of(record, 0, LARGE)))
            }
        }
    }
    // Written anew it holds nothing back any more.
    let before = namespace.stats();
    put(&namespace, &digest(victim), b"mended").unwrap();
    assert!(namespace.maintain().unwrap().freed_blocks >= 1);
    assert_eq!(
        get(&namespace, &digest(victim)).unwrap(),
        Some(b"mended".to_vec())
    );
    assert!(namespace.stats().live_bytes < before.live_bytes);
}

#[test]
fn a_closed_namespace_is_not_maintained() {
    let _turn = beside_others();
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        Namespace::open(options(files(dir.path(), 1), BLOCKS))
            .unwrap()
            .0
    };
    let namespace = open();
    for version in 0..200 {
        put(
            &namespace,
            &digest(version % 10),
            &payload_of(1, version, LARGE),
        )
        .unwrap();
        namespace.sync().unwrap();
    }
    namespace.close().unwrap();
    assert!(matches!(namespace.maintain(), Err(Error::Closed { .. })));
    drop(namespace);
    let (read_only, _) = Namespace::open_read_only(options(files(dir.path(), 1), BLOCKS)).unwrap();
    assert!(matches!(
        read_only.maintain(),
        Err(Error::OpenedForReading { .. })
    ));
    drop(read_only);
    let (namespace, opening) = Namespace::open(options(files(dir.path(), 1), BLOCKS)).unwrap();
    assert!(opening.from_snapshot);
    assert_eq!(
        get(&namespace, &digest(9)).unwrap(),
        Some(payload_of(1, 199, LARGE))
    );
}

#[test]
fn a_reader_that_stays_holds_back_its_own_block_and_no_writer() {
    let _turn = beside_others();
    let wanted = Options {
        background: true,
        ..options(Storage::Memory, 12)
    };
    let (namespace, _) = Namespace::open(wanted).unwrap();
    put(&namespace, &digest(1_000_000), &payload_of(7, 0, LARGE)).unwrap();
    let read = namespace.get(&digest(1_000_000), |entry| {
        let before = entry.payload().to_vec();
        let writer = namespace.clone();
        // Five times the device's capacity, written while this reader stays.
        std::thread::spawn(move || {
            for write in 0..5 * 12 * (BLOCK_BYTES as usize / LARGE) as u64 {
                put(&writer, &digest(write % 200), &payload_of(write, 1, LARGE)).unwrap();
            }
        })
        .join()
        .unwrap();
        assert!(entry.payload() == before, "what it reads stays as it is");
    });
    assert_eq!(read.unwrap(), Some(()));
    assert!(namespace.stats().defragmented_blocks > 12);
}

#[test]
fn a_group_waits_for_space_as_a_single_write_does() {
    let _turn = beside_others();
    let wanted = Options {
        background: true,
        max_space_wait: Duration::from_secs(60),
        ..options(Storage::Memory, 12)
    };
    let (namespace, _) = Namespace::open(wanted).unwrap();
    // Five times the device's capacity, in groups; the live records fit.
    let groups = 5 * 12 * (BLOCK_BYTES as usize / LARGE) as u64 / 4;
    for group in 0..groups {
        let payload = payload_of(group, 1, LARGE);
        let members = (0..4).map(|member| {
            let record = (group * 4 + member) % 200;
            let lock = namespace.lock(&digest(record), None).unwrap();
            (lock, Change::Put(version(&payload)))
        });
        let members = members.collect();
        let done = namespace.commit_group(members);
        done.unwrap_or_else(|error| panic!("group {group} of {groups}: {error}"));
    }
    let stats = namespace.stats();
    assert!(stats.defragmented_blocks > 12, "{stats:?}");
    for record in 0..200 {
        let newest = (0..groups).rev();
        let mut newest =
            newest.filter(|group| (group * 4..group * 4 + 4).any(|n| n % 200 == record));
        let expected = payload_of(newest.next().unwrap(), 1, LARGE);
        assert!(get(&namespace, &digest(record)).unwrap().unwrap() == expected);
    }
}
