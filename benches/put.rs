//! Overwrites of whole records and of one bin, in memory.
//!
//! `cargo bench --bench put`
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

mod support;

use criterion::{BenchmarkId, Criterion, Throughput};
use spikelet::operations;
use support::{BIN, Random, fill, key, open, run};

/// Bytes of a value, and how many records of it: beyond the caches.
const VALUES: [(usize, u64); 3] = [(100, 1_000_000), (1 << 10, 100_000), (16 << 10, 10_000)];

fn put(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("put");
    for (bytes, records) in VALUES {
        let (_store, _namespace, set) = open(None);
        let value = vec![7; bytes];
        fill(&set, records, &value);
        let mut random = Random(2);
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::from_parameter(bytes), |bencher| {
            bencher.iter(|| {
                let number = random.below(records);
                set.put(&key(number), [(BIN, &value[..])]).unwrap();
            });
        });
    }
}

fn update(criterion: &mut Criterion) {
    const RECORDS: u64 = 1_000_000;
    let (_store, _namespace, set) = open(None);
    for number in 0..RECORDS {
        set.put(&key(number), [("n", 0)]).unwrap();
        set.put(&key(number), [("name", "somebody")]).unwrap();
    }
    let mut random = Random(3);
    criterion.bench_function("add to one of two bins", |bencher| {
        bencher.iter(|| {
            let number = random.below(RECORDS);
            set.operate(&key(number), &[operations::add("n", 1)])
                .unwrap();
        });
    });
}

fn main() {
    run(&[put, update]);
}
