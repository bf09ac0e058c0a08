//! Groups of writes of handles: what others do between a group and what follows it, and which
//! records refuse a group.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde_json::json;
use spikelet::relation::{Address, Layout, Links, ManyToMany, OneToMany, Repair};
use spikelet::shard::ShardPolicy;
use spikelet::{
    Error, OperateResult, RecordCall, RecordStore, Result, Set, Store, Transaction, WritePolicy,
};

use super::go_on;

/// A store that notes how many writes its groups had, and calls `behind` after each group.
struct Grouped<'s> {
    store: &'s Store,
    made: RefCell<Vec<usize>>,
    behind: &'s dyn Fn(),
}

impl<'s> Grouped<'s> {
    fn new(store: &'s Store, behind: &'s dyn Fn()) -> Self {
        let made = RefCell::default();
        Self {
            store,
            made,
            behind,
        }
    }
}

impl RecordStore for Grouped<'_> {
    type Records = Set;
    type Atomic<'a> = Transaction<'a>;

    fn records(&self, set: &str) -> Result<Set> {
        self.store.set(set)
    }

    fn operate_together(
        &self,
        calls: &[(&Set, RecordCall<'_>)],
    ) -> Option<Result<Vec<OperateResult>>> {
        let results = self.store.operate_together(calls)?;
        if results.is_ok() {
            self.made.borrow_mut().push(calls.len());
            (self.behind)();
        }
        Some(results)
    }

    fn atomically<T>(&self, make: impl FnMut(&Transaction<'_>) -> Result<T>) -> Result<T> {
        self.store.atomically(make)
    }
}

#[test]
fn a_group_waits_for_a_record_as_long_as_its_policy_says() {
    let store = Store::in_memory().unwrap();
    let limit = Duration::from_millis(20);
    let hasty = WritePolicy::default().total_timeout(limit);
    let follows = ManyToMany::new(
        &store,
        "follow",
        ("users", "following"),
        ("users", "followers"),
    )
    .write_policy(&hasty);
    let users = store.set("users").unwrap();
    let waited = users.update("alice", |_| {
        let began = Instant::now();
        std::thread::scope(|scope| {
            let linking = scope.spawn(|| follows.link("alice", "bob"));
            assert_eq!(linking.join().unwrap().unwrap_err().result_code(), 9);
        });
        Ok(began.elapsed())
    });
    assert!(waited.unwrap() < Duration::from_secs(4));
    assert!(!users.exists("bob").unwrap());
}

#[test]
fn an_edge_that_is_removed_before_its_list_is_sharded_stays_removed() {
    let store = Store::in_memory().unwrap();
    fn follows<S: RecordStore>(store: S) -> ManyToMany<S> {
        let sides = (("users", "following"), ("users", "followers"));
        ManyToMany::new(store, "follows", sides.0, sides.1)
            .shard_policy(ShardPolicy::manual().elements_max(3))
    }
    let alive = follows(&store);
    for target in 1..=3 {
        alive.link(0, target).unwrap();
    }
    let unlinked = Cell::new(false);
    let behind = || unlinked.set(alive.unlink(0, 4).unwrap());
    follows(Grouped::new(&store, &behind)).link(0, 4).unwrap();
    assert!(unlinked.get());
    assert!(!alive.contains(0, 4).unwrap());
    assert!(!alive.sources(4).contains(0).unwrap());
    // Links, too, and the list is sharded by the next one.
    let people = |id: i64| Address::new("people", id);
    fn friends<S: RecordStore>(store: S) -> Links<S> {
        Links::new(store, "links")
            .reciprocal("friend", "friend")
            .shard_policy(ShardPolicy::manual().elements_max(3))
    }
    let alive = friends(&store);
    for id in 1..=3 {
        alive.link(&people(0), "friend", &people(id)).unwrap();
    }
    let behind = || assert!(alive.unlink(&people(0), "friend", &people(4)).unwrap());
    let links = friends(Grouped::new(&store, &behind));
    links.link(&people(0), "friend", &people(4)).unwrap();
    assert!(!alive.contains(&people(0), "friend", &people(4)).unwrap());
    alive.link(&people(0), "friend", &people(5)).unwrap();
    let list = spikelet::ShardedList::new(&store, "people", 0, "links").unwrap();
    assert!(list.shards().state().unwrap().shards > 0);
    let audit = alive.verify(["people"], Repair::No, go_on).unwrap();
    assert!(audit.is_sound(), "{:?}", audit.faults);
}

#[test]
fn a_sharded_parent_leaves_the_children_of_others_in_one_group() {
    let store = Store::in_memory().unwrap();
    fn tasks<S: RecordStore<Records = Set>>(store: S) -> OneToMany<S> {
        let layout = Layout::key_list("tasks");
        OneToMany::new(store, "tasks", ("people", "tasks"), layout)
            .unwrap()
            .with_parent_bin("owner")
            .shard_policy(ShardPolicy::manual().elements_max(100))
    }
    let alive = tasks(&store);
    for task in 0..150 {
        alive.put(0, task, &json!({ "title": task })).unwrap();
    }
    // One child moves to another parent, one comes twice.
    alive.put(1, 1_000, &json!({ "title": "moves" })).unwrap();
    let mut batch: Vec<_> = (150..450).map(|task| (task % 10, task)).collect();
    batch.extend([(3, 1_000), (4, 2_000), (5, 2_000)]);
    let behind = || {};
    let counted = Grouped::new(&store, &behind);
    let grouped = tasks(&counted);
    let children = batch
        .iter()
        .map(|(parent, task)| (*parent, *task, json!({ "title": task })));
    let done = grouped
        .put_all(children, |_| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!((done.taken, done.complete), (303, true));
    // The records of nine parents, and their lists.
    assert_eq!(counted.made.borrow().iter().max(), Some(&279));
    for (parent, len) in [(0, 180), (1, 30), (3, 31), (4, 30), (5, 31)] {
        assert_eq!(alive.len(parent).unwrap(), len, "{parent}");
    }
    let audit = alive.verify(Repair::No, go_on).unwrap();
    assert!(audit.is_sound(), "{:?}", audit.faults);
}

/// A store that fails groups as a whole.
struct Failing<'s>(&'s Store);

impl RecordStore for Failing<'_> {
    type Records = Set;
    type Atomic<'a> = Self;

    fn records(&self, set: &str) -> Result<Set> {
        self.0.set(set)
    }

    fn operate_together(&self, _: &[(&Set, RecordCall<'_>)]) -> Option<Result<Vec<OperateResult>>> {
        Some(Err(Error::Forbidden("a full disk".into())))
    }

    fn atomically<T>(&self, mut make: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        make(self)
    }
}

#[test]
fn the_failure_of_a_group_names_the_relation() {
    let store = Store::in_memory().unwrap();
    let links = Links::new(Failing(&store), "links").reciprocal("likes", "liked");
    let (ann, bob) = (Address::new("users", "ann"), Address::new("users", "bob"));
    for failed in [
        links.link(&ann, "likes", &bob),
        links.unlink(&ann, "likes", &bob),
    ] {
        let failed = failed.unwrap_err();
        assert!(matches!(failed, Error::Relation { .. }), "{failed}");
    }
}
