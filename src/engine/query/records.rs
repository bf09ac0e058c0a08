//! The records of a query one after the other, read page by page.

use super::{Page, QueriedRecord, Query};
use crate::{Result, Set};

/// How many records are read at a time.
const PAGE: usize = 256;

/// The records of a query, in its order: owned, read 256 at a time, so that nothing is held between
/// two of them. A damaged record is an error in its place; an error of the query ends it. From
/// [`Query::iter`] and [`Set::iter`](crate::Set::iter).
#[derive(Debug)]
#[must_use = "records are read as they are taken"]
pub struct QueryRecords {
    query: Query,
    /// How many are still to be read.
    left: usize,
    page: std::vec::IntoIter<Result<QueriedRecord>>,
    is_over: bool,
}

impl QueryRecords {
    pub(super) fn new(query: Query) -> Self {
        Self {
            left: query.limit,
            query,
            page: Vec::new().into_iter(),
            is_over: false,
        }
    }

    fn read(&mut self) -> Result<Page<QueriedRecord>> {
        let most = PAGE.min(self.left);
        let page = self.query.clone().limit(most).records()?;
        // Damaged records without a place come beside these.
        self.left -= most;
        match page.cursor() {
            Some(cursor) => self.query.after = Some(cursor.clone()),
            None => self.is_over = true,
        }
        Ok(page)
    }
}

impl Iterator for QueryRecords {
    type Item = Result<QueriedRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.page.next() {
                return Some(record);
            }
            if self.is_over || self.left == 0 {
                return None;
            }
            match self.read() {
                Ok(page) => self.page = page.into_iter(),
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl Set {
    /// Returns all records of the set, read page by page as by [`Query::iter`]:
    /// `for user in users.iter()`.
    pub fn iter(&self) -> QueryRecords {
        QueryRecords::new(self.query_all())
    }
}

impl IntoIterator for &Set {
    type Item = Result<QueriedRecord>;
    type IntoIter = QueryRecords;

    fn into_iter(self) -> QueryRecords {
        self.iter()
    }
}

impl IntoIterator for Query {
    type Item = Result<QueriedRecord>;
    type IntoIter = QueryRecords;

    fn into_iter(self) -> QueryRecords {
        QueryRecords::new(self)
    }
}

impl IntoIterator for &Query {
    type Item = Result<QueriedRecord>;
    type IntoIter = QueryRecords;

    fn into_iter(self) -> QueryRecords {
        QueryRecords::new(self.clone())
    }
}
