//! `spikelet sizing --host`: interrupted, and what it fetches.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;
use spikelet::cluster::ClusterSet;
use spikelet::shard::ShardPolicy;
use spikelet::{Key, RecordSet, RecordStore, ShardedList, Value, WritePolicy, operations as ops};

use crate::common::Served;

fn command(served: &Served, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spikelet"));
    command
        .args(["sizing", "--host", &served.addr, "--json"])
        .args(arguments);
    command
}

fn report(output: &Output) -> Json {
    let told = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"))
}

fn write(records: &ClusterSet, key: i64, operations: &[spikelet::Operation]) {
    let key = Key::from(key);
    records
        .operate_on(&WritePolicy::default(), &key, operations)
        .unwrap();
}

/// Writes lists, one of each thirty a large one.
fn fill(served: &Served, count: i64) {
    let records = served.cluster().records("users").unwrap();
    for number in 0..count {
        let elements = if number % 30 == 0 { 1_000 } else { 10 };
        let items: Vec<Value> = (0..elements)
            .map(|at| format!("{at:0>96}").into())
            .collect();
        let append = ops::lists::append_items(&Default::default(), "followers", items);
        write(
            &records,
            number,
            &[ops::put("name", "x".repeat(20)), append],
        );
    }
}

#[test]
fn an_interrupted_sizing_reports_what_it_has_read() {
    let served = Served::in_memory();
    fill(&served, 1_500);
    let slow = ["--sample", "40", "--records-per-second", "2"];
    let running = command(&served, &slow)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(3));
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let users = &report(&output)["sets"][0];
    let measured = users["measured"].as_u64().unwrap();
    assert!((1..40).contains(&measured), "{users}");
    assert_eq!(users["verdict"]["level"], "WATCH");
}

#[test]
fn some_of_the_partitions_are_a_sample_and_never_called_ok() {
    let served = Served::in_memory();
    let records = served.cluster().records("users").unwrap();
    for number in 0..1_500 {
        write(&records, number, &[ops::put("name", "x".repeat(200))]);
    }
    let sized = |arguments: &[&str]| {
        let fast = [arguments, &["--records-per-second", "0"]].concat();
        report(&command(&served, &fast).output().unwrap())
    };
    let some = sized(&["--sample", "60"]);
    let set = &some["sets"][0];
    let (measured, all) = (
        set["measured"].as_u64().unwrap(),
        set["records"].as_u64().unwrap(),
    );
    assert!((60..600).contains(&measured) && all > 2 * measured, "{set}");
    assert_eq!(set["verdict"]["decided_by"], "sample");
    assert_eq!(some["verdict"]["level"], "WATCH");
    let sentence = some["verdict"]["sentence"].as_str().unwrap();
    let claim = format!("The largest record of the {measured} records sampled of ");
    assert!(sentence.contains(&claim), "{sentence}");
    // The total is scaled, with its interval.
    let total = &set["total_bytes"];
    let mean = set["bytes"]["mean"].as_f64().unwrap();
    assert_eq!(
        total["estimate"].as_u64(),
        Some((mean * all as f64).round() as u64)
    );
    assert!(total["interval"].is_array(), "{total}");
    // Read whole, the same set is fine.
    let whole = sized(&["--all"]);
    assert_eq!(whole["sets"][0]["records"], 1_500);
    assert_eq!(whole["verdict"]["level"], "OK");
}

#[test]
fn of_large_records_alone_one_is_fetched_to_learn_their_bins() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let records = cluster.records("large").unwrap();
    for number in 0..60 {
        let items: Vec<Value> = (0..1_000).map(|at| format!("{at:0>96}").into()).collect();
        let append = ops::lists::append_items(&Default::default(), "l", items);
        write(&records, number, &[append]);
    }
    let (mut bins, mut measured) = (Vec::new(), Vec::new());
    for partition in 0..300 {
        records.measure_partitions(partition..partition + 1, None, &mut bins, &mut |record| {
            measured.push(record.unwrap());
            std::ops::ControlFlow::Continue(())
        });
    }
    assert_eq!(bins, ["l"]);
    assert!((1..60).contains(&measured.len()), "{}", measured.len());
    for record in &measured {
        assert!((95_000..110_000).contains(&record.bytes), "{record:?}");
        assert_eq!(record.collections.len(), 1);
        assert_eq!(
            (
                record.collections[0].count,
                record.collections[0].elements.len()
            ),
            (1_000, 8)
        );
    }
    let sized = ["--sample", "3", "--records-per-second", "0"];
    let sized = report(&command(&served, &sized).output().unwrap());
    assert_eq!(sized["sets"][0]["set"], "large");
    assert_eq!(
        sized["sets"][0]["bins"].as_array().unwrap().len(),
        1,
        "{sized}"
    );
}

#[test]
fn large_shards_are_judged_with_their_collection() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    // Its bin is learned from a record that is not sharded.
    write(
        &cluster.records("feeds").unwrap(),
        7,
        &[ops::put("by", vec![1, 2])],
    );
    let list = ShardedList::new(&cluster, "feeds", "alice", "by").unwrap();
    let list = list.policy(ShardPolicy::manual());
    list.add("0").unwrap();
    list.shards().activate(2).unwrap();
    for number in 0..60 {
        list.add(format!("{number}-{}", "x".repeat(10_000)))
            .unwrap();
    }
    let all = ["--all", "--records-per-second", "0"];
    let sized = report(&command(&served, &all).output().unwrap());
    let feeds = &sized["sets"][0];
    let alice = &feeds["sharded"][0];
    assert_eq!(alice["key"], "alice", "{feeds}");
    assert_eq!(alice["shards"], 2, "{alice}");
    assert_eq!(alice["elements"], 61, "{alice}");
    assert_eq!(feeds["verdict"]["decided_by"], "shard_bytes_max", "{feeds}");
    let helps = feeds["verdict"]["helps"].as_str().unwrap();
    assert!(helps.starts_with("Split it into "), "{helps}");
}

#[test]
fn records_without_a_set_are_sized_and_their_collections_are_found() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    write(
        &cluster.records("users").unwrap(),
        1,
        &[ops::put("name", "x")],
    );
    assert_eq!(cluster.set_names().unwrap(), ["users"]);
    let list = ShardedList::new(&cluster, "", "alice", "by").unwrap();
    list.add(1).unwrap();
    list.shards().activate(2).unwrap();
    let found = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(["shards", "--host", &served.addr, "--json"])
        .output()
        .unwrap();
    let found = report(&found);
    assert_eq!(found["collections"][0]["key"], "alice", "{found}");
    for (arguments, sets) in [
        (&["--all"][..], &["", "users"][..]),
        (&["--all", "--set", ""], &[""]),
    ] {
        let fast = [arguments, &["--records-per-second", "0"]].concat();
        let sized = report(&command(&served, &fast).output().unwrap());
        let found = sized["sets"].as_array().unwrap().iter();
        let mut found: Vec<_> = found.map(|set| set["set"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, sets, "{sized}");
    }
}

/// How many scans the server has ended.
fn scans(served: &Served) -> u64 {
    let statistics = served.cluster().info("namespace/test").unwrap();
    let counters = statistics.split(';').filter_map(|it| it.split_once('='));
    let of_scans =
        counters.filter(|(name, _)| name.starts_with("pi_query") && name.ends_with("complete"));
    of_scans
        .map(|(_, count)| count.parse::<u64>().unwrap())
        .sum()
}

#[test]
fn a_sizing_asks_seldom_whatever_sets_there_are() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    for number in 0..60 {
        let records = cluster.records(&format!("set{number}")).unwrap();
        write(&records, number, &[ops::put("n", number)]);
        if number % 2 == 1 {
            write(&records, number, &[ops::delete_all_bins()]);
        }
    }
    let records = cluster.records("users").unwrap();
    for number in 0..4_000 {
        write(&records, number, &[ops::put("n", number)]);
    }
    let before = scans(&served);
    let sample = ["--sample", "1000", "--records-per-second", "0"];
    let found = report(&command(&served, &sample).output().unwrap());
    // One for records of up to 64 KiB and one for larger ones, of each set with less than a sample.
    let asked = scans(&served) - before;
    assert!(asked <= 30 * 2 + 20, "{asked} scans");
    // Emptied sets are not asked for.
    let sets = found["sets"].as_array().unwrap();
    assert_eq!(sets.len(), 31, "{sets:?}");
    let small = sets.iter().filter(|set| set["set"] != "users");
    for set in small {
        assert_eq!((&set["records"], &set["measured"]), (&1.into(), &1.into()));
    }
    let text = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args(["sizing", "--host", &served.addr])
        .args(sample)
        .output();
    let text = String::from_utf8(text.unwrap().stdout).unwrap();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("a cluster; "), "{text}");
    let index = text.split("Index memory").nth(1).unwrap();
    let index = index.split("Write amplification").next().unwrap();
    assert!(
        index.contains("a cluster has none") && !index.contains("0 B"),
        "{index}"
    );
    let all = ["--all", "--set", "users", "--records-per-second", "0"];
    let found = report(&command(&served, &all).output().unwrap());
    assert_eq!(found["sets"][0]["records"], 4_000);
}
