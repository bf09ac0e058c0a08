use serde_json::json;
use spikelet::query::IndexDefinition;
use spikelet::relation::{
    Address, EdgeType, Graph, Layout, LayoutKind, Links, ManyToMany, Members, NodeId, OneToMany,
    RelationDeclaration, RelationKind, SideStats, declared_relations, forget_relation,
};
use spikelet::shard::ShardPolicy;
use spikelet::storage::ManualClock;
use spikelet::{Error, NamespaceConfig, ShardedList, Store, WritePolicy, bins};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use crate::joined::{item_list, namespace};
use crate::propagate::assignees;
use crate::watched::{Calls, Watched};

fn follows<S: spikelet::RecordStore>(store: S) -> ManyToMany<S> {
    let policy = ShardPolicy::manual().record_bytes_max(250);
    ManyToMany::new(
        store,
        "follows",
        ("users", "following"),
        ("users", "followers"),
    )
    .shard_policy(policy)
}

fn declared(store: &Store, name: &str) -> (RelationDeclaration, Vec<SideStats>) {
    let found = declared_relations(store).unwrap();
    let found = found
        .into_iter()
        .find(|known| &*known.name == name)
        .unwrap();
    let stats = found.stats(store).unwrap();
    (found, stats)
}

#[test]
fn a_declared_relation_is_listed_with_its_counts_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let follows = follows(&store);
    for id in 1..=200 {
        follows.link(id, 0).unwrap();
        follows.link(id, id % 7).unwrap();
    }
    follows.declare().unwrap();
    follows.declare().unwrap();
    store.close().unwrap();
    drop(follows);
    drop(store);
    let store = Store::open(dir.path()).unwrap();
    let (found, stats) = declared(&store, "follows");
    assert_eq!(
        (found.kind, found.sides.len()),
        (RelationKind::ManyToMany, 2)
    );
    // Reports and errors show the handle by this name.
    assert_eq!(format!("{:?}", found.kind), "ManyToMany");
    let edges = 400 - 200 / 7; // multiples of 7 follow 0 once
    assert_eq!((stats[0].elements, stats[1].elements), (edges, edges));
    assert_eq!((stats[0].records, stats[1].records), (200, 7));
    assert_eq!(stats[1].largest, Some((0.into(), 200)));
    assert!(stats[1].sharded >= 1 && stats[0].sharded == 0, "{stats:?}");
    assert!(stats[1].record_bytes_max <= 250, "{stats:?}");
}

#[test]
fn all_kinds_are_declared_on_a_store_without_transactions_too() {
    let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
    let watched = Watched::new(&store, &calls);
    follows(watched.clone()).declare().unwrap();
    let members = Members::new(watched.clone(), "people", ("sets", "all", "keys"));
    members.put("homer", bins! { "age" => 39 }).unwrap();
    members.declare().unwrap();
    let comments = OneToMany::new(
        watched.clone(),
        "comments",
        ("posts", "comments"),
        Layout::key_list("comments"),
    )
    .unwrap();
    for id in 0..3 {
        comments.put("p1", id, &json!({ "text": "Doh!" })).unwrap();
    }
    comments.declare().unwrap();
    Links::new(watched.clone(), "links")
        .reciprocal("parent", "child")
        .declare("family", ["people"])
        .unwrap();
    let graph = Graph::new(
        watched.clone(),
        "records",
        ["GOAL", "USER"],
        [EdgeType::new("MEMBER")],
    )
    .unwrap();
    let (goal, user) = (NodeId::new("GOAL", "G1"), NodeId::new("USER", "U1"));
    graph.link(&goal, "MEMBER", &user, &json!({})).unwrap();
    graph.declare().unwrap();
    assignees(watched).declare().unwrap();
    item_list(&namespace(&store)).updater().unwrap();
    let kinds: Vec<_> = declared_relations(&store)
        .unwrap()
        .iter()
        .map(|it| it.kind)
        .collect();
    assert_eq!(
        kinds,
        [
            RelationKind::Propagate,
            RelationKind::OneToMany,
            RelationKind::Links,
            RelationKind::ManyToMany,
            RelationKind::Joined,
            RelationKind::Members,
            RelationKind::Graph,
        ]
    );
    assert_eq!(
        declared(&store, "members of people in keys of sets \"all\"").1[0].elements,
        1
    );
    let (_, stats) = declared(&store, "records");
    assert_eq!((stats[0].elements, stats[1].elements), (1, 1));
    let (found, stats) = declared(&store, "comments");
    assert_eq!(
        found.suggested_layout(&store, &stats).unwrap(),
        Some(LayoutKind::Consolidated)
    );
}

#[test]
fn a_name_has_one_relation_until_it_is_forgotten() {
    let store = Store::in_memory().unwrap();
    follows(&store).declare().unwrap();
    let other = ManyToMany::new(
        &store,
        "follows",
        ("people", "following"),
        ("people", "followers"),
    );
    let refused = other.declare().unwrap_err();
    assert_eq!(refused.result_code(), 4);
    assert!(refused.to_string().contains("\"people\""), "{refused}");
    // A layout may change.
    let layout =
        |layout| OneToMany::new(&store, "comments", ("posts", "comments"), layout).unwrap();
    layout(Layout::key_list("comments")).declare().unwrap();
    let unmoved = layout(Layout::reference("post", "by_post"));
    assert!(
        unmoved
            .declare()
            .unwrap_err()
            .to_string()
            .contains("moving_from")
    );
    let moving = unmoved.moving_from(Layout::key_list("comments")).unwrap();
    moving.declare().unwrap();
    assert!(declared(&store, "comments").0.details[0].contains("reference"));
    assert!(forget_relation(&store, "follows").unwrap());
    assert!(!forget_relation(&store, "follows").unwrap());
    other.declare().unwrap();
}

/// Comments in their posts: one post has 700, of 400 bytes each, and twenty have one.
fn posts_of_which_one_is_sharded(store: &Store) -> OneToMany<&Store> {
    let sets = ("posts", "comments");
    let comments =
        OneToMany::new(store, "comments", sets, Layout::consolidated("comments")).unwrap();
    let comments = comments.shard_policy(ShardPolicy::manual().record_bytes_max(20_000));
    let text = "x".repeat(400);
    for id in 0..700 {
        let comment = json!({ "text": text });
        comments.put("viral", id, &comment).unwrap();
    }
    for id in 0..20 {
        let comment = json!({ "text": text });
        comments.put(id, id, &comment).unwrap();
    }
    comments.declare().unwrap();
    comments
}

#[test]
fn the_size_of_a_child_is_measured_in_shards_too() {
    let store = Store::in_memory().unwrap();
    posts_of_which_one_is_sharded(&store);
    let (found, stats) = declared(&store, "comments");
    let comments = &stats[0];
    assert_eq!((comments.elements, comments.elements_measured), (720, 720));
    assert_eq!((comments.records, comments.sharded), (21, 1));
    assert!(
        comments.element_bytes / 720 > 400 && comments.element_bytes / 720 < 450,
        "{comments:?}"
    );
    // 700 children of 400 bytes are too many for their parent, and for a list of keys.
    assert_eq!(
        found.suggested_layout(&store, &stats).unwrap(),
        Some(LayoutKind::Reference)
    );
}

#[test]
fn a_collection_beside_a_sharded_one_does_not_count_as_sharded() {
    let store = Store::in_memory().unwrap();
    let follows = follows(&store);
    for id in 1..=200 {
        follows.link(id, 0).unwrap();
    }
    follows.link(0, 1).unwrap();
    follows.declare().unwrap();
    let (_, stats) = declared(&store, "follows");
    assert_eq!((stats[0].elements, stats[0].sharded), (201, 0));
    assert_eq!((stats[1].elements, stats[1].sharded), (201, 1));
    assert_eq!(stats[0].elements_measured, 201);
}

#[test]
fn a_sharded_collection_of_a_record_without_a_stored_key_is_counted() {
    let store = Store::in_memory().unwrap();
    let policy = WritePolicy::default().send_key(false);
    let follows = follows(&store).write_policy(&policy);
    for id in 1..=200 {
        follows.link(id, 0).unwrap();
    }
    // Of a collection that was deleted.
    for id in 1..=200 {
        follows.link(id, 1_000).unwrap();
    }
    let gone = ShardedList::new(&store, "users", 1_000, "followers").unwrap();
    assert!(gone.shards().state().unwrap().shards > 0);
    // Nothing but the relation may delete it.
    forget_relation(&store, "follows").unwrap();
    gone.delete().unwrap();
    follows.declare().unwrap();
    let (_, stats) = declared(&store, "follows");
    assert_eq!((stats[1].elements, stats[1].sharded), (200, 1));
    assert_eq!(stats[1].largest, Some((0.into(), 200)));
}

#[test]
fn a_reference_that_is_no_key_is_counted_and_hides_no_other_relation() {
    let store = Store::in_memory().unwrap();
    let items = store.set("items").unwrap();
    items.put(1, bins! { "assignee" => "homer" }).unwrap();
    items.put(2, bins! { "assignee" => 1.5 }).unwrap();
    assignees(&store).declare().unwrap();
    let (_, stats) = declared(&store, "assignees");
    assert_eq!((stats[0].elements, stats[0].unreadable), (1, 1));
}

#[test]
fn a_relation_of_other_bins_does_not_take_the_place_of_the_declared_one() {
    let store = Store::in_memory().unwrap();
    follows(&store).link(1, 2).unwrap();
    let ends = (("users", "out"), ("users", "in"));
    let other = ManyToMany::new(&store, "follows", ends.0, ends.1);
    for refused in [other.declare(), other.link(1, 2).map(drop)] {
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("\"following\""), "{refused}");
        assert!(refused.contains("forget_relation"), "{refused}");
    }
    let guarded = store.set("users").unwrap().put(1, [("following", 1)]);
    assert!(
        matches!(guarded, Err(Error::OwnedBin { .. })),
        "{guarded:?}"
    );
    assert!(forget_relation(&store, "follows").unwrap());
    other.declare().unwrap();
}

#[test]
fn a_bin_has_one_relation() {
    let store = Store::in_memory().unwrap();
    let sets = ("people", "tasks");
    let tasks = OneToMany::new(&store, "tasks", sets, Layout::key_list("tasks")).unwrap();
    let tasks = tasks.with_parent_bin("owner");
    tasks.put("ann", 1, &json!({ "title": "paint" })).unwrap();
    // Its handle would give a task another owner, and leave it in the list of the first one.
    let owned = Layout::reference("owner", "by_owner");
    let owned = OneToMany::new(&store, "owned", sets, owned).unwrap();
    let put = owned.put("bob", 1, &json!({ "title": "paint" }));
    for refused in [owned.declare(), put, owned.set_parent(1, "bob").map(drop)] {
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.contains("belongs to relation \"tasks\""),
            "{refused}"
        );
    }
    let lists = ManyToMany::new(&store, "lists", ("people", "tasks"), ("lists", "people"));
    assert!(lists.link("ann", 1).is_err());
    // Another relation's handle writes the record, and not that bin.
    let all = Members::new(&store, "tasks", ("sets", "tasks", "keys"));
    let bins = || bins! { "title" => "paint", "owner" => "bob" };
    let refused = [
        all.put(1, bins()).map(drop),
        all.put_all([(1, bins())], |_| ControlFlow::Continue(()))
            .map(drop),
    ];
    for refused in refused {
        let refused = refused.unwrap_err();
        assert_eq!(refused.result_code(), 22, "{refused}");
    }
    all.put(1, bins! { "title" => "draw" }).unwrap();
    assert_eq!(tasks.parent_of(1).unwrap(), Some("ann".into()));
    assert_eq!(tasks.len("ann").unwrap(), 1);
}

#[test]
fn of_two_relations_that_want_one_bin_at_one_moment_one_is_refused() {
    for round in 0..40 {
        let store = Store::in_memory().unwrap();
        let barrier = std::sync::Barrier::new(2);
        let declare = |name: &str, back: &str| {
            let relation = ManyToMany::new(&store, name, ("a", "out"), ("a", back));
            barrier.wait();
            relation.declare()
        };
        let declared = std::thread::scope(|scope| {
            let other = scope.spawn(|| declare("two", "in_two"));
            [declare("one", "in_one"), other.join().unwrap()]
        });
        let refused = declared.iter().filter(|it| it.is_err()).count();
        assert_eq!(refused, 1, "{round}");
        assert_eq!(declared_relations(&store).unwrap().len(), 1);
    }
    // Two of one transaction.
    let store = Store::in_memory().unwrap();
    let refused = store.transaction(|tx| {
        ManyToMany::new(tx, "one", ("a", "out"), ("a", "in_one")).declare()?;
        ManyToMany::new(tx, "two", ("a", "out"), ("a", "in_two")).declare()
    });
    assert!(matches!(refused, Err(Error::Parameter(_))));
}

#[test]
fn the_bins_beside_the_sides_of_a_graph_are_its_own() {
    let store = Store::in_memory().unwrap();
    let graph = Graph::new(&store, "g", ["N"], [EdgeType::new("E")]).unwrap();
    graph.declare().unwrap();
    let taken = ManyToMany::new(&store, "other", ("g_edges", "target"), ("g_edges", "in"));
    let refused = taken.declare().unwrap_err();
    assert!(matches!(refused, Error::Parameter(_)), "{refused}");
    let layout = Layout::key_list("notes");
    let notes = OneToMany::new(&store, "notes", ("a", "g_edges"), layout).unwrap();
    let refused = notes
        .put(1, "N-1|E-N-2", &json!({ "sort0": "x" }))
        .unwrap_err();
    assert!(refused.to_string().contains("\"sort0\""), "{refused}");
    notes.put(1, "N-1|E-N-2", &json!({ "text": "x" })).unwrap();
}

#[test]
fn a_handle_that_goes_to_another_store_declares_itself_there() {
    let [one, other] = [(); 2].map(|()| Store::in_memory().unwrap());
    let follows = follows(&one);
    follows.link(1, 2).unwrap();
    follows.within(&other).link(1, 2).unwrap();
    let refused = other.set("users").unwrap().delete(1).unwrap_err();
    assert!(matches!(refused, Error::HasEdges { .. }), "{refused}");
}

#[test]
fn links_of_another_store_do_not_lift_the_declared_tags_of_the_first() {
    let [one, other] = [(); 2].map(|()| Store::in_memory().unwrap());
    let naming = Links::new(&one, "links").reciprocal("likes", "liked");
    let people = [1, 2].map(|id| spikelet::relation::Address::new("people", id));
    naming.link(&people[0], "likes", &people[1]).unwrap();
    let links = Links::new(&one, "links");
    let link = || links.link(&people[0], "likes", &people[1]).unwrap_err();
    assert_eq!(link().result_code(), 4);
    let elsewhere = links.within(&other);
    elsewhere.link(&people[0], "likes", &people[1]).unwrap();
    assert_eq!(link().result_code(), 4);
}

#[test]
fn a_truncation_of_what_is_old_leaves_the_rules() {
    let now_ms = 500_000_000_000;
    let clock = Arc::new(ManualClock::at(now_ms));
    let builder = Store::builder().namespace(NamespaceConfig::new("test"));
    let store = builder.clock(clock.clone()).open().unwrap();
    let follows = follows(&store);
    follows.link(1, 2).unwrap();
    clock.advance_ms(10_000);
    follows.link(3, 4).unwrap();
    // Milliseconds since 2010 are those of the clock.
    let before = UNIX_EPOCH + Duration::from_millis(1_262_304_000_000 + now_ms + 5_000);
    let namespace = store.namespace("test").unwrap();
    assert_eq!(namespace.truncate(Some(before)).unwrap(), 2);
    let users = store.set("users").unwrap();
    assert!(matches!(users.delete(3), Err(Error::HasEdges { .. })));
    assert_eq!(declared_relations(&store).unwrap().len(), 1);
    namespace.truncate(None).unwrap();
    assert_eq!(declared_relations(&store).unwrap(), []);
}

#[test]
fn a_full_store_is_truncated_by_time_and_keeps_its_rules() {
    let now_ms = 500_000_000_000;
    let clock = Arc::new(ManualClock::at(now_ms));
    let config = NamespaceConfig::new("test").background(false);
    let builder = Store::builder().namespace(config.max_device_bytes(64 << 20));
    let store = builder.clock(clock.clone()).open().unwrap();
    follows(&store).link(1, 2).unwrap();
    let blobs = store.set("blobs").unwrap();
    let blob = vec![7_u8; 900 << 10];
    let namespace = store.namespace("test").unwrap();
    let full = (0..200).find_map(|key| blobs.put(key, [("b", blob.as_slice())]).err());
    assert!(matches!(full, Some(Error::StopWrites { .. })), "{full:?}");
    clock.advance_ms(10_000);
    let before = UNIX_EPOCH + Duration::from_millis(1_262_304_000_000 + now_ms + 5_000);
    namespace.truncate(Some(before)).unwrap();
    assert_eq!(
        (blobs.len(), declared_relations(&store).unwrap().len()),
        (0, 1)
    );
}

#[test]
fn a_write_that_a_snapshot_refuses_declares_nothing() {
    let store = Store::in_memory().unwrap();
    let members = Members::new(&store, "users", ("lists", "all", "keys"));
    let links = Links::new(&store, "links");
    let (ann, bob) = (Address::new("users", "ann"), Address::new("users", "bob"));
    let refused = store.snapshot_read(|tx| {
        Ok([
            members.within(tx).put(1, bins! { "n" => 1 }).map(drop),
            links.within(tx).link(&ann, "knows", &bob).map(drop),
            follows(tx).link(1, 2).map(drop),
            follows(tx).declare(),
            forget_relation(tx, "follows").map(drop),
        ])
    });
    for refused in refused.unwrap() {
        assert_eq!(refused.map_err(|error| error.result_code()), Err(22));
    }
    assert_eq!(declared_relations(&store).unwrap(), []);
    assert!(members.put(1, bins! { "n" => 1 }).unwrap());
    assert_eq!(declared_relations(&store).unwrap().len(), 1);
}

#[test]
fn a_damaged_declaration_is_forgotten_or_declared_anew() {
    for how in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let open = || {
            let config = NamespaceConfig::new("test").background(false);
            let store = Store::builder().path(dir.path()).namespace(config);
            store.open().unwrap()
        };
        fn relation(store: &Store) -> ManyToMany<&Store> {
            let ends = (("unmistakable", "following"), ("unmistakable", "followers"));
            ManyToMany::new(store, "follows", ends.0, ends.1)
        }
        fn children(store: &Store) -> OneToMany<&Store> {
            let layout = Layout::key_list("children");
            OneToMany::new(store, "children", ("a", "b"), layout).unwrap()
        }
        let store = open();
        relation(&store).declare().unwrap();
        children(&store).declare().unwrap();
        store.close().unwrap();
        drop(store);
        let device = dir.path().join("test/device-0");
        let mut bytes = std::fs::read(&device).unwrap();
        for text in ["\"unmistakable\"", "layout key list"] {
            let text = text.as_bytes();
            let found = bytes.windows(text.len()).position(|window| window == text);
            bytes[found.unwrap() + 2] ^= 0xff;
        }
        std::fs::write(&device, bytes).unwrap();

        let store = open();
        assert!(declared_relations(&store).unwrap_err().is_damage());
        match how {
            0 => {
                assert!(forget_relation(&store, "follows").unwrap());
                assert!(forget_relation(&store, "children").unwrap());
                assert_eq!(declared_relations(&store).unwrap(), []);
                assert!(!forget_relation(&store, "follows").unwrap());
            }
            1 => {
                relation(&store).declare().unwrap();
                children(&store).declare().unwrap();
            }
            // A handle that writes knows nothing of the rules that are lost.
            _ => {
                let refused = relation(&store).link(1, 2).unwrap_err();
                assert!(refused.is_damage(), "{refused}");
                forget_relation(&store, "follows").unwrap();
                forget_relation(&store, "children").unwrap();
            }
        }
        relation(&store).link(1, 2).unwrap();
        children(&store).put(1, 2, &json!({ "n": 1 })).unwrap();
        assert_eq!(declared_relations(&store).unwrap().len(), 2);
        let users = store.set("unmistakable").unwrap();
        assert!(matches!(users.delete(1), Err(Error::HasEdges { .. })));
    }
}

/// Another index has the name of a relation's: of another bin, or of another set.
#[test]
fn an_index_of_another_bin_by_the_name_of_a_relations_hides_nothing() {
    fn refused<T: std::fmt::Debug>(found: spikelet::Result<T>, what: &str) {
        assert_eq!(found.unwrap_err().result_code(), 201, "{what}");
    }
    let store = Store::in_memory().unwrap();
    let instead = |set: &str, name: &str, of: &str| {
        let set = store.set(set).unwrap();
        set.drop_index(name).unwrap();
        set.create_index(IndexDefinition::new(name, [of])).unwrap();
    };
    let graph = || Graph::new(&store, "g", ["N"], [EdgeType::new("E")]).unwrap();
    let known = graph();
    let (from, to) = (NodeId::new("N", "1"), NodeId::new("N", "2"));
    for node in [&from, &to] {
        known.put_node(node, &json!({ "n": 1 })).unwrap();
    }
    known.link(&from, "E", &to, &json!({})).unwrap();
    let nodes = store.set("g").unwrap();
    instead("g_edges", "g_target0", "source");
    refused(nodes.delete(to.to_string()), "a node without its index");
    refused(known.query("E", &to).unwrap().sources(), "sources");
    instead("g_edges", "g_source", "target");
    refused(known.edges(&from).unwrap().page(), "edges");
    for index in ["g_source", "g_target0"] {
        store.set("g_edges").unwrap().drop_index(index).unwrap();
    }
    graph();
    let deleted = nodes.delete(to.to_string());
    assert!(
        matches!(deleted, Err(Error::HasEdges { .. })),
        "{deleted:?}"
    );

    let layout = Layout::reference("post", "by_post");
    let comments = OneToMany::new(&store, "comments", ("posts", "comments"), layout).unwrap();
    comments.put("p", 1, &json!({ "text": "x" })).unwrap();
    instead("comments", "by_post", "text");
    refused(comments.page("p", None, 10), "children");
    refused(comments.len("p"), "count of children");

    let namespace = namespace(&store);
    let assignees = assignees(namespace.clone());
    instead("items", "assignees_reference", "title");
    refused(
        assignees.propagate("u1", |_| ControlFlow::Continue(())),
        "copies",
    );
    assignees.remove().unwrap();
    let list = item_list(&namespace);
    drop(list.updater().unwrap());
    instead("item_list", "item_list_sources", "title");
    list.remove().unwrap();
    for index in ["assignees_reference", "item_list_sources"] {
        assert!(namespace.index_definition(index).is_some(), "{index}");
    }
}
