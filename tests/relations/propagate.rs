use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use spikelet::relation::{Propagate, RelationFault, Repair};
use spikelet::{Error, IndexedRecordSet, RecordStore, ShardedList, ShardedMap, Store, Value, bins};

use crate::joined::namespace;
use crate::watched::{Calls, Watched};

pub fn assignees<S: RecordStore<Records: IndexedRecordSet>>(store: S) -> Propagate<S> {
    let assignees = Propagate::new(store, "assignees", ("users", "items"), "assignee").unwrap();
    assignees.copy("name", "assignee_name")
}

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn name_of(store: &Store, item: i64) -> Option<Value> {
    store
        .set("items")
        .unwrap()
        .get(item)
        .unwrap()?
        .get("assignee_name")
}

fn rename(store: &Store, user: &str, name: &str) {
    store
        .set("users")
        .unwrap()
        .put(user, [("name", name)])
        .unwrap();
}

#[test]
fn a_name_is_carried_to_all_records_that_refer_to_it_and_to_no_others() {
    let store = Store::in_memory().unwrap();
    let assignees = assignees(&store);
    rename(&store, "u1", "Homer");
    rename(&store, "u2", "Ned");
    for item in 0..1_200 {
        assignees
            .assign(item, if item % 3 == 0 { "u2" } else { "u1" })
            .unwrap();
    }
    rename(&store, "u1", "H. Simpson");
    let mut seen = 0;
    let stopped = assignees
        .propagate("u1", |progress| {
            seen = progress.records;
            if progress.records == 100 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .unwrap();
    assert_eq!((seen, stopped.written, stopped.complete), (100, 100, false));
    let done = assignees.propagate("u1", go_on).unwrap();
    assert_eq!(
        (done.written, done.unchanged, done.complete),
        (700, 100, true)
    );
    assert_eq!(name_of(&store, 1), Some("H. Simpson".into()));
    assert_eq!(name_of(&store, 3), Some("Ned".into()));
    let missing = assignees.assign(1, "u9").unwrap_err();
    assert_eq!(missing.result_code(), 2, "{missing}");
    assert!(missing.to_string().contains("\"u9\""), "{missing}");
    store.set("users").unwrap().delete("u2").unwrap();
    assert_eq!(assignees.propagate("u2", go_on).unwrap().written, 400);
    assert_eq!(name_of(&store, 3), None);
}

#[test]
fn a_record_that_cannot_be_written_is_told_and_the_others_are() {
    let store = Store::in_memory().unwrap();
    let assignees = assignees(&store);
    rename(&store, "u1", "Homer");
    let full = Value::Blob(vec![7; 700_000]);
    store
        .set("items")
        .unwrap()
        .put(1, bins! { "text" => full })
        .unwrap();
    for item in 1..4 {
        assignees.assign(item, "u1").unwrap();
    }
    rename(&store, "u1", &"x".repeat(400_000));
    let report = assignees.propagate("u1", go_on).unwrap();
    assert_eq!((report.written, report.failed), (2, 1));
    assert_eq!(report.failures[0].key, Some(1.into()));
    assert_eq!(report.failures[0].error.result_code(), 13);
    let audit = assignees.verify(Repair::No, go_on).unwrap();
    let stale = RelationFault::Stale {
        from: 1.into(),
        to: "u1".into(),
    };
    assert_eq!(audit.faults, [stale]);
}

#[test]
fn without_transactions_a_death_between_any_two_steps_is_repaired() {
    for repeat in [true, false] {
        for operations in 0..30 {
            let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
            let plain = assignees(&store);
            rename(&store, "u1", "Homer");
            for item in 0..3 {
                plain.assign(item, "u1").unwrap();
            }
            rename(&store, "u1", "H. Simpson");
            let dying = assignees(Watched::new(&store, &calls));
            calls.die_after(operations);
            let ended = dying.propagate("u1", go_on);
            if repeat {
                drop(plain.propagate("u1", go_on).unwrap())
            } else {
                let audit = plain.verify(Repair::Yes, go_on).unwrap();
                assert_eq!(audit.faults.len() as u64, audit.repaired);
                assert!(
                    ended.is_err() || audit.faults.is_empty(),
                    "after {operations}"
                );
            }
            assert!(plain.verify(Repair::No, go_on).unwrap().is_sound());
            for item in 0..3 {
                assert_eq!(name_of(&store, item), Some("H. Simpson".into()));
            }
        }
    }
}

/// Each thread renames users and propagates the name; others give items to other users meanwhile.
/// The last name must be in every copy in the end, since no later pass looks again.
fn rename_side_by_side<S: RecordStore<Records: IndexedRecordSet> + Sync>(
    store: &Store,
    assignees: &Propagate<S>,
) {
    let retried = |call: &dyn Fn() -> spikelet::Result<()>| loop {
        match call() {
            Err(error) if error.is_retryable() => {}
            done => return done.unwrap(),
        }
    };
    for user in ["u0", "u1"] {
        rename(store, user, "nobody");
        for item in 0..8 {
            retried(&|| assignees.assign(item, user));
        }
    }
    thread::scope(|scope| {
        for thread in 0..3_usize {
            scope.spawn(move || {
                for turn in 0..40_usize {
                    let user = ["u0", "u1"][(thread + turn) % 2];
                    if thread == 2 {
                        retried(&|| assignees.assign(turn as i64 % 8, user));
                    } else {
                        rename(store, user, &format!("{thread} {turn}"));
                        retried(&|| assignees.propagate(user, go_on).map(drop));
                    }
                }
            });
        }
    });
    let audit = assignees.verify(Repair::No, go_on).unwrap();
    assert!(audit.is_sound(), "{:?}", audit.faults);
    assert_eq!(audit.edges, 8);
}

#[test]
fn an_older_name_never_stays_over_a_newer_one() {
    let store = Store::in_memory().unwrap();
    rename_side_by_side(&store, &assignees(&store));
    let store = Store::in_memory().unwrap();
    let watched = Watched::new(&store, &Calls::default());
    rename_side_by_side(&store, &assignees(watched));
}

#[test]
fn an_updater_propagates_what_changed_while_it_was_away() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let names = assignees(namespace(&store));
    rename(&store, "u1", "Homer");
    names.assign(1, "u1").unwrap();
    names.updater().unwrap().catch_up().unwrap();
    rename(&store, "u1", "H. Simpson");
    drop(names);
    store.close().unwrap();
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    let names = assignees(namespace(&store));
    let running = names.updater().unwrap().start().unwrap();
    names
        .wait_until(namespace(&store).last_lsn(), Duration::from_secs(60))
        .unwrap();
    assert_eq!(name_of(&store, 1), Some("H. Simpson".into()));
    assert_eq!(running.progress().written, 1);
    running.stop().unwrap();
    names.remove().unwrap();
    assert!(
        matches!(names.propagate("u1", go_on), Err(Error::Relation { .. })),
        "its index is gone"
    );
    let mut updater = names.updater().unwrap();
    updater.catch_up().unwrap();
    rename(&store, "u1", "Homer");
    updater.catch_up().unwrap();
    assert_eq!(name_of(&store, 1), Some("Homer".into()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn copies_are_those_of_a_naive_model(writes in prop::collection::vec((0..4_u8, 0..6_i64, 0..4_i64), 1..60)) {
        let store = Store::in_memory().unwrap();
        let names = assignees(&store);
        let users = store.set("users").unwrap();
        let mut assigned: BTreeMap<i64, (i64, Option<i64>)> = BTreeMap::new();
        let mut known: BTreeMap<i64, i64> = BTreeMap::new();
        for (turn, (what, item, user)) in (0_i64..).zip(writes) {
            match what {
                0 => {
                    users.put(user, [("name", turn)]).unwrap();
                    known.insert(user, turn);
                }
                1 => {
                    let name = known.get(&user).copied();
                    prop_assert_eq!(names.assign(item, user).is_ok(), name.is_some());
                    if name.is_some() { assigned.insert(item, (user, name)); }
                }
                2 => {
                    let report = names.propagate(user, go_on).unwrap();
                    let name = known.get(&user).copied();
                    let referring: Vec<_> = assigned.values_mut().filter(|(of, _)| *of == user).collect();
                    let stale = referring.iter().filter(|(_, copy)| *copy != name).count() as u64;
                    prop_assert_eq!((report.written, report.unchanged), (stale, referring.len() as u64 - stale));
                    for (_, copy) in referring { *copy = name; }
                }
                _ => {
                    users.delete(user).unwrap();
                    known.remove(&user);
                }
            }
        }
        for (item, (_, copy)) in &assigned {
            prop_assert_eq!(name_of(&store, *item), copy.map(Value::Int));
        }
        let faults = assigned.values().filter(|(user, copy)| known.get(user) != copy.as_ref() || copy.is_none()).count();
        prop_assert_eq!(names.verify(Repair::Yes, go_on).unwrap().faults.len(), faults);
        let dangling = assigned.values().filter(|(user, _)| !known.contains_key(user)).count();
        prop_assert_eq!(names.verify(Repair::No, go_on).unwrap().faults.len(), dangling);
    }
}

#[test]
fn a_record_that_refers_to_itself_has_copies_of_its_copies() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    let chain = Propagate::new(&store, "chain", ("users", "users"), "mentor").unwrap();
    let chain = chain.copy("name", "called").copy("called", "known_as");
    users.put(1, bins! { "name" => "Lisa" }).unwrap();
    chain.assign(1, 1).unwrap();
    let lisa = users.get(1).unwrap().unwrap();
    assert_eq!(lisa.get("known_as"), Some("Lisa".into()));
    users.put(1, [("name", "L. Simpson")]).unwrap();
    let report = chain.propagate(1, |_| ControlFlow::Continue(())).unwrap();
    assert_eq!(report.written, 1);
    let lisa = users.get(1).unwrap().unwrap();
    assert_eq!(lisa.get("known_as"), Some("L. Simpson".into()));
}

#[test]
fn copies_over_the_reference_or_over_one_another_are_refused() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    users
        .put("homer", bins! { "name" => "Homer", "mail" => "h@x" })
        .unwrap();
    for bin in ["assignee", "assignee_name"] {
        let copies = assignees(namespace(&store)).copy("mail", bin);
        let refused = [
            copies.assign(1, "homer").err(),
            copies.propagate("homer", go_on).err(),
            copies.verify(Repair::Yes, go_on).err(),
            copies.declare().err(),
            copies.updater().err(),
        ];
        assert!(
            refused
                .iter()
                .all(|error| matches!(error, Some(Error::Parameter(_)))),
            "{refused:?}"
        );
    }
    assert_eq!(store.set("items").unwrap().get(1).unwrap(), None);
}

#[test]
fn copies_of_a_record_that_refers_to_itself_may_not_go_in_a_circle() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    let bins = bins! { "a" => 1, "b" => 2, "boss" => "homer" };
    users.put("homer", bins).unwrap();
    let before = users.get("homer").unwrap();
    let swapped = Propagate::new(&store, "swapped", ("users", "users"), "boss").unwrap();
    let swapped = swapped.copy("a", "b").copy("b", "a");
    let report = swapped.propagate("homer", go_on).unwrap();
    assert_eq!((report.written, report.failed), (0, 1));
    assert_eq!(users.get("homer").unwrap(), before);
}

/// RavenDB's example: `Assignee: { Id, Name }`.
#[test]
fn nested_copies_follow_the_record_that_they_are_of() {
    use spikelet::operations::{ctx, maps};
    use spikelet::{MapPolicy, MapReturnType};
    let store = Store::in_memory().unwrap();
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    let name = |first: &str| {
        let name = [("first", first), ("last", "Simpson")];
        let name = name.map(|(key, value)| (Value::from(key), Value::from(value)));
        Value::Map(name.into_iter().collect())
    };
    users
        .put(
            "u1",
            bins! { "city" => "Springfield", "name" => name("Homer") },
        )
        .unwrap();
    let assignees = Propagate::new(&store, "assignees", ("users", "items"), "assignee.id")
        .unwrap()
        .copy("name.first", "assignee.name")
        .copy("city", "assignee.address.city");
    items.put(1, bins! { "title" => "Malfunction" }).unwrap();
    assignees.assign(1, "u1").unwrap();
    // What others keep beside the copies stays.
    let note = maps::put(&MapPolicy::default(), "assignee", "note", "urgent");
    items.operate(1, &[note]).unwrap();
    let shown = || {
        let item = items.get(1).unwrap().unwrap();
        item.get("assignee").unwrap().to_string()
    };
    let as_copied = |name: &str| {
        format!(
            r#"{{"address": {{"city": "Springfield"}}, "id": "u1", "name": "{name}", "note": "urgent"}}"#
        )
    };
    assert_eq!(shown(), as_copied("Homer"));
    users
        .put(
            "u1",
            bins! { "city" => "Springfield", "name" => name("Max") },
        )
        .unwrap();
    let found = assignees.verify(Repair::No, go_on).unwrap();
    assert!(
        matches!(&found.faults[..], [RelationFault::Stale { .. }]),
        "{found:?}"
    );
    let report = assignees.propagate("u1", go_on).unwrap();
    assert_eq!((report.written, report.failed), (1, 0));
    assert_eq!(shown(), as_copied("Max"));
    assert!(assignees.verify(Repair::No, go_on).unwrap().is_sound());
    // A field that is gone takes its copy along.
    users.put("u1", [("city", Value::Nil)]).unwrap();
    assert_eq!(assignees.propagate("u1", go_on).unwrap().written, 1);
    assert!(!shown().contains("Springfield"), "{}", shown());
    // The reference is another one by now: nothing is written.
    let other = maps::put(&MapPolicy::default(), "assignee", "id", "u2");
    items.operate(1, &[other]).unwrap();
    assert_eq!(assignees.propagate("u1", go_on).unwrap().written, 0);
    let city = maps::get_by_key("assignee", "city", MapReturnType::Value)
        .in_context([ctx::map_key("address")]);
    let _ = items.operate(1, &[city]);
}

#[test]
fn paths_that_lead_to_several_places_or_into_one_another_are_refused() {
    let store = Store::in_memory().unwrap();
    for reference in ["watchers[]", "assignee..id", "", ".id", "assignee."] {
        let refused = Propagate::new(&store, "refused", ("users", "items"), reference);
        assert!(refused.is_err(), "{reference:?}");
    }
    let to = |copies: [&str; 2]| {
        let sets = ("users", "items");
        let refused = Propagate::new(&store, "assignees", sets, "assignee.id").unwrap();
        let [first, second] = copies;
        refused.copy("name", first).copy("city", second).declare()
    };
    for copies in [
        ["assignee", "city"],
        ["assignee.id", "city"],
        ["assignee.id.name", "city"],
        ["a.b", "a.b.c"],
        ["a.b", "a.b"],
        ["names[]", "city"],
    ] {
        assert_eq!(to(copies).unwrap_err().result_code(), 4, "{copies:?}");
    }
    to(["assignee.name", "assignee.city"]).unwrap();
}

#[test]
fn an_updater_follows_nested_copies() {
    let store = Store::in_memory().unwrap();
    let namespace = namespace(&store);
    let users = namespace.set("users").unwrap();
    let items = namespace.set("items").unwrap();
    let assignees = Propagate::new(
        namespace.clone(),
        "assignees",
        ("users", "items"),
        "assignee.id",
    )
    .unwrap()
    .copy("name", "assignee.name");
    users.put("u1", [("name", "Homer")]).unwrap();
    assignees.assign(1, "u1").unwrap();
    let mut updater = assignees.updater().unwrap();
    users.put("u1", [("name", "Max")]).unwrap();
    updater.catch_up().unwrap();
    let item = items.get(1).unwrap().unwrap();
    assert!(item.get("assignee").unwrap().to_string().contains("Max"));
}

#[test]
fn fields_and_copies_in_sharded_collections_are_errors_and_no_copy_is_removed() {
    let store = Store::in_memory().unwrap();
    let items = store.set("items").unwrap();
    rename(&store, "u1", "Homer");
    let tags = ShardedList::new(&store, "users", "u1", "tags").unwrap();
    tags.add("a").unwrap();
    let place = ShardedMap::new(&store, "users", "u1", "place").unwrap();
    place.put("city", "Springfield").unwrap();
    for (field, copy) in [("tags", "user_tags"), ("place.city", "user.city")] {
        let copies = Propagate::new(&store, "users", ("users", "items"), "assignee").unwrap();
        let copies = copies.copy(field, copy);
        copies.assign(1, "u1").unwrap();
        let before = items.get(1).unwrap().unwrap();
        assert!(before.get(copy.split('.').next().unwrap()).is_some());
        let bin = field.split('.').next().unwrap();
        let sharded = |shards: u64| {
            let list = ShardedList::new(&store, "users", "u1", bin).unwrap();
            let map = ShardedMap::new(&store, "users", "u1", bin).unwrap();
            match (bin, shards) {
                ("tags", 0) => list.shards().deactivate().unwrap(),
                ("tags", shards) => list.shards().activate(shards).unwrap(),
                (_, 0) => map.shards().deactivate().unwrap(),
                (_, shards) => map.shards().activate(shards).unwrap(),
            };
        };
        sharded(1);
        let report = copies.propagate("u1", go_on).unwrap();
        assert_eq!((report.written, report.failed), (0, 1), "{field}");
        let told = report.failures[0].error.to_string();
        assert!(told.contains("is sharded") && told.contains(bin), "{told}");
        assert_eq!(copies.assign(1, "u1").unwrap_err().result_code(), 4);
        assert_eq!(
            copies.verify(Repair::Yes, go_on).unwrap_err().result_code(),
            4
        );
        let after = items.get(1).unwrap().unwrap();
        assert_eq!(after.into_bins().unwrap(), before.into_bins().unwrap());
        sharded(0);
        assert_eq!(copies.propagate("u1", go_on).unwrap().unchanged, 1);
    }
    // A copy that would be written beside the companions of a collection.
    let copies = Propagate::new(&store, "names", ("users", "items"), "assignee").unwrap();
    let copies = copies.copy("name", "box.name");
    copies.assign(2, "u1").unwrap();
    let of_box = ShardedMap::new(&store, "items", 2, "box").unwrap();
    of_box.shards().activate(1).unwrap();
    assert!(copies.assign(2, "u1").is_err());
    rename(&store, "u1", "Max");
    let report = copies.propagate("u1", go_on).unwrap();
    assert_eq!((report.written, report.failed), (1, 1), "item 1 alone");
    assert_eq!(of_box.get(&"name".into()).unwrap(), Some("Homer".into()));
}
