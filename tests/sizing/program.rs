//! `spikelet sizing`, from outside.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use spikelet::Store;
use spikelet::query::IndexDefinition;
use tempfile::TempDir;

use super::{SMALL, path, refused, run, stdout};

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
    assert_eq!(plan["schema_version"], 5);
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
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ");
    assert!(words.contains("ask for 8, so 8 are made"), "{text}");
    assert!(words.contains("Hash-shard it by 8"), "{text}");
    assert!(text.contains("\nPlan\n----\n"), "{text}");
}

#[test]
fn the_text_opens_with_its_verdict_and_has_its_sections_within_a_hundred_columns_and_no_colour() {
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
        "Rules",
    ];
    let said = text.lines().nth(2).unwrap();
    assert!(
        said.starts_with("  OK: Nothing needs sharding: the largest of"),
        "{said}"
    );
    assert!(text.contains("#####"), "bars in the terminal: {text}");
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
        assert_eq!(cell("bytes_p99"), set["bytes"]["p99"].to_string());
        assert_eq!(
            cell("verdict_level"),
            set["verdict"]["level"].as_str().unwrap()
        );
        assert_eq!(
            cell("advice_shards_pow2"),
            set["advice"]["shards_pow2"].to_string()
        );
    }
}

#[test]
fn a_plan_with_a_retention_names_its_buckets() {
    let numbers = "plan --entry-bytes 15 --writes-per-s 400 --retention 30d --json";
    let plan: Value =
        serde_json::from_str(&stdout(&numbers.split(' ').collect::<Vec<_>>())).unwrap();
    assert_eq!(plan["entries"], 400 * 30 * 86_400);
    assert_eq!(
        (&plan["pattern"], &plan["time"]["width"]),
        (&"time-shards".into(), &"minute".into())
    );
    assert_eq!(
        (&plan["time"]["buckets"], &plan["shards"]),
        (&43_200.into(), &8.into())
    );
}

#[test]
fn packed_files_and_standard_input_are_sized_as_the_lines_in_them() {
    let dir = TempDir::new().unwrap();
    let lines = std::fs::read(SMALL).unwrap();
    let gzip = |text: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(text).unwrap();
        packer.finish().unwrap()
    };
    let zstd = |text: &[u8]| {
        ruzstd::encoding::compress_to_vec(text, ruzstd::encoding::CompressionLevel::Fastest)
    };
    let half = lines.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let (first, second) = lines.split_at(half);
    let expected: Value = serde_json::from_str(&stdout(&[SMALL, "--json"])).unwrap();
    for (name, bytes) in [
        ("a.gz", gzip(&lines)),
        ("b.zst", zstd(&lines)),
        ("two-members", [gzip(first), gzip(second)].concat()),
        ("two-frames", [zstd(first), zstd(second)].concat()),
    ] {
        let file = dir.path().join(name);
        std::fs::write(&file, &bytes).unwrap();
        let found: Value = serde_json::from_str(&stdout(&[path(&file), "--json"])).unwrap();
        assert_eq!(
            (&found["sets"], &found["source_kind"]),
            (&expected["sets"], &"json-lines".into()),
            "{name}"
        );
        let output = piped(&bytes);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&found["sets"], &found["source"]),
            (&expected["sets"], &"standard input".into()),
            "{name}"
        );
        // A file that is cut off has no end.
        let output = piped(&bytes[..bytes.len() - 9]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("standard input"), "{name}: {told}");
    }
    let plain = piped(&lines);
    assert_eq!(plain.status.code(), Some(0));
}

#[test]
fn an_empty_input_is_no_store_without_records_but_an_error() {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.flush().unwrap();
    for (what, bytes) in [("nothing", vec![]), ("packed", packer.finish().unwrap())] {
        let output = piped(&bytes);
        assert_eq!(output.status.code(), Some(2), "{what}: {output:?}");
        assert!(output.stdout.is_empty(), "{what}");
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(told.contains("standard input is empty"), "{what}: {told}");
    }
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("saved.asb");
    std::fs::write(&file, b"").unwrap();
    assert!(refused(&[path(&file)]).contains("saved.asb is empty"));
}

/// Sizes standard input.
fn piped(bytes: &[u8]) -> std::process::Output {
    let mut running = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(["sizing", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    running.stdin.take().unwrap().write_all(bytes).unwrap();
    running.wait_with_output().unwrap()
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
    let rate = "--writes-per-s";
    assert!(refused(&[SMALL, rate, "usres=400"]).contains("\"usres\""));
    let twice = refused(&[SMALL, rate, "users=400", rate, "users=4"]);
    assert!(
        twice.contains("400 and 4: one record is the hottest of set users"),
        "{twice}"
    );
    assert!(refused(&[SMALL, rate, "-4"]).contains("from 0 to"));
}

#[test]
fn damaged_records_are_counted_and_the_exit_code_says_so() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    for (set, key) in [("a", "whole"), ("a", "unmistakable"), ("b", "whole")] {
        store.set(set).unwrap().put(key, [("n", 1)]).unwrap();
    }
    store.close().unwrap();
    drop(store);
    let device = dir.path().join("test/device-0");
    let mut bytes = std::fs::read(&device).unwrap();
    let at = bytes.windows(12).position(|text| text == b"unmistakable");
    bytes[at.unwrap()] ^= 0xff;
    std::fs::write(&device, bytes).unwrap();

    let output = run(&[path(dir.path()), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["damaged"], &json["records"]), (&1.into(), &2.into()));
    assert_eq!(json["namespaces"][0]["damaged"], 1);
    assert_eq!(json["verdict"]["level"], "DAMAGED");
    let output = run(&[path(dir.path())]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("\n  DAMAGED: Unreadable, and in no figure here: 1 of the records."),
        "{text}"
    );
}

#[test]
fn lines_with_the_key_of_an_earlier_one_are_counted() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("twice.jsonl");
    let line = |set: &str, key: &str| {
        format!("{{\"set\":\"{set}\",\"key\":{key},\"bins\":{{\"a\":1}}}}\n")
    };
    let lines = [
        line("s", "7"),
        line("t", "7"),
        line("s", "\"7\""),
        line("s", "null"),
        line("s", "null"),
        line("s", "7"),
        line("s", "7"),
    ];
    std::fs::write(&file, lines.concat()).unwrap();
    let json: Value = serde_json::from_str(&stdout(&[path(&file), "--json"])).unwrap();
    assert_eq!(json["records"], 7);
    let repeated: Vec<_> = json["lints"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|lint| lint["code"] == "repeated_key")
        .map(|lint| (&lint["set"], &lint["records"]))
        .collect();
    assert_eq!(repeated, [(&"s".into(), &2.into())]);
}

#[test]
fn a_store_of_the_demo_is_sized() {
    let dir = TempDir::new().unwrap();
    let demo = ["demo", "--nodes", "300", "--dir", path(dir.path())];
    let loaded = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(demo)
        .output()
        .unwrap();
    assert!(loaded.status.success());
    let home = TempDir::new().unwrap();
    let page = home.path().join("page.html");
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
    assert_eq!(bins, [2_299, 2_299]);
    assert!(users["index"]["bytes"].as_u64() > Some(0));
    assert!(
        std::fs::read_to_string(page)
            .unwrap()
            .starts_with("<!DOCTYPE html>")
    );
}

#[test]
fn secondary_indexes_are_shown_with_their_entries_memory_and_selectivity() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let people = store.set("people").unwrap();
    people
        .create_index(IndexDefinition::new("by_age", ["age"]))
        .unwrap();
    let pets = store.set("pets").unwrap();
    pets.create_index(IndexDefinition::new("by_name", ["name"]))
        .unwrap();
    for number in 0..200 {
        people.put(number, [("age", number % 8)]).unwrap();
    }
    store.close().unwrap();
    drop((store, people, pets));

    let home = TempDir::new().unwrap();
    let page = home.path().join("page.html");
    let sized = stdout(&[path(dir.path()), "--html", path(&page), "--json"]);
    let json: Value = serde_json::from_str(&sized).unwrap();
    let indexes = &json["namespaces"][0]["secondary_indexes"];
    let by_age = &indexes[0];
    assert_eq!(
        (&by_age["name"], &by_age["set"], &by_age["entries"]),
        (&"by_age".into(), &"people".into(), &200.into())
    );
    let keys = by_age["distinct_keys"].as_u64().unwrap();
    assert_eq!(keys, 8);
    assert_eq!(by_age["entries_per_key"], 200.0 / keys as f64);
    assert_eq!(by_age["selectivity"], 1.0 / keys as f64);
    assert!(by_age["memory_bytes"].as_u64() > Some(0));
    assert_eq!(indexes[1]["name"], "by_name");
    assert_eq!(indexes[1]["selectivity"], Value::Null);

    let text = stdout(&[path(dir.path())]);
    let row = text.lines().find(|line| line.contains("by_age")).unwrap();
    let per_key = format!("{:.1}", 200.0 / keys as f64);
    let selectivity = format!("{:.1}", 100.0 / keys as f64);
    assert!(row.contains("200") && row.contains(&per_key), "{row}");
    assert!(row.contains(&selectivity[..3]), "{row}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("by_age") && page.contains(&selectivity[..3]));

    // Of one set: its indexes only.
    let people = stdout(&[path(dir.path()), "--set", "people"]);
    assert!(people.contains("by_age") && !people.contains("by_name"));
}

#[test]
fn a_page_is_never_written_over_what_is_sized() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    let lines = "{\"a\":1}\n";
    let source = at("lines.jsonl");
    std::fs::write(&source, lines).unwrap();
    std::os::unix::fs::symlink(&source, at("alias.html")).unwrap();
    std::fs::hard_link(&source, at("twin.html")).unwrap();
    Store::open(at("store")).unwrap().close().unwrap();
    std::os::unix::fs::symlink(at("store/test"), at("way-in")).unwrap();
    let device = std::fs::read(at("store/test/device-0")).unwrap();
    let store = at("store");
    let table = [
        (&source, "lines.jsonl"),
        (&source, "alias.html"),
        (&source, "twin.html"),
        (&source, "store/../lines.jsonl"),
        (&store, "store/page.html"),
        (&store, "store/test/device-0"),
        (&store, "way-in/device-0"),
        (&store, "way-in/page.html"),
    ];
    for (source, page) in table {
        let message = refused(&[path(source), "--html", path(&at(page))]);
        assert!(message.contains("which is read"), "{page}: {message}");
    }
    assert_eq!(std::fs::read_to_string(&source).unwrap(), lines);
    assert_eq!(std::fs::read(at("store/test/device-0")).unwrap(), device);
    assert!(!at("store/page.html").exists() && !at("store/test/page.html").exists());
    // An older page is written over.
    for _ in 0..2 {
        stdout(&[path(&source), "--html", path(&at("page.html"))]);
    }
}

#[test]
fn a_store_with_a_backup_in_it_is_sized_as_a_store() {
    let dir = TempDir::new().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.set("a").unwrap().put(1, [("n", 1)]).unwrap();
    store.close().unwrap();
    drop(store);
    std::fs::write(dir.path().join("old.asb"), "Version 3.1\n# namespace old\n").unwrap();
    let json: Value = serde_json::from_str(&stdout(&[path(dir.path()), "--json"])).unwrap();
    assert_eq!(
        (&json["source_kind"], &json["records"]),
        (&"store".into(), &1.into())
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
    let odd_key = file("e.jsonl", "{\"key\":[7],\"bins\":{}}\n");
    let table: [(&[&str], &str); 23] = [
        (
            &[&no_json],
            "a.jsonl:2: expected one JSON object a line, found \"{\\\"a\\\":\" (column 5",
        ),
        (
            &[&no_record],
            "b.jsonl:3: expected one JSON object a line, found \"[1]\"",
        ),
        (&[&twice], "c.jsonl:1: no record can hold this"),
        (
            &[&odd_key],
            "e.jsonl:1: \"key\": expected text or an integer, found \"[7]\"",
        ),
        (&[&no_backup], "d.asb: line 3"),
        (&["no-such-file"], "no-such-file"),
        (&[path(dir.path())], "d.asb: line 3"),
        (&[SMALL, "--html", "no-such-dir/page.html"], "no-such-dir"),
        (
            &[SMALL, "--writes-per-s=-1"],
            "-1 writes a second: expected a number from 0",
        ),
        (&[SMALL, "--writes-per-s", "nan"], "NaN writes a second"),
        (
            &[SMALL, "--writes-per-s", "users=many"],
            "\"many\" is no number",
        ),
        (
            &[SMALL, "--writes-per-s", "1", "--writes-per-s", "2"],
            "one record is the hottest of all",
        ),
        (
            &["plan", "--entry-bytes=15"],
            "give --entries, or --writes-per-s",
        ),
        (
            &["plan", "--entries=9", "--entry-bytes=9", "--retention=soon"],
            "expected a time such as",
        ),
        (&["plan", "--entries=0", "--entry-bytes=15"], "0 entries"),
        (
            &["plan", "--entries=9", "--entry-bytes=0"],
            "entries of 0 bytes",
        ),
        (
            &["plan", "--entries=18446744073709551615", "--entry-bytes=2"],
            "18446744073709551615 entries of 2 bytes are more than",
        ),
        (
            &["plan", "--entries=18446744073709551616", "--entry-bytes=2"],
            "18446744073709551616",
        ),
        (
            &[
                "plan",
                "--entries=9",
                "--entry-bytes=9",
                "--writes-per-s=-2",
            ],
            "-2 writes a second",
        ),
        (
            &[
                "plan",
                "--entries=9",
                "--entry-bytes=9",
                "--writes-per-s=1e300",
            ],
            "writes a second: expected a number from 0 to 1000000000",
        ),
        (
            &[
                "plan",
                "--entries=9",
                "--entry-bytes=9",
                "--writes-per-s=many",
            ],
            "many",
        ),
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

#[test]
fn the_help_has_groups_and_examples() {
    let help = stdout(&["--help"]);
    for group in ["\nLoad:\n", "\nRecords:\n", "\nLimits:\n", "\nOutput:\n"] {
        assert_eq!(help.matches(group).count(), 1, "{group}: {help}");
    }
    let (_, examples) = help.split_once("Examples:").unwrap();
    assert_eq!(examples.matches("spikelet sizing ").count(), 3, "{help}");
}
