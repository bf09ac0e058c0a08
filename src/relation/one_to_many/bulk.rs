//! Many children at once.

use std::ops::ControlFlow;

use serde::Serialize;

use super::OneToMany;
use crate::record::to_bins;
use crate::relation::bulk::{ListedRecord, in_batches};
use crate::relation::declared::ensured;
use crate::{BulkProgress, IndexedRecordSet, Key, RecordStore, Result};

impl<S: RecordStore<Records: IndexedRecordSet>> OneToMany<S> {
    /// Writes many children, each as by [`OneToMany::put`], batch by batch. `observe` is called
    /// after each batch, and may stop the call. Returns the final progress; of the layouts, key
    /// lists alone count new children.
    ///
    /// A batch of up to 100,000 children, or 16 MiB of keys and values, is one group of writes in a
    /// key list: each parent's list is written once a batch. All its records are locked meanwhile.
    /// In the other layouts, while children are moved between layouts, and where a list is sharded,
    /// each child is put by itself, as one that comes twice is. A call with the same children goes
    /// on after a stop, an error or the end of the process.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use std::ops::ControlFlow;
    /// use spikelet::relation::{Layout, OneToMany};
    ///
    /// let store = spikelet::Store::in_memory()?;
    /// let tasks = OneToMany::new(&store, "tasks", ("people", "tasks"), Layout::key_list("tasks"))?;
    /// let all = (0..1_000).map(|task| (task % 10, task, serde_json::json!({ "title": "paint" })));
    /// let done = tasks.put_all(all, |_| ControlFlow::Continue(()))?;
    /// assert_eq!((done.taken, done.new, tasks.len(7)?), (1_000, 1_000, 100));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`OneToMany::put`]: earlier batches stay.
    pub fn put_all<'k, P: Into<Key<'k>>, C: Into<Key<'k>>, T: Serialize>(
        &self,
        children: impl IntoIterator<Item = (P, C, T)>,
        observe: impl FnMut(BulkProgress) -> ControlFlow<()>,
    ) -> Result<BulkProgress> {
        let place = &self.current;
        let is_listed = place.layout.is_key_list() && self.former.is_none();
        let children = children.into_iter().map(|(parent, child, value)| {
            let (owner, mut bins) = (parent.into(), to_bins(&value)?);
            if is_listed {
                bins = self.named(place, place.stored(&owner, &bins))?;
            }
            let key = child.into();
            Ok(ListedRecord { owner, key, bins })
        });
        let write = |batch: &[ListedRecord<'k>]| {
            if is_listed {
                let write = || {
                    batch
                        .iter()
                        .try_for_each(|child| self.check_bins(&child.bins))?;
                    self.named(place, self.children(place).listed().put_all(batch))
                };
                return ensured(|| self.ensure_declared(), write);
            }
            for child in batch {
                self.put_bins(&child.owner, &child.key, &child.bins)?;
            }
            Ok(0)
        };
        in_batches(children, write, observe)
    }
}
