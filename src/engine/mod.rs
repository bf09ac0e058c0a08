//! The engine: namespaces and sets, the read path, the write path, policies.
//!
//! Read `store.rs` (what is open), `set.rs`, `set/batch.rs` and `set/write.rs` (what users call), `write.rs` (the path of one write, step by step) and
//! `policy.rs`. Below it is `spikelet_storage`, which stores bytes by digest; the bytes of a record are read and made by
//! `record` and `operation`. Nothing here knows how bins are encoded or where entries lie.

mod config;
mod namespace;
mod open_dirs;
mod policy;
#[cfg(feature = "server")]
mod remote;
#[cfg(feature = "backup")]
mod saved;
mod set;
mod store;
mod write;

pub use config::NamespaceConfig;
pub use namespace::{HotRecord, Namespace, ScannedRecord};
pub use policy::{
    Acknowledge, Expiration, GenerationPolicy, MAX_TIME_TO_LIVE, RecordExistsAction, WritePolicy,
};
#[cfg(feature = "server")]
pub(crate) use remote::{Address, ReadTouch, RemoteRecord};
#[cfg(feature = "backup")]
pub(crate) use saved::{Existing, SavedVersion, WriteSaved, WriteSavedPolicy};
pub use set::{OperateResult, RecordCall, Set};
pub use store::{DEFAULT_NAMESPACE, Store, StoreBuilder};
#[cfg(feature = "server")]
pub(crate) use write::Refused;
