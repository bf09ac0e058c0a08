//! Queries by an index as wire clients ask them: of some partitions, each from its beginning or
//! behind a record.
//!
//! Clients take the records of a partition in the order of the index's values, and of digests where
//! these are equal; how partitions follow each other is left to the server. The order of the index
//! is such an order of each partition, so a query goes through it once and passes over the entries
//! of other partitions, and over the ones that a page before has brought. A page begins where the
//! first of its partitions does. Clients that take pages name a place for every partition that has
//! brought something, so it passes again over the entries since the last record of the rarest
//! partition.

use std::sync::Arc;

use smallvec::SmallVec;
use spikelet_storage::{Digest, PARTITIONS};

use super::super::by_digest::RemoteRecord;
use super::super::indexes::{Index, split_entry};
use super::super::namespace::Namespace;
use super::bound::{IndexBound, ValueOrder};
use super::conditions::QueryCondition;
use super::run::{EntriesAhead, TakenEntries};
use super::standing::MetRoots;
use super::{Query, QuerySource};
use crate::{Error, Result};

/// The memory of this many records is asked for at once: they are read one by one soon after.
const RECORDS_AHEAD: usize = 32;

/// A partition of the primary index takes as much work as this many entries of a secondary one, or
/// less.
const PARTITION_ENTRIES: usize = 256;

/// Where a query of a partition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PartitionStart {
    pub(crate) partition: usize,
    /// The last record that the client has: its value in the index, if it names one, and its
    /// digest.
    pub(crate) behind: Option<(Option<i64>, Digest)>,
}

/// A query under way: of entries of a secondary index, or of the digests of partitions.
#[derive(Debug)]
pub(crate) struct PartitionQuery {
    namespace: Namespace,
    query: Query,
    source: PartitionSource,
}

#[derive(Debug)]
enum PartitionSource {
    Entries(Box<EntryWalk>),
    Digests {
        starts: Vec<PartitionStart>,
        /// The partition that is visited next.
        next: usize,
        /// Digests of the partition that is being visited, the next one last.
        current: Vec<Digest>,
    },
    /// Records that fit an index, in the order of their digests, each once, even if it is written
    /// meanwhile.
    Places {
        /// The digest that was come to last.
        last: Option<Digest>,
        /// The next one last.
        current: Vec<Digest>,
    },
}

/// The way through a secondary index.
#[derive(Debug)]
struct EntryWalk {
    index: Arc<Index>,
    values: ValueOrder,
    /// The place behind which each partition begins; `None`: it is not asked for.
    starts: Box<[Option<PlaceBehind>]>,
    ahead: EntriesAhead,
    /// Copied out, and not looked at from `next` on.
    taken: TakenEntries,
    next: usize,
    /// The memory of the records of the entries before this one was asked for.
    asked_ahead: usize,
    met: MetRoots,
}

/// The place of the last record that the client has, in the order of entries; `None`: it has
/// nothing.
type PlaceBehind = Option<(u64, Digest)>;

/// The next item.
#[derive(Debug)]
pub(crate) enum NextEntry {
    /// The digest of a record, and the number of its value in a secondary index.
    Found {
        value: Option<i64>,
        digest: Digest,
    },
    /// So much was passed over, and there may be more.
    Paused,
    End,
    /// The index cannot be gone through any more.
    Failed(Error),
}

impl PartitionQuery {
    /// Of one set or of all. `condition`: a secondary index, and the bound on its entries.
    /// `starts`: partitions, none of them twice. `writes`: the records are written, and all
    /// partitions are visited from their beginning.
    pub(crate) fn new(
        namespace: &Namespace,
        set_id: Option<u16>,
        condition: Option<(&Arc<Index>, &IndexBound)>,
        starts: Vec<PartitionStart>,
        writes: bool,
    ) -> Result<Self> {
        let mut query = Query::of_client(namespace, set_id, condition);
        let source = match condition {
            None => PartitionSource::Digests {
                starts,
                next: 0,
                current: Vec::new(),
            },
            // In the order of values, a record would come again after a write that raises its value.
            Some(_) if writes => PartitionSource::Places {
                last: None,
                current: Vec::new(),
            },
            Some((index, bound)) => {
                // As in Aerospike: one result for each geometry that matches.
                query.at_each = matches!(bound, IndexBound::Geometry(_)) && index.values == 1;
                let walk = EntryWalk::new(&query, index, bound, &starts)?;
                PartitionSource::Entries(Box::new(walk))
            }
        };
        Ok(Self {
            namespace: namespace.clone(),
            query,
            source,
        })
    }

    /// How many partitions were begun, of how many; `None`: a secondary index is gone through for
    /// all of them at once.
    pub(crate) fn partitions_begun(&self) -> Option<(usize, usize)> {
        match &self.source {
            PartitionSource::Entries(_) => None,
            PartitionSource::Digests { starts, next, .. } => Some((*next, starts.len())),
            PartitionSource::Places { last, .. } => {
                let begun = last.map_or(0, |digest| digest.partition());
                Some((begun, PARTITIONS))
            }
        }
    }

    /// Goes to the next record of the partitions. Takes one from `most` for each entry it looks at,
    /// 256 for a partition, and pauses at 0. Damage that keeps digests from being found goes to
    /// `damaged`.
    pub(crate) fn advance(
        &mut self,
        most: &mut usize,
        damaged: &mut dyn FnMut(Error),
    ) -> NextEntry {
        let (starts, next, current) = match &mut self.source {
            PartitionSource::Entries(walk) => return walk.advance(&self.query, most),
            PartitionSource::Digests {
                starts,
                next,
                current,
            } => (starts, next, current),
            PartitionSource::Places { last, current } => {
                if current.is_empty() {
                    match self.query.digests_behind(*last, damaged) {
                        Ok(digests) => *current = digests.into_iter().rev().collect(),
                        Err(error) => return NextEntry::Failed(error),
                    }
                }
                let Some(digest) = current.pop() else {
                    return NextEntry::End;
                };
                *last = Some(digest);
                return NextEntry::Found {
                    value: None,
                    digest,
                };
            }
        };
        loop {
            if let Some(digest) = current.pop() {
                return NextEntry::Found {
                    value: None,
                    digest,
                };
            }
            let Some(start) = starts.get(*next) else {
                return NextEntry::End;
            };
            // Paid before its digests are collected, and if it has none: many empty partitions
            // pause a call, too.
            let Some(less) = most.checked_sub(PARTITION_ENTRIES) else {
                return NextEntry::Paused;
            };
            *most = less;
            *next += 1;
            let after = start.behind.as_ref().map(|(_, digest)| digest);
            let sets = self.query.set_id.as_ref().map(std::slice::from_ref);
            let partition = start.partition;
            *current = self.namespace.digests_in(partition, sets, after, |damage| {
                // Told where the partition began.
                if after.is_none() {
                    damaged(damage);
                }
            });
            current.reverse();
        }
    }

    /// Lends the record that [`PartitionQuery::advance`] has come to, if it is shown there: if it
    /// is of the set and has the entry, at none that comes before, or fits the condition. Removes
    /// an entry that the record does not have.
    ///
    /// # Errors
    /// That of a record that is damaged.
    pub(crate) fn read<R>(
        &self,
        digest: &Digest,
        read: impl FnOnce(&RemoteRecord<'_>) -> R,
    ) -> Result<Option<R>> {
        let (query, set_id) = (&self.query, self.query.set_id);
        let (walk, entry) = match &self.source {
            PartitionSource::Entries(walk) => (walk, walk.present()),
            PartitionSource::Digests { .. } => {
                return self.namespace.read_scanned(digest, set_id, read);
            }
            PartitionSource::Places { .. } => {
                return query.read_fitting(digest, |entry| read(&RemoteRecord::new(*entry)));
            }
        };
        let Some(entry) = entry else {
            return Ok(None);
        };
        let search = query.search(&walk.index, &walk.ahead.whole, &walk.met);
        let (mut read, mut found) = (Some(read), None);
        query.core.find_entry(search, entry, &mut |stored, _| {
            found = read.take().map(|read| read(&RemoteRecord::new(*stored)));
        })?;
        Ok(found)
    }
}

impl EntryWalk {
    fn new(
        query: &Query,
        index: &Arc<Index>,
        bound: &IndexBound,
        starts: &[PartitionStart],
    ) -> Result<Self> {
        let values = bound.values();
        let mut by_partition = vec![None; PARTITIONS];
        for start in starts {
            let behind = match (start.behind, &values) {
                // No value is 0 there: nothing has come yet.
                (Some((Some(0), _)), ValueOrder::One { .. }) => None,
                (Some((Some(value), digest)), values) => Some(values.place(value, digest)),
                // Without a value nothing of the partition has come yet.
                (Some((None, _)) | None, _) => None,
            };
            if let Some(place) = by_partition.get_mut(start.partition) {
                *place = Some(behind);
            }
        }
        let mut ahead = query.entries_of(index)?;
        // `None` is below all.
        if let Some(Some(first)) = by_partition.iter().flatten().min() {
            index.cut(&mut ahead.rest, &values.entry(*first), false);
        }
        Ok(Self {
            index: Arc::clone(index),
            values,
            starts: by_partition.into(),
            ahead,
            taken: TakenEntries::default(),
            next: 0,
            asked_ahead: 0,
            met: MetRoots::new(true),
        })
    }

    fn advance(&mut self, query: &Query, most: &mut usize) -> NextEntry {
        loop {
            if self.next >= self.taken.entries.len() {
                (self.next, self.asked_ahead) = (0, 0);
                let taken = query.take_entries(&self.index, &mut self.ahead, &mut self.taken);
                if let Err(error) = taken {
                    self.taken.entries.clear();
                    return NextEntry::Failed(error);
                }
            }
            let Some(entry) = self.taken.entries.get(self.next) else {
                return NextEntry::End;
            };
            let Some(less) = most.checked_sub(1) else {
                return NextEntry::Paused;
            };
            *most = less;
            self.next += 1;
            let (value, digest) = self.value_of(entry);
            if self.is_asked_for(value, digest) {
                self.prefetch(query);
                return NextEntry::Found {
                    value: Some(value),
                    digest,
                };
            }
        }
    }

    /// The entry that it has come to.
    fn present(&self) -> Option<&[u8]> {
        self.taken.entries.get(self.next.checked_sub(1)?)
    }

    /// The number of an entry's value, and the digest of its record.
    fn value_of(&self, entry: &[u8]) -> (i64, Digest) {
        let (key, digest) = split_entry(entry);
        (self.values.number(key), digest)
    }

    fn is_asked_for(&self, value: i64, digest: Digest) -> bool {
        match self.starts.get(digest.partition()).copied().flatten() {
            None => false,
            Some(behind) => behind.is_none_or(|last| self.values.place(value, digest) > last),
        }
    }

    /// Asks for the memory of the present record and of some behind it, once for all of them: they
    /// are read soon.
    fn prefetch(&mut self, query: &Query) {
        if self.next <= self.asked_ahead {
            return;
        }
        let present = self.next.saturating_sub(1);
        let behind = (present + RECORDS_AHEAD).min(self.taken.entries.len());
        let digests: SmallVec<[Digest; RECORDS_AHEAD]> = (present..behind)
            .filter_map(|at| self.taken.entries.get(at))
            .map(|entry| self.value_of(entry))
            .filter(|(value, digest)| self.is_asked_for(*value, *digest))
            .map(|(_, digest)| digest)
            .collect();
        query.core.storage.prefetch_batch(&digests);
        self.asked_ahead = behind;
    }
}

impl Query {
    /// A query as wire clients ask it: of one set or of all, by a bound on a secondary index,
    /// records with shards included.
    fn of_client(
        namespace: &Namespace,
        set_id: Option<u16>,
        condition: Option<(&Arc<Index>, &IndexBound)>,
    ) -> Self {
        let source = condition.map_or(QuerySource::Primary, |(index, _)| {
            QuerySource::Index(Arc::clone(index))
        });
        let core = &namespace.core;
        let set_name = set_id.and_then(|id| core.storage.set_name(id));
        let set = set_id.map(|id| (set_name.as_deref().unwrap_or_default(), Some(id)));
        let mut query = Self::new(core, source, set, None).with_companions();
        if let Some((_, bound)) = condition {
            query.conditions.push(QueryCondition::Bound(bound.clone()));
        }
        query
    }
}
