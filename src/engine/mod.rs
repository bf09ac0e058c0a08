//! The engine: namespaces and sets, the read path, the write path, policies.
//!
//! Read `store.rs` (open namespaces), `core.rs` (shared by the handles of a namespace), `set.rs`,
//! `set/batch.rs` and `set/write.rs` (what users call), `write.rs` (the path of one write, step by
//! step) and `policy.rs`. Below it is `spikelet_storage`, which stores bytes by digest; the bytes
//! of a record are read and made by `record` and `operation`. Nothing here knows the encoding of
//! bins or the places of entries.

mod activity;
#[cfg(feature = "server")]
mod by_digest;
mod catalog;
mod changes;
mod companion_sets;
mod config;
mod core;
pub(crate) mod declaration;
mod delete;
mod entry;
#[cfg(feature = "backup")]
mod export;
mod guard;
pub(crate) mod hot_keys;
mod indexes;
mod latency;
mod namespace;
mod open_dirs;
mod policy;
#[cfg(feature = "server")]
mod provisional;
mod query;
mod refusals;
mod relation_guard;
mod relation_rules;
mod scratch;
mod set;
#[cfg(test)]
pub(crate) mod simulated;
mod store;
mod threads;
mod transaction;
mod transition_log;
mod truncation;
mod uncommitted;
mod write;
mod write_group;

pub use activity::{NamespaceStats, OperationKind, OperationStats};
#[cfg(feature = "server")]
pub(crate) use by_digest::{DigestAddress, ReadTouch, RemoteRecord};
pub use changes::{
    Change, ChangeBatch, ChangeKind, ChangeOptions, ChangeStream, Changes, Consumer, Position,
    Start, Subscription, SubscriptionStats,
};
pub use config::NamespaceConfig;
pub use core::{HotRecord, ScannedRecord};
#[cfg(feature = "backup")]
pub(crate) use entry::record_bytes;
#[cfg(feature = "backup")]
pub(crate) use export::{Existing, SavedVersion, WriteSaved, WriteSavedPolicy};
#[cfg(feature = "server")]
pub(crate) use indexes::{Index, IndexState};
pub use indexes::{IndexBuild, IndexStats};
pub use latency::LatencyHistogram;
pub use namespace::Namespace;
pub(crate) use policy::ShardAccess;
#[cfg(feature = "cluster")]
pub(crate) use policy::check_time_to_live;
pub use policy::{
    Acknowledge, Expiration, GenerationPolicy, MAX_TIME_TO_LIVE, RecordExistsAction, WritePolicy,
};
#[cfg(feature = "server")]
pub(crate) use provisional::{Before, Provisional, ProvisionalWrite};
pub use query::{
    BackgroundOperation, BackgroundPolicy, BackgroundProgress, Cursor, Explanation, FailedRecord,
    Page, QueriedKey, QueriedRecord, Query, QueryRecords,
};
#[cfg(feature = "server")]
pub(crate) use query::{IndexBound, NextEntry, PartitionQuery, PartitionStart};
pub(crate) use relation_guard::DeleteWithEdges;
pub use relation_guard::RelationGuard;
pub use set::{BulkProgress, OperateResult, RecordCall, Set, UnshardedRead};
pub use store::{DEFAULT_NAMESPACE, Store, StoreBuilder};
pub use transaction::{
    TOKEN_SET, Transaction, TransactionPolicy, TransactionSet, TransactionStats, WriteGroup,
};
pub use transition_log::{RecentTransition, TransitionReport};
#[cfg(feature = "server")]
pub(crate) use write::{WriteOutcome, WriteRefusal};
