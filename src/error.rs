//! The error type of the public API: [`Error`], the record it names, and the cause of a refusal.
//!
//! ```
//! # fn main() -> spikelet::Result<()> {
//! use spikelet::{Error, RetryPolicy};
//!
//! let users = spikelet::Store::in_memory()?.set("users")?;
//! let error = users.touch("nobody").unwrap_err();
//! assert!(matches!(error, Error::NotFound { .. }));
//! assert_eq!(error.to_string(), "record \"nobody\" of set \"users\" was not found");
//! assert_eq!((error.result_code(), error.is_retryable()), (2, false));
//! // Calls with a retryable error, such as KEY_BUSY, can be repeated.
//! RetryPolicy::default().retry(|| users.put("alice", [("age", 42)]))?;
//! # Ok(())
//! # }
//! ```

mod causes;
mod classes;
#[cfg(feature = "cluster")]
mod cluster;
mod constructors;
mod from_storage;
mod message;
mod record_id;

use std::borrow::Cow;
use std::time::Duration;

use spikelet_storage::Error as StorageError;

use crate::record::Key;
use crate::value::{CodecError, ConversionError};

pub use causes::{RelationPlace, ShardLoss, StoreHolder, WriteStop};
pub(crate) use classes::if_there;
#[cfg(feature = "cluster")]
pub use cluster::ClusterFailure;
pub(crate) use message::with_article;
use message::{
    edges_of, first_of, found_generation, largest, limit_of_waiters, room_for_more, too_many_bytes,
    waiting_writers,
};
pub use record_id::RecordId;
use record_id::{ErrorSubject, OfRecord};
pub use spikelet_storage::ConflictCause;

/// Matches the errors that name a record.
macro_rules! about_record {
    ($record:ident) => {
        Self::Malformed { $record, .. }
            | Self::NotStorable { $record, .. }
            | Self::NotFound { $record }
            | Self::Generation { $record, .. }
            | Self::RecordExists { $record }
            | Self::BinExists { $record, .. }
            | Self::Timeout { $record, .. }
            | Self::IncompatibleType { $record, .. }
            | Self::RecordTooBig { $record, .. }
            | Self::KeyBusy { $record, .. }
            | Self::BinNotFound { $record, .. }
            | Self::KeyMismatch { $record }
            | Self::ElementNotFound { $record, .. }
            | Self::ElementExists { $record, .. }
            | Self::OpNotApplicable { $record, .. }
            | Self::FilteredOut { $record }
            | Self::Damaged { $record, .. }
            | Self::Conflict { $record, .. }
            | Self::OwnedBin { $record, .. }
            | Self::HasEdges { $record, .. }
    };
}

/// All errors of the library, with the facts needed to act on them.
///
/// [`Error::result_code`] gives Aerospike's number for it. An error means that nothing was changed,
/// unless [`Error::in_doubt`] says otherwise. An error about one record names it:
/// [`Error::record`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that should be a value or a record are not (code 1).
    #[error("malformed {what}{}: {source}", OfRecord(record))]
    Malformed {
        /// The kind of bytes that were read.
        what: &'static str,
        /// The fault of the bytes.
        #[source]
        source: CodecError,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// A value cannot be stored: an integer above `i64::MAX`, a wildcard, a map with a key twice
    /// (code 1).
    #[error("a value cannot be stored in {}: {source}", ErrorSubject(record))]
    NotStorable {
        /// The fault of the value.
        #[source]
        source: CodecError,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The record does not exist, has expired or was truncated (code 2).
    #[error("{} was not found", ErrorSubject(record))]
    NotFound {
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The record has another generation than the policy expects (code 3).
    #[error(
        "generation {expected} was expected, {}",
        found_generation(*found, record)
    )]
    Generation {
        /// The generation of the policy.
        expected: u32,
        /// The generation of the record; 0 if there is no record. `None` from a cluster, which does
        /// not report it.
        found: Option<u16>,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The request itself is invalid (code 4).
    #[error("invalid request: {0}")]
    Parameter(Cow<'static, str>),
    /// A create-only write met a live record (code 5).
    #[error(
        "{} already exists: update or replace it instead of creating it",
        ErrorSubject(record)
    )]
    RecordExists {
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// A create-only operation met a bin that exists (code 6).
    #[error(
        "bin \"{bin}\"{} already exists: leave out CREATE_ONLY, or add NO_FAIL to keep its value",
        OfRecord(record)
    )]
    BinExists {
        /// The bin.
        bin: Box<str>,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The namespace refuses writes for lack of space (code 8). Deletes still work.
    #[error("namespace {namespace} takes no writes: {cause}")]
    StopWrites {
        /// The namespace.
        namespace: Box<str>,
        /// The limit that was reached.
        cause: WriteStop,
    },
    /// The time limit of the policy has passed (code 9).
    #[error(
        "timed out after {after:?} waiting for {}; {}",
        ErrorSubject(record),
        if *in_doubt { "the write may have been applied: read before repeating it" } else { "nothing was applied" }
    )]
    Timeout {
        /// The time that the call waited.
        after: Duration,
        /// True if the write may have been applied nevertheless.
        in_doubt: bool,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The bin's type does not fit the operation (code 12).
    #[error(
        "{operation} does not apply to bin \"{bin}\"{}, which holds {}",
        OfRecord(record),
        with_article(found)
    )]
    IncompatibleType {
        /// The bin.
        bin: Box<str>,
        /// The bin's type.
        found: &'static str,
        /// The attempted operation.
        operation: &'static str,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The record would exceed the namespace's limit (code 13).
    #[error(
        "{} would have {}{}: split it, or raise the namespace's limit",
        ErrorSubject(record),
        too_many_bytes(*size, *limit),
        largest(largest_bin)
    )]
    RecordTooBig {
        /// The record's new size in bytes; 0 from a cluster, which does not report it.
        size: u64,
        /// The limit, in bytes.
        limit: u64,
        /// The largest bin and its size in bytes.
        largest_bin: Option<(Box<str>, u64)>,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The user key alone is as long as a record may be (code 13).
    #[error(
        "a key of {bytes} bytes leaves no room for bins, since a record has at most {limit} bytes: use a shorter key, such as a hash of this one"
    )]
    KeyTooBig {
        /// The length of the key in bytes.
        bytes: u64,
        /// The limit of a record in bytes.
        limit: u64,
    },
    /// Too many writers already wait for this record, or one writes it that holds a key of a unique
    /// index which the call needs (code 14). Nothing was applied.
    ///
    /// Back off for a moment and retry, as [`RetryPolicy`](crate::RetryPolicy) does:
    ///
    /// ```
    /// # fn main() -> spikelet::Result<()> {
    /// use spikelet::RetryPolicy;
    /// let counters = spikelet::Store::in_memory()?.set("counters")?;
    /// RetryPolicy::default().retry(|| counters.add("visits", [("n", 1)]))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A record that is always busy needs less load: spread it over several records, for example
    /// with [`ShardedCounter`](crate::ShardedCounter).
    /// [`NamespaceConfig::max_waiters`](crate::NamespaceConfig::max_waiters) sets the limit.
    #[error(
        "key busy: {} {}{}: back off and retry, or spread the load over more records",
        waiting_writers(*waiting, *limit),
        ErrorSubject(record),
        limit_of_waiters(*waiting, *limit)
    )]
    KeyBusy {
        /// The number of waiting writers; 0 where one writer holds the key of a unique index, and
        /// from a cluster, which does not report it.
        waiting: u32,
        /// The limit of the namespace; 0 from a cluster, which does not report it.
        limit: u32,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The operation needs a bin that does not exist (code 17).
    #[error(
        "bin \"{bin}\"{} does not exist: create it first, or add NO_FAIL to pass over it",
        OfRecord(record)
    )]
    BinNotFound {
        /// The bin.
        bin: Box<str>,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The stored user key differs from the given one (code 19).
    #[error(
        "{} stores another user key than the one given: two keys share a digest, or the digest was given by hand",
        ErrorSubject(record)
    )]
    KeyMismatch {
        /// The record as named by the caller, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// There is no such namespace (code 20).
    #[error("unknown namespace \"{0}\"")]
    Namespace(Box<str>),
    /// A bin name is not allowed (code 21).
    #[error("bin name {0:?} is not allowed: at most 15 bytes of UTF-8, none of them NUL")]
    BinName(Box<str>),
    /// The operation is currently not allowed (code 22).
    #[error("forbidden: {0}")]
    Forbidden(Cow<'static, str>),
    /// The element to change does not exist (code 23).
    #[error("element not found in bin \"{bin}\"{}: {hint}", OfRecord(record))]
    ElementNotFound {
        /// The bin.
        bin: Box<str>,
        /// The missing element, and a remedy.
        hint: &'static str,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// An element that must be unique exists already (code 24).
    #[error("element already exists in bin \"{bin}\"{}: {hint}", OfRecord(record))]
    ElementExists {
        /// The bin.
        bin: Box<str>,
        /// The attempted operation, and a remedy.
        hint: &'static str,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The operation does not apply to the current value (code 26).
    #[error("operation not applicable to {}: {why}", ErrorSubject(record))]
    OpNotApplicable {
        /// The obstacle.
        why: Cow<'static, str>,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The policy's filter expression does not hold for the record (code 27).
    #[error(
        "filtered out: the policy's expression does not hold for {}",
        ErrorSubject(record)
    )]
    FilteredOut {
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// A companion of a sharded collection is missing or contradicts its root (code 1). The other
    /// shards are unchanged.
    #[error(
        "shard {shard} of \"{key}\" is missing: its record was deleted or has expired; restore it, or delete the collection"
    )]
    ShardMissing {
        /// The key of the root.
        key: Box<str>,
        /// The number of the shard.
        shard: u64,
    },
    /// A record outside the collection has the key of a companion (code 5). Nothing was
    /// written to it.
    #[error(
        "record \"{key}\" is in the way of a shard: delete it, or keep the collection under another key or in another set"
    )]
    ShardKeyCollision {
        /// The key of that record.
        key: Box<str>,
    },
    /// The record is the root of a sharded collection, and the write would remove its description
    /// of the companions, or write beside them (code 22). Nothing was changed.
    #[error("record \"{key}\" of set \"{set}\" is the root of a sharded collection, and {loses}")]
    ShardRoot {
        /// The set; empty for a record without a set.
        set: Box<str>,
        /// The key, or the digest if the key is unknown.
        key: Box<str>,
        /// The effect of the write.
        loses: ShardLoss,
    },
    /// The record holds a shard of a collection, and only the collection's handle may write it
    /// (code 22). Nothing was changed.
    #[error(
        "record \"{key}\" of set \"{set}\" holds a shard of a collection: write to the collection by its handle, or use another key; or allow it by WritePolicy::override_shards"
    )]
    ShardCompanion {
        /// The set; empty for a record without a set.
        set: Box<str>,
        /// The key, or the digest if the key is unknown.
        key: Box<str>,
    },
    /// The bin belongs to a declared relation, and the write would set or remove it as a whole
    /// (code 22): the other ends of its edges would not agree with it any more. Nothing was
    /// changed.
    #[error(
        "bin \"{bin}\" of {} belongs to relation \"{relation}\": leave it out, and change edges by the relation's handle; or allow it by WritePolicy::override_shards",
        ErrorSubject(record)
    )]
    OwnedBin {
        /// The bin.
        bin: Box<str>,
        /// The relation that keeps its edges there.
        relation: Box<str>,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The record has edges, and is not deleted with them (code 22). Nothing was changed.
    #[error(
        "{} has {}: remove them first, delete it by a handle with OnDelete::Detach or OnDelete::Cascade, or declare such a rule",
        ErrorSubject(record),
        edges_of(relations)
    )]
    HasEdges {
        /// The relations in the way, each with its number of edges; 0 where the number was not
        /// counted.
        relations: Vec<(Box<str>, u64)>,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// A collection cannot be sharded beside this index, which would no longer find the record by
    /// elements in its shards (code 22). Nothing was changed.
    #[error(
        "the collection in bin \"{bin}\" cannot be sharded beside index \"{index}\", which would lose it: {why}; drop the index, or index nothing but the elements, keys or values of the bin"
    )]
    ShardIndexed {
        /// The bin of the collection.
        bin: Box<str>,
        /// The name of the index.
        index: Box<str>,
        /// The reason why the index cannot cover shards.
        why: &'static str,
    },
    /// The bucket of this time ended longer than the retention ago (code 22). Nothing was written.
    #[error(
        "late data: bucket {bucket} ended longer than the retention ago and may have expired; raise the retention, or leave it out"
    )]
    PastRetention {
        /// The bucket, by the beginning of its hour or day in UTC.
        bucket: Box<str>,
    },
    /// The root's description of its shards is not understood (code 1).
    #[error("sharded collection: {found} is not understood: {why}")]
    ShardScheme {
        /// The description found.
        found: Box<str>,
        /// The reason, and a remedy.
        why: &'static str,
    },
    /// Another index has this name (code 200).
    #[error(
        "index \"{0}\" exists already and is of something else: drop it first, or use another name"
    )]
    IndexExists(Box<str>),
    /// The index does not exist (code 201).
    #[error("there is no index \"{0}\" of this set or namespace: create it first")]
    IndexNotFound(Box<str>),
    /// The indexes of the namespace have reached their memory limit (code 202). Nothing was
    /// changed.
    #[error(
        "index \"{index}\" would grow, and the indexes take {limit} bytes, which is their limit: raise NamespaceConfig::index_bytes_max, or drop an index"
    )]
    IndexMemory {
        /// The index.
        index: Box<str>,
        /// The limit of all indexes together, in bytes.
        limit: u64,
    },
    /// The index is still being built (code 203).
    #[error(
        "index \"{index}\" is being built: {done} of {total} partitions are done; wait for IndexBuild::wait, or try again"
    )]
    IndexBuilding {
        /// The index.
        index: Box<str>,
        /// Number of partitions done.
        done: u64,
        /// Number of all partitions.
        total: u64,
    },
    /// The namespace has the greatest possible number of indexes (code 206).
    #[error("a namespace has at most {limit} indexes: drop one first")]
    TooManyIndexes {
        /// That number.
        limit: usize,
    },
    /// Another record has this key of a unique index (code 22). Nothing was changed.
    #[error("record \"{other}\" has this key in the unique index \"{index}\" already")]
    NotUnique {
        /// The index.
        index: Box<str>,
        /// The key of the other record, or its digest if the key is not stored.
        other: Box<str>,
    },
    /// Changes that were not yet read are gone: the subscription was too slow, or asks for changes
    /// older than the kept ones (code 22). No change was skipped silently.
    #[error(
        "changes after {position} are not all kept any more, only those after {kept_after}: read the records anew and let the subscription go on from Start::Now, and raise NamespaceConfig::change_bytes_max if it is slower than that"
    )]
    ChangesLost {
        /// The position read up to, as a log sequence number.
        position: u64,
        /// Changes above this log sequence number are kept.
        kept_after: u64,
    },
    /// A transaction could not be committed, since other writers interfered in every attempt (code
    /// 121; 120 if a lock was in the way). Nothing was written.
    #[error(
        "transaction conflict after {attempts} attempts in {}: {cause}; nothing was written: run it again later, or let it touch fewer records that others write",
        ErrorSubject(record)
    )]
    Conflict {
        /// The interference in the last attempt.
        cause: ConflictCause,
        /// The number of attempts.
        attempts: u32,
        /// The record in which the last attempt met another writer, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// A transaction writes more than its policy allows (code 123). Nothing was written.
    #[error(
        "the transaction writes more than {limit} {what}: {}",
        room_for_more(option)
    )]
    TransactionLimit {
        /// The unit of the limit.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// The field of the policy that sets it; empty: none does.
        option: &'static str,
    },
    /// A group of writes was refused (code 22). None was made.
    #[error("{} of the writes were refused, so none was made; the first: {}", reasons.len(), first_of(reasons))]
    WritesRefused {
        /// The refused writes by position, each with the reason.
        reasons: Vec<(usize, Error)>,
    },
    /// Text that should be GeoJSON is not (code 160).
    #[error("invalid GeoJSON: {0}")]
    GeoJson(Cow<'static, str>),
    /// Stored bytes of the record are lost, or may be out of date (code 1). See
    /// [`Error::is_damage`].
    #[error("{}: {source}", ErrorSubject(record))]
    Damaged {
        /// The fault: [`StorageError::Damaged`] or [`StorageError::MaybeStale`].
        #[source]
        source: Box<StorageError>,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The files of a namespace are already open (code 1). Nothing was changed.
    #[error("{path} is in use: {holder}")]
    InUse {
        /// The file.
        path: Box<str>,
        /// The process that has it open.
        holder: StoreHolder,
    },
    /// The operating system denied access (code 1).
    #[error(
        "cannot {action} {path}: {source}; this process needs the right to read and write the files and folders of the store"
    )]
    PermissionDenied {
        /// The file or folder.
        path: Box<str>,
        /// The attempted action, such as `open`.
        action: &'static str,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// The storage engine failed: a device refused or failed, the namespace is read-only or closed,
    /// or this process is a fork of the one that opened it (codes 1, 4, 8, 22; see
    /// [`Error::result_code`]).
    #[error(transparent)]
    Storage(Box<StorageError>),
    /// A call of a relation failed at one of its records (the code of the cause). In a store
    /// without transactions, earlier writes stay: calling again, or `verify`, completes them.
    #[error("relation \"{}\", {}: {source}", at.relation, at.side)]
    Relation {
        /// The relation and its side.
        at: Box<RelationPlace>,
        /// The error at the record.
        #[source]
        source: Box<Self>,
    },
    /// A cluster refused the call for a reason without a variant of its own, or could not be
    /// reached (its code; 1 for a failure of the client).
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Cluster(Box<ClusterFailure>),
    /// A Rust value and bins could not be converted (code 4).
    #[error("cannot convert between bins and a Rust type: {0}")]
    Serde(Box<str>),
    /// A value has another Rust type than requested (code 4).
    #[error(transparent)]
    Conversion(#[from] ConversionError),
}

/// Results are returned by value everywhere, so errors must be small.
const _: () = assert!(size_of::<Error>() <= 64);
// With 16, rustc 1.95 writes errors to stack slots aligned to 8 by `movaps` where nothing is
// optimized at link time: a crash.
const _: () = assert!(align_of::<Error>() <= 8);

impl Error {
    /// Returns the record that the error is about. `None` for errors about no record, and where its
    /// key is unknown: in scans, and in requests of wire clients.
    #[must_use]
    pub fn record(&self) -> Option<&RecordId> {
        match self {
            about_record!(record) => record.as_deref(),
            Self::Relation { source, .. } => source.record(),
            #[cfg(feature = "cluster")]
            Self::Cluster(failure) => failure.record(),
            _ => None,
        }
    }

    /// Names the record in the error, unless it names one already.
    #[cold]
    pub(crate) fn about(mut self, set: &str, key: &Key<'_>) -> Self {
        if let about_record!(record) = &mut self {
            record.get_or_insert_with(|| Box::new(RecordId::new(set, key)));
        }
        #[cfg(feature = "cluster")]
        if let Self::Cluster(failure) = &mut self {
            failure.set_record(RecordId::new(set, key));
        }
        self
    }
}

impl From<CodecError> for Error {
    fn from(source: CodecError) -> Self {
        Self::malformed("value", source)
    }
}

#[cfg(test)]
mod tests;
