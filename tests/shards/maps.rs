//! Sharded maps: each put is found once, under any change of shards.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spikelet::shard::ShardState;
use spikelet::{Error, Key, Set, ShardedMap, Store, Value, WritePolicy};

use crate::common::give_turns;

fn map(store: &Store) -> ShardedMap<Set> {
    let policy = WritePolicy::default().total_timeout(None);
    ShardedMap::new_with(store, "games", "g", "scores", &policy).unwrap()
}

/// New keys that are their own values.
fn fill(map: &ShardedMap<Set>, keys: std::ops::Range<i64>) {
    for key in keys {
        assert!(map.put(key, key).unwrap());
    }
}

fn entry(key: i64, value: i64) -> (Value, Value) {
    (key.into(), value.into())
}

fn key_of(entry: &(Value, Value)) -> i64 {
    match entry.0 {
        Value::Int(key) => key,
        _ => panic!("{entry:?}"),
    }
}

type Change = fn(&ShardedMap<Set>) -> spikelet::Result<ShardState>;

/// Through one record, 2, 4, 8, 4, 2, 1 companions, and back.
const CHANGES: [(Change, u64); 7] = [
    (|map| map.shards().activate(2), 2),
    (|map| map.shards().split(), 4),
    (|map| map.shards().split(), 8),
    (|map| map.shards().merge(), 4),
    (|map| map.shards().merge(), 2),
    (|map| map.shards().merge(), 1),
    (|map| map.shards().deactivate(), 0),
];

/// Everything that can be read, against a plain map.
fn assert_same(map: &ShardedMap<Set>, plain: &BTreeMap<i64, i64>) {
    let all: Vec<_> = plain
        .iter()
        .map(|(key, value)| entry(*key, *value))
        .collect();
    assert_eq!(map.len().unwrap(), all.len() as u64);
    assert_eq!(map.is_empty().unwrap(), all.is_empty());
    assert_eq!(map.iter().collect::<Result<Vec<_>, _>>().unwrap(), all);
    for offset in [0, 1, 17, 250, 499, 5_000] {
        let page: Vec<_> = all.iter().skip(offset).take(30).cloned().collect();
        assert_eq!(
            map.page(offset as u64, 30).unwrap(),
            page,
            "offset {offset}"
        );
    }
    for (from, to) in [(10, 90), (-5, 3), (300, 20_000), (50, 50), (90, 10)] {
        let within = |low: i64, high: i64| {
            let within = all
                .iter()
                .filter(|entry| (low..high).contains(&key_of(entry)));
            within.take(40).cloned().collect::<Vec<_>>()
        };
        let (low, high): (Value, Value) = (from.into(), to.into());
        let found = map.range(Bound::Included(&low), Bound::Excluded(&high), 40);
        assert_eq!(found.unwrap(), within(from, to), "{from}..{to}");
        let found = map.range(Bound::Excluded(&low), Bound::Included(&high), 40);
        assert_eq!(found.unwrap(), within(from + 1, to + 1), "{from}..={to}");
        let found = map.page_after(Some(&low), 40).unwrap();
        assert_eq!(found, within(from + 1, i64::MAX), "after {from}");
    }
    for key in [0, 1, 7, 100, 499, 1_000] {
        let value = plain.get(&key).map(|value| Value::Int(*value));
        assert_eq!(map.contains(&key.into()).unwrap(), value.is_some());
        assert_eq!(map.get(&key.into()).unwrap(), value, "key {key}");
    }
}

#[test]
fn a_map_reads_the_same_through_every_transition() {
    let store = Store::in_memory().unwrap();
    let scores = map(&store);
    let mut plain = BTreeMap::new();
    assert_same(&scores, &plain);
    for (round, (change, shards)) in (0_i64..).zip(CHANGES) {
        for number in 0..200 {
            let key = (number * 37 + round * 11) % 700;
            let is_new = plain.insert(key, number + round).is_none();
            assert_eq!(scores.put(key, number + round).unwrap(), is_new);
        }
        for key in (round..700).step_by(9) {
            let was = plain.remove(&key).map(Value::Int);
            assert_eq!(scores.remove(&key.into()).unwrap(), was);
        }
        assert_same(&scores, &plain);
        assert_eq!(change(&scores).unwrap().shards, shards);
        assert_same(&scores, &plain);
        assert_same(&map(&store), &plain);
    }
    scores.shards().activate(4).unwrap();
    scores.delete().unwrap();
    assert_same(&scores, &BTreeMap::new());
    // The root has nothing but the number of its last transition.
    let set = store.set("games").unwrap();
    assert_eq!(set.len(), 1);
    let root = set.get("g").unwrap().unwrap();
    assert_eq!(
        root.bins()
            .map(|(name, _)| name.to_string())
            .collect::<Vec<_>>(),
        ["subkeys_epoch"]
    );
}

#[test]
fn keys_of_all_types_and_values_of_nil_are_kept_apart() {
    let store = Store::in_memory().unwrap();
    let scores = map(&store);
    let keys: [Value; 4] = [1.into(), "1".into(), Value::Blob(vec![1]), "".into()];
    for sharded in [false, true] {
        for key in &keys {
            assert!(scores.put(key.clone(), Value::Nil).unwrap() != sharded);
            assert_eq!(scores.get(key).unwrap(), Some(Value::Nil));
        }
        assert_eq!(scores.get(&2.into()).unwrap(), None);
        assert_eq!(scores.remove(&2.into()).unwrap(), None);
        let order: Vec<_> = scores.iter().map(|entry| entry.unwrap().0).collect();
        assert_eq!(
            order,
            [1.into(), "".into(), "1".into(), Value::Blob(vec![1])]
        );
        scores.shards().activate(4).unwrap();
    }
    assert_eq!(scores.remove(&"1".into()).unwrap(), Some(Value::Nil));
    assert_eq!(scores.len().unwrap(), 3);
}

#[test]
fn maps_that_others_have_made_without_order_are_read_in_order() {
    let store = Store::in_memory().unwrap();
    let policy = spikelet::MapPolicy::default();
    let put = |key: i64| spikelet::operations::maps::put(&policy, "scores", key, key);
    let operations: Vec<_> = [5, 3, 9, 1].map(put).into();
    store
        .set("games")
        .unwrap()
        .operate("g", &operations)
        .unwrap();
    let scores = map(&store);
    let all = [1, 3, 5, 9].map(|key| entry(key, key));
    assert_eq!(scores.page(0, 10).unwrap(), all);
    assert_eq!(scores.page_after(Some(&1.into()), 2).unwrap(), all[1..3]);
    scores.shards().activate(2).unwrap();
    assert_eq!(scores.page(0, 10).unwrap(), all);
}

#[test]
fn a_companion_that_is_gone_is_an_error_and_no_empty_map() {
    let store = Store::in_memory().unwrap();
    let scores = map(&store);
    fill(&scores, 0..50);
    scores.shards().activate(4).unwrap();
    let set = store.set("games").unwrap();
    assert!(
        set.delete_with(&crate::common::by_force(), "g:2")
            .unwrap()
            .is_some()
    );
    for error in [
        scores.len().unwrap_err(),
        scores.page(0, 10).unwrap_err(),
        (0..50)
            .find_map(|key| scores.get(&key.into()).err())
            .unwrap(),
        (0..50).find_map(|key| scores.put(key, 0).err()).unwrap(),
    ] {
        assert!(
            matches!(error, Error::ShardMissing { shard: 2, .. }),
            "{error}"
        );
    }
}

#[test]
fn integers_and_blobs_are_keys_of_maps_too() {
    let store = Store::in_memory().unwrap();
    for key in [Key::from(-12), Key::from(b"\x00\xff")] {
        let scores = ShardedMap::new(&store, "games", &key, "scores").unwrap();
        fill(&scores, 0..50);
        scores.shards().activate(4).unwrap();
        assert_eq!(scores.len().unwrap(), 50);
        assert_eq!(scores.page(49, 5).unwrap(), [entry(49, 49)]);
    }
    let set = store.set("games").unwrap();
    assert!(set.exists("-12:3").unwrap());
    assert!(set.exists(b"\x00\xff:3").unwrap());
}

#[test]
fn a_stopped_split_is_readable_and_carried_on() {
    let store = Store::in_memory().unwrap();
    let scores = map(&store);
    let mut plain = BTreeMap::new();
    for key in 0..500 {
        scores.put(key, key).unwrap();
        plain.insert(key, key);
    }
    scores.shards().activate(4).unwrap();
    for stop_at in 0..4 {
        let stop = |progress: spikelet::shard::ShardProgress| {
            if progress.done >= stop_at {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let state = scores.shards().on_progress(stop).split().unwrap();
        assert!(state.transition.is_some(), "{state:?}");
        assert_same(&map(&store), &plain);
        scores.shards().advance().unwrap();
        assert_same(&map(&store), &plain);
        scores.shards().merge().unwrap();
    }
}

/// Eight threads write keys of their own and look for them, one reads everything, while the shards
/// change all the time.
#[test]
fn nothing_is_lost_or_seen_twice_while_shards_change() {
    const EACH: i64 = 60;
    let store = Store::in_memory().unwrap();
    // Negative keys are there all the time.
    let scores = map(&store);
    fill(&scores, -200..0);
    let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|thread| {
                let (scores, store, written) = (&scores, &store, &written);
                scope.spawn(move || {
                    let own = map(store);
                    let scores = if thread % 2 == 0 { scores } else { &own };
                    for round in 0..8 {
                        for key in (0..EACH).map(|number| number * 8 + thread) {
                            assert_eq!(scores.put(key, round).unwrap(), round % 2 == 0);
                            assert_eq!(scores.get(&key.into()).unwrap(), Some(round.into()));
                            if round % 2 == 1 {
                                assert_eq!(scores.remove(&key.into()).unwrap(), Some(round.into()));
                                assert_eq!(scores.get(&key.into()).unwrap(), None);
                            }
                            written.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                    (0..EACH).for_each(|number| {
                        assert!(scores.put(number * 8 + thread, thread).unwrap());
                    });
                })
            })
            .collect();
        let (store, done) = (&store, &done);
        scope.spawn(move || {
            let scores = map(store);
            while !done.load(Ordering::SeqCst) {
                let all = scores
                    .range(Bound::Unbounded, Bound::Unbounded, u64::MAX)
                    .unwrap();
                let keys: Vec<_> = all.iter().map(key_of).collect();
                assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
                let stayed = keys.iter().filter(|key| **key < 0).count();
                assert_eq!(stayed, 200);
            }
        });
        let mut rounds = 0;
        while rounds == 0 || !writers.iter().all(|writer| writer.is_finished()) {
            for (change, _) in CHANGES {
                change(&map(store)).unwrap();
                give_turns(&writers, &written, 8);
            }
            rounds += 1;
        }
        done.store(true, Ordering::SeqCst);
    });
    let mut plain: BTreeMap<i64, i64> = (-200..0).map(|key| (key, key)).collect();
    plain.extend((0..EACH * 8).map(|key| (key, key % 8)));
    assert_same(&scores, &plain);
}
