//! Stores of accounts: a transaction reads two of them and writes both.

mod fjall;
mod heed;
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod spikelet;
mod sqlite;

use super::{Commit, Key, Metered, StoreName, Value, spikelet_durability};
use crate::{Error, Result};
use std::path::Path;

/// The stores that take part.
pub const TAKE_PART: &[StoreName] = &[
    StoreName::Redb,
    StoreName::Fjall,
    StoreName::Heed,
    StoreName::Sqlite,
    #[cfg(feature = "rocksdb")]
    StoreName::Rocksdb,
    StoreName::Spikelet,
];

/// A store of accounts: values of the record phases that hold a balance.
pub trait AccountStore: Metered {
    /// Stores every account of `batch`; in one transaction where the store has them.
    fn load(&self, batch: &[(Key, Value)]) -> Result<()>;

    /// Moves `amount` from one account to another in one transaction, which reads and writes both.
    /// It is repeated where another came between.
    fn transfer(&self, from: &Key, to: &Key, amount: i64) -> Result<()>;

    /// The balance of an account.
    fn balance(&self, key: &Key) -> Result<i64>;
}

impl StoreName {
    /// Opens a store of accounts in `dir`, which is empty or holds this store's own files.
    pub fn open_accounts(self, dir: &Path, commit: Commit) -> Result<Box<dyn AccountStore>> {
        Ok(match self {
            Self::Redb => Box::new(super::redb::Redb::open(dir, commit)?),
            Self::Fjall => Box::new(fjall::Fjall::open(dir, commit)?),
            Self::Heed => Box::new(super::heed::Heed::open(dir, commit)?),
            Self::Sqlite => Box::new(sqlite::open(dir, commit)?),
            #[cfg(feature = "rocksdb")]
            Self::Rocksdb => Box::new(rocksdb::Rocksdb::open(dir, commit)?),
            Self::Spikelet => {
                let durability = spikelet_durability(commit);
                Box::new(super::spikelet::Spikelet::open(dir, durability)?)
            }
            other => return Err(other.absent_from("transactions")),
        })
    }
}

/// Where the balance is in a value: behind the number of the account.
const BALANCE: std::ops::Range<usize> = 8..16;

/// The balance in a value.
pub fn balance_in(value: &[u8]) -> Result<i64> {
    let bytes = value.get(BALANCE).and_then(|bytes| bytes.first_chunk());
    Ok(i64::from_le_bytes(
        *bytes.ok_or("a value without a balance")?,
    ))
}

/// The value with another balance.
pub fn with_balance(value: &[u8], balance: i64) -> Result<Value> {
    let mut changed: Value = value.try_into()?;
    if let Some(bytes) = changed.get_mut(BALANCE) {
        bytes.copy_from_slice(&balance.to_le_bytes());
    }
    Ok(changed)
}

/// The value with `amount` on top of its balance; None: there is no account.
fn moved(value: Option<&[u8]>, amount: i64) -> Result<Value> {
    let value = value.ok_or_else(missing)?;
    with_balance(value, balance_in(value)? + amount)
}

fn missing() -> Error {
    "an account is not there".into()
}

#[cfg(test)]
mod tests;
