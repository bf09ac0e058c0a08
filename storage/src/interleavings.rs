//! The whole store under the model checker: readers, writers, defragmentation and sync, in
//! thousands of schedules.
//!
//! Stores into device memory are no steps of the model, but every copy from staging memory is two
//! of them, so that a buffer can be begun anew in the middle of one. The scenarios check who may
//! reach which bytes when. Run with
//! `RUSTFLAGS="--cfg shuttle" cargo test -p spikelet-storage --lib --release interleavings`.

mod attempts;
mod changes;
pub(crate) mod harness;

use crate::core::Namespace;
use crate::device::{BLOCK_BYTES, HEADER_BYTES};
use crate::entry::{ENTRY_HEADER_BYTES, EntryHeader};
use crate::epoch;
use crate::location::UNIT_BYTES;
use crate::log::chain::content_of;
use crate::maintenance::victims::Effort;
use crate::record_lock::space_wait::rest;
use crate::record_lock::{Change, NewVersion, RecordLock};
use crate::sync::thread;
use harness::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

fn readers_see_whole_versions_in_order(records: [u8; 2]) {
    let namespace = open();
    let writers = records.map(|record| {
        spawn(&namespace, move |namespace| {
            (0..3).for_each(|_| increment(namespace, record))
        })
    });
    let reader = spawn(&namespace, move |namespace| {
        let mut last = [0, 0];
        for _ in 0..3 {
            for (record, last) in records.iter().zip(&mut last) {
                let number = read(namespace, *record).unwrap_or(0);
                assert!(number >= *last, "{number} after {last}");
                *last = number;
            }
        }
    });
    writers
        .into_iter()
        .chain([reader])
        .for_each(|thread| thread.join().unwrap());
    let expected = if records[0] == records[1] { 6 } else { 3 };
    for record in records {
        assert_eq!(read(&namespace, record), Some(expected));
    }
    assert_consistent(&namespace);
}

#[test]
fn two_writers_of_one_record_and_a_reader() {
    explore(1_500, || readers_see_whole_versions_in_order([1, 1]));
}

#[test]
fn two_writers_of_two_records_and_a_reader() {
    explore(1_500, || readers_see_whole_versions_in_order([0, 2]));
}

#[test]
fn staged_entries_do_not_change_under_readers_while_buffers_are_flushed_and_begun_anew() {
    explore(2_500, || {
        let namespace = open();
        put(&namespace, 0, 1);
        put(&namespace, 1, 1);
        let writer = spawn(&namespace, |namespace| {
            put(namespace, 0, 2);
            // Ends the buffer: the next entries are staged where the first ones were.
            let lock = namespace.lock(&digest(4), None).unwrap();
            lock.put(&version(&[1; LARGE])).unwrap();
            put(namespace, 3, 7);
            put(namespace, 3, 8);
            put(namespace, 0, 3);
        });
        let syncer = spawn(&namespace, |namespace| namespace.sync().unwrap());
        let mut last = 0;
        for _ in 0..3 {
            let number = read(&namespace, 0).unwrap();
            assert!(number >= last, "{number} after {last}");
            last = number;
            assert_eq!(read(&namespace, 1), Some(1));
        }
        // A writer that has the record locked goes on seeing the version that it found.
        let lock = namespace.lock(&digest(1), None).unwrap();
        let seen = number_of(&lock.entry().unwrap().unwrap());
        lock.put(&version(&[seen + 1; SMALL])).unwrap();
        writer.join().unwrap();
        syncer.join().unwrap();
        let found = [0, 1, 3, 4].map(|record| read(&namespace, record));
        assert_eq!(found, [Some(3), Some(2), Some(8), Some(1)]);
        assert_consistent(&namespace);
    });
}

/// The number in the middle of a record that is edited there, and whether all the rest is as it
/// was.
fn edited(namespace: &Namespace) -> u8 {
    let number = namespace.get(&digest(9), |entry| {
        let payload = entry.payload();
        let number = payload[EDITED / 2];
        for _ in 0..3 {
            assert_eq!(payload.len(), EDITED, "torn");
            let (before, rest) = payload.split_at(EDITED / 2);
            let (middle, behind) = rest.split_at(8);
            assert!(middle.iter().all(|byte| *byte == number), "torn");
            assert!(before.iter().chain(behind).all(|byte| *byte == 7), "torn");
            assert_eq!(entry.generation(), u16::from(number), "torn");
            thread::yield_now();
        }
        number
    });
    number.unwrap().unwrap()
}

#[test]
fn records_that_are_edited_by_deltas_do_not_change_under_readers() {
    static DELTAS: AtomicU64 = AtomicU64::new(0);
    explore(1_000, || {
        let namespace = open();
        let edit = |namespace: &Namespace, number: u8| {
            edit(namespace.lock(&digest(9), None).unwrap(), number);
        };
        edit(&namespace, 1);
        let before = namespace.stats().traffic.appended_bytes;
        let writer = spawn(&namespace, move |namespace| {
            (2..5).for_each(|number| edit(namespace, number));
        });
        let tidier = spawn(&namespace, |namespace| {
            namespace.core.log.close_lanes().unwrap();
            while namespace
                .core
                .empty_next(Effort::Thorough, u64::MAX)
                .unwrap()
                .is_some()
            {}
            namespace.core.free_emptied(true).unwrap();
        });
        let mut last = 0;
        for _ in 0..3 {
            let number = edited(&namespace);
            assert!(number >= last, "{number} after {last}");
            last = number;
        }
        writer.join().unwrap();
        tidier.join().unwrap();
        assert_eq!(edited(&namespace), 4);
        let appended = namespace.stats().traffic.appended_bytes - before;
        DELTAS.fetch_add(u64::from(appended < 3 * EDITED as u64), Ordering::Relaxed);
    });
    assert!(DELTAS.load(Ordering::Relaxed) > 0, "every edit was whole");
}

/// The number in the middle of the edited record, as the log alone has it.
fn edited_in_log(namespace: &Namespace) -> u8 {
    let core = &namespace.core;
    let guard = epoch::pin();
    let (_, slot) = (0..crate::PARTITIONS)
        .flat_map(|partition| core.slots_of(partition))
        .find(|(_, slot)| core.is_of(slot, &digest(9), &guard))
        .unwrap();
    let image = core.log.image(slot.location, &guard);
    let newest = image.map_or(slot.location, |image| image.newest());
    let content =
        content_of(core.log.volumes(), newest, &guard).expect("a part of the chain is gone");
    content.body[content.body.len() - EDITED / 2]
}

/// Puts a version of the record that is edited.
fn edit(lock: RecordLock<'_>, number: u8) {
    let payload = edited_payload(number);
    lock.put(&edited_version(&payload, number)).unwrap();
}

fn edited_payload(number: u8) -> [u8; EDITED] {
    let mut payload = [7; EDITED];
    payload[EDITED / 2..][..8].fill(number);
    payload
}

fn edited_version(payload: &[u8], number: u8) -> NewVersion<'_> {
    NewVersion {
        generation: u16::from(number),
        ..version(payload)
    }
}

/// By itself and in groups.
#[test]
fn a_record_whose_owner_waits_for_space_is_moved_and_no_edit_of_it_is_lost() {
    static MOVED: AtomicU64 = AtomicU64::new(0);
    explore(2_000, || {
        let namespace = open();
        // One has a chain of deltas, the other is whole.
        for number in 1..3 {
            edit(namespace.lock(&digest(9), None).unwrap(), number);
        }
        // So much is dead that the block is worth emptying.
        let lock = namespace.lock(&digest(5), None).unwrap();
        lock.put(&version(&[1; LARGE])).unwrap();
        assert!(delete(&namespace, 5, 2));
        closed_block(&namespace);
        let owner = spawn(&namespace, |namespace| {
            let core = &namespace.core;
            for number in 3..7 {
                let mut chain = namespace.lock(&digest(9), None).unwrap();
                let mut whole = namespace.lock(&digest(0), None).unwrap();
                let before = core.log.traffic().moved_bytes;
                rest(core, &mut [&mut chain, &mut whole], || {
                    (0..10).for_each(|_| thread::yield_now());
                });
                let moved = core.log.traffic().moved_bytes - before;
                MOVED.fetch_add(moved, Ordering::Relaxed);
                let seen = number_of(&whole.entry().unwrap().unwrap());
                let next = [seen + 1; SMALL];
                if number % 2 == 0 {
                    edit(chain, number);
                    whole.put(&version(&next)).unwrap();
                    continue;
                }
                let edited = edited_payload(number);
                let changes = [edited_version(&edited, number), version(&next)];
                let changes = changes.map(Change::Put);
                let locks = [chain, whole].into_iter();
                namespace
                    .commit_group(locks.zip(changes).collect())
                    .unwrap();
            }
        });
        let tidier = spawn(&namespace, |namespace| {
            for _ in 0..2 {
                namespace.core.log.close_lanes().unwrap();
                while namespace
                    .core
                    .empty_next(Effort::Thorough, u64::MAX)
                    .unwrap()
                    .is_some()
                {}
                namespace.core.free_emptied(true).unwrap();
                namespace.core.retry_stuck(true);
            }
        });
        let mut last = 0;
        for _ in 0..2 {
            let number = edited(&namespace);
            assert!(number >= last, "{number} after {last}");
            last = number;
        }
        owner.join().unwrap();
        tidier.join().unwrap();
        assert_eq!((edited(&namespace), read(&namespace, 0)), (6, Some(5)));
        assert_eq!(edited_in_log(&namespace), 6, "the chain is broken");
        assert_consistent(&namespace);
    });
    assert!(MOVED.load(Ordering::Relaxed) > 0, "nothing was moved");
}

/// A closed block that is worth moving: three records that live, and two versions that are dead.
fn closed_block(namespace: &Namespace) {
    put(namespace, 0, 1);
    put(namespace, 1, 1);
    namespace.sync().unwrap();
    put(namespace, 1, 2);
    put(namespace, 3, 1);
    put(namespace, 3, 2);
    namespace.core.log.close_lanes().unwrap();
}

#[test]
fn moved_records_and_reused_blocks_do_not_change_under_readers_and_writers() {
    static FREED: AtomicU64 = AtomicU64::new(0);
    explore(3_000, || {
        let namespace = open();
        closed_block(&namespace);
        let defragmenter = spawn(&namespace, |namespace| {
            let core = &namespace.core;
            for _ in 0..2 {
                core.empty_next(Effort::Thorough, u64::MAX).unwrap();
                core.retry_stuck(true);
            }
            let freed = core.free_emptied(true).unwrap();
            FREED.fetch_add(freed as u64, Ordering::Relaxed);
            // The next block that is opened is the one that was given back last.
            core.log.close_lanes().unwrap();
            for record in 5..8 {
                let lock = namespace.lock(&digest(record), None).unwrap();
                lock.put(&version(&[9; 200])).unwrap();
            }
        });
        let writer = spawn(&namespace, |namespace| {
            put(namespace, 1, 3);
            put(namespace, 3, 3);
            increment(namespace, 0);
        });
        let mut last = 0;
        for _ in 0..3 {
            let number = read(&namespace, 0).unwrap();
            assert!(number >= last, "{number} after {last}");
            last = number;
        }
        assert!(read(&namespace, 1).unwrap() >= 2);
        writer.join().unwrap();
        defragmenter.join().unwrap();
        for (record, number) in [(0, 2), (1, 3), (3, 3), (5, 9), (6, 9), (7, 9)] {
            assert_eq!(read(&namespace, record), Some(number), "record {record}");
        }
        assert_consistent(&namespace);
    });
    assert!(FREED.load(Ordering::Relaxed) > 0, "no block was given back");
}

#[test]
fn groups_deletes_and_forgotten_tombstones_beside_defragmentation() {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    explore(1_500, || {
        let namespace = open();
        closed_block(&namespace);
        let defragmenter = spawn(&namespace, |namespace| {
            let core = &namespace.core;
            core.empty_next(Effort::Thorough, u64::MAX).unwrap();
            core.free_emptied(true).unwrap();
            DROPPED.fetch_add(core.drop_tombstones().unwrap(), Ordering::Relaxed);
        });
        let writer = spawn(&namespace, |namespace| {
            let locks = [0, 1].map(|record| namespace.lock(&digest(record), None).unwrap());
            let changes = [Change::Put(version(&[7; 40])), Change::Delete(2)];
            namespace
                .commit_group(locks.into_iter().zip(changes).collect())
                .unwrap();
        });
        let deleter = spawn(&namespace, |namespace| {
            assert!(delete(namespace, 3, 2));
            put(namespace, 3, 4);
            assert!(delete(namespace, 3, 3));
        });
        [defragmenter, writer, deleter]
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let found = [0, 1, 3].map(|record| read(&namespace, record));
        assert_eq!(found, [Some(7), None, None]);
        assert_consistent(&namespace);
        // All of it goes to the last byte.
        namespace.core.retry_stuck(true);
        assert!(delete(&namespace, 0, 4));
        for _ in 0..3 {
            namespace.core.log.close_lanes().unwrap();
            namespace.maintain().unwrap();
        }
        let stats = namespace.stats();
        assert_eq!((stats.index_entries, stats.live_bytes), (0, 0), "{stats:?}");
    });
    assert!(
        DROPPED.load(Ordering::Relaxed) > 0,
        "no tombstone was forgotten in time"
    );
}

/// The numbers of the whole entries with which the blocks began.
fn numbers_in(namespace: &Namespace, seen: &Seen) -> BTreeSet<u64> {
    let volume = &namespace.core.log.volumes()[0];
    let mut found = BTreeSet::new();
    for (first, bytes) in seen {
        let index = (first - HEADER_BYTES) / BLOCK_BYTES;
        let life = volume.block(index as u32).unwrap().incarnation();
        for at in (0..bytes.len() - ENTRY_HEADER_BYTES).step_by(UNIT_BYTES as usize) {
            let raw = bytes[at..].first_chunk().unwrap();
            let place = volume.place(life, first + at as u64);
            if let Some(header) = EntryHeader::decode_checked(raw, place) {
                let body = bytes[at + ENTRY_HEADER_BYTES..].get(..header.body_bytes as usize);
                if body.is_some_and(|body| header.body_holds(raw, body)) {
                    found.insert(header.lsn.0);
                }
            }
        }
    }
    found
}

#[test]
fn what_a_sync_calls_durable_was_on_the_device_when_it_began() {
    for lanes in [1, 2] {
        explore(1_500, move || {
            let (namespace, device) = open_with(lanes);
            let first = namespace.last_lsn().get() + 1;
            let writers = [10, 20].map(|first| {
                spawn(&namespace, move |namespace| {
                    (0..3).for_each(|n| put(namespace, first + n, 1))
                })
            });
            for _ in 0..2 {
                let promised = namespace.last_lsn();
                namespace.wait_durable(promised).unwrap();
                let durable = namespace.durable_lsn();
                assert!(durable >= promised);
                let found = numbers_in(&namespace, &device.at_sync.lock());
                for number in first..=durable.get() {
                    assert!(found.contains(&number), "{number} was called durable");
                }
            }
            writers
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
    }
}

#[test]
fn a_truncation_takes_what_came_before_it_and_nothing_that_comes_later() {
    explore(2_000, || {
        let namespace = open();
        put(&namespace, 0, 5);
        let writers =
            [0, 1].map(|record| spawn(&namespace, move |namespace| increment(namespace, record)));
        namespace
            .truncate(crate::Truncate::Namespace, None)
            .unwrap();
        put(&namespace, 2, 3);
        writers
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        let found = [0, 1, 2].map(|record| read(&namespace, record));
        // The others came before or after.
        assert!(
            found[0].is_none_or(|number| number == 1),
            "a truncated version is back"
        );
        assert_eq!(found[2], Some(3), "what was written after it is gone");
        let records = found.iter().flatten().count() as u64;
        let stats = namespace.stats();
        assert_eq!((stats.records, stats.index_entries), (records, records));
    });
}
