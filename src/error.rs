//! The one error type of the public API: [`Error`], what it names, and why a store refused.
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
//! // What may succeed when it is tried again, such as KEY_BUSY, can be repeated.
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
#[cfg(feature = "cluster")]
pub use cluster::ClusterFailure;
pub(crate) use message::with_article;
use message::{
    first_of, found_generation, largest, limit_of_waiters, too_many_bytes, waiting_writers,
};
pub use record_id::RecordId;
use record_id::{OfRecord, Subject};
pub use spikelet_storage::ConflictCause;

/// The pattern of the errors that name a record.
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
    };
}

/// Everything that can go wrong, with what a person needs to act on it.
///
/// [`Error::result_code`] gives Aerospike's number for it. An error means that nothing was changed, unless
/// [`Error::in_doubt`] says otherwise. An error about one record names it: [`Error::record`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Bytes that should hold a value or a record do not (code 1).
    #[error("malformed {what}{}: {source}", OfRecord(record))]
    Malformed {
        /// What was being read.
        what: &'static str,
        /// What was wrong with the bytes.
        #[source]
        source: CodecError,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// A value cannot be stored: an integer above `i64::MAX`, a wildcard, a map with a key twice (code 1).
    #[error("a value cannot be stored in {}: {source}", Subject(record))]
    NotStorable {
        /// What is wrong with the value.
        #[source]
        source: CodecError,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The record does not exist, has expired or was truncated (code 2).
    #[error("{} was not found", Subject(record))]
    NotFound {
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The record's generation is not the one that the policy asks for (code 3).
    #[error(
        "generation {expected} was expected, {}",
        found_generation(*found, record)
    )]
    Generation {
        /// The generation of the policy.
        expected: u32,
        /// The generation of the record; 0 when there is no record. `None` from a cluster, which does not tell it.
        found: Option<u16>,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The request itself is wrong (code 4).
    #[error("invalid request: {0}")]
    Parameter(Cow<'static, str>),
    /// A create-only write met a live record (code 5).
    #[error(
        "{} already exists: update or replace it instead of creating it",
        Subject(record)
    )]
    RecordExists {
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// A create-only operation met a bin that exists (code 6).
    #[error(
        "bin \"{bin}\"{} already exists: leave out CREATE_ONLY, or add NO_FAIL to keep what is there",
        OfRecord(record)
    )]
    BinExists {
        /// The bin.
        bin: Box<str>,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The namespace takes no writes for want of space (code 8). Deletes still work.
    #[error("namespace {namespace} takes no writes: {cause}")]
    StopWrites {
        /// The namespace.
        namespace: Box<str>,
        /// Which limit was reached.
        cause: WriteStop,
    },
    /// The time limit of the policy passed (code 9).
    #[error(
        "timed out after {after:?} waiting for {}; {}",
        Subject(record),
        if *in_doubt { "the write may have been applied: read before repeating it" } else { "nothing was applied" }
    )]
    Timeout {
        /// How long the call waited.
        after: Duration,
        /// True when the write may nevertheless have been applied.
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
        /// The type that the bin has.
        found: &'static str,
        /// The operation that was tried.
        operation: &'static str,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The record would exceed the namespace's limit (code 13).
    #[error(
        "{} would have {}{}: split it, or raise the namespace's limit",
        Subject(record),
        too_many_bytes(*size, *limit),
        largest(largest_bin)
    )]
    RecordTooBig {
        /// The size that the record would have, in bytes; 0 from a cluster, which says only that it is too large.
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
        /// The length of the key, in bytes.
        bytes: u64,
        /// The most that a record may have, in bytes.
        limit: u64,
    },
    /// Too many writers already wait for this record (code 14). Nothing was applied.
    ///
    /// Who meets it backs off for a moment and tries again, which [`RetryPolicy`](crate::RetryPolicy) does:
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
    /// A record that is busy all the time needs less load: [`ShardedCounter`](crate::ShardedCounter) and its like spread it
    /// over several records. [`NamespaceConfig::max_waiters`](crate::NamespaceConfig::max_waiters) is the limit.
    #[error(
        "key busy: {} for {}{}: back off and retry, or spread the load over more records",
        waiting_writers(*waiting),
        Subject(record),
        limit_of_waiters(*limit)
    )]
    KeyBusy {
        /// How many writers were waiting; 0 from a cluster, which does not tell it.
        waiting: u32,
        /// The limit of the namespace; 0 from a cluster, which does not tell it.
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
        Subject(record)
    )]
    KeyMismatch {
        /// The record as the caller has named it, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// There is no such namespace (code 20).
    #[error("unknown namespace \"{0}\"")]
    Namespace(Box<str>),
    /// A bin name is not allowed (code 21).
    #[error("bin name {0:?} is not allowed: at most 15 bytes of UTF-8, none of them NUL")]
    BinName(Box<str>),
    /// The operation is not allowed at present (code 22).
    #[error("forbidden: {0}")]
    Forbidden(Cow<'static, str>),
    /// The element to be changed is not there (code 23).
    #[error("element not found in bin \"{bin}\"{}: {hint}", OfRecord(record))]
    ElementNotFound {
        /// The bin.
        bin: Box<str>,
        /// What was looked for, and what to do.
        hint: &'static str,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// An element that must be unique is there already (code 24).
    #[error("element already exists in bin \"{bin}\"{}: {hint}", OfRecord(record))]
    ElementExists {
        /// The bin.
        bin: Box<str>,
        /// What was tried, and what to do.
        hint: &'static str,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The operation does not apply to the present value (code 26).
    #[error("operation not applicable to {}: {why}", Subject(record))]
    OpNotApplicable {
        /// What is in the way.
        why: Cow<'static, str>,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The policy's filter expression does not hold for the record (code 27).
    #[error(
        "filtered out: the policy's expression does not hold for {}",
        Subject(record)
    )]
    FilteredOut {
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// A companion of a sharded collection is not there, or is not what its root says (code 1). The other shards are as they
    /// were.
    #[error(
        "shard {shard} of \"{key}\" is missing: its record was deleted or has expired; restore it, or delete the collection"
    )]
    ShardMissing {
        /// The key of the root.
        key: Box<str>,
        /// The number of the shard.
        shard: u64,
    },
    /// A record that belongs to something else has the key of a companion (code 5). Nothing was written to it.
    #[error(
        "record \"{key}\" is in the way of a shard: delete it, or keep the collection under another key or in another set"
    )]
    ShardKeyCollision {
        /// The key of that record.
        key: Box<str>,
    },
    /// The record is the root of a sharded collection, and the write would take away what it says of its companions,
    /// or write beside them (code 22). Nothing was changed.
    #[error(
        "record \"{key}\" of set \"{set}\" is the root of a sharded collection, and {loses}: change other bins only; or delete the collection by its handle first, or bring it back to one record; or allow it by WritePolicy::override_shards"
    )]
    ShardRoot {
        /// The set; empty: none.
        set: Box<str>,
        /// The key, or the digest where the key is not known.
        key: Box<str>,
        /// What the write would do.
        loses: ShardLoss,
    },
    /// The record holds a shard of a collection, and is not for others to write (code 22). Nothing was changed.
    #[error(
        "record \"{key}\" of set \"{set}\" holds a shard of a collection: write to the collection by its handle, or use another key; or allow it by WritePolicy::override_shards"
    )]
    ShardCompanion {
        /// The set; empty: none.
        set: Box<str>,
        /// The key, or the digest where the key is not known.
        key: Box<str>,
    },
    /// A collection cannot be sharded, or not while there is this index: it would not find the record any more by what its
    /// shards hold (code 22). Nothing was changed.
    #[error(
        "the collection in bin \"{bin}\" cannot be sharded beside index \"{index}\", which would lose it: {why}; drop the index, or index nothing but the elements, keys or values of the bin"
    )]
    ShardIndexed {
        /// The bin of the collection.
        bin: Box<str>,
        /// The name of the index.
        index: Box<str>,
        /// Why the index cannot hold what is in shards.
        why: &'static str,
    },
    /// A time whose bucket ended longer than the retention ago (code 22). Nothing was written.
    #[error(
        "late data: bucket {bucket} ended longer than the retention ago and may have expired; raise the retention, or leave it out"
    )]
    PastRetention {
        /// The bucket, by the beginning of its hour or day in UTC.
        bucket: Box<str>,
    },
    /// What a root says of its shards is not understood here (code 1).
    #[error("sharded collection: {found} is not understood: {why}")]
    ShardScheme {
        /// What was found.
        found: Box<str>,
        /// Why, and what to do.
        why: &'static str,
    },
    /// There is an index of this name already, of something else (code 200).
    #[error(
        "index \"{0}\" exists already and is of something else: drop it first, or use another name"
    )]
    IndexExists(Box<str>),
    /// There is no such index (code 201).
    #[error("there is no index \"{0}\" of this set or namespace: create it first")]
    IndexNotFound(Box<str>),
    /// The indexes of the namespace may take no more memory (code 202). Nothing was changed.
    #[error(
        "index \"{index}\" would grow, and the indexes take {limit} bytes, which is their limit: raise NamespaceConfig::index_bytes_max, or drop an index"
    )]
    IndexMemory {
        /// The index.
        index: Box<str>,
        /// The most that all indexes may take, in bytes.
        limit: u64,
    },
    /// The index is not complete yet (code 203).
    #[error(
        "index \"{index}\" is being built: {done} of {total} partitions are done; wait for IndexBuild::wait, or try again"
    )]
    IndexBuilding {
        /// The index.
        index: Box<str>,
        /// How many partitions are done.
        done: u64,
        /// How many there are.
        total: u64,
    },
    /// The namespace has as many indexes as it may have (code 206).
    #[error("a namespace has at most {limit} indexes: drop one first")]
    TooManyIndexes {
        /// The most that it may have.
        limit: usize,
    },
    /// Another record has the key that a unique index lets one record have (code 22). Nothing was changed.
    #[error("record \"{other}\" has this key in the unique index \"{index}\" already")]
    NotUnique {
        /// The index.
        index: Box<str>,
        /// The key of the other record, or its digest where the key is not stored.
        other: Box<str>,
    },
    /// Changes that were not read yet are gone: the subscription was too slow for what is kept, or asks for older ones (code
    /// 22). Nothing was passed over silently.
    #[error(
        "changes after {position} are not all kept any more, only those after {kept_after}: read the records anew and let the subscription go on from Start::Now, and raise NamespaceConfig::change_bytes_max if it is slower than that"
    )]
    ChangesLost {
        /// What was read up to, as a log sequence number.
        position: u64,
        /// Changes above this log sequence number are kept.
        kept_after: u64,
    },
    /// A transaction could not be committed, since other writers came between again and again (code 121; 120 if it is a
    /// lock that was in the way). Nothing was written.
    #[error(
        "transaction conflict after {attempts} attempts in {}: {cause}; nothing was written: run it again later, or let it touch fewer records that others write",
        Subject(record)
    )]
    Conflict {
        /// What came between in the last attempt.
        cause: ConflictCause,
        /// How often the transaction was tried.
        attempts: u32,
        /// The record in which the last attempt met another writer, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// A transaction writes more than its policy allows (code 123). Nothing was written.
    #[error(
        "the transaction writes more than {limit} {what}: split it, or raise TransactionPolicy::{option}"
    )]
    TransactionLimit {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// The field of the policy.
        option: &'static str,
    },
    /// Writes that were to be made all or none were refused (code 22). None was made.
    #[error("{} of the writes were refused, so none was made; the first: {}", reasons.len(), first_of(reasons))]
    WritesRefused {
        /// The refused writes by their positions, each with the reason.
        reasons: Vec<(usize, Error)>,
    },
    /// Text that should be GeoJSON is not (code 160).
    #[error("invalid GeoJSON: {0}")]
    GeoJson(Cow<'static, str>),
    /// Stored bytes of the record are lost, or may be out of date (code 1). See [`Error::is_damage`].
    #[error("{}: {source}", Subject(record))]
    Damaged {
        /// What was found: [`StorageError::Damaged`] or
        /// [`StorageError::MaybeStale`].
        #[source]
        source: Box<StorageError>,
        /// The record, if it is known.
        record: Option<Box<RecordId>>,
    },
    /// The files of a namespace are open already (code 1). Nothing was changed.
    #[error("{path} is in use: {holder}")]
    InUse {
        /// The file.
        path: Box<str>,
        /// Who has it open.
        holder: StoreHolder,
    },
    /// The operating system does not allow it (code 1).
    #[error(
        "cannot {action} {path}: {source}; this process needs the right to read and write the files and folders of the store"
    )]
    PermissionDenied {
        /// The file or folder.
        path: Box<str>,
        /// What was tried, such as `open`.
        action: &'static str,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The storage engine could not do it: a device refused or failed, the namespace is read-only or closed, or was opened
    /// by the process that this one is a fork of (codes 1, 4, 8, 22; see [`Error::result_code`]).
    #[error(transparent)]
    Storage(Box<StorageError>),
    /// A call of a relation has failed at one of its records (the code of the cause). What was written before it stays, where
    /// the store has no transactions: calling again, or `verify`, completes it.
    #[error("relation \"{}\", {}: {source}", at.relation, at.side)]
    Relation {
        /// The relation, and where in it.
        at: Box<RelationPlace>,
        /// What has failed.
        #[source]
        source: Box<Self>,
    },
    /// A cluster refused the call for a reason that no other variant names, or could not be reached (its code; 1 for a
    /// failure of the client).
    #[cfg(feature = "cluster")]
    #[error(transparent)]
    Cluster(Box<ClusterFailure>),
    /// A Rust value and bins could not be converted into one another (code 4).
    #[error("cannot convert between bins and a Rust type: {0}")]
    Serde(Box<str>),
    /// A value is not of the Rust type that was asked for (code 4).
    #[error(transparent)]
    Conversion(#[from] ConversionError),
}

/// Results are returned by value everywhere.
const _: () = assert!(size_of::<Error>() <= 64);

impl Error {
    /// Returns the record that the error is about. `None` for an error that is about none, and where its key is not known:
    /// in scans, and in requests of wire clients.
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

    /// The error with the record that it is about, unless it names one already.
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
