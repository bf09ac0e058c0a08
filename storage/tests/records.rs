//! Records against a map: after every write, delete, truncation, expiry, defragmentation and
//! restart, both say the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{NOW_MS, digest, files, options};
use proptest::prelude::*;
use spikelet_storage::{
    BLOCK_BYTES, Change, Error, ManualClock, Namespace, NewVersion, Options, PARTITIONS, Storage,
    Truncate,
};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

const BLOCKS: u64 = 7;
const RECORDS: u64 = 24;
/// The sets of the records, by their number modulo 3; the first has none.
const SETS: [&str; 3] = ["", "users", "a longer name of a set"];

#[derive(Clone, Debug, PartialEq)]
struct Record {
    generation: u16,
    void_time: u32,
    last_update_ms: u64,
    set: usize,
    key: Option<Vec<u8>>,
    payload: Vec<u8>,
}

impl Record {
    fn version(&self, namespace: &Namespace) -> NewVersion<'_> {
        NewVersion {
            generation: self.generation,
            void_time: self.void_time,
            last_update_ms: self.last_update_ms,
            set_id: namespace.create_set(SETS[self.set]).unwrap(),
            key: self.key.as_deref(),
            payload: &self.payload,
        }
    }

    /// The smallest stored size: a header of 56 bytes, the body, and padding to 16 bytes. An entry
    /// above 1 KiB is padded further, to one of 32 sizes a doubling.
    fn stored_bytes_min(&self) -> u64 {
        let key = self.key.as_ref().map_or(0, |key| key.len() + 1);
        (56 + key + self.payload.len()).next_multiple_of(16) as u64
    }
}

#[derive(Clone, Debug)]
enum Step {
    Put {
        record: u64,
        bytes: usize,
        seconds: u32,
        keyed: bool,
    },
    /// The same records as one group; every third is deleted.
    Group {
        first: u64,
        count: u64,
        bytes: usize,
    },
    Delete {
        record: u64,
    },
    /// Writes nothing: a read under the lock must be right.
    Look {
        record: u64,
    },
    Pass {
        ms: u64,
    },
    /// Removes records that are older than `age_ms`.
    Truncate {
        set: Option<usize>,
        age_ms: u64,
    },
    Sync,
    Maintain,
    Close,
    Drop,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![8 => 0_usize..3_000, 1 => 50_000_usize..300_000];
    let seconds = prop_oneof![3 => Just(0), 1 => 1_u32..5];
    let step = prop_oneof![
        30 => (0..RECORDS, bytes.clone(), seconds, any::<bool>())
            .prop_map(|(record, bytes, seconds, keyed)| Step::Put { record, bytes, seconds, keyed }),
        4 => (0..RECORDS, 1_u64..5, bytes)
            .prop_map(|(first, count, bytes)| Step::Group { first, count, bytes }),
        8 => (0..RECORDS).prop_map(|record| Step::Delete { record }),
        4 => (0..RECORDS).prop_map(|record| Step::Look { record }),
        6 => (0_u64..3_000).prop_map(|ms| Step::Pass { ms }),
        2 => (prop::option::of(0..SETS.len()), 0_u64..2_000)
            .prop_map(|(set, age_ms)| Step::Truncate { set, age_ms }),
        3 => Just(Step::Sync),
        3 => Just(Step::Maintain),
        1 => Just(Step::Close),
        2 => Just(Step::Drop),
    ];
    prop::collection::vec(step, 1..160)
}

struct Pair {
    options: Options,
    clock: Arc<ManualClock>,
    namespace: Option<Namespace>,
    model: BTreeMap<u64, Record>,
    now_ms: u64,
    written: u64,
}

impl Pair {
    fn new(storage: Storage) -> Self {
        let clock = Arc::new(ManualClock::at(NOW_MS));
        let options = Options {
            clock: clock.clone(),
            ..options(storage, BLOCKS)
        };
        let namespace = Namespace::open(options.clone()).unwrap().0;
        let (model, namespace) = (BTreeMap::new(), Some(namespace));
        Self {
            options,
            clock,
            namespace,
            model,
            now_ms: NOW_MS,
            written: 0,
        }
    }

    fn namespace(&self) -> &Namespace {
        self.namespace.as_ref().unwrap()
    }

    fn new_record(&mut self, record: u64, bytes: usize, seconds: u32, keyed: bool) -> Record {
        self.written += 1;
        Record {
            generation: self.model.get(&record).map_or(1, |old| old.generation + 1),
            void_time: if seconds == 0 {
                0
            } else {
                (self.now_ms / 1000) as u32 + seconds
            },
            last_update_ms: self.now_ms,
            set: record as usize % SETS.len(),
            key: keyed.then(|| format!("key {record}").repeat(1 + bytes % 30).into_bytes()),
            payload: self
                .written
                .to_le_bytes()
                .into_iter()
                .cycle()
                .take(bytes)
                .collect(),
        }
    }

    fn is_expired(&self, record: &Record) -> bool {
        record.void_time != 0 && u64::from(record.void_time) < self.now_ms / 1000
    }

    fn maintain(&mut self) {
        let done = self.namespace().maintain().unwrap();
        let expired: Vec<u64> = self
            .model
            .iter()
            .filter(|(_, record)| self.is_expired(record))
            .map(|(n, _)| *n)
            .collect();
        assert_eq!(done.expired, expired.len() as u64);
        expired
            .iter()
            .for_each(|number| drop(self.model.remove(number)));
    }

    /// After a write: true if it was taken. A full namespace is maintained.
    fn taken<T>(&mut self, result: Result<T, Error>) -> bool {
        match result {
            Ok(_) => true,
            Err(Error::StopWrites { .. }) => {
                self.maintain();
                false
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn reopen(&mut self) {
        self.namespace = None;
        self.namespace = Some(Namespace::open(self.options.clone()).unwrap().0);
    }

    fn run(&mut self, step: &Step, reopens: bool) {
        match *step {
            Step::Put {
                record,
                bytes,
                seconds,
                keyed,
            } => {
                let new = self.new_record(record, bytes, seconds, keyed);
                let lock = self.namespace().lock(&digest(record), None).unwrap();
                let result = lock.put(&new.version(self.namespace()));
                if self.taken(result) {
                    self.model.insert(record, new);
                }
            }
            Step::Group {
                first,
                count,
                bytes,
            } => {
                let numbers: Vec<u64> = (first..first + count).collect();
                let new: Vec<Option<Record>> = numbers
                    .iter()
                    .map(|number| {
                        (number % 3 > 0).then(|| self.new_record(*number, bytes, 0, false))
                    })
                    .collect();
                let namespace = self.namespace();
                let changes = numbers.iter().zip(&new).map(|(number, new)| {
                    let change = match new {
                        Some(new) => Change::Put(new.version(namespace)),
                        None => Change::Delete(self.now_ms),
                    };
                    (namespace.lock(&digest(*number), None).unwrap(), change)
                });
                let result = namespace.commit_group(changes.collect());
                if self.taken(result) {
                    for (number, new) in numbers.into_iter().zip(new) {
                        match new {
                            Some(new) => drop(self.model.insert(number, new)),
                            None => drop(self.model.remove(&number)),
                        }
                    }
                }
            }
            Step::Delete { record } => {
                let lock = self.namespace().lock(&digest(record), None).unwrap();
                assert_eq!(
                    lock.delete(self.now_ms).unwrap().is_some(),
                    self.model.remove(&record).is_some()
                );
            }
            Step::Look { record } => {
                let lock = self.namespace().lock(&digest(record), None).unwrap();
                let found = lock.entry().unwrap().map(|entry| entry.payload().to_vec());
                assert_eq!(
                    found,
                    self.model.get(&record).map(|record| record.payload.clone())
                );
            }
            Step::Pass { ms } => {
                self.clock.advance_ms(ms);
                self.now_ms += ms;
            }
            Step::Truncate { set, age_ms } => {
                let before_ms = self.now_ms - age_ms;
                let what = match set {
                    None => Truncate::Namespace,
                    Some(set) => Truncate::Set(self.namespace().create_set(SETS[set]).unwrap()),
                };
                let before = self.model.len();
                self.model.retain(|_, record| {
                    record.last_update_ms >= before_ms || set.is_some_and(|set| set != record.set)
                });
                let removed = self.namespace().truncate(what, Some(before_ms)).unwrap();
                assert_eq!(removed, (before - self.model.len()) as u64);
            }
            Step::Sync => self.namespace().sync().unwrap(),
            Step::Maintain => self.maintain(),
            Step::Close if reopens => {
                self.namespace().close().unwrap();
                self.reopen();
            }
            Step::Drop if reopens => self.reopen(),
            Step::Close | Step::Drop => {}
        }
    }

    /// Namespace and model hold the same, and everything that counts it agrees.
    fn check(&self) {
        let namespace = self.namespace();
        for number in 0..RECORDS + 5 {
            let found = namespace.get(&digest(number), |entry| Record {
                generation: entry.generation(),
                void_time: entry.void_time(),
                last_update_ms: entry.last_update_ms(),
                set: SETS
                    .iter()
                    .position(|set| namespace.set_id(set) == Some(entry.set_id()))
                    .unwrap(),
                key: entry.key().map(<[u8]>::to_vec),
                payload: entry.payload().to_vec(),
            });
            assert_eq!(
                found.unwrap().as_ref(),
                self.model.get(&number),
                "record {number}"
            );
        }
        let mut stored = [0_u64; SETS.len()];
        let mut counts = [0_u64; SETS.len()];
        for partition in 0..PARTITIONS {
            let end = namespace.scan_partition(partition, |entry| {
                let entry = entry.unwrap();
                let name = namespace.set_name(entry.set_id()).unwrap();
                let set = SETS.iter().position(|set| **set == name).unwrap();
                stored[set] += entry.stored_bytes();
                counts[set] += 1;
                ControlFlow::Continue(())
            });
            assert!(end.is_continue());
        }
        for (set, name) in SETS.iter().enumerate() {
            let of_set = || self.model.values().filter(|record| record.set == set);
            assert_eq!(counts[set], of_set().count() as u64);
            assert!(stored[set] >= of_set().map(Record::stored_bytes_min).sum());
            if let Some(id) = namespace.set_id(name) {
                assert_eq!(
                    namespace.set_usage(id),
                    (counts[set], stored[set]),
                    "{name}"
                );
            }
        }
        let usage = namespace.sets();
        assert_eq!(
            usage.iter().map(|set| set.records).sum::<u64>(),
            self.model.len() as u64
        );
        let stats = namespace.stats();
        assert_eq!(stats.records, self.model.len() as u64);
        assert_eq!(stats.damaged, 0);
        // What lives beside the records: tombstones, and whole copies of the metadata (and of
        // commit entries).
        let tombstones = stats.index_entries - stats.records;
        let others = stats.live_bytes - stored.iter().sum::<u64>() - 64 * tombstones;
        let names: usize = usage.iter().skip(1).map(|set| 25 + set.name.len()).sum();
        // An empty catalog, and no positions of readers of the changes.
        let (catalog, feed) = (4, 12);
        let metadata = (56 + 51 + names + catalog + feed).next_multiple_of(16) as u64;
        assert!(
            (0..6).any(|copies| others >= copies * metadata
                && (others - copies * metadata).is_multiple_of(80)),
            "{others} bytes beside records and tombstones, metadata has {metadata}"
        );
        assert!(stats.used_blocks + stats.available_blocks <= BLOCKS);
        assert!(stats.live_bytes <= stats.used_blocks * BLOCK_BYTES);
    }
}

fn cases(few: u32) -> ProptestConfig {
    ProptestConfig {
        cases: if common::long() { few * 50 } else { few },
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn a_namespace_in_memory_agrees_with_a_map(steps in steps()) {
        let mut pair = Pair::new(Storage::Memory);
        for (number, step) in steps.iter().enumerate() {
            pair.run(step, false);
            if number % 10 == 9 {
                pair.check();
            }
        }
        pair.maintain();
        pair.check();
    }
}

proptest! {
    #![proptest_config(cases(25))]

    #[test]
    fn a_namespace_in_files_agrees_with_a_map_over_restarts(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        let mut pair = Pair::new(files(dir.path(), 1));
        for step in &steps {
            pair.run(step, true);
            if matches!(step, Step::Close | Step::Drop | Step::Maintain | Step::Truncate { .. }) {
                pair.check();
            }
        }
        pair.check();
        pair.reopen();
        pair.check();
        pair.maintain();
        pair.namespace().close().unwrap();
        pair.reopen();
        pair.check();
    }
}

#[test]
fn a_record_may_fill_a_block_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    for storage in [Storage::Memory, files(dir.path(), 1)] {
        let pair = Pair::new(storage);
        fill_a_block(pair.namespace());
    }
}

fn fill_a_block(namespace: &Namespace) {
    // Besides the entry, with its header of 56 bytes, a block has a head of 1024, a filler and a
    // sector of directory.
    let largest = BLOCK_BYTES as usize - 1024 - 64 - 512 - 56;
    for (bytes, fits) in [
        (largest, true),
        (largest + 1, false),
        (3 * largest, false),
        (0, true),
    ] {
        let payload = vec![7; bytes];
        match common::put(namespace, &digest(1), &payload) {
            Ok(()) => {
                assert!(fits);
                assert!(common::get(namespace, &digest(1)).unwrap().unwrap() == payload);
            }
            Err(Error::TooLarge {
                bytes: wanted,
                limit,
            }) => {
                assert!(!fits);
                assert_eq!((wanted, limit), (bytes as u64 + 56, largest as u64 + 56));
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(
        common::get(namespace, &digest(1)).unwrap(),
        Some(Vec::new())
    );
}

#[test]
fn a_record_of_a_set_that_does_not_exist_is_refused() {
    let pair = Pair::new(Storage::Memory);
    let namespace = pair.namespace();
    let set_id = namespace.create_set("users").unwrap();
    let put = |set_id| {
        let version = NewVersion {
            set_id,
            ..common::version(b"bytes")
        };
        namespace.lock(&digest(1), None).unwrap().put(&version)
    };
    put(set_id).unwrap();
    for unknown in [set_id + 1, 4095, 4096, u16::MAX] {
        let refused = put(unknown).unwrap_err();
        assert!(
            matches!(
                refused,
                Error::BadOption {
                    option: "set_id",
                    ..
                }
            ),
            "{refused}"
        );
    }
    assert_eq!(namespace.set_usage(set_id).0, 1);
}
