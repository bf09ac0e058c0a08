//! spikelet: a record store that lives inside a service.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]
#![forbid(unsafe_code)]

pub mod backup;
mod base64;
mod bits;
mod call;
mod cdt;
#[cfg(feature = "cli")]
pub mod contention;
mod engine;
mod error;
mod expression;
#[cfg(all(fuzzing, feature = "server"))]
pub mod fuzzing;
mod geo;
mod hll;
mod operation;
mod place;
#[cfg(feature = "cli")]
mod random;
mod record;
#[cfg(feature = "cli")]
pub mod report;
#[cfg(feature = "server")]
mod server;
mod shard;
#[cfg(feature = "cli")]
pub mod sizing;
mod store;
mod value;

pub use bits::{BitOverflow, BitPolicy, BitResizeFlags, BitSign, BitWriteFlags};
pub use cdt::{
    ListPolicy, ListReturn, ListReturnType, ListSortFlags, ListWriteFlags, MapPolicy, MapReturn,
    MapReturnType, MapWriteFlags,
};
pub use engine::{
    Acknowledge, DEFAULT_NAMESPACE, Expiration, GenerationPolicy, HotRecord, MAX_TIME_TO_LIVE,
    Namespace, NamespaceConfig, Operated, RecordExistsAction, ScannedRecord, Set, Store,
    StoreBuilder, WritePolicy,
};
pub use error::Error;
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
#[cfg(feature = "server")]
pub use server::{Server, ServerBuilder, ServerConfig, ServerHandle};
pub use shard::arithmetic;
pub use shard::{
    ShardPolicy, ShardProgress, ShardRecord, ShardStanding, ShardState, ShardTransition,
    ShardedCollection, ShardedCounter, ShardedList, ShardedMap, TimeShards, TimeWidth,
    sharded_collections,
};
pub use store::{RecordCall, RecordSet, RecordStore};
pub use value::{
    CodecError, List, ListItems, ListOrder, ListRef, Map, MapEntries, MapOrder, MapRef,
    ParticleType, Value, ValueRef,
};

pub use spikelet_storage::{
    Clock, Damage, Digest, Durability, Lsn, Maintained, ManualClock, Opening, OpeningStep,
    SetUsage, Stats, SystemClock, Traffic, Verification,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The result of every fallible call of this crate.
pub type Result<T> = std::result::Result<T, Error>;
