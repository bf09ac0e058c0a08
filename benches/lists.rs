//! Lists and maps that are edited and read in place, in memory, beside the same done the plain way:
//! the whole collection decoded by rmp-serde, edited, and encoded again.
//!
//! `cargo bench --bench lists`
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

mod support;

use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, measurement::WallTime};
use spikelet::operations::{self, lists, maps};
use spikelet::{
    Error, ListOrder, ListPolicy, ListReturnType, ListWriteFlags, MapOrder, MapPolicy,
    MapReturnType, MapWriteFlags, Operation, Set, Value,
};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};
use support::{BIN, Random, at_once, key, open, run};

/// Elements of a list or map, and how many such records: some 10 MB in all.
const SIZES: [(u64, u64); 4] = [(10, 50_000), (1_000, 2_000), (10_000, 200), (100_000, 20)];

/// Integers are drawn below this: five bytes each, and a duplicate is rare.
const ELEMENT_LIMIT: u64 = 1 << 32;

/// Elements of a page.
const PAGE: u64 = 50;

fn list_policy() -> ListPolicy {
    ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE).persist_index(true)
}

fn map_policy() -> MapPolicy {
    MapPolicy::new(MapOrder::KeyOrdered, MapWriteFlags::empty()).persist_index(true)
}

/// Ascending integers, all distinct, over the whole range that is drawn from.
fn elements(count: u64, random: &mut Random) -> Vec<i64> {
    let stride = ELEMENT_LIMIT / count;
    (0..count)
        .map(|at| (at * stride + random.below(stride)).cast_signed())
        .collect()
}

/// Makes all records anew, in time that is not measured.
fn make(set: &Set, count: u64, records: u64, create: fn(Vec<i64>) -> Operation) {
    let mut random = Random(4);
    for record in 0..records {
        let created = create(elements(count, &mut random));
        let anew = [operations::delete_bin(BIN), created];
        set.operate(&key(record), &anew).unwrap();
    }
}

fn list_of(elements: Vec<i64>) -> Operation {
    let plain = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty()).persist_index(true);
    let items = elements.into_iter().map(Value::from).collect();
    lists::append_items(&plain, BIN, items)
}

fn map_of(elements: Vec<i64>) -> Operation {
    let entries = elements.into_iter().map(|key| (key.into(), 1.into()));
    maps::put_items(&map_policy(), BIN, entries.collect())
}

/// Edits records with several threads. Records grow by a tenth at most, then they are rebuilt.
fn edits(
    group: &mut BenchmarkGroup<'_, WallTime>,
    (count, records): (u64, u64),
    threads: u64,
    create: fn(Vec<i64>) -> Operation,
    edit: fn(i64) -> Operation,
) {
    let (_store, _namespace, set) = open(None);
    let name = format!("{count} elements, {threads} thread(s)");
    group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
        let edits_max = records * (count / 10).max(1);
        let mut seed = 0;
        bencher.iter_custom(|edits| {
            let (mut left, mut time) = (edits, Duration::ZERO);
            while left > 0 {
                make(&set, count, records, create);
                let now = left.min(edits_max);
                left -= now;
                seed += 2;
                let work = |thread: u64| {
                    let mut random = Random(seed + thread);
                    for _ in (thread..now).step_by(threads as usize) {
                        let element = random.below(ELEMENT_LIMIT).cast_signed();
                        let record = key(random.below(records));
                        match set.operate(&record, &[edit(element)]) {
                            Ok(_) | Err(Error::ElementExists { .. }) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                };
                time += if threads == 1 {
                    let start = Instant::now();
                    work(0);
                    start.elapsed()
                } else {
                    at_once(threads, work)
                };
            }
            time
        });
    });
}

/// Reads from records.
fn reads(
    group: &mut BenchmarkGroup<'_, WallTime>,
    (count, records): (u64, u64),
    create: fn(Vec<i64>) -> Operation,
    read: impl Fn(&mut Random) -> Operation,
) {
    let (_store, _namespace, set) = open(None);
    make(&set, count, records, create);
    let mut random = Random(7);
    let name = format!("{count} elements");
    group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
        bencher.iter(|| {
            let record = key(random.below(records));
            set.operate(&record, &[read(&mut random)]).unwrap()
        });
    });
}

/// Measures the plain way, on bytes at hand: no store, no look-up, no copy elsewhere.
fn plain<T>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    count: u64,
    encoded: &[u8],
    work: impl Fn(&[u8], &mut Random) -> T,
) {
    let mut random = Random(7);
    let name = format!("{count} elements, {name}");
    group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
        bencher.iter(|| work(black_box(encoded), &mut random));
    });
}

fn encoded_list(count: u64) -> Vec<u8> {
    rmp_serde::to_vec(&elements(count, &mut Random(4))).unwrap()
}

fn encoded_map(count: u64) -> Vec<u8> {
    let entries = elements(count, &mut Random(4)).into_iter();
    rmp_serde::to_vec(&entries.map(|key| (key, 1)).collect::<BTreeMap<i64, i64>>()).unwrap()
}

fn drawn(random: &mut Random) -> i64 {
    random.below(ELEMENT_LIMIT).cast_signed()
}

fn add_unique(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ADD_UNIQUE");
    group.throughput(Throughput::Elements(1));
    for size in SIZES {
        for threads in [1, 2] {
            edits(&mut group, size, threads, list_of, |element| {
                lists::append(&list_policy(), BIN, element)
            });
        }
        let encoded = encoded_list(size.0);
        plain(
            &mut group,
            "rmp-serde",
            size.0,
            &encoded,
            |bytes, random| {
                let mut list: Vec<i64> = rmp_serde::from_slice(bytes).unwrap();
                let element = drawn(random);
                if let Err(at) = list.binary_search(&element) {
                    list.insert(at, element);
                }
                rmp_serde::to_vec(&list).unwrap()
            },
        );
        plain(
            &mut group,
            "copy of the bytes",
            size.0,
            &encoded,
            |bytes, _| bytes.to_vec(),
        );
    }
}

fn page(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("page of 50 by index");
    for size in SIZES {
        let start = move |random: &mut Random| random.below(size.0.saturating_sub(PAGE) + 1);
        reads(&mut group, size, list_of, |random| {
            let at = start(random).cast_signed();
            lists::get_by_index_range_count(BIN, at, PAGE, ListReturnType::Values)
        });
        let encoded = encoded_list(size.0);
        plain(
            &mut group,
            "rmp-serde",
            size.0,
            &encoded,
            |bytes, random| {
                let list: Vec<i64> = rmp_serde::from_slice(bytes).unwrap();
                let at = start(random) as usize;
                let end = list.len().min(at + PAGE as usize);
                list[at..end].to_vec()
            },
        );
    }
}

fn map_put(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("map put");
    group.throughput(Throughput::Elements(1));
    for size in SIZES {
        edits(&mut group, size, 1, map_of, |key| {
            maps::put(&map_policy(), BIN, key, 1)
        });
        let encoded = encoded_map(size.0);
        plain(
            &mut group,
            "rmp-serde",
            size.0,
            &encoded,
            |bytes, random| {
                let mut map: BTreeMap<i64, i64> = rmp_serde::from_slice(bytes).unwrap();
                map.insert(drawn(random), 1);
                rmp_serde::to_vec(&map).unwrap()
            },
        );
    }
}

fn get_by_key(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("map get_by_key");
    for size in SIZES {
        reads(&mut group, size, map_of, |random| {
            maps::get_by_key(BIN, drawn(random), MapReturnType::Value)
        });
        let encoded = encoded_map(size.0);
        plain(
            &mut group,
            "rmp-serde",
            size.0,
            &encoded,
            |bytes, random| {
                let map: BTreeMap<i64, i64> = rmp_serde::from_slice(bytes).unwrap();
                map.get(&drawn(random)).copied()
            },
        );
    }
}

fn main() {
    run(&[add_unique, page, map_put, get_by_key]);
}
