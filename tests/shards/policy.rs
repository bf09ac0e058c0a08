//! Collections that are sharded of their own accord: by count, by size, when a record is full, when
//! it is fought over; and what happens when they cannot.

use std::sync::Barrier;

use spikelet::shard::ShardPolicy;
use spikelet::{
    Error, NamespaceConfig, Set, ShardedCounter, ShardedList, ShardedMap, Store, Value, operations,
};

fn store(adapt: impl FnOnce(&mut NamespaceConfig)) -> Store {
    let mut config = NamespaceConfig::new("test");
    adapt(&mut config);
    Store::builder().namespace(config).open().unwrap()
}

fn list(store: &Store, policy: ShardPolicy) -> ShardedList<Set> {
    ShardedList::new(store, "set", "key", "bin")
        .unwrap()
        .policy(policy)
}

fn all(list: &ShardedList<Set>) -> Vec<Value> {
    list.iter().collect::<Result<_, _>>().unwrap()
}

/// Runs `work` while another thread holds the record, until a writer was refused.
fn while_it_is_written<R: Send>(set: &Set, key: &str, work: impl FnOnce() -> R + Send) -> R {
    let locked = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            set.update(key, |_| {
                locked.wait();
                while set.hot_record(key).is_none_or(|hot| hot.busy == 0) {
                    std::thread::yield_now();
                }
                Ok(())
            })
        });
        locked.wait();
        work()
    })
}

#[test]
fn by_count_each_shard_stays_within_it() {
    let store = store(|_| ());
    let list = list(&store, ShardPolicy::manual().elements_max(10));
    for id in 0..10 {
        list.add(id).unwrap();
    }
    assert_eq!(list.shards().state().unwrap().shards, 0);
    list.add(10).unwrap();
    assert_eq!(list.shards().state().unwrap().shards, 2);
    for id in 11..200 {
        list.add(id).unwrap();
    }
    assert!(list.shards().state().unwrap().shards >= 32);
    assert_eq!(all(&list), (0..200).map(Value::Int).collect::<Vec<_>>());

    let map = ShardedMap::new(&store, "set", "map", "bin").unwrap();
    let map = map.policy(ShardPolicy::manual().elements_max(10));
    for id in 0..50 {
        map.put(id, "value").unwrap();
    }
    assert!(map.shards().state().unwrap().shards >= 8);
    assert_eq!(map.len().unwrap(), 50);
}

#[test]
fn by_default_a_record_is_sharded_beyond_128_kib() {
    let store = store(|_| ());
    let list = ShardedList::new(&store, "set", "key", "bin").unwrap();
    let element = |id: u32| Value::Blob([&id.to_be_bytes()[..], &[0; 1_020]].concat());
    for id in 0..120 {
        list.add(element(id)).unwrap();
    }
    assert_eq!(list.shards().state().unwrap().shards, 0);
    for id in 120..200 {
        list.add(element(id)).unwrap();
    }
    assert_eq!(list.shards().state().unwrap().shards, 2);
    assert_eq!(list.len().unwrap(), 200);
}

#[test]
fn the_write_that_makes_a_record_too_large_shards_it() {
    let store = store(|_| ());
    let list = list(&store, ShardPolicy::manual().record_bytes_max(4 << 10));
    let set = store.set("set").unwrap();
    let sharded_at = (0..2_000).find(|id| {
        list.add(*id).unwrap();
        let root = set.operate("key", &[operations::get_bin("bin")]).unwrap();
        assert!(root.record_bytes <= 4 << 10, "{}", root.record_bytes);
        list.shards().state().unwrap().shards > 0
    });
    assert!(sharded_at.is_some_and(|id| id > 100), "{sharded_at:?}");
}

#[test]
fn a_record_that_is_full_is_sharded_and_the_write_done_after_all() {
    let store = store(|config| config.max_record_bytes = 4 << 10);
    let list = list(&store, ShardPolicy::default());
    for id in 0..500 {
        assert!(
            list.add(Value::Blob([7; 32].map(|byte| byte ^ id as u8).to_vec()))
                .unwrap()
                || id > 255
        );
    }
    for id in 0..2_000 {
        list.add(id).unwrap();
    }
    assert!(list.shards().state().unwrap().shards >= 4);
    assert_eq!(list.len().unwrap(), 2_256);

    let by_hand = ShardedList::new(&store, "set", "other", "bin").unwrap();
    let by_hand = by_hand.policy(ShardPolicy::manual());
    let refused = (0..10_000).find_map(|id| by_hand.add(id).err());
    assert!(
        matches!(refused, Some(Error::RecordTooBig { .. })),
        "{refused:?}"
    );
    assert_eq!(by_hand.shards().state().unwrap().shards, 0);
}

#[test]
fn a_writer_that_is_refused_shards_the_record_and_is_retried_on_its_shard() {
    let store = store(|config| config.max_waiters = 0);
    let list = list(&store, ShardPolicy::manual().contention(true));
    list.add(1).unwrap();
    let added = while_it_is_written(&store.set("set").unwrap(), "key", || list.add(2));
    assert!(added.unwrap());
    assert_eq!(list.shards().state().unwrap().shards, 2);
    assert_eq!(all(&list), [1.into(), 2.into()]);
}

#[test]
fn without_such_a_policy_a_writer_that_is_refused_is_told() {
    let store = store(|config| config.max_waiters = 0);
    let set = store.set("set").unwrap();
    let list = list(&store, ShardPolicy::default());
    list.add(1).unwrap();
    let refused = while_it_is_written(&set, "key", || list.add(2)).unwrap_err();
    assert!(matches!(refused, Error::KeyBusy { .. }), "{refused}");
    assert_eq!(list.shards().state().unwrap().shards, 0);

    let counter = || ShardedCounter::new(&store, "set", "counter", "bin").unwrap();
    let manual = counter().policy(ShardPolicy::manual());
    manual.add(1).unwrap();
    let refused = while_it_is_written(&set, "counter", || manual.add(1)).unwrap_err();
    assert!(matches!(refused, Error::KeyBusy { .. }), "{refused}");
    assert_eq!(manual.read().unwrap(), 1);
    // Counters shard by contention if nothing else is said.
    while_it_is_written(&set, "counter", || counter().add(1)).unwrap();
    assert!(counter().shards().state().unwrap().shards > 1);
    assert_eq!(manual.read().unwrap(), 2);
}

#[test]
fn refusals_of_others_count_too() {
    let store = store(|config| config.max_waiters = 0);
    let set = store.set("set").unwrap();
    let list = list(&store, ShardPolicy::manual().contention(true));
    set.put("key", [("other", 1)]).unwrap();
    let refused = while_it_is_written(&set, "key", || set.put("key", [("other", 2)]));
    assert!(matches!(refused, Err(Error::KeyBusy { .. })));
    list.add(1).unwrap();
    assert_eq!(list.shards().state().unwrap().shards, 2);
    assert_eq!(
        set.get("key").unwrap().unwrap().get("other"),
        Some(1.into())
    );
}

#[test]
fn what_is_in_the_way_does_not_refuse_a_write_that_is_done() {
    let store = store(|_| ());
    let set = store.set("set").unwrap();
    for key in ["key:1", "key:~shard:0"] {
        set.put(key, [("mine", 1)]).unwrap();
    }
    let list = list(&store, ShardPolicy::manual().elements_max(2));
    for id in 0..10 {
        assert!(list.add(id).unwrap());
    }
    assert_eq!(
        (list.shards().state().unwrap().shards, list.len().unwrap()),
        (0, 10)
    );
    let told = list.shards().activate(2).unwrap_err();
    assert!(matches!(told, Error::ShardKeyCollision { .. }), "{told}");
    let mine = set.get("key:1").unwrap().unwrap();
    assert_eq!(mine.get("mine"), Some(1.into()));
}

#[test]
fn what_one_record_cannot_hold_is_not_brought_together() {
    let store = store(|config| config.max_record_bytes = 4 << 10);
    let list = list(&store, ShardPolicy::default());
    for id in 0..2_000 {
        list.add(id).unwrap();
    }
    let before = list.shards().state().unwrap();
    let refused = list.shards().deactivate().unwrap_err();
    assert!(matches!(refused, Error::RecordTooBig { .. }), "{refused}");
    // Some merges may fit, the last of them does not.
    let mut merges = 0;
    while list.shards().merge().is_ok() {
        merges += 1;
    }
    assert!(merges < before.shards.ilog2());
    assert_eq!(list.shards().state().unwrap().transition, None);
    assert!(list.add(2_000).unwrap());
    assert_eq!(list.len().unwrap(), 2_001);
}

#[test]
fn an_element_larger_than_a_record_should_be_makes_no_more_shards() {
    let store = store(|_| ());
    let large = |id: u32| Value::Blob([&id.to_be_bytes()[..], &[1; 200_000]].concat());
    let small = |id: u32| Value::Blob([&id.to_be_bytes()[..], &[0; 1_000]].concat());
    let list = list(&store, ShardPolicy::default());
    list.add(large(0)).unwrap();
    for id in 1..100 {
        list.add(small(id)).unwrap();
    }
    assert_eq!(list.shards().state().unwrap().shards, 0);
    let told = store.namespace("test").unwrap().recent_transitions();
    let why = told[0].refused.as_deref().unwrap();
    assert!(why.contains("single elements"), "{why}");
    // Elements that fit a record are spread as ever: 256 KiB of them, and the large one takes no
    // room in the count.
    for id in 100..256 {
        list.add(small(id)).unwrap();
    }
    let shards = list.shards().state().unwrap().shards;
    assert!((2..=8).contains(&shards), "{shards}");
    for id in 0..256 {
        let element = if id == 0 { large(id) } else { small(id) };
        assert!(list.contains(&element).unwrap(), "{id}");
    }
    // Each by a new handle, which has not seen the earlier ones.
    for id in 256..280 {
        ShardedList::new(&store, "set", "key", "bin")
            .unwrap()
            .add(small(id))
            .unwrap();
    }
    assert_eq!(list.shards().state().unwrap().shards, shards);

    // Several large elements split a shard at half of the record limit of a MiB.
    let map = ShardedMap::new(&store, "set", "map", "bin").unwrap();
    for id in 0..8 {
        map.put(i64::from(id), large(id)).unwrap();
    }
    let shards = map.shards().state().unwrap().shards;
    assert!((4..=64).contains(&shards), "{shards}");
    assert_eq!(map.len().unwrap(), 8);

    // A record with other large bins is relieved of the collection.
    store
        .set("set")
        .unwrap()
        .put("beside", [("other", Value::Blob(vec![7; 120_000]))])
        .unwrap();
    let beside = ShardedList::new(&store, "set", "beside", "bin").unwrap();
    for id in 0..20 {
        beside.add(small(id)).unwrap();
    }
    assert!(beside.shards().state().unwrap().shards >= 2);
}
