//! Backups: their bytes, what damage does, and what becomes of records that exist.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;
mod damage;
mod existing;
mod files;
mod golden;
