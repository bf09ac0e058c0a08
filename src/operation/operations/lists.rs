//! Operations on list bins. The costs name element visits, for N elements, M of them selected or given; beside them a
//! write copies the bin once. "With index" means a persisted one: see [`ListPolicy::persist_index`].
//!
//! Reads of a missing bin give no result; removals from one do nothing; what adds elements creates it. Negative
//! positions and ranks count from the end. A position or rank that does not exist is an error, a range is clipped to what
//! there is. The rank of an element is its position in the order of values.

use super::super::Operation;
use super::arguments::{CollectionArguments, read, write};
use crate::call::CallWriter;
use crate::call::context::ListPad;
use crate::cdt::{ListPolicy, ListReturn, ListSortFlags, ListWriteFlags, code};
use crate::value::{ListOrder, Purpose, Value};

/// A call whose first argument says what to return.
fn selecting(code: u8, returns: impl Into<ListReturn>) -> CallWriter {
    CallWriter::new(code).returns(returns.into())
}

fn with_policy(call: CallWriter, policy: &ListPolicy) -> CallWriter {
    call.uint(u64::from(policy.create_flags()))
        .uint(u64::from(policy.write_flags().bits()))
}

/// Makes the bin a list of this order, empty if it is missing; an existing list is converted, and loses a persisted
/// index. Below a context, the element that the last one names is created if it is missing. No result. O(1), but for
/// sorting a list that gets ordered.
#[must_use]
pub fn create(bin: &str, order: ListOrder) -> Operation {
    create_with(
        bin,
        &ListPolicy::new(order, ListWriteFlags::empty()),
        ListPad::Bounded,
    )
}

/// The same with a persisted index: see [`ListPolicy::persist_index`].
#[must_use]
pub fn create_persistent(bin: &str, order: ListOrder) -> Operation {
    create_with(
        bin,
        &ListPolicy::new(order, ListWriteFlags::empty()).persist_index(true),
        ListPad::Bounded,
    )
}

/// The same with order and persisted index of a policy; `pad` says whether a list that the last context leads into is
/// filled with nil up to its position.
#[must_use]
pub fn create_with(bin: &str, policy: &ListPolicy, pad: ListPad) -> Operation {
    let flags = u64::from(policy.create_flags());
    write(bin, CallWriter::new(code::LIST_SET_TYPE).uint(flags))
        .creating(pad.create_bits(policy.order()))
}

/// Gives an existing list another order; a missing one is created. It loses a persisted index. No result. O(1), but for
/// sorting a list that gets ordered.
#[must_use]
pub fn set_order(bin: &str, order: ListOrder) -> Operation {
    let flags = u64::from(order.flags());
    write(bin, CallWriter::new(code::LIST_SET_TYPE).uint(flags))
}

/// Appends a value: at the end, or at its place in an ordered list. Result: the number of elements afterwards. O(1)
/// without order, O(N) if elements must be unique; with order O(log N) with index, O(N) without.
#[must_use]
pub fn append(policy: &ListPolicy, bin: &str, value: impl Into<Value>) -> Operation {
    let call = CallWriter::new(code::LIST_APPEND);
    write(bin, with_policy(call.stored(value), policy))
}

/// Appends several values. Result: the number of elements afterwards. Costs as [`append`], for each value.
#[must_use]
pub fn append_items(policy: &ListPolicy, bin: &str, values: Vec<Value>) -> Operation {
    let call = CallWriter::new(code::LIST_APPEND_ITEMS);
    write(
        bin,
        with_policy(call.list(&values, Purpose::Storage), policy),
    )
}

/// Inserts a value before the element at a position; beyond the end, the gap is filled with nil. Not for ordered lists.
/// Result: the number of elements afterwards. O(index); O(1) with index; O(N) if elements must be unique.
#[must_use]
pub fn insert(policy: &ListPolicy, bin: &str, index: i64, value: impl Into<Value>) -> Operation {
    let call = CallWriter::new(code::LIST_INSERT).int(index).stored(value);
    write(bin, call.uint(u64::from(policy.write_flags().bits())))
}

/// Inserts several values before the element at a position. Costs and result as [`insert`].
#[must_use]
pub fn insert_items(policy: &ListPolicy, bin: &str, index: i64, values: Vec<Value>) -> Operation {
    let call = CallWriter::new(code::LIST_INSERT_ITEMS)
        .int(index)
        .list(&values, Purpose::Storage);
    write(bin, call.uint(u64::from(policy.write_flags().bits())))
}

/// Replaces the element at a position; beyond the end, it is inserted there. Not for ordered lists. No result. Costs as
/// [`insert`].
#[must_use]
pub fn set(policy: &ListPolicy, bin: &str, index: i64, value: impl Into<Value>) -> Operation {
    let call = CallWriter::new(code::LIST_SET).int(index).stored(value);
    write(bin, call.uint(u64::from(policy.write_flags().bits())))
}

/// Adds to the number at a position; at the end, a new element begins with `delta`. The kind of number of the element
/// stays: integers wrap. In an ordered list the element goes to its new place. Result: the new number. O(index); O(1)
/// with index, O(log N) with order too.
#[must_use]
pub fn increment(policy: &ListPolicy, bin: &str, index: i64, delta: impl Into<Value>) -> Operation {
    let call = CallWriter::new(code::LIST_INCREMENT).int(index);
    write(bin, with_policy(call.stored(delta), policy))
}

/// Removes the element at a position. Result: the element. O(index); O(1) with index.
#[must_use]
pub fn pop(bin: &str, index: i64) -> Operation {
    write(bin, CallWriter::new(code::LIST_POP).int(index))
}

/// Removes at most `count` elements from a position on. Result: the elements. O(index + M); O(M) with index.
#[must_use]
pub fn pop_range(bin: &str, index: i64, count: u64) -> Operation {
    let call = CallWriter::new(code::LIST_POP_RANGE).int(index);
    write(bin, call.uint(count))
}

/// Removes the elements from a position to the end. Costs and result as [`pop_range`].
#[must_use]
pub fn pop_range_from(bin: &str, index: i64) -> Operation {
    write(bin, CallWriter::new(code::LIST_POP_RANGE).int(index))
}

/// Removes the element at a position. Result: 1. O(index); O(1) with index.
#[must_use]
pub fn remove(bin: &str, index: i64) -> Operation {
    write(bin, CallWriter::new(code::LIST_REMOVE).int(index))
}

/// Removes at most `count` elements from a position on. Result: how many were removed. O(index + M); O(1) with index.
#[must_use]
pub fn remove_range(bin: &str, index: i64, count: u64) -> Operation {
    let call = CallWriter::new(code::LIST_REMOVE_RANGE).int(index);
    write(bin, call.uint(count))
}

/// Removes the elements from a position to the end. Costs and result as [`remove_range`].
#[must_use]
pub fn remove_range_from(bin: &str, index: i64) -> Operation {
    write(bin, CallWriter::new(code::LIST_REMOVE_RANGE).int(index))
}

/// Keeps at most `count` elements from a position on and removes all others. Result: how many were removed. Costs as
/// [`remove_range`].
#[must_use]
pub fn trim(bin: &str, index: i64, count: u64) -> Operation {
    let call = CallWriter::new(code::LIST_TRIM).int(index);
    write(bin, call.uint(count))
}

/// Removes all elements. The list keeps its order and loses a persisted index. No result. O(1).
#[must_use]
pub fn clear(bin: &str) -> Operation {
    write(bin, CallWriter::new(code::LIST_CLEAR))
}

/// How many elements there are. O(1).
#[must_use]
pub fn size(bin: &str) -> Operation {
    read(bin, CallWriter::new(code::LIST_SIZE))
}

/// Sorts the elements. No result; a missing bin is an error. O(N log N); O(1) for an ordered list that keeps its
/// duplicates.
#[must_use]
pub fn sort(bin: &str, flags: ListSortFlags) -> Operation {
    let call = CallWriter::new(code::LIST_SORT);
    write(bin, call.uint(u64::from(flags.bits())))
}

/// The element at a position. O(index); O(1) with index.
#[must_use]
pub fn get(bin: &str, index: i64) -> Operation {
    read(bin, CallWriter::new(code::LIST_GET).int(index))
}

/// At most `count` elements from a position on. O(index + M); O(1) with index, beside the copy of the elements.
#[must_use]
pub fn get_range(bin: &str, index: i64, count: u64) -> Operation {
    let call = CallWriter::new(code::LIST_GET_RANGE).int(index);
    read(bin, call.uint(count))
}

/// The elements from a position to the end. Costs as [`get_range`].
#[must_use]
pub fn get_range_from(bin: &str, index: i64) -> Operation {
    read(bin, CallWriter::new(code::LIST_GET_RANGE).int(index))
}

/// Something about the element at a position. O(index), O(N) for its rank in a list without order; O(1) with order and
/// index.
#[must_use]
pub fn get_by_index(bin: &str, index: i64, returns: impl Into<ListReturn>) -> Operation {
    read(bin, selecting(code::LIST_GET_BY_INDEX, returns).int(index))
}

/// Something about the elements from a position to the end; a negative position counts from the end. O(M) for M elements
/// with index, O(N) without; their ranks in a list without order O(N log N).
#[must_use]
pub fn get_by_index_range(bin: &str, index: i64, returns: impl Into<ListReturn>) -> Operation {
    let call = selecting(code::LIST_GET_BY_INDEX_RANGE, returns);
    read(bin, call.int(index))
}

/// Something about at most `count` elements from a position on. Costs as [`get_by_index_range`].
#[must_use]
pub fn get_by_index_range_count(
    bin: &str,
    index: i64,
    count: u64,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_GET_BY_INDEX_RANGE, returns);
    read(bin, call.int(index).uint(count))
}

/// Something about the element of a rank; rank -1 is the greatest. O(N); O(1) with order and index.
#[must_use]
pub fn get_by_rank(bin: &str, rank: i64, returns: impl Into<ListReturn>) -> Operation {
    read(bin, selecting(code::LIST_GET_BY_RANK, returns).int(rank))
}

/// Something about the elements from a rank to the greatest. O(N + M log M) without order, whose values come in
/// descending order where the range lies in the lower half; O(M) with order and index.
#[must_use]
pub fn get_by_rank_range(bin: &str, rank: i64, returns: impl Into<ListReturn>) -> Operation {
    let call = selecting(code::LIST_GET_BY_RANK_RANGE, returns);
    read(bin, call.int(rank))
}

/// Something about at most `count` elements from a rank on. Costs and order as [`get_by_rank_range`].
#[must_use]
pub fn get_by_rank_range_count(
    bin: &str,
    rank: i64,
    count: u64,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_GET_BY_RANK_RANGE, returns);
    read(bin, call.int(rank).uint(count))
}

/// Something about all elements equal to a value. O(N); O(log N + M) with order and index.
#[must_use]
pub fn get_by_value(
    bin: &str,
    value: impl Into<Value>,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_GET_ALL_BY_VALUE, returns);
    read(bin, call.sought(value))
}

/// Something about all elements equal to one of several values. O((M + N) log M) for M values; O(M log N) with order and
/// index, and then in the order of the values.
#[must_use]
pub fn get_by_value_list(
    bin: &str,
    values: Vec<Value>,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_GET_BY_VALUE_LIST, returns);
    read(bin, call.list(&values, Purpose::Lookup))
}

/// Something about all elements from `begin` (`None`: the lowest) up to, not including, `end` (`None`: the greatest
/// included). O(N); O(log N + M) with order and index.
#[must_use]
pub fn get_by_value_range(
    bin: &str,
    begin: Option<Value>,
    end: Option<Value>,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_GET_BY_VALUE_INTERVAL, returns);
    read(bin, call.interval(begin, end))
}

/// Something about the elements from a rank on, which is counted from that of the first element not less than `value`.
/// Costs and order as [`get_by_rank_range`], and a search.
#[must_use]
pub fn get_by_value_relative_rank_range(
    bin: &str,
    value: impl Into<Value>,
    rank: i64,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_GET_BY_VALUE_REL_RANK_RANGE, returns);
    read(bin, call.sought(value).int(rank))
}

/// The same about at most `count` elements.
#[must_use]
pub fn get_by_value_relative_rank_range_count(
    bin: &str,
    value: impl Into<Value>,
    rank: i64,
    count: u64,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_GET_BY_VALUE_REL_RANK_RANGE, returns);
    read(bin, call.sought(value).int(rank).uint(count))
}

/// Removes the element at a position. Results of removals tell of positions and ranks before the removal. Costs as
/// [`get_by_index`].
#[must_use]
pub fn remove_by_index(bin: &str, index: i64, returns: impl Into<ListReturn>) -> Operation {
    let call = selecting(code::LIST_REMOVE_BY_INDEX, returns);
    write(bin, call.int(index))
}

/// Removes the elements from a position to the end. Costs as [`get_by_index_range`].
#[must_use]
pub fn remove_by_index_range(bin: &str, index: i64, returns: impl Into<ListReturn>) -> Operation {
    let call = selecting(code::LIST_REMOVE_BY_INDEX_RANGE, returns);
    write(bin, call.int(index))
}

/// Removes at most `count` elements from a position on. Costs as [`get_by_index_range`].
#[must_use]
pub fn remove_by_index_range_count(
    bin: &str,
    index: i64,
    count: u64,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_REMOVE_BY_INDEX_RANGE, returns);
    write(bin, call.int(index).uint(count))
}

/// Removes the element of a rank. Costs as [`get_by_rank`].
#[must_use]
pub fn remove_by_rank(bin: &str, rank: i64, returns: impl Into<ListReturn>) -> Operation {
    let call = selecting(code::LIST_REMOVE_BY_RANK, returns);
    write(bin, call.int(rank))
}

/// Removes the elements from a rank to the greatest. Costs and order as [`get_by_rank_range`].
#[must_use]
pub fn remove_by_rank_range(bin: &str, rank: i64, returns: impl Into<ListReturn>) -> Operation {
    let call = selecting(code::LIST_REMOVE_BY_RANK_RANGE, returns);
    write(bin, call.int(rank))
}

/// Removes at most `count` elements from a rank on. Costs and order as [`get_by_rank_range`].
#[must_use]
pub fn remove_by_rank_range_count(
    bin: &str,
    rank: i64,
    count: u64,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_REMOVE_BY_RANK_RANGE, returns);
    write(bin, call.int(rank).uint(count))
}

/// Removes all elements equal to a value. Costs as [`get_by_value`].
#[must_use]
pub fn remove_by_value(
    bin: &str,
    value: impl Into<Value>,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_REMOVE_ALL_BY_VALUE, returns);
    write(bin, call.sought(value))
}

/// Removes all elements equal to one of several values. Costs and order as [`get_by_value_list`].
#[must_use]
pub fn remove_by_value_list(
    bin: &str,
    values: Vec<Value>,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_REMOVE_BY_VALUE_LIST, returns);
    write(bin, call.list(&values, Purpose::Lookup))
}

/// Removes all elements from `begin` up to, not including, `end`: see [`get_by_value_range`].
#[must_use]
pub fn remove_by_value_range(
    bin: &str,
    begin: Option<Value>,
    end: Option<Value>,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_REMOVE_BY_VALUE_INTERVAL, returns);
    write(bin, call.interval(begin, end))
}

/// Removes the elements from a rank on, counted from a value: see [`get_by_value_relative_rank_range`].
#[must_use]
pub fn remove_by_value_relative_rank_range(
    bin: &str,
    value: impl Into<Value>,
    rank: i64,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_REMOVE_BY_VALUE_REL_RANK_RANGE, returns);
    write(bin, call.sought(value).int(rank))
}

/// The same for at most `count` elements.
#[must_use]
pub fn remove_by_value_relative_rank_range_count(
    bin: &str,
    value: impl Into<Value>,
    rank: i64,
    count: u64,
    returns: impl Into<ListReturn>,
) -> Operation {
    let call = selecting(code::LIST_REMOVE_BY_VALUE_REL_RANK_RANGE, returns);
    write(bin, call.sought(value).int(rank).uint(count))
}
