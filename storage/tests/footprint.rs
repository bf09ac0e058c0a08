//! The disk space and written bytes of small stores: after loads, under trickles and streams.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{delete, devices, digest, files, get, options, put, simulated};
use spikelet_storage::{Durability, Namespace, Options, SimulatedDevice, Storage};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const BLOCKS: u64 = 64;
const RECORDS: u64 = 1_000;
const ROUNDS: u64 = 30;

/// Options as services use them, with background threads. No thread writes at a time of its own:
/// under `Durability::Process` none syncs, and maintenance has work only at an opening.
fn with_threads(storage: Storage) -> Options {
    Options {
        background: true,
        durability: Durability::Process,
        ..options(storage, BLOCKS)
    }
}

fn payload(record: u64, version: u64) -> Vec<u8> {
    let mut bytes = format!("record {record}, version {version} ").into_bytes();
    bytes.resize(100, b'.');
    bytes
}

/// Disk space of all files of a directory.
fn disk_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap();
    let files = entries.map(|entry| entry.unwrap().metadata().unwrap());
    files.map(|file| file.blocks() * 512).sum()
}

/// Whether a file without content takes no disk space here.
fn has_holes(dir: &Path) -> bool {
    let path = dir.join("hole");
    let file = File::create(&path).unwrap();
    file.set_len(MIB).unwrap();
    let has_holes = file.metadata().unwrap().blocks() * 512 < MIB;
    std::fs::remove_file(path).unwrap();
    has_holes
}

/// Which records a round writes, and how often before.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// All in the first round, one again in each later one.
    AtOnce,
    /// A share in each.
    BitByBit,
}

impl Load {
    /// Writes the records of a round.
    fn write(self, namespace: &Namespace, round: u64) {
        let records = match self {
            Self::AtOnce if round == 0 => 0..RECORDS,
            Self::AtOnce => round..round + 1,
            Self::BitByBit => round * RECORDS / ROUNDS..(round + 1) * RECORDS / ROUNDS,
        };
        for record in records {
            put(namespace, &digest(record), &payload(record, round)).unwrap();
        }
    }

    fn check(self, namespace: &Namespace) {
        for record in 0..RECORDS {
            let round = match self {
                Self::AtOnce if (1..ROUNDS).contains(&record) => record,
                Self::AtOnce => 0,
                Self::BitByBit => (0..ROUNDS)
                    .find(|round| record < (round + 1) * RECORDS / ROUNDS)
                    .unwrap(),
            };
            let found = get(namespace, &digest(record)).unwrap();
            assert_eq!(found, Some(payload(record, round)), "{self:?}, {record}");
        }
    }
}

#[test]
fn a_small_store_takes_less_than_a_mebibyte_through_30_openings_closes_and_kills() {
    for load in [Load::AtOnce, Load::BitByBit] {
        let dir = tempfile::tempdir().unwrap();
        if !has_holes(dir.path()) {
            println!("skipped: the file system knows no holes");
            return;
        }
        let mut most = 0;
        for round in 0..ROUNDS {
            let (namespace, _) = Namespace::open(with_threads(files(dir.path(), 1))).unwrap();
            load.write(&namespace, round);
            if round % 2 == 0 {
                namespace.close().unwrap();
            }
            most = most.max(disk_bytes(dir.path()));
            drop(namespace);
            most = most.max(disk_bytes(dir.path()));
        }
        println!("{load:?}: {} KiB on disk at most", most >> 10);
        assert!(most <= MIB, "{load:?}: {} KiB on disk", most >> 10);
        let (namespace, _) = Namespace::open(with_threads(files(dir.path(), 1))).unwrap();
        load.check(&namespace);
    }
}

#[test]
fn a_small_store_writes_less_than_a_mebibyte_through_30_openings_closes_and_kills() {
    for load in [Load::AtOnce, Load::BitByBit] {
        // The snapshot of a close is a file beside the devices, which a simulated disk has none of.
        let snapshots = {
            let dir = tempfile::tempdir().unwrap();
            let (namespace, _) = Namespace::open(with_threads(files(dir.path(), 1))).unwrap();
            Load::AtOnce.write(&namespace, 0);
            namespace.close().unwrap();
            let snapshot = dir.path().join("index.snapshot").metadata().unwrap();
            snapshot.len() * ROUNDS / 2
        };
        let mut device = simulated(1, BLOCKS).remove(0);
        let (mut written, mut sectors) = (0, 0);
        for round in 0..ROUNDS {
            let on = devices(&[Arc::clone(&device)]);
            let (namespace, _) = Namespace::open(with_threads(on)).unwrap();
            load.write(&namespace, round);
            if round % 2 == 0 {
                namespace.close().unwrap();
            }
            drop(namespace);
            written += device.written_bytes();
            sectors += device.synced_bytes();
            device = Arc::new(device.kill().unwrap());
        }
        println!(
            "{load:?}: written {} KiB, synced {} KiB, snapshots {} KiB",
            written >> 10,
            sectors >> 10,
            snapshots >> 10
        );
        let all = written.max(sectors) + snapshots;
        assert!(all <= MIB, "{load:?}: {} KiB written", all >> 10);
        let (namespace, _) = Namespace::open(with_threads(devices(&[device]))).unwrap();
        load.check(&namespace);
    }
}

/// The greatest size allowed for a store with `live_bytes`: half as much again, and 2 MiB.
fn most_bytes(live_bytes: u64) -> u64 {
    live_bytes * 3 / 2 + 2 * MIB
}

#[test]
fn after_a_load_the_disk_holds_half_as_much_again_at_most_and_2_mebibytes() {
    let dir = tempfile::tempdir().unwrap();
    if !has_holes(dir.path()) {
        println!("skipped: the file system knows no holes");
        return;
    }
    let wanted = Options {
        write_lanes: 4,
        ..options(files(dir.path(), 1), BLOCKS)
    };
    let (namespace, _) = Namespace::open(wanted).unwrap();
    let mut record = 0;
    let mut worst: f64 = 0.0;
    // Every 500 puts, since space is taken in steps.
    while namespace.stats().live_bytes < 45 * MIB {
        for _ in 0..500 {
            let payload = vec![7; if record % 10 == 0 { 2_000 } else { 100 }];
            put(&namespace, &digest(record), &payload).unwrap();
            record += 1;
        }
        let stats = namespace.stats();
        let most = most_bytes(stats.live_bytes);
        worst = worst.max(stats.device_bytes as f64 / most as f64);
        assert!(
            stats.device_bytes <= most,
            "{} KiB live, {} KiB on disk",
            stats.live_bytes >> 10,
            stats.device_bytes >> 10
        );
    }
    println!("at most {worst:.2} of what it may take");
}

#[test]
fn a_store_that_shrinks_gives_its_disk_space_back() {
    let dir = tempfile::tempdir().unwrap();
    if !has_holes(dir.path()) {
        println!("skipped: the file system knows no holes");
        return;
    }
    let (namespace, _) = Namespace::open(options(files(dir.path(), 1), BLOCKS)).unwrap();
    let records = 800;
    for record in 0..records {
        put(&namespace, &digest(record), &vec![1; 64 << 10]).unwrap();
    }
    let full = namespace.stats().device_bytes;
    assert!(full > 50 * MIB, "{full}");
    for left in [200, 20, 1] {
        for record in left..records {
            delete(&namespace, &digest(record)).unwrap();
        }
        namespace.maintain().unwrap();
        let stats = namespace.stats();
        let most = most_bytes(stats.live_bytes);
        println!(
            "{left} records: {} KiB live, {} KiB on disk, of which {} KiB may be",
            stats.live_bytes >> 10,
            stats.device_bytes >> 10,
            most >> 10
        );
        // The blocks that are being filled stay: one to write to, one to move into.
        assert!(stats.device_bytes <= most, "{left} records left: {stats:?}");
    }
}

/// A simulated disk, and a store on it without a thread that syncs: the test calls `sync`.
fn under_interval() -> (Arc<SimulatedDevice>, Namespace) {
    let device = simulated(1, BLOCKS).remove(0);
    let wanted = Options {
        durability: Durability::Interval(Duration::from_millis(100)),
        ..options(devices(&[Arc::clone(&device)]), BLOCKS)
    };
    let (namespace, _) = Namespace::open(wanted).unwrap();
    (device, namespace)
}

#[test]
fn a_trickle_of_synced_puts_writes_8_kilobytes_a_put_at_most() {
    const PUTS: u64 = 100;
    let (device, namespace) = under_interval();
    let before = (device.written_bytes(), device.synced_bytes());
    for record in 0..PUTS {
        put(&namespace, &digest(record), &payload(record, 0)).unwrap();
        namespace.sync().unwrap();
    }
    let written = (device.written_bytes() - before.0) / PUTS;
    let sectors = (device.synced_bytes() - before.1) / PUTS;
    println!("{written} B written a put, {sectors} B in sectors");
    assert!(written.max(sectors) <= 8_000, "{written}, {sectors}");
}

#[test]
fn a_stream_of_puts_writes_a_third_more_than_their_bytes_at_most() {
    for (bytes, puts_a_sync) in [(100, 1_000), (100, 10_000), (1_000, 1_000), (20_000, 100)] {
        let (device, namespace) = under_interval();
        let before = (device.written_bytes(), device.synced_bytes());
        let asked = namespace.stats().traffic.requested_bytes;
        for record in 0..20 * puts_a_sync {
            put(&namespace, &digest(record), &vec![5; bytes]).unwrap();
            if record % puts_a_sync == puts_a_sync - 1 {
                namespace.sync().unwrap();
            }
        }
        let asked = (namespace.stats().traffic.requested_bytes - asked) as f64;
        let written = (device.written_bytes() - before.0) as f64 / asked;
        let sectors = (device.synced_bytes() - before.1) as f64 / asked;
        println!("{bytes} B, {puts_a_sync} puts a sync: {written:.3} written, {sectors:.3} synced");
        assert!(
            written.max(sectors) <= 1.3,
            "{bytes} B: {written}, {sectors}"
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn opening_in_memory_backed_files_fills_no_holes() {
    // Pages of a hole that are read through a mapping are taken there, and where none is left that
    // ends the process.
    let shared = Path::new("/dev/shm");
    if !shared.is_dir() {
        eprintln!("skipped: there is no /dev/shm here");
        return;
    }
    let dir = tempfile::tempdir_in(shared).unwrap();
    let open = || {
        let (opened, _) = Namespace::open(options(files(dir.path(), 1), BLOCKS)).unwrap();
        let taken = disk_bytes(dir.path());
        (opened, taken)
    };
    let (namespace, first) = open();
    put(&namespace, &digest(1), &payload(1, 1)).unwrap();
    namespace.close().unwrap();
    drop(namespace);
    let (_namespace, again) = open();
    assert!(
        first < 128 << 10 && again < 256 << 10,
        "{first} bytes of a new store, {again} when it is opened again"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn opening_a_killed_store_in_memory_backed_files_fills_no_holes_of_its_staging_memory() {
    let shared = Path::new("/dev/shm");
    if !shared.is_dir() {
        eprintln!("skipped: there is no /dev/shm here");
        return;
    }
    let dir = tempfile::tempdir_in(shared).unwrap();
    let open = || {
        Namespace::open(options(files(dir.path(), 1), BLOCKS))
            .unwrap()
            .0
    };
    let staging = dir.path().join("device-0.staging");
    let taken = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&staging).unwrap());
    let namespace = open();
    put(&namespace, &digest(1), &payload(1, 1)).unwrap();
    drop(namespace);
    let before = taken();
    let namespace = open();
    assert_eq!(taken(), before);
    assert!(namespace.get(&digest(1), |_| ()).unwrap().is_some());
}
