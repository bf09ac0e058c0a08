//! Restores over sharded collections: companions and records of users are kept apart, and no root
//! loses its companions.

use spikelet::backup::{BackupError, RestoreSummary};
use spikelet::{Error, Set, ShardedList, Store, Value, WritePolicy};
use tempfile::TempDir;

use super::common::*;

fn list(store: &Store) -> ShardedList<Set> {
    ShardedList::new(store, "users", "alice", "followers").unwrap()
}

fn ten() -> Vec<Value> {
    (0..10).map(Value::Int).collect()
}

/// A store with a list of ten elements in two companions.
fn sharded() -> Store {
    let store = store();
    let list = list(&store);
    for id in 0..10 {
        list.add(id).unwrap();
    }
    list.shards().activate(2).unwrap();
    store
}

/// A store with a user's record of this key.
fn with_user(key: &str) -> Store {
    let store = store();
    let users = store.set("users").unwrap();
    // Newer than any record of a collection.
    for age in 0..50 {
        users.put(key, [("age", age)]).unwrap();
    }
    store
}

/// Saves one store and restores the backup into another one.
fn restored(
    from: &Store,
    into: &Store,
    replace: bool,
    override_shards: bool,
) -> Result<RestoreSummary, BackupError> {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("saved.asb");
    save_all(from, &path);
    let options = options(|options| {
        options.replace = replace;
        options.no_generation = true;
        options.override_shards = override_shards;
    });
    restore(&path, into, options)
}

fn refused(result: Result<RestoreSummary, BackupError>) -> Error {
    let BackupError::Stopped { source, .. } = result.unwrap_err() else {
        panic!("the store refuses a record");
    };
    match *source {
        BackupError::Record { source, .. } => source,
        other => panic!("{other}"),
    }
}

#[test]
fn a_user_record_is_not_restored_into_a_companion_or_over_one() {
    for replace in [false, true] {
        let store = sharded();
        let error = refused(restored(&with_user("alice:0"), &store, replace, false));
        assert!(
            matches!(&error, Error::ShardCompanion { key, .. } if &**key == "alice:0"),
            "{error}"
        );
        assert_eq!(list(&store).page(0, 20).unwrap(), ten());
        let summary = restored(&with_user("alice:0"), &store, replace, true).unwrap();
        assert_eq!(summary.restored, 1);
    }
}

#[test]
fn a_companion_is_not_restored_into_a_user_record() {
    let store = with_user("alice:0");
    let error = refused(restored(&sharded(), &store, false, false));
    assert!(
        matches!(&error, Error::ShardKeyCollision { key } if &**key == "alice:0"),
        "{error}"
    );
    let user = store.set("users").unwrap().get("alice:0").unwrap().unwrap();
    let names: Vec<_> = user.bins().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["age"]);
    // Its place can be taken.
    restored(&sharded(), &store, true, false).unwrap();
    assert_eq!(list(&store).page(0, 20).unwrap(), ten());
}

#[test]
fn a_root_is_not_replaced_by_a_companion_of_its_key() {
    let store = store();
    let other = ShardedList::new(&store, "users", "alice:0", "followers").unwrap();
    other.add(7).unwrap();
    other.shards().activate(2).unwrap();
    let error = refused(restored(&sharded(), &store, true, false));
    assert!(
        matches!(&error, Error::ShardKeyCollision { key } if &**key == "alice:0"),
        "{error}"
    );
    assert_eq!(other.page(0, 5).unwrap(), [Value::Int(7)]);
}

#[test]
fn a_root_is_not_replaced_by_a_record_that_says_nothing_of_its_companions() {
    let store = sharded();
    let error = refused(restored(&with_user("alice"), &store, true, false));
    assert!(
        matches!(&error, Error::ShardRoot { key, .. } if &**key == "alice"),
        "{error}"
    );
    // Bins are written into it as ever.
    restored(&with_user("alice"), &store, false, false).unwrap();
    let handle = list(&store);
    assert_eq!(handle.page(0, 20).unwrap(), ten());
    // By force it is, and handles notice.
    restored(&with_user("alice"), &store, true, true).unwrap();
    assert!(handle.is_empty().unwrap());
}

#[test]
fn a_sharded_collection_is_restored_over_itself() {
    let store = sharded();
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("saved.asb");
    save_all(&store, &path);
    let handle = list(&store);
    assert!(handle.add(10).unwrap());
    let options = options(|options| {
        options.replace = true;
        options.no_generation = true;
    });
    assert_eq!(restore(&path, &store, options).unwrap().restored, 3);
    assert_eq!(handle.page(0, 20).unwrap(), ten());
    let by_force = WritePolicy::default().override_shards(true);
    let users = store.set("users").unwrap();
    assert!(users.delete_with(&by_force, "alice:0").unwrap().is_some());
}

#[test]
fn a_restored_collection_is_hidden_in_its_root_and_found_by_an_index() {
    use spikelet::query::{IndexComponent, IndexDefinition};
    let from = sharded();
    let definition = || {
        let elements = IndexComponent::bin("followers").elements();
        IndexDefinition::new("by_follower", [elements])
    };
    from.set("users")
        .unwrap()
        .create_index(definition())
        .unwrap();
    let store = store();
    restored(&from, &store, false, false).unwrap();
    let users = store.set("users").unwrap();
    assert_eq!((users.len(), users.with_companions().len()), (1, 3));
    users.create_index(definition()).unwrap();
    for id in 0..10 {
        let found = users.query("by_follower").unwrap().eq(id);
        assert_eq!(found.count().unwrap(), 1, "{id}");
    }
    // An index that cannot hold shards refuses the root.
    let other = super::common::store();
    let users = other.set("users").unwrap();
    users.create_index(definition().unique(true)).unwrap();
    users.drop_index("by_follower").unwrap();
    let elements = IndexComponent::bin("followers").elements();
    let both = IndexDefinition::new("both", [elements, "name".into()]);
    users.create_index(both).unwrap();
    let error = refused(restored(&from, &other, false, false));
    assert!(matches!(&error, Error::ShardIndexed { .. }), "{error}");
}

#[test]
fn a_restore_that_a_record_stops_tells_how_many_were_restored_before() {
    let (from, into) = (with_user("alice:0"), sharded());
    let users = from.set("users").unwrap();
    for id in 0..200 {
        users.put(id, [("n", id)]).unwrap();
    }
    let stopped = restored(&from, &into, false, false).unwrap_err();
    let BackupError::Stopped { restored, .. } = stopped else {
        panic!("{stopped}")
    };
    let users = into.set("users").unwrap();
    let there = (0..200).filter(|id| users.exists(*id).unwrap()).count();
    assert_eq!(restored, there as u64);
    assert!(0 < there && there < 200, "{there}");
}

/// A store in which alice's list of other elements is in her record, newer than any of a
/// collection.
fn with_list(elements: std::ops::Range<i64>) -> Store {
    let store = with_user("alice");
    let list = list(&store);
    for id in elements {
        list.add(id).unwrap();
    }
    store
}

fn save_to(store: &Store) -> (TempDir, std::path::PathBuf) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("saved.asb");
    save_all(store, &path);
    (dir, path)
}

#[test]
fn a_list_in_one_record_is_not_restored_beside_the_shards_of_the_same_list() {
    let (from, store) = (with_list(50..52), sharded());
    let error = refused(restored(&from, &store, false, false));
    assert!(
        matches!(&error, Error::ShardRoot { key, .. } if &**key == "alice"),
        "{error}"
    );
    let handle = list(&store);
    assert_eq!(handle.page(0, 20).unwrap(), ten());
    handle.shards().merge().unwrap();
    handle.shards().deactivate().unwrap();
    assert_eq!(handle.page(0, 20).unwrap(), ten());
}

#[test]
fn shards_are_restored_in_the_place_of_a_list_in_one_record() {
    let store = with_list(50..52);
    restored(&sharded(), &store, false, false).unwrap();
    let alice = store.set("users").unwrap().get("alice").unwrap().unwrap();
    assert!(alice.get("age").is_some() && alice.get("followers").is_none());
    let handle = list(&store);
    assert_eq!(handle.page(0, 20).unwrap(), ten());
    handle.shards().merge().unwrap();
    handle.shards().deactivate().unwrap();
    assert_eq!(handle.page(0, 20).unwrap(), ten());
}

#[test]
fn no_collection_of_a_root_is_lost_by_a_backup_that_has_another_one() {
    for replace in [false, true] {
        let store = sharded();
        let following = ShardedList::new(&store, "users", "alice", "following").unwrap();
        following.add("bob").unwrap();
        following.shards().activate(2).unwrap();
        let error = refused(restored(&sharded(), &store, replace, false));
        assert!(matches!(&error, Error::ShardRoot { .. }), "{error}");
        assert_eq!(following.page(0, 5).unwrap(), ["bob".into()]);
        assert_eq!(list(&store).page(0, 20).unwrap(), ten());
    }
}

#[test]
fn a_companion_is_restored_whole_over_one_whose_content_is_moving() {
    let store = sharded();
    let (_dir, path) = save_to(&store);
    // As a process has left it that died in a transition.
    let by_force = WritePolicy::default().override_shards(true);
    let users = store.set("users").unwrap();
    let frozen = [("frozen", 7)];
    users.put_with(&by_force, "alice:0", frozen).unwrap();
    let any = options(|options| options.no_generation = true);
    restore(&path, &store, any).unwrap();
    assert_eq!(list(&store).page(0, 20).unwrap(), ten());
}

#[test]
fn records_of_a_collection_are_as_new_as_its_last_transition() {
    let store = sharded();
    let handle = list(&store);
    for _ in 0..20 {
        // Writes that give the companions high generations.
        for id in 0..10 {
            handle.remove(&id.into()).unwrap();
            handle.add(id).unwrap();
        }
    }
    let (_dir, path) = save_to(&store);
    handle.shards().merge().unwrap();
    handle.shards().deactivate().unwrap();
    handle.add(10).unwrap();
    handle.shards().activate(2).unwrap();
    let summary = restore(&path, &store, options(|_| {})).unwrap();
    assert_eq!((summary.restored, summary.fresher), (0, 3));
    let eleven: Vec<Value> = (0..11).map(Value::Int).collect();
    assert_eq!(list(&store).page(0, 20).unwrap(), eleven);
}

#[test]
fn a_restored_record_with_an_end_does_not_have_a_root_expire() {
    use spikelet::Expiration;
    use std::time::Duration;
    let from = store();
    let soon = Expiration::After(Duration::from_secs(60));
    let soon = WritePolicy::default().expiration(soon);
    let users = from.set("users").unwrap();
    users.put_with(&soon, "alice", [("age", 5)]).unwrap();
    let store = sharded();
    let error = refused(restored(&from, &store, false, false));
    assert!(matches!(&error, Error::ShardRoot { .. }), "{error}");
    restored(&from, &store, false, true).unwrap();
}
