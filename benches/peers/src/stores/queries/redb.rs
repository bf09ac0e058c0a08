//! redb: records in one table, entries of the index in another.

use super::super::redb::{sync, write};
use super::{
    COMMIT, Child, Lend, Parent, QueryStore, entries_of, entry, key_bytes, key_of, number_of,
    parts, row,
};
use crate::Result;
use crate::stores::Metered;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::ops::RangeBounds;
use std::path::Path;

const RECORDS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("records");
const BY_PARENT: TableDefinition<&[u8], ()> = TableDefinition::new("by_parent");

pub struct Redb {
    database: Database,
}

impl Redb {
    pub fn create(dir: &Path) -> Result<Self> {
        let database = Database::create(dir.join("redb"))?;
        let transaction = database.begin_write()?;
        transaction.open_table(RECORDS)?;
        transaction.open_table(BY_PARENT)?;
        transaction.commit()?;
        Ok(Self { database })
    }

    /// Lends the records of the first entries of a range.
    fn lend_range<'k>(
        &self,
        range: impl RangeBounds<&'k [u8]> + 'k,
        limit: usize,
        lend: &mut Lend<'_>,
    ) -> Result<()> {
        let transaction = self.database.begin_read()?;
        let records = transaction.open_table(RECORDS)?;
        let by_parent = transaction.open_table(BY_PARENT)?;
        for found in by_parent.range::<&[u8]>(range)?.take(limit) {
            let record = records.get(key_of(found?.0.value())?)?;
            let record = record.ok_or("an entry without its record")?;
            let (parent, body) = parts(record.value())?;
            lend(parent, body);
        }
        Ok(())
    }
}

impl Metered for Redb {
    fn sync(&self) -> Result<()> {
        sync(&self.database)
    }
}

impl QueryStore for Redb {
    fn load(&self, batch: &[Child]) -> Result<()> {
        let transaction = write(&self.database, COMMIT)?;
        {
            let mut records = transaction.open_table(RECORDS)?;
            let mut by_parent = transaction.open_table(BY_PARENT)?;
            for child in batch {
                let key = key_bytes(child.number);
                let row = row(&child.parent, &child.body);
                records.insert(key.as_slice(), row.as_slice())?;
                by_parent.insert(entry(&child.parent, key).as_slice(), ())?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn of_parent(&self, parent: &Parent, limit: usize, lend: &mut Lend<'_>) -> Result<()> {
        let [first, last] = entries_of(parent);
        self.lend_range(first.as_slice()..=last.as_slice(), limit, lend)
    }

    fn range_from(&self, parent: &Parent, limit: usize, lend: &mut Lend<'_>) -> Result<()> {
        let [first, _] = entries_of(parent);
        self.lend_range(first.as_slice().., limit, lend)
    }

    fn scan(&self, end: u64, lend: &mut Lend<'_>) -> Result<()> {
        let records = self.database.begin_read()?.open_table(RECORDS)?;
        for record in records.iter()? {
            let record = record?.1;
            let (parent, body) = parts(record.value())?;
            if number_of(body) < end {
                lend(parent, body);
            }
        }
        Ok(())
    }

    fn set_parent(&self, number: u64, parent: &Parent) -> Result<()> {
        let key = key_bytes(number);
        let transaction = write(&self.database, COMMIT)?;
        {
            let mut records = transaction.open_table(RECORDS)?;
            let (before, row) = {
                let record = records.get(key.as_slice())?;
                let record = record.ok_or("the record is not there")?;
                let (before, body) = parts(record.value())?;
                (entry(before, key), row(parent, body))
            };
            records.insert(key.as_slice(), row.as_slice())?;
            let mut by_parent = transaction.open_table(BY_PARENT)?;
            by_parent.remove(before.as_slice())?;
            by_parent.insert(entry(parent, key).as_slice(), ())?;
        }
        Ok(transaction.commit()?)
    }
}
