//! redb: an edge is a key in each of two tables.

use super::super::redb::{sync, write};
use super::tables::{self, edge_key, keys_of, node_key, other_end};
use super::{COMMIT, Edge, GraphStore, Node};
use crate::Result;
use crate::stores::{Metered, Value};
use redb::{Database, ReadOnlyTable, ReadableDatabase, TableDefinition};
use std::path::Path;

const NODES: TableDefinition<&[u8], &[u8]> = TableDefinition::new("nodes");
const FOLLOWING: TableDefinition<&[u8], ()> = TableDefinition::new("following");
const FOLLOWERS: TableDefinition<&[u8], ()> = TableDefinition::new("followers");

pub struct Redb {
    database: Database,
}

impl Redb {
    pub fn create(dir: &Path) -> Result<Self> {
        let database = Database::create(dir.join("redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(NODES)?;
        transaction.open_table(FOLLOWING)?;
        transaction.open_table(FOLLOWERS)?;
        transaction.commit()?;
        Ok(Self { database })
    }
}

/// Shows the other ends of the first edges of a node.
fn other_ends(
    table: &ReadOnlyTable<&[u8], ()>,
    owner: Node,
    limit: usize,
    mut show: impl FnMut(Node) -> Result<()>,
) -> Result<()> {
    let [first, last] = keys_of(owner);
    let range = first.as_slice()..=last.as_slice();
    for edge in table.range::<&[u8]>(range)?.take(limit) {
        show(other_end(edge?.0.value())?)?;
    }
    Ok(())
}

impl Metered for Redb {
    fn sync(&self) -> Result<()> {
        sync(&self.database)
    }
}

impl GraphStore for Redb {
    fn add_nodes(&self, nodes: &[(Node, Value)]) -> Result<()> {
        let transaction = write(&self.database, COMMIT)?;
        {
            let mut table = transaction.open_table(NODES)?;
            for (node, value) in nodes {
                table.insert(node_key(*node).as_slice(), value.as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn link(&self, edges: &[Edge]) -> Result<()> {
        let transaction = write(&self.database, COMMIT)?;
        {
            let mut following = transaction.open_table(FOLLOWING)?;
            let mut followers = transaction.open_table(FOLLOWERS)?;
            for (source, target) in edges.iter().copied() {
                following.insert(edge_key((source, target)).as_slice(), ())?;
                followers.insert(edge_key((target, source)).as_slice(), ())?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn follows(&self, edge: Edge) -> Result<bool> {
        let following = self.database.begin_read()?.open_table(FOLLOWING)?;
        Ok(following.get(edge_key(edge).as_slice())?.is_some())
    }

    fn followers(&self, node: Node, limit: usize, lend: &mut dyn FnMut(Node, &[u8])) -> Result<()> {
        let transaction = self.database.begin_read()?;
        let followers = transaction.open_table(FOLLOWERS)?;
        let nodes = transaction.open_table(NODES)?;
        other_ends(&followers, node, limit, |node| {
            let record = nodes.get(node_key(node).as_slice())?;
            lend(node, record.ok_or("a follower without a record")?.value());
            Ok(())
        })
    }

    fn reached_by_two(&self, node: Node) -> Result<u64> {
        let following = self.database.begin_read()?.open_table(FOLLOWING)?;
        tables::reached_by_two(node, |node, followed| {
            other_ends(&following, node, usize::MAX, |node| {
                followed.push(node);
                Ok(())
            })
        })
    }
}
