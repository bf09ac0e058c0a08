//! Many edges at once: `link_all` beside single links, when its process dies, and beside other
//! data.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use proptest::prelude::*;
use spikelet::relation::{Layout, ManyToMany, Members, OnDelete, OneToMany, Repair};
use spikelet::shard::ShardPolicy;
use spikelet::{
    Error, Expiration, OperateResult, RecordCall, RecordStore, Result, Set, Store, WritePolicy,
};

use crate::kill::{child_dir, killed_after, tell_progress};
use crate::killed::next;
use crate::watched::{Calls, Watched};

const KILLS: usize = 12;
const USERS: i64 = 300;

fn follows<S: RecordStore>(store: S) -> ManyToMany<S> {
    ManyToMany::new(
        store,
        "follows",
        ("users", "following"),
        ("users", "followers"),
    )
}

/// Between two sets, with attributes.
fn ratings<S: RecordStore>(store: S) -> ManyToMany<S> {
    ManyToMany::new(store, "ratings", ("users", "rated"), ("books", "rated_by")).with_attributes()
}

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Edges that are each there once, some thousand of them between 300 users.
fn some_edges(count: usize, seed: u64) -> Vec<(i64, i64)> {
    let mut state = seed;
    let edge = |_| {
        let ends = (next(&mut state), next(&mut state));
        (ends.0 as i64 & 0xff, ends.1 as i64 & 0xff)
    };
    let edges: BTreeSet<(i64, i64)> = (0..count).map(edge).collect();
    let mut edges: Vec<(i64, i64)> = edges.into_iter().collect();
    edges.sort_by_key(|(a, b)| (b * 31 + a * 17) % 101);
    edges
}

fn all_edges<S: RecordStore>(follows: &ManyToMany<S>) -> BTreeSet<(i64, i64)> {
    let mut edges = BTreeSet::new();
    for user in 0..USERS {
        for target in follows.targets(user).page(0, 1_000).unwrap() {
            edges.insert((user, number(&target)));
        }
    }
    edges
}

fn number(key: &spikelet::Key<'_>) -> i64 {
    match key {
        spikelet::Key::Integer(id) => *id,
        other => panic!("{other}"),
    }
}

fn assert_sound<S: RecordStore>(follows: &ManyToMany<S>) {
    let audit = follows.verify(Repair::No, go_on).unwrap();
    assert!(audit.is_sound(), "{:?}", audit.faults);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn edges_linked_together_are_those_linked_one_by_one(
        calls in prop::collection::vec(prop::collection::vec((0_i64..90, 0_i64..90), 0..400), 1..4),
        elements_max in prop::option::of(3_u64..12),
    ) {
        let store = Store::in_memory().unwrap();
        let mut follows = follows(&store);
        if let Some(elements) = elements_max {
            follows = follows.shard_policy(ShardPolicy::manual().elements_max(elements));
        }
        let mut model = BTreeSet::new();
        for edges in calls {
            let before = model.len();
            model.extend(edges.iter().copied());
            let done = follows.link_all(edges.iter().copied(), go_on).unwrap();
            let new = (model.len() - before) as u64;
            prop_assert_eq!((done.taken, done.new, done.complete), (edges.len() as u64, new, true));
            prop_assert_eq!(&all_edges(&follows), &model);
        }
        assert_sound(&follows);
    }

    #[test]
    fn attributes_given_together_are_the_last_ones_at_both_ends(
        calls in prop::collection::vec(prop::collection::vec((0_i64..40, 0_i64..40, 0_i64..9), 0..200), 1..4),
        elements_max in prop::option::of(3_u64..12),
    ) {
        let store = Store::in_memory().unwrap();
        let mut ratings = ratings(&store);
        if let Some(elements) = elements_max {
            ratings = ratings.shard_policy(ShardPolicy::manual().elements_max(elements));
        }
        let mut model = BTreeMap::new();
        for edges in calls {
            let before = model.len();
            model.extend(edges.iter().map(|(user, book, stars)| ((*user, *book), *stars)));
            let done = ratings.link_all_with(edges.iter().copied(), go_on).unwrap();
            prop_assert_eq!(done.new, (model.len() - before) as u64);
            for ((user, book), stars) in &model {
                prop_assert_eq!(ratings.attributes::<i64>(*user, *book).unwrap(), Some(*stars));
            }
        }
        assert_sound(&ratings);
    }
}

#[test]
fn edges_that_are_there_are_not_written_again() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    let hour =
        WritePolicy::default().expiration(Expiration::After(std::time::Duration::from_secs(3600)));
    users.put_with(&hour, 1, [("age", 1)]).unwrap();
    let follows = follows(&store);
    let edges = some_edges(2_000, 7);
    let done = follows.link_all(edges.iter().copied(), go_on).unwrap();
    assert_eq!(done.new, edges.len() as u64);
    let versions = || -> Vec<_> {
        let header = |user| users.get_header(user).unwrap();
        (0..USERS).map(header).collect()
    };
    let before = versions();
    let done = follows.link_all(edges.iter().copied(), go_on).unwrap();
    assert_eq!((done.taken, done.new), (edges.len() as u64, 0));
    assert_eq!(versions(), before);
    // One of the edges is new: both its ends are written, and no other record.
    let more = edges.iter().copied().chain([(298, 299)]);
    assert_eq!(follows.link_all(more, go_on).unwrap().new, 1);
    assert_eq!(versions()[..298], before[..298]);
    assert!(follows.contains(298, 299).unwrap());
    assert_sound(&follows);
}

#[test]
fn a_stopped_call_goes_on_with_the_rest() {
    let store = Store::in_memory().unwrap();
    let follows = follows(&store);
    // More than one batch.
    let edges = || (0..250_000_i64).map(|edge| (edge % 500, edge / 500));
    let mut seen = Vec::new();
    let stopped = follows
        .link_all(edges(), |progress| {
            seen.push(progress);
            ControlFlow::Break(())
        })
        .unwrap();
    assert_eq!(seen, [stopped]);
    assert_eq!((stopped.new, stopped.complete), (stopped.taken, false));
    assert!((10_000..250_000).contains(&stopped.taken), "{stopped:?}");
    assert_sound(&follows);
    let done = follows.link_all(edges(), go_on).unwrap();
    assert_eq!((done.taken, done.new), (250_000, 250_000 - stopped.new));
    assert!(done.complete);
}

#[test]
fn edges_of_a_transaction_that_is_given_up_are_not_there() {
    let store = Store::in_memory().unwrap();
    let follows = follows(&store);
    let edges = some_edges(300, 3);
    let given_up: Result<()> = store.transaction(|transaction| {
        let within = follows.within(transaction);
        let done = within.link_all(edges.iter().copied(), go_on)?;
        assert_eq!(done.new, edges.len() as u64);
        assert!(within.contains(edges[0].0, edges[0].1)?);
        Err(Error::Forbidden("given up".into()))
    });
    given_up.unwrap_err();
    assert_eq!(all_edges(&follows), BTreeSet::new());
    store
        .transaction(|transaction| {
            follows
                .within(transaction)
                .link_all(edges.iter().copied(), go_on)
        })
        .unwrap();
    assert_eq!(all_edges(&follows), edges.iter().copied().collect());
    assert_sound(&follows);
}

#[test]
fn a_store_without_groups_links_edge_by_edge() {
    let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
    let counted = follows(Watched::new(&store, &calls));
    let edges = some_edges(200, 5);
    let done = counted.link_all(edges.iter().copied(), go_on).unwrap();
    assert_eq!(done.new, edges.len() as u64);
    assert_eq!(calls.take().0, 2 * edges.len());
    assert_eq!(all_edges(&follows(&store)), edges.iter().copied().collect());
}

#[test]
fn attributes_need_a_relation_that_has_them() {
    let store = Store::in_memory().unwrap();
    let refused = follows(&store).link_all_with([(1, 2, 3)], go_on);
    assert!(matches!(refused, Err(Error::Parameter(_))), "{refused:?}");
}

/// A store with groups that answers a number of calls, and then fails as if its process had died.
struct Dying<'s> {
    store: &'s Store,
    left: AtomicUsize,
}

impl Dying<'_> {
    fn spend(&self) -> Result<()> {
        let spent = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        spent.map(drop).map_err(|_| Error::Forbidden("dead".into()))
    }
}

impl RecordStore for Dying<'_> {
    type Records = Set;
    type Atomic<'a> = Self;

    fn records(&self, set: &str) -> Result<Set> {
        // Each call that is not a group opens its set.
        self.spend()?;
        self.store.set(set)
    }

    fn operate_together(
        &self,
        calls: &[(&Set, RecordCall<'_>)],
    ) -> Option<Result<Vec<OperateResult>>> {
        if let Err(dead) = self.spend() {
            return Some(Err(dead));
        }
        self.store.operate_together(calls)
    }

    fn atomically<T>(&self, mut make: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        make(self)
    }
}

#[test]
fn a_call_that_was_cut_short_leaves_edges_with_both_ends_and_is_completed_by_the_next() {
    let edges = some_edges(800, 11);
    let (mut stopped, mut calls) = (0, 0);
    loop {
        let store = Store::in_memory().unwrap();
        let alive = follows(&store);
        // Some of the edges are there before, so that lists refuse them.
        let known = edges.iter().copied().take(50);
        alive.link_all(known, go_on).unwrap();
        let left = calls.into();
        let dying = follows(Dying {
            store: &store,
            left,
        });
        let done = dying.link_all(edges.iter().copied(), go_on);
        assert_sound(&alive);
        alive.link_all(edges.iter().copied(), go_on).unwrap();
        assert_eq!(all_edges(&alive), edges.iter().copied().collect());
        if done.is_ok() {
            break;
        }
        stopped += 1;
        calls += 1;
    }
    assert!(stopped > 2, "cut short {stopped} times only");
}

#[test]
fn edges_of_missing_ends_are_refused_with_the_record_and_the_others_are_linked() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    for user in 0..10 {
        users.put(user, [("age", 1)]).unwrap();
    }
    let follows = follows(&store).ends_must_exist();
    let done = follows.link_all((0..10).map(|user| (user, 9 - user)), go_on);
    assert_eq!(done.unwrap().new, 10);
    for (a, b) in [(3, 77), (77, 3)] {
        let refused = follows
            .link_all([(1, 2), (a, b), (2, 3)], go_on)
            .unwrap_err();
        assert_eq!(refused.result_code(), 2);
        assert!(refused.to_string().contains("77"), "{refused}");
        let refused = follows.link_together([(4, 4), (a, b)]).unwrap_err();
        assert!(refused.to_string().contains("77"), "{refused}");
    }
    assert!(!users.exists(77).unwrap());
    assert!(!follows.contains(4, 4).unwrap());
    assert!(follows.contains(1, 2).unwrap() && follows.contains(2, 3).unwrap());
    assert_sound(&follows);
}

#[test]
fn edges_linked_together_are_all_there_or_none() {
    let store = Store::in_memory().unwrap();
    let follows = follows(&store).shard_policy(ShardPolicy::manual().elements_max(20));
    assert_eq!(follows.link_together([(1, 2), (1, 2), (3, 1)]).unwrap(), 2);
    // One of them is there, and then one of the records is sharded.
    assert_eq!(follows.link_together([(1, 2), (5, 1)]).unwrap(), 1);
    for round in 1..4 {
        let edges = (0..20).map(|target| (1, round * 100 + target));
        assert_eq!(follows.link_together(edges).unwrap(), 20);
    }
    assert_eq!(follows.targets(1).len().unwrap(), 61);
    assert_sound(&follows);
}

#[test]
fn batches_beside_unlinks_and_deletes_leave_no_edge_that_one_end_alone_has() {
    let store = Store::in_memory().unwrap();
    race_of_batches(&follows(&store), 60);
    // Each record shards its edges once it has nine.
    let store = Store::in_memory().unwrap();
    let policy = ShardPolicy::manual().elements_max(8);
    race_of_batches(&follows(&store).shard_policy(policy), 6);
}

fn race_of_batches(follows: &ManyToMany<&Store>, batches: usize) {
    let edges: Vec<(i64, i64)> = (0..400).map(|edge| (edge % 20, edge / 20)).collect();
    thread::scope(|scope| {
        let linking = scope.spawn(|| {
            for _ in 0..batches {
                follows.link_all(edges.iter().copied(), go_on).unwrap();
            }
        });
        let mut seed = 5;
        while !linking.is_finished() {
            let user = (next(&mut seed) % 20) as i64;
            match next(&mut seed) % 8 {
                0 => follows.delete_with_edges(user, OnDelete::Detach, go_on),
                _ => follows.unlink(user, (next(&mut seed) % 20) as i64),
            }
            .unwrap();
        }
    });
    assert_sound(follows);
}

#[test]
fn children_that_a_batch_gives_to_other_parents_leave_the_lists_of_the_first() {
    let stores = [(); 2].map(|()| Store::in_memory().unwrap());
    let [tasks, single] = stores.each_ref().map(|store| {
        let layout = Layout::key_list("tasks");
        let tasks = OneToMany::new(store, "tasks", ("people", "tasks"), layout).unwrap();
        tasks.with_parent_bin("owner")
    });
    let child = |task: i64, parent: i64| (parent, task, serde_json::json!({ "title": task }));
    let first: Vec<_> = (0..50).map(|task| child(task, task % 5)).collect();
    let moved: Vec<_> = (10..30).map(|task| child(task, (task + 1) % 5)).collect();
    // One child under two parents: the last one has it.
    let twice = vec![child(60, 1), child(61, 1), child(60, 2)];
    for batch in [first, moved, twice] {
        for (parent, task, value) in &batch {
            single.put(*parent, *task, value).unwrap();
        }
        tasks.put_all(batch, go_on).unwrap();
        for person in 0..5 {
            let page = |tasks: &OneToMany<&Store>| tasks.page(person, None, 100).unwrap();
            assert_eq!(page(&tasks), page(&single), "of {person}");
        }
        let audit = tasks.verify(Repair::No, go_on).unwrap();
        assert!(audit.is_sound(), "{:?}", audit.faults);
    }
}

#[test]
fn a_batch_larger_than_a_group_can_be_is_written_in_parts() {
    let store = Store::in_memory().unwrap();
    let users = store.set("users").unwrap();
    // Their new versions have 40 MB.
    for user in 0..100 {
        users.put(user, [("photo", vec![7_u8; 400_000])]).unwrap();
    }
    let follows = follows(&store).shard_policy(ShardPolicy::manual());
    let edges = (0..100).map(|user| (user, (user + 1) % 100));
    assert_eq!(follows.link_all(edges.clone(), go_on).unwrap().new, 100);
    let refused = follows
        .link_together(edges.map(|(a, b)| (b, a)))
        .unwrap_err();
    assert_eq!(refused.result_code(), 123);
    assert_sound(&follows);
}

#[test]
fn children_and_members_put_together_are_those_put_one_by_one() {
    let stores = [(); 2].map(|()| Store::in_memory().unwrap());
    let child = |task: i64| (task % 7, task % 900, serde_json::json!({ "title": task }));
    let layout = || Layout::key_list("tasks");
    let [tasks, single] = stores.each_ref().map(|store| {
        let tasks = OneToMany::new(store, "tasks", ("people", "tasks"), layout()).unwrap();
        let sharded = ShardPolicy::manual().elements_max(100);
        tasks.with_parent_bin("owner").shard_policy(sharded)
    });
    let done = tasks.put_all((0..900).map(child), go_on).unwrap();
    assert_eq!((done.taken, done.new, done.complete), (900, 900, true));
    assert_eq!(tasks.put_all((0..900).map(child), go_on).unwrap().new, 0);
    for (parent, key, value) in (0..900).map(child) {
        single.put(parent, key, &value).unwrap();
    }
    for person in 0..7 {
        let page = |tasks: &OneToMany<&Store>| tasks.page(person, None, 1_000).unwrap();
        assert_eq!(page(&tasks), page(&single));
    }
    let members = Members::new(&stores[0], "users", ("lists", "users", "members"));
    let user = |id: i64| (id, spikelet::bins! { "visits" => id });
    assert_eq!(members.put_all((0..500).map(user), go_on).unwrap().new, 500);
    assert_eq!(
        members.put_all((400..600).map(user), go_on).unwrap().new,
        100
    );
    assert_eq!(members.len().unwrap(), 600);
    let last = members.fetch(Some(&598.into()), 10).unwrap();
    assert_eq!(last[0].1.get("visits"), Some(599.into()));
}

#[test]
fn child() {
    let Some(dir) = child_dir() else {
        return;
    };
    let store = Store::open(&dir).unwrap();
    thread::scope(|scope| {
        for thread in 1..=2 {
            let (store, mut seed) = (&store, u64::from(std::process::id()) * 8 + thread);
            scope.spawn(move || {
                let follows = follows(store);
                loop {
                    let edges = some_edges(1_500, next(&mut seed));
                    follows.link_all(edges.iter().copied(), go_on).unwrap();
                    tell_progress();
                    for (a, b) in edges.iter().step_by(3) {
                        follows.unlink(*a, *b).unwrap();
                    }
                }
            });
        }
    });
}

#[test]
fn kills_leave_no_edge_that_one_end_alone_has() {
    let dir = tempfile::tempdir().unwrap();
    for kill in 0..KILLS {
        killed_after(1 + kill % 3, "bulk::child", dir.path());
        let store = Store::open(dir.path()).unwrap();
        assert_sound(&follows(&store));
        store.close().unwrap();
    }
}

#[test]
fn a_symmetrical_relation_has_one_entry_for_both_directions() {
    let ends = ("users", "friends");
    let store = Store::in_memory().unwrap();
    let friends = ManyToMany::new(&store, "friends", ends, ends).with_attributes();
    for way in 0..2 {
        let linked = match way {
            0 => friends.link(1, 1).unwrap(),
            _ => friends.link_together([(1, 1)]).unwrap() == 1,
        };
        assert!(linked);
        assert!(friends.unlink(1, 1).unwrap());
        assert!(!friends.contains(1, 1).unwrap());
    }
    let both = [(1, 2, "first"), (2, 1, "last")];
    let done = friends.link_all_with(both, go_on).unwrap();
    assert_eq!((done.taken, done.new), (2, 1));
    for (from, to) in [(1, 2), (2, 1)] {
        let found: Option<String> = friends.attributes(from, to).unwrap();
        assert_eq!(found.as_deref(), Some("last"));
    }
    assert!(friends.verify(Repair::No, go_on).unwrap().is_sound());
}
