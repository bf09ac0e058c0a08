//! Reports of sharded collections.

use spikelet::shard::{
    ShardRecord, ShardState, ShardStatus, ShardedCollection, TimeWidth, sharded_collections,
};
use spikelet::{Key, Result, Set, ShardedList, Store, TimeShards, Value, WritePolicy, operations};

use crate::watched::{Calls, Watched};

fn found(store: &Store) -> ShardedCollection {
    let mut found = sharded_collections(&store.set("x").unwrap()).unwrap();
    assert_eq!(found.len(), 1);
    found.remove(0)
}

#[test]
fn elements_count_once_at_every_step_of_every_transition() {
    type Change<S> = fn(&ShardedList<S>) -> Result<ShardState>;
    type Records = Watched<spikelet::Set>;
    let begin: [(u64, Change<Records>); 4] = [
        (0, |list| list.shards().activate(4)),
        (2, |list| list.shards().split()),
        (4, |list| list.shards().merge()),
        (1, |list| list.shards().deactivate()),
    ];
    for (shards, change) in begin {
        let (mut steps, mut seen_in_transition) = (0, 0);
        loop {
            let store = Store::in_memory().unwrap();
            let list = ShardedList::new(&store, "x", "k", "b").unwrap();
            for id in 0..100 {
                list.add(id).unwrap();
            }
            if shards > 0 {
                list.shards().activate(shards).unwrap();
            }
            // A caller begins, and never continues.
            let calls = Calls::default();
            let mortal = Watched::new(store, &calls);
            let dying = ShardedList::new(&mortal, "x", "k", "b").unwrap();
            calls.only(steps);
            let ended = change(&dying).is_ok();
            let store = mortal.into_inner();
            let state = list.shards().state().unwrap();
            if state.shards > 0 || state.transition.is_some() {
                let found = found(&store);
                assert_eq!(found.elements, 100, "after {steps} steps: {found:?}");
                seen_in_transition += u64::from(found.in_transition);
            }
            if ended {
                break;
            }
            steps += 1;
        }
        assert!(seen_in_transition > 3, "{shards}: {seen_in_transition}");
    }
}

#[test]
fn what_is_being_deleted_does_not_count_any_more() {
    let store = Store::in_memory().unwrap();
    let list = ShardedList::new(&store, "x", "k", "b").unwrap();
    for id in 0..100 {
        list.add(id).unwrap();
    }
    list.shards().activate(4).unwrap();
    assert_eq!(found(&store).elements, 100);
    list.shards()
        .on_progress(|_| std::ops::ControlFlow::Break(()))
        .delete()
        .unwrap();
    let found = found(&store);
    assert_eq!((found.in_transition, found.elements), (true, 0));
    assert_eq!(found.companions.len(), 4);
}

#[test]
fn companions_of_a_form_that_is_not_understood_are_no_leftovers() {
    let later = |form: &str| Value::from(vec![form.into(), Value::Int(2), "swirling".into()]);
    for (form, bins) in [
        ("hash-shards", &["b"][..]),
        ("ring", &["b"]),
        ("hash-shards", &["b", "c"]),
    ] {
        let store = Store::in_memory().unwrap();
        for bin in bins {
            let list = ShardedList::new(&store, "x", "k", bin).unwrap();
            list.add(1).unwrap();
            list.shards().activate(2).unwrap();
        }
        let subkeys = match bins {
            [_] => later(form),
            bins => Value::Map(bins.iter().map(|bin| (*bin, later(form))).collect()),
        };
        let by_force = WritePolicy::default().override_shards(true);
        let set = store.set("x").unwrap();
        let later = [operations::put("subkeys", subkeys)];
        set.operate_with(&by_force, "k", &later).unwrap();
        let found = found(&store);
        assert_eq!(found.companions.len(), 2 * bins.len(), "{found:?}");
        assert_eq!(found.leftovers().count(), 0, "{found:?}");
        let is_unknown = |one: &ShardRecord| one.status == ShardStatus::Unknown;
        assert!(found.companions.iter().all(is_unknown), "{found:?}");
    }
}

/// A list of a hundred in four shards; its handle does not have keys stored.
fn keyless(store: &Store) -> ShardedList<Set> {
    let policy = WritePolicy::default().send_key(false);
    let list = ShardedList::new_with(store, "x", "alice", "b", &policy).unwrap();
    for id in 0..100 {
        list.add(id).unwrap();
    }
    list.shards().activate(4).unwrap();
    list
}

fn assert_whole(store: &Store, elements: u64) {
    let found = found(store);
    assert_eq!(found.missing, [0; 0], "{found:?}");
    assert_eq!(found.leftovers().count(), 0, "{found:?}");
    assert_eq!(
        (found.key.clone(), found.elements, found.companions.len()),
        ("alice".into(), elements, 4)
    );
    assert!(found.root_bytes > 0);
    let keys = found.companions.iter().map(|one| one.key.clone());
    let named = (0..4).map(|shard| Key::from(format!("alice:{shard}")));
    assert!(keys.eq(named), "{found:?}");
}

#[test]
fn records_that_store_no_key_are_found_by_what_companions_say() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    let list = keyless(&store);
    assert_whole(&store, 100);
    // Others have keys stored.
    let other = ShardedList::new(&store, "x", "alice", "b").unwrap();
    other.add(100).unwrap();
    assert_whole(&store, 101);
    set.put("alice", [("name", "Alice")]).unwrap();
    assert_whole(&store, 101);
    let by_force = WritePolicy::default().override_shards(true);
    set.delete_with(&by_force, "alice:2").unwrap();
    assert_eq!(found(&store).missing, [2]);
    // A record without shards at the key of the root, and none, leave leftovers.
    set.delete_with(&by_force, "alice").unwrap();
    assert_eq!(found(&store).leftovers().count(), 3);
    let no_key = WritePolicy::default().send_key(false);
    set.put_with(&no_key, "alice", [("name", "Alice")]).unwrap();
    assert_eq!(found(&store).leftovers().count(), 3);
    drop(list);
}

#[test]
fn keyless_records_are_found_beside_other_collections_of_the_root() {
    let store = Store::in_memory().unwrap();
    keyless(&store);
    let policy = WritePolicy::default().send_key(false);
    let other = ShardedList::new_with(&store, "x", "alice", "c", &policy).unwrap();
    other.add(1).unwrap();
    other.shards().activate(2).unwrap();
    // A user's record has the key of a shard to come.
    let set = store.set("x").unwrap();
    set.put_with(&policy, "alice:5", [("name", "Bob")]).unwrap();
    let first = ShardedList::new_with(&store, "x", "alice", "b", &policy).unwrap();
    first.shards().split().unwrap();
    let found = sharded_collections(&set).unwrap();
    let shapes: Vec<_> = found
        .iter()
        .map(|one| (one.bin.as_deref(), one.elements, one.companions.len()))
        .collect();
    assert_eq!(shapes, [(Some("b"), 100, 8), (Some("c"), 1, 2)]);
    for one in &found {
        assert!(
            one.missing.is_empty() && one.leftovers().next().is_none(),
            "{one:?}"
        );
        for companion in &one.companions {
            let record = set.get(&companion.key).unwrap().unwrap();
            assert!(record.get("shard_of").is_some(), "{companion:?}");
        }
    }
}

#[test]
fn buckets_and_pages_without_stored_keys_have_the_keys_of_their_names() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    let policy = WritePolicy::default().send_key(false);
    let feed = TimeShards::new_with(&store, "x", "chat", "b", TimeWidth::Daily, &policy);
    let feed = feed.unwrap().hashed(2);
    let now = std::time::SystemTime::now();
    for word in ["hello", "again", "and", "once", "more"] {
        feed.add(now, word).unwrap();
    }
    let found = found(&store);
    assert_eq!((found.key.clone(), found.elements), ("chat".into(), 5));
    // The page of the year, and that of all years.
    let pages = found.companions.iter().filter(|one| one.is_page);
    assert_eq!((pages.count(), found.leftovers().count()), (2, 0));
    for companion in &found.companions {
        let record = set.get(&companion.key).unwrap().unwrap();
        assert!(record.get("shard_of").is_some(), "{companion:?}");
    }
}
