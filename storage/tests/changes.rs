//! The changes of a namespace: each is read once, in the order of the writes of its record, through
//! moves, closings, kills and syncs. A reader that comes too late gets an error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::changes::{fed, put, read_from};
use common::{Chance, NOW_MS, devices, digest, files, options, simulated, version};
use spikelet_storage::{
    Atomicity, BLOCK_BYTES, Change, ChangeKind, Delivery, Digest, Durability, Error, HEADER_BYTES,
    LoggedChange, Lsn, ManualClock, Namespace, NewVersion, Options, ReadEnd, Storage, Truncate,
    read_state, write_state,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const BLOCKS: u64 = 16;

/// The change that a write must leave, by its writer's knowledge.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Written {
    lsn: u64,
    digest: Digest,
    kind: u8,
    generation: u16,
}

fn kind_number(kind: ChangeKind) -> u8 {
    match kind {
        ChangeKind::Put => 0,
        ChangeKind::Delete => 1,
        ChangeKind::Expire => 2,
        ChangeKind::Truncate { .. } => 3,
    }
}

fn written(change: &LoggedChange) -> Written {
    Written {
        lsn: change.position.lsn.get(),
        digest: change.digest,
        kind: kind_number(change.kind),
        generation: change.generation,
    }
}

#[test]
fn every_kind_of_change_is_read_with_its_key_in_order() {
    let clock = Arc::new(ManualClock::at(NOW_MS));
    let dir = tempfile::tempdir().unwrap();
    let with_clock = || Options {
        clock: clock.clone(),
        ..options(files(dir.path(), 1), BLOCKS)
    };
    let (namespace, _) = Namespace::open(with_clock()).unwrap();
    let set = namespace.create_set("users").unwrap();
    let other = namespace.create_set("others").unwrap();
    put(&namespace, set, 1, 1, b"before anybody listened");
    namespace.set_fed(set, true).unwrap();
    let start = namespace.changes_kept_after().get();
    put(&namespace, set, 1, 2, b"put");
    put(&namespace, other, 2, 1, b"of another set");
    let edited = |byte: u8| [vec![7; 4000], vec![byte; 8]].concat();
    put(&namespace, set, 3, 1, &edited(0));
    put(&namespace, set, 3, 2, &edited(1));
    let lock = namespace.lock(&digest(1), None).unwrap();
    lock.delete(NOW_MS + 1).unwrap();
    let expiring = NewVersion {
        set_id: set,
        void_time: (NOW_MS / 1000) as u32 + 5,
        key: Some(b"soon gone"),
        ..version(b"expires")
    };
    let lock = namespace.lock(&digest(4), None).unwrap();
    lock.put(&expiring).unwrap();
    clock.advance_ms(10_000);
    namespace.maintain().unwrap();
    let lock = |number| namespace.lock(&digest(number), None).unwrap();
    let member = NewVersion {
        set_id: set,
        key: Some(b"member"),
        ..version(b"of a group")
    };
    let unfed = NewVersion {
        set_id: other,
        ..version(b"of a group")
    };
    let changes = vec![
        (lock(5), Change::Put(member)),
        (lock(2), Change::Put(unfed)),
        (lock(3), Change::Delete(NOW_MS + 2)),
    ];
    namespace.commit_group(changes).unwrap();
    namespace.truncate(Truncate::Set(set), None).unwrap();
    namespace.truncate(Truncate::Set(other), None).unwrap();
    put(&namespace, set, 6, 1, b"after the truncation");
    assert!(
        read_from(&namespace, Delivery::Durable, start).len() < 10,
        "what is not durable is not shown"
    );
    namespace.sync().unwrap();
    let expected: Vec<(u8, u64, Option<Vec<u8>>)> = [
        (0, 1, &1u64.to_le_bytes()[..]),
        (0, 3, &3u64.to_le_bytes()),
        (0, 3, &3u64.to_le_bytes()),
        (1, 1, &1u64.to_le_bytes()),
        (0, 4, b"soon gone"),
        (2, 4, b"soon gone"),
        (0, 5, b"member"),
        (1, 3, &3u64.to_le_bytes()),
        (3, 0, b""),
        (0, 6, &6u64.to_le_bytes()),
    ]
    .into_iter()
    .map(|(kind, number, key)| (kind, number, (kind != 3).then(|| key.to_vec())))
    .collect();
    let check = |namespace: &Namespace, delivery| {
        let changes = read_from(namespace, delivery, start);
        assert_eq!(changes.len(), expected.len(), "{changes:#?}");
        for (change, (kind, number, key)) in changes.iter().zip(&expected) {
            assert_eq!(kind_number(change.kind), *kind, "{change:?}");
            if *kind != 3 {
                assert_eq!(change.digest, digest(*number), "{change:?}");
            }
            // The change of an edit has no key if the record is gone.
            if change.key.is_some() || *number != 3 || *kind != 0 {
                assert_eq!(&change.key, key, "{change:?}");
            }
        }
        let groups: Vec<_> = changes
            .iter()
            .map(|change| change.group.is_some())
            .collect();
        assert_eq!(groups.iter().filter(|grouped| **grouped).count(), 2);
        let members: Vec<_> = changes[6..8].iter().map(|change| change.position).collect();
        assert_eq!(members[0].lsn, members[1].lsn);
        assert_eq!((members[0].member, members[1].member), (0, 1));
        assert!(changes.is_sorted_by_key(|change| change.position));
    };
    check(&namespace, Delivery::Durable);
    check(&namespace, Delivery::Published);
    drop(namespace);
    let (namespace, opening) = Namespace::open(with_clock()).unwrap();
    assert!(!opening.from_snapshot);
    check(&namespace, Delivery::Durable);
    namespace.close().unwrap();
    drop(namespace);
    let (namespace, opening) = Namespace::open(with_clock()).unwrap();
    assert!(opening.from_snapshot);
    check(&namespace, Delivery::Durable);
    drop(namespace);
    let (namespace, _) = Namespace::open_read_only(with_clock()).unwrap();
    check(&namespace, Delivery::Published);
}

/// Writes at random and returns the committed changes.
fn write_at_random(namespace: &Namespace, set: u16, thread: u64, writes: u64) -> Vec<Written> {
    let mut chance = Chance(thread);
    let mut noted = Vec::new();
    let mut note = |lsn: u64, number, kind, generation| {
        noted.push(Written {
            lsn,
            digest: digest(number),
            kind,
            generation,
        });
    };
    for write in 0..writes {
        let generation = (write % 60_000) as u16 + 1;
        // All threads write the same few records.
        let number = chance.below(30);
        if chance.one_in(20) {
            let lock = |number| namespace.lock(&digest(number), None).unwrap();
            // In order, so that no two threads wait for one another.
            let first = chance.below(20);
            let mut new = version(b"of a group");
            (new.set_id, new.generation) = (set, generation);
            let changes = vec![
                (lock(first), Change::Put(new)),
                (lock(first + 5), Change::Put(new)),
                (lock(first + 10), Change::Put(new)),
            ];
            let lsn = namespace.commit_group(changes).unwrap().unwrap().get();
            for number in [first, first + 5, first + 10] {
                note(lsn, number, 0, generation);
            }
        } else if chance.one_in(5) {
            let lock = namespace.lock(&digest(number), None).unwrap();
            if let Some(lsn) = lock.delete(NOW_MS).unwrap() {
                note(lsn.get(), number, 1, 0);
            }
        } else {
            let bytes = match chance.below(10) {
                0 => 30_000,
                1..4 => 3_000,
                _ => chance.below(200) as usize,
            };
            let mut payload = vec![7; bytes];
            if let Some(last) = payload.last_mut() {
                *last = write as u8;
            }
            let lsn = put(namespace, set, number, generation, &payload);
            note(lsn, number, 0, generation);
        }
    }
    noted
}

fn sorted(mut all: Vec<Written>) -> Vec<Written> {
    all.sort();
    all
}

fn follow_writers(delivery: Delivery, options: Options) {
    const THREADS: u64 = 6;
    let writes = if common::long() { 5_000 } else { 2_500 };
    // However far the reader is behind.
    let options = Options {
        change_bytes_max: 300 << 20,
        ..options
    };
    let (namespace, _) = Namespace::open(options).unwrap();
    let set = fed(&namespace);
    let start = namespace.changes_kept_after();
    namespace.need_changes_after(&[start]);
    let done = AtomicBool::new(false);
    let (expected, read) = std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut reader = namespace.read_changes(delivery, start);
            let mut all: Vec<LoggedChange> = Vec::new();
            loop {
                // This must come before the read, so that the last read sees every write.
                let is_last = done.load(Ordering::SeqCst);
                if is_last {
                    namespace.sync().unwrap();
                }
                let read = reader.read(50, |_, _| true).unwrap();
                for change in &read.changes {
                    // A reader that has a change can read its record.
                    let now = namespace.get(&change.digest, |entry| entry.generation());
                    assert!(now.is_ok());
                }
                all.extend(read.changes);
                namespace.need_changes_after(&[read.position]);
                if read.end == ReadEnd::Last && is_last {
                    return all;
                }
                std::thread::yield_now();
            }
        });
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let namespace = &namespace;
                scope.spawn(move || write_at_random(namespace, set, thread, writes))
            })
            .collect();
        let cleaner = scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                namespace.maintain().unwrap();
            }
        });
        let joined = writers.into_iter().map(|writer| writer.join().unwrap());
        let expected: Vec<Written> = joined.flatten().collect();
        done.store(true, Ordering::SeqCst);
        cleaner.join().unwrap();
        (expected, follower.join().unwrap())
    });
    assert!(read.is_sorted_by_key(|change| change.position), "in order");
    let positions: std::collections::BTreeSet<_> =
        read.iter().map(|change| change.position).collect();
    assert_eq!(positions.len(), read.len(), "no position twice");
    let read = sorted(read.iter().map(written).collect());
    let expected = sorted(expected);
    assert_eq!(read.len(), expected.len());
    assert!(read == expected, "what was read is what was committed");
    println!(
        "{} changes, {} blocks defragmented",
        read.len(),
        namespace.stats().defragmented_blocks
    );
}

#[test]
fn what_is_published_is_read_once_and_in_order_beside_many_writers() {
    let dir = tempfile::tempdir().unwrap();
    let several = Options {
        write_lanes: 3,
        ..options(files(dir.path(), 2), 24)
    };
    follow_writers(Delivery::Published, several);
}

#[test]
fn what_is_durable_is_read_once_and_in_order_beside_many_writers() {
    let dir = tempfile::tempdir().unwrap();
    let several = Options {
        write_lanes: 3,
        background: true,
        durability: Durability::Interval(std::time::Duration::from_millis(5)),
        ..options(files(dir.path(), 1), 48)
    };
    follow_writers(Delivery::Durable, several);
}

#[test]
fn changes_in_memory_are_followed_too() {
    let options = Options {
        write_lanes: 2,
        ..options(Storage::Memory, 48)
    };
    follow_writers(Delivery::Published, options);
}

/// Overwrites one record with large versions.
fn overwrite(namespace: &Namespace, set: u16, megabytes: u64) {
    (0..megabytes).for_each(|version| {
        // All of it changes, so that it is written whole.
        let mut chance = Chance(namespace.last_lsn().get());
        let payload: Vec<u8> = (0..1 << 20).map(|_| chance.next() as u8).collect();
        put(namespace, set, 1, version as u16 + 1, &payload);
    });
}

fn small(dir: &Path) -> Options {
    Options {
        change_bytes_max: 40 << 20,
        ..options(files(dir, 1), BLOCKS)
    }
}

#[test]
fn what_somebody_needs_is_kept_up_to_the_limit_and_who_is_too_late_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (namespace, _) = Namespace::open(small(dir.path())).unwrap();
    let set = fed(&namespace);
    let start = namespace.changes_kept_after();
    namespace.need_changes_after(&[start]);
    overwrite(&namespace, set, 30);
    namespace.maintain().unwrap();
    namespace.sync().unwrap();
    let read = read_from(&namespace, Delivery::Durable, start.get());
    assert_eq!(read.len(), 30, "kept, although 29 of them are dead");
    drop(namespace);
    let (namespace, _) = Namespace::open(small(dir.path())).unwrap();
    namespace.maintain().unwrap();
    let read = read_from(&namespace, Delivery::Durable, start.get());
    assert_eq!(read.len(), 30, "kept by the next opening, too");
    // Beyond the limit, the oldest go.
    for _ in 0..3 {
        overwrite(&namespace, set, 20);
        namespace.maintain().unwrap();
    }
    let mut late = namespace.read_changes(Delivery::Durable, start);
    let lost = late.read(1, |_, _| true).unwrap_err();
    assert!(matches!(lost, Error::ChangesLost { .. }), "{lost}");
    drop(late);
    let kept_after = namespace.changes_kept_after();
    namespace.sync().unwrap();
    let read = read_from(&namespace, Delivery::Durable, kept_after.get());
    assert!(read.len() > 10 && read.len() < 90, "{}", read.len());
    // Blocks that no reader needs are given back.
    namespace.need_changes_after(&[namespace.last_lsn()]);
    let used = namespace.stats().used_blocks;
    namespace.maintain().unwrap();
    assert!(namespace.stats().used_blocks < used);
    // The next opening still knows that the changes are gone.
    namespace.close().unwrap();
    drop(namespace);
    let (namespace, _) = Namespace::open(small(dir.path())).unwrap();
    assert!(namespace.changes_kept_after() >= kept_after);
    let mut late = namespace.read_changes(Delivery::Durable, start);
    assert!(late.read(1, |_, _| true).is_err());
}

#[test]
fn a_slow_reader_never_stops_writers_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let (namespace, _) = Namespace::open(Options {
        background: true,
        change_bytes_max: 0,
        ..small(dir.path())
    })
    .unwrap();
    let set = fed(&namespace);
    namespace.need_changes_after(&[namespace.changes_kept_after()]);
    // Several times the device.
    overwrite(&namespace, set, 400);
}

#[test]
fn a_block_whose_disk_space_cannot_be_given_back_keeps_its_changes() {
    let disk = simulated(1, 12);
    let (namespace, _) = Namespace::open(options(devices(&disk), 12)).unwrap();
    let set = fed(&namespace);
    let start = namespace.changes_kept_after().get();
    disk[0].fail_release(1);
    for number in 0..40 {
        put(&namespace, set, number, 1, &[7; 700 << 10]);
    }
    assert_eq!(namespace.stats().used_blocks, 4);
    let read = read_from(&namespace, Delivery::Published, start);
    assert_eq!(read.len(), 40);
}

#[test]
fn a_damaged_change_is_an_error_and_no_gap() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        Namespace::open(options(files(dir.path(), 1), BLOCKS))
            .unwrap()
            .0
    };
    let namespace = open();
    let set = fed(&namespace);
    let start = namespace.changes_kept_after().get();
    let marker = b"the bytes that will be damaged";
    put(&namespace, set, 1, 1, b"first");
    put(&namespace, set, 2, 1, marker);
    put(&namespace, set, 3, 1, b"third");
    namespace.close().unwrap();
    drop(namespace);
    let path = dir.path().join("device-0");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes
        .windows(marker.len())
        .position(|found| found == marker);
    bytes[at.unwrap()] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let namespace = open();
    for most in [1, 10] {
        let mut reader = namespace.read_changes(Delivery::Durable, Lsn::new(start));
        let read = reader.read(most, |_, _| true).unwrap();
        assert_eq!(read.changes.len(), 1, "the one before");
        assert_eq!(read.end, ReadEnd::Full);
        for _ in 0..2 {
            let refused = reader.read(most, |_, _| true).unwrap_err();
            assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
        }
        // Behind it.
        let after = Lsn::new(reader.position().get() + 1);
        let mut reader = namespace.read_changes(Delivery::Durable, after);
        assert_eq!(reader.read(most, |_, _| true).unwrap().changes.len(), 1);
    }
}

#[test]
fn neighbours_of_a_damaged_change_that_was_not_durable_are_read_once() {
    let disk = simulated(1, BLOCKS);
    let (namespace, _) = Namespace::open(options(devices(&disk), BLOCKS)).unwrap();
    let set = fed(&namespace);
    let start = namespace.last_lsn();
    let marker = b"the bytes that will be damaged";
    put(&namespace, set, 1, 1, b"first");
    put(&namespace, set, 2, 1, marker);
    put(&namespace, set, 3, 1, b"third");
    namespace.sync().unwrap();
    let left = [Arc::new(disk[0].kill().unwrap())];
    // A sync may note a number from before the writes, and a length from after them.
    let mut state = read_state(left[0].as_ref()).unwrap();
    (state.durable_lsn, state.sequence) = (start.get(), state.sequence + 1);
    write_state(left[0].as_ref(), &state).unwrap();
    let bytes = left[0].snapshot_range(0..HEADER_BYTES + BLOCK_BYTES);
    let at = bytes
        .windows(marker.len())
        .position(|found| found == marker);
    left[0].invert_byte(at.unwrap() as u64);
    let (namespace, _) = Namespace::open(options(devices(&left), BLOCKS)).unwrap();
    for most in [1, 10] {
        let mut reader = namespace.read_changes(Delivery::Durable, start);
        assert_eq!(reader.read(most, |_, _| true).unwrap().changes.len(), 1);
        let refused = reader.read(most, |_, _| true).unwrap_err();
        assert!(matches!(refused, Error::Damaged { .. }), "{refused}");
        let after = Lsn::new(reader.position().get() + 1);
        let mut reader = namespace.read_changes(Delivery::Durable, after);
        assert_eq!(reader.read(most, |_, _| true).unwrap().changes.len(), 1);
    }
}

#[test]
fn no_number_is_given_twice_when_one_power_failure_follows_another() {
    for seed in 0..40 {
        let mut chance = Chance(seed);
        let mut disks = simulated(1 + (seed % 2) as u8, 12);
        let mut highest = Lsn::default();
        for failure in 0..4 {
            let options = Options {
                durability: Durability::Process,
                ..options(devices(&disks), 12)
            };
            let (namespace, _) = Namespace::open(options).unwrap();
            assert!(
                namespace.last_lsn() >= highest,
                "seed {seed}, failure {failure}"
            );
            let set = fed(&namespace);
            for number in 0..3 {
                highest = Lsn::new(put(&namespace, set, number, 1, b"lost or not"));
            }
            let images = disks.iter().map(|disk| disk.crash(chance.next()));
            disks = images.map(|image| Arc::new(image.unwrap())).collect();
        }
    }
}

/// Power failures on a simulated disk: a change that was shown as durable is shown again, a synced
/// change is shown, and a position never belongs to two changes.
#[test]
fn power_failures_take_back_no_change_that_was_shown_as_durable() {
    let seeds = if common::long() { 400 } else { 25 };
    for seed in 0..seeds {
        let mut chance = Chance(seed);
        let mut disks = simulated(1 + (seed % 2) as u8, 12);
        let lanes = 1 + (seed % 3) as usize;
        let open = |disks: &[Arc<_>]| {
            let options = Options {
                write_lanes: lanes,
                durability: Durability::Process,
                ..options(devices(disks), 12)
            };
            Namespace::open(options).unwrap().0
        };
        let mut namespace = open(&disks);
        let set = fed(&namespace);
        namespace.sync().unwrap();
        let start = namespace.changes_kept_after().get();
        // Changes that were shown as durable, by position, and all that were acknowledged.
        let mut durable: BTreeMap<_, Written> = BTreeMap::new();
        let mut acknowledged: Vec<Written> = Vec::new();
        for _ in 0..4 {
            for _ in 0..chance.below(12) {
                let thread = chance.next();
                let writes = chance.below(15);
                acknowledged.extend(write_at_random(&namespace, set, thread, writes));
                if chance.one_in(3) {
                    namespace.sync().unwrap();
                }
            }
            let promised = namespace.durable_lsn().get();
            let shown = read_from(&namespace, Delivery::Durable, start);
            let published = read_from(&namespace, Delivery::Published, start);
            assert_eq!(
                sorted(published.iter().map(written).collect()),
                sorted(acknowledged.clone()),
                "seed {seed}"
            );
            for (position, change) in &durable {
                let again = shown.iter().find(|now| now.position == *position);
                assert_eq!(again.map(written).as_ref(), Some(change), "seed {seed}");
            }
            durable = shown
                .iter()
                .map(|change| (change.position, written(change)))
                .collect();
            let covered = acknowledged.iter().filter(|write| write.lsn <= promised);
            assert_eq!(durable.len(), covered.count(), "seed {seed}");
            drop(namespace);
            let atomicity = if chance.one_in(3) {
                Atomicity::Page4096
            } else {
                Atomicity::Sector512
            };
            let images = disks.iter().map(|disk| {
                let image = if chance.one_in(4) {
                    disk.kill()
                } else {
                    disk.crash_with(chance.next(), atomicity)
                };
                Arc::new(image.unwrap())
            });
            disks = images.collect();
            namespace = open(&disks);
            // Each change that is left was acknowledged, and is there once.
            let left = read_from(&namespace, Delivery::Durable, start);
            let left: Vec<Written> = left.iter().map(written).collect();
            acknowledged.retain(|write| left.contains(write));
            assert_eq!(sorted(left), sorted(acknowledged.clone()), "seed {seed}");
            for write in durable.values() {
                assert!(acknowledged.contains(write), "seed {seed}: {write:?}");
            }
        }
    }
}

#[test]
fn a_follower_that_is_behind_holds_no_more_blocks_than_its_changes_fill() {
    let dir = tempfile::tempdir().unwrap();
    let (namespace, _) = Namespace::open(small(dir.path())).unwrap();
    let set = fed(&namespace);
    namespace.need_changes_after(&[namespace.changes_kept_after()]);
    for round in 0..60 {
        // Most of it is dead: without a follower cleaning would end the block and empty it.
        for version in 0..3 {
            let mut chance = Chance(round * 3 + version + 1);
            let payload: Vec<u8> = (0..40_000).map(|_| chance.next() as u8).collect();
            put(&namespace, set, 1, version as u16 + 1, &payload);
        }
        namespace.maintain().unwrap();
    }
    let used = namespace.stats().used_blocks;
    assert!(used <= 3, "{used} blocks for 7.2 MB");
}
