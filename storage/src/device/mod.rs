//! Devices: contiguous memory that grows, and that may outlive the process and a power failure.
//!
//! A device is one mapping over its largest size, so its base address never changes; only the part that is allocated
//! grows. The log stores into that memory by raw pointers and calls [`Device::sync`] when it must be durable.
//!
//! - [`FileDevice`]: a file, for real use
//! - [`MemoryDevice`]: anonymous memory, for namespaces that need not outlive the process
//! - [`SimulatedDevice`]: a seeded disk for tests, which loses power, tears, damages and fails on demand
//! - `header`: the first 64 KiB of every device, which say whose it is and how it was closed
//!
//! Devices know nothing of blocks and entries: data comes in and goes out by [`Device::base`].

mod error;
mod file;
mod header;
mod memory;
mod simulated;

pub use error::{DeviceError, FullCause};
pub use file::FileDevice;
pub use header::{
    FORMAT_VERSION, Header, Member, NAMESPACE_BYTES_MAX, State, new_device_id, read_header,
    read_state, write_state,
};
pub(crate) use header::{damaged_parts, mend_header};
pub use memory::MemoryDevice;
pub use simulated::{SECTOR_BYTES, SimulatedDevice};

use std::fmt::Debug;
use std::ptr::NonNull;

/// What the header takes at the start of a device; the first block begins here. A multiple of every page size in use,
/// so that blocks are aligned to pages.
pub const HEADER_BYTES: u64 = 64 << 10;

/// The size of a block. Fixed by the format; Aerospike's own default and the ceiling of a record.
pub const BLOCK_BYTES: u64 = 8 << 20;

/// How a device is about to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadPattern {
    /// Here and there: for a device that does not fit into memory, what lies around a missing page is not worth reading.
    /// How a device begins.
    Scattered,
    /// From one end to the other.
    InOrder,
}

/// One contiguous piece of memory at a stable address, which grows and can be made durable.
///
/// # Safety
///
/// An implementor promises what `base` and `len_bytes` say: until the device is dropped, the memory at `base` is
/// valid for reads and writes over `len_bytes`, the base is aligned to 4 KiB and never changes, and `len_bytes` does
/// not shrink below what a caller was told, except by [`SimulatedDevice::truncate`], which leaves the memory valid.
pub unsafe trait Device: Send + Sync + Debug {
    /// The first byte. Valid for reads and writes over `0..len_bytes()`, aligned to 4 KiB, the same for the device's
    /// life. Fresh parts are zero.
    fn base(&self) -> NonNull<u8>;

    /// The most it can grow to, in bytes; that much address space is reserved.
    fn max_bytes(&self) -> u64;

    /// What is allocated now, in bytes, the header included. At least [`HEADER_BYTES`].
    fn len_bytes(&self) -> u64;

    /// Extends the device to `len_bytes`; nothing happens if it is that long already. What was allocated is backed by
    /// disk space when this returns, so a full disk is an error here and never a signal at a later store.
    ///
    /// The new length survives a power failure after the next `sync`.
    ///
    /// # Errors
    /// [`DeviceError::Full`] if the disk, the quota or `max_bytes` does not allow it (the length is as before),
    /// [`DeviceError::ReadOnly`], [`DeviceError::Io`].
    fn grow(&self, len_bytes: u64) -> Result<(), DeviceError>;

    /// Makes the pages of `offset..offset + len` resident and writable ahead of the stores, which then do not fault.
    /// Contents stay. Best effort: does nothing where the system cannot, and never beyond `len_bytes`.
    fn populate(&self, offset: u64, len: u64);

    /// Says how the memory will be read from now on. Best effort, and a hint alone.
    fn expect_reads(&self, _pattern: ReadPattern) {}

    /// Begins to bring `offset..offset + len` into memory and does not wait for it. Best effort, and never beyond
    /// `len_bytes`.
    fn prefetch(&self, _offset: u64, _len: u64) {}

    /// Copies bytes out that lie below `len_bytes`, for a look at a few places before all is read in order: what the
    /// system had to read for it does not stay in memory, where it would break up what is read in large pieces later. False if they could not be had, and `bytes` is not to be used then.
    fn peek(&self, offset: u64, bytes: &mut [u8]) -> bool {
        let end = offset.checked_add(bytes.len() as u64);
        let inside = end.is_some_and(|end| end <= self.len_bytes());
        if inside {
            // SAFETY: inside the device, as was just compared; `bytes` is the caller's alone.
            unsafe {
                let from = self.base().as_ptr().add(offset as usize);
                from.copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len());
            }
        }
        inside
    }

    /// Returns when everything stored before the call is on stable storage.
    ///
    /// # Errors
    /// [`DeviceError::Io`]. What reached the disk is then unknown, and a later success says nothing about it, since
    /// the system may have dropped the pages it could not write: a caller must not go on as if nothing had happened.
    fn sync(&self) -> Result<(), DeviceError>;

    /// For messages: the path, or what else it is.
    fn describe(&self) -> String;
}

/// What the tests of the devices share.
#[cfg(test)]
mod testing {
    use super::{Device, Header, Member};

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
            created_unix_ms: 5,
        }
    }

    pub(super) fn put(device: &dyn Device, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= device.len_bytes());
        // SAFETY: inside the device, as was just asserted, and nobody else has it.
        unsafe {
            device
                .base()
                .as_ptr()
                .add(offset as usize)
                .copy_from(bytes.as_ptr(), bytes.len())
        };
    }

    pub(super) fn get(device: &dyn Device, offset: u64, len: usize) -> Vec<u8> {
        assert!(offset + len as u64 <= device.len_bytes());
        let mut bytes = vec![0; len];
        // SAFETY: inside the device, as was just asserted, and nobody else stores.
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
