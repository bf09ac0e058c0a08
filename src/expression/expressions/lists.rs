//! Calls on lists. What modifies has the modified list as its value, and stores nothing. Meanings and costs are those of
//! [`operations::lists`](crate::operations::lists); what fails there is unknown here. `list` is a list bin, a literal, or
//! another call.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::ListReturnType;
//! use spikelet::expressions::{list_bin, lists};
//!
//! let posts = spikelet::Store::in_memory()?.set("posts")?;
//! posts.put(1, [("tags", vec!["rust", "storage"])])?;
//! let on_rust = lists::get_by_value(ListReturnType::Exists, "rust", list_bin("tags"), &[]);
//! assert!(posts.filtered(on_rust)?.get(1)?.is_some());
//! # Ok(())
//! # }
//! ```

use super::super::{ExpType, Expression};
use super::call::{Call, kind_of_many, kind_of_one};
use crate::call::Context;
use crate::cdt::{ListPolicy, ListReturn, ListReturnType, ListSortFlags, Returns, code};

fn with_flags(call: Call, policy: &ListPolicy) -> Call {
    call.uint(u64::from(policy.write_flags().bits()))
}

fn with_policy(call: Call, policy: &ListPolicy) -> Call {
    with_flags(call.uint(u64::from(policy.create_flags())), policy)
}

fn removing(code: u8) -> Call {
    Call::returning(code, ListReturn::from(ListReturnType::None).into())
}

/// The list with a value more: at the end, or at its place in an ordered list.
#[must_use]
pub fn append(
    policy: &ListPolicy,
    value: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    with_policy(Call::new(code::LIST_APPEND).with(value), policy).modify(
        ExpType::List,
        list,
        contexts,
    )
}

/// The list with the values of another one more.
#[must_use]
pub fn append_items(
    policy: &ListPolicy,
    values: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    with_policy(Call::new(code::LIST_APPEND_ITEMS).with(values), policy).modify(
        ExpType::List,
        list,
        contexts,
    )
}

/// The list with a value more, before the element at a position.
#[must_use]
pub fn insert(
    policy: &ListPolicy,
    index: impl Into<Expression>,
    value: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    with_flags(Call::new(code::LIST_INSERT).with(index).with(value), policy).modify(
        ExpType::List,
        list,
        contexts,
    )
}

/// The list with the values of another one more, before the element at a position.
#[must_use]
pub fn insert_items(
    policy: &ListPolicy,
    index: impl Into<Expression>,
    values: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    with_flags(
        Call::new(code::LIST_INSERT_ITEMS).with(index).with(values),
        policy,
    )
    .modify(ExpType::List, list, contexts)
}

/// The list with another value at a position.
#[must_use]
pub fn set(
    policy: &ListPolicy,
    index: impl Into<Expression>,
    value: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    with_flags(Call::new(code::LIST_SET).with(index).with(value), policy).modify(
        ExpType::List,
        list,
        contexts,
    )
}

/// The list with a greater number at a position.
#[must_use]
pub fn increment(
    policy: &ListPolicy,
    index: impl Into<Expression>,
    delta: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    with_policy(
        Call::new(code::LIST_INCREMENT).with(index).with(delta),
        policy,
    )
    .modify(ExpType::List, list, contexts)
}

/// The list without its elements.
#[must_use]
pub fn clear(list: impl Into<Expression>, contexts: &[Context]) -> Expression {
    Call::new(code::LIST_CLEAR).modify(ExpType::List, list, contexts)
}

/// The list, sorted.
#[must_use]
pub fn sort(flags: ListSortFlags, list: impl Into<Expression>, contexts: &[Context]) -> Expression {
    Call::new(code::LIST_SORT)
        .uint(u64::from(flags.bits()))
        .modify(ExpType::List, list, contexts)
}

/// The list without the element at a position.
#[must_use]
pub fn remove_by_index(
    index: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::LIST_REMOVE_BY_INDEX)
        .with(index)
        .modify(ExpType::List, list, contexts)
}

/// The list without the elements from a position on.
#[must_use]
pub fn remove_by_index_range(
    index: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::LIST_REMOVE_BY_INDEX_RANGE)
        .with(index)
        .modify(ExpType::List, list, contexts)
}

/// The list without at most `count` elements from a position on.
#[must_use]
pub fn remove_by_index_range_count(
    index: impl Into<Expression>,
    count: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::LIST_REMOVE_BY_INDEX_RANGE)
        .with(index)
        .with(count)
        .modify(ExpType::List, list, contexts)
}

/// The list without the element of a rank.
#[must_use]
pub fn remove_by_rank(
    rank: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::LIST_REMOVE_BY_RANK)
        .with(rank)
        .modify(ExpType::List, list, contexts)
}

/// The list without the elements from a rank on.
#[must_use]
pub fn remove_by_rank_range(
    rank: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::LIST_REMOVE_BY_RANK_RANGE)
        .with(rank)
        .modify(ExpType::List, list, contexts)
}

/// The list without at most `count` elements from a rank on.
#[must_use]
pub fn remove_by_rank_range_count(
    rank: impl Into<Expression>,
    count: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::LIST_REMOVE_BY_RANK_RANGE)
        .with(rank)
        .with(count)
        .modify(ExpType::List, list, contexts)
}

/// The list without the elements equal to a value.
#[must_use]
pub fn remove_by_value(
    value: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::LIST_REMOVE_ALL_BY_VALUE)
        .with(value)
        .modify(ExpType::List, list, contexts)
}

/// The list without the elements equal to any of another one.
#[must_use]
pub fn remove_by_value_list(
    values: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::LIST_REMOVE_BY_VALUE_LIST)
        .with(values)
        .modify(ExpType::List, list, contexts)
}

/// The list without the elements from `begin` to before `end`; `None` is open.
#[must_use]
pub fn remove_by_value_range(
    begin: Option<Expression>,
    end: Option<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::LIST_REMOVE_BY_VALUE_INTERVAL)
        .interval(begin, end)
        .modify(ExpType::List, list, contexts)
}

/// The list without the elements from a rank on, counted from that of a value.
#[must_use]
pub fn remove_by_value_relative_rank_range(
    value: impl Into<Expression>,
    rank: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::LIST_REMOVE_BY_VALUE_REL_RANK_RANGE)
        .with(value)
        .with(rank)
        .modify(ExpType::List, list, contexts)
}

/// The same for at most `count` elements.
#[must_use]
pub fn remove_by_value_relative_rank_range_count(
    value: impl Into<Expression>,
    rank: impl Into<Expression>,
    count: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    removing(code::LIST_REMOVE_BY_VALUE_REL_RANK_RANGE)
        .with(value)
        .with(rank)
        .with(count)
        .modify(ExpType::List, list, contexts)
}

/// How many elements there are.
#[must_use]
pub fn size(list: impl Into<Expression>, contexts: &[Context]) -> Expression {
    Call::new(code::LIST_SIZE).read(ExpType::Int, list, contexts)
}

/// Something about the element at a position. `value_type` is the type of the element, if that is returned.
#[must_use]
pub fn get_by_index(
    returns: impl Into<ListReturn>,
    value_type: ExpType,
    index: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let kind = kind_of_one(returns, value_type);
    Call::returning(code::LIST_GET_BY_INDEX, returns)
        .with(index)
        .read(kind, list, contexts)
}

/// Something about the elements from a position on.
#[must_use]
pub fn get_by_index_range(
    returns: impl Into<ListReturn>,
    index: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::LIST_GET_BY_INDEX_RANGE, returns).with(index);
    call.read(kind_of_many(returns), list, contexts)
}

/// Something about at most `count` elements from a position on.
#[must_use]
pub fn get_by_index_range_count(
    returns: impl Into<ListReturn>,
    index: impl Into<Expression>,
    count: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::LIST_GET_BY_INDEX_RANGE, returns)
        .with(index)
        .with(count);
    call.read(kind_of_many(returns), list, contexts)
}

/// Something about the element of a rank. `value_type` is the type of the element, if that is returned.
#[must_use]
pub fn get_by_rank(
    returns: impl Into<ListReturn>,
    value_type: ExpType,
    rank: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let kind = kind_of_one(returns, value_type);
    Call::returning(code::LIST_GET_BY_RANK, returns)
        .with(rank)
        .read(kind, list, contexts)
}

/// Something about the elements from a rank on.
#[must_use]
pub fn get_by_rank_range(
    returns: impl Into<ListReturn>,
    rank: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::LIST_GET_BY_RANK_RANGE, returns).with(rank);
    call.read(kind_of_many(returns), list, contexts)
}

/// Something about at most `count` elements from a rank on.
#[must_use]
pub fn get_by_rank_range_count(
    returns: impl Into<ListReturn>,
    rank: impl Into<Expression>,
    count: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::LIST_GET_BY_RANK_RANGE, returns)
        .with(rank)
        .with(count);
    call.read(kind_of_many(returns), list, contexts)
}

/// Something about the elements equal to a value.
#[must_use]
pub fn get_by_value(
    returns: impl Into<ListReturn>,
    value: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::LIST_GET_ALL_BY_VALUE, returns).with(value);
    call.read(kind_of_many(returns), list, contexts)
}

/// Something about the elements equal to any of another list.
#[must_use]
pub fn get_by_value_list(
    returns: impl Into<ListReturn>,
    values: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::LIST_GET_BY_VALUE_LIST, returns).with(values);
    call.read(kind_of_many(returns), list, contexts)
}

/// Something about the elements from `begin` to before `end`; `None` is open.
#[must_use]
pub fn get_by_value_range(
    returns: impl Into<ListReturn>,
    begin: Option<Expression>,
    end: Option<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::LIST_GET_BY_VALUE_INTERVAL, returns).interval(begin, end);
    call.read(kind_of_many(returns), list, contexts)
}

/// Something about the elements from a rank on, counted from that of a value.
#[must_use]
pub fn get_by_value_relative_rank_range(
    returns: impl Into<ListReturn>,
    value: impl Into<Expression>,
    rank: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::LIST_GET_BY_VALUE_REL_RANK_RANGE, returns)
        .with(value)
        .with(rank);
    call.read(kind_of_many(returns), list, contexts)
}

/// The same for at most `count` elements.
#[must_use]
pub fn get_by_value_relative_rank_range_count(
    returns: impl Into<ListReturn>,
    value: impl Into<Expression>,
    rank: impl Into<Expression>,
    count: impl Into<Expression>,
    list: impl Into<Expression>,
    contexts: &[Context],
) -> Expression {
    let returns = Returns::from(returns.into());
    let call = Call::returning(code::LIST_GET_BY_VALUE_REL_RANK_RANGE, returns)
        .with(value)
        .with(rank)
        .with(count);
    call.read(kind_of_many(returns), list, contexts)
}
