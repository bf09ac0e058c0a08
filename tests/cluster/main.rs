//! A cluster as a record store, against a served store in another process.
#![cfg(all(feature = "cluster", feature = "server", feature = "cli"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;
mod community;
mod contention;
mod encrypted;
mod gateway;
mod killed;
mod moved;
mod operations;
mod program;
mod records;
mod relations;
mod sharded;
mod sizing;
