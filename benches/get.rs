//! Reads of one record in memory, lent and owned, beside a `DashMap` of the same keys and values;
//! and reads of random records of a mapped file, in batches and one by one.
//!
//! `cargo bench --bench get`
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

mod support;

use criterion::{BenchmarkId, Criterion, Throughput};
use dashmap::DashMap;
use spikelet::Record;
use spikelet::record::KeyHash;
use std::hint::black_box;
use std::sync::Arc;
use support::{BIN, Key, Random, fill, key, open, open_hashing, run};

/// Far beyond the caches, and within them.
const RECORDS: [u64; 2] = [1_000_000, 1_000];

const VALUE: [u8; 100] = [7; 100];

fn get(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("get 100 B");
    for records in RECORDS {
        let mut random = Random(1);
        let keys: Vec<Key> = (0..records).map(key).collect();
        let mut draw = move || keys[random.below(records) as usize];

        let (_store, _namespace, set) = open(None);
        fill(&set, records, &VALUE);
        group.bench_function(BenchmarkId::new("lent", records), |bencher| {
            bencher.iter(|| {
                let seen = |record: spikelet::RecordView<'_>| {
                    record
                        .bin(BIN)
                        .and_then(|value| value.as_blob())
                        .map(|value| value[50])
                };
                black_box(set.read(&draw(), seen).unwrap().unwrap())
            });
        });
        group.bench_function(BenchmarkId::new("owned record", records), |bencher| {
            bencher.iter(|| black_box(set.get(&draw()).unwrap().unwrap()));
        });
        drop(set);

        let map: DashMap<Key, Arc<[u8]>> = DashMap::new();
        for number in 0..records {
            map.insert(key(number), VALUE[..].into());
        }
        group.bench_function(BenchmarkId::new("DashMap, lent", records), |bencher| {
            bencher.iter(|| black_box(map.get(&draw()).map(|value| value[50]).unwrap()));
        });
    }
}

/// Far beyond the caches, in a mapped file.
const BATCH_RECORDS: u64 = 2_000_000;

/// Keys drawn beforehand, adjacent in memory: reading them costs no cache miss of its own.
const DRAWS: usize = 1 << 19;

const BATCHES: [usize; 3] = [8, 16, 64];

/// Reads a byte of a record's value, which loads its cache line.
fn peek(record: spikelet::RecordView<'_>) -> u8 {
    let value = record.bin(BIN).and_then(|value| value.as_blob());
    value.map_or(0, |value| value[50])
}

fn batch(criterion: &mut Criterion) {
    for hash in [KeyHash::Xxh3, KeyHash::Ripemd160] {
        let mut group = criterion.benchmark_group(format!("batches 100 B {hash:?}"));
        let dir = tempfile::tempdir().unwrap();
        let (_store, _namespace, set) = open_hashing(Some(dir.path()), hash);
        fill(&set, BATCH_RECORDS, &VALUE);
        let mut random = Random(1);
        let drawn: Vec<Key> = (0..DRAWS)
            .map(|_| key(random.below(BATCH_RECORDS)))
            .collect();
        for count in BATCHES {
            let mut batches = drawn.chunks_exact(count).cycle();
            let mut draw = || batches.next().unwrap();
            group.throughput(Throughput::Elements(count as u64));
            group.bench_function(BenchmarkId::new("one by one, lent", count), |bencher| {
                bencher.iter(|| -> u64 {
                    let peek = |key| u64::from(set.read(key, peek).unwrap().unwrap());
                    draw().iter().map(peek).sum()
                });
            });
            group.bench_function(BenchmarkId::new("one by one, owned", count), |bencher| {
                bencher.iter(|| -> Vec<Record> {
                    let get = |key| set.get(key).unwrap().unwrap();
                    draw().iter().map(get).collect()
                });
            });
            group.bench_function(BenchmarkId::new("batch, lent", count), |bencher| {
                bencher.iter(|| {
                    let mut sum = 0;
                    set.read_batch(draw(), |_, record| {
                        sum += u64::from(peek(record.unwrap().unwrap()));
                    });
                    sum
                });
            });
            group.bench_function(BenchmarkId::new("batch, owned", count), |bencher| {
                bencher.iter(|| set.get_batch(draw()));
            });
        }
    }
}

fn main() {
    run(&[get, batch]);
}
