//! Records of a sharded collection beside callers that do not know it: a write that would orphan
//! companions, or go into one, is refused unless forced, and no handle goes on writing into
//! orphans.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use spikelet::error::ShardLoss;
use spikelet::operations::{add, append, delete_all_bins, delete_bin, put, touch};
use spikelet::policy::RecordExistsAction;
use spikelet::relation::ManyToMany;
use spikelet::shard::{ShardPolicy, TimeWidth, sharded_collections};
use spikelet::storage::{Clock, ManualClock};
use spikelet::{
    DEFAULT_NAMESPACE, Durability, Error, Expiration, Lsn, NamespaceConfig, Result, Set,
    ShardedCounter, ShardedList, Store, TimeShards, Value, WritePolicy,
};

use crate::common::by_force;

const SET: &str = "users";

#[derive(Serialize)]
struct User {
    name: &'static str,
}

const ALICE: User = User { name: "Alice" };

fn list(store: &Store, key: &str) -> ShardedList<Set> {
    ShardedList::new(store, SET, key, "followers")
        .unwrap()
        .policy(ShardPolicy::manual())
}

/// Ten followers in two companions.
fn sharded(store: &Store, key: &str) -> ShardedList<Set> {
    let list = list(store, key);
    for id in 0..10 {
        list.add(id).unwrap();
    }
    list.shards().activate(2).unwrap();
    list
}

fn ids(list: &ShardedList<Set>) -> Vec<Value> {
    list.iter().collect::<Result<_>>().unwrap()
}

fn ten() -> Vec<Value> {
    (0..10).map(Value::Int).collect()
}

fn action(action: RecordExistsAction) -> WritePolicy {
    WritePolicy::default().record_exists_action(action)
}

type Write = fn(&Set, &WritePolicy, &str) -> Result<Option<Lsn>>;

/// Writes that leave a root without the description of its companions.
const DROPPING: [(&str, Write); 8] = [
    ("put_as", |set, policy, key| {
        let policy = policy
            .clone()
            .record_exists_action(RecordExistsAction::Replace);
        set.put_as_with(&policy, key, &ALICE).map(Some)
    }),
    ("replace", |set, policy, key| {
        let policy = policy
            .clone()
            .record_exists_action(RecordExistsAction::Replace);
        set.put_with(&policy, key, [("name", "Alice")]).map(Some)
    }),
    ("replace only", |set, policy, key| {
        let policy = policy
            .clone()
            .record_exists_action(RecordExistsAction::ReplaceOnly);
        set.put_with(&policy, key, [("name", "Alice")]).map(Some)
    }),
    ("put of nil", |set, policy, key| {
        set.put_with(policy, key, [("subkeys", Value::Nil)])
            .map(Some)
    }),
    ("operate", |set, policy, key| {
        let operations = [delete_bin("subkeys"), put("name", "Alice")];
        Ok(set.operate_with(policy, key, &operations)?.lsn)
    }),
    ("delete_all_bins", |set, policy, key| {
        Ok(set.operate_with(policy, key, &[delete_all_bins()])?.lsn)
    }),
    ("update", |set, policy, key| {
        set.update_with(policy, key, |bins| {
            bins.remove("subkeys");
            Ok(None)
        })
    }),
    ("delete", |set, policy, key| set.delete_with(policy, key)),
];

#[test]
fn what_would_orphan_companions_is_refused_and_changes_nothing() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    let list = sharded(&store, "alice");
    let before = set.get("alice").unwrap().unwrap();
    for (what, write) in DROPPING {
        let refused = write(&set, &WritePolicy::default(), "alice").unwrap_err();
        let names = matches!(
            &refused,
            Error::ShardRoot { set, key, loses: ShardLoss::Now } if &**set == SET && &**key == "alice"
        );
        assert!(names, "{what}: {refused}");
        let told = refused.to_string();
        assert!(
            told.contains("\"alice\"") && told.contains("override_shards"),
            "{told}"
        );
        assert_eq!(refused.result_code(), 22);
        assert_eq!(set.get("alice").unwrap().unwrap(), before, "{what}");
        assert_eq!(ids(&list), ten(), "{what}");
    }
    assert!(set.put_as("alice", &ALICE).is_err());
    assert!(set.delete("alice").is_err());
}

#[test]
fn other_bins_of_a_root_are_anybodys() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    let list = sharded(&store, "alice");
    set.put("alice", [("name", "Alice")]).unwrap();
    set.put("alice", [("name", Value::Nil), ("age", 44.into())])
        .unwrap();
    set.add("alice", [("age", 1)]).unwrap();
    set.operate("alice", &[touch(), append("name", "A")])
        .unwrap();
    set.update("alice", |bins| bins.set("age", 46).map(drop))
        .unwrap();
    let alice = set.get("alice").unwrap().unwrap();
    assert_eq!(alice.get("age"), Some(46.into()));
    assert_eq!(ids(&list), ten());
    // Once the collection is back, or gone, the record is like any other.
    list.shards().deactivate().unwrap();
    set.put_as("alice", &ALICE).unwrap();
    let bob = sharded(&store, "bob");
    bob.delete().unwrap();
    assert!(set.delete("bob").unwrap().is_some());
}

#[test]
fn a_root_does_not_expire_by_the_way() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    let list = sharded(&store, "alice");
    let soon = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(10)));
    for refused in [
        set.put_with(&soon, "alice", [("name", "Alice")]),
        set.touch_with(&soon, "alice"),
    ] {
        assert!(matches!(
            refused,
            Err(Error::ShardRoot {
                loses: ShardLoss::Later,
                ..
            })
        ));
    }
    let soon = soon.override_shards(true);
    set.put_with(&soon, "alice", [("name", "Alice")]).unwrap();
    assert_eq!(ids(&list), ten());
}

#[test]
fn whoever_asks_for_it_may_and_old_handles_go_where_new_ones_look() {
    for (what, write) in DROPPING {
        let store = Store::in_memory().unwrap();
        let set = store.set(SET).unwrap();
        let old = sharded(&store, "alice");
        let reader = list(&store, "alice");
        assert_eq!(reader.len().unwrap(), 10);
        let other = sharded(&store, "bob");
        let forced = WritePolicy::default().override_shards(true);
        write(&set, &forced, "alice").unwrap();
        // Nothing is acknowledged into orphaned companions.
        assert!(old.add(100).unwrap(), "{what}");
        assert!(!old.contains(&1.into()).unwrap(), "{what}");
        assert_eq!(reader.len().unwrap(), 1, "{what}");
        assert_eq!(ids(&list(&store, "alice")), [100.into()], "{what}");
        // They are reported, and the next activation takes their place.
        let found = sharded_collections(&set).unwrap();
        assert_eq!(found[0].leftovers().count(), 2, "{what}: {found:?}");
        assert_eq!(old.shards().activate(2).unwrap().shards, 2);
        assert_eq!(ids(&reader), [100.into()], "{what}");
        // Another collection has lost nothing.
        assert_eq!(ids(&other), ten());
    }
}

#[test]
fn a_counter_and_a_feed_notice_it_too() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    let likes = ShardedCounter::new(&store, SET, "post", "likes").unwrap();
    likes.add(5).unwrap();
    likes.shards().activate(4).unwrap();
    let now = SystemTime::now();
    let feed = TimeShards::new(&store, SET, "chat", "said", TimeWidth::Daily).unwrap();
    feed.add(now, "hello").unwrap();
    let forced = WritePolicy::default().override_shards(true);
    for key in ["post", "chat"] {
        assert!(matches!(set.delete(key), Err(Error::ShardRoot { .. })));
        assert!(set.delete_with(&forced, key).unwrap().is_some());
    }
    likes.add(1).unwrap();
    assert_eq!(likes.read().unwrap(), 1);
    feed.add(now, "again").unwrap();
    let other = TimeShards::new(&store, SET, "chat", "said", TimeWidth::Daily).unwrap();
    let hour = Duration::from_secs(3_600);
    for feed in [&feed, &other] {
        let said = feed.range(now - hour..now + hour).all().unwrap();
        let words: Vec<_> = said.into_iter().map(|(_, what)| what).collect();
        assert_eq!(words, ["again".into()]);
    }
}

/// Everything that a user may do to a record, by its key.
const TOUCHING: [(&str, Write); 7] = [
    ("put", |set, policy, key| {
        set.put_with(policy, key, [("name", "Bob")]).map(Some)
    }),
    ("put_as", |set, policy, key| {
        set.put_as_with(policy, key, &ALICE).map(Some)
    }),
    ("replace", |set, policy, key| {
        let policy = policy
            .clone()
            .record_exists_action(RecordExistsAction::Replace);
        set.put_as_with(&policy, key, &ALICE).map(Some)
    }),
    ("operate", |set, policy, key| {
        Ok(set.operate_with(policy, key, &[add("count", 1)])?.lsn)
    }),
    ("touch", |set, policy, key| {
        set.touch_with(policy, key).map(Some)
    }),
    ("update", |set, policy, key| {
        set.update_with(policy, key, |bins| bins.set("age", 1).map(drop))
            .map(|()| None)
    }),
    ("delete", |set, policy, key| set.delete_with(policy, key)),
];

#[test]
fn a_user_record_is_not_written_into_a_companion() {
    for (what, write) in TOUCHING {
        let store = Store::in_memory().unwrap();
        let set = store.set(SET).unwrap();
        let list = sharded(&store, "alice");
        let before = set.get("alice:0").unwrap().unwrap();
        let refused = write(&set, &WritePolicy::default(), "alice:0").unwrap_err();
        let names = matches!(
            &refused,
            Error::ShardCompanion { set, key } if &**set == SET && &**key == "alice:0"
        );
        assert!(names, "{what}: {refused}");
        assert_eq!(set.get("alice:0").unwrap().unwrap(), before, "{what}");
        assert_eq!(ids(&list), ten());
        // All may read it.
        assert!(set.exists("alice:0").unwrap());
        let forced = WritePolicy::default().override_shards(true);
        write(&set, &forced, "alice:0").unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    sharded(&store, "alice");
    let create = action(RecordExistsAction::CreateOnly);
    let refused = set.put_with(&create, "alice:0", [("name", "Bob")]);
    assert!(matches!(refused, Err(Error::RecordExists { .. })));
}

#[test]
fn a_collection_is_not_sharded_over_the_records_of_users() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    set.put("alice:1", [("name", "Bob")]).unwrap();
    let before = set.get("alice:1").unwrap().unwrap();
    let list = list(&store, "alice");
    for id in 0..10 {
        list.add(id).unwrap();
    }
    list.shards().activate(2).unwrap();
    assert_eq!(set.get("alice:1").unwrap().unwrap(), before);
    assert_eq!((ids(&list), set.len()), (ten(), 2));
    list.shards().deactivate().unwrap();
    // A split meets one as well.
    list.shards().activate(1).unwrap();
    list.shards().split().unwrap();
    assert_eq!(list.shards().state().unwrap().transition, None);
    assert_eq!(set.get("alice:1").unwrap().unwrap(), before);
    // The same for a bucket of a feed.
    let feed = TimeShards::new(&store, SET, "chat", "said", TimeWidth::Daily).unwrap();
    set.put("chat:1970-01-02", [("name", "Bob")]).unwrap();
    let day_two = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
    assert!(matches!(
        feed.add(day_two, 1),
        Err(Error::ShardKeyCollision { .. })
    ));
}

#[test]
fn what_others_write_beside_a_sharded_collection_is_refused() {
    let store = Store::in_memory().unwrap();
    let set = store.set(SET).unwrap();
    let followers = sharded(&store, "alice");
    let unique = spikelet::ListPolicy::default();
    let beside = [
        spikelet::operations::lists::append(&unique, "followers", 10),
        put("followers", "text"),
    ];
    let force = WritePolicy::default().override_shards(true);
    for operation in &beside {
        let refused = set
            .operate("alice", std::slice::from_ref(operation))
            .unwrap_err();
        let told = refused.to_string();
        assert!(
            matches!(
                refused,
                Error::ShardRoot {
                    loses: ShardLoss::Beside,
                    ..
                }
            ),
            "{told}"
        );
        assert!(told.contains("use a handle"), "{told}");
    }
    assert!(set.put("alice", [("followers", 1)]).is_err());
    // All may write other bins, and the bin of another collection that is not sharded.
    set.put("alice", [("name", "Alice")]).unwrap();
    let following = ShardedList::new(&store, SET, "alice", "following").unwrap();
    assert!(following.add(1).unwrap());
    let append = spikelet::operations::lists::append(&unique, "following", 2);
    set.operate("alice", &[append]).unwrap();
    assert_eq!(ids(&followers), ten());
    // By force it happens, is found out, and can be taken back.
    set.operate_with(&force, "alice", &beside[..1]).unwrap();
    set.operate("alice", &[delete_bin("followers")]).unwrap();
    assert_eq!(ids(&list(&store, "alice")), ten());
    // Back in one record, it is a list like any other.
    followers.shards().deactivate().unwrap();
    set.operate("alice", &beside[..1]).unwrap();
    assert_eq!(followers.len().unwrap(), 11);
}

#[test]
fn a_collection_that_is_to_expire_stays_in_its_record_and_does() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let store = Store::builder().clock(clock.clone()).open().unwrap();
    let hour = Duration::from_secs(3_600);
    let expiring = WritePolicy::default().expiration(Expiration::After(hour));
    let small = ShardPolicy::default().record_bytes_max(500);
    let list = ShardedList::new_with(&store, "x", "expiring", "b", &expiring)
        .unwrap()
        .policy(small);
    let lasting = ShardedList::new(&store, "x", "lasting", "b")
        .unwrap()
        .policy(small);
    for id in 0..1_000 {
        list.add(id).unwrap();
        lasting.add(id).unwrap();
    }
    assert_eq!(list.shards().state().unwrap().shards, 0);
    assert!(lasting.shards().state().unwrap().shards > 1);
    clock.advance_ms(3_700_000);
    assert_eq!((list.len().unwrap(), lasting.len().unwrap()), (0, 1_000));
}

#[test]
fn a_list_that_is_to_expire_is_refused_where_its_record_is_full() {
    let config = NamespaceConfig::new(DEFAULT_NAMESPACE).max_record_bytes(4_096);
    let store = Store::builder().namespace(config).open().unwrap();
    let expiring = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(60)));
    let list = ShardedList::new_with(&store, "x", "expiring", "b", &expiring).unwrap();
    let refused = (0..10_000).find_map(|id| list.add(id).err()).unwrap();
    assert!(matches!(refused, Error::RecordTooBig { .. }), "{refused}");
    assert_eq!(list.shards().state().unwrap().shards, 0);
}

#[test]
fn a_truncation_by_time_takes_collections_whole_or_leaves_them() {
    let clock = Arc::new(ManualClock::at(500_000_000_000));
    let store = Store::builder().clock(clock.clone()).open().unwrap();
    let namespace = store.namespace(DEFAULT_NAMESPACE).unwrap();
    let set = store.set(SET).unwrap();
    let second = |second: u64| {
        let since_2010 = Duration::from_millis(500_000_000_000 + second * 1_000);
        Some(SystemTime::UNIX_EPOCH + Duration::from_secs(1_262_304_000) + since_2010)
    };
    let old = sharded(&store, "old");
    set.put("plain", [("n", 1)]).unwrap();
    clock.advance_ms(10_000);
    let alice = sharded(&store, "alice");
    // Leftovers of a collection that is in its record again belong to none.
    let whole = sharded(&store, "whole");
    whole.shards().deactivate().unwrap();
    let feed = TimeShards::new(&store, SET, "feed", "feed", TimeWidth::Daily).unwrap();
    feed.add(SystemTime::UNIX_EPOCH, "x").unwrap();
    clock.advance_ms(10_000);
    for late in [10, 11, 12, 13] {
        alice.add(late).unwrap();
    }
    for torn in [set.truncate(second(15)), namespace.truncate(second(15))] {
        let refused = torn.unwrap_err();
        let names = matches!(
            &refused,
            Error::ShardRoot { set, key, .. } if &**set == SET && &**key == "alice"
        );
        assert!(names, "{refused}");
        let told = refused.to_string();
        assert!(
            told.contains("Shards::deactivate") && !told.contains("override_shards"),
            "{told}"
        );
    }
    assert_eq!(alice.len().unwrap(), 14);
    // Those between two collections take one of them.
    assert_eq!(set.truncate(second(5)).unwrap(), 4);
    assert_eq!((old.len().unwrap(), alice.len().unwrap()), (0, 14));
    alice.shards().deactivate().unwrap();
    clock.advance_ms(10_000);
    assert!(set.truncate(second(25)).unwrap() > 0);
    assert_eq!(sharded_collections(&set).unwrap(), []);
    assert_eq!(
        (alice.len().unwrap(), feed.latest(1).unwrap().len()),
        (0, 0)
    );
    // Without a time all records go, of any kind.
    sharded(&store, "bob").add(10).unwrap();
    set.truncate(None).unwrap();
    assert!(set.is_empty());
}

/// Whatever was acknowledged before a truncation is not there behind it, and no handle adds to a
/// companion that no root leads to.
#[test]
fn adders_beside_truncations_bring_nothing_back_and_add_to_no_orphan() {
    const ADDERS: i64 = 8;
    let store = &Store::in_memory().unwrap();
    let set = &store.set(SET).unwrap();
    let alice = &sharded(store, "alice");
    let ends = &AtomicBool::new(false);
    let acknowledged = &[const { AtomicI64::new(0) }; ADDERS as usize];
    std::thread::scope(|scope| {
        for adder in 0..ADDERS {
            scope.spawn(move || {
                let alice = list(store, "alice");
                for number in 1.. {
                    if ends.load(Ordering::SeqCst) {
                        break;
                    }
                    alice.add(number * ADDERS + adder).unwrap();
                    acknowledged[adder as usize].store(number, Ordering::SeqCst);
                }
            });
        }
        let now = || acknowledged.each_ref().map(|it| it.load(Ordering::SeqCst));
        let mut wrong = None;
        for _ in 0..200 {
            let enough = now().iter().sum::<i64>() + 200;
            while now().iter().sum::<i64>() < enough {
                std::thread::yield_now();
            }
            let before = now();
            set.truncate(None).unwrap();
            let is_old = |id: &Value| {
                let id = id.as_i64().unwrap();
                id / ADDERS <= before[(id % ADDERS) as usize]
            };
            wrong = wrong.or_else(|| ids(alice).into_iter().find(is_old));
            alice.shards().activate(4).unwrap();
        }
        ends.store(true, Ordering::SeqCst);
        assert_eq!(wrong, None);
    });
    crate::common::assert_only_husks_are_left(set);
}

/// A sync takes long enough for another thread to see the record and to add to the collection.
#[test]
fn whoever_sees_a_replaced_root_adds_to_no_orphan_while_it_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    let config = NamespaceConfig::new(DEFAULT_NAMESPACE).durability(Durability::Commit);
    let store = Store::builder().path(dir.path()).namespace(config);
    let store = store.open().unwrap();
    let set = &store.set(SET).unwrap();
    type Replace = fn(&Store, &Set, &str);
    let ways: [Replace; 3] = [
        |_, set, key| {
            let policy = action(RecordExistsAction::Replace).override_shards(true);
            set.put_with(&policy, key, [("name", "Alice")]).unwrap();
        },
        |_, set, key| {
            set.delete_with(&by_force(), key).unwrap();
        },
        |store, set, key| {
            let policy = by_force();
            let namespace = store.namespace(DEFAULT_NAMESPACE).unwrap();
            let deleted = namespace.write_together(|group| group.delete_with(&policy, set, key));
            deleted.unwrap();
        },
    ];
    for round in 0..10 {
        for (way, replace) in ways.iter().enumerate() {
            let key = &format!("alice {round} {way}");
            let alice = sharded(&store, key);
            std::thread::scope(|scope| {
                scope.spawn(|| replace(&store, set, key));
                let is_root = |record: &spikelet::Record| record.get("subkeys").is_some();
                while set.get(key).unwrap().as_ref().is_some_and(is_root) {}
                alice.add(10).unwrap();
            });
            assert_eq!(ids(&list(&store, key)), [Value::Int(10)], "{key}");
        }
    }
}

/// A clock that stops a caller in the middle, once.
#[derive(Debug)]
struct StoppingClock {
    now_ms: ManualClock,
    /// How many more times it is read before.
    reads_left: AtomicU64,
    meet: Barrier,
}

impl Clock for StoppingClock {
    fn now_ms(&self) -> u64 {
        if self.reads_left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.meet.wait();
            self.meet.wait();
        }
        self.now_ms.now_ms()
    }
}

#[test]
fn a_truncation_by_time_tears_no_collection_that_is_written_once_it_has_looked() {
    let start = 500_000_000_000;
    let clock = Arc::new(StoppingClock {
        now_ms: ManualClock::at(start),
        reads_left: AtomicU64::new(u64::MAX),
        meet: Barrier::new(2),
    });
    let config = NamespaceConfig::new(DEFAULT_NAMESPACE).background(false);
    let builder = Store::builder().namespace(config).clock(clock.clone());
    let store = builder.open().unwrap();
    let namespace = store.namespace(DEFAULT_NAMESPACE).unwrap();
    let ends = ((SET, "following"), (SET, "followers"));
    ManyToMany::new(&store, "follows", ends.0, ends.1)
        .declare()
        .unwrap();
    let alice = sharded(&store, "alice");
    clock.now_ms.advance_ms(10_000);
    let before = Duration::from_millis(1_262_304_000_000 + start + 5_000);
    let truncated = std::thread::scope(|scope| {
        // It reads the clock for itself, for its look at the collections, and for the first
        // declaration, which it renews.
        clock.reads_left.store(3, Ordering::SeqCst);
        let truncated = scope.spawn(|| namespace.truncate(Some(SystemTime::UNIX_EPOCH + before)));
        clock.meet.wait();
        alice.add(10).unwrap();
        clock.meet.wait();
        truncated.join().unwrap()
    });
    assert!(
        matches!(truncated, Err(Error::ShardRoot { .. })),
        "{truncated:?}"
    );
    assert_eq!(alice.len().unwrap(), 11);
}
