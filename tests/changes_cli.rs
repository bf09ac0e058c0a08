//! `spikelet changes`, from outside.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use spikelet::changes::{ChangeOptions, Start};
use spikelet::monitor::Monitor;
use spikelet::{DEFAULT_NAMESPACE, Key, Store};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spikelet"));
    command.arg("changes").args(arguments);
    command
}

fn run(dir: &Path, arguments: &[&str]) -> Output {
    command(&[&[dir.to_str().unwrap()], arguments].concat())
        .output()
        .unwrap()
}

fn lines(output: &Output) -> Vec<String> {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_changes_of_a_closed_store_are_printed_from_a_position_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let changes = store.namespace(DEFAULT_NAMESPACE).unwrap().changes();
    let (users, orders) = (store.set("users").unwrap(), store.set("orders").unwrap());
    users.put("before", [("age", 1)]).unwrap();
    store.close().unwrap();
    drop((users, orders, changes, store));
    assert!(refusal(&run(dir.path(), &[])).contains("no set of namespace"));

    let store = Store::open(dir.path()).unwrap();
    let in_use = refusal(&run(dir.path(), &[]));
    assert!(in_use.contains("changes --host"), "{in_use}");
    let changes = store.namespace(DEFAULT_NAMESPACE).unwrap().changes();
    changes.enable("users").unwrap();
    changes.enable("orders").unwrap();
    let (users, orders) = (store.set("users").unwrap(), store.set("orders").unwrap());
    users.put("alice", [("age", 1)]).unwrap();
    users.put("alice", [("age", 2)]).unwrap();
    orders.put(7, [("total", 99)]).unwrap();
    users.delete("alice").unwrap();
    users.truncate(None).unwrap();
    drop((users, orders, changes, store));
    let unclosed = refusal(&run(dir.path(), &[]));
    assert!(unclosed.contains("was not closed"), "{unclosed}");
    Store::open(dir.path()).unwrap().close().unwrap();

    let all = lines(&run(dir.path(), &["--json"]));
    let all: Vec<serde_json::Value> = all
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<_> = all
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["put", "put", "put", "delete", "truncate"]);
    assert_eq!(all[1]["generation"], 2);
    assert_eq!(all[3]["key"], all[0]["key"]);
    assert_eq!(all[4]["set"], "users");
    assert!(all[4]["digest"].is_null());
    let position = all[1]["position"].as_str().unwrap();
    assert_eq!(lines(&run(dir.path(), &["--from", position])).len(), 3);
    let of_orders = lines(&run(dir.path(), &["--set", "orders"]));
    assert_eq!(of_orders.len(), 1);
    assert!(of_orders[0].contains("put      orders"), "{of_orders:?}");
    assert!(refusal(&run(dir.path(), &["--from", "x"])).contains("no position"));
    assert!(refusal(&run(dir.path(), &["--set", "nobody"])).contains("not kept"));
}

#[test]
fn the_changes_of_a_running_program_are_printed_and_followed() {
    let store = Store::in_memory().unwrap();
    let monitor = Monitor::builder(&store).listen("127.0.0.1:0").unwrap();
    let monitor = monitor.start().unwrap();
    let addr = monitor.addr().to_string();
    let asked = |more: &[&str]| {
        command(&[&["--host", &addr], more].concat())
            .output()
            .unwrap()
    };
    assert!(refusal(&asked(&[])).contains("--keep-changes"));

    let changes = store.namespace(DEFAULT_NAMESPACE).unwrap().changes();
    let long = "x".repeat(500);
    let users = store.set("users & more").unwrap();
    changes.enable("users & more").unwrap();
    changes.enable("orders").unwrap();
    for key in [
        Key::from(7),
        Key::from(long.as_str()),
        Key::from(b"\x00\xff".as_slice()),
    ] {
        users.put(key, [("age", 1)]).unwrap();
    }
    store.set("orders").unwrap().put("7", [("n", 1)]).unwrap();
    // More than one answer has.
    for n in 0..1_500 {
        users.put(7, [("age", n)]).unwrap();
    }
    let all: Vec<serde_json::Value> = lines(&asked(&["--json"]))
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(all.len(), 1_504);
    let keys: Vec<_> = all.iter().take(4).map(|line| &line["key"]).collect();
    let expected = [json!(7), json!(long), json!({"hex": "00ff"}), json!("7")];
    assert_eq!(keys, expected.iter().collect::<Vec<_>>());
    assert_eq!(all[1_503]["generation"], 1_501);
    assert_eq!(lines(&asked(&["--set", "users & more"])).len(), 1_503);
    let near_end = all[1_500]["position"].as_str().unwrap();
    assert_eq!(lines(&asked(&["--from", near_end])).len(), 3);
    for (arguments, said) in [
        (["--set", "nobody"], "not kept"),
        (["--namespace", "none"], "none"),
        (["--from", "x"], "no position"),
    ] {
        let refused = refusal(&asked(&arguments));
        assert!(refused.contains(said), "{refused}");
    }

    let end = all[1_503]["position"].as_str().unwrap();
    let mut following = command(&["--host", &addr, "--follow", "--from", end])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut followed = BufReader::new(following.stdout.take().unwrap()).lines();
    for key in ["bob", "eve"] {
        users.put(key, [("age", 1)]).unwrap();
        let line = followed.next().unwrap().unwrap();
        assert!(
            line.ends_with(&format!("users & more {key} generation 1")),
            "{line}"
        );
    }
    let pid = Pid::from_child(&following);
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(following.wait().unwrap().code(), Some(0));
}

#[test]
fn a_served_store_keeps_the_changes_it_is_told_to_keep() {
    let mut serving = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--monitor",
            "127.0.0.1:0",
        ])
        .args(["--keep-changes", "users,orders"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(serving.stderr.take().unwrap()).lines();
    let monitor = told.find_map(|line| {
        let line = line.unwrap();
        let (_, addr) = line.split_once("monitor addr=")?;
        Some(addr.to_owned())
    });
    let ready = BufReader::new(serving.stdout.take().unwrap())
        .lines()
        .next();
    assert!(ready.unwrap().unwrap().starts_with("ready "));
    let asked = command(&["--host", &monitor.unwrap(), "--set", "users"])
        .output()
        .unwrap();
    assert_eq!(lines(&asked), [""; 0]);
    kill_process(Pid::from_child(&serving), Signal::INT).unwrap();
    assert!(serving.wait().unwrap().success());
}

#[test]
fn following_ends_when_nobody_reads_any_more() {
    let store = Store::in_memory().unwrap();
    let monitor = Monitor::builder(&store).listen("127.0.0.1:0").unwrap();
    let monitor = monitor.start().unwrap();
    let users = store.set("users").unwrap();
    let changes = store.namespace(DEFAULT_NAMESPACE).unwrap().changes();
    changes.enable("users").unwrap();
    users.put("bob", [("age", 1)]).unwrap();
    let mut following = command(&["--host", &monitor.addr().to_string(), "--follow"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut followed = BufReader::new(following.stdout.take().unwrap()).lines();
    assert!(followed.next().unwrap().unwrap().contains("bob"));
    drop(followed);
    let ended = loop {
        // A program that another test is starting may hold the pipe, too, up to its first
        // instruction.
        users.put("eve", [("age", 1)]).unwrap();
        match following.try_wait().unwrap() {
            Some(ended) => break ended,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn names_of_sets_break_no_line_and_an_unknown_namespace_is_not_found() {
    let store = Store::in_memory().unwrap();
    let monitor = Monitor::builder(&store).listen("127.0.0.1:0").unwrap();
    let monitor = monitor.start().unwrap();
    let addr = monitor.addr().to_string();
    let changes = store.namespace(DEFAULT_NAMESPACE).unwrap().changes();
    for set in ["", "a\nb\u{1b}"] {
        changes.enable(set).unwrap();
        store.set(set).unwrap().put(7, [("age", 1)]).unwrap();
    }
    let shown = lines(&command(&["--host", &addr]).output().unwrap());
    let shown: Vec<_> = shown.iter().map(|line| &line[22..]).collect();
    assert_eq!(
        shown,
        ["(no set) 7 generation 1", "a\\nb\\u{1b} 7 generation 1"]
    );
    let asked = command(&["--host", &addr, "--namespace", "none"]).output();
    let refused = refusal(&asked.unwrap());
    assert!(refused.contains("404 Not Found"), "{refused}");
}

const CHILD_DIR: &str = "SPIKELET_CHANGES_CLI_TEST_DIR";
const LISTENING: &str = "the monitor listens on ";
/// Each transaction writes two records: `n` and `n + PAIRS`.
const PAIRS: i64 = 20;
/// So many that a child is killed while it writes.
const TRANSACTIONS: i64 = 20_000;

/// Opens the store and its monitor. A subscription without a consumer has all changes kept.
fn open_followed(dir: &Path) -> (Store, Monitor) {
    let store = Store::open(dir).unwrap();
    let changes = store.namespace(DEFAULT_NAMESPACE).unwrap().changes();
    changes.enable("users").unwrap();
    let start = Start::Beginning;
    changes
        .subscribe("keeps", start, ChangeOptions::default())
        .unwrap();
    let monitor = Monitor::builder(&store).listen("127.0.0.1:0").unwrap();
    (store, monitor.start().unwrap())
}

/// The child of the test below: writes until it is killed.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    let (store, monitor) = open_followed(Path::new(&dir));
    let namespace = store.namespace(DEFAULT_NAMESPACE).unwrap();
    println!("{LISTENING}{}", monitor.addr());
    for write in 0..TRANSACTIONS {
        let pair = (write * 7) % PAIRS;
        let written = namespace.transaction(|transaction| {
            let users = transaction.set("users")?;
            users.put(pair, [("write", write)])?;
            users.put(pair + PAIRS, [("write", write)])
        });
        written.unwrap();
    }
    loop {
        std::thread::park();
    }
}

/// Changes by their positions: the number and the member; the group, the key and the generation.
type Followed = BTreeMap<(u64, u64), (u64, i64, u64)>;

/// Reads lines of a consumer from behind the last whole group, until it ends or has printed
/// `lines`; then it is killed.
fn follow(addr: &str, followed: &mut Followed, lines: usize) {
    let last = followed.keys().next_back().map_or(0, |(lsn, _)| *lsn);
    // The consumer before may have been killed inside the last group.
    let before = followed.range(..(last, 0)).next_back();
    let from = before.map(|((lsn, _), _)| lsn.to_string());
    let mut command = command(&["--host", addr, "--json"]);
    if let Some(from) = &from {
        command.args(["--from", from]);
    }
    if lines < usize::MAX {
        command.arg("--follow");
    }
    let mut consumer = command.stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(consumer.stdout.take().unwrap()).lines();
    for line in output.take(lines) {
        let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let position = line["position"].as_str().unwrap();
        let (lsn, member) = position.split_once('.').unwrap_or((position, "0"));
        let position = (lsn.parse().unwrap(), member.parse().unwrap());
        let number = |field: &str| line[field].as_u64().unwrap();
        let change = (number("group"), number("key") as i64, number("generation"));
        let known = followed.insert(position, change);
        assert!(known.is_none_or(|known| known == change), "{line}");
    }
    if lines < usize::MAX {
        consumer.kill().unwrap();
        consumer.wait().unwrap();
    } else {
        assert!(consumer.wait().unwrap().success());
    }
}

fn check_followed(followed: &Followed, store: &Store) {
    let mut generations = vec![0; 2 * PAIRS as usize];
    let changes: Vec<_> = followed.iter().collect();
    for group in changes.chunk_by(|(before, _), (after, _)| before.0 == after.0) {
        let [(first, (number, key, _)), (second, (other, partner, _))] = group else {
            panic!("a part of a group: {group:?}");
        };
        assert_eq!((first.1, second.1, number), (0, 1, other));
        assert_eq!((key - partner).abs(), PAIRS);
        for (position, (_, key, generation)) in group {
            generations[*key as usize] += 1;
            assert_eq!(generations[*key as usize], *generation, "{position:?}");
        }
    }
    let users = store.set("users").unwrap();
    for (key, followed) in (0_i64..).zip(generations) {
        let stored = users.get(key).unwrap();
        let stored = stored.map_or(0, |record| record.metadata().generation);
        assert_eq!(u64::from(stored), followed, "record {key}");
    }
}

#[test]
fn following_goes_on_when_the_program_and_its_followers_are_killed() {
    let long = std::env::var_os("SPIKELET_LONG").is_some_and(|value| value == "1");
    let dir = tempfile::tempdir().unwrap();
    let mut followed = Followed::new();
    for round in 0..if long { 40 } else { 4 } {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env(CHILD_DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let addr = said.find_map(|line| {
            let line = line.unwrap();
            let (_, addr) = line.split_once(LISTENING)?;
            Some(addr.to_owned())
        });
        for turn in 0..3 {
            follow(
                addr.as_ref().unwrap(),
                &mut followed,
                31 + 40 * ((round + turn) % 4),
            );
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let (store, monitor) = open_followed(dir.path());
        follow(&monitor.addr().to_string(), &mut followed, usize::MAX);
        check_followed(&followed, &store);
        if round % 2 == 0 {
            store.close().unwrap();
        }
    }
    println!("{} changes followed", followed.len());
}
