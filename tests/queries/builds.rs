//! Builds of indexes that do not come to their end.

use std::path::Path;

use spikelet::query::{IndexComponent, IndexDefinition};
use spikelet::{Error, NamespaceConfig, ShardedList, Store, bins};
use tempfile::TempDir;

use crate::{keys, namespace};

#[test]
fn a_build_that_was_dropped_leaves_the_next_index_of_its_name() {
    let store = Store::in_memory().unwrap();
    let set = store.set("users").unwrap();
    set.put("ada", bins! { "city" => "Graz", "age" => 36 })
        .unwrap();
    let mut builds = Vec::new();
    // While the record is locked, no build comes to its end.
    set.update("ada", |_| {
        for bin in ["city", "age"] {
            builds.push(set.build_index(IndexDefinition::new("by", [bin]))?);
            if bin == "city" {
                set.drop_index("by")?;
            }
        }
        Ok(())
    })
    .unwrap();
    let (age, city) = (builds.pop().unwrap(), builds.pop().unwrap());
    assert!(matches!(city.wait(), Err(Error::Forbidden(_))));
    age.wait().unwrap();
    assert_eq!(keys(&set.query("by").unwrap().eq(36)), ["ada".into()]);
}

/// A copy of a store's files, which is how a kill at this moment would leave them.
fn killed(dir: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_files(dir, copy.path());
    copy
}

fn copy_files(from: &Path, to: &Path) {
    for file in std::fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        let (from, to) = (file.path(), to.join(file.file_name()));
        if from.is_dir() {
            std::fs::create_dir(&to).unwrap();
            copy_files(&from, &to);
        } else {
            std::fs::copy(from, to).unwrap();
        }
    }
}

#[test]
fn an_index_whose_build_was_cut_off_is_built_by_the_next_opening_or_dropped() {
    let by = || IndexDefinition::new("by", [IndexComponent::bin("tags").elements()]);
    for (what, definition) in [
        ("whole", by()),
        ("too long", by()),
        ("not unique", by().unique(true)),
        ("sharded", by().unique(true)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let open = |dir: &Path| {
            let config = NamespaceConfig::new("test").background(false);
            let config = config.max_device_bytes(64 << 20);
            let store = Store::builder().path(dir).namespace(config);
            store.open().unwrap()
        };
        let store = open(dir.path());
        let set = store.set("users").unwrap();
        let tag = if what == "too long" {
            "x".repeat(20_000)
        } else {
            "x".into()
        };
        set.put("ada", [("tags", vec![tag])]).unwrap();
        if what == "not unique" {
            set.put("eve", [("tags", vec!["x"])]).unwrap();
        }
        if what == "sharded" {
            let tags = ShardedList::new(&store, "users", "ada", "tags").unwrap();
            tags.shards().activate(2).unwrap();
        }
        // While the record is locked, the build does not come to its end.
        let copy = set.update("ada", |_| {
            let build = set.build_index(definition.clone())?;
            let copy = killed(dir.path());
            build.cancel()?;
            Ok(copy)
        });
        let copy = copy.unwrap();
        // An opening for reading alone has it, too, and notes nothing.
        let config = NamespaceConfig::new("test");
        let store = Store::builder().path(copy.path()).read_only(true);
        let store = store.namespace(config).open().unwrap();
        let is_ready = namespace(&store)
            .indexes()
            .iter()
            .any(|index| index.is_ready);
        assert_eq!(is_ready, what == "whole");
        drop(store);
        let store = open(copy.path());
        let set = store.set("users").unwrap();
        if what == "whole" {
            let stats = namespace(&store).indexes().remove(0);
            assert!(stats.is_ready && stats.partitions_built == 4096);
            assert_eq!(keys(&set.query("by").unwrap().eq("x")), ["ada".into()]);
        } else {
            assert_eq!(namespace(&store).indexes(), [], "{what}");
            assert!(matches!(set.query("by"), Err(Error::IndexNotFound(_))));
        }
        // Noted: the next opening has the same.
        let left = namespace(&store).indexes().len();
        store.close().unwrap();
        drop((set, store));
        assert_eq!(namespace(&open(copy.path())).indexes().len(), left);
    }
}
