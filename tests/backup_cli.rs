//! `spikelet backup` and `spikelet restore`, from outside.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use spikelet::query::{IndexComponent, IndexDefinition, IndexType};
use spikelet::record::KeyHash;
use spikelet::{NamespaceConfig, Store};
use tempfile::TempDir;

/// Runs the program.
fn run(arguments: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_spikelet");
    Command::new(program).args(arguments).output().unwrap()
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs a command with `--json` that ends with this code, and returns its object.
fn json(arguments: &[&str], code: i32) -> Value {
    let output = run(&[arguments, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A directory with a store in `store`, of three people and a visit, and its backup in `saved.asb`.
fn saved() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    let people = store.set("people").unwrap();
    for (name, age) in [("ada", 36), ("alan", 41), ("grace", 85)] {
        people.put(name, [("age", age)]).unwrap();
    }
    store.set("visits").unwrap().put(7, [("n", 1)]).unwrap();
    store.close().unwrap();
    drop((store, people));
    let saved = json(
        &[
            "backup",
            path(&dir.path().join("store")),
            "--out",
            path(&dir.path().join("saved.asb")),
        ],
        0,
    );
    assert_eq!(saved["records"], 4);
    dir
}

#[test]
fn a_backup_without_records_makes_no_store() {
    let dir = saved();
    let [empty, into, store, none] = ["empty.asb", "into", "store", "none.asb"]
        .map(|name| path(&dir.path().join(name)).to_owned());
    fs::write(&empty, "Version 3.1\n# namespace test\n# first-file\n").unwrap();
    let output = run(&["restore", &empty, "--into", &into]);
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("no records to restore"));
    assert!(!Path::new(&into).exists());
    let figures = json(
        &[
            "restore",
            path(&dir.path().join("saved.asb")),
            "--into",
            &into,
            "--set",
            "none",
        ],
        0,
    );
    assert_eq!(
        (&figures["restored"], &figures["left_out"]),
        (&0.into(), &4.into())
    );
    assert!(!Path::new(&into).exists());
    let output = run(&["backup", &store, "--out", &none, "--file-limit", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--file-limit"));
}

#[test]
fn a_store_is_saved_and_restored() {
    let dir = saved();
    let [store, backup, into] =
        ["store", "backup", "into"].map(|name| path(&dir.path().join(name)).to_owned());
    let figures = json(&["backup", &store, "--out", &backup], 0);
    let file = format!("{backup}/test_00000.asb");
    let bytes = fs::metadata(&file).unwrap().len();
    let expected = json!({
        "schema_version": 2, "report": "backup",
        "path": store, "files": [file], "bytes": bytes,
        "namespaces": [{"name": "test", "records": 4}], "records": 4,
        "indexes": 0, "own_indexes": [], "without_key": 0, "foreign_digests": 0, "vectors": 0, "damaged": 0, "damage": [],
        "leftovers": [],
    });
    assert_eq!(figures, expected);
    let figures = json(&["restore", &backup, "--into", &into], 0);
    let mut expected = json!({
        "schema_version": 2, "report": "restore",
        "path": backup, "into": into, "damaged": false, "damage": [],
        "records": 4, "restored": 4, "fresher": 0, "existed": 0, "expired": 0, "without_bins": 0,
        "left_out": 0, "refused": 0, "skipped": {"modules": 0, "nil_bins": 0},
        "indexes": 0, "indexes_existed": 0, "indexes_left_out": 0, "indexes_refused": [],
        "interrupted": false,
    });
    assert_eq!(figures, expected);
    let again = json(&["restore", &backup, "--into", &into], 0);
    expected["restored"] = 0.into();
    expected["fresher"] = 4.into();
    assert_eq!(again, expected);

    let store = Store::open(&into).unwrap();
    assert!(
        store.namespace("test").unwrap().opening().from_snapshot,
        "it was closed"
    );
    assert_eq!(
        store.namespace("test").unwrap().key_hash(),
        KeyHash::Ripemd160
    );
    let ada = store.set("people").unwrap().get("ada").unwrap().unwrap();
    assert_eq!(ada.get("age"), Some(36.into()));
}

#[test]
fn secondary_indexes_are_saved_restored_and_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let [store, saved, none, into, without] = ["store", "saved.asb", "none.asb", "into", "without"]
        .map(|name| path(&dir.path().join(name)).to_owned());
    {
        let opened = Store::open(&store).unwrap();
        let people = opened.set("people").unwrap();
        let age = IndexComponent::bin("age").of_type(IndexType::Integer);
        let by_age = IndexDefinition::new("by_age", [age]).ignoring_longer_than(2048);
        people.create_index(by_age).unwrap();
        let by_both = IndexDefinition::new("by_both", ["age", "name"]);
        people.create_index(by_both).unwrap();
        people.put("ada", [("age", 36)]).unwrap();
        opened.close().unwrap();
    }
    let figures = json(&["backup", &store, "--out", &saved], 0);
    assert_eq!(figures["indexes"], 2);
    let own = json!([{"namespace": "test", "name": "by_both"}]);
    assert_eq!(figures["own_indexes"], own);
    let figures = json(&["backup", &store, "--out", &none, "--no-indexes"], 0);
    assert_eq!(figures["indexes"], 0);
    assert!(!fs::read_to_string(&none).unwrap().contains("* i"));

    let figures = json(&["restore", &saved, "--into", &into], 0);
    assert_eq!(
        (&figures["indexes"], &figures["restored"]),
        (&2.into(), &1.into())
    );
    let figures = json(&["restore", &saved, "--into", &into], 0);
    assert_eq!(figures["indexes_existed"], 2);
    let figures = json(&["restore", &saved, "--into", &without, "--no-indexes"], 0);
    assert_eq!(figures["indexes_left_out"], 2);
    for (dir, wanted) in [(&into, 2), (&without, 0)] {
        let store = Store::open(dir).unwrap();
        assert_eq!(store.namespace("test").unwrap().indexes().len(), wanted);
    }
    let store = Store::open(&into).unwrap();
    let people = store.set("people").unwrap();
    assert_eq!(people.query("by_age").unwrap().eq(36).count().unwrap(), 1);
    drop((people, store));

    // A damaged definition is damage of the file.
    let text = fs::read_to_string(&saved).unwrap();
    fs::write(&saved, text.replace("by_age N 1 age N", "by_age X 1 age N")).unwrap();
    let figures = json(&["restore", &saved, "--into", &without], 1);
    let damage = figures["damage"][0].as_str().unwrap();
    assert!(damage.contains("line 4, byte"), "{damage}");
}

/// The words of a report that must be written, a space between each two.
fn report(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(output.stderr.is_empty());
    let report = text(&output.stdout);
    assert!(report.lines().all(|line| line.chars().count() <= 100));
    let words: Vec<&str> = report.split_whitespace().collect();
    words.join(" ")
}

#[test]
fn reports_are_for_people() {
    let dir = saved();
    let file = |name: &str| path(&dir.path().join(name)).to_owned();
    let (store, other) = (file("store"), file("other.asb"));
    let words = report(&["backup", &store, "--out", &other, "--set", "people"]);
    let expected = format!(
        "Backup of {store} namespace test 3 records without user key 0 damaged, not saved 0 file {other} size 327 B"
    );
    assert_eq!(words, expected);
    let (saved, into) = (file("saved.asb"), file("into"));
    let words = report(&[
        "restore",
        &saved,
        "--into",
        &into,
        "--set",
        "visits",
        "--key-hash",
        "xxh3",
    ]);
    let expected = format!(
        "Restored {saved} into {into} records in the backup 4 restored 1 left out 3 are of other namespaces or sets"
    );
    assert_eq!(words, expected);
    let store = Store::open(into).unwrap();
    assert_eq!(store.namespace("test").unwrap().key_hash(), KeyHash::Xxh3);
}

#[test]
fn a_namespace_is_restored_under_another_name() {
    let dir = saved();
    let file = |name: &str| path(&dir.path().join(name)).to_owned();
    let arguments = [
        "restore",
        &file("saved.asb"),
        "--into",
        &file("into"),
        "--namespace",
        "test,copy",
    ];
    assert_eq!(json(&arguments, 0)["restored"], 4);
    let store = Store::open(file("into")).unwrap();
    assert_eq!(store.namespace("copy").unwrap().stats().records, 4);
    assert!(store.namespace("test").is_err());
}

#[test]
fn of_a_damaged_file_nothing_is_restored_unless_a_part_is_asked_for() {
    let dir = saved();
    let file = |name: &str| path(&dir.path().join(name)).to_owned();
    let whole = fs::read_to_string(file("saved.asb")).unwrap();
    fs::write(file("cut.asb"), &whole[..whole.len() - 20]).unwrap();
    let arguments = ["restore", &file("cut.asb"), "--into", &file("into")];
    let figures = json(&arguments, 1);
    assert_eq!(
        (&figures["damaged"], &figures["restored"]),
        (&true.into(), &0.into())
    );
    let place = figures["damage"][0].as_str().unwrap();
    let last = format!(
        "cut.asb: line 33, byte {}: the file ends within ",
        whole.len() - 20
    );
    assert!(place.contains(&last), "{place}, not {last}");
    assert!(!Path::new(&file("into")).exists());
    let output = run(&arguments);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stdout);
    let title = format!("Checked {}, restored nothing\n", arguments[1]);
    assert!(
        told.starts_with(&title) && told.contains("\n  DAMAGED  "),
        "{told}"
    );
    assert!(text(&output.stderr).contains("nothing was restored; --partial restores"));
    let figures = json(&[&arguments[..], &["--partial"]].concat(), 1);
    assert_eq!(
        (&figures["restored"], &figures["records"]),
        (&3.into(), &3.into())
    );
}

#[test]
fn what_exists_is_treated_as_asked() {
    let dir = saved();
    let file = |name: &str| path(&dir.path().join(name)).to_owned();
    let restore = |flags: &[&str]| {
        let arguments = [
            "restore",
            &file("saved.asb"),
            "--into",
            &file("store"),
            "--set",
            "people",
        ];
        json(&[&arguments[..], flags].concat(), 0)
    };
    assert_eq!(restore(&[])["fresher"], 3);
    assert_eq!(restore(&["--unique"])["existed"], 3);
    assert_eq!(restore(&["--no-generation"])["restored"], 3);
    assert_eq!(restore(&["--no-generation", "--replace"])["restored"], 3);
}

#[test]
fn records_beyond_the_default_limit_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| path(&dir.path().join(name)).to_owned();
    let mut config = NamespaceConfig::new("test");
    config.max_record_bytes = 4 << 20;
    let builder = Store::builder().path(file("store")).namespace(config);
    let store = builder.open().unwrap();
    let large = spikelet::Value::Blob(vec![7; 3 << 20]);
    store.set("").unwrap().put("k", [("b", large)]).unwrap();
    drop(store);
    json(
        &[
            "backup",
            &file("store"),
            "--out",
            &file("large.asb"),
            "--compact",
        ],
        0,
    );
    let figures = json(&["restore", &file("large.asb"), "--into", &file("into")], 0);
    assert_eq!(figures["restored"], 1);
}

#[test]
fn what_cannot_be_is_refused_with_code_2() {
    let dir = saved();
    let file = |name: &str| path(&dir.path().join(name)).to_owned();
    fs::create_dir(file("empty")).unwrap();
    let table: [(&[&str], &str); 9] = [
        (
            &["backup", &file("none"), "--out", &file("a.asb")],
            "none holds no namespace: there is no such directory",
        ),
        (
            &["backup", &file("saved.asb"), "--out", &file("a.asb")],
            "saved.asb holds no namespace: it is a file, and a store is a directory",
        ),
        (
            &["backup", &file("empty"), "--out", &file("a.asb")],
            "empty holds no namespace: check the path",
        ),
        (
            &["backup", &file("store"), "--out", &file("none/a.asb")],
            "none: create it, or name another one",
        ),
        (
            &["backup", &file("store"), "--out", &file("saved.asb")],
            "there is such a file already",
        ),
        (
            &[
                "backup",
                &file("store"),
                "--out",
                &file("a.asb"),
                "--namespace",
                "x",
            ],
            "unknown namespace \"x\"",
        ),
        (
            &["restore", &file("none.asb"), "--into", &file("into")],
            "none.asb: No such file",
        ),
        (
            &["restore", &file("empty"), "--into", &file("into")],
            "holds no backup files",
        ),
        (
            &[
                "restore",
                &file("saved.asb"),
                "--into",
                &file("into"),
                "--namespace",
                "test,a/b",
            ],
            "a name has 1 to 31 letters",
        ),
    ];
    for (arguments, what) in table {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty());
        assert!(
            text(&output.stderr).contains(what),
            "{}",
            text(&output.stderr)
        );
    }
    let open = Store::open(file("store")).unwrap();
    let output = run(&["backup", &file("store"), "--out", &file("a.asb")]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    drop(open);
}

#[test]
fn what_a_killed_backup_left_is_told_and_removed_and_a_served_store_has_its_command() {
    let dir = saved();
    let [store, out] = ["store", "out"].map(|name| path(&dir.path().join(name)).to_owned());
    // No process has the largest number.
    let left = dir.path().join(".out.4294967295.partial");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("test_00000.asb"), "Version 3.1\n").unwrap();
    let output = run(&["backup", &store, "--out", &out]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let note = text(&output.stderr);
    assert!(
        note.contains(&format!("removed {}", left.display())),
        "{note}"
    );
    assert!(!left.exists());
    let of_host = |host| {
        run(&[
            "backup",
            "--host",
            host,
            "--namespace",
            "test",
            "--out",
            &out,
        ])
    };
    for (host, arguments) in [
        ("db:3100", "--host db --port 3100"),
        ("db", "--host db --port 3000"),
        ("[::1]:3100", "--host [::1] --port 3100"),
    ] {
        let output = of_host(host);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let command = format!("asbackup {arguments} --namespace test --directory '{out}'");
        assert!(text(&output.stderr).contains(&command), "{output:?}");
    }
    for host in ["db:x", "db:", "db:0", "db:70000", ":3000", "a:b:3000"] {
        let output = of_host(host);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains("HOST:PORT") && !said.contains("asbackup"),
            "{said}"
        );
    }
}

#[test]
fn shells_get_completions() {
    for (shell, expected) in [
        ("bash", "complete -F _spikelet"),
        ("zsh", "#compdef spikelet"),
        ("fish", "complete -c spikelet"),
    ] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let script = text(&output.stdout);
        assert!(
            script.contains(expected) && script.contains("contention"),
            "{script}"
        );
    }
}
