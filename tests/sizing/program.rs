//! `spikelet sizing`, from outside.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const SMALL: &str = "tests/sizing/small.jsonl";

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .arg("sizing")
        .args(arguments)
        .output()
        .unwrap()
}

fn stdout(arguments: &[&str]) -> String {
    let output = run(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {stderr}");
    assert!(
        stderr.is_empty(),
        "there is no terminal, so there is no progress bar: {stderr}"
    );
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn a_plan_answers_from_numbers() {
    let arguments = [
        "plan",
        "--entries",
        "300000",
        "--entry-bytes",
        "15",
        "--json",
    ];
    let plan: Value = serde_json::from_str(&stdout(&arguments)).unwrap();
    assert_eq!(plan["schema_version"], 1);
    assert_eq!(plan["total_bytes"], 4_500_000);
    assert_eq!(
        (&plan["shards"], &plan["shards_pow2"]),
        (&35.into(), &64.into())
    );
    assert_eq!(plan["pattern"], "hash-shards");
    assert!(plan["why"].as_str().unwrap().contains("35"));
    let arguments = [
        "plan",
        "--entries",
        "100",
        "--entry-bytes",
        "15",
        "--writes-per-s",
        "400",
    ];
    let text = stdout(&arguments);
    assert!(text.contains("ask for 8, so 8 are made"), "{text}");
}

#[test]
fn the_text_has_ten_sections_within_a_hundred_columns_and_no_colour() {
    let text = stdout(&[SMALL]);
    let titles = [
        "Verdict",
        "Sizes",
        "Distribution",
        "Bins",
        "Records",
        "Shard advice",
        "What if",
        "Index memory",
        "Write amplification",
        "Lints",
    ];
    let found: Vec<&str> = text.lines().filter(|line| titles.contains(line)).collect();
    assert_eq!(found, titles);
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(text.is_ascii() && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn json_and_csv_say_the_same() {
    let json: Value = serde_json::from_str(&stdout(&[SMALL, "--json"])).unwrap();
    let csv = stdout(&[SMALL, "--csv"]);
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heading = lines.next().unwrap();
    let sets = json["sets"].as_array().unwrap();
    let rows: Vec<_> = lines.collect();
    assert_eq!(rows.len(), sets.len());
    for (row, set) in rows.iter().zip(sets) {
        let cell = |name: &str| row[heading.iter().position(|found| *found == name).unwrap()];
        assert_eq!(cell("set"), set["set"].as_str().unwrap());
        assert_eq!(cell("p99"), set["bytes"]["p99"].to_string());
        assert_eq!(cell("verdict"), set["verdict"]["level"].as_str().unwrap());
        assert_eq!(
            cell("shards_pow2"),
            set["advice"]["shards_pow2"].to_string()
        );
    }
}

#[test]
fn one_set_is_sized_if_one_is_asked_for() {
    let json: Value = serde_json::from_str(&stdout(&[SMALL, "--set", "users", "--json"])).unwrap();
    assert_eq!(
        (&json["records"], &json["sets"][0]["set"]),
        (&3.into(), &"users".into())
    );
    let json: Value = serde_json::from_str(&stdout(&[SMALL, "--set", "", "--json"])).unwrap();
    assert_eq!(json["records"], 1);
    assert!(refused(&[SMALL, "--set", "usres"]).contains("\"usres\""));
}

#[test]
fn a_store_of_the_demo_is_sized() {
    let dir = TempDir::new().unwrap();
    let demo = [
        "demo",
        "--nodes",
        "300",
        "--edge-count",
        "2000",
        "--dir",
        path(dir.path()),
    ];
    let loaded = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(demo)
        .output()
        .unwrap();
    assert!(loaded.status.success());
    let page = dir.path().join("page.html");
    let json: Value = serde_json::from_str(&stdout(&[
        path(dir.path()),
        "--html",
        path(&page),
        "--json",
    ]))
    .unwrap();
    let users = &json["sets"][0];
    assert_eq!(
        (&users["namespace"], &users["set"], &users["records"]),
        (&"demo".into(), &"users".into(), &300.into())
    );
    let bins: Vec<_> = users["bins"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bin| &bin["collection"]["count"]["total"])
        .collect();
    assert_eq!(bins, [2_000, 2_000]);
    assert!(users["index"]["bytes"].as_u64() > Some(0));
    assert!(
        std::fs::read_to_string(page)
            .unwrap()
            .starts_with("<!DOCTYPE html>")
    );
}

#[test]
fn what_cannot_be_sized_is_told_with_its_place() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        path(&file).to_owned()
    };
    let no_json = file("a.jsonl", "{\"a\":1}\n{\"a\":\n");
    let no_record = file("b.jsonl", "{\"a\":1}\n\n[1]\n");
    let twice = file("c.jsonl", "{\"a\":{\"b\":1,\"b\":2}}\n");
    let no_backup = file("d.asb", "Version 3.1\n# namespace test\n+ x\n");
    let table: [(&[&str], &str); 10] = [
        (&[&no_json], "a.jsonl:2: expected one JSON object"),
        (&[&no_record], "b.jsonl:3: expected one JSON object"),
        (&[&twice], "c.jsonl:1: no record can hold this"),
        (&[&no_backup], "d.asb: line 3"),
        (&["no-such-file"], "no-such-file"),
        (&[path(dir.path())], "d.asb: line 3"),
        (&[SMALL, "--html", "no-such-dir/page.html"], "no-such-dir"),
        (&[SMALL, "--writes-per-s=-1"], "0 or more"),
        (&[SMALL, "--json", "--csv"], "--csv"),
        (&[], "required"),
    ];
    for (arguments, expected) in table {
        let message = refused(arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    let empty = TempDir::new().unwrap();
    assert!(refused(&[path(empty.path())]).contains(path(empty.path())));
}
