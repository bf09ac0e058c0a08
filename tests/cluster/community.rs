//! Servers of the Community Edition: they refuse durable deletes, and bring back deleted records
//! after a restart.

use std::ops::ControlFlow;
use std::time::{Duration, UNIX_EPOCH};

use spikelet::cluster::Cluster;
use spikelet::expressions::{gt, int_bin};
use spikelet::operations::{delete_all_bins, lists, maps};
use spikelet::relation::{
    EdgeType, Graph, KeyCorrespondence, Layout, ManyToMany, Members, NodeId, OnDelete, OneToMany,
    Repair, declared_relations, forget_relation, sweep_removed,
};
use spikelet::shard::{ShardPolicy, TimeWidth};
use spikelet::{
    Bins, Error, ListOrder, MapOrder, RecordSet, RecordStore, Result, ShardedList, ShardedMap,
    TimeShards, Value, WritePolicy, bins,
};

use crate::common::Served;

const NOT_FOUND: u8 = 2;
const ENTERPRISE_ONLY: u8 = 25;

fn ints(count: i64) -> Vec<Value> {
    (0..count).map(Value::Int).collect()
}

#[test]
fn a_persisted_index_is_never_asked_for() {
    // The server refuses every list that asks for one; so it does in all other tests of collections
    // and relations here.
    let served = Served::in_memory();
    let records = served.cluster().records("records").unwrap();
    let policy = WritePolicy::default();
    let creates = [
        lists::create_persistent("list", ListOrder::Ordered),
        maps::create_persistent("map", MapOrder::KeyOrdered),
    ];
    let made = records.operate_on(&policy, &1.into(), &creates);
    assert!(made.is_ok(), "{made:?}");
}

#[test]
fn a_transition_that_the_server_would_refuse_half_way_is_not_begun() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let durable = WritePolicy::default().durable_delete(true);
    let list = ShardedList::new_with(&cluster, "users", "alice", "by", &durable).unwrap();
    let list = list.policy(ShardPolicy::manual());
    for element in 0..50 {
        list.add(element).unwrap();
    }
    assert_eq!(list.shards().activate(4).unwrap().shards, 4);
    let refusals = [
        list.shards().merge().unwrap_err(),
        list.shards().deactivate().unwrap_err(),
        list.delete().unwrap_err(),
    ];
    for refused in refusals {
        assert_eq!(refused.result_code(), ENTERPRISE_ONLY);
        assert!(refused.to_string().contains("durable_delete"), "{refused}");
    }
    let state = list.shards().state().unwrap();
    assert_eq!((state.shards, state.transition), (4, None));
    assert_eq!(list.iter().collect::<Result<Vec<_>>>().unwrap(), ints(50));
    let times = TimeShards::new_with(
        &cluster,
        "feeds",
        "alice",
        "at",
        TimeWidth::Hourly,
        &durable,
    );
    let times = times.unwrap();
    let noon = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    times.add(noon, 1).unwrap();
    assert_eq!(times.delete().unwrap_err().result_code(), ENTERPRISE_ONLY);
    assert_eq!(times.latest(9).unwrap(), [(noon, Value::Int(1))]);
    // Without it, both go.
    let list = ShardedList::new(&cluster, "users", "alice", "by").unwrap();
    assert_eq!(list.shards().deactivate().unwrap().shards, 0);
    assert_eq!(list.iter().collect::<Result<Vec<_>>>().unwrap(), ints(50));
    let times = TimeShards::new(&cluster, "feeds", "alice", "at", TimeWidth::Hourly).unwrap();
    times.delete().unwrap();
    assert_eq!(times.latest(9).unwrap(), []);
}

#[test]
fn durable_deletes_are_made_where_the_server_has_them() {
    let served = Served::with(&["--memory"]);
    let durable = WritePolicy::default().durable_delete(true);
    let cluster = served.cluster();
    let map = ShardedMap::new_with(&cluster, "users", "alice", "by", &durable).unwrap();
    map.put(1, 2).unwrap();
    map.shards().activate(4).unwrap();
    assert_eq!(map.shards().deactivate().unwrap().shards, 0);
    map.delete().unwrap();
    assert_eq!(map.len().unwrap(), 0);
}

#[test]
fn a_child_that_was_removed_is_no_child_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let served = Served::with(&["--dir", path, "--like-ce"]);
    let cluster = served.cluster();
    let children = |set: &str, layout| {
        let sets = (&*format!("{set}-p"), &*format!("{set}-c"));
        OneToMany::new(&cluster, set, sets, layout).unwrap()
    };
    let named = children("named", Layout::key_list("kids")).with_parent_bin("parent");
    let referring = children("referring", Layout::reference("parent", "by_parent"));
    let child = serde_json::json!({ "n": 1 });
    for children in [&named, &referring] {
        children.put(1, 2, &child).unwrap();
        children.put(1, 3, &child).unwrap();
        assert!(children.remove(1, 2).unwrap());
        assert!(!children.remove(1, 2).unwrap());
    }
    let served = restarted(served, path);
    for children in [&named, &referring] {
        let page = children.page(1, None, 9).unwrap().children;
        assert_eq!(page.len(), 1, "{page:?}");
        assert_eq!(page[0].key, 3.into());
        assert_eq!(children.parent_of(2).unwrap(), None);
        let found: Option<serde_json::Value> = children.get(1, 2).unwrap();
        assert_eq!(found, None);
        let no_child = children.set_parent(2, 4).unwrap_err();
        assert_eq!(no_child.result_code(), NOT_FOUND);
        assert_eq!(children.len(4).unwrap(), 0);
        assert!(!children.remove(1, 2).unwrap());
        assert!(
            children
                .verify(Repair::Yes, |_| ControlFlow::Continue(()))
                .unwrap()
                .is_sound()
        );
        children.put(1, 2, &child).unwrap();
        assert_eq!(children.len(1).unwrap(), 2);
    }
    drop(served);
}

#[test]
fn an_audit_lists_nothing_again_that_was_removed_before_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let served = Served::with(&["--dir", path, "--like-ce"]);
    let cluster = served.cluster();
    let members = Members::new(&cluster, "people", ("lists", "people", "keys"));
    let rank = |edge: &Bins| Some(edge.get("role")?.as_str()?.to_owned());
    let types = [
        EdgeType::new("LEADS").sort_key(rank),
        EdgeType::new("SAW").omitted(),
    ];
    let graph = Graph::new(&cluster, "graph", ["USER"], types).unwrap();
    let user = |number: i64| NodeId::new("USER", &number.to_string());
    let role = serde_json::json!({ "role": "LEAD" });
    for number in 1..4 {
        members.put(number, bins! { "n" => number }).unwrap();
        graph.put_node(&user(number), &role).unwrap();
    }
    for edge_type in ["LEADS", "SAW"] {
        graph.link(&user(1), edge_type, &user(2), &role).unwrap();
        graph.link(&user(1), edge_type, &user(3), &role).unwrap();
        assert!(graph.unlink(&user(1), edge_type, &user(2)).unwrap());
        assert!(!graph.unlink(&user(1), edge_type, &user(2)).unwrap());
    }
    assert!(members.remove(2).unwrap());
    let served = restarted(served, path);
    for repair in [Repair::No, Repair::Yes] {
        let audits = [
            members.verify(repair, |_| ControlFlow::Continue(())),
            graph.verify(repair, |_| ControlFlow::Continue(())),
        ];
        for audit in audits {
            let audit = audit.unwrap();
            assert!(audit.is_sound(), "{:?}", audit.faults);
        }
    }
    assert_eq!(members.page(None, 9).unwrap(), [1.into(), 3.into()]);
    assert!(!members.remove(2).unwrap());
    members.put(2, bins! { "n" => 4 }).unwrap();
    assert_eq!(members.fetch(None, 9).unwrap().len(), 3);
    for edge_type in ["LEADS", "SAW"] {
        let edge =
            || -> Option<serde_json::Value> { graph.edge(&user(1), edge_type, &user(2)).unwrap() };
        assert_eq!(edge(), None);
        assert!(!graph.unlink(&user(1), edge_type, &user(2)).unwrap());
        graph.link(&user(1), edge_type, &user(2), &role).unwrap();
        assert_eq!(edge().as_ref(), Some(&role));
    }
    assert_eq!(graph.edges(&user(1)).unwrap().page().unwrap().0.len(), 4);
    drop(served);
}

#[test]
fn a_declaration_that_was_forgotten_stays_forgotten_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let served = Served::with(&["--dir", path, "--like-ce"]);
    let cluster = served.cluster();
    let follows = |target| ManyToMany::new(&cluster, "follows", ("a", "out"), (target, "in"));
    follows("b").declare().unwrap();
    assert!(forget_relation(&cluster, "follows").unwrap());
    assert!(!forget_relation(&cluster, "follows").unwrap());
    let served = restarted(served, path);
    assert_eq!(declared_relations(&cluster).unwrap(), []);
    assert!(!forget_relation(&cluster, "follows").unwrap());
    // Of other sets: the declaration that is back does not stand against it.
    follows("c").declare().unwrap();
    let served = restarted(served, path);
    let declared = declared_relations(&cluster).unwrap();
    assert_eq!(declared.len(), 1);
    assert_eq!(&*declared[0].sides[1].set, "c");
    assert!(forget_relation(&cluster, "follows").unwrap());
    drop(served);
}

#[test]
fn records_of_one_key_that_were_deleted_are_empty_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let served = Served::with(&["--dir", path, "--like-ce"]);
    let cluster = served.cluster();
    let filtered = WritePolicy::default().filter(gt(int_bin("n"), 5));
    let user = KeyCorrespondence::new()
        .set(&cluster, "users", WritePolicy::default())
        .and_then(|user| user.set(&cluster, "sessions", filtered))
        .unwrap();
    let there = || {
        let found = user.get("alice").unwrap();
        found.iter().map(Option::is_some).collect::<Vec<_>>()
    };
    for (set, n) in [("users", 1), ("sessions", 9)] {
        user.put(set, "alice", bins! { "n" => n }).unwrap();
    }
    assert_eq!(user.delete("alice").unwrap(), 2);
    assert_eq!(user.delete("alice").unwrap(), 0);
    let served = restarted(served, path);
    assert_eq!(there(), [false, false]);
    assert_eq!(user.delete("alice").unwrap(), 0);
    let served = restarted(served, path);
    // Written over, by the handle and past it.
    user.put("users", "alice", bins! { "n" => 2 }).unwrap();
    let put = [spikelet::operations::put("n", 3)];
    let sessions = cluster.records("sessions").unwrap();
    let policy = WritePolicy::default();
    sessions.operate_on(&policy, &"alice".into(), &put).unwrap();
    assert_eq!(there(), [true, true]);
    let users = user.get("alice").unwrap().swap_remove(0).unwrap();
    assert_eq!(users.view().iter().count(), 1);
    // A filter of the policy that does not hold is an error, as of the delete itself.
    let refused = user.delete("alice").unwrap_err();
    assert!(matches!(refused, Error::FilteredOut { .. }), "{refused}");
    assert_eq!(there(), [true, true]);
    drop(served);
}

#[test]
fn a_repair_sweeps_records_that_are_back_and_belong_to_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let served = Served::with(&["--dir", path, "--like-ce"]);
    let cluster = served.cluster();
    let members = Members::new(&cluster, "people", ("lists", "people", "keys"));
    let graph = Graph::new(&cluster, "graph", ["USER"], [EdgeType::new("LEADS")]).unwrap();
    let layout = Layout::key_list("kids");
    let children = OneToMany::new(&cluster, "kids", ("parents", "children"), layout).unwrap();
    let child = serde_json::json!({ "n": 1 });
    let user = |number: i64| NodeId::new("USER", &number.to_string());
    for number in 1..4 {
        members.put(number, bins! { "n" => number }).unwrap();
        children.put(9, number, &child).unwrap();
        graph.put_node(&user(number), &child).unwrap();
    }
    for number in 2..4 {
        let linked = graph.link(&user(1), "LEADS", &user(number), &child);
        linked.unwrap();
    }
    assert!(members.remove(2).unwrap());
    assert!(children.remove(9, 2).unwrap());
    assert!(graph.unlink(&user(1), "LEADS", &user(2)).unwrap());
    let served = restarted(served, path);
    let counts = || ["people", "children", "graph_edges"].map(|set| scanned(&cluster, set));
    let verify = |repair| {
        let audits = [
            members.verify(repair, |_| ControlFlow::Continue(())),
            children.verify(repair, |_| ControlFlow::Continue(())),
            graph.verify(repair, |_| ControlFlow::Continue(())),
        ];
        assert!(audits.into_iter().all(|audit| audit.unwrap().is_sound()));
    };
    let (back, swept) = ([3, 3, 2], [2, 2, 1]);
    assert_eq!(counts(), back);
    verify(Repair::No);
    assert_eq!(counts(), back);
    verify(Repair::Yes);
    assert_eq!(counts(), swept);
    // A removed record that was written over does not count among them.
    let served = restarted(served, path);
    let people = cluster.records("people").unwrap();
    let put = [spikelet::operations::put("n", 2)];
    let policy = WritePolicy::default();
    people.operate_on(&policy, &2.into(), &put).unwrap();
    assert_eq!(sweep_removed(&cluster, "people").unwrap(), 0);
    assert_eq!(sweep_removed(&cluster, "children").unwrap(), 1);
    assert_eq!(scanned(&cluster, "people"), 3);
    drop(served);
}

/// The records that a plain scan of a set shows.
fn scanned(cluster: &Cluster, set: &str) -> usize {
    let (records, mut count) = (cluster.records(set).unwrap(), 0);
    records.scan_records(&mut |_| count += 1).unwrap();
    count
}

/// A server that ends without notice, and comes back with its disk.
fn restarted(served: Served, dir: &str) -> Served {
    let addr = served.addr.clone();
    drop(served);
    Served::at(&addr, &["--dir", dir, "--like-ce"])
}

#[test]
fn what_a_restart_brings_back_is_what_the_documents_say() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let served = Served::with(&["--dir", path, "--like-ce"]);
    let cluster = served.cluster();
    let list = |key| {
        let list = ShardedList::new(&cluster, "users", key, "by").unwrap();
        list.policy(ShardPolicy::manual())
    };
    let comments = || {
        let layout = Layout::key_list("comments");
        OneToMany::new(&cluster, "comments", ("posts", "comments"), layout).unwrap()
    };
    let (alone, sharded) = (list("alone"), list("sharded"));
    for element in 0..20 {
        alone.add(element).unwrap();
        sharded.add(element).unwrap();
    }
    sharded.shards().activate(4).unwrap();
    for element in 10..20 {
        assert!(sharded.remove(&element.into()).unwrap());
    }
    sharded.shards().merge().unwrap();
    let text = serde_json::json!({ "text": "Doh!" });
    comments().put("post", 1, &text).unwrap();
    comments().put("post", 2, &text).unwrap();
    assert!(comments().remove("post", 1).unwrap());
    alone.delete().unwrap();
    // Other handles, which remember where the collections were, outlive their deletes.
    let gone = list("gone");
    gone.add(0).unwrap();
    gone.shards().activate(4).unwrap();
    gone.add(1).unwrap();
    list("gone").delete().unwrap();
    let noon = UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let times = || TimeShards::new(&cluster, "feeds", "gone", "at", TimeWidth::Hourly).unwrap();
    let past = times();
    past.add(noon, 0).unwrap();
    times().delete().unwrap();
    let served = restarted(served, path);
    // New elements are there for all.
    for element in 0..20 {
        assert!(gone.add(element).unwrap());
    }
    let found = list("gone").iter().collect::<Result<Vec<_>>>().unwrap();
    assert_eq!(found, ints(20));
    past.add(noon, 1).unwrap();
    assert_eq!(times().latest(9).unwrap(), [(noon, Value::Int(1))]);
    // Elements that were removed stay removed, and companions that come back belong to nothing.
    assert_eq!(
        sharded.iter().collect::<Result<Vec<_>>>().unwrap(),
        ints(10)
    );
    sharded.shards().split().unwrap();
    sharded.shards().deactivate().unwrap();
    assert_eq!(
        sharded.iter().collect::<Result<Vec<_>>>().unwrap(),
        ints(10)
    );
    // A child's record that is back is no child of its parent.
    let page = comments().page("post", None, 9).unwrap();
    assert_eq!(page.children.len(), 1);
    assert_eq!(comments().len("post").unwrap(), 1);
    // A record that was deleted whole is back.
    assert_eq!(alone.iter().collect::<Result<Vec<_>>>().unwrap(), ints(20));
    drop(served);
}

#[test]
fn an_audit_makes_both_ends_of_edges_agree_that_a_restart_has_brought_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let served = Served::with(&["--dir", path, "--like-ce"]);
    let cluster = served.cluster();
    let follows = ManyToMany::new(&cluster, "follows", ("users", "out"), ("users", "in"));
    let go_on = |_| ControlFlow::Continue(());
    let is_sound = || {
        follows
            .verify(Repair::No, |_| ControlFlow::Continue(()))
            .unwrap()
            .is_sound()
    };
    for (source, target) in [(1, 3), (2, 3), (4, 2)] {
        follows.link(source, target).unwrap();
    }
    // Past the relation, and by it.
    let users = cluster.records("users").unwrap();
    let policy = WritePolicy::default();
    users
        .operate_on(&policy, &1.into(), &[delete_all_bins()])
        .unwrap();
    follows
        .verify(Repair::Yes, |_| ControlFlow::Continue(()))
        .unwrap();
    assert!(is_sound());
    let deleted = follows.delete_with_edges(2, OnDelete::Detach, go_on);
    assert!(deleted.unwrap() && is_sound());
    let served = restarted(served, path);
    // The record that was deleted by the relation has no edges.
    assert_eq!(
        follows.targets(2).len().unwrap() + follows.sources(2).len().unwrap(),
        0
    );
    assert!(follows.targets(1).contains(3).unwrap() && !is_sound());
    follows
        .verify(Repair::Yes, |_| ControlFlow::Continue(()))
        .unwrap();
    assert!(is_sound());
    assert!(follows.sources(3).contains(1).unwrap());
    drop(served);
}
