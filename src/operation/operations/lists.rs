//! Operations on list bins. The costs name element visits, for N elements; beside them a write copies the bin once.
//!
//! Reads of a missing bin give no result; removals from one do nothing; appending creates it.

use super::super::list::{ListOperation, ListSelector};
use super::super::{Action, Operation};
use crate::cdt::{ListPolicy, ListReturn, ListWriteFlags};
use crate::value::{ListOrder, Value};

fn on_list(bin: &str, operation: ListOperation) -> Operation {
    Operation::on_bin(bin, Action::List(operation))
}

/// Makes the bin a list of this order, empty if it is missing; an existing list is converted, and loses a persisted
/// index. No result. O(1), but for sorting a list that gets ordered.
#[must_use]
pub fn create(bin: &str, order: ListOrder) -> Operation {
    let policy = ListPolicy::new(order, ListWriteFlags::empty());
    on_list(bin, ListOperation::SetType(policy))
}

/// The same with a persisted index: see [`ListPolicy::persist_index`].
#[must_use]
pub fn create_persistent(bin: &str, order: ListOrder) -> Operation {
    let policy = ListPolicy::new(order, ListWriteFlags::empty()).persist_index();
    on_list(bin, ListOperation::SetType(policy))
}

/// Appends a value: at the end, or at its place in an ordered list. Result: the number of elements afterwards. O(1)
/// without order, O(N) if elements must be unique; with order O(log N) with a persisted index, O(N) without.
#[must_use]
pub fn append(policy: &ListPolicy, bin: &str, value: impl Into<Value>) -> Operation {
    on_list(bin, ListOperation::Append(value.into(), *policy))
}

/// Appends several values. Result: the number of elements afterwards. Costs as [`append`], for each value.
#[must_use]
pub fn append_items(policy: &ListPolicy, bin: &str, values: Vec<Value>) -> Operation {
    on_list(bin, ListOperation::AppendItems(values, *policy))
}

/// How many elements there are. O(1).
#[must_use]
pub fn size(bin: &str) -> Operation {
    on_list(bin, ListOperation::Size)
}

/// Elements from a position to the end; a negative position counts from the end. O(M) for M elements with a persisted
/// index, O(N) without.
#[must_use]
pub fn get_by_index_range(bin: &str, index: i64, returns: impl Into<ListReturn>) -> Operation {
    get_by_index_range_count(bin, index, u64::MAX, returns)
}

/// At most `count` elements from a position on. Costs as [`get_by_index_range`].
#[must_use]
pub fn get_by_index_range_count(
    bin: &str,
    index: i64,
    count: u64,
    returns: impl Into<ListReturn>,
) -> Operation {
    let selector = ListSelector::IndexRange {
        start: index,
        count,
    };
    on_list(bin, ListOperation::Get(selector, returns.into()))
}

/// All elements equal to a value. O(N); O(log N + M) in an ordered list with a persisted index.
#[must_use]
pub fn get_by_value(
    bin: &str,
    value: impl Into<Value>,
    returns: impl Into<ListReturn>,
) -> Operation {
    let selector = ListSelector::Value(value.into());
    on_list(bin, ListOperation::Get(selector, returns.into()))
}

/// Removes all elements equal to a value; results tell of positions before the removal. Costs as [`get_by_value`].
#[must_use]
pub fn remove_by_value(
    bin: &str,
    value: impl Into<Value>,
    returns: impl Into<ListReturn>,
) -> Operation {
    let selector = ListSelector::Value(value.into());
    on_list(bin, ListOperation::Remove(selector, returns.into()))
}
