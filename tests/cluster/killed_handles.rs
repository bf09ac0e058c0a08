//! Calls of handles that are made of several steps, for processes that die at each of them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use spikelet::cluster::Cluster;
use spikelet::operations::put;
use spikelet::relation::{
    EdgeType, Graph, Layout, ManyToMany, NodeId, OnDelete, OneToMany, Propagate, Repair,
};
use spikelet::shard::{ShardPolicy, TimeWidth};
use spikelet::{
    IndexedRecordSet, RecordSet, RecordStore, Result, ShardedCounter, TimeShards, Value,
    WritePolicy,
};

use crate::killed::DyingStore;

/// A call that a process dies in.
pub struct Case {
    pub name: &'static str,
    pub prepare: fn(&Cluster, &str),
    pub act: fn(&DyingStore, &str),
    /// Checks and repairs the records; the flag says whether the call has ended.
    pub check: fn(&Cluster, &str, bool),
}

pub const CASES: &[Case] = &[
    Case {
        name: "count",
        prepare: |cluster, set| counter(cluster, set).add(7).unwrap(),
        act: |store, set| assert_eq!(counter(store, set).shards().activate(4).unwrap().shards, 4),
        check: |cluster, set, _| {
            let counter = counter(cluster, set);
            assert_eq!(counter.read().unwrap(), 7);
            counter.add(1).unwrap();
            assert_eq!(counter.read().unwrap(), 8);
        },
    },
    Case {
        name: "recount",
        prepare: |cluster, set| {
            let counter = counter(cluster, set);
            counter.add(7).unwrap();
            counter.shards().activate(4).unwrap();
            (0..9).for_each(|_| counter.add(1).unwrap());
        },
        act: |store, set| assert_eq!(counter(store, set).shards().deactivate().unwrap().shards, 0),
        check: |cluster, set, _| {
            let counter = counter(cluster, set);
            assert_eq!(counter.read().unwrap(), 16);
            counter.shards().deactivate().unwrap();
            assert_eq!(counter.read().unwrap(), 16);
        },
    },
    Case {
        name: "hour",
        prepare: |cluster, set| {
            for hour in 0..3 {
                times(cluster, set).add(at(hour), hour).unwrap();
            }
        },
        act: |store, set| assert!(times(store, set).add(at(3), 3).unwrap()),
        check: |cluster, set, is_done| {
            let times = times(cluster, set);
            let numbers = || -> Vec<Value> {
                let latest = times.latest(9).unwrap();
                latest.into_iter().rev().map(|(_, value)| value).collect()
            };
            let all: Vec<Value> = (0..4).map(Value::Int).collect();
            assert!(numbers() == all || !is_done && numbers() == all[..3]);
            times.add(at(3), 3).unwrap();
            assert_eq!(numbers(), all);
        },
    },
    Case {
        name: "hours",
        prepare: |cluster, set| {
            for hour in 0..3 {
                times(cluster, set).add(at(hour), hour).unwrap();
            }
        },
        act: |store, set| times(store, set).delete().unwrap(),
        check: |cluster, set, _| {
            let times = times(cluster, set);
            times.delete().unwrap();
            assert_eq!(times.latest(9).unwrap(), []);
            times.add(at(1), 1).unwrap();
            assert_eq!(times.latest(9).unwrap().len(), 1);
        },
    },
    Case {
        name: "follow",
        prepare: |cluster, set| {
            for id in 2..5 {
                follows(cluster, set).link(1, id).unwrap();
            }
        },
        act: |store, set| assert!(follows(store, set).link(1, 5).unwrap()),
        check: |cluster, set, is_done| check_follows(cluster, set, &[2, 3, 4], 5, is_done, true),
    },
    Case {
        name: "unfollow",
        prepare: |cluster, set| {
            for id in 2..6 {
                follows(cluster, set).link(1, id).unwrap();
            }
        },
        act: |store, set| assert!(follows(store, set).unlink(1, 5).unwrap()),
        check: |cluster, set, is_done| check_follows(cluster, set, &[2, 3, 4], 5, is_done, false),
    },
    Case {
        name: "child",
        prepare: |cluster, set| {
            children(cluster, set)
                .put(1, 1, &json!({ "n": 1 }))
                .unwrap()
        },
        act: |store, set| children(store, set).put(1, 2, &json!({ "n": 2 })).unwrap(),
        check: |cluster, set, is_done| check_children(cluster, set, is_done.then_some(2)),
    },
    Case {
        name: "orphan",
        prepare: |cluster, set| {
            for id in 1..3 {
                children(cluster, set)
                    .put(1, id, &json!({ "n": id }))
                    .unwrap();
            }
        },
        act: |store, set| assert!(children(store, set).remove(1, 2).unwrap()),
        check: |cluster, set, is_done| check_children(cluster, set, is_done.then_some(1)),
    },
    Case {
        name: "edge",
        prepare: |cluster, set| company(cluster, set, 3),
        act: |store, set| {
            let member = json!({ "role": "LEAD" });
            graph(store, set)
                .link(&user(3), "MEMBER", &team(), &member)
                .unwrap();
        },
        check: |cluster, set, is_done| check_graph(cluster, set, user(3), is_done.then_some(true)),
    },
    Case {
        name: "rank",
        prepare: |cluster, set| company(cluster, set, 4),
        act: |store, set| {
            let member = json!({ "role": "TEAM" });
            graph(store, set)
                .link(&user(3), "MEMBER", &team(), &member)
                .unwrap();
        },
        check: |cluster, set, _| check_graph(cluster, set, user(3), Some(true)),
    },
    Case {
        name: "cut",
        prepare: |cluster, set| company(cluster, set, 4),
        act: |store, set| {
            assert!(
                graph(store, set)
                    .unlink(&user(3), "MEMBER", &team())
                    .unwrap()
            );
        },
        check: |cluster, set, is_done| check_graph(cluster, set, user(3), is_done.then_some(false)),
    },
    Case {
        name: "node",
        prepare: |cluster, set| company(cluster, set, 4),
        act: |store, set| {
            let deleted = graph(store, set).delete_node(&user(3), OnDelete::Detach, go_on);
            assert!(deleted.unwrap());
        },
        check: |cluster, set, is_done| check_graph(cluster, set, user(3), is_done.then_some(false)),
    },
    Case {
        name: "copy",
        prepare: |cluster, set| {
            name_user(cluster, set, "Homer Simpson");
            for id in 0..3 {
                copies(cluster, set).assign(id, "homer").unwrap();
            }
            name_user(cluster, set, "H. Simpson");
        },
        act: |store, set| {
            let report = copies(store, set).propagate("homer", go_on).unwrap();
            assert_eq!((report.written, report.failed), (3, 0));
        },
        check: |cluster, set, is_done| {
            let copies = copies(cluster, set);
            let audit = copies.verify(Repair::Yes, go_on).unwrap();
            assert_eq!(audit.edges, 3);
            assert!(audit.is_sound() || !is_done);
            assert!(copies.verify(Repair::No, go_on).unwrap().is_sound());
        },
    },
];

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn counter<S: RecordStore>(store: &S, set: &str) -> ShardedCounter<S::Records> {
    let counter = ShardedCounter::new(store, set, "key", "count").unwrap();
    counter.policy(ShardPolicy::manual())
}

fn times<S: RecordStore>(store: &S, set: &str) -> TimeShards<S::Records> {
    TimeShards::new(store, set, "key", "at", TimeWidth::Hourly).unwrap()
}

fn at(hour: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000 + hour as u64 * 3_600)
}

fn follows<'s, S: RecordStore>(store: &'s S, set: &str) -> ManyToMany<&'s S> {
    ManyToMany::new(store, set, (set, "following"), (set, "followers"))
}

/// Earlier edges are at both ends; the edge under way when the process died is at both or neither
/// after a repair.
fn check_follows(
    cluster: &Cluster,
    set: &str,
    others: &[i64],
    new: i64,
    is_done: bool,
    is_linked: bool,
) {
    let follows = follows(cluster, set);
    let audit = follows.verify(Repair::Yes, go_on).unwrap();
    assert!(audit.is_sound() || !is_done, "{set}: {audit:?}");
    assert!(follows.verify(Repair::No, go_on).unwrap().is_sound());
    let ids = |keys: Result<Vec<_>>| -> BTreeSet<String> {
        keys.unwrap().iter().map(ToString::to_string).collect()
    };
    let found = ids(follows.targets(1).page(0, 9));
    let mut wanted: BTreeSet<String> = others.iter().map(ToString::to_string).collect();
    assert!(found.is_superset(&wanted), "{set}: {found:?}");
    if is_linked {
        wanted.insert(new.to_string());
    }
    assert!(found == wanted || !is_done, "{set}: {found:?}");
}

fn children<'s, S: RecordStore<Records: IndexedRecordSet>>(
    store: &'s S,
    set: &str,
) -> OneToMany<&'s S> {
    let sets = (&*format!("{set}-p"), &*format!("{set}-c"));
    OneToMany::new(store, set, sets, Layout::key_list("children")).unwrap()
}

fn check_children(cluster: &Cluster, set: &str, count: Option<usize>) {
    let children = children(cluster, set);
    let audit = children.verify(Repair::Yes, go_on).unwrap();
    assert!(audit.is_sound() || count.is_none(), "{set}: {audit:?}");
    assert!(children.verify(Repair::No, go_on).unwrap().is_sound());
    let page = children.page(1, None, 9).unwrap().children;
    assert_eq!(page[0].bins.get("n"), Some(&1.into()));
    assert!(
        count.is_none_or(|count| page.len() == count),
        "{set}: {page:?}"
    );
}

fn graph<'s, S: RecordStore<Records: IndexedRecordSet>>(store: &'s S, set: &str) -> Graph<&'s S> {
    let ranks = [("LEAD", 500), ("TEAM", 300)];
    let member = EdgeType::new("MEMBER").ranked_by("role", ranks);
    Graph::new(store, set, ["USER", "GROUP"], [member]).unwrap()
}

fn user(id: usize) -> NodeId {
    NodeId::new("USER", &id.to_string())
}

fn team() -> NodeId {
    NodeId::new("GROUP", "1")
}

/// Four users and a team, of which the first users are members.
fn company(cluster: &Cluster, set: &str, members: usize) {
    let graph = graph(cluster, set);
    graph.put_node(&team(), &json!({ "n": 0 })).unwrap();
    for id in 0..4 {
        graph.put_node(&user(id), &json!({ "n": id })).unwrap();
        if id < members {
            let member = json!({ "role": "LEAD" });
            graph.link(&user(id), "MEMBER", &team(), &member).unwrap();
        }
    }
}

/// The other members are there once. `is_member`: whether the last one must be there, if that is
/// known.
fn check_graph(cluster: &Cluster, set: &str, last: NodeId, is_member: Option<bool>) {
    let graph = graph(cluster, set);
    let audit = graph.verify(Repair::Yes, go_on).unwrap();
    assert!(
        graph.verify(Repair::No, go_on).unwrap().is_sound(),
        "{set}: {audit:?}"
    );
    let (members, next) = graph.query("MEMBER", &team()).unwrap().sources().unwrap();
    assert_eq!(next, None);
    for id in 0..3 {
        assert_eq!(
            members.iter().filter(|member| **member == user(id)).count(),
            1
        );
    }
    let times = members.iter().filter(|member| **member == last).count();
    assert!(times <= 1, "{set}: {members:?}");
    let (edges, _) = graph.edges(&last).unwrap().page().unwrap();
    assert_eq!(edges.len(), times, "{set}");
    assert!(
        is_member.is_none_or(|is| is == (times == 1)),
        "{set}: {members:?}"
    );
}

fn copies<'s, S: RecordStore<Records: IndexedRecordSet>>(
    store: &'s S,
    set: &str,
) -> Propagate<&'s S> {
    let sets = (&*format!("{set}-u"), &*format!("{set}-i"));
    let copies = Propagate::new(store, set, sets, "assignee").unwrap();
    copies.copy("name", "assignee_name")
}

fn name_user(cluster: &Cluster, set: &str, name: &str) {
    let users = cluster.records(&format!("{set}-u")).unwrap();
    let policy = WritePolicy::default();
    users
        .operate_on(&policy, &"homer".into(), &[put("name", name)])
        .unwrap();
}
