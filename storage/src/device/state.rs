//! The state of a namespace: how far its devices are safe. `header.rs` draws its bytes.

use std::cmp::Reverse;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{Device, DeviceError, STAGING_LANES_MAX};
use crate::bytes::take;
use crate::location::DEVICES_MAX;
use crate::reader::FieldReader;

/// The offsets of the copies of the state: pages of their own, which are written back on their own.
pub(super) const STATE_AT: [u64; 2] = [4096, 8192];

/// The size of a state without its devices and extents.
const STATE_FIXED_BYTES: usize = 48;
const DEVICE_BYTES: usize = 24;
const EXTENT_BYTES: usize = 24;
pub(super) const STATE_BYTES_MAX: usize =
    STATE_FIXED_BYTES + DEVICES_MAX * DEVICE_BYTES + OPEN_EXTENTS_MAX * EXTENT_BYTES;

/// How many extents a state can list: an open block for each region of the staging memory.
pub const OPEN_EXTENTS_MAX: usize = STAGING_LANES_MAX;

/// Distinguishes the checksum of a state from any other.
const STATE_SEED: u64 = u64::from_le_bytes(*b"dev-sta3");

/// As many bytes of a device as a state can take.
pub(super) type StateBytes = [u8; STATE_BYTES_MAX];

const _: () = assert!(STATE_BYTES_MAX <= 4096);

/// How far the devices of a namespace are safe: rewritten as the store goes on, the same on each of
/// them. The newest one that any device has counts: it was written after a sync of all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceState {
    /// One more than that of the state before it; a new namespace has 0. It chooses which copy is
    /// overwritten.
    pub sequence: u64,
    /// Every entry up to this log sequence number was on stable storage when the state was written.
    pub durable_lsn: u64,
    /// 0 while the store is in use; after a clean close the id of the index snapshot that matches
    /// the devices.
    pub clean_close: u64,
    /// Blocks with a lower sequence number that are not among `open` are durable to their end.
    pub next_block: u64,
    /// A sync has failed since: pages in the system's memory may never reach the devices.
    pub sync_failed: bool,
    /// How far each device reaches, in their order. A new namespace has none.
    pub devices: Vec<DeviceReach>,
    /// How far the blocks that were being written are durable: at most [`OPEN_EXTENTS_MAX`].
    pub open: Vec<DurableExtent>,
}

/// How far a device reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceReach {
    /// The device's length, in bytes, that had been synced when the state was written: a shorter
    /// device was cut off.
    pub len_bytes: u64,
    /// The [`boot`](Device::boot) of the machine when the state was written; 0 if unknown.
    pub boot: u64,
    /// How many blocks of this device, from the first on, have had a header written.
    pub used_blocks: u32,
    /// The lower half of the device's id; 0 if unknown.
    pub id: u32,
}

/// How far a block is on stable storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurableExtent {
    /// The block's device, from 0.
    pub device: u8,
    /// The block's number on its device, from 0.
    pub block: u32,
    /// Which life of the block is meant: blocks are used again.
    pub incarnation: u64,
    /// The durable length from the block's start on, in units of 16 bytes.
    pub durable_units: u32,
    /// How many entries that has. The block's directory has at least as many lines.
    pub entries: u32,
}

/// The highest number of an entry, which has 48 bits. Blocks, states and tenancies are counted to
/// less.
pub(crate) const NUMBER_MAX: u64 = (1 << 48) - 1;

impl DeviceState {
    /// The size of the state on a device.
    pub(crate) fn encoded_bytes(&self) -> usize {
        STATE_FIXED_BYTES + self.devices.len() * DEVICE_BYTES + self.open.len() * EXTENT_BYTES
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        let numbers = [
            self.sequence,
            self.durable_lsn,
            self.clean_close,
            self.next_block,
        ];
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes.extend([u8::from(self.sync_failed), self.devices.len() as u8]);
        bytes.extend((self.open.len() as u16).to_le_bytes());
        bytes.extend([0; 4]);
        for device in &self.devices {
            bytes.extend(device.len_bytes.to_le_bytes());
            bytes.extend(device.boot.to_le_bytes());
            bytes.extend(device.used_blocks.to_le_bytes());
            bytes.extend(device.id.to_le_bytes());
        }
        for extent in &self.open {
            bytes.extend(extent.block.to_le_bytes());
            bytes.extend(extent.durable_units.to_le_bytes());
            bytes.extend(extent.incarnation.to_le_bytes());
            bytes.extend(extent.entries.to_le_bytes());
            bytes.extend([extent.device, 0, 0, 0]);
        }
        let (checksum, content) = bytes.split_at_mut(8);
        checksum.copy_from_slice(&state_checksum(content));
        bytes
    }

    /// Returns the state in these bytes, if its checksum holds.
    pub(super) fn decode_exactly(bytes: &StateBytes) -> Option<Self> {
        let [devices] = take(bytes, 41);
        let (devices, extents) = (devices.into(), u16::from_le_bytes(take(bytes, 42)).into());
        if devices > DEVICES_MAX || extents > OPEN_EXTENTS_MAX {
            return None;
        }
        let length = STATE_FIXED_BYTES + devices * DEVICE_BYTES + extents * EXTENT_BYTES;
        let (checksum, content) = bytes.get(..length)?.split_first_chunk()?;
        if state_checksum(content) != *checksum {
            return None;
        }
        let mut reader = FieldReader(content);
        let mut state = Self {
            sequence: reader.u64()?,
            durable_lsn: reader.u64()?,
            clean_close: reader.u64()?,
            next_block: reader.u64()?,
            // Its byte alone: the counts, read before, share the number with it.
            sync_failed: reader.u64()? as u8 != 0,
            ..Self::default()
        };
        // A right checksum is no promise: sums with numbers that no store has written would
        // overflow.
        if state.sequence.max(state.durable_lsn).max(state.next_block) > NUMBER_MAX {
            return None;
        }
        for _ in 0..devices {
            state.devices.push(DeviceReach {
                len_bytes: reader.u64()?,
                boot: reader.u64()?,
                used_blocks: reader.u32()?,
                id: reader.u32()?,
            });
        }
        for _ in 0..extents {
            state.open.push(DurableExtent {
                block: reader.u32()?,
                durable_units: reader.u32()?,
                incarnation: reader.u64()?,
                entries: reader.u32()?,
                device: reader.u32()? as u8,
            });
        }
        Some(state)
    }
}

/// Reads the newest state of the namespace that a device has, or `None` if both copies are damaged
/// or unreadable. Another device may have a newer one.
#[must_use]
pub fn read_state(device: &dyn Device) -> Option<DeviceState> {
    let copies = STATE_AT
        .into_iter()
        .filter_map(|offset| read_copy(device, offset));
    let states = copies.filter_map(|bytes| DeviceState::decode_exactly(&bytes));
    states.min_by_key(|state| Reverse(state.sequence))
}

/// Reads the newest state that any of these devices has.
pub(crate) fn newest_state<'a>(
    devices: impl Iterator<Item = &'a dyn Device>,
) -> Option<DeviceState> {
    // Of equals the first: a write that fails leaves its sequence to the next one, which begins
    // there.
    let states = devices.filter_map(read_state);
    states.min_by_key(|state| Reverse(state.sequence))
}

/// Reads a copy of the state; `None` if it cannot be read.
pub(super) fn read_copy(device: &dyn Device, offset: u64) -> Option<StateBytes> {
    let mut bytes = [0; STATE_BYTES_MAX];
    device.read(offset, &mut bytes).ok()?;
    Some(bytes)
}

/// Writes a state over the older of the two copies. It is durable after the next sync.
///
/// `state.sequence` is one more than the `sequence` of the last state written or read.
///
/// # Errors
/// [`DeviceError::BadOption`] if it lists more than [`OPEN_EXTENTS_MAX`] extents,
/// [`DeviceError::Truncated`] if the device has no header, and the errors of [`Device::write`].
pub fn write_state(device: &dyn Device, state: &DeviceState) -> Result<(), DeviceError> {
    if state.open.len() > OPEN_EXTENTS_MAX {
        return Err(DeviceError::BadOption {
            path: device.describe(),
            option: "open blocks",
            value: state.open.len().to_string(),
            rule: format!("a state lists at most {OPEN_EXTENTS_MAX}"),
        });
    }
    let [even, odd] = STATE_AT;
    let offset = if state.sequence.is_multiple_of(2) {
        even
    } else {
        odd
    };
    device.write(offset, &state.encode())
}

/// Computes the checksum of a state from what follows it.
fn state_checksum(content: &[u8]) -> [u8; 8] {
    xxh3_64_with_seed(content, STATE_SEED).to_le_bytes()
}
