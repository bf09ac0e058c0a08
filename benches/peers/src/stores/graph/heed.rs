//! LMDB: an edge is a key in each of two tables.

use super::super::heed::{Table, create, open_env};
use super::tables::{self, edge_key, keys_of, node_key, other_end};
use super::{COMMIT, Edge, GraphStore, Node};
use crate::Result;
use crate::stores::{Metered, Value};
use heed::{DatabaseFlags, Env, RoTxn};
use std::ops::Bound;
use std::path::Path;

pub struct Heed {
    env: Env,
    nodes: Table,
    following: Table,
    followers: Table,
}

impl Heed {
    pub fn create(dir: &Path) -> Result<Self> {
        let env = open_env(dir, COMMIT)?;
        let table = |name| create(&env, name, DatabaseFlags::empty());
        let (nodes, following, followers) =
            (table("nodes")?, table("following")?, table("followers")?);
        Ok(Self {
            env,
            nodes,
            following,
            followers,
        })
    }
}

/// Shows the other ends of the first edges of a node.
fn other_ends(
    table: &Table,
    transaction: &RoTxn<'_>,
    owner: Node,
    limit: usize,
    mut show: impl FnMut(Node) -> Result<()>,
) -> Result<()> {
    let [first, last] = keys_of(owner);
    let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
    for edge in table.range(transaction, &range)?.take(limit) {
        show(other_end(edge?.0)?)?;
    }
    Ok(())
}

impl Metered for Heed {
    fn sync(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}

impl GraphStore for Heed {
    fn add_nodes(&self, nodes: &[(Node, Value)]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (node, value) in nodes {
            self.nodes.put(&mut transaction, &node_key(*node), value)?;
        }
        Ok(transaction.commit()?)
    }

    fn link(&self, edges: &[Edge]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (source, target) in edges.iter().copied() {
            let key = edge_key((source, target));
            self.following.put(&mut transaction, &key, &[])?;
            let key = edge_key((target, source));
            self.followers.put(&mut transaction, &key, &[])?;
        }
        Ok(transaction.commit()?)
    }

    fn follows(&self, edge: Edge) -> Result<bool> {
        let transaction = self.env.read_txn()?;
        let found = self.following.get(&transaction, &edge_key(edge))?;
        Ok(found.is_some())
    }

    fn followers(&self, node: Node, limit: usize, lend: &mut dyn FnMut(Node, &[u8])) -> Result<()> {
        let transaction = self.env.read_txn()?;
        other_ends(&self.followers, &transaction, node, limit, |node| {
            let record = self.nodes.get(&transaction, &node_key(node))?;
            lend(node, record.ok_or("a follower without a record")?);
            Ok(())
        })
    }

    fn reached_by_two(&self, node: Node) -> Result<u64> {
        let transaction = self.env.read_txn()?;
        tables::reached_by_two(node, |node, followed| {
            other_ends(&self.following, &transaction, node, usize::MAX, |node| {
                followed.push(node);
                Ok(())
            })
        })
    }
}
