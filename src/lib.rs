//! A record store that lives inside a service: records with bins, lists and maps that are edited in
//! place under their record's own lock, an index in memory, and log-structured files on disk.
//! Semantics, limits and result codes are Aerospike's, so code written against one moves to the
//! other.
//!
//! # Five concepts
//!
//! - A [`Store`] is a directory, or memory. It has *namespaces*, each with its own files, settings
//!   ([`NamespaceConfig`]: durability, sizes, time to live) and locks; most programs need one.
//! - A [`Set`] groups records of a namespace, as a table would. `store.set("users")` is where most
//!   programs begin.
//! - A *record* is found by its [`Key`] (text, integer or bytes) and has named *bins*: a [`Value`]
//!   each, up to 1 MiB together by default. It carries a generation, which counts its writes, and
//!   may expire ([`Expiration`]).
//! - An [`Operation`] reads or changes one bin, or an element in a list or map ([`operations`]).
//!   Several of them on one record are one atomic call: [`Set::operate`].
//! - A *sharded collection* ([`ShardedList`], [`ShardedMap`], [`ShardedCounter`], [`TimeShards`])
//!   spreads over companion records when one record becomes too large or too hot, while it is used.
//!
//! # Records
//!
//! ```
//! use spikelet::{Store, bins};
//!
//! # fn main() -> spikelet::Result<()> {
//! let store = Store::in_memory()?; // or Store::open("directory")
//! let users = store.set("users")?;
//! users.put("alice", bins! { "name" => "Alice", "age" => 42 })?;
//! let alice = users.get("alice")?.expect("was put");
//! assert_eq!(alice.get("age"), Some(42.into()));
//! assert!(users.delete("alice")?.is_some());
//! # Ok(())
//! # }
//! ```
//!
//! # Lists and maps, edited in place
//!
//! ```
//! use spikelet::operations::{lists, maps};
//! use spikelet::{ListOrder, ListPolicy, ListReturnType, ListWriteFlags, MapPolicy, Store};
//!
//! # fn main() -> spikelet::Result<()> {
//! # let store = Store::in_memory()?;
//! let users = store.set("users")?;
//! let unique = ListPolicy::new(ListOrder::Ordered, ListWriteFlags::ADD_UNIQUE);
//! let result = users.operate("alice", &[
//!     lists::append(&unique, "followers", "bob"),
//!     maps::put(&MapPolicy::default(), "settings", "theme", "dark"),
//!     lists::get_by_value("followers", "bob", ListReturnType::Exists),
//! ])?;
//! assert_eq!(result.value(2), Some(&true.into()));
//! # Ok(())
//! # }
//! ```
//!
//! # When a write is safe
//!
//! A killed process loses nothing acknowledged. What a power failure may cost is chosen by
//! [`Durability`]; each write returns its number ([`Lsn`]) to wait for:
//!
//! ```
//! use spikelet::{Store, bins};
//!
//! # fn main() -> spikelet::Result<()> {
//! # let dir = std::env::temp_dir().join(format!("spikelet-front-{}", std::process::id()));
//! let store = Store::open(&dir)?; // synced every 100 ms
//! let orders = store.set("orders")?;
//! let lsn = orders.put(1, bins! { "total" => 99 })?;
//! store.namespace(spikelet::DEFAULT_NAMESPACE)?.wait_durable(lsn)?; // or .durable(lsn).await
//! # store.close()?;
//! # std::fs::remove_dir_all(&dir).ok();
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! None by default: no async runtime, no command-line crates, no C.
//!
//! | feature | adds |
//! |---|---|
//! | `backup` | `spikelet::backup`: `.asb` files, written, read and restored |
//! | `server` | `Server`: Aerospike's wire protocol, on tokio |
//! | `cli` | the `spikelet` program (implies `backup`) |
//!
//! # Limits
//!
//! A record takes up to 1 MiB by default and 8 MiB at most, in 32,767 bins with names of 15 bytes;
//! set names have 63 bytes; a namespace has 4,095 sets and up to 15 files of 512 GiB. Writers of one
//! record queue in order; past [`NamespaceConfig::max_waiters`] they get [`Error::KeyBusy`], which
//! [`RetryPolicy`] repeats. The index takes about 20 bytes of memory a record. Linux.
//!
//! What each operation does, rule by rule: `docs/semantics.md` in the repository; durability, sizes
//! and what to do when something is full or damaged: `docs/operations.md`.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]
#![forbid(unsafe_code)]

#[cfg(feature = "backup")]
pub mod backup;
mod base64;
mod bits;
mod call;
mod cdt;
mod engine;
mod error;
mod expression;
#[cfg(all(fuzzing, feature = "server"))]
pub mod fuzzing;
mod geo;
mod hll;
mod operation;
mod record;
mod retry;
#[cfg(feature = "server")]
mod server;
mod shard;
mod store;
mod value;

pub use bits::{BitOverflow, BitPolicy, BitResizeFlags, BitSign, BitWriteFlags};
pub use cdt::{
    ListPolicy, ListReturn, ListReturnType, ListSortFlags, ListWriteFlags, MapPolicy, MapReturn,
    MapReturnType, MapWriteFlags,
};
pub use engine::{
    Acknowledge, DEFAULT_NAMESPACE, Expiration, GenerationPolicy, HotRecord, MAX_TIME_TO_LIVE,
    Namespace, NamespaceConfig, OperateResult, RecordCall, RecordExistsAction, ScannedRecord, Set,
    Store, StoreBuilder, WritePolicy,
};
pub use error::{Error, RecordId, ShardLoss, StoreHolder, WriteStop};
pub use expression::{
    Definition, ExpReadFlags, ExpType, ExpWriteFlags, Expression, LoopVariable, PathFlags,
    PathResult, RegexFlags, Step, expressions,
};
pub use hll::{HllPolicy, HllWriteFlags};
pub use operation::{MAX_OPERATIONS, Operation, OperationResult, operations};
pub use record::{
    BinName, Bins, Key, KeyHash, MAX_BINS, MAX_SET_NAME_BYTES, Metadata, Record, RecordBins,
    RecordView, from_bins, to_bins,
};
pub use retry::RetryPolicy;
#[cfg(feature = "server")]
pub use server::{Server, ServerBuilder, ServerConfig, ServerHandle};
pub use shard::arithmetic;
pub use shard::{
    MinuteWidth, ShardPolicy, ShardProgress, ShardRecord, ShardStanding, ShardState,
    ShardTransition, ShardedCollection, ShardedCounter, ShardedList, ShardedMap, TimeRange,
    TimeShards, TimeWidth, sharded_collections,
};
pub use store::{RecordSet, RecordStore};
pub use value::{
    CodecError, ConversionError, List, ListElement, ListItems, ListOrder, ListRef, Map, MapEntries,
    MapOrder, MapRef, ParticleType, Value, ValueRef,
};

pub use spikelet_storage::{
    Clock, Damage, DeviceError, Digest, Durability, Error as StorageError, FullCause, Lsn,
    MaintenanceReport, ManualClock, Opening, OpeningStep, SetUsage, Stats, SystemClock, Traffic,
    Verification,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;
