//! A server that behaves as Aerospike's Community Edition.

use std::path::Path;

use spikelet::query::IndexDefinition;
use spikelet::record::KeyHash;
use spikelet::server::Server;
use spikelet::{Digest, NamespaceConfig, Store};

use crate::server_client::*;

const DURABLE_DELETE: u8 = 0x10;
const ENTERPRISE_ONLY: u8 = 25;

/// Sets the type of a list: ordered, with a persisted index.
const CREATE_PERSISTENT: [u8; 3] = [0x92, 0, 0x11];
/// Appends 7 to an ordered list, which is made with a persisted index.
const APPEND_PERSISTENT: [u8; 5] = [0x94, 1, 7, 0x11, 0];

fn serve_dir(dir: &Path) -> Running {
    serve_limited(dir, 1 << 20)
}

fn serve_limited(dir: &Path, max_record_bytes: u64) -> Running {
    let mut config = NamespaceConfig::new("test").max_record_bytes(max_record_bytes);
    config.key_hash = KeyHash::Ripemd160;
    let store = Store::builder().path(dir).namespace(config).open().unwrap();
    let handle = Server::builder(&store).like_ce().start().unwrap();
    Running { store, handle }
}

fn stop(running: Running, wire: Wire) {
    drop(wire);
    running.handle.stop();
    running.store.close().unwrap();
}

fn delete(key: i64) -> Message {
    Message::about(0, WRITE | DELETE, 0, key)
}

/// A write that takes the only bin of the record away.
fn empty(info2: u8, key: i64) -> Message {
    Message::about(0, WRITE | info2, 0, key).op(2, 0, "i", &[])
}

#[test]
fn transactions_and_durable_deletes_are_refused() {
    let running = serve_with(|server| server.like_ce());
    let mut wire = Wire::to(running.handle.addr());
    let in_transaction = |message: Message| message.field(5, &7_i64.to_le_bytes());
    assert_eq!(wire.ask(&Message::put(1, "i", 7)).code, 0);
    for message in [Message::put(1, "i", 8), Message::get(1), delete(1)] {
        assert_eq!(wire.ask(&in_transaction(message)).code, ENTERPRISE_ONLY);
    }
    // Also where there is no such record.
    for key in [1, 2] {
        let durable = Message::about(0, WRITE | DELETE | DURABLE_DELETE, 0, key);
        assert_eq!(wire.ask(&durable).code, ENTERPRISE_ONLY);
    }
    // A write is refused if nothing is left, unless it would be refused anyway.
    assert_eq!(wire.ask(&empty(DURABLE_DELETE, 1)).code, ENTERPRISE_ONLY);
    let other_generation = empty(DURABLE_DELETE | GENERATION_EQUAL, 1).generation(9);
    assert_ne!(wire.ask(&other_generation).code, 0);
    assert_eq!(wire.ask(&empty(DURABLE_DELETE, 2)).code, 2);
    let put = Message::about(0, WRITE | DURABLE_DELETE, 0, 1).op(2, 1, "i", &[9]);
    assert_eq!(wire.ask(&put).code, 0);
    assert_eq!(wire.ask(&Message::get(1)).int("i"), 9);
    let rows = [(digest(1), row(0, WRITE | DELETE | DURABLE_DELETE))];
    let (answers, _) = wire.ask_many(&batch(0x0d, &rows));
    assert_eq!(answers[0].code, ENTERPRISE_ONLY);
    assert_eq!(wire.ask(&delete(1)).code, 0);
}

#[test]
fn deleted_records_are_back_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let running = serve_dir(dir.path());
    let mut wire = Wire::to(running.handle.addr());
    for key in 0..6 {
        assert_eq!(wire.ask(&Message::put(key, "i", key)).code, 0);
    }
    assert_eq!(wire.ask(&Message::put(1, "i", 10)).code, 0);
    assert_eq!(wire.ask(&delete(1)).code, 0);
    assert_eq!(wire.ask(&empty(0, 2)).code, 0);
    let (answers, _) = wire.ask_many(&batch(0x0d, &[(digest(3), row(0, WRITE | DELETE))]));
    assert_eq!(answers[0].code, 0);
    // Written again: that one stays.
    assert_eq!(wire.ask(&delete(4)).code, 0);
    assert_eq!(wire.ask(&Message::put(4, "i", 40)).code, 0);
    for key in 1..4 {
        assert_eq!(wire.ask(&Message::get(key)).code, 2, "{key}");
    }
    stop(running, wire);

    let running = serve_dir(dir.path());
    let mut wire = Wire::to(running.handle.addr());
    for (key, value) in [(0, 0), (1, 10), (2, 2), (3, 3), (4, 40), (5, 5)] {
        assert_eq!(wire.ask(&Message::get(key)).int("i"), value, "{key}");
    }
    assert_eq!(wire.ask(&Message::get(1)).generation, 2);
}

#[test]
fn damaged_records_can_be_deleted_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let running = serve_dir(dir.path());
    let mut wire = Wire::to(running.handle.addr());
    let text = b"a text of damaged records alone";
    for key in 1..4 {
        let put = Message::about(0, WRITE, 0, key).op(2, 3, "t", text);
        assert_eq!(wire.ask(&put).code, 0);
    }
    assert_eq!(wire.ask(&Message::put(4, "i", 4)).code, 0);
    stop(running, wire);
    let device = dir.path().join("test/device-0");
    let mut bytes = std::fs::read(&device).unwrap();
    let places = bytes.windows(text.len()).enumerate();
    let places = places.filter(|(_, window)| window == text);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    places.iter().for_each(|at| bytes[*at] ^= 0xff);
    std::fs::write(&device, bytes).unwrap();

    let running = serve_dir(dir.path());
    let mut wire = Wire::to(running.handle.addr());
    for key in 1..4 {
        assert_eq!(wire.ask(&Message::get(key)).code, 1);
    }
    assert_eq!(wire.ask(&delete(1)).code, 0);
    let replace = Message::about(0, WRITE, CREATE_OR_REPLACE, 2).op(2, 1, "i", &[2]);
    assert_eq!(wire.ask(&replace).code, 0);
    // Other writes are refused, as elsewhere.
    assert_eq!(wire.ask(&Message::put(3, "i", 3)).code, 1);
    assert_eq!(wire.ask(&delete(4)).code, 0);
    stop(running, wire);

    let running = serve_dir(dir.path());
    let mut wire = Wire::to(running.handle.addr());
    assert_eq!(wire.ask(&Message::get(1)).code, 2);
    for key in [2, 4] {
        assert_eq!(wire.ask(&Message::get(key)).int("i"), key);
    }
}

#[test]
fn what_cannot_come_back_keeps_no_server_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    let running = serve_dir(dir.path());
    let by_i = IndexDefinition::new("by_i", ["i"]).unique(true);
    let demo = running.store.set("demo").unwrap();
    demo.create_index(by_i).unwrap();
    drop(demo);
    let mut wire = Wire::to(running.handle.addr());
    for (key, bytes) in [(1, 10), (2, 10_000), (3, 10), (4, 10)] {
        let put = Message::put(key, "i", key).op(2, 4, "b", &vec![0; bytes]);
        assert_eq!(wire.ask(&put).code, 0);
        assert_eq!(wire.ask(&delete(key)).code, 0);
    }
    // The value of a deleted record is another's.
    assert_eq!(wire.ask(&Message::put(5, "i", 1)).code, 0);
    stop(running, wire);
    for _ in 0..2 {
        let running = serve_limited(dir.path(), 1000);
        let mut wire = Wire::to(running.handle.addr());
        for (key, code) in [(1, 2), (2, 2), (3, 0), (4, 0), (5, 0)] {
            assert_eq!(wire.ask(&Message::get(key)).code, code, "{key}");
        }
        stop(running, wire);
    }
}

#[test]
fn a_truncation_removes_deleted_records_too() {
    let dir = tempfile::tempdir().unwrap();
    let running = serve_dir(dir.path());
    let mut wire = Wire::to(running.handle.addr());
    let elsewhere = Digest::new([3; 20]);
    let put_elsewhere = Message::new(0, WRITE, 0)
        .field(0, b"test")
        .field(1, b"elsewhere")
        .field(4, elsewhere.as_bytes())
        .op(2, 1, "i", &[0; 8]);
    assert_eq!(wire.ask(&put_elsewhere).code, 0);
    let mut delete_elsewhere = put_elsewhere.clone();
    delete_elsewhere.info[1] = WRITE | DELETE;
    delete_elsewhere.ops.clear();
    assert_eq!(wire.ask(&delete_elsewhere).code, 0);
    for key in 1..4 {
        assert_eq!(wire.ask(&Message::put(key, "i", key)).code, 0);
    }
    assert_eq!(wire.ask(&delete(1)).code, 0);
    assert_eq!(wire.info("truncate:namespace=test;set=demo\n"), ["ok"]);
    assert_eq!(wire.ask(&delete(2)).code, 2);
    assert_eq!(wire.ask(&Message::put(3, "i", 30)).code, 0);
    assert_eq!(wire.ask(&delete(3)).code, 0);
    stop(running, wire);

    let running = serve_dir(dir.path());
    let mut wire = Wire::to(running.handle.addr());
    for (key, code) in [(1, 2), (2, 2), (3, 0)] {
        assert_eq!(wire.ask(&Message::get(key)).code, code, "{key}");
    }
    let mut get_elsewhere = delete_elsewhere;
    get_elsewhere.info = [READ | GET_ALL, 0, 0, 0];
    assert_eq!(wire.ask(&get_elsewhere).code, 0);
}

#[test]
fn a_list_with_a_persisted_index_is_refused_in_memory() {
    let persistent = |key| {
        [&CREATE_PERSISTENT[..], &APPEND_PERSISTENT]
            .map(|call| Message::about(0, WRITE, 0, key).op(4, 4, "l", call))
    };
    let dir = tempfile::tempdir().unwrap();
    let table = [
        (serve_with(|server| server.like_ce()), 4),
        (serve(), 0),
        (serve_dir(dir.path()), 0),
    ];
    for (running, code) in table {
        let mut wire = Wire::to(running.handle.addr());
        for message in persistent(1) {
            assert_eq!(wire.ask(&message).code, code);
        }
        let plain = Message::about(0, WRITE, 0, 2).op(4, 4, "l", &[0x94, 1, 7, 1, 1]);
        assert_eq!(wire.ask(&plain).code, 0);
    }
}
