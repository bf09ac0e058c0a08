//! Heavy-tailed follow graphs, made from a seed.
//!
//! The n-th most followed node gets followers in proportion to n^(-3/4), so of some ten thousand
//! nodes a few have thousands and most have a handful; who follows is drawn evenly. The power is
//! made of square roots, which are exact to the last bit everywhere: a seed gives the same graph on
//! every machine.

use std::collections::HashSet;

use super::graph::{Edge, Graph, NodeIds};
use crate::random::Random;

/// Returns the largest possible number of edges without self-loops.
pub(crate) fn edges_max(nodes: u32) -> u64 {
    u64::from(nodes) * u64::from(nodes.saturating_sub(1))
}

/// Generates a graph of `nodes` nodes, numbered from 0, and `edges` distinct edges without
/// self-loops, at most [`edges_max`]. With at least as many edges as nodes, each node has a
/// follower. O(edges).
pub(crate) fn generate(nodes: u32, edges: u64, seed: u64) -> Graph {
    let mut random = Random::new(seed);
    let mut ranked: Vec<u32> = (0..nodes).collect();
    shuffle(&mut random, &mut ranked);
    let mut made = Vec::with_capacity(edges.min(edges_max(nodes)) as usize);
    for (node, followers) in ranked.into_iter().zip(followers_by_rank(nodes, edges)) {
        // The others are numbered without a gap, so that a node never draws itself.
        let others = distinct(&mut random, nodes - 1, followers);
        made.extend(others.into_iter().map(|other| Edge {
            from: other + u32::from(other >= node),
            to: node,
        }));
    }
    shuffle(&mut random, &mut made);
    without_lonely_nodes(nodes, made)
}

/// Returns the number of followers of each node, the most followed first.
fn followers_by_rank(nodes: u32, edges: u64) -> Vec<u32> {
    let base = u32::from(edges >= u64::from(nodes));
    let mut left = edges.min(edges_max(nodes)) - u64::from(base) * u64::from(nodes);
    let weight = |rank: u32| {
        let root = (f64::from(rank) + 1.0).sqrt();
        1.0 / (root * root.sqrt())
    };
    let mut weight_left: f64 = (0..nodes).map(weight).sum();
    let most = u64::from(nodes.saturating_sub(1 + base));
    let share_of = |rank: u32| {
        // Never less than an even share, and rounded up: the rest then always fits into the
        // ranks that are left.
        let even = left.div_ceil(u64::from(nodes - rank));
        let share = (left as f64 * weight(rank) / weight_left).ceil() as u64;
        let share = share.max(even).min(most).min(left);
        left -= share;
        weight_left -= weight(rank);
        base + share as u32
    };
    (0..nodes).map(share_of).collect()
}

/// Draws `count` different numbers below `bound` by Floyd's method: one draw each.
fn distinct(random: &mut Random, bound: u32, count: u32) -> Vec<u32> {
    let mut chosen = HashSet::with_capacity(count as usize);
    let mut in_order = Vec::with_capacity(count as usize);
    for last in bound - count.min(bound)..bound {
        let drawn = random.below(u64::from(last) + 1) as u32;
        let number = if chosen.insert(drawn) { drawn } else { last };
        chosen.insert(number);
        in_order.push(number);
    }
    in_order
}

/// Puts items into a random order: each order has the same chance.
fn shuffle<T>(random: &mut Random, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// Returns a graph of the nodes that have an edge. Others exist only where there are fewer edges
/// than nodes.
fn without_lonely_nodes(nodes: u32, mut edges: Vec<Edge>) -> Graph {
    let mut numbers = vec![None; nodes as usize];
    for node in edges.iter().flat_map(|edge| [edge.from, edge.to]) {
        if let Some(number) = numbers.get_mut(node as usize) {
            *number = Some(0);
        }
    }
    let mut ids = Vec::new();
    for (id, number) in (0..)
        .zip(&mut numbers)
        .filter(|(_, number)| number.is_some())
    {
        *number = Some(ids.len() as u32);
        ids.push(id);
    }
    for node in edges
        .iter_mut()
        .flat_map(|edge| [&mut edge.from, &mut edge.to])
    {
        *node = numbers
            .get(*node as usize)
            .copied()
            .flatten()
            .unwrap_or_default();
    }
    Graph::new(NodeIds::Integers(ids), edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_graph_and_another_seed_another() {
        let graph = generate(500, 4_000, 7);
        assert_eq!(graph, generate(500, 4_000, 7));
        assert_ne!(graph, generate(500, 4_000, 8));
    }

    #[test]
    fn the_graph_of_a_seed_never_changes() {
        let graph = generate(5, 6, 1);
        let edges: Vec<_> = graph
            .edges
            .iter()
            .map(|edge| (edge.from, edge.to))
            .collect();
        assert_eq!(edges, [(4, 2), (2, 1), (1, 4), (4, 1), (2, 3), (4, 0)]);
    }

    #[test]
    fn edges_are_distinct_and_nobody_follows_himself() {
        for (nodes, edges) in [
            (2, 1),
            (2, 2),
            (3, 6),
            (10, 90),
            (100, 99),
            (100, 700),
            (1_000, 20_000),
        ] {
            let graph = generate(nodes, edges, 3);
            let distinct: HashSet<_> = graph.edges.iter().collect();
            assert_eq!(distinct.len() as u64, edges, "{nodes} nodes");
            assert!(
                graph.edges.iter().all(|edge| edge.from != edge.to),
                "{nodes} nodes, {edges} edges"
            );
            assert_eq!(
                graph
                    .followers
                    .iter()
                    .map(|degree| u64::from(*degree))
                    .sum::<u64>(),
                edges
            );
        }
    }

    #[test]
    fn with_enough_edges_every_node_has_a_follower() {
        let graph = generate(1_000, 1_000, 5);
        assert_eq!(graph.ids, NodeIds::Integers((0..1_000).collect()));
        assert!(graph.followers.iter().all(|degree| *degree > 0));
    }

    #[test]
    fn nodes_without_edges_are_no_part_of_the_graph() {
        let graph = generate(1_000, 10, 5);
        assert!(graph.ids.len() <= 20);
        assert!(
            graph
                .following
                .iter()
                .zip(&graph.followers)
                .all(|(out, into)| out + into > 0)
        );
    }

    #[test]
    fn a_few_nodes_have_thousands_of_followers_and_most_have_a_handful() {
        let graph = generate(37_700, 289_003, 1);
        let mut degrees = graph.followers.clone();
        degrees.sort_unstable_by(|one, other| other.cmp(one));
        assert!((3_000..8_000).contains(&degrees[0]), "{}", degrees[0]);
        assert!(degrees[4] > 1_000, "{}", degrees[4]);
        assert!(degrees[200] > 50, "{}", degrees[200]);
        assert!(degrees[18_850] < 10, "{}", degrees[18_850]);
        let top_hundredth: u32 = degrees.iter().take(377).sum();
        assert!(top_hundredth > 289_003 / 5, "{top_hundredth}");
    }

    #[test]
    fn the_fights_over_a_hot_node_are_spread_over_the_whole_load() {
        let graph = generate(2_000, 20_000, 9);
        let hot = graph.most_followed();
        let half = |edges: &[Edge]| edges.iter().filter(|edge| edge.to == hot).count();
        let (first, second) = graph.edges.split_at(10_000);
        let (first, second) = (half(first), half(second));
        assert!(
            first * 3 > second && second * 3 > first,
            "{first} and {second}"
        );
    }
}
