//! Secondary indexes in memory: what a put costs with one, pages, counts, and scans with a filter.
//!
//! `cargo bench --bench queries`
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

mod support;

use criterion::{Criterion, Throughput};
use spikelet::expressions::{gt, int_bin};
use spikelet::query::{IndexDefinition, Query};
use spikelet::{Set, Store, bins};
use std::ops::ControlFlow;
use support::{Random, open, run};

const RECORDS: u64 = 1_000_000;
const PARENTS: u64 = 20_000;

/// 16 bytes of text.
fn parent(number: u64) -> String {
    format!("parent-{number:09}")
}

fn put_all(set: &Set, index: Option<IndexDefinition>) {
    if let Some(index) = index {
        set.create_index(index).unwrap();
    }
    for id in 0..RECORDS {
        put(set, id, id % PARENTS, 0);
    }
}

fn put(set: &Set, id: u64, of: u64, role: u64) {
    let bins = bins! { "parent" => parent(of), "role" => role as i64, "n" => id as i64 };
    set.put(id as i64, bins).unwrap();
}

fn by_parent() -> IndexDefinition {
    IndexDefinition::new("by_parent", ["parent"])
}

fn puts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("put");
    let (_plain_store, _namespace, plain) = open(None);
    put_all(&plain, None);
    let (_store, namespace, indexed) = open(None);
    put_all(&indexed, Some(by_parent()));
    let stats = namespace.indexes().remove(0);
    let per_entry = stats.memory_bytes as f64 / stats.entries as f64;
    println!(
        "{} entries of 16-byte keys: {per_entry:.1} bytes each",
        stats.entries
    );
    for (name, set, changes) in [
        ("without an index", &plain, false),
        ("with one, same key", &indexed, false),
        ("without an index, another parent", &plain, true),
        ("with one, another key", &indexed, true),
    ] {
        let mut random = Random(2);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let id = random.below(RECORDS);
                let of = if changes {
                    random.below(PARENTS)
                } else {
                    id % PARENTS
                };
                put(set, id, of, 0);
            });
        });
    }
}

fn pages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("query");
    let (_store, _namespace, set) = open(None);
    put_all(&set, Some(by_parent()));
    let query =
        |number: u64| -> Query { set.query("by_parent").unwrap().eq(parent(number)).limit(50) };
    let mut random = Random(4);
    group.throughput(Throughput::Elements(50));
    group.bench_function("page of 50 records", |bencher| {
        bencher.iter(|| query(random.below(PARENTS)).records().unwrap().len());
    });
    group.bench_function("page of 50 keys", |bencher| {
        bencher.iter(|| query(random.below(PARENTS)).keys().unwrap().len());
    });
    group.bench_function("count of 50", |bencher| {
        bencher.iter(|| query(random.below(PARENTS)).count().unwrap());
    });
    let thousand = || {
        set.query("by_parent")
            .unwrap()
            .at_least(parent(100))
            .limit(1000)
    };
    group.throughput(Throughput::Elements(1000));
    group.bench_function("1000 records lent", |bencher| {
        bencher.iter(|| {
            let mut bytes = 0;
            let _ = thousand().for_each(|record| {
                bytes += record.unwrap().stored_bytes;
                ControlFlow::<()>::Continue(())
            });
            bytes
        });
    });
}

fn scans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("scan");
    group.sample_size(10);
    let store = Store::in_memory().unwrap();
    let set = store.set("things").unwrap();
    put_all(&set, None);
    group.throughput(Throughput::Elements(RECORDS));
    let filtered = set
        .filtered(gt(int_bin("n"), RECORDS as i64 - 1000))
        .unwrap();
    for (name, set) in [("all", &set), ("with a filter", &filtered)] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut count = 0;
                let _ = set.scan(|record| {
                    count += u64::from(record.is_ok());
                    ControlFlow::<()>::Continue(())
                });
                count
            });
        });
    }
}

fn main() {
    run(&[puts, pages, scans]);
}
