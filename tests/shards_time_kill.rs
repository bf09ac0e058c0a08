//! Time shards that are written, trimmed, read and deleted in a process that is killed in the midst
//! of it: every acknowledged add that was not removed is there once, nothing removed is back, and
//! nothing of a deleted collection.
//!
//! The child is this test binary, started again with [`CHILD_DIR`] set. Each writer adds the
//! numbers of its row, each in a bucket of its own that no other row has, and removes them from
//! below. It prints a line for each acknowledged call, and the lines outlive it in the pipe. A
//! round ends after a number of calls and not by the clock. `SPIKELET_LONG=1` does 30 rounds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use spikelet::shard::{TimeWidth, sharded_collections};
use spikelet::{Durability, NamespaceConfig, Set, Store, TimeShards, Value, WritePolicy};

const CHILD_DIR: &str = "SPIKELET_TIME_SHARDS_KILL_TEST_DIR";
const BEGINS: &str = "SPIKELET_TIME_SHARDS_KILL_TEST_BEGINS";
const ROWS: u64 = 4;
/// Numbers of a row; rows never touch.
const ROW: u64 = 1 << 20;
/// How many numbers a row keeps.
const KEPT: u64 = 60;
/// Buckets of a collection that is deleted, and begun again.
const DOOMED: u64 = 6;

fn open(dir: &Path) -> Store {
    let mut config = NamespaceConfig::new("test");
    config.durability = Durability::Interval(Duration::from_millis(5));
    // The child does not retry, so no writer may be refused.
    config.max_waiters = 1_000;
    Store::builder()
        .path(dir.join("store"))
        .namespace(config)
        .open()
        .unwrap()
}

fn feed(store: &Store, bin: &str) -> TimeShards<Set> {
    // Many threads on few cores: no call may time out.
    let patient = WritePolicy::default().total_timeout(None);
    let minute = TimeWidth::minutes(1).unwrap();
    TimeShards::new_with(store, "hot", "key", bin, minute, &patient).unwrap()
}

/// When a number of a row is added: some hundred a day, and each row in years of its own.
fn time(row: u64, number: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(row * 20 * 365 * 86_400 + number * 11 * 60 + number % 7)
}

fn element(row: u64, number: u64) -> Value {
    Value::Int((row * ROW + number) as i64)
}

/// Prints a line for the parent: the acknowledged call, its row, and its number.
fn tell(what: &str, row: u64, number: u64) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "told {what} {row} {number}").unwrap();
    out.flush().unwrap();
}

/// The child's work, until it is killed.
#[test]
#[ignore = "the child of the other test"]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    let store = open(Path::new(&dir));
    let begins = std::env::var(BEGINS).unwrap();
    let begins: Vec<u64> = begins.split(',').map(|it| it.parse().unwrap()).collect();
    std::thread::scope(|scope| {
        for row in 0..ROWS {
            let (said, next) = (feed(&store, "said"), begins[row as usize]);
            scope.spawn(move || dies_with(|| write_for_ever(&said, row, next)));
        }
        let (said, doomed) = (feed(&store, "said"), feed(&store, "doomed"));
        scope.spawn(move || dies_with(|| read_for_ever(&said)));
        let generation = begins[ROWS as usize];
        scope.spawn(move || dies_with(|| delete_for_ever(&doomed, generation)));
    });
}

/// A thread that fails takes the child with it, so that the parent notices.
fn dies_with(work: impl FnOnce()) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
        std::process::exit(1);
    }
}

fn write_for_ever(said: &TimeShards<Set>, row: u64, begin: u64) {
    // Whether the removal that came with the last one was done is not known.
    for number in begin.saturating_sub(1).. {
        said.add(time(row, number), element(row, number)).unwrap();
        tell("added", row, number);
        if let Some(old) = number.checked_sub(KEPT) {
            // A removal that was never acknowledged is done again.
            said.remove(time(row, old), &element(row, old)).unwrap();
            tell("removed", row, old);
        }
    }
}

fn read_for_ever(said: &TimeShards<Set>) {
    loop {
        let forth = said.range(..).all().unwrap();
        assert!(forth.is_sorted_by_key(|(at, _)| *at));
        let latest = said.latest(50).unwrap();
        assert!(latest.iter().rev().is_sorted_by_key(|(at, _)| *at));
    }
}

fn delete_for_ever(doomed: &TimeShards<Set>, begin: u64) {
    for generation in begin.. {
        for bucket in 0..DOOMED {
            let at = time(bucket, generation);
            doomed.add(at, generation as i64).unwrap();
        }
        assert_eq!(doomed.range(..).len().unwrap(), DOOMED);
        doomed.delete().unwrap();
        tell("deleted", ROWS, generation);
    }
}

/// The acknowledged calls: the next number of each row, the first one that was not removed, and the
/// generations deleted.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    added: [u64; ROWS as usize],
    removed: [u64; ROWS as usize],
    deleted: u64,
}

impl Told {
    fn hear(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let [.., what, row, number] = words[..] else {
            panic!("{line:?}");
        };
        let (row, number): (usize, u64) = (row.parse().unwrap(), number.parse().unwrap());
        match what {
            "added" => self.added[row] = number + 1,
            "removed" => self.removed[row] = number + 1,
            _ => self.deleted = number + 1,
        }
    }

    /// Checks a store that is opened again, and notes which of the unacknowledged calls took
    /// effect.
    fn judge(&mut self, store: &Store) {
        let said = feed(store, "said").range(..).all().unwrap();
        let mut back = feed(store, "said").latest(u64::MAX).unwrap();
        back.reverse();
        assert_eq!(back, said);
        let mut rows = [const { Vec::new() }; ROWS as usize];
        for (at, value) in said {
            let Value::Int(number) = value else {
                panic!("{value:?} was never added");
            };
            let (row, number) = (number as u64 / ROW, number as u64 % ROW);
            assert_eq!(at, time(row, number));
            rows[row as usize].push(number);
        }
        for (row, numbers) in rows.iter().enumerate() {
            let (first, end) = (self.removed[row], self.added[row]);
            let begin = numbers.first().copied().unwrap_or(first);
            assert!(
                begin == first || begin == first + 1,
                "row {row}: {first}, {numbers:?}"
            );
            let stop = numbers.last().map_or(end, |last| last + 1);
            assert!(
                stop == end || stop == end + 1,
                "row {row}: {end}, {numbers:?}"
            );
            assert!(
                numbers.iter().copied().eq(begin..stop),
                "row {row}: {numbers:?}"
            );
            (self.removed[row], self.added[row]) = (begin, stop);
        }
        let doomed = feed(store, "doomed");
        let left = doomed.range(..).all().unwrap();
        // The next one may have been deleted, too, and the one behind it begun.
        let current = |generation: u64| {
            let generation = Value::Int(generation as i64);
            left.iter().all(|(_, left)| *left == generation)
        };
        let found = (self.deleted..self.deleted + 2).find(|generation| current(*generation));
        self.deleted = found.unwrap_or_else(|| panic!("{left:?} behind {}", self.deleted)) + 2;
        doomed.delete().unwrap();
        assert_eq!(doomed.latest(1).unwrap(), []);
        for collection in sharded_collections(&store.set("hot").unwrap()).unwrap() {
            for left in collection.leftovers() {
                assert!(left.frozen && left.elements == 0, "{left:?}");
            }
        }
    }
}

/// Lets a child work until `lines` calls were acknowledged, and kills it.
fn killed_after(lines: usize, dir: &Path, told: &mut Told) {
    let begins = told.added.iter().chain([&told.deleted]);
    let begins: Vec<String> = begins.map(u64::to_string).collect();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(CHILD_DIR, dir)
        .env(BEGINS, begins.join(","))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let heard = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut heard = heard.map_while(Result::ok);
    let mut count = 0;
    for line in heard.by_ref().filter(|line| line.contains("told ")) {
        told.hear(&line);
        count += 1;
        if count == lines {
            break;
        }
    }
    assert_eq!(count, lines, "the child has ended by itself");
    child.kill().unwrap();
    // Lines from before the kill that are not read yet. The last one may be cut off.
    let rest: Vec<String> = heard.filter(|line| line.contains("told ")).collect();
    for line in rest.iter().filter(|line| line.split(' ').count() >= 4) {
        told.hear(line);
    }
    child.wait().unwrap();
}

#[test]
fn time_shards_survive_the_killed_process() {
    let rounds = if std::env::var_os("SPIKELET_LONG").is_some() {
        30
    } else {
        5
    };
    let dir = tempfile::tempdir().unwrap();
    let mut told = Told::default();
    for round in 0..rounds {
        killed_after(500 + round * 337 % 1_009, dir.path(), &mut told);
        let store = open(dir.path());
        told.judge(&store);
        if round % 3 == 0 {
            store.close().unwrap();
        }
    }
    assert!(told.removed.iter().sum::<u64>() > 0, "{told:?}");
}
