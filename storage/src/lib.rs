//! The storage engine of spikelet: bytes by digest.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

mod acknowledge;
mod bit_repair;
mod bytes;
mod changes;
mod clock;
mod core;
mod device;
mod digest;
mod durability;
mod entry;
mod epoch;
mod error;
mod image;
mod imaged;
mod index;
#[cfg(all(test, shuttle))]
mod interleavings;
mod location;
mod lock;
mod log;
mod maintenance;
mod namespace;
mod options;
mod read_batch;
mod reader;
mod record_lock;
mod recovery;
mod retire;
mod sets;
mod stats;
mod sync;
mod transaction;
mod visible;
mod waiters;

pub use changes::{
    ChangeKind, ChangePosition, ChangeReader, Delivery, LoggedChange, ReadChanges, ReadEnd,
};
pub use clock::{Clock, EPOCH_UNIX_SECONDS, ManualClock, SystemClock};
pub use core::Namespace;
#[cfg(feature = "simulated")]
pub use device::{Atomicity, SECTOR_BYTES, SimulatedDevice};
pub use device::{
    BLOCK_BYTES, Device, DeviceError, DeviceReach, DurableExtent, FORMAT_VERSION, FileDevice,
    FullCause, HEADER_BYTES, Header, Member, MemoryDevice, NAMESPACE_BYTES_MAX, OPEN_EXTENTS_MAX,
    ReadMode, ReadPattern, SMALL_BLOCK_BYTES, STAGING_BYTES, STAGING_LANE_BYTES, STAGING_LANES_MAX,
    State, block_bytes_for, new_device_id, read_header, read_state, write_state,
};
pub use digest::{Digest, PARTITIONS};
pub use durability::Durability;
pub use entry::{EntryView, Lsn};
pub use error::{ConflictCause, Error, Result};
pub use maintenance::MaintenanceReport;
pub use options::{Observer, Opening, OpeningProgress, OpeningStep, Options, Storage};
pub use record_lock::{Change, GroupMember, NewVersion, RecordLock};
pub use recovery::verify::{Damage, Verification};
pub use sets::{CATALOG_BYTES_MAX, SET_NAME_BYTES_MAX, SETS_MAX, SetUsage, Truncate};
pub use stats::{Stats, Traffic};
pub use transaction::buffered::BufferedVersion;
pub use transaction::{RecordChange, RecordVersion, SeenRecord};
