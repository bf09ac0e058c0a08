//! Options and counts of a restore.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use super::super::reader::Skipped;

/// Options of a restore, named as in Aerospike's tools. By default an existing record with a lower
/// generation than the saved one receives the saved bins and keeps its others.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// Restores only records saved from this namespace. Default: all.
    pub namespace: Option<String>,
    /// The target namespace. Default: the namespace of the same name.
    pub into_namespace: Option<String>,
    /// Restores only these sets; the empty name means "no set". Default: all.
    pub sets: Vec<String>,
    /// Leaves existing records unchanged.
    pub unique: bool,
    /// Replaces existing records instead of writing bins into them.
    pub replace: bool,
    /// Ignores the generation of existing records.
    pub no_generation: bool,
    /// Restores the sound part of a damaged backup: of a damaged file, everything before the
    /// damage.
    pub partial: bool,
    /// Restores no secondary indexes. A malformed definition does not count as damage then.
    pub no_indexes: bool,
    /// Accepts digests that do not match their keys, and records without keys in a namespace with
    /// another hash than Aerospike's.
    pub trust_digests: bool,
    /// Also writes over records of sharded collections, at the risk of breaking them: an ordinary
    /// record over a companion, a companion into an ordinary record, a record that takes a
    /// collection from a root or lets it expire, or the bin of a sharded collection beside its
    /// shards. And declarations of relations that contradict the store's own.
    pub override_shards: bool,
    /// Cancels when it becomes true: [`Restore::prepare`](super::Restore::prepare) returns
    /// [`BackupError::Cancelled`](crate::backup::BackupError::Cancelled);
    /// [`Restore::run`](super::Restore::run) returns the counts up to then, see
    /// [`RestoreSummary::cancelled`]. Default: never.
    pub cancel: Option<Arc<AtomicBool>>,
}

/// The counts of a restore. Every record read is in exactly one of the record counts, every index
/// in exactly one of the index counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RestoreSummary {
    /// Records read.
    pub records: u64,
    /// Records written.
    pub restored: u64,
    /// Records that already exist with the same or a higher generation; records of a sharded
    /// collection: behind the same transition or a later one.
    pub fresher: u64,
    /// Records that already exist and stay: all of them with [`RestoreOptions::unique`], else
    /// companions with edges of a declared relation.
    pub existed: u64,
    /// Records that have expired meanwhile.
    pub expired: u64,
    /// Records without bins; nothing to store.
    pub without_bins: u64,
    /// Records outside the selected namespaces and sets.
    pub left_out: u64,
    /// Records that cannot be restored; only with `partial`, which restores the others.
    pub refused: u64,
    /// Secondary indexes declared and built.
    pub indexes: u64,
    /// Secondary indexes that already exist with the same definition.
    pub indexes_existed: u64,
    /// Secondary indexes outside the selected namespaces and sets, or all of them with
    /// [`RestoreOptions::no_indexes`].
    pub indexes_left_out: u64,
    /// Secondary indexes that could not be declared or built, one sentence each; only with
    /// `partial`.
    pub indexes_refused: Vec<String>,
    /// Content that is neither a record nor an index.
    pub skipped: Skipped,
    /// The restore was cancelled: it read no further records, and declared no further indexes.
    /// Running it again continues, because records restored with the saved generation stay.
    #[serde(rename = "interrupted")]
    pub cancelled: bool,
}
