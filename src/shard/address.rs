//! Which collection a handle is of.

use super::scheme::check_bin;
use crate::record::BinName;
use crate::{Key, RecordSet, RecordStore, Result};

/// The records, the key of the root and the bin of a collection: the parts of every handle.
#[derive(Debug)]
pub(crate) struct CollectionAddress<R> {
    pub(crate) records: R,
    pub(crate) key: Key<'static>,
    pub(crate) bin: BinName,
}

impl<R: RecordSet> CollectionAddress<R> {
    /// # Errors
    /// [`Error::Parameter`](crate::Error::Parameter) for a name of a set that is not allowed, and for a bin that describes
    /// shards; [`Error::BinName`](crate::Error::BinName).
    pub(crate) fn new<'k, S: RecordStore<Records = R>>(
        store: &S,
        set: &str,
        key: impl Into<Key<'k>>,
        bin: &str,
    ) -> Result<Self> {
        check_bin(bin)?;
        Ok(Self {
            bin: BinName::new(bin)?,
            records: store.records(set)?,
            key: key.into().into_owned(),
        })
    }
}
