//! The check of a graph that was loaded: every edge on both sides, and nothing beside them.

use std::convert::Infallible;

use indicatif::ProgressBar;
use spikelet::operations::lists;
use spikelet::{Error, Key, Result, Set, Value};

use super::ask::contains;
use super::deal::deal;
use super::graph::{Edge, Graph};
use super::load::{FOLLOWERS, FOLLOWING};

/// How many faults are told one by one; all are counted.
const TOLD_MAX: usize = 10;

/// What the check found.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Edges that are there on both sides.
    pub(crate) verified_edges: u64,
    /// Edges that are missing on one side or on both.
    pub(crate) missing_edges: u64,
    /// Lists whose length is not the number of edges, and records of no node.
    pub(crate) wrong_sizes: u64,
    /// The first faults, in words.
    pub(crate) faults: Vec<String>,
}

impl Checked {
    pub(crate) const fn is_sound(&self) -> bool {
        self.missing_edges == 0 && self.wrong_sizes == 0
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

    fn edge(&mut self, users: &Set, graph: &Graph, edge: Edge) {
        let sides = [
            (edge.from, FOLLOWING, edge.to),
            (edge.to, FOLLOWERS, edge.from),
        ];
        let mut missing = false;
        for (node, bin, other) in sides {
            let reason = match contains(users, graph.ids.key(node), bin, graph.ids.value(other)) {
                Ok(true) => continue,
                Ok(false) => "it is not in the list".to_owned(),
                Err(error) => error.to_string(),
            };
            missing = true;
            self.tell(|| {
                let (from, to) = (shown(graph, edge.from), shown(graph, edge.to));
                format!(
                    "{from} -> {to}, in \"{bin}\" of {}: {reason}",
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

    fn node(&mut self, users: &Set, graph: &Graph, node: u32) {
        for (bin, degrees) in [(FOLLOWING, &graph.following), (FOLLOWERS, &graph.followers)] {
            let expected = degrees.get(node as usize).copied().unwrap_or_default();
            let found = match size(users, graph.ids.key(node), bin) {
                Ok(found) if found == i64::from(expected) => continue,
                Ok(found) => found.to_string(),
                Err(error) => error.to_string(),
            };
            self.wrong_sizes += 1;
            self.tell(|| {
                let node = shown(graph, node);
                format!("\"{bin}\" of {node} should have {expected} elements: {found}")
            });
        }
    }
}

fn shown(graph: &Graph, node: u32) -> String {
    super::print::key(&graph.ids.key(node))
}

/// The length of a list; 0 if there is none.
fn size(users: &Set, key: Key<'_>, bin: &str) -> Result<i64> {
    match users.operate(key, &[lists::size(bin)]) {
        Ok(answer) => Ok(match answer.value(0) {
            Some(Value::Int(size)) => *size,
            _ => 0,
        }),
        Err(Error::NotFound) => Ok(0),
        Err(other) => Err(other),
    }
}

/// Checks every edge on both sides, and the length of every list, from so many threads. A record that cannot be read
/// counts as missing.
pub(crate) fn check(users: &Set, graph: &Graph, threads: usize, progress: &ProgressBar) -> Checked {
    let none = |_| Checked::default();
    let Ok(by_edges) = deal(&graph.edges, threads, progress, none, |own, edge| {
        own.edge(users, graph, *edge);
        Ok::<_, Infallible>(())
    });
    let nodes: Vec<u32> = (0..graph.ids.len() as u32).collect();
    let Ok(by_nodes) = deal(
        &nodes,
        threads,
        &ProgressBar::hidden(),
        none,
        |own, node| {
            own.node(users, graph, *node);
            Ok::<_, Infallible>(())
        },
    );
    let mut checked = Checked::default();
    for part in by_edges.into_iter().chain(by_nodes) {
        checked.add(part);
    }
    let (expected, found) = (graph.ids.len() as u64, users.len());
    if found != expected {
        checked.wrong_sizes += 1;
        checked.tell(|| format!("the set has {found} records, the graph {expected} nodes"));
    }
    checked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::edges::parse;
    use crate::cli::load::load;
    use spikelet::{ListReturnType, Store};

    fn checked_after(harm: impl FnOnce(&Set)) -> Checked {
        let graph = parse(b"1,2\n1,3\n2,3\n").unwrap().graph;
        let users = Store::in_memory().unwrap().set("users").unwrap();
        load(&users, &graph, 2, &ProgressBar::hidden()).unwrap();
        harm(&users);
        check(&users, &graph, 2, &ProgressBar::hidden())
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
                    &[lists::remove_by_value(FOLLOWERS, 1, ListReturnType::None)],
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
        let checked = checked_after(|users| assert!(users.delete(1).unwrap()));
        assert_eq!((checked.verified_edges, checked.missing_edges), (1, 2));
    }

    #[test]
    fn elements_and_records_too_many_are_told() {
        let policy = spikelet::ListPolicy::default();
        let checked = checked_after(|users| {
            users
                .operate(1, &[lists::append(&policy, FOLLOWING, 9)])
                .unwrap();
        });
        assert_eq!((checked.missing_edges, checked.wrong_sizes), (0, 1));
        assert!(checked_after(|users| users.put(9, [("x", 1)]).unwrap()).wrong_sizes == 1);
    }
}
