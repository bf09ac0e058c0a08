//! Several sharded collections in one record: the modeling document's own record has two lists,
//! `followers` and `following`.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use spikelet::shard::{ShardPolicy, TimeWidth, sharded_collections};
use spikelet::value::List;
use spikelet::{
    Expiration, ListOrder, RecordSet, Result, Set, ShardedCounter, ShardedList, ShardedMap, Store,
    TimeShards, Value, WritePolicy,
};

use crate::common::{assert_only_husks_are_left, give_turns};
use crate::watched::{Calls, Watched};

const SET: &str = "users";
const KEY: &str = "alice";

fn list(store: &Store, bin: &str) -> ShardedList<Set> {
    let patient = WritePolicy::default().total_timeout(None);
    ShardedList::new_with(store, SET, KEY, bin, &patient)
        .unwrap()
        .policy(ShardPolicy::manual())
}

/// Returns a list of `count` elements, from a first one on.
fn filled(store: &Store, bin: &str, from: i64, count: i64) -> ShardedList<Set> {
    let list = list(store, bin);
    for element in from..from + count {
        assert!(list.add(element).unwrap());
    }
    list
}

fn elements<R: RecordSet>(list: &ShardedList<R>) -> Vec<Value> {
    list.iter().collect::<Result<_>>().unwrap()
}

fn ints(from: i64, to: i64) -> Vec<Value> {
    (from..to).map(Value::Int).collect()
}

/// The keys of all records, in order.
fn keys(set: &Set) -> Vec<String> {
    let mut keys = Vec::new();
    let _: ControlFlow<()> = set.with_companions().scan(|record| {
        keys.push(match record.unwrap().key() {
            Some(spikelet::Key::String(text)) => text.to_string(),
            key => panic!("{key:?}"),
        });
        ControlFlow::Continue(())
    });
    keys.sort();
    keys
}

fn items(items: Vec<Value>) -> Value {
    Value::List(items.into())
}

#[test]
fn both_lists_of_a_user_can_be_sharded_split_merged_and_brought_back() {
    let store = Store::in_memory().unwrap();
    let followers = filled(&store, "followers", 0, 100);
    let following = filled(&store, "following", 1_000, 50);
    let check = || {
        for (list, from, to) in [(&followers, 0, 100), (&following, 1_000, 1_050)] {
            assert_eq!(elements(list), ints(from, to));
            assert_eq!(list.len().unwrap() as i64, to - from);
            assert!(list.contains(&from.into()).unwrap());
            assert!(!list.contains(&500.into()).unwrap());
            assert!(list.remove(&from.into()).unwrap() && list.add(from).unwrap());
        }
    };
    assert_eq!(followers.shards().activate(4).unwrap().shards, 4);
    check();
    assert_eq!(following.shards().activate(2).unwrap().shards, 2);
    check();
    assert_eq!(followers.shards().split().unwrap().shards, 8);
    check();
    assert_eq!(following.shards().split().unwrap().shards, 4);
    check();
    assert_eq!(followers.shards().merge().unwrap().shards, 4);
    assert_eq!(following.shards().merge().unwrap().shards, 2);
    check();
    assert_eq!(followers.shards().deactivate().unwrap().shards, 0);
    check();
    assert_eq!(following.shards().state().unwrap().shards, 2);
    assert_eq!(followers.shards().activate(2).unwrap().shards, 2);
    check();
    for list in [&followers, &following] {
        assert_eq!(list.shards().deactivate().unwrap().shards, 0);
    }
    check();
    assert_eq!(keys(&store.set(SET).unwrap()), [KEY]);
}

#[test]
fn one_is_stored_as_documented_and_several_as_docs_format_md_says() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    let followers = filled(&store, "followers", 0, 20);
    let following = filled(&store, "following", 0, 20);
    let root = |bin: &str| set.get(KEY).unwrap().unwrap().get(bin);
    let form = |shards: i64| items(vec!["hash-shards".into(), shards.into()]);

    let first = followers.shards().activate(2).unwrap().epoch as i64;
    assert_eq!(root("subkeys"), Some(form(2)));
    assert_eq!(root("subkeys_bin"), Some("followers".into()));
    assert_eq!(root("subkeys_epochs"), None);

    let second = following.shards().activate(4).unwrap().epoch as i64;
    assert!(second > first);
    let Some(Value::Map(subkeys)) = root("subkeys") else {
        panic!("two collections are described by a map");
    };
    let entries = subkeys.into_entries();
    let expected = [("followers".into(), form(2)), ("following".into(), form(4))];
    assert_eq!(entries, expected);
    assert_eq!(root("subkeys_bin"), Some("followers".into()));
    assert_eq!(root("subkeys_epoch"), Some(second.into()));
    let Some(Value::Map(epochs)) = root("subkeys_epochs") else {
        panic!("each has its epoch");
    };
    let expected = [
        ("followers".into(), first.into()),
        ("following".into(), second.into()),
    ];
    assert_eq!(epochs.into_entries(), expected);
    let companion = |key: &str| set.get(key).unwrap().unwrap().get("shard_of").unwrap();
    assert_eq!(
        companion("alice:1"),
        items(vec![KEY.into(), 2.into(), 1.into(), first.into()])
    );
    assert_eq!(
        companion("alice:following:3"),
        items(vec![
            KEY.into(),
            4.into(),
            3.into(),
            second.into(),
            "following".into()
        ])
    );

    // Back to the documented form, with the epoch that is not the latest beside it.
    following.delete().unwrap();
    assert_eq!(root("subkeys"), Some(form(2)));
    assert!(matches!(root("subkeys_epoch"), Some(Value::Int(latest)) if latest > second));
    assert_eq!(elements(&list(&store, "followers")), ints(0, 20));
    assert_eq!(keys(&set), [KEY, "alice:0", "alice:1"]);
    followers.shards().split().unwrap();
    assert_eq!(root("subkeys_epochs"), None);
}

#[test]
fn deleting_one_takes_nothing_of_the_others() {
    for first_goes in [true, false] {
        let store = Store::in_memory().unwrap();
        let set = store.set(SET).unwrap();
        set.put(KEY, [("name", "Alice")]).unwrap();
        let followers = filled(&store, "followers", 0, 100);
        let following = filled(&store, "following", 1_000, 50);
        let blocked = filled(&store, "blocked", 5_000, 5);
        followers.shards().activate(4).unwrap();
        following.shards().activate(2).unwrap();
        let (gone, kept, from, to) = if first_goes {
            (&followers, &following, 1_000, 1_050)
        } else {
            (&following, &followers, 0, 100)
        };
        gone.delete().unwrap();
        assert!(gone.is_empty().unwrap());
        for reader in [
            kept,
            &list(&store, if first_goes { "following" } else { "followers" }),
        ] {
            assert_eq!(elements(reader), ints(from, to));
            assert!(reader.shards().state().unwrap().shards > 0);
        }
        assert_eq!(elements(&blocked), ints(5_000, 5_005));
        // One that was never sharded goes alone, too.
        blocked.delete().unwrap();
        assert!(blocked.is_empty().unwrap());
        assert_eq!(elements(kept), ints(from, to));
        assert!(gone.add(7).unwrap());
        assert_eq!(gone.shards().activate(2).unwrap().shards, 2);
        assert_eq!(elements(gone), ints(7, 8));
        assert_eq!(elements(kept), ints(from, to));
        assert_eq!(
            set.get(KEY).unwrap().unwrap().get("name"),
            Some("Alice".into())
        );
    }
}

#[test]
fn lists_maps_and_counters_share_a_record() {
    let store = Store::in_memory().unwrap();
    let followers = filled(&store, "followers", 0, 100);
    let scores = ShardedMap::new(&store, SET, KEY, "scores").unwrap();
    let likes = ShardedCounter::new(&store, SET, KEY, "likes").unwrap();
    for game in 0..30 {
        scores.put(game, game * 10).unwrap();
    }
    likes.add(40).unwrap();
    scores.shards().activate(2).unwrap();
    followers.shards().activate(4).unwrap();
    likes.shards().activate(8).unwrap();
    likes.add(2).unwrap();
    assert_eq!(likes.read().unwrap(), 42);
    assert_eq!(scores.get(&7.into()).unwrap(), Some(70.into()));
    assert_eq!(scores.len().unwrap(), 30);
    assert_eq!(elements(&followers), ints(0, 100));
    let found = sharded_collections(&store.set(SET).unwrap()).unwrap();
    let told: Vec<_> = found
        .iter()
        .map(|it| (it.bin.as_deref(), it.companions.len(), it.elements))
        .collect();
    assert_eq!(
        told,
        [
            (Some("followers"), 4, 100),
            (Some("likes"), 8, 8),
            (Some("scores"), 2, 30)
        ]
    );
    assert!(
        found
            .iter()
            .all(|it| it.missing.is_empty() && it.leftovers().count() == 0)
    );
}

#[test]
fn a_list_that_is_not_sharded_costs_one_operation_beside_one_that_is() {
    let noted = Calls::default();
    let store = Watched::new(Store::in_memory().unwrap(), &noted);
    let of = |bin| ShardedList::new(&store, SET, KEY, bin).unwrap();
    let (followers, following) = (of("followers"), of("following"));
    followers.add(1).unwrap();
    followers.shards().activate(4).unwrap();
    // The root is looked at once.
    following.add(0).unwrap();
    let calls: [&dyn Fn(); 5] = [
        &|| assert!(following.add(2).unwrap()),
        &|| assert!(following.contains(&2.into()).unwrap()),
        &|| assert!(following.remove(&2.into()).unwrap()),
        &|| assert_eq!(following.len().unwrap(), 1),
        &|| assert!(following.add(3).unwrap() && following.remove(&3.into()).unwrap()),
    ];
    for (call, expected) in calls.into_iter().zip([1, 1, 1, 1, 2]) {
        noted.take();
        call();
        assert_eq!(noted.take().len(), expected);
    }
}

#[test]
fn a_list_expires_again_once_nothing_is_sharded_beside_it() {
    let store = Store::in_memory().unwrap();
    let hour = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(3_600)));
    let following = ShardedList::new_with(&store, SET, KEY, "following", &hour)
        .unwrap()
        .policy(ShardPolicy::manual());
    let set = store.set(SET).unwrap();
    let expires = || set.get_header(KEY).unwrap().unwrap().expires_at().is_some();
    let forced = WritePolicy::default().override_shards(true);
    type End<'a> = &'a dyn Fn(&ShardedList<Set>);
    let ends: [End<'_>; 2] = [
        &|followers| {
            followers.shards().deactivate().unwrap();
        },
        &|_| {
            set.delete_with(&forced, KEY).unwrap();
        },
    ];
    for end in ends {
        let followers = filled(&store, "followers", 0, 4);
        followers.shards().activate(2).unwrap();
        // The root is looked at once, and its state remembered. It does not expire.
        following.add(0).unwrap();
        assert!(!expires());
        end(&followers);
        following.add(1).unwrap();
        assert!(expires());
        set.delete_with(&forced, KEY).unwrap();
    }
}

#[test]
fn each_can_be_stopped_anywhere_while_the_other_goes_on() {
    type Change = fn(&ShardedList<Set>, &mut dyn FnMut() -> ControlFlow<()>) -> Result<()>;
    let changes: [(u64, Change); 5] = [
        (0, |it, stop| {
            it.shards().on_progress(|_| stop()).activate(4).map(drop)
        }),
        (2, |it, stop| {
            it.shards().on_progress(|_| stop()).split().map(drop)
        }),
        (2, |it, stop| {
            it.shards().on_progress(|_| stop()).merge().map(drop)
        }),
        (1, |it, stop| {
            it.shards().on_progress(|_| stop()).deactivate().map(drop)
        }),
        (2, |it, stop| {
            it.shards().on_progress(|_| stop()).delete().map(drop)
        }),
    ];
    for (shards, stopped) in changes {
        for (other_shards, other) in changes {
            let store = Store::in_memory().unwrap();
            let one = filled(&store, "followers", 0, 40);
            let two = filled(&store, "following", 1_000, 40);
            if shards > 0 {
                one.shards().activate(shards).unwrap();
            }
            if other_shards > 0 {
                two.shards().activate(other_shards).unwrap();
            }
            stopped(&one, &mut || ControlFlow::Break(())).unwrap();
            assert!(one.shards().state().unwrap().transition.is_some());
            other(&two, &mut || ControlFlow::Continue(())).unwrap();
            assert_eq!(two.shards().state().unwrap().transition, None);
            // Neither has done anything for, or to, the other.
            assert!(one.shards().state().unwrap().transition.is_some());
            let deleted = |list: &ShardedList<Set>, from| {
                let all = elements(list);
                assert!(all.is_empty() || all == ints(from, from + 40), "{all:?}");
                all.is_empty()
            };
            let is_deleted = deleted(&two, 1_000);
            assert!(one.shards().advance().unwrap());
            assert_eq!(deleted(&two, 1_000), is_deleted);
            deleted(&one, 0);
            assert!(one.add(77).unwrap() && two.add(1_077).unwrap());
        }
    }
}

#[test]
fn a_companion_of_a_second_list_is_told_from_a_root_that_bears_its_key() {
    let store = Store::in_memory().unwrap();
    filled(&store, "followers", 0, 10)
        .shards()
        .activate(2)
        .unwrap();
    filled(&store, "following", 0, 10)
        .shards()
        .activate(2)
        .unwrap();
    // Its companions would be `alice:following:0` and `alice:following:1`.
    let other = ShardedList::new(&store, SET, "alice:following", "x").unwrap();
    other.add(1).unwrap();
    other.shards().activate(2).unwrap();
    let set = store.set(SET).unwrap();
    assert!(set.exists("alice:following:~shard:0").unwrap());
    assert_eq!(elements(&other), ints(1, 2));
    assert_eq!(elements(&list(&store, "following")), ints(0, 10));
}

#[test]
fn a_store_of_one_collection_opens_as_it_was_written() {
    // As stores were written while a record had one sharded collection.
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    let subkeys = items(vec!["hash-shards".into(), 1.into()]);
    let bins: [(&str, Value); 3] = [
        ("subkeys", subkeys),
        ("subkeys_epoch", 7.into()),
        ("subkeys_bin", "followers".into()),
    ];
    set.put(KEY, bins).unwrap();
    let shard_of = items(vec![KEY.into(), 1.into(), 0.into(), 7.into()]);
    let ordered = Value::List(List::new(ints(0, 3), ListOrder::Ordered));
    let bins: [(&str, Value); 2] = [("shard_of", shard_of), ("followers", ordered)];
    set.put("alice:0", bins).unwrap();
    let followers = list(&store, "followers");
    assert_eq!(elements(&followers), ints(0, 3));
    let following = filled(&store, "following", 0, 10);
    following.shards().activate(2).unwrap();
    followers.shards().split().unwrap();
    assert_eq!(elements(&followers), ints(0, 3));
    assert_eq!(elements(&following), ints(0, 10));
}

#[test]
fn what_two_programs_do_to_two_lists_of_one_record_is_not_lost() {
    const ROUNDS: u64 = 12;
    let store = Store::in_memory().unwrap();
    let writes = AtomicU64::new(0);
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for bin in ["followers", "following", "blocked"] {
            let (store, writes) = (&store, &writes);
            workers.push(scope.spawn(move || {
                let list = list(store, bin);
                for element in 0..600 {
                    assert!(list.add(element).unwrap(), "{bin} {element}");
                    assert!(list.contains(&element.into()).unwrap(), "{bin} {element}");
                    if element % 3 == 0 {
                        assert!(list.remove(&element.into()).unwrap(), "{bin} {element}");
                    }
                    writes.fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        thread::scope(|movers| {
            for bin in ["followers", "following"] {
                let (store, writes, workers) = (&store, &writes, &workers);
                movers.spawn(move || {
                    let list = list(store, bin);
                    for round in 0..ROUNDS {
                        match list.shards().state().unwrap().shards {
                            0 => list.shards().activate(2).map(drop),
                            1 => list.shards().deactivate().map(drop),
                            2 if round % 2 == 0 => list.shards().split().map(drop),
                            _ => list.shards().merge().map(drop),
                        }
                        .unwrap();
                        give_turns(workers, writes, 20);
                    }
                });
            }
        });
    });
    let expected: Vec<Value> = (0..600).filter(|it| it % 3 != 0).map(Value::Int).collect();
    for bin in ["followers", "following", "blocked"] {
        let list = list(&store, bin);
        list.shards().advance().unwrap();
        assert_eq!(elements(&list), expected, "{bin}");
    }
    assert_only_husks_are_left(&store.set(SET).unwrap());
}

#[test]
fn time_shards_stand_beside_other_collections_of_their_record() {
    let store = Store::in_memory().unwrap();
    let now = SystemTime::now();
    let feed = || TimeShards::new(&store, SET, KEY, "feed", TimeWidth::Daily).unwrap();
    let followers = filled(&store, "followers", 0, 10);
    let notes = TimeShards::new(&store, SET, KEY, "notes", TimeWidth::Hourly).unwrap();
    // Each of them may be the first one, with plain keys of companions.
    for round in 0..2 {
        let remembering = feed();
        if round == 0 {
            assert!(remembering.add(now, "hello").unwrap());
        }
        followers.shards().activate(2).unwrap();
        filled(&store, "following", 0, 10)
            .shards()
            .activate(2)
            .unwrap();
        if round == 1 {
            assert!(remembering.add(now, "hello").unwrap());
        }
        assert!(notes.add(now, "note").unwrap());
        assert!(!remembering.add(now, "hello").unwrap());
        assert!(remembering.add(now, "world").unwrap());
        assert!(followers.add(10).unwrap() && followers.remove(&10.into()).unwrap());
        for feed in [&remembering, &feed()] {
            assert_eq!(feed.latest(5).unwrap().len(), 2);
            assert_eq!(notes.latest(5).unwrap()[0].1, "note".into());
        }
        followers.shards().split().unwrap();
        followers.shards().merge().unwrap();
        assert_eq!(elements(&followers), ints(0, 10));
        // The report of both.
        let found = sharded_collections(&store.set(SET).unwrap()).unwrap();
        let told: Vec<_> = found
            .iter()
            .map(|it| {
                (
                    it.bin.as_deref().unwrap(),
                    it.elements,
                    it.leftovers().count(),
                )
            })
            .collect();
        let expected = [
            ("feed", 2, 0),
            ("followers", 10, 0),
            ("following", 10, 0),
            ("notes", 1, 0),
        ];
        assert_eq!(told, expected);
        // One goes, and the others stay.
        feed().delete().unwrap();
        assert!(!remembering.remove(now, &"hello".into()).unwrap());
        assert_eq!(elements(&followers), ints(0, 10));
        assert_eq!(notes.latest(5).unwrap().len(), 1);
        notes.delete().unwrap();
        followers.shards().deactivate().unwrap();
        list(&store, "following").shards().delete().unwrap();
        assert!(
            sharded_collections(&store.set(SET).unwrap())
                .unwrap()
                .is_empty()
        );
    }
}
