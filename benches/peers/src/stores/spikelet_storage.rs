//! The storage engine below spikelet, used directly: values without bins, under digests that are
//! the keys themselves. It has the durable groups of writes that the public API does not have yet.

use super::{Key, LogBytes, Metered, PeerStore, Value, edited};
use crate::Result;
use spikelet_storage::{Change, Digest, Durability, Namespace, NewVersion, Options, Storage};
use std::path::Path;

pub struct SpikeletStorage {
    namespace: Namespace,
}

impl SpikeletStorage {
    pub fn open(dir: &Path, durability: Durability) -> Result<Self> {
        let files = Storage::Files {
            dir: dir.to_owned(),
            devices: 1,
        };
        let options = Options {
            durability,
            ..Options::new("bench", files)
        };
        let (namespace, _) = Namespace::open(options)?;
        Ok(Self { namespace })
    }

    fn version<'a>(&self, key: &'a Key, payload: &'a [u8]) -> NewVersion<'a> {
        NewVersion {
            generation: 1,
            void_time: 0,
            last_update_ms: self.namespace.options().clock.now_ms(),
            set_id: 0,
            key: Some(key),
            payload,
        }
    }
}

impl Metered for SpikeletStorage {
    fn sync(&self) -> Result<()> {
        Ok(self.namespace.sync()?)
    }

    fn log_bytes(&self) -> Option<LogBytes> {
        let traffic = self.namespace.stats().traffic;
        Some(LogBytes {
            appended: traffic.appended_bytes,
            moved: traffic.moved_bytes,
        })
    }
}

impl PeerStore for SpikeletStorage {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        for (key, value) in batch {
            self.put(key, value)?;
        }
        Ok(())
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        let digest = Digest::new(*key);
        let value = self
            .namespace
            .get(&digest, |entry| entry.payload().to_vec());
        Ok(value?)
    }

    fn get_ref(&self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let digest = Digest::new(*key);
        let found = self.namespace.get(&digest, |entry| read(entry.payload()))?;
        Ok(found.is_some())
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        let lock = self.namespace.lock(&Digest::new(*key), None)?;
        lock.put(&self.version(key, value))?;
        Ok(())
    }

    fn put_group(&self, group: &[(Key, Value)]) -> Result<()> {
        let mut records: Vec<&(Key, Value)> = group.iter().collect();
        // Callers that lock in one order cannot wait for each other.
        records.sort_unstable_by_key(|(key, _)| *key);
        let mut changes = Vec::with_capacity(records.len());
        for (key, value) in records {
            let lock = self.namespace.lock(&Digest::new(*key), None)?;
            changes.push((lock, Change::Put(self.version(key, value))));
        }
        self.namespace.commit_group(changes)?;
        Ok(())
    }

    fn add_unique(&self, key: &Key, element: i64) -> Result<bool> {
        let lock = self.namespace.lock(&Digest::new(*key), None)?;
        let list = match lock.entry()? {
            Some(entry) => edited(entry.payload(), element)?,
            None => return Err("the list is not there".into()),
        };
        if let Some(list) = &list {
            lock.put(&self.version(key, list))?;
        }
        Ok(list.is_some())
    }
}
