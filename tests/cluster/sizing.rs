//! `spikelet sizing --host`: interrupted and gone on with, and what it fetches.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value as Json;
use spikelet::cluster::ClusterSet;
use spikelet::{Key, RecordSet, RecordStore, Value, WritePolicy, operations as ops};

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

/// Interrupts a sizing once its file has grown.
fn interrupted(served: &Served, file: &Path, arguments: &[&str]) -> Output {
    let before = std::fs::read(file).ok();
    let running = command(served, arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while std::fs::read(file).ok() == before {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    running.wait_with_output().unwrap()
}

#[test]
fn an_interrupted_sizing_reports_what_it_has_read_and_another_process_goes_on() {
    let served = Served::in_memory();
    fill(&served, 1_500);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state");
    let some = ["--sample", "40", "--resume", file.to_str().unwrap()];
    let slow = [&some[..], &["--records-per-second", "2"]].concat();
    let output = interrupted(&served, &file, &slow);
    assert_eq!(output.status.code(), Some(130));
    let part = report(&output);
    let at_first = std::fs::read(&file).unwrap();
    let fast = [&some[..], &["--records-per-second", "0"]].concat();
    let output = command(&served, &fast).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_ne!(std::fs::read(&file).unwrap(), at_first);
    let whole = report(&output);
    // The same as of one process that has read as much.
    let once = ["--sample", "40", "--records-per-second", "0"];
    let once = report(&command(&served, &once).output().unwrap());
    assert_eq!(
        (&whole["sets"], &whole["source"]),
        (&once["sets"], &once["source"])
    );
    assert_ne!(part["source"], once["source"]);
    // There is nothing left to read.
    let again = report(&command(&served, &slow).output().unwrap());
    assert_eq!(again["sets"], once["sets"]);
    let other = command(&served, &["--resume", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(other.status.code(), Some(2));
    let told = String::from_utf8(other.stderr).unwrap();
    assert!(told.contains("of another sizing"), "{told}");
    std::fs::write(&file, "nothing").unwrap();
    let other = command(&served, &some).output().unwrap();
    let told = String::from_utf8(other.stderr).unwrap();
    assert!(told.contains("no file of an earlier sizing"), "{told}");
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
fn the_secondary_indexes_of_a_cluster_are_shown_as_it_tells_of_them() {
    let served = Served::in_memory();
    let cluster = served.cluster();
    let users = cluster.records("users").unwrap();
    for number in 0..200 {
        write(&users, number, &[ops::put("age", number % 8)]);
    }
    let pets = cluster.records("pets").unwrap();
    write(&pets, 1, &[ops::put("name", "Rex")]);
    for index in [
        "set=users;indexname=by_age;bin=age",
        "indexname=everywhere;bin=n",
        "set=pets;indexname=by_pet;bin=age",
    ] {
        let command = format!("sindex-create:ns=test;{index};type=numeric");
        assert_eq!(cluster.info(&command).unwrap(), "ok");
    }
    let stat = "sindex-stat:ns=test;indexname=by_age";
    while !cluster.info(stat).unwrap().contains("load_pct=100") {
        std::thread::yield_now();
    }
    let sized = report(&command(&served, &["--sample", "40"]).output().unwrap());
    let namespace = &sized["namespaces"][0];
    for unknown in ["index_bytes", "index_bytes_per_record", "device_bytes"] {
        assert_eq!(namespace.get(unknown), Some(&Json::Null), "{unknown}");
    }
    let indexes = namespace["secondary_indexes"].as_array().unwrap();
    assert_eq!(indexes.len(), 3);
    let by_age = indexes.iter().find(|index| index["name"] == "by_age");
    let by_age = by_age.unwrap();
    assert_eq!(by_age["set"], "users");
    assert_eq!(by_age["entries"], 200);
    assert_eq!(by_age["entries_per_key"], 25.0);
    assert_eq!(by_age["selectivity"], 0.125);
    assert!(by_age["memory_bytes"].as_u64() > Some(0));
    let everywhere = indexes.iter().find(|index| index["name"] == "everywhere");
    assert_eq!(everywhere.unwrap()["set"], Json::Null);
    assert_eq!(everywhere.unwrap()["selectivity"], Json::Null);

    let of_set = ["--sample", "40", "--set", "pets"];
    let of_set = report(&command(&served, &of_set).output().unwrap());
    let indexes = of_set["namespaces"][0]["secondary_indexes"].as_array();
    let mut names: Vec<&str> = indexes
        .unwrap()
        .iter()
        .map(|index| index["name"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["by_pet", "everywhere"]);
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
