//! Two collections of one record that are sharded, split, merged and taken together again while
//! they are written, trimmed and read, in a process that is killed in the middle of it: every
//! acknowledged add that was not removed is there once, nothing removed is back, and no reader sees
//! a gap.
//!
//! The child is this test binary, started again with [`CHILD_DIR`] set. Each writer adds the
//! numbers of its own row, in order, to the list of the row; the removers take each row away from
//! below. So four numbers describe a row: the adds and the removals that were begun and
//! acknowledged. The child notes them in a file, which outlives it. `SPIKELET_LONG=1` does 30
//! rounds.
//!
//! A round ends after a number of steps and adds and not by the clock, so that fast and slow
//! machines do the same.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use spikelet::{Durability, NamespaceConfig, RecordSet, ShardedList, Store, Value, WritePolicy};

const CHILD_DIR: &str = "SPIKELET_SHARDS_KILL_TEST_DIR";
const PROGRESS: &str = "still moving";

/// The bins of the lists.
const BINS: [&str; 2] = ["followers", "following"];
const WRITERS: u64 = 8;
const REMOVERS: u64 = 2;
const READERS: u64 = 2;
/// A row keeps about this many numbers, and never more than twice as many.
const KEPT: u64 = 400;
/// Numbers of a row; rows never touch.
const ROW: u64 = 1 << 40;
const PAGE: u64 = 100;
/// Adds that are acknowledged in each round before its kill. After four rounds some row has more
/// than it keeps.
const ROUND_ADDS: u64 = WRITERS * KEPT / 3;
/// So many rounds are made at most until a kill has fallen into a transition.
const ROUNDS_MAX: usize = 60;

/// What a row notes.
#[derive(Clone, Copy)]
enum Note {
    AddBegun,
    AddDone,
    RemoveBegun,
    RemoveDone,
    /// Whether shards are being merged; of the first row of each list.
    Down,
}

const NOTES: u64 = 5;

/// All notes, in memory and in a file. Stores into the page cache outlive a killed process.
struct Notes {
    file: File,
    live: Vec<AtomicU64>,
}

impl Notes {
    fn open(dir: &Path) -> Self {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(dir.join("notes"))
            .unwrap();
        let live = (0..WRITERS * NOTES)
            .map(|slot| {
                let mut bytes = [0; 8];
                // Beyond the end there is nothing yet.
                let _ = file.read_exact_at(&mut bytes, slot * 8);
                AtomicU64::new(u64::from_le_bytes(bytes))
            })
            .collect();
        Self { file, live }
    }

    fn set(&self, row: u64, note: Note, value: u64) {
        let slot = row * NOTES + note as u64;
        self.file
            .write_all_at(&value.to_le_bytes(), slot * 8)
            .unwrap();
        self.live[slot as usize].store(value, Ordering::SeqCst);
    }

    fn get(&self, row: u64, note: Note) -> u64 {
        self.live[(row * NOTES + note as u64) as usize].load(Ordering::SeqCst)
    }

    fn sum(&self, note: Note) -> u64 {
        (0..WRITERS).map(|row| self.get(row, note)).sum()
    }
}

/// The numbers of a row that must be there, and the ones that may be: from the first inclusive to
/// the second exclusive.
#[derive(Clone, Copy, Debug)]
struct Expected {
    must: (u64, u64),
    may: (u64, u64),
}

/// Checks a whole read against what each row expects.
fn judge(read: &[u64], rows: &[Expected]) -> Result<(), String> {
    if let Some(pair) = read.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(format!("{pair:?} are out of order, or twice there"));
    }
    for (row, expected) in rows.iter().enumerate() {
        let first = row as u64 * ROW;
        let numbers: Vec<u64> = read
            .iter()
            .filter(|number| (first..first + ROW).contains(number))
            .map(|number| number - first)
            .collect();
        let (from, to) = expected.may;
        if let Some(wrong) = numbers.iter().find(|number| !(from..to).contains(number)) {
            return Err(format!("row {row}: {wrong} cannot be there: {expected:?}"));
        }
        let (from, to) = expected.must;
        let found = numbers
            .iter()
            .filter(|number| (from..to).contains(number))
            .count() as u64;
        if found != to.saturating_sub(from) {
            let gap = (from..to).find(|number| !numbers.contains(number));
            return Err(format!("row {row}: {gap:?} is missing: {expected:?}"));
        }
    }
    Ok(())
}

/// The list of a row.
const fn list_of(row: u64) -> usize {
    row as usize % BINS.len()
}

/// All numbers of all lists, in order.
fn read_all<S: RecordSet>(lists: &[ShardedList<S>]) -> Vec<u64> {
    let mut all = Vec::new();
    for (list, which) in lists.iter().zip(0..) {
        let numbers = read_list(list);
        let at_home = |number: &u64| list_of(number / ROW) == which;
        assert!(numbers.is_sorted() && numbers.iter().all(at_home));
        all.extend(numbers);
    }
    all.sort_unstable();
    all
}

fn read_list<S: RecordSet>(list: &ShardedList<S>) -> Vec<u64> {
    let (mut all, mut after) = (Vec::new(), None::<Value>);
    loop {
        let page = list.page_after(after.as_ref(), PAGE).unwrap();
        let Some(last) = page.last() else {
            return all;
        };
        after = Some(last.clone());
        all.extend(page.iter().map(|value| match value {
            Value::Int(number) => *number as u64,
            other => panic!("{other:?} was never added"),
        }));
    }
}

fn open(dir: &Path) -> Store {
    let mut config = NamespaceConfig::new("test");
    config.durability = Durability::Interval(std::time::Duration::from_millis(5));
    // The child does not retry, so no writer may be refused.
    config.max_waiters = 1_000;
    Store::builder()
        .path(dir.join("store"))
        .namespace(config)
        .open()
        .unwrap()
}

fn element(row: u64, number: u64) -> Value {
    Value::Int((row * ROW + number) as i64)
}

/// The child's work, until it is killed.
#[test]
#[ignore = "the child of the other test"]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    let dir = Path::new(&dir);
    let store = open(dir);
    let notes = Notes::open(dir);
    // Many threads on few cores: no call may time out.
    let patient = WritePolicy::default().total_timeout(None);
    let list = |number: usize| {
        ShardedList::new_with(&store, "hot", "key", BINS[number], &patient).unwrap()
    };
    let lists = || BINS.iter().zip(0..).map(|(_, number)| list(number));
    std::thread::scope(|scope| {
        for row in 0..WRITERS {
            let (list, notes) = (list(list_of(row)), &notes);
            scope.spawn(move || dies_with(|| add_for_ever(&list, notes, row)));
        }
        for remover in 0..REMOVERS {
            let (lists, notes): (Vec<_>, _) = (lists().collect(), &notes);
            scope.spawn(move || dies_with(|| remove_for_ever(&lists, notes, remover)));
        }
        for _ in 0..READERS {
            let (lists, notes): (Vec<_>, _) = (lists().collect(), &notes);
            scope.spawn(move || dies_with(|| read_for_ever(&lists, notes)));
        }
        for (list, number) in lists().zip(0..) {
            let notes = &notes;
            scope.spawn(move || dies_with(|| move_for_ever(&list, notes, number)));
        }
    });
}

/// A thread that fails takes the child with it, so that the parent notices.
fn dies_with(work: impl FnOnce()) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err() {
        std::process::exit(1);
    }
}

fn add_for_ever<S: RecordSet>(list: &ShardedList<S>, notes: &Notes, row: u64) {
    // An add that was begun and never acknowledged is done again.
    let mut next = notes.get(row, Note::AddDone);
    loop {
        if next >= notes.get(row, Note::RemoveDone) + 2 * KEPT {
            std::thread::yield_now();
            continue;
        }
        notes.set(row, Note::AddBegun, next + 1);
        list.add(element(row, next)).unwrap();
        next += 1;
        notes.set(row, Note::AddDone, next);
    }
}

fn remove_for_ever<S: RecordSet>(lists: &[ShardedList<S>], notes: &Notes, remover: u64) {
    loop {
        for row in (remover..WRITERS).step_by(REMOVERS as usize) {
            let next = notes.get(row, Note::RemoveDone);
            if next + KEPT >= notes.get(row, Note::AddDone) {
                std::thread::yield_now();
                continue;
            }
            let again = notes.get(row, Note::RemoveBegun) > next;
            notes.set(row, Note::RemoveBegun, next + 1);
            let list = &lists[list_of(row)];
            let removed = list.remove(&element(row, next)).unwrap();
            assert!(removed || again, "{next} of row {row} was not there");
            notes.set(row, Note::RemoveDone, next + 1);
        }
    }
}

fn read_for_ever<S: RecordSet>(lists: &[ShardedList<S>], notes: &Notes) {
    loop {
        let before: Vec<(u64, u64)> = (0..WRITERS)
            .map(|row| {
                (
                    notes.get(row, Note::RemoveDone),
                    notes.get(row, Note::AddDone),
                )
            })
            .collect();
        let read = read_all(lists);
        let rows: Vec<Expected> = before
            .iter()
            .zip(0..)
            .map(|(&(removed, added), row)| Expected {
                must: (notes.get(row, Note::RemoveBegun), added),
                may: (removed, notes.get(row, Note::AddBegun)),
            })
            .collect();
        judge(&read, &rows).unwrap();
    }
}

/// 1 -> 8 -> 16 -> 8 -> 4 -> 2 -> 1, into the root, and again.
fn move_for_ever<S: RecordSet>(list: &ShardedList<S>, notes: &Notes, number: u64) {
    list.shards().advance().unwrap();
    let mut down = notes.get(number, Note::Down) == 1;
    loop {
        let shards = list.shards().state().unwrap().shards;
        down = match shards {
            0 => false,
            16.. => true,
            _ => down,
        };
        // A line for each companion, so that the parent's kill falls anywhere.
        let step = |_| {
            println!("{PROGRESS}");
            ControlFlow::Continue(())
        };
        let moved = match shards {
            0 => list.shards().on_progress(step).activate(8),
            1 if down => list.shards().on_progress(step).deactivate(),
            _ if down => list.shards().on_progress(step).merge(),
            _ => list.shards().on_progress(step).split(),
        };
        moved.unwrap();
        notes.set(number, Note::Down, u64::from(down));
        // Without this pause, writers would meet nothing but transitions.
        let enough = notes.sum(Note::AddDone) + WRITERS;
        while notes.sum(Note::AddDone) < enough {
            std::thread::yield_now();
        }
    }
}

/// Lets a child work until its transitions have taken `steps` steps and enough was added, and kills
/// it.
fn killed_after(steps: usize, dir: &Path) {
    let enough = Notes::open(dir).sum(Note::AddDone) + ROUND_ADDS;
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["child", "--exact", "--ignored", "--nocapture"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .filter(|line| line.contains(PROGRESS));
    // The child moves for ever, so a line always follows; the kill itself falls anywhere.
    let mut seen = 0;
    let done = lines.any(|_| {
        seen += 1;
        seen >= steps && Notes::open(dir).sum(Note::AddDone) >= enough
    });
    assert!(done, "the child has ended by itself after {seen} steps");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_sharded_collections_of_a_record_survive_the_killed_process() {
    let planned = if std::env::var_os("SPIKELET_LONG").is_some() {
        30
    } else {
        4
    };
    let dir = tempfile::tempdir().unwrap();
    let (mut round, mut interrupted, mut removed) = (0, 0, 0);
    while round < planned || interrupted == 0 || removed == 0 {
        assert!(
            round < ROUNDS_MAX,
            "after {round} rounds: {interrupted} transitions interrupted, {removed} elements removed"
        );
        killed_after(1 + (round * 37) % 101, dir.path());

        let notes = Notes::open(dir.path());
        let store = open(dir.path());
        let lists = BINS.map(|bin| ShardedList::new(&store, "hot", "key", bin).unwrap());
        let rows: Vec<Expected> = (0..WRITERS)
            .map(|row| Expected {
                must: (
                    notes.get(row, Note::RemoveBegun),
                    notes.get(row, Note::AddDone),
                ),
                may: (
                    notes.get(row, Note::RemoveDone),
                    notes.get(row, Note::AddBegun),
                ),
            })
            .collect();
        removed = notes.sum(Note::RemoveDone);
        let is_interrupted =
            |list: &ShardedList<_>| list.shards().state().unwrap().transition.is_some();
        interrupted += usize::from(lists.iter().any(is_interrupted));
        // First as the kill left it, perhaps in the middle of a transition, then with the
        // transition finished.
        for _ in 0..2 {
            judge(&read_all(&lists), &rows).unwrap_or_else(|why| panic!("round {round}: {why}"));
            for list in &lists {
                assert_eq!(list.len().unwrap() as usize, read_list(list).len());
                list.shards().advance().unwrap();
            }
        }
        if round % 3 == 0 {
            store.close().unwrap();
        }
        round += 1;
    }
}
