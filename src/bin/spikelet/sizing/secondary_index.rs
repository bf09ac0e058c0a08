//! What the secondary indexes of a store take, and how far they narrow a query.

use serde::Serialize;
use spikelet::Namespace;

use crate::report::ReportTable;

/// A secondary index, as it was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct SecondaryIndexSizing {
    /// Its name.
    pub(crate) name: String,
    /// Its set; `None`: the records of all sets are in it.
    pub(crate) set: Option<String>,
    /// One for each record, or for each element, key or value of a collection.
    pub(crate) entries: u64,
    /// Its memory, in bytes.
    pub(crate) memory_bytes: u64,
    /// Different keys among the entries; estimated from a sample beyond some 2 MiB.
    pub(crate) distinct_keys: u64,
    /// The mean number of entries that a query for one value finds; `None` without entries.
    pub(crate) entries_per_key: Option<f64>,
    /// The part of all entries that is, 0 to 1: the lower, the more the index helps. `None` without
    /// entries.
    pub(crate) selectivity: Option<f64>,
    /// Records that could not be read when the index was built: queries do not find them.
    pub(crate) unreadable: u64,
}

impl SecondaryIndexSizing {
    /// Returns the indexes of a namespace, in the order in which they were declared.
    pub(crate) fn all_of(namespace: &Namespace) -> Vec<Self> {
        let indexes = namespace.indexes().into_iter();
        indexes
            .map(|index| {
                let of_keys = |whole: f64| {
                    (index.distinct_keys > 0).then(|| whole / index.distinct_keys as f64)
                };
                Self {
                    entries_per_key: of_keys(index.entries as f64),
                    selectivity: of_keys(1.0),
                    name: index.name.into(),
                    set: index.set.map(Into::into),
                    entries: index.entries,
                    memory_bytes: index.memory_bytes,
                    distinct_keys: index.distinct_keys,
                    unreadable: index.unreadable,
                }
            })
            .collect()
    }
}

/// Shows indexes.
pub(crate) fn secondary_indexes_table(
    caption: &str,
    indexes: &[SecondaryIndexSizing],
) -> ReportTable {
    let rows = indexes.iter();
    let rows = rows.map(|index| (index.set.as_deref().unwrap_or("(all sets)"), index));
    ReportTable::of(
        caption,
        rows,
        "index: name | set: 0 | entries | memory: memory_bytes B | entries a key: entries_per_key .1 | selectivity %2",
    )
}
