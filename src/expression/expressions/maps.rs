//! Calls on maps. What modifies has the modified map as its value, and stores nothing. Meanings and costs are those of
//! [`operations::maps`](crate::operations::maps); what fails there is unknown here. `map` is a map bin, a literal, or
//! another call.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::MapReturnType;
//! use spikelet::expressions::{ExpType, ge, map_bin, maps};
//! use spikelet::operations::maps as map_operations;
//!
//! let games = spikelet::Store::in_memory()?.set("games")?;
//! let score = map_operations::put(&Default::default(), "scores", "ada", 310);
//! games.operate("chess", &[score])?;
//! let ada = maps::get_by_key(MapReturnType::Value, ExpType::Int, "ada", map_bin("scores"), &[]);
//! assert!(games.filtered(ge(ada, 300))?.get("chess")?.is_some());
//! # Ok(())
//! # }
//! ```

use super::super::{ExpType, Expression};
use super::call::{Call, kind_of_many, kind_of_one};
use crate::call::Context;
use crate::cdt::{MapPolicy, MapReturn, MapReturnType, Returns, code};

fn with_order(call: Call, policy: &MapPolicy) -> Call {
    call.uint(u64::from(policy.create_flags()))
}

fn with_policy(call: Call, policy: &MapPolicy) -> Call {
    with_order(call, policy).uint(u64::from(policy.write_flags().bits()))
}

fn removing(code: u8) -> Call {
    Call::returning(code, MapReturn::from(MapReturnType::None).into())
}

/// The map with a value for a key.
#[must_use]
pub fn put(
    policy: &MapPolicy,
    key: impl Into<Expression>,
    value: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    with_policy(Call::new(code::MAP_PUT).with(key).with(value), policy).modify(
        ExpType::Map,
        map,
        contexts,
    )
}

/// The map with the entries of another one.
#[must_use]
pub fn put_items(
    policy: &MapPolicy,
    entries: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    with_policy(Call::new(code::MAP_PUT_ITEMS).with(entries), policy).modify(
        ExpType::Map,
        map,
        contexts,
    )
}

/// The map with a greater number for a key.
#[must_use]
pub fn increment(
    policy: &MapPolicy,
    key: impl Into<Expression>,
    delta: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    with_order(Call::new(code::MAP_INCREMENT).with(key).with(delta), policy).modify(
        ExpType::Map,
        map,
        contexts,
    )
}

/// The map without its entries.
#[must_use]
pub fn clear(map: impl Into<Expression>, contexts: &[Context]) -> Expression {
    Call::new(code::MAP_CLEAR).modify(ExpType::Map, map, contexts)
}

/// The map without a key.
#[must_use]
pub fn remove_by_key(
    key: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_KEY)
        .with(key)
        .modify(ExpType::Map, map, contexts)
}

/// The map without the keys in a list.
#[must_use]
pub fn remove_by_key_list(
    keys: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_KEY_LIST)
        .with(keys)
        .modify(ExpType::Map, map, contexts)
}

/// The map without the keys from `begin` to before `end`; `None` is open.
#[must_use]
pub fn remove_by_key_range(
    begin: Option<Expression>,
    end: Option<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_KEY_INTERVAL)
        .interval(begin, end)
        .modify(ExpType::Map, map, contexts)
}

/// The map without the entries from an index on, counted from that of a key.
#[must_use]
pub fn remove_by_key_relative_index_range(
    key: impl Into<Expression>,
    index: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_KEY_REL_INDEX_RANGE)
        .with(key)
        .with(index)
        .modify(ExpType::Map, map, contexts)
}

/// The same for at most `count` entries.
#[must_use]
pub fn remove_by_key_relative_index_range_count(
    key: impl Into<Expression>,
    index: impl Into<Expression>,
    count: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_KEY_REL_INDEX_RANGE)
        .with(key)
        .with(index)
        .with(count)
        .modify(ExpType::Map, map, contexts)
}

/// The map without the entry at an index.
#[must_use]
pub fn remove_by_index(
    index: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_INDEX)
        .with(index)
        .modify(ExpType::Map, map, contexts)
}

/// The map without the entries from an index on.
#[must_use]
pub fn remove_by_index_range(
    index: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_INDEX_RANGE)
        .with(index)
        .modify(ExpType::Map, map, contexts)
}

/// The map without at most `count` entries from an index on.
#[must_use]
pub fn remove_by_index_range_count(
    index: impl Into<Expression>,
    count: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_INDEX_RANGE)
        .with(index)
        .with(count)
        .modify(ExpType::Map, map, contexts)
}

/// The map without the entry of a rank.
#[must_use]
pub fn remove_by_rank(
    rank: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_RANK)
        .with(rank)
        .modify(ExpType::Map, map, contexts)
}

/// The map without the entries from a rank on.
#[must_use]
pub fn remove_by_rank_range(
    rank: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_RANK_RANGE)
        .with(rank)
        .modify(ExpType::Map, map, contexts)
}

/// The map without at most `count` entries from a rank on.
#[must_use]
pub fn remove_by_rank_range_count(
    rank: impl Into<Expression>,
    count: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_RANK_RANGE)
        .with(rank)
        .with(count)
        .modify(ExpType::Map, map, contexts)
}

/// The map without the entries of a value.
#[must_use]
pub fn remove_by_value(
    value: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_ALL_BY_VALUE)
        .with(value)
        .modify(ExpType::Map, map, contexts)
}

/// The map without the entries of the values in a list.
#[must_use]
pub fn remove_by_value_list(
    values: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_VALUE_LIST)
        .with(values)
        .modify(ExpType::Map, map, contexts)
}

/// The map without the values from `begin` to before `end`; `None` is open.
#[must_use]
pub fn remove_by_value_range(
    begin: Option<Expression>,
    end: Option<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_VALUE_INTERVAL)
        .interval(begin, end)
        .modify(ExpType::Map, map, contexts)
}

/// The map without the entries from a rank on, counted from that of a value.
#[must_use]
pub fn remove_by_value_relative_rank_range(
    value: impl Into<Expression>,
    rank: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_VALUE_REL_RANK_RANGE)
        .with(value)
        .with(rank)
        .modify(ExpType::Map, map, contexts)
}

/// The same for at most `count` entries.
#[must_use]
pub fn remove_by_value_relative_rank_range_count(
    value: impl Into<Expression>,
    rank: impl Into<Expression>,
    count: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::MAP_REMOVE_BY_VALUE_REL_RANK_RANGE)
        .with(value)
        .with(rank)
        .with(count)
        .modify(ExpType::Map, map, contexts)
}

/// How many entries there are.
#[must_use]
pub fn size(map: impl Into<Expression>, contexts: &[Context]) -> Expression {
    Call::new(code::MAP_SIZE).read(ExpType::Int, map, contexts)
}

/// Something about the entry of a key. `value_type` is the type of the key or value, if that is
/// returned.
#[must_use]
pub fn get_by_key(
    returns: impl Into<MapReturn>,
    value_type: ExpType,
    key: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let kind = kind_of_one(returns, value_type);
    Call::returning(code::MAP_GET_BY_KEY, returns)
        .with(key)
        .read(kind, map, contexts)
}

/// Something about the entries of the keys in a list.
#[must_use]
pub fn get_by_key_list(
    returns: impl Into<MapReturn>,
    keys: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_BY_KEY_LIST, returns).with(keys);
    call.read(kind_of_many(returns), map, contexts)
}

/// Something about the keys from `begin` to before `end`; `None` is open.
#[must_use]
pub fn get_by_key_range(
    returns: impl Into<MapReturn>,
    begin: Option<Expression>,
    end: Option<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_BY_KEY_INTERVAL, returns).interval(begin, end);
    call.read(kind_of_many(returns), map, contexts)
}

/// Something about the entries from an index on, counted from that of a key.
#[must_use]
pub fn get_by_key_relative_index_range(
    returns: impl Into<MapReturn>,
    key: impl Into<Expression>,
    index: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_BY_KEY_REL_INDEX_RANGE, returns)
        .with(key)
        .with(index);
    call.read(kind_of_many(returns), map, contexts)
}

/// The same for at most `count` entries.
#[must_use]
pub fn get_by_key_relative_index_range_count(
    returns: impl Into<MapReturn>,
    key: impl Into<Expression>,
    index: impl Into<Expression>,
    count: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_BY_KEY_REL_INDEX_RANGE, returns)
        .with(key)
        .with(index)
        .with(count);
    call.read(kind_of_many(returns), map, contexts)
}

/// Something about the entry at an index. `value_type` is the type of the key or value, if that is
/// returned.
#[must_use]
pub fn get_by_index(
    returns: impl Into<MapReturn>,
    value_type: ExpType,
    index: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let kind = kind_of_one(returns, value_type);
    Call::returning(code::MAP_GET_BY_INDEX, returns)
        .with(index)
        .read(kind, map, contexts)
}

/// Something about the entries from an index on.
#[must_use]
pub fn get_by_index_range(
    returns: impl Into<MapReturn>,
    index: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_BY_INDEX_RANGE, returns).with(index);
    call.read(kind_of_many(returns), map, contexts)
}

/// Something about at most `count` entries from an index on.
#[must_use]
pub fn get_by_index_range_count(
    returns: impl Into<MapReturn>,
    index: impl Into<Expression>,
    count: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_BY_INDEX_RANGE, returns)
        .with(index)
        .with(count);
    call.read(kind_of_many(returns), map, contexts)
}

/// Something about the entry of a rank. `value_type` is the type of the key or value, if that is
/// returned.
#[must_use]
pub fn get_by_rank(
    returns: impl Into<MapReturn>,
    value_type: ExpType,
    rank: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let kind = kind_of_one(returns, value_type);
    Call::returning(code::MAP_GET_BY_RANK, returns)
        .with(rank)
        .read(kind, map, contexts)
}

/// Something about the entries from a rank on.
#[must_use]
pub fn get_by_rank_range(
    returns: impl Into<MapReturn>,
    rank: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_BY_RANK_RANGE, returns).with(rank);
    call.read(kind_of_many(returns), map, contexts)
}

/// Something about at most `count` entries from a rank on.
#[must_use]
pub fn get_by_rank_range_count(
    returns: impl Into<MapReturn>,
    rank: impl Into<Expression>,
    count: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_BY_RANK_RANGE, returns)
        .with(rank)
        .with(count);
    call.read(kind_of_many(returns), map, contexts)
}

/// Something about the entries of a value.
#[must_use]
pub fn get_by_value(
    returns: impl Into<MapReturn>,
    value: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_ALL_BY_VALUE, returns).with(value);
    call.read(kind_of_many(returns), map, contexts)
}

/// Something about the entries of the values in a list.
#[must_use]
pub fn get_by_value_list(
    returns: impl Into<MapReturn>,
    values: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_BY_VALUE_LIST, returns).with(values);
    call.read(kind_of_many(returns), map, contexts)
}

/// Something about the values from `begin` to before `end`; `None` is open.
#[must_use]
pub fn get_by_value_range(
    returns: impl Into<MapReturn>,
    begin: Option<Expression>,
    end: Option<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_BY_VALUE_INTERVAL, returns).interval(begin, end);
    call.read(kind_of_many(returns), map, contexts)
}

/// Something about the entries from a rank on, counted from that of a value.
#[must_use]
pub fn get_by_value_relative_rank_range(
    returns: impl Into<MapReturn>,
    value: impl Into<Expression>,
    rank: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_BY_VALUE_REL_RANK_RANGE, returns)
        .with(value)
        .with(rank);
    call.read(kind_of_many(returns), map, contexts)
}

/// The same for at most `count` entries.
#[must_use]
pub fn get_by_value_relative_rank_range_count(
    returns: impl Into<MapReturn>,
    value: impl Into<Expression>,
    rank: impl Into<Expression>,
    count: impl Into<Expression>,
    map: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::MAP_GET_BY_VALUE_REL_RANK_RANGE, returns)
        .with(value)
        .with(rank)
        .with(count);
    call.read(kind_of_many(returns), map, contexts)
}
