//! Stores of a graph of who follows whom: every edge is known at both ends, and is added at both in
//! one transaction. Each node has a record of its own.

mod heed;
mod heed_duplicates;
mod redb;
mod spikelet;
mod sqlite;
mod tables;

use super::{Commit, Metered, StoreName, Value};
use crate::Result;
use std::path::Path;

/// A node.
pub type Node = u32;
/// Who follows, and who is followed.
pub type Edge = (Node, Node);

/// The stores that take part.
pub const TAKE_PART: [StoreName; 7] = [
    StoreName::Redb,
    StoreName::Heed,
    StoreName::HeedDuplicates,
    StoreName::Sqlite,
    StoreName::SqliteMemory,
    StoreName::SpikeletMemory,
    StoreName::Spikelet,
];

/// A store of nodes and edges.
pub trait GraphStore: Metered {
    /// Stores the records of new nodes; in one transaction where the store has them.
    fn add_nodes(&self, nodes: &[(Node, Value)]) -> Result<()>;

    /// Adds edges at both ends, all in one transaction.
    fn link(&self, edges: &[Edge]) -> Result<()>;

    /// Adds a batch of edges at both ends, by the store's call for many edges.
    fn link_batch(&self, edges: &[Edge]) -> Result<()> {
        self.link(edges)
    }

    /// Whether there is an edge.
    fn follows(&self, edge: Edge) -> Result<bool>;

    /// Lends the records of the first `limit` followers of a node, in the order of their numbers.
    fn followers(&self, node: Node, limit: usize, lend: &mut dyn FnMut(Node, &[u8])) -> Result<()>;

    /// How many nodes there are at the end of one edge or two from this node, itself not counted.
    fn reached_by_two(&self, node: Node) -> Result<u64>;
}

impl StoreName {
    /// Opens an empty store of a graph in `dir`.
    pub fn open_graph(self, dir: &Path) -> Result<Box<dyn GraphStore>> {
        Ok(match self {
            Self::Redb => Box::new(redb::Redb::create(dir)?),
            Self::Heed => Box::new(heed::Heed::create(dir)?),
            Self::HeedDuplicates => Box::new(heed_duplicates::HeedDuplicates::create(dir)?),
            Self::Sqlite => Box::new(sqlite::open(Some(dir))?),
            Self::SqliteMemory => Box::new(sqlite::open(None)?),
            Self::SpikeletMemory => Box::new(spikelet::Spikelet::create(None)?),
            Self::Spikelet => Box::new(spikelet::Spikelet::create(Some(dir))?),
            other => return Err(other.absent_from("the graph")),
        })
    }
}

/// All these stores run without waiting for syncs.
const COMMIT: Commit = Commit::Unsynced;

#[cfg(test)]
mod tests;
