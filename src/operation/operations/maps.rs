//! Operations on map bins. The costs name visits of entries, for N entries, M of them selected or given; beside them a
//! write copies the bin once. "With index" means a persisted one: see [`MapPolicy::persist_index`]; an index of values is
//! part of it in maps ordered by key and value.
//!
//! Reads of a missing bin give no result; removals from one do nothing; what puts entries creates it. The index of an
//! entry is its position in the order of keys, its rank that in the order of values (equal ones by key); negative ones
//! count from the end. An index or rank that does not exist is an error, a range is clipped to what there is.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::operations::maps;
//! use spikelet::{MapOrder, MapPolicy, MapReturnType, MapWriteFlags};
//!
//! let games = spikelet::Store::in_memory()?.set("games")?;
//! let by_name = MapPolicy::new(MapOrder::KeyOrdered, MapWriteFlags::empty());
//! let result = games.operate("chess", &[
//!     maps::put(&by_name, "scores", "ada", 310),
//!     maps::put(&by_name, "scores", "bob", 120),
//!     maps::increment_value(&by_name, "scores", "bob", 250),
//!     maps::get_by_rank("scores", -1, MapReturnType::Key),
//!     maps::get_by_key("scores", "ada", MapReturnType::Rank),
//! ])?;
//! assert_eq!(result.value(2), Some(&370.into()));
//! assert_eq!(result.value(3), Some(&"bob".into()));
//! assert_eq!(result.value(4), Some(&0.into()));
//! # Ok(())
//! # }
//! ```

pub use crate::cdt::MapReturn;

use super::super::Operation;
use super::arguments::{
    self, ALL, Argument, collection, increment, interval, number, sought, sought_several,
    stored_entries, stored_entry,
};
use crate::call::context::create_bits;
use crate::cdt::{Action, MapPolicy, MapWriteFlags, Number, Selector, code};
use crate::value::{MapOrder, Value};

/// An operation that reads or removes what is selected.
fn select(
    bin: &str,
    code: u8,
    selector: Argument<Selector<'static>>,
    returns: impl Into<MapReturn>,
) -> Operation {
    arguments::select(bin, code, selector, returns.into().into())
}

/// Makes the bin a map of this order, empty if it is missing; an existing map is converted, and loses a persisted index.
/// Below a context, the value that the last one names is created if it is missing. No result. O(1).
#[must_use]
pub fn create(bin: &str, order: MapOrder) -> Operation {
    set_order(bin, order).creating(create_bits(order))
}

/// The same with a persisted index: see [`MapPolicy::persist_index`]. O(N), O(N log N) for an index of values.
#[must_use]
pub fn create_persistent(bin: &str, order: MapOrder) -> Operation {
    let policy = MapPolicy::new(order, MapWriteFlags::empty()).persist_index(true);
    collection(
        bin,
        code::MAP_SET_TYPE,
        Ok(Action::SetType(policy.create_flags())),
    )
    .creating(create_bits(order))
}

/// Gives an existing map another order; a missing one is created. It loses a persisted index. No result. O(1).
#[must_use]
pub fn set_order(bin: &str, order: MapOrder) -> Operation {
    collection(bin, code::MAP_SET_TYPE, Ok(Action::SetType(order.flags())))
}

/// Writes the value of a key. Result: the number of entries afterwards. O(N); O(log N) with index.
#[must_use]
pub fn put(
    policy: &MapPolicy,
    bin: &str,
    key: impl Into<Value>,
    value: impl Into<Value>,
) -> Operation {
    collection(
        bin,
        code::MAP_PUT,
        stored_entry(key, value).map(|items| Action::Put {
            items,
            flags: policy.write_flags(),
            create: Some(policy.create_flags()),
        }),
    )
}

/// Writes the values of several keys, none of them given twice. Result: the number of entries afterwards. O(M log M + N);
/// O(M log N) with index.
#[must_use]
pub fn put_items(policy: &MapPolicy, bin: &str, entries: Vec<(Value, Value)>) -> Operation {
    collection(
        bin,
        code::MAP_PUT_ITEMS,
        stored_entries(entries).map(|items| Action::Put {
            items,
            flags: policy.write_flags(),
            create: Some(policy.create_flags()),
        }),
    )
}

/// Adds to the number of a key; a missing one begins with `delta`. The kind of number stays: integers wrap. Result: the
/// new number. O(N); O(log N) with index.
#[must_use]
pub fn increment_value(
    policy: &MapPolicy,
    bin: &str,
    key: impl Into<Value>,
    delta: impl Into<Value>,
) -> Operation {
    let delta = delta.into();
    let by = number(&delta);
    increment(policy, bin, code::MAP_INCREMENT, &key.into(), (&delta, by))
}

/// Subtracts from the number of a key; a missing one begins with `-delta`. Otherwise as [`increment_value`].
#[must_use]
pub fn decrement_value(
    policy: &MapPolicy,
    bin: &str,
    key: impl Into<Value>,
    delta: impl Into<Value>,
) -> Operation {
    let delta = delta.into();
    let by = number(&delta).map(Number::negated);
    increment(policy, bin, code::MAP_DECREMENT, &key.into(), (&delta, by))
}

/// Removes all entries. The map keeps its order and its persisted index. No result. O(1).
#[must_use]
pub fn clear(bin: &str) -> Operation {
    collection(bin, code::MAP_CLEAR, Ok(Action::Clear))
}

/// How many entries there are. O(1).
#[must_use]
pub fn size(bin: &str) -> Operation {
    collection(bin, code::MAP_SIZE, Ok(Action::Size))
}

/// Something about the entry of a key. O(N); O(log N) with index; its rank costs O(N) more, O(log N) with an index of
/// values.
#[must_use]
pub fn get_by_key(bin: &str, key: impl Into<Value>, returns: impl Into<MapReturn>) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_KEY,
        sought(key).map(Selector::Key),
        returns,
    )
}

/// Something about the entries of several keys. O(M log M + N); O(M log N) with index.
#[must_use]
pub fn get_by_key_list(bin: &str, keys: Vec<Value>, returns: impl Into<MapReturn>) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_KEY_LIST,
        sought_several(&keys).map(Selector::Keys),
        returns,
    )
}

/// Something about the entries whose keys are not less than `begin` (`None`: all), and less than `end` (`None`: all).
/// O(N); O(log N + M) with index.
#[must_use]
pub fn get_by_key_range(
    bin: &str,
    begin: Option<Value>,
    end: Option<Value>,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_KEY_INTERVAL,
        interval(begin, end).map(|(begin, end)| Selector::KeyInterval(begin, end)),
        returns,
    )
}

/// Something about the entries from an index on, which is counted from that of the first key not less than `key`.
/// O(N); O(log N + M) with index.
#[must_use]
pub fn get_by_key_relative_index_range(
    bin: &str,
    key: impl Into<Value>,
    index: i64,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_KEY_REL_INDEX_RANGE,
        sought(key).map(|key| Selector::KeyRelative {
            key,
            index,
            count: ALL,
        }),
        returns,
    )
}

/// Something about at most `count` entries from an index on, which is counted from that of the first key not less
/// than `key`. O(N); O(log N + M) with index.
#[must_use]
pub fn get_by_key_relative_index_range_count(
    bin: &str,
    key: impl Into<Value>,
    index: i64,
    count: u64,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_KEY_REL_INDEX_RANGE,
        sought(key).map(|key| Selector::KeyRelative { key, index, count }),
        returns,
    )
}

/// Something about the entry at an index. O(index); O(1) with index.
#[must_use]
pub fn get_by_index(bin: &str, index: i64, returns: impl Into<MapReturn>) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_INDEX,
        Ok(Selector::Index(index)),
        returns,
    )
}

/// Something about the entries from an index to the end. O(N); O(M) with index; ranks O(N log N), O(M log N) with an
/// index of values.
#[must_use]
pub fn get_by_index_range(bin: &str, index: i64, returns: impl Into<MapReturn>) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_INDEX_RANGE,
        Ok(Selector::IndexRange {
            start: index,
            count: ALL,
        }),
        returns,
    )
}

/// Something about at most `count` entries from an index on. O(index + M); O(M) with index; ranks O(N log N), O(M log
/// N) with an index of values.
#[must_use]
pub fn get_by_index_range_count(
    bin: &str,
    index: i64,
    count: u64,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_INDEX_RANGE,
        Ok(Selector::IndexRange {
            start: index,
            count,
        }),
        returns,
    )
}

/// Something about the entry of a rank; rank -1 has the greatest value. O(N); O(1) with an index of values.
#[must_use]
pub fn get_by_rank(bin: &str, rank: i64, returns: impl Into<MapReturn>) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_RANK,
        Ok(Selector::Rank(rank)),
        returns,
    )
}

/// Something about the entries from a rank to the greatest value, by rank. O(N + M log M); O(M) with an index of
/// values.
#[must_use]
pub fn get_by_rank_range(bin: &str, rank: i64, returns: impl Into<MapReturn>) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_RANK_RANGE,
        Ok(Selector::RankRange {
            start: rank,
            count: ALL,
        }),
        returns,
    )
}

/// Something about at most `count` entries from a rank on, by rank. O(N + M log M); O(M) with an index of values.
#[must_use]
pub fn get_by_rank_range_count(
    bin: &str,
    rank: i64,
    count: u64,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_RANK_RANGE,
        Ok(Selector::RankRange { start: rank, count }),
        returns,
    )
}

/// Something about all entries whose value equals a value. O(N); O(log N + M) with an index of values.
#[must_use]
pub fn get_by_value(
    bin: &str,
    value: impl Into<Value>,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_GET_ALL_BY_VALUE,
        sought(value).map(Selector::Value),
        returns,
    )
}

/// Something about all entries whose value equals one of several. O((M + N) log M) for M values; O(M log N) with an
/// index of values, and then in the order of the values given.
#[must_use]
pub fn get_by_value_list(
    bin: &str,
    values: Vec<Value>,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_VALUE_LIST,
        sought_several(&values).map(Selector::Values),
        returns,
    )
}

/// Something about the entries whose values are not less than `begin` (`None`: all), and less than `end` (`None`:
/// all). O(N); O(log N + M) with an index of values, and then by rank.
#[must_use]
pub fn get_by_value_range(
    bin: &str,
    begin: Option<Value>,
    end: Option<Value>,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_VALUE_INTERVAL,
        interval(begin, end).map(|(begin, end)| Selector::ValueInterval(begin, end)),
        returns,
    )
}

/// Something about the entries from a rank on, which is counted from that of the first value not less than `value`.
/// O(N + M log M); O(log N + M) with an index of values.
#[must_use]
pub fn get_by_value_relative_rank_range(
    bin: &str,
    value: impl Into<Value>,
    rank: i64,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_VALUE_REL_RANK_RANGE,
        sought(value).map(|value| Selector::ValueRelative {
            value,
            rank,
            count: ALL,
        }),
        returns,
    )
}

/// Something about at most `count` entries from a rank on, which is counted from that of the first value not less
/// than `value`. O(N + M log M); O(log N + M) with an index of values.
#[must_use]
pub fn get_by_value_relative_rank_range_count(
    bin: &str,
    value: impl Into<Value>,
    rank: i64,
    count: u64,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_GET_BY_VALUE_REL_RANK_RANGE,
        sought(value).map(|value| Selector::ValueRelative { value, rank, count }),
        returns,
    )
}

/// Removes the entry of a key. Results tell of the entries as they were before. Costs as [`get_by_key`].
#[must_use]
pub fn remove_by_key(bin: &str, key: impl Into<Value>, returns: impl Into<MapReturn>) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_KEY,
        sought(key).map(Selector::Key),
        returns,
    )
}

/// Removes the entries of several keys. Results tell of the entries as they were before. Costs as
/// [`get_by_key_list`].
#[must_use]
pub fn remove_by_key_list(bin: &str, keys: Vec<Value>, returns: impl Into<MapReturn>) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_KEY_LIST,
        sought_several(&keys).map(Selector::Keys),
        returns,
    )
}

/// Removes the entries whose keys are not less than `begin` (`None`: all), and less than `end` (`None`: all). Results
/// tell of the entries as they were before. Costs as [`get_by_key_range`].
#[must_use]
pub fn remove_by_key_range(
    bin: &str,
    begin: Option<Value>,
    end: Option<Value>,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_KEY_INTERVAL,
        interval(begin, end).map(|(begin, end)| Selector::KeyInterval(begin, end)),
        returns,
    )
}

/// Removes the entries from an index on, which is counted from that of the first key not less than `key`. Results
/// tell of the entries as they were before. Costs as [`get_by_key_relative_index_range`].
#[must_use]
pub fn remove_by_key_relative_index_range(
    bin: &str,
    key: impl Into<Value>,
    index: i64,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_KEY_REL_INDEX_RANGE,
        sought(key).map(|key| Selector::KeyRelative {
            key,
            index,
            count: ALL,
        }),
        returns,
    )
}

/// Removes at most `count` entries from an index on, which is counted from that of the first key not less than `key`.
/// Results tell of the entries as they were before. Costs as [`get_by_key_relative_index_range_count`].
#[must_use]
pub fn remove_by_key_relative_index_range_count(
    bin: &str,
    key: impl Into<Value>,
    index: i64,
    count: u64,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_KEY_REL_INDEX_RANGE,
        sought(key).map(|key| Selector::KeyRelative { key, index, count }),
        returns,
    )
}

/// Removes the entry at an index. Results tell of the entries as they were before. Costs as [`get_by_index`].
#[must_use]
pub fn remove_by_index(bin: &str, index: i64, returns: impl Into<MapReturn>) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_INDEX,
        Ok(Selector::Index(index)),
        returns,
    )
}

/// Removes the entries from an index to the end. Results tell of the entries as they were before. Costs as
/// [`get_by_index_range`].
#[must_use]
pub fn remove_by_index_range(bin: &str, index: i64, returns: impl Into<MapReturn>) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_INDEX_RANGE,
        Ok(Selector::IndexRange {
            start: index,
            count: ALL,
        }),
        returns,
    )
}

/// Removes at most `count` entries from an index on. Results tell of the entries as they were before. Costs as
/// [`get_by_index_range_count`].
#[must_use]
pub fn remove_by_index_range_count(
    bin: &str,
    index: i64,
    count: u64,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_INDEX_RANGE,
        Ok(Selector::IndexRange {
            start: index,
            count,
        }),
        returns,
    )
}

/// Removes the entry of a rank; rank -1 has the greatest value. Results tell of the entries as they were before.
/// Costs as [`get_by_rank`].
#[must_use]
pub fn remove_by_rank(bin: &str, rank: i64, returns: impl Into<MapReturn>) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_RANK,
        Ok(Selector::Rank(rank)),
        returns,
    )
}

/// Removes the entries from a rank to the greatest value, by rank. Results tell of the entries as they were before.
/// Costs as [`get_by_rank_range`].
#[must_use]
pub fn remove_by_rank_range(bin: &str, rank: i64, returns: impl Into<MapReturn>) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_RANK_RANGE,
        Ok(Selector::RankRange {
            start: rank,
            count: ALL,
        }),
        returns,
    )
}

/// Removes at most `count` entries from a rank on, by rank. Results tell of the entries as they were before. Costs as
/// [`get_by_rank_range_count`].
#[must_use]
pub fn remove_by_rank_range_count(
    bin: &str,
    rank: i64,
    count: u64,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_RANK_RANGE,
        Ok(Selector::RankRange { start: rank, count }),
        returns,
    )
}

/// Removes all entries whose value equals a value. Results tell of the entries as they were before. Costs as
/// [`get_by_value`].
#[must_use]
pub fn remove_by_value(
    bin: &str,
    value: impl Into<Value>,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_ALL_BY_VALUE,
        sought(value).map(Selector::Value),
        returns,
    )
}

/// Removes all entries whose value equals one of several. Results tell of the entries as they were before. Costs as
/// [`get_by_value_list`].
#[must_use]
pub fn remove_by_value_list(
    bin: &str,
    values: Vec<Value>,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_VALUE_LIST,
        sought_several(&values).map(Selector::Values),
        returns,
    )
}

/// Removes the entries whose values are not less than `begin` (`None`: all), and less than `end` (`None`: all).
/// Results tell of the entries as they were before. Costs as [`get_by_value_range`].
#[must_use]
pub fn remove_by_value_range(
    bin: &str,
    begin: Option<Value>,
    end: Option<Value>,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_VALUE_INTERVAL,
        interval(begin, end).map(|(begin, end)| Selector::ValueInterval(begin, end)),
        returns,
    )
}

/// Removes the entries from a rank on, which is counted from that of the first value not less than `value`. Results
/// tell of the entries as they were before. Costs as [`get_by_value_relative_rank_range`].
#[must_use]
pub fn remove_by_value_relative_rank_range(
    bin: &str,
    value: impl Into<Value>,
    rank: i64,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_VALUE_REL_RANK_RANGE,
        sought(value).map(|value| Selector::ValueRelative {
            value,
            rank,
            count: ALL,
        }),
        returns,
    )
}

/// Removes at most `count` entries from a rank on, which is counted from that of the first value not less than
/// `value`. Results tell of the entries as they were before. Costs as [`get_by_value_relative_rank_range_count`].
#[must_use]
pub fn remove_by_value_relative_rank_range_count(
    bin: &str,
    value: impl Into<Value>,
    rank: i64,
    count: u64,
    returns: impl Into<MapReturn>,
) -> Operation {
    select(
        bin,
        code::MAP_REMOVE_BY_VALUE_REL_RANK_RANGE,
        sought(value).map(|value| Selector::ValueRelative { value, rank, count }),
        returns,
    )
}
