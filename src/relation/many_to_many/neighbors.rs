//! `Neighbors`: the records at the other ends of a record's edges.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::EdgeSides;
use crate::relation::keys::{BATCH, Related, read_related};
use crate::relation::side::{Edge, Side};
use crate::value::order::compare_total;
use crate::value::{Purpose, Value, encode};
use crate::{Error, Key, RecordStore, Result};

/// The targets of a source, or the sources of a target, in the order of their keys: [`ManyToMany::targets`],
/// [`ManyToMany::sources`].
///
/// Pages by position suit a user who turns pages; pages after a key stay good while others add and remove edges.
///
/// [`ManyToMany::targets`]: super::ManyToMany::targets
/// [`ManyToMany::sources`]: super::ManyToMany::sources
#[derive(Clone, Debug)]
pub struct Neighbors<'r, S> {
    store: &'r S,
    edges: &'r EdgeSides,
    side: &'r Side,
    owner: Key<'static>,
}

impl<'r, S: RecordStore> Neighbors<'r, S> {
    pub(super) fn new(store: &'r S, edges: &'r EdgeSides, side: &'r Side, owner: Key<'_>) -> Self {
        Self {
            store,
            edges,
            side,
            owner: owner.into_owned(),
        }
    }

    /// Returns how many there are. One read.
    ///
    /// # Errors
    /// [`Error::Relation`] around what a read may fail with.
    pub fn len(&self) -> Result<u64> {
        self.named(self.side.len(self.store, &self.owner))
    }

    /// Returns whether there are none. One read.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns whether this key is one of them. One read.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn contains<'k>(&self, key: impl Into<Key<'k>>) -> Result<bool> {
        let found = self.side.get(self.store, &self.owner, &key.into());
        Ok(self.named(found)?.is_some())
    }

    /// Returns at most `limit` keys from this position on. One read.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn page(&self, offset: u64, limit: u64) -> Result<Vec<Key<'static>>> {
        let page = self.side.page(self.store, &self.owner, offset, limit);
        Ok(keys(self.named(page)?))
    }

    /// Returns the first `limit` keys that are greater than `after` (`None`: the first of all). One read.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn page_after(&self, after: Option<&Key<'_>>, limit: u64) -> Result<Vec<Key<'static>>> {
        Ok(keys(self.edges_after(after, limit)?))
    }

    /// Returns the first `limit` keys that are greater than `after`, each with the attributes of its edge. One read.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn edges_after(
        &self,
        after: Option<&Key<'_>>,
        limit: u64,
    ) -> Result<Vec<(Key<'static>, Value)>> {
        let side = self.side;
        self.named(side.page_after(self.store, &self.owner, after, limit))
    }

    /// Returns at most `limit` records from this position on, with the attributes of their edges. One read and one batch.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn fetch(&self, offset: u64, limit: u64) -> Result<Vec<Related>> {
        let page = self.side.page(self.store, &self.owner, offset, limit);
        self.read(self.named(page)?, None)
    }

    /// Returns the first `limit` records whose keys are greater than `after`, with those of `bins` that they have (`None`:
    /// all). One read and one batch.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn fetch_after(
        &self,
        after: Option<&Key<'_>>,
        limit: u64,
        bins: Option<&[&str]>,
    ) -> Result<Vec<Related>> {
        self.read(self.edges_after(after, limit)?, bins)
    }

    fn read(&self, edges: Vec<Edge>, bins: Option<&[&str]>) -> Result<Vec<Related>> {
        let other = self.other_side();
        let related = self
            .store
            .records(&other.set)
            .and_then(|records| read_related(&records, edges, bins));
        related.map_err(|error| self.edges.failed(other, error))
    }

    /// Returns the first `limit` keys greater than `after` that are among these neighbors and among those of `other`: common
    /// friends, or, given targets and sources of one record, those who follow back. One read of each for 512 keys, and no more
    /// keys in memory.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn common(
        &self,
        other: &Self,
        after: Option<&Key<'_>>,
        limit: usize,
    ) -> Result<Vec<Key<'static>>> {
        let mut ours = Stream::new(self, after);
        let mut theirs = Stream::new(other, after);
        let mut common = Vec::new();
        while common.len() < limit {
            let (Some(mine), Some(yours)) = (ours.peek()?, theirs.peek()?) else {
                break;
            };
            match mine.cmp(yours) {
                Ordering::Less => ours.skip(),
                Ordering::Greater => theirs.skip(),
                Ordering::Equal => {
                    common.push(mine.clone());
                    ours.skip();
                    theirs.skip();
                }
            }
        }
        Ok(common)
    }

    /// Returns the `limit` edges with the greatest attributes, the greatest first: the latest, where the attribute is a time.
    /// One read for 512 edges; memory for `limit` of them.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn greatest(&self, limit: usize) -> Result<Vec<(Key<'static>, Value)>> {
        let mut kept: BinaryHeap<ByAttributes> = BinaryHeap::with_capacity(limit + 1);
        let mut after = None;
        loop {
            let page = self.edges_after(after.as_ref(), BATCH)?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            for edge in page {
                kept.push(ByAttributes::new(edge)?);
                if kept.len() > limit {
                    kept.pop();
                }
            }
        }
        Ok(kept
            .into_sorted_vec()
            .into_iter()
            .map(|it| it.edge)
            .collect())
    }

    /// The record whose neighbors these are.
    pub(in crate::relation) const fn owner(&self) -> &Key<'static> {
        &self.owner
    }

    /// Returns the first `limit` neighbors, in the same direction, of each of these records. One batch.
    pub(in crate::relation) fn of_each(
        &self,
        owners: &[Key<'static>],
        limit: u64,
    ) -> Result<Vec<Vec<Key<'static>>>> {
        let edges = self.side.first_of_each(self.store, owners, limit);
        Ok(self.named(edges)?.into_iter().map(keys).collect())
    }

    /// Returns all keys, read in batches: an edge that is added or removed meanwhile may be seen or not. Ends after an error.
    pub fn iter(&self) -> impl Iterator<Item = Result<Key<'static>>> + '_ {
        let mut stream = Stream::new(self, None);
        let mut failed = false;
        std::iter::from_fn(move || {
            if failed {
                return None;
            }
            let next = stream.peek().map(|key| key.cloned());
            failed = next.is_err();
            stream.skip();
            next.transpose()
        })
    }

    fn other_side(&self) -> &'r Side {
        if std::ptr::eq(self.side, &raw const self.edges.targets) {
            &self.edges.sources
        } else {
            &self.edges.targets
        }
    }

    fn named<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.edges.failed(self.side, error))
    }
}

fn keys(edges: Vec<Edge>) -> Vec<Key<'static>> {
    edges.into_iter().map(|(key, _)| key).collect()
}

/// The keys of neighbors, one after the other.
struct Stream<'n, 'r, S> {
    neighbors: &'n Neighbors<'r, S>,
    /// The last key that was read; `None`: from the first on.
    read_to: Option<Key<'static>>,
    page: std::iter::Peekable<std::vec::IntoIter<Key<'static>>>,
    at_end: bool,
}

impl<'n, 'r, S: RecordStore> Stream<'n, 'r, S> {
    fn new(neighbors: &'n Neighbors<'r, S>, after: Option<&Key<'_>>) -> Self {
        Self {
            neighbors,
            read_to: after.map(|key| key.clone().into_owned()),
            page: Vec::new().into_iter().peekable(),
            at_end: false,
        }
    }

    fn peek(&mut self) -> Result<Option<&Key<'static>>> {
        if self.page.len() == 0 && !self.at_end {
            let page = self.neighbors.page_after(self.read_to.as_ref(), BATCH)?;
            self.at_end = (page.len() as u64) < BATCH;
            self.read_to = page.last().cloned().or(self.read_to.take());
            self.page = page.into_iter().peekable();
        }
        Ok(self.page.peek())
    }

    fn skip(&mut self) {
        self.page.next();
    }
}

/// An edge in the order of its attributes, the least of them the greatest: it is the first to go.
struct ByAttributes {
    encoded: Box<[u8]>,
    edge: Edge,
}

impl ByAttributes {
    fn new(edge: Edge) -> Result<Self> {
        let mut encoded = Vec::new();
        encode(&edge.1, Purpose::Lookup, &mut encoded)
            .map_err(|error| Error::malformed("attributes of an edge", error))?;
        Ok(Self {
            encoded: encoded.into(),
            edge,
        })
    }
}

impl Ord for ByAttributes {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_total(&other.encoded, &self.encoded).then_with(|| self.edge.0.cmp(&other.edge.0))
    }
}

impl PartialOrd for ByAttributes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByAttributes {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByAttributes {}
