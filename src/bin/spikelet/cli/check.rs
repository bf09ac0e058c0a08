//! The check of a graph that was loaded: every edge on both sides, and nothing beside them.

use std::convert::Infallible;

use indicatif::ProgressBar;
use spikelet::Key;

use super::adjacency::{Adjacency, Side};
use super::graph::{Edge, Graph};
use super::parallel::for_each;

/// The most faults that are described; all are counted.
const TOLD_MAX: usize = 10;

/// What the check found.
#[derive(Debug, Default)]
pub(crate) struct CheckResult {
    /// Edges that are there on both sides.
    pub(crate) verified_edges: u64,
    /// Edges that are missing on one side or on both.
    pub(crate) missing_edges: u64,
    /// Lists whose length is not the number of edges, and records of no node.
    pub(crate) wrong_sizes: u64,
    /// Whether the pages of the most followed node are not all of its followers in their order.
    pub(crate) wrong_pages: bool,
    /// The first faults, in words.
    pub(crate) faults: Vec<String>,
}

impl CheckResult {
    pub(crate) const fn is_sound(&self) -> bool {
        self.missing_edges == 0 && self.wrong_sizes == 0 && !self.wrong_pages
    }

    fn tell(&mut self, fault: impl FnOnce() -> String) {
        if self.faults.len() < TOLD_MAX {
            self.faults.push(fault());
        }
    }

    fn add(&mut self, other: Self) {
        self.verified_edges += other.verified_edges;
        self.missing_edges += other.missing_edges;
        self.wrong_sizes += other.wrong_sizes;
        self.faults.extend(other.faults);
        self.faults.truncate(TOLD_MAX);
    }

    fn edge(&mut self, adjacency: &Adjacency, graph: &Graph, edge: Edge) {
        let sides = [
            (edge.from, Side::Following, edge.to),
            (edge.to, Side::Followers, edge.from),
        ];
        let mut missing = false;
        for (node, side, other) in sides {
            let reason = match adjacency.contains(graph.ids.key(node), side, graph.ids.key(other)) {
                Ok(true) => continue,
                Ok(false) => "it is not in the list".to_owned(),
                Err(error) => error.to_string(),
            };
            missing = true;
            self.tell(|| {
                let (from, to) = (shown(graph, edge.from), shown(graph, edge.to));
                format!(
                    "{from} -> {to}, in \"{}\" of {}: {reason}",
                    side.name(),
                    shown(graph, node)
                )
            });
        }
        *(if missing {
            &mut self.missing_edges
        } else {
            &mut self.verified_edges
        }) += 1;
    }

    fn node(&mut self, adjacency: &Adjacency, graph: &Graph, node: u32) {
        for (side, degrees) in [
            (Side::Following, &graph.following),
            (Side::Followers, &graph.followers),
        ] {
            let expected = degrees.get(node as usize).copied().unwrap_or_default();
            let found = match adjacency.len(graph.ids.key(node), side) {
                Ok(found) if found == u64::from(expected) => continue,
                Ok(found) => found.to_string(),
                Err(error) => error.to_string(),
            };
            self.wrong_sizes += 1;
            self.tell(|| {
                let node = shown(graph, node);
                let list = side.name();
                format!("\"{list}\" of {node} should have {expected} elements: {found}")
            });
        }
    }
}

/// How many elements a page has.
const PAGE: u64 = 50;

impl CheckResult {
    /// Checks that the pages of the most followed node hold all of its followers, in order, however
    /// many records hold them.
    fn pages(&mut self, adjacency: &Adjacency, graph: &Graph) {
        let star = graph.most_followed();
        let mut expected = graph.followers_of(star);
        let mut found = Vec::with_capacity(expected.len());
        loop {
            let (key, at) = (graph.ids.key(star), found.len() as u64);
            match adjacency.page(key, Side::Followers, at, PAGE) {
                Ok(page) if page.is_empty() => break,
                Ok(page) => found.extend(page),
                Err(error) => {
                    self.wrong_pages = true;
                    self.tell(|| {
                        let node = shown(graph, star);
                        format!("the followers of {node} from {at} on cannot be read: {error}")
                    });
                    return;
                }
            }
            if found.len() > expected.len() {
                break;
            }
        }
        graph.ids.sort(&mut expected);
        let wanted: Vec<Key<'_>> = expected
            .iter()
            .map(|follower| graph.ids.key(*follower))
            .collect();
        if found != wanted {
            self.wrong_pages = true;
            self.tell(|| {
                let at = found
                    .iter()
                    .zip(&wanted)
                    .position(|(found, wanted)| found != wanted)
                    .unwrap_or_else(|| found.len().min(wanted.len()));
                let node = shown(graph, star);
                format!("the pages of the followers of {node} are wrong from position {at} on")
            });
        }
    }

    fn records(&mut self, adjacency: &Adjacency, graph: &Graph) {
        let expected = adjacency.roots_of(&graph.following, &graph.followers);
        let found = match adjacency.records() {
            Ok(records) if records.roots == expected => return,
            Ok(records) => records.roots.to_string(),
            Err(error) => error.to_string(),
        };
        self.wrong_sizes += 1;
        self.tell(|| format!("the graph asks for {expected} records of nodes: {found}"));
    }
}

fn shown(graph: &Graph, node: u32) -> String {
    crate::report::key(&graph.ids.key(node))
}

/// Checks every edge on both sides, and the length of every list, from `threads` threads. A record
/// that cannot be read counts as missing.
pub(crate) fn check(
    adjacency: &Adjacency,
    graph: &Graph,
    threads: usize,
    progress: &ProgressBar,
) -> CheckResult {
    let none = |_| CheckResult::default();
    let Ok(by_edges) = for_each(&graph.edges, threads, progress, none, |own, edge| {
        own.edge(adjacency, graph, *edge);
        Ok::<_, Infallible>(())
    });
    let nodes: Vec<u32> = (0..graph.ids.len() as u32).collect();
    let hidden = ProgressBar::hidden();
    let Ok(by_nodes) = for_each(&nodes, threads, &hidden, none, |own, node| {
        own.node(adjacency, graph, *node);
        Ok::<_, Infallible>(())
    });
    let mut checked = CheckResult::default();
    for part in by_edges.into_iter().chain(by_nodes) {
        checked.add(part);
    }
    checked.pages(adjacency, graph);
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
