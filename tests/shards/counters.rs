//! Sharded counters: no addition is lost or counted twice, under any change of shards.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spikelet::shard::ShardState;
use spikelet::{Error, RecordSet, RecordStore, Set, ShardedCounter, Store, Value, WritePolicy};

use crate::common::{assert_only_husks_are_left, give_turns};

fn counter(store: &Store) -> ShardedCounter<Set> {
    // Eight writers of one record on two cores: none may time out.
    let policy = WritePolicy::default().total_timeout(None);
    ShardedCounter::new_with(store, "posts", "p", "likes", &policy).unwrap()
}

type Change = fn(&ShardedCounter<Set>) -> spikelet::Result<ShardState>;

fn companions(store: &Store) -> u64 {
    let mut found = 0;
    let records = store.records("posts").unwrap();
    let count =
        &mut |record: &spikelet::Record| found += u64::from(record.get("shard_of").is_some());
    records.scan_records(count).unwrap();
    found
}

#[test]
fn a_counter_in_one_record_is_an_integer_in_a_bin() {
    let store = Store::in_memory().unwrap();
    let likes = counter(&store);
    assert_eq!(likes.read().unwrap(), 0);
    likes.add(5).unwrap();
    likes.add(-7).unwrap();
    assert_eq!(likes.read().unwrap(), -2);
    let record = store.set("posts").unwrap().get("p").unwrap().unwrap();
    assert_eq!(record.get("likes"), Some(Value::Int(-2)));
}

#[test]
fn the_sum_stays_through_every_transition() {
    let store = Store::in_memory().unwrap();
    let likes = counter(&store);
    let mut sum = 0;
    let mut grow = |likes: &ShardedCounter<Set>| {
        for amount in 1..=20 {
            likes.add(amount).unwrap();
            sum += amount;
        }
        assert_eq!(likes.read().unwrap(), sum);
        assert_eq!(counter(&store).read().unwrap(), sum);
    };
    grow(&likes);
    let changes: [(Change, u64); 7] = [
        (|likes| likes.shards().activate(2), 2),
        (|likes| likes.shards().split(), 4),
        (|likes| likes.shards().split(), 8),
        (|likes| likes.shards().merge(), 4),
        (|likes| likes.shards().merge(), 2),
        (|likes| likes.shards().merge(), 1),
        (|likes| likes.shards().deactivate(), 0),
    ];
    for (change, shards) in changes {
        assert_eq!(change(&likes).unwrap().shards, shards);
        assert_eq!(companions(&store), shards);
        grow(&likes);
    }
    likes.shards().activate(4).unwrap();
    likes.delete().unwrap();
    assert_eq!(likes.read().unwrap(), 0);
    assert_eq!(companions(&store), 0);
}

#[test]
fn an_empty_counter_may_be_spread() {
    let store = Store::in_memory().unwrap();
    let likes = counter(&store);
    likes.shards().activate(4).unwrap();
    assert_eq!(likes.read().unwrap(), 0);
    likes.add(i64::MAX).unwrap();
    likes.add(2).unwrap();
    assert_eq!(likes.read().unwrap(), i64::MIN + 1);
}

#[test]
fn additions_go_round_all_shards() {
    let store = Store::in_memory().unwrap();
    let likes = counter(&store);
    likes.shards().activate(8).unwrap();
    (0..16).for_each(|_| likes.add(1).unwrap());
    let set = store.set("posts").unwrap();
    for shard in 0..8 {
        let record = set.get(format!("p:{shard}").as_str()).unwrap().unwrap();
        assert_eq!(record.get("likes"), Some(Value::Int(2)), "shard {shard}");
    }
}

#[test]
fn a_transition_that_was_stopped_is_carried_on_by_the_next_addition() {
    let store = Store::in_memory().unwrap();
    let likes = counter(&store);
    likes.add(3).unwrap();
    let mut steps = 0;
    let stop = |_| {
        steps += 1;
        if steps == 2 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let state = likes.shards().on_progress(stop).activate(4).unwrap();
    assert!(state.transition.is_some(), "{state:?}");
    assert_eq!(likes.read().unwrap(), 3);
    likes.add(4).unwrap();
    assert_eq!(likes.shards().state().unwrap().transition, None);
    assert_eq!(likes.shards().state().unwrap().shards, 4);
    assert_eq!(likes.read().unwrap(), 7);
}

#[test]
fn a_bin_that_is_no_integer_is_refused() {
    let store = Store::in_memory().unwrap();
    store
        .set("posts")
        .unwrap()
        .put("p", [("likes", "many")])
        .unwrap();
    let likes = counter(&store);
    for error in [likes.add(1).unwrap_err(), likes.read().unwrap_err()] {
        assert!(matches!(error, Error::IncompatibleType { .. }), "{error}");
    }
    assert!(likes.shards().activate(2).is_err());
}

/// Eight threads add, with handles of their own or one they share, and two read, while the shards
/// change all the time.
#[test]
fn no_addition_is_lost_while_shards_change() {
    let store = Store::in_memory().unwrap();
    let shared = counter(&store);
    let done = AtomicBool::new(false);
    let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let adders: Vec<_> = (0..8)
            .map(|thread| {
                let (shared, store, begun, ended) = (&shared, &store, &begun, &ended);
                scope.spawn(move || {
                    let own = counter(store);
                    let likes = if thread % 2 == 0 { shared } else { &own };
                    for _ in 0..1_500 {
                        begun.fetch_add(1, Ordering::SeqCst);
                        likes.add(1).unwrap();
                        ended.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let (store, done, begun, ended) = (&store, &done, &begun, &ended);
            scope.spawn(move || {
                let likes = counter(store);
                while !done.load(Ordering::SeqCst) {
                    let at_least = ended.load(Ordering::SeqCst);
                    let read = likes.read().unwrap().unsigned_abs();
                    let at_most = begun.load(Ordering::SeqCst);
                    assert!(
                        (at_least..=at_most).contains(&read),
                        "{at_least} {read} {at_most}"
                    );
                }
            });
        }
        let changes: [Change; 7] = [
            |likes| likes.shards().activate(2),
            |likes| likes.shards().split(),
            |likes| likes.shards().split(),
            |likes| likes.shards().merge(),
            |likes| likes.shards().merge(),
            |likes| likes.shards().merge(),
            |likes| likes.shards().deactivate(),
        ];
        let mut rounds = 0;
        while rounds == 0 || !adders.iter().all(|adder| adder.is_finished()) {
            for change in changes {
                change(&counter(&store)).unwrap();
                give_turns(&adders, &ended, 8);
            }
            rounds += 1;
        }
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(shared.read().unwrap(), 8 * 1_500);
    assert_only_husks_are_left(&store.records("posts").unwrap());
}
