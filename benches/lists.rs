//! ADD_UNIQUE of one new integer into ordered lists with a persisted index, in memory, by one and two threads.
//!
//! `cargo bench --bench lists`
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

mod support;

use criterion::{BenchmarkId, Criterion, Throughput};
use spikelet::operations::{self, lists};
use spikelet::{Error, ListOrder, ListPolicy, ListWriteFlags, Set, Value};
use std::time::Duration;
use support::{BIN, Random, at_once, key, open, run};

/// Elements of a list, and how many such lists: some 10 MB in all.
const LISTS: [(u64, u64); 3] = [(10, 50_000), (1_000, 2_000), (10_000, 200)];

/// Integers are drawn below this: five bytes each, and a duplicate is rare.
const ELEMENT_LIMIT: u64 = 1 << 32;

fn policy() -> ListPolicy {
    ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE).persist_index()
}

/// Makes all lists anew, in time that is not measured.
fn make(set: &Set, elements: u64, lists: u64) {
    let mut random = Random(4);
    for list in 0..lists {
        let items: Vec<Value> = (0..elements)
            .map(|at| ((at << 20) + random.below(1 << 20)).cast_signed().into())
            .collect();
        let plain = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::empty()).persist_index();
        let anew = [
            operations::delete_bin(BIN),
            lists::append_items(&plain, BIN, items),
        ];
        set.operate(&key(list), &anew).unwrap();
    }
}

fn edit(set: &Set, lists: u64, random: &mut Random) {
    let element = random.below(ELEMENT_LIMIT).cast_signed();
    match set.operate(
        &key(random.below(lists)),
        &[lists::append(&policy(), BIN, element)],
    ) {
        Ok(_) | Err(Error::ElementExists { .. }) => {}
        Err(other) => panic!("{other}"),
    }
}

fn add_unique(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ADD_UNIQUE");
    group.throughput(Throughput::Elements(1));
    for (elements, lists) in LISTS {
        let (_store, _namespace, set) = open(None);
        for threads in [1, 2] {
            let name = format!("{elements} elements, {threads} thread(s)");
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                // Lists grow by a tenth at most, then they are made anew.
                let edits_max = lists * (elements / 10).max(1);
                let mut seed = 0;
                bencher.iter_custom(|edits| {
                    let (mut left, mut time) = (edits, Duration::ZERO);
                    while left > 0 {
                        make(&set, elements, lists);
                        let now = left.min(edits_max);
                        left -= now;
                        seed += 2;
                        time += at_once(threads, |thread| {
                            let mut random = Random(seed + thread);
                            for _ in (thread..now).step_by(threads as usize) {
                                edit(&set, lists, &mut random);
                            }
                        });
                    }
                    time
                });
            });
        }
    }
}

fn main() {
    run(&[add_unique]);
}
