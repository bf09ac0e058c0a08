//! A store in a process that is killed while it writes: acknowledged writes are there, and deleted
//! records stay deleted.
//!
//! The child is this test binary, started again with [`CHILD_DIR`] set. Its threads note each
//! operation in a mapped file, which outlives them, before they begin it and after it was
//! acknowledged.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod common;

use common::{Chance, NOW_MS, delete, digest, files, get, options, put, version};
use spikelet_storage::{Change, Durability, Error, Namespace, Options};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const CHILD_DIR: &str = "SPIKELET_KILL_TEST_DIR";
const CHILD_ROUND: &str = "SPIKELET_KILL_TEST_ROUND";
const CHILD_DURABILITY: &str = "SPIKELET_KILL_TEST_DURABILITY";

/// What the child prints.
const PROGRESS: &str = "still writing";

const THREADS: u64 = 4;
/// Records of a thread; the last [`GROUP`] of them are only written as a group.
const EACH: u64 = 40;
const GROUP: u64 = 3;
/// Small enough for a store that has to use its blocks again.
const BLOCKS: u64 = 14;

/// The rounds end at random, so each may end before any block is emptied. Then up to `MORE_ROUNDS`
/// rounds follow, each of `MORE_LINES` lines.
const MORE_ROUNDS: u64 = 10;
const MORE_LINES: usize = 200;

/// A note of one record: number of the write that was begun last, and of the one that was
/// acknowledged last.
const NOTE_BYTES: u64 = 16;

fn durability(name: &str) -> Durability {
    match name {
        "process" => Durability::Process,
        "interval" => Durability::Interval(Duration::from_millis(5)),
        "commit" => Durability::Commit,
        other => panic!("{other}"),
    }
}

fn store_options(dir: &Path, durability: Durability) -> Options {
    Options {
        durability,
        background: true,
        write_lanes: 2,
        defrag_bytes_per_second: u64::MAX,
        ..options(files(dir, 1), BLOCKS)
    }
}

/// What a write leaves: a deletion, or a payload of a size and content of its own. Write 0: nothing
/// was ever written.
fn outcome(record: u64, write: u64) -> Option<Vec<u8>> {
    let mut chance = Chance(record ^ (write << 32));
    if write == 0 || chance.one_in(6) {
        return None;
    }
    let length = match chance.below(20) {
        0..2 => chance.below(400_000),
        2..6 => 200,
        _ => chance.below(300),
    };
    let mut bytes = write.to_le_bytes().to_vec();
    while bytes.len() < length as usize {
        bytes.extend(chance.next().to_le_bytes());
    }
    Some(bytes)
}

/// The file of the child's notes. Stores into the page cache outlive a killed process, as pipes do.
struct Notes(std::fs::File);

impl Notes {
    fn open(dir: &Path) -> Self {
        let mut options = OpenOptions::new();
        Self(
            options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(dir.join("notes"))
                .unwrap(),
        )
    }

    fn begun(&self, record: u64, write: u64) {
        self.0
            .write_all_at(&write.to_le_bytes(), record * NOTE_BYTES)
            .unwrap();
    }

    fn acknowledged(&self, record: u64, write: u64) {
        self.0
            .write_all_at(&write.to_le_bytes(), record * NOTE_BYTES + 8)
            .unwrap();
    }

    fn of(&self, record: u64) -> (u64, u64) {
        let mut bytes = [0; NOTE_BYTES as usize];
        // Beyond the end there is nothing yet.
        let _ = self.0.read_exact_at(&mut bytes, record * NOTE_BYTES);
        let (begun, acknowledged) = bytes.split_at(8);
        (
            u64::from_le_bytes(begun.try_into().unwrap()),
            u64::from_le_bytes(acknowledged.try_into().unwrap()),
        )
    }
}

/// Where the child notes how many blocks defragmentation has emptied.
const STATS: u64 = THREADS * EACH;

/// The child's work, until it is killed.
#[test]
#[ignore = "the child of the other tests"]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    let durability = durability(&std::env::var(CHILD_DURABILITY).unwrap());
    let round: u64 = std::env::var(CHILD_ROUND).unwrap().parse().unwrap();
    let (namespace, _) = Namespace::open(store_options(&dir.join("store"), durability)).unwrap();
    let notes = Notes::open(dir);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (namespace, notes) = (&namespace, &notes);
            scope.spawn(move || {
                write_for_ever(namespace, notes, thread, round, line_every(durability))
            });
        }
    });
}

/// The number of writes of a thread for which the child prints a line. The parent kills the child
/// after some lines: by its progress and not by the clock, since disks differ.
fn line_every(durability: Durability) -> u64 {
    if durability == Durability::Commit {
        2
    } else {
        50
    }
}

fn write_for_ever(namespace: &Namespace, notes: &Notes, thread: u64, round: u64, line_every: u64) {
    let mut chance = Chance(thread ^ (round << 8));
    let single = EACH - GROUP;
    let mut progress = 0;
    let mut write = (0..EACH)
        .map(|record| notes.of(thread * EACH + record).0)
        .max()
        .unwrap();
    loop {
        write += 1;
        if progress >= line_every {
            let stats = namespace.stats();
            notes.begun(STATS, stats.defragmented_blocks);
            println!("{PROGRESS}");
            progress = 0;
        }
        if thread == 0 && write.is_multiple_of(50) {
            // The background does it, too, but not within the life of a child.
            done(namespace.maintain().map(|_| ()));
        }
        if chance.one_in(1000) {
            namespace.sync().unwrap();
        }
        if chance.one_in(10) {
            let records: Vec<u64> = (single..EACH)
                .map(|record| thread * EACH + record)
                .collect();
            progress += u64::from(done(write_group(namespace, notes, &records, write)));
            continue;
        }
        // A few records are written most of the time, so that whole blocks of their versions are
        // dead.
        let of = if chance.one_in(4) { single } else { 4 };
        let record = thread * EACH + chance.below(of);
        notes.begun(record, write);
        let result = match outcome(record, write) {
            Some(payload) => put(namespace, &digest(record), &payload),
            None => delete(namespace, &digest(record)).map(|_| ()),
        };
        if done(result) {
            notes.acknowledged(record, write);
            progress += 1;
        }
    }
}

fn write_group(
    namespace: &Namespace,
    notes: &Notes,
    records: &[u64],
    write: u64,
) -> Result<(), Error> {
    let outcomes: Vec<_> = records
        .iter()
        .map(|record| (*record, outcome(*record, write)))
        .collect();
    records
        .iter()
        .for_each(|record| notes.begun(*record, write));
    let changes = outcomes
        .iter()
        .map(|(record, payload)| {
            let change = match payload {
                Some(payload) => Change::Put(version(payload)),
                None => Change::Delete(NOW_MS),
            };
            (namespace.lock(&digest(*record), None).unwrap(), change)
        })
        .collect();
    namespace.commit_group(changes)?;
    records
        .iter()
        .for_each(|record| notes.acknowledged(*record, write));
    Ok(())
}

/// False: there is no space until defragmentation has made some.
fn done(result: Result<(), Error>) -> bool {
    match result {
        Ok(()) => true,
        Err(Error::StopWrites { .. } | Error::NoSpace { .. }) => {
            std::thread::yield_now();
            false
        }
        Err(other) => {
            eprintln!("the child cannot go on: {other}");
            std::process::exit(1);
        }
    }
}

/// Which writes a record may show. A write that was refused has not happened, so every one begun
/// since the one acknowledged last is possible only if it is the very last: the ones between were
/// refused.
fn allowed(record: u64, begun: u64, acknowledged: u64) -> [(u64, Option<Vec<u8>>); 2] {
    [
        (acknowledged, outcome(record, acknowledged)),
        (begun, outcome(record, begun)),
    ]
}

fn rounds(name: &str, count: u64) {
    let count = if common::long() { 50 } else { count };
    // Under commit few blocks are filled.
    let is_enough = |defragmented| name == "commit" || defragmented > 0;
    let dir = tempfile::tempdir().unwrap();
    let notes = Notes::open(dir.path());
    let store = dir.path().join("store");
    let mut chance = Chance(count ^ name.len() as u64);
    let mut defragmented = 0;
    for round in 0..count + MORE_ROUNDS {
        if round >= count && is_enough(defragmented) {
            break;
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--ignored", "--nocapture"])
            .env(CHILD_DIR, dir.path())
            .env(CHILD_ROUND, round.to_string())
            .env(CHILD_DURABILITY, name)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let wanted = if round < count {
            1 + chance.below(60) as usize
        } else {
            MORE_LINES
        };
        let seen = lines
            .filter(|line| line.contains(PROGRESS))
            .take(wanted)
            .count();
        assert_eq!(
            seen, wanted,
            "{name}, round {round}: the child has ended by itself"
        );
        child.kill().unwrap();
        child.wait().unwrap();

        let what = format!("{name}, round {round}");
        let read_only = options(files(&store, 1), BLOCKS);
        let verified = Namespace::verify(&read_only).unwrap();
        assert_eq!(
            (verified.damaged_headers, verified.damaged_entries),
            (0, 0),
            "{what}: {:?}",
            verified.places
        );
        let (namespace, opening) =
            Namespace::open(store_options(&store, durability(name))).unwrap();
        assert!(
            !opening.from_snapshot && opening.damaged_entries == 0,
            "{what}: {opening:?}"
        );
        for thread in 0..THREADS {
            check_thread(&namespace, &notes, thread, &what);
        }
        defragmented += notes.of(STATS).0;
        // The next child begins with the versions that were found.
        for record in 0..THREADS * EACH {
            let (begun, acknowledged) = notes.of(record);
            let found = get(&namespace, &digest(record)).unwrap();
            let shown = allowed(record, begun, acknowledged)
                .into_iter()
                .find(|(_, outcome)| *outcome == found);
            let (write, _) = shown.unwrap();
            notes.begun(record, write);
            notes.acknowledged(record, write);
        }
        if chance.one_in(3) {
            namespace.close().unwrap();
        }
    }
    assert!(
        is_enough(defragmented),
        "{name}: no block was emptied even in {MORE_ROUNDS} further rounds of {MORE_LINES} lines"
    );
}

fn check_thread(namespace: &Namespace, notes: &Notes, thread: u64, what: &str) {
    let mut group = Vec::new();
    for record in thread * EACH..(thread + 1) * EACH {
        let (begun, acknowledged) = notes.of(record);
        let found = get(namespace, &digest(record))
            .unwrap_or_else(|error| panic!("{what}: record {record}: {error}"));
        let shown = allowed(record, begun, acknowledged)
            .into_iter()
            .position(|(_, outcome)| outcome == found);
        let Some(shown) = shown else {
            let found = found.map(|payload| u64::from_le_bytes(payload[..8].try_into().unwrap()));
            panic!(
                "{what}: record {record} shows write {found:?}; begun {begun}, acknowledged {acknowledged}"
            );
        };
        if record % EACH >= EACH - GROUP && outcome(record, begun) != outcome(record, acknowledged)
        {
            group.push(shown);
        }
    }
    // Of the group that was being written, all is there or nothing.
    group.dedup();
    assert!(
        group.len() <= 1,
        "{what}: thread {thread} left a part of a group"
    );
}

#[test]
fn a_killed_process_loses_nothing_acknowledged() {
    rounds("process", 8);
}

#[test]
fn a_killed_process_loses_nothing_acknowledged_with_syncs_at_intervals() {
    rounds("interval", 8);
}

#[test]
fn a_killed_process_loses_nothing_acknowledged_under_commit() {
    rounds("commit", 8);
}
