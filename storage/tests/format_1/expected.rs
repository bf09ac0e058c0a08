//! What the old program read of a store, and comparing a namespace with it.

use crate::common::{NOW_MS, devices, digest, files, options};
use crate::{BLOCKS, LARGE};
use spikelet_storage::{
    BLOCK_BYTES, Error, HEADER_BYTES, Namespace, NewVersion, Opening, Options, PARTITIONS,
    SimulatedDevice, Verification,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// When the last writes were made, in ms since 2010.
pub const LATER_MS: u64 = NOW_MS + 10_000;

/// What a record is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    pub set: String,
    pub generation: u16,
    pub void_time: u32,
    pub last_update_ms: u64,
    pub key: Option<Vec<u8>>,
    pub payload: Vec<u8>,
}

impl Record {
    pub fn is_expired(&self) -> bool {
        self.void_time != 0 && u64::from(self.void_time) < NOW_MS / 1000
    }
}

pub type Records = BTreeMap<u64, Record>;

pub fn key(number: u64) -> Option<Vec<u8>> {
    let keyed = number.is_multiple_of(5);
    keyed.then(|| format!("key {number}").into_bytes())
}

pub fn payload(number: u64, generation: u16) -> Vec<u8> {
    if LARGE.contains(&number) {
        return vec![0; (1 << 20) - 4096];
    }
    let version = u64::from(generation);
    let text = format!("{number}.{version};");
    let length = 8 + (number * 7 + version * 5) as usize % 33;
    text.bytes().cycle().take(length).collect()
}

/// Reads what the old program has read.
pub fn expected(text: &str) -> Records {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let record = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [number, set, generation, void_time, last_update_ms] = words[..] else {
            panic!("{line}");
        };
        let number = number.parse().unwrap();
        let generation = generation.parse().unwrap();
        let record = Record {
            set: set.trim_start_matches('-').to_owned(),
            generation,
            void_time: void_time.parse().unwrap(),
            last_update_ms: last_update_ms.parse().unwrap(),
            key: key(number),
            payload: payload(number, generation),
        };
        (number, record)
    };
    lines.map(record).collect()
}

pub fn store_of(dir: &Path) -> Options {
    options(files(dir, 1), BLOCKS)
}

pub fn on(device: &Arc<SimulatedDevice>) -> Options {
    options(devices(std::slice::from_ref(device)), BLOCKS)
}

/// Everything that can be read.
pub fn content(namespace: &Namespace) -> Result<Records, Error> {
    let mut records = Records::new();
    for number in 0..1000 {
        let found = namespace.get(&digest(number), |entry| Record {
            set: namespace.set_name(entry.set_id()).unwrap(),
            generation: entry.generation(),
            void_time: entry.void_time(),
            last_update_ms: entry.last_update_ms(),
            key: entry.key().map(<[u8]>::to_vec),
            payload: entry.payload().to_vec(),
        })?;
        records.extend(found.map(|record| (number, record)));
    }
    Ok(records)
}

pub fn check(namespace: &Namespace, expected: &Records, what: &str) {
    let found = content(namespace).unwrap();
    let numbers = |records: &Records| records.keys().copied().collect::<Vec<_>>();
    assert_eq!(numbers(&found), numbers(expected), "{what}");
    for (number, record) in expected {
        assert!(found[number] == *record, "{what}: record {number}");
    }
    let mut scanned = 0;
    for partition in 0..PARTITIONS {
        let _ = namespace.scan_partition(partition, |entry| {
            entry.unwrap();
            scanned += 1;
            ControlFlow::Continue(())
        });
    }
    assert_eq!(scanned, expected.len(), "{what}");
    let usage: u64 = namespace.sets().iter().map(|set| set.records).sum();
    assert_eq!(usage, expected.len() as u64, "{what}");
}

pub fn check_sound(options: &Options, what: &str) -> Verification {
    let found = Namespace::verify(options).unwrap();
    assert!(!found.is_damaged(), "{what}: {found:?}");
    assert_eq!(found.places, [], "{what}");
    found
}

pub fn check_undamaged(opening: &Opening, what: &str) {
    let damage = (
        opening.damaged_entries,
        opening.damaged_blocks,
        opening.damaged_bytes,
        opening.unknown_bytes,
    );
    assert_eq!(damage, (0, 0, 0, 0), "{what}");
}

/// Puts the next generation of a record, made at this time.
pub fn put_at(namespace: &Namespace, records: &mut Records, number: u64, now_ms: u64) {
    let generation = records.get(&number).map_or(0, |record| record.generation) + 1;
    let (key, payload) = (key(number), payload(number, generation));
    let set = ["", "users", "posts", "old"][number as usize % 4];
    let version = NewVersion {
        generation,
        void_time: 0,
        last_update_ms: now_ms,
        set_id: namespace.set_id(set).unwrap(),
        key: key.as_deref(),
        payload: &payload,
    };
    namespace
        .lock(&digest(number), None)
        .unwrap()
        .put(&version)
        .unwrap();
    // The record may have been deleted at a later time.
    let found = namespace.get(&digest(number), |entry| entry.last_update_ms());
    let record = Record {
        set: set.to_owned(),
        generation,
        void_time: 0,
        last_update_ms: found.unwrap().unwrap(),
        key,
        payload,
    };
    records.insert(number, record);
}

pub fn put(namespace: &Namespace, records: &mut Records, number: u64) {
    put_at(namespace, records, number, LATER_MS);
}

pub fn delete(namespace: &Namespace, records: &mut Records, number: u64) {
    let lock = namespace.lock(&digest(number), None).unwrap();
    let was_there = lock.delete(LATER_MS).unwrap().is_some();
    assert_eq!(was_there, records.remove(&number).is_some(), "{number}");
}

/// Maintains a store: its expired records are gone then.
pub fn maintain(namespace: &Namespace, records: &mut Records) {
    namespace.maintain().unwrap();
    records.retain(|_, record| !record.is_expired());
}

/// Blocks of format 1 that hold entries, by their headers.
pub fn old_blocks(read: impl Fn(u64, &mut [u8])) -> usize {
    let is_old = |block: &u64| {
        let mut header = [0; 16];
        read(HEADER_BYTES + block * BLOCK_BYTES, &mut header);
        header.starts_with(b"SPKB") && header[8..] != [0; 8]
    };
    (0..BLOCKS).filter(is_old).count()
}

pub fn old_blocks_of(dir: &Path) -> usize {
    let device = File::open(dir.join("device-0")).unwrap();
    old_blocks(|at, into| {
        // Beyond the end there is no block.
        let _ = device.read_exact_at(into, at);
    })
}

pub fn version_of(dir: &Path) -> u32 {
    let mut version = [0; 4];
    let device = File::open(dir.join("device-0")).unwrap();
    device.read_exact_at(&mut version, 8).unwrap();
    u32::from_le_bytes(version)
}

/// What a kill at this moment leaves: the files as they are.
pub fn killed_copy(of: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(of).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.path().join(file.file_name())).unwrap();
    }
    to
}
