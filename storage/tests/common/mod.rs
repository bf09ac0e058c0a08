//! What the black-box tests of the storage engine share.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod chance;
pub mod changes;
pub mod damage;
pub mod history;
pub mod power;
pub mod small;
pub mod turns;

pub use chance::Chance;
use spikelet_storage::{
    BLOCK_BYTES, Device, Digest, Error, HEADER_BYTES, Header, ManualClock, Member, Namespace,
    NewVersion, Options, PARTITIONS, Result, SMALL_BLOCK_BYTES, SimulatedDevice, Storage,
};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

/// The name of the namespace in all tests.
pub const NAME: &str = "test";

/// The time in tests, in ms since 2010.
pub const NOW_MS: u64 = 400_000_000_000;

/// Whether the tests run at length: `SPIKELET_LONG=1`.
pub fn long() -> bool {
    std::env::var_os("SPIKELET_LONG").is_some_and(|value| value == "1")
}

/// The n-th digest.
pub fn digest(number: u64) -> Digest {
    let mut chance = Chance(number.wrapping_mul(0x1_0001) ^ 0x5eed);
    let mut bytes = [0; Digest::LEN];
    for chunk in bytes.chunks_mut(8) {
        let word = chance.next().to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    Digest::new(bytes)
}

/// The size of a device of `blocks` blocks.
pub const fn device_bytes(blocks: u64) -> u64 {
    HEADER_BYTES + blocks * BLOCK_BYTES
}

/// Options without background threads, with one write lane and a clock that only the test moves.
pub fn options(storage: Storage, blocks: u64) -> Options {
    Options {
        max_device_bytes: device_bytes(blocks),
        // Large blocks, of which few fit on a device.
        max_record_bytes: Options::RECORD_BYTES_MAX,
        background: false,
        write_lanes: 1,
        clock: Arc::new(ManualClock::at(NOW_MS)),
        ..Options::new(NAME, storage)
    }
}

pub fn files(dir: &Path, devices: usize) -> Storage {
    Storage::Files {
        dir: dir.to_owned(),
        devices,
    }
}

/// New simulated devices of one namespace.
pub fn simulated(devices: u8, blocks: u64) -> Vec<Arc<SimulatedDevice>> {
    (0..devices)
        .map(|index| Arc::new(SimulatedDevice::new(&header(index, devices, blocks)).unwrap()))
        .collect()
}

/// New simulated devices of one namespace, without staging memory.
pub fn simulated_unstaged(devices: u8, blocks: u64) -> Vec<Arc<SimulatedDevice>> {
    let device = |index| SimulatedDevice::without_staging(&header(index, devices, blocks));
    (0..devices)
        .map(|index| Arc::new(device(index).unwrap()))
        .collect()
}

/// The header of a device.
pub fn header(index: u8, count: u8, blocks: u64) -> Header {
    let member = Member {
        namespace: NAME.into(),
        index,
        count,
        key_hash: 0,
    };
    Header {
        device_id: 77 + u64::from(index),
        member,
        max_bytes: device_bytes(blocks),
        block_bytes: BLOCK_BYTES,
        created_unix_ms: 1,
    }
}

/// The header of a device with small blocks.
pub fn small_header(index: u8, count: u8, blocks: u64) -> Header {
    Header {
        max_bytes: HEADER_BYTES + blocks * SMALL_BLOCK_BYTES,
        block_bytes: SMALL_BLOCK_BYTES,
        ..header(index, count, blocks)
    }
}

pub fn devices(devices: &[Arc<SimulatedDevice>]) -> Storage {
    Storage::Devices(
        devices
            .iter()
            .map(|device| Arc::clone(device) as Arc<dyn Device>)
            .collect(),
    )
}

/// A version with this payload and no set.
pub fn version(payload: &[u8]) -> NewVersion<'_> {
    NewVersion {
        generation: 1,
        void_time: 0,
        last_update_ms: NOW_MS,
        set_id: 0,
        key: None,
        payload,
    }
}

pub fn put(namespace: &Namespace, digest: &Digest, payload: &[u8]) -> Result<()> {
    namespace
        .lock(digest, None)?
        .put(&version(payload))
        .map(drop)
}

pub fn delete(namespace: &Namespace, digest: &Digest) -> Result<bool> {
    Ok(namespace.lock(digest, None)?.delete(NOW_MS)?.is_some())
}

pub fn get(namespace: &Namespace, digest: &Digest) -> Result<Option<Vec<u8>>> {
    namespace.get(digest, |entry| entry.payload().to_vec())
}

/// A payload of `bytes` bytes that repeats the numbers of record and version.
pub fn payload_of(record: u64, version: u64, bytes: usize) -> Vec<u8> {
    let mut payload = [record.to_le_bytes(), version.to_le_bytes()]
        .concat()
        .repeat(bytes.div_ceil(16));
    payload.truncate(bytes);
    payload
}

/// Puts records `0..`, until the namespace refuses. Returns how many there are.
pub fn fill(namespace: &Namespace, bytes: usize) -> u64 {
    for record in 0.. {
        match put(namespace, &digest(record), &payload_of(record, 0, bytes)) {
            Ok(()) => {}
            Err(Error::StopWrites { .. }) => return record,
            Err(other) => panic!("{other}"),
        }
    }
    unreachable!()
}

/// How many records a scan of all partitions lends, and how many damaged ones it reports.
pub fn scan(namespace: &Namespace) -> (usize, usize) {
    let (mut whole, mut damaged) = (0, 0);
    for partition in 0..PARTITIONS {
        let end = namespace.scan_partition(partition, |entry| {
            match entry {
                Ok(_) => whole += 1,
                Err(Error::Damaged { .. } | Error::MaybeStale { .. }) => damaged += 1,
                Err(other) => panic!("{other}"),
            }
            ControlFlow::Continue(())
        });
        assert!(end.is_continue());
    }
    (whole, damaged)
}

/// Reads a record; the outer `None` means that it is damaged or may be stale.
pub fn get_or_damaged(namespace: &Namespace, digest: &Digest) -> Option<Option<Vec<u8>>> {
    match get(namespace, digest) {
        Ok(found) => Some(found),
        Err(Error::Damaged { .. } | Error::MaybeStale { .. }) => None,
        Err(other) => panic!("{digest}: {other}"),
    }
}

/// The payload of the write with this number: of a size and content of its own.
pub fn payload(write: u64, large: bool) -> Vec<u8> {
    let mut chance = Chance(write);
    let length = 8 + if large {
        chance.below(1 << 20)
    } else {
        chance.below(250)
    } as usize;
    let mut bytes = Vec::with_capacity(length + 8);
    bytes.extend(write.to_le_bytes());
    while bytes.len() < length {
        bytes.extend(chance.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// Live bytes that belong to no record: commit entries and metadata. A tombstone takes an entry of
/// 64 bytes.
pub fn other_live_bytes(namespace: &Namespace) -> u64 {
    let stats = namespace.stats();
    let tombstones = stats.index_entries - stats.records;
    let records: u64 = namespace.sets().iter().map(|set| set.stored_bytes).sum();
    stats.live_bytes - records - 64 * tombstones
}
