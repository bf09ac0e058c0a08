//! Refusals of a sharded collection before any change, and the ways to mend damage by others.

use std::ops::{Bound, ControlFlow};

use spikelet::operations::lists;
use spikelet::shard::{ShardPolicy, TimeWidth};
use spikelet::{
    Error, ListPolicy, NamespaceConfig, RecordStore, Set, ShardedCounter, ShardedList, ShardedMap,
    Store, TimeShards, Value,
};

use crate::common::by_force;

fn list(store: &Store, key: &str) -> ShardedList<Set> {
    ShardedList::new(store, "x", key, "b").unwrap()
}

fn sharded(store: &Store, key: &str, shards: u64) -> ShardedList<Set> {
    let list = list(store, key);
    for id in 0..20 {
        list.add(id).unwrap();
    }
    list.shards().activate(shards).unwrap();
    list
}

#[test]
fn a_companion_is_no_root_of_another_collection() {
    let store = Store::in_memory().unwrap();
    let chat = sharded(&store, "chat", 4);
    let other = list(&store, "chat:1");
    for refused in [
        other.add(7).map(|_| ()),
        other.remove(&7.into()).map(|_| ()),
        other.contains(&7.into()).map(|_| ()),
        other.len().map(|_| ()),
        other.shards().activate(2).map(|_| ()),
        other.delete().map(|_| ()),
    ] {
        assert!(
            matches!(refused, Err(Error::ShardKeyCollision { .. })),
            "{refused:?}"
        );
    }
    let time = TimeShards::new(&store, "x", "chat:1", "t", TimeWidth::Daily).unwrap();
    assert!(time.add(std::time::SystemTime::now(), 1).is_err());
    assert_eq!(chat.len().unwrap(), 20);
    assert!(chat.add(100).unwrap());
}

#[test]
fn bins_that_describe_shards_are_not_taken_for_collections() {
    let store = Store::in_memory().unwrap();
    for bin in [
        "subkeys",
        "subkeys_epoch",
        "subkeys_bin",
        "shard_of",
        "frozen",
    ] {
        for refused in [
            ShardedList::new(&store, "x", "k", bin).err(),
            ShardedMap::new(&store, "x", "k", bin).err(),
            ShardedCounter::new(&store, "x", "k", bin).err(),
            TimeShards::new(&store, "x", "k", bin, TimeWidth::Hourly).err(),
        ] {
            assert!(
                matches!(refused, Some(Error::Parameter(_))),
                "{bin}: {refused:?}"
            );
        }
    }
}

#[test]
fn nan_is_no_element() {
    let store = Store::in_memory().unwrap();
    let list = list(&store, "k");
    for id in [1.0, 2.0] {
        list.add(id).unwrap();
    }
    assert!(matches!(list.add(f64::NAN), Err(Error::Parameter(_))));
    // Others may have put it there.
    let append = lists::append(&ListPolicy::default(), "b", f64::NAN);
    store.set("x").unwrap().operate("k", &[append]).unwrap();
    assert!(matches!(
        list.shards().activate(2),
        Err(Error::Parameter(_))
    ));
    assert_eq!(list.shards().state().unwrap().transition, None);
    assert_eq!(list.len().unwrap(), 3);
    assert!(list.page_after(Some(&Value::Wildcard), 5).is_err());
}

#[test]
fn values_that_cannot_be_stored_are_no_elements() {
    let store = Store::in_memory().unwrap();
    let (list, map) = (
        list(&store, "k"),
        ShardedMap::new(&store, "x", "m", "b").unwrap(),
    );
    for shards in [0, 2] {
        if shards > 0 {
            list.add(1).unwrap();
            list.shards().activate(shards).unwrap();
        }
        for value in [u64::MAX.into(), Value::Wildcard, Value::Infinity] {
            let end = Bound::Included(&value);
            for refused in [
                list.add(value.clone()).err(),
                list.contains(&value).err(),
                list.remove(&value).err(),
                list.range(Bound::Unbounded, end, 5).err(),
                map.get(&value).err(),
                map.put(value.clone(), 1).err(),
            ] {
                let code = refused.as_ref().map(Error::result_code);
                assert_eq!(code, Some(4), "{value:?}: {refused:?}");
            }
        }
    }
}

/// NaN has no hash, and equals every double. Put there by others between the look at the list and
/// the beginning of its transition, it is kept in the first shard.
#[test]
fn nan_that_comes_at_the_last_moment_is_moved() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    let list = list(&store, "k").policy(ShardPolicy::manual());
    for id in 0..20 {
        list.add(f64::from(id)).unwrap();
    }
    let mut nan = Some(lists::append(&ListPolicy::default(), "b", f64::NAN));
    list.shards()
        .on_progress(|_| {
            if let Some(append) = nan.take() {
                set.operate_with(&by_force(), "k", &[append]).unwrap();
            }
            ControlFlow::Continue(())
        })
        .activate(4)
        .unwrap();
    type Change = fn(&ShardedList<Set>) -> spikelet::Result<spikelet::shard::ShardState>;
    let changes: [(Change, u64); 5] = [
        (|list| list.shards().state(), 4),
        (|list| list.shards().split(), 8),
        (|list| list.shards().merge(), 4),
        (|list| list.shards().merge(), 2),
        (|list| list.shards().deactivate(), 0),
    ];
    for (change, shards) in changes {
        assert_eq!(change(&list).unwrap().shards, shards);
        assert_eq!(list.len().unwrap(), 21, "{shards}");
        let all = list.page(0, 30).unwrap();
        let nans = all
            .iter()
            .filter(|item| matches!(item, Value::Float(it) if it.is_nan()));
        assert_eq!((all.len(), nans.count()), (21, 1), "{shards}");
    }
}

#[test]
fn a_bin_of_another_type_is_refused_before_anything_is_begun() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    set.put("text", [("b", "words")]).unwrap();
    let counter = |key| ShardedCounter::new(&store, "x", key, "b").unwrap();
    let refused = counter("text").shards().activate(2).unwrap_err();
    assert_eq!(refused.result_code(), 12, "{refused}");
    assert_eq!(set.get("text").unwrap().unwrap().get("subkeys"), None);

    let list = sharded(&store, "list", 2);
    let refused = counter("list").shards().split().unwrap_err();
    assert_eq!(refused.result_code(), 12, "{refused}");
    let state = list.shards().state().unwrap();
    assert_eq!((state.shards, state.transition), (2, None));
}

#[test]
fn a_deletion_is_the_way_out_of_what_cannot_be_ended() {
    let store = Store::in_memory().unwrap();
    let set = store.set("x").unwrap();
    let list = sharded(&store, "k", 4);
    assert!(set.delete_with(&by_force(), "k:2").unwrap().is_some());
    assert!(matches!(
        list.shards().split(),
        Err(Error::ShardMissing { shard: 2, .. })
    ));
    assert!(list.shards().state().unwrap().transition.is_some());
    assert!(list.add(100).is_err());
    list.delete().unwrap();
    assert!(list.is_empty().unwrap());
    assert!(list.add(100).unwrap());

    for stopped in ["activate", "split", "merge", "deactivate"] {
        let stop = |_| ControlFlow::Break(());
        let list = sharded(&store, stopped, if stopped == "deactivate" { 1 } else { 2 });
        match stopped {
            "activate" => {
                list.shards().deactivate().unwrap();
                list.shards().on_progress(stop).activate(4)
            }
            "split" => list.shards().on_progress(stop).split(),
            "merge" => list.shards().on_progress(stop).merge(),
            _ => list.shards().on_progress(stop).deactivate(),
        }
        .unwrap();
        assert!(
            list.shards().state().unwrap().transition.is_some(),
            "{stopped}"
        );
        list.delete().unwrap();
        let state = list.shards().state().unwrap();
        assert_eq!((state.shards, state.transition), (0, None), "{stopped}");
        assert!(list.is_empty().unwrap(), "{stopped}");
        let mut left = Vec::new();
        let _: ControlFlow<()> = set.with_companions().scan(|record| {
            let record = record.unwrap();
            if record.view.bin("shard_of").is_some() {
                left.push(record.key().map(spikelet::Key::into_owned));
            }
            ControlFlow::Continue(())
        });
        assert_eq!(left, [], "{stopped}");
    }
}

#[test]
fn a_root_that_is_full_otherwise_is_not_given_the_collection_back() {
    let mut config = NamespaceConfig::new("test");
    config.max_record_bytes = 8 << 10;
    let store = Store::builder().namespace(config).open().unwrap();
    let list = list(&store, "k").policy(ShardPolicy::manual());
    for id in 0..500 {
        list.add(id).unwrap();
    }
    list.shards().activate(1).unwrap();
    let set = store.set("x").unwrap();
    set.put("k", [("other", vec![0_u8; 6_500])]).unwrap();
    assert!(matches!(
        list.shards().deactivate(),
        Err(Error::RecordTooBig { .. })
    ));
    assert_eq!(list.shards().state().unwrap().transition, None);
    assert!(list.add(500).unwrap());
}

/// Who reads a collection whose deletion was left goes on with it, where the store lets him.
/// A list, a map and a counter, of which the deletion has begun.
fn begin_deletions(store: &Store) {
    let list = ShardedList::new(store, "users", "alice", "followers").unwrap();
    let map = ShardedMap::new(store, "users", "bob", "scores").unwrap();
    let counter = ShardedCounter::new(store, "users", "carol", "likes").unwrap();
    for id in 0..20 {
        list.add(id).unwrap();
        map.put(id, id).unwrap();
        counter.add(1).unwrap();
    }
    let stop = |_| ControlFlow::Break(());
    list.shards().activate(4).unwrap();
    map.shards().activate(4).unwrap();
    counter.shards().activate(4).unwrap();
    list.shards().on_progress(stop).delete().unwrap();
    map.shards().on_progress(stop).delete().unwrap();
    counter.shards().on_progress(stop).delete().unwrap();
}

fn assert_empty<S: RecordStore>(store: &S, where_: &str) {
    let list = ShardedList::new(store, "users", "alice", "followers").unwrap();
    assert_eq!(list.len().unwrap(), 0, "{where_}");
    assert!(!list.contains(&3.into()).unwrap(), "{where_}");
    assert_eq!(list.page(0, 5).unwrap(), [], "{where_}");
    assert_eq!(list.iter().count(), 0, "{where_}");
    let map = ShardedMap::new(store, "users", "bob", "scores").unwrap();
    assert_eq!(map.get(&3.into()).unwrap(), None, "{where_}");
    assert_eq!(map.page_after(None, 5).unwrap(), [], "{where_}");
    let counter = ShardedCounter::new(store, "users", "carol", "likes").unwrap();
    assert_eq!(counter.read().unwrap(), 0, "{where_}");
}

#[test]
fn a_deletion_that_no_reader_may_finish_leaves_an_empty_collection() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    begin_deletions(&store);
    let list = ShardedList::new(&store, "users", "alice", "followers").unwrap();
    let namespace = store.namespace(spikelet::DEFAULT_NAMESPACE).unwrap();
    let read = namespace.snapshot_read(|transaction| {
        assert_empty(transaction, "in a snapshot read");
        Ok(())
    });
    read.unwrap();
    store.close().unwrap();
    assert_empty(&store, "in a closed store");
    let refused = list.add(1).unwrap_err();
    assert_eq!(refused.result_code(), 22, "{refused}");
    drop((list, namespace, store));
    let store = Store::builder().path(dir.path()).read_only(true);
    let store = store.open().unwrap();
    assert_empty(&store, "in a store opened for reading");
    drop(store);
    // The deletion goes on where it was left.
    let store = Store::open(dir.path()).unwrap();
    assert_empty(&store, "behind an opening");
    assert!(store.set("users").unwrap().with_companions().len() <= 3);
}

#[test]
fn a_collection_with_an_unfinished_deletion_is_empty_while_writes_are_stopped() {
    let config = NamespaceConfig::new(spikelet::DEFAULT_NAMESPACE)
        .background(false)
        .write_lanes(1)
        .max_device_bytes(64 << 20);
    let store = Store::builder().namespace(config).open().unwrap();
    begin_deletions(&store);
    let fill = store.set("fill").unwrap();
    let stopped = (0..).find_map(|key| fill.put(key, [("b", vec![7; 800_000])]).err());
    assert!(matches!(stopped, Some(Error::StopWrites { .. })));
    let stopped = (0..).find_map(|key| fill.put(-1 - key, [("b", 7)]).err());
    assert!(matches!(stopped, Some(Error::StopWrites { .. })));
    assert_empty(&store, "in a full store");
}
