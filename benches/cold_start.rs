//! Opening a store of a million records from its files, beside a sequential read of the same file
//! with a checksum.
//!
//! `cargo bench --bench cold_start`; the store is made in the directory for temporary files
//! (`TMPDIR`).
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

mod support;

use criterion::{BenchmarkId, Criterion};
use rustix::fs::{Advice, fadvise};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use support::{fill, open, run};
use xxhash_rust::xxh3::Xxh3;

const RECORDS: u64 = 1_000_000;

/// What one read of the sequential reader takes, in bytes.
const PIECE_BYTES: usize = 1 << 20;

/// Where the file is when it is opened.
#[derive(Clone, Copy, Debug)]
enum Pages {
    /// In the page cache.
    Warm,
    /// On the disk alone.
    Cold,
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir.join("bench")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Has the store's files where they are to be.
fn prepare(dir: &Path, pages: Pages) {
    if matches!(pages, Pages::Cold) {
        for file in files(dir) {
            let file = File::open(file).unwrap();
            // Only pages that are on the disk already are let go.
            file.sync_all().unwrap();
            fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        }
    }
}

fn read_all(dir: &Path) -> Duration {
    let mut piece = vec![0; PIECE_BYTES];
    let device = dir.join("bench").join("device-0");
    let start = Instant::now();
    let mut file = File::open(device).unwrap();
    let mut hash = Xxh3::new();
    loop {
        let read = file.read(&mut piece).unwrap();
        if read == 0 {
            break;
        }
        hash.update(&piece[..read]);
    }
    black_box(hash.digest());
    start.elapsed()
}

fn open_timed(dir: &Path, close: bool) -> Duration {
    let start = Instant::now();
    let (store, _namespace, set) = open(Some(dir));
    let time = start.elapsed();
    assert_eq!(set.len(), RECORDS);
    if close {
        store.close().unwrap();
    }
    time
}

fn cold_start(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (store, namespace, set) = open(Some(dir));
    fill(&set, RECORDS, &[7; 100]);
    namespace.sync().unwrap();
    drop((store, namespace, set));

    let mut group = criterion.benchmark_group("a million records of 100 B");
    group.sample_size(10);
    for pages in [Pages::Warm, Pages::Cold] {
        let repeat = |times: u64, once: &dyn Fn() -> Duration| -> Duration {
            (0..times)
                .map(|_| {
                    prepare(dir, pages);
                    once()
                })
                .sum()
        };
        let name = |what: &str| BenchmarkId::new(what, format!("{pages:?}"));
        group.bench_function(name("read and xxh3"), |bencher| {
            bencher.iter_custom(|times| repeat(times, &|| read_all(dir)));
        });
        // Left unclosed, so opening reads the log.
        group.bench_function(name("open, scan"), |bencher| {
            bencher.iter_custom(|times| repeat(times, &|| open_timed(dir, false)));
        });
        open_timed(dir, true);
        group.bench_function(name("open, snapshot"), |bencher| {
            bencher.iter_custom(|times| repeat(times, &|| open_timed(dir, true)));
        });
        // Opened and not closed: the next opening reads the log again.
        drop(open(Some(dir)));
    }
}

fn main() {
    run(&[cold_start]);
}
