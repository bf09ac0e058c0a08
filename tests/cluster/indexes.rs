//! Relations that find records by the servers' own secondary indexes, and graphs, which use none.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use serde_json::json;
use spikelet::operations::{delete_all_bins, put, touch};
use spikelet::query::{IndexComponent, IndexDefinition};
use spikelet::relation::{
    EdgeType, Graph, Layout, NodeId, OnDelete, OneToMany, Propagate, RelationFault, Repair,
    forget_relation,
};
use spikelet::shard::ShardPolicy;
use spikelet::{
    Error, IndexQuery, IndexRange, IndexedRecordSet, Key, KeyPage, NamespaceConfig, RecordSet,
    RecordStore, Store, Value, WritePolicy,
};

use crate::common::Served;
use crate::program::json;

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// All pages of one value.
fn pages<R: IndexedRecordSet>(
    records: &R,
    value: impl Into<Value>,
    limit: usize,
) -> Vec<Key<'static>> {
    let (equal, mut found, mut after) = ([value.into()], Vec::new(), None);
    loop {
        let query = IndexQuery {
            index: "by",
            equal: &equal,
            range: IndexRange::Any,
            limit,
            after: after.as_deref(),
        };
        let page = records.query_keys(&query).unwrap();
        assert!(page.keys.len() <= limit);
        found.extend(page.keys);
        match page.cursor {
            Some(cursor) => after = Some(cursor),
            None => return found,
        }
    }
}

#[test]
fn pages_of_an_index_have_each_record_once_whatever_their_size() {
    let served = Served::in_memory();
    let records = served.cluster().records("people").unwrap();
    let policy = WritePolicy::default();
    for id in 0..700 {
        let (team, name) = (id % 2, ["ann", "bob"][id as usize % 2]);
        let bins = [put("team", team), put("name", name)];
        records.operate_on(&policy, &id.into(), &bins).unwrap();
    }
    let (by_team, by_name) = (
        IndexDefinition::new("by", ["team"]),
        IndexDefinition::new("by", ["name"]),
    );
    records.ensure_index(by_team.clone()).unwrap();
    for limit in [1, 7, 100, 350, 1_000] {
        let found = pages(&records, 1, limit);
        let distinct: BTreeSet<_> = found.iter().collect();
        assert_eq!((found.len(), distinct.len()), (350, 350), "{limit}");
    }
    assert_eq!(pages(&records, 2, 10), []);
    assert_eq!(pages(&records, "1", 10), []);
    // The servers have an index of this name, over another bin: it is not asked for this one.
    let other = served.cluster().records("people").unwrap();
    let refused = other.ensure_index(by_name).unwrap_err();
    assert!(
        matches!(&refused, Error::IndexExists(name) if **name == *"by_integers"),
        "{refused}"
    );
    let (equal, all) = (["ann".into()], IndexRange::Any);
    let query = |equal, range, after| IndexQuery {
        index: "by",
        equal,
        range,
        limit: 9,
        after,
    };
    assert!(other.query_keys(&query(&equal, all, None)).is_err());
    let records = served.cluster().records("people").unwrap();
    let (one, bytes) = ([Value::Int(1)], [Value::Blob(vec![1])]);
    let ask = |equal, range, after| records.query_keys(&query(equal, range, after));
    let undeclared = ask(&one, all, None).unwrap_err();
    assert!(
        matches!(undeclared, Error::IndexNotFound(_)),
        "{undeclared}"
    );
    records.ensure_index(by_team).unwrap();
    for (equal, range) in [
        (&[][..], all),
        (&bytes, all),
        (&one, IndexRange::BeginsWith(&one[0])),
    ] {
        let refused = ask(equal, range, None).unwrap_err();
        assert!(matches!(refused, Error::Forbidden(_)), "{refused}");
    }
    let none = IndexQuery {
        limit: 0,
        ..query(&one, all, None)
    };
    // As a store in the process answers: a cursor would pass over records.
    assert_eq!(records.query_keys(&none).unwrap(), KeyPage::default());
    let store = Store::in_memory().unwrap();
    let local = store.set("people").unwrap();
    local
        .ensure_index(IndexDefinition::new("by", ["team"]))
        .unwrap();
    local.put(1, [("team", 1)]).unwrap();
    assert_eq!(local.query_keys(&none).unwrap(), KeyPage::default());
    for cursor in ["", "1", "4096.1.", "1.0.", "1.1", "-1.1.", "1.5000."] {
        let refused = ask(&one, all, Some(cursor)).unwrap_err();
        assert!(
            matches!(refused, Error::Parameter(_)),
            "{cursor:?}: {refused}"
        );
    }
    for definition in [
        IndexDefinition::new("two", ["team", "name"]),
        IndexDefinition::new("part", [IndexComponent::bin("team").elements()]),
    ] {
        let refused = records.ensure_index(definition).unwrap_err();
        assert!(matches!(refused, Error::Forbidden(_)), "{refused}");
    }
}

#[test]
fn children_by_reference_are_found_by_an_index_of_the_servers() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let layout = || Layout::reference("parent", "by_parent");
    let children = OneToMany::new(&cluster, "children", ("parents", "children"), layout()).unwrap();
    for parent in ["ann", "bob"] {
        for id in 0..20 {
            let key = format!("{parent}-{id}");
            children.put(parent, &*key, &json!({ "n": id })).unwrap();
        }
    }
    let (mut found, mut token) = (BTreeSet::new(), None::<String>);
    loop {
        let page = children.page("ann", token.as_deref(), 3).unwrap();
        found.extend(page.children.into_iter().map(|child| child.key));
        match page.next {
            Some(next) => token = Some(next),
            None => break,
        }
    }
    assert_eq!(
        found,
        (0..20).map(|id| format!("ann-{id}").into()).collect()
    );
    assert_eq!(children.len("bob").unwrap(), 20);
    assert_eq!(children.parent_of("bob-3").unwrap(), Some("bob".into()));
    assert!(children.remove("bob", "bob-3").unwrap());
    // A child names one parent, and leaves the one that it had.
    children.put("ann", "bob-4", &json!({ "n": 4 })).unwrap();
    let counts = ["ann", "bob"].map(|parent| children.len(parent).unwrap());
    assert_eq!(counts, [21, 18]);
    assert!(children.verify(Repair::No, go_on).unwrap().is_sound());
    // Another handle moves them to another layout.
    let listed = OneToMany::new(
        &cluster,
        "children",
        ("parents", "children"),
        Layout::key_list("kids"),
    );
    let listed = listed.unwrap().with_parent_bin("parent");
    let listed = listed.moving_from(layout()).unwrap();
    listed.declare().unwrap();
    listed.move_children(go_on).unwrap();
    let sets = ("parents", "children");
    let listed = OneToMany::new(&cluster, "children", sets, Layout::key_list("kids")).unwrap();
    assert_eq!(listed.len("ann").unwrap(), 21);
    let page = listed.page("bob", None, 99).unwrap();
    assert_eq!(page.children.len(), 18);
}

#[test]
fn a_server_finds_the_children_by_reference_of_a_parent_that_is_deleted() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let children = |rule| {
        let (sets, layout) = (
            ("parents", "children"),
            Layout::reference("parent", "by_parent"),
        );
        let children = OneToMany::new(&cluster, "children", sets, layout);
        let children = children.unwrap().on_delete(rule);
        children.declare().unwrap();
        children
    };
    let restricting = children(OnDelete::Restrict);
    let parents = cluster.records("parents").unwrap();
    let policy = WritePolicy::default();
    let childless: Key<'_> = b"ann"[..].into();
    let keys = [Key::from("ann"), 7.into(), childless.clone(), 8.into()];
    for parent in &keys {
        parents
            .operate_on(&policy, parent, &[put("name", 1)])
            .unwrap();
    }
    for id in 0..3 {
        restricting.put("ann", id, &json!({ "n": id })).unwrap();
        restricting.put(7, 10 + id, &json!({ "n": id })).unwrap();
    }
    // No index of a cluster has these parents.
    let long = "long ".repeat(500);
    let unindexed = [Key::from(&b"bytes"[..]), Key::from(long.as_str())];
    for (parent, id) in unindexed.iter().zip(20..) {
        parents
            .operate_on(&policy, parent, &[put("name", 1)])
            .unwrap();
        restricting
            .put(parent.clone(), id, &json!({ "n": id }))
            .unwrap();
    }
    // By a plain call, which knows of no relation.
    let delete = |key: &Key<'_>| parents.operate_on(&policy, key, &[delete_all_bins()]);
    for parent in keys[..2].iter().chain(&unindexed) {
        assert_eq!(delete(parent).unwrap_err().result_code(), 22, "{parent}");
    }
    delete(&childless).unwrap();
    delete(&8.into()).unwrap();
    let cascading = children(OnDelete::Cascade);
    delete(&"ann".into()).unwrap();
    for (parent, id) in unindexed.iter().zip(20..) {
        delete(parent).unwrap();
        let child = cascading.get::<Value>(parent.clone(), id).unwrap();
        assert_eq!(child, None, "{parent}");
    }
    let counts = (
        cascading.len("ann").unwrap(),
        cascading.get::<Value>("ann", 1).unwrap(),
        cascading.len(7).unwrap(),
    );
    assert_eq!(counts, (0, None, 3));
    // By the handle, which deletes the children itself.
    assert!(
        cascading
            .delete_with_edges(7, OnDelete::Cascade, go_on)
            .unwrap()
    );
    assert_eq!(cascading.len(7).unwrap(), 0);
    let left = parents.read_each(&keys, None);
    assert!(left.into_iter().all(|parent| parent.unwrap().is_none()));
}

#[test]
fn copies_follow_records_that_any_program_has_written() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let (users, items) = (
        cluster.records("users").unwrap(),
        cluster.records("items").unwrap(),
    );
    let policy = WritePolicy::default();
    let name = |name: &str| {
        users
            .operate_on(&policy, &7.into(), &[put("name", name)])
            .unwrap()
    };
    name("Homer");
    for reference in ["assignee", "assignee.id"] {
        let relation = format!("copies{}", reference.len());
        let copies = Propagate::new(&cluster, &relation, ("users", "items"), reference).unwrap();
        let copies = copies.copy("name", "shown");
        copies.assign(1, 7).unwrap();
        // A plain call, which no handle knows of.
        let plain = match reference {
            "assignee" => Value::Int(7),
            _ => Value::Map([("id", 7)].into_iter().collect()),
        };
        items
            .operate_on(&policy, &2.into(), &[put("assignee", plain)])
            .unwrap();
        items
            .operate_on(&policy, &3.into(), &[put("assignee", 8)])
            .unwrap();
        name("H. Simpson");
        let report = copies.propagate(7, go_on).unwrap();
        assert_eq!(
            (report.written, report.failed, report.complete),
            (2, 0, true)
        );
        let shown = |key: i64| {
            let read = items.read_each(&[key.into()], None).remove(0).unwrap();
            read.unwrap().get("shown")
        };
        assert_eq!((shown(1), shown(2)), (shown(2), Some("H. Simpson".into())));
        assert_eq!(shown(3), None);
        name("Homer");
        let stale = copies.verify(Repair::Yes, go_on).unwrap();
        let is_stale = |fault: &RelationFault| matches!(fault, RelationFault::Stale { .. });
        assert_eq!(stale.faults.iter().filter(|it| is_stale(it)).count(), 2);
        assert_eq!(shown(2), Some("Homer".into()));
        for key in 1..4 {
            let gone = [spikelet::operations::delete_all_bins()];
            items.operate_on(&policy, &key.into(), &gone).unwrap();
        }
    }
    users.operate_on(&policy, &7.into(), &[touch()]).unwrap();
}

fn company<S: RecordStore<Records: IndexedRecordSet>>(store: S) -> Graph<S> {
    let ranks = [("LEAD", 500), ("TEAM", 300)];
    let member = EdgeType::new("MEMBER").ranked_by("role", ranks);
    let graph = Graph::new(
        store,
        "company",
        ["USER", "GROUP"],
        [member, EdgeType::new("SEEN").omitted()],
    );
    graph
        .unwrap()
        .shard_policy(ShardPolicy::manual().record_bytes_max(2_000))
}

fn user(id: usize) -> NodeId {
    NodeId::new("USER", &format!("{id:03}"))
}

#[test]
fn a_graph_answers_on_a_cluster_as_it_does_embedded() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let graph = company(&cluster);
    let team = NodeId::new("GROUP", "1");
    graph
        .put_node(&team, &json!({ "name": "Marketing" }))
        .unwrap();
    for id in 0..150 {
        graph.put_node(&user(id), &json!({ "n": id })).unwrap();
        let role = ["LEAD", "TEAM"][usize::from(id % 5 > 0)];
        graph
            .link(&user(id), "MEMBER", &team, &json!({ "role": role }))
            .unwrap();
        graph.link(&team, "SEEN", &user(id), &json!({})).unwrap();
    }
    // Both maps of the team have outgrown a record.
    let (code, shards) = json(&["shards", "--host", &served.addr]);
    assert_eq!(
        (code, shards["collections"].as_array().unwrap().len()),
        (0, 2)
    );
    let query = || graph.query("MEMBER", &team).unwrap();
    let (first, next) = query().limit(100).sources().unwrap();
    let (rest, end) = query().limit(100).after(&next.unwrap()).sources().unwrap();
    let team_first = (0..150).filter(|id| id % 5 > 0).chain((0..150).step_by(5));
    assert_eq!(
        [first, rest].concat(),
        team_first.map(user).collect::<Vec<_>>()
    );
    assert_eq!(end, None);
    let leads = query().equal("500-LEAD").nodes_with(&["GROUP"]).unwrap();
    assert_eq!((leads.nodes.len(), leads.related.len()), (30, 1));
    let (seen, _) = graph.edges(&team).unwrap().limit(200).page().unwrap();
    assert_eq!(seen.len(), 150);
    let audit = graph.verify(Repair::No, go_on).unwrap();
    assert!(audit.is_sound(), "{:?}", audit.faults);
    assert_eq!(audit.edges, 300);
    let refused = graph
        .delete_node(&team, OnDelete::Restrict, go_on)
        .unwrap_err();
    assert!(matches!(refused, Error::HasEdges { .. }), "{refused}");
    assert!(graph.delete_node(&team, OnDelete::Detach, go_on).unwrap());
    let audit = graph.verify(Repair::No, go_on).unwrap();
    assert!(audit.is_sound(), "{:?}", audit.faults);
    assert_eq!((audit.edges, audit.largest), (0, None));
    let (left, _) = graph.query("SEEN", &user(1)).unwrap().sources().unwrap();
    assert_eq!(left, []);
}

#[test]
fn a_graph_that_was_moved_says_that_its_maps_are_missing_and_a_repair_makes_them() {
    let dir = tempfile::tempdir().unwrap();
    let team = NodeId::new("GROUP", "1");
    let mut config = NamespaceConfig::new("test");
    config.key_hash = spikelet::record::KeyHash::Ripemd160;
    let store = Store::builder()
        .path(dir.path())
        .namespace(config)
        .open()
        .unwrap();
    let embedded = company(&store);
    for id in 0..10 {
        embedded.put_node(&user(id), &json!({ "n": id })).unwrap();
        embedded
            .link(&user(id), "MEMBER", &team, &json!({ "role": "LEAD" }))
            .unwrap();
    }
    embedded.put_node(&team, &json!({ "n": 0 })).unwrap();
    drop(store);
    let served = Served::in_memory();
    let cluster = served.cluster();
    let source = dir.path().to_str().unwrap();
    let (code, moved) = json(&[
        "move",
        source,
        "--host",
        &served.addr,
        "--namespace",
        "test",
    ]);
    assert_eq!(code, 0, "{moved}");
    let graph = company(&cluster);
    let refused = graph.query("MEMBER", &team).map(drop).unwrap_err();
    assert!(refused.to_string().contains("forget_relation"), "{refused}");
    let refused = graph.link(&user(1), "SEEN", &team, &json!({})).unwrap_err();
    assert!(refused.to_string().contains("forget_relation"), "{refused}");
    assert!(forget_relation(&cluster, "company").unwrap());
    let audit = graph.verify(Repair::Yes, go_on).unwrap();
    assert_eq!((audit.faults.len(), audit.repaired), (10, 10));
    assert!(graph.verify(Repair::No, go_on).unwrap().is_sound());
    let (members, _) = graph.query("MEMBER", &team).unwrap().sources().unwrap();
    assert_eq!(members, (0..10).map(user).collect::<Vec<_>>());
}

#[test]
fn an_index_that_another_process_builds_is_waited_for() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let records = cluster.records("people").unwrap();
    let policy = WritePolicy::default();
    for id in 0..30_000 {
        let bins = [put("team", id % 3)];
        records.operate_on(&policy, &id.into(), &bins).unwrap();
    }
    let definition = || IndexDefinition::new("by", ["team"]);
    std::thread::scope(|scope| {
        let builds = scope.spawn(|| records.ensure_index(definition()).unwrap());
        let other = served.cluster();
        while !other
            .info("sindex-list:ns=test")
            .unwrap()
            .contains("by_integers")
        {}
        let records = other.records("people").unwrap();
        records.ensure_index(definition()).unwrap();
        assert_eq!(pages(&records, 1, 1_000).len(), 10_000);
        builds.join().unwrap();
    });
}
