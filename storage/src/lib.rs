//! The storage engine of spikelet: bytes by digest.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

mod block;
mod clock;
mod defrag;
mod device;
mod digest;
mod durability;
mod entry;
mod epoch;
mod error;
mod flip;
mod gather;
mod group;
mod hot_keys;
mod index;
#[cfg(all(test, shuttle))]
mod interleavings;
mod lane;
mod location;
mod lock;
mod log;
mod maintenance;
mod namespace;
mod open;
mod options;
mod read_batch;
mod record_lock;
mod recovery;
mod recycle;
mod scan;
mod sets;
mod snapshot;
mod space;
mod stats;
mod sweep;
mod sync;
mod verify;
mod volume;

pub use clock::{Clock, EPOCH_UNIX_SECONDS, ManualClock, SystemClock};
pub use device::{
    BLOCK_BYTES, Device, DeviceError, FORMAT_VERSION, FileDevice, FullCause, HEADER_BYTES, Header,
    Member, MemoryDevice, NAMESPACE_BYTES_MAX, ReadPattern, SECTOR_BYTES, SimulatedDevice, State,
    new_device_id, read_header, read_state, write_state,
};
pub use digest::{Digest, PARTITIONS};
pub use durability::Durability;
pub use entry::EntryView;
pub use error::{Error, Result};
pub use hot_keys::{HOT_KEYS_MAX, HotKey};
pub use maintenance::Maintained;
pub use namespace::Namespace;
pub use options::{Opening, OpeningProgress, OpeningStep, Options, Storage};
pub use record_lock::{Change, NewVersion, RecordLock};
pub use sets::{SET_NAME_BYTES_MAX, SETS_MAX, SetUsage, Truncate};
pub use stats::{Stats, Traffic};
pub use verify::{Damage, Verification};
