//! Relations between records: what each handle answers, what it costs in record operations, and what is left of it where a
//! process dies between any two of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod graph;
mod includes;
mod key_pattern;
mod killed;
mod links;
mod many_to_many;
mod members;
mod one_to_many;
mod traversal;
mod watched;
