//! `spikelet relations --host`: it shows the contents of the served store.

use std::path::Path;

use serde_json::{Value, json};
use spikelet::record::KeyHash;
use spikelet::relation::{
    EdgeType, Graph, Joined, Layout, Links, ManyToMany, Members, NodeId, OnDelete, OneToMany,
    Propagate, Repair,
};
use spikelet::shard::ShardPolicy;
use spikelet::{NamespaceConfig, RecordStore, ShardedList, Store, WritePolicy, bins};

use crate::common::Served;
use crate::killed_handles::go_on;
use crate::program::{json, refused, run};

fn follows<S: RecordStore>(store: S) -> ManyToMany<S> {
    let (following, followers) = (("users", "following"), ("users", "followers"));
    let policy = ShardPolicy::manual().record_bytes_max(250);
    ManyToMany::new(store, "follows", following, followers).shard_policy(policy)
}

/// A store on disk with a relation of each kind; one is sharded, and some of its records store no
/// key.
fn every_kind(dir: &Path) {
    let mut config = NamespaceConfig::new("test");
    config.key_hash = KeyHash::Ripemd160;
    let store = Store::builder().path(dir).namespace(config);
    let store = store.open().unwrap();
    let follows = follows(&store);
    let keyless = WritePolicy::default().send_key(false);
    for id in 1_000..1_100 {
        follows.link(id, 0).unwrap();
    }
    let follows = follows.write_policy(&keyless);
    follows.link(1_000, 1).unwrap();
    for id in 2_000..2_100 {
        follows.link(id, 1).unwrap();
    }
    follows.declare().unwrap();
    let layout = Layout::key_list("comments");
    let comments = OneToMany::new(&store, "comments", ("posts", "comments"), layout).unwrap();
    let comment = json!({ "text": "Doh!" });
    comments.put("p1", 1, &comment).unwrap();
    comments.declare().unwrap();
    let members = Members::new(&store, "people", ("lists", "people", "keys"));
    let homer = bins! { "age" => 39 };
    members.put("homer", homer).unwrap();
    members.declare().unwrap();
    let links = Links::new(&store, "links").reciprocal("parent", "child");
    links.declare("family", ["people"]).unwrap();
    let edges = [EdgeType::new("MEMBER")];
    let graph = Graph::new(&store, "records", ["GOAL", "USER"], edges).unwrap();
    let (goal, user) = (NodeId::new("GOAL", "G1"), NodeId::new("USER", "U1"));
    graph.link(&goal, "MEMBER", &user, &json!({})).unwrap();
    graph.declare().unwrap();
    let assignees = Propagate::new(&store, "assignees", ("users", "items"), "assignee").unwrap();
    assignees.copy("name", "shown").declare().unwrap();
    let owner = bins! { "title" => "Mr. Plow", "assignee" => 1 };
    store.set("items").unwrap().put(1, owner).unwrap();
    let shown = Joined::new(&store.namespace("test").unwrap(), "shown", "items").keep(["title"]);
    shown.updater().unwrap().catch_up().unwrap();
    store.close().unwrap();
}

#[test]
fn relations_of_a_served_store_are_shown_as_those_of_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    every_kind(dir.path());
    let path = dir.path().to_str().unwrap();
    let (_, mut embedded) = json(&["relations", path]);
    let served = Served::with(&["--dir", path]);
    let (code, mut found) = json(&["relations", "--host", &served.addr]);
    assert_eq!(code, 0);
    assert_eq!(found["path"], format!("--host {}", served.addr));
    assert_eq!(relations(&found).len(), 7);
    let (over_the_wire, on_disk) = (take_sizes(&mut found), take_sizes(&mut embedded));
    assert_eq!(found["relations"], embedded["relations"]);
    // Clients are not told the order of a list or map, nor its index, which take some bytes.
    for (one, other) in over_the_wire.iter().zip(&on_disk) {
        assert!(one.abs_diff(*other) < 32, "{over_the_wire:?} {on_disk:?}");
    }
    let sharded = relations(&found).iter().find(|it| it["name"] == "follows");
    assert_eq!(sharded.unwrap()["stats"][1]["sharded"], 2);
}

/// Takes the sizes of each side away: of the largest record, and of all references. Returns those
/// of the records.
fn take_sizes(found: &mut Value) -> Vec<u64> {
    let relations = found["relations"].as_array_mut().unwrap().iter_mut();
    let sides = relations.flat_map(|relation| relation["stats"].as_array_mut().unwrap());
    let sizes = sides.map(|side| {
        side["element_bytes"].take();
        side["record_bytes_max"].take()
    });
    sizes.map(|bytes| bytes.as_u64().unwrap()).collect()
}

fn relations(found: &Value) -> &[Value] {
    found["relations"].as_array().unwrap()
}

#[test]
fn a_relation_that_a_client_declares_is_shown_by_its_name() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let host = ["relations", "--host", &served.addr];
    let (_, none) = json(&host);
    assert_eq!(relations(&none), [] as [Value; 0]);
    let follows = follows(&cluster);
    for id in 1_000..1_100 {
        follows.link(id, 0).unwrap();
    }
    follows.declare().unwrap();
    let with = |arguments: &[&'static str]| [&host[..], arguments].concat();
    let report = run(&with(&["--name", "follows", "--namespace", "test"])).stdout;
    let report = String::from_utf8(report).unwrap();
    assert!(
        report.contains("follows, ManyToMany in namespace test"),
        "{report}"
    );
    let (_, found) = json(&with(&["--name", "follows"]));
    let side = &relations(&found)[0]["stats"][1];
    assert_eq!(side["elements"], 100);
    assert_eq!(side["largest"], serde_json::json!([0, 100]));
    assert_eq!(side["sharded"], 1);
    let unknown = refused(&with(&["--name", "friends"]));
    assert!(unknown.contains("\"friends\""), "{unknown}");
    assert!(unknown.contains(&served.addr), "{unknown}");
    let elsewhere = refused(&with(&["--namespace", "none"]));
    assert!(
        elsewhere.contains("unknown namespace \"none\""),
        "{elsewhere}"
    );
}

#[test]
fn handles_of_a_cluster_work_beside_the_rules_of_a_server_that_knows_their_relations() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let small = ShardPolicy::manual().elements_max(8);
    let follows = follows(&cluster).shard_policy(small);
    follows.declare().unwrap();
    let members = Members::new(&cluster, "people", ("lists", "people", "keys"));
    let members = members.shard_policy(small);
    members.declare().unwrap();
    let children = |set: &str, layout| {
        let sets = (&*format!("{set}-p"), &*format!("{set}-c"));
        OneToMany::new(&cluster, set, sets, layout).unwrap()
    };
    let listed = children("listed", Layout::key_list("kids")).with_parent_bin("parent");
    let referring = children("referring", Layout::reference("parent", "by_parent"));
    let children = [listed.shard_policy(small), referring];
    let graph = Graph::new(&cluster, "graph", ["USER"], [EdgeType::new("SAW")]).unwrap();
    let graph = graph.shard_policy(small);
    graph.declare().unwrap();
    let user = |id: i64| NodeId::new("USER", &id.to_string());
    let text = json!({ "text": "Doh!" });
    for id in 1..40 {
        follows.link(id, 0).unwrap();
        members.put(id, bins! { "age" => id }).unwrap();
        graph.put_node(&user(id), &text).unwrap();
        graph.link(&user(0), "SAW", &user(id), &text).unwrap();
        for children in &children {
            children.declare().unwrap();
            children.put(0, id, &text).unwrap();
        }
    }
    let followers = ShardedList::new(&cluster, "users", 0, "followers").unwrap();
    assert!(followers.shards().state().unwrap().shards > 0);
    for id in 1..39 {
        assert!(
            follows
                .delete_with_edges(id, OnDelete::Detach, go_on)
                .unwrap()
        );
        assert!(members.remove(id).unwrap());
        assert!(graph.unlink(&user(0), "SAW", &user(id)).unwrap());
        for children in &children {
            assert!(children.remove(0, id).unwrap());
            assert_eq!(children.get::<Value>(0, id).unwrap(), None);
        }
    }
    assert_eq!(follows.sources(0).page(0, 9).unwrap(), [39.into()]);
    assert_eq!(members.page(None, 9).unwrap(), [39.into()]);
    assert_eq!(graph.edges(&user(0)).unwrap().page().unwrap().0.len(), 1);
    for children in &children {
        assert_eq!(children.len(0).unwrap(), 1);
        assert!(children.verify(Repair::No, go_on).unwrap().is_sound());
    }
    assert!(follows.verify(Repair::No, go_on).unwrap().is_sound());
    assert!(
        follows
            .delete_target_with_edges(0, OnDelete::Detach, go_on)
            .unwrap()
    );
    assert!(members.verify(Repair::No, go_on).unwrap().is_sound());
    assert!(
        graph
            .delete_node(&user(39), OnDelete::Detach, go_on)
            .unwrap()
    );
    assert_eq!(graph.edges(&user(0)).unwrap().page().unwrap().0.len(), 0);
    assert!(graph.verify(Repair::No, go_on).unwrap().is_sound());
}
