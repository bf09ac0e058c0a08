//! The program on sharded collections, from outside: `shards`, and the report of `verify` about
//! them.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use spikelet::{Key, Set, ShardedList, Store, WritePolicy};
use tempfile::TempDir;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(arguments)
        .output()
        .unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs a command with `--json` and returns its exit code and its object.
fn json(arguments: &[&str]) -> (i32, Value) {
    let output = run(&[arguments, &["--json"]].concat());
    let object = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    (output.status.code().unwrap(), object)
}

/// A policy that overrides the protection of records of a sharded collection.
fn by_force() -> WritePolicy {
    WritePolicy::default().override_shards(true)
}

/// A store with a list of 100 elements in 4 companions, which is then harmed.
fn sharded(harm: impl FnOnce(&Set)) -> TempDir {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let list = ShardedList::new(&store, "followers", "alice", "by").unwrap();
    for id in 0..100 {
        list.add(id).unwrap();
    }
    list.shards().activate(4).unwrap();
    harm(&store.set("followers").unwrap());
    store.close().unwrap();
    dir
}

#[test]
fn shards_shows_a_collection_record_by_record() {
    let dir = sharded(|_| ());
    let (code, found) = json(&["shards", path(dir.path()), "--key", "alice"]);
    let collection = &found["collections"][0];
    assert_eq!(code, 0);
    assert_eq!(
        (
            &collection["scheme"],
            &collection["elements"],
            &collection["bin"]
        ),
        (&"in 4 shards".into(), &100.into(), &"by".into())
    );
    let companions = collection["companions"].as_array().unwrap();
    let keys: Vec<_> = companions
        .iter()
        .map(|companion| &companion["key"])
        .collect();
    assert_eq!(keys, ["alice:0", "alice:1", "alice:2", "alice:3"]);
    assert!(
        companions
            .iter()
            .all(|companion| companion["status"] == "current")
    );

    let output = run(&["shards", path(dir.path())]);
    let all = text(&output.stdout);
    assert!(
        all.contains("test/followers/alice") && all.contains("in 4 shards"),
        "{all}"
    );

    let output = run(&["shards", path(dir.path()), "--key", "bob"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("\"bob\""));
}

#[test]
fn each_collection_of_a_record_is_told_by_its_bin() {
    let dir = sharded(|set| {
        let list = ShardedList::new(&Keep(set.clone()), "", "alice", "of").unwrap();
        list.add(1).unwrap();
        list.shards().activate(2).unwrap();
        list.shards()
            .on_progress(|_| std::ops::ControlFlow::Break(()))
            .split()
            .unwrap();
    });
    let (code, found) = json(&["shards", path(dir.path()), "--key", "alice"]);
    let told = |number: usize| {
        let collection = &found["collections"][number];
        let companions = collection["companions"].as_array().unwrap();
        let key = companions[0]["key"].as_str().unwrap().to_owned();
        (collection["bin"].as_str().unwrap().to_owned(), key)
    };
    assert_eq!(code, 0);
    assert_eq!(told(0), ("by".into(), "alice:0".into()));
    assert_eq!(told(1), ("of".into(), "alice:of:0".into()));
    let (code, check) = json(&["verify", path(dir.path())]);
    let shards = check["shards"].as_array().unwrap();
    assert_eq!((code, shards.len()), (0, 1), "{check}");
    assert_eq!(
        (&shards[0]["bin"], &shards[0]["scheme"]),
        (&"of".into(), &"splitting 2 shards to 4".into())
    );
}

#[test]
fn a_missing_companion_is_damage() {
    let dir = sharded(|set| assert!(set.delete_with(&by_force(), "alice:2").unwrap().is_some()));
    let (code, found) = json(&["shards", path(dir.path()), "--key", "alice"]);
    assert_eq!(
        (code, &found["collections"][0]["missing"]),
        (1, &[2].into())
    );
    let (code, check) = json(&["verify", path(dir.path())]);
    assert_eq!((code, &check["damaged"]), (1, &true.into()));
    assert_eq!(check["shards"][0]["missing"], Value::from(vec![2]));
}

/// Returns the keys of the companions that no read uses, and their roles.
fn leftovers(check: &Value) -> Vec<(String, String)> {
    let companions = check["shards"][0]["companions"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let roles = companions
        .iter()
        .map(|one| (text(&one["key"]), text(&one["status"])));
    roles.filter(|(_, role)| role != "current").collect()
}

#[test]
fn orphans_and_stale_companions_are_told_and_are_no_damage() {
    let dir = sharded(|set| {
        // The root alone was deleted, and the collection was made anew.
        assert!(set.delete_with(&by_force(), "alice").unwrap().is_some());
        let list = ShardedList::new(&Keep(set.clone()), "", "alice", "by").unwrap();
        list.add(1).unwrap();
        list.shards().activate(1).unwrap();
    });
    let (code, check) = json(&["verify", path(dir.path())]);
    assert_eq!(code, 0, "{check}");
    let stale = [1, 2, 3].map(|shard| (format!("alice:{shard}"), "stale".to_owned()));
    assert_eq!(leftovers(&check), stale);

    let dir = sharded(|set| assert!(set.delete_with(&by_force(), "alice").unwrap().is_some()));
    let (code, check) = json(&["verify", path(dir.path())]);
    assert_eq!(code, 0, "{check}");
    assert_eq!(
        leftovers(&check)[0],
        ("alice:0".to_owned(), "orphan".to_owned())
    );
}

#[test]
fn elements_of_a_list_that_is_about_to_be_spread_are_in_its_root() {
    let dir = sharded(|set| {
        let list = ShardedList::new(&Keep(set.clone()), "", "alice", "by").unwrap();
        list.shards().merge().unwrap();
        list.shards().merge().unwrap();
        list.shards().deactivate().unwrap();
        list.shards()
            .on_progress(|_| std::ops::ControlFlow::Break(()))
            .activate(2)
            .unwrap();
    });
    let (code, found) = json(&["shards", path(dir.path()), "--key", "alice"]);
    let alice = &found["collections"][0];
    assert_eq!((code, &alice["elements"]), (0, &100.into()));
    assert_eq!(alice["largest_bytes"], alice["root_bytes"]);
    let output = run(&["shards", path(dir.path())]);
    let all = text(&output.stdout);
    assert!(
        all.contains(" 100 ") && all.contains("activating 2 shards"),
        "{all}"
    );
}

#[test]
fn a_transition_that_was_left_is_told() {
    let dir = sharded(|set| {
        let list = ShardedList::new(&Keep(set.clone()), "", "alice", "by").unwrap();
        list.shards()
            .on_progress(|_| std::ops::ControlFlow::Break(()))
            .split()
            .unwrap();
    });
    let (code, check) = json(&["verify", path(dir.path())]);
    assert_eq!(code, 0, "{check}");
    assert_eq!(
        (
            &check["shards"][0]["in_transition"],
            &check["shards"][0]["scheme"]
        ),
        (&true.into(), &"splitting 4 shards to 8".into())
    );
}

/// A store of one set.
struct Keep(Set);

impl spikelet::RecordStore for Keep {
    type Records = Set;
    type Atomic<'a> = Self;

    fn records(&self, _: &str) -> spikelet::Result<Set> {
        Ok(self.0.clone())
    }

    fn atomically<T>(
        &self,
        mut make: impl FnMut(&Self) -> spikelet::Result<T>,
    ) -> spikelet::Result<T> {
        make(self)
    }
}

#[test]
fn a_collection_is_found_by_its_key_as_it_is_shown() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let keys: [Key<'_>; 3] = [(-5).into(), b"\x00\xff".into(), "a\nb".into()];
    for key in &keys {
        let list = ShardedList::new(&store, "followers", key, "by").unwrap();
        list.add(1).unwrap();
        list.shards().activate(2).unwrap();
    }
    store.close().unwrap();
    drop(store);
    for shown in ["-5", "0x00ff", "a\\nb", "a\nb", "\\x00\\xff"] {
        let (code, found) = json(&["shards", path(dir.path()), "--key", shown]);
        assert_eq!(code, 0, "{shown}");
        assert_eq!(found["collections"].as_array().unwrap().len(), 1, "{shown}");
    }
}
