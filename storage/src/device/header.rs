//! The header of a device: its identity (written once) and how far the namespace is safe
//! (rewritten).
//!
//! `docs/format.md` has the layout, as of all parts of the files.
//!
//! The places of magic, version and checksum of the static header are the same in every version, so
//! a damaged version number is distinguished from a newer one. The copies of the state are written
//! in turn, each on a page of its own: a torn write leaves the other.

use std::hash::BuildHasher;
use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64;

use super::state::{DeviceState, STATE_AT, STATE_BYTES_MAX, read_copy};
use super::{
    BLOCK_BYTES, Device, DeviceError, FORMAT_VERSION, HEADER_BYTES, Member, SMALL_BLOCK_BYTES,
};
use crate::bytes::{put, take};
use crate::location::{DEVICE_BYTES_MAX, DEVICES_MAX};

/// The longest name of a namespace, in bytes; Aerospike's limit.
pub const NAMESPACE_BYTES_MAX: usize = 31;

/// The size of the static header.
pub(super) const STATIC_BYTES: usize = 128;

/// The offsets of the copies of the static header, on pages of their own.
pub(super) const STATIC_AT: [u64; 2] = [0, 12_288];

/// A copy of the static header, as on the device.
pub(super) type StaticBytes = [u8; STATIC_BYTES];

const MAGIC: [u8; 8] = *b"SPIKELET";
const VERSION_AT: usize = 8;
const NAMESPACE_AT: usize = 44;
const CHECKSUM_AT: usize = 120;
const _: () = assert!(NAMESPACE_AT + NAMESPACE_BYTES_MAX <= CHECKSUM_AT);
const _: () = assert!(CHECKSUM_AT + 8 == STATIC_BYTES);
const _: () = assert!(DEVICES_MAX <= u8::MAX as usize);

/// The static header: the identity of a device. Written when it is created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Distinguishes the device from every other one; see [`new_device_id`].
    pub device_id: u64,
    /// Where it belongs.
    pub member: Member,
    /// The most it can grow to, in bytes: at least the header and one block, at most 512 GiB.
    pub max_bytes: u64,
    /// The size of its blocks, in bytes: [`BLOCK_BYTES`] or [`SMALL_BLOCK_BYTES`].
    pub block_bytes: u64,
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
    /// Checks that the device is the one that was to be opened.
    ///
    /// # Errors
    /// [`DeviceError::WrongMember`], naming `path`.
    pub fn check_member(&self, expected: &Member, path: &str) -> Result<(), DeviceError> {
        if self.member == *expected {
            return Ok(());
        }
        Err(DeviceError::WrongMember {
            path: path.to_owned(),
            found: self.member.clone(),
            expected: expected.clone(),
        })
    }

    /// Checks that a device can be created with these values.
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
        if self.block_bytes != BLOCK_BYTES && self.block_bytes != SMALL_BLOCK_BYTES {
            let rule = format!("a block has {SMALL_BLOCK_BYTES} or {BLOCK_BYTES} bytes");
            return refuse("block size", self.block_bytes.to_string(), rule);
        }
        let min_bytes = HEADER_BYTES + self.block_bytes;
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
        put(&mut bytes, VERSION_AT, &FORMAT_VERSION.to_le_bytes());
        put(&mut bytes, 12, &(self.block_bytes as u32).to_le_bytes());
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
    /// shorter device lacks are zero. The first copy counts if it holds, else the second.
    ///
    /// # Errors
    /// The fault of the first copy.
    pub(super) fn decode(
        [first, second]: StaticCopies,
        len_bytes: u64,
        path: &str,
    ) -> Result<Self, DeviceError> {
        let exactly = |copy: Result<StaticBytes, DeviceError>| {
            copy.and_then(|bytes| Self::decode_exactly(&bytes, len_bytes, path))
        };
        match exactly(first) {
            Err(wrong) if wrong.is_header_damage() => match exactly(second) {
                Err(error) if error.is_header_damage() => Err(wrong),
                decoded => decoded,
            },
            decoded => decoded,
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
        // Behind the checksum, which all versions have in one place: damage is no other version.
        let found = u32::from_le_bytes(take(bytes, VERSION_AT));
        if found != FORMAT_VERSION {
            return Err(DeviceError::UnsupportedVersion {
                path: path(),
                found,
            });
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
            block_bytes: u32::from_le_bytes(take(bytes, 12)).into(),
            created_unix_ms: u64::from_le_bytes(take(bytes, 32)),
        };
        match header.validate("") {
            Ok(()) => Ok(header),
            Err(_) => Err(damaged("its values are out of range")),
        }
    }
}

/// Reads the static header, from the copy that holds.
///
/// # Errors
/// [`DeviceError::NotADevice`], [`DeviceError::Truncated`], [`DeviceError::DamagedHeader`] or
/// [`DeviceError::UnsupportedVersion`]; [`DeviceError::Io`] if its sectors cannot be read.
pub fn read_header(device: &dyn Device) -> Result<Header, DeviceError> {
    Header::decode(copies_of(device), device.len_bytes(), &device.describe())
}

/// Both copies of a static header, as far as they could be read.
pub(super) type StaticCopies = [Result<StaticBytes, DeviceError>; 2];

/// Reads both copies of the static header of a device of `len_bytes`; bytes that it lacks are zero.
pub(super) fn read_copies(
    len_bytes: u64,
    read: impl Fn(u64, &mut [u8]) -> Result<(), DeviceError>,
) -> StaticCopies {
    STATIC_AT.map(|offset| {
        let mut copy = [0; STATIC_BYTES];
        let inside = len_bytes.saturating_sub(offset).min(STATIC_BYTES as u64);
        let (found, _) = copy.split_at_mut(inside as usize);
        if !found.is_empty() {
            read(offset, found)?;
        }
        Ok(copy)
    })
}

fn copies_of(device: &dyn Device) -> StaticCopies {
    read_copies(device.len_bytes(), |offset, into| device.read(offset, into))
}

/// Whether a device was ever in use: before that, the missing parts of its headers may be parts
/// that an interrupted creation did not write.
fn has_blocks(device: &dyn Device) -> bool {
    device.len_bytes() > HEADER_BYTES
}

/// Finds the copies of the static header that are not as they were written. `header` is what
/// [`read_header`] returned.
pub(crate) fn damaged_copies(device: &dyn Device, header: &Header) -> Vec<u64> {
    let bytes = header.encode();
    let is_damaged = |copy: &Result<StaticBytes, _>| match copy {
        Ok(found) if *found == [0; STATIC_BYTES] => has_blocks(device),
        Ok(found) => *found != bytes,
        Err(_) => true,
    };
    let copies = STATIC_AT.into_iter().zip(copies_of(device));
    let damaged = copies.filter(|(_, copy)| is_damaged(copy));
    damaged.map(|(offset, _)| offset).collect()
}

/// Writes the copies of the static header again that differ from `header`, which [`read_header`]
/// returned; does nothing if both are intact. Called when a device is opened to write.
///
/// # Errors
/// The errors of [`Device::write`] and [`Device::sync`].
pub(crate) fn repair_copies(device: &dyn Device, header: &Header) -> Result<(), DeviceError> {
    let bytes = header.encode();
    for (offset, copy) in STATIC_AT.into_iter().zip(copies_of(device)) {
        if copy.is_ok_and(|found| found == bytes) {
            continue;
        }
        device.write(offset, &bytes)?;
        // A power failure tears one copy at most.
        device.sync()?;
    }
    Ok(())
}

/// Finds the places of the header that are not as they were written: offset, length in bytes, and a
/// name for the place. For `verify`.
pub(crate) fn damaged_parts(device: &dyn Device) -> Vec<(u64, u64, &'static str)> {
    // A missing header is an error of the opening, not damage of a part.
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
            bytes != [0; STATE_BYTES_MAX] && DeviceState::decode_exactly(&bytes).is_none()
        });
        if damaged && offset + STATE_BYTES_MAX as u64 <= device.len_bytes() {
            parts.push((offset, STATE_BYTES_MAX as u64, "state of the device"));
        }
    }
    parts
}

/// Writes the headers of a new device: the state first, so that a device with a static header has
/// one. All copies, since a file system gives up no page that it has once written.
pub(super) fn write_header(device: &dyn Device, header: &Header) -> Result<(), DeviceError> {
    let state = DeviceState::default().encode();
    STATE_AT
        .into_iter()
        .try_for_each(|offset| device.write(offset, &state))?;
    let bytes = header.encode();
    let mut copies = STATIC_AT.into_iter().rev();
    copies.try_for_each(|offset| device.write(offset, &bytes))
}

/// Returns a hash of the id that Linux gives to each boot of the machine; 0 if the system gives
/// none.
pub(super) fn boot_id() -> u64 {
    static BOOT: OnceLock<u64> = OnceLock::new();
    *BOOT.get_or_init(|| {
        // 0 is an unknown boot, which is like no other.
        std::fs::read("/proc/sys/kernel/random/boot_id").map_or(0, |id| xxh3_64(&id).max(1))
    })
}

fn static_checksum(bytes: &StaticBytes) -> [u8; 8] {
    // The magic number is left out: if it alone is changed, the file is still known for a device.
    let content: [u8; CHECKSUM_AT - VERSION_AT] = take(bytes, VERSION_AT);
    xxh3_64(&content).to_le_bytes()
}

#[cfg(test)]
mod tests;
