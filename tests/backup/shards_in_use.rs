//! Backups of sharded collections whose shards change while they are saved.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use spikelet::backup::{BackupOptions, save};
use spikelet::record::KeyHash;
use spikelet::{Key, Result, Set, ShardedList, Store, Value, WritePolicy};
use tempfile::TempDir;

use super::common::*;

const HALF: usize = 2_048;

fn partition(key: impl Into<Key<'static>>) -> usize {
    KeyHash::Ripemd160.digest("users", &key.into()).partition()
}

fn list(store: &Store, key: &str, policy: &WritePolicy) -> ShardedList<Set> {
    ShardedList::new_with(store, "users", key, "followers", policy).unwrap()
}

fn hundred() -> Vec<Value> {
    (0..100).map(Value::Int).collect()
}

/// Keys whose roots come before, or behind, the half of all partitions, and of each of whose first
/// and last four of eight companions one lies in each half.
fn keys(root_is_behind: bool) -> Vec<String> {
    let halves = |key: &str, shards: std::ops::Range<u64>| {
        let mut behind = shards.map(|shard| partition(format!("{key}:{shard}")) >= HALF);
        let first = behind.next();
        behind.any(|half| Some(half) != first)
    };
    (0..)
        .map(|n| format!("k{n}"))
        .filter(|key| (partition(key.clone()) >= HALF) == root_is_behind)
        .filter(|key| halves(key, 0..4) && halves(key, 4..8))
        .take(4)
        .collect()
}

/// Saves, and calls `meanwhile` when half of all partitions are saved. Returns the number of
/// records saved, and a store into which they were restored: each record but once, so that the
/// first would stay.
fn saved_and_restored(from: &Store, mut meanwhile: impl FnMut()) -> (u64, Store) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("saved.asb");
    let mut partitions = 0;
    let summary = save(from, &path, &BackupOptions::default(), &mut |_| {
        partitions += 1;
        if partitions == HALF {
            meanwhile();
        }
    });
    let records = summary.unwrap().records;
    let into = store();
    let restored = restore(&path, &into, options(|options| options.unique = true)).unwrap();
    assert_eq!((restored.restored, restored.existed), (records, 0));
    (records, into)
}

type Change = fn(&ShardedList<Set>) -> Result<()>;

/// How many shards there are at first, and the change.
const CHANGES: [(u64, Change); 5] = [
    (0, |list| list.shards().activate(4).map(drop)),
    (4, |list| list.shards().split().map(drop)),
    (8, |list| list.shards().merge().map(drop)),
    (1, |list| list.shards().deactivate().map(drop)),
    (8, |list| {
        for _ in 0..3 {
            list.shards().merge()?;
        }
        list.shards().deactivate().map(drop)
    }),
];

#[test]
fn a_collection_whose_shards_change_meanwhile_is_saved_whole() {
    for policy in [true, false].map(|send| WritePolicy::default().send_key(send)) {
        for (at, (shards, change)) in CHANGES.iter().enumerate() {
            for root_is_behind in [true, false] {
                let store = store();
                let keys = keys(root_is_behind);
                for key in &keys {
                    let list = list(&store, key, &policy);
                    for id in 0..100 {
                        list.add(id).unwrap();
                    }
                    if *shards > 0 {
                        list.shards().activate(*shards).unwrap();
                    }
                }
                let (_, restored) = saved_and_restored(&store, || {
                    for key in &keys {
                        change(&list(&store, key, &policy)).unwrap();
                    }
                });
                for key in &keys {
                    let found = list(&restored, key, &policy).page(0, 200);
                    let what = format!("change {at}, root behind: {root_is_behind}, {policy:?}");
                    assert_eq!(found.unwrap(), hundred(), "{what}");
                }
            }
        }
    }
}

#[test]
fn a_collection_is_saved_whole_at_any_time() {
    let store = store();
    let policy = WritePolicy::default();
    let keys = keys(true);
    for key in &keys {
        let list = list(&store, key, &policy);
        for id in 0..100 {
            list.add(id).unwrap();
        }
    }
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        for key in &keys {
            let (store, policy, ended) = (&store, &policy, &ended);
            scope.spawn(move || {
                let list = list(store, key, policy);
                while !ended.load(Ordering::Relaxed) {
                    let mut shards = list.shards();
                    shards.activate(4).unwrap();
                    shards.split().unwrap();
                    for _ in 0..3 {
                        shards.merge().unwrap();
                    }
                    shards.deactivate().unwrap();
                }
            });
        }
        let found = (0..10).map(|_| {
            let (_, restored) = saved_and_restored(&store, || {});
            let found = keys
                .iter()
                .map(|key| list(&restored, key, &policy).page(0, 200));
            found.collect::<Result<Vec<_>>>()
        });
        let found: Vec<_> = found.collect();
        ended.store(true, Ordering::Relaxed);
        for found in found {
            assert_eq!(found.unwrap(), vec![hundred(); keys.len()]);
        }
    });
}

#[test]
fn companions_without_a_root_are_saved_and_those_that_a_root_does_not_read_are_not() {
    let store = store();
    let policy = WritePolicy::default();
    let users = store.set("users").unwrap();
    for key in ["alice", "bob", "carol"] {
        let list = list(&store, key, &policy);
        for id in 0..100 {
            list.add(id).unwrap();
        }
        list.shards().activate(2).unwrap();
    }
    let by_force = WritePolicy::default().override_shards(true);
    users.delete_with(&by_force, "alice").unwrap();
    users.delete_with(&by_force, "bob").unwrap();
    users.put("bob", [("name", "Bob")]).unwrap();
    // A user's record that has the bin of a companion.
    let of_carol = users
        .get("carol:0")
        .unwrap()
        .unwrap()
        .get("shard_of")
        .unwrap();
    users.put("dora", [("shard_of", of_carol)]).unwrap();
    let (records, restored) = saved_and_restored(&store, || {});
    assert_eq!(records, 7);
    let users = restored.set("users").unwrap();
    for (key, is_saved) in [
        ("alice", false),
        ("alice:0", true),
        ("alice:1", true),
        ("bob", true),
        ("bob:0", false),
        ("bob:1", false),
        ("carol", true),
        ("carol:0", true),
        ("carol:1", true),
        ("dora", true),
    ] {
        assert_eq!(users.exists(key).unwrap(), is_saved, "{key}");
    }
}

#[test]
fn companions_of_a_form_that_is_not_understood_are_saved() {
    let store = store();
    let list = list(&store, "alice", &WritePolicy::default());
    list.add(1).unwrap();
    list.shards().activate(2).unwrap();
    let later = Value::from(vec!["ring".into(), Value::Int(2), "swirling".into()]);
    let by_force = WritePolicy::default().override_shards(true);
    let users = store.set("users").unwrap();
    users
        .put_with(&by_force, "alice", [("subkeys", later)])
        .unwrap();
    assert_eq!(saved_and_restored(&store, || {}).0, 3);
}
