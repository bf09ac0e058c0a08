//! The commands of the program that look at a cluster.

use std::process::{Command, Output};

use spikelet::shard::ShardPolicy;
use spikelet::{RecordSet, RecordStore, ShardedList, WritePolicy, operations as ops};

use crate::common::Served;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Runs a command with `--json` and returns its exit code and its object.
fn json(arguments: &[&str]) -> (i32, serde_json::Value) {
    let output = run(&[arguments, &["--json"]].concat());
    let object = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code().unwrap(), object)
}

fn refused(arguments: &[&str]) -> String {
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
    ShardedList::new(&cluster, "followers", "bob", "by").unwrap().add(1).unwrap();
    let (code, found) = json(&host);
    assert_eq!(code, 0);
    let collections = found["collections"].as_array().unwrap();
    assert_eq!(collections.len(), 1);
    assert_eq!(collections[0]["key"], "alice");
    assert_eq!(collections[0]["elements"], 100);
    assert_eq!(collections[0]["companions"].as_array().unwrap().len(), 4);
    let one = [&host[..], &["alice", "--namespace", "test", "--set", "followers"]].concat();
    assert!(String::from_utf8(run(&one).stdout).unwrap().contains("alice"));
    assert!(refused(&[&host[..], &["carol"]].concat()).contains("carol"));
    // A companion is lost.
    let companion = collections[0]["companions"][0]["key"].as_str().unwrap();
    let records = cluster.records("followers").unwrap();
    let delete = [ops::delete_all_bins()];
    let key = companion.trim_matches('"');
    records.operate_on(&WritePolicy::default(), &key.into(), &delete).unwrap();
    let (code, found) = json(&host);
    assert_eq!(code, 1);
    assert_eq!(found["collections"][0]["missing"].as_array().unwrap().len(), 1);
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
