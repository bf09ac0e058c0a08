//! Operations on list bins. The costs name element visits, for N elements, M of them selected or
//! given; beside them a write copies the bin once. "With index" means a persisted one: see
//! [`ListPolicy::persist_index`].
//!
//! Reads of a missing bin give no result; removals from one do nothing; what adds elements creates
//! it. Negative positions and ranks count from the end. A position or rank that does not exist is
//! an error, a range is clipped to the list. The rank of an element is its position in the
//! order of values.
//!
//! Whether a value is there: [`get_by_value`] with
//! [`ListReturnType::Exists`](crate::ListReturnType::Exists). The page behind a value of an ordered
//! list: [`get_by_value_relative_rank_range_count`] with rank 1.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::operations::lists;
//! use spikelet::{ListOrder, ListPolicy, ListReturnType, ListWriteFlags};
//!
//! let users = spikelet::Store::in_memory()?.set("users")?;
//! let unique = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE);
//! let result = users.operate("alice", &[
//!     lists::append_items(&unique, "tags", vec!["rust".into(), "go".into(), "c".into()]),
//!     lists::get_by_value("tags", "rust", ListReturnType::Index),
//!     lists::remove_by_rank("tags", -1, ListReturnType::Values),
//!     lists::get_range("tags", 0, 10),
//! ])?;
//! assert_eq!(result.value(1), Some(&vec![2].into())); // c, go, rust
//! assert_eq!(result.value(2), Some(&"rust".into()));
//! assert_eq!(result.value(3), Some(&vec!["c", "go"].into()));
//! # Ok(())
//! # }
//! ```

pub use crate::cdt::{ListReturn, ListSortFlags};

use super::super::Operation;
use super::arguments::{
    self, ALL, Argument, argument, collection, fixed, interval, number, reading_and_removing,
    selecting, selector, sought, sought_several, stored, stored_several, unread,
};
use crate::call::CallWriter;
use crate::call::context::ListPad;
use crate::cdt::{Action, Items, ListPolicy, ListWriteFlags, Selector, code, list_selections};
use crate::value::{EncodePurpose, ListOrder, Value};

/// Defines a function for each row that reads or removes the selected elements, and returns what
/// the table fixes.
macro_rules! fixed {
    ($($(#[$doc:meta])* $name:ident $code:ident $selector:ident($($argument:ident),*);)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(bin: &str, $($argument: argument!($argument)),*) -> Operation {
            fixed(bin, code::$code, selector!($selector $($argument)*))
        }
    )*};
}

fn appended(
    policy: &ListPolicy,
    bin: &str,
    code: u8,
    items: Argument<Items<'static>>,
) -> Operation {
    let action = items.map(|items| Action::Append {
        items,
        flags: policy.write_flags(),
        create: policy.create_flags(),
    });
    collection(bin, code, action)
}

fn inserted(
    policy: &ListPolicy,
    bin: &str,
    code: u8,
    index: i64,
    items: Argument<Items<'static>>,
) -> Operation {
    let action = items.map(|items| Action::Insert {
        index,
        items,
        flags: policy.write_flags(),
    });
    collection(bin, code, action)
}

/// Makes the bin a list of this order, empty if it is missing; an existing list is converted, and
/// loses a persisted index. Below a context, the element that the last one names is created if it
/// is missing. No result. O(1), but for sorting a list that gets ordered.
#[must_use]
pub fn create(bin: &str, order: ListOrder) -> Operation {
    let policy = ListPolicy::new(order, ListWriteFlags::empty());
    create_with(bin, &policy, ListPad::Bounded)
}

/// Makes the bin a list as [`create`] does, with a persisted index: see
/// [`ListPolicy::persist_index`].
#[must_use]
pub fn create_persistent(bin: &str, order: ListOrder) -> Operation {
    let policy = ListPolicy::new(order, ListWriteFlags::empty()).persist_index(true);
    create_with(bin, &policy, ListPad::Bounded)
}

/// Makes the bin a list as [`create`] does, with the order and persisted index of a policy; `pad`
/// says whether a list that the last context leads into is filled with nil up to its position.
#[must_use]
pub fn create_with(bin: &str, policy: &ListPolicy, pad: ListPad) -> Operation {
    let action = Ok(Action::SetType(policy.create_flags()));
    collection(bin, code::LIST_SET_TYPE, action).creating(pad.create_bits(policy.order()))
}

/// Gives an existing list another order; a missing one is created. It loses a persisted index. No
/// result. O(1), but for sorting a list that gets ordered.
#[must_use]
pub fn set_order(bin: &str, order: ListOrder) -> Operation {
    collection(bin, code::LIST_SET_TYPE, Ok(Action::SetType(order.flags())))
}

/// Appends a value: at the end, or at its place in an ordered list. Result: the number of elements
/// afterwards. O(1) without order, O(N) if elements must be unique; with order O(log N) with index,
/// O(N) without.
#[must_use]
pub fn append(policy: &ListPolicy, bin: &str, value: impl Into<Value>) -> Operation {
    appended(policy, bin, code::LIST_APPEND, stored(value))
}

/// Appends several values. Result: the number of elements afterwards. Costs as [`append`], for each
/// value.
#[must_use]
pub fn append_items(policy: &ListPolicy, bin: &str, values: Vec<Value>) -> Operation {
    let items = stored_several(&values);
    appended(policy, bin, code::LIST_APPEND_ITEMS, items)
}

/// Inserts a value before the element at a position; beyond the end, the gap is filled with nil.
/// Not for ordered lists. Result: the number of elements afterwards. O(index); O(1) with index;
/// O(N) if elements must be unique.
#[must_use]
pub fn insert(policy: &ListPolicy, bin: &str, index: i64, value: impl Into<Value>) -> Operation {
    inserted(policy, bin, code::LIST_INSERT, index, stored(value))
}

/// Inserts several values before the element at a position. Costs and result as [`insert`].
#[must_use]
pub fn insert_items(policy: &ListPolicy, bin: &str, index: i64, values: Vec<Value>) -> Operation {
    let items = stored_several(&values);
    inserted(policy, bin, code::LIST_INSERT_ITEMS, index, items)
}

/// Replaces the element at a position; beyond the end, it is inserted there. Not for ordered lists.
/// No result. Costs as [`insert`].
#[must_use]
pub fn set(policy: &ListPolicy, bin: &str, index: i64, value: impl Into<Value>) -> Operation {
    let flags = policy.write_flags();
    let action = stored(value).map(|item| Action::Set { index, item, flags });
    collection(bin, code::LIST_SET, action)
}

/// Adds to the number at a position; at the end, a new element begins with `delta`. The kind of
/// number of the element stays: integers wrap. In an ordered list the element goes to its new
/// place. Result: the new number. O(index); O(1) with index, O(log N) with order too.
#[must_use]
pub fn increment(policy: &ListPolicy, bin: &str, index: i64, delta: impl Into<Value>) -> Operation {
    let delta = delta.into();
    let (create, flags) = (policy.create_flags(), policy.write_flags());
    let Some(by) = number(&delta) else {
        let call = CallWriter::new(code::LIST_INCREMENT).int(index);
        let call = call.value(&delta, EncodePurpose::Storage);
        return unread(
            bin,
            call.uint(u64::from(create)).uint(u64::from(flags.bits())),
        );
    };
    let action = Action::IncrementElement {
        index,
        by,
        flags,
        create,
    };
    collection(bin, code::LIST_INCREMENT, Ok(action))
}

fixed! {
    /// Removes the element at a position. Result: the element. O(index); O(1) with index.
    pop LIST_POP Index(index);

    /// Removes at most `count` elements from a position on. Result: the elements. O(index + M);
    /// O(M) with index.
    pop_range LIST_POP_RANGE IndexRange(index, count);

    /// Removes the elements from a position to the end. Costs and result as [`pop_range`].
    pop_range_from LIST_POP_RANGE IndexRange(index);

    /// Removes the element at a position. Result: 1. O(index); O(1) with index.
    remove LIST_REMOVE Index(index);

    /// Removes at most `count` elements from a position on. Result: how many were removed.
    /// O(index + M); O(1) with index.
    remove_range LIST_REMOVE_RANGE IndexRange(index, count);

    /// Removes the elements from a position to the end. Costs and result as [`remove_range`].
    remove_range_from LIST_REMOVE_RANGE IndexRange(index);

    /// Keeps at most `count` elements from a position on and removes all others. Result: how many
    /// were removed. Costs as [`remove_range`].
    trim LIST_TRIM IndexRange(index, count);
}

/// Removes all elements. The list keeps its order and loses a persisted index. No result. O(1).
#[must_use]
pub fn clear(bin: &str) -> Operation {
    collection(bin, code::LIST_CLEAR, Ok(Action::Clear))
}

/// How many elements there are. O(1).
#[must_use]
pub fn size(bin: &str) -> Operation {
    collection(bin, code::LIST_SIZE, Ok(Action::Size))
}

/// Sorts the elements. No result; a missing bin is an error. O(N log N); O(1) for an ordered list
/// that keeps its duplicates.
#[must_use]
pub fn sort(bin: &str, flags: ListSortFlags) -> Operation {
    collection(bin, code::LIST_SORT, Ok(Action::Sort(flags)))
}

fixed! {
    /// The element at a position. O(index); O(1) with index.
    get LIST_GET Index(index);

    /// At most `count` elements from a position on. O(index + M); O(1) with index, beside the copy
    /// of the elements.
    get_range LIST_GET_RANGE IndexRange(index, count);

    /// The elements from a position to the end. Costs as [`get_range`].
    get_range_from LIST_GET_RANGE IndexRange(index);
}

list_selections!(reading_and_removing ListReturn);
