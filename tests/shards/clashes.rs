//! Records of users that have the keys of companions do not keep a collection from being sharded,
//! and other obstacles are reported.

use std::sync::Arc;
use std::time::Duration;

use spikelet::query::{IndexComponent, IndexDefinition};
use spikelet::shard::{ShardPolicy, sharded_collections};
use spikelet::storage::ManualClock;
use spikelet::{
    Error, Expiration, NamespaceConfig, Result, Set, ShardedList, Store, Value, WritePolicy,
};

const SET: &str = "orders";

fn list(store: &Store, bin: &str) -> ShardedList<Set> {
    let list = ShardedList::new(store, SET, "order", bin).unwrap();
    list.policy(ShardPolicy::manual())
}

fn elements(list: &ShardedList<Set>) -> Vec<i64> {
    let all: Result<Vec<Value>> = list.iter().collect();
    let int = |value: &Value| match value {
        Value::Int(value) => *value,
        value => panic!("{value:?}"),
    };
    all.unwrap().iter().map(int).collect()
}

/// A list of 100 elements, and records of users at these keys.
fn with_users(keys: &[&str]) -> (Store, Set) {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    for key in keys {
        set.put(*key, [("total", 3)]).unwrap();
    }
    for element in 0..100 {
        list(&store, "lines").add(element).unwrap();
    }
    (store, set)
}

fn subkeys(set: &Set) -> Value {
    set.get("order").unwrap().unwrap().get("subkeys").unwrap()
}

fn words(words: &str) -> Value {
    let word = |word: &str| match word.parse::<i64>() {
        Ok(number) => Value::Int(number),
        Err(_) => word.into(),
    };
    Value::List(words.split(' ').map(word).collect::<Vec<_>>().into())
}

fn assert_sound(set: &Set) {
    for collection in sharded_collections(set).unwrap() {
        assert!(collection.leftovers().next().is_none(), "{collection:?}");
        assert!(collection.missing.is_empty(), "{collection:?}");
    }
}

#[test]
fn a_user_record_at_a_companion_key_gives_companions_other_keys() {
    for taken in ["order:0", "order:1"] {
        let (store, set) = with_users(&[taken]);
        let elements_of = IndexComponent::bin("lines").elements();
        set.create_index(IndexDefinition::new("by_line", [elements_of]))
            .unwrap();
        let lines = list(&store, "lines");
        lines.shards().activate(2).unwrap();
        assert_eq!(subkeys(&set), words("hash-shards 2 apart 0"));
        lines.shards().split().unwrap();
        lines.add(100).unwrap();
        assert!(lines.remove(&100.into()).unwrap());
        let all: Vec<i64> = (0..100).collect();
        assert_eq!(elements(&lines), all);
        // A handle that knows nothing yet, and writes of users to their own record.
        assert_eq!(elements(&list(&store, "lines")), all);
        set.put(taken, [("total", 4)]).unwrap();
        assert!(set.exists("order:~shard:3").unwrap());
        assert_eq!(set.len(), 2);
        for range in [7..=7, 20..=70] {
            let query = set.query("by_line").unwrap().range(range);
            assert_eq!(query.count().unwrap(), 1);
        }
        assert_sound(&set);
        lines.shards().merge().unwrap();
        lines.shards().deactivate().unwrap();
        assert_eq!(elements(&lines), all);
        assert_eq!(set.with_companions().len(), 2);
        // The next shards begin anew.
        set.delete(taken).unwrap();
        lines.shards().activate(2).unwrap();
        assert_eq!(subkeys(&set), words("hash-shards 2"));
    }
}

#[test]
fn a_user_record_that_comes_later_does_not_block_a_split() {
    let (store, set) = with_users(&[]);
    let lines = list(&store, "lines");
    lines.shards().activate(2).unwrap();
    set.put("order:3", [("total", 3)]).unwrap();
    lines.shards().split().unwrap();
    assert_eq!(subkeys(&set), words("hash-shards 4 apart 2"));
    lines.shards().split().unwrap();
    assert_eq!(elements(&lines), (0..100).collect::<Vec<_>>());
    for key in ["order:0", "order:1", "order:~shard:2", "order:~shard:7"] {
        assert!(set.exists(key).unwrap(), "{key}");
    }
    // Beside it, another collection of the record.
    let notes = list(&store, "notes");
    notes.add(1).unwrap();
    set.put("order:notes:0", [("total", 3)]).unwrap();
    notes.shards().activate(2).unwrap();
    assert!(set.exists("order:notes:~shard:0").unwrap());
    assert_eq!((elements(&notes), elements(&lines).len()), (vec![1], 100));
    assert_sound(&set);
    // What the engine protects stays protected.
    let refused = set.put("order:~shard:2", [("total", 1)]).unwrap_err();
    assert!(matches!(refused, Error::ShardCompanion { .. }), "{refused}");
    for list in [&lines, &notes] {
        list.delete().unwrap();
    }
    assert_eq!(set.with_companions().len(), 3);
}

#[test]
fn a_policy_shards_in_spite_of_a_clash() {
    let (store, set) = with_users(&["order:1"]);
    let by_count = ShardPolicy::manual().elements_max(Some(50));
    let lines = ShardedList::new(&store, SET, "order", "lines")
        .unwrap()
        .policy(by_count);
    lines.add(100).unwrap();
    assert!(lines.shards().state().unwrap().shards >= 2);
    assert_eq!(
        set.get("order:1").unwrap().unwrap().get("total"),
        Some(3.into())
    );
}

#[test]
fn what_keeps_a_policy_from_sharding_is_told() {
    let (store, set) = with_users(&["order:1", "order:~shard:0"]);
    let refused = list(&store, "lines").shards().activate(2).unwrap_err();
    assert!(matches!(&refused, Error::ShardKeyCollision { key } if **key == *"order:~shard:0"));
    let by_count = || ShardPolicy::manual().elements_max(Some(50));
    let lines = ShardedList::new(&store, SET, "order", "lines")
        .unwrap()
        .policy(by_count());
    lines.add(100).unwrap();
    let told = store.namespace("test").unwrap().recent_transitions();
    assert_eq!((&*told[0].set, &told[0].key), (SET, &"order".into()));
    assert_eq!((&*told[0].bin, told[0].shards), ("lines", 0));
    assert!(
        told[0].refused.as_ref().unwrap().contains("order:~shard:0"),
        "{told:?}"
    );
    // An index that could not hold the shards.
    set.delete("order:~shard:0").unwrap();
    let whole = IndexDefinition::new(
        "both",
        [IndexComponent::bin("lines").elements(), "a".into()],
    );
    set.create_index(whole).unwrap();
    let lines = ShardedList::new(&store, SET, "order", "lines")
        .unwrap()
        .policy(by_count());
    lines.add(101).unwrap();
    let told = store.namespace("test").unwrap().recent_transitions();
    assert!(
        told[0].refused.as_ref().unwrap().contains("both"),
        "{told:?}"
    );
}

#[test]
fn a_record_that_is_to_expire_is_told_when_it_is_left_unsharded() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let store = Store::builder()
        .clock(clock)
        .namespace(NamespaceConfig::new("test"))
        .open()
        .unwrap();
    let expiring = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(60)));
    let lines = ShardedList::new_with(&store, SET, "order", "lines", &expiring).unwrap();
    let lines = lines.policy(ShardPolicy::manual().elements_max(Some(5)));
    (0..5).for_each(|element| assert!(lines.add(element).unwrap()));
    assert_eq!(store.namespace("test").unwrap().recent_transitions(), []);
    lines.add(5).unwrap();
    let told = store.namespace("test").unwrap().recent_transitions();
    assert!(
        told[0].refused.as_ref().unwrap().contains("expire"),
        "{told:?}"
    );
    assert_eq!(lines.shards().state().unwrap().shards, 0);
}
