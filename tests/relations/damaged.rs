//! Updaters beside records that they cannot read, and beside writes that are refused.

use std::fs;
use std::path::Path;

use spikelet::query::IndexDefinition;
use spikelet::relation::Joined;
use spikelet::{DEFAULT_NAMESPACE, Error, NamespaceConfig, Store, WritePolicy, bins};
use tempfile::TempDir;

use crate::joined::{item_list, name_in, namespace};
use crate::propagate::assignees;

const ITEMS: u64 = 10;
/// The item that is damaged.
const DAMAGED: i64 = 3;

fn open(dir: &Path) -> Store {
    let config = NamespaceConfig::new(DEFAULT_NAMESPACE).background(false);
    let store = Store::builder().path(dir).namespace(config);
    store.open().unwrap()
}

/// Changes a byte of each record that has this text; of the first `spared` ones none.
fn damage(dir: &Path, text: &str, spared: usize) {
    let device = dir.join(DEFAULT_NAMESPACE).join("device-0");
    let mut bytes = fs::read(&device).unwrap();
    let windows = bytes.windows(text.len()).enumerate();
    let found = windows.filter(|(_, window)| *window == text.as_bytes());
    let places: Vec<usize> = found.map(|(at, _)| at).collect();
    assert!(places.len() > spared, "{text}");
    for at in &places[spared..] {
        bytes[*at] ^= 0xff;
    }
    fs::write(&device, bytes).unwrap();
}

fn title(item: i64) -> String {
    format!("title of item {item}.")
}

/// A user, and items that refer to it.
fn fill(store: &Store) {
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    users.put("u1", bins! { "name" => "Homer" }).unwrap();
    for item in 0..ITEMS as i64 {
        let bins = bins! { "title" => title(item), "assignee" => "u1" };
        items.put(item, bins).unwrap();
    }
}

/// A filled store, of which an item had a byte inverted before this opening.
fn with_damaged_item() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store);
    store.close().unwrap();
    drop(store);
    damage(dir.path(), &title(DAMAGED), 0);
    let store = open(dir.path());
    (dir, store)
}

/// How many items are shown with this name.
fn shown(list: &Joined, name: &str) -> usize {
    let view = list.view().unwrap();
    let names = (0..ITEMS as i64).filter_map(|item| name_in(view.get(item).ok()?));
    names.filter(|shown| shown == name).count()
}

#[test]
fn a_view_beside_a_damaged_item_shows_the_others() {
    let (_dir, store) = with_damaged_item();
    let list = item_list(&namespace(&store));
    let mut updater = list.updater().unwrap();
    let built = updater.catch_up().unwrap();
    assert_eq!((built.written, built.failed), (ITEMS - 1, 1));
    let failures = updater.take_failures();
    assert!(failures[0].error.is_damage(), "{failures:?}");
    assert_eq!(failures[0].key, None);
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    users.put("u1", bins! { "name" => "Max" }).unwrap();
    updater.catch_up().unwrap();
    assert_eq!(shown(&list, "Max"), 9);
    items.delete(DAMAGED).unwrap();
    items.put(DAMAGED, bins! { "assignee" => "u1" }).unwrap();
    updater.catch_up().unwrap();
    assert_eq!(shown(&list, "Max"), 10);
}

#[test]
fn a_damaged_view_record_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store);
    item_list(&namespace(&store))
        .updater()
        .unwrap()
        .catch_up()
        .unwrap();
    store.close().unwrap();
    drop(store);
    // The view shows the title, too.
    damage(dir.path(), &title(DAMAGED), 0);

    let store = open(dir.path());
    let list = item_list(&namespace(&store));
    let mut updater = list.updater().unwrap();
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    users.put("u1", bins! { "name" => "Max" }).unwrap();
    updater.catch_up().unwrap();
    assert_eq!(shown(&list, "Max"), 9);
    assert!(list.view().unwrap().get(DAMAGED).unwrap_err().is_damage());
    drop(updater);

    // A view of more bins is built anew: it meets both damaged records.
    let aged = list.clone();
    let aged = aged.join("assignee", ("users", "age"), "age").unwrap();
    let mut updater = aged.updater().unwrap();
    users.put("u1", bins! { "age" => 39 }).unwrap();
    assert_eq!(updater.catch_up().unwrap().failed, 2);

    items.delete(DAMAGED).unwrap();
    items.put(DAMAGED, bins! { "assignee" => "u1" }).unwrap();
    assert_eq!(updater.catch_up().unwrap().failed, 2);
    assert_eq!(shown(&list, "Max"), 10);
    let row = list.view().unwrap().get(DAMAGED).unwrap().unwrap();
    assert_eq!(row.get("age"), Some(39.into()));
}

#[test]
fn a_view_record_of_a_deleted_item_goes_though_it_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store);
    let list = item_list(&namespace(&store));
    list.updater().unwrap().catch_up().unwrap();
    drop(list);
    store.close().unwrap();
    drop(store);
    // The item itself was written before.
    damage(dir.path(), &title(DAMAGED), 1);

    let store = open(dir.path());
    let list = item_list(&namespace(&store));
    let mut updater = list.updater().unwrap();
    assert!(list.view().unwrap().get(DAMAGED).unwrap_err().is_damage());
    let items = store.set("items").unwrap();
    assert!(items.get(DAMAGED).unwrap().is_some());
    items.delete(DAMAGED).unwrap();
    assert_eq!(updater.catch_up().unwrap().failed, 0);
    assert_eq!(list.view().unwrap().get(DAMAGED).unwrap(), None);
}

#[test]
fn copies_beside_records_that_cannot_be_read_or_addressed_are_made() {
    let (_dir, store) = with_damaged_item();
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    let keyless = WritePolicy::default().send_key(false);
    items
        .put_with(&keyless, "keyless", bins! { "assignee" => "u1" })
        .unwrap();
    items
        .put_with(&keyless, "other", bins! { "title" => "none" })
        .unwrap();
    let names = assignees(namespace(&store));
    let mut updater = names.updater().unwrap();
    let copied = |name: &str| {
        let item = |item| items.get(item).ok()??.get("assignee_name");
        let names = (0..ITEMS as i64).filter_map(item);
        names.filter(|copy| copy.as_str() == Some(name)).count()
    };
    let built = updater.catch_up().unwrap();
    assert_eq!((built.written, built.failed, built.keyless), (9, 1, 1));
    assert_eq!(copied("Homer"), 9);
    users.put("u1", bins! { "name" => "Max" }).unwrap();
    let updated = updater.catch_up().unwrap();
    assert_eq!(
        (updated.written, updated.failed, updated.keyless),
        (18, 1, 2)
    );
    assert_eq!(copied("Max"), 9);
}

#[test]
fn an_item_whose_view_record_an_index_refuses_follows_its_sources() {
    let store = Store::in_memory().unwrap();
    let (users, items) = (store.set("users").unwrap(), store.set("items").unwrap());
    let long = || "x".repeat(20_000);
    let list = Joined::new(&namespace(&store), "item_list", "items")
        .join("author", ("users", "bio"), "bio")
        .unwrap();
    let view = list.view().unwrap();
    view.create_index(IndexDefinition::new("by_bio", ["bio"]))
        .unwrap();
    let mut updater = list.updater().unwrap();
    updater.catch_up().unwrap();
    users.put("u1", bins! { "bio" => long() }).unwrap();
    items.put(1, bins! { "author" => "u1" }).unwrap();
    assert_eq!(updater.catch_up().unwrap().failed, 1);
    let bio = || view.get(1).unwrap().and_then(|row| row.get("bio"));
    for (turn, text) in (2..).zip(["first", "second"]) {
        users.put("u1", bins! { "bio" => text }).unwrap();
        updater.catch_up().unwrap();
        assert_eq!(bio(), Some(text.into()));
        // One that is shown stays as it was.
        users.put("u1", bins! { "bio" => long() }).unwrap();
        assert_eq!(updater.catch_up().unwrap().failed, turn);
        assert_eq!(bio(), Some(text.into()));
    }
}

#[test]
fn a_view_without_memory_for_its_index_is_not_built() {
    let dir = tempfile::tempdir().unwrap();
    let open = |index_bytes_max| {
        let mut config = NamespaceConfig::new(DEFAULT_NAMESPACE).background(false);
        config.index_bytes_max = index_bytes_max;
        let store = Store::builder().path(dir.path()).namespace(config);
        store.open().unwrap()
    };
    let store = open(1);
    fill(&store);
    let list = item_list(&namespace(&store));
    let short = list.updater().unwrap().catch_up().unwrap_err();
    assert!(matches!(short, Error::IndexMemory { .. }), "{short}");
    drop(list);
    store.close().unwrap();
    drop(store);

    let store = open(0);
    let list = item_list(&namespace(&store));
    list.updater().unwrap().catch_up().unwrap();
    assert_eq!(shown(&list, "Homer"), 10);
}
