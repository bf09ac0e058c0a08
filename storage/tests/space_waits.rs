//! How long writes wait for space: as long as their callers allow, and not at all once no space can
//! be won.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{delete, digest, files, fill, options, payload_of, put, version};
use spikelet_storage::{Change, Durability, Error, Namespace, Options, Result, Storage};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

const BLOCKS: u64 = 10;
const LARGE: usize = 100 << 10;
/// Much longer than any test may take.
const PATIENCE: Duration = Duration::from_secs(300);

fn patient(storage: Storage) -> Options {
    Options {
        background: true,
        durability: Durability::Process,
        max_space_wait: PATIENCE,
        ..options(storage, BLOCKS)
    }
}

/// Puts a record by itself or in a group of two, with a limit on the time that it takes.
fn put_within(namespace: &Namespace, in_group: bool, limit: Duration) -> Result<()> {
    let payload = payload_of(1, 1, LARGE);
    let lock = |record| namespace.lock(&digest(record), Some(limit));
    if !in_group {
        return lock(1)?.put(&version(&payload)).map(drop);
    }
    let changes = [lock(1)?, lock(2)?].map(|lock| (lock, Change::Put(version(&payload))));
    namespace.commit_group(changes.into()).map(drop)
}

#[test]
fn a_write_waits_for_space_no_longer_than_its_caller_allows() {
    let (namespace, _) = Namespace::open(Options {
        background: false,
        ..patient(Storage::Memory)
    })
    .unwrap();
    let count = fill(&namespace, LARGE);
    drop(namespace);

    let (namespace, _) = Namespace::open(patient(Storage::Memory)).unwrap();
    // A reader that holds a lock keeps all blocks from being reused, so the dead bytes cannot be
    // won back.
    let held = namespace.lock(&digest(1_000_000), None).unwrap();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for record in 0..count - 5 {
                put(&namespace, &digest(record), &payload_of(record, 0, LARGE)).unwrap();
            }
            for record in 0..count / 2 {
                delete(&namespace, &digest(record)).unwrap();
            }
            // The rest of the space is used up, and every write waits.
            while put_within(&namespace, false, Duration::from_millis(1)).is_ok() {}
            for in_group in [false, true] {
                let limit = Duration::from_millis(100);
                let begun = Instant::now();
                let refused = put_within(&namespace, in_group, limit).unwrap_err();
                let waited = begun.elapsed();
                assert!(matches!(refused, Error::StopWrites { .. }), "{refused}");
                assert!(waited >= limit && waited < PATIENCE / 3, "{waited:?}");
            }
        });
        writer.join().unwrap();
    });
    drop(held);
    put(&namespace, &digest(1), b"there is room").unwrap();
}

#[test]
fn a_write_that_waits_is_refused_when_no_space_can_be_won_after_all() {
    let dir = tempfile::tempdir().unwrap();
    let open = |options: Options| Namespace::open(options).unwrap().0;
    let namespace = open(Options {
        background: false,
        ..patient(files(dir.path(), 1))
    });
    let count = fill(&namespace, LARGE);
    namespace.close().unwrap();
    drop(namespace);

    // One record of each block is damaged, so that none can be emptied.
    let path = dir.path().join("device-0");
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .open(&path)
        .unwrap();
    let device = std::fs::read(&path).unwrap();
    let is_damaged = |record: u64| record.is_multiple_of(20);
    for record in (0..count).filter(|record| is_damaged(*record)) {
        let needle = &payload_of(record, 0, 32);
        let at = device.windows(32).position(|bytes| bytes == needle);
        let at = at.unwrap();
        file.write_at(&[device[at] ^ 1], at as u64).unwrap();
    }
    let namespace = open(patient(files(dir.path(), 1)));
    for record in (0..count).filter(|record| !is_damaged(*record)) {
        delete(&namespace, &digest(record)).unwrap();
    }
    let begun = Instant::now();
    let mut refused = None;
    for record in count.. {
        let bytes = payload_of(record, 0, LARGE);
        if let Err(error) = put(&namespace, &digest(record), &bytes) {
            refused = Some(error);
            break;
        }
    }
    let waited = begun.elapsed();
    assert!(
        matches!(refused, Some(Error::StopWrites { .. })),
        "{refused:?}"
    );
    assert!(waited < PATIENCE / 3, "{waited:?}");
}
