//! The graph phases: who follows whom. Edges are added at both ends in one transaction, asked for,
//! and followed.

use crate::cost::Meter;
use crate::draw::{Random, is_value_of, value};
use crate::edges::Edges;
use crate::measure::{Measured, measure};
use crate::plan::{Phase, Plan};
use crate::report::Report;
use crate::stores::StoreName;
use crate::stores::graph::{Edge, GraphStore, Node};
use crate::{Opened, Result};
use std::time::Duration;

/// Edges of one transaction of the load.
pub const GROUP_EDGES: usize = 100;
/// One in this number of edges is held back for the phase that adds single edges.
const HELD_BACK: usize = 10;
/// Followers of a page.
const PAGE: usize = 50;
/// Records of one call of `add_nodes`.
const BATCH_NODES: usize = 1_000;
/// How long pages are read to check a bulk load.
const CHECKED: Duration = Duration::from_millis(100);
/// Seed of the records.
const NODES: u64 = 0x60de;

/// A loaded graph, and the expected answers.
struct Graph<'r> {
    store: &'r dyn GraphStore,
    edges: &'r Edges,
    /// How many of the edges were added, the first ones.
    linked: usize,
    /// Followers of each node.
    followers: Vec<u32>,
}

/// Runs the phases on a store of their own.
///
/// # Errors
/// Errors of the store; a wrong answer.
pub fn run(
    plan: &Plan,
    edges: &Edges,
    round: usize,
    name: StoreName,
    phases: &[Phase],
    report: &mut Report,
) -> Result<()> {
    let opened = Opened::new(plan, |dir| name.open_graph(dir))?;
    let (store, dir) = (opened.store.as_ref(), opened.dir.path());
    add_nodes(store, edges)?;
    let mut graph = Graph {
        store,
        edges,
        linked: 0,
        followers: vec![0; edges.nodes().len()],
    };
    let meter = Meter::start(store, dir)?;
    let loaded = graph.load()?;
    let cost = meter.stop(store, dir, loaded.operations)?;
    if phases.contains(&Phase::GraphLoad) {
        report.add(Phase::GraphLoad, 1, name, loaded, cost);
    }
    for phase in phases
        .iter()
        .copied()
        .filter(|phase| *phase != Phase::GraphLoad)
    {
        let meter = Meter::start(store, dir)?;
        let span = plan.span_of(phase);
        let measured = match phase {
            Phase::GraphLink => graph.link(span)?,
            Phase::GraphFollows => graph.ask(round, span)?,
            Phase::GraphPage => graph.pages(round, span)?,
            _ => graph.two_hops(round, span)?,
        };
        let cost = meter.stop(store, dir, measured.operations)?;
        report.add(phase, 1, name, measured, cost);
    }
    Ok(())
}

/// Runs a phase that adds all edges to an empty graph, batch by batch.
///
/// # Errors
/// Errors of the store, and a wrong answer.
pub fn run_bulk(
    plan: &Plan,
    edges: &Edges,
    round: usize,
    name: StoreName,
    phase: Phase,
    report: &mut Report,
) -> Result<()> {
    let opened = Opened::new(plan, |dir| name.open_graph(dir))?;
    let (store, dir) = (opened.store.as_ref(), opened.dir.path());
    add_nodes(store, edges)?;
    let all = edges.in_order();
    let meter = Meter::start(store, dir)?;
    let mut linked = measure(1, None, |_| {
        let mut batches = all.chunks(phase.batch_edges());
        (
            move || batches.next(),
            |batch: &&[Edge]| store.link_batch(batch),
        )
    })?;
    linked.operations = all.len() as u64;
    let cost = meter.stop(store, dir, linked.operations)?;
    report.add(phase, 1, name, linked, cost);
    let mut followers = vec![0; edges.nodes().len()];
    for (_, target) in all {
        if let Some(followers) = followers.get_mut(*target as usize) {
            *followers += 1;
        }
    }
    let graph = Graph {
        store,
        edges,
        linked: all.len(),
        followers,
    };
    graph.pages(round, CHECKED)?;
    Ok(())
}

/// Stores a record for each node.
fn add_nodes(store: &dyn GraphStore, edges: &Edges) -> Result<()> {
    let mut random = Random::new(NODES, 0, 0);
    for first in edges.nodes().step_by(BATCH_NODES) {
        let nodes = first..edges.nodes().end.min(first + BATCH_NODES as Node);
        let record = |node| (node, value(u64::from(node), &mut random));
        store.add_nodes(&nodes.map(record).collect::<Vec<_>>())?;
    }
    store.sync()
}

impl Graph<'_> {
    /// Adds all edges but those held back; an operation is a transaction of [`GROUP_EDGES`], rates
    /// are of edges.
    fn load(&mut self) -> Result<Measured> {
        let all = self.edges.in_order();
        let linked = all.len() - all.len() / HELD_BACK;
        let store = self.store;
        let mut loaded = measure(1, None, |_| {
            let mut groups = all.get(..linked).unwrap_or_default().chunks(GROUP_EDGES);
            (move || groups.next(), |group: &&[Edge]| store.link(group))
        })?;
        loaded.operations = linked as u64;
        self.count(linked);
        Ok(loaded)
    }

    /// Adds those held back, a transaction each, until none is left or the time is over.
    fn link(&mut self, span: Duration) -> Result<Measured> {
        let held_back = self.edges.in_order().get(self.linked..).unwrap_or_default();
        let store = self.store;
        let linked = measure(1, Some(span), |_| {
            let mut edges = held_back.chunks(1);
            (move || edges.next(), |edge: &&[Edge]| store.link(edge))
        })?;
        self.count(self.linked + linked.operations as usize);
        Ok(linked)
    }

    /// Takes the edges up to `linked` into the counts.
    fn count(&mut self, linked: usize) {
        let new = self.edges.in_order().get(self.linked..linked);
        for (_, target) in new.unwrap_or_default() {
            if let Some(followers) = self.followers.get_mut(*target as usize) {
                *followers += 1;
            }
        }
        self.linked = linked;
    }

    /// Draws an edge of the added ones, its ends by their degrees.
    fn drawn(&self, random: &mut Random) -> Option<Edge> {
        let place = random.below(self.linked as u64);
        self.edges.in_order().get(place as usize).copied()
    }

    /// Asks for edges, of which half are there.
    fn ask(&self, round: usize, span: Duration) -> Result<Measured> {
        measure(1, Some(span), |thread| {
            let mut random = Random::new(Phase::GraphFollows as u64, round, thread);
            let draw = move || {
                let edge = self.drawn(&mut random)?;
                let mixed = (edge.0, self.drawn(&mut random)?.1);
                // An edge that was held back is neither.
                let is_there = random.below(2) == 0 || self.edges.contains(mixed);
                Some(if is_there {
                    (edge, true)
                } else {
                    (mixed, false)
                })
            };
            (draw, |(edge, is_there): &(Edge, bool)| {
                if self.store.follows(*edge)? == *is_there {
                    return Ok(());
                }
                Err(format!("edge {edge:?}: it is not true that it is there: {is_there}").into())
            })
        })
    }

    /// Reads the first [`PAGE`] followers of a node with their records.
    fn pages(&self, round: usize, span: Duration) -> Result<Measured> {
        measure(1, Some(span), |thread| {
            let mut random = Random::new(Phase::GraphPage as u64, round, thread);
            let draw = move || Some(self.drawn(&mut random)?.1);
            (draw, |node: &Node| self.page(*node))
        })
    }

    fn page(&self, node: Node) -> Result<()> {
        let (mut found, mut right) = (0, 0);
        self.store.followers(node, PAGE, &mut |follower, record| {
            found += 1;
            right += usize::from(is_value_of(u64::from(follower), record));
        })?;
        let followers = self.followers.get(node as usize).copied();
        let expected = PAGE.min(followers.unwrap_or_default() as usize);
        if (found, right) == (expected, expected) {
            return Ok(());
        }
        Err(format!("node {node}: {found} followers, {right} of them right, not {expected}").into())
    }

    /// Counts the nodes reached from a node by two edges.
    fn two_hops(&self, round: usize, span: Duration) -> Result<Measured> {
        measure(1, Some(span), |thread| {
            let mut random = Random::new(Phase::GraphTwoHops as u64, round, thread);
            let draw = move || Some(self.drawn(&mut random)?.0);
            (draw, |node: &Node| {
                if self.store.reached_by_two(*node)? > 0 {
                    return Ok(());
                }
                Err(format!("node {node} follows nobody, and it does").into())
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Session;
    use crate::stores::graph::TAKE_PART;
    use clap::Parser;

    #[test]
    fn all_phases_run_on_every_store() {
        let plan = Plan::parse_from(["peers", "--short"]);
        let edges = Edges::generated(2_000);
        for name in TAKE_PART {
            let phases = plan.phases_of(Session::Graph, name);
            assert_eq!(phases.len(), 5, "{name:?}");
            let mut report = Report::default();
            run(&plan, &edges, 0, name, &phases, &mut report).unwrap();
            for phase in plan.phases_of(Session::GraphBulk, name) {
                run_bulk(&plan, &edges, 0, name, phase, &mut report).unwrap();
            }
        }
    }

    #[test]
    fn a_lost_edge_is_noticed_by_every_phase_that_reads() {
        let dir = tempfile::tempdir().unwrap();
        let store = StoreName::Heed.open_graph(dir.path()).unwrap();
        let edges = Edges::generated(100);
        add_nodes(store.as_ref(), &edges).unwrap();
        let mut graph = Graph {
            store: store.as_ref(),
            edges: &edges,
            linked: 0,
            followers: vec![0; edges.nodes().len()],
        };
        graph.count(edges.in_order().len());
        let span = Duration::from_millis(1);
        for read in [
            graph.ask(0, span),
            graph.pages(0, span),
            graph.two_hops(0, span),
        ] {
            read.unwrap_err();
        }
        graph.linked = 0;
        graph.followers.fill(0);
        graph.load().unwrap();
        for read in [
            graph.ask(0, span),
            graph.pages(0, span),
            graph.two_hops(0, span),
        ] {
            read.unwrap();
        }
    }
}
