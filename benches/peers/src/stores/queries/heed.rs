//! LMDB: records in one table, entries of the index in another.

use super::super::heed::{Table, create, open_env};
use super::{
    COMMIT, Child, Lend, Parent, QueryStore, entries_of, entry, key_bytes, key_of, number_of,
    parts, row,
};
use crate::Result;
use crate::stores::Metered;
use heed::{DatabaseFlags, Env};
use std::ops::Bound;
use std::path::Path;

pub struct Heed {
    env: Env,
    records: Table,
    by_parent: Table,
}

impl Heed {
    pub fn create(dir: &Path) -> Result<Self> {
        let env = open_env(dir, COMMIT)?;
        let records = create(&env, "records", DatabaseFlags::empty())?;
        let by_parent = create(&env, "by_parent", DatabaseFlags::empty())?;
        Ok(Self {
            env,
            records,
            by_parent,
        })
    }

    /// Lends the records of the first entries of a range.
    fn lend_range(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        limit: usize,
        lend: &mut Lend<'_>,
    ) -> Result<()> {
        let transaction = self.env.read_txn()?;
        for found in self.by_parent.range(&transaction, &range)?.take(limit) {
            let record = self.records.get(&transaction, key_of(found?.0)?)?;
            let (parent, body) = parts(record.ok_or("an entry without its record")?)?;
            lend(parent, body);
        }
        Ok(())
    }
}

impl Metered for Heed {
    fn sync(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}

impl QueryStore for Heed {
    fn load(&self, batch: &[Child]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for child in batch {
            let key = key_bytes(child.number);
            let row = row(&child.parent, &child.body);
            self.records.put(&mut transaction, &key, &row)?;
            let entry = entry(&child.parent, key);
            self.by_parent.put(&mut transaction, &entry, &[])?;
        }
        Ok(transaction.commit()?)
    }

    fn of_parent(&self, parent: &Parent, limit: usize, lend: &mut Lend<'_>) -> Result<()> {
        let [first, last] = entries_of(parent);
        let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        self.lend_range(range, limit, lend)
    }

    fn range_from(&self, parent: &Parent, limit: usize, lend: &mut Lend<'_>) -> Result<()> {
        let [first, _] = entries_of(parent);
        let range = (Bound::Included(&first[..]), Bound::Unbounded);
        self.lend_range(range, limit, lend)
    }

    fn scan(&self, end: u64, lend: &mut Lend<'_>) -> Result<()> {
        let transaction = self.env.read_txn()?;
        for record in self.records.iter(&transaction)? {
            let (parent, body) = parts(record?.1)?;
            if number_of(body) < end {
                lend(parent, body);
            }
        }
        Ok(())
    }

    fn set_parent(&self, number: u64, parent: &Parent) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        let key = key_bytes(number);
        let record = self.records.get(&transaction, &key)?;
        let (before, body) = parts(record.ok_or("the record is not there")?)?;
        let (before, row) = (entry(before, key), row(parent, body));
        self.records.put(&mut transaction, &key, &row)?;
        self.by_parent.delete(&mut transaction, &before)?;
        let entry = entry(parent, key);
        self.by_parent.put(&mut transaction, &entry, &[])?;
        Ok(transaction.commit()?)
    }
}
