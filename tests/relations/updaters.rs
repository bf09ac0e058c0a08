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
