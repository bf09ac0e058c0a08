//! Queries by several threads, for what looks at much and keeps little.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use spikelet_storage::PARTITIONS;

use super::super::core::ScannedRecord;
use super::super::indexes::Index;
use super::run::TakenEntries;
use super::sharded::MetRoots;
use super::{Query, QuerySource};
use crate::index::EntrySelection;
use crate::{Error, Result};

impl Query {
    /// Lends all records that fit to `each`, from this many threads at once and in no order, until one of the calls breaks off;
    /// returns what it breaks off with. 0 threads: as many as there are processors. The threads take partitions of the
    /// primary index, or the next entries of a secondary one, as they get to them.
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
    /// As for [`Query::keys`], and [`Error::Parameter`] for a query with limit, order or cursor, since there is no order.
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
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        };
        let ended = Ended::default();
        match &self.source {
            QuerySource::Nothing => {}
            QuerySource::Primary => {
                self.check_over_all()?;
                let next = AtomicUsize::new(0);
                run_in(threads, || self.take_partitions(&next, &ended, each));
            }
            QuerySource::Index(index) => {
                let ahead = Mutex::new(self.entries_of(index)?);
                let met = MetRoots::new(self, index, false);
                let work = || {
                    let take = |taken: &mut TakenEntries| {
                        let mut ahead = ahead.lock();
                        self.take_entries(index, &mut ahead, taken)
                            .then(|| Arc::clone(&ahead.whole))
                    };
                    self.take_from_index(index, take, &met, &ended, each);
                };
                run_in(threads, work);
            }
        }
        Ok(match ended.with.into_inner() {
            Some(broken) => ControlFlow::Break(broken),
            None => ControlFlow::Continue(()),
        })
    }

    fn take_partitions<B>(
        &self,
        next: &AtomicUsize,
        ended: &Ended<B>,
        each: &impl Fn(Result<ScannedRecord<'_>>) -> ControlFlow<B>,
    ) {
        while !ended.is_ended() {
            let partition = next.fetch_add(1, Ordering::Relaxed);
            if partition >= PARTITIONS {
                return;
            }
            let set = self.set_id.map(|id| (id, &*self.set_name));
            let filter = self.filter.as_ref();
            let mut read = |record: Result<ScannedRecord<'_>>| each(record);
            ended.note(self.core.scan_partition(
                partition,
                set,
                filter,
                self.companions,
                &mut read,
            ));
        }
    }

    fn take_from_index<B>(
        &self,
        index: &Index,
        take: impl Fn(&mut TakenEntries) -> Option<Arc<EntrySelection>>,
        met: &MetRoots,
        ended: &Ended<B>,
        each: &impl Fn(Result<ScannedRecord<'_>>) -> ControlFlow<B>,
    ) {
        let mut taken = TakenEntries::default();
        while !ended.is_ended() {
            let Some(whole) = take(&mut taken) else {
                return;
            };
            let mut each = |_: Option<&[u8]>, record: Result<ScannedRecord<'_>>| each(record);
            ended.note(self.visit_entries(index, &whole, met, &mut taken, &mut each));
        }
    }
}

/// Runs the same work in several threads, this one among them.
fn run_in(threads: usize, work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| {
            scope.spawn(&work);
        });
        work();
    });
}

/// Whether one of the threads has broken off, and with what.
#[derive(Debug)]
struct Ended<B> {
    is_ended: AtomicBool,
    with: Mutex<Option<B>>,
}

impl<B> Default for Ended<B> {
    fn default() -> Self {
        Self {
            is_ended: AtomicBool::new(false),
            with: Mutex::new(None),
        }
    }
}

impl<B> Ended<B> {
    fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    /// The first one counts.
    fn note(&self, ended: ControlFlow<B>) {
        if let ControlFlow::Break(broken) = ended {
            self.is_ended.store(true, Ordering::Relaxed);
            self.with.lock().get_or_insert(broken);
        }
    }
}
