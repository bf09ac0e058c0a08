//! Operations on map bins. The costs name visits of entries, for N entries, M of them selected or given; beside them a
//! write copies the bin once. "With index" means a persisted one: see [`MapPolicy::persist_index`]; an index of values is
//! part of it in maps ordered by key and value.
//!
//! Reads of a missing bin give no result; removals from one do nothing; what puts entries creates it. The index of an
//! entry is its position in the order of keys, its rank that in the order of values (equal ones by key); negative ones
//! count from the end. An index or rank that does not exist is an error, a range is clipped to what there is.

use super::super::Operation;
use super::arguments::{CollectionArguments, read, write};
use crate::call::CallWriter;
use crate::call::context::create_bits;
use crate::cdt::{MapPolicy, MapReturn, MapWriteFlags, code};
use crate::value::{Map, MapOrder, Purpose, Value};

/// A call whose first argument says what to return.
fn selecting(code: u8, returns: impl Into<MapReturn>) -> CallWriter {
    CallWriter::new(code).returns(returns.into())
}

fn with_policy(call: CallWriter, policy: &MapPolicy) -> CallWriter {
    call.uint(u64::from(policy.create_flags()))
        .uint(u64::from(policy.write_flags().bits()))
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
    let call = CallWriter::new(code::MAP_SET_TYPE).uint(u64::from(policy.create_flags()));
    write(bin, call).creating(create_bits(order))
}

/// Gives an existing map another order; a missing one is created. It loses a persisted index. No result. O(1).
#[must_use]
pub fn set_order(bin: &str, order: MapOrder) -> Operation {
    let call = CallWriter::new(code::MAP_SET_TYPE);
    write(bin, call.uint(u64::from(order.flags())))
}

/// Writes the value of a key. Result: the number of entries afterwards. O(N); O(log N) with index.
#[must_use]
pub fn put(
    policy: &MapPolicy,
    bin: &str,
    key: impl Into<Value>,
    value: impl Into<Value>,
) -> Operation {
    let call = CallWriter::new(code::MAP_PUT).stored(key).stored(value);
    write(bin, with_policy(call, policy))
}

/// Writes the values of several keys, none of them given twice. Result: the number of entries afterwards. O(M log M + N);
/// O(M log N) with index.
#[must_use]
pub fn put_items(policy: &MapPolicy, bin: &str, entries: Vec<(Value, Value)>) -> Operation {
    let entries = Value::Map(Map::new(entries, MapOrder::Unordered));
    let call = CallWriter::new(code::MAP_PUT_ITEMS).value(&entries, Purpose::Storage);
    write(bin, with_policy(call, policy))
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
    let call = CallWriter::new(code::MAP_INCREMENT).stored(key);
    let created = u64::from(policy.create_flags());
    write(bin, call.stored(delta).uint(created))
}

/// Subtracts from the number of a key; a missing one begins with `-delta`. Otherwise as [`increment_value`].
#[must_use]
pub fn decrement_value(
    policy: &MapPolicy,
    bin: &str,
    key: impl Into<Value>,
    delta: impl Into<Value>,
) -> Operation {
    let call = CallWriter::new(code::MAP_DECREMENT).stored(key);
    let created = u64::from(policy.create_flags());
    write(bin, call.stored(delta).uint(created))
}

/// Removes all entries. The map keeps its order and its persisted index. No result. O(1).
#[must_use]
pub fn clear(bin: &str) -> Operation {
    write(bin, CallWriter::new(code::MAP_CLEAR))
}

/// How many entries there are. O(1).
#[must_use]
pub fn size(bin: &str) -> Operation {
    read(bin, CallWriter::new(code::MAP_SIZE))
}

/// Something about the entry of a key. O(N); O(log N) with index; its rank costs O(N) more, O(log N) with an index of
/// values.
#[must_use]
pub fn get_by_key(bin: &str, key: impl Into<Value>, returns: impl Into<MapReturn>) -> Operation {
    let call = selecting(code::MAP_GET_BY_KEY, returns);
    read(bin, call.sought(key))
}

/// Something about the entries of several keys. O(M log M + N); O(M log N) with index.
#[must_use]
pub fn get_by_key_list(bin: &str, keys: Vec<Value>, returns: impl Into<MapReturn>) -> Operation {
    let call = selecting(code::MAP_GET_BY_KEY_LIST, returns);
    read(bin, call.list(&keys, Purpose::Lookup))
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
    let call = selecting(code::MAP_GET_BY_KEY_INTERVAL, returns);
    read(bin, call.interval(begin, end))
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
    let call = selecting(code::MAP_GET_BY_KEY_REL_INDEX_RANGE, returns);
    read(bin, call.sought(key).int(index))
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
    let call = selecting(code::MAP_GET_BY_KEY_REL_INDEX_RANGE, returns);
    read(bin, call.sought(key).int(index).uint(count))
}

/// Something about the entry at an index. O(index); O(1) with index.
#[must_use]
pub fn get_by_index(bin: &str, index: i64, returns: impl Into<MapReturn>) -> Operation {
    let call = selecting(code::MAP_GET_BY_INDEX, returns);
    read(bin, call.int(index))
}

/// Something about the entries from an index to the end. O(N); O(M) with index; ranks O(N log N), O(M log N) with an
/// index of values.
#[must_use]
pub fn get_by_index_range(bin: &str, index: i64, returns: impl Into<MapReturn>) -> Operation {
    let call = selecting(code::MAP_GET_BY_INDEX_RANGE, returns);
    read(bin, call.int(index))
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
    let call = selecting(code::MAP_GET_BY_INDEX_RANGE, returns);
    read(bin, call.int(index).uint(count))
}

/// Something about the entry of a rank; rank -1 has the greatest value. O(N); O(1) with an index of values.
#[must_use]
pub fn get_by_rank(bin: &str, rank: i64, returns: impl Into<MapReturn>) -> Operation {
    let call = selecting(code::MAP_GET_BY_RANK, returns);
    read(bin, call.int(rank))
}

/// Something about the entries from a rank to the greatest value, by rank. O(N + M log M); O(M) with an index of
/// values.
#[must_use]
pub fn get_by_rank_range(bin: &str, rank: i64, returns: impl Into<MapReturn>) -> Operation {
    let call = selecting(code::MAP_GET_BY_RANK_RANGE, returns);
    read(bin, call.int(rank))
}

/// Something about at most `count` entries from a rank on, by rank. O(N + M log M); O(M) with an index of values.
#[must_use]
pub fn get_by_rank_range_count(
    bin: &str,
    rank: i64,
    count: u64,
    returns: impl Into<MapReturn>,
) -> Operation {
    let call = selecting(code::MAP_GET_BY_RANK_RANGE, returns);
    read(bin, call.int(rank).uint(count))
}

/// Something about all entries whose value equals a value. O(N); O(log N + M) with an index of values.
#[must_use]
pub fn get_by_value(
    bin: &str,
    value: impl Into<Value>,
    returns: impl Into<MapReturn>,
) -> Operation {
    let call = selecting(code::MAP_GET_ALL_BY_VALUE, returns);
    read(bin, call.sought(value))
}

/// Something about all entries whose value equals one of several. O((M + N) log M) for M values; O(M log N) with an
/// index of values, and then in the order of the values given.
#[must_use]
pub fn get_by_value_list(
    bin: &str,
    values: Vec<Value>,
    returns: impl Into<MapReturn>,
) -> Operation {
    let call = selecting(code::MAP_GET_BY_VALUE_LIST, returns);
    read(bin, call.list(&values, Purpose::Lookup))
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
    let call = selecting(code::MAP_GET_BY_VALUE_INTERVAL, returns);
    read(bin, call.interval(begin, end))
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
    let call = selecting(code::MAP_GET_BY_VALUE_REL_RANK_RANGE, returns);
    read(bin, call.sought(value).int(rank))
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
    let call = selecting(code::MAP_GET_BY_VALUE_REL_RANK_RANGE, returns);
    read(bin, call.sought(value).int(rank).uint(count))
}

/// Removes the entry of a key. Results tell of the entries as they were before. Costs as [`get_by_key`].
#[must_use]
pub fn remove_by_key(bin: &str, key: impl Into<Value>, returns: impl Into<MapReturn>) -> Operation {
    let call = selecting(code::MAP_REMOVE_BY_KEY, returns);
    write(bin, call.sought(key))
}

/// Removes the entries of several keys. Results tell of the entries as they were before. Costs as
/// [`get_by_key_list`].
#[must_use]
pub fn remove_by_key_list(bin: &str, keys: Vec<Value>, returns: impl Into<MapReturn>) -> Operation {
    let call = selecting(code::MAP_REMOVE_BY_KEY_LIST, returns);
    write(bin, call.list(&keys, Purpose::Lookup))
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
    let call = selecting(code::MAP_REMOVE_BY_KEY_INTERVAL, returns);
    write(bin, call.interval(begin, end))
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
    let call = selecting(code::MAP_REMOVE_BY_KEY_REL_INDEX_RANGE, returns);
    write(bin, call.sought(key).int(index))
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
    let call = selecting(code::MAP_REMOVE_BY_KEY_REL_INDEX_RANGE, returns);
    write(bin, call.sought(key).int(index).uint(count))
}

/// Removes the entry at an index. Results tell of the entries as they were before. Costs as [`get_by_index`].
#[must_use]
pub fn remove_by_index(bin: &str, index: i64, returns: impl Into<MapReturn>) -> Operation {
    let call = selecting(code::MAP_REMOVE_BY_INDEX, returns);
    write(bin, call.int(index))
}

/// Removes the entries from an index to the end. Results tell of the entries as they were before. Costs as
/// [`get_by_index_range`].
#[must_use]
pub fn remove_by_index_range(bin: &str, index: i64, returns: impl Into<MapReturn>) -> Operation {
    let call = selecting(code::MAP_REMOVE_BY_INDEX_RANGE, returns);
    write(bin, call.int(index))
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
    let call = selecting(code::MAP_REMOVE_BY_INDEX_RANGE, returns);
    write(bin, call.int(index).uint(count))
}

/// Removes the entry of a rank; rank -1 has the greatest value. Results tell of the entries as they were before.
/// Costs as [`get_by_rank`].
#[must_use]
pub fn remove_by_rank(bin: &str, rank: i64, returns: impl Into<MapReturn>) -> Operation {
    let call = selecting(code::MAP_REMOVE_BY_RANK, returns);
    write(bin, call.int(rank))
}

/// Removes the entries from a rank to the greatest value, by rank. Results tell of the entries as they were before.
/// Costs as [`get_by_rank_range`].
#[must_use]
pub fn remove_by_rank_range(bin: &str, rank: i64, returns: impl Into<MapReturn>) -> Operation {
    let call = selecting(code::MAP_REMOVE_BY_RANK_RANGE, returns);
    write(bin, call.int(rank))
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
    let call = selecting(code::MAP_REMOVE_BY_RANK_RANGE, returns);
    write(bin, call.int(rank).uint(count))
}

/// Removes all entries whose value equals a value. Results tell of the entries as they were before. Costs as
/// [`get_by_value`].
#[must_use]
pub fn remove_by_value(
    bin: &str,
    value: impl Into<Value>,
    returns: impl Into<MapReturn>,
) -> Operation {
    let call = selecting(code::MAP_REMOVE_ALL_BY_VALUE, returns);
    write(bin, call.sought(value))
}

/// Removes all entries whose value equals one of several. Results tell of the entries as they were before. Costs as
/// [`get_by_value_list`].
#[must_use]
pub fn remove_by_value_list(
    bin: &str,
    values: Vec<Value>,
    returns: impl Into<MapReturn>,
) -> Operation {
    let call = selecting(code::MAP_REMOVE_BY_VALUE_LIST, returns);
    write(bin, call.list(&values, Purpose::Lookup))
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
    let call = selecting(code::MAP_REMOVE_BY_VALUE_INTERVAL, returns);
    write(bin, call.interval(begin, end))
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
    let call = selecting(code::MAP_REMOVE_BY_VALUE_REL_RANK_RANGE, returns);
    write(bin, call.sought(value).int(rank))
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
    let call = selecting(code::MAP_REMOVE_BY_VALUE_REL_RANK_RANGE, returns);
    write(bin, call.sought(value).int(rank).uint(count))
}
