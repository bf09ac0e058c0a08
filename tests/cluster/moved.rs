//! `spikelet move`: a store into a cluster, closed or running, with kills on both sides.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use spikelet::backup::{self, PieceStart, Reader, SavedRecord};
use spikelet::cluster::{Cluster, Comparison};
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
use crate::program::{json, refused, run};

fn store(path: Option<&Path>, key_hash: KeyHash) -> Store {
    let mut config = NamespaceConfig::new("test");
    config.key_hash = key_hash;
    let builder = Store::builder().namespace(config);
    path.into_iter()
        .fold(builder, |builder, path| builder.path(path))
        .open()
        .unwrap()
}

fn follows<S: RecordStore>(store: S) -> ManyToMany<S> {
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

/// The records of a set by their keys, with what clients are told of them.
fn records<S: RecordStore>(store: &S, set: &str) -> BTreeMap<String, String> {
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
    let sharded = list(store, "sharded");
    for element in 0..300 {
        sharded.add(element).unwrap();
    }
    sharded.shards().activate(4).unwrap();
    let follows = follows(store);
    follows.declare().unwrap();
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
        let expected: Vec<_> = ["things", "lists", "users"]
            .map(|set| records(&source, set))
            .into();
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
        assert!(!file.exists());
        let cluster = served.cluster();
        let moved: Vec<_> = ["things", "lists", "users"]
            .map(|set| records(&cluster, set))
            .into();
        assert_eq!(moved, expected);
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
        // What is there is not written over unasked.
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
        r#"{"source":"a","target":"b","copied_to":null,"changes":null,"sets":[],"silent_sets":[],"records":0}"#,
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
        // It says so once it can be told to stop.
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

    /// Tells it to stop, and returns how it ended and what it has found.
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
        // The cluster goes away, and comes back with what was deleted.
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

/// A store in memory that keeps the changes of one set, and a monitor that asks `hook` before it passes an answer on.
fn watched(hook: impl Fn(&Store, &str, String) -> String + Send + 'static) -> (Store, String) {
    let source = store(None, KeyHash::Xxh3);
    let namespace = source.namespace("test").unwrap();
    namespace.changes().enable("things").unwrap();
    let monitor = Monitor::builder(&source).listen("127.0.0.1:0").unwrap();
    let monitor = monitor.serve_records(true).start().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let hooked = source.clone();
    std::thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            let mut request = String::new();
            let mut lines = BufReader::new(client.try_clone().unwrap());
            while !request.ends_with("\r\n\r\n") && lines.read_line(&mut request).unwrap() > 0 {}
            let mut behind = TcpStream::connect(monitor.addr()).unwrap();
            behind.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            behind.read_to_string(&mut answer).unwrap();
            let target = request.split(' ').nth(1).unwrap_or_default();
            let answer = hook(&hooked, target, answer);
            let _ = client.write_all(answer.as_bytes());
        }
    });
    (source, addr)
}

/// Moves what a monitor gives; returns the exit code and the report.
fn moved(source: &str, served: &Served, more: &[&str]) -> (i32, serde_json::Value) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("position");
    let command = ["move", source, "--host", &served.addr, "--resume"];
    json(&[&command[..], &[file.to_str().unwrap()], more].concat())
}

#[test]
fn a_damaged_record_of_the_source_keeps_its_copy_in_the_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let source = store(Some(&path), KeyHash::Xxh3);
    let things = source.set("things").unwrap();
    for number in 0..20 {
        things
            .put(number, [("text", format!("text-{number:03}"))])
            .unwrap();
    }
    source.close().unwrap();
    drop((source, things));
    let served = Served::in_memory();
    let (code, found) = moved(path.to_str().unwrap(), &served, &[]);
    assert_eq!(code, 0, "{found:#}");
    let device = path.join("test/device-0");
    let mut bytes = fs::read(&device).unwrap();
    let at = bytes
        .windows(8)
        .position(|text| text == b"text-007")
        .unwrap();
    bytes[at] ^= 1;
    fs::write(&device, bytes).unwrap();
    let (code, found) = moved(path.to_str().unwrap(), &served, &["--into-existing"]);
    assert_eq!((code, &found["damaged"]), (1, &1.into()), "{found:#}");
    assert_eq!(found["compared"]["kept"], 1, "{found:#}");
    assert_eq!(records(&served.cluster(), "things").len(), 20);
}

#[test]
fn a_record_that_is_damaged_when_its_change_is_followed_keeps_its_copy() {
    let once = AtomicBool::new(true);
    let (source, addr) = watched(move |source, target, answer| {
        if target.contains("hold=") && once.swap(false, Ordering::Relaxed) {
            let things = source.set("things").unwrap();
            things.put(1, [("i", 2)]).unwrap();
        }
        if !target.contains("digest=") {
            return answer;
        }
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: String = body.split_inclusive('\n').take(3).collect();
        let length = format!("Content-Length: {}\r\nX-Damaged: 1", body.len());
        let other = |line: &&str| !line.starts_with("Content-Length");
        let head: Vec<&str> = head.lines().filter(other).collect();
        format!("{}\r\n{length}\r\n\r\n{body}", head.join("\r\n"))
    });
    source.set("things").unwrap().put(1, [("i", 1)]).unwrap();
    let served = Served::in_memory();
    let (code, found) = moved(&addr, &served, &[]);
    // It is read well by the comparison at the end.
    assert_eq!((code, &found["followed"]), (0, &0.into()), "{found:#}");
    assert_eq!(found["compared"]["written_again"], 0, "{found:#}");
}

#[test]
fn a_busy_source_is_followed_as_far_as_it_was_when_the_copy_was_made() {
    let (source, addr) = watched(|source, target, answer| {
        if target.contains("hold=") {
            let things = source.set("things").unwrap();
            things.add(7, [("i", 1)]).unwrap();
        }
        answer
    });
    source.set("things").unwrap().put(1, [("i", 1)]).unwrap();
    let served = Served::in_memory();
    // It ends; each of its requests is followed by a change.
    let (_, found) = moved(&addr, &served, &[]);
    assert!(found["followed"].as_u64() >= Some(1), "{found:#}");
}

#[test]
fn sets_without_changes_are_compared_whole_and_one_made_after_the_copy_comes_along() {
    let put = |store: &Store, set: &str, count: i64, value: i64| {
        let set = store.set(set).unwrap();
        for number in 0..count {
            set.put(number, [("i", value)]).unwrap();
        }
    };
    let asked = std::sync::atomic::AtomicU64::new(0);
    let (source, addr) = watched(move |source, target, answer| {
        if target.contains("hold=") {
            match asked.fetch_add(1, Ordering::Relaxed) {
                // Before the copy, and when its changes have been followed.
                0 => put(source, "silent", 50, 1),
                1 => {
                    put(source, "silent", 50, 2);
                    put(source, "later", 50, 1);
                }
                _ => {}
            }
        }
        answer
    });
    put(&source, "things", 100, 1);
    let served = Served::in_memory();
    let (code, found) = moved(&addr, &served, &["--sample", "2"]);
    let same = &found["compared"]["same"];
    assert_eq!((code, same), (0, &true.into()), "{found:#}");
    assert_eq!(found["compared"]["written_again"], 100, "{found:#}");
    let cluster = served.cluster();
    for set in ["things", "silent", "later"] {
        assert_eq!(records(&cluster, set), records(&source, set), "{set}");
    }
}

#[test]
fn a_set_with_a_refused_record_is_compared_whole_by_the_next_run() {
    let dir = tempfile::tempdir().unwrap();
    let (path, file) = (dir.path().join("store"), dir.path().join("position"));
    let mut config = NamespaceConfig::new("test");
    config.max_record_bytes = 4 << 20;
    let source = Store::builder().namespace(config).path(&path);
    let source = source.open().unwrap();
    let things = source.set("things").unwrap();
    for number in 0..200 {
        things.put(number, [("i", number)]).unwrap();
    }
    things.put("large", [("b", vec![7_u8; 1_500_000])]).unwrap();
    source.close().unwrap();
    drop((things, source));
    let served = Served::in_memory();
    let move_all = |more: &[&str]| {
        let (path, file) = (path.to_str().unwrap(), file.to_str().unwrap());
        let command = ["move", path, "--host", &served.addr, "--resume", file];
        json(&[&command[..], more].concat())
    };
    let (code, found) = move_all(&[]);
    assert_eq!((code, &found["copied"]), (1, &201.into()), "{found:#}");
    assert!(
        found["refused"][0].as_str().unwrap().contains("large"),
        "{found:#}"
    );
    // An older version stands in its place, so the record is not missing.
    let records = served.cluster().records("things").unwrap();
    let older = [ops::put("b", 1)];
    records
        .operate_on(&WritePolicy::default(), &"large".into(), &older)
        .unwrap();
    let (code, found) = move_all(&["--sample", "1"]);
    assert_eq!(
        (code, &found["compared"]["same"]),
        (1, &false.into()),
        "{found:#}"
    );
}

#[test]
fn a_move_leaves_declarations_over_other_sets_as_they_are() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    follows(&cluster).declare().unwrap();
    let source = store(None, KeyHash::Xxh3);
    source.set("things").unwrap().put(1, [("i", 1)]).unwrap();
    let monitor = Monitor::builder(&source).listen("127.0.0.1:0").unwrap();
    let monitor = monitor.serve_records(true).start().unwrap();
    let addr = monitor.addr().to_string();
    let (code, found) = moved(&addr, &served, &[]);
    assert_eq!(code, 0, "{found:#}");
    assert_eq!(declared_relations(&cluster).unwrap().len(), 1);
    source.set("users").unwrap().put(1, [("i", 1)]).unwrap();
    let into = ["--into-existing"];
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("position");
    let command = [
        "move",
        &addr,
        "--host",
        &served.addr,
        "--resume",
        file.to_str().unwrap(),
    ];
    let over_things: [&str; 0] = [];
    let said = refused(&[&command[..], &over_things].concat());
    assert!(
        said.contains("things\" of the cluster has records"),
        "{said}"
    );
    let (code, found) = moved(&addr, &served, &into);
    assert_eq!(code, 0, "{found:#}");
    assert_eq!(declared_relations(&cluster).unwrap(), []);
}

#[test]
fn an_index_that_is_made_during_the_move_comes_along() {
    let asked = std::sync::atomic::AtomicU64::new(0);
    let (source, addr) = watched(move |source, target, answer| {
        if target.contains("hold=") && asked.fetch_add(1, Ordering::Relaxed) == 1 {
            let number = IndexComponent::bin("i").of_type(IndexType::Integer);
            let things = source.set("things").unwrap();
            things
                .create_index(IndexDefinition::new("late", [number]))
                .unwrap();
        }
        answer
    });
    source.set("things").unwrap().put(1, [("i", 1)]).unwrap();
    let served = Served::in_memory();
    let (code, found) = moved(&addr, &served, &[]);
    assert_eq!((code, &found["indexes"]), (0, &1.into()), "{found:#}");
    let indexes = served.cluster().info("sindex-list:namespace=test").unwrap();
    assert!(indexes.contains("late"), "{indexes}");
}

#[test]
fn another_expiry_is_told_from_other_bins() {
    let source = store(None, KeyHash::Xxh3);
    let hour = WritePolicy::default().expiration(Expiration::After(Duration::from_secs(3_600)));
    let things = source.set("things").unwrap();
    things.put_with(&hour, 1, [("i", 1)]).unwrap();
    let namespace = source.namespace("test").unwrap();
    let piece = backup::piece(&namespace, PieceStart::default()).unwrap();
    let mut saved: Vec<SavedRecord> = Vec::new();
    let mut reader = Reader::new(&piece.text[..]).unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        saved.push(record);
    }
    let cluster = Served::in_memory();
    let served = cluster.cluster();
    let compared = |saved: &[SavedRecord]| served.compare_saved(saved).remove(0).unwrap();
    assert_eq!(compared(&saved), Comparison::Missing);
    served.put_saved(&saved).remove(0).unwrap();
    assert_eq!(compared(&saved), Comparison::Same);
    let mut later = saved.clone();
    later[0].void_time += 5;
    let Comparison::OtherExpiry(seconds) = compared(&later) else {
        panic!("another expiry is not seen");
    };
    assert!((-7..=-3).contains(&seconds), "{seconds}");
    later[0].void_time = 0;
    assert_eq!(compared(&later), Comparison::Different);
}

#[test]
fn deleting_says_whether_there_was_a_record() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let things = cluster.records("things").unwrap();
    let put = [ops::put("i", 1)];
    things
        .operate_on(&WritePolicy::default(), &1.into(), &put)
        .unwrap();
    let digest = KeyHash::Ripemd160.digest("things", &Key::from(1));
    let address = [("things".to_owned(), digest)];
    let found = || cluster.delete_saved(&address).remove(0).unwrap();
    assert!(found() && !found());
}

#[test]
fn the_command_explains_itself() {
    let help = String::from_utf8(run(&["move", "--help"]).stdout).unwrap();
    for word in ["--follow", "--resume", "--monitor-records", "Generations"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}
