//! `spikelet move`: a store into a cluster, closed or running, with kills on both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use spikelet::cluster::Cluster;
use spikelet::monitor::Monitor;
use spikelet::query::{IndexComponent, IndexDefinition, IndexType};
use spikelet::record::KeyHash;
use spikelet::relation::{ManyToMany, declared_relations};
use spikelet::shard::ShardPolicy;
use spikelet::{
    Expiration, Key, ListOrder, NamespaceConfig, Record, RecordSet, RecordStore, Result,
    ShardedList, Store, Value, WritePolicy, bins, operations as ops,
};

use crate::common::Served;
use crate::program::{json, refused};

pub fn store(path: Option<&Path>, key_hash: KeyHash) -> Store {
    let mut config = NamespaceConfig::new("test");
    config.key_hash = key_hash;
    let builder = Store::builder().namespace(config);
    path.into_iter()
        .fold(builder, |builder, path| builder.path(path))
        .open()
        .unwrap()
}

pub fn follows<S: RecordStore>(store: S) -> ManyToMany<S> {
    ManyToMany::new(
        store,
        "follows",
        ("users", "following"),
        ("users", "followers"),
    )
}

fn list<S: RecordStore>(store: &S, key: &str) -> ShardedList<S::Records> {
    let list = ShardedList::new(store, "lists", key, "by").unwrap();
    list.policy(ShardPolicy::manual())
}

/// The records of a set by their keys, as clients see them.
pub fn records<S: RecordStore>(store: &S, set: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let records = store.records(set).unwrap();
    records.scan_each(&mut |record: Result<Record>| {
        let record = record.unwrap();
        let bins: BTreeMap<String, String> = record
            .bins()
            .map(|(name, value)| (name.to_string(), plain(&value.to_value().unwrap())))
            .collect();
        let expires = record.metadata().void_time != 0;
        found.insert(format!("{:?}", record.key()), format!("{bins:?} {expires}"));
        ControlFlow::Continue(())
    });
    found
}

/// A value without the order of its lists and maps, which clients are not told.
fn plain(value: &Value) -> String {
    match value {
        Value::List(list) => format!("{:?}", list.iter().map(plain).collect::<Vec<_>>()),
        Value::Map(map) => {
            let entry = |(key, value): &(Value, Value)| (plain(key), plain(value));
            format!("{:?}", map.iter().map(entry).collect::<Vec<_>>())
        }
        value => format!("{value:?}"),
    }
}

/// A store with everything that can be moved, and an index that cannot.
fn fill(store: &Store) {
    let things = store.set("things").unwrap();
    for key in [Key::from(7), Key::from("text"), Key::from(&b"\0bytes"[..])] {
        let values = bins! {
            "int" => i64::MIN, "float" => 1.5, "text" => "\u{e9}", "blob" => vec![0_u8, 255], "yes" => true
        };
        things.put(key, values).unwrap();
    }
    let kept = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(1_000)));
    let order = ops::lists::create("list", ListOrder::Ordered);
    let append = ops::lists::append(&Default::default(), "list", vec![1, 2]);
    things
        .operate_with(&kept, "expires", &[order, append])
        .unwrap();
    for number in 0..500 {
        things.put(number + 1_000, [("number", number)]).unwrap();
    }
    let in_no_set = store.set("").unwrap();
    for number in 0..9 {
        in_no_set.put(number, [("number", number)]).unwrap();
    }
    let sharded = list(store, "sharded");
    for element in 0..300 {
        sharded.add(element).unwrap();
    }
    sharded.shards().activate(4).unwrap();
    let follows = follows(store);
    follows.declare().unwrap();
    let modules = store.set("<functions").unwrap();
    let module = bins! { "file" => "m.lua", "content" => "LS0=" };
    modules.put("m.lua", module).unwrap();
    for source in 0..20 {
        follows.link(source, (source + 1) % 20).unwrap();
    }
    let number = IndexComponent::bin("number").of_type(IndexType::Integer);
    things
        .create_index(IndexDefinition::new("by_number", [number]))
        .unwrap();
    things
        .create_index(IndexDefinition::new("by_two", ["int", "text"]))
        .unwrap();
}

#[test]
fn a_closed_store_is_moved_whole() {
    for key_hash in [KeyHash::Xxh3, KeyHash::Ripemd160] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let source = store(Some(&path), key_hash);
        fill(&source);
        if key_hash == KeyHash::Ripemd160 {
            let keyless = WritePolicy::default().send_key(false);
            let keyless = source
                .set("things")
                .unwrap()
                .put_with(&keyless, 9, [("i", 9)]);
            keyless.unwrap();
        }
        let sets = ["things", "lists", "users", ""];
        let expected = sets.map(|set| records(&source, set));
        source.close().unwrap();
        drop(source);
        let served = Served::in_memory();
        let file = dir.path().join("position");
        let command = [
            "move",
            path.to_str().unwrap(),
            "--host",
            &served.addr,
            "--resume",
            file.to_str().unwrap(),
        ];
        let (code, found) = json(&command);
        assert_eq!(code, 0, "{found:#}");
        assert_eq!(found["compared"]["same"], true);
        assert_eq!(found["compared"]["bins_compared"], found["copied"]);
        assert_eq!(found["indexes"], 1);
        assert_eq!(found["indexes_left_out"][0], "by_two");
        assert_eq!(found["modules_left_out"], serde_json::json!(["m.lua"]));
        assert!(!file.exists());
        let cluster = served.cluster();
        assert_eq!(sets.map(|set| records(&cluster, set)), expected);
        // The handles go on where they were.
        let sharded = list(&cluster, "sharded");
        assert_eq!(sharded.shards().state().unwrap().shards, 4);
        assert!(!sharded.add(17).unwrap() && sharded.add(1_000).unwrap());
        assert_eq!(sharded.len().unwrap(), 301);
        let follows = follows(&cluster);
        assert!(follows.contains(0, 1).unwrap() && !follows.contains(1, 0).unwrap());
        assert_eq!(declared_relations(&cluster).unwrap().len(), 1);
        let indexes = cluster.info("sindex-list:namespace=test").unwrap();
        assert!(indexes.contains("by_number"), "{indexes}");
        // Existing records are not written over unasked.
        let again = refused(&command);
        assert!(again.contains("has records already"), "{again}");
        let (code, _) = json(&[&command[..], &["--into-existing", "--sample", "50"]].concat());
        assert_eq!(code, 0);
        assert_eq!(sharded.len().unwrap(), 300);
    }
}

#[test]
fn what_cannot_be_moved_is_said_before_anything_is_written() {
    let served = Served::in_memory();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("position");
    let file = file.to_str().unwrap();
    let with = |source: &str, more: &[&str]| {
        let command = ["move", source, "--host", &served.addr, "--resume", file];
        refused(&[&command[..], more].concat())
    };
    let none = with("/nowhere/at all", &[]);
    assert!(none.contains("no directory"), "{none}");
    let source = store(None, KeyHash::Xxh3);
    source.set("things").unwrap().put(1, [("i", 1)]).unwrap();
    let monitor = |gives: bool| {
        let monitor = Monitor::builder(&source).listen("127.0.0.1:0").unwrap();
        monitor.serve_records(gives).start().unwrap()
    };
    let closed = monitor(false);
    let no_records = with(&closed.addr().to_string(), &["--follow"]);
    assert!(no_records.contains("serve_records"), "{no_records}");
    let open = monitor(true);
    let silent = with(&open.addr().to_string(), &["--follow"]);
    assert!(silent.contains("keeps its changes"), "{silent}");
    let namespace = source.namespace("test").unwrap();
    namespace.changes().enable("others").unwrap();
    let silent = with(&open.addr().to_string(), &["--follow"]);
    assert!(silent.contains("the sets things"), "{silent}");
    fs::write(
        file,
        r#"{"source":"a","target":"b","copied_to":null,"changes":null,"sets":[],"silent_sets":[],"refused_sets":[],"records":0}"#,
    )
    .unwrap();
    let other = with(&open.addr().to_string(), &[]);
    assert!(other.contains("a move of a to b"), "{other}");
    assert_eq!(served.cluster().set_names().unwrap(), [] as [String; 0]);
}

/// Ends the writers, also where the test fails.
struct Writers<'a>(&'a AtomicBool);

impl Drop for Writers<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A move that runs.
struct Moving(Child);

impl Moving {
    fn start(source: &str, target: &str, file: &Path) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_spikelet"))
            .args(["move", source, "--host", target, "--follow", "--json"])
            .args(["--into-existing", "--resume"])
            .arg(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        // Its first note shows that it handles the signal to stop.
        if file.exists() {
            let mut line = String::new();
            let mut notes = BufReader::new(child.stderr.take().unwrap());
            notes.read_line(&mut line).unwrap();
            assert!(line.contains("goes on from"), "{line}");
            std::thread::spawn(move || {
                notes
                    .lines()
                    .for_each(|note| eprintln!("{}", note.unwrap()))
            });
        }
        Self(child)
    }

    /// Waits until it has come further, and lets it die.
    fn kill_after(mut self, file: &Path, steps: usize) {
        let mut last = fs::read(file).ok();
        let mut seen = 0;
        while seen < steps {
            assert!(
                self.0.try_wait().unwrap().is_none(),
                "the move ended by itself"
            );
            let now = fs::read(file).ok();
            if now != last {
                (seen, last) = (seen + 1, now);
            }
            std::thread::yield_now();
        }
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Stops the command, and returns its exit code and report.
    fn stop(self) -> (i32, serde_json::Value) {
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        let output = self.0.wait_with_output().unwrap();
        let found = serde_json::from_slice(&output.stdout);
        (output.status.code().unwrap(), found.unwrap())
    }
}

#[test]
fn a_running_store_is_moved_while_it_is_written_and_both_sides_die() {
    let source = store(None, KeyHash::Xxh3);
    let namespace = source.namespace("test").unwrap();
    for set in ["things", "lists", "users", "<relations"] {
        namespace.changes().enable(set).unwrap();
    }
    let things = source.set("things").unwrap();
    for number in 0..3_000 {
        things.put(number, [("number", number)]).unwrap();
    }
    let follows = follows(&source);
    let hot = list(&source, "hot");
    let monitor = Monitor::builder(&source).listen("127.0.0.1:0").unwrap();
    let monitor = monitor.serve_records(true).start().unwrap();
    let source_addr = monitor.addr().to_string();
    let dir = tempfile::tempdir().unwrap();
    let (file, target_dir) = (dir.path().join("position"), dir.path().join("target"));
    let target_dir = target_dir.to_str().unwrap();
    let first = Served::with(&["--dir", target_dir, "--like-ce"]);
    let addr = first.addr.clone();
    let mut served = Some(first);

    let stop = AtomicBool::new(false);
    let acknowledged = Mutex::new(BTreeSet::new());
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut number = 0_i64;
            while !stop.load(Ordering::Relaxed) {
                things.put(number % 4_000, [("number", number)]).unwrap();
                things.delete((number + 2_000) % 4_000).unwrap();
                follows.link(number % 50, (number * 7 + 1) % 50).unwrap();
                follows.unlink(number % 50, (number * 7 + 8) % 50).unwrap();
                // It stays small enough for one record.
                hot.add(number % 2_000).unwrap();
                acknowledged.lock().unwrap().insert(number % 2_000);
                match number % 400 {
                    100 => drop(hot.shards().activate(2).unwrap()),
                    200 => drop(hot.shards().split().unwrap()),
                    300 => drop(hot.shards().deactivate().unwrap()),
                    _ => {}
                }
                number += 1;
            }
        });
        let writers = Writers(&stop);
        for steps in 1..5 {
            Moving::start(&source_addr, &addr, &file).kill_after(&file, steps);
        }
        let moving = Moving::start(&source_addr, &addr, &file);
        let position = fs::read(&file).unwrap();
        while fs::read(&file).unwrap() == position {
            std::thread::yield_now();
        }
        // The cluster goes away, and comes back with deleted records.
        drop(served.take());
        served = Some(Served::at(&addr, &["--dir", target_dir, "--like-ce"]));
        moving.kill_after(&file, 2);
        // The writers end first: that is the switch.
        let moving = Moving::start(&source_addr, &addr, &file);
        drop(writers);
        let (code, found) = moving.stop();
        assert_eq!(
            (code, &found["compared"]["same"]),
            (0, &true.into()),
            "{found:#}"
        );
    });
    let served = served.unwrap();
    let cluster: Cluster = served.cluster();
    for set in ["things", "users"] {
        assert_eq!(records(&cluster, set), records(&source, set), "{set}");
    }
    let elements: Vec<Value> = list(&cluster, "hot").iter().collect::<Result<_>>().unwrap();
    let acknowledged = acknowledged.into_inner().unwrap();
    let expected: Vec<Value> = acknowledged.into_iter().map(Value::Int).collect();
    assert_eq!(elements, expected);
    assert!(!file.exists());
    drop(monitor);
}
