//! What dashboards read: statistics that count what happened, and limits that change while the
//! server runs.

use std::collections::BTreeMap;
use std::time::SystemTime;

use spikelet::record::KeyHash;
use spikelet::server::Server;
use spikelet::{Durability, NamespaceConfig, Store};

use crate::server_client::transaction::Txn;
use crate::server_client::*;

/// The `key=value` pairs that a command answers with.
fn pairs(wire: &mut Wire, command: &str) -> BTreeMap<String, String> {
    let text = wire.info(&format!("{command}\n")).remove(0);
    let pair = |pair: &str| {
        pair.split_once('=')
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
    };
    text.split(';').filter_map(pair).collect()
}

/// The counts in `names` that have grown since `before`, and by how much.
fn grown(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<(String, u64)> {
    let count = |pairs: &BTreeMap<String, String>, name: &str| pairs[name].parse::<u64>();
    before
        .keys()
        .filter_map(|name| {
            let more = count(after, name)
                .ok()?
                .checked_sub(count(before, name).ok()?)?;
            (more > 0).then(|| (name.clone(), more))
        })
        .collect()
}

#[test]
fn refusals_are_counted_by_their_reason() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let before = pairs(&mut wire, "namespace/test");
    let mut wrong = Message::put(1, "i", 2).generation(7);
    wrong.info[1] |= 0x04;
    assert_eq!(wire.ask(&wrong).code, 3);
    let huge = Message::about(0, WRITE, 0, 2).op(2, 4, "b", &vec![7; 2 << 20]);
    assert_eq!(wire.ask(&huge).code, 13);
    let mut missing = Message::put(3, "i", 3);
    missing.info[2] |= 0x08;
    assert_eq!(wire.ask(&missing).code, 2);
    let apply = Message::about(0, WRITE, 0, 1)
        .field(30, b"module")
        .field(31, b"function")
        .field(32, &[0x90]);
    assert_eq!(wire.ask(&apply).code, 100);
    // A digest of 3 bytes.
    let cut = Message::new(READ | GET_ALL, 0, 0)
        .field(0, b"test")
        .field(4, b"abc");
    assert_eq!(wire.ask(&cut).code, 4);
    let after = pairs(&mut wire, "namespace/test");
    let counts: BTreeMap<String, u64> = grown(&before, &after).into_iter().collect();
    for (name, count) in [
        ("fail_generation", 1),
        ("fail_record_too_big", 1),
        ("client_write_error", 3),
        ("client_udf_error", 1),
        ("client_tsvc_error", 1),
    ] {
        assert_eq!(counts.get(name), Some(&count), "{name} in {counts:?}");
    }
    assert!(!after.contains_key("client_write_not_found"));
    let nowhere = Message::new(READ | GET_ALL, 0, 0)
        .field(0, b"nope")
        .field(4, &[7; 20]);
    assert_eq!(wire.ask(&nowhere).code, 20);
    assert_eq!(
        pairs(&mut wire, "statistics")["early_tsvc_client_error"],
        "1"
    );
}

#[test]
fn batches_are_counted_by_how_they_end() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let rows = [
        (digest(1), row(READ | GET_ALL, 0)),
        (digest(9), row(READ | GET_ALL, 0)),
    ];
    for _ in 0..3 {
        assert_eq!(wire.ask_many(&batch(0x0d, &rows)).1, 0);
    }
    // No rows at all.
    assert_eq!(wire.ask_many(&batch(0x0d, &[])).1, 4);
    let found = pairs(&mut wire, "statistics");
    for (name, value) in [
        ("batch_index_initiate", "4"),
        ("batch_index_complete", "3"),
        ("batch_index_error", "1"),
        ("batch_index_timeout", "0"),
        ("batch_index_queue", "0:0"),
        ("paxos_principal", &*found["cluster_principal"].clone()),
        ("fabric_connections", "0"),
    ] {
        assert_eq!(found[name], value, "{name}");
    }
    assert_eq!(
        found["info_complete"], "0",
        "the one under way is not complete"
    );
    assert_eq!(pairs(&mut wire, "statistics")["info_complete"], "1");
    let of_rows = pairs(&mut wire, "namespace/test");
    assert_eq!(of_rows["batch_sub_read_success"], "3");
    assert_eq!(of_rows["batch_sub_read_not_found"], "3");
}

#[test]
fn queries_are_counted_by_their_index_and_by_how_they_end() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    for key in 0..50 {
        wire.ask(&Message::put(key, "i", key));
    }
    let create = "sindex-create:namespace=test;set=demo;indexname=by_i;bin=i;type=numeric\n";
    assert_eq!(wire.info(create), ["ok"]);
    until(|| wire.info("sindex-stat:namespace=test;indexname=by_i\n")[0].contains("load_pct=100"));
    let before = pairs(&mut wire, "namespace/test");
    assert_eq!(wire.ask_many(&query()).0.len(), 50);
    let mut range = vec![1, 1, b'i', 1];
    for bound in [10_i64, 19] {
        range.extend(8_u32.to_be_bytes());
        range.extend(bound.to_be_bytes());
    }
    let by_index = query().field(22, &range);
    assert_eq!(wire.ask_many(&by_index).0.len(), 10);
    let mut short = query().field(22, &range).field(7, &9_u64.to_be_bytes());
    short.info[0] |= SHORT_QUERY;
    assert_eq!(wire.ask_many(&short).0.len(), 10);
    let add = Message::new(0, WRITE, 0)
        .field(0, b"test")
        .field(1, b"demo")
        .field(7, &5_u64.to_be_bytes())
        .op(5, 1, "n", &1_i64.to_be_bytes());
    assert_eq!(wire.ask_many(&add).1, 0);
    until(|| pairs(&mut wire, "namespace/test")["pi_query_ops_bg_complete"] == "1");
    let after = pairs(&mut wire, "namespace/test");
    let grown = grown(&before, &after);
    let counts = |part: &str| -> Vec<(&str, u64)> {
        let named = grown.iter().filter(|(name, _)| name.contains(part));
        named.map(|(name, count)| (name.as_str(), *count)).collect()
    };
    assert_eq!(
        counts("_query_"),
        [
            ("pi_query_long_basic_complete", 1),
            ("pi_query_ops_bg_complete", 1),
            ("si_query_long_basic_complete", 1),
            ("si_query_short_basic_complete", 1),
        ]
    );
    assert_eq!(counts("ops_sub_"), [("ops_sub_write_success", 50)]);
    for never in [
        "pi_query_aggr_complete",
        "si_query_udf_bg_abort",
        "migrate_tx_instances",
    ] {
        assert_eq!(after[never], "0");
    }
}

#[test]
fn partitions_are_told_with_their_records() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    for key in 0..20 {
        wire.ask(&Message::put(key, "i", key));
    }
    let node = wire.info("node\n").remove(0);
    let text = wire.info("partition-info\n").remove(0);
    let mut rows = text.split(';');
    let columns: Vec<&str> = rows.next().unwrap().split(':').collect();
    let at = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(':').collect()).collect();
    assert_eq!(rows.len(), 2 * 4096);
    assert!(rows.iter().all(|row| row.len() == columns.len()));
    let of_test: Vec<_> = rows.iter().filter(|row| row[0] == "test").collect();
    for (number, row) in of_test.iter().enumerate() {
        assert_eq!((row[1], row[2]), (&*number.to_string(), "S"));
        assert_eq!(row[at("working_master")], node);
    }
    let records = |row: &&Vec<&str>| row[at("records")].parse::<usize>().unwrap();
    assert_eq!(of_test.iter().map(&records).sum::<usize>(), 20);
    let partition = digest(7).partition();
    assert!(records(&of_test[partition]) >= 1);
}

#[test]
fn limits_change_while_the_server_runs_and_others_say_why_not() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let rows: Vec<_> = (0..3)
        .map(|key| (digest(key), row(READ | GET_ALL, 0)))
        .collect();
    assert_eq!(wire.ask_many(&batch(0x0d, &rows)).1, 0);
    let set = |wire: &mut Wire, what: &str| wire.info(&format!("set-config:{what}\n")).remove(0);
    assert_eq!(set(&mut wire, "context=service;batch-max-requests=2"), "ok");
    assert_eq!(wire.ask_many(&batch(0x0d, &rows)).1, 151);
    assert_eq!(
        pairs(&mut wire, "get-config:context=service")["batch-max-requests"],
        "2"
    );

    let both = "context=service;proto-fd-max=1;proto-fd-idle-ms=600000";
    assert_eq!(set(&mut wire, both), "ok");
    let config = pairs(&mut wire, "get-config:context=service");
    assert_eq!(
        (&*config["proto-fd-max"], &*config["proto-fd-idle-ms"]),
        ("1", "600000")
    );
    let mut second = Wire::to(running.handle.addr());
    assert!(!second.is_alive(), "one connection is all that is allowed");

    for (what, why) in [
        (
            "context=namespace;id=test;nsup-period=5",
            "nsup-period cannot be changed while the server runs, of its context only background-query-max-rps, default-ttl;",
        ),
        (
            "context=namespace;id=test;default-ttl=11y",
            "default-ttl=11y",
        ),
        (
            "context=namespace;id=test;default-ttl=4000d",
            "not 0 to 315360000",
        ),
        ("context=service;proto-fd-idle-ms=1m", "no number"),
        (
            "context=namespace;id=nope;default-ttl=1",
            "unknown namespace",
        ),
        ("context=namespace;default-ttl=1", "missing namespace"),
        (
            "context=service;cluster-name=x",
            "only batch-max-requests, proto-fd-idle-ms, proto-fd-max, query-max-done, query-threads-limit;",
        ),
        (
            "context=network;service.port=1",
            "while the server runs; set",
        ),
        ("context=service;proto-fd-max=many", "proto-fd-max=many"),
        ("context=service;proto-fd-max=0", "proto-fd-max=0"),
        ("context=service", "nothing is to be changed"),
        ("context=wibble;x=1", "bad context"),
        // The first is valid, and is not changed either.
        (
            "context=service;batch-max-requests=9;wibble=1",
            "wibble cannot be changed",
        ),
    ] {
        let error = set(&mut wire, what);
        assert!(
            error.starts_with("ERROR:4:") && error.contains(why),
            "{what}: {error}"
        );
    }
    assert_eq!(
        pairs(&mut wire, "get-config:context=service")["batch-max-requests"],
        "2"
    );
}

#[test]
fn changed_limits_of_queries_and_of_times_to_live_hold_for_the_next_request() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let set = |wire: &mut Wire, what: &str| {
        let told = wire.info(&format!("set-config:context={what}\n")).remove(0);
        assert_eq!(told, "ok", "{what}");
    };
    wire.ask(&Message::put(1, "i", 1));
    set(
        &mut wire,
        "namespace;id=test;default-ttl=2h;background-query-max-rps=7",
    );
    let config = pairs(&mut wire, "get-config:context=namespace;namespace=test");
    assert_eq!(config["default-ttl"], "7200");
    assert_eq!(config["background-query-max-rps"], "7");
    let demo = running
        .store
        .namespace("test")
        .unwrap()
        .set("demo")
        .unwrap();
    let expires_at = |key: i64| demo.get(key).unwrap().unwrap().metadata().expires_at();
    assert_eq!(expires_at(1), None, "written before the change");
    wire.ask(&Message::put(2, "i", 1));
    let left = expires_at(2).unwrap().duration_since(SystemTime::now());
    assert!(left.is_ok_and(|left| left.as_secs() > 7000));
    // The queries of the background, at most 7 records a second.
    let mut background = |asked: u32| {
        let job = Message::new(0, WRITE, 0)
            .field(0, b"test")
            .field(1, b"demo")
            .field(10, &asked.to_be_bytes())
            .op(5, 1, "i", &1_i64.to_be_bytes());
        wire.ask(&job).code
    };
    assert_eq!([background(8), background(7)], [4, 0]);

    set(&mut wire, "service;query-max-done=0");
    until(|| wire.info("query-show")[0].matches("status=done").count() == 1);
    assert_eq!(wire.ask_many(&query()).1, 0);
    assert_eq!(
        wire.info("query-show")[0].matches("trid=").count(),
        1,
        "the last one"
    );
}

#[test]
fn dashboards_find_the_statistics_that_have_a_meaning_here() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let node = pairs(&mut wire, "statistics");
    for (name, value) in [
        ("admin_connections", "0"),
        ("batch_index_delay", "0"),
        ("deprecated_requests", "0"),
    ] {
        assert_eq!(node.get(name).map(|value| &**value), Some(value), "{name}");
    }
    if cfg!(target_os = "linux") {
        for name in [
            "system_free_mem_kbytes",
            "host_free_mem_pct",
            "threads_joinable",
        ] {
            assert!(node[name].parse::<u64>().unwrap() > 0, "{name}");
        }
    }
    let namespace = pairs(&mut wire, "namespace/test");
    for (name, value) in [
        ("data_compression_ratio", "1.000"),
        ("effective_active_rack", "0"),
        ("effective_is_quiesced", "false"),
        ("evict_ttl", "0"),
        ("evict_void_time", "0"),
        ("migrate_records_unreadable", "0"),
        ("ops_sub_tsvc_error", "0"),
        ("pending_quiesce", "false"),
        ("truncating", "false"),
        ("udf_sub_tsvc_timeout", "0"),
    ] {
        assert_eq!(
            namespace.get(name).map(|value| &**value),
            Some(value),
            "{name}"
        );
    }
}

#[test]
fn they_do_not_wait_for_a_transaction() {
    // A writer that waits, for its record or for the device, holds no thread of the server: other
    // connections are answered meanwhile.
    let mut config = NamespaceConfig::new("test");
    config.durability = Durability::Commit;
    config.key_hash = KeyHash::Ripemd160;
    let store = Store::builder().namespace(config).open().unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let namespace = store.namespace("test").unwrap();
    let (mut wire, mut other) = (Wire::to(handle.addr()), Wire::to(handle.addr()));
    let counted = |wire: &mut Wire, records: u32| {
        let told = wire.info("namespace/test\n").remove(0);
        let expected = format!("mrt_provisionals={records};mrt_monitors=1;");
        assert!(told.contains(&expected), "{told}");
    };
    let mut txn = Txn::new(7);
    assert_eq!(txn.put(&mut wire, 1, 1).code, 0);
    assert_eq!(txn.announce(&mut wire, &[2]), 0);
    let patient = Message {
        timeout_ms: 60_000,
        ..Message::put(2, "i", 2)
    };
    namespace
        .set("demo")
        .unwrap()
        .update(2, |_| {
            wire.send(&txn.inside(patient.clone()).frame());
            until(|| namespace.stats().waits == 1);
            counted(&mut other, 1);
            Ok(())
        })
        .unwrap();
    assert!(wire.receive().is_some());
    counted(&mut other, 2);
    assert_eq!(txn.put(&mut wire, 2, 3).code, 0);
    counted(&mut other, 2);
    assert_eq!(wire.ask(&txn.inside(Message::put(3, "i", 3))).code, 0);
    counted(&mut other, 3);
    txn.abort(&mut wire);
    let told = other.info("namespace/test\n").remove(0);
    assert!(
        told.contains("mrt_provisionals=0;mrt_monitors=0;"),
        "{told}"
    );
}
