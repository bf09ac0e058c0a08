//! `spikelet relations`, and the graph of a demo that was killed.

use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Stdio};

use spikelet::relation::{Layout, ManyToMany, Members, OneToMany, Repair};
use spikelet::shard::ShardPolicy;
use spikelet::{NamespaceConfig, Store, bins};
use tempfile::TempDir;

use super::{json, load, path, run, text};

#[test]
fn relations_shows_the_graph_of_the_demo_with_its_counts() {
    let dir = TempDir::new().unwrap();
    load(dir.path(), "1 2\n3 2\n4 2\n2 1\n");
    let found = json(&["relations", path(dir.path())], b"");
    let follows = &found["relations"][0];
    assert_eq!(
        (follows["name"].as_str(), follows["kind"].as_str()),
        (Some("follows"), Some("many_to_many"))
    );
    let side = |at: usize| {
        let stats = &follows["stats"][at];
        let figure = |name: &str| stats[name].as_u64().unwrap();
        (
            figure("records"),
            figure("elements"),
            stats["largest"].clone(),
        )
    };
    let largest = side(0).2;
    assert_eq!(side(0), (4, 4, serde_json::json!([largest[0], 1])));
    assert_eq!(side(1), (2, 4, serde_json::json!([2, 3])));
    assert_eq!(follows["sides"][1]["bin"], "followers");
    let output = run(&["relations", path(dir.path()), "--name", "follows"], b"");
    let report = text(&output.stdout);
    assert!(
        report.contains("follows, ManyToMany in namespace demo"),
        "{report}"
    );
    assert!(
        report.contains("sources: users/followers to users"),
        "{report}"
    );
    let unknown = run(&["relations", path(dir.path()), "--name", "friends"], b"");
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("\"friends\""));
}

#[test]
fn a_namespace_that_the_store_does_not_have_is_refused() {
    let dir = TempDir::new().unwrap();
    load(dir.path(), "1 2\n");
    for command in ["relations", "shards"] {
        let refused = run(&[command, path(dir.path()), "--namespace", "none"], b"");
        assert_eq!(refused.status.code(), Some(2), "{command}");
        let why = text(&refused.stderr);
        assert!(why.contains("unknown namespace \"none\""), "{why}");
    }
}

/// Declares a list of the key of one small child, and one of keys that take more than 128 KiB.
fn large_relations(dir: &Path) {
    let store = Store::open(dir).unwrap();
    let layout = Layout::key_list("comments");
    let comments = OneToMany::new(&store, "comments", ("posts", "comments"), layout).unwrap();
    let comment = serde_json::json!({ "text": "Doh!" });
    comments.put("p1", 1, &comment).unwrap();
    comments.declare().unwrap();
    let never = ShardPolicy::manual();
    let posts = Members::new(&store, "posts", ("lists", "posts", "keys")).shard_policy(never);
    for id in 0..150_i64 {
        posts
            .put(format!("{id:01000}"), bins! { "n" => id })
            .unwrap();
    }
    posts.declare().unwrap();
    store.close().unwrap();
}

#[test]
fn relations_advises_another_layout_and_shards_where_records_are_large() {
    let dir = TempDir::new().unwrap();
    large_relations(dir.path());
    let found = json(&["relations", path(dir.path())], b"");
    let advice = |at: usize| found["relations"][at]["advice"].to_string();
    assert!(advice(0).contains("consolidated suits 1"), "{found}");
    assert!(advice(1).contains("ShardPolicy"), "{found}");
}

/// A hash of the bytes that a process has written: of its staging memory, or of the device without
/// one. One byte of many is enough to see it grow, and is read before the process ends.
fn written_so_far(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir.join("demo")).into_iter().flatten();
    let mut files: Vec<_> = files.flatten().map(|file| file.path()).collect();
    let is_staging = |file: &std::path::PathBuf| file.extension().is_some_and(|it| it == "staging");
    if files.iter().any(is_staging) {
        files.retain(is_staging);
    }
    let mut hasher = std::hash::DefaultHasher::new();
    for file in files {
        let bytes = std::fs::read(file).unwrap_or_default();
        let sample: Vec<u8> = bytes.into_iter().step_by(61).collect();
        std::hash::Hasher::write(&mut hasher, &sample);
    }
    std::hash::Hasher::finish(&hasher)
}

#[test]
fn a_demo_that_is_killed_leaves_no_edge_on_one_side() {
    let kills = if std::env::var_os("SPIKELET_LONG").is_some() {
        50
    } else {
        4
    };
    let mut edges = 0;
    for kill in 0..kills {
        let dir = TempDir::new().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_spikelet"))
            .args(["demo", "--nodes", "40000", "--dir"])
            .arg(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Some time after it has begun to write.
        let (mut last, mut changes) = (written_so_far(dir.path()), 0);
        while changes < 4 + kill % 10 {
            assert!(
                child.try_wait().unwrap().is_none(),
                "it has ended before it was killed"
            );
            let written = written_so_far(dir.path());
            changes += usize::from(written != last);
            last = written;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut config = NamespaceConfig::new("demo");
        config.max_record_bytes = (8 << 20) - 64;
        let store = Store::builder()
            .path(dir.path())
            .namespace(config)
            .open()
            .unwrap();
        let (following, followers) = (("users", "following"), ("users", "followers"));
        let namespace = store.namespace("demo").unwrap();
        let follows = ManyToMany::new(namespace, "follows", following, followers);
        let audit = follows
            .verify(Repair::No, |_| ControlFlow::Continue(()))
            .unwrap();
        assert!(audit.is_sound(), "kill {kill}: {:?}", audit.faults);
        edges += audit.edges;
        store.close().unwrap();
    }
    assert!(edges > 0, "it was never killed while there were edges");
    println!("{kills} kills, {edges} ends of edges looked at, none one-sided");
}
