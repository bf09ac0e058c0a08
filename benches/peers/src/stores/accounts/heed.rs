//! LMDB: one writer at a time.

use super::super::heed::Heed;
use super::{AccountStore, balance_in, missing, moved};
use crate::Result;
use crate::stores::{Key, PeerStore, Value};

impl AccountStore for Heed {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        PeerStore::load(self, batch)
    }

    fn transfer(&self, from: &Key, to: &Key, amount: i64) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        let less = moved(self.records.get(&transaction, from)?, -amount)?;
        let more = moved(self.records.get(&transaction, to)?, amount)?;
        self.records.put(&mut transaction, from, &less)?;
        self.records.put(&mut transaction, to, &more)?;
        Ok(transaction.commit()?)
    }

    fn balance(&self, key: &Key) -> Result<i64> {
        balance_in(&self.get(key)?.ok_or_else(missing)?)
    }
}
