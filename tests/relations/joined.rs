use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use spikelet::changes::{ChangeOptions, Start};
use spikelet::query::IndexDefinition;
use spikelet::relation::{Joined, declared_relations};
use spikelet::storage::ManualClock;
use spikelet::value::Map;
use spikelet::{
    Error, Expiration, MapOrder, Namespace, NamespaceConfig, Record, ShardedList, Store, Value,
    WritePolicy, bins,
};

pub fn namespace(store: &Store) -> Namespace {
    store.namespace(spikelet::DEFAULT_NAMESPACE).unwrap()
}

/// Items with the names of their assignee and of their editors.
pub fn item_list(namespace: &Namespace) -> Joined {
    Joined::new(namespace, "item_list", "items")
        .keep(["title"])
        .join("assignee", ("users", "name"), "assignee_name")
        .unwrap()
        .join("modified_by[]", ("users", "name"), "modifiers")
        .unwrap()
}

pub fn name_in(row: Option<Record>) -> Option<String> {
    row?.get("assignee_name")?.as_str().map(ToOwned::to_owned)
}

#[test]
fn a_view_follows_the_changes_of_records_and_of_those_they_refer_to() {
    let store = Store::in_memory().unwrap();
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    users.put("u1", bins! { "name" => "Homer" }).unwrap();
    let modified_by = Value::from(vec![Value::from("u1"), "u2".into()]);
    let item = bins! { "title" => "Broken", "assignee" => "u1", "modified_by" => modified_by, "text" => "long" };
    items.put(1, item).unwrap();
    let list = item_list(&namespace(&store));
    let view = list.view().unwrap();
    let mut updater = list.updater().unwrap();
    updater.catch_up().unwrap();
    let row = view.get(1).unwrap().unwrap();
    assert_eq!(row.get("title"), Some("Broken".into()));
    assert_eq!(row.get("text"), None, "only what was asked for");
    let names = Map::new(vec![("u1".into(), "Homer".into())], MapOrder::KeyOrdered);
    assert_eq!(row.get("modifiers"), Some(names.into()), "u2 is not there");

    view.create_index(IndexDefinition::new("by_name", ["assignee_name"]))
        .unwrap();
    users.put("u1", bins! { "name" => "H. Simpson" }).unwrap();
    users.put("u2", bins! { "name" => "Ned" }).unwrap();
    let last = namespace(&store).last_lsn();
    assert!(
        updater.progress().applied < Some(last),
        "it is seen to be late"
    );
    updater.catch_up().unwrap();
    assert!(updater.progress().applied >= Some(last));
    let by_name = |name: &str| view.query("by_name").unwrap().eq(name).count().unwrap();
    assert_eq!((by_name("Homer"), by_name("H. Simpson")), (0, 1));
    let names = view.get(1).unwrap().unwrap().get("modifiers").unwrap();
    assert_eq!(names.as_map().unwrap().len(), 2, "u2 has come to be");

    // Correct records are not written again.
    let written = updater.progress().written;
    users.put("u1", bins! { "age" => 39 }).unwrap();
    updater.catch_up().unwrap();
    assert_eq!(updater.progress().written, written);

    users.delete("u1").unwrap();
    items.put(2, bins! { "assignee" => "u1" }).unwrap();
    updater.catch_up().unwrap();
    assert_eq!((name_in(view.get(1).unwrap()), view.len()), (None, 2));
    items.delete(1).unwrap();
    updater.catch_up().unwrap();
    assert_eq!(view.get(1).unwrap(), None);
    users.truncate(None).unwrap();
    items.truncate(None).unwrap();
    updater.catch_up().unwrap();
    assert_eq!(view.len(), 0);
    assert_eq!(
        (updater.progress().failed, updater.progress().keyless),
        (0, 0)
    );
}

#[test]
fn a_view_record_that_was_too_big_is_made_once_a_source_is_smaller() {
    let store = Store::in_memory().unwrap();
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    let long = || "x".repeat(700 << 10);
    let list = Joined::new(&namespace(&store), "item_list", "items")
        .keep(["text"])
        .join("author", ("users", "bio"), "bio")
        .unwrap();
    let view = list.view().unwrap();
    let mut updater = list.updater().unwrap();
    updater.catch_up().unwrap();
    users.put("u1", bins! { "bio" => long() }).unwrap();
    for id in [1, 2] {
        let text = if id == 1 { long() } else { "short".into() };
        let item = bins! { "text" => text, "author" => "u1" };
        items.put(id, item).unwrap();
    }
    assert_eq!(updater.catch_up().unwrap().failed, 1);
    assert_eq!(updater.take_failures()[0].error.result_code(), 13);
    let bio = |id: i64| view.get(id).unwrap().and_then(|row| row.get("bio"));
    for text in ["first", "second"] {
        users.put("u1", bins! { "bio" => text }).unwrap();
        updater.catch_up().unwrap();
        assert_eq!((bio(1), bio(2)), (Some(text.into()), Some(text.into())));
        // One that is shown stays as it was, and follows its sources, too.
        users.put("u1", bins! { "bio" => long() }).unwrap();
        updater.catch_up().unwrap();
        assert_eq!((bio(1), bio(2)), (Some(text.into()), Some(long().into())));
    }
}

#[test]
fn a_reference_that_is_no_key_is_told_and_the_others_go_on() {
    let store = Store::in_memory().unwrap();
    let items = store.set("items").unwrap();
    store
        .set("users")
        .unwrap()
        .put("u1", bins! { "name" => "Homer" })
        .unwrap();
    items.put(1, bins! { "assignee" => 1.5 }).unwrap();
    items.put(2, bins! { "assignee" => "u1" }).unwrap();
    let list = item_list(&namespace(&store));
    let mut updater = list.updater().unwrap();
    assert_eq!(updater.catch_up().unwrap().failed, 1);
    let failures = updater.take_failures();
    assert_eq!(
        (failures[0].key.clone(), failures[0].error.result_code()),
        (Some(1.into()), 4)
    );
    assert_eq!(
        name_in(list.view().unwrap().get(2).unwrap()).as_deref(),
        Some("Homer")
    );
    let taken = Joined::new(&namespace(&store), "v", "items")
        .keep(["a"])
        .join("b", ("users", "name"), "a");
    assert_eq!(taken.unwrap_err().result_code(), 4);
    let too_long = Joined::new(&namespace(&store), "v", "items").join(
        "b",
        ("users", "name"),
        "a_name_of_20_letters",
    );
    assert_eq!(too_long.unwrap_err().result_code(), 21);
}

#[test]
fn a_view_needs_a_set_and_bins_of_its_own() {
    let store = Store::in_memory().unwrap();
    let namespace = namespace(&store);
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    users.put(1, bins! { "name" => "Homer" }).unwrap();
    items.put(1, bins! { "title" => "a" }).unwrap();
    for view in ["users", "items"] {
        let over = Joined::new(&namespace, view, "items").keep(["title"]);
        assert!(matches!(over.updater(), Err(Error::Parameter(_))));
        assert!(matches!(over.remove(), Err(Error::Parameter(_))));
    }
    for kept in [&["sources"][..], &["title", "title"]] {
        let view = Joined::new(&namespace, "view", "items").keep(kept.iter().copied());
        assert!(matches!(view.updater(), Err(Error::Parameter(_))));
    }
    let joined = Joined::new(&namespace, "view", "items");
    let twice = joined.join("user", ("users", "name"), "title").unwrap();
    assert!(twice.keep(["title"]).updater().is_err());
    assert_eq!((users.len(), items.len()), (1, 1));
    assert!(items.get(1).unwrap().unwrap().get("title").is_some());
}

#[test]
fn an_updater_that_was_dropped_before_it_built_leaves_that_to_the_next() {
    let store = Store::in_memory().unwrap();
    let namespace = namespace(&store);
    let items = store.set("items").unwrap();
    items.put(1, bins! { "title" => "a" }).unwrap();
    let view = Joined::new(&namespace, "view", "items").keep(["title"]);
    view.updater().unwrap().catch_up().unwrap();
    namespace.changes().unsubscribe("view").unwrap();
    items.put(1, bins! { "title" => "b" }).unwrap();
    drop(view.updater().unwrap());
    view.updater().unwrap().catch_up().unwrap();
    let row = view.view().unwrap().get(1).unwrap().unwrap();
    assert_eq!(row.get("title"), Some("b".into()));
}

#[test]
fn a_field_in_a_sharded_collection_is_an_error_of_its_item() {
    let store = Store::in_memory().unwrap();
    let tags = ShardedList::new(&store, "users", "u1", "tags").unwrap();
    tags.add("a").unwrap();
    let items = store.set("items").unwrap();
    items.put(1, bins! { "user" => "u1" }).unwrap();
    let list = Joined::new(&namespace(&store), "list", "items");
    let list = list.join("user", ("users", "tags"), "user_tags").unwrap();
    let mut updater = list.updater().unwrap();
    assert_eq!(updater.catch_up().unwrap().failed, 0);
    tags.shards().activate(2).unwrap();
    items.put(1, bins! { "n" => 1 }).unwrap();
    assert_eq!(updater.catch_up().unwrap().failed, 1);
    let failures = updater.take_failures();
    assert_eq!(failures[0].key, Some(1.into()));
    assert!(failures[0].error.to_string().contains("is sharded"));
    let row = list.view().unwrap().get(1).unwrap().unwrap();
    assert!(row.get("user_tags").is_some());
}

#[test]
fn companions_are_no_items_and_views_do_not_expire() {
    let config = NamespaceConfig::new("test").default_time_to_live(Duration::from_secs(60));
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let builder = Store::builder().namespace(config).clock(clock.clone());
    let store = builder.open().unwrap();
    let namespace = namespace(&store);
    let items = store.set("items").unwrap();
    let forever = WritePolicy::default().expiration(Expiration::Never);
    items
        .put_with(&forever, "a", bins! { "title" => "a" })
        .unwrap();
    let votes = ShardedList::new(&namespace, "items", "a", "votes").unwrap();
    votes.add(1).unwrap();
    votes.shards().activate(4).unwrap();
    let view = Joined::new(&namespace, "view", "items").keep(["title"]);
    view.updater().unwrap().catch_up().unwrap();
    votes.add(2).unwrap();
    view.updater().unwrap().catch_up().unwrap();
    assert_eq!(view.view().unwrap().len(), 1);
    clock.advance_ms(120_000);
    let row = view.view().unwrap().get("a").unwrap().unwrap();
    assert_eq!(row.get("title"), Some("a".into()));
}

#[test]
fn who_waits_sees_what_was_written_and_is_told_when_nobody_updates() {
    let store = Store::in_memory().unwrap();
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    let list = item_list(&namespace(&store));
    let running = list.updater().unwrap().start().unwrap();
    assert!(
        matches!(list.updater(), Err(Error::Forbidden(_))),
        "there is one"
    );
    for turn in 0..20 {
        let name = format!("Homer {turn}");
        items.put(turn, bins! { "assignee" => "u1" }).unwrap();
        let lsn = users.put("u1", [("name", &*name)]).unwrap();
        list.wait_until(lsn, Duration::from_secs(60)).unwrap();
        let view = list.view().unwrap();
        assert_eq!(name_in(view.get(turn).unwrap()), Some(name.clone()));
        assert_eq!(name_in(view.get(0).unwrap()), Some(name));
    }
    running.stop().unwrap();
    let lsn = users.put("u1", [("name", "Bart")]).unwrap();
    let late = list.wait_until(lsn, Duration::from_secs(60)).unwrap_err();
    assert!(matches!(late, Error::Forbidden(_)), "{late}");
    let alone = item_list(&namespace(&store))
        .wait_until(lsn, Duration::ZERO)
        .unwrap_err();
    assert!(matches!(alone, Error::Timeout { .. }), "{alone}");
}

#[test]
fn a_view_that_is_declared_anew_is_built_anew_and_one_that_is_removed_keeps_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store
        .set("users")
        .unwrap()
        .put("u1", bins! { "name" => "Homer", "age" => 39 })
        .unwrap();
    store
        .set("items")
        .unwrap()
        .put(1, bins! { "assignee" => "u1" })
        .unwrap();
    item_list(&namespace(&store))
        .updater()
        .unwrap()
        .catch_up()
        .unwrap();
    store
        .set("users")
        .unwrap()
        .put("u1", bins! { "name" => "H." })
        .unwrap();
    store.close().unwrap();
    drop(store);

    let store = Store::open(dir.path()).unwrap();
    let list = item_list(&namespace(&store));
    let mut updater = list.updater().unwrap();
    let progress = updater.catch_up().unwrap();
    assert_eq!(
        (progress.changes, progress.written),
        (1, 1),
        "it goes on where it was"
    );
    drop(updater);
    let aged = item_list(&namespace(&store))
        .join("assignee", ("users", "age"), "age")
        .unwrap();
    aged.updater().unwrap().catch_up().unwrap();
    let row = list.view().unwrap().get(1).unwrap().unwrap();
    assert_eq!(row.get("age"), Some(39.into()));
    assert_eq!(declared_relations(&store).unwrap().len(), 1);
    assert_eq!(aged.remove().unwrap(), 1);
    assert!(declared_relations(&store).unwrap().is_empty());
    assert!(namespace(&store).changes().subscriptions().is_empty());
}

#[derive(Clone, Debug)]
enum Write {
    Item(i64, Option<i64>, Vec<i64>),
    User(i64, i64),
    DeleteItem(i64),
    DeleteUser(i64),
    TruncateUsers,
    CatchUp,
}

fn write() -> impl Strategy<Value = Write> {
    let item = (
        0..6_i64,
        prop::option::of(0..5_i64),
        prop::collection::vec(0..5_i64, 0..3),
    );
    prop_oneof![
        6 => item.prop_map(|(id, assignee, modified)| Write::Item(id, assignee, modified)),
        6 => (0..5_i64, 0..4_i64).prop_map(|(id, name)| Write::User(id, name)),
        1 => (0..6_i64).prop_map(Write::DeleteItem),
        1 => (0..5_i64).prop_map(Write::DeleteUser),
        1 => Just(Write::TruncateUsers),
        3 => Just(Write::CatchUp),
    ]
}

type Row = (Option<i64>, BTreeMap<i64, i64>);

fn rows(view: &spikelet::Set) -> BTreeMap<i64, Row> {
    let found = view.query_all().records().unwrap().into_records().unwrap();
    let row = |record: Record| {
        let id = match record.key() {
            Some(spikelet::Key::Integer(id)) => id,
            other => panic!("{other:?}"),
        };
        let modifiers = record.get("modifiers").unwrap();
        let entries = modifiers.as_map().unwrap().iter();
        let modifiers = entries.map(|(key, name)| (key.as_i64().unwrap(), name.as_i64().unwrap()));
        let assignee = record
            .get("assignee_name")
            .map(|name| name.as_i64().unwrap());
        (id, (assignee, modifiers.collect()))
    };
    found.into_iter().map(|found| row(found.record)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn views_are_those_of_a_naive_model(writes in prop::collection::vec(write(), 1..60)) {
        let store = Store::in_memory().unwrap();
        let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
        let list = item_list(&namespace(&store));
        let mut updater = list.updater().unwrap();
        let mut known_items: BTreeMap<i64, (Option<i64>, BTreeSet<i64>)> = BTreeMap::new();
        let mut known_users: BTreeMap<i64, i64> = BTreeMap::new();
        for write in writes.into_iter().chain([Write::CatchUp]) {
            match write {
                Write::Item(id, assignee, modified) => {
                    let assigned = assignee.map_or(Value::Nil, Value::Int);
                    let modified_by: Vec<Value> = modified.iter().map(|id| Value::Int(*id)).collect();
                    items.put(id, bins! { "assignee" => assigned, "modified_by" => modified_by, "title" => id }).unwrap();
                    known_items.insert(id, (assignee, modified.into_iter().collect()));
                }
                Write::User(id, name) => {
                    users.put(id, [("name", name)]).unwrap();
                    known_users.insert(id, name);
                }
                Write::DeleteItem(id) => {
                    items.delete(id).unwrap();
                    known_items.remove(&id);
                }
                Write::DeleteUser(id) => {
                    users.delete(id).unwrap();
                    known_users.remove(&id);
                }
                Write::TruncateUsers => {
                    users.truncate(None).unwrap();
                    known_users.clear();
                }
                Write::CatchUp => {
                    updater.catch_up().unwrap();
                    let name = |id: &i64| known_users.get(id).copied();
                    let expected: BTreeMap<i64, Row> = known_items.iter().map(|(id, (assignee, modified))| {
                        let modifiers = modified.iter().filter_map(|id| Some((*id, name(id)?)));
                        (*id, (assignee.as_ref().and_then(name), modifiers.collect()))
                    }).collect();
                    prop_assert_eq!(rows(&list.view().unwrap()), expected);
                }
            }
        }
        prop_assert_eq!(updater.progress().failed, 0);
    }
}

#[test]
fn an_item_that_was_written_is_looked_at_once() {
    let store = Store::in_memory().unwrap();
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    users.put("u1", bins! { "name" => "Homer" }).unwrap();
    for id in 0..10 {
        let item = bins! { "title" => "Broken", "assignee" => "u1" };
        items.put(id, item).unwrap();
    }
    let list = item_list(&namespace(&store));
    let mut updater = list.updater().unwrap();
    let built = updater.catch_up().unwrap();
    for id in 0..10 {
        items.put(id, bins! { "title" => "Mended" }).unwrap();
    }
    let updated = updater.catch_up().unwrap();
    let looked_at = (
        updated.written - built.written,
        updated.unchanged - built.unchanged,
    );
    assert_eq!(looked_at, (10, 0));
    // Ten items are found by the user, five of which were written as well.
    users.put("u1", bins! { "name" => "H. Simpson" }).unwrap();
    for id in 0..5 {
        items.put(id, bins! { "title" => "New" }).unwrap();
    }
    let last = updater.catch_up().unwrap();
    let looked_at = (
        last.written - updated.written,
        last.unchanged - updated.unchanged,
    );
    assert_eq!(looked_at, (10, 0));
}

#[test]
fn a_subscription_of_somebody_else_is_not_taken_away() {
    let store = Store::in_memory().unwrap();
    let namespace = namespace(&store);
    let items = store.set("items").unwrap();
    namespace.changes().enable("items").unwrap();
    let options = ChangeOptions::default().set("items").records(true);
    let subscribe = || {
        namespace
            .changes()
            .subscribe("view", Start::Now, options.clone())
    };
    let subscription = subscribe().unwrap();
    items.put(1, bins! { "title" => "a" }).unwrap();
    let view = Joined::new(&namespace, "view", "items").keep(["title"]);
    let refused = view.updater().unwrap_err().to_string();
    assert!(refused.contains("\"view\""), "{refused}");
    namespace.sync().unwrap();
    let batch = subscription
        .consumer()
        .unwrap()
        .next_batch(10, Duration::ZERO);
    assert_eq!(batch.unwrap().len(), 1);
    namespace.changes().unsubscribe("view").unwrap();
    view.updater().unwrap().catch_up().unwrap();
}

#[test]
fn changes_that_were_not_kept_for_a_while_have_all_records_looked_at_again() {
    let store = Store::in_memory().unwrap();
    let namespace = namespace(&store);
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    let list = item_list(&namespace);
    let put = |name: &str| users.put("u1", bins! { "name" => name }).unwrap();
    let name = || name_in(list.view().unwrap().get(1).unwrap());
    items.put(1, bins! { "assignee" => "u1" }).unwrap();
    put("one");
    let mut updater = list.updater().unwrap();
    updater.catch_up().unwrap();
    assert_eq!(name().as_deref(), Some("one"));
    // Beside an updater, and while there is none.
    namespace.changes().disable("users").unwrap();
    put("two");
    namespace.changes().enable("users").unwrap();
    let lost = updater.catch_up().unwrap_err();
    assert!(matches!(lost, Error::ChangesLost { .. }), "{lost}");
    drop(updater);
    let mut updater = list.updater().unwrap();
    updater.catch_up().unwrap();
    assert_eq!(name().as_deref(), Some("two"));
    drop(updater);
    namespace.changes().disable("users").unwrap();
    put("three");
    list.updater().unwrap().catch_up().unwrap();
    assert_eq!(name().as_deref(), Some("three"));
}

#[test]
fn a_view_shows_the_items_that_a_truncation_of_all_sets_leaves() {
    let now_ms = 500_000_000_000;
    let clock = Arc::new(ManualClock::at(now_ms));
    let builder = Store::builder().namespace(NamespaceConfig::new("test"));
    let store = builder.clock(clock.clone()).open().unwrap();
    let namespace = namespace(&store);
    let (list, items) = (item_list(&namespace), store.set("items").unwrap());
    let mut updater = list.updater().unwrap();
    for _ in 0..2 {
        // The second time the view record stays as it is.
        items.put(1, bins! { "title" => "Broken" }).unwrap();
        updater.catch_up().unwrap();
        clock.advance_ms(10_000);
    }
    let before = std::time::UNIX_EPOCH + Duration::from_millis(1_262_304_000_000 + now_ms + 5_000);
    namespace.truncate(Some(before)).unwrap();
    assert!(items.exists(1).unwrap());
    updater.catch_up().unwrap();
    assert!(list.view().unwrap().exists(1).unwrap());
}
