//! Queries of secondary indexes, for everything above the engine.

use std::ops::Bound;

use super::RecordSet;
use crate::engine::{Set, TransactionSet};
use crate::index::IndexDefinition;
use crate::record::Key;
use crate::value::Value;
use crate::{Digest, Error, Result};

/// A set with secondary indexes.
pub trait IndexedRecordSet: RecordSet {
    /// Returns whether indexes have several components and are in the order of their values. If
    /// not, a query must ask for one value by [`IndexQuery::equal`] alone. Default: true.
    fn has_ordered_indexes(&self) -> bool {
        true
    }

    /// Declares an index of the set and waits until it is complete. Does nothing if it exists
    /// already.
    ///
    /// # Errors
    /// [`Error::IndexExists`] if another index has this name; errors of [`Set::create_index`].
    fn ensure_index(&self, definition: IndexDefinition) -> Result<()>;

    /// Returns the keys of the records that a query finds, one page in the order of the index.
    ///
    /// # Errors
    /// [`Error::IndexNotFound`]; [`Error::Parameter`] for a record without a stored key, and for a
    /// cursor of another query.
    fn query_keys(&self, query: &IndexQuery<'_>) -> Result<KeyPage>;
}

/// A query of a secondary index.
#[derive(Clone, Copy, Debug)]
pub struct IndexQuery<'a> {
    /// The name of the index.
    pub index: &'a str,
    /// The values of the first components.
    pub equal: &'a [Value],
    /// The condition on the next component.
    pub range: IndexRange<'a>,
    /// Maximum number of keys.
    pub limit: usize,
    /// The cursor of the previous page; `None` for the first page.
    pub after: Option<&'a str>,
}

/// The condition on the component after those with fixed values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum IndexRange<'a> {
    /// No condition.
    #[default]
    Any,
    /// Between two bounds of one type.
    Between(Bound<&'a Value>, Bound<&'a Value>),
    /// Beginning with this text, or these bytes.
    BeginsWith(&'a Value),
}

/// A page of keys from a secondary index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyPage {
    /// The keys, in the order of the index.
    pub keys: Vec<Key<'static>>,
    /// The cursor of the next page; `None` after the last one.
    pub cursor: Option<String>,
}

impl IndexedRecordSet for Set {
    fn ensure_index(&self, definition: IndexDefinition) -> Result<()> {
        self.create_index(definition)
    }

    fn query_keys(&self, query: &IndexQuery<'_>) -> Result<KeyPage> {
        let mut asked = self.query(query.index)?.limit(query.limit);
        for value in query.equal {
            asked = asked.eq(value.clone());
        }
        asked = match query.range {
            IndexRange::Any => asked,
            IndexRange::Between(from, to) => asked.range((from.cloned(), to.cloned())),
            IndexRange::BeginsWith(prefix) => asked.begins_with(prefix.clone()),
        };
        if let Some(cursor) = query.after {
            asked = asked.after(&cursor.parse()?);
        }
        let page = asked.keys()?;
        let cursor = page.cursor().map(ToString::to_string);
        let keys = page.into_iter().map(|found| {
            let found = found?;
            found.key.ok_or_else(|| without_key(found.digest))
        });
        Ok(KeyPage {
            keys: keys.collect::<Result<_>>()?,
            cursor,
        })
    }
}

/// The error of a record that an index finds and no call can address.
pub(crate) fn without_key(digest: Digest) -> Error {
    Error::parameter(format!(
        "the record of digest {digest} has no stored key, so it cannot be addressed: write it with WritePolicy::send_key"
    ))
}

/// A query is not part of the transaction: it sees committed records.
impl IndexedRecordSet for TransactionSet<'_> {
    fn ensure_index(&self, definition: IndexDefinition) -> Result<()> {
        self.outside().ensure_index(definition)
    }

    fn query_keys(&self, query: &IndexQuery<'_>) -> Result<KeyPage> {
        self.outside().query_keys(query)
    }
}
