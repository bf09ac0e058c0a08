//! redb: one writer at a time.

use super::super::redb::{Redb, TABLE};
use super::{AccountStore, balance_in, missing, moved};
use crate::Result;
use crate::stores::{Key, PeerStore, Value};
use redb::ReadableTable;

impl AccountStore for Redb {
    fn load(&self, batch: &[(Key, Value)]) -> Result<()> {
        PeerStore::load(self, batch)
    }

    fn transfer(&self, from: &Key, to: &Key, amount: i64) -> Result<()> {
        let transaction = self.write()?;
        {
            let mut table = transaction.open_table(TABLE)?;
            let read = |key: &Key, amount| {
                let value = table.get(key.as_slice())?;
                moved(value.as_ref().map(|value| value.value()), amount)
            };
            let (less, more) = (read(from, -amount)?, read(to, amount)?);
            table.insert(from.as_slice(), less.as_slice())?;
            table.insert(to.as_slice(), more.as_slice())?;
        }
        Ok(transaction.commit()?)
    }

    fn balance(&self, key: &Key) -> Result<i64> {
        balance_in(&self.get(key)?.ok_or_else(missing)?)
    }
}
