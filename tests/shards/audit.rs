//! Reports of sharded collections.

use spikelet::shard::{
    ShardRecord, ShardState, ShardStatus, ShardedCollection, sharded_collections,
};
use spikelet::{Result, ShardedList, Store, Value, WritePolicy, operations};

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
