//! RocksDB's pessimistic transactions: `get_for_update` locks a key, the smaller one first, so that
//! no two transactions wait for each other. Options as for single records.

use super::super::rocksdb::{Pinned, checked, ffi, options};
use super::{AccountStore, balance_in, missing, moved};
use crate::Result;
use crate::stores::{Commit, Key, Metered, Value};
use std::ffi::CString;
use std::path::Path;
use std::ptr;

pub struct Rocksdb {
    database: *mut ffi::TransactionDatabase,
    reads: *mut ffi::ReadOptions,
    writes: *mut ffi::WriteOptions,
    transactions: *mut ffi::TransactionOptions,
}

// SAFETY: RocksDB documents its database handle as safe for use by any number of threads at once;
// the options are only read after they were made.
unsafe impl Send for Rocksdb {}
// SAFETY: as above.
unsafe impl Sync for Rocksdb {}

/// A transaction; without a commit, dropping it leaves everything as it was.
struct Transaction<'d> {
    database: &'d Rocksdb,
    handle: *mut ffi::Transaction,
}

impl Rocksdb {
    pub fn open(dir: &Path, commit: Commit) -> Result<Self> {
        let dir = CString::new(dir.to_str().ok_or("a path that is not UTF-8")?)?;
        // SAFETY: every handle comes from its constructor and is destroyed once; the database
        // copies the options.
        let database = unsafe {
            let options = options();
            let locks = ffi::rocksdb_transactiondb_options_create();
            let database = checked(|error| {
                ffi::rocksdb_transactiondb_open(options, locks, dir.as_ptr(), error)
            });
            ffi::rocksdb_transactiondb_options_destroy(locks);
            ffi::rocksdb_options_destroy(options);
            database?
        };
        // SAFETY: constructors without arguments, and a setter on the new object.
        unsafe {
            let writes = ffi::rocksdb_writeoptions_create();
            ffi::rocksdb_writeoptions_set_sync(writes, (commit == Commit::Synced).into());
            Ok(Self {
                database,
                reads: ffi::rocksdb_readoptions_create(),
                writes,
                transactions: ffi::rocksdb_transaction_options_create(),
            })
        }
    }

    fn begin(&self) -> Transaction<'_> {
        // SAFETY: the handles are open until `drop`; null: no transaction is used again.
        let handle = unsafe {
            ffi::rocksdb_transaction_begin(
                self.database,
                self.writes,
                self.transactions,
                ptr::null_mut(),
            )
        };
        Transaction {
            database: self,
            handle,
        }
    }
}

impl Transaction<'_> {
    /// Locks the account and returns its value.
    fn lock(&self, key: &Key) -> Result<Pinned> {
        // SAFETY: the handles are open until `drop`; the key is as long as said.
        let pinned = checked(|error| unsafe {
            let (key, bytes) = (key.as_ptr().cast(), key.len());
            let reads = self.database.reads;
            ffi::rocksdb_transaction_get_pinned_for_update(self.handle, reads, key, bytes, 1, error)
        })?;
        Pinned::new(pinned).ok_or_else(missing)
    }

    fn put(&self, key: &Key, value: &Value) -> Result<()> {
        // SAFETY: the handle is open until `drop`; key and value are as long as said.
        checked(|error| unsafe {
            let (key, key_bytes) = (key.as_ptr().cast(), key.len());
            let (value, value_bytes) = (value.as_ptr().cast(), value.len());
            ffi::rocksdb_transaction_put(self.handle, key, key_bytes, value, value_bytes, error);
        })
    }

    fn commit(self) -> Result<()> {
        // SAFETY: the handle is open until `drop`, which follows.
        checked(|error| unsafe { ffi::rocksdb_transaction_commit(self.handle, error) })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle comes from its constructor and is destroyed here only.
        unsafe { ffi::rocksdb_transaction_destroy(self.handle) }
    }
}

impl Drop for Rocksdb {
    fn drop(&mut self) {
        // SAFETY: all four come from their constructors, and nothing uses them after this.
        unsafe {
            ffi::rocksdb_readoptions_destroy(self.reads);
            ffi::rocksdb_writeoptions_destroy(self.writes);
            ffi::rocksdb_transaction_options_destroy(self.transactions);
            ffi::rocksdb_transactiondb_close(self.database);
        }
    }
}

impl Metered for Rocksdb {
    fn sync(&self) -> Result<()> {
        // SAFETY: the handle is open until `drop`.
        checked(|error| unsafe { ffi::rocksdb_transactiondb_flush_wal(self.database, 1, error) })
    }
}

impl AccountStore for Rocksdb {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        let transaction = self.begin();
        for (key, value) in batch {
            transaction.put(key, value)?;
        }
        transaction.commit()
    }

    fn transfer(&self, from: &Key, to: &Key, amount: i64) -> Result<()> {
        let (first, second) = if from < to { (from, to) } else { (to, from) };
        let signed = |key: &Key| if key == from { -amount } else { amount };
        let transaction = self.begin();
        let one = moved(Some(transaction.lock(first)?.bytes()), signed(first))?;
        let other = moved(Some(transaction.lock(second)?.bytes()), signed(second))?;
        transaction.put(first, &one)?;
        transaction.put(second, &other)?;
        transaction.commit()
    }

    fn balance(&self, key: &Key) -> Result<i64> {
        balance_in(self.begin().lock(key)?.bytes())
    }
}
