//! A cluster as a record store, against a served store in another process.
#![cfg(all(feature = "cluster", feature = "server", feature = "cli"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod async_calls;
mod away;
mod common;
mod community;
mod contention;
mod encrypted;
mod gateway;
mod indexes;
mod killed;
mod killed_handles;
mod killed_lists;
mod meanwhile;
mod moved;
mod moved_watched;
mod operations;
mod program;
mod records;
mod relations;
mod round_trips;
mod saved;
mod sharded;
mod sizing;
mod watched;
