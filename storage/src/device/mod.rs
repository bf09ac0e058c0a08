//! Devices: the places of the log's bytes, and their survival of the end of the process and of a
//! power failure.
//!
//! A device is one address range over its largest size, so its base address never changes; only the
//! readable length grows. Bytes are written by [`Device::write`] and read through the mapping at
//! [`Device::base`], or by [`Device::read`] where an unreadable sector must be an error. Nothing
//! stores through the mapping.
//!
//! - [`FileDevice`]: a file, for real use
//! - [`MemoryDevice`]: anonymous memory, for namespaces that need not outlive the process
//! - `SimulatedDevice`: a seeded disk for tests, which loses power, tears, damages and fails on
//!   demand (feature `simulated`)
//! - `header`: the first 64 KiB of every device, with its namespace
//! - `state`: the part of the header that is rewritten, which says how far the devices are durable
//! - `fork`: distinguishes the child of a fork from the process that opened the device
//!
//! Beside the device there may be a *staging memory*, into which the log's lanes put entries before
//! they are written to their blocks: shared memory that a killed process leaves behind, but a power
//! failure does not.
//!
//! Devices know nothing of blocks and entries.

mod error;
mod file;
mod fork;
mod header;
mod memory;
#[cfg(feature = "simulated")]
mod simulated;
mod state;

pub(crate) use error::DeviceResult;
pub use error::{DeviceError, FullCause};
pub use file::FileDevice;
pub(crate) use fork::ForkGuard;
pub use header::{Header, NAMESPACE_BYTES_MAX, new_device_id, read_header};
pub(crate) use header::{damaged_copies, damaged_parts, repair_copies};
pub use memory::MemoryDevice;
#[cfg(feature = "simulated")]
pub use simulated::{Atomicity, SECTOR_BYTES, SimulatedDevice};
pub use state::{
    DeviceReach, DeviceState, DurableExtent, OPEN_EXTENTS_MAX, read_state, write_state,
};
pub(crate) use state::{NUMBER_MAX, newest_state};

use std::fmt::Debug;
use std::ptr::NonNull;

/// Where a device belongs. The same when it is created and whenever it is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// The namespace: 1 to 31 bytes.
    pub namespace: String,
    /// The device's number among the devices of the namespace, from 0.
    pub index: u8,
    /// How many devices the namespace has: 1 to 15.
    pub count: u8,
    /// The id of the function that makes digests of keys.
    pub key_hash: u8,
}

impl std::fmt::Display for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "number {} (from 0) of {} devices of namespace {:?} with key hash {}",
            self.index, self.count, self.namespace, self.key_hash
        )
    }
}

/// The version of the format. A device of another one is refused; 2 is the first that counts.
pub const FORMAT_VERSION: u32 = 2;

/// The size of the header at the start of a device; the first block begins here. A multiple of
/// every page size in use, so that blocks are aligned to pages.
pub const HEADER_BYTES: u64 = 64 << 10;

/// The size of a block, but on small devices: it holds the largest record that Aerospike allows,
/// but for the block's header.
pub const BLOCK_BYTES: u64 = 8 << 20;

/// The size of a block of a small device: the blocks that lanes fill, and the reserve, would be a
/// tenth of such a device otherwise. It holds a record of 1 MiB.
pub const SMALL_BLOCK_BYTES: u64 = (1 << 20) + (64 << 10);

/// The largest device that has small blocks: 4 GiB.
const SMALL_DEVICE_BYTES_MAX: u64 = 4 << 30;

/// Returns the size of the blocks of a new device that may grow to `max_device_bytes` and holds
/// records of up to `max_record_bytes`.
#[must_use]
pub const fn block_bytes_for(max_device_bytes: u64, max_record_bytes: u64) -> u64 {
    if max_device_bytes <= SMALL_DEVICE_BYTES_MAX && max_record_bytes <= SMALL_RECORD_BYTES_MAX {
        SMALL_BLOCK_BYTES
    } else {
        BLOCK_BYTES
    }
}

/// The largest record that has to fit into small blocks: Aerospike's default of `max-record-size`.
const SMALL_RECORD_BYTES_MAX: u64 = 1 << 20;

/// The most regions of the staging memory: one for each lane, and one more.
pub const STAGING_LANES_MAX: usize = 65;

/// The size of one region of the staging memory: 4 KiB of header and 256 KiB of buffer.
pub const STAGING_LANE_BYTES: u64 = 260 << 10;

/// The size of the staging memory of a device.
pub const STAGING_BYTES: u64 = STAGING_LANES_MAX as u64 * STAGING_LANE_BYTES;

/// How records are read from the devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReadMode {
    /// In a mapping of the device: no copy and no call of the system. A page that the device can no
    /// longer read ends the process by a signal (SIGBUS).
    #[default]
    Mapped,
    /// By a call of the system, into a copy: one that fails is
    /// [`Error::Damaged`](crate::Error::Damaged). Costs two calls a record, about 1 us.
    Copied,
}

/// Bytes at offsets that are written by calls, read through a mapping at a stable address, and can
/// be made durable.
///
/// Offsets and lengths are in bytes; offset 0 is the first byte of the header. A range that ends
/// beyond [`len_bytes`](Self::len_bytes) is refused with [`DeviceError::Truncated`].
///
/// # Safety
///
/// An implementor promises what `base`, `len_bytes` and `staging` say: until the device is dropped,
/// the memory at `base` is valid for reads over `len_bytes`, the base is aligned to 4 KiB and never
/// changes, and `len_bytes` does not shrink below a length that a caller has seen, except by
/// `SimulatedDevice::truncate`, which leaves the memory valid.
pub unsafe trait Device: Send + Sync + Debug {
    /// Returns the first byte: valid for reads over `0..len_bytes()`, aligned to 4 KiB, the same
    /// for the device's life.
    ///
    /// The bytes of a [`write`](Self::write) are visible there when it returns. Parts that were
    /// never written are zero. Nothing may be stored through this pointer.
    fn base(&self) -> NonNull<u8>;

    /// Returns the most bytes the device can have; that much address space is reserved.
    fn max_bytes(&self) -> u64;

    /// Returns how many bytes may be read, the header included. At least [`HEADER_BYTES`].
    fn len_bytes(&self) -> u64;

    /// Extends the readable length to `len_bytes`; nothing happens if it is that long already. The
    /// new part has no disk space behind it yet and is zero.
    ///
    /// The new length survives a power failure after the next `sync`.
    ///
    /// # Errors
    /// [`DeviceError::Full`] beyond `max_bytes` (the length is as before),
    /// [`DeviceError::ReadOnly`], [`DeviceError::Io`].
    fn extend(&self, len_bytes: u64) -> Result<(), DeviceError>;

    /// Puts disk space behind `offset..offset + len`: later writes there do not fail for want of
    /// space. Contents stay.
    ///
    /// Best effort on a copy-on-write file system, where `write` may still answer
    /// [`DeviceError::Full`]. Does nothing where the file system cannot allocate ahead.
    ///
    /// # Errors
    /// [`DeviceError::Full`] if the disk or the quota does not allow it (a part of the range may
    /// have its space all the same), [`DeviceError::Truncated`], [`DeviceError::ReadOnly`],
    /// [`DeviceError::Io`].
    fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError>;

    /// Gives the disk space of `offset..offset + len` back; the range reads as zero afterwards.
    /// After a power failure before the next `sync` it may have its old content again.
    ///
    /// Does nothing where the file system cannot; the content of the range is then unspecified.
    ///
    /// # Errors
    /// [`DeviceError::Full`] where even that takes disk space; [`DeviceError::Truncated`],
    /// [`DeviceError::ReadOnly`], [`DeviceError::Io`].
    fn release(&self, offset: u64, len: u64) -> Result<(), DeviceError>;

    /// Writes bytes at `offset`.
    ///
    /// # Errors
    /// [`DeviceError::Full`] if the range was not reserved and there is no space,
    /// [`DeviceError::Truncated`], [`DeviceError::ReadOnly`], [`DeviceError::Io`]. A beginning of
    /// the bytes may have been written, except with `Truncated` and `ReadOnly`.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Reads `into.len()` bytes at `offset` by a call, so that an unreadable sector is an error and
    /// not a signal.
    ///
    /// # Errors
    /// [`DeviceError::Io`], [`DeviceError::Truncated`]. The content of `into` is then unspecified.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Waits until everything written before the call is on stable storage.
    ///
    /// # Errors
    /// [`DeviceError::Io`], also for want of space. It is then unknown which bytes reached the
    /// disk, and a later success says nothing about it, since the system may have dropped the pages
    /// it could not write: they must be written again. [`DeviceError::ReadOnly`].
    fn sync(&self) -> Result<(), DeviceError>;

    /// Makes the pages of `offset..offset + len` resident for reading. Best effort, and never
    /// beyond `len_bytes`.
    fn populate(&self, offset: u64, len: u64);

    /// Has the pages of a range that is about to be written in memory, in the largest pages that
    /// the system has: readers of records scattered over small pages wait for the page table as
    /// long as for the record, and writers for fresh memory. Best effort, and never beyond
    /// `len_bytes`; changes no byte and takes no disk space.
    fn prepare(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Begins to bring `offset..offset + len` into memory and does not wait for it. Best effort,
    /// and never beyond `len_bytes`.
    fn prefetch(&self, _offset: u64, _len: u64) {}

    /// Returns memory of [`STAGING_BYTES`] that outlives the process, but not a power failure.
    /// Aligned to 4 KiB, the same for the device's life, zero where nothing was ever stored. `None`
    /// if the device has none: every append is then written at once.
    ///
    /// Valid for reads all over, and for writes where [`reserve_staging`](Self::reserve_staging)
    /// has returned `Ok`.
    fn staging(&self) -> Option<NonNull<u8>>;

    /// Returns whether anything may ever have been stored in a range of the staging memory. Where
    /// nothing was, reads are best left out: in files that are kept in memory each page that is
    /// read takes space, and ends the process if there is none.
    fn may_be_staged(&self, _offset: u64, _len: u64) -> bool {
        true
    }

    /// Puts disk space behind a range of the staging memory and makes it resident, so that stores
    /// into it neither fail nor fault. Contents stay.
    ///
    /// # Errors
    /// [`DeviceError::Full`]; [`DeviceError::Io`], also for a range outside of the staging memory
    /// or if there is none.
    fn reserve_staging(&self, offset: u64, len: u64) -> Result<(), DeviceError>;

    /// Whether a write inside the device's length can fail.
    fn may_refuse_writes(&self) -> bool {
        true
    }

    /// Returns the disk space taken, the staging memory included, in bytes.
    fn allocated_bytes(&self) -> u64;

    /// Returns a number of this device in this boot of the machine: the same until the machine
    /// starts again, and another one for a copy. 0 if the system does not say.
    fn boot(&self) -> u64;

    /// Returns the path, or the kind of the device, for messages.
    fn describe(&self) -> String;
}

#[cfg(test)]
pub(crate) use testing::header_of_small;

/// What the tests of the devices share.
#[cfg(test)]
mod testing {
    use super::{Device, HEADER_BYTES, Header, Member, SMALL_BLOCK_BYTES};

    pub(super) fn header(max_bytes: u64) -> Header {
        Header {
            device_id: 77,
            member: Member {
                namespace: "test".into(),
                index: 0,
                count: 1,
                key_hash: 0,
            },
            max_bytes,
            block_bytes: super::BLOCK_BYTES,
            created_unix_ms: 5,
        }
    }

    /// The header of a device with this many small blocks.
    pub(crate) fn header_of_small(blocks: u64) -> Header {
        Header {
            block_bytes: SMALL_BLOCK_BYTES,
            ..header(HEADER_BYTES + blocks * SMALL_BLOCK_BYTES)
        }
    }

    pub(super) fn get(device: &dyn Device, offset: u64, len: usize) -> Vec<u8> {
        assert!(offset + len as u64 <= device.len_bytes());
        let mut bytes = vec![0; len];
        // SAFETY: inside the device, as was just asserted, and no other thread writes.
        unsafe {
            device
                .base()
                .as_ptr()
                .add(offset as usize)
                .copy_to(bytes.as_mut_ptr(), len)
        };
        bytes
    }
}
