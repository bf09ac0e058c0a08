use super::*;
use crate::Durability;
use crate::clock::ManualClock;
use crate::core::Namespace;
use crate::device::{BLOCK_BYTES, HEADER_BYTES, SMALL_BLOCK_BYTES};
use crate::digest::Digest;
use crate::options::{Options, Storage};
use crate::record_lock::NewVersion;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const VERSION: NewVersion<'static> = NewVersion {
    generation: 1,
    void_time: 0,
    last_update_ms: 1,
    set_id: 0,
    key: None,
    payload: &[],
};

fn open(options: Options) -> Namespace {
    let max_device_bytes = HEADER_BYTES + 64 * BLOCK_BYTES;
    Namespace::open(Options {
        max_device_bytes,
        max_record_bytes: Options::RECORD_BYTES_MAX,
        ..options
    })
    .unwrap()
    .0
}

fn digest(record: u32) -> Digest {
    let mut bytes = [0; Digest::LEN];
    bytes[..4].copy_from_slice(&record.wrapping_mul(0x9e37_79b9).to_le_bytes());
    Digest::new(bytes)
}

#[test]
fn defragmentation_moves_a_block_a_tick_and_rests_as_long_as_its_rate_demands() {
    const RATE: u64 = 1 << 20;
    let namespace = open(Options {
        background: false,
        write_lanes: 1,
        defrag_bytes_per_second: RATE,
        ..Options::new("test", Storage::Memory)
    });
    let payload = vec![1; 100 << 10];
    let version = NewVersion {
        payload: &payload,
        ..VERSION
    };
    for record in 0..500 {
        namespace
            .lock(&digest(record), None)
            .unwrap()
            .put(&version)
            .unwrap();
    }
    for record in (0..500).filter(|record| record % 5 > 0) {
        let lock = namespace.lock(&digest(record), None).unwrap();
        assert!(lock.delete(2).unwrap().is_some());
    }
    let mut rhythm = Rhythm::new(Duration::MAX);
    let mut ticks = 0;
    loop {
        let before = namespace.stats();
        let rest = namespace.core.tick(&mut rhythm, Instant::now());
        let after = namespace.stats();
        let moved = after.traffic.moved_bytes - before.traffic.moved_bytes;
        if after.defragmented_blocks == before.defragmented_blocks {
            assert_eq!((moved, rest), (0, IDLE_TICK));
            break;
        }
        assert_eq!(after.defragmented_blocks, before.defragmented_blocks + 1);
        assert!(moved > 0 && moved < BLOCK_BYTES / 2);
        assert_eq!(rest, Duration::from_secs_f64(moved as f64 / RATE as f64));
        ticks += 1;
    }
    assert!(ticks >= 5, "{ticks}");
}

/// Ticks for this long. Returns how often.
fn tick_for(namespace: &Namespace, rhythm: &mut Rhythm, now: &mut Instant, secs: u64) -> u32 {
    let until = *now + Duration::from_secs(secs);
    let mut ticks = 0;
    while *now < until {
        *now += namespace.core.tick(rhythm, *now) + Duration::from_micros(1);
        ticks += 1;
    }
    ticks
}

#[test]
fn an_idle_store_empties_a_block_soon_after_a_record_in_it_was_unlocked() {
    let namespace = open(Options {
        background: false,
        write_lanes: 1,
        ..Options::new("test", Storage::Memory)
    });
    let version = NewVersion {
        payload: &[1; 100 << 10],
        ..VERSION
    };
    let lock = |record| namespace.lock(&digest(record), None).unwrap();
    for record in 0..500 {
        lock(record).put(&version).unwrap();
    }
    for record in 1..500 {
        assert!(lock(record).delete(2).unwrap().is_some());
    }
    let held = lock(0);
    let (mut rhythm, mut now) = (Rhythm::new(Duration::MAX), Instant::now());
    tick_for(&namespace, &mut rhythm, &mut now, 3);
    assert_eq!(namespace.stats().traffic.moved_bytes, 0, "no copy of it");
    drop(held);
    for _ in 0..5 {
        tick_for(&namespace, &mut rhythm, &mut now, 1);
        // Other tests of this process look at blocks.
        namespace.core.free_all_emptied().unwrap();
    }
    assert_eq!(namespace.stats().used_blocks, 1);
}

#[test]
fn a_full_idle_store_rests_once_nothing_is_to_be_won() {
    let (namespace, _) = Namespace::open(Options {
        background: false,
        write_lanes: 1,
        max_device_bytes: HEADER_BYTES + 10 * SMALL_BLOCK_BYTES,
        ..Options::new("test", Storage::Memory)
    })
    .unwrap();
    let version = NewVersion {
        payload: &[1; 10 << 10],
        ..VERSION
    };
    let lock = |record| namespace.lock(&digest(record), None).unwrap();
    let full = (0..).find(|record| lock(*record).put(&version).is_err());
    // Their blocks are nearly full, and have older versions of them.
    for record in (0..full.unwrap()).filter(|record| record % 50 == 0) {
        assert!(lock(record).delete(2).unwrap().is_some());
    }
    let (mut rhythm, mut now) = (Rhythm::new(Duration::MAX), Instant::now());
    tick_for(&namespace, &mut rhythm, &mut now, 60);
    assert!(namespace.core.tombstones() > 0 && namespace.core.log.space().usage().tight);
    let ticks = tick_for(&namespace, &mut rhythm, &mut now, 60);
    assert!(ticks < 300, "{ticks}");
}

#[test]
fn tombstones_of_expired_records_do_not_outnumber_the_others_for_long() {
    const ROUND: u32 = 80_000;
    let clock = Arc::new(ManualClock::at(0));
    let namespace = open(Options {
        background: false,
        write_lanes: 1,
        clock: clock.clone(),
        ..Options::new("test", Storage::Memory)
    });
    let period = Duration::from_secs(120);
    let (mut rhythm, mut now) = (Rhythm::new(period), Instant::now());
    let mut most = 0;
    for round in 0..6 {
        for record in ROUND * round..ROUND * (round + 1) {
            let version = NewVersion {
                void_time: 120 * (round + 1),
                payload: &[1; 100],
                ..VERSION
            };
            let lock = namespace.lock(&digest(record), None).unwrap();
            lock.put(&version).unwrap();
        }
        clock.advance_ms(121_000);
        let due = rhythm.next_expiry;
        now = now.max(due);
        // Too short for the store to be idle.
        while now < due + IDLE_AFTER / 2 {
            now += namespace.core.tick(&mut rhythm, now) + Duration::from_micros(1);
            // Other tests of this process look at blocks.
            namespace.core.free_all_emptied().unwrap();
        }
        most = most.max(namespace.stats().index_entries);
    }
    assert!(most < 3 * u64::from(ROUND), "{most} entries");
}

/// Disk space of all files of a directory.
fn disk_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap();
    let files = entries.map(|entry| entry.unwrap().metadata().unwrap());
    files.map(|file| file.blocks() * 512).sum()
}

#[test]
fn an_idle_store_takes_three_times_what_lives_in_it_after_five_seconds() {
    // Staging memory and the open blocks of lanes take up to 4 MB of disk beside live entries.
    const RECORDS: u32 = 80_000;
    /// Versions of each record, and which part of the records is deleted then.
    const CASES: [(usize, u32); 3] = [(6, 0), (1, 8), (3, 2)];
    for (versions, deleted) in CASES {
        let dir = tempfile::tempdir().unwrap();
        let storage = Storage::Files {
            dir: dir.path().to_owned(),
            devices: 1,
        };
        let namespace = open(Options {
            background: false,
            write_lanes: 4,
            durability: Durability::Process,
            ..Options::new("test", storage)
        });
        // Threads that meet use several lanes.
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let namespace = &namespace;
                scope.spawn(move || {
                    for version in 1..=versions {
                        let payload = vec![7; 20 * version + 300];
                        let version = NewVersion {
                            payload: &payload,
                            ..VERSION
                        };
                        for record in (thread..RECORDS).step_by(4) {
                            let lock = namespace.lock(&digest(record), None).unwrap();
                            lock.put(&version).unwrap();
                        }
                    }
                });
            }
        });
        let is_deleted = |record: u32| deleted > 0 && !record.is_multiple_of(deleted);
        for record in (0..RECORDS).filter(|record| is_deleted(*record)) {
            let lock = namespace.lock(&digest(record), None).unwrap();
            assert!(lock.delete(2).unwrap().is_some());
        }
        let before = disk_bytes(dir.path());
        let begun = Instant::now();
        let (mut rhythm, mut now) = (Rhythm::new(Duration::MAX), begun);
        while now < begun + Duration::from_secs(5) {
            // A rest of no time is followed by the next tick at once.
            now += namespace.core.tick(&mut rhythm, now) + Duration::from_micros(1);
            // Other tests of this process look at blocks.
            namespace.core.free_all_emptied().unwrap();
        }
        let records: u64 = namespace.sets().iter().map(|set| set.stored_bytes).sum();
        let after = disk_bytes(dir.path());
        assert!(
            after <= 3 * records,
            "{versions} versions, one of {deleted} left: {records} bytes live, {before} on disk, then {after}"
        );
    }
}

#[test]
fn an_idle_store_gives_emptied_blocks_back_however_far_the_next_sync_is() {
    let namespace = open(Options {
        background: false,
        write_lanes: 1,
        durability: Durability::Interval(Duration::MAX),
        ..Options::new("test", Storage::Memory)
    });
    let version = NewVersion {
        payload: &[1; 100 << 10],
        ..VERSION
    };
    let lock = |record| namespace.lock(&digest(record), None).unwrap();
    for record in 0..300 {
        lock(record).put(&version).unwrap();
    }
    for record in 0..300 {
        assert!(lock(record).delete(2).unwrap().is_some());
    }
    let used_blocks = namespace.stats().used_blocks;
    let begun = Instant::now();
    let (mut rhythm, mut now) = (Rhythm::new(Duration::MAX), begun);
    rhythm.next_checkpoint = later(now, Duration::MAX);
    while namespace.stats().used_blocks + 3 > used_blocks {
        // Other tests of this process look at blocks.
        assert!(begun.elapsed() < Duration::from_secs(20), "kept");
        now += namespace.core.tick(&mut rhythm, now) + Duration::from_micros(1);
    }
}

#[test]
fn space_that_became_short_before_the_rest_ends_it() {
    let namespace = open(Options {
        background: false,
        write_lanes: 1,
        ..Options::new("test", Storage::Memory)
    });
    let space = namespace.core.log.space();
    for record in 0.. {
        if space.usage().tight {
            break;
        }
        let version = NewVersion {
            payload: &[1; 100 << 10],
            ..VERSION
        };
        let lock = namespace.lock(&digest(record), None).unwrap();
        lock.put(&version).unwrap();
    }
    let far = after(Duration::from_secs(60));
    assert_eq!(space.rest(far, false), RestEnd::Due);
    assert!(Instant::now() < far, "rested although space is short");
}

#[test]
fn periods_that_no_clock_can_hold_do_no_harm() {
    let namespace = open(Options {
        durability: Durability::Interval(Duration::MAX),
        expiry_period: Duration::MAX,
        defrag_bytes_per_second: 0,
        ..Options::new("test", Storage::Memory)
    });
    namespace.sync().unwrap();
    // Ends the threads, which rest for a year.
    drop(namespace);
    assert!(after(Duration::MAX) > Instant::now());
}
