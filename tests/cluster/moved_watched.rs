//! `spikelet move` where its source changes, is damaged, or disagrees with the cluster.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spikelet::monitor::Monitor;
use spikelet::query::{IndexComponent, IndexDefinition, IndexType};
use spikelet::record::KeyHash;
use spikelet::relation::{DECLARATION_SET, ManyToMany, declared_relations, forget_relation};
use spikelet::{
    Expiration, NamespaceConfig, RecordSet, RecordStore, Store, WritePolicy, operations as ops,
};

use crate::common::Served;
use crate::moved::{follows, records, store};
use crate::program::{json, refused, run};

/// A store in memory that keeps the changes of one set, and a monitor that asks `hook` before it
/// passes an answer on.
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
            let expires = match number % 2 {
                0 => Expiration::Never,
                _ => Expiration::After(Duration::from_secs(3_600)),
            };
            let policy = WritePolicy::default().expiration(expires);
            set.put_with(&policy, number, [("i", value)]).unwrap();
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
    // An older version is in its place, so the record is not missing.
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
fn records_that_the_cluster_alone_had_are_not_deleted_with_those_of_the_source() {
    let once = AtomicBool::new(true);
    let (source, addr) = watched(move |source, target, answer| {
        if target.contains("hold=") && once.swap(false, Ordering::Relaxed) {
            let others = source.set("others").unwrap();
            others.put(1, [("i", 1)]).unwrap();
            others.delete(1).unwrap();
            let follows = follows(source);
            follows.declare().unwrap();
            assert!(forget_relation(source, "follows").unwrap());
        }
        answer
    });
    for set in ["others", DECLARATION_SET] {
        let namespace = source.namespace("test").unwrap();
        namespace.changes().enable(set).unwrap();
    }
    source.set("things").unwrap().put(1, [("i", 1)]).unwrap();
    let served = Served::in_memory();
    let cluster = served.cluster();
    follows(&cluster).declare().unwrap();
    let others = cluster.records("others").unwrap();
    let own = [ops::put("i", 7)];
    others
        .operate_on(&WritePolicy::default(), &1.into(), &own)
        .unwrap();
    let (code, found) = moved(&addr, &served, &[]);
    assert_eq!(code, 0, "{found:#}");
    assert_eq!(records(&cluster, "others").len(), 1);
    assert_eq!(declared_relations(&cluster).unwrap().len(), 1);
}

#[test]
fn a_relation_of_the_cluster_keeps_its_name_from_one_over_other_sets() {
    let (source, addr) = watched(|_, _, answer| answer);
    follows(&source).link(1, 2).unwrap();
    let served = Served::in_memory();
    let cluster = served.cluster();
    let others = ("others", "following");
    let theirs = ManyToMany::new(&cluster, "follows", others, ("others", "followers"));
    theirs.declare().unwrap();
    let kept = declared_relations(&cluster).unwrap();
    let (code, found) = moved(&addr, &served, &[]);
    assert_eq!(code, 1, "{found:#}");
    let refused = found["refused"][0].as_str().unwrap();
    assert!(refused.contains("another relation"), "{found:#}");
    assert_eq!(declared_relations(&cluster).unwrap(), kept);
}

#[test]
fn changed_records_come_along_however_much_they_have_together() {
    let once = AtomicBool::new(true);
    let (source, addr) = watched(move |source, target, answer| {
        if target.contains("hold=") && once.swap(false, Ordering::Relaxed) {
            let things = source.set("things").unwrap();
            for number in 0..60 {
                things
                    .put(number, [("b", vec![number as u8; 900_000])])
                    .unwrap();
            }
        }
        answer
    });
    source.set("things").unwrap().put(1, [("i", 1)]).unwrap();
    let served = Served::in_memory();
    let (code, found) = moved(&addr, &served, &["--sample", "1"]);
    assert_eq!((code, &found["followed"]), (0, &60.into()), "{found:#}");
}

#[test]
fn a_position_is_that_of_one_namespace_of_the_source() {
    let dir = tempfile::tempdir().unwrap();
    let (path, file) = (dir.path().join("store"), dir.path().join("position"));
    let mut one = NamespaceConfig::new("one");
    one.max_record_bytes = 4 << 20;
    let source = Store::builder().namespace(one).path(&path);
    let source = source.namespace(NamespaceConfig::new("two"));
    let source = source.open().unwrap();
    // A cluster refuses it, so the position stays.
    let things = source.namespace("one").unwrap().set("things").unwrap();
    things.put("large", [("b", vec![7_u8; 1_500_000])]).unwrap();
    source.close().unwrap();
    drop((things, source));
    let served = Served::in_memory();
    let (path, file) = (path.to_str().unwrap(), file.to_str().unwrap());
    let of = |name| {
        let command = ["move", path, "--namespace", name, "--to", "test"];
        [&command[..], &["--host", &served.addr, "--resume", file]].concat()
    };
    assert_eq!(json(&of("one")).0, 1);
    let two = refused(&of("two"));
    assert!(two.contains("namespace one"), "{two}");
    assert_eq!(json(&of("one")).0, 1);
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
fn the_command_explains_itself() {
    let help = String::from_utf8(run(&["move", "--help"]).stdout).unwrap();
    for word in ["--follow", "--resume", "--monitor-records", "Generations"] {
        assert!(help.contains(word), "{word}: {help}");
    }
}
