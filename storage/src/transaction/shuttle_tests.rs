//! The commit of transactions under the model checker, with the real store below: thousands of
//! schedules of transactions, snapshot reads, single writers, truncations and forgotten tombstones.
//! Each rule is left out once, and the check must see it. Run with
//! `RUSTFLAGS="--cfg shuttle" cargo test -p spikelet-storage --lib --release transaction`.
//!
//! What a crash leaves of a commit is that of its group, whole or nothing:
//! `storage/tests/groups.rs`.

use super::*;
use crate::Truncate;
use crate::interleavings::harness::{digest, explore, open, version};
use crate::rules::{StorageRule, without};
use crate::sync::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// The rules are global: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

const BYTES: usize = 40;

/// Returns the version that a transaction sees, and the number in the record, 0 for an absence.
fn look(namespace: &Namespace, record: u8) -> (SeenRecord, u8) {
    let digest = digest(record);
    namespace.get_versioned(&digest, |version, found| {
        let number = found.unwrap().map_or(0, |entry| entry.payload()[0]);
        (SeenRecord { digest, version }, number)
    })
}

/// Commits these numbers over the versions seen; 0 deletes. Returns false for a conflict.
fn commit(namespace: &Namespace, reads: &[SeenRecord], writes: &[(SeenRecord, u8)]) -> bool {
    let payloads: Vec<[u8; BYTES]> = writes.iter().map(|(_, number)| [*number; BYTES]).collect();
    let mut changes: Vec<RecordChange<'_>> = writes
        .iter()
        .zip(&payloads)
        .map(|((seen, number), payload)| RecordChange {
            seen: *seen,
            change: match number {
                0 => Change::Delete(2),
                _ => Change::Put(version(payload)),
            },
        })
        .collect();
    changes.sort_by_key(|change| change.seen.digest);
    match namespace.lock_unchanged(reads, &changes, 0, None) {
        Ok(locked) => match namespace.apply_group(locked) {
            Ok(_) => true,
            // A truncation has begun since.
            Err(Error::Conflict { .. }) => false,
            Err(error) => panic!("{error}"),
        },
        Err(Error::Conflict { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

/// Adds one to each of these records, again and again until it is committed.
fn add_to_all(namespace: &Namespace, records: &[u8]) {
    loop {
        let writes: Vec<_> = records
            .iter()
            .map(|record| look(namespace, *record))
            .map(|(seen, number)| (seen, number + 1))
            .collect();
        if commit(namespace, &[], &writes) {
            return;
        }
        thread::yield_now();
    }
}

fn spawn(
    namespace: &Namespace,
    run: impl FnOnce(&Namespace) + Send + 'static,
) -> thread::JoinHandle<()> {
    let namespace = namespace.clone();
    thread::spawn(move || run(&namespace))
}

fn join(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

fn lost_updates() {
    let namespace = open();
    let threads: Vec<_> = (0..2)
        .map(|_| spawn(&namespace, |namespace| add_to_all(namespace, &[0, 1])))
        .collect();
    join(threads);
    assert_eq!([0, 1].map(|record| look(&namespace, record).1), [2, 2]);
}

/// Two transactions look at both records, and each writes one of them if the other is 0.
fn write_skew() {
    let namespace = open();
    let threads = [(0, 1), (1, 0)].map(|(own, other)| {
        spawn(&namespace, move |namespace| {
            let (seen, number) = look(namespace, other);
            let (own, _) = look(namespace, own);
            if number == 0 {
                commit(namespace, &[seen], &[(own, 1)]);
            }
        })
    });
    join(threads);
    let written: u8 = [0, 1]
        .iter()
        .map(|record| look(&namespace, *record).1)
        .sum();
    assert!(written <= 1, "write skew");
}

/// A snapshot of records that are always written together.
fn snapshots_of_groups() {
    let namespace = open();
    let writer = spawn(&namespace, |namespace| add_to_all(namespace, &[0, 1]));
    for _ in 0..2 {
        // The one that is published last first.
        let (one, first) = look(&namespace, 1);
        let (other, second) = look(&namespace, 0);
        if commit(&namespace, &[one, other], &[]) {
            assert_eq!(first, second, "half a group");
        }
    }
    let (other, second) = look(&namespace, 0);
    let (one, first) = look(&namespace, 1);
    if commit(&namespace, &[one, other], &[]) {
        assert_eq!(first, second, "half a group");
    }
    join([writer]);
}

/// An absence that has ended and come back, without a trace in the index, is not the one that was
/// seen.
fn absences() {
    let namespace = open();
    let (zero, there) = look(&namespace, 0);
    let (one, _) = look(&namespace, 1);
    assert_eq!(there, 0);
    let other = spawn(&namespace, |namespace| {
        let payload = [1; BYTES];
        let locked = namespace.lock(&digest(0), None);
        let applied = locked.unwrap().apply(&Change::Put(version(&payload)));
        applied.unwrap();
        namespace.truncate(Truncate::Namespace, None).unwrap();
    });
    thread::yield_now();
    join([other]);
    assert_eq!(look(&namespace, 0).1, 0);
    assert!(!commit(&namespace, &[zero], &[(one, 1)]), "read only");
    assert!(!commit(&namespace, &[], &[(zero, 1)]), "written");
}

/// A truncation takes all of a group or nothing of it, and the versions that the group has read do
/// not come back.
fn truncations() {
    let namespace = open();
    add_to_all(&namespace, &[0, 1]);
    let writer = spawn(&namespace, |namespace| add_to_all(namespace, &[0, 1]));
    namespace.truncate(Truncate::Namespace, None).unwrap();
    join([writer]);
    let [one, other] = [0, 1].map(|record| look(&namespace, record).1);
    assert_eq!(one, other, "half a group was truncated");
    assert!(one < 2, "a truncated version is back");
}

type Scenario = (&'static str, usize, fn());

const SCENARIOS: [Scenario; 5] = [
    ("lost updates", 1_500, lost_updates),
    ("write skew", 1_500, write_skew),
    ("snapshots of groups", 1_500, snapshots_of_groups),
    ("absences", 5, absences),
    ("truncations", 2_500, truncations),
];

#[test]
fn transactions_are_serializable_in_every_schedule() {
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    for (name, runs, scenario) in SCENARIOS {
        println!("{name}");
        explore(runs, scenario);
    }
}

#[test]
fn each_rule_is_needed() {
    let _alone = ALONE.lock().unwrap_or_else(|error| error.into_inner());
    let rules = [
        (StorageRule::WrittenUnchanged, "lost updates"),
        (StorageRule::ReadsUnchanged, "write skew"),
        (StorageRule::ReadsUnlocked, "write skew"),
        (StorageRule::AbsencesCounted, "absences"),
    ];
    for (rule, wanted) in rules {
        let scenario = SCENARIOS.iter().find(|(name, ..)| *name == wanted);
        let (_, runs, scenario) = *scenario.unwrap();
        let check = || catch_unwind(AssertUnwindSafe(|| explore(runs, scenario)));
        let outcome = without(rule, check);
        println!("without {rule:?}, {wanted}: {}", outcome.is_err());
        assert!(outcome.is_err(), "nothing is wrong without {rule:?}");
    }
}
