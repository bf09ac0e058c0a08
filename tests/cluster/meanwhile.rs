//! Two processes at once: whole calls of one of them in the middle of a call of the other, at each
//! of its steps. Nothing acknowledged is lost, and nothing is there twice.

use std::ops::ControlFlow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use spikelet::cluster::Cluster;
use spikelet::relation::{
    EdgeType, Graph, Layout, ManyToMany, Members, NodeId, OnDelete, OneToMany,
};
use spikelet::shard::{ShardPolicy, TimeWidth};
use spikelet::{
    Error, IndexedRecordSet, RecordSet, RecordStore, Result, ShardedCounter, ShardedList,
    TimeShards, Value, bins,
};

use crate::common::Served;
use crate::watched::{WatchedCluster, interrupted};

const NOT_FOUND: u8 = 2;

/// Two calls, on sets with names that begin with the given one.
struct Pair {
    name: &'static str,
    prepare: fn(&Cluster, &str),
    act: fn(&WatchedCluster, &str),
    meanwhile: fn(&Cluster, &str),
    check: fn(&Cluster, &str),
}

/// Makes the calls of each pair, with the second one at each step of the first, until the first has
/// no such step.
fn all_interleavings(pairs: &[Pair]) {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let mut failed = Vec::new();
    for pair in pairs {
        for step in 0.. {
            let set = format!("{}{step}", pair.name);
            (pair.prepare)(&cluster, &set);
            let (other, meanwhile, name) = (cluster.clone(), pair.meanwhile, set.clone());
            let (store, left) =
                interrupted(cluster.clone(), step, move || meanwhile(&other, &name));
            (pair.act)(&store, &set);
            if left.get() > 0 {
                assert!(step > 1, "{} has more than {step} steps", pair.name);
                break;
            }
            let check = || (pair.check)(&cluster, &set);
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err() {
                failed.push(set);
            }
        }
    }
    assert!(failed.is_empty(), "failed at {failed:?}");
}

fn done<T>(result: Result<T>) {
    if let Err(error) = result {
        panic!("{error}");
    }
}

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn follows<'s, S: RecordStore>(store: &'s S, set: &str) -> ManyToMany<&'s S> {
    let follows = ManyToMany::new(store, set, (set, "following"), (set, "followers"));
    follows.shard_policy(ShardPolicy::manual())
}

fn delete_follower(store: &WatchedCluster, set: &str) {
    let follows = follows(store, set);
    let deleted = follows.delete_with_edges(1, OnDelete::Detach, go_on);
    assert!(deleted.unwrap());
}

/// The edge is at both ends, or was removed with the record.
fn check_follower(cluster: &Cluster, set: &str) {
    let follows = follows(cluster, set);
    let ends = [
        follows.targets(1).contains(5).unwrap(),
        follows.sources(5).contains(1).unwrap(),
    ];
    assert_eq!(ends[0], ends[1], "{set}: {ends:?}");
    assert_eq!(follows.targets(1).len().unwrap(), u64::from(ends[0]));
}

fn shard_follower(cluster: &Cluster, set: &str) {
    let list = ShardedList::new(cluster, set, 1, "following").unwrap();
    list.shards().activate(2).unwrap();
}

fn children<'s, S: RecordStore<Records: IndexedRecordSet>>(
    store: &'s S,
    set: &str,
    layout: Layout,
) -> OneToMany<&'s S> {
    let sets = (&*format!("{set}-p"), &*format!("{set}-c"));
    let children = OneToMany::new(store, set, sets, layout).unwrap();
    children.shard_policy(ShardPolicy::manual())
}

fn listed<'s, S: RecordStore<Records: IndexedRecordSet>>(
    store: &'s S,
    set: &str,
) -> OneToMany<&'s S> {
    children(store, set, Layout::key_list("children")).with_parent_bin("parent")
}

fn put_child<S: RecordStore<Records: IndexedRecordSet>>(store: &S, set: &str, parent: i64) {
    let child = json!({ "n": parent });
    listed(store, set).put(parent, 7, &child).unwrap();
}

/// The child is on the page of the parent that it names, and on no other one.
fn check_child(cluster: &Cluster, set: &str) {
    let children = listed(cluster, set);
    let named = children.parent_of(7).unwrap().map(|key| key.to_string());
    let on_page = |parent: i64| {
        let page = children.page(parent, None, 9).unwrap().children;
        page.iter().any(|child| child.key == 7.into())
    };
    let parents = (1..4).filter(|parent| on_page(*parent));
    let parents: Vec<String> = parents.map(|parent| parent.to_string()).collect();
    assert_eq!(parents, Vec::from_iter(named), "{set}");
}

fn graph<'s, S: RecordStore<Records: IndexedRecordSet>>(store: &'s S, set: &str) -> Graph<&'s S> {
    let member = EdgeType::new("MEMBER");
    Graph::new(store, set, ["USER", "TEAM"], [member]).unwrap()
}

fn user(id: usize) -> NodeId {
    NodeId::new("USER", &id.to_string())
}

fn join<S: RecordStore<Records: IndexedRecordSet>>(store: &S, set: &str, id: usize) {
    let team = NodeId::new("TEAM", "1");
    let edge = json!({});
    graph(store, set)
        .link(&user(id), "MEMBER", &team, &edge)
        .unwrap();
}

fn members<'s, S: RecordStore>(store: &'s S, set: &str) -> Members<&'s S> {
    let lists = format!("{set}-l");
    Members::new(store, set, (&lists, "all", "keys"))
}

#[test]
fn an_addition_beside_a_delete_with_edges_is_there_at_both_ends_or_at_none() {
    all_interleavings(&[
        Pair {
            name: "detach",
            prepare: |cluster, set| {
                follows(cluster, set).link(1, 2).unwrap();
            },
            act: delete_follower,
            meanwhile: |cluster, set| {
                follows(cluster, set).link(1, 5).unwrap();
            },
            check: check_follower,
        },
        Pair {
            name: "detach-empty",
            prepare: |cluster, set| {
                assert!(follows(cluster, set).link(1, 2).unwrap());
                assert!(follows(cluster, set).unlink(1, 2).unwrap());
            },
            act: delete_follower,
            meanwhile: |cluster, set| {
                follows(cluster, set).link(1, 5).unwrap();
            },
            check: check_follower,
        },
        Pair {
            name: "detach-sharded",
            prepare: |cluster, set| {
                assert!(follows(cluster, set).link(1, 2).unwrap());
                shard_follower(cluster, set);
            },
            act: delete_follower,
            meanwhile: |cluster, set| {
                follows(cluster, set).link(1, 5).unwrap();
            },
            check: check_follower,
        },
        Pair {
            name: "detach-beside-shards",
            prepare: |cluster, set| {
                follows(cluster, set).link(1, 2).unwrap();
            },
            act: delete_follower,
            meanwhile: |cluster, set| {
                follows(cluster, set).link(1, 5).unwrap();
                shard_follower(cluster, set);
            },
            check: check_follower,
        },
        Pair {
            name: "cascade",
            prepare: |cluster, set| put_child(cluster, set, 1),
            act: |store, set| {
                let deleted = listed(store, set).delete_with_edges(1, OnDelete::Cascade, go_on);
                assert!(deleted.unwrap());
            },
            meanwhile: |cluster, set| put_child(cluster, set, 1),
            check: check_child,
        },
        Pair {
            name: "node",
            prepare: |cluster, set| join(cluster, set, 1),
            act: |store, set| {
                let deleted = graph(store, set).delete_node(&user(1), OnDelete::Detach, go_on);
                assert!(deleted.unwrap());
            },
            meanwhile: |cluster, set| join(cluster, set, 1),
            check: |cluster, set| {
                let graph = graph(cluster, set);
                let team = NodeId::new("TEAM", "1");
                let members = graph.query("MEMBER", &team).unwrap().sources().unwrap();
                let edges = graph.edges(&user(1)).unwrap().page().unwrap();
                assert_eq!(members.0.len(), edges.0.len(), "{set}");
            },
        },
    ]);
}

fn set_parent<S: RecordStore<Records: IndexedRecordSet>>(store: &S, set: &str, parent: i64) {
    match listed(store, set).set_parent(7, parent) {
        Ok(_) => {}
        // The other caller has removed it.
        Err(error) => assert_eq!(error.result_code(), NOT_FOUND, "{error}"),
    }
}

#[test]
fn a_child_that_two_callers_move_is_listed_by_the_parent_that_it_names() {
    let pair = |name, act, meanwhile| Pair {
        name,
        prepare: |cluster, set| put_child(cluster, set, 1),
        act,
        meanwhile,
        check: check_child,
    };
    all_interleavings(&[
        pair(
            "there-and-back",
            |store, set| set_parent(store, set, 2),
            |cluster, set| set_parent(cluster, set, 1),
        ),
        pair(
            "to-two-parents",
            |store, set| set_parent(store, set, 2),
            |cluster, set| set_parent(cluster, set, 3),
        ),
        pair(
            "move-and-put",
            |store, set| set_parent(store, set, 2),
            |cluster, set| put_child(cluster, set, 1),
        ),
        pair(
            "move-and-remove",
            |store, set| set_parent(store, set, 2),
            |cluster, set| {
                let children = listed(cluster, set);
                let parent = children.parent_of(7).unwrap().unwrap();
                assert!(children.remove(parent, 7).unwrap());
            },
        ),
        pair(
            "put-elsewhere",
            |store, set| put_child(store, set, 2),
            |cluster, set| put_child(cluster, set, 1),
        ),
        pair(
            "put-and-move",
            |store, set| put_child(store, set, 1),
            |cluster, set| set_parent(cluster, set, 2),
        ),
        pair(
            "put-and-back",
            |store, set| put_child(store, set, 1),
            |cluster, set| {
                set_parent(cluster, set, 2);
                set_parent(cluster, set, 1);
            },
        ),
        pair(
            "remove-and-move",
            |store, set| {
                listed(store, set).remove(1, 7).unwrap();
            },
            |cluster, set| set_parent(cluster, set, 2),
        ),
    ]);
}

#[test]
fn a_record_that_is_put_and_removed_at_once_is_listed_if_it_is_there() {
    let pair = |name, act, meanwhile| Pair {
        name,
        prepare: |cluster, set| put_child(cluster, set, 1),
        act,
        meanwhile,
        check: check_child,
    };
    let put_member = |cluster: &Cluster, set: &str| {
        members(cluster, set).put(7, bins! { "n" => 1 }).unwrap();
    };
    let check_member = |cluster: &Cluster, set: &str| {
        let found = cluster.records(set).unwrap().read_each(&[7.into()], None);
        let is_there = found.into_iter().next().unwrap().unwrap().is_some();
        assert_eq!(
            members(cluster, set).contains(7).unwrap(),
            is_there,
            "{set}"
        );
    };
    all_interleavings(&[
        pair(
            "put-removed",
            |store, set| put_child(store, set, 1),
            |cluster, set| {
                listed(cluster, set).remove(1, 7).unwrap();
            },
        ),
        pair(
            "removed-put",
            |store, set| {
                listed(store, set).remove(1, 7).unwrap();
            },
            |cluster, set| put_child(cluster, set, 1),
        ),
        Pair {
            name: "member-put-removed",
            prepare: put_member,
            act: |store, set| {
                members(store, set).put(7, bins! { "n" => 2 }).unwrap();
            },
            meanwhile: |cluster, set| {
                members(cluster, set).remove(7).unwrap();
            },
            check: check_member,
        },
        Pair {
            name: "member-removed-put",
            prepare: put_member,
            act: |store, set| {
                members(store, set).remove(7).unwrap();
            },
            meanwhile: put_member,
            check: check_member,
        },
    ]);
}

const ELEMENTS: i64 = 40;

fn list<S: RecordStore>(store: &S, set: &str) -> ShardedList<S::Records> {
    let list = ShardedList::new(store, set, "key", "list").unwrap();
    list.policy(ShardPolicy::manual())
}

fn sharded_list(cluster: &Cluster, set: &str, shards: u64) {
    let list = list(cluster, set);
    for number in 0..ELEMENTS {
        assert!(list.add(number).unwrap());
    }
    if shards > 0 {
        assert_eq!(list.shards().activate(shards).unwrap().shards, shards);
    }
}

/// Adds an element and removes another one.
fn change_list(cluster: &Cluster, set: &str) {
    let list = list(cluster, set);
    assert!(list.add(ELEMENTS).unwrap());
    assert!(list.remove(&0.into()).unwrap());
}

fn check_list(cluster: &Cluster, set: &str, first: i64, last: i64) {
    let list = list(cluster, set);
    let found: Vec<Value> = list.iter().collect::<Result<_>>().unwrap();
    let wanted: Vec<Value> = (first..=last).map(Value::Int).collect();
    assert_eq!(found, wanted, "{set}");
    assert_eq!(list.shards().state().unwrap().transition, None, "{set}");
}

#[test]
fn writes_in_the_middle_of_a_transition_are_there_afterwards() {
    let changed = |cluster: &Cluster, set: &str| check_list(cluster, set, 1, ELEMENTS);
    all_interleavings(&[
        Pair {
            name: "activate",
            prepare: |cluster, set| sharded_list(cluster, set, 0),
            act: |store, set| done(list(store, set).shards().activate(2)),
            meanwhile: change_list,
            check: changed,
        },
        Pair {
            name: "split",
            prepare: |cluster, set| sharded_list(cluster, set, 2),
            act: |store, set| done(list(store, set).shards().split()),
            meanwhile: change_list,
            check: changed,
        },
        Pair {
            name: "merge",
            prepare: |cluster, set| sharded_list(cluster, set, 4),
            act: |store, set| done(list(store, set).shards().merge()),
            meanwhile: change_list,
            check: changed,
        },
        Pair {
            name: "deactivate",
            prepare: |cluster, set| sharded_list(cluster, set, 2),
            act: |store, set| done(list(store, set).shards().deactivate()),
            meanwhile: change_list,
            check: changed,
        },
        Pair {
            name: "add",
            prepare: |cluster, set| sharded_list(cluster, set, 2),
            act: |store, set| {
                assert!(list(store, set).add(ELEMENTS).unwrap());
                assert!(list(store, set).remove(&0.into()).unwrap());
            },
            meanwhile: |cluster, set| done(list(cluster, set).shards().split()),
            check: changed,
        },
        Pair {
            name: "count",
            prepare: |cluster, set| counter(cluster, set).add(7).unwrap(),
            act: |store, set| {
                counter(store, set).shards().activate(2).unwrap();
                counter(store, set).shards().deactivate().unwrap();
            },
            meanwhile: |cluster, set| counter(cluster, set).add(1).unwrap(),
            check: |cluster, set| assert_eq!(counter(cluster, set).read().unwrap(), 8, "{set}"),
        },
    ]);
}

fn counter<S: RecordStore>(store: &S, set: &str) -> ShardedCounter<S::Records> {
    let counter = ShardedCounter::new(store, set, "key", "count").unwrap();
    counter.policy(ShardPolicy::manual())
}

/// A transition that may meet a collection which it does not apply to.
fn applied<T>(transition: Result<T>) {
    match transition {
        Ok(_) | Err(Error::OpNotApplicable { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_transition_in_the_middle_of_another_one_loses_nothing() {
    let all = |cluster: &Cluster, set: &str| check_list(cluster, set, 0, ELEMENTS - 1);
    let pair = |name, prepare, act, meanwhile| Pair {
        name,
        prepare,
        act,
        meanwhile,
        check: all,
    };
    all_interleavings(&[
        pair(
            "activate-twice",
            |cluster, set| sharded_list(cluster, set, 0),
            |store, set| done(list(store, set).shards().activate(2)),
            |cluster, set| done(list(cluster, set).shards().activate(4)),
        ),
        pair(
            "activate-and-back",
            |cluster, set| sharded_list(cluster, set, 0),
            |store, set| done(list(store, set).shards().activate(2)),
            |cluster, set| done(list(cluster, set).shards().deactivate()),
        ),
        pair(
            "split-and-merge",
            |cluster, set| sharded_list(cluster, set, 2),
            |store, set| applied(list(store, set).shards().split()),
            |cluster, set| applied(list(cluster, set).shards().merge()),
        ),
        pair(
            "merge-and-split",
            |cluster, set| sharded_list(cluster, set, 2),
            |store, set| applied(list(store, set).shards().merge()),
            |cluster, set| applied(list(cluster, set).shards().split()),
        ),
        pair(
            "back-and-activate",
            |cluster, set| sharded_list(cluster, set, 2),
            |store, set| applied(list(store, set).shards().deactivate()),
            |cluster, set| done(list(cluster, set).shards().activate(2)),
        ),
    ]);
}

fn times<S: RecordStore>(store: &S, set: &str) -> TimeShards<S::Records> {
    TimeShards::new(store, set, "key", "at", TimeWidth::Hourly).unwrap()
}

fn hour(number: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000 + number * 3_600)
}

#[test]
fn two_writers_of_a_new_hour_have_both_their_events() {
    all_interleavings(&[Pair {
        name: "hours",
        prepare: |cluster, set| done(times(cluster, set).add(hour(0), 0)),
        act: |store, set| done(times(store, set).add(hour(1), 1)),
        meanwhile: |cluster, set| {
            times(cluster, set).add(hour(1), 2).unwrap();
            times(cluster, set).add(hour(2), 3).unwrap();
        },
        check: |cluster, set| {
            let found = times(cluster, set).latest(9).unwrap();
            let mut found: Vec<Value> = found.into_iter().map(|(_, value)| value).collect();
            found.sort_by_key(Value::as_i64);
            let wanted: Vec<Value> = (0..4).map(Value::Int).collect();
            assert_eq!(found, wanted, "{set}");
        },
    }]);
}
