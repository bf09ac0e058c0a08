//! A graph in a store without ordered indexes, such as a cluster: edges are in maps at both ends.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::thread;

use proptest::prelude::*;
use serde_json::json;
use spikelet::relation::{EdgeQuery, EdgeType, Graph, NodeEdge, NodeId, OnDelete, Repair};
use spikelet::shard::ShardPolicy;
use spikelet::{IndexedRecordSet, RecordStore, RetryPolicy, Store};

use crate::watched::{Calls, Watched};

const RANKS: [(&str, u32); 3] = [("LEAD", 500), ("WORKER", 400), ("TEAM", 300)];

fn graph<S: RecordStore<Records: IndexedRecordSet>>(store: S) -> Graph<S> {
    let date = |edge: &spikelet::Bins| Some(edge.get("date")?.as_str()?.to_owned());
    let member = EdgeType::new("MEMBER").ranked_by("role", RANKS);
    let viewed = EdgeType::new("VIEWED").omitted();
    let types = [member.sort_key(date), viewed.sort_key(date)];
    let graph = Graph::new(store, "g", ["N", "NN"], types).unwrap();
    graph.shard_policy(ShardPolicy::manual().record_bytes_max(500))
}

/// Nodes of types of which one begins as the other.
fn node(id: usize) -> NodeId {
    NodeId::new(["N", "NN"][id % 2], &format!("{}", id / 2))
}

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The last date is left out.
fn attributes(role: usize, date: usize) -> serde_json::Value {
    let dates = ["", "2020-01", "2020-01-02", "2020-0\0", "2020\u{7f}"];
    match dates.get(date) {
        Some(date) => json!({ "role": RANKS[role].0, "date": date }),
        None => json!({ "role": RANKS[role].0 }),
    }
}

/// The sources of all pages of a query.
fn sources<S: RecordStore<Records: IndexedRecordSet>>(query: EdgeQuery<'_, &S>) -> Vec<NodeId> {
    let (mut query, mut found) = (query.limit(2), Vec::new());
    loop {
        let (page, next) = query.sources().unwrap();
        assert!(page.len() <= 2);
        found.extend(page);
        match next {
            Some(token) => query = query.after(&token),
            None => return found,
        }
    }
}

/// The edges of all pages.
fn edges<S: RecordStore<Records: IndexedRecordSet>>(
    graph: &Graph<&S>,
    from: &NodeId,
    edge_type: Option<&str>,
) -> Vec<NodeEdge> {
    let (mut query, mut found) = (graph.edges(from).unwrap().limit(3), Vec::new());
    if let Some(edge_type) = edge_type {
        query = query.of_type(edge_type).unwrap();
    }
    loop {
        let (page, next) = query.page().unwrap();
        assert!(page.len() <= 3);
        found.extend(page);
        match next {
            Some(token) => query = query.after(&token),
            None => return found,
        }
    }
}

fn sorted(mut found: Vec<String>) -> Vec<String> {
    found.sort();
    found
}

/// Everything that a graph may be asked; edges of one sort key come in any order.
fn all_answers<S: RecordStore<Records: IndexedRecordSet>>(
    graph: &Graph<&S>,
) -> BTreeMap<String, Vec<String>> {
    let mut answers = BTreeMap::new();
    for id in 0..6 {
        let id = &node(id);
        for edge_type in ["MEMBER", "VIEWED"] {
            let query = |sort| graph.query(edge_type, id).unwrap().sort(sort);
            let dated = usize::from(edge_type == "MEMBER");
            let queries = [
                ("all", query(0)),
                ("ranks", query(0).at_least("400-")),
                ("leads", query(0).equal("500-LEAD")),
                ("dates", query(dated)),
                ("begins", query(dated).begins_with("2020-0")),
                ("none", query(dated).equal("")),
                ("from", query(dated).between("2020-01".."2020-01-02")),
                ("to", query(dated).between(..="2020-01-02")),
                ("below", query(dated).less_than("2020-01-02")),
            ];
            for (what, query) in queries {
                let found = sources(query).iter().map(NodeId::to_string).collect();
                answers.insert(format!("{what} of {edge_type} to {id}"), sorted(found));
            }
            for edge_type in [Some(edge_type), None] {
                let found = edges(graph, id, edge_type);
                let found = found.iter().map(|edge| format!("{edge:?}")).collect();
                answers.insert(format!("{edge_type:?} from {id}"), sorted(found));
            }
        }
        let query = graph.query("MEMBER", id).unwrap();
        let page = query.nodes_with(&["N"]).unwrap();
        let degrees = page.nodes.iter();
        let degrees = degrees.map(|node| format!("{} has {}", node.id, node.edges.len()));
        let related = page.related.keys().map(NodeId::to_string);
        answers.insert(
            format!("related to {id}"),
            sorted(related.chain(degrees).collect()),
        );
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn it_answers_as_one_with_indexes_does(
        calls in prop::collection::vec((0..6_usize, 0..6_usize, 0..10_usize, 0..6_usize), 1..60)
    ) {
        let (store, other) = (Store::in_memory().unwrap(), Store::in_memory().unwrap());
        let watched = Watched::without_indexes(&other, &Calls::default());
        let (indexed, maps) = (graph(&store), graph(&watched));
        for id in 0..6 {
            indexed.put_node(&node(id), &json!({ "n": id })).unwrap();
            maps.put_node(&node(id), &json!({ "n": id })).unwrap();
        }
        for (from, to, what, date) in calls {
            let (from, to) = (node(from), node(to));
            let edge_type = ["MEMBER", "VIEWED"][what % 2];
            match what {
                0..6 => {
                    let attributes = attributes(what / 2, date);
                    indexed.link(&from, edge_type, &to, &attributes).unwrap();
                    maps.link(&from, edge_type, &to, &attributes).unwrap();
                }
                6..9 => {
                    let removed = indexed.unlink(&from, edge_type, &to).unwrap();
                    prop_assert_eq!(maps.unlink(&from, edge_type, &to).unwrap(), removed);
                }
                _ => {
                    let refused = indexed.delete_node(&from, OnDelete::Restrict, go_on).is_err();
                    prop_assert_eq!(maps.delete_node(&from, OnDelete::Restrict, go_on).is_err(), refused);
                    indexed.delete_node(&from, OnDelete::Detach, go_on).unwrap();
                    maps.delete_node(&from, OnDelete::Detach, go_on).unwrap();
                    indexed.put_node(&from, &json!({ "n": 1 })).unwrap();
                    maps.put_node(&from, &json!({ "n": 1 })).unwrap();
                }
            }
        }
        prop_assert_eq!(all_answers(&maps), all_answers(&indexed));
        prop_assert!(maps.verify(Repair::No, go_on).unwrap().is_sound());
    }
}

#[test]
fn pages_are_in_the_order_of_the_sort_key() {
    let store = Store::in_memory().unwrap();
    let watched = Watched::without_indexes(&store, &Calls::default());
    let maps = graph(&watched);
    for id in 0..200 {
        let edge = json!({ "role": "TEAM", "date": format!("{:03}", 199 - id) });
        maps.link(&node(id), "MEMBER", &node(1_000), &edge).unwrap();
    }
    let found = sources(maps.query("MEMBER", &node(1_000)).unwrap().sort(1));
    let wanted: Vec<NodeId> = (0..200).rev().map(node).collect();
    assert_eq!(found, wanted);
}

#[test]
fn what_dies_between_two_steps_is_finished_by_the_same_call_or_a_repair() {
    let before = attributes(0, 1);
    for (what, repeats) in (0..4).flat_map(|what| [(what, true), (what, false)]) {
        for operations in 0.. {
            let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
            let living = Watched::without_indexes(&store, &Calls::default());
            let whole = graph(&living);
            for id in 0..4 {
                whole.put_node(&node(id), &json!({ "n": id })).unwrap();
                whole.link(&node(id), "MEMBER", &node(1), &before).unwrap();
            }
            let watched = Watched::without_indexes(&store, &calls);
            let dying = graph(&watched);
            dying.declare().unwrap();
            calls.die_after(operations);
            let call = |graph: &Graph<&Watched<Store>>| match what {
                0 => graph.link(&node(0), "MEMBER", &node(2), &before),
                1 => graph.link(&node(0), "MEMBER", &node(1), &attributes(1, 2)),
                2 => graph.link(&node(0), "VIEWED", &node(1), &before),
                _ => graph.unlink(&node(0), "MEMBER", &node(1)).map(drop),
            };
            let ended = call(&dying).is_ok();
            if repeats {
                call(&whole).unwrap();
            }
            let audit = whole.verify(Repair::Yes, go_on).unwrap();
            // A repetition cannot know of sort keys that were there before.
            let unknown = if repeats && what == 1 { 2 } else { usize::MAX };
            let allowed = if repeats && what != 1 { 0 } else { unknown };
            assert!(
                audit.faults.len() <= allowed,
                "{what}, {operations}: {audit:?}"
            );
            let sound = whole.verify(Repair::No, go_on).unwrap();
            assert!(
                sound.is_sound(),
                "{what}, {operations}: {audit:?} {sound:?}"
            );
            let found = sources(whole.query("MEMBER", &node(1)).unwrap());
            for other in 1..4 {
                let times = found.iter().filter(|id| **id == node(other)).count();
                assert_eq!(times, 1, "{what}, {operations}");
            }
            if ended {
                assert!(audit.is_sound(), "{what}, {operations}: {audit:?}");
                assert!(operations > 3, "{what}");
                break;
            }
        }
    }
}

#[test]
fn writers_of_the_same_edges_leave_both_ends_alike() {
    let store = Store::in_memory().unwrap();
    let watched = Watched::without_indexes(&store, &Calls::default());
    let maps = graph(&watched);
    for id in 0..4 {
        maps.put_node(&node(id), &json!({ "n": id })).unwrap();
    }
    // On a busy machine the other writers can use up a call's attempts.
    let patient = &RetryPolicy::default().max_attempts(10_000);
    thread::scope(|scope| {
        for writer in 0..4_u64 {
            let maps = &maps;
            scope.spawn(move || {
                let mut state = writer + 1;
                for _ in 0..600 {
                    let random = crate::killed::next(&mut state) as usize >> 8;
                    let (from, to) = (node(random % 2), node(2 + random / 2 % 2));
                    let edge_type = ["MEMBER", "VIEWED"][random / 4 % 2];
                    match random / 8 % 3 {
                        0 => {
                            let unlink = || maps.unlink(&from, edge_type, &to);
                            patient.retry(unlink).unwrap();
                        }
                        _ => {
                            let edge = attributes(random / 32 % 3, random / 128 % 6);
                            let link = || maps.link(&from, edge_type, &to, &edge);
                            patient.retry(link).unwrap();
                        }
                    }
                }
            });
        }
    });
    let audit = maps.verify(Repair::No, go_on).unwrap();
    assert!(audit.is_sound(), "{:?}", audit.faults);
}

#[test]
fn two_writers_of_one_edge_leave_entries_that_agree_with_it() {
    // Two writers: the second one comes after each operation of the first.
    for (first, second) in [
        (0, 1),
        (0, 2),
        (1, 0),
        (2, 1),
        (2, 2),
        (1, 2),
        (2, 3),
        (3, 2),
    ] {
        for after in 0..14 {
            let store = Store::in_memory().unwrap();
            let (source, target) = (node(0), node(1));
            let write = move |graph: &Graph<Watched<Store>>, role: usize| match role {
                3 => drop(graph.unlink(&source, "MEMBER", &target).unwrap()),
                role => graph
                    .link(&source, "MEMBER", &target, &attributes(role, 0))
                    .unwrap(),
            };
            let calls = Calls::default();
            let one = graph(Watched::without_indexes(&store, &calls));
            let other = graph(Watched::without_indexes(&store, &Calls::default()));
            for id in [0, 1] {
                one.put_node(&node(id), &json!({ "n": id })).unwrap();
            }
            write(&one, 0);
            let others_write = write.clone();
            calls.interrupt(after, move || others_write(&other, second));
            write(&one, first);
            let looks = graph(Watched::without_indexes(&store, &Calls::default()));
            let audit = looks.verify(Repair::No, go_on).unwrap();
            assert!(
                audit.is_sound(),
                "{first} and {second} after {after}: {:?}",
                audit.faults
            );
        }
    }
}

#[test]
fn a_deleted_node_leaves_no_record_of_its_maps() {
    for edges in [1, 60] {
        let store = Store::in_memory().unwrap();
        let graph = graph(Watched::without_indexes(&store, &Calls::default()));
        for id in 1..=edges {
            let (from, to) = (node(0), node(2 * id));
            for (from, to) in [(&from, &to), (&to, &from)] {
                graph.link(from, "VIEWED", to, &attributes(0, 0)).unwrap();
            }
        }
        assert!(store.set("g_ends").unwrap().exists("N-0").unwrap());
        assert!(
            graph
                .delete_node(&node(0), OnDelete::Detach, go_on)
                .unwrap()
        );
        assert!(
            !store.set("g_ends").unwrap().exists("N-0").unwrap(),
            "{edges}"
        );
        assert!(!store.set("g").unwrap().exists("N-0").unwrap());
    }
}

#[test]
fn an_audit_leaves_an_edge_to_a_node_that_another_writer_puts_meanwhile() {
    for kind in [Watched::new, Watched::without_indexes] {
        // Before the look at the nodes of the edge, and before its repair.
        for after in [0, 1] {
            let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
            let other = graph(kind(&store, &Calls::default()));
            other.put_node(&node(0), &json!({ "n": 0 })).unwrap();
            let (from, to) = (node(0), node(2));
            other.link(&from, "MEMBER", &to, &attributes(0, 1)).unwrap();
            let audited = graph(kind(&store, &calls));
            let put = other.clone();
            calls.interrupt(after, move || {
                put.put_node(&node(2), &json!({ "n": 2 })).unwrap()
            });
            let audit = audited.verify(Repair::Yes, go_on).unwrap();
            assert_eq!((audit.faults.len(), audit.repaired), (after, 0));
            let edge = other.edge::<serde_json::Value>(&from, "MEMBER", &to);
            assert_eq!(edge.unwrap(), Some(attributes(0, 1)));
        }
    }
}
