//! The stores under test: one trait, one small file each.
//!
//! Every call is what a service would write: a read sees the newest commit, a write is committed
//! when the call returns, nothing waits for a disk.

mod dashmap;
mod emdb;
mod fjall;
mod heed;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sled;
mod spikelet;

use crate::{Result, report};
use ::spikelet::Durability;
use clap::ValueEnum;
use std::path::Path;

/// Size of every key, in bytes.
pub const KEY_BYTES: usize = 20;
/// Size of every value of the record phases, in bytes.
pub const VALUE_BYTES: usize = 100;

/// A key: what a digest of 20 bytes looks like.
pub type Key = [u8; KEY_BYTES];
/// A value of the record phases.
pub type Value = [u8; VALUE_BYTES];

/// A store, shared by all threads of a run.
pub trait PeerStore: Sync {
    /// Stores every record of `batch`; in one transaction where the store has them.
    fn load(&self, batch: &[(Key, Value)]) -> Result<()>;

    /// The value, as bytes that the caller owns.
    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>>;

    /// Lends the value to `read`, with the least copying the store offers; false: there is none.
    fn get_ref(&self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Stores one value and commits it.
    fn put(&self, key: &Key, value: &[u8]) -> Result<()>;

    /// Adds `element` to the ordered list at `key`, in one transaction; false: it was there.
    ///
    /// Called by one thread at a time.
    fn add_unique(&self, key: &Key, element: i64) -> Result<bool>;

    /// Stores a whole ordered list.
    fn put_list(&self, key: &Key, list: &[i64]) -> Result<()> {
        self.put(key, &rmp_serde::to_vec(list)?)
    }

    /// The whole list at `key`.
    fn list(&self, key: &Key) -> Result<Vec<i64>> {
        let bytes = self.get(key)?.ok_or("the list is not there")?;
        Ok(rmp_serde::from_slice(&bytes)?)
    }

    /// Hands everything written so far to the disk.
    fn sync(&self) -> Result<()>;

    /// What the store says of its own log, if it does.
    fn log_bytes(&self) -> Option<LogBytes> {
        None
    }
}

/// Bytes of log that a store has taken, up to some moment or between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBytes {
    /// Log that was not used before, and what was moved to free some.
    pub fresh: u64,
    /// Places of entries that were never synced and are superseded, written to again.
    pub recycled: u64,
}

impl LogBytes {
    /// What came on top of `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            fresh: self.fresh - before.fresh,
            recycled: self.recycled - before.recycled,
        }
    }
}

/// What a store that holds plain bytes does for an edit: decode all, insert, encode all.
///
/// None: the element is there already.
pub fn edited(encoded: &[u8], element: i64) -> Result<Option<Vec<u8>>> {
    let mut list: Vec<i64> = rmp_serde::from_slice(encoded)?;
    let Err(place) = list.binary_search(&element) else {
        return Ok(None);
    };
    list.insert(place, element);
    Ok(Some(rmp_serde::to_vec(&list)?))
}

/// The stores of `--stores`, in the order of the default run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StoreName {
    /// redb: copy-on-write B-tree.
    Redb,
    /// fjall: log-structured merge tree.
    Fjall,
    /// LMDB by heed: mapped copy-on-write B-tree.
    Heed,
    /// sled: log-structured B-tree.
    Sled,
    /// emdb: append-only journal, hash index in memory, mapped reads.
    Emdb,
    /// RocksDB: log-structured merge tree.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
    /// DashMap: no disk at all.
    Dashmap,
    /// spikelet with its default durability: the log is synced every 100 ms.
    SpikeletInterval,
    /// spikelet, synced as seldom as its peers.
    Spikelet,
}

impl StoreName {
    /// Opens an empty store in `dir`.
    pub fn open(self, dir: &Path) -> Result<Box<dyn PeerStore>> {
        Ok(match self {
            Self::Redb => Box::new(redb::Redb::open(dir)?),
            Self::Fjall => Box::new(fjall::Fjall::open(dir)?),
            Self::Heed => Box::new(heed::Heed::open(dir)?),
            Self::Sled => Box::new(sled::Sled::open(dir)?),
            Self::Emdb => Box::new(emdb::Emdb::open(dir)?),
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => Box::new(rocksdb::Rocksdb::open(dir)?),
            Self::Dashmap => Box::new(dashmap::Dashmap::default()),
            Self::SpikeletInterval => {
                Box::new(spikelet::Spikelet::open(dir, Durability::default())?)
            }
            Self::Spikelet => Box::new(spikelet::Spikelet::open(dir, Durability::Process)?),
        })
    }

    /// The name of the option.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// The locked version of the store's crate, or that of the library.
    pub fn version(self) -> String {
        match self {
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => rocksdb::version(),
            Self::SpikeletInterval => report::version("spikelet").to_owned(),
            other => report::version(&other.name()).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_store(check: impl Fn(&str, &dyn PeerStore)) {
        for name in StoreName::value_variants() {
            let dir = tempfile::tempdir().unwrap();
            let store = name.open(dir.path()).unwrap();
            check(&name.name(), store.as_ref());
        }
    }

    #[test]
    fn what_was_stored_is_read_back_owned_and_borrowed() {
        every_store(|name, store| {
            let loaded = ([1; KEY_BYTES], [2; VALUE_BYTES]);
            store.load(&[loaded]).unwrap();
            store.put(&[3; KEY_BYTES], &[4; VALUE_BYTES]).unwrap();
            for (key, value) in [loaded, ([3; KEY_BYTES], [4; VALUE_BYTES])] {
                assert_eq!(store.get(&key).unwrap().unwrap(), value, "{name}");
                let mut lent = Vec::new();
                let mut read = |bytes: &[u8]| lent = bytes.to_vec();
                assert!(store.get_ref(&key, &mut read).unwrap(), "{name}");
                assert_eq!(lent, value, "{name}");
            }
        });
    }

    #[test]
    fn a_put_replaces_and_a_key_never_stored_is_absent() {
        every_store(|name, store| {
            let key = [7; KEY_BYTES];
            assert_eq!(store.get(&key).unwrap(), None, "{name}");
            assert!(!store.get_ref(&key, &mut |_| ()).unwrap(), "{name}");
            store.put(&key, &[1; VALUE_BYTES]).unwrap();
            store.put(&key, &[2; VALUE_BYTES]).unwrap();
            assert_eq!(
                store.get(&key).unwrap().unwrap(),
                [2; VALUE_BYTES],
                "{name}"
            );
        });
    }

    #[test]
    fn a_list_stays_ordered_and_takes_an_element_once() {
        every_store(|name, store| {
            let key = [9; KEY_BYTES];
            store.put_list(&key, &[10, 30]).unwrap();
            assert!(store.add_unique(&key, 20).unwrap(), "{name}");
            assert!(!store.add_unique(&key, 20).unwrap(), "{name}");
            assert!(store.add_unique(&key, -5).unwrap(), "{name}");
            assert_eq!(store.list(&key).unwrap(), [-5, 10, 20, 30], "{name}");
            store.sync().unwrap();
        });
    }

    #[test]
    fn an_edit_of_a_list_that_is_not_there_is_an_error() {
        every_store(|name, store| {
            assert!(store.add_unique(&[8; KEY_BYTES], 1).is_err(), "{name}");
        });
    }
}
