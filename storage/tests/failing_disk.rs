//! Disks that fail at syncs or are full: the namespace says so and costs nothing that was promised.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{
    Chance, delete, devices, digest, get, get_or_damaged, options, payload, payload_of, put,
    simulated, simulated_unstaged, version,
};
use spikelet_storage::{
    Change, Digest, Durability, EntryView, Error, Namespace, NewVersion, Observer, Options,
    SimulatedDevice, Truncate,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BLOCKS: u64 = 9;

#[test]
fn a_failed_sync_makes_the_namespace_read_only_and_says_why() {
    let origin = simulated(1, BLOCKS);
    let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
    put(&namespace, &digest(1), b"synced").unwrap();
    namespace.sync().unwrap();
    put(&namespace, &digest(1), b"unsynced").unwrap();
    origin[0].fail_sync(1, 0);
    // The disk is well again after the first failure, and that makes no difference.
    for _ in 0..2 {
        let lock = |number| namespace.lock(&digest(number), None).unwrap();
        let attempts = [
            namespace.sync(),
            put(&namespace, &digest(1), b"refused"),
            put(&namespace, &digest(2), b"refused"),
            delete(&namespace, &digest(1)).map(|_| ()),
            namespace
                .commit_group(vec![(lock(1), Change::Put(version(b"refused")))])
                .map(drop),
            namespace.create_set("refused").map(|_| ()),
        ];
        for (number, attempt) in attempts.into_iter().enumerate() {
            match attempt {
                Err(Error::ReadOnly { namespace, reason }) => {
                    assert_eq!(namespace, common::NAME);
                    assert!(reason.contains("simulated I/O error"), "{reason}");
                }
                other => panic!("attempt {number}: {other:?}"),
            }
        }
        assert_eq!(
            get(&namespace, &digest(1)).unwrap().unwrap(),
            b"unsynced",
            "reads go on"
        );
        assert!(
            namespace
                .stats()
                .read_only
                .unwrap()
                .contains("simulated I/O error")
        );
    }
    for seed in 0..8 {
        let crashed = [Arc::new(origin[0].crash(seed).unwrap())];
        let (namespace, _) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
        let found = get(&namespace, &digest(1)).unwrap().unwrap();
        assert!(found == b"synced" || found == b"unsynced", "{found:?}");
        assert_eq!(get(&namespace, &digest(2)).unwrap(), None);
        put(&namespace, &digest(1), b"goes on").unwrap();
        namespace.sync().unwrap();
    }
}

#[test]
fn a_write_whose_sync_fails_is_in_doubt() {
    let origin = simulated(1, BLOCKS);
    let commit = Options {
        durability: Durability::Commit,
        ..options(devices(&origin), BLOCKS)
    };
    let (namespace, _) = Namespace::open(commit).unwrap();
    put(&namespace, &digest(1), b"acknowledged").unwrap();
    origin[0].fail_sync(1, 0);
    match put(&namespace, &digest(1), b"in doubt") {
        Err(Error::InDoubt { reason }) => {
            assert!(reason.contains("simulated I/O error"), "{reason}")
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        get(&namespace, &digest(1)).unwrap().unwrap(),
        b"in doubt",
        "it was applied"
    );
    let refused = put(&namespace, &digest(1), b"refused").unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
}

/// Puts records of 4 KB, after others that a sync has made durable, on a disk that strands pages of
/// the next sync. Opens the store again, makes it durable, and then takes the system down.
fn what_is_durable_after_a_reopening_survives_a_remount(records: u64) {
    let record = |number| payload_of(number, 0, 4000);
    for seed in 0..8 {
        let origin = simulated(1, BLOCKS);
        let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
        for number in 0..10 {
            put(&namespace, &digest(number), &record(number)).unwrap();
            namespace.sync().unwrap();
        }
        for number in 10..records {
            put(&namespace, &digest(number), &record(number)).unwrap();
        }
        origin[0].fail_sync_for_good(1, seed);
        namespace.sync().unwrap_err();

        let reopened = [Arc::new(origin[0].kill().unwrap())];
        let commit = Options {
            durability: Durability::Commit,
            ..options(devices(&reopened), BLOCKS)
        };
        let (namespace, _) = Namespace::open(commit).unwrap();
        for number in 0..records {
            let found = get(&namespace, &digest(number)).unwrap();
            assert!(
                found == Some(record(number)),
                "seed {seed}, record {number}"
            );
        }
        namespace.sync().unwrap();
        put(&namespace, &digest(records), &record(records)).unwrap();

        let remounted = [Arc::new(reopened[0].crash(seed).unwrap())];
        let (namespace, opening) = Namespace::open(options(devices(&remounted), BLOCKS)).unwrap();
        let lost = (0..=records)
            .filter(|number| {
                get_or_damaged(&namespace, &digest(*number)) != Some(Some(record(*number)))
            })
            .count();
        assert_eq!(lost, 0, "seed {seed}: {opening:?}");
        assert_eq!(
            (opening.damaged_entries, opening.damaged_blocks),
            (0, 0),
            "seed {seed}"
        );
    }
}

#[test]
fn what_is_durable_after_a_reopening_survives_a_remount_that_zeroes_pages_of_an_open_block() {
    what_is_durable_after_a_reopening_survives_a_remount(400);
}

#[test]
fn what_is_durable_after_a_reopening_survives_a_remount_that_zeroes_pages_of_new_blocks() {
    what_is_durable_after_a_reopening_survives_a_remount(5_000);
}

#[test]
fn an_opening_after_a_power_failure_whose_sync_fails_leaves_no_page_to_be_used_again() {
    let record = |number| payload_of(number, 0, 60_000);
    for round in 0..24 {
        let (nth, seed) = (1 + round % 6, round);
        let origin = simulated(1, BLOCKS);
        let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
        put(&namespace, &digest(0), &record(0)).unwrap();
        namespace.sync().unwrap();
        for number in 1..200 {
            put(&namespace, &digest(number), &record(number)).unwrap();
        }
        let crashed = [Arc::new(origin[0].crash(seed).unwrap())];
        crashed[0].fail_sync_for_good(nth, seed);
        let failed = Namespace::open(options(devices(&crashed), BLOCKS));
        let Err(Error::ReadOnly { .. }) = failed else {
            continue;
        };
        // In the same life of the machine; all blocks but the reserve are used.
        let reopened = [Arc::new(crashed[0].kill().unwrap())];
        let (namespace, _) = Namespace::open(options(devices(&reopened), BLOCKS)).unwrap();
        for number in 0..1_000 {
            put(&namespace, &digest(number % 300), &record(number % 300)).unwrap();
            if number % 100 == 99 {
                namespace.maintain().unwrap();
            }
        }
        namespace.sync().unwrap();
        let remounted = [Arc::new(reopened[0].crash(seed).unwrap())];
        let verified = Namespace::verify(&options(devices(&remounted), BLOCKS)).unwrap();
        assert!(!verified.is_damaged(), "round {round}: {verified:?}");
        let (namespace, _) = Namespace::open(options(devices(&remounted), BLOCKS)).unwrap();
        for number in 0..300 {
            let found = get_or_damaged(&namespace, &digest(number));
            assert!(found == Some(Some(record(number))), "round {round}");
        }
    }
}

#[test]
fn a_truncation_that_was_not_durable_does_not_close_a_full_disk_after_a_power_failure() {
    let mut survived = 0;
    for seed in 0..32 {
        let origin = simulated(1, BLOCKS);
        let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
        put(&namespace, &digest(1), &payload_of(1, 0, 4000)).unwrap();
        namespace.sync().unwrap();
        put(&namespace, &digest(2), &payload_of(2, 0, 40_000)).unwrap();
        namespace.truncate(Truncate::Namespace, Some(1)).unwrap();
        put(&namespace, &digest(3), &payload_of(3, 0, 40_000)).unwrap();
        origin[0].writeback(seed);
        let crashed = [Arc::new(origin[0].crash(seed).unwrap())];
        crashed[0].set_space_bytes(0);
        let opened = Namespace::open(options(devices(&crashed), BLOCKS));
        let (namespace, _) = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        survived += u32::from(get(&namespace, &digest(3)).unwrap().is_some());
        assert!(get(&namespace, &digest(1)).unwrap().is_some());
    }
    assert!(survived > 0, "no seed leaves what follows the truncation");
}

/// The writes: record and version, `None` for a deletion.
type Written = Vec<(u64, Option<u64>)>;

/// A store with syncs that fail for good every now and then, and its writes.
struct Failing {
    what: String,
    chance: Chance,
    disk: Arc<SimulatedDevice>,
    /// What the store held when it was opened.
    before: BTreeMap<u64, u64>,
    written: Written,
    /// So many of them were synced.
    synced: usize,
    /// The last version that was given out.
    version: u64,
}

impl Failing {
    const BLOCKS: u64 = 10;
    const RECORDS: u64 = 60;

    fn new(seed: u64) -> Self {
        Self {
            what: format!("seed {seed}"),
            chance: Chance(seed ^ 0xfa11),
            disk: simulated(1, Self::BLOCKS).remove(0),
            before: BTreeMap::new(),
            written: Vec::new(),
            synced: 0,
            version: 0,
        }
    }

    fn options(&self) -> Options {
        Options {
            defrag_threshold_percent: 80,
            ..options(devices(&[Arc::clone(&self.disk)]), Self::BLOCKS)
        }
    }

    /// Writes until a sync has failed, or for a while.
    fn live(&mut self, namespace: &Namespace) {
        let fails = !self.chance.one_in(4);
        let steps = 10 + self.chance.below(250);
        let fails_at = self.chance.below(steps);
        for step in 0..steps {
            if fails && step == fails_at {
                let nth = 1 + self.chance.below(3);
                self.disk.fail_sync_for_good(nth, self.chance.next());
            }
            let record = self.chance.below(Self::RECORDS);
            self.version += 1;
            let number = self.version;
            let synced = self.written.len();
            let done = match self.chance.below(20) {
                0 => namespace.sync().map(|()| self.synced = synced),
                1 => namespace.maintain().map(drop),
                2 => {
                    self.disk.writeback(self.chance.next());
                    Ok(())
                }
                3..6 => delete(namespace, &digest(record)).map(|was_there| {
                    if was_there {
                        self.written.push((record, None));
                    }
                }),
                _ => {
                    let bytes = 100 << self.chance.below(11);
                    put(
                        namespace,
                        &digest(record),
                        &payload_of(record, number, bytes),
                    )
                    .map(|()| self.written.push((record, Some(number))))
                }
            };
            match done {
                Err(Error::ReadOnly { .. }) => return,
                Ok(()) | Err(Error::StopWrites { .. } | Error::NoSpace { .. }) => {}
                Err(error) => panic!("{}: {error}", self.what),
            }
        }
    }

    /// Opens the store, of which nothing may be damaged, and reads which versions it holds.
    fn open(&self) -> spikelet_storage::Result<(Namespace, BTreeMap<u64, u64>)> {
        let verified = Namespace::verify(&self.options()).unwrap();
        assert!(!verified.is_damaged(), "{}: {verified:?}", self.what);
        let (namespace, _) = Namespace::open(self.options())?;
        let mut found = BTreeMap::new();
        for record in 0..Self::RECORDS {
            if let Some(payload) = get(&namespace, &digest(record)).unwrap() {
                let version = u64::from_le_bytes(payload[8..16].try_into().unwrap());
                assert!(payload == payload_of(record, version, payload.len()));
                found.insert(record, version);
            }
        }
        Ok((namespace, found))
    }

    /// Whether the store holds the result of a first part of the writes, the first `needed` ones at
    /// least.
    fn is_prefix(&self, found: &BTreeMap<u64, u64>, needed: usize) -> bool {
        let mut state = self.before.clone();
        for (count, (record, version)) in self.written.iter().enumerate() {
            if count >= needed && state == *found {
                return true;
            }
            match version {
                Some(version) => state.insert(*record, *version),
                None => state.remove(record),
            };
        }
        state == *found
    }

    /// A kill, openings that may fail in turn or lose power, and a remount.
    fn fail_and_return(&mut self) {
        self.disk = Arc::new(self.disk.kill().unwrap());
        let mut needed = self.written.len();
        let (namespace, found) = loop {
            if self.chance.one_in(2) {
                let nth = 1 + self.chance.below(8);
                self.disk.fail_sync_for_good(nth, self.chance.next());
            }
            match self.open() {
                Ok(opened) => break opened,
                Err(Error::ReadOnly { .. } | Error::Device(_)) => {}
                Err(error) => panic!("{}: {error}", self.what),
            }
            let loses_power = self.chance.one_in(3);
            self.disk = Arc::new(if loses_power {
                self.disk.crash(self.chance.next()).unwrap()
            } else {
                self.disk.kill().unwrap()
            });
            if loses_power {
                needed = self.synced;
            }
        };
        assert!(self.is_prefix(&found, needed), "{}: no prefix", self.what);
        self.begin_with(found);
        if self.chance.one_in(2) {
            // The system goes on, with its copies in memory of pages that were given up.
            self.live(&namespace);
        }
        drop(namespace);
        self.disk = Arc::new(self.disk.crash(self.chance.next()).unwrap());
        let (namespace, remounted) = self.open().unwrap();
        let is_prefix = self.is_prefix(&remounted, self.synced);
        assert!(is_prefix, "{}: no prefix after the remount", self.what);
        drop(namespace);
        self.begin_with(remounted);
    }

    fn begin_with(&mut self, found: BTreeMap<u64, u64>) {
        self.before = found;
        self.written.clear();
        self.synced = 0;
    }
}

#[test]
fn no_page_that_a_failed_sync_has_given_up_is_used_again() {
    for seed in 0..if common::long() { 4_000 } else { 40 } {
        let mut failing = Failing::new(seed);
        if seed % 4 == 0 {
            failing.fail_and_return();
        }
        for life in 0..3 {
            failing.what = format!("seed {seed}, life {life}");
            match failing.open() {
                Ok((namespace, _)) => failing.live(&namespace),
                Err(error) => panic!("{}: {error}", failing.what),
            }
            failing.fail_and_return();
        }
    }
}

/// A failed sync may have given up the page of the state that says so, which an opening reads in
/// memory.
#[test]
fn a_power_failure_after_two_openings_whose_syncs_fail_leaves_no_damage() {
    let origin = simulated(1, BLOCKS);
    let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
    put(&namespace, &digest(0), b"synced").unwrap();
    (0..2).for_each(|_| namespace.sync().unwrap());
    put(&namespace, &digest(1), b"not synced").unwrap();
    origin[0].fail_sync_for_good(1, 0);
    assert!(namespace.sync().is_err());
    let mut failed = 0;
    for (nth, seed) in (1..4).flat_map(|nth| (0..40).map(move |seed| (nth, seed))) {
        let mut disks = [Arc::new(origin[0].kill().unwrap())];
        for nth in [1, nth] {
            disks[0].fail_sync_for_good(nth, seed + nth);
            failed += u64::from(Namespace::open(options(devices(&disks), BLOCKS)).is_err());
            disks = [Arc::new(disks[0].kill().unwrap())];
        }
        let crashed = [Arc::new(disks[0].crash(seed).unwrap())];
        let options = options(devices(&crashed), BLOCKS);
        let verified = Namespace::verify(&options).unwrap();
        assert!(
            !verified.is_damaged(),
            "sync {nth}, seed {seed}: {verified:?}"
        );
        let (namespace, _) = Namespace::open(options).unwrap();
        let found = get(&namespace, &digest(0)).unwrap();
        assert_eq!(found, Some(b"synced".to_vec()), "sync {nth}, seed {seed}");
    }
    assert!(failed > 200, "{failed} openings failed");
}

#[test]
fn a_full_disk_refuses_writes_and_costs_nothing() {
    let origin = simulated(1, 20);
    let (namespace, _) = Namespace::open(options(devices(&origin), 20)).unwrap();
    origin[0].set_space_bytes(common::device_bytes(9));
    let mut stored = 0;
    let refused = loop {
        match put(&namespace, &digest(stored), &payload(stored, true)) {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::StopWrites { .. }), "{refused}");
    namespace.sync().unwrap();
    let crashed = [Arc::new(origin[0].crash(1).unwrap())];
    let (namespace, _) = Namespace::open(options(devices(&crashed), 20)).unwrap();
    for number in 0..stored {
        assert!(get(&namespace, &digest(number)).unwrap().unwrap() == payload(number, true));
    }
    assert!(delete(&namespace, &digest(0)).unwrap(), "deleting goes on");
}

#[test]
fn a_sync_that_finds_no_room_is_tried_again() {
    for is_staged in [true, false] {
        let origin = if is_staged {
            simulated(1, BLOCKS)
        } else {
            simulated_unstaged(1, BLOCKS)
        };
        let (namespace, _) = Namespace::open(options(devices(&origin), BLOCKS)).unwrap();
        put(&namespace, &digest(1), b"synced").unwrap();
        namespace.sync().unwrap();
        put(&namespace, &digest(1), b"unsynced").unwrap();
        origin[0].set_refuses_writes(true);
        for _ in 0..3 {
            let refused = [
                namespace.sync().unwrap_err(),
                put(&namespace, &digest(2), b"refused").unwrap_err(),
            ];
            for error in refused {
                assert!(matches!(error, Error::StopWrites { .. }), "{error}");
            }
        }
        assert_eq!(namespace.stats().read_only, None);
        assert_eq!(
            get(&namespace, &digest(1)).unwrap().unwrap(),
            b"unsynced",
            "reads go on"
        );
        if is_staged {
            delete(&namespace, &digest(1)).unwrap();
            put(&namespace, &digest(2), b"refused").unwrap_err();
        }
        // The disk as it is by now opens as it was synced.
        for seed in 0..8 {
            let crashed = [Arc::new(origin[0].crash(seed).unwrap())];
            crashed[0].set_refuses_writes(false);
            let verified = Namespace::verify(&options(devices(&crashed), BLOCKS)).unwrap();
            assert!(!verified.is_damaged(), "{verified:?}");
            let (namespace, _) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
            let may_be = [Some(b"synced".to_vec()), Some(b"unsynced".to_vec())];
            let found = get(&namespace, &digest(1)).unwrap();
            let is_deleted = is_staged && found.is_none();
            assert!(may_be.contains(&found) || is_deleted, "{found:?}");
        }
        // The operator makes room.
        origin[0].set_refuses_writes(false);
        namespace.sync().unwrap();
        put(&namespace, &digest(2), b"goes on").unwrap();
        namespace.sync().unwrap();
        let crashed = [Arc::new(origin[0].crash(9).unwrap())];
        let (namespace, _) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
        let first = get(&namespace, &digest(1)).unwrap();
        assert_eq!(first, (!is_staged).then(|| b"unsynced".to_vec()));
        assert_eq!(get(&namespace, &digest(2)).unwrap().unwrap(), b"goes on");
    }
}

#[test]
fn a_write_whose_sync_finds_no_room_is_in_doubt_and_the_next_are_refused() {
    let origin = simulated(1, BLOCKS);
    let commit = Options {
        durability: Durability::Commit,
        ..options(devices(&origin), BLOCKS)
    };
    let (namespace, _) = Namespace::open(commit).unwrap();
    put(&namespace, &digest(1), b"acknowledged").unwrap();
    origin[0].set_refuses_writes(true);
    let in_doubt = put(&namespace, &digest(1), b"in doubt").unwrap_err();
    assert!(matches!(in_doubt, Error::InDoubt { .. }), "{in_doubt}");
    let refused = put(&namespace, &digest(2), b"refused").unwrap_err();
    assert!(matches!(refused, Error::StopWrites { .. }), "{refused}");
    // Trying the disk again takes a sync that finds room.
    let _ = namespace.maintain();
    let refused = put(&namespace, &digest(2), b"refused").unwrap_err();
    assert!(matches!(refused, Error::StopWrites { .. }), "{refused}");
    origin[0].set_refuses_writes(false);
    namespace.maintain().unwrap();
    put(&namespace, &digest(2), b"goes on").unwrap();
    let crashed = [Arc::new(origin[0].crash(1).unwrap())];
    let (namespace, _) = Namespace::open(options(devices(&crashed), BLOCKS)).unwrap();
    assert_eq!(get(&namespace, &digest(1)).unwrap().unwrap(), b"in doubt");
    assert_eq!(get(&namespace, &digest(2)).unwrap().unwrap(), b"goes on");
}

/// Counts the records that were shown as expired.
#[derive(Debug, Default)]
struct ShownExpired(AtomicU64);

impl Observer for ShownExpired {
    fn expires(&self, _: &EntryView<'_>, _: &dyn Fn() -> String) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn contends(&self, _: &Digest, _: bool) {}

    fn notes(&self) -> Vec<u8> {
        Vec::new()
    }

    fn restore(&self, _: &[u8]) {}
}

#[test]
fn an_expired_record_whose_tombstone_fails_was_not_shown_as_removed() {
    let origin = simulated_unstaged(1, BLOCKS);
    let observer = Arc::new(ShownExpired::default());
    let mut options = options(devices(&origin), BLOCKS);
    options.observer = Some(Arc::clone(&observer) as Arc<dyn Observer>);
    let (namespace, _) = Namespace::open(options).unwrap();
    let expiring = NewVersion {
        void_time: 1,
        ..version(b"expires")
    };
    let lock = namespace.lock(&digest(1), None).unwrap();
    lock.put(&expiring).unwrap();
    origin[0].fail_write(1);
    namespace.maintain().unwrap_err();
    assert_eq!(observer.0.load(Ordering::SeqCst), 0);
    assert_eq!(namespace.maintain().unwrap().expired, 1);
    assert_eq!(observer.0.load(Ordering::SeqCst), 1);
}
