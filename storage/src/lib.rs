//! The storage engine of spikelet: keeps bytes by digest, on mmap'd log-structured devices.
//!
//! Most programs use the package `spikelet`, which adds keys, bins, lists, maps and policies. This
//! package knows none of these. Its own concepts:
//!
//! - A [`Namespace`] is one or several devices ([`Storage`]: files, memory, or a [`Device`] of your
//!   own) with an index in memory, opened with [`Options`].
//! - A *record* has a [`Digest`] of 20 bytes for its key and a payload of up to 8 MiB. A version of
//!   a record also has a generation, an expiry, an update time and a set ([`NewVersion`]).
//! - A [`RecordLock`] makes a read-modify-write of one record atomic. Writers queue in order; past
//!   [`Options::max_waiters`] they get [`Error::KeyBusy`]. Readers take no lock.
//! - Every write gets an [`Lsn`]. [`Durability`] limits the damage of a power failure;
//!   [`Namespace::wait_durable`] waits for a write. A killed process loses nothing acknowledged.
//!
//! ```
//! use spikelet_storage::{Clock, Digest, Namespace, NewVersion, Options, Storage, SystemClock};
//!
//! # fn main() -> spikelet_storage::Result<()> {
//! let (namespace, _) = Namespace::open(Options::new("example", Storage::Memory))?;
//! let digest = Digest::new([7; 20]);
//! let version = NewVersion {
//!     generation: 1,
//!     void_time: 0, // never expires
//!     last_update_ms: SystemClock.now_ms(),
//!     set_id: 0,
//!     key: None,
//!     payload: b"hello",
//! };
//! namespace.lock(&digest, None)?.put(&version)?;
//! let read = namespace.get(&digest, |entry| entry.payload().to_vec())?;
//! assert_eq!(read.as_deref(), Some(&b"hello"[..]));
//! namespace.close()
//! # }
//! ```
//!
//! Other parts: groups of writes and transactions ([`RecordChange`]), the ordered feed of changes
//! ([`ChangeReader`]), truncation of sets ([`Truncate`]), and the offline check ([`Verification`]).
//! `docs/architecture.md` walks through the modules, `docs/format.md` has the files byte by byte.
//!
//! | feature | adds |
//! |---|---|
//! | `serde` | `Serialize` for reports such as [`Stats`] and [`Verification`] |
//! | `simulated` | `SimulatedDevice`: a disk for tests that loses power, tears and damages on demand |
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

#[cfg(not(target_os = "linux"))]
compile_error!("spikelet-storage runs on Linux");

mod acknowledge;
mod attempt;
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
mod ranges;
mod read_batch;
mod reader;
mod record_lock;
mod recovery;
mod retire;
mod rules;
mod sets;
mod stats;
mod sync;
mod transaction;
mod visible;
mod waiters;

pub use attempt::Attempt;
pub use changes::{
    ChangeKind, ChangePosition, ChangeReader, Delivery, LoggedChange, ReadChanges, ReadEnd,
};
pub use clock::{Clock, EPOCH_UNIX_SECONDS, ManualClock, SystemClock};
pub use core::Namespace;
#[cfg(feature = "simulated")]
pub use device::{Atomicity, SECTOR_BYTES, SimulatedDevice};
pub use device::{
    BLOCK_BYTES, Device, DeviceError, DeviceReach, DeviceState, DurableExtent, FORMAT_VERSION,
    FileDevice, FullCause, HEADER_BYTES, Header, Member, MemoryDevice, NAMESPACE_BYTES_MAX,
    OPEN_EXTENTS_MAX, ReadMode, SMALL_BLOCK_BYTES, STAGING_BYTES, STAGING_LANE_BYTES,
    STAGING_LANES_MAX, block_bytes_for, new_device_id, read_header, read_state, write_state,
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
