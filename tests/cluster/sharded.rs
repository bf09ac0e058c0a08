//! Sharded collections in a cluster: the same handles, unchanged.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use spikelet::cluster::ClusterSet;
use spikelet::shard::{ShardPolicy, sharded_collections};
use spikelet::{RecordStore, Result, ShardedCounter, ShardedList, ShardedMap, Value, WritePolicy};

use crate::common::Served;
use crate::watched::counted;

const RECORD_TOO_BIG: u8 = 13;

fn ints(from: i64, to: i64) -> Vec<Value> {
    (from..to).map(Value::Int).collect()
}

#[test]
fn a_list_moves_into_shards_and_back() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let list = ShardedList::new(&cluster, "s", "alice", "by").unwrap();
    let list = list.policy(ShardPolicy::manual());
    for element in 0..200 {
        assert!(list.add(element).unwrap());
    }
    assert!(!list.add(7).unwrap());
    let whole = |list: &ShardedList<ClusterSet>| -> Vec<Value> {
        list.iter().collect::<Result<_>>().unwrap()
    };
    for step in 0..6 {
        let state = match step {
            0 => list.shards().activate(4).unwrap(),
            1 => list.shards().split().unwrap(),
            2 => list.shards().merge().unwrap(),
            3 => list.shards().merge().unwrap(),
            4 => list.shards().merge().unwrap(),
            _ => list.shards().deactivate().unwrap(),
        };
        assert_eq!(state.shards, [4, 8, 4, 2, 1, 0][step]);
        assert_eq!(whole(&list), ints(0, 200), "step {step}");
        assert!(list.contains(&199.into()).unwrap());
        assert!(list.remove(&199.into()).unwrap() && list.add(199).unwrap());
        assert_eq!(list.len().unwrap(), 200);
    }
    list.delete().unwrap();
    assert_eq!(list.len().unwrap(), 0);
}

#[test]
fn maps_and_counters_are_sharded_too() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let map = ShardedMap::new(&cluster, "s", 7, "m").unwrap();
    let counter = ShardedCounter::new(&cluster, "s", 7, "c").unwrap();
    for number in 0..100 {
        map.put(number, format!("value {number}")).unwrap();
        counter.add(number).unwrap();
    }
    map.shards().activate(4).unwrap();
    counter.shards().activate(2).unwrap();
    for number in 0..100 {
        map.put(number, number).unwrap();
        counter.add(1).unwrap();
    }
    assert_eq!(map.get(&42.into()).unwrap(), Some(42.into()));
    assert_eq!(map.remove(&42.into()).unwrap(), Some(42.into()));
    assert_eq!((map.len().unwrap(), counter.read().unwrap()), (99, 5_050));
    map.shards().merge().unwrap();
    map.shards().deactivate().unwrap();
    assert_eq!(
        map.page(0, 2).unwrap(),
        [(0.into(), 0.into()), (1.into(), 1.into())]
    );
    let records = cluster.records("s").unwrap();
    let found = sharded_collections(&records).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].bin.as_deref(), Some("c"));
}

#[test]
fn a_list_is_sharded_by_its_size_and_by_a_record_that_is_too_large() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    for (key, bytes_max) in [("by size", 20_000), ("by refusal", 10 << 20)] {
        let list = ShardedList::new(&cluster, "s", key, "by").unwrap();
        let list = list.policy(ShardPolicy::manual().record_bytes_max(bytes_max));
        let element = |number: usize| match key {
            "by size" => format!("{number:0>200}"),
            _ => "x".repeat(100_000) + &number.to_string(),
        };
        let count = if key == "by size" { 300 } else { 15 };
        for number in 0..count {
            assert!(list.add(element(number)).unwrap());
        }
        assert!(list.shards().state().unwrap().shards > 1, "{key}");
        assert_eq!(list.len().unwrap(), count as u64);
    }
}

#[test]
fn a_merge_that_no_record_could_hold_is_not_begun_where_servers_do_not_tell_sizes() {
    let served = Served::in_memory();
    let (cluster, _) = counted(served.cluster());
    for cluster in [cluster.clone(), cluster.hiding_sizes()] {
        let list = ShardedList::new(&cluster, "s", "large", "by").unwrap();
        let list = list.policy(ShardPolicy::manual());
        list.add(0).unwrap();
        list.shards().activate(2).unwrap();
        for number in 0..12 {
            list.add("x".repeat(100_000) + &number.to_string()).unwrap();
        }
        for refused in [list.shards().merge(), list.shards().deactivate()] {
            let code = refused.unwrap_err().result_code();
            assert_eq!(code, RECORD_TOO_BIG);
        }
        let state = list.shards().state().unwrap();
        assert_eq!((state.shards, state.transition), (2, None));
        assert_eq!(list.len().unwrap(), 13);
        list.delete().unwrap();
    }
}

#[test]
fn a_page_over_sixteen_shards_takes_at_most_two_round_trips_a_step() {
    let served = Served::in_memory();
    let (cluster, trips) = counted(served.cluster());
    let list = ShardedList::new(&cluster, "s", "paged", "by").unwrap();
    let list = list.policy(ShardPolicy::manual());
    for element in 0..500 {
        list.add(element).unwrap();
    }
    list.shards().activate(16).unwrap();
    let cold = ShardedList::new(&cluster, "s", "paged", "by").unwrap();
    // A handle that knows nothing yet reads the root first.
    for (list, at_first) in [(&list, 2), (&cold, 3)] {
        let mut after = None;
        for page in 0..10 {
            trips.set(0);
            let found = list.page_after(after.as_ref(), 50).unwrap();
            assert_eq!(found, ints(page * 50, page * 50 + 50));
            let most = if page == 0 { at_first } else { 2 };
            assert!(
                (1..=most).contains(&trips.get()),
                "page {page}: {}",
                trips.get()
            );
            after = found.last().cloned();
        }
    }
    trips.set(0);
    // By position it takes two steps: where the page begins, and the page.
    assert_eq!(list.page(100, 50).unwrap(), ints(100, 150));
    assert!(trips.get() <= 4, "{}", trips.get());
    trips.set(0);
    assert_eq!(list.len().unwrap(), 500);
    assert_eq!(trips.get(), 1);
}

#[test]
fn writers_lose_nothing_while_shards_change() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let patient = WritePolicy::default().total_timeout(None);
    let list = || {
        let list = ShardedList::new_with(&cluster, "s", "busy", "by", &patient).unwrap();
        list.policy(ShardPolicy::manual())
    };
    let stop = AtomicBool::new(false);
    let added = thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (list, stop) = (list(), &stop);
                scope.spawn(move || {
                    let mut number = 0;
                    while !stop.load(Ordering::Relaxed) {
                        assert!(list.add(writer * 1_000_000 + number).unwrap());
                        number += 1;
                    }
                    number
                })
            })
            .collect();
        let list = list();
        for _ in 0..3 {
            list.shards().activate(2).unwrap();
            list.shards().split().unwrap();
            list.shards().merge().unwrap();
            list.shards().merge().unwrap();
            list.shards().deactivate().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect::<Vec<i64>>()
    });
    let expected: Vec<Value> = (0..4)
        .zip(added)
        .flat_map(|(writer, count)| ints(writer * 1_000_000, writer * 1_000_000 + count))
        .collect();
    assert_eq!(list().iter().collect::<Result<Vec<_>>>().unwrap(), expected);
}
