//! `spikelet contention --host`: rows against a cluster, and what they leave there.

use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use spikelet::{Key, RecordSet, RecordStore, WritePolicy, operations as ops};

use crate::common::Served;

const SET: &str = "spikelet-contention";

fn command(served: &Served, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spikelet"));
    command
        .args(["contention", "--host", &served.addr])
        .args(arguments)
        .stdin(Stdio::null());
    command
}

fn run(served: &Served, arguments: &str) -> Output {
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    command(served, &arguments).output().unwrap()
}

/// Runs rows with `--yes --json`; they must pass.
fn rows(served: &Served, arguments: &str) -> Value {
    let output = run(served, &format!("{arguments} --yes --json"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments}: {told}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(served: &Served, arguments: &str) -> String {
    let output = run(served, arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments}");
    String::from_utf8(output.stderr).unwrap()
}

/// The keys of a set.
fn keys(served: &Served, set: &str) -> Vec<Key<'static>> {
    let mut keys = Vec::new();
    let records = served.cluster().records(set).unwrap();
    records
        .scan_records(&mut |record| keys.push(record.key().unwrap().into_owned()))
        .unwrap();
    keys
}

#[test]
fn rows_of_all_kinds_run_on_a_cluster_lose_nothing_and_leave_nothing() {
    let served = Served::in_memory();
    for (arguments, count) in [
        ("--rate 200 --shards 1,4", 2),
        (
            "--rate 200 --operation add-unique --elements 200 --shards 1,4,daily+2",
            3,
        ),
        (
            "--writers 4 --operation put --shards 1,2,hourly --hot-keys 3",
            3,
        ),
        (
            "--rate 100 --shards 4 --operation add-unique --elements 500 --activate-at 200ms",
            1,
        ),
    ] {
        let found = rows(
            &served,
            &format!("{arguments} --duration 500ms --warm-up 100ms"),
        );
        let rows = found["rows"].as_array().unwrap();
        assert_eq!(rows.len(), count, "{arguments}");
        for row in rows {
            assert!(row["acked"].as_u64().unwrap() > 10, "{arguments}: {row}");
            assert_eq!(
                (&row["lost"], &row["duplicates"], &row["invisible"]),
                (&0.into(), &0.into(), &0.into()),
                "{arguments}: {row}"
            );
            // Writes that come late come together, and more of them than may wait.
            let mut errors = row["errors"].as_object().unwrap().keys();
            assert!(errors.all(|code| code == "14"), "{arguments}: {row}");
        }
        assert_eq!(found["settings"]["mode"], "cluster");
        assert!(found["cluster"].as_str().unwrap().contains(SET));
        assert_eq!(keys(&served, SET), [], "{arguments}");
    }
}

#[test]
fn only_a_yes_writes() {
    let served = Served::in_memory();
    let row = "--rate 100 --shards 1 --duration 300ms --warm-up 0 --json";
    let arguments: Vec<&str> = row.split_whitespace().collect();
    let output = command(&served, &arguments).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(
        told.contains("1 row") && told.contains("100 writes a second"),
        "{told}"
    );
    assert!(told.contains("Nothing was written: give --yes"), "{told}");
    assert_eq!(output.stdout, b"");
    let written = served.cluster().info("namespace/test").unwrap();
    assert!(written.contains(";client_write_success=0;"), "{written}");
}

#[test]
fn the_limit_of_the_servers_is_learned_and_its_refusals_are_counted() {
    let served = Served::with(&["--memory", "--hold-ms", "20"]);
    let found = rows(
        &served,
        "--rate 400 --max-rate 400 --shards 1 --duration 1s --warm-up 0",
    );
    assert_eq!(found["settings"]["limit"], 20);
    let row = &found["rows"][0];
    let busy = row["key_busy"].as_u64().unwrap();
    // At most 50 writes a second go through a record that is held for 20 ms.
    assert!(busy > 50 && row["errors"]["14"] == busy, "{row}");
    assert_eq!(found["correctness"]["in_doubt"], 0);
    assert_eq!(keys(&served, SET), []);
}

#[test]
fn a_run_of_the_embedded_store_stands_beside_one_of_a_cluster() {
    let served = Served::in_memory();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("embedded.json");
    let same = "--rate 100 --shards 1,2 --duration 500ms --warm-up 0";
    let embedded = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(["contention", "--json"])
        .args(same.split(' '))
        .output()
        .unwrap();
    std::fs::write(&file, &embedded.stdout).unwrap();
    let beside = format!("{same} --beside {}", file.display());
    let found = rows(&served, &beside);
    let comparison = &found["comparison"];
    let changes = comparison["changes"].as_array().unwrap();
    assert_eq!((changes.len(), &changes[7]["shards"]), (8, &2.into()));
    assert_eq!(comparison["settings"]["mode"], "engine");
    assert!(changes[0]["before"].is_number() && changes[0]["verdict"] == "not-judged");
    let text = run(&served, &format!("{beside} --yes"));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("Before: embedded; now: cluster"), "{text}");
    let other = "--rate 50 --shards 1 --duration 500ms";
    let told = refused(
        &served,
        &format!("{other} --beside {} --yes", file.display()),
    );
    assert!(told.contains("no row of that run"), "{told}");
}

#[test]
fn records_of_others_are_not_touched_and_one_run_at_a_time_has_the_set() {
    let served = Served::in_memory();
    let records = served.cluster().records("users").unwrap();
    let policy = WritePolicy::default();
    let write = [ops::put("n", 1)];
    records.operate_on(&policy, &"hot0".into(), &write).unwrap();
    let told = refused(&served, "--set users --rate 10 --duration 100ms --yes");
    assert!(told.contains("holds records already"), "{told}");
    assert_eq!(keys(&served, "users"), ["hot0".into()]);
    let read = records
        .operate_on(&policy, &"hot0".into(), &[ops::get_bin("n")])
        .unwrap();
    assert_eq!((read.generation, read.value(0)), (1, Some(&1.into())));
    // A killed run leaves its claim.
    let mut killed = command(&served, &["--yes", "--rate", "50", "--duration", "60s"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while keys(&served, SET).len() < 2 {
        assert!(killed.try_wait().unwrap().is_none());
    }
    let told = refused(&served, "--rate 10 --duration 100ms --yes");
    assert!(told.contains("another run is under way"), "{told}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    // The claim does not change, so the next run takes the set, and leaves nothing.
    assert!(keys(&served, SET).len() > 1);
    rows(&served, "--rate 100 --shards 1 --duration 300ms");
    assert_eq!(keys(&served, SET), []);
}

#[test]
fn what_a_restart_of_the_server_brings_back_is_cleared_by_the_next_run() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let served = Served::with(&["--dir", path, "--like-ce"]);
    rows(&served, "--rate 100 --shards 1 --duration 300ms");
    assert_eq!(keys(&served, SET), []);
    drop(served);
    let served = Served::with(&["--dir", path, "--like-ce"]);
    assert!(keys(&served, SET).len() > 1);
    rows(&served, "--rate 100 --shards 1 --duration 300ms");
    assert_eq!(keys(&served, SET), []);
}

#[test]
fn a_server_that_goes_away_is_reported_with_what_was_measured_and_the_next_run_clears_the_set() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let served = Served::with(&["--dir", path, "--like-ce"]);
    let addr = served.addr.clone();
    let arguments = "--yes --json --rate 100 --shards 1,8 --duration 2s --warm-up 0";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let running = command(&served, &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Claim, root and shards: the second row has begun.
    while keys(&served, SET).len() < 8 {
        std::thread::yield_now();
    }
    drop(served);
    let output = running.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("the next run clears it"), "{told}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["rows"].as_array().unwrap().len(), 1);
    assert_eq!(
        (&found["interruption"]["done"], &found["rows"][0]["lost"]),
        (&1.into(), &0.into())
    );
    // The report has the reason, and it is the last line printed.
    let reason = found["interruption"]["reason"].as_str().unwrap();
    assert!(told.trim_end().ends_with(reason), "{told}: {reason}");
    let served = Served::at(&addr, &["--dir", path, "--like-ce"]);
    assert!(keys(&served, SET).len() > 1);
    rows(&served, "--rate 100 --shards 1 --duration 300ms");
    assert_eq!(keys(&served, SET), []);
}

#[test]
fn an_interrupted_run_reports_what_it_has_and_leaves_nothing() {
    let served = Served::in_memory();
    let arguments = "--yes --json --rate 200 --shards 4 --duration 600s --warm-up 0";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let running = command(&served, &arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Claim, root and shards: the row has begun.
    while keys(&served, SET).len() < 6 {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(keys(&served, SET), []);
    if !output.stdout.is_empty() {
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["interruption"]["done"], 0);
        assert_eq!(found["rows"][0]["lost"], 0);
    }
}

#[test]
fn what_is_too_much_for_a_cluster_or_not_allowed_is_refused_before_anything_is_written() {
    let served = Served::in_memory();
    for (arguments, reason) in [
        ("--rate 100", "give --yes"),
        ("--rate 2000 --yes", "--max-rate"),
        ("--rate 600 --retries 1 --yes", "--max-rate"),
        ("--writers 500 --yes", "200 are possible"),
        (
            "--rate 10 --operation add-unique --elements 1000000 --hot-keys 100 --yes",
            "--max-size",
        ),
        ("--rate 10 --virtual --yes", "cannot be used with"),
        ("--rate 10 --limit 5 --yes", "cannot be used with"),
        ("--rate 10 --hold-ms 5 --yes", "cannot be used with"),
    ] {
        let told = refused(&served, arguments);
        assert!(told.contains(reason), "{arguments}: {told}");
    }
    assert_eq!(keys(&served, SET), []);
    let alone = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(["contention", "--yes"])
        .output()
        .unwrap();
    assert_eq!(alone.status.code(), Some(2));
}

#[test]
fn writers_keep_to_the_rate_together() {
    let served = Served::in_memory();
    let found = rows(
        &served,
        "--writers 16 --max-rate 200 --shards 8 --duration 2s --warm-up 0",
    );
    let sent = found["rows"][0]["offered"].as_u64().unwrap();
    assert!((10..=410).contains(&sent), "{sent}");
}
