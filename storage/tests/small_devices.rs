//! Small devices: the blocks that lanes keep open and in reserve are many of all.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{
    Chance, delete, devices, digest, files, fill, get, options, payload_of, put, simulated,
};
use spikelet_storage::{BLOCK_BYTES, Namespace, Options, Storage};
use std::sync::Arc;
use std::time::Duration;

const BLOCKS: u64 = 10;
/// So large that a small device is full after few writes.
const LARGE: usize = 100 << 10;

/// Fills devices of `blocks` with `live_mib` and overwrites them at random from four threads, with
/// the default lanes, until three times as much as they hold was written. No write is refused, and
/// no version is lost.
fn overwrite_at_random(blocks: u64, live_mib: u64) {
    const WRITERS: u64 = 4;
    const BYTES: usize = 4 << 10;
    let wanted = Options {
        background: true,
        write_lanes: 0,
        max_space_wait: Duration::from_secs(60),
        ..options(Storage::Memory, blocks)
    };
    let (namespace, _) = Namespace::open(wanted).unwrap();
    let each = (live_mib << 20) / BYTES as u64 / WRITERS;
    let overwrites = 3 * blocks * BLOCK_BYTES / BYTES as u64 / WRITERS;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let namespace = &namespace;
            scope.spawn(move || {
                let mut chance = Chance(writer);
                let mut newest = vec![0; each as usize];
                for step in 0..each + overwrites {
                    let at = if step < each {
                        step
                    } else {
                        chance.below(each)
                    };
                    let record = at * WRITERS + writer;
                    newest[at as usize] = step;
                    put(namespace, &digest(record), &payload_of(record, step, BYTES))
                        .unwrap_or_else(|error| {
                            panic!(
                                "{blocks} blocks, step {step}: {error}; {:?}",
                                namespace.stats()
                            )
                        });
                }
                for (at, step) in (0..).zip(newest) {
                    let record = at * WRITERS + writer;
                    let found = get(namespace, &digest(record)).unwrap();
                    assert!(
                        found == Some(payload_of(record, step, BYTES)),
                        "record {record}"
                    );
                }
            });
        }
    });
}

#[test]
fn half_of_96_mib_can_be_live_under_writers_of_several_threads() {
    overwrite_at_random(12, 48);
}

#[test]
fn three_quarters_of_256_mib_can_be_live_under_writers_of_several_threads() {
    overwrite_at_random(32, 192);
}

/// Overwrites and edits large records at random from several threads, each edit a chain of deltas,
/// on devices that are nearly full.
#[test]
fn chains_of_writers_that_wait_do_not_keep_the_space_they_wait_for() {
    const WRITERS: u64 = 8;
    const EACH: u64 = 30;
    const BYTES: usize = 160 << 10;
    let wanted = Options {
        background: true,
        write_lanes: 0,
        max_space_wait: Duration::from_secs(60),
        ..options(Storage::Memory, 12)
    };
    let (namespace, _) = Namespace::open(wanted).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let namespace = &namespace;
            scope.spawn(move || {
                let mut chance = Chance(writer);
                let mut records = vec![Vec::new(); EACH as usize];
                for step in 0..3_000 {
                    let at = if step < EACH {
                        step
                    } else {
                        chance.below(EACH)
                    };
                    let record = &mut records[at as usize];
                    if step < EACH || chance.one_in(20) {
                        *record = payload_of(at, step, BYTES);
                    } else {
                        let from = chance.below(BYTES as u64 - 2_000) as usize;
                        record[from..from + 2_000].fill(step as u8);
                    }
                    put(namespace, &digest(at * WRITERS + writer), record)
                        .unwrap_or_else(|error| panic!("step {step}: {error}"));
                }
                for (at, record) in (0..).zip(records) {
                    let found = get(namespace, &digest(at * WRITERS + writer)).unwrap();
                    assert!(found == Some(record), "record {at} of writer {writer}");
                }
            });
        }
    });
    let stats = namespace.stats();
    assert!(
        stats.space_waits > 0 && stats.defragmented_blocks > 12,
        "{stats:?}"
    );
}

#[test]
fn even_the_smallest_devices_take_writes_and_get_well_again() {
    for blocks in 5..=12 {
        let wanted = Options {
            write_lanes: 64,
            ..options(Storage::Memory, blocks)
        };
        let (namespace, _) = Namespace::open(wanted).unwrap();
        for round in 0..3 {
            let count = fill(&namespace, LARGE);
            assert!(count > 0, "{blocks} blocks, round {round}");
            for record in 0..count {
                assert!(delete(&namespace, &digest(record)).unwrap());
            }
            namespace.maintain().unwrap();
        }
    }
    for blocks in 0..5 {
        let refused = Namespace::open(options(Storage::Memory, blocks)).unwrap_err();
        assert!(refused.to_string().contains("five blocks"), "{refused}");
    }
}

#[test]
fn short_lives_do_not_fill_a_device_with_a_block_each() {
    for closes in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let live = |background| {
            Namespace::open(Options {
                background,
                ..options(files(dir.path(), 1), BLOCKS)
            })
            .unwrap()
            .0
        };
        // As a program does that is started, writes two records, and ends.
        for life in 1..=4 * BLOCKS {
            let namespace = live(true);
            for record in [0, life] {
                put(&namespace, &digest(record), &payload_of(record, life, 100))
                    .unwrap_or_else(|error| panic!("life {life}: {error}"));
            }
            if closes {
                namespace.close().unwrap();
            }
        }
        let namespace = live(false);
        assert!(!namespace.stats().stop_writes);
        for record in 0..=4 * BLOCKS {
            let life = if record == 0 { 4 * BLOCKS } else { record };
            assert!(
                get(&namespace, &digest(record)).unwrap().unwrap() == payload_of(record, life, 100)
            );
        }
    }
}

#[test]
fn blocks_that_openings_ended_early_are_joined_when_space_is_short() {
    const EACH: u64 = 20;
    const LIVES: u64 = 15;
    let mut disks = simulated(1, BLOCKS);
    for life in 0..LIVES {
        let (namespace, _) = Namespace::open(options(devices(&disks), BLOCKS)).unwrap();
        for record in life * EACH..(life + 1) * EACH {
            // Some 2 MB a life, all of it live.
            let bytes = payload_of(record, 1, LARGE);
            let refused = put(&namespace, &digest(record), &bytes).is_err();
            if refused {
                namespace.maintain().unwrap();
                put(&namespace, &digest(record), &bytes)
                    .unwrap_or_else(|error| panic!("life {life}: {error}"));
            }
        }
        disks = vec![Arc::new(disks[0].kill().unwrap())];
    }
    let (namespace, _) = Namespace::open(options(devices(&disks), BLOCKS)).unwrap();
    for record in 0..LIVES * EACH {
        let found = get(&namespace, &digest(record)).unwrap();
        assert!(
            found == Some(payload_of(record, 1, LARGE)),
            "record {record}"
        );
    }
}
