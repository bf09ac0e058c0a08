//! Sharded collections from outside: the view of callers while they are activated, split, merge and
//! are deleted, the costs, and the errors for damaged sets of records. A killed process has a file
//! of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod audit;
mod clashes;
mod common;
mod contention;
mod counters;
mod foreign;
mod indexed;
mod lists;
mod maps;
mod policy;
mod protected;
mod ranks;
mod refused;
mod repeats;
mod scanned;
mod several;
mod time;
mod watched;
