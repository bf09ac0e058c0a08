//! fjall: its defaults (LZ4 blocks, 32 MiB of block cache); no explicit persist, or one of the data
//! at each commit.

use super::{Commit, Key, Metered, PeerStore, Value, edited};
use crate::Result;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

pub struct Fjall {
    database: Database,
    records: Keyspace,
    persist: Option<PersistMode>,
}

impl Fjall {
    pub fn open(dir: &Path, commit: Commit) -> Result<Self> {
        let database = Database::builder(dir).open()?;
        let records = database.keyspace("records", KeyspaceCreateOptions::default)?;
        let persist = match commit {
            Commit::Unsynced => None,
            Commit::Synced => Some(PersistMode::SyncData),
        };
        Ok(Self {
            database,
            records,
            persist,
        })
    }
}

impl Metered for Fjall {
    fn sync(&self) -> Result<()> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}

impl PeerStore for Fjall {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        let mut writes = self.database.batch().durability(self.persist);
        for (key, value) in batch {
            writes.insert(&self.records, key.as_slice(), value.as_slice());
        }
        Ok(writes.commit()?)
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        Ok(self.records.get(key)?.map(|value| value.to_vec()))
    }

    fn get_ref(&self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        // A counted reference to the block's or the memtable's own bytes.
        Ok(self.records.get(key)?.map(|value| read(&value)).is_some())
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.records.insert(key.as_slice(), value)?;
        match self.persist {
            Some(mode) => Ok(self.database.persist(mode)?),
            None => Ok(()),
        }
    }

    fn add_unique(&self, key: &Key, element: i64) -> Result<bool> {
        // One thread edits, so read and write need no transaction of the slower, optimistic kind.
        let list = self.records.get(key)?.ok_or("the list is not there")?;
        let list = edited(&list, element)?;
        let added = list.is_some();
        if let Some(list) = list {
            self.put(key, &list)?;
        }
        Ok(added)
    }
}
