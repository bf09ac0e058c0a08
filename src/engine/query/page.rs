//! What queries return.

use spikelet_storage::Digest;

use super::Cursor;
use crate::Result;
use crate::record::{Key, Record};

/// The key of a record that a query has found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueriedKey {
    /// The digest of the record.
    pub digest: Digest,
    /// Its user key, if it is stored.
    pub key: Option<Key<'static>>,
}

/// A record that a query has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueriedRecord {
    /// The digest of the record.
    pub digest: Digest,
    /// The record, with the bins that were asked for.
    pub record: Record,
}

/// What one call of a query has found, in the order of the query, and where to go on.
///
/// A damaged record is an error in its place. Iterate over it, or take all records, or the first
/// error, by [`Page::into_records`].
#[derive(Debug)]
pub struct Page<T> {
    pub(super) found: Vec<Result<T>>,
    pub(super) cursor: Option<Cursor>,
}

impl<T> Page<T> {
    /// Where the next page begins; `None`: there is nothing behind this one.
    #[must_use]
    pub const fn cursor(&self) -> Option<&Cursor> {
        self.cursor.as_ref()
    }

    /// How many records were found, damaged ones included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether none was found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The records, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Result<T>> {
        self.found.iter()
    }

    /// All that was found.
    ///
    /// # Errors
    /// That of the first record that is damaged.
    pub fn into_records(self) -> Result<Vec<T>> {
        self.found.into_iter().collect()
    }
}

impl<T> IntoIterator for Page<T> {
    type Item = Result<T>;
    type IntoIter = std::vec::IntoIter<Result<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.found.into_iter()
    }
}

impl<'p, T> IntoIterator for &'p Page<T> {
    type Item = &'p Result<T>;
    type IntoIter = std::slice::Iter<'p, Result<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// What a query will look at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The secondary index; `None`: the primary index, and so every record of the set.
    pub index: Option<Box<str>>,
    /// The conditions on the index's components, in words, such as `role from "400-"`.
    pub conditions: Vec<String>,
    /// Whether a filter is left to be asked of each record.
    pub is_filtered: bool,
    /// How many entries will be looked at, if nothing ends the query before; a record may have
    /// several.
    pub entries: u64,
}
