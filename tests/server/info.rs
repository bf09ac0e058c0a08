//! The server's reports about itself: info commands and metrics.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::server_client::*;

#[test]
fn a_client_finds_its_cluster_of_one_node() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let port = running.handle.addr().port();
    let values =
        wire.info("node\npartition-generation\nbuild\ncluster-name\npeers-generation\nfeatures\n");
    assert!(values[0].starts_with("BB9") && values[0].len() <= 16);
    assert_eq!(values[1..5], ["1", "8.1.2.0", "null", "0"]);
    assert!(values[5].contains("pscans") && values[5].contains("batch-any"));
    let values = wire.info("peers-clear-std\npartition-generation\nreplicas\n");
    assert_eq!(values[0], format!("0,{port},[]"));
    let maps: Vec<&str> = values[2].split(';').collect();
    assert_eq!(maps.len(), 2);
    for (map, name) in maps.iter().zip(["bar", "test"]) {
        let map = map.strip_prefix(&format!("{name}:0,1,")).unwrap();
        // 512 bytes of ones.
        assert_eq!(map, format!("{}8=", "/".repeat(682)));
    }
    assert_eq!(
        wire.info("service-clear-std\n"),
        [format!("127.0.0.1:{port}")]
    );
    let agent = "user-agent-set:value=MSxweXRob24tMTkuMy4wLG5vdC1zZXQ=\n";
    assert_eq!(wire.info(agent), ["ok"]);
    assert_eq!(wire.info(agent), ["ERROR:4:already set"]);
    assert_eq!(
        wire.info("wibble:x=1\nracks:\n"),
        ["ERROR:4:unrecognized command", "ERROR:25:enterprise only"]
    );
    // An unterminated command, and none at all.
    assert_eq!(wire.info("status"), ["ok"]);
    assert_eq!(wire.info("partitions"), ["4096"]);
    assert!(wire.info("").len() > 5);
}

#[test]
fn what_it_holds_is_told_by_info() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1).ttl(1000));
    wire.ask(&Message::get(1));
    wire.ask(&Message::get(2));
    let holds = |text: &str, parts: &[&str]| {
        for part in parts {
            assert!(
                text.split(';').any(|pair| pair == *part),
                "{part} in {text}"
            );
        }
    };
    holds(&wire.info("namespaces\n")[0], &["test", "bar"]);
    holds(
        &wire.info("statistics\n")[0],
        &["cluster_size=1", "objects=1", "client_connections=1"],
    );
    holds(
        &wire.info("namespace/test\n")[0],
        &[
            "objects=1",
            "nsup-period=120",
            "strong-consistency=false",
            "client_read_success=1",
            "client_read_not_found=1",
            "client_write_success=1",
        ],
    );
    holds(
        &wire.info("get-config:context=namespace;id=test\n")[0],
        &[
            "nsup-period=120",
            "default-ttl=0",
            "max-record-size=1048576",
        ],
    );
    assert_eq!(wire.info("namespace/nope\n"), ["type=unknown"]);
    assert!(wire.info("get-config:context=xdr\n")[0].starts_with("ERROR"));
    let latency = wire.info("latencies:hist={test}-read\n").remove(0);
    assert!(latency.starts_with("{test}-read:msec,") && latency.split(',').count() == 19);
    assert_eq!(wire.info("latencies:hist={bar}-read\n"), ["{bar}-read:"]);
    let sizes = wire
        .info("histogram:namespace=test;type=object-size\n")
        .remove(0);
    assert_eq!(sizes, "units=bytes:[64-128)=1");
    let lives = wire.info("histogram:namespace=test;type=ttl\n").remove(0);
    let (head, buckets) = lives.split_once(":buckets=").unwrap();
    assert!(head.starts_with("units=seconds:hist-width="), "{head}");
    let records: u64 = buckets
        .split(',')
        .map(|count| count.parse::<u64>().unwrap())
        .sum();
    assert_eq!((buckets.split(',').count(), records), (100, 1));
    assert_eq!(
        wire.info("sindex-list:\nudf-list\nsindex-exists:namespace=test;indexname=i\nsindex-stat:namespace=test;indexname=i\n"),
        ["", "", "false", "ERROR:201:no index"]
    );
}

/// The answer of the endpoint of metrics.
fn scraped(addr: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn silent_connections_do_not_delay_a_scrape() {
    let running = serve_with(|server| server.metrics("127.0.0.1:0").unwrap());
    let addr = running.handle.metrics_addr().unwrap();
    let silent = [(); 3].map(|()| TcpStream::connect(addr).unwrap());
    assert!(scraped(addr, "/metrics").starts_with("HTTP/1.1 200 OK"));
    // They are waited for still: the endpoint has neither answered nor closed them.
    for mut stream in silent {
        stream.set_nonblocking(true).unwrap();
        let waited_for = stream.read(&mut [0]).unwrap_err();
        assert_eq!(waited_for.kind(), ErrorKind::WouldBlock);
    }
}

#[test]
fn metrics_have_the_names_that_dashboards_know() {
    let running = serve_with(|server| server.metrics("127.0.0.1:0").unwrap());
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let scrape = |path: &str| scraped(running.handle.metrics_addr().unwrap(), path);
    let text = scrape("/metrics");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"));
    for (name, labels, value) in [
        ("aerospike_node_up", "build=\"8.1.2.0\"", "1"),
        ("aerospike_namespace_master_objects", "ns=\"test\"", "1"),
        (
            "aerospike_namespace_client_write_success",
            "ns=\"test\"",
            "1",
        ),
        ("aerospike_sets_objects", "set=\"demo\"", "1"),
        (
            "aerospike_node_stats_client_connections",
            "cluster_name=\"null\"",
            "1",
        ),
        ("aerospike_latencies_write_ms_bucket", "le=\"+Inf\"", "1"),
        ("spikelet_appended_bytes_total", "ns=\"bar\"", "0"),
    ] {
        let found = text.lines().any(|line| {
            line.starts_with(&format!("{name}{{"))
                && line.contains(labels)
                && line.ends_with(&format!(" {value}"))
        });
        assert!(found, "{name} {labels} {value} in\n{text}");
    }
    // Each metric is announced once.
    let mut types: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("# TYPE"))
        .collect();
    let all = types.len();
    types.sort_unstable();
    types.dedup();
    assert_eq!(types.len(), all);
    assert!(scrape("/else").starts_with("HTTP/1.1 404"));
}
