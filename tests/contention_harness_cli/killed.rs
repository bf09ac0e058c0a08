//! A run that is killed: its acknowledged writes are in the stores that it leaves.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use spikelet::operations::lists;
use spikelet::{ListReturnType, Store};

use super::{json, run, stderr, stdout, text};

/// Bytes of a note in a row's ledger, and how many notes there are before the kill.
const NOTE_BYTES: u64 = 24;
const NOTES: u64 = 4_000;
/// Kills until one falls into a transition.
const ROUNDS_MAX: u64 = 30;

/// A run, killed with its handle.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(arguments: &str, dir: &Path) -> Running {
    let child = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(["contention", "--dir", dir.to_str().unwrap()])
        .args(arguments.split_whitespace())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.unwrap())
}

/// Runs until the ledger has `notes` entries, then kills.
fn kill(arguments: &str, dir: &Path, row: &str, notes: u64) {
    let mut running = start(arguments, dir);
    let ledger = dir.join(row).join("ledger");
    while std::fs::metadata(&ledger).map_or(0, |file| file.len()) < notes * NOTE_BYTES {
        assert_eq!(
            running.0.try_wait().unwrap(),
            None,
            "it has ended: {arguments}"
        );
        std::thread::yield_now();
    }
    running.0.kill().unwrap();
}

#[test]
fn what_a_killed_run_had_acknowledged_is_found() {
    for (arguments, row) in [
        (
            "--writers 8 --shards 4 --operation add-unique --elements 100",
            "closed-8_shards-4",
        ),
        (
            "--writers 8 --shards 4 --operation increment",
            "closed-8_shards-4",
        ),
        (
            "--writers 8 --shards 1 --operation put",
            "closed-8_shards-1",
        ),
        (
            "--writers 8 --shards daily+2 --operation add-unique --elements 0",
            "closed-8_shards-daily+2",
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        kill(
            &format!("{arguments} --duration 10m --warm-up 0"),
            dir.path(),
            row,
            NOTES,
        );
        let name = dir.path().to_str().unwrap();
        // Twice: looking changes nothing.
        for _ in 0..2 {
            let found = json(&format!("--check {name}"));
            assert_eq!(found["report"], "contention-recheck");
            assert_eq!(found["passes"], true, "{arguments}: {found}");
            assert_eq!(found["rows"][0]["row"], row);
            let correctness = &found["rows"][0]["correctness"];
            // Each write was noted twice, but for those under way and those refused.
            let acknowledged = correctness["acknowledged"].as_u64().unwrap();
            assert!(acknowledged > NOTES / 4, "{found}");
            assert_eq!(correctness["lost"], 0);
        }
    }
}

/// Whether the list was being spread when its process was killed.
fn is_spreading(store: &Path) -> bool {
    let output = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(["shards", store.to_str().unwrap(), "--json"])
        .output()
        .unwrap();
    let found: Value = serde_json::from_str(stdout(&output)).unwrap();
    found["collections"][0]["in_transition"] == true
}

#[test]
fn what_was_acknowledged_is_found_in_a_list_that_was_being_spread() {
    let row = "open-300_shards-8";
    // About 340 notes are made before the list begins to be spread, and as many again until it is:
    // its steps wait in the queue, too. Each round is killed a little later.
    for round in 0..ROUNDS_MAX {
        let dir = tempfile::tempdir().unwrap();
        kill(
            "--rate 300 --hold-ms 8 --shards 8 --operation add-unique --elements 2000 --activate-at 600ms --duration 10m --warm-up 0",
            dir.path(),
            row,
            380 + 30 * round,
        );
        let was_spreading = is_spreading(&dir.path().join(row));
        let found = json(&format!("--check {}", dir.path().to_str().unwrap()));
        assert_eq!(found["passes"], true, "{found}");
        if was_spreading {
            return;
        }
    }
    panic!("no kill fell into the transition in {ROUNDS_MAX} rounds");
}

#[test]
fn a_loss_is_seen_when_stores_are_looked_at_again() {
    let dir = tempfile::tempdir().unwrap();
    let (whole, name) = (dir.path().join("run"), dir.path().to_str().unwrap());
    let name = format!("{name}/run");
    let report = json(&format!(
        "--dir {name} --writers 2 --shards 1,4 --operation add-unique --elements 0 --duration 200ms --warm-up 0"
    ));
    assert_eq!(report["settings"]["store"], "disk");
    let found = json(&format!("--check {name}"));
    for (row, of_run) in report["rows"].as_array().unwrap().iter().enumerate() {
        let found = &found["rows"][row]["correctness"];
        assert_eq!(found["acknowledged"], of_run["acknowledged"]);
        assert_eq!(found["in_doubt"], 0);
    }
    assert!(text(&format!("--check {name}")).contains("closed-2_shards-4, add-unique"));
    // An acknowledgement of a write that never was.
    let ledger = whole.join("closed-2_shards-1/ledger");
    let mut notes = std::fs::read(&ledger).unwrap();
    let words: [u64; 3] = [1 << 32, 1_000_000_007, 0];
    notes.extend(words.into_iter().flat_map(u64::to_le_bytes));
    std::fs::write(&ledger, notes).unwrap();
    let output = run(&format!("--check {name} --json"));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let found: Value = serde_json::from_str(stdout(&output)).unwrap();
    let lost: Vec<&Value> = found["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| &row["correctness"]["lost"])
        .collect();
    assert_eq!(lost, [1, 0]);
    assert_eq!(found["passes"], false);
}

/// Every file below a directory, and its content.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else {
            let content = std::fs::read(&path).unwrap();
            all.insert(path, content);
        }
    }
    all
}

#[test]
fn an_element_that_was_there_before_the_run_is_missed_and_looking_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("{}/run", dir.path().display());
    json(&format!(
        "--dir {name} --writers 2 --shards 1 --operation add-unique --elements 50 --duration 200ms --warm-up 0"
    ));
    let row = Path::new(&name).join("closed-2_shards-1");
    {
        let store = Store::builder().path(&row).open().unwrap();
        let set = store.namespace("test").unwrap().set("hot").unwrap();
        // The first element that was put there: nothing that was written has its number.
        let first = spikelet::Value::Int(1 << 31);
        let remove = lists::remove_by_value("hot", first, ListReturnType::Count);
        let removed = set.operate("hot0", &[remove]).unwrap();
        assert_eq!(removed.value(0), Some(&spikelet::Value::Int(1)));
        store.close().unwrap();
    }
    let before = files(&row);
    let output = run(&format!("--check {name} --json"));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let found: Value = serde_json::from_str(stdout(&output)).unwrap();
    let correctness = &found["rows"][0]["correctness"];
    assert_eq!(correctness["lost"], 1);
    assert_eq!(correctness["found"], correctness["acknowledged"]);
    assert!(files(&row) == before);
}

#[test]
fn a_row_that_cannot_be_read_is_lost_and_the_others_are_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let name = format!("{}/run", dir.path().display());
    json(&format!(
        "--dir {name} --writers 2 --shards 1,2,4 --duration 200ms --warm-up 0"
    ));
    let of = |row: &str| Path::new(&name).join(row);
    std::fs::write(of("closed-2_shards-1/ledger"), "").unwrap();
    for (path, _) in files(&of("closed-2_shards-2")) {
        if path.file_name().unwrap() != "ledger" {
            std::fs::remove_file(path).unwrap();
        }
    }
    let output = run(&format!("--check {name} --json"));
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let found: Value = serde_json::from_str(stdout(&output)).unwrap();
    assert_eq!(found["passes"], false);
    let rows = found["rows"].as_array().unwrap();
    let is_unreadable: Vec<bool> = rows
        .iter()
        .map(|row| row["unreadable"].is_string())
        .collect();
    assert_eq!(is_unreadable, [true, true, false]);
    let missing = &rows[1]["correctness"];
    assert!(missing["lost"].as_u64().unwrap() > 0);
    assert_eq!(missing["lost"], missing["acknowledged"]);
    let whole = &rows[2]["correctness"];
    assert_eq!(
        (&whole["lost"], &whole["found"]),
        (&0.into(), &whole["acknowledged"])
    );
    let text = run(&format!("--check {name}"));
    let told = stdout(&text);
    assert!(
        told.contains("closed-2_shards-1") && told.contains("not known"),
        "{told}"
    );
    assert!(told.contains("cannot be read"), "{told}");
    assert_eq!(files(&of("closed-2_shards-2")).len(), 1, "nothing was made");
}

#[test]
fn a_directory_is_new_for_a_run_and_has_ledgers_for_a_look() {
    let dir = tempfile::tempdir().unwrap();
    let name = dir.path().to_str().unwrap();
    let nothing = run(&format!("--check {name}"));
    assert_eq!(nothing.status.code(), Some(1));
    assert!(
        stdout(&nothing).contains("no ledger"),
        "{}",
        stdout(&nothing)
    );
    std::fs::write(dir.path().join("mine"), "").unwrap();
    for (arguments, why) in [
        (format!("--dir {name} --rate 50"), "something is in it"),
        (format!("--dir {name}/new --virtual"), "leave out --virtual"),
        (format!("--check {name}/missing"), "missing"),
        (format!("--check {name} --writers 2"), "--writers"),
    ] {
        let output = run(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}
