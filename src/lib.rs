//! A record store that lives inside a service: records with bins, lists and maps edited in place
//! under their record's own lock, an index in memory, and log-structured files on disk. Semantics,
//! limits and result codes are Aerospike's, so code written against one moves to the other.
//!
//! Not released yet: the API and the file formats may change before 0.1.0.
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
//!   spreads over companion records when one record becomes too large or too hot, while in use.
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
//! # Several records at once
//!
//! ```
//! use spikelet::{Store, bins};
//!
//! # fn main() -> spikelet::Result<()> {
//! # let store = Store::in_memory()?;
//! store.transaction(|tx| {
//!     let users = tx.set("users")?;
//!     users.add("alice", bins! { "following" => 1 })?;
//!     users.add("bob", bins! { "followers" => 1 })
//! })?; // both or neither; run again if another writer came between
//! # Ok(())
//! # }
//! ```
//!
//! # Finding records, following changes, relations
//!
//! ```
//! use spikelet::query::IndexDefinition;
//! use spikelet::{Store, bins};
//!
//! # fn main() -> spikelet::Result<()> {
//! # let store = Store::in_memory()?;
//! let users = store.set("users")?;
//! users.create_index(IndexDefinition::new("by_city", ["city"]))?;
//! users.put("alice", bins! { "city" => "Lyon" })?;
//! assert_eq!(users.query("by_city")?.eq("Lyon").count()?, 1);
//! # Ok(())
//! # }
//! ```
//!
//! [`query`] has ranges, pages with cursors that outlive the process, and operations on all
//! matching records; [`changes`] is the stream of writes, with durable subscriptions; [`relation`]
//! has a handle for each usual relation between records: both sides of an edge, members of a
//! group, links, joined fields.
//!
//! # When a write is safe
//!
//! A killed process loses nothing acknowledged. [`Durability`] limits the damage of a power
//! failure; each write returns a number ([`Lsn`]) to wait for:
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
//! | `monitor` | `spikelet::monitor`: hot records, shards and metrics over HTTP, on threads of its own |
//! | `server` | `Server`: Aerospike's wire protocol, on tokio |
//! | `tls` | encrypted connections to the server and the monitor |
//! | `lua` | functions in Lua, for the server (implies `server`; compiles C) |
//! | `cluster` | `spikelet::cluster`: a cluster of Aerospike servers as a [`RecordStore`], through the official client |
//! | `cli` | the `spikelet` program (implies `backup` and `monitor`); `--host` with `cluster`, `spikelet serve` with `server` |
//!
//! # Limits
//!
//! A record takes up to 1 MiB by default and 8 MiB at most, in 32,767 bins with names of 15 bytes;
//! set names have 63 bytes; a namespace has 4,095 sets and up to 15 files of 512 GiB. Writers of
//! one record queue in order; past [`NamespaceConfig::max_waiters`] they get [`Error::KeyBusy`],
//! which [`RetryPolicy`] repeats. The index takes about 20 bytes of memory a record. Linux.
//!
//! In the repository, `docs/semantics.md` has every operation, rule by rule, and
//! `docs/operations.md` the operation of a store: durability, sizes, full and damaged stores.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]
#![forbid(unsafe_code)]

#[cfg(feature = "backup")]
pub mod backup;
mod base64;
#[cfg(any(feature = "monitor", feature = "server"))]
mod basic_login;
mod bits;
mod call;
mod cdt;
#[cfg(feature = "cluster")]
pub mod cluster;
mod engine;
pub mod error;
mod expression;
#[cfg(all(fuzzing, feature = "server"))]
pub mod fuzzing;
mod geo;
mod hll;
#[cfg(any(feature = "monitor", feature = "server"))]
mod http;
mod index;
#[cfg(feature = "monitor")]
pub mod monitor;
mod operation;
#[cfg(any(feature = "monitor", feature = "server"))]
mod prometheus;
mod rate_limit;
pub mod record;
pub mod relation;
mod retry;
#[cfg(feature = "server")]
pub mod server;
mod setters;
pub mod shard;
mod store;
mod sync;
#[cfg(any(feature = "cluster", feature = "tls"))]
mod tls;
pub mod value;

pub use cdt::{
    ListPolicy, ListReturnType, ListWriteFlags, MapPolicy, MapReturnType, MapWriteFlags,
};
pub use engine::{
    BulkProgress, DEFAULT_NAMESPACE, Expiration, Namespace, NamespaceConfig, OperateResult,
    RecordCall, ScannedRecord, Set, Store, StoreBuilder, TOKEN_SET, Transaction, TransactionPolicy,
    TransactionSet, TransactionStats, UnshardedRead, WriteGroup, WritePolicy,
};
#[doc(inline)]
pub use error::Error;
pub use expression::{Expression, expressions};
pub use operation::{Operation, operations};
#[doc(inline)]
pub use record::{Bins, Key, Metadata, Record, RecordView};
pub use retry::RetryPolicy;
#[doc(inline)]
pub use shard::{ShardedCounter, ShardedList, ShardedMap, TimeShards};
pub use store::{IndexQuery, IndexRange, IndexedRecordSet, KeyPage, RecordSet, RecordStore};
#[cfg(feature = "tls")]
pub use tls::TlsIdentity;
#[doc(inline)]
pub use value::{ListOrder, MapOrder, Value, ValueRef};

pub use spikelet_storage::{Attempt, Digest, Durability, Error as StorageError, Lsn};

/// The function that the engine calls of the rooms above it: the library is put together here.
pub(crate) const DELETE_WITH_EDGES: engine::DeleteWithEdges = relation::delete_with_edges;

/// The options of a [`WritePolicy`].
pub mod policy {
    pub use crate::engine::{Acknowledge, GenerationPolicy, MAX_TIME_TO_LIVE, RecordExistsAction};
}

/// Counts of operations, how long they take, and errors: [`Namespace::stats`].
pub mod stats {
    pub use crate::engine::{LatencyHistogram, NamespaceStats, OperationKind, OperationStats};
}

/// Secondary indexes, and queries by them.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::query::IndexDefinition;
/// use spikelet::{Store, bins};
///
/// let people = Store::in_memory()?.set("people")?;
/// people.create_index(IndexDefinition::new("by_city", ["city", "born"]))?;
/// people.put("ada", bins! { "city" => "London", "born" => 1815 })?;
/// people.put("alan", bins! { "city" => "London", "born" => 1912 })?;
/// people.put("erwin", bins! { "city" => "Vienna", "born" => 1887 })?;
///
/// let londoners = people.query("by_city")?.eq("London").at_least(1900).records()?;
/// for found in londoners {
///     assert_eq!(found?.record.get("born"), Some(1912.into()));
/// }
/// # Ok(())
/// # }
/// ```
pub mod query {
    pub use crate::engine::{
        BackgroundOperation, BackgroundPolicy, BackgroundProgress, Cursor, Explanation,
        FailedRecord, IndexBuild, IndexStats, Page, QueriedKey, QueriedRecord, Query, QueryRecords,
    };
    pub use crate::index::{IndexComponent, IndexDefinition, IndexType};
}

/// The changes of a namespace, in order, with subscriptions that continue after a crash.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::changes::{ChangeKind, ChangeOptions, Start};
/// use spikelet::{DEFAULT_NAMESPACE, Store};
/// use std::time::Duration;
///
/// let store = Store::in_memory()?;
/// let changes = store.namespace(DEFAULT_NAMESPACE)?.changes();
/// changes.enable("users")?;
/// let options = ChangeOptions::default().records(true);
/// let mut consumer = changes.subscribe("mailer", Start::Now, options)?.consumer()?;
///
/// let users = store.set("users")?;
/// users.put("alice", [("age", 42)])?;
/// users.delete("alice")?;
/// store.namespace(DEFAULT_NAMESPACE)?.sync()?;
/// let batch = consumer.next_batch(100, Duration::from_secs(1))?;
/// let kinds: Vec<ChangeKind> = batch.iter().map(|change| change.kind).collect();
/// assert_eq!(kinds, [ChangeKind::Put, ChangeKind::Delete]);
/// consumer.ack(&batch)?;
/// # Ok(())
/// # }
/// ```
pub mod changes {
    pub use crate::engine::{
        Change, ChangeBatch, ChangeKind, ChangeOptions, ChangeStream, Changes, Consumer, Position,
        Start, Subscription, SubscriptionStats,
    };
    pub use spikelet_storage::Delivery;
}

/// Reports of a store (statistics, contended records, maintenance, verification, damage), and its
/// clocks.
///
/// ```
/// # fn main() -> spikelet::Result<()> {
/// use spikelet::storage::{Clock, ManualClock};
/// use spikelet::{Expiration, Store, WritePolicy};
/// use std::{sync::Arc, time::Duration};
///
/// // Tests of expiry need not wait.
/// let clock = Arc::new(ManualClock::at(500_000_000_000));
/// let sessions = Store::builder().clock(clock.clone()).open()?.set("sessions")?;
/// let minute = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(60)));
/// sessions.put_with(&minute, "token", [("user", "alice")])?;
/// clock.advance_ms(62_000);
/// assert!(sessions.get("token")?.is_none());
/// # Ok(())
/// # }
/// ```
pub mod storage {
    pub use crate::engine::{HotRecord, RecentTransition, TransitionReport};
    pub use spikelet_storage::{
        Clock, Damage, DeviceError, FullCause, MaintenanceReport, ManualClock, Opening,
        OpeningStep, ReadMode, SetUsage, Stats, SystemClock, Traffic, Verification,
    };
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;
