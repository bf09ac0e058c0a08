//! Entries by their values: leaderboards.

use std::cmp::Ordering;

use super::{Maps, ShardedMap};
use crate::operations::maps;
use crate::shard::content::number;
use crate::shard::merge::ElementSortKey;
use crate::shard::sorted::SortedBin;
use crate::{MapReturnType, Operation, RecordSet, Result, Value};

impl<R: RecordSet> ShardedMap<R> {
    /// Returns the entries with the greatest values, at most `limit`, the greatest first; of equal
    /// values the greatest key.
    ///
    /// One batch of all shards, which looks at every value of each: a map keeps the order of its
    /// keys, not that of its values.
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::{ShardedMap, Store};
    ///
    /// let scores = ShardedMap::new(&Store::in_memory()?, "games", "tetris", "scores")?;
    /// for (player, points) in [("ann", 70), ("bob", 90), ("cal", 80)] {
    ///     scores.put(player, points)?;
    /// }
    /// scores.shards().activate(4)?;
    /// assert_eq!(scores.greatest(2)?, [("bob".into(), 90.into()), ("cal".into(), 80.into())]);
    /// assert_eq!(scores.rank(&"cal".into())?, Some(1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn greatest(&self, limit: u64) -> Result<Vec<(Value, Value)>> {
        let most = i64::try_from(limit).unwrap_or(i64::MAX);
        let read = maps::get_by_rank_range(self.handle.bin(), -most, MapReturnType::KeyValue);
        self.by_value(read, Ordering::reverse, limit)
    }

    /// Returns the entries with the least values, at most `limit`, the least first; of equal values
    /// the least key. Costs as [`ShardedMap::greatest`].
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn least(&self, limit: u64) -> Result<Vec<(Value, Value)>> {
        let entries = MapReturnType::KeyValue;
        let read = maps::get_by_rank_range_count(self.handle.bin(), 0, limit, entries);
        self.by_value(read, |order| order, limit)
    }

    /// Returns how many entries have a smaller value than a key has; `None` if the key is not
    /// there. Keys with equal values have one rank. The value is read first: others may change it
    /// before the entries are counted. One operation, and one batch as by [`ShardedMap::greatest`].
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn rank(&self, key: &Value) -> Result<Option<u64>> {
        let Some(value) = self.get(key)? else {
            return Ok(None);
        };
        let count = MapReturnType::Count;
        let count = maps::get_by_value_range(self.handle.bin(), None, Some(value), count);
        let counts = self.answers(count)?;
        let counts = counts.iter().map(|count| number(Some(count)).max(0));
        Ok(Some(counts.map(i64::unsigned_abs).sum()))
    }

    /// Returns the first of the entries that are read of all shards, by their values and then their
    /// keys.
    fn by_value(
        &self,
        read: Operation,
        order: fn(Ordering) -> Ordering,
        limit: u64,
    ) -> Result<Vec<(Value, Value)>> {
        // An end of no entries would be the whole map.
        if limit == 0 {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for (key, value) in self.answers(read)?.into_iter().flat_map(Maps::items) {
            let sorted_by = (ElementSortKey::of(&value)?, ElementSortKey::of(&key)?);
            found.push((sorted_by, (key, value)));
        }
        found.sort_by(|(a, _), (b, _)| order(a.cmp(b)));
        found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Ok(found.into_iter().map(|(_, entry)| entry).collect())
    }
}
