//! Damage to the bytes of a store: nothing panics, nothing wrong is read, and one flipped bit costs one record at most.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{Chance, NOW_MS, delete, device_bytes, digest, files, get_or_damaged, options, put, simulated, version};
use spikelet_storage::{
    BLOCK_BYTES, Change, DeviceError, Error, HEADER_BYTES, Namespace, NewVersion, Options, SimulatedDevice, Storage,
};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Blocks of a small device: no more than are needed for a store that accepts writes.
const BLOCKS: u64 = 6;

/// One in so many bits is flipped, unless the tests run at length.
const SAMPLE: u64 = 24;

/// What each record of the small store is.
fn expected() -> Vec<(u64, Option<Vec<u8>>)> {
    vec![
        (1, Some(b"the only version".to_vec())),
        (2, Some(b"the third version".to_vec())),
        (3, None),
        (4, Some(vec![4; 300])),
        (5, Some(b"of the group".to_vec())),
        (6, Some(b"newer than the group".to_vec())),
        (7, None),
        (8, Some(b"deleted, then written".to_vec())),
        (9, Some(Vec::new())),
        (10, None),
    ]
}

/// Writes what [`expected`] tells, with older versions of most of it that are still there to be read by mistake.
fn fill(namespace: &Namespace) {
    let put = |number: u64, payload: &[u8]| put(namespace, &digest(number), payload).unwrap();
    let delete = |number: u64| assert!(delete(namespace, &digest(number)).unwrap());
    let set_id = namespace.create_set("users").unwrap();
    put(1, b"the only version");
    for number in [2, 3, 4, 5, 6, 7, 8] {
        put(number, b"the first version");
    }
    namespace.sync().unwrap();
    for number in [2, 3, 8] {
        put(number, b"the second version");
    }
    namespace.sync().unwrap();
    put(2, b"the third version");
    delete(3);
    let keyed = NewVersion { set_id, key: Some(b"user key"), ..version(&[4; 300]) };
    namespace.lock(&digest(4), None).unwrap().put(&keyed).unwrap();
    let lock = |number: u64| namespace.lock(&digest(number), None).unwrap();
    let changes = vec![
        (lock(5), Change::Put(version(b"of the group"))),
        (lock(6), Change::Put(version(b"of the group"))),
        (lock(7), Change::Delete(NOW_MS)),
    ];
    namespace.commit_group(changes).unwrap();
    namespace.sync().unwrap();
    put(6, b"newer than the group");
    delete(8);
    put(8, b"deleted, then written");
    put(9, b"");
    namespace.sync().unwrap();
}

/// Each record has its right value or is said to be damaged; returns which are.
fn check(namespace: &Namespace, what: &str) -> Vec<u64> {
    let mut damaged = Vec::new();
    for (number, expected) in expected() {
        match get_or_damaged(namespace, &digest(number)) {
            Some(found) => assert_eq!(found, expected, "record {number} with {what}"),
            None => damaged.push(number),
        }
        let lock = namespace.options();
        assert_eq!(lock.name, common::NAME);
    }
    assert_eq!(namespace.set_id("users"), Some(1), "{what}");
    assert!(damaged.len() <= 1, "one flipped bit cost records {damaged:?}: {what}");
    damaged
}

/// The bytes of the small store that hold anything: of the header, and of the first block with a little of what follows.
fn regions(used_bytes: u64) -> Vec<std::ops::Range<u64>> {
    vec![0..128, 4096..4136, 8192..8232, HEADER_BYTES..HEADER_BYTES + used_bytes + 256]
}

fn bits(regions: Vec<std::ops::Range<u64>>, seed: u64) -> impl Iterator<Item = (u64, u32)> {
    let mut chance = Chance(seed);
    let all = regions.into_iter().flatten().flat_map(|offset| (0..8).map(move |bit| (offset, bit)));
    all.filter(move |_| common::long() || chance.one_in(SAMPLE))
}

/// Up to where the first block of a device is used: everything after is a filler or nothing.
fn used_bytes(options: &Options) -> u64 {
    let (namespace, _) = Namespace::open_read_only(options.clone()).unwrap();
    let stats = namespace.stats();
    assert_eq!(stats.used_blocks, 1);
    // All entries, dead ones included, lie one after the other.
    stats.traffic.appended_bytes.max(4096)
}

struct Template {
    dir: tempfile::TempDir,
    /// The first part of the device, which holds everything, and the snapshot if there is one.
    start: Vec<u8>,
    snapshot: Option<Vec<u8>>,
}

impl Template {
    fn new(close: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (namespace, _) = Namespace::open(options(files(dir.path(), 1), BLOCKS)).unwrap();
        fill(&namespace);
        if close {
            namespace.close().unwrap();
        }
        drop(namespace);
        let mut start = vec![0; HEADER_BYTES as usize + 16_384];
        let file = std::fs::File::open(dir.path().join("device-0")).unwrap();
        file.read_exact_at(&mut start, 0).unwrap();
        let snapshot = std::fs::read(dir.path().join("index.snapshot")).ok();
        assert_eq!(snapshot.is_some(), close);
        Self { dir, start, snapshot }
    }

    fn options(&self) -> Options {
        options(files(self.dir.path(), 1), BLOCKS)
    }

    fn device(&self) -> PathBuf {
        self.dir.path().join("device-0")
    }

    fn regions(&self) -> Vec<std::ops::Range<u64>> {
        let last = self.start.iter().rposition(|byte| *byte != 0).unwrap() as u64;
        regions(last - HEADER_BYTES)
    }

    fn flip(&self, offset: u64, bit: u32) {
        let file = OpenOptions::new().write(true).open(self.device()).unwrap();
        let byte = self.start[offset as usize] ^ (1 << bit);
        file.write_all_at(&[byte], offset).unwrap();
    }

    /// Makes the files what they were.
    fn restore(&self) {
        let file = OpenOptions::new().write(true).open(self.device()).unwrap();
        file.write_all_at(&self.start, 0).unwrap();
        let path = self.dir.path().join("index.snapshot");
        match &self.snapshot {
            Some(snapshot) => std::fs::write(path, snapshot).unwrap(),
            None => drop(std::fs::remove_file(path)),
        }
    }
}

fn every_bit_read_only(close: bool, seed: u64) {
    let template = Template::new(close);
    let headers = HEADER_BYTES + 64;
    let mut damaged = 0;
    for (offset, bit) in bits(template.regions(), seed) {
        let what = format!("bit {bit} of byte {offset} flipped");
        template.flip(offset, bit);
        let (namespace, opening) = Namespace::open_read_only(template.options()).unwrap();
        // Only a flipped state leaves it open whether the store was closed cleanly.
        assert_eq!(opening.from_snapshot, close, "{what}");
        let lost = check(&namespace, &what);
        drop(namespace);
        let verified = Namespace::verify(&template.options()).unwrap();
        assert!(verified.is_damaged() || lost.is_empty(), "{what} goes unnoticed");
        if offset < headers {
            assert_eq!(lost, [], "{what}");
            assert_eq!(verified.damaged_headers, 1, "{what}: {verified:?}");
        }
        damaged += lost.len();
        template.flip_back(offset);
    }
    assert!(damaged > 0, "some of the flips must have met a record");
}

impl Template {
    fn flip_back(&self, offset: u64) {
        let file = OpenOptions::new().write(true).open(self.device()).unwrap();
        file.write_all_at(&self.start[offset as usize..=offset as usize], offset).unwrap();
    }
}

#[test]
fn one_flipped_bit_of_a_closed_store_costs_one_record_at_most() {
    every_bit_read_only(true, 1);
}

#[test]
fn one_flipped_bit_of_a_store_that_was_not_closed_costs_one_record_at_most() {
    every_bit_read_only(false, 2);
}
