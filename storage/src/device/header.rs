//! The header of a device: what it is (written once) and how far it is safe (rewritten).
//!
//! ```text
//!    0  magic "SPIKELET"           40  u8  key hash          4096  u64 sequence
//!    8  u32 format version         41  u8  device index      4104  u64 durable log sequence number
//!   12  u32 block size             42  u8  device count      4112  u64 snapshot of the clean close, or 0
//!   16  u64 device id              43  u8  namespace length  4120  u64 length that is safe
//!   24  u64 maximum size           44  namespace, zero padded
//!   32  u64 creation, unix ms      75  zero                  4128  u64 checksum of 4096..4128
//!                                 120  u64 checksum         8192  the other copy of 4096..4136
//!                                      of 8..120
//! ```
//! Numbers are little-endian, checksums XXH3-64. The places of magic, version and checksum are the same in every
//! version, so a damaged version number is told from a newer one. The two copies of the state are written in turn, each
//! within one disk sector: a torn write leaves the other. The rest of the 64 KiB is zero. A single flipped bit is undone
//! wherever a checksum covers it.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::{BLOCK_BYTES, Device, DeviceError, HEADER_BYTES};
use crate::location::{DEVICE_BYTES_MAX, DEVICES_MAX};
use crate::log::bit_repair::before_one_flip;

/// The version of the format that this program writes, and the only one it reads.
pub const FORMAT_VERSION: u32 = 1;

/// The longest name of a namespace, in bytes; Aerospike's limit.
pub const NAMESPACE_BYTES_MAX: usize = 31;

/// What the static header takes.
pub(super) const STATIC_BYTES: usize = 128;

const MAGIC: [u8; 8] = *b"SPIKELET";
const VERSION_AT: usize = 8;
const NAMESPACE_AT: usize = 44;
const CHECKSUM_AT: usize = 120;

/// The copies of the state lie on pages of their own, which are written back on their own.
const STATE_AT: [u64; 2] = [4096, 8192];
const STATE_BYTES: usize = 40;
const STATE_WORDS: usize = STATE_BYTES / 8;
const STATE_CHECKSUM_AT: usize = 32;

/// Tells the checksum of a state from that of anything else.
const STATE_SEED: u64 = u64::from_le_bytes(*b"dev-stat");

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
    /// How many devices the namespace has: 1 to 16.
    pub count: u8,
    /// The id of the function that makes digests of keys.
    pub key_hash: u8,
}

/// The static header: what a device is. Written when it is created and never again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
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
    /// [`DeviceError::WrongNamespace`], [`DeviceError::WrongPosition`] or [`DeviceError::WrongKeyHash`], naming `path`.
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

    fn encode(&self) -> [u8; STATIC_BYTES] {
        let Member {
            namespace,
            index,
            count,
            key_hash,
        } = &self.member;
        let mut bytes = [0; STATIC_BYTES];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, VERSION_AT, &FORMAT_VERSION.to_le_bytes());
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

    /// The header in the first bytes of a device of `len_bytes`; bytes that a shorter one lacks are zero. If one bit
    /// of it is flipped, the header as it was.
    pub(super) fn decode(
        bytes: &[u8; STATIC_BYTES],
        len_bytes: u64,
        path: &str,
    ) -> Result<Self, DeviceError> {
        Self::decode_exactly(bytes, len_bytes, path).or_else(|error| match error {
            DeviceError::NotADevice { .. } | DeviceError::DamagedHeader { .. } => {
                let whole =
                    |trial: &[u8; STATIC_BYTES]| Self::decode_exactly(trial, len_bytes, path).ok();
                before_one_flip(bytes, whole).ok_or(error)
            }
            _ => Err(error),
        })
    }

    fn decode_exactly(
        bytes: &[u8; STATIC_BYTES],
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
        if found != FORMAT_VERSION {
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
        let header = Self {
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
            Ok(()) => Ok(header),
            Err(_) => Err(damaged("its values are out of range")),
        }
    }
}

/// How far a device is safe: rewritten as the store goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// One more than that of the state before it; a new device has 0. It chooses which copy is overwritten.
    pub sequence: u64,
    /// Every entry up to this log sequence number was on stable storage when the state was written.
    pub durable_lsn: u64,
    /// 0 while the store is in use; after a clean close the id of the index snapshot that matches the device.
    pub clean_close: u64,
    /// The device's length, in bytes, that had been synced when the state was written: a shorter device was cut off.
    pub len_bytes: u64,
}

impl State {
    fn encode(&self) -> [u8; STATE_BYTES] {
        let mut bytes = [0; STATE_BYTES];
        put(&mut bytes, 0, &self.sequence.to_le_bytes());
        put(&mut bytes, 8, &self.durable_lsn.to_le_bytes());
        put(&mut bytes, 16, &self.clean_close.to_le_bytes());
        put(&mut bytes, 24, &self.len_bytes.to_le_bytes());
        let checksum = state_checksum(&bytes);
        put(&mut bytes, STATE_CHECKSUM_AT, &checksum);
        bytes
    }

    fn decode_exactly(bytes: &[u8; STATE_BYTES]) -> Option<Self> {
        (state_checksum(bytes) == take(bytes, STATE_CHECKSUM_AT)).then(|| Self {
            sequence: u64::from_le_bytes(take(bytes, 0)),
            durable_lsn: u64::from_le_bytes(take(bytes, 8)),
            clean_close: u64::from_le_bytes(take(bytes, 16)),
            len_bytes: u64::from_le_bytes(take(bytes, 24)),
        })
    }

    /// The state in these bytes, as it was if one bit of them is flipped.
    fn decode(bytes: &[u8; STATE_BYTES]) -> Option<Self> {
        Self::decode_exactly(bytes).or_else(|| before_one_flip(bytes, Self::decode_exactly))
    }
}

/// Reads the static header, as it was if one bit of it is flipped.
///
/// # Errors
/// [`DeviceError::NotADevice`], [`DeviceError::Truncated`], [`DeviceError::DamagedHeader`] or
/// [`DeviceError::UnsupportedVersion`].
pub fn read_header(device: &dyn Device) -> Result<Header, DeviceError> {
    Header::decode(
        &static_bytes(device),
        device.len_bytes(),
        &device.describe(),
    )
}

fn static_bytes(device: &dyn Device) -> [u8; STATIC_BYTES] {
    to_bytes(load(device, 0).unwrap_or([0; STATIC_BYTES / 8]))
}

/// Writes the static header anew where it is not as `header` has it: what [`read_header`] had to correct.
pub(crate) fn mend_header(device: &dyn Device, header: &Header) -> Result<(), DeviceError> {
    if static_bytes(device) == header.encode() {
        return Ok(());
    }
    store(device, 0, &header.encode())
}

/// The places of the header that are not as they were written: offset, length in bytes, and what they are. For `verify`.
pub(crate) fn damaged_parts(device: &dyn Device) -> Vec<(u64, u64, &'static str)> {
    let mut parts = Vec::new();
    if read_header(device).is_ok_and(|header| header.encode() != static_bytes(device)) {
        parts.push((0, STATIC_BYTES as u64, "device header"));
    }
    for offset in STATE_AT {
        let bytes: Option<[u8; STATE_BYTES]> = load::<STATE_WORDS>(device, offset).map(to_bytes);
        // A copy that was never written is zero.
        if bytes.is_some_and(|bytes| {
            bytes != [0; STATE_BYTES] && State::decode_exactly(&bytes).is_none()
        }) {
            parts.push((offset, STATE_BYTES as u64, "state of the device"));
        }
    }
    parts
}

/// Writes the headers of a new device: the state first, so that a device with a static header has one.
pub(super) fn write_header(device: &dyn Device, header: &Header) -> Result<(), DeviceError> {
    write_state(device, &State::default())?;
    store(device, 0, &header.encode())
}

/// The newest intact copy of the state, or `None` if both are damaged: then nothing is known to be durable, the store
/// was not closed cleanly, and all blocks must be looked at.
#[must_use]
pub fn read_state(device: &dyn Device) -> Option<State> {
    STATE_AT
        .into_iter()
        .filter_map(|offset| load::<STATE_WORDS>(device, offset))
        .filter_map(|words| State::decode(&to_bytes(words)))
        .max_by_key(|state| state.sequence)
}

/// Stores a state over the older of the two copies. It is durable after the next sync.
///
/// `state.sequence` is one more than that of the last state written or read.
///
/// # Errors
/// [`DeviceError::Truncated`] if the device has no header.
pub fn write_state(device: &dyn Device, state: &State) -> Result<(), DeviceError> {
    let [even, odd] = STATE_AT;
    let offset = if state.sequence.is_multiple_of(2) {
        even
    } else {
        odd
    };
    store(device, offset, &state.encode())
}

fn static_checksum(bytes: &[u8; STATIC_BYTES]) -> [u8; 8] {
    // The magic number is left out: if it alone is changed, the file is still known for a device.
    let content: [u8; CHECKSUM_AT - VERSION_AT] = take(bytes, VERSION_AT);
    xxh3_64(&content).to_le_bytes()
}

fn state_checksum(bytes: &[u8; STATE_BYTES]) -> [u8; 8] {
    let content: [u8; STATE_CHECKSUM_AT] = take(bytes, 0);
    xxh3_64_with_seed(&content, STATE_SEED).to_le_bytes()
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

fn to_bytes<const W: usize, const N: usize>(words: [u64; W]) -> [u8; N] {
    const { assert!(W * 8 == N) };
    let mut bytes = [0; N];
    bytes
        .iter_mut()
        .zip(words.into_iter().flat_map(u64::to_ne_bytes))
        .for_each(|(to, from)| *to = from);
    bytes
}

/// The memory of the device's header at a multiple of 8, as words that may be shared between threads.
fn words(device: &dyn Device, offset: u64, count: usize) -> Option<&[AtomicU64]> {
    let end = offset + 8 * count as u64;
    debug_assert!(offset.is_multiple_of(8) && end <= HEADER_BYTES);
    (end <= device.len_bytes()).then(|| {
        // SAFETY: the range is inside the device, whose base is aligned to 4 KiB and valid for the device's life, and
        // the offset is a multiple of 8. The header is touched through these functions alone once the device is made,
        // hence only by atomic operations.
        unsafe {
            let first = device.base().add(offset as usize).cast::<AtomicU64>();
            std::slice::from_raw_parts(first.as_ptr(), count)
        }
    })
}

fn load<const W: usize>(device: &dyn Device, offset: u64) -> Option<[u64; W]> {
    let mut values = [0; W];
    for (value, word) in values.iter_mut().zip(words(device, offset, W)?) {
        *value = word.load(Ordering::Relaxed);
    }
    Some(values)
}

fn store(device: &dyn Device, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
    let (values, rest) = bytes.as_chunks::<8>();
    debug_assert!(rest.is_empty());
    let words = words(device, offset, values.len()).ok_or_else(|| DeviceError::Truncated {
        path: device.describe(),
        len_bytes: device.len_bytes(),
        expected_bytes: HEADER_BYTES,
    })?;
    for (word, value) in words.iter().zip(values) {
        word.store(u64::from_ne_bytes(*value), Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
