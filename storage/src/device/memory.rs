//! A device in anonymous memory, and what every mapping needs.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use super::header::write_header;
use super::{Device, DeviceError, FullCause, HEADER_BYTES, Header};

/// A device in anonymous memory: gone with the process.
///
/// Memory is taken as it is first stored to, not when the device grows.
#[derive(Debug)]
pub struct MemoryDevice {
    mapping: MmapRaw,
    max_bytes: u64,
    len_bytes: AtomicU64,
}

impl MemoryDevice {
    /// A new device with this header, [`HEADER_BYTES`] long. Reserves address space for `header.max_bytes`.
    ///
    /// # Errors
    /// [`DeviceError::BadOption`] for a header that cannot be, [`DeviceError::Io`] if the system has not that much
    /// address space.
    pub fn new(header: &Header) -> Result<Self, DeviceError> {
        header.validate("memory")?;
        let mapping = map_anonymous(header.max_bytes)
            .map_err(DeviceError::io("memory", "reserve address space for"))?;
        #[cfg(target_os = "linux")]
        // Best effort: fewer TLB misses where huge pages are to be had.
        let _ = mapping.advise(memmap2::Advice::HugePage);
        let len_bytes = AtomicU64::new(HEADER_BYTES);
        let device = Self {
            mapping,
            max_bytes: header.max_bytes,
            len_bytes,
        };
        write_header(&device, header)?;
        Ok(device)
    }
}

// SAFETY: the mapping covers `max_bytes`, lives as long as the device and is never moved; the length only rises, by
// `grow`, and not above `max_bytes`.
unsafe impl Device for MemoryDevice {
    fn base(&self) -> NonNull<u8> {
        base_of(&self.mapping)
    }

    fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes.load(Ordering::Acquire)
    }

    fn grow(&self, len_bytes: u64) -> Result<(), DeviceError> {
        check_maximum(self, len_bytes)?;
        self.len_bytes.fetch_max(len_bytes, Ordering::AcqRel);
        Ok(())
    }

    fn populate(&self, offset: u64, len: u64) {
        populate(&self.mapping, self.len_bytes(), offset, len);
    }

    fn sync(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

/// Zeroed memory of the process, rounded up to whole pages, taken when it is first touched.
pub(super) fn map_anonymous(max_bytes: u64) -> io::Result<MmapRaw> {
    let len = address_space(max_bytes.next_multiple_of(4096))?;
    Ok(MmapOptions::new()
        .len(len)
        .no_reserve_swap()
        .map_anon()?
        .into())
}

/// A length of a mapping, which on a small machine may be too much.
pub(super) fn address_space(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

pub(super) fn base_of(mapping: &MmapRaw) -> NonNull<u8> {
    // SAFETY: a mapping is never at address 0.
    unsafe { NonNull::new_unchecked(mapping.as_mut_ptr()) }
}

/// Refuses a length beyond the device's maximum.
pub(super) fn check_maximum(device: &dyn Device, wanted_bytes: u64) -> Result<(), DeviceError> {
    if wanted_bytes <= device.max_bytes() {
        return Ok(());
    }
    Err(DeviceError::Full {
        path: device.describe(),
        len_bytes: device.len_bytes(),
        wanted_bytes,
        cause: FullCause::DeviceMaximum,
    })
}

/// Makes the pages of a range below `len_bytes` resident and writable; does nothing where the system cannot.
pub(super) fn populate(mapping: &MmapRaw, len_bytes: u64, offset: u64, len: u64) {
    let end = offset.saturating_add(len).min(len_bytes);
    if offset >= end {
        return;
    }
    #[cfg(target_os = "linux")]
    // Kernels before 5.14 do not know the advice; the stores then fault, as they would without it.
    let _ = mapping.advise_range(
        memmap2::Advice::PopulateWrite,
        offset as usize,
        (end - offset) as usize,
    );
    #[cfg(not(target_os = "linux"))]
    let _ = mapping;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::testing::{get, header, put};
    use crate::device::{BLOCK_BYTES, read_header};

    #[test]
    fn memory_grows_at_a_stable_address_and_is_zero() {
        let device = MemoryDevice::new(&header(64 << 30)).unwrap();
        let base = device.base();
        assert_eq!(device.len_bytes(), HEADER_BYTES);
        assert_eq!(read_header(&device).unwrap(), header(64 << 30));
        for blocks in 1..=3 {
            let len_bytes = HEADER_BYTES + blocks * BLOCK_BYTES;
            device.grow(len_bytes).unwrap();
            device.grow(HEADER_BYTES).unwrap();
            assert_eq!(
                (device.len_bytes(), device.base()),
                (len_bytes, base),
                "never shrinks"
            );
            assert_eq!(get(&device, len_bytes - 1, 1), [0]);
            put(&device, len_bytes - 1, &[1]);
        }
        device.sync().unwrap();
    }

    #[test]
    fn memory_does_not_grow_past_its_maximum() {
        let max_bytes = HEADER_BYTES + BLOCK_BYTES;
        let device = MemoryDevice::new(&header(max_bytes)).unwrap();
        device.grow(max_bytes).unwrap();
        match device.grow(max_bytes + 1) {
            Err(DeviceError::Full {
                cause,
                wanted_bytes,
                len_bytes,
                ..
            }) => {
                assert_eq!(cause, FullCause::DeviceMaximum);
                assert_eq!((wanted_bytes, len_bytes), (max_bytes + 1, max_bytes));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn populating_changes_no_content_and_stays_inside() {
        let device = MemoryDevice::new(&header(HEADER_BYTES + BLOCK_BYTES)).unwrap();
        device.grow(HEADER_BYTES + BLOCK_BYTES).unwrap();
        put(&device, HEADER_BYTES + 5, &[9]);
        device.populate(HEADER_BYTES, BLOCK_BYTES);
        device.populate(HEADER_BYTES + 3, u64::MAX);
        device.populate(u64::MAX, 1);
        assert_eq!(get(&device, HEADER_BYTES + 4, 3), [0, 9, 0]);
    }
}
