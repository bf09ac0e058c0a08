//! How long records live, and what renews them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::server_client::*;
use spikelet::record::KeyHash;
use spikelet::server::Server;
use spikelet::storage::ManualClock;
use spikelet::{NamespaceConfig, ShardedList, Store};

const NOW_AFTER_2010: u64 = 1_262_304_000;

fn seconds_since_2010() -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    now.as_secs() - NOW_AFTER_2010
}

#[test]
fn records_live_as_long_as_they_are_told_to() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let mut put = |ttl: u32| {
        let answer = wire.ask(&Message::put(1, "i", 1).ttl(ttl));
        (answer.code, u64::from(answer.void_time))
    };
    assert_eq!(put(0), (0, 0));
    let before = seconds_since_2010();
    let (code, void_time) = put(100);
    let expected = before + 100..=seconds_since_2010() + 100;
    assert!(code == 0 && expected.contains(&void_time));
    assert_eq!(put(u32::MAX - 1), (0, void_time));
    assert_eq!(put(315_360_001).0, 4);
    assert_eq!(put(u32::MAX - 2).0, 4);
    assert_eq!(put(u32::MAX), (0, 0));
    let touch = Message::about(0, WRITE, 0, 1).op(11, 0, "", &[]).ttl(50);
    let answer = wire.ask(&touch);
    assert!(answer.code == 0 && answer.ops.is_empty() && answer.void_time > 0);
    // A read-touch percentage above 100, of a record that can expire.
    assert_eq!(wire.ask(&Message::get(1).ttl(101)).code, 4);
    assert_eq!(wire.ask(&Message::get(1).ttl(100)).code, 0);
    let missing = Message::about(0, WRITE, 0, 2).op(11, 0, "", &[]);
    assert_eq!(wire.ask(&missing).code, 2);
}

#[test]
fn a_read_renews_a_record_that_has_lived_long_enough() {
    let clock = std::sync::Arc::new(spikelet::storage::ManualClock::at(1_000_000_000));
    let store = namespaces()
        .clock(std::sync::Arc::clone(&clock) as _)
        .open()
        .unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    wire.ask(&Message::put(1, "i", 1).ttl(100));
    clock.advance_ms(30_000);
    // 70 % of the time to live is left. A read renews the record if less than its percentage is
    // left: 80 does, 60 does not.
    assert_eq!(wire.ask(&Message::get(1).ttl(60)).void_time, 1_000_100);
    assert_eq!(wire.ask(&Message::get(1).ttl(80)).void_time, 1_000_100);
    let renewed = wire.ask(&Message::get(1));
    assert_eq!((renewed.void_time, renewed.generation), (1_000_130, 1));
    clock.advance_ms(101_000);
    assert_eq!(wire.ask(&Message::get(1)).code, 2);
}

#[test]
fn a_namespace_without_expiry_refuses_times_to_live() {
    let running = serve_with(|server| server.without_expiry("test"));
    let mut wire = Wire::to(running.handle.addr());
    assert_eq!(wire.ask(&Message::put(1, "i", 1).ttl(10)).code, 22);
    assert_eq!(wire.ask(&Message::put(1, "i", 1).ttl(u32::MAX)).code, 0);
    assert!(wire.info("namespace/test\n")[0].contains("nsup-period=0"));
}

#[test]
fn writes_in_the_background_give_shards_no_end() {
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    let config = NamespaceConfig::new("test").key_hash(KeyHash::Ripemd160);
    let store = Store::builder()
        .namespace(config.default_time_to_live(Duration::from_secs(60)))
        .clock(Arc::clone(&clock) as _)
        .open()
        .unwrap();
    let list = ShardedList::new(&store, "demo", "alice", "by").unwrap();
    for id in 0..10 {
        list.add(id).unwrap();
    }
    list.shards().activate(4).unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    let background = Message::new(0, WRITE, 0)
        .field(0, b"test")
        .field(1, b"demo")
        .field(7, &5_u64.to_be_bytes())
        .op(2, 1, "x", &1_i64.to_be_bytes());
    assert_eq!(wire.ask(&background).code, 0);
    until(|| wire.info("query-show:id=5\n")[0].contains("recs-succeeded=5"));
    clock.advance_ms(61_000);
    assert_eq!(list.len().unwrap(), 10);
    // A time that the client names is the record's.
    let soon = background.ttl(60);
    let soon = Message {
        fields: vec![
            (0, b"test".to_vec()),
            (1, b"demo".to_vec()),
            (7, 6_u64.to_be_bytes().to_vec()),
        ],
        ..soon
    };
    assert_eq!(wire.ask(&soon).code, 0);
    until(|| wire.info("query-show:id=6\n")[0].contains("recs-succeeded=5"));
    clock.advance_ms(61_000);
    assert_eq!(list.len().unwrap(), 0);
}
