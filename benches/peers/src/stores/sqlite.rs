//! SQLite by rusqlite, built with the crate: a write-ahead log, a cache of 1 GiB, prepared
//! statements, one connection behind a lock (threads of their own connections wait for each other,
//! too, and were slower). `synchronous=OFF` for commits without a sync, `FULL` for those with one.

use super::{Commit, Metered};
use crate::Result;
use rusqlite::Connection;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

/// As much as redb takes by default; SQLite's own default is 2 MiB. Negative: in KiB.
const CACHE_SIZE: i64 = -(1 << 20);
/// Statements kept prepared: more than any session has.
const STATEMENTS: usize = 32;

/// A database in a file, or in memory.
pub struct Sqlite {
    connection: Mutex<Connection>,
}

impl Sqlite {
    /// Opens the database in `dir`, without a directory one in memory, and runs `schema`.
    pub fn open(dir: Option<&Path>, commit: Commit, schema: &str) -> Result<Self> {
        let connection = match dir {
            Some(dir) => Connection::open(dir.join("sqlite"))?,
            None => Connection::open_in_memory()?,
        };
        if dir.is_some() {
            connection.pragma_update(None, "journal_mode", "WAL")?;
        }
        let synchronous = match commit {
            Commit::Unsynced => "OFF",
            Commit::Synced => "FULL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "cache_size", CACHE_SIZE)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.execute_batch(schema)?;
        Ok(Self {
            connection: Mutex::new(connection),
        })
    }

    /// The connection, for one call.
    pub fn lock(&self) -> Result<MutexGuard<'_, Connection>> {
        let locked = self.connection.lock();
        locked.map_err(|_| "a thread panicked with the connection".into())
    }

    /// Runs `run` in a transaction that takes the write lock at its beginning.
    pub fn write(&self, run: impl FnOnce(&Connection) -> Result<()>) -> Result<()> {
        let connection = self.lock()?;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let ran = run(&connection);
        let end = if ran.is_ok() { "COMMIT" } else { "ROLLBACK" };
        connection.prepare_cached(end)?.execute([])?;
        ran
    }
}

impl Metered for Sqlite {
    fn sync(&self) -> Result<()> {
        // Moves the write-ahead log into the file; in memory there is none, and nothing is done.
        Ok(self
            .lock()?
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
    }
}
