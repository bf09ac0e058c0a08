//! RocksDB by the C API of its shared library: a block cache of 1 GiB and Bloom filters of 10 bits
//! a key, for the rest its defaults; `sync` in the options of each write that is to be synced.

use super::{Commit, KEY_BYTES, Key, Metered, PeerStore, Value, edited};
use crate::Result;
use std::ffi::{CStr, CString, c_char};
use std::path::Path;
use std::{fs, ptr, slice};

/// As large as the caches that redb and sled have by default; RocksDB's own default is 8 MiB.
const CACHE_BYTES: usize = 1 << 30;
/// RocksDB has no filters by default; this is the size that its documentation uses.
const FILTER_BITS_PER_KEY: f64 = 10.0;

/// The part of `rocksdb/c.h` that is used here; unchanged from RocksDB 7 to 10.
pub(super) mod ffi {
    use std::ffi::{c_char, c_int, c_uchar, c_void};

    macro_rules! opaque {
        ($($name:ident),*) => { $(#[repr(C)] pub struct $name([u8; 0]);)* };
    }
    opaque!(
        BlockOptions,
        Cache,
        ColumnFamily,
        Database,
        Filter,
        Options,
        Pinned,
        ReadOptions,
        Transaction,
        TransactionDatabase,
        TransactionDatabaseOptions,
        TransactionOptions,
        WriteBatch,
        WriteOptions
    );

    #[link(name = "rocksdb")]
    unsafe extern "C" {
        pub fn rocksdb_options_create() -> *mut Options;
        pub fn rocksdb_options_destroy(options: *mut Options);
        pub fn rocksdb_options_set_create_if_missing(options: *mut Options, on: c_uchar);
        pub fn rocksdb_options_set_block_based_table_factory(
            options: *mut Options,
            blocks: *mut BlockOptions,
        );
        pub fn rocksdb_block_based_options_create() -> *mut BlockOptions;
        pub fn rocksdb_block_based_options_destroy(blocks: *mut BlockOptions);
        pub fn rocksdb_block_based_options_set_block_cache(
            blocks: *mut BlockOptions,
            cache: *mut Cache,
        );
        pub fn rocksdb_block_based_options_set_filter_policy(
            blocks: *mut BlockOptions,
            filter: *mut Filter,
        );
        pub fn rocksdb_cache_create_lru(bytes: usize) -> *mut Cache;
        pub fn rocksdb_cache_destroy(cache: *mut Cache);
        pub fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> *mut Filter;

        pub fn rocksdb_open_column_families(
            options: *const Options,
            dir: *const c_char,
            families: c_int,
            names: *const *const c_char,
            family_options: *const *const Options,
            handles: *mut *mut ColumnFamily,
            error: *mut *mut c_char,
        ) -> *mut Database;
        pub fn rocksdb_column_family_handle_destroy(family: *mut ColumnFamily);
        pub fn rocksdb_close(database: *mut Database);
        pub fn rocksdb_flush_wal(database: *mut Database, sync: c_uchar, error: *mut *mut c_char);
        pub fn rocksdb_free(memory: *mut c_void);

        pub fn rocksdb_readoptions_create() -> *mut ReadOptions;
        pub fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
        pub fn rocksdb_get_pinned(
            database: *mut Database,
            options: *const ReadOptions,
            key: *const c_char,
            key_bytes: usize,
            error: *mut *mut c_char,
        ) -> *mut Pinned;
        pub fn rocksdb_batched_multi_get_cf(
            database: *mut Database,
            options: *const ReadOptions,
            family: *mut ColumnFamily,
            keys: usize,
            key_list: *const *const c_char,
            key_bytes: *const usize,
            values: *mut *mut Pinned,
            errors: *mut *mut c_char,
            sorted: bool,
        );
        pub fn rocksdb_pinnableslice_value(
            pinned: *const Pinned,
            value_bytes: *mut usize,
        ) -> *const c_char;
        pub fn rocksdb_pinnableslice_destroy(pinned: *mut Pinned);

        pub fn rocksdb_writeoptions_create() -> *mut WriteOptions;
        pub fn rocksdb_writeoptions_destroy(options: *mut WriteOptions);
        pub fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, on: c_uchar);
        pub fn rocksdb_put(
            database: *mut Database,
            options: *const WriteOptions,
            key: *const c_char,
            key_bytes: usize,
            value: *const c_char,
            value_bytes: usize,
            error: *mut *mut c_char,
        );
        pub fn rocksdb_write(
            database: *mut Database,
            options: *const WriteOptions,
            batch: *mut WriteBatch,
            error: *mut *mut c_char,
        );
        pub fn rocksdb_transactiondb_options_create() -> *mut TransactionDatabaseOptions;
        pub fn rocksdb_transactiondb_options_destroy(options: *mut TransactionDatabaseOptions);
        pub fn rocksdb_transaction_options_create() -> *mut TransactionOptions;
        pub fn rocksdb_transaction_options_destroy(options: *mut TransactionOptions);
        pub fn rocksdb_transactiondb_open(
            options: *const Options,
            locks: *const TransactionDatabaseOptions,
            dir: *const c_char,
            error: *mut *mut c_char,
        ) -> *mut TransactionDatabase;
        pub fn rocksdb_transactiondb_close(database: *mut TransactionDatabase);
        pub fn rocksdb_transactiondb_flush_wal(
            database: *mut TransactionDatabase,
            sync: c_uchar,
            error: *mut *mut c_char,
        );
        pub fn rocksdb_transaction_begin(
            database: *mut TransactionDatabase,
            writes: *const WriteOptions,
            options: *const TransactionOptions,
            reused: *mut Transaction,
        ) -> *mut Transaction;
        pub fn rocksdb_transaction_get_pinned_for_update(
            transaction: *mut Transaction,
            options: *const ReadOptions,
            key: *const c_char,
            key_bytes: usize,
            exclusive: c_uchar,
            error: *mut *mut c_char,
        ) -> *mut Pinned;
        pub fn rocksdb_transaction_put(
            transaction: *mut Transaction,
            key: *const c_char,
            key_bytes: usize,
            value: *const c_char,
            value_bytes: usize,
            error: *mut *mut c_char,
        );
        pub fn rocksdb_transaction_commit(transaction: *mut Transaction, error: *mut *mut c_char);
        pub fn rocksdb_transaction_destroy(transaction: *mut Transaction);

        pub fn rocksdb_writebatch_create() -> *mut WriteBatch;
        pub fn rocksdb_writebatch_destroy(batch: *mut WriteBatch);
        pub fn rocksdb_writebatch_put(
            batch: *mut WriteBatch,
            key: *const c_char,
            key_bytes: usize,
            value: *const c_char,
            value_bytes: usize,
        );
    }
}

pub struct Rocksdb {
    database: *mut ffi::Database,
    /// The default family, in which everything is; batched reads ask for it.
    family: *mut ffi::ColumnFamily,
    reads: *mut ffi::ReadOptions,
    writes: *mut ffi::WriteOptions,
}

// SAFETY: RocksDB documents its database handle as safe for use by any number of threads at once;
// the options are only read after they were made.
unsafe impl Send for Rocksdb {}
// SAFETY: as above.
unsafe impl Sync for Rocksdb {}

/// Makes a call that reports errors as a text, and turns that text into an error.
pub(super) fn checked<T>(call: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    let mut error = ptr::null_mut();
    let result = call(&mut error);
    reported(error).map(|()| result)
}

/// Turns the text of an error, if there is one, into an error.
fn reported(error: *mut c_char) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the library has stored a NUL-terminated text here, which is the caller's to free.
    let text = unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        ffi::rocksdb_free(error.cast());
        text
    };
    Err(text.into())
}

/// A value that stays where it is in the cache until this is dropped.
pub(super) struct Pinned(*mut ffi::Pinned);

impl Pinned {
    /// None: null, there is no value.
    pub(super) fn new(pinned: *mut ffi::Pinned) -> Option<Self> {
        (!pinned.is_null()).then_some(Self(pinned))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        let mut bytes = 0;
        // SAFETY: the handle is not null and not destroyed; its bytes live as long as it does.
        unsafe {
            let value = ffi::rocksdb_pinnableslice_value(self.0, &mut bytes);
            if value.is_null() {
                return &[];
            }
            slice::from_raw_parts(value.cast(), bytes)
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: the handle is not null, and destroyed here only.
        unsafe { ffi::rocksdb_pinnableslice_destroy(self.0) }
    }
}

/// The options of a database, for the caller to destroy.
pub(super) fn options() -> *mut ffi::Options {
    // SAFETY: every handle comes from its constructor and is destroyed once, or has an owner at the
    // end. The options of blocks keep a counted reference to the cache and own the filter; the
    // options of the database copy the options of blocks.
    unsafe {
        let options = ffi::rocksdb_options_create();
        ffi::rocksdb_options_set_create_if_missing(options, 1);
        let blocks = ffi::rocksdb_block_based_options_create();
        let cache = ffi::rocksdb_cache_create_lru(CACHE_BYTES);
        ffi::rocksdb_block_based_options_set_block_cache(blocks, cache);
        let filter = ffi::rocksdb_filterpolicy_create_bloom_full(FILTER_BITS_PER_KEY);
        ffi::rocksdb_block_based_options_set_filter_policy(blocks, filter);
        ffi::rocksdb_options_set_block_based_table_factory(options, blocks);
        ffi::rocksdb_block_based_options_destroy(blocks);
        ffi::rocksdb_cache_destroy(cache);
        options
    }
}

impl Rocksdb {
    pub fn open(dir: &Path, commit: Commit) -> Result<Self> {
        let dir = CString::new(dir.to_str().ok_or("a path that is not UTF-8")?)?;
        let mut family = ptr::null_mut();
        // SAFETY: every handle comes from its constructor and is destroyed once; the database
        // copies the options.
        let database = unsafe {
            let options = options();
            let name = c"default".as_ptr();
            let family_options = options.cast_const();
            let database = checked(|error| {
                ffi::rocksdb_open_column_families(
                    options,
                    dir.as_ptr(),
                    1,
                    &name,
                    &family_options,
                    &mut family,
                    error,
                )
            });
            ffi::rocksdb_options_destroy(options);
            database?
        };
        // SAFETY: constructors without arguments, and a setter on the new object.
        let (reads, writes) = unsafe {
            let writes = ffi::rocksdb_writeoptions_create();
            ffi::rocksdb_writeoptions_set_sync(writes, (commit == Commit::Synced).into());
            (ffi::rocksdb_readoptions_create(), writes)
        };
        Ok(Self {
            database,
            family,
            reads,
            writes,
        })
    }

    fn pinned(&self, key: &Key) -> Result<Option<Pinned>> {
        // SAFETY: the handles are open until `drop`, and the key is as long as said.
        let pinned = checked(|error| unsafe {
            let (key, bytes) = (key.as_ptr().cast(), key.len());
            ffi::rocksdb_get_pinned(self.database, self.reads, key, bytes, error)
        })?;
        Ok(Pinned::new(pinned))
    }
}

impl Drop for Rocksdb {
    fn drop(&mut self) {
        // SAFETY: all four come from their constructors, and nothing uses them after this.
        unsafe {
            ffi::rocksdb_readoptions_destroy(self.reads);
            ffi::rocksdb_writeoptions_destroy(self.writes);
            ffi::rocksdb_column_family_handle_destroy(self.family);
            ffi::rocksdb_close(self.database);
        }
    }
}

impl Metered for Rocksdb {
    fn sync(&self) -> Result<()> {
        // SAFETY: the handle is open until `drop`.
        checked(|error| unsafe { ffi::rocksdb_flush_wal(self.database, 1, error) })
    }
}

impl PeerStore for Rocksdb {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        // SAFETY: the batch is destroyed once, after its use; it copies keys and values, which are
        // as long as said.
        unsafe {
            let writes = ffi::rocksdb_writebatch_create();
            for (key, value) in batch {
                let (key, key_bytes) = (key.as_ptr().cast(), key.len());
                let (value, value_bytes) = (value.as_ptr().cast(), value.len());
                ffi::rocksdb_writebatch_put(writes, key, key_bytes, value, value_bytes);
            }
            let written =
                checked(|error| ffi::rocksdb_write(self.database, self.writes, writes, error));
            ffi::rocksdb_writebatch_destroy(writes);
            written
        }
    }

    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>> {
        Ok(self.pinned(key)?.map(|pinned| pinned.bytes().to_vec()))
    }

    fn get_ref(&self, key: &Key, read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let pinned = self.pinned(key)?;
        Ok(pinned.map(|pinned| read(pinned.bytes())).is_some())
    }

    fn get_batch(&self, keys: &[Key], read: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let list: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let bytes = vec![KEY_BYTES; keys.len()];
        let mut values = vec![ptr::null_mut(); keys.len()];
        let mut errors = vec![ptr::null_mut(); keys.len()];
        // SAFETY: the handles are open until `drop`; all four lists are as long as said, and the
        // keys, too.
        unsafe {
            ffi::rocksdb_batched_multi_get_cf(
                self.database,
                self.reads,
                self.family,
                keys.len(),
                list.as_ptr(),
                bytes.as_ptr(),
                values.as_mut_ptr(),
                errors.as_mut_ptr(),
                false,
            );
        }
        // Every value has an owner before the first error returns.
        let values: Vec<Option<Pinned>> = values.into_iter().map(Pinned::new).collect();
        for error in errors {
            reported(error)?;
        }
        for (place, value) in values.iter().enumerate() {
            if let Some(value) = value {
                read(place, value.bytes());
            }
        }
        Ok(())
    }

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        // SAFETY: the handles are open until `drop`; key and value are as long as said.
        checked(|error| unsafe {
            let (key, key_bytes) = (key.as_ptr().cast(), key.len());
            let (value, value_bytes) = (value.as_ptr().cast(), value.len());
            ffi::rocksdb_put(
                self.database,
                self.writes,
                key,
                key_bytes,
                value,
                value_bytes,
                error,
            );
        })
    }

    fn add_unique(&self, key: &Key, element: i64) -> Result<bool> {
        // One thread edits, so read and write need no transaction.
        let list = self.pinned(key)?.ok_or("the list is not there")?;
        let list = edited(list.bytes(), element)?;
        if let Some(list) = &list {
            self.put(key, list)?;
        }
        Ok(list.is_some())
    }
}

/// The version of the library that this process has loaded, as its file's name has it.
pub fn version() -> String {
    let mapped = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let library = mapped
        .lines()
        .find_map(|line| Some(line.split_once("librocksdb.so.")?.1));
    library.map_or_else(|| "unknown".to_owned(), |version| version.trim().to_owned())
}
