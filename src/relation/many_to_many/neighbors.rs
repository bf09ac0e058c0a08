//! `Neighbors`: the records at the other ends of a record's edges.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::ManyToMany;
use crate::relation::keys::{BATCH, Related, read_related};
use crate::relation::side::{RelationSide, SideEdge};
use crate::relation::side_reader::{NeighborKeys, SideReader};
use crate::value::order::compare_total;
use crate::value::{EncodePurpose, Value, encode};
use crate::{Error, Key, RecordStore, Result};

/// The targets of a source, or the sources of a target, in the order of their keys: [`ManyToMany::targets`],
/// [`ManyToMany::sources`].
///
/// Pages by position suit a user who turns pages; pages after a key stay good while others add and remove edges.
///
/// [`ManyToMany::targets`]: super::ManyToMany::targets
/// [`ManyToMany::sources`]: super::ManyToMany::sources
#[derive(Clone, Debug)]
pub struct Neighbors<'r, S: RecordStore> {
    relation: &'r ManyToMany<S>,
    side: &'r RelationSide,
    owner: Key<'static>,
}

impl<'r, S: RecordStore> Neighbors<'r, S> {
    pub(super) fn new(relation: &'r ManyToMany<S>, side: &'r RelationSide, owner: Key<'_>) -> Self {
        Self {
            relation,
            side,
            owner: owner.into_owned(),
        }
    }

    /// Returns how many there are. One read.
    ///
    /// # Errors
    /// [`Error::Relation`] around the errors of a read.
    pub fn len(&self) -> Result<u64> {
        self.read_side(|side| side.len(&self.owner))
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
        let key = key.into();
        let found = self.read_side(|side| side.get(&self.owner, &key))?;
        Ok(found.is_some())
    }

    /// Returns at most `limit` keys from this position on. One read.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn page(&self, offset: u64, limit: u64) -> Result<Vec<Key<'static>>> {
        let page = self.read_side(|side| side.page(&self.owner, offset, limit))?;
        Ok(page.into_iter().map(|(key, _)| key).collect())
    }

    /// Returns the first `limit` keys that are greater than `after` (`None`: the first of all). One read.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn page_after(&self, after: Option<&Key<'_>>, limit: u64) -> Result<Vec<Key<'static>>> {
        let page = self.edges_after(after, limit)?;
        Ok(page.into_iter().map(|(key, _)| key).collect())
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
        self.read_side(|side| side.page_after(&self.owner, after, limit))
    }

    /// Returns at most `limit` records from this position on, with the attributes of their edges. One read and one batch.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn fetch(&self, offset: u64, limit: u64) -> Result<Vec<Related>> {
        let page = self.read_side(|side| side.page(&self.owner, offset, limit))?;
        self.read(page, None)
    }

    /// Returns the first `limit` records with keys greater than `after`, with the wanted bins that they have (`None`:
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

    fn read(&self, edges: Vec<SideEdge>, bins: Option<&[&str]>) -> Result<Vec<Related>> {
        let other = self.other_side();
        let related = self
            .relation
            .reader(other)
            .and_then(|side| read_related(side.records, edges, bins));
        related.map_err(|error| self.relation.edges.failed(other, error))
    }

    /// Returns the first `limit` keys greater than `after` that are among these neighbors and among `other`'s: common
    /// friends, or, given targets and sources of one record, the ones that follow back. One read of each for 512 keys, and no more
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
        let mut ours = KeyStream::new(self, after);
        let mut theirs = KeyStream::new(other, after);
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
        let mut kept: BinaryHeap<ByAttributes> = BinaryHeap::new();
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

    /// The record with these neighbors.
    pub(in crate::relation) const fn owner(&self) -> &Key<'static> {
        &self.owner
    }

    /// Returns the first `limit` neighbors, in the same direction, of each of these records. One batch.
    pub(in crate::relation) fn of_each(
        &self,
        owners: &[Key<'static>],
        limit: u64,
    ) -> Result<NeighborKeys> {
        self.read_side(|side| side.first_keys_of_each(owners, limit))
    }

    /// Returns all keys, read in batches: an edge that is added or removed meanwhile may be seen or not. Ends after an error.
    pub fn iter(&self) -> impl Iterator<Item = Result<Key<'static>>> + '_ {
        let mut stream = KeyStream::new(self, None);
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

    fn other_side(&self) -> &'r RelationSide {
        let edges = &self.relation.edges;
        if std::ptr::eq(self.side, &raw const edges.targets) {
            &edges.sources
        } else {
            &edges.targets
        }
    }

    /// Reads this side; errors bear its name.
    fn read_side<T>(
        &self,
        read: impl FnOnce(SideReader<'r, S, &'r S::Records>) -> Result<T>,
    ) -> Result<T> {
        let read = self.relation.reader(self.side).and_then(read);
        read.map_err(|error| self.relation.edges.failed(self.side, error))
    }
}

/// The keys of neighbors, one after the other.
struct KeyStream<'n, 'r, S: RecordStore> {
    neighbors: &'n Neighbors<'r, S>,
    /// The last key that was read; `None`: from the first on.
    read_to: Option<Key<'static>>,
    page: std::iter::Peekable<std::vec::IntoIter<Key<'static>>>,
    at_end: bool,
}

impl<'n, 'r, S: RecordStore> KeyStream<'n, 'r, S> {
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
    edge: SideEdge,
}

impl ByAttributes {
    fn new(edge: SideEdge) -> Result<Self> {
        let mut encoded = Vec::new();
        encode(&edge.1, EncodePurpose::Lookup, &mut encoded)
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
