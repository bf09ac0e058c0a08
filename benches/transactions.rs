//! Transactions of two puts beside the two puts alone, in memory.
//!
//! `cargo bench --bench transactions`
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

mod support;

use criterion::Criterion;
use spikelet::Set;
use support::{BIN, Random, fill, key, open, run};

const RECORDS: u64 = 100_000;

fn two_puts(criterion: &mut Criterion) {
    let (store, namespace, set) = open(None);
    fill(&set, RECORDS, &[7; 100]);
    let mut group = criterion.benchmark_group("two puts");
    let value = [8_u8; 100];
    let mut random = Random(5);
    let mut two = move || (key(random.below(RECORDS)), key(random.below(RECORDS)));
    group.bench_function("alone", |bencher| {
        bencher.iter(|| {
            let (one, other) = two();
            set.put(&one, [(BIN, &value[..])]).unwrap();
            set.put(&other, [(BIN, &value[..])]).unwrap();
        });
    });
    group.bench_function("in a transaction", |bencher| {
        bencher.iter(|| {
            let (one, other) = two();
            let put = |records: &Set| {
                namespace.transaction(|tx| {
                    let records = tx.in_set(records)?;
                    records.put(&one, [(BIN, &value[..])])?;
                    records.put(&other, [(BIN, &value[..])])
                })
            };
            put(&set).unwrap();
        });
    });
    group.bench_function("read and written in a transaction", |bencher| {
        bencher.iter(|| {
            let (one, other) = two();
            let swapped = namespace.transaction(|tx| {
                let records = tx.in_set(&set)?;
                records.get(&one)?;
                records.get(&other)?;
                records.put(&one, [(BIN, &value[..])])?;
                records.put(&other, [(BIN, &value[..])])
            });
            swapped.unwrap();
        });
    });
    drop(store);
}

fn main() {
    run(&[two_puts]);
}
