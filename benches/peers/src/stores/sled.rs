//! sled: its defaults, that is, a cache of 1 GiB and a flush in the background every 500 ms; a
//! flush after each commit that is to be synced.

use super::{Commit, Key, Metered, PeerStore, Value, edited};
use crate::Result;
use sled::{Batch, Db};
use std::path::Path;

pub struct Sled {
    database: Db,
    commit: Commit,
}

impl Sled {
    pub fn open(dir: &Path, commit: Commit) -> Result<Self> {
        let database = sled::open(dir)?;
        Ok(Self { database, commit })
    }

    fn committed(&self) -> Result<()> {
        match self.commit {
            Commit::Unsynced => Ok(()),
            Commit::Synced => self.sync(),
        }
    }
}

impl Metered for Sled {
    fn sync(&self) -> Result<()> {
        self.database.flush()?;
        Ok(())
    }
}

impl PeerStore for Sled {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        let mut writes = Batch::default();
        for (key, value) in batch {
            writes.insert(key, value.as_slice());
        }
        self.database.apply_batch(writes)?;
        self.committed()
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        Ok(self.database.get(key)?.map(|value| value.to_vec()))
    }

    fn get_ref(&self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        // A counted reference to the bytes in the page.
        let value = self.database.get(key)?;
        Ok(value.map(|value| read(&value)).is_some())
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.database.insert(key, value)?;
        self.committed()
    }

    fn add_unique(&self, key: &Key, element: i64) -> Result<bool> {
        // One thread edits, so read and write need no transaction.
        let list = self.database.get(key)?.ok_or("the list is not there")?;
        let list = edited(&list, element)?;
        let added = list.is_some();
        if let Some(list) = list {
            self.put(key, &list)?;
        }
        Ok(added)
    }
}
