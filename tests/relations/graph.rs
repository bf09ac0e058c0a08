use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use spikelet::relation::{EdgeType, Graph, NodeId, OnDelete, RelationFault, Repair};
use spikelet::shard::ShardPolicy;
use spikelet::{Error, IndexedRecordSet, RecordStore, Store, WritePolicy};

use crate::watched::{Calls, Watched};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Membership {
    member_role: String,
    date: String,
}

const ROLES: [&str; 3] = ["TEAM", "CONTRIBUTOR", "LEAD"];

fn member(role: &str) -> Membership {
    Membership {
        member_role: role.into(),
        date: "2020-07-01".into(),
    }
}

fn records<S: RecordStore<Records: IndexedRecordSet>>(store: S) -> Graph<S> {
    let membership = EdgeType::new("GOALMEMBERSHIP")
        .ranked_by(
            "memberRole",
            [("LEAD", 500), ("CONTRIBUTOR", 400), ("TEAM", 300)],
        )
        .sort_key(|edge| Some(edge.get("date")?.as_str()?.to_owned()));
    let subscriber = EdgeType::new("GOALSUBSCRIBER").omitted();
    Graph::new(
        store,
        "records",
        ["GOAL", "USER", "TEAM"],
        [membership, subscriber],
    )
    .unwrap()
}

fn goal(id: usize) -> NodeId {
    NodeId::new("GOAL", &format!("G{id}"))
}

fn user(id: usize) -> NodeId {
    NodeId::new("USER", &format!("U{id}"))
}

fn go_on<T>(_: T) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Goals of one team, each led by a user and worked on by another.
fn company<S: RecordStore<Records: IndexedRecordSet>>(graph: &Graph<S>, goals: usize) {
    let team = NodeId::new("TEAM", "T1");
    graph
        .put_node(&team, &json!({ "name": "Marketing" }))
        .unwrap();
    for id in 0..goals {
        graph
            .put_node(&user(id), &json!({ "name": format!("user {id}") }))
            .unwrap();
        graph
            .put_node(&goal(id), &json!({ "title": format!("goal {id}") }))
            .unwrap();
    }
    for id in 0..goals {
        graph
            .link(&goal(id), "GOALMEMBERSHIP", &team, &member("TEAM"))
            .unwrap();
        graph
            .link(&goal(id), "GOALMEMBERSHIP", &user(id), &member("LEAD"))
            .unwrap();
        graph
            .link(
                &goal(id),
                "GOALMEMBERSHIP",
                &user((id + 1) % goals),
                &member("CONTRIBUTOR"),
            )
            .unwrap();
    }
}

#[test]
fn goals_with_leads_and_teams_are_three_batches() {
    let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
    let graph = records(Watched::new(&store, &calls));
    company(&graph, 40);
    calls.take();
    let team = NodeId::new("TEAM", "T1");
    let query = || graph.query("GOALMEMBERSHIP", &team).unwrap().limit(25);
    let page = query().nodes_with(&["USER", "TEAM"]).unwrap();
    assert_eq!(calls.take(), (0, 3), "edges, goals, leads and teams");
    assert_eq!(page.nodes.len(), 25);
    for node in &page.nodes {
        let lead = node
            .edges
            .iter()
            .find(|edge| &*edge.sort_key == "500-LEAD")
            .unwrap();
        assert_eq!(lead.target.id[1..], node.id.id[1..]);
        assert!(page.related.contains_key(&lead.target) && page.related.contains_key(&team));
    }
    let rest = query()
        .after(&page.next.unwrap())
        .nodes_with(&["USER", "TEAM"])
        .unwrap();
    assert_eq!((rest.nodes.len(), rest.next), (15, None));
}

#[test]
fn sort_keys_answer_what_the_modeling_document_asks() {
    let store = Store::in_memory().unwrap();
    let graph = records(&store);
    company(&graph, 5);
    let goals = |query: spikelet::relation::EdgeQuery<'_, _>| {
        query
            .sources()
            .unwrap()
            .0
            .into_iter()
            .map(|id| id.to_string())
            .collect::<BTreeSet<_>>()
    };
    let of_user = || graph.query("GOALMEMBERSHIP", &user(2)).unwrap();
    assert_eq!(
        goals(of_user().equal("500-LEAD")),
        BTreeSet::from(["GOAL-G2".to_owned()])
    );
    assert_eq!(
        goals(of_user().at_least("400-")),
        ["GOAL-G1", "GOAL-G2"].map(String::from).into()
    );
    // One condition narrows the range of another.
    let lead = || of_user().equal("500-LEAD");
    assert_eq!(goals(lead().at_least("400-")).len(), 1);
    assert_eq!(goals(lead().at_least("600-")).len(), 0);
    assert_eq!(goals(lead().less_than("600-")).len(), 1);
    assert_eq!(goals(lead().less_than("500-LEAD")).len(), 0);
    let from = || of_user().between("500-".."600-");
    assert_eq!(goals(from().at_least("400-")).len(), 1);
    assert_eq!(goals(from().less_than("700-")).len(), 1);
    assert_eq!(goals(of_user().sort(1).at_least("2020-07-01")).len(), 2);
    assert_eq!(goals(of_user().sort(1).at_least("2020-07-02")).len(), 0);
    let edge: Option<Membership> = graph.edge(&goal(2), "GOALMEMBERSHIP", &user(2)).unwrap();
    assert_eq!(edge, Some(member("LEAD")));
    graph
        .link(
            &goal(2),
            "GOALSUBSCRIBER",
            &user(0),
            &json!({ "date": "2020-07-02" }),
        )
        .unwrap();
    let page = graph
        .query("GOALSUBSCRIBER", &user(0))
        .unwrap()
        .nodes()
        .unwrap();
    assert_eq!(
        page.nodes[0].edges.len(),
        3,
        "the omitted type is not in the edge set"
    );
    assert_eq!(
        graph.query("FRIEND", &user(0)).unwrap_err().result_code(),
        4
    );
    assert_eq!(
        graph
            .put_node(&NodeId::new("ORG", "1"), &json!({ "a": 1 }))
            .unwrap_err()
            .result_code(),
        4
    );
}

#[test]
fn an_edge_set_that_outgrows_its_node_is_sharded() {
    let store = Store::in_memory().unwrap();
    let graph = records(&store).shard_policy(ShardPolicy::manual().record_bytes_max(1_000));
    graph
        .put_node(&goal(1), &json!({ "title": "all" }))
        .unwrap();
    for id in 0..200 {
        graph.put_node(&user(id), &json!({ "name": id })).unwrap();
        graph
            .link(&goal(1), "GOALMEMBERSHIP", &user(id), &member("LEAD"))
            .unwrap();
    }
    let page = graph
        .query("GOALMEMBERSHIP", &user(7))
        .unwrap()
        .nodes_with(&["USER"])
        .unwrap();
    assert_eq!((page.nodes[0].edges.len(), page.related.len()), (200, 200));
    graph
        .put_node(&goal(1), &json!({ "title": "renamed" }))
        .unwrap();
    assert!(graph.verify(Repair::No, go_on).unwrap().is_sound());
    assert!(
        graph
            .delete_node(&goal(1), OnDelete::Restrict, go_on)
            .is_err()
    );
    assert!(
        graph
            .delete_node(&goal(1), OnDelete::Detach, go_on)
            .unwrap()
    );
    assert_eq!(store.set("records_edges").unwrap().len(), 0);
    assert!(graph.node::<serde_json::Value>(&goal(1)).unwrap().is_none());
}

#[test]
fn a_kill_between_two_steps_leaves_an_edge_that_decides() {
    for add in [true, false] {
        for operations in 0.. {
            let (store, calls) = (Store::in_memory().unwrap(), Calls::default());
            let plain = records(&store);
            company(&plain, 2);
            let dying = records(Watched::new(&store, &calls));
            calls.die_after(operations);
            let ended = if add {
                dying
                    .link(&goal(0), "GOALMEMBERSHIP", &user(0), &member("TEAM"))
                    .is_ok()
            } else {
                dying.unlink(&goal(0), "GOALMEMBERSHIP", &user(0)).is_ok()
            };
            let audit = plain.verify(Repair::Yes, go_on).unwrap();
            for fault in &audit.faults {
                assert!(
                    matches!(fault, RelationFault::MissingAtSource { .. }),
                    "{fault}"
                );
            }
            assert!(plain.verify(Repair::No, go_on).unwrap().is_sound());
            if ended {
                assert!(audit.is_sound());
                break;
            }
        }
    }
}

#[test]
fn an_audit_finds_edges_of_nodes_that_others_deleted() {
    let store = Store::in_memory().unwrap();
    let graph = records(&store);
    company(&graph, 3);
    let careless = WritePolicy::default().override_shards(true);
    let nodes = store.set("records").unwrap();
    nodes.delete("USER-U1").unwrap_err();
    nodes.delete_with(&careless, "USER-U1").unwrap();
    let found = graph.verify(Repair::Yes, go_on).unwrap();
    assert_eq!(found.faults.len(), 2);
    assert!(
        found
            .faults
            .iter()
            .all(|fault| matches!(fault, RelationFault::Dangling { .. }))
    );
    assert!(graph.verify(Repair::No, go_on).unwrap().is_sound());
    let refused = graph.link(
        &goal(0),
        "GOALMEMBERSHIP",
        &user(0),
        &json!({ "source": "x" }),
    );
    assert!(matches!(refused.unwrap_err(), Error::Relation { .. }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn edges_are_those_of_a_naive_model(calls in prop::collection::vec((0..6_usize, 0..6_usize, 0..4_usize), 1..80)) {
        let store = Store::in_memory().unwrap();
        let graph = records(&store).shard_policy(ShardPolicy::manual().record_bytes_max(400));
        for id in 0..6 {
            graph.put_node(&goal(id), &json!({ "title": id })).unwrap();
            graph.put_node(&user(id), &json!({ "name": id })).unwrap();
        }
        let mut model: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (from, to, role) in calls {
            if role == 3 {
                let removed = graph.unlink(&goal(from), "GOALMEMBERSHIP", &user(to)).unwrap();
                prop_assert_eq!(removed, model.remove(&(from, to)).is_some());
            } else {
                graph.link(&goal(from), "GOALMEMBERSHIP", &user(to), &member(ROLES[role])).unwrap();
                model.insert((from, to), role);
            }
        }
        for id in 0..6 {
            let page = graph.query("GOALMEMBERSHIP", &user(id)).unwrap().at_least("400-").nodes().unwrap();
            let found: BTreeSet<NodeId> = page.nodes.iter().map(|node| node.id.clone()).collect();
            let expected = model.iter().filter(|((_, to), role)| *to == id && **role > 0).map(|((from, _), _)| goal(*from));
            prop_assert_eq!(found, expected.collect());
            for node in page.nodes {
                let degree = model.keys().filter(|(from, _)| goal(*from) == node.id).count();
                prop_assert_eq!(node.edges.len(), degree);
            }
        }
        prop_assert!(graph.verify(Repair::No, go_on).unwrap().is_sound());
    }
}

#[test]
fn names_that_the_graph_uses_itself_are_refused_and_nothing_is_overwritten() {
    let store = Store::in_memory().unwrap();
    let graph = records(&store);
    graph.put_node(&goal(1), &json!({ "title": "a" })).unwrap();
    graph.put_node(&user(1), &json!({ "name": "a" })).unwrap();
    let link = |name: &str| {
        let attributes = json!({ "memberRole": "LEAD", name: "mine" });
        graph.link(&goal(1), "GOALMEMBERSHIP", &user(1), &attributes)
    };
    for name in ["source", "target", "sort0", "sort1"] {
        let refused = link(name).unwrap_err();
        assert!(refused.to_string().contains(name), "{refused}");
    }
    link("sort2").unwrap();
    let refused = graph.put_node(&goal(1), &json!({ "edge_set": "mine" }));
    assert!(matches!(refused, Err(Error::Parameter(_))), "{refused:?}");
    assert!(graph.verify(Repair::No, go_on).unwrap().is_sound());
}

#[test]
fn ranks_of_any_length_sort_as_their_numbers() {
    let store = Store::in_memory().unwrap();
    let ranks = [("LOW", 5), ("MIDDLE", 400), ("HIGH", 1_000)];
    let edge_type = EdgeType::new("MEMBER").ranked_by("role", ranks);
    let graph = Graph::new(&store, "ranked", ["USER", "TEAM"], [edge_type]).unwrap();
    let team = NodeId::new("TEAM", "T1");
    for (id, (role, _)) in ranks.iter().enumerate() {
        graph
            .link(&user(id), "MEMBER", &team, &json!({ "role": role }))
            .unwrap();
    }
    let query = || graph.query("MEMBER", &team).unwrap();
    assert_eq!(query().sources().unwrap().0, [0, 1, 2].map(user));
    assert_eq!(
        query().at_least("0400-").sources().unwrap().0,
        [1, 2].map(user)
    );
}

#[test]
fn all_edges_of_a_large_node_are_looked_at() {
    let store = Store::in_memory().unwrap();
    let graph = records(&store).shard_policy(ShardPolicy::manual().record_bytes_max(16_000));
    graph
        .put_node(&goal(1), &json!({ "title": "all" }))
        .unwrap();
    for id in 0..1_500 {
        graph
            .link(&goal(1), "GOALMEMBERSHIP", &user(id), &member("LEAD"))
            .unwrap();
    }
    // Types stand in order, and users would come first if this one were a team that is called so.
    let owner = NodeId::new("TEAM", "Z9");
    let other = NodeId::new("USER", "U99999");
    for (node, name) in [(&owner, "owner"), (&other, "last")] {
        graph.put_node(node, &json!({ "name": name })).unwrap();
        graph
            .link(&goal(1), "GOALMEMBERSHIP", node, &member("TEAM"))
            .unwrap();
    }
    let query = graph.query("GOALMEMBERSHIP", &owner).unwrap();
    for (types, wanted) in [
        (&["TEAM"][..], vec![&owner]),
        (&["TEAM", "USER"], vec![&owner, &other]),
    ] {
        let page = query.nodes_with(types).unwrap();
        let related: Vec<&NodeId> = page.related.keys().collect();
        assert_eq!(related, wanted);
        assert_eq!(
            (page.nodes[0].edges.len(), page.nodes[0].has_more_edges),
            (1_000, true)
        );
    }
    let few = graph
        .query("GOALMEMBERSHIP", &user(3))
        .unwrap()
        .nodes()
        .unwrap();
    assert!(few.nodes[0].has_more_edges);
    // Page by page, in order, and each edge once.
    let (mut listed, mut token) = (Vec::new(), None::<String>);
    loop {
        let mut edges = graph.edges(&goal(1)).unwrap().limit(400);
        if let Some(token) = &token {
            edges = edges.after(token);
        }
        let (page, next) = edges.page().unwrap();
        listed.extend(page);
        match next {
            Some(next) => token = Some(next),
            None => break,
        }
    }
    assert_eq!(listed.len(), 1_502);
    assert!(listed.is_sorted_by(|a, b| a.target.to_string() < b.target.to_string()));
    assert_eq!(&*listed.last().unwrap().sort_key, "300-TEAM");
    assert_eq!(&*listed[7].sort_key, "500-LEAD");
    assert!(
        graph
            .verify(Repair::No, go_on)
            .unwrap()
            .faults
            .iter()
            .all(|fault| { matches!(fault, RelationFault::Dangling { .. }) })
    );
}

#[test]
fn edges_of_an_omitted_type_are_listed_from_their_source() {
    let store = Store::in_memory().unwrap();
    let graph = records(&store);
    for id in 0..5 {
        graph
            .link(
                &goal(1),
                "GOALSUBSCRIBER",
                &user(id),
                &json!({ "since": id }),
            )
            .unwrap();
        graph
            .link(&goal(2), "GOALSUBSCRIBER", &user(id), &json!({}))
            .unwrap();
    }
    graph
        .link(&goal(1), "GOALMEMBERSHIP", &user(9), &member("LEAD"))
        .unwrap();
    let targets = |edges: &[spikelet::relation::NodeEdge]| {
        edges
            .iter()
            .map(|edge| edge.target.clone())
            .collect::<Vec<_>>()
    };
    let (all, next) = graph.edges(&goal(1)).unwrap().page().unwrap();
    assert_eq!((all.len(), next), (6, None));
    let omitted = graph
        .edges(&goal(1))
        .unwrap()
        .of_type("GOALSUBSCRIBER")
        .unwrap();
    let (first, next) = omitted.clone().limit(3).page().unwrap();
    let (rest, end) = omitted.limit(3).after(&next.unwrap()).page().unwrap();
    assert_eq!(targets(&first), [user(0), user(1), user(2)]);
    assert_eq!((targets(&rest), end), (vec![user(3), user(4)], None));
    assert!(graph.edges(&goal(1)).unwrap().of_type("OTHER").is_err());
}

#[test]
fn sort_keys_are_asked_for_in_ranges() {
    let store = Store::in_memory().unwrap();
    let graph = records(&store);
    for (id, role, date) in [
        (1, "LEAD", "2020-07-01"),
        (2, "CONTRIBUTOR", "2020-07-15"),
        (3, "TEAM", "2020-08-01"),
    ] {
        let edge = Membership {
            member_role: role.into(),
            date: date.into(),
        };
        graph
            .link(&goal(id), "GOALMEMBERSHIP", &user(1), &edge)
            .unwrap();
    }
    let of_user = || graph.query("GOALMEMBERSHIP", &user(1)).unwrap();
    let goals = |query: spikelet::relation::EdgeQuery<'_, &Store>| {
        let (sources, next) = query.sources().unwrap();
        assert_eq!(next, None);
        sources
    };
    let dated = || of_user().sort(1);
    assert_eq!(goals(dated().begins_with("2020-07")), [goal(1), goal(2)]);
    assert_eq!(
        goals(dated().between("2020-07-02".."2020-08-01")),
        [goal(2)]
    );
    assert_eq!(
        goals(dated().between("2020-07-02"..="2020-08-01")),
        [goal(2), goal(3)]
    );
    assert_eq!(goals(dated().less_than("2020-07-15")), [goal(1)]);
    assert_eq!(
        goals(dated().at_least("2020-07-15").less_than("2020-08-01")),
        [goal(2)]
    );
    let july = || dated().begins_with("2020-07");
    assert_eq!(goals(july().at_least("2020-07-15")), [goal(2)]);
    assert_eq!(goals(july().at_least("2020-09")), []);
    let behind = dated().between((Bound::Excluded("2020-07-01"), Bound::Unbounded));
    assert_eq!(goals(behind.at_least("2020-07-01")), [goal(2), goal(3)]);
    assert_eq!(goals(of_user().less_than("400-")), [goal(3)]);
    assert_eq!(goals(of_user().equal("500-LEAD")), [goal(1)]);
}

#[test]
fn an_edge_shows_its_attributes_alone_and_nodes_come_in_one_batch() {
    let store = Store::in_memory().unwrap();
    let graph = records(&store);
    graph
        .link(&goal(1), "GOALMEMBERSHIP", &user(1), &member("LEAD"))
        .unwrap();
    let edge: BTreeMap<String, String> = graph
        .edge(&goal(1), "GOALMEMBERSHIP", &user(1))
        .unwrap()
        .unwrap();
    let names: Vec<&str> = edge.keys().map(String::as_str).collect();
    assert_eq!(names, ["date", "memberRole"]);
    let empty: BTreeMap<String, String> = {
        graph
            .link(&goal(1), "GOALSUBSCRIBER", &user(1), &json!({}))
            .unwrap();
        graph
            .edge(&goal(1), "GOALSUBSCRIBER", &user(1))
            .unwrap()
            .unwrap()
    };
    assert!(empty.is_empty());
    for id in [1, 3] {
        graph
            .put_node(&user(id), &json!({ "name": format!("U{id}") }))
            .unwrap();
    }
    let found: Vec<Option<BTreeMap<String, String>>> =
        graph.nodes(&[user(3), user(2), user(1)]).unwrap();
    let names: Vec<Option<&str>> = found
        .iter()
        .map(|user| {
            user.as_ref()
                .and_then(|user| user.get("name"))
                .map(String::as_str)
        })
        .collect();
    assert_eq!(names, [Some("U3"), None, Some("U1")]);
}

/// Prints times and sizes for `SPIKELET_EDGES` edges, 3,000 by default.
#[test]
fn very_many_edges_are_paged_in_order_and_audited() {
    let edges: usize =
        std::env::var("SPIKELET_EDGES").map_or(3_000, |edges| edges.parse().unwrap());
    let store = Store::in_memory().unwrap();
    let graph = records(&store);
    let begun = std::time::Instant::now();
    let owner = NodeId::new("TEAM", "Z9");
    let hub = goal(1);
    graph.put_node(&hub, &json!({ "title": "hub" })).unwrap();
    graph.put_node(&owner, &json!({ "name": "owner" })).unwrap();
    for id in 0..edges {
        graph
            .link(&hub, "GOALMEMBERSHIP", &user(id), &member("LEAD"))
            .unwrap();
    }
    graph
        .link(&hub, "GOALMEMBERSHIP", &owner, &member("TEAM"))
        .unwrap();
    println!("{edges} edges linked in {:?}", begun.elapsed());
    let begun = std::time::Instant::now();
    let query = graph.query("GOALMEMBERSHIP", &owner).unwrap();
    let page = query.nodes_with(&["TEAM"]).unwrap();
    assert_eq!(page.related.keys().collect::<Vec<_>>(), [&owner]);
    println!("the team among them found in {:?}", begun.elapsed());
    let begun = std::time::Instant::now();
    let (mut count, mut last, mut token) = (0, String::new(), None::<String>);
    loop {
        let mut listed = graph.edges(&hub).unwrap().limit(1_000);
        if let Some(token) = &token {
            listed = listed.after(token);
        }
        let (page, next) = listed.page().unwrap();
        for edge in page {
            let target = edge.target.to_string();
            assert!(last < target);
            (last, count) = (target, count + 1);
        }
        match next {
            Some(next) => token = Some(next),
            None => break,
        }
    }
    assert_eq!(count, edges + 1);
    println!("listed in order in {:?}", begun.elapsed());
    let begun = std::time::Instant::now();
    let audit = graph.verify(Repair::No, go_on).unwrap();
    // No user has a record.
    assert_eq!((audit.edges, audit.faults.len()), (edges as u64 + 1, edges));
    println!("audited in {:?}", begun.elapsed());
}
