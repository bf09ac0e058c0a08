//! Operations on one encoded list.
//!
//! * `view`: the head, parsed; the elements one after the other.
//! * `index`: the persisted index, as bytes.
//! * `search`: elements by position, and positions by value in ordered lists.
//! * `edit`: splices, and the new list that they make.
//! * `append`, `convert`, `select`: the operations.

mod append;
mod convert;
mod edit;
mod index;
mod search;
mod select;
mod view;

#[cfg(test)]
mod cost_tests;
#[cfg(test)]
mod tests;

pub(crate) use append::{append, append_items};
pub(crate) use convert::set_type;
pub(crate) use edit::ListEdit;
pub(crate) use select::{Selector, get, remove};
pub(crate) use view::ListView;
