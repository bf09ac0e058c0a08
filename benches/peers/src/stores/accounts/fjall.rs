//! fjall with optimistic transactions; its defaults for the rest.

use super::{AccountStore, balance_in, missing, moved};
use crate::Result;
use crate::stores::{Commit, Key, Metered, Value};
use fjall::{
    KeyspaceCreateOptions, OptimisticTxDatabase, OptimisticTxKeyspace, PersistMode, Readable,
};
use std::path::Path;

pub struct Fjall {
    database: OptimisticTxDatabase,
    accounts: OptimisticTxKeyspace,
    /// What a commit waits for. Without a sync it hands the journal to the operating system.
    persist: PersistMode,
}

impl Fjall {
    pub fn open(dir: &Path, commit: Commit) -> Result<Self> {
        let database = OptimisticTxDatabase::builder(dir).open()?;
        let accounts = database.keyspace("accounts", KeyspaceCreateOptions::default)?;
        let persist = match commit {
            Commit::Unsynced => PersistMode::Buffer,
            Commit::Synced => PersistMode::SyncData,
        };
        Ok(Self {
            database,
            accounts,
            persist,
        })
    }
}

impl Metered for Fjall {
    fn sync(&self) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}

impl AccountStore for Fjall {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        let mut transaction = self.database.write_tx()?.durability(Some(self.persist));
        for (key, value) in batch {
            transaction.insert(&self.accounts, key.as_slice(), value.as_slice());
        }
        Ok(transaction.commit()??)
    }

    fn transfer(&self, from: &Key, to: &Key, amount: i64) -> Result<()> {
        loop {
            let mut transaction = self.database.write_tx()?.durability(Some(self.persist));
            let less = moved(transaction.get(&self.accounts, from)?.as_deref(), -amount)?;
            let more = moved(transaction.get(&self.accounts, to)?.as_deref(), amount)?;
            transaction.insert(&self.accounts, from.as_slice(), less.as_slice());
            transaction.insert(&self.accounts, to.as_slice(), more.as_slice());
            if transaction.commit()?.is_ok() {
                return Ok(());
            }
        }
    }

    fn balance(&self, key: &Key) -> Result<i64> {
        balance_in(&self.accounts.get(key)?.ok_or_else(missing)?)
    }
}
