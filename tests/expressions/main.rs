//! What expressions mean, as tables: one row a rule of semantics.md, from
//! semantics.md#expressions-encoding to semantics.md#path-expressions.
//!
//! What they see of a record besides its bins, and filters in two phases, are tested beside the
//! implementation.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod bins;
mod calls;
mod common;
mod encoding;
mod numbers;
mod paths;
mod values;
