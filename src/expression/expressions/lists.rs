//! Calls on lists. A modifying call returns the modified list and stores nothing. Meanings and
//! costs as for [`operations::lists`](crate::operations::lists); an error there is an unknown value
//! here. `list` is a list bin, a literal, or another call.
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
use super::call::{
    CallExpression, argument, changing, kind_of_many, kind_of_one, reading_and_removing, removing,
    selecting,
};
use crate::call::Context;
use crate::cdt::{ListPolicy, ListReturn, ListSortFlags, Returns, code, list_selections};

fn with_flags(call: CallExpression, policy: &ListPolicy) -> CallExpression {
    call.uint(u64::from(policy.write_flags().bits()))
}

fn with_policy(call: CallExpression, policy: &ListPolicy) -> CallExpression {
    with_flags(call.uint(u64::from(policy.create_flags())), policy)
}

changing! {
    List list ListPolicy;

    /// Returns the list with a value added: at the end, or in order if the list is ordered.
    append LIST_APPEND(value) with_policy;

    /// Returns the list with the values of another list added.
    append_items LIST_APPEND_ITEMS(values) with_policy;

    /// Returns the list with a value inserted before the element at a position.
    insert LIST_INSERT(index, value) with_flags;

    /// Returns the list with the values of another list inserted before the element at a position.
    insert_items LIST_INSERT_ITEMS(index, values) with_flags;

    /// Returns the list with the value at a position replaced.
    set LIST_SET(index, value) with_flags;

    /// Returns the list with the number at a position increased.
    increment LIST_INCREMENT(index, delta) with_policy;
}

/// Returns the list without its elements.
#[must_use]
pub fn clear(list: impl Into<Expression>, contexts: &[Context]) -> Expression {
    CallExpression::new(code::LIST_CLEAR).modify(ExpType::List, list, contexts)
}

/// Returns the list sorted.
#[must_use]
pub fn sort(flags: ListSortFlags, list: impl Into<Expression>, contexts: &[Context]) -> Expression {
    CallExpression::new(code::LIST_SORT)
        .uint(u64::from(flags.bits()))
        .modify(ExpType::List, list, contexts)
}

/// Returns the number of elements.
#[must_use]
pub fn size(list: impl Into<Expression>, contexts: &[Context]) -> Expression {
    CallExpression::new(code::LIST_SIZE).read(ExpType::Int, list, contexts)
}

list_selections!(reading_and_removing "list" List ListReturn);
