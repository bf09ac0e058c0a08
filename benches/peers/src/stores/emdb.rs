//! emdb: an append-only journal with an index in memory and mapped reads; its defaults, and a flush
//! after each commit that is to be synced (flushes of several threads share one sync).

use super::{Commit, Key, Metered, PeerStore, Value, edited};
use crate::Result;
use std::path::Path;

pub struct Emdb {
    database: emdb::Emdb,
    commit: Commit,
}

impl Emdb {
    pub fn open(dir: &Path, commit: Commit) -> Result<Self> {
        let database = emdb::Emdb::open(dir.join("emdb"))?;
        Ok(Self { database, commit })
    }

    fn committed(&self) -> Result<()> {
        match self.commit {
            Commit::Unsynced => Ok(()),
            Commit::Synced => self.sync(),
        }
    }
}

impl Metered for Emdb {
    fn sync(&self) -> Result<()> {
        Ok(self.database.flush()?)
    }
}

impl PeerStore for Emdb {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        self.database.insert_many(batch.iter().copied())?;
        self.committed()
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        Ok(self.database.get(key)?)
    }

    fn get_ref(&self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = self.database.get_zerocopy(key)?;
        Ok(value.map(|value| read(&value)).is_some())
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.database.insert(key.as_slice(), value)?;
        self.committed()
    }

    fn add_unique(&self, key: &Key, element: i64) -> Result<bool> {
        // One thread edits; emdb's transactions would not isolate the read in any case.
        let list = self.database.get_zerocopy(key)?;
        let list = edited(&list.ok_or("the list is not there")?, element)?;
        let added = list.is_some();
        if let Some(list) = list {
            self.put(key, &list)?;
        }
        Ok(added)
    }
}
