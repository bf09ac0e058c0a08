//! spikelet: `ManyToMany` with ordered lists at both ends, in the records of the nodes; a page asks
//! for the value alone.

use super::super::spikelet::{BIN, log_bytes, open};
use super::{Edge, GraphStore, Node};
use crate::stores::{LogBytes, Metered, Value};
use crate::{Error, Result};
use spikelet::relation::{ManyToMany, TraversalEnd};
use spikelet::{DEFAULT_NAMESPACE, Durability, Key, Namespace, Set};
use std::ops::ControlFlow;
use std::path::Path;

const NODES: &str = "nodes";

pub struct Spikelet {
    namespace: Namespace,
    nodes: Set,
    follows: ManyToMany<Namespace>,
}

impl Spikelet {
    /// A store in `dir`, or in memory.
    pub fn create(dir: Option<&Path>) -> Result<Self> {
        let namespace = open(dir, Durability::Process)?.namespace(DEFAULT_NAMESPACE)?;
        let nodes = namespace.set(NODES)?;
        let (sources, targets) = ((NODES, "following"), (NODES, "followers"));
        let follows = ManyToMany::new(namespace.clone(), "follows", sources, targets);
        Ok(Self {
            namespace,
            nodes,
            follows,
        })
    }
}

fn node_of(key: &Key<'_>) -> Result<Node> {
    let number = match key {
        Key::Integer(number) => Node::try_from(*number).ok(),
        _ => None,
    };
    number.ok_or_else(|| Error::from(format!("{key} is not a node")))
}

impl Metered for Spikelet {
    fn sync(&self) -> Result<()> {
        Ok(self.namespace.sync()?)
    }

    fn log_bytes(&self) -> Option<LogBytes> {
        Some(log_bytes(&self.namespace))
    }
}

impl GraphStore for Spikelet {
    fn add_nodes(&self, nodes: &[(Node, Value)]) -> Result<()> {
        for (node, value) in nodes {
            self.nodes.put(*node, [(BIN, value.as_slice())])?;
        }
        Ok(())
    }

    fn link(&self, edges: &[Edge]) -> Result<()> {
        if let [(source, target)] = edges {
            self.follows.link(*source, *target)?;
            return Ok(());
        }
        self.follows.link_together(edges.iter().copied())?;
        Ok(())
    }

    fn link_batch(&self, edges: &[Edge]) -> Result<()> {
        let edges = edges.iter().copied();
        self.follows
            .link_all(edges, |_| ControlFlow::Continue(()))?;
        Ok(())
    }

    fn follows(&self, (source, target): Edge) -> Result<bool> {
        Ok(self.follows.contains(source, target)?)
    }

    fn followers(&self, node: Node, limit: usize, lend: &mut dyn FnMut(Node, &[u8])) -> Result<()> {
        let page = self.follows.sources(node);
        for related in page.fetch_after(None, limit as u64, Some(&[BIN]))? {
            let record = related.record.as_ref();
            let value = record.and_then(|record| record.view().bin(BIN)?.as_blob());
            let value = value.ok_or("a follower without a record")?;
            lend(node_of(&related.key)?, value);
        }
        Ok(())
    }

    fn reached_by_two(&self, node: Node) -> Result<u64> {
        let everything = self.follows.targets(node).traverse();
        let everything = everything.records_max(usize::MAX).edges_max(u64::MAX);
        let mut reached = 0;
        let end = everything.breadth_first(|_, _, _| {
            reached += 1;
            ControlFlow::Continue(())
        })?;
        match end {
            TraversalEnd::Complete => Ok(reached),
            end => Err(format!("a traversal ended early: {end:?}").into()),
        }
    }
}
