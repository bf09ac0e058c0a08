//! The commands of the program that look at a cluster.

use std::process::{Command, Output};

use spikelet::shard::ShardPolicy;
use spikelet::{RecordSet, RecordStore, ShardedList, Value, WritePolicy, operations as ops};

use crate::common::Served;

pub fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Runs a command with `--json` and returns its exit code and its object.
pub fn json(arguments: &[&str]) -> (i32, serde_json::Value) {
    let output = run(&[arguments, &["--json"]].concat());
    let object = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), object)
}

pub fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn shards_audits_roots_and_companions_of_a_cluster() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let host = ["shards", "--host", &served.addr];
    let list = ShardedList::new(&cluster, "followers", "alice", "by").unwrap();
    let list = list.policy(ShardPolicy::manual());
    for element in 0..100 {
        list.add(element).unwrap();
    }
    list.shards().activate(4).unwrap();
    ShardedList::new(&cluster, "followers", "bob", "by")
        .unwrap()
        .add(1)
        .unwrap();
    let (code, found) = json(&host);
    assert_eq!(code, 0);
    let collections = found["collections"].as_array().unwrap();
    assert_eq!(collections.len(), 1);
    assert_eq!(collections[0]["key"], "alice");
    assert_eq!(collections[0]["elements"], 100);
    assert_eq!(collections[0]["companions"].as_array().unwrap().len(), 4);
    let one = [
        &host[..],
        &[
            "--key",
            "alice",
            "--namespace",
            "test",
            "--set",
            "followers",
        ],
    ]
    .concat();
    assert!(
        String::from_utf8(run(&one).stdout)
            .unwrap()
            .contains("alice")
    );
    assert!(refused(&[&host[..], &["--key", "carol"]].concat()).contains("carol"));
    // A companion is lost.
    let companion = collections[0]["companions"][0]["key"].as_str().unwrap();
    let records = cluster.records("followers").unwrap();
    let delete = [ops::delete_all_bins()];
    let key = companion.trim_matches('"');
    records
        .operate_on(&WritePolicy::default(), &key.into(), &delete)
        .unwrap();
    let (code, found) = json(&host);
    assert_eq!(code, 1);
    assert_eq!(
        found["collections"][0]["missing"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn sizing_reads_some_partitions_and_fetches_no_large_record() {
    let served = Served::in_memory();
    let records = served.cluster().records("users").unwrap();
    let policy = WritePolicy::default();
    for number in 0..3_000 {
        let mut write = vec![ops::put("name", format!("user {number}"))];
        let elements = if number % 30 == 0 { 2_000 } else { 10 };
        let items: Vec<Value> = (0..elements)
            .map(|at| format!("{at:0>96}").into())
            .collect();
        write.push(ops::lists::append_items(
            &Default::default(),
            "followers",
            items,
        ));
        records.operate_on(&policy, &number.into(), &write).unwrap();
    }
    let host = [
        "sizing",
        "--host",
        &served.addr,
        "--records-per-second",
        "0",
    ];
    let before = stored(&served);
    let (code, all) = json(&[&host[..], &["--all"]].concat());
    let set = &all["sets"][0];
    assert_eq!(
        (code, &set["set"], &set["records"]),
        (0, &"users".into(), &3_000.into())
    );
    // Of the large ones the server says the size, and what their lists hold.
    let max = set["bytes"]["max"].as_u64().unwrap();
    assert!((198_000..199_000).contains(&max), "{max}");
    let (code, some) = json(&[&host[..], &["--sample", "300"]].concat());
    let set = &some["sets"][0];
    assert_eq!(code, 0);
    let estimated = set["records"].as_u64().unwrap();
    assert!((2_000..4_500).contains(&estimated), "{estimated}");
    assert!(set["intervals"].is_object(), "{set}");
    assert_eq!(stored(&served), before, "it writes nothing");
}

/// The server's counters of writes.
fn stored(served: &Served) -> String {
    let statistics = served.cluster().info("namespace/test").unwrap();
    let writes = statistics
        .split(';')
        .filter(|pair| pair.starts_with("client_write"));
    writes.collect::<Vec<_>>().join(";")
}

#[test]
fn a_cluster_that_cannot_be_used_is_refused_with_a_reason() {
    let served = Served::in_memory();
    let host = ["shards", "--host", &served.addr];
    let with = |more: &[&str]| refused(&[&host[..], more].concat());
    assert!(with(&["--namespace", "none"]).contains("unknown namespace \"none\""));
    assert!(with(&["--user", "me"]).contains("SPIKELET_PASSWORD"));
    assert!(with(&["--tls-ca", "/nowhere/ca.pem"]).contains("/nowhere/ca.pem"));
    assert!(with(&["--user", "me", "--password-file", "/nowhere/p"]).contains("/nowhere/p"));
    assert!(refused(&["shards", "--host", "127.0.0.1:1"]).contains("cluster"));
}
