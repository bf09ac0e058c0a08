//! The secondary indexes of a namespace: their list, and their changes by writes.
//!
//! * `index`: one index; `declare`: how they come and go; `changes`: what a write changes; `build`:
//!   filling one from the records that there are.
//!
//! The invariant: while an index is in the list, every readable record has its entries in it, or a
//! build is going to meet the record. An entry is added before its version is published and removed
//! after, both while the record is locked; so there may be entries too many, never too few, and a
//! query looks at each record before it returns it. A writer takes the list after it has locked the
//! record, and a build locks every record, the ones included that a writer had locked when it came
//! to their partition: no writer can be missed by both.

mod build;
mod changes;
#[cfg(all(test, not(shuttle)))]
mod crashes;
mod declare;
mod index;
#[cfg(all(test, shuttle))]
mod interleavings;

use crate::sync::atomic::{AtomicBool, Ordering};
use std::cell::LazyCell;
use std::sync::Arc;

use crate::sync::{Mutex, RwLock};
use spikelet_storage::EntryView;

use super::entry::facts_of;
use crate::index::EntryList;
use crate::record::RecordView;
use crate::{Error, Result};

pub use build::IndexBuild;

pub(crate) use index::Index;
#[cfg(feature = "server")]
pub(crate) use index::IndexState;
pub use index::IndexStats;
pub(super) use index::split_entry;

/// The most indexes of a namespace: Aerospike's limit.
const INDEXES_MAX: usize = 256;

type IndexList = Arc<Vec<Arc<Index>>>;

/// The indexes of a namespace.
#[derive(Debug)]
pub(super) struct Indexes {
    list: RwLock<IndexList>,
    /// Whether there are any. Looked at by every write.
    any: AtomicBool,
    /// Held while indexes are declared or dropped.
    declaring: Mutex<()>,
    memory_bytes_max: u64,
    in_memory: bool,
}

impl Indexes {
    pub(super) fn new(memory_bytes_max: u64, in_memory: bool) -> Self {
        Self {
            list: RwLock::default(),
            any: AtomicBool::new(false),
            declaring: Mutex::new(()),
            memory_bytes_max,
            in_memory,
        }
    }

    /// All indexes, in the order in which they were declared.
    pub(super) fn all(&self) -> IndexList {
        Arc::clone(&self.list.read())
    }

    pub(super) fn by_name(&self, name: &str) -> Option<Arc<Index>> {
        let all = self.all();
        all.iter().find(|index| *index.name() == *name).cloned()
    }

    /// Whether there are any. A writer asks once it has locked its record.
    #[inline]
    pub(super) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// The memory that all of them take, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.all()
            .iter()
            .map(|index| index.entries.memory_bytes())
            .sum()
    }

    /// Refuses more entries beyond the limit.
    fn check_memory(&self, index: &Index) -> Result<()> {
        if self.memory_bytes_max > 0 && self.memory_bytes() >= self.memory_bytes_max {
            return Err(Error::IndexMemory {
                index: index.name().as_ref().into(),
                limit: self.memory_bytes_max,
            });
        }
        Ok(())
    }

    fn replace(&self, list: Vec<Arc<Index>>) {
        let any = !list.is_empty();
        *self.list.write() = Arc::new(list);
        // Behind the list: a writer that sees that there are any finds them.
        self.any.store(any, Ordering::Release);
    }

    /// Forgets the entries of a record that is about to be removed because its time is over. The
    /// record is locked.
    pub(super) fn forget_expired(&self, entry: &EntryView<'_>, set_name: &dyn Fn() -> String) {
        if !self.any() {
            return;
        }
        let set_id = entry.set_id();
        let looked_up = LazyCell::new(set_name);
        for index in self.all().iter().filter(|index| index.is_of(set_id)) {
            let Ok(record) = RecordView::parse(entry.payload()) else {
                continue;
            };
            let set_name = if index.needs_set_name(set_id) {
                looked_up.as_str()
            } else {
                index.set_name()
            };
            let facts = facts_of(entry, set_name, 0, self.in_memory);
            let mut entries = EntryList::default();
            // A leftover is removed by the query that meets it.
            if index.entries_of(record, &facts, &mut entries).is_ok() {
                entries.iter().for_each(|entry| index.remove(entry));
            }
        }
    }
}
