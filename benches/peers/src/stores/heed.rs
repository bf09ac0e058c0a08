//! LMDB by heed: `MDB_NOSYNC | MDB_WRITEMAP`, its fastest settings, or its defaults, with which
//! every commit is synced.

use super::{Commit, Key, Metered, PeerStore, Value, edited};
use crate::Result;
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, DatabaseFlags, Env, EnvFlags, EnvOpenOptions};
use std::path::Path;

/// Address space of the map. The file is sparse, so it costs only the used part.
const MAP_BYTES: usize = 64 << 30;

/// Tables of an environment at most.
const TABLES_MAX: u32 = 4;

/// A table of bytes by bytes.
pub(super) type Table = Database<'static, Bytes, Bytes>;

/// Opens the environment in `dir`.
pub(super) fn open_env(dir: &Path, commit: Commit) -> Result<Env> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP_BYTES).max_dbs(TABLES_MAX);
    let flags = match commit {
        Commit::Unsynced => EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP,
        Commit::Synced => EnvFlags::empty(),
    };
    // SAFETY: the directory was made for this run alone, so the file does not change under the map;
    // data that NO_SYNC loses in a power failure goes away with the directory.
    unsafe {
        options.flags(flags);
        Ok(options.open(dir)?)
    }
}

/// Creates a table, or opens it.
pub(super) fn create(env: &Env, name: &str, flags: DatabaseFlags) -> Result<Table> {
    let transaction = env.write_txn()?;
    let created = env.create_databases_and_commit(transaction, |opener, transaction| {
        let mut options = opener.database_options().types::<Bytes, Bytes>();
        let table = options.name(name).flags(flags).create(transaction)?;
        Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(table))
    })?;
    match created {
        CommitOrAbort::Commit(table) => Ok(table),
        CommitOrAbort::Abort(()) => Err("LMDB did not create its table".into()),
    }
}

pub struct Heed {
    pub(super) env: Env,
    pub(super) records: Table,
}

impl Heed {
    pub fn open(dir: &Path, commit: Commit) -> Result<Self> {
        let env = open_env(dir, commit)?;
        let records = create(&env, "records", DatabaseFlags::empty())?;
        Ok(Self { env, records })
    }
}

impl Metered for Heed {
    fn sync(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}

impl PeerStore for Heed {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in batch {
            self.records.put(&mut transaction, key, value)?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        let transaction = self.env.read_txn()?;
        Ok(self.records.get(&transaction, key)?.map(<[u8]>::to_vec))
    }

    fn get_ref(&self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let transaction = self.env.read_txn()?;
        Ok(self.records.get(&transaction, key)?.map(read).is_some())
    }

    fn get_batch(&self, keys: &[Key], read: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let transaction = self.env.read_txn()?;
        for (place, key) in keys.iter().enumerate() {
            if let Some(bytes) = self.records.get(&transaction, key)? {
                read(place, bytes);
            }
        }
        Ok(())
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.records.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn add_unique(&self, key: &Key, element: i64) -> Result<bool> {
        let mut transaction = self.env.write_txn()?;
        let list = self
            .records
            .get(&transaction, key)?
            .ok_or("the list is not there")?;
        let list = edited(list, element)?;
        if let Some(list) = &list {
            self.records.put(&mut transaction, key, list)?;
        }
        transaction.commit()?;
        Ok(list.is_some())
    }
}
