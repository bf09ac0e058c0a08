//! LMDB: a node is a key in each of two tables, and the nodes at the other ends are its sorted
//! duplicates of fixed size (`DUPSORT | DUPFIXED`): less space than keys of both ends. heed cannot
//! ask for one duplicate, so "does A follow B" walks them.

use super::super::heed::{Table, create, open_env};
use super::tables::{self, node_key, other_end};
use super::{COMMIT, Edge, GraphStore, Node};
use crate::Result;
use crate::stores::{Metered, Value};
use heed::{DatabaseFlags, Env, RoTxn};
use std::path::Path;

pub struct HeedDuplicates {
    env: Env,
    nodes: Table,
    following: Table,
    followers: Table,
}

impl HeedDuplicates {
    pub fn create(dir: &Path) -> Result<Self> {
        let env = open_env(dir, COMMIT)?;
        let duplicates = DatabaseFlags::DUP_SORT | DatabaseFlags::DUP_FIXED;
        let nodes = create(&env, "nodes", DatabaseFlags::empty())?;
        let following = create(&env, "following", duplicates)?;
        let followers = create(&env, "followers", duplicates)?;
        Ok(Self {
            env,
            nodes,
            following,
            followers,
        })
    }
}

/// Shows the other ends of the first edges of a node, until `show` has seen enough (false).
fn other_ends(
    table: &Table,
    transaction: &RoTxn<'_>,
    owner: Node,
    mut show: impl FnMut(Node) -> Result<bool>,
) -> Result<()> {
    let Some(duplicates) = table.get_duplicates(transaction, &node_key(owner))? else {
        return Ok(());
    };
    for duplicate in duplicates {
        if !show(other_end(duplicate?.1)?)? {
            break;
        }
    }
    Ok(())
}

impl Metered for HeedDuplicates {
    fn sync(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}

impl GraphStore for HeedDuplicates {
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
            let (source, target) = (node_key(source), node_key(target));
            self.following.put(&mut transaction, &source, &target)?;
            self.followers.put(&mut transaction, &target, &source)?;
        }
        Ok(transaction.commit()?)
    }

    fn follows(&self, (source, target): Edge) -> Result<bool> {
        let transaction = self.env.read_txn()?;
        let mut found = false;
        other_ends(&self.following, &transaction, source, |node| {
            found = node == target;
            Ok(node < target)
        })?;
        Ok(found)
    }

    fn followers(&self, node: Node, limit: usize, lend: &mut dyn FnMut(Node, &[u8])) -> Result<()> {
        let transaction = self.env.read_txn()?;
        let mut left = limit;
        other_ends(&self.followers, &transaction, node, |node| {
            let record = self.nodes.get(&transaction, &node_key(node))?;
            lend(node, record.ok_or("a follower without a record")?);
            left -= 1;
            Ok(left > 0)
        })
    }

    fn reached_by_two(&self, node: Node) -> Result<u64> {
        let transaction = self.env.read_txn()?;
        tables::reached_by_two(node, |node, followed| {
            other_ends(&self.following, &transaction, node, |node| {
                followed.push(node);
                Ok(true)
            })
        })
    }
}
