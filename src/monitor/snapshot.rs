//! The answers as plain data: the form of `/hot.json`.

use serde::{Deserialize, Serialize};

/// The version of the form. It grows when a field changes its meaning or goes.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// A look at a store: the hot records and how they are sharded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoreSnapshot {
    /// The version of this form.
    pub schema_version: u32,
    /// When it was taken, in milliseconds since 1970.
    pub at_unix_ms: u64,
    /// The time between this look and the one before, which rates are of, in milliseconds. `None`:
    /// it is the first.
    pub interval_ms: Option<u64>,
    /// Connections of wire clients. `None`: no server told the monitor of them.
    pub connections: Option<u64>,
    /// The namespaces, by name.
    pub namespaces: Vec<NamespaceSnapshot>,
}

/// The operations of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OperationSnapshot {
    /// The name of an [`OperationKind`](crate::stats::OperationKind).
    pub kind: String,
    /// How many have begun since the store was opened.
    pub count: u64,
    /// How many begin a second. `None` at the first look, as for the times.
    pub per_s: Option<f64>,
    /// The median of their times since the look before, in microseconds. `None`: none was timed.
    pub p50_us: Option<f64>,
    /// The 99th percentile.
    pub p99_us: Option<f64>,
    /// The 99.9th percentile.
    pub p999_us: Option<f64>,
}

/// The errors of a result code.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ErrorSnapshot {
    /// The result code.
    pub code: u8,
    /// How many since the store was opened.
    pub count: u64,
    /// How many a second.
    pub per_s: Option<f64>,
}

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NamespaceSnapshot {
    /// Its name.
    pub name: String,
    /// Live records.
    pub records: u64,
    /// Bytes of live records in the log.
    pub live_bytes: u64,
    /// Writers that had to wait for a record's lock, since the store was opened.
    pub waits: u64,
    /// Writers that were refused with `KeyBusy`, since the store was opened.
    pub key_busy: u64,
    /// Waits a second.
    pub waits_per_s: Option<f64>,
    /// Refusals a second.
    pub key_busy_per_s: Option<f64>,
    /// Whether writes are stopped for want of space.
    pub stop_writes: bool,
    /// Why the namespace is read-only, if it is.
    pub read_only: Option<String>,
    /// The operations, by kind.
    pub operations: Vec<OperationSnapshot>,
    /// The errors that operations ended with, by result code.
    pub errors: Vec<ErrorSnapshot>,
    /// Bytes of log that writes have taken, since the store was opened.
    pub log_bytes: u64,
    /// The same a second.
    pub log_bytes_per_s: Option<f64>,
    /// Bytes that defragmentation has moved, since the store was opened.
    pub moved_bytes: u64,
    /// The same a second.
    pub moved_bytes_per_s: Option<f64>,
    /// Syncs that succeeded, since the store was opened.
    pub syncs: u64,
    /// The same a second.
    pub syncs_per_s: Option<f64>,
    /// The mean duration of a sync since the look before, in milliseconds. `None`: there was none.
    pub sync_ms: Option<f64>,
    /// Disk space that the devices take, in bytes.
    pub device_bytes: u64,
    /// Blocks that hold entries.
    pub used_blocks: u64,
    /// Blocks that are free, or that the devices can grow by.
    pub available_blocks: u64,
    /// The records that writers fight over, the most contended first.
    pub hot: Vec<HotRecordSnapshot>,
    /// Sharded collections of hot records, of the roots of hot companions, and of the latest
    /// transitions.
    pub collections: Vec<CollectionSnapshot>,
    /// The latest transitions that handles of this process have carried on, the latest first.
    pub transitions: Vec<TransitionSnapshot>,
}

/// A record that writers fight over.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HotRecordSnapshot {
    /// Its user key, shortened if it is long. `None`: it stores none, or the record is gone.
    pub key: Option<String>,
    /// Its digest.
    pub digest: String,
    /// Its set, empty for none. `None`: the record is gone.
    pub set: Option<String>,
    /// Writes a second, by how its generation has grown. `None`: not known yet, or the record was
    /// made anew meanwhile.
    pub writes_per_s: Option<f64>,
    /// How often a second writers had to wait for it.
    pub waits_per_s: Option<f64>,
    /// How often a second writers were refused.
    pub key_busy_per_s: Option<f64>,
    /// How often writers had to wait. After 5 minutes an event counts half.
    pub waits: u64,
    /// How often writers were refused. After 5 minutes an event counts half.
    pub key_busy: u64,
    /// Its size on the device, in bytes. `None`: the record is gone.
    pub bytes: Option<u64>,
    /// The companions of its sharded collections; 0: none is sharded. `None` for one that is
    /// sharded by time, of which the root alone does not say it, and for a record that is gone.
    pub shards: Option<u64>,
    /// The record that it is a companion of.
    pub companion_of: Option<CompanionOf>,
}

/// The root of a companion's collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompanionOf {
    /// The key of the root.
    pub key: String,
    /// The number of the shard.
    pub shard: u64,
}

/// A sharded collection, as its root describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CollectionSnapshot {
    /// The set of its root.
    pub set: String,
    /// The key of its root.
    pub key: String,
    /// The digest of its root: keys of several types are shown alike.
    pub digest: String,
    /// Its bin.
    pub bin: String,
    /// Where it is, in words.
    pub scheme: String,
    /// How many companions hold it. `None` for one that is sharded by time, of which the root alone
    /// does not say it.
    pub shards: Option<u64>,
    /// The number of its last transition.
    pub epoch: u64,
    /// Whether a transition is under way, or was left unfinished.
    pub in_transition: bool,
}

/// A transition of a sharded collection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TransitionSnapshot {
    /// The set of the root.
    pub set: String,
    /// The key of the root.
    pub key: String,
    /// The bin of the collection.
    pub bin: String,
    /// `activating`, `splitting`, `merging`, `deactivating` or `deleting`.
    pub transition: String,
    /// How many companions held the collection before; 0: it was in one record.
    pub shards: u64,
    /// Companions that are done.
    pub done: u64,
    /// Companions in all.
    pub total: u64,
    /// Whether it is at its end.
    pub ended: bool,
    /// Why it was not begun, though the collection's policy asked for it.
    pub refused: Option<String>,
    /// When it was first seen, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// When it was last reported, in milliseconds since 1970.
    pub reported_unix_ms: u64,
}
