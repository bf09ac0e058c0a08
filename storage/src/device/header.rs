//! The header of a device: what it is (written once) and how far it is safe (rewritten).
//!
//! ```text
//!    0  magic "SPIKELET"           40  u8  key hash          4096  a copy of the state
//!    8  u32 format version         41  u8  device index      8192  the other copy
//!   12  u32 block size             42  u8  device count
//!   16  u64 device id              43  u8  namespace length  the rest of 64 KiB is zero
//!   24  u64 maximum size           44  namespace, zero padded
//!   32  u64 creation, unix ms      75  zero                     12288  a copy of the static header
//!                                 120  u64 checksum of 8..120
//!
//! a state of format 2                           a state of format 1
//!    0  u64 checksum of the rest                   0  u64 sequence
//!    8  u64 sequence                               8  u64 durable log sequence number
//!   16  u64 durable log sequence number           16  u64 snapshot of the clean close, or 0
//!   24  u64 snapshot of the clean close, or 0     24  u64 length that is safe
//!   32  u64 length that is safe                   32  u64 checksum of 0..32
//!   40  u64 next block sequence number
//!   48  u64 boot
//!   56  u32 used blocks
//!   60  u32 count of the extents that follow, at most 65
//!   64  each: u32 block, u32 durable units of 16 bytes, u64 incarnation, u32 entries, u32 zero
//! ```
//! Numbers are little-endian, checksums XXH3-64. The places of magic, version and checksum of the
//! static header are the same in every version, so a damaged version number is told from a newer
//! one. Its copy is that of a device of format 2; one of format 1 has none. The copies of the state are written in turn, each on a page of its own: a torn write leaves
//! the other. A single flipped bit is undone wherever a checksum covers it.
//!
//! Which format a state has is told by its checksum alone, since a device of format 1 keeps its
//! states when its header becomes one of format 2.

use std::hash::BuildHasher;
use std::sync::OnceLock;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::{BLOCK_BYTES, Device, DeviceError, HEADER_BYTES, STAGING_LANES_MAX};
use crate::location::{DEVICE_BYTES_MAX, DEVICES_MAX};
use crate::log::bit_repair::before_one_flip;

/// The version of the format that this program writes. It reads this one and those before it.
pub const FORMAT_VERSION: u32 = 2;

/// The longest name of a namespace, in bytes; Aerospike's limit.
pub const NAMESPACE_BYTES_MAX: usize = 31;

/// What the static header takes.
pub(super) const STATIC_BYTES: usize = 128;

/// Where the copies of the static header lie, on pages of their own.
pub(super) const STATIC_AT: [u64; 2] = [0, 12_288];

/// A copy of the static header, as it lies on the device.
pub(super) type StaticBytes = [u8; STATIC_BYTES];

const MAGIC: [u8; 8] = *b"SPIKELET";
const VERSION_AT: usize = 8;
const NAMESPACE_AT: usize = 44;
const CHECKSUM_AT: usize = 120;

/// The copies of the state lie on pages of their own, which are written back on their own.
const STATE_AT: [u64; 2] = [4096, 8192];

/// What a state of format 1 takes, and where its checksum lies.
const OLD_STATE_BYTES: usize = 40;
const OLD_STATE_CHECKSUM_AT: usize = 32;

/// What a state takes without its extents.
const STATE_FIXED_BYTES: usize = 64;
const EXTENT_BYTES: usize = 24;
const STATE_BYTES_MAX: usize = STATE_FIXED_BYTES + OPEN_EXTENTS_MAX * EXTENT_BYTES;

/// How many extents a state can list: an open block for each region of the staging memory.
pub const OPEN_EXTENTS_MAX: usize = STAGING_LANES_MAX;

/// Tell the checksum of a state from that of anything else.
const OLD_STATE_SEED: u64 = u64::from_le_bytes(*b"dev-stat");
const STATE_SEED: u64 = u64::from_le_bytes(*b"dev-sta2");

/// As many bytes of a device as a state can take.
type StateBytes = [u8; STATE_BYTES_MAX];

const _: () = assert!(STATE_BYTES_MAX <= 4096);
const _: () = assert!(NAMESPACE_AT + NAMESPACE_BYTES_MAX <= CHECKSUM_AT);
const _: () = assert!(CHECKSUM_AT + 8 == STATIC_BYTES);
const _: () = assert!(DEVICES_MAX <= u8::MAX as usize);

/// Where a device belongs. The same when it is created and whenever it is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// The namespace: 1 to 31 bytes.
    pub namespace: String,
    /// The device's number among those of the namespace, from 0.
    pub index: u8,
    /// How many devices the namespace has: 1 to 15.
    pub count: u8,
    /// The id of the function that makes digests of keys.
    pub key_hash: u8,
}

/// The static header: what a device is. Written when it is created, and again when its format
/// version rises.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The version of the device's format: [`FORMAT_VERSION`] in a new device, or an earlier one
    /// that was read.
    pub version: u32,
    /// Tells the device from every other one; see [`new_device_id`].
    pub device_id: u64,
    /// Where it belongs.
    pub member: Member,
    /// The most it can grow to, in bytes: at least the header and one block, at most 512 GiB.
    pub max_bytes: u64,
    /// When it was created, in milliseconds since 1970.
    pub created_unix_ms: u64,
}

/// An id for a new device: 64 bits that no other device is likely to have.
#[must_use]
pub fn new_device_id() -> u64 {
    // The hasher is keyed by the operating system's random numbers.
    std::hash::RandomState::new().hash_one(std::process::id())
}

impl Header {
    /// Tells whether the device is the one that was to be opened.
    ///
    /// # Errors
    /// [`DeviceError::WrongNamespace`], [`DeviceError::WrongPosition`] or
    /// [`DeviceError::WrongKeyHash`], naming `path`.
    pub fn check_member(&self, expected: &Member, path: &str) -> Result<(), DeviceError> {
        let found = &self.member;
        let path = path.to_owned();
        if found.namespace != expected.namespace {
            let (found, expected) = (found.namespace.clone(), expected.namespace.clone());
            return Err(DeviceError::WrongNamespace {
                path,
                found,
                expected,
            });
        }
        if (found.index, found.count) != (expected.index, expected.count) {
            return Err(DeviceError::WrongPosition {
                path,
                found_index: found.index,
                found_count: found.count,
                expected_index: expected.index,
                expected_count: expected.count,
            });
        }
        if found.key_hash != expected.key_hash {
            let (found, expected) = (found.key_hash, expected.key_hash);
            return Err(DeviceError::WrongKeyHash {
                path,
                found,
                expected,
            });
        }
        Ok(())
    }

    /// Tells whether a device can be created with these values.
    pub(super) fn validate(&self, path: &str) -> Result<(), DeviceError> {
        let refuse = |option, value, rule| {
            Err(DeviceError::BadOption {
                path: path.to_owned(),
                option,
                value,
                rule,
            })
        };
        if self.version != FORMAT_VERSION {
            let rule = format!("a new device has version {FORMAT_VERSION}");
            return refuse("format version", self.version.to_string(), rule);
        }
        let Member {
            namespace,
            index,
            count,
            ..
        } = &self.member;
        if namespace.is_empty() || namespace.len() > NAMESPACE_BYTES_MAX {
            let rule = format!("a name has 1 to {NAMESPACE_BYTES_MAX} bytes");
            return refuse("namespace", format!("{namespace:?}"), rule);
        }
        if *count == 0 || usize::from(*count) > DEVICES_MAX {
            let rule = format!("a namespace has 1 to {DEVICES_MAX} devices");
            return refuse("device count", count.to_string(), rule);
        }
        if index >= count {
            let rule = format!("it is below the device count, {count}");
            return refuse("device index", index.to_string(), rule);
        }
        let min_bytes = HEADER_BYTES + BLOCK_BYTES;
        if !(min_bytes..=DEVICE_BYTES_MAX).contains(&self.max_bytes) {
            let rule = format!("a device has {min_bytes} to {DEVICE_BYTES_MAX} bytes");
            return refuse("max size", self.max_bytes.to_string(), rule);
        }
        Ok(())
    }

    fn encode(&self) -> StaticBytes {
        let Member {
            namespace,
            index,
            count,
            key_hash,
        } = &self.member;
        let mut bytes = [0; STATIC_BYTES];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, VERSION_AT, &self.version.to_le_bytes());
        put(&mut bytes, 12, &(BLOCK_BYTES as u32).to_le_bytes());
        put(&mut bytes, 16, &self.device_id.to_le_bytes());
        put(&mut bytes, 24, &self.max_bytes.to_le_bytes());
        put(&mut bytes, 32, &self.created_unix_ms.to_le_bytes());
        put(
            &mut bytes,
            40,
            &[*key_hash, *index, *count, namespace.len() as u8],
        );
        put(&mut bytes, NAMESPACE_AT, namespace.as_bytes());
        let checksum = static_checksum(&bytes);
        put(&mut bytes, CHECKSUM_AT, &checksum);
        bytes
    }

    /// Returns the header of a device of `len_bytes`, of which these are both copies; bytes that a
    /// shorter device lacks are zero. The first copy counts if it holds, then the second, then what
    /// one flipped bit has made of either.
    ///
    /// # Errors
    /// What is wrong with the first copy.
    pub(super) fn decode(
        copies: [Result<StaticBytes, DeviceError>; 2],
        len_bytes: u64,
        path: &str,
    ) -> Result<Self, DeviceError> {
        let exactly = |bytes: &StaticBytes| Self::decode_exactly(bytes, len_bytes, path);
        let mut wrong = None;
        let mut damaged = Vec::new();
        for copy in copies {
            let error = match copy {
                Ok(bytes) => match exactly(&bytes) {
                    Err(error) if error.is_header_damage() => {
                        damaged.push(bytes);
                        error
                    }
                    decoded => return decoded,
                },
                Err(error) => error,
            };
            wrong = wrong.or(Some(error));
        }
        let whole = |trial: &StaticBytes| exactly(trial).ok();
        let repaired = damaged
            .iter()
            .find_map(|bytes| before_one_flip(bytes, whole));
        match (repaired, wrong) {
            (Some(header), _) => Ok(header),
            (None, Some(error)) => Err(error),
            // Not met: there is an error for each copy.
            (None, None) => exactly(&[0; STATIC_BYTES]),
        }
    }

    fn decode_exactly(
        bytes: &StaticBytes,
        len_bytes: u64,
        path: &str,
    ) -> Result<Self, DeviceError> {
        let path = || path.to_owned();
        let damaged = |reason| DeviceError::DamagedHeader {
            path: path(),
            reason,
        };
        let intact = static_checksum(bytes) == take(bytes, CHECKSUM_AT);
        if take(bytes, 0) != MAGIC {
            let found = match bytes {
                _ if intact => return Err(damaged("its magic number is changed")),
                _ if len_bytes == 0 => "it is empty",
                _ if bytes.iter().all(|byte| *byte == 0) => "it begins with zeros",
                _ => "it begins with something else",
            };
            return Err(DeviceError::NotADevice {
                path: path(),
                found,
            });
        }
        if len_bytes < HEADER_BYTES {
            let expected_bytes = HEADER_BYTES;
            return Err(DeviceError::Truncated {
                path: path(),
                len_bytes,
                expected_bytes,
            });
        }
        if !intact {
            return Err(damaged("its checksum does not match"));
        }
        let found = u32::from_le_bytes(take(bytes, VERSION_AT));
        if !(1..=FORMAT_VERSION).contains(&found) {
            return Err(DeviceError::UnsupportedVersion {
                path: path(),
                found,
            });
        }
        if u64::from(u32::from_le_bytes(take(bytes, 12))) != BLOCK_BYTES {
            return Err(damaged("its block size is not 8 MiB"));
        }
        let [key_hash, index, count, name_len] = take(bytes, 40);
        let name: [u8; NAMESPACE_BYTES_MAX] = take(bytes, NAMESPACE_AT);
        let namespace = name
            .get(..usize::from(name_len))
            .and_then(|name| std::str::from_utf8(name).ok())
            .ok_or_else(|| damaged("its namespace is not a name"))?
            .to_owned();
        if usize::from(count) > DEVICES_MAX {
            return Err(DeviceError::TooManyDevices {
                path: path(),
                found: count,
            });
        }
        let header = Self {
            version: FORMAT_VERSION,
            device_id: u64::from_le_bytes(take(bytes, 16)),
            member: Member {
                namespace,
                index,
                count,
                key_hash,
            },
            max_bytes: u64::from_le_bytes(take(bytes, 24)),
            created_unix_ms: u64::from_le_bytes(take(bytes, 32)),
        };
        match header.validate("") {
            Ok(()) => Ok(Self {
                version: found,
                ..header
            }),
            Err(_) => Err(damaged("its values are out of range")),
        }
    }
}

/// How far a device is safe: rewritten as the store goes on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// One more than that of the state before it; a new device has 0. It chooses which copy is
    /// overwritten.
    pub sequence: u64,
    /// Every entry up to this log sequence number was on stable storage when the state was written.
    pub durable_lsn: u64,
    /// 0 while the store is in use; after a clean close the id of the index snapshot that matches
    /// the device.
    pub clean_close: u64,
    /// The device's length, in bytes, that had been synced when the state was written: a shorter
    /// device was cut off.
    pub len_bytes: u64,
    /// Blocks with a lower sequence number that are not among `open` are durable to their end. 0 in
    /// a state of format 1.
    pub next_block: u64,
    /// How many blocks of this device, from the first on, have had a header written. `u32::MAX` in
    /// a state of format 1, which does not tell.
    pub used_blocks: u32,
    /// The [`boot`](Device::boot) of the machine when the state was written; 0 if unknown.
    pub boot: u64,
    /// How far the blocks that were being written are durable: at most [`OPEN_EXTENTS_MAX`].
    pub open: Vec<DurableExtent>,
}

/// How far a block is on stable storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DurableExtent {
    /// The block's number on its device, from 0.
    pub block: u32,
    /// Which life of the block is meant: blocks are used again.
    pub incarnation: u64,
    /// The durable length from the block's start on, in units of 16 bytes.
    pub durable_units: u32,
    /// How many entries lie there: so many lines the block's directory has at least.
    pub entries: u32,
}

impl State {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; STATE_FIXED_BYTES + self.open.len() * EXTENT_BYTES];
        put(&mut bytes, 8, &self.sequence.to_le_bytes());
        put(&mut bytes, 16, &self.durable_lsn.to_le_bytes());
        put(&mut bytes, 24, &self.clean_close.to_le_bytes());
        put(&mut bytes, 32, &self.len_bytes.to_le_bytes());
        put(&mut bytes, 40, &self.next_block.to_le_bytes());
        put(&mut bytes, 48, &self.boot.to_le_bytes());
        put(&mut bytes, 56, &self.used_blocks.to_le_bytes());
        put(&mut bytes, 60, &(self.open.len() as u32).to_le_bytes());
        for (index, extent) in self.open.iter().enumerate() {
            let at = STATE_FIXED_BYTES + index * EXTENT_BYTES;
            put(&mut bytes, at, &extent.block.to_le_bytes());
            put(&mut bytes, at + 4, &extent.durable_units.to_le_bytes());
            put(&mut bytes, at + 8, &extent.incarnation.to_le_bytes());
            put(&mut bytes, at + 16, &extent.entries.to_le_bytes());
        }
        let (checksum, content) = bytes.split_at_mut(8);
        checksum.copy_from_slice(&state_checksum(content));
        bytes
    }

    /// Returns the state of either format in these bytes, if its checksum holds.
    fn decode_exactly(bytes: &StateBytes) -> Option<Self> {
        Self::decode_new(bytes).or_else(|| Self::decode_old(&take(bytes, 0)))
    }

    /// Returns the state as it was before one bit of it was flipped.
    fn decode_flipped(bytes: &StateBytes) -> Option<Self> {
        // The shorter format first: its trials cost little.
        before_one_flip(&take(bytes, 0), Self::decode_old)
            .or_else(|| before_one_flip(bytes, Self::decode_new))
    }

    fn decode_new(bytes: &StateBytes) -> Option<Self> {
        let count = u32::from_le_bytes(take(bytes, 60)) as usize;
        if count > OPEN_EXTENTS_MAX {
            return None;
        }
        let own = bytes.get(..STATE_FIXED_BYTES + count * EXTENT_BYTES)?;
        let (checksum, content) = own.split_first_chunk()?;
        if state_checksum(content) != *checksum {
            return None;
        }
        let open = (0..count).map(|index| {
            let at = STATE_FIXED_BYTES + index * EXTENT_BYTES;
            DurableExtent {
                block: u32::from_le_bytes(take(own, at)),
                durable_units: u32::from_le_bytes(take(own, at + 4)),
                incarnation: u64::from_le_bytes(take(own, at + 8)),
                entries: u32::from_le_bytes(take(own, at + 16)),
            }
        });
        Some(Self {
            sequence: u64::from_le_bytes(take(own, 8)),
            durable_lsn: u64::from_le_bytes(take(own, 16)),
            clean_close: u64::from_le_bytes(take(own, 24)),
            len_bytes: u64::from_le_bytes(take(own, 32)),
            next_block: u64::from_le_bytes(take(own, 40)),
            boot: u64::from_le_bytes(take(own, 48)),
            used_blocks: u32::from_le_bytes(take(own, 56)),
            open: open.collect(),
        })
    }

    fn decode_old(bytes: &[u8; OLD_STATE_BYTES]) -> Option<Self> {
        let content: [u8; OLD_STATE_CHECKSUM_AT] = take(bytes, 0);
        let checksum = xxh3_64_with_seed(&content, OLD_STATE_SEED).to_le_bytes();
        (checksum == take(bytes, OLD_STATE_CHECKSUM_AT)).then(|| Self {
            sequence: u64::from_le_bytes(take(bytes, 0)),
            durable_lsn: u64::from_le_bytes(take(bytes, 8)),
            clean_close: u64::from_le_bytes(take(bytes, 16)),
            len_bytes: u64::from_le_bytes(take(bytes, 24)),
            used_blocks: u32::MAX,
            ..Self::default()
        })
    }
}

/// Reads the static header, from the copy that holds, or as it was if one bit of it is flipped.
///
/// # Errors
/// [`DeviceError::NotADevice`], [`DeviceError::Truncated`], [`DeviceError::DamagedHeader`],
/// [`DeviceError::TooManyDevices`] or [`DeviceError::UnsupportedVersion`]; [`DeviceError::Io`] if
/// its sectors cannot be read.
pub fn read_header(device: &dyn Device) -> Result<Header, DeviceError> {
    let copies = STATIC_AT.map(|offset| static_bytes(device, offset));
    Header::decode(copies, device.len_bytes(), &device.describe())
}

/// Reads the bytes of a copy of the static header; those that a shorter device lacks are zero.
fn static_bytes(device: &dyn Device, offset: u64) -> Result<StaticBytes, DeviceError> {
    let inside = device.len_bytes().saturating_sub(offset);
    let mut found = vec![0; inside.min(STATIC_BYTES as u64) as usize];
    if !found.is_empty() {
        device.read(offset, &mut found)?;
    }
    Ok(take(&found, 0))
}

/// Whether a device was ever in use: before that, what is missing of its headers may be what an
/// interrupted creation did not write.
fn has_blocks(device: &dyn Device) -> bool {
    device.len_bytes() > HEADER_BYTES
}

/// Finds the copies of the static header that are not as they were written. `header` is what
/// [`read_header`] returned.
fn damaged_copies(device: &dyn Device, header: &Header) -> Vec<u64> {
    let bytes = header.encode();
    // A device of format 1 has one copy, or a second one from a conversion that was interrupted.
    let copies = if header.version > 1 {
        STATIC_AT.len()
    } else {
        1
    };
    let is_damaged = |offset: &u64| match static_bytes(device, *offset) {
        Ok(found) if found == [0; STATIC_BYTES] => has_blocks(device),
        Ok(found) => found != bytes,
        Err(_) => true,
    };
    let copies = STATIC_AT.into_iter().take(copies);
    copies.filter(is_damaged).collect()
}

/// Returns how many copies of the static header are not as they were written.
///
/// # Errors
/// Those of [`read_header`].
pub(crate) fn count_damaged_copies(device: &dyn Device) -> Result<u64, DeviceError> {
    let header = read_header(device)?;
    Ok(damaged_copies(device, &header).len() as u64)
}

/// Writes both copies of the static header anew with the present format version, one after the
/// other, and syncs them; does nothing if the device has exactly that. Called when a device is
/// opened to write: `header` is what [`read_header`] returned, so that what it had to correct is
/// corrected on the device, too.
///
/// # Errors
/// Those of [`Device::write`] and [`Device::sync`].
pub(crate) fn upgrade(device: &dyn Device, header: &Header) -> Result<(), DeviceError> {
    let present = Header {
        version: FORMAT_VERSION,
        ..header.clone()
    };
    let bytes = present.encode();
    // The second copy first: where the first one is of format 2, there is a second.
    for offset in STATIC_AT.into_iter().rev() {
        if static_bytes(device, offset).is_ok_and(|found| found == bytes) {
            continue;
        }
        device.write(offset, &[&bytes])?;
        // A program that reads format 1 alone must not meet blocks of format 2 behind the old header.
        device.sync()?;
    }
    Ok(())
}

/// Finds the places of the header that are not as they were written: offset, length in bytes, and
/// what they are. For `verify`.
pub(crate) fn damaged_parts(device: &dyn Device) -> Vec<(u64, u64, &'static str)> {
    // What is no header at all is an error of the opening, not damage of a part.
    let mut parts = match read_header(device) {
        Ok(header) => damaged_copies(device, &header),
        Err(DeviceError::Io { .. }) => vec![0],
        Err(_) => Vec::new(),
    }
    .into_iter()
    .map(|offset| (offset, STATIC_BYTES as u64, "device header"))
    .collect::<Vec<_>>();
    for offset in STATE_AT {
        let damaged = read_copy(device, offset).is_none_or(|bytes| {
            // A copy that was never written is zero.
            bytes != [0; STATE_BYTES_MAX] && State::decode_exactly(&bytes).is_none()
        });
        if damaged && offset + STATE_BYTES_MAX as u64 <= device.len_bytes() {
            parts.push((offset, STATE_BYTES_MAX as u64, "state of the device"));
        }
    }
    parts
}

/// Writes the headers of a new device: the state first, so that a device with a static header has
/// one.
pub(super) fn write_header(device: &dyn Device, header: &Header) -> Result<(), DeviceError> {
    write_state(device, &State::default())?;
    let bytes = header.encode();
    let mut copies = STATIC_AT.into_iter().rev();
    copies.try_for_each(|offset| device.write(offset, &[&bytes]))
}

/// Reads the newest copy of the state, or `None` if both are damaged or unreadable: then nothing is
/// known to be durable, the store was not closed cleanly, and all blocks must be looked at.
///
/// A copy with one flipped bit counts only if it is newer than the intact one. Correcting it costs
/// about a millisecond.
#[must_use]
pub fn read_state(device: &dyn Device) -> Option<State> {
    let copies = STATE_AT.map(|offset| read_copy(device, offset));
    let mut newest: Option<State> = None;
    let mut damaged = Vec::new();
    for bytes in copies.into_iter().flatten() {
        match State::decode_exactly(&bytes) {
            Some(state) => newest = newer(newest, state),
            None if bytes != [0; STATE_BYTES_MAX] => damaged.push(bytes),
            None => {}
        }
    }
    damaged
        .iter()
        .filter_map(State::decode_flipped)
        .fold(newest, newer)
}

/// Returns the state with the higher sequence number, of equals the first.
fn newer(first: Option<State>, second: State) -> Option<State> {
    match first {
        Some(first) if first.sequence >= second.sequence => Some(first),
        _ => Some(second),
    }
}

/// Reads a copy of the state; `None` if it cannot be read.
fn read_copy(device: &dyn Device, offset: u64) -> Option<StateBytes> {
    let mut bytes = [0; STATE_BYTES_MAX];
    device.read(offset, &mut bytes).ok()?;
    Some(bytes)
}

/// Writes a state over the older of the two copies. It is durable after the next sync.
///
/// `state.sequence` is one more than that of the last state written or read.
///
/// # Errors
/// [`DeviceError::BadOption`] if it lists more than [`OPEN_EXTENTS_MAX`] extents,
/// [`DeviceError::Truncated`] if the device has no header, and those of [`Device::write`].
pub fn write_state(device: &dyn Device, state: &State) -> Result<(), DeviceError> {
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
    device.write(offset, &[&state.encode()])
}

/// Returns a hash of the id that Linux gives to each boot of the machine; 0 if the system gives
/// none.
pub(super) fn boot_id() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        std::fs::read("/proc/sys/kernel/random/boot_id").map_or(0, |id| xxh3_64(&id).max(1))
    })
}

fn static_checksum(bytes: &StaticBytes) -> [u8; 8] {
    // The magic number is left out: if it alone is changed, the file is still known for a device.
    let content: [u8; CHECKSUM_AT - VERSION_AT] = take(bytes, VERSION_AT);
    xxh3_64(&content).to_le_bytes()
}

/// Computes the checksum of a state of format 2 from what follows it.
fn state_checksum(content: &[u8]) -> [u8; 8] {
    xxh3_64_with_seed(content, STATE_SEED).to_le_bytes()
}

/// Copies `value` to `at`; both are constants of the layout.
fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes
        .iter_mut()
        .skip(at)
        .zip(value)
        .for_each(|(to, from)| *to = *from);
}

/// The `N` bytes at `at`; both are constants of the layout.
fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value
        .iter_mut()
        .zip(bytes.iter().skip(at))
        .for_each(|(to, from)| *to = *from);
    value
}

#[cfg(test)]
mod tests;
