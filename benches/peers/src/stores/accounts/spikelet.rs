//! spikelet: the accounts are records of one bin of bytes, as its peers hold them.

use super::super::spikelet::{BIN, Spikelet};
use super::{AccountStore, balance_in, missing, moved};
use crate::Result;
use crate::stores::{Key, PeerStore, Value};
use spikelet::{Error, TransactionSet, ValueRef};

impl AccountStore for Spikelet {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        PeerStore::load(self, batch)
    }

    fn transfer(&self, from: &Key, to: &Key, amount: i64) -> Result<()> {
        self.namespace.transaction(|transaction| {
            let accounts = transaction.in_set(&self.set)?;
            let less = read(&accounts, from, -amount)?;
            let more = read(&accounts, to, amount)?;
            accounts.put(from, [(BIN, less.as_slice())])?;
            accounts.put(to, [(BIN, more.as_slice())])
        })?;
        Ok(())
    }

    fn balance(&self, key: &Key) -> Result<i64> {
        balance_in(&self.get(key)?.ok_or_else(missing)?)
    }
}

/// Returns the account's new value. An invalid one ends the transaction as a refusal.
fn read(accounts: &TransactionSet<'_>, key: &Key, amount: i64) -> spikelet::Result<Value> {
    let record = accounts.get(key)?;
    let value = record.as_ref().and_then(|record| record.view().bin(BIN));
    moved(value.as_ref().and_then(ValueRef::as_blob), amount)
        .map_err(|error| Error::Forbidden(error.to_string().into()))
}
