//! `Neighbors`: the records at the other ends of a record's edges.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{ManyToMany, RelationEnd};
#[cfg(doc)]
use crate::Error;
use crate::relation::keys::{Related, read_related};
use crate::relation::side::SideEdge;
use crate::relation::side_reader::SideReader;
use crate::shard::{ElementSortKey, in_pages};
use crate::{Key, RecordStore, Result, Value};

/// The targets of a source, or the sources of a target, in the order of their keys:
/// [`ManyToMany::targets`], [`ManyToMany::sources`].
///
/// Pages by position suit a user who turns pages; pages after a key stay good while others add and
/// remove edges.
///
/// [`ManyToMany::targets`]: super::ManyToMany::targets
/// [`ManyToMany::sources`]: super::ManyToMany::sources
#[derive(Clone, Debug)]
pub struct Neighbors<'r, S: RecordStore> {
    relation: &'r ManyToMany<S>,
    /// The end of the edges that the owner is.
    end: RelationEnd,
    owner: Key<'static>,
}

impl<'r, S: RecordStore> Neighbors<'r, S> {
    pub(super) fn new(relation: &'r ManyToMany<S>, end: RelationEnd, owner: Key<'_>) -> Self {
        Self {
            relation,
            end,
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

    /// Returns the first `limit` keys that are greater than `after` (`None`: the first of all). One
    /// read.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn page_after(&self, after: Option<&Key<'_>>, limit: u64) -> Result<Vec<Key<'static>>> {
        let page = self.edges_after(after, limit)?;
        Ok(page.into_iter().map(|(key, _)| key).collect())
    }

    /// Returns the first `limit` keys that are greater than `after`, each with the attributes of
    /// its edge. One read.
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

    /// Returns at most `limit` records from this position on, with the attributes of their edges.
    /// One read and one batch.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn fetch(&self, offset: u64, limit: u64) -> Result<Vec<Related>> {
        let page = self.read_side(|side| side.page(&self.owner, offset, limit))?;
        self.read(page, None)
    }

    /// Returns the first `limit` records with keys greater than `after`, with the wanted bins that
    /// they have (`None`: all). One read and one batch.
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
        let other = self.end.other();
        let records = self.relation.records(other);
        let related = records.and_then(|records| read_related(records, edges, bins));
        self.relation.edges.named(other, related)
    }

    /// Returns the first `limit` keys greater than `after` that are among these neighbors and among
    /// `other`'s: common friends, or, given targets and sources of one record, the ones that follow
    /// back. One read of each for 512 keys, and no more keys in memory.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn common(
        &self,
        other: &Self,
        after: Option<&Key<'_>>,
        limit: usize,
    ) -> Result<Vec<Key<'static>>> {
        let (mut ours, mut theirs) = (self.keys_after(after), other.keys_after(after));
        let (mut mine, mut yours) = (ours.next().transpose()?, theirs.next().transpose()?);
        let mut common = Vec::new();
        while let (Some(one), Some(another)) = (&mine, &yours) {
            let order = one.cmp(another);
            if order.is_eq() {
                common.push(one.clone());
            }
            if common.len() >= limit {
                break;
            }
            if order.is_le() {
                mine = ours.next().transpose()?;
            }
            if order.is_ge() {
                yours = theirs.next().transpose()?;
            }
        }
        common.truncate(limit);
        Ok(common)
    }

    /// Returns the `limit` edges with the greatest attributes, the greatest first: the latest,
    /// where the attribute is a time. One read for 512 edges; memory for `limit` of them.
    ///
    /// # Errors
    /// As for [`Neighbors::len`].
    pub fn greatest(&self, limit: usize) -> Result<Vec<(Key<'static>, Value)>> {
        let mut kept: BTreeMap<(Reverse<ElementSortKey>, Key<'static>), Value> = BTreeMap::new();
        self.read_side(|side| {
            side.at(&self.owner).each_page(|page| {
                for (key, attributes) in page {
                    let sorted_by = Reverse(ElementSortKey::of(&attributes)?);
                    kept.insert((sorted_by, key), attributes);
                    if kept.len() > limit {
                        kept.pop_last();
                    }
                }
                Ok(())
            })
        })?;
        let edges = kept.into_iter();
        Ok(edges
            .map(|((_, key), attributes)| (key, attributes))
            .collect())
    }

    /// The record with these neighbors.
    pub(in crate::relation) const fn owner(&self) -> &Key<'static> {
        &self.owner
    }

    /// Returns the first `limit` neighbors, in the same direction, of each of these records. One
    /// batch.
    pub(in crate::relation) fn of_each(
        &self,
        owners: &[Key<'static>],
        limit: u64,
    ) -> Result<Vec<Vec<Key<'static>>>> {
        self.read_side(|side| side.first_keys_of_each(owners, limit))
    }

    /// Returns all keys, read in batches: an edge that is added or removed meanwhile may be seen or
    /// not. Ends after an error.
    pub fn iter(&self) -> impl Iterator<Item = Result<Key<'static>>> + '_ {
        self.keys_after(None)
    }

    /// Returns the keys that are greater than `after`, as [`Neighbors::iter`].
    fn keys_after(&self, after: Option<&Key<'_>>) -> impl Iterator<Item = Result<Key<'static>>> {
        let after = after.map(|key| key.clone().into_owned());
        in_pages(move |last: Option<&Key<'static>>, limit| {
            self.page_after(last.or(after.as_ref()), limit)
        })
    }

    /// Reads this side; errors bear its name.
    fn read_side<T>(
        &self,
        read: impl FnOnce(SideReader<'r, S, &'r S::Records>) -> Result<T>,
    ) -> Result<T> {
        let read = self.relation.reader(self.end).and_then(read);
        self.relation.edges.named(self.end, read)
    }
}
