//! What operations on a record return.

use spikelet_storage::Lsn;

use crate::Result;
use crate::operation::OperationResults;
use crate::record::{Bins, Key, Metadata, Record};
use crate::value::{Value, ValueRef};

/// The results of operations on a record. The default: no results, of a record that is not there.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::operations::{add, get_bin};
///
/// let pages = spikelet::Store::in_memory()?.set("pages")?;
/// let result = pages.operate("home", &[add("visits", 1), get_bin("visits")])?;
/// assert_eq!(result.value(1), Some(&1.into())); // by the operation's position
/// assert_eq!(result.bin("visits"), Some(&1.into())); // or by its bin
/// assert_eq!((result.generation, result.lsn.is_some()), (1, true));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperateResult {
    /// The record's generation now; 0 if it was deleted.
    pub generation: u16,
    /// The size of the record now, in bytes, as
    /// [`NamespaceConfig::max_record_bytes`](crate::NamespaceConfig::max_record_bytes) counts: its
    /// header, stored key and bins. 0 if it was deleted.
    pub record_bytes: u64,
    /// When the record expires now, in seconds since 2010; 0: never, or it was deleted.
    pub void_time: u32,
    /// How many writers held the record or waited for it when this call came; 0: none. `None` for a
    /// call that only reads, and from a store that does not know.
    /// [`ShardPolicy::contention`](crate::shard::ShardPolicy::contention) is judged by it.
    pub queued_behind: Option<usize>,
    /// The number of the write, for [`Namespace::durable`](crate::Namespace::durable); `None` if
    /// nothing was written.
    pub lsn: Option<Lsn>,
    /// The results of the operations that have one, in their order.
    pub results: OperationResults,
}

impl OperateResult {
    /// The result of the operation at this position among those given; `None` if it has none.
    #[must_use]
    pub fn value(&self, operation: usize) -> Option<&Value> {
        self.results
            .iter()
            .find(|result| result.operation == operation)
            .map(|result| &result.value)
    }

    /// The last result of this bin.
    #[must_use]
    pub fn bin(&self, name: &str) -> Option<&Value> {
        self.results
            .iter()
            .rev()
            .find(|result| result.bin.as_str() == name)
            .map(|result| &result.value)
    }

    /// The record of this key, with the bins that were read.
    pub(crate) fn into_record(self, key: &Key<'_>) -> Result<Record> {
        let metadata = Metadata {
            generation: self.generation,
            void_time: self.void_time,
            last_update_ms: 0,
        };
        let mut bins = Bins::new();
        for result in self.results {
            bins.insert(result.bin, result.value);
        }
        let (mut stored, mut body) = (Vec::new(), Vec::new());
        key.write_stored(&mut stored);
        bins.write_body(&mut body)?;
        Record::new(metadata, Some(&stored), &body)
    }
}

/// What a read of a collection has met that may be sharded:
/// [`RecordSet::read_unsharded`](crate::RecordSet::read_unsharded).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UnshardedRead<'a> {
    /// There is no record of this key.
    NotFound,
    /// A collection of the record is sharded, this one or another, or the record is a companion:
    /// ask the collection's own handle.
    Sharded,
    /// The result of the operation; `None`: no result, as where there is no such bin.
    Value(Option<ValueRef<'a>>),
}
