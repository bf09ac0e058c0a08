//! Sharded lists from outside: the view of callers while a list is activated, splits, merges and is
//! deleted, and the errors for damaged sets of records.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use spikelet::shard::{ShardPolicy, ShardProgress, ShardState, ShardTransition};
use spikelet::{Error, RecordSet, Result, Set, ShardedList, Store, Value, WritePolicy, operations};

use crate::common::{assert_only_husks_are_left, by_force, give_turns};
use crate::watched::{Calls, Watched};

const SET: &str = "followers";
const KEY: &str = "alice";
const BIN: &str = "by";

fn list_of(store: &Store) -> ShardedList<Set> {
    // Many writers on two cores: none may time out.
    let patient = WritePolicy::default().total_timeout(None);
    ShardedList::new_with(store, SET, KEY, BIN, &patient)
        .unwrap()
        .policy(ShardPolicy::manual())
}

fn filled(store: &Store, count: i64) -> ShardedList<Set> {
    let list = list_of(store);
    for element in 0..count {
        assert!(list.add(element).unwrap());
    }
    list
}

fn ints(from: i64, to: i64) -> Vec<Value> {
    (from..to).map(Value::Int).collect()
}

fn elements(list: &ShardedList<impl RecordSet>) -> Vec<Value> {
    list.iter().collect::<Result<_>>().unwrap()
}

#[test]
fn a_list_in_one_record_and_one_in_shards_cost_one_operation_a_call() {
    let noted = Calls::default();
    let store = Watched::new(Store::in_memory().unwrap(), &noted);
    let list = ShardedList::new(&store, SET, KEY, BIN).unwrap();
    let calls = |what: &dyn Fn()| {
        noted.take();
        what();
        noted.take().len()
    };
    assert_eq!(calls(&|| assert!(list.add(1).unwrap())), 1);
    let each: [&dyn Fn(); 5] = [
        &|| assert!(list.add(2).unwrap()),
        &|| assert!(list.contains(&2.into()).unwrap()),
        &|| assert!(!list.contains(&3.into()).unwrap()),
        &|| assert!(list.remove(&2.into()).unwrap()),
        &|| assert!(!list.remove(&2.into()).unwrap()),
    ];
    for call in each {
        assert_eq!(calls(call), 1);
    }
    assert_eq!(calls(&|| assert_eq!(list.len().unwrap(), 1)), 1);
    list.shards().activate(4).unwrap();
    for call in each {
        assert_eq!(calls(call), 1);
    }
    assert_eq!(calls(&|| assert_eq!(list.len().unwrap(), 1)), 4);
    // Another handle looks into the root first, once.
    let other = ShardedList::new(&store, SET, KEY, BIN).unwrap();
    assert_eq!(calls(&|| assert!(other.contains(&1.into()).unwrap())), 2);
    assert_eq!(calls(&|| assert!(other.contains(&1.into()).unwrap())), 1);
}

#[test]
fn whatever_is_watched_a_call_asks_a_record_no_more_than_its_caller_wants_to_know() {
    for policy in [
        ShardPolicy::manual(),
        ShardPolicy::default(),
        ShardPolicy::default().elements_max(1_000).contention(true),
    ] {
        let noted = Calls::default();
        let store = Watched::new(Store::in_memory().unwrap(), &noted);
        let list = ShardedList::new(&store, SET, KEY, BIN).unwrap();
        let list = list.policy(policy);
        list.add(0).unwrap();
        for shards in [0, 4] {
            if shards > 0 {
                list.shards().activate(shards).unwrap();
            }
            noted.take_operations();
            assert!(list.add(7).unwrap() && list.remove(&7.into()).unwrap());
            // An addition also asks for the size before, which shows whether the element is new.
            assert_eq!(noted.take_operations(), [2, 1], "{policy:?}");
        }
        assert!(list.contains(&0.into()).unwrap());
        assert_eq!(noted.take_operations(), [1]);
    }
}

#[test]
fn a_list_is_the_same_in_one_record_in_shards_and_back() {
    let store = Store::in_memory().unwrap();
    let list = filled(&store, 1_000);
    let check = |shards: u64, state: ShardState| {
        assert_eq!((state.shards, state.transition), (shards, None));
        assert_eq!(list.shards().state().unwrap(), state);
        assert_eq!(list.len().unwrap(), 1_000);
        assert_eq!(list.page(500, 3).unwrap(), ints(500, 503));
        assert_eq!(list.page(2_000, 3).unwrap(), []);
        assert_eq!(
            list.page_after(Some(&997.into()), 9).unwrap(),
            ints(998, 1_000)
        );
        assert_eq!(elements(&list), ints(0, 1_000));
        assert!(!list.add(7).unwrap());
        assert!(list.remove(&7.into()).unwrap() && !list.contains(&7.into()).unwrap());
        assert!(list.add(7).unwrap() && list.contains(&7.into()).unwrap());
    };
    check(0, list.shards().state().unwrap());
    check(4, list.shards().activate(4).unwrap());
    check(16, list.shards().activate(16).unwrap());
    check(16, list.shards().activate(4).unwrap());
    check(32, list.shards().split().unwrap());
    check(16, list.shards().merge().unwrap());
    check(8, list.shards().merge().unwrap());
    check(0, list.shards().deactivate().unwrap());
    check(1, list.shards().activate(1).unwrap());
    check(2, list.shards().split().unwrap());
    // Nothing is left behind but the companions that are in use.
    assert_eq!(store.set(SET).unwrap().with_companions().len(), 1 + 2);
}

#[test]
fn a_deleted_list_is_empty_and_its_epoch_stays() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    set.put(KEY, [("name", "Alice")]).unwrap();
    let list = filled(&store, 100);
    let epoch = list.shards().activate(4).unwrap().epoch;
    list.delete().unwrap();
    assert_eq!((list.len().unwrap(), set.len()), (0, 1));
    let root = set.get(KEY).unwrap().unwrap();
    assert_eq!(root.get("name"), Some("Alice".into()));
    assert!(root.get("subkeys").is_none() && root.get("subkeys_epoch").is_some());
    assert!(list.add(5).unwrap());
    assert!(list.shards().activate(4).unwrap().epoch > epoch + 1);
    assert_eq!(elements(&list), ints(5, 6));
    // A list that was never sharded leaves nothing.
    let other = ShardedList::new(&store, SET, "bob", BIN).unwrap();
    other.add(1).unwrap();
    other.delete().unwrap();
    assert!(!set.exists("bob").unwrap());
}

#[test]
fn an_empty_list_and_one_of_no_record_can_be_spread() {
    let store = Store::in_memory().unwrap();
    let list = list_of(&store);
    assert_eq!(list.shards().activate(2).unwrap().shards, 2);
    assert!(list.is_empty().unwrap());
    assert!(list.add("x").unwrap());
    assert_eq!(list.shards().deactivate().unwrap().shards, 0);
    assert_eq!(elements(&list), ["x".into()]);
}

#[test]
fn elements_of_all_types_keep_their_order_and_are_found() {
    let store = Store::in_memory().unwrap();
    let list = list_of(&store);
    let pair = Value::List(vec![Value::Int(1), "a".into()].into());
    let all: Vec<Value> = vec![
        Value::Nil,
        true.into(),
        (-3).into(),
        "b".into(),
        pair,
        Value::Blob(vec![1]),
        Value::Float(0.0),
    ];
    for element in &all {
        assert!(list.add(element.clone()).unwrap());
    }
    assert!(!list.add(Value::Float(-0.0)).unwrap());
    for _ in 0..3 {
        assert_eq!(elements(&list), all);
        for element in &all {
            assert!(list.contains(element).unwrap(), "{element:?}");
        }
        assert!(!list.add(Value::Float(-0.0)).unwrap());
        let state = list.shards().state().unwrap();
        if state.shards == 0 {
            list.shards().activate(2).unwrap();
        } else {
            list.shards().split().unwrap();
        }
    }
}

#[test]
fn a_transition_can_be_stopped_anywhere_and_anybody_carries_on() {
    let expected = ints(0, 200);
    type Step = fn(&ShardedList<Set>, &mut dyn FnMut() -> ControlFlow<()>) -> Result<ShardState>;
    let table: [(u64, Step, ShardTransition, u64); 4] = [
        (
            0,
            |list, stop| list.shards().on_progress(|_| stop()).activate(4),
            ShardTransition::Activating,
            4,
        ),
        (
            4,
            |list, stop| list.shards().on_progress(|_| stop()).split(),
            ShardTransition::Splitting,
            8,
        ),
        (
            4,
            |list, stop| list.shards().on_progress(|_| stop()).merge(),
            ShardTransition::Merging,
            2,
        ),
        (
            1,
            |list, stop| list.shards().on_progress(|_| stop()).deactivate(),
            ShardTransition::Deactivating,
            0,
        ),
    ];
    for (before, transition, kind, after) in table {
        // Stopped before the first companion, before the second, and so on.
        for boundary in 0..4 {
            let store = Store::in_memory().unwrap();
            let list = filled(&store, 200);
            if before > 0 {
                list.shards().activate(before).unwrap();
            }
            let mut seen = 0;
            let state = transition(&list, &mut || {
                seen += 1;
                if seen > boundary {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            });
            let stopped = state.unwrap().transition;
            assert!(boundary > 1 || stopped == Some(kind), "{kind:?} {boundary}");
            // Readers, old and new, see everything, and finish nothing.
            let other = list_of(&store);
            for reader in [&list, &other] {
                assert_eq!(elements(reader), expected, "{kind:?} {boundary}");
                assert_eq!(reader.page(120, 2).unwrap(), ints(120, 122));
                assert!((0..200).all(|element| reader.contains(&element.into()).unwrap()));
            }
            assert_eq!(list.shards().state().unwrap().transition, stopped);
            // A writer does.
            assert!(other.add(200).unwrap());
            assert_eq!(list.shards().state().unwrap().transition, None);
            assert_eq!(
                list.shards().state().unwrap().shards,
                after,
                "{kind:?} {boundary}"
            );
            assert!(!list.shards().advance().unwrap());
            assert_eq!(elements(&list), ints(0, 201));
        }
    }
}

#[test]
fn a_deletion_that_was_stopped_is_ended_by_whoever_reads() {
    let store = Store::in_memory().unwrap();
    let list = filled(&store, 100);
    list.shards().activate(4).unwrap();
    let mut seen = 0;
    let stopped = list
        .shards()
        .on_progress(|progress| {
            assert_eq!(
                (progress.transition, progress.total),
                (ShardTransition::Deleting, 4)
            );
            assert_eq!(progress.done, seen);
            seen += 1;
            if seen > 2 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .delete();
    assert_eq!(stopped.unwrap().transition, Some(ShardTransition::Deleting));
    assert_eq!(list_of(&store).len().unwrap(), 0);
    assert_eq!(list.shards().state().unwrap().transition, None);
    assert_eq!(elements(&list), []);
}

#[test]
fn a_missing_companion_is_an_error_and_no_empty_set() {
    let store = Store::in_memory().unwrap();
    let list = filled(&store, 100);
    list.shards().activate(4).unwrap();
    let set = store.set(SET).unwrap();
    let companion = set.get("alice:2").unwrap().unwrap();
    let Some(Value::List(items)) = companion.get(BIN) else {
        panic!("the companion has its list");
    };
    let lost: Vec<i64> = (0..100)
        .filter(|element| items.contains(&Value::Int(*element)))
        .collect();
    assert!(!lost.is_empty());
    assert!(set.delete_with(&by_force(), "alice:2").unwrap().is_some());
    let is_missing = |error: Error| {
        assert!(
            matches!(&error, Error::ShardMissing { key, shard: 2 } if &**key == KEY),
            "{error}"
        );
    };
    for list in [&list, &list_of(&store)] {
        for element in 0..100 {
            let found = list.contains(&element.into());
            if lost.contains(&element) {
                is_missing(found.unwrap_err());
                is_missing(list.remove(&element.into()).unwrap_err());
                is_missing(list.add(element).unwrap_err());
            } else {
                assert!(found.unwrap());
            }
        }
        is_missing(list.len().unwrap_err());
        is_missing(list.page_after(None, 10).unwrap_err());
    }
    is_missing(list.shards().split().unwrap_err());
    // Nor does another record pass for it: the error names it.
    set.put("alice:2", [("name", 1)]).unwrap();
    for in_the_way in [
        list.len().unwrap_err(),
        list.contains(&lost[0].into()).unwrap_err(),
        list.add(lost[0]).unwrap_err(),
        list_of(&store).contains(&lost[0].into()).unwrap_err(),
    ] {
        assert!(
            matches!(&in_the_way, Error::ShardKeyCollision { key } if &**key == "alice:2"),
            "{in_the_way}"
        );
    }
    // The rest can still be deleted; the other record stays.
    list.delete().unwrap();
    assert_eq!(list.len().unwrap(), 0);
    assert!(set.exists("alice:2").unwrap());
}

#[test]
fn a_record_that_is_in_the_way_is_left_alone() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    set.put("alice:1", [("mine", 1)]).unwrap();
    let list = filled(&store, 10);
    list.shards().activate(1).unwrap();
    list.shards().split().unwrap();
    assert_eq!((list.shards().state().unwrap().shards, set.len()), (2, 2));
    assert!(list.add(10).unwrap());
    assert_eq!(list_of(&store).len().unwrap(), 11);
    let mine = set.get("alice:1").unwrap().unwrap();
    assert_eq!(mine.get("mine"), Some(1.into()));
    // Integers and text are different keys, but their companions' keys would be the same.
    let number = ShardedList::new(&store, SET, 5, BIN).unwrap();
    let text = ShardedList::new(&store, SET, "5", BIN).unwrap();
    number.add(1).unwrap();
    text.add(2).unwrap();
    number.shards().activate(1).unwrap();
    text.shards().activate(1).unwrap();
    assert!(set.exists("5:0").unwrap() && set.exists("5:~shard:0").unwrap());
    assert_eq!(
        (elements(&number), elements(&text)),
        (ints(1, 2), ints(2, 3))
    );
}

#[test]
fn a_root_that_is_not_understood_is_an_error() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    let list = list_of(&store);
    let strange: [Value; 2] = [
        "x".into(),
        Value::List(vec!["hash-shards".into(), Value::Int(35)].into()),
    ];
    for subkeys in strange {
        set.put_with(&by_force(), KEY, [("subkeys", subkeys)])
            .unwrap();
        for error in [
            list.add(1).unwrap_err(),
            list.contains(&1.into()).unwrap_err(),
            list.len().unwrap_err(),
            list.shards().activate(2).unwrap_err(),
        ] {
            assert!(matches!(error, Error::ShardScheme { .. }), "{error}");
        }
    }
    // And the bin must be a list.
    set.put("bob", [(BIN, 1)]).unwrap();
    let bob = ShardedList::new(&store, SET, "bob", BIN).unwrap();
    assert_eq!(bob.shards().activate(2).unwrap_err().result_code(), 12);
    assert!(!set.exists("bob:0").unwrap());
}

#[test]
fn a_number_of_shards_that_is_no_power_of_two_is_refused() {
    let list = list_of(&Store::in_memory().unwrap());
    for shards in [0, 3, 35, 8_192] {
        assert_eq!(list.shards().activate(shards).unwrap_err().result_code(), 4);
    }
}

#[test]
fn a_split_or_merge_that_does_not_apply_says_what_does() {
    let list = list_of(&Store::in_memory().unwrap());
    let refused = |refused: Result<ShardState>, remedy: &str| {
        let error = refused.unwrap_err();
        assert_eq!(error.result_code(), 26);
        assert!(error.to_string().ends_with(remedy), "{error}");
    };
    refused(list.shards().split(), "in one record: activate it first");
    refused(list.shards().merge(), "in one record: activate it first");
    list.shards().activate(1).unwrap();
    refused(
        list.shards().merge(),
        "deactivate it to have it in one record",
    );
}

#[test]
fn an_activation_splits_what_has_fewer_shards() {
    let store = Store::in_memory().unwrap();
    let list = filled(&store, 100);
    list.shards().activate(2).unwrap();
    let stop = |progress: ShardProgress| match progress.transition {
        ShardTransition::Splitting if progress.total == 4 => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let state = list.shards().on_progress(stop).activate(16).unwrap();
    assert_eq!(
        (state.shards, state.transition),
        (4, Some(ShardTransition::Splitting))
    );
    assert_eq!(list.len().unwrap(), 100);
    assert_eq!(list.shards().activate(16).unwrap().shards, 16);
    assert_eq!(list.shards().activate(2).unwrap().shards, 16);
    assert_eq!(elements(&list), ints(0, 100));
}

#[test]
fn companions_describe_themselves_as_documented() {
    let store = Store::in_memory().unwrap();
    let list = filled(&store, 10);
    let state = list.shards().activate(2).unwrap();
    let set = store.set(SET).unwrap();
    let described = |items: Vec<Value>| Some(Value::List(items.into()));
    let bin = |key: &str, bin: &str| {
        let read = set.operate(key, &[operations::get_bin(bin)]).unwrap();
        read.bin(bin).cloned()
    };
    let epoch = Value::Int(state.epoch as i64);
    assert_eq!(
        bin(KEY, "subkeys"),
        described(vec!["hash-shards".into(), 2.into()])
    );
    assert_eq!(bin(KEY, "subkeys_epoch"), Some(epoch.clone()));
    assert_eq!(bin(KEY, "subkeys_bin"), Some(BIN.into()));
    assert_eq!(bin(KEY, BIN), None);
    for shard in 0..2 {
        let key = format!("{KEY}:{shard}");
        let items = vec![KEY.into(), 2.into(), shard.into(), epoch.clone()];
        assert_eq!(bin(&key, "shard_of"), described(items));
        assert_eq!(bin(&key, "frozen"), None);
    }
}

/// Eight threads add, remove and read, each with a handle of its own, while the list goes through
/// every transition.
#[test]
fn nothing_is_lost_or_doubled_while_the_list_spreads_splits_merges_and_returns() {
    const THREADS: i64 = 8;
    let store = Store::in_memory().unwrap();
    let list = filled(&store, 200);
    let (going, rounds) = (AtomicBool::new(true), AtomicU64::new(0));
    let added: Vec<i64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (store, going, rounds) = (&store, &going, &rounds);
                scope.spawn(move || {
                    let list = list_of(store);
                    let mut mine = 0;
                    while going.load(Ordering::Relaxed) {
                        let element = 1_000 + THREADS * mine + thread;
                        assert!(list.add(element).unwrap(), "{element} was there");
                        assert!(list.contains(&element.into()).unwrap(), "{element} is lost");
                        if mine % 3 == 0 {
                            assert!(list.remove(&element.into()).unwrap(), "{element}");
                            assert!(
                                !list.contains(&element.into()).unwrap(),
                                "{element} is back"
                            );
                        }
                        // Elements that stay are seen exactly once.
                        let all = list.page_after(None, 200).unwrap();
                        assert_eq!(all, ints(0, 200));
                        mine += 1;
                        rounds.fetch_add(1, Ordering::Relaxed);
                    }
                    mine
                })
            })
            .collect();
        let meanwhile = || give_turns(&threads, &rounds, 8);
        for _ in 0..3 {
            meanwhile();
            list.shards().activate(2).unwrap();
            list.shards().split().unwrap();
            meanwhile();
            list.shards().split().unwrap();
            list.shards().merge().unwrap();
            meanwhile();
            list.shards().deactivate().unwrap();
        }
        list.shards().activate(4).unwrap();
        meanwhile();
        going.store(false, Ordering::Relaxed);
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    let mut expected: Vec<i64> = (0..200).collect();
    for (thread, count) in added.iter().enumerate() {
        let kept = (0..*count).filter(|mine| mine % 3 != 0);
        expected.extend(kept.map(|mine| 1_000 + THREADS * mine + thread as i64));
    }
    expected.sort_unstable();
    let expected: Vec<Value> = expected.into_iter().map(Value::Int).collect();
    assert_eq!(list.len().unwrap(), expected.len() as u64);
    assert_eq!(elements(&list), expected);
    assert_only_husks_are_left(&store.set(SET).unwrap());
}
