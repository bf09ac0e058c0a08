//! Edits of large records: how many bytes they write, and that the records keep their content
//! however their chains of deltas change.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{
    Chance, NOW_MS, delete, devices, digest, get, long, options, put, simulated, simulated_unstaged,
};
use spikelet_storage::{
    Atomicity, Durability, Namespace, NewVersion, Options, SimulatedDevice, Storage, Truncate,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCKS: u64 = 24;
const RECORDS: u64 = 12;

fn open(disks: &[Arc<SimulatedDevice>], image_bytes_max: u64) -> Namespace {
    let wanted = Options {
        image_bytes_max,
        ..options(devices(disks), BLOCKS)
    };
    Namespace::open(wanted).unwrap().0
}

fn bytes(chance: &mut Chance, length: usize) -> Vec<u8> {
    (0..length).map(|_| chance.next() as u8).collect()
}

/// A small edit, as lists have them: a count and a length in front change, an element comes or
/// goes.
fn edit(record: &mut Vec<u8>, chance: &mut Chance) {
    record[2] = record[2].wrapping_add(1);
    record[7] = record[7].wrapping_sub(1);
    let at = 16 + chance.below(record.len() as u64 - 32) as usize;
    if chance.one_in(2) && record.len() > 2000 {
        record.drain(at..at + 5);
    } else {
        let element = bytes(chance, 5);
        record.splice(at..at, element);
    }
}

#[test]
fn an_edit_of_a_list_of_5_kb_takes_600_bytes_of_log_and_of_128_kib_1_kib() {
    let storage = |what| match what {
        "a disk" => devices(&simulated(1, BLOCKS)),
        "a disk without staging" => devices(&simulated_unstaged(1, BLOCKS)),
        _ => Storage::Memory,
    };
    let storages = ["a disk", "a disk without staging", "memory"];
    let sizes = [(5 << 10, 2000, 600), (128 << 10, 1500, 1024)];
    let cases = storages.map(|what| sizes.map(|size| (what, size)));
    for (what, (record_bytes, edits, most)) in cases.into_iter().flatten() {
        for durability in [Durability::Process, Durability::Commit] {
            let wanted = Options {
                durability,
                ..options(storage(what), BLOCKS)
            };
            let (namespace, _) = Namespace::open(wanted).unwrap();
            let mut chance = Chance(1);
            let mut record = bytes(&mut chance, record_bytes);
            put(&namespace, &digest(1), &record).unwrap();
            let before = namespace.stats().traffic;
            for _ in 0..edits {
                edit(&mut record, &mut chance);
                put(&namespace, &digest(1), &record).unwrap();
            }
            let after = namespace.stats().traffic;
            let written = after.appended_bytes + after.moved_bytes
                - before.appended_bytes
                - before.moved_bytes;
            assert!(
                written / edits <= most,
                "{what}, {record_bytes}: {} bytes an edit",
                written / edits
            );
            assert_eq!(get(&namespace, &digest(1)).unwrap(), Some(record));
        }
    }
}

#[test]
fn without_images_every_edit_writes_the_record_whole() {
    let disks = simulated(1, BLOCKS);
    let namespace = open(&disks, 0);
    let mut chance = Chance(1);
    let mut record = bytes(&mut chance, 5000);
    for _ in 0..10 {
        edit(&mut record, &mut chance);
        put(&namespace, &digest(1), &record).unwrap();
    }
    assert!(namespace.stats().traffic.appended_bytes > 50_000);
    assert_eq!(namespace.stats().image_bytes, 0);
}

/// Records and what they should be.
struct SideBySide {
    disks: Vec<Arc<SimulatedDevice>>,
    image_bytes_max: u64,
    namespace: Option<Namespace>,
    model: BTreeMap<u64, Vec<u8>>,
    /// As of the last sync.
    synced: BTreeMap<u64, Vec<u8>>,
    chance: Chance,
    step: u64,
}

impl SideBySide {
    fn new(seed: u64, image_bytes_max: u64) -> Self {
        let disks = match seed % 4 {
            3 => simulated_unstaged(1, BLOCKS),
            _ => simulated(1, BLOCKS),
        };
        let namespace = Some(open(&disks, image_bytes_max));
        Self {
            disks,
            image_bytes_max,
            namespace,
            model: BTreeMap::new(),
            synced: BTreeMap::new(),
            chance: Chance(seed),
            step: 0,
        }
    }

    fn namespace(&self) -> &Namespace {
        self.namespace.as_ref().unwrap()
    }

    fn reopen(&mut self) {
        self.namespace = None;
        self.namespace = Some(open(&self.disks, self.image_bytes_max));
    }

    fn note_synced(&mut self) {
        self.namespace().sync().unwrap();
        self.synced = self.model.clone();
    }

    fn step(&mut self) {
        self.step += 1;
        // No background thread cleans, and every opening begins a block.
        if self.namespace().stats().stop_writes {
            self.namespace().maintain().unwrap();
        }
        let record = self.chance.below(RECORDS);
        match self.chance.below(400) {
            0 => self.namespace().maintain().map(drop).unwrap(),
            1 => {
                self.namespace().close().unwrap();
                self.synced = self.model.clone();
                self.reopen();
            }
            2 => self.reopen(),
            3 => {
                let killed = self.disks[0].kill().unwrap();
                self.disks = vec![Arc::new(killed)];
                self.reopen();
            }
            4 => self.power_failure(),
            5..=9 => self.note_synced(),
            10..=19 => {
                let was = self.model.remove(&record).is_some();
                assert_eq!(delete(self.namespace(), &digest(record)).unwrap(), was);
            }
            20..=49 => {
                let length = 1500 + self.chance.below(9000) as usize;
                let new = bytes(&mut self.chance, length);
                self.put(record, new);
            }
            50 => {
                self.namespace()
                    .truncate(Truncate::Namespace, None)
                    .unwrap();
                self.model.clear();
                self.synced.clear();
                self.note_synced();
            }
            _ => {
                let mut new = self.model.get(&record).cloned();
                let new = new.get_or_insert_with(|| vec![7; 3000]);
                edit(new, &mut self.chance);
                self.put(record, new.clone());
            }
        }
        let some = self.chance.below(RECORDS);
        self.check(some);
    }

    /// Fails the power: each record has its synced content, or a later one.
    fn power_failure(&mut self) {
        self.note_synced();
        let seed = self.chance.next();
        let unsynced = self.chance.below(RECORDS);
        let mut later = self.model.get(&unsynced).cloned();
        let before = later.clone();
        if let Some(later) = &mut later {
            edit(later, &mut self.chance);
            put(self.namespace(), &digest(unsynced), later).unwrap();
        }
        let atomicity = if self.chance.one_in(2) {
            Atomicity::Sector512
        } else {
            Atomicity::Page4096
        };
        let crashed = self.disks[0].crash_with(seed, atomicity).unwrap();
        self.disks = vec![Arc::new(crashed)];
        self.reopen();
        let found = get(self.namespace(), &digest(unsynced)).unwrap();
        assert!(found == before || found == later, "step {}", self.step);
        match found {
            Some(found) => self.model.insert(unsynced, found),
            None => self.model.remove(&unsynced),
        };
        for record in 0..RECORDS {
            self.check(record);
        }
    }

    fn put(&mut self, record: u64, new: Vec<u8>) {
        let key = format!("key {record}");
        let version = NewVersion {
            key: record.is_multiple_of(2).then_some(key.as_bytes()),
            void_time: (self.step % 7) as u32 * 500_000_000,
            generation: (self.step % 60_000 + 1) as u16,
            last_update_ms: NOW_MS + self.step,
            ..common::version(&new)
        };
        self.namespace()
            .lock(&digest(record), None)
            .unwrap()
            .put(&version)
            .unwrap();
        self.model.insert(record, new);
    }

    fn check(&self, record: u64) {
        let found = self.namespace().get(&digest(record), |entry| {
            if record.is_multiple_of(2) && entry.payload().len() != 3000 {
                assert!(
                    entry
                        .key()
                        .is_none_or(|key| key == format!("key {record}").as_bytes())
                );
            }
            entry.payload().to_vec()
        });
        let found = found.unwrap_or_else(|error| panic!("step {}: {error}", self.step));
        assert!(
            found.as_ref() == self.model.get(&record),
            "step {}, record {record}",
            self.step
        );
    }

    fn end(self) {
        let namespace = self.namespace();
        for record in 0..RECORDS {
            self.check(record);
        }
        let stats = namespace.stats();
        assert_eq!(stats.records, self.model.len() as u64);
        // Nothing is live but what the records need: all chains folded, all that is dead given
        // back.
        for record in 0..RECORDS {
            delete(namespace, &digest(record)).unwrap();
        }
        namespace.maintain().unwrap();
        let stats = namespace.stats();
        assert!(
            stats.live_bytes <= stats.index_entries * 64 + 4096,
            "{stats:?}"
        );
        assert_eq!(stats.image_bytes, 0);
    }
}

#[test]
fn records_are_what_they_were_whatever_becomes_of_their_chains() {
    let (seeds, steps) = if long() { (40, 20_000) } else { (4, 3_000) };
    for image_bytes_max in [40 << 10, 1 << 30] {
        for seed in 0..seeds {
            let mut run = SideBySide::new(seed, image_bytes_max);
            for _ in 0..steps {
                run.step();
            }
            run.end();
        }
    }
}

#[test]
fn a_snapshot_of_records_with_chains_gives_them_back() {
    let dir = tempfile::tempdir().unwrap();
    let storage = Storage::Files {
        dir: dir.path().to_owned(),
        devices: 1,
    };
    let mut chance = Chance(5);
    let mut records: Vec<Vec<u8>> = (0..20).map(|_| bytes(&mut chance, 4000)).collect();
    for round in 0..4 {
        let (namespace, opening) = Namespace::open(options(storage.clone(), BLOCKS)).unwrap();
        assert_eq!(opening.from_snapshot, round > 0);
        for (number, record) in (0..).zip(&mut records) {
            if round > 0 {
                let found = get(&namespace, &digest(number)).unwrap();
                assert!(found.as_ref() == Some(record), "record {number}");
            }
            for _ in 0..7 {
                edit(record, &mut chance);
                put(&namespace, &digest(number), record).unwrap();
            }
        }
        let live = namespace.stats().live_bytes;
        namespace.close().unwrap();
        drop(namespace);
        let wanted = options(storage.clone(), BLOCKS);
        assert!(!Namespace::verify(&wanted).unwrap().is_damaged());
        let (namespace, _) = Namespace::open_read_only(wanted).unwrap();
        assert_eq!(namespace.stats().live_bytes, live);
    }
}

/// The index has 19 bits for the bytes of a record, in units of 16.
#[test]
fn a_chain_of_a_large_record_does_not_outgrow_the_bytes_that_the_index_can_count() {
    let disks = simulated(1, BLOCKS);
    let namespace = open(&disks, 64 << 20);
    let mut chance = Chance(7);
    let mut record = bytes(&mut chance, 6 << 20);
    let stored = |namespace: &Namespace| namespace.sets()[0].stored_bytes;
    put(&namespace, &digest(1), &record).unwrap();
    for edit in 0..7 {
        let part = edit * (700 << 10);
        record[part..part + (500 << 10)].fill(edit as u8);
        put(&namespace, &digest(1), &record).unwrap();
        assert!(stored(&namespace) < 8 << 20);
        assert!(get(&namespace, &digest(1)).unwrap().as_ref() == Some(&record));
    }
    let before = stored(&namespace);
    let killed = Arc::new(disks[0].kill().unwrap());
    let reopened = open(&[killed], 64 << 20);
    assert_eq!(stored(&reopened), before);
    for namespace in [namespace, reopened] {
        assert!(delete(&namespace, &digest(1)).unwrap());
        assert_eq!(stored(&namespace), 0);
    }
}
