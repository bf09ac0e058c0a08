//! Power failures on a simulated disk that reorders, tears and loses what was not synced: each record is found as it was
//! when it was last synced, or as it was made later; groups whole or not at all; and what was deleted stays deleted.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{
    Chance, NOW_MS, delete, devices, digest, get, options, payload, put, simulated, version,
};
use spikelet_storage::{
    Change, Durability, Error, Namespace, NewVersion, Options, SimulatedDevice, Storage, Truncate,
};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Records of a random store: few, so that each is overwritten often.
const RECORDS: u64 = 24;
/// Enough for a store that fills blocks, empties them and uses them again.
const BLOCKS: u64 = 9;

/// The versions that a record may be found in after a power failure, oldest first; the last is what readers see.
#[derive(Clone, Debug)]
struct History {
    versions: Vec<Option<Vec<u8>>>,
    /// In how many of them it cannot be found any more, since a later one was synced.
    lost: usize,
}

impl History {
    fn new(version: Option<Vec<u8>>) -> Self {
        Self {
            versions: vec![version],
            lost: 0,
        }
    }

    fn now(&self) -> &Option<Vec<u8>> {
        self.versions.last().unwrap()
    }

    fn synced(&mut self) {
        self.lost = self.versions.len() - 1;
    }

    /// The newest version that `found` can be, by its place among all versions.
    fn place(&self, found: &Option<Vec<u8>>) -> Option<usize> {
        (self.lost..self.versions.len())
            .rev()
            .find(|at| self.versions[*at] == *found)
    }
}

/// What was written in one group: record and place of the version in its history.
type Group = Vec<(usize, usize)>;

/// What is left after a power failure: the devices, the store that was opened on them, and its records.
type Found = (Vec<Arc<SimulatedDevice>>, Namespace, Vec<Option<Vec<u8>>>);

struct Run {
    what: String,
    chance: Chance,
    options: Options,
    devices: Vec<Arc<SimulatedDevice>>,
    namespace: Namespace,
    records: Vec<History>,
    groups: Vec<Group>,
    writes: u64,
    /// One in so many payloads is large.
    large_one_in: u64,
    /// How many of a hundred steps are syncs.
    sync_percent: u64,
}

impl Run {
    fn new(seed: u64, durability: Durability) -> Self {
        let mut chance = Chance(seed);
        let devices = simulated(1 + u8::from(chance.one_in(3)), BLOCKS);
        let options = Options {
            durability,
            write_lanes: 1 + chance.below(2) as usize,
            ..options(Storage::Memory, BLOCKS)
        };
        let opened = Options {
            storage: common::devices(&devices),
            ..options.clone()
        };
        let (namespace, _) = Namespace::open(opened).unwrap();
        let what = format!("seed {seed}, {durability:?}, {} devices", devices.len());
        let records = (0..RECORDS).map(|_| History::new(None)).collect();
        let (large_one_in, sync_percent) =
            (3 << (2 * chance.below(3)), [1, 6][chance.below(2) as usize]);
        Self {
            what,
            chance,
            options,
            devices,
            namespace,
            records,
            groups: Vec::new(),
            writes: 0,
            large_one_in,
            sync_percent,
        }
    }

    fn record(&mut self) -> usize {
        // Some records are written much more often than others, so that their slots are recycled.
        let of = if self.chance.one_in(2) { 4 } else { RECORDS };
        self.chance.below(of) as usize
    }

    fn payload(&mut self) -> Vec<u8> {
        self.writes += 1;
        let large = self.chance.one_in(self.large_one_in);
        payload(self.writes, large)
    }

    /// Takes note of what was attempted, and of what was promised about it.
    fn note<T>(&mut self, changes: &[(usize, Option<Vec<u8>>)], result: Result<T, Error>) {
        let promised = match result {
            Ok(_) => self.options.durability == Durability::Commit,
            Err(Error::InDoubt { .. }) => false,
            Err(Error::StopWrites { .. } | Error::NoSpace { .. } | Error::ReadOnly { .. }) => {
                return;
            }
            Err(other) => panic!("{}: {other}", self.what),
        };
        let mut group = Group::new();
        for (record, version) in changes {
            let history = &mut self.records[*record];
            history.versions.push(version.clone());
            group.push((*record, history.versions.len() - 1));
        }
        if changes.len() > 1 {
            self.groups.push(group);
        }
        if promised {
            // The sync that a write waits for covers everything before it, too.
            self.records.iter_mut().for_each(History::synced);
        }
    }

    fn step(&mut self) {
        if self.chance.below(100) < self.sync_percent {
            return self.sync();
        }
        match self.chance.below(100) {
            0..64 => {
                let (record, payload) = (self.record(), self.payload());
                let result = put(&self.namespace, &digest(record as u64), &payload);
                self.note(&[(record, Some(payload))], result);
            }
            64..76 => {
                let record = self.record();
                match delete(&self.namespace, &digest(record as u64)) {
                    Ok(there) => {
                        assert_eq!(there, self.records[record].now().is_some(), "{}", self.what);
                        if there {
                            self.note(&[(record, None)], Ok(()));
                        }
                    }
                    Err(error) => self.note::<()>(&[(record, None)], Err(error)),
                }
            }
            76..87 => self.group(),
            87..94 => {
                let seed = self.chance.next();
                self.devices
                    .iter()
                    .for_each(|device| device.writeback(seed));
            }
            _ => match self.namespace.maintain() {
                Ok(_) | Err(Error::NoSpace { .. } | Error::ReadOnly { .. }) => {}
                Err(other) => panic!("{}: {other}", self.what),
            },
        }
    }

    fn group(&mut self) {
        let mut members: Vec<usize> = (0..2 + self.chance.below(4))
            .map(|_| self.record())
            .collect();
        members.sort_unstable();
        members.dedup();
        let changes: Vec<(usize, Option<Vec<u8>>)> = members
            .into_iter()
            .map(|record| (record, (!self.chance.one_in(5)).then(|| self.payload())))
            .collect();
        let namespace = self.namespace.clone();
        let locked = changes
            .iter()
            .map(|(record, payload)| {
                let lock = namespace.lock(&digest(*record as u64), None).unwrap();
                let change = match payload {
                    Some(payload) => Change::Put(version(payload)),
                    None => Change::Delete(NOW_MS),
                };
                (lock, change)
            })
            .collect();
        let result = namespace.commit_group(locked);
        self.note(&changes, result);
    }

    fn sync(&mut self) {
        match self.namespace.sync() {
            Ok(()) => self.records.iter_mut().for_each(History::synced),
            Err(Error::ReadOnly { .. }) => {}
            Err(other) => panic!("{}: {other}", self.what),
        }
    }

    /// Everything reads as it was last written, whatever the state of the disk.
    fn check_now(&self) {
        for (record, history) in self.records.iter().enumerate() {
            let found = get(&self.namespace, &digest(record as u64)).unwrap();
            assert!(
                found == *history.now(),
                "{}: record {record} reads wrong",
                self.what
            );
        }
    }

    /// The power fails in several ways, and the store goes on from the last of them.
    fn crash(&mut self, round: usize) {
        for last in [false, false, true] {
            let (devices, namespace, found) = self.crash_once(round);
            if last {
                self.devices = devices;
                self.namespace = namespace;
                self.groups.clear();
                self.records = found.into_iter().map(History::new).collect();
            }
        }
    }

    /// The power fails, and a store is opened from what is left.
    fn crash_once(&mut self, round: usize) -> Found {
        let seed = self.chance.next();
        let crash = |device: &Arc<SimulatedDevice>| Arc::new(device.crash(seed).unwrap());
        let mut left: Vec<_> = self.devices.iter().map(crash).collect();
        let what = format!("{}, round {round}", self.what);
        if self.chance.one_in(4) {
            // It fails again before the recovery is complete.
            left.iter().for_each(|device| device.fail_sync(1, seed));
            Namespace::open(Options {
                storage: devices(&left),
                ..self.options.clone()
            })
            .unwrap_err();
            left = left.iter().map(crash).collect();
        }
        let options = Options {
            storage: devices(&left),
            ..self.options.clone()
        };
        Namespace::verify(&options).unwrap();
        let (namespace, _) =
            Namespace::open(options).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found: Vec<_> = (0..RECORDS)
            .map(|record| {
                get(&namespace, &digest(record))
                    .unwrap_or_else(|error| panic!("{what}: record {record}: {error}"))
            })
            .collect();
        let places: Vec<usize> = found
            .iter()
            .zip(&self.records)
            .enumerate()
            .map(|(record, (found, history))| {
                history.place(found).unwrap_or_else(|| {
                    let found = found.as_ref().map(|payload| u64::from_le_bytes(payload[..8].try_into().unwrap()));
                    let allowed: Vec<_> = history
                        .versions
                        .iter()
                        .map(|version| version.as_ref().map(|payload| u64::from_le_bytes(payload[..8].try_into().unwrap())))
                        .collect();
                    panic!("{what}: record {record} is write {found:?}, not one of {allowed:?} from {}", history.lost)
                })
            })
            .collect();
        for group in &self.groups {
            // A deletion may be told from another one only by what stands beside it.
            let shows = |(record, place): &(usize, usize)| {
                found[*record].is_some() && places[*record] == *place
            };
            if group.iter().any(shows) {
                let whole = group
                    .iter()
                    .all(|(record, place)| places[*record] >= *place);
                assert!(
                    whole,
                    "{what}: of group {group:?} there is only a part: {places:?}"
                );
            }
        }
        check_counts(&namespace, &found, &what);
        (left, namespace, found)
    }
}

/// Counts and scans tell the same as single reads.
fn check_counts(namespace: &Namespace, found: &[Option<Vec<u8>>], what: &str) {
    let expected = found.iter().flatten().count();
    assert_eq!(namespace.stats().records, expected as u64, "{what}");
    assert_eq!(common::scan(namespace), (expected, 0), "{what}");
}

fn runs(durability: Durability, steps: u64, seeds: u64) {
    let seeds = if common::long() { seeds * 60 } else { seeds };
    for seed in 0..seeds {
        let mut run = Run::new(seed, durability);
        for round in 0..5 {
            for _ in 0..run.chance.below(steps) {
                run.step();
            }
            run.check_now();
            if run.chance.one_in(5) {
                let (seed, nth) = (
                    run.chance.next(),
                    run.chance.below(run.devices.len() as u64),
                );
                run.devices[nth as usize].fail_sync(1, seed);
                run.sync();
                (0..4).for_each(|_| run.step());
                run.check_now();
            }
            run.crash(round);
            if run.chance.one_in(2) {
                // What one recovery has found, the next finds, too, with all of it noted as durable.
                (0..3).for_each(|_| run.sync());
                run.crash(round);
            }
        }
    }
}

#[test]
fn what_was_synced_survives_every_power_failure() {
    runs(Durability::Process, 200, 4);
}

#[test]
fn what_was_acknowledged_survives_every_power_failure_under_commit() {
    runs(Durability::Commit, 40, 2);
}

#[test]
fn records_of_a_set_that_was_lost_do_not_appear_in_another() {
    let mut lost = 0;
    for seed in 0..40 {
        let origin = simulated(1, BLOCKS);
        let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
        put(&namespace, &digest(1), b"without a set").unwrap();
        namespace.sync().unwrap();
        let set_id = namespace.create_set("first").unwrap();
        for number in 1..4 {
            let in_set = NewVersion {
                set_id,
                ..version(&[7; 1000])
            };
            namespace
                .lock(&digest(number), None)
                .unwrap()
                .put(&in_set)
                .unwrap();
        }
        let crashed = [Arc::new(origin[0].crash(seed).unwrap())];
        let (namespace, _) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
        let of = |namespace: &Namespace, number| {
            namespace
                .get(&digest(number), |entry| {
                    namespace.set_name(entry.set_id()).unwrap()
                })
                .unwrap()
        };
        let known = namespace.set_id("first").is_some();
        lost += u64::from(!known);
        let found: Vec<_> = (1..4).map(|number| of(&namespace, number)).collect();
        match &found[0] {
            Some(set) => assert!(
                set.is_empty() || (known && set == "first"),
                "seed {seed}: {set}"
            ),
            None => panic!("seed {seed}: what was synced is gone"),
        }
        assert!(
            found[1..]
                .iter()
                .flatten()
                .all(|set| known && set == "first"),
            "seed {seed}: {found:?}"
        );
        if !known {
            assert_eq!(namespace.create_set("second").unwrap(), 1);
        }
        (0..3).for_each(|_| namespace.sync().unwrap());
        let crashed = [Arc::new(crashed[0].crash(seed).unwrap())];
        let (namespace, _) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
        let again: Vec<_> = (1..4).map(|number| of(&namespace, number)).collect();
        assert_eq!(again, found, "seed {seed}");
    }
    assert!(
        (5..35).contains(&lost),
        "the set is lost {lost} times of 40"
    );
}

#[test]
fn what_was_truncated_stays_truncated() {
    let origin = simulated(1, BLOCKS);
    let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
    let set_id = namespace.create_set("users").unwrap();
    for number in 0..20 {
        let set_id = if number < 10 { set_id } else { 0 };
        let last_update_ms = NOW_MS + number % 2;
        let old_or_new = NewVersion {
            set_id,
            last_update_ms,
            ..version(b"x")
        };
        namespace
            .lock(&digest(number), None)
            .unwrap()
            .put(&old_or_new)
            .unwrap();
    }
    assert_eq!(
        namespace
            .truncate(Truncate::Set(set_id), Some(NOW_MS + 1))
            .unwrap(),
        5
    );
    namespace.sync().unwrap();
    for seed in 0..4 {
        let crashed = [Arc::new(origin[0].crash(seed).unwrap())];
        let (namespace, _) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
        for number in 0..20 {
            let expected = (number >= 10 || number % 2 == 1).then(|| b"x".to_vec());
            assert_eq!(
                get(&namespace, &digest(number)).unwrap(),
                expected,
                "record {number}"
            );
        }
        assert_eq!(namespace.stats().records, 15);
        assert_eq!(namespace.set_usage(set_id).0, 5);
    }
}

/// A record of the threads: what was attempted, what is promised.
#[derive(Debug, Default)]
struct Shared {
    versions: Vec<Option<Vec<u8>>>,
    /// How many of them were acknowledged.
    acknowledged: usize,
    /// How many of them a sync has covered that has ended.
    synced: usize,
}

#[test]
fn a_power_failure_while_threads_write_costs_nothing_that_was_synced() {
    const THREADS: u64 = 3;
    const EACH: u64 = 8;
    for seed in 0..if common::long() { 60 } else { 2 } {
        let origin = simulated(1, BLOCKS);
        let background = Options {
            background: true,
            durability: Durability::Interval(Duration::from_millis(20)),
            write_lanes: 2,
            ..options(devices(&origin), BLOCKS)
        };
        let (namespace, _) = Namespace::open(background).unwrap();
        let records: Vec<Mutex<Shared>> = (0..THREADS * EACH)
            .map(|_| {
                Mutex::new(Shared {
                    versions: vec![None],
                    acknowledged: 1,
                    synced: 1,
                })
            })
            .collect();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (namespace, records, stop) = (&namespace, &records, &stop);
                scope.spawn(move || write_until(stop, namespace, records, thread, EACH, seed));
            }
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    let covered: Vec<usize> = records
                        .iter()
                        .map(|record| record.lock().unwrap().acknowledged)
                        .collect();
                    namespace.sync().unwrap();
                    for (record, covered) in records.iter().zip(covered) {
                        record.lock().unwrap().synced = covered;
                    }
                }
            });
            let mut chance = Chance(seed);
            for _ in 0..6 {
                origin[0].writeback(chance.next());
                let synced: Vec<usize> = records
                    .iter()
                    .map(|record| record.lock().unwrap().synced)
                    .collect();
                let crashed = [Arc::new(origin[0].crash(chance.next()).unwrap())];
                let attempted: Vec<_> = records
                    .iter()
                    .map(|record| record.lock().unwrap().versions.clone())
                    .collect();
                let (found, _) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
                for (number, (synced, attempted)) in synced.iter().zip(attempted).enumerate() {
                    let version = get(&found, &digest(number as u64)).unwrap();
                    let allowed = &attempted[*synced - 1..];
                    assert!(
                        allowed.contains(&version),
                        "seed {seed}: record {number} is older than its last sync"
                    );
                }
            }
            stop.store(true, Ordering::SeqCst);
        });
        namespace.close().unwrap();
    }
}

/// Overwrites and deletes the records of one thread.
fn write_until(
    stop: &AtomicBool,
    namespace: &Namespace,
    records: &[Mutex<Shared>],
    thread: u64,
    each: u64,
    seed: u64,
) {
    let mut chance = Chance(seed ^ (thread << 32));
    let mut writes = thread << 40;
    while !stop.load(Ordering::SeqCst) {
        let number = thread * each + chance.below(each);
        let record = &records[number as usize];
        let there = record.lock().unwrap().versions.last().unwrap().is_some();
        writes += 1;
        let new = (!there || !chance.one_in(5)).then(|| payload(writes, chance.one_in(50)));
        record.lock().unwrap().versions.push(new.clone());
        let result = match &new {
            Some(payload) => put(namespace, &digest(number), payload),
            None => delete(namespace, &digest(number)).map(|_| ()),
        };
        let mut record = record.lock().unwrap();
        match result {
            Ok(()) => record.acknowledged = record.versions.len(),
            Err(Error::StopWrites { .. } | Error::NoSpace { .. }) => {
                record.versions.pop();
                drop(record);
                std::thread::yield_now();
            }
            Err(other) => panic!("{other}"),
        }
    }
}
