//! Sharding on demand: a collection that outgrows its record, or makes it too hot, is sharded over
//! companion records while it is in use.
//!
//! [`ShardedList`], [`ShardedMap`] and [`ShardedCounter`] begin in the bin of their record and are
//! sharded by a [`ShardPolicy`], or by a call of [`Shards`]; [`TimeShards`] keeps elements by their
//! time, in a record for each stretch of it. [`sharded_collections`] finds the sharded collections
//! of a set, and records that should not be there; [`arithmetic`] has the formulas that say how
//! many shards a size and a write rate ask for. Which handle when: `docs/from-aerospike.md`.

// * `arithmetic`: how many shards a size and a write rate ask for.
// * `list`, `map`, `counter`, `time`: the collections. `handle`: drives their calls. `shards`:
//   where they are, and their transitions. `sharded`: the part that all collections share. `state`:
//   their reports.
// * `protocol`: the machines that do it. `executor`: their requests as operations; `companions`:
//   what it keeps from call to call; `request_runner` runs them. `content`: the elements that are
//   moved.
// * `merge`: one order over all shards; `sorted` asks them. `policy`: when a collection is sharded,
//   and into how many; `auto_shard` applies it.
// * `record_info`: the role of one record.
// * `audit`: sharded collections, and records that should not be there.
// * `description`: the bins of a root for its sharded collections. `scheme`: where one of them is,
//   and the bin of a companion; `record_name`: its key, and its root. `route`: in which record an
//   element is. `element_hash`: in which shard. `route_cache`: where a handle has found its
//   collection last.

pub mod arithmetic;
mod audit;
mod companions;
mod content;
mod description;
mod element_hash;
mod executor;
mod handle;
mod list;
mod protocol;
#[cfg(feature = "monitor")]
mod record_info;
mod record_name;
mod request_runner;
mod route;
mod route_cache;
#[cfg(feature = "backup")]
mod saved_root;
mod scheme;
mod sharded;
mod shards;
mod state;

mod auto_shard;
mod counter;
mod map;
mod merge;
#[cfg(test)]
mod model_check;
mod policy;
mod sorted;
mod time;

#[cfg(feature = "monitor")]
pub(crate) use record_info::RecordInfo;

pub(crate) use auto_shard::{PAUSE_MS, note_obstacle};
pub(crate) use content::{Collection, number};
pub(crate) use merge::{ElementSortKey, in_pages, is_ambiguous, pages, value_of};
pub(crate) use policy::is_ahead;
#[cfg(feature = "backup")]
pub(crate) use saved_root::SavedRoot;
pub(crate) use scheme::{check_bin, key_in, key_value};
pub(crate) use sorted::{Lists, Maps, SortedBin};

pub use audit::{
    ShardRecord, ShardStatus, ShardedCollection, sharded_collections, sharded_records,
};
pub use counter::ShardedCounter;
pub use list::ShardedList;
pub use map::ShardedMap;
pub use policy::ShardPolicy;
pub use sharded::Sharded;
pub use shards::Shards;
pub use state::{ShardProgress, ShardState, ShardTransition};
pub use time::{MinuteWidth, TimeRange, TimeShards, TimeWidth};
