//! SQLite: a table by the key's bytes.

use super::super::sqlite::Sqlite;
use super::{AccountStore, balance_in, missing, moved};
use crate::Result;
use crate::stores::{Commit, Key, Value};
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;

const SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS accounts (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";

pub fn open(dir: &Path, commit: Commit) -> Result<Sqlite> {
    Sqlite::open(Some(dir), commit, SCHEMA)
}

fn read<T>(connection: &Connection, key: &Key, map: impl Fn(&[u8]) -> Result<T>) -> Result<T> {
    let mut select = connection.prepare_cached("SELECT value FROM accounts WHERE key = ?1")?;
    let found = select.query_row(params![key], |row| Ok(map(row.get_ref(0)?.as_blob()?)));
    found.optional()?.ok_or_else(missing)?
}

fn write(connection: &Connection, key: &Key, value: &Value) -> Result<()> {
    let mut update = connection.prepare_cached("UPDATE accounts SET value = ?2 WHERE key = ?1")?;
    update.execute(params![key, value])?;
    Ok(())
}

impl AccountStore for Sqlite {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        const INSERT: &str = "INSERT INTO accounts (key, value) VALUES (?1, ?2)";
        self.write(|connection| {
            let mut insert = connection.prepare_cached(INSERT)?;
            for (key, value) in batch {
                insert.execute(params![key, value])?;
            }
            Ok(())
        })
    }

    fn transfer(&self, from: &Key, to: &Key, amount: i64) -> Result<()> {
        self.write(|connection| {
            let less = read(connection, from, |value| moved(Some(value), -amount))?;
            let more = read(connection, to, |value| moved(Some(value), amount))?;
            write(connection, from, &less)?;
            write(connection, to, &more)
        })
    }

    fn balance(&self, key: &Key) -> Result<i64> {
        read(&*self.lock()?, key, balance_in)
    }
}
