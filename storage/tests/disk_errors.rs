//! Disks that are full, or fail at a write, at every place where a store writes: a clear error,
//! nothing acknowledged is lost, deletes go on, and the store opens again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{
    Chance, NOW_MS, devices, digest, get, options, payload, payload_of, simulated, version,
};
use spikelet_storage::{Change, Error, HEADER_BYTES, Namespace, Options, Result, SimulatedDevice};
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCKS: u64 = 12;
const RECORDS: u64 = 40;

/// A store on a disk that may fail, and the acknowledged records.
struct Run {
    what: String,
    chance: Chance,
    device: Arc<SimulatedDevice>,
    namespace: Namespace,
    acknowledged: BTreeMap<u64, Vec<u8>>,
    /// Outcomes of calls that failed: they may show after a reopening, as their entries may be
    /// whole.
    in_doubt: BTreeMap<u64, Vec<Option<Vec<u8>>>>,
    refused: u64,
    writes: u64,
}

fn on(device: &Arc<SimulatedDevice>) -> Options {
    Options {
        write_lanes: 2,
        ..options(devices(&[Arc::clone(device)]), BLOCKS)
    }
}

impl Run {
    fn new(what: String, seed: u64) -> Self {
        let device = simulated(1, BLOCKS).remove(0);
        let (namespace, _) = Namespace::open(on(&device)).unwrap();
        Self {
            what,
            chance: Chance(seed),
            device,
            namespace,
            acknowledged: BTreeMap::new(),
            in_doubt: BTreeMap::new(),
            refused: 0,
            writes: 0,
        }
    }

    /// Whether a call did what it should; a clear error otherwise.
    fn is_done<T>(&mut self, result: Result<T>) -> bool {
        let Err(error) = result else { return true };
        match error {
            Error::StopWrites { .. }
            | Error::NoSpace { .. }
            | Error::ReadOnly { .. }
            | Error::Device(_) => self.refused += 1,
            other => panic!("{}: {other}", self.what),
        }
        false
    }

    fn put(&mut self) {
        self.writes += 1;
        let record = self.chance.below(RECORDS);
        let bytes = payload(self.writes, self.chance.one_in(12));
        let lock = self.namespace.lock(&digest(record), None).unwrap();
        let result = lock.put(&version(&bytes)).map(|_| ());
        self.note(record, Some(bytes), result);
    }

    fn delete(&mut self) {
        let record = self.chance.below(RECORDS);
        let lock = self.namespace.lock(&digest(record), None).unwrap();
        let result = lock.delete(NOW_MS).map(|_| ());
        self.note(record, None, result);
    }

    fn note(&mut self, record: u64, outcome: Option<Vec<u8>>, result: Result<()>) {
        if !self.is_done(result) {
            self.in_doubt.entry(record).or_default().push(outcome);
            return;
        }
        self.in_doubt.remove(&record);
        match outcome {
            Some(bytes) => self.acknowledged.insert(record, bytes),
            None => self.acknowledged.remove(&record),
        };
    }

    fn group(&mut self) {
        let first = self.chance.below(RECORDS - 2);
        self.writes += 1;
        let bytes = payload(self.writes, false);
        let lock = |record| self.namespace.lock(&digest(record), None).unwrap();
        let changes = (first..first + 3).map(|record| (lock(record), Change::Put(version(&bytes))));
        let result = self.namespace.commit_group(changes.collect());
        let done = self.is_done(result);
        for record in first..first + 3 {
            if done {
                self.note(record, Some(bytes.clone()), Ok(()))
            } else {
                self.in_doubt
                    .entry(record)
                    .or_default()
                    .push(Some(bytes.clone()))
            }
        }
    }

    fn step(&mut self) {
        match self.chance.below(40) {
            0..28 => self.put(),
            28..33 => self.delete(),
            33..35 => self.group(),
            35..38 => {
                let synced = self.namespace.sync();
                self.is_done(synced);
            }
            38 => {
                let maintained = self.namespace.maintain();
                self.is_done(maintained);
            }
            _ => {
                let created = self.namespace.create_set("a set");
                self.is_done(created);
            }
        }
    }

    /// Every record reads as it was acknowledged. After a reopening, a record may also show the
    /// write of a failed call.
    fn check(&mut self, reopened: bool) {
        for record in 0..RECORDS {
            let found = get(&self.namespace, &digest(record));
            let found = found.unwrap_or_else(|error| panic!("{}: {record}: {error}", self.what));
            let expected = self.acknowledged.get(&record);
            let doubtful = self.in_doubt.get(&record).filter(|_| reopened);
            let is_doubtful = doubtful.is_some_and(|outcomes| outcomes.contains(&found));
            let what = format!("{}, reopened: {reopened}", self.what);
            assert!(
                found.as_ref() == expected || is_doubtful,
                "{what}: record {record}"
            );
            match found {
                Some(bytes) => self.acknowledged.insert(record, bytes),
                None => self.acknowledged.remove(&record),
            };
        }
        if reopened {
            self.in_doubt.clear();
        }
    }

    /// The process is killed and the store opened again, on a disk that is as full as it was.
    fn reopen(&mut self) {
        self.device = Arc::new(self.device.kill().unwrap());
        let verified = Namespace::verify(&on(&self.device)).unwrap();
        // A state or the header of a block that was being written when the disk failed is torn; it
        // has another copy.
        let damage = (verified.damaged_entries, verified.damaged_bytes);
        assert_eq!(damage, (0, 0), "{}: {verified:?}", self.what);
        self.namespace = match Namespace::open(on(&self.device)) {
            Ok((namespace, _)) => namespace,
            Err(error) => panic!("{}: it does not open again: {error}", self.what),
        };
        self.check(true);
    }
}

#[test]
fn a_disk_that_is_full_at_any_moment_costs_nothing_acknowledged() {
    // The device's header, and the staging memory of a lane.
    let least = HEADER_BYTES + (200 << 10);
    let (count, step) = if common::long() {
        (2_000, 4 << 10)
    } else {
        (40, 100 << 10)
    };
    let mut refused = 0;
    for number in 0..count {
        let space = least + number * step;
        let mut run = Run::new(format!("space for {} KiB", space >> 10), number);
        run.device.set_space_bytes(space);
        for _ in 0..2 {
            (0..60).for_each(|_| run.step());
            run.check(false);
            run.reopen();
        }
        refused += run.refused;
        // An operator makes room.
        run.device.set_space_bytes(u64::MAX);
        let maintained = run.namespace.maintain();
        maintained.unwrap_or_else(|error| panic!("{}: {error}", run.what));
        let before = run.refused;
        (0..20).for_each(|_| run.step());
        assert_eq!(
            run.refused, before,
            "{}: refused although there is room",
            run.what
        );
        run.check(false);
        run.reopen();
    }
    assert!(refused > count, "{refused}");
}

#[test]
fn a_write_that_fails_is_an_error_and_costs_nothing_acknowledged() {
    let mut refused = 0;
    for nth in 1..if common::long() { 1_500 } else { 80 } {
        let mut run = Run::new(format!("write {nth} fails"), nth);
        run.device.fail_write(nth);
        (0..120).for_each(|_| run.step());
        run.check(false);
        run.reopen();
        refused += run.refused;
        let before = run.refused;
        (0..20).for_each(|_| run.step());
        assert_eq!(
            run.refused, before,
            "{}: refused after the reopening",
            run.what
        );
        run.check(false);
        run.reopen();
    }
    assert!(refused > 40, "{refused}");
}

#[test]
fn deletes_go_on_when_the_disk_is_full() {
    for space in (1..12).map(|number| HEADER_BYTES + (number << 20)) {
        let run = Run::new(format!("space for {} KiB", space >> 10), space);
        run.device.set_space_bytes(space);
        let mut stored = 0;
        loop {
            let bytes = payload(stored, stored.is_multiple_of(5));
            let lock = run.namespace.lock(&digest(stored), None).unwrap();
            match lock.put(&version(&bytes)) {
                Ok(_) => stored += 1,
                Err(Error::StopWrites { .. }) => break,
                Err(other) => panic!("{}: {other}", run.what),
            }
        }
        for record in 0..stored.min(100) {
            let lock = run.namespace.lock(&digest(record), None).unwrap();
            let deleted = lock.delete(NOW_MS);
            let deleted = deleted.unwrap_or_else(|error| {
                panic!("{}: delete {record} of {stored}: {error}", run.what)
            });
            assert!(deleted.is_some());
        }
    }
}

#[test]
fn without_staging_a_directory_that_cannot_be_written_takes_no_entry_with_it() {
    // The directory goes to the device with the entry that makes it 32 KiB.
    const ENTRIES: u64 = 63 * 41 + 1;
    for nth in 1..16 {
        let device = common::simulated_unstaged(1, BLOCKS).remove(0);
        let (namespace, _) = Namespace::open(on(&device)).unwrap();
        let put = |record| common::put(&namespace, &digest(record), &payload(record, false));
        (0..ENTRIES - 8).for_each(|record| put(record).unwrap());
        device.fail_write(nth);
        let refused: Vec<u64> = (ENTRIES - 8..ENTRIES + 20)
            .filter(|record| put(*record).is_err())
            .collect();
        let left = Arc::new(device.kill().unwrap());
        let (namespace, _) = Namespace::open(on(&left)).unwrap();
        for record in 0..ENTRIES + 20 {
            let expected = (!refused.contains(&record)).then(|| payload(record, false));
            let found = get(&namespace, &digest(record)).unwrap();
            assert_eq!(found, expected, "write {nth} fails, record {record}");
        }
    }
}

#[test]
fn a_block_that_cannot_be_closed_goes_on_as_if_nothing_had_been_tried() {
    let mut refused = 0;
    for nth in 1..8 {
        let device = simulated(1, BLOCKS).remove(0);
        let (namespace, _) =
            Namespace::open(options(devices(std::slice::from_ref(&device)), BLOCKS)).unwrap();
        let put = |record: u64, bytes| {
            common::put(&namespace, &digest(record), &payload_of(record, 0, bytes))
        };
        // The block has no room for one more of these.
        (0..40).for_each(|record| put(record, 200 << 10).unwrap());
        device.fail_write(nth);
        let is_refused = put(40, 200 << 10).is_err();
        refused += u32::from(is_refused);
        device.fail_write(u64::MAX);
        (41..44).for_each(|record| put(record, 100).unwrap());
        namespace.sync().unwrap();
        // Staging memory alone has this one.
        put(44, 100).unwrap();
        let left = Arc::new(device.kill().unwrap());
        let (namespace, opening) = Namespace::open(options(devices(&[left]), BLOCKS)).unwrap();
        assert_eq!(opening.damaged_entries, 0, "write {nth} fails");
        for record in 0..45 {
            let bytes = if record <= 40 { 200 << 10 } else { 100 };
            let expected = (!is_refused || record != 40).then(|| payload_of(record, 0, bytes));
            let found = get(&namespace, &digest(record)).unwrap();
            assert!(found == expected, "write {nth} fails, record {record}");
        }
        // The last that its directory names.
        assert!(common::delete(&namespace, &digest(43)).unwrap());
        let done = namespace.maintain().unwrap();
        assert_eq!(done.dropped_tombstones, 0, "write {nth} fails");
    }
    assert!(refused > 2, "{refused}");
}

/// A device with faults of its own, with staging memory or without.
fn device_of(seed: u64, is_staged: bool) -> Arc<SimulatedDevice> {
    let header = spikelet_storage::Header {
        device_id: seed + 1,
        ..common::header(0, 1, BLOCKS)
    };
    let device = if is_staged {
        SimulatedDevice::new(&header)
    } else {
        SimulatedDevice::without_staging(&header)
    };
    Arc::new(device.unwrap())
}

#[test]
fn a_write_that_failed_behind_its_last_byte_is_not_there_after_a_kill() {
    let mut refused = 0;
    for (seed, is_staged) in (0..32).flat_map(|seed| [(seed, true), (seed, false)]) {
        let device = device_of(seed, is_staged);
        let (namespace, _) =
            Namespace::open(options(devices(std::slice::from_ref(&device)), BLOCKS)).unwrap();
        common::put(&namespace, &digest(1), b"before").unwrap();
        namespace.sync().unwrap();
        // The part of it that the disk did not take reads as zeros, too.
        device.fail_write(1);
        let is_refused = common::put(&namespace, &digest(2), &[0; 64 << 10]).is_err();
        refused += u32::from(is_refused);
        device.fail_write(u64::MAX);
        common::put(&namespace, &digest(3), b"behind").unwrap();
        let left = Arc::new(device.kill().unwrap());
        let (namespace, _) = Namespace::open(options(devices(&[left]), BLOCKS)).unwrap();
        let what = format!("seed {seed}, staged: {is_staged}");
        let found = |record| get(&namespace, &digest(record)).unwrap();
        assert_eq!(found(1).as_deref(), Some(&b"before"[..]), "{what}");
        assert_eq!(found(3).as_deref(), Some(&b"behind"[..]), "{what}");
        assert_eq!(found(2).is_none(), is_refused, "{what}");
    }
    assert!(refused > 50, "{refused}");
}

/// The disk refuses a group, and the zeros over the part that it took, too: the write is in doubt,
/// and the namespace takes no other one. Else entries that are staged behind would be lost.
#[test]
fn a_write_that_failed_and_cannot_be_erased_is_in_doubt() {
    let large = vec![0; 100 << 10];
    let mut in_doubt = 0;
    for (seed, is_staged) in (0..12).flat_map(|seed| [(seed, true), (seed, false)]) {
        for moment in 1..6 {
            let device = device_of(seed, is_staged);
            let storage = devices(std::slice::from_ref(&device));
            let (namespace, _) = Namespace::open(options(storage, BLOCKS)).unwrap();
            common::put(&namespace, &digest(2), b"before").unwrap();
            namespace.sync().unwrap();
            let mut members = [
                (digest(2), &b"a"[..]),
                (digest(3), b"b"),
                (digest(4), &large),
            ];
            members.sort_unstable_by_key(|(digest, _)| *digest);
            let group = members.iter().map(|(digest, payload)| {
                let lock = namespace.lock(digest, None).unwrap();
                (lock, Change::Put(version(payload)))
            });
            let group = group.collect();
            device.fail_write(1);
            let full = Arc::clone(&device);
            device.before_change(moment, move || full.set_refuses_writes(true));
            let refused = namespace.commit_group(group);
            device.before_change(u64::MAX, || {});
            device.fail_write(u64::MAX);
            device.set_refuses_writes(false);
            let behind = common::put(&namespace, &digest(2), b"behind");
            let what =
                format!("seed {seed}, staged: {is_staged}, {moment}: {refused:?}, {behind:?}");
            let left = Arc::new(device.kill().unwrap());
            let (namespace, _) = Namespace::open(options(devices(&[left]), BLOCKS)).unwrap();
            let found = |record| get(&namespace, &digest(record)).unwrap();
            match refused {
                Err(Error::InDoubt { .. }) => {
                    in_doubt += 1;
                    assert!(matches!(behind, Err(Error::ReadOnly { .. })), "{what}");
                    assert_eq!(found(3).is_some(), found(4).is_some(), "{what}");
                }
                Err(_) => assert_eq!((found(3), found(4)), (None, None), "{what}"),
                Ok(_) => assert!(found(3).is_some() && found(4).is_some(), "{what}"),
            }
            if behind.is_ok() {
                assert_eq!(found(2).as_deref(), Some(&b"behind"[..]), "{what}");
            }
        }
    }
    assert!(in_doubt > 5, "{in_doubt}");
}
