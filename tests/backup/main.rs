//! Backups: their bytes, the effect of damage, and the treatment of records that exist.
#![cfg(feature = "backup")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;
mod damage;
mod existing;
mod files;
mod golden;
mod indexes;
mod relations;
mod shards;
mod shards_in_use;
