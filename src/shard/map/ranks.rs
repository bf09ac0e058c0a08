//! Entries by their values: leaderboards.

use super::{Maps, ShardedMap};
use crate::operations::maps;
use crate::shard::merge::ElementSortKey;
use crate::shard::sorted::{Parts, SortedBin};
use crate::{MapReturnType, Operation, RecordSet, Result, Value};

/// An end of the order of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueEnd {
    Greatest,
    Least,
}

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
        self.merged(|shards| by_value(shards, ValueEnd::Greatest, limit))
    }

    /// Returns the entries with the least values, at most `limit`, the least first; of equal values
    /// the least key. Costs as [`ShardedMap::greatest`].
    ///
    /// # Errors
    /// As for [`ShardedMap::put`].
    pub fn least(&self, limit: u64) -> Result<Vec<(Value, Value)>> {
        self.merged(|shards| by_value(shards, ValueEnd::Least, limit))
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
        self.merged(|shards| {
            let counts = ask_all(shards, &count)?
                .into_iter()
                .map(|answer| match answer {
                    Some(Value::Int(count)) => count.max(0).unsigned_abs(),
                    _ => 0,
                });
            Ok(counts.sum())
        })
        .map(Some)
    }
}

fn by_value<P: Parts<Bin = Maps, Error = E>, E: From<crate::Error>>(
    shards: &P,
    end: ValueEnd,
    limit: u64,
) -> std::result::Result<Vec<(Value, Value)>, E> {
    let (bin, entries) = (shards.bin(), MapReturnType::KeyValue);
    let most = i64::try_from(limit).unwrap_or(i64::MAX);
    if most == 0 {
        return Ok(Vec::new());
    }
    let read = match end {
        ValueEnd::Greatest => maps::get_by_rank_range(bin, -most, entries),
        ValueEnd::Least => maps::get_by_rank_range_count(bin, 0, limit, entries),
    };
    let mut found = Vec::new();
    for (key, value) in ask_all(shards, &read)?
        .into_iter()
        .flatten()
        .flat_map(Maps::items)
    {
        let order = (ElementSortKey::of(&value)?, ElementSortKey::of(&key)?);
        found.push((order, (key, value)));
    }
    match end {
        ValueEnd::Greatest => found.sort_by(|(a, _), (b, _)| b.cmp(a)),
        ValueEnd::Least => found.sort_by(|(a, _), (b, _)| a.cmp(b)),
    }
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found.into_iter().map(|(_, entry)| entry).collect())
}

/// Asks each shard the same, in one batch.
fn ask_all<P: Parts>(
    shards: &P,
    operation: &Operation,
) -> std::result::Result<Vec<Option<Value>>, P::Error> {
    let asked = (0..shards.parts()).map(|shard| (shard, operation.clone()));
    shards.ask(asked.collect())
}
