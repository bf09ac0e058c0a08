//! Shard-on-demand: a collection that outgrows its record, or whose record is too hot, spreads itself while in use.
//!
//! * [`arithmetic`]: how many shards a size and a write rate ask for.
//! * [`list`], [`map`], [`counter`], [`time`]: what can be sharded. [`handle`]: what all handles have in common. [`state`]: what they tell.
//! * [`protocol`]: the machines that do it. [`lower`]: their requests as operations. [`content`]: what is moved.
//! * [`merge`]: one order over all shards. [`policy`]: when a collection is spread, and how far; [`watch`] tells it.
//! * [`audit`]: what is sharded, and what should not be there.
//! * [`scheme`]: what root and companions say of themselves. [`route`]: which shard a child lives in.

pub mod arithmetic;
mod audit;
mod content;
mod handle;
mod list;
mod lower;
mod protocol;
mod route;
mod scheme;
mod state;

mod counter;
mod map;
mod merge;
mod policy;
mod time;
mod watch;

pub use audit::{ShardRecord, ShardStanding, ShardedCollection, sharded_collections};
pub use counter::ShardedCounter;
pub use list::ShardedList;
pub use map::ShardedMap;
pub use policy::ShardPolicy;
pub use state::{ShardProgress, ShardState, ShardTransition};
pub use time::{TimeShards, TimeWidth};
