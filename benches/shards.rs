//! Sharded lists: what a call costs beside the operation that it is, pages of the whole, and many
//! writers of one hot list.
//!
//! `cargo bench --bench shards`
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

mod support;

use criterion::{BenchmarkId, Criterion};
use hdrhistogram::Histogram;
use spikelet::expressions::{and, bin_exists, eq, list_bin, not};
use spikelet::operations::lists;
use spikelet::policy::RecordExistsAction;
use spikelet::shard::ShardPolicy;
use spikelet::{
    Expiration, ListOrder, ListPolicy, ListReturnType, ListWriteFlags, Set, ShardedList, Store,
    Value, WritePolicy,
};
use std::hint::black_box;
use std::ops::Bound;
use std::sync::Mutex;
use std::time::Instant;
use support::{Random, at_once, run};

/// Elements of the list that is paged: as many as one record holds, five bytes each.
const PAGED: u64 = 150_000;
const PAGE: u64 = 50;

/// Elements of the hot list when the writers begin.
const HOT: u64 = 10_000;
const WRITERS: u64 = 16;
/// Elements that each writer adds.
const ADDED: u64 = 2_000;
/// An odd number: the median is one of them.
const ROUNDS: u64 = 3;

/// Elements of each record that single calls are made on.
const CALLED: u64 = 1_000;

/// An addition and a removal by a handle, and the same operations on the same record with a filter
/// like the handle's.
fn calls(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("add and remove, 1,000 elements a record");
    for shards in [0, 16] {
        let store = Store::in_memory().unwrap();
        let set = store.set("followers").unwrap();
        let list = ShardedList::new(&store, "followers", "alice", "by").unwrap();
        for element in 0..CALLED * shards.max(1) {
            list.add(element as i64).unwrap();
        }
        let policy = WritePolicy::default();
        let (key, policy) = if shards == 0 {
            let filter = and([not(bin_exists("subkeys")), not(bin_exists("shard_of"))]);
            ("alice", policy.filter(filter))
        } else {
            list.shards().activate(shards).unwrap();
            let key = "alice:0";
            let shard_of = set.get(key).unwrap().unwrap().get("shard_of").unwrap();
            let filter = and([
                eq(list_bin("shard_of"), shard_of),
                not(bin_exists("frozen")),
                bin_exists("by"),
            ]);
            let policy = policy
                .record_exists_action(RecordExistsAction::UpdateOnly)
                .expiration(Expiration::Never)
                .filter(filter);
            (key, policy)
        };
        let unique =
            ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL | ListWriteFlags::DO_PARTIAL;
        let order = ListPolicy::new(ListOrder::Ordered, unique).persist_index(true);
        let mut random = Random(7);
        let mut next = || Value::Int((random.next() >> 8).cast_signed());
        let name = |what: &str| BenchmarkId::new(what, format!("{shards} shards"));
        group.bench_function(name("ShardedList"), |bencher| {
            bencher.iter(|| {
                let element = next();
                list.add(element.clone()).unwrap() && list.remove(&element).unwrap()
            });
        });
        group.bench_function(name("operate"), |bencher| {
            bencher.iter(|| {
                let element = next();
                let add = lists::append(&order, "by", element.clone());
                set.operate_with(&policy, key, &[lists::size("by"), add])
                    .unwrap();
                let remove = lists::remove_by_value("by", element, ListReturnType::Count);
                set.operate_with(&policy, key, &[remove]).unwrap()
            });
        });
    }
    group.finish();
}

/// Makes a list of these elements, in one record for 0 shards, else over `shards` companions.
fn list(elements: Vec<Value>, shards: u64) -> ShardedList<Set> {
    let store = Store::in_memory().unwrap();
    let order = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty()).persist_index(true);
    let items = lists::append_items(&order, "by", elements);
    let set = store.set("followers").unwrap();
    set.operate("alice", &[items]).unwrap();
    let list = ShardedList::new(&store, "followers", "alice", "by").unwrap();
    if shards > 0 {
        list.shards().activate(shards).unwrap();
    }
    list.policy(ShardPolicy::manual())
}

/// A page from the middle by its position, a page behind an element, and the same by reading
/// everything.
fn pages(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pages of 150,000 elements");
    for shards in [0, 4, 16] {
        let spread = (0..PAGED).map(|number| Value::Int((number << 14).cast_signed()));
        let list = list(spread.collect(), shards);
        let middle = list.page(PAGED / 2, PAGE).unwrap();
        assert_eq!(middle.len() as u64, PAGE);
        let name = |what: &str| BenchmarkId::new(what, format!("{shards} shards"));
        group.bench_function(name("page(75000, 50)"), |bencher| {
            bencher.iter(|| list.page(black_box(PAGED / 2), PAGE).unwrap());
        });
        group.bench_function(name("page_after(element, 50)"), |bencher| {
            bencher.iter(|| list.page_after(black_box(middle.first()), PAGE).unwrap());
        });
        group.bench_function(name("everything, then 50"), |bencher| {
            bencher.iter(|| {
                let all = list.range(Bound::Unbounded, Bound::Unbounded, u64::MAX);
                let from = black_box(PAGED / 2) as usize;
                all.unwrap()[from..from + PAGE as usize].to_vec()
            });
        });
    }
    group.finish();
}

/// An element of 16 bytes as it is stored.
fn element(random: &mut Random) -> Value {
    let mut bytes = random.next().to_be_bytes().to_vec();
    bytes.extend_from_slice(&random.next().to_be_bytes()[..6]);
    Value::Blob(bytes)
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).unwrap()
}

/// One round with its number of shards.
#[derive(Debug)]
struct Ran {
    adds_a_second: f64,
    latency_ns: Histogram<u64>,
}

fn add_by_many(shards: u64, round: u64) -> Ran {
    let mut random = Random(round);
    let list = list((0..HOT).map(|_| element(&mut random)).collect(), shards);
    let all = Mutex::new(histogram());
    let elapsed = at_once(WRITERS, |writer| {
        let mut random = Random((round + 1) << 32 | writer);
        let mut latency_ns = histogram();
        for _ in 0..ADDED {
            let element = element(&mut random);
            let before = Instant::now();
            list.add(element).unwrap();
            latency_ns.saturating_record(before.elapsed().as_nanos() as u64);
        }
        all.lock().unwrap().add(&latency_ns).unwrap();
    });
    assert_eq!(list.len().unwrap(), HOT + WRITERS * ADDED);
    Ran {
        adds_a_second: (WRITERS * ADDED) as f64 / elapsed.as_secs_f64(),
        latency_ns: all.into_inner().unwrap(),
    }
}

fn writers() {
    println!(
        "{WRITERS} writers, {ADDED} adds of 16 B each, into a list of {HOT}; latencies in us; \
         medians of {ROUNDS} rounds"
    );
    if let Ok(load) = std::fs::read_to_string("/proc/loadavg") {
        println!("load average {}", load.trim_end());
    }
    println!(
        "{:>10} {:>10} {:>8} {:>8} {:>9}",
        "records", "adds/s", "p50", "p99", "p99.9"
    );
    for shards in [0, 2, 4, 8, 16] {
        let runs: Vec<_> = (0..ROUNDS)
            .map(|round| add_by_many(shards, round))
            .collect();
        let median = |of: &dyn Fn(&Ran) -> f64| {
            let mut values: Vec<f64> = runs.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let micros =
            |quantile| median(&|run| run.latency_ns.value_at_quantile(quantile) as f64 / 1e3);
        println!(
            "{:>10} {:>10.0} {:>8.1} {:>8.0} {:>9.0}",
            shards.max(1),
            median(&|run| run.adds_a_second),
            micros(0.5),
            micros(0.99),
            micros(0.999),
        );
    }
}

fn main() {
    run(&[calls, pages]);
    if std::env::args().any(|argument| argument == "--bench") {
        writers();
    }
}
