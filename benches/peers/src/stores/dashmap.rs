//! `DashMap<[u8; 20], Arc<[u8]>>` with its default hasher: no disk, no log.

use super::{Key, Metered, PeerStore, Value, edited};
use crate::Result;
use dashmap::DashMap;
use std::sync::Arc;

#[derive(Default)]
pub struct Dashmap {
    records: DashMap<Key, Arc<[u8]>>,
}

impl Metered for Dashmap {
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

impl PeerStore for Dashmap {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        for (key, value) in batch {
            self.put(key, value)?;
        }
        Ok(())
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        Ok(self.records.get(key).map(|value| value.to_vec()))
    }

    fn get_ref(&self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.records.get(key).map(|value| read(&value)).is_some())
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.records.insert(*key, value.into());
        Ok(())
    }

    fn add_unique(&self, key: &Key, element: i64) -> Result<bool> {
        let mut entry = self.records.get_mut(key).ok_or("the list is not there")?;
        let list = edited(&entry, element)?;
        let added = list.is_some();
        if let Some(list) = list {
            *entry = list.into();
        }
        Ok(added)
    }
}
