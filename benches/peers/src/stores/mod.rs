//! The stores under test: one trait, one small file each.
//!
//! Every call is what a service would write: a read sees the newest commit, a write is committed
//! when the call returns. Whether a commit waits for the disk is said when a store is opened.
//! Single records are [`PeerStore`]; queries, transactions and the graph have traits of their own.

pub mod accounts;
mod dashmap;
mod emdb;
mod fjall;
mod floor;
pub mod graph;
mod heed;
pub mod queries;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod sled;
mod spikelet;
mod spikelet_storage;
mod sqlite;

use crate::plan::{Phase, Session};
use crate::{Error, Result, report};
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

/// Whether a commit waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Commits do not wait for the disk; the risk in a crash differs from store to store.
    Unsynced,
    /// It returns when a power failure can no longer undo it.
    Synced,
}

/// Operations that every store supports, for measuring its costs; shared by all threads of a run.
pub trait Metered: Sync {
    /// Writes all data put until now to the disk.
    fn sync(&self) -> Result<()>;

    /// Returns the store's own count of its log, if it has one.
    fn log_bytes(&self) -> Option<LogBytes> {
        None
    }
}

/// A store of single records.
pub trait PeerStore: Metered {
    /// Stores every record of `batch`; in one transaction where the store has them.
    fn load(&self, batch: &[(Key, Value)]) -> Result<()>;

    /// The value, as bytes that the caller owns.
    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>>;

    /// Lends the value to `read`, with the least copying the store offers; false: there is none.
    fn get_ref(&self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Lends the value of each key to `read`, with the key's place in `keys`, in any order; keys
    /// without a value are passed over. In one call, or else in one read transaction, if the store
    /// has either.
    fn get_batch(&self, keys: &[Key], read: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        for (place, key) in keys.iter().enumerate() {
            self.get_ref(key, &mut |bytes| read(place, bytes))?;
        }
        Ok(())
    }

    /// Stores one value and commits it.
    fn put(&self, key: &Key, value: &[u8]) -> Result<()>;

    /// Stores every record of `group`, each under another key, in one transaction, and commits it.
    fn put_group(&self, group: &[(Key, Value)]) -> Result<()> {
        self.load(group)
    }

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
}

/// Bytes of log that a store has taken, up to some moment or between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBytes {
    /// Log written for new data.
    pub appended: u64,
    /// Log moved by cleaning, to free space.
    pub moved: u64,
}

impl LogBytes {
    /// Returns the increase since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            appended: self.appended - before.appended,
            moved: self.moved - before.moved,
        }
    }
}

/// Edits a list as a store of plain bytes does: decode all, insert, encode all.
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
    /// LMDB with sorted duplicates, in the graph alone.
    HeedDuplicates,
    /// sled: log-structured B-tree.
    Sled,
    /// emdb: append-only journal, hash index in memory, mapped reads.
    Emdb,
    /// RocksDB: log-structured merge tree.
    #[cfg(feature = "rocksdb")]
    Rocksdb,
    /// SQLite by rusqlite, in a file with a write-ahead log.
    Sqlite,
    /// SQLite in memory.
    SqliteMemory,
    /// DashMap: no disk at all.
    Dashmap,
    /// Two dependent loads and nothing else: the least time of a single get.
    Floor,
    /// spikelet with its default durability: the log is synced every 100 ms.
    SpikeletInterval,
    /// The storage engine below spikelet, for groups of writes alone.
    SpikeletStorage,
    /// spikelet in memory.
    SpikeletMemory,
    /// spikelet, synced as seldom as its peers, or at each commit in the durable phases.
    Spikelet,
}

impl StoreName {
    /// Opens a store in `dir`, which is empty or holds this store's own files.
    pub fn open(self, dir: &Path, commit: Commit) -> Result<Box<dyn PeerStore>> {
        Ok(match self {
            Self::Redb => Box::new(redb::Redb::open(dir, commit)?),
            Self::Fjall => Box::new(fjall::Fjall::open(dir, commit)?),
            Self::Heed => Box::new(heed::Heed::open(dir, commit)?),
            Self::Sled => Box::new(sled::Sled::open(dir, commit)?),
            Self::Emdb => Box::new(emdb::Emdb::open(dir, commit)?),
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => Box::new(rocksdb::Rocksdb::open(dir, commit)?),
            Self::Dashmap => Box::new(dashmap::Dashmap::default()),
            Self::Floor => Box::new(floor::Floor::create(dir)?),
            Self::SpikeletInterval => {
                Box::new(spikelet::Spikelet::open(dir, Durability::default())?)
            }
            Self::SpikeletStorage => {
                let durability = spikelet_durability(commit);
                Box::new(spikelet_storage::SpikeletStorage::open(dir, durability)?)
            }
            Self::Spikelet => Box::new(spikelet::Spikelet::open(dir, spikelet_durability(commit))?),
            other => return Err(other.absent_from("the phases of single records")),
        })
    }

    /// The error of a session that the store takes no part in.
    pub fn absent_from(self, phases: &str) -> Error {
        format!("{} takes no part in {phases}", self.name()).into()
    }

    /// Whether the store takes part in a phase.
    pub fn runs(self, phase: Phase) -> bool {
        match phase.session() {
            Session::Records | Session::Lists | Session::Durable => self.runs_single(phase),
            Session::Queries => queries::TAKE_PART.contains(&self),
            Session::Transfers | Session::DurableTransfers => accounts::TAKE_PART.contains(&self),
            Session::Graph | Session::GraphBulk => graph::TAKE_PART.contains(&self),
        }
    }

    /// Whether the store takes part in a phase of single records.
    fn runs_single(self, phase: Phase) -> bool {
        match self {
            Self::Floor => matches!(phase, Phase::Get | Phase::GetRef),
            // Neither has a sync at each commit.
            Self::Dashmap | Self::SpikeletInterval => phase.session() != Session::Durable,
            Self::SpikeletStorage => phase == Phase::Groups,
            Self::HeedDuplicates | Self::Sqlite | Self::SqliteMemory | Self::SpikeletMemory => {
                false
            }
            _ => true,
        }
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
            Self::Floor => report::version("peers").to_owned(),
            Self::SpikeletInterval | Self::SpikeletMemory => report::version("spikelet").to_owned(),
            Self::Sqlite | Self::SqliteMemory => rusqlite::version().to_owned(),
            Self::HeedDuplicates => report::version("heed").to_owned(),
            other => report::version(&other.name()).to_owned(),
        }
    }
}

fn spikelet_durability(commit: Commit) -> Durability {
    match commit {
        Commit::Unsynced => Durability::Process,
        Commit::Synced => Durability::Commit,
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// The stores of single records that can be written to: not the floor, which has tests of its
    /// own.
    pub fn written_stores() -> impl Iterator<Item = StoreName> {
        let all = StoreName::value_variants().iter().copied();
        all.filter(|name| name.runs_single(Phase::Lists) || *name == StoreName::SpikeletStorage)
    }

    fn every_store(check: impl Fn(&str, &dyn PeerStore)) {
        for name in written_stores() {
            for commit in [Commit::Unsynced, Commit::Synced] {
                let dir = tempfile::tempdir().unwrap();
                let store = name.open(dir.path(), commit).unwrap();
                check(&format!("{} {commit:?}", name.name()), store.as_ref());
            }
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
    fn a_batch_lends_each_value_that_is_there_with_the_place_of_its_key() {
        every_store(|name, store| {
            store.put(&[1; KEY_BYTES], &[10; VALUE_BYTES]).unwrap();
            store.put(&[3; KEY_BYTES], &[30; VALUE_BYTES]).unwrap();
            let keys = [3, 2, 1, 3].map(|byte| [byte; KEY_BYTES]);
            let mut lent = Vec::new();
            let mut read = |place, bytes: &[u8]| lent.push((place, bytes.to_vec()));
            store.get_batch(&keys, &mut read).unwrap();
            lent.sort_unstable();
            let expected = [(0, 30), (2, 10), (3, 30)];
            let expected = expected.map(|(place, byte)| (place, vec![byte; VALUE_BYTES]));
            assert_eq!(lent, expected, "{name}");
            store.get_batch(&[], &mut |_, _| panic!("{name}")).unwrap();
        });
    }

    #[test]
    fn a_group_stores_all_its_records() {
        every_store(|name, store| {
            let group = [1, 2, 3].map(|byte| ([byte; KEY_BYTES], [byte; VALUE_BYTES]));
            store.put(&[2; KEY_BYTES], &[9; VALUE_BYTES]).unwrap();
            store.put_group(&group).unwrap();
            for (key, value) in group {
                assert_eq!(store.get(&key).unwrap().unwrap(), value, "{name}");
            }
        });
    }

    #[test]
    fn a_store_on_disk_is_loaded_unsynced_and_written_to_after_it_was_opened_again() {
        for name in written_stores().filter(|name| *name != StoreName::Dashmap) {
            let dir = tempfile::tempdir().unwrap();
            let records = [1, 2].map(|byte| ([byte; KEY_BYTES], [byte; VALUE_BYTES]));
            let store = name.open(dir.path(), Commit::Unsynced).unwrap();
            store.load(&records).unwrap();
            store.sync().unwrap();
            drop(store);
            let store = name.open(dir.path(), Commit::Synced).unwrap();
            store.put(&[2; KEY_BYTES], &[7; VALUE_BYTES]).unwrap();
            drop(store);
            let store = name.open(dir.path(), Commit::Synced).unwrap();
            for (key, value) in [(1, 1), (2, 7)] {
                let found = store.get(&[key; KEY_BYTES]).unwrap().unwrap();
                assert_eq!(found, [value; VALUE_BYTES], "{name:?}");
            }
        }
    }

    #[test]
    fn an_edit_of_a_list_that_is_not_there_is_an_error() {
        every_store(|name, store| {
            assert!(store.add_unique(&[8; KEY_BYTES], 1).is_err(), "{name}");
        });
    }
}
