//! The place of an entry: device and offset, packed into 39 bits.

/// Entries begin on multiples of this many bytes; sizes and offsets are counted in it.
pub(crate) const UNIT_BYTES: u64 = 16;

const OFFSET_BITS: u32 = 35;

/// How many devices one namespace can have: 4 bits of a location, less the number that marks
/// images.
pub const DEVICES_MAX: usize = (1 << (Location::BITS - OFFSET_BITS)) - 1;

/// The largest device: 35 bits of 16-byte units, 512 GiB.
pub const DEVICE_BYTES_MAX: u64 = UNIT_BYTES << OFFSET_BITS;

/// The place of an entry: device (4 bits) and offset in 16-byte units (35 bits). Never zero, since
/// a device begins with its header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Location(u64);

impl Location {
    /// How many low bits of the packed form are used.
    pub(crate) const BITS: u32 = 39;

    /// `offset_bytes` is a multiple of 16 below `DEVICE_BYTES_MAX`.
    pub(crate) fn new(device: usize, offset_bytes: u64) -> Self {
        debug_assert!(
            device < DEVICES_MAX
                && offset_bytes.is_multiple_of(UNIT_BYTES)
                && offset_bytes < DEVICE_BYTES_MAX
        );
        Self(((device as u64) << OFFSET_BITS) | (offset_bytes / UNIT_BYTES))
    }

    /// Stands for the image with this number, which is kept in memory. `device` is a number that no
    /// device has.
    pub(crate) const fn of_image(device: usize, number: u64) -> Self {
        Self(((device as u64) << OFFSET_BITS) | (number & ((1 << OFFSET_BITS) - 1)))
    }

    pub(crate) const fn from_packed(packed: u64) -> Self {
        Self(packed & ((1 << Self::BITS) - 1))
    }

    pub(crate) const fn packed(self) -> u64 {
        self.0
    }

    pub(crate) const fn device(self) -> usize {
        (self.0 >> OFFSET_BITS) as usize
    }

    pub(crate) const fn offset_bytes(self) -> u64 {
        (self.0 & ((1 << OFFSET_BITS) - 1)) * UNIT_BYTES
    }
}
