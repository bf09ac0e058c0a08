//! Restores into stores that have relations and unique indexes of their own.

use spikelet::backup::{BackupError, RestoreSummary};
use spikelet::query::IndexDefinition;
use spikelet::relation::{Joined, ManyToMany, declared_relations};
use spikelet::{Key, ShardedList, Store};
use tempfile::TempDir;

use super::common::*;

/// A store with an edge from 1 to 2, of a relation of this name. Its sources have their edges in
/// this bin.
fn with_edge(name: &str, bin: &str) -> Store {
    let store = store();
    let relation = ManyToMany::new(&store, name, ("users", bin), ("users", "followers"));
    relation.link(1, 2).unwrap();
    store
}

fn restored(from: &Store, into: &Store, partial: bool) -> Result<RestoreSummary, BackupError> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("saved.asb");
    save_all(from, &path);
    let options = options(|options| (options.partial, options.no_generation) = (partial, true));
    restore(&path, into, options)
}

fn names(store: &Store) -> Vec<String> {
    let declared = declared_relations(store).unwrap();
    declared.iter().map(|it| it.name.to_string()).collect()
}

#[test]
fn a_declaration_that_contradicts_one_of_the_store_is_refused_before_anything_is_written() {
    for (name, bin) in [("likes", "following"), ("follows", "friends")] {
        let store = with_edge(name, bin);
        let records = records_of(&store);
        let error = restored(&with_edge("follows", "following"), &store, false).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(
            (records_of(&store), names(&store)),
            (records, vec![name.to_owned()])
        );
        let summary = restored(&with_edge("follows", "following"), &store, true).unwrap();
        assert_eq!(summary.refused, 1);
        assert_eq!(names(&store), [name]);
    }
}

#[test]
fn a_declaration_that_stays_as_it_is_refuses_no_restore() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("saved.asb");
    save_all(&with_edge("follows", "following"), &path);
    let store = with_edge("follows", "friends");
    let unique = options(|options| options.unique = true);
    let summary = restore(&path, &store, unique).unwrap();
    assert_eq!((summary.restored, summary.existed), (0, 3));
    assert_eq!(names(&store), ["follows"]);
    let declared = declared_relations(&store).unwrap();
    assert_eq!(declared[0].sides[0].bin.as_deref(), Some("friends"));
}

#[test]
fn a_damaged_declaration_is_restored() {
    let dir = TempDir::new().unwrap();
    let open = || {
        let builder = Store::builder().path(dir.path().join("store"));
        let config = namespace(spikelet::record::KeyHash::Ripemd160);
        builder.namespace(config).open().unwrap()
    };
    let users = |bin| ("unmistakable", bin);
    let declare = |store: &Store| {
        ManyToMany::new(store, "follows", users("following"), users("followers")).declare()
    };
    let store = open();
    declare(&store).unwrap();
    let path = dir.path().join("saved.asb");
    save_all(&store, &path);
    store.close().unwrap();
    drop(store);
    let device = dir.path().join("store/test/device-0");
    let mut bytes = std::fs::read(&device).unwrap();
    let text = b"\"unmistakable\"";
    let found = bytes.windows(text.len()).position(|window| window == text);
    bytes[found.unwrap() + 2] ^= 0xff;
    std::fs::write(&device, bytes).unwrap();

    let store = open();
    assert!(declared_relations(&store).unwrap_err().is_damage());
    let summary = restore(&path, &store, options(|_| {})).unwrap();
    assert_eq!((summary.restored, summary.refused), (1, 0));
    assert_eq!(names(&store), ["follows"]);
    declare(&store).unwrap();
}

#[test]
fn a_record_that_a_unique_index_of_the_store_refuses_is_counted_by_partial() {
    let from = store();
    let users = from.set("users").unwrap();
    users.put(1, [("mail", "a@b")]).unwrap();
    users.put(2, [("mail", "c@d")]).unwrap();
    let into = store();
    let users = into.set("users").unwrap();
    users.put(3, [("mail", "a@b")]).unwrap();
    users
        .create_index(IndexDefinition::new("by_mail", ["mail"]).unique(true))
        .unwrap();
    let error = restored(&from, &into, false).unwrap_err();
    assert!(error.to_string().contains("by_mail"), "{error}");
    let summary = restored(&from, &into, true).unwrap();
    assert_eq!(
        (summary.restored + summary.fresher, summary.refused),
        (1, 1)
    );
    assert!(users.get(1).unwrap().is_none());
}

/// A store in which 2 follows others and is followed by them, with shards of these bins.
fn with_shards(others: std::ops::Range<i64>, bins: &[&str]) -> Store {
    let store = store();
    let users = |bin| ("users", bin);
    let follows = ManyToMany::new(&store, "follows", users("following"), users("followers"));
    for id in others {
        follows.link(id, 2).unwrap();
        follows.link(2, id).unwrap();
    }
    for bin in bins {
        let list = ShardedList::new(&store, "users", 2, bin).unwrap();
        list.shards().activate(2).unwrap();
    }
    store
}

#[test]
fn edges_of_a_record_stay_wherever_their_shards_are() {
    for bins in [&["followers"][..], &["following"], &[]] {
        let store = with_shards(10..20, bins);
        let from = with_shards(30..35, &["following", "followers"]);
        restored(&from, &store, true).unwrap();
        let users = |bin| ("users", bin);
        let follows = ManyToMany::new(&store, "follows", users("following"), users("followers"));
        let ten: Vec<Key<'_>> = (10..20).map(Key::from).collect();
        for side in [follows.sources(2), follows.targets(2)] {
            assert_eq!(side.page(0, 20).unwrap(), ten, "{bins:?}");
        }
    }
}

#[test]
fn edges_in_one_record_of_a_backup_leave_the_shards_of_the_store() {
    for bins in [&["followers"][..], &["following", "followers"]] {
        let store = with_shards(10..20, bins);
        let summary = restored(&with_shards(30..35, &[]), &store, false).unwrap();
        assert_eq!((summary.existed, summary.refused), (0, 0), "{bins:?}");
        let users = |bin| ("users", bin);
        let follows = ManyToMany::new(&store, "follows", users("following"), users("followers"));
        let ten: Vec<Key<'_>> = (10..20).map(Key::from).collect();
        for side in [follows.sources(2), follows.targets(2)] {
            assert_eq!(side.page(0, 20).unwrap(), ten, "{bins:?}");
        }
    }
}

#[test]
fn rows_of_a_view_that_the_store_keeps_are_as_their_items_after_a_restore() {
    let store = store();
    let namespace = store.namespace("test").unwrap();
    let list = Joined::new(&namespace, "list", "items").keep(["title"]);
    let (items, view) = (store.set("items").unwrap(), list.view().unwrap());
    let title = || view.get(1).unwrap().unwrap().get("title");
    let mut updater = list.updater().unwrap();
    for title in ["a", "b", "c"] {
        items.put(1, [("title", title)]).unwrap();
        updater.catch_up().unwrap();
    }
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("saved.asb");
    save_all(&store, &path);
    drop(updater);
    list.remove().unwrap();
    // Its row begins with the first generation again.
    let mut updater = list.updater().unwrap();
    updater.catch_up().unwrap();
    items.put(1, [("title", "d")]).unwrap();
    updater.catch_up().unwrap();
    restore(&path, &store, options(|_| ())).unwrap();
    updater.catch_up().unwrap();
    assert_eq!(title(), Some("d".into()));
    // The whole backup is older than the view: the rows follow the restored items.
    let over = options(|options| options.no_generation = true);
    restore(&path, &store, over).unwrap();
    drop(updater);
    list.updater().unwrap().catch_up().unwrap();
    assert_eq!(title(), Some("c".into()));
}

#[test]
fn a_view_that_was_not_built_yet_is_built_behind_a_restore() {
    let store = store();
    let namespace = store.namespace("test").unwrap();
    let list = Joined::new(&namespace, "list", "items").keep(["title"]);
    let items = store.set("items").unwrap();
    items.put(1, [("title", "a")]).unwrap();
    items.put(2, [("title", "b")]).unwrap();
    list.updater().unwrap().catch_up().unwrap();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("saved.asb");
    save_all(&store, &path);
    list.remove().unwrap();
    // Declared anew, and not built when the saved declaration comes.
    drop(list.updater().unwrap());
    restore(&path, &store, options(|_| ())).unwrap();
    list.updater().unwrap().catch_up().unwrap();
    assert_eq!(list.view().unwrap().len(), 2);
}
