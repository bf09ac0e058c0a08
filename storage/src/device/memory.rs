//! A device in anonymous memory, and what every mapping needs.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, MmapOptions, MmapRaw};

use super::header::{boot_id, write_header};
use super::{Device, DeviceError, FullCause, HEADER_BYTES, Header};
use crate::ranges::ByteRanges;

/// The unit in which memory and disk space are taken and given back.
pub(super) const PAGE_BYTES: u64 = 4096;

/// A device in anonymous memory: gone with the process.
///
/// Memory is taken as it is first written or [prepared](Device::prepare), and given back by
/// [`release`](Device::release); [`allocated_bytes`](Device::allocated_bytes) counts the bytes
/// [reserved](Device::reserve) and not released. There is no staging memory: a write is a copy
/// already.
#[derive(Debug)]
pub struct MemoryDevice {
    mapping: MmapRaw,
    /// The ranges reserved and not released, in whole pages.
    taken: ByteRanges,
    max_bytes: u64,
    len_bytes: AtomicU64,
}

impl MemoryDevice {
    /// Makes a device with this header, [`HEADER_BYTES`] long. Reserves address space for
    /// `header.max_bytes`.
    ///
    /// # Errors
    /// [`DeviceError::BadOption`] for a header that cannot be, [`DeviceError::Io`] if the system
    /// has not that much address space.
    pub fn new(header: &Header) -> Result<Self, DeviceError> {
        header.validate("memory")?;
        let no_space = DeviceError::io("memory", "reserve address space for");
        let mapping = map_anonymous(header.max_bytes).map_err(no_space)?;
        // Best effort: fewer TLB misses where huge pages are to be had.
        let _ = mapping.advise(Advice::HugePage);
        let device = Self {
            mapping,
            taken: ByteRanges::default(),
            max_bytes: header.max_bytes,
            len_bytes: AtomicU64::new(HEADER_BYTES),
        };
        device.reserve(0, HEADER_BYTES)?;
        write_header(&device, header)?;
        Ok(device)
    }

    fn zero(&self, offset: u64, len: u64) {
        // SAFETY: the callers have compared the range with the length; that no thread reads it is
        // the caller's part of `release`.
        unsafe {
            base_of(&self.mapping)
                .add(offset as usize)
                .write_bytes(0, len as usize);
        }
    }

    /// Gives whole pages back, which are zero afterwards.
    fn give_back(&self, offset: u64, len: u64) {
        // SAFETY: the pages are inside the mapping, which is private and anonymous: they read
        // as zero from now on. That no thread reads them meanwhile is the caller's part of
        // `release`.
        let given_back = unsafe {
            self.mapping.unchecked_advise_range(
                memmap2::UncheckedAdvice::DontNeed,
                offset as usize,
                len as usize,
            )
        };
        // Callers rely on zeros there.
        if given_back.is_err() {
            self.zero(offset, len);
        }
    }
}

// SAFETY: the mapping covers `max_bytes`, lives as long as the device and is never moved; the
// length only rises, by `extend`, and not above `max_bytes`.
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

    fn extend(&self, len_bytes: u64) -> Result<(), DeviceError> {
        check_maximum(self, len_bytes)?;
        self.len_bytes.fetch_max(len_bytes, Ordering::AcqRel);
        Ok(())
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_range(self, offset, len)?;
        if len > 0 {
            let first = offset / PAGE_BYTES * PAGE_BYTES;
            let end = (offset + len).next_multiple_of(PAGE_BYTES);
            self.taken.insert(first, end - first);
        }
        Ok(())
    }

    fn release(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_range(self, offset, len)?;
        let end = offset + len;
        let first = offset.next_multiple_of(PAGE_BYTES);
        let last = end / PAGE_BYTES * PAGE_BYTES;
        if first >= last {
            self.zero(offset, len);
            return Ok(());
        }
        // Neighbours have a part of the first and of the last page.
        self.zero(offset, first - offset);
        self.give_back(first, last - first);
        self.zero(last, end - last);
        self.taken.remove(first, last - first);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        check_range(self, offset, bytes.len() as u64)?;
        // SAFETY: inside the device, as was just compared. Unwritten bytes are not read by others,
        // and `bytes` cannot overlap it, since no thread has a writable slice of the device.
        unsafe {
            let to = base_of(&self.mapping).add(offset as usize);
            to.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        }
        Ok(())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        check_range(self, offset, into.len() as u64)?;
        // SAFETY: inside the device, as was just compared; `into` is the caller's alone.
        unsafe {
            let from = base_of(&self.mapping).add(offset as usize);
            from.copy_to_nonoverlapping(NonNull::from(&mut *into).cast(), into.len());
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn populate(&self, offset: u64, len: u64) {
        let range = (offset, len);
        advise(&self.mapping, Advice::PopulateRead, self.len_bytes(), range);
    }

    fn prepare(&self, offset: u64, len: u64) {
        // Zeroing fresh memory takes longer than copying a record into it.
        let range = (offset, len);
        advise(
            &self.mapping,
            Advice::PopulateWrite,
            self.len_bytes(),
            range,
        );
    }

    fn staging(&self) -> Option<NonNull<u8>> {
        None
    }

    fn reserve_staging(&self, _offset: u64, _len: u64) -> Result<(), DeviceError> {
        Err(no_staging(self))
    }

    fn may_refuse_writes(&self) -> bool {
        false
    }

    fn allocated_bytes(&self) -> u64 {
        self.taken.bytes()
    }

    fn boot(&self) -> u64 {
        boot_id()
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

/// Maps zeroed memory of the process, rounded up to whole pages, taken when it is first touched.
pub(super) fn map_anonymous(max_bytes: u64) -> io::Result<MmapRaw> {
    let len = address_space(max_bytes.next_multiple_of(PAGE_BYTES))?;
    Ok(MmapOptions::new()
        .len(len)
        .no_reserve_swap()
        .map_anon()?
        .into())
}

/// Converts the length of a mapping, which on a small machine may be too much.
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

/// Refuses a range that ends beyond the length of the device.
pub(super) fn check_range(device: &dyn Device, offset: u64, len: u64) -> Result<(), DeviceError> {
    let len_bytes = device.len_bytes();
    match offset.checked_add(len) {
        Some(end) if end <= len_bytes => Ok(()),
        end => Err(DeviceError::Truncated {
            path: device.describe(),
            len_bytes,
            expected_bytes: end.unwrap_or(u64::MAX),
        }),
    }
}

/// Returns the error of [`Device::reserve_staging`] where there is no such memory.
pub(super) fn no_staging(device: &dyn Device) -> DeviceError {
    let source = io::ErrorKind::Unsupported.into();
    DeviceError::io(&device.describe(), "reserve staging memory of")(source)
}

/// Gives the system advice about the pages of a range below `len_bytes`: for the most part to make
/// them resident. Kernels before 5.14 do not know that; reads and writes then fault, as they would
/// without it.
pub(super) fn advise(mapping: &MmapRaw, advice: Advice, len_bytes: u64, (offset, len): (u64, u64)) {
    let end = offset.saturating_add(len).min(len_bytes);
    if offset < end {
        let _ = mapping.advise_range(advice, offset as usize, (end - offset) as usize);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::device::testing::{get, header};
    use crate::device::{BLOCK_BYTES, read_header};

    fn device_of_one_block() -> MemoryDevice {
        let device = MemoryDevice::new(&header(HEADER_BYTES + BLOCK_BYTES)).unwrap();
        device.extend(HEADER_BYTES + BLOCK_BYTES).unwrap();
        device
    }

    #[test]
    fn memory_grows_at_a_stable_address_and_is_zero() {
        let device = MemoryDevice::new(&header(64 << 30)).unwrap();
        let base = device.base();
        assert_eq!(device.len_bytes(), HEADER_BYTES);
        assert_eq!(read_header(&device).unwrap(), header(64 << 30));
        for blocks in 1..=3 {
            let len_bytes = HEADER_BYTES + blocks * BLOCK_BYTES;
            device.extend(len_bytes).unwrap();
            device.extend(HEADER_BYTES).unwrap();
            assert_eq!(
                (device.len_bytes(), device.base()),
                (len_bytes, base),
                "never shrinks"
            );
            assert_eq!(get(&device, len_bytes - 1, 1), [0]);
            device.write(len_bytes - 1, &[1]).unwrap();
        }
        device.sync().unwrap();
    }

    #[test]
    fn memory_does_not_grow_past_its_maximum() {
        let device = device_of_one_block();
        let max_bytes = device.max_bytes();
        match device.extend(max_bytes + 1) {
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
    fn a_write_is_seen_by_reads_and_in_the_mapping() {
        let device = device_of_one_block();
        device.write(HEADER_BYTES + 5, b"onetwo").unwrap();
        assert_eq!(get(&device, HEADER_BYTES + 4, 8), b"\0onetwo\0");
        let mut read = [0; 3];
        device.read(HEADER_BYTES + 8, &mut read).unwrap();
        assert_eq!(&read, b"two");
    }

    #[test]
    fn ranges_beyond_the_end_are_refused() {
        let device = device_of_one_block();
        let end = device.len_bytes();
        let attempts = [
            device.write(end - 1, b"ab"),
            device.write(u64::MAX, b"ab"),
            device.read(end - 1, &mut [0; 2]),
            device.reserve(end - 1, 2),
            device.release(end - 1, 2),
        ];
        for attempt in attempts {
            match attempt {
                Err(DeviceError::Truncated { len_bytes, .. }) => assert_eq!(len_bytes, end),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(get(&device, end - 1, 1), [0], "nothing was written");
    }

    #[test]
    fn what_is_released_is_zero_and_no_longer_counted() {
        let device = device_of_one_block();
        let empty = device.allocated_bytes();
        assert_eq!(empty, HEADER_BYTES);
        let content = vec![7; 10 * PAGE_BYTES as usize];
        let len = content.len() as u64;
        device.reserve(HEADER_BYTES + 100, len).unwrap();
        device.write(HEADER_BYTES + 100, &content).unwrap();
        assert_eq!(device.allocated_bytes(), empty + 11 * PAGE_BYTES);
        device.release(HEADER_BYTES + 200, 8 * PAGE_BYTES).unwrap();
        assert_eq!(device.allocated_bytes(), empty + 4 * PAGE_BYTES);
        let found = get(&device, HEADER_BYTES + 100, content.len());
        let released = 100..100 + 8 * PAGE_BYTES as usize;
        for (at, byte) in found.iter().enumerate() {
            assert_eq!(*byte == 0, released.contains(&at), "byte {at}");
        }
        device.release(HEADER_BYTES + 110, 5).unwrap();
        assert_eq!(
            get(&device, HEADER_BYTES + 109, 7),
            [7, 0, 0, 0, 0, 0, 7],
            "less than a page"
        );
    }

    #[test]
    fn memory_has_no_staging() {
        let device = device_of_one_block();
        assert!(device.staging().is_none());
        assert!(device.reserve_staging(0, 1).is_err());
    }

    #[test]
    fn populating_changes_no_content_and_stays_inside() {
        let device = device_of_one_block();
        device.write(HEADER_BYTES + 5, &[9]).unwrap();
        device.populate(HEADER_BYTES, BLOCK_BYTES);
        device.populate(HEADER_BYTES + 3, u64::MAX);
        device.populate(u64::MAX, 1);
        device.prepare(HEADER_BYTES + 3, u64::MAX);
        device.prepare(u64::MAX, 1);
        assert_eq!(get(&device, HEADER_BYTES + 4, 3), [0, 9, 0]);
        assert_eq!(device.allocated_bytes(), HEADER_BYTES);
    }
}
