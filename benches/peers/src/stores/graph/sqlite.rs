//! SQLite: an edge is a row in each of two tables without rows of their own, in the order of either
//! end.

use super::super::sqlite::Sqlite;
use super::{COMMIT, Edge, GraphStore, Node};
use crate::Result;
use crate::stores::Value;
use rusqlite::{OptionalExtension, params};
use std::path::Path;

const SCHEMA: &str = "
    CREATE TABLE nodes (node INTEGER PRIMARY KEY, record BLOB NOT NULL);
    CREATE TABLE following (source INTEGER, target INTEGER, PRIMARY KEY (source, target)) WITHOUT ROWID;
    CREATE TABLE followers (target INTEGER, source INTEGER, PRIMARY KEY (target, source)) WITHOUT ROWID;";

/// A database in `dir`, or in memory.
pub fn open(dir: Option<&Path>) -> Result<Sqlite> {
    Sqlite::open(dir, COMMIT, SCHEMA)
}

impl GraphStore for Sqlite {
    fn add_nodes(&self, nodes: &[(Node, Value)]) -> Result<()> {
        const INSERT: &str = "INSERT INTO nodes (node, record) VALUES (?1, ?2)";
        self.write(|connection| {
            let mut insert = connection.prepare_cached(INSERT)?;
            for (node, value) in nodes {
                insert.execute(params![node, value])?;
            }
            Ok(())
        })
    }

    fn link(&self, edges: &[Edge]) -> Result<()> {
        const FOLLOWING: &str = "INSERT OR IGNORE INTO following (source, target) VALUES (?1, ?2)";
        const FOLLOWERS: &str = "INSERT OR IGNORE INTO followers (target, source) VALUES (?1, ?2)";
        self.write(|connection| {
            let mut following = connection.prepare_cached(FOLLOWING)?;
            let mut followers = connection.prepare_cached(FOLLOWERS)?;
            for (source, target) in edges {
                following.execute(params![source, target])?;
                followers.execute(params![target, source])?;
            }
            Ok(())
        })
    }

    fn follows(&self, (source, target): Edge) -> Result<bool> {
        const SELECT: &str = "SELECT 1 FROM following WHERE source = ?1 AND target = ?2";
        let connection = self.lock()?;
        let mut select = connection.prepare_cached(SELECT)?;
        let found = select.query_row(params![source, target], |_| Ok(()));
        Ok(found.optional()?.is_some())
    }

    fn followers(&self, node: Node, limit: usize, lend: &mut dyn FnMut(Node, &[u8])) -> Result<()> {
        const SELECT: &str = "SELECT node, record FROM followers JOIN nodes ON node = source
            WHERE target = ?1 ORDER BY source LIMIT ?2";
        let connection = self.lock()?;
        let mut select = connection.prepare_cached(SELECT)?;
        let mut rows = select.query(params![node, limit as i64])?;
        while let Some(row) = rows.next()? {
            lend(row.get(0)?, row.get_ref(1)?.as_blob()?);
        }
        Ok(())
    }

    fn reached_by_two(&self, node: Node) -> Result<u64> {
        const SELECT: &str = "SELECT count(*) FROM (
                SELECT target FROM following WHERE source = ?1
                UNION
                SELECT far.target FROM following near JOIN following far ON far.source = near.target
                WHERE near.source = ?1
            ) WHERE target <> ?1";
        let connection = self.lock()?;
        let mut select = connection.prepare_cached(SELECT)?;
        let reached: i64 = select.query_row(params![node], |row| row.get(0))?;
        Ok(reached as u64)
    }
}
