//! redb: `Durability::None` for writes without a sync, `Immediate` (its default) for those with
//! one; its own cache of 1 GiB (the default).

use super::{Commit, Key, Metered, PeerStore, Value, edited};
use crate::Result;
use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};
use std::path::Path;

pub(super) const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");

pub struct Redb {
    database: Database,
    commit: Commit,
}

impl Redb {
    pub fn open(dir: &Path, commit: Commit) -> Result<Self> {
        let database = Database::create(dir.join("redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(TABLE)?;
        transaction.commit()?;
        Ok(Self { database, commit })
    }

    pub(super) fn write(&self) -> Result<WriteTransaction> {
        write(&self.database, self.commit)
    }
}

/// Begins a transaction with or without a commit that waits for the disk.
pub(super) fn write(database: &Database, commit: Commit) -> Result<WriteTransaction> {
    let mut transaction = database.begin_write()?;
    transaction.set_durability(match commit {
        Commit::Unsynced => Durability::None,
        Commit::Synced => Durability::Immediate,
    })?;
    Ok(transaction)
}

/// Hands everything to the disk: a durable commit carries the non-durable ones before it along.
pub(super) fn sync(database: &Database) -> Result<()> {
    Ok(database.begin_write()?.commit()?)
}

impl Metered for Redb {
    fn sync(&self) -> Result<()> {
        sync(&self.database)
    }
}

impl PeerStore for Redb {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        let transaction = self.write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            for (key, value) in batch {
                table.insert(key.as_slice(), value.as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        Ok(table
            .get(key.as_slice())?
            .map(|guard| guard.value().to_vec()))
    }

    fn get_ref(&self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        let guard = table.get(key.as_slice())?;
        Ok(guard.map(|guard| read(guard.value())).is_some())
    }

    fn get_batch(&self, keys: &[Key], read: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let table = self.database.begin_read()?.open_table(TABLE)?;
        for (place, key) in keys.iter().enumerate() {
            if let Some(guard) = table.get(key.as_slice())? {
                read(place, guard.value());
            }
        }
        Ok(())
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        let transaction = self.write()?;
        transaction
            .open_table(TABLE)?
            .insert(key.as_slice(), value)?;
        Ok(transaction.commit()?)
    }

    fn add_unique(&self, key: &Key, element: i64) -> Result<bool> {
        let transaction = self.write()?;
        let added = {
            let mut table = transaction.open_table(TABLE)?;
            let list = match table.get(key.as_slice())? {
                Some(guard) => edited(guard.value(), element)?,
                None => return Err("the list is not there".into()),
            };
            if let Some(list) = &list {
                table.insert(key.as_slice(), list.as_slice())?;
            }
            list.is_some()
        };
        transaction.commit()?;
        Ok(added)
    }
}
