//! A served store, asked byte by byte.
#![cfg(feature = "server")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod batches;
mod community;
#[cfg(feature = "lua")]
mod functions;
#[cfg(feature = "lua")]
mod functions_background;
#[cfg(feature = "lua")]
mod functions_limits;
#[cfg(feature = "lua")]
mod functions_modules;
mod held;
mod index_limits;
mod info;
mod keys;
mod lifecycle;
mod lifetimes;
mod operations;
mod queries;
mod records;
mod refused;
mod security;
#[cfg(all(feature = "monitor", feature = "tls"))]
mod security_encrypted;
mod security_requests;
mod statistics;
mod transactions;
mod transactions_ends;
mod transactions_race;
mod waits;

#[path = "../server_client/mod.rs"]
mod server_client;
