//! The program, from outside.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod damaged;
mod relations;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use spikelet::operations::lists;
use spikelet::{ListReturnType, ShardedList, Store};
use tempfile::TempDir;
use unicode_width::UnicodeWidthStr;

/// Runs the program with these arguments, paths included, and this standard input.
fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may end without having read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs a command that must end well, with `--json`, and returns its object.
fn json(arguments: &[&str], input: &[u8]) -> Value {
    let output = run(&[arguments, &["--json"]].concat(), input);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Loads an edge list from standard input into a directory.
fn load(dir: &Path, edges: &str) -> Value {
    json(
        &["demo", "--edges", "-", "--dir", path(dir)],
        edges.as_bytes(),
    )
}

#[test]
fn a_small_graph_is_loaded_and_every_figure_is_there() {
    let figures = json(&["demo", "--nodes", "300"], b"");
    let expected = "schema_version report nodes edges load_s edges_per_s p50_us p99_us p999_us max_us waits key_busy \
                    bytes_on_device reopen_ms from_snapshot verified_edges missing_edges";
    let expected: Vec<&str> = expected.split_whitespace().collect();
    let found: Vec<&String> = figures.as_object().unwrap().keys().collect();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for name in expected {
        let figure = &figures[name];
        assert!(
            figure.is_number() || figure.is_boolean() || figure == "demo",
            "{name}: {figures}"
        );
    }
    assert_eq!(
        (figures["nodes"].as_u64(), figures["edges"].as_u64()),
        (Some(300), Some(2_299))
    );
    assert_eq!(
        (
            figures["verified_edges"].as_u64(),
            figures["missing_edges"].as_u64()
        ),
        (Some(2_299), Some(0))
    );
    assert!(figures["p50_us"].as_f64() <= figures["p999_us"].as_f64());
    assert!(figures["bytes_on_device"].as_u64() > Some(0));
}

#[test]
fn the_text_for_people_answers_the_questions_within_a_hundred_columns() {
    let names: String = (0..30)
        .map(|n| format!("a-rather-long-name-of-somebody-number-{n},the-star-of-this-graph\n"))
        .collect();
    let output = run(&["demo", "--edges", "-"], names.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = text(&output.stdout);
    for part in [
        "the-star-of-this-graph, by 30",
        "does ",
        " yes",
        " no",
        "p99.9",
        "30 of 30",
        "KEY_BUSY",
        " KiB",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    for line in report.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn no_line_of_a_report_is_wider_than_a_hundred_columns_whatever_the_names() {
    let home = TempDir::new().unwrap();
    let (dir, lines) = (home.path().join("store"), home.path().join("lines.jsonl"));
    // Letters that take two columns, as long as names may be, and controls that would move the
    // cursor.
    let (set, bin, key) = (
        "集".repeat(20) + "\u{1b}\n",
        "名".repeat(5),
        "鍵".repeat(300),
    );
    let store = Store::open(&dir).unwrap();
    store.set(&set).unwrap().put(&*key, [(&*bin, 1)]).unwrap();
    let list = ShardedList::new(&store, &set, format!("{key}:"), &bin).unwrap();
    for n in 0..50 {
        list.add(n).unwrap();
    }
    list.shards().activate(4).unwrap();
    store.close().unwrap();
    drop((list, store));
    let line = serde_json::json!({"set": set, "key": key, "bins": {&key: [1, 2], &bin: key}});
    std::fs::write(&lines, line.to_string()).unwrap();
    let name = "名".repeat(80);
    let edges = format!("{name} {name}2\n{name}2 {name}3\n");
    let (backup, new) = (home.path().join("all.asb"), home.path().join("new"));
    let second = format!("{key}:");
    let table: [(&[&str], &[u8]); 11] = [
        (&["stat", path(&dir)], b""),
        (&["verify", path(&dir)], b""),
        (&["shards", path(&dir)], b""),
        (&["shards", path(&dir), "--key", &second], b""),
        (&["sizing", path(&dir), "--writes-per-s", "400"], b""),
        (&["sizing", path(&lines), "--sample", "5"], b""),
        (
            &[
                "sizing",
                "plan",
                "--entries",
                "1000000000000",
                "--entry-bytes",
                "15000000",
            ],
            b"",
        ),
        (&["backup", path(&dir), "--out", path(&backup)], b""),
        (&["restore", path(&backup), "--into", path(&new)], b""),
        (&["demo", "--edges", "-"], edges.as_bytes()),
        (
            &[
                "contention",
                "--virtual",
                "--rate",
                "25,200",
                "--duration",
                "20s",
            ],
            b"",
        ),
    ];
    for (arguments, input) in table {
        let output = run(arguments, input);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let report = text(&output.stdout);
        assert!(report.lines().count() > 2, "{arguments:?}");
        for line in report.lines() {
            assert!(
                line.width() <= 100,
                "{arguments:?}: {}: {line}",
                line.width()
            );
            assert!(!line.contains(char::is_control), "{arguments:?}: {line:?}");
        }
    }
}

#[test]
fn edge_lists_of_all_forms_give_the_same_graph() {
    let forms = [
        "id_1,id_2\n1,2\n3,2\n",
        "1 2\n3 2",
        "\u{feff}# c\r\n1\t2\t99\r\n\r\n3\t2\t98\r\n",
        "1;2\n3;2\n1;2\n",
    ];
    for form in forms {
        let dir = TempDir::new().unwrap();
        let figures = load(dir.path(), form);
        assert_eq!(
            (figures["nodes"].as_u64(), figures["edges"].as_u64()),
            (Some(3), Some(2)),
            "{form:?}"
        );
        let store = Store::open(dir.path()).unwrap();
        let users = store.namespace("demo").unwrap().set("users").unwrap();
        let followers = lists::get_by_index_range("followers", 0, ListReturnType::Values);
        let followers = users.operate(2, &[followers]).unwrap();
        let expected = spikelet::Value::List([1, 3].into_iter().collect());
        assert_eq!(followers.value(0), Some(&expected), "{form:?}");
    }
}

#[test]
fn ids_that_are_no_integers_are_text() {
    let dir = TempDir::new().unwrap();
    let figures = load(dir.path(), "ada bob\n7 bob\n");
    assert_eq!(figures["nodes"].as_u64(), Some(3));
    let store = Store::open(dir.path()).unwrap();
    let users = store.namespace("demo").unwrap().set("users").unwrap();
    assert!(users.exists("7").unwrap() && users.exists("ada").unwrap());
    assert!(!users.exists(7).unwrap());
}

#[test]
fn a_malformed_line_is_named_and_nothing_is_written() {
    let home = TempDir::new().unwrap();
    let (dir, file) = (home.path().join("store"), home.path().join("edges.csv"));
    std::fs::write(&file, "id_1,id_2\n0,1\n0,2\n1;\n5,6\n").unwrap();
    let output = run(&["demo", "--edges", path(&file), "--dir", path(&dir)], b"");
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(
        message.contains("edges.csv:4: expected two node ids"),
        "{message}"
    );
    assert!(message.contains("found \"1;\""), "{message}");
    assert!(output.stdout.is_empty());
    assert!(!dir.exists());
}

#[test]
fn the_demo_keeps_out_of_stores_and_directories_that_are_not_its_own() {
    let home = TempDir::new().unwrap();
    let [store_dir, earlier, files] = ["store", "earlier", "files"].map(|it| home.path().join(it));
    let store = Store::open(&store_dir).unwrap();
    store.set("things").unwrap().put(1, [("a", 1)]).unwrap();
    store.close().unwrap();
    drop(store);
    load(&earlier, "1 2\n2 3\n");
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("letter.txt"), "dear").unwrap();
    let stats = || [&store_dir, &earlier].map(|dir| json(&["stat", path(dir)], b""));
    let before = stats();
    for dir in [&store_dir, &earlier, &files] {
        let output = run(&["demo", "--edges", "-", "--dir", path(dir)], b"1 2\n");
        assert_eq!(output.status.code(), Some(2));
        let told = text(&output.stderr);
        assert!(told.contains("something is in it"), "{told}");
    }
    // The refusals have left all as it was.
    assert_eq!(stats(), before);
    assert_eq!(std::fs::read_dir(&files).unwrap().count(), 1);
}

#[test]
fn stat_shows_what_is_there() {
    let dir = TempDir::new().unwrap();
    load(dir.path(), "1 2\n2 3\n");
    let stat = json(&["stat", path(dir.path())], b"");
    let namespace = &stat["namespaces"][0];
    let sets = &namespace["sets"];
    assert_eq!(
        (namespace["name"].as_str(), namespace["records"].as_u64()),
        (Some("demo"), Some(4))
    );
    assert_eq!(
        (sets[0]["name"].as_str(), sets[0]["records"].as_u64()),
        (Some("<relations"), Some(1))
    );
    assert_eq!(
        (sets[1]["name"].as_str(), sets[1]["records"].as_u64()),
        (Some("users"), Some(3))
    );
    assert!(namespace["live_bytes"].as_u64() > Some(0));
    assert!(namespace["device_bytes"].as_u64() > namespace["live_bytes"].as_u64());
    assert!(namespace["write_amplification"].as_f64() > Some(0.0));
    assert!(namespace["index_bytes"].as_u64() > Some(0));
    assert!(namespace["hot_keys"].is_array());
    let output = run(&["stat", path(dir.path())], b"");
    assert!(
        text(&output.stdout).contains("Namespace demo"),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn stat_works_on_a_store_that_was_never_closed() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.set("things").unwrap().put(1, [("a", 1)]).unwrap();
    drop(store);
    let stat = json(&["stat", path(dir.path())], b"");
    let namespace = &stat["namespaces"][0];
    assert_eq!(
        (
            namespace["records"].as_u64(),
            namespace["clean_close"].as_bool()
        ),
        (Some(1), Some(false))
    );
}

#[test]
fn wrong_usage_is_told_apart_from_damage() {
    let table: [(&[&str], &str); 4] = [
        (&["dmeo"], "demo"),
        (&["demo", "--nodes", "1"], "2"),
        (&["demo", "--edges", "no-such-file"], "no-such-file"),
        (&["demo", "--edges", "-", "--nodes", "9"], "--nodes"),
    ];
    for (arguments, expected) in table {
        let output = run(arguments, b"1 2\n");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&output.stderr).contains(expected),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
}
