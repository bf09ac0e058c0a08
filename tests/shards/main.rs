//! Sharded collections from outside: what callers see while they are activated, split, merge and go, what that costs, and what
//! callers are told when records are not as they should be. A killed process has a file of its own.

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
