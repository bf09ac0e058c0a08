//! Queries by several threads, for what looks at much and keeps little.

use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;

use super::super::core::ScannedRecord;
use super::super::threads::{each_partition, in_threads, processors};
use super::run::TakenEntries;
use super::standing::MetRoots;
use super::{NO_SET, Query, QuerySource};
use crate::{Error, Result};

impl Query {
    /// Lends all records that fit to `each`, from this many threads at once and in no order, until
    /// one of the calls breaks off; returns what it breaks off with. 0 threads: as many as there
    /// are processors. The threads take partitions of the primary index, or the next entries of a
    /// secondary one, as they get to them.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::sync::atomic::{AtomicI64, Ordering};
    /// # fn main() -> spikelet::Result<()> {
    /// let orders = spikelet::Store::in_memory()?.set("orders")?;
    /// for id in 1..=100 {
    ///     orders.put(id, [("total", id)])?;
    /// }
    /// let sum = AtomicI64::new(0);
    /// let ended = orders.query_all().for_each_parallel(0, |order| {
    ///     match order {
    ///         Ok(order) => {
    ///             let total = order.view.bin("total").and_then(|total| total.as_i64());
    ///             sum.fetch_add(total.unwrap_or(0), Ordering::Relaxed);
    ///             ControlFlow::Continue(())
    ///         }
    ///         Err(damaged) => ControlFlow::Break(damaged),
    ///     }
    /// })?;
    /// assert!(ended.is_continue());
    /// assert_eq!(sum.into_inner(), 5050);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Query::keys`], and [`Error::Parameter`] for a query with limit, order or cursor,
    /// since there is no order.
    pub fn for_each_parallel<B: Send>(
        &self,
        threads: usize,
        each: impl Fn(Result<ScannedRecord<'_>>) -> ControlFlow<B> + Sync,
    ) -> Result<ControlFlow<B>> {
        if self.limit != usize::MAX || self.descending || self.after.is_some() {
            return Err(Error::parameter(
                "a query by several threads has no order: leave out limit, descending and after",
            ));
        }
        self.core
            .activity
            .track(self.kind(), || self.run_parallel(threads, &each))
    }

    fn run_parallel<B: Send>(
        &self,
        threads: usize,
        each: &(impl Fn(Result<ScannedRecord<'_>>) -> ControlFlow<B> + Sync),
    ) -> Result<ControlFlow<B>> {
        self.check_filter()?;
        let threads = match threads {
            0 => processors(),
            threads => threads,
        };
        Ok(match &self.source {
            _ if self.set_id() == Some(NO_SET) => ControlFlow::Continue(()),
            QuerySource::Primary => {
                self.check_over_all()?;
                let set = self.set_id().map(|id| (id, &*self.set_name));
                let (filter, companions) = (self.filter.as_ref(), self.companions);
                each_partition(threads, |partition| {
                    let mut read = |record: Result<ScannedRecord<'_>>| each(record);
                    self.core
                        .scan_partition(partition, set, filter, companions, &mut read)
                })
            }
            QuerySource::Index(index) => {
                let ahead = Mutex::new(self.entries_of(index)?);
                let met = MetRoots::new(!index.has_companions());
                let failed = Mutex::new(Ok(()));
                let ended = in_threads(threads, TakenEntries::default, |taken| {
                    let mut ahead = ahead.lock();
                    match self.take_entries(index, &mut ahead, taken) {
                        Ok(true) => {}
                        Ok(false) => return None,
                        Err(error) => {
                            *failed.lock() = Err(error);
                            return None;
                        }
                    }
                    let whole = Arc::clone(&ahead.whole);
                    drop(ahead);
                    let mut each =
                        |_: Option<&[u8]>, record: Result<ScannedRecord<'_>>| each(record);
                    let search = self.search(index, &whole, &met);
                    Some(self.visit_entries(search, taken, &mut each))
                });
                failed.into_inner()?;
                ended
            }
        })
    }
}
