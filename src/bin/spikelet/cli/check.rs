//! The check of a graph that was loaded: every list of every node, in its order, and no record
//! beside them.

use std::collections::HashSet;
use std::convert::Infallible;

use indicatif::ProgressBar;
use spikelet::Key;

use super::adjacency::{Adjacency, RecordCounts, Side};
use super::graph::{Edge, Graph};
use super::parallel::for_each;

/// The most faults that are described; all are counted.
const TOLD_MAX: usize = 10;

/// How many elements a page has.
const PAGE: u64 = 1_000;

/// What the check found.
#[derive(Debug, Default)]
pub(crate) struct CheckResult {
    /// Edges that are there on both sides.
    pub(crate) verified_edges: u64,
    /// Edges that are missing on one side or on both.
    pub(crate) missing_edges: u64,
    /// Lists that are longer or shorter than the number of edges, and records of no node.
    pub(crate) wrong_sizes: u64,
    /// Lists that are not in order.
    pub(crate) wrong_orders: u64,
    /// The first faults, in words.
    pub(crate) faults: Vec<String>,
    missing: HashSet<Edge>,
    /// The records; none if they cannot be read.
    pub(crate) records: RecordCounts,
}

impl CheckResult {
    pub(crate) const fn is_sound(&self) -> bool {
        self.missing_edges == 0 && self.wrong_sizes == 0 && self.wrong_orders == 0
    }

    fn tell(&mut self, fault: impl FnOnce() -> String) {
        if self.faults.len() < TOLD_MAX {
            self.faults.push(fault());
        }
    }

    /// Reads a list page by page, and compares it with the nodes that it should have.
    fn list(&mut self, adjacency: &Adjacency, graph: &Graph, list: &NodeList) {
        let NodeList { node, side, others } = list;
        let (mut found, mut why) = (Vec::new(), "it is not in the list".to_owned());
        while found.len() <= others.len() {
            let list = adjacency.list(graph.ids.key(*node), *side);
            match list.page(found.len() as u64, PAGE) {
                Ok(page) if page.is_empty() => break,
                Ok(page) => found.extend(page),
                Err(error) => {
                    why = error.to_string();
                    break;
                }
            }
        }
        let wanted: Vec<Key<'_>> = others.iter().map(|other| graph.ids.key(*other)).collect();
        if found == wanted {
            return;
        }
        let (name, shown_node) = (side.name(), shown(graph, *node));
        let there: HashSet<&Key<'_>> = found.iter().collect();
        let absent = others.iter().zip(&wanted);
        for (other, _) in absent.filter(|(_, key)| !there.contains(key)) {
            let (from, to) = match side {
                Side::Following => (*node, *other),
                Side::Followers => (*other, *node),
            };
            self.missing.insert(Edge { from, to });
            let (from, to) = (shown(graph, from), shown(graph, to));
            self.tell(|| format!("{from} -> {to}, in \"{name}\" of {shown_node}: {why}"));
        }
        if found.len() == wanted.len() {
            self.wrong_orders += 1;
            self.tell(|| format!("\"{name}\" of {shown_node} is not in its order"));
        } else {
            self.wrong_sizes += 1;
            let (wanted, found) = (wanted.len(), found.len());
            self.tell(|| format!("\"{name}\" of {shown_node} has {found} elements, not {wanted}"));
        }
    }

    fn records(&mut self, adjacency: &Adjacency, graph: &Graph) {
        let expected = adjacency.roots_of(&graph.following, &graph.followers);
        let found = match adjacency.records() {
            Ok(records) => {
                self.records = records;
                self.records.roots.to_string()
            }
            Err(error) => error.to_string(),
        };
        if found != expected.to_string() {
            self.wrong_sizes += 1;
            self.tell(|| format!("records of nodes: {found}, where the graph has {expected}"));
        }
    }
}

/// A list as it should be: the nodes in the order of their keys.
struct NodeList {
    node: u32,
    side: Side,
    others: Vec<u32>,
}

/// Returns both lists of every node.
fn lists(graph: &Graph) -> Vec<NodeList> {
    let mut lists = Vec::new();
    for side in Side::BOTH {
        let nodes = 0..graph.ids.len() as u32;
        let first = lists.len();
        lists.extend(nodes.map(|node| NodeList {
            node,
            side,
            others: Vec::new(),
        }));
        for Edge { from, to } in &graph.edges {
            let (node, other) = match side {
                Side::Following => (from, to),
                Side::Followers => (to, from),
            };
            if let Some(list) = lists.get_mut(first + *node as usize) {
                list.others.push(*other);
            }
        }
    }
    lists
        .iter_mut()
        .for_each(|list| graph.ids.sort(&mut list.others));
    lists
}

fn shown(graph: &Graph, node: u32) -> String {
    crate::report::key(&graph.ids.key(node))
}

/// Checks every list of every node from `threads` threads, and so every edge on both sides, and
/// counts the records. Elements of a list that cannot be read count as missing. `progress` counts
/// the lists.
pub(crate) fn check(
    adjacency: &Adjacency,
    graph: &Graph,
    threads: usize,
    progress: &ProgressBar,
) -> CheckResult {
    let lists = lists(graph);
    progress.set_length(lists.len() as u64);
    let none = |_| CheckResult::default();
    let Ok(parts) = for_each(&lists, threads, progress, none, |own, list| {
        own.list(adjacency, graph, list);
        Ok::<_, Infallible>(())
    });
    let mut checked = CheckResult::default();
    for part in parts {
        checked.wrong_sizes += part.wrong_sizes;
        checked.wrong_orders += part.wrong_orders;
        checked.missing.extend(part.missing);
        checked.faults.extend(part.faults);
    }
    checked.faults.truncate(TOLD_MAX);
    checked.missing_edges = checked.missing.len() as u64;
    checked.verified_edges = graph.edges.len() as u64 - checked.missing_edges;
    checked.records(adjacency, graph);
    checked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::edges::parse;
    use crate::cli::load::{EdgeForm, load};
    use spikelet::operations::lists;
    use spikelet::{ListReturnType, Set, Store};

    fn checked_after(harm: impl FnOnce(&Set)) -> CheckResult {
        let graph = parse(b"1,2\n1,3\n2,3\n").unwrap().graph;
        let namespace = Store::in_memory().unwrap().namespace("test").unwrap();
        let adjacency = Adjacency::new(namespace.clone(), None).unwrap();
        load(
            &adjacency,
            &graph,
            EdgeForm::Transaction,
            2,
            &ProgressBar::hidden(),
        )
        .unwrap();
        harm(&namespace.set(crate::cli::adjacency::SET).unwrap());
        check(&adjacency, &graph, 2, &ProgressBar::hidden())
    }

    #[test]
    fn a_graph_that_was_loaded_is_sound() {
        let checked = checked_after(|_| ());
        assert!(checked.is_sound(), "{:?}", checked.faults);
        assert_eq!(checked.verified_edges, 3);
    }

    #[test]
    fn an_edge_that_is_missing_on_one_side_is_told() {
        let checked = checked_after(|users| {
            users
                .operate(
                    3,
                    &[lists::remove_by_value(
                        Side::Followers.name(),
                        1,
                        ListReturnType::None,
                    )],
                )
                .unwrap();
        });
        assert_eq!(
            (
                checked.verified_edges,
                checked.missing_edges,
                checked.wrong_sizes
            ),
            (2, 1, 1)
        );
        assert!(
            checked.faults[0].starts_with("1 -> 3, in \"followers\" of 3"),
            "{:?}",
            checked.faults
        );
        assert!(!checked.is_sound());
    }

    #[test]
    fn a_record_that_is_gone_takes_its_edges_with_it() {
        let policy = spikelet::WritePolicy::default().override_shards(true);
        let checked =
            checked_after(|users| assert!(users.delete_with(&policy, 1).unwrap().is_some()));
        assert_eq!((checked.verified_edges, checked.missing_edges), (1, 2));
    }

    #[test]
    fn elements_and_records_too_many_are_told() {
        let policy = spikelet::ListPolicy::default();
        let checked = checked_after(|users| {
            users
                .operate(1, &[lists::append(&policy, Side::Following.name(), 9)])
                .unwrap();
        });
        assert_eq!((checked.missing_edges, checked.wrong_sizes), (0, 1));
        assert!(checked_after(|users| assert!(users.put(9, [("x", 1)]).is_ok())).wrong_sizes == 1);
    }
}
