//! Updaters of views: one at a time, and what its loss of changes, its end and its new beginning
//! mean for the view.

use std::time::Duration;

use spikelet::relation::{Joined, declared_relations};
use spikelet::{Error, NamespaceConfig, ShardedList, Store, WritePolicy, bins};

use crate::joined::{item_list, name_in, namespace};

#[test]
fn lost_changes_are_told_until_all_records_are_known_to_be_looked_at_again() {
    let config = NamespaceConfig::new("test").background(false);
    let builder = Store::builder().namespace(config.max_device_bytes(64 << 20));
    let store = builder.open().unwrap();
    let namespace = namespace(&store);
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    let list = item_list(&namespace);
    items.put(1, bins! { "assignee" => "u1" }).unwrap();
    users.put("u1", bins! { "name" => "one" }).unwrap();
    let mut updater = list.updater().unwrap();
    updater.catch_up().unwrap();
    namespace.changes().disable("users").unwrap();
    users.put("u1", bins! { "name" => "two" }).unwrap();
    namespace.changes().enable("users").unwrap();
    // So many that a consumer notes where it is without a change, and then the store is full.
    let others = store.set("others").unwrap();
    for n in 0..5_000 {
        others.put(n % 9, [("n", n)]).unwrap();
    }
    let blob = vec![7_u8; 900 << 10];
    let full = (0..200).find_map(|key| others.put(key, [("b", blob.as_slice())]).err());
    assert!(matches!(full, Some(Error::StopWrites { .. })), "{full:?}");
    for _ in 0..2 {
        let full = updater.catch_up().unwrap_err();
        assert!(matches!(full, Error::StopWrites { .. }), "{full}");
    }
    others.truncate(None).unwrap();
    namespace.maintain().unwrap();
    // The updater after this one learns of them as well.
    drop(updater);
    list.updater().unwrap().catch_up().unwrap();
    let name = name_in(list.view().unwrap().get(1).unwrap());
    assert_eq!(name.as_deref(), Some("two"));
}

#[test]
fn a_second_updater_of_a_view_is_refused_however_the_view_is_declared() {
    let store = Store::in_memory().unwrap();
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    let namespace = namespace(&store);
    let list = item_list(&namespace);
    let running = list.updater().unwrap().start().unwrap();
    let declared = declared_relations(&store).unwrap();
    let (teams, ages) = (("teams", "name"), ("users", "age"));
    for (field, bin) in [(teams, "team"), (ages, "age")] {
        let other = item_list(&namespace).join("assignee", field, bin).unwrap();
        let refused = other.updater().unwrap_err();
        assert!(matches!(refused, Error::Forbidden(_)), "{refused}");
    }
    assert_eq!(declared_relations(&store).unwrap(), declared);
    users.put("u1", bins! { "name" => "Homer" }).unwrap();
    let lsn = items.put(1, bins! { "assignee" => "u1" }).unwrap();
    list.wait_until(lsn, Duration::from_secs(60)).unwrap();
    running.stop().unwrap();
    // One that is refused does not hide that the last one has ended.
    let _other = item_list(&namespace).updater().unwrap();
    list.updater().unwrap_err();
    let lsn = items.put(2, bins! { "assignee" => "u1" }).unwrap();
    let late = list.wait_until(lsn, Duration::from_secs(60)).unwrap_err();
    assert!(matches!(late, Error::Forbidden(_)), "{late}");
}

#[test]
fn who_waits_for_a_view_that_is_made_anew_waits_until_it_is_built() {
    let store = Store::in_memory().unwrap();
    let namespace = namespace(&store);
    let items = store.set("items").unwrap();
    let lsn = items.put(1, bins! { "title" => "a" }).unwrap();
    let list = item_list(&namespace);
    list.updater().unwrap().catch_up().unwrap();
    list.wait_until(lsn, Duration::ZERO).unwrap();
    assert_eq!(list.remove().unwrap(), 1);
    let mut updater = list.updater().unwrap();
    let early = list.clone().wait_until(lsn, Duration::ZERO).unwrap_err();
    assert!(matches!(early, Error::Timeout { .. }), "{early}");
    assert_eq!(updater.progress().applied, None);
    updater.catch_up().unwrap();
    list.wait_until(lsn, Duration::ZERO).unwrap();
    assert_eq!(list.view().unwrap().len(), 1);
}

#[test]
fn an_item_that_could_not_be_shown_follows_the_records_that_it_refers_to_now() {
    let store = Store::in_memory().unwrap();
    let tags = ShardedList::new(&store, "users", "u2", "tags").unwrap();
    for tag in 0..9 {
        tags.add(tag).unwrap();
    }
    tags.shards().activate(2).unwrap();
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    users.put("u1", bins! { "tags" => "plain" }).unwrap();
    items.put(1, bins! { "user" => "u1" }).unwrap();
    let list = Joined::new(&namespace(&store), "list", "items");
    let list = list.join("user", ("users", "tags"), "user_tags").unwrap();
    let view = list.view().unwrap();
    let mut updater = list.updater().unwrap();
    updater.catch_up().unwrap();
    for item in [1, 2] {
        items.put(item, bins! { "user" => "u2" }).unwrap();
    }
    assert_eq!(updater.catch_up().unwrap().failed, 2);
    // The row stays as it was.
    let row = view.get(1).unwrap().unwrap();
    assert_eq!(row.get("user_tags"), Some("plain".into()));
    let whole = WritePolicy::default().override_shards(true);
    users.delete_with(&whole, "u2").unwrap();
    users.put("u2", bins! { "tags" => "whole" }).unwrap();
    updater.catch_up().unwrap();
    for item in [1, 2] {
        let row = view.get(item).unwrap().unwrap();
        assert_eq!(row.get("user_tags"), Some("whole".into()));
    }
}
