//! Traversals: breadth first along the edges of a `ManyToMany`, a batch at a time.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::key_set::{KeySet, SeededHash};
use super::keys::BATCH;
use super::many_to_many::Neighbors;
use crate::setters::setters;
use crate::{Key, RecordStore, Result};

/// How a traversal has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraversalEnd {
    /// Everything within the depth was seen.
    Complete,
    /// The caller has stopped it.
    Stopped,
    /// The bound of records was reached, or a record has more edges than are followed, so there may
    /// be more.
    Bounded,
}

/// Goes along edges from a record, breadth first, with one batch of reads for 512 records: friends
/// of friends, shortest paths. From [`Neighbors::traverse`].
///
/// Memory: the keys of the records that were seen, [`Traversal::records_max`] at most, and the
/// edges of one batch.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::relation::ManyToMany;
///
/// let store = spikelet::Store::in_memory()?;
/// let follows = ManyToMany::new(&store, "follows", ("users", "following"), ("users", "followers"));
/// for (source, target) in [("a", "b"), ("b", "c"), ("a", "d"), ("d", "c"), ("c", "e")] {
///     follows.link(source, target)?;
/// }
/// let from_a = follows.targets("a").traverse().depth_max(4);
/// assert_eq!(from_a.at_distance_two(10)?, [("c".into(), 2)]);
/// let path = from_a.shortest_path("e")?.expect("there is one");
/// assert_eq!(path.len(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Traversal<'r, S: RecordStore> {
    from: Neighbors<'r, S>,
    depth_max: u32,
    records_max: usize,
    edges_max: u64,
}

impl<'r, S: RecordStore> Neighbors<'r, S> {
    /// Returns a traversal that begins at these neighbors' record and goes on in their direction.
    #[must_use]
    pub fn traverse(self) -> Traversal<'r, S> {
        Traversal {
            from: self,
            depth_max: 2,
            records_max: 100_000,
            edges_max: 10_000,
        }
    }
}

impl<S: RecordStore> Traversal<'_, S> {
    setters! { const
        /// Sets how many edges lead from the first record to the last at most. Default: 2.
        depth_max: u32,
        /// Sets how many records are seen at most. Default: 100,000.
        records_max: usize,
        /// Sets how many edges of one record are followed at most, the first ones in the order of
        /// their keys. Default: 10,000.
        edges_max: u64,
    }

    /// Shows each record that can be reached to `each` once, with its distance and the record that
    /// led to it, the nearest first; `each` may stop it.
    ///
    /// # Errors
    /// [`Error::Relation`](crate::Error::Relation) around the errors of a read.
    pub fn breadth_first(
        &self,
        mut each: impl FnMut(&Key<'static>, u32, &Key<'static>) -> ControlFlow<()>,
    ) -> Result<TraversalEnd> {
        let start = self.from.owner().clone();
        let mut seen = KeySet::new();
        seen.insert(&start);
        let mut frontier = vec![start];
        let edges_max = usize::try_from(self.edges_max).unwrap_or(usize::MAX);
        let mut ended = TraversalEnd::Complete;
        for depth in 1..=self.depth_max {
            let mut next = Vec::new();
            for keys in frontier.chunks(BATCH as usize) {
                // One more shows whether there are more.
                let neighbors = self.from.of_each(keys, self.edges_max.saturating_add(1))?;
                for (from, edges) in keys.iter().zip(&neighbors) {
                    if edges.len() > edges_max {
                        ended = TraversalEnd::Bounded;
                    }
                    for to in edges.iter().take(edges_max) {
                        if !seen.insert(to) {
                            continue;
                        }
                        // The first record was not reached.
                        if seen.len() - 1 > self.records_max {
                            return Ok(TraversalEnd::Bounded);
                        }
                        if each(to, depth, from).is_break() {
                            return Ok(TraversalEnd::Stopped);
                        }
                        if depth < self.depth_max {
                            next.push(to.clone());
                        }
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            frontier = next;
        }
        Ok(ended)
    }

    /// Returns the shortest way to a record, both ends included; `None`: there is none within the
    /// depth, and within the bounds of records and edges. Stops at the depth at which it is found.
    ///
    /// # Errors
    /// As for [`Traversal::breadth_first`].
    pub fn shortest_path<'k>(&self, to: impl Into<Key<'k>>) -> Result<Option<Vec<Key<'static>>>> {
        let to = to.into().into_owned();
        let start = self.from.owner();
        if to == *start {
            return Ok(Some(vec![to]));
        }
        let mut came_from: HashMap<Key<'static>, Key<'static>, SeededHash> =
            HashMap::with_hasher(SeededHash::random());
        let ended = self.breadth_first(|key, _, from| {
            came_from.insert(key.clone(), from.clone());
            if *key == to {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if ended != TraversalEnd::Stopped {
            return Ok(None);
        }
        let mut path = vec![to];
        while let Some(before) = path.last().and_then(|key| came_from.get(key)) {
            path.push(before.clone());
        }
        path.reverse();
        Ok(Some(path))
    }

    /// Returns the `limit` records at distance two that most ways lead to, each with the number of
    /// ways, the most first: friends of friends by common friends. One read and one batch for 512
    /// neighbors.
    ///
    /// # Errors
    /// As for [`Traversal::breadth_first`].
    pub fn at_distance_two(&self, limit: usize) -> Result<Vec<(Key<'static>, u64)>> {
        let start = self.from.owner();
        let near = self
            .from
            .of_each(std::slice::from_ref(start), self.edges_max)?;
        let near = near.concat();
        let mut known = KeySet::new();
        for key in near.iter().chain([start]) {
            known.insert(key);
        }
        let mut ways: HashMap<Key<'static>, u64, SeededHash> =
            HashMap::with_hasher(SeededHash::random());
        for keys in near.chunks(BATCH as usize) {
            for far in self.from.of_each(keys, self.edges_max)?.iter().flatten() {
                if known.contains(far) {
                    continue;
                }
                if let Some(ways) = ways.get_mut(far) {
                    *ways += 1;
                } else if ways.len() < self.records_max {
                    ways.insert(far.clone(), 1);
                }
            }
        }
        let mut ranked: Vec<(Key<'static>, u64)> = ways.into_iter().collect();
        ranked.sort_by(|(a, many), (b, more)| more.cmp(many).then_with(|| a.cmp(b)));
        ranked.truncate(limit);
        Ok(ranked)
    }
}
