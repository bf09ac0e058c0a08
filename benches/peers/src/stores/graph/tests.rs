use super::*;
use crate::draw::{Random, is_value_of, value};
use crate::edges::Edges;
use std::collections::{BTreeMap, BTreeSet};

/// Who follows whom, as sets: short enough to be seen to be right.
fn naive(edges: &[Edge]) -> [BTreeMap<Node, BTreeSet<Node>>; 2] {
    let mut sides = [BTreeMap::new(), BTreeMap::new()];
    for (source, target) in edges {
        let [following, followers] = &mut sides;
        let of: &mut BTreeSet<Node> = following.entry(*source).or_default();
        of.insert(*target);
        let of: &mut BTreeSet<Node> = followers.entry(*target).or_default();
        of.insert(*source);
    }
    sides
}

fn every_store(edges: &Edges, check: impl Fn(StoreName, &dyn GraphStore)) {
    for name in TAKE_PART {
        let dir = tempfile::tempdir().unwrap();
        let store = name.open_graph(dir.path()).unwrap();
        let mut random = Random::new(1, 2, 3);
        let nodes = edges
            .nodes()
            .map(|node| (node, value(node.into(), &mut random)));
        store.add_nodes(&nodes.collect::<Vec<_>>()).unwrap();
        let (first, rest) = edges.in_order().split_at(edges.in_order().len() / 2);
        for edge in first {
            store.link(&[*edge]).unwrap();
        }
        store.link(rest).unwrap();
        check(name, store.as_ref());
    }
}

#[test]
fn every_store_has_the_edges_that_a_naive_graph_has() {
    let edges = Edges::generated(500);
    let [following, followers] = naive(edges.in_order());
    let none = BTreeSet::new();
    every_store(&edges, |name, store| {
        for node in edges.nodes().chain([999_999]) {
            let targets = following.get(&node).unwrap_or(&none);
            for other in edges.nodes().chain([999_999]) {
                let found = store.follows((node, other)).unwrap();
                assert_eq!(found, targets.contains(&other), "{name:?} {node} {other}");
            }
            let mut page = Vec::new();
            let mut lend = |follower: Node, record: &[u8]| {
                assert!(is_value_of(follower.into(), record), "{name:?} {follower}");
                page.push(follower);
            };
            store.followers(node, 7, &mut lend).unwrap();
            let sources = followers.get(&node).unwrap_or(&none);
            let first: Vec<Node> = sources.iter().copied().take(7).collect();
            assert_eq!(page, first, "{name:?} {node}");
        }
        store.sync().unwrap();
    });
}

#[test]
fn every_store_reaches_what_a_naive_graph_reaches() {
    let edges = Edges::generated(500);
    let [following, _] = naive(edges.in_order());
    every_store(&edges, |name, store| {
        for node in edges.nodes().chain([999_999]) {
            let near = following.get(&node).into_iter().flatten();
            let far = near.clone().filter_map(|near| following.get(near));
            let mut reached: BTreeSet<&Node> = near.chain(far.flatten()).collect();
            reached.remove(&node);
            let found = store.reached_by_two(node).unwrap();
            assert_eq!(found, reached.len() as u64, "{name:?} {node}");
        }
    });
}

#[test]
fn an_edge_that_is_there_may_be_added_again() {
    let edges = Edges::generated(50);
    every_store(&edges, |name, store| {
        let edge = edges.in_order()[0];
        store.link(&[edge]).unwrap();
        let mut count = 0;
        store
            .followers(edge.1, 1_000, &mut |_, _| count += 1)
            .unwrap();
        let expected = edges.in_order().iter().filter(|other| other.1 == edge.1);
        assert_eq!(count, expected.count(), "{name:?}");
    });
}
