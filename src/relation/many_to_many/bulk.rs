//! Many edges at once, grouped by record.

use std::ops::ControlFlow;

use serde::Serialize;

use super::{EdgeSides, ManyToMany};
use crate::record::converted;
use crate::relation::bulk::{BulkEdge, EdgeWriter, in_batches};
use crate::relation::declared::ensured;
use crate::{BulkProgress, Key, RecordStore, Result, Value};

impl<S: RecordStore> ManyToMany<S> {
    /// Adds many edges without attributes, batch by batch, in any order. `observe` is called after
    /// each batch, and may stop the call. Returns the final progress.
    ///
    /// A batch of up to 100,000 edges, or 16 MiB of keys and attributes, is one group of writes:
    /// both ends of its edges are written, or none. Each record is written once a batch, with all
    /// its new keys, so an edge costs the less the more edges a batch has for each record. A batch
    /// with more than 32 MiB of records is written in parts. In memory are one batch and the new
    /// versions of its records.
    ///
    /// All records of a batch are locked while it is written: some 0.3 s of processor time for
    /// 100,000 edges, and some 85 MB of memory. Where that is too long for other writers, give each
    /// call fewer edges.
    ///
    /// Edges that both ends have are not written again: a call with the same edges goes on after a
    /// stop, an error or the end of the process. Edges of records that are sharded are linked one
    /// by one, as all are where the store has no groups, as a cluster or a transaction.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use std::ops::ControlFlow;
    /// use spikelet::relation::ManyToMany;
    ///
    /// let store = spikelet::Store::in_memory()?;
    /// let follows = ManyToMany::new(&store, "follows", ("users", "following"), ("users", "followers"));
    /// let edges = (0..1_000).map(|user| (user, user / 10));
    /// let done = follows.link_all(edges, |_| ControlFlow::Continue(()))?;
    /// assert_eq!((done.taken, done.new, done.complete), (1_000, 1_000, true));
    /// assert_eq!(follows.sources(7).len()?, 10);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`ManyToMany::link`], with the record. Earlier batches stay, and of the failing one
    /// edges with both their ends.
    pub fn link_all<'k, A: Into<Key<'k>>, B: Into<Key<'k>>>(
        &self,
        edges: impl IntoIterator<Item = (A, B)>,
        observe: impl FnMut(BulkProgress) -> ControlFlow<()>,
    ) -> Result<BulkProgress> {
        self.link_batches(
            edges.into_iter().map(|edge| Ok(without_attributes(edge))),
            observe,
        )
    }

    /// Adds many edges with attributes, or changes the attributes of edges that are there, as
    /// [`ManyToMany::link_all`] does; all of their records are written. Of an edge that comes twice
    /// in a batch, the last attributes count.
    ///
    /// # Errors
    /// As for [`ManyToMany::link_all`]; [`Error::Parameter`](crate::Error::Parameter) for a
    /// relation without attributes; [`Error::Serde`](crate::Error::Serde).
    pub fn link_all_with<'k, A: Into<Key<'k>>, B: Into<Key<'k>>, T: Serialize>(
        &self,
        edges: impl IntoIterator<Item = (A, B, T)>,
        observe: impl FnMut(BulkProgress) -> ControlFlow<()>,
    ) -> Result<BulkProgress> {
        self.check_attributes()?;
        let edges = edges.into_iter().map(|(source, target, attributes)| {
            Ok(BulkEdge {
                source: source.into(),
                target: target.into(),
                attributes: converted(&attributes)?,
            })
        });
        self.link_batches(edges, observe)
    }

    /// Adds edges without attributes, all of them or none, and returns how many are new: as
    /// [`ManyToMany::link`] for each of them within one transaction, at about a third of the cost,
    /// since each record is read, locked and written once.
    ///
    /// For edges that belong together: the new versions of their records may take 32 MiB, and where
    /// a record is sharded or has one of the edges, they are 4,096 records at most.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::relation::ManyToMany;
    ///
    /// let store = spikelet::Store::in_memory()?;
    /// let follows = ManyToMany::new(&store, "follows", ("users", "following"), ("users", "followers"));
    /// assert_eq!(follows.link_together([("bart", "lisa"), ("lisa", "bart")])?, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`ManyToMany::link`], and [`Error::TransactionLimit`](crate::Error::TransactionLimit)
    /// for too many.
    pub fn link_together<'k, A: Into<Key<'k>>, B: Into<Key<'k>>>(
        &self,
        edges: impl IntoIterator<Item = (A, B)>,
    ) -> Result<u64> {
        let edges: Vec<BulkEdge<'k>> = edges.into_iter().map(without_attributes).collect();
        let write = || match self.named(self.writer()?.write_together(&edges))? {
            Some(new) => Ok(new),
            None => self.store.atomically(|store| {
                edges.iter().try_fold(0, |new, edge| {
                    let ends = (self.edges).ends(&edge.source, &edge.target, &edge.attributes);
                    Ok(new + u64::from(ends.add(store)?))
                })
            }),
        };
        ensured(|| self.ensure_declared(), write)
    }

    fn link_batches<'k>(
        &self,
        edges: impl Iterator<Item = Result<BulkEdge<'k>>>,
        observe: impl FnMut(BulkProgress) -> ControlFlow<()>,
    ) -> Result<BulkProgress> {
        let link = |edge: &BulkEdge<'_>| {
            self.link_value(&edge.source, &edge.target, edge.attributes.clone())
        };
        let write = |edges: &[BulkEdge<'k>]| {
            let write = || self.named(self.writer()?.write(edges, link));
            ensured(|| self.ensure_declared(), write)
        };
        in_batches(edges, write, observe)
    }

    fn writer(&self) -> Result<EdgeWriter<'_, S>> {
        Ok(EdgeWriter {
            store: &self.store,
            sides: self.edges.sides.each_ref(),
            records: self.both_records()?,
        })
    }

    fn named<T>(&self, result: Result<T>) -> Result<T> {
        let EdgeSides { name, sides, .. } = &self.edges;
        let [targets, sources] = sides;
        result.map_err(|error| error.in_relation(name, format!("{targets} and {sources}")))
    }
}

fn without_attributes<'k, A: Into<Key<'k>>, B: Into<Key<'k>>>(
    (source, target): (A, B),
) -> BulkEdge<'k> {
    BulkEdge {
        source: source.into(),
        target: target.into(),
        attributes: Value::Nil,
    }
}
