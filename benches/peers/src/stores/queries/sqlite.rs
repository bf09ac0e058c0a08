//! SQLite: a table by its integer key, and an index on the parent.

use super::super::sqlite::Sqlite;
use super::{COMMIT, Child, Lend, Parent, QueryStore, key};
use crate::Result;
use rusqlite::{Params, params};
use std::path::Path;

const SCHEMA: &str = "
    CREATE TABLE records (key INTEGER PRIMARY KEY, parent TEXT NOT NULL, n INTEGER NOT NULL, body BLOB NOT NULL);
    CREATE INDEX by_parent ON records (parent);";

/// A database in `dir`, or in memory.
pub fn open(dir: Option<&Path>) -> Result<Sqlite> {
    Sqlite::open(dir, COMMIT, SCHEMA)
}

fn text(parent: &Parent) -> Result<&str> {
    Ok(std::str::from_utf8(parent)?)
}

impl Sqlite {
    /// Lends the records that a statement selects.
    fn lend(&self, select: &str, params: impl Params, lend: &mut Lend<'_>) -> Result<()> {
        let connection = self.lock()?;
        let mut statement = connection.prepare_cached(select)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            let parent = row.get_ref(0)?.as_bytes()?;
            lend(parent, row.get_ref(1)?.as_blob()?);
        }
        Ok(())
    }
}

impl QueryStore for Sqlite {
    fn load(&self, batch: &[Child]) -> Result<()> {
        const INSERT: &str = "INSERT INTO records (key, parent, n, body) VALUES (?1, ?2, ?3, ?4)";
        self.write(|connection| {
            let mut insert = connection.prepare_cached(INSERT)?;
            for child in batch {
                let Child {
                    number,
                    parent,
                    body,
                } = child;
                insert.execute(params![key(*number), text(parent)?, *number as i64, body])?;
            }
            Ok(())
        })
    }

    fn of_parent(&self, parent: &Parent, limit: usize, lend: &mut Lend<'_>) -> Result<()> {
        const SELECT: &str = "SELECT parent, body FROM records WHERE parent = ?1 LIMIT ?2";
        self.lend(SELECT, params![text(parent)?, limit as i64], lend)
    }

    fn range_from(&self, parent: &Parent, limit: usize, lend: &mut Lend<'_>) -> Result<()> {
        const SELECT: &str =
            "SELECT parent, body FROM records WHERE parent >= ?1 ORDER BY parent LIMIT ?2";
        self.lend(SELECT, params![text(parent)?, limit as i64], lend)
    }

    fn scan(&self, end: u64, lend: &mut Lend<'_>) -> Result<()> {
        const SELECT: &str = "SELECT parent, body FROM records WHERE n < ?1";
        self.lend(SELECT, params![end as i64], lend)
    }

    fn set_parent(&self, number: u64, parent: &Parent) -> Result<()> {
        const UPDATE: &str = "UPDATE records SET parent = ?2 WHERE key = ?1";
        self.write(|connection| {
            let mut update = connection.prepare_cached(UPDATE)?;
            match update.execute(params![key(number), text(parent)?])? {
                1 => Ok(()),
                _ => Err("the record is not there".into()),
            }
        })
    }
}
