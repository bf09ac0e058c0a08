//! spikelet: one namespace in a file, records of one bin, lists ordered and with a persisted index.

use super::{Key, LogBytes, Metered, PeerStore, Value};
use crate::Result;
use spikelet::operations::lists;
use spikelet::policy::RecordExistsAction;
use spikelet::{
    DEFAULT_NAMESPACE, Durability, Error, ListOrder, ListPolicy, ListWriteFlags, Namespace,
    NamespaceConfig, Set, Store, WritePolicy,
};
use std::path::Path;

/// The bin that holds the value, or the list.
pub(super) const BIN: &str = "v";

/// Opens a store of one namespace; without a directory in memory.
pub(super) fn open(dir: Option<&Path>, durability: Durability) -> Result<Store> {
    let mut config = NamespaceConfig::new(DEFAULT_NAMESPACE);
    config.durability = durability;
    let builder = Store::builder().namespace(config);
    let builder = match dir {
        Some(dir) => builder.path(dir),
        None => builder,
    };
    Ok(builder.open()?)
}

/// Returns the namespace's own count of its log.
pub(super) fn log_bytes(namespace: &Namespace) -> LogBytes {
    let traffic = namespace.stats().traffic;
    LogBytes {
        appended: traffic.appended_bytes,
        moved: traffic.moved_bytes,
    }
}

pub struct Spikelet {
    pub(super) namespace: Namespace,
    pub(super) set: Set,
    list: ListPolicy,
}

impl Spikelet {
    pub fn open(dir: &Path, durability: Durability) -> Result<Self> {
        let namespace = open(Some(dir), durability)?.namespace(DEFAULT_NAMESPACE)?;
        let set = namespace.set("bench")?;
        let list =
            ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE).persist_index(true);
        Ok(Self {
            namespace,
            set,
            list,
        })
    }
}

impl Metered for Spikelet {
    fn sync(&self) -> Result<()> {
        Ok(self.namespace.sync()?)
    }

    fn log_bytes(&self) -> Option<LogBytes> {
        Some(log_bytes(&self.namespace))
    }
}

impl PeerStore for Spikelet {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        for (key, value) in batch {
            self.put(key, value)?;
        }
        Ok(())
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        let bytes = self
            .set
            .read(key, |record| Some(record.bin(BIN)?.as_blob()?.to_vec()))?;
        Ok(bytes.flatten())
    }

    fn get_ref(&self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let found = self
            .set
            .read(key, |record| record.bin(BIN)?.as_blob().map(read))?;
        Ok(found.flatten().is_some())
    }

    fn get_batch(&self, keys: &[Key], read: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let mut result = Ok(());
        self.set.read_batch(keys, |place, record| {
            let value = record.map(|record| record.map(|record| record.bin(BIN)));
            match value {
                Ok(None) => {}
                Ok(Some(value)) => match value.as_ref().and_then(|value| value.as_blob()) {
                    Some(bytes) => read(place, bytes),
                    None => result = Err("a record without its value".into()),
                },
                Err(error) => result = Err(error.into()),
            }
        });
        result
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.set.put(key, [(BIN, value)])?;
        Ok(())
    }

    fn put_group(&self, group: &[(Key, Value)]) -> Result<()> {
        self.namespace.transaction(|transaction| {
            let records = transaction.in_set(&self.set)?;
            for (key, value) in group {
                records.put(key, [(BIN, value.as_slice())])?;
            }
            Ok(())
        })?;
        Ok(())
    }

    fn add_unique(&self, key: &Key, element: i64) -> Result<bool> {
        let append = lists::append(&self.list, BIN, element);
        let policy = WritePolicy::default().record_exists_action(RecordExistsAction::UpdateOnly);
        match self.set.operate_with(&policy, key, &[append]) {
            Ok(_) => Ok(true),
            Err(Error::ElementExists { .. }) => Ok(false),
            Err(other) => Err(other.into()),
        }
    }

    fn put_list(&self, key: &Key, list: &[i64]) -> Result<()> {
        let elements = list.iter().map(|element| (*element).into()).collect();
        let append = lists::append_items(&self.list, BIN, elements);
        self.set.operate(key, &[append])?;
        Ok(())
    }

    fn list(&self, key: &Key) -> Result<Vec<i64>> {
        let list = self.set.read(key, |record| -> Option<Vec<i64>> {
            let list = record.bin(BIN)?.as_list()?;
            list.iter().map(|element| element.ok()?.as_i64()).collect()
        })?;
        Ok(list.flatten().ok_or("the list is not there")?)
    }
}
