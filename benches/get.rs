//! Reads of one record in memory, lent and owned, beside a `DashMap` of the same keys and values.
//!
//! `cargo bench --bench get`
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

mod support;

use criterion::{BenchmarkId, Criterion};
use dashmap::DashMap;
use std::hint::black_box;
use std::sync::Arc;
use support::{BIN, Key, Random, fill, key, open, run};

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
                black_box(set.get_with(&draw(), seen).unwrap().unwrap())
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

fn main() {
    run(&[get]);
}
