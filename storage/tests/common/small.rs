//! A small store with every kind of entry. Tests damage its files.

use super::{NOW_MS, delete, digest, files, get_or_damaged, options, put, version};
use spikelet_storage::{BLOCK_BYTES, Change, HEADER_BYTES, Namespace, NewVersion, Options};
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Blocks of a small device: no more than are needed for a store that accepts writes.
pub const BLOCKS: u64 = 6;

/// What each record of the small store is.
pub fn expected() -> Vec<(u64, Option<Vec<u8>>)> {
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

/// Writes the records of [`expected`]. Most have older versions on the device, which a mistaken
/// reader would find.
pub fn fill(namespace: &Namespace) {
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
    let keyed = NewVersion {
        set_id,
        key: Some(b"user key"),
        ..version(&[4; 300])
    };
    namespace
        .lock(&digest(4), None)
        .unwrap()
        .put(&keyed)
        .unwrap();
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
pub fn check(namespace: &Namespace, what: &str) -> Vec<u64> {
    let mut damaged = Vec::new();
    for (number, expected) in expected() {
        match get_or_damaged(namespace, &digest(number)) {
            Some(found) => assert_eq!(found, expected, "record {number} with {what}"),
            None => damaged.push(number),
        }
    }
    assert_eq!(namespace.set_id("users"), Some(1), "{what}");
    damaged
}

/// The file of the staging memory.
const STAGING: &str = "device-0.staging";

fn pages_of(file: &File) -> (Vec<(u64, Vec<u8>)>, u64) {
    let len_bytes = file.metadata().unwrap().len();
    let mut pages = Vec::new();
    let mut piece = vec![0; BLOCK_BYTES as usize];
    for from in (0..len_bytes).step_by(piece.len()) {
        let piece = &mut piece[..(len_bytes - from).min(BLOCK_BYTES) as usize];
        file.read_exact_at(piece, from).unwrap();
        let content = (0..).zip(piece.chunks(4096));
        let content = content.filter(|(_, page)| page.iter().any(|byte| *byte != 0));
        pages.extend(content.map(|(number, page)| (from + number * 4096, page.to_vec())));
    }
    (pages, len_bytes)
}

/// The files of the small store, and their content.
pub struct Small {
    pub dir: tempfile::TempDir,
    pub blocks: u64,
    /// The first part of the device, which holds all entries.
    pub start: Vec<u8>,
    /// Every page of the device that is not empty, with its offset; its length.
    pages: Vec<(u64, Vec<u8>)>,
    len_bytes: u64,
    staging: Option<Vec<u8>>,
    pub snapshot: Option<Vec<u8>>,
}

impl Small {
    pub fn new(close: bool) -> Self {
        Self::with_blocks(close, BLOCKS)
    }

    pub fn with_blocks(close: bool, blocks: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (namespace, _) = Namespace::open(options(files(dir.path(), 1), blocks)).unwrap();
        fill(&namespace);
        if close {
            namespace.close().unwrap();
        }
        assert_eq!(namespace.stats().used_blocks, 1);
        drop(namespace);
        let mut start = vec![0; HEADER_BYTES as usize + 16_384];
        let file = File::open(dir.path().join("device-0")).unwrap();
        file.read_exact_at(&mut start, 0).unwrap();
        let (pages, len_bytes) = pages_of(&file);
        let snapshot = std::fs::read(dir.path().join("index.snapshot")).ok();
        assert_eq!(snapshot.is_some(), close);
        Self {
            staging: std::fs::read(dir.path().join(STAGING)).ok(),
            dir,
            blocks,
            start,
            pages,
            len_bytes,
            snapshot,
        }
    }

    pub fn options(&self) -> Options {
        options(files(self.dir.path(), 1), self.blocks)
    }

    pub fn device(&self) -> PathBuf {
        self.dir.path().join("device-0")
    }

    pub fn snapshot(&self) -> PathBuf {
        self.dir.path().join("index.snapshot")
    }

    /// All regions with content except the directory, each with a few bytes after it: header,
    /// states, the header of the block and its mirror, entries.
    pub fn regions(&self) -> Vec<Range<u64>> {
        let last = self.start.iter().rposition(|byte| *byte != 0).unwrap() as u64;
        let mirror = HEADER_BYTES + BLOCK_BYTES + 512;
        vec![
            0..128,
            4096..4160,
            8192..8256,
            12288..12416,
            HEADER_BYTES..HEADER_BYTES + 64,
            mirror..mirror + 64,
            HEADER_BYTES + 1024..last + 256,
        ]
    }

    /// The byte of the undamaged store at `offset`.
    pub fn byte(&self, offset: u64) -> u8 {
        let at = |(start, page): &(u64, Vec<u8>)| {
            let inside = offset.checked_sub(*start)?;
            page.get(inside as usize).copied()
        };
        self.pages.iter().find_map(at).unwrap_or_default()
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(self.device()).unwrap();
        file.write_all_at(bytes, offset).unwrap();
    }

    pub fn read(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        let file = File::open(self.device()).unwrap();
        file.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    }

    pub fn flip(&self, offset: u64, bit: u32) {
        self.write(offset, &[self.byte(offset) ^ (1 << bit)]);
    }

    /// Restores the files of the undamaged store.
    pub fn restore(&self) {
        let file = OpenOptions::new().write(true).open(self.device()).unwrap();
        file.set_len(0).unwrap();
        file.set_len(self.len_bytes).unwrap();
        for (offset, page) in &self.pages {
            file.write_all_at(page, *offset).unwrap();
        }
        let staging = self.dir.path().join(STAGING);
        match &self.staging {
            Some(bytes) => std::fs::write(staging, bytes).unwrap(),
            None => drop(std::fs::remove_file(staging)),
        }
        match &self.snapshot {
            Some(snapshot) => std::fs::write(self.snapshot(), snapshot).unwrap(),
            None => drop(std::fs::remove_file(self.snapshot())),
        }
    }
}
