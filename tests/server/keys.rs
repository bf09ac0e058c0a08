//! User keys that only wire clients store: doubles, blobs of clients, and text that is not UTF-8.

use std::ops::ControlFlow;
use std::time::Duration;

use spikelet::backup::{BackupOptions, Restore, RestoreOptions, save};
use spikelet::changes::{ChangeKind, ChangeOptions, Delivery, Start};
use spikelet::record::KeyHash;
use spikelet::relation::{EdgeType, Graph};
use spikelet::{Digest, Key};

use crate::server_client::*;

const HAS_EDGES: u8 = 22;

/// The bytes of a text and of a blob.
const BYTES: [u8; 2] = [0x4a, 0xfc];

/// The digest of [`BYTES`] as a text of set `demo`.
const OF_TEXT: Digest = Digest::new([
    0xd1, 0x8f, 0xc1, 0x6b, 0x6e, 0x3c, 0x04, 0xa0, 0x11, 0xc9, 0x3e, 0x0a, 0xfc, 0x10, 0x5c, 0x3d,
    0x75, 0xbd, 0x24, 0x21,
]);

fn about(info1: u8, info2: u8, digest: Digest) -> Message {
    Message::new(info1, info2, 0)
        .field(0, b"test")
        .field(1, b"demo")
        .field(4, digest.as_bytes())
}

/// A put with a key: its type and its bytes.
fn put(digest: Digest, kind: u8, key: &[u8]) -> Message {
    about(0, WRITE, digest)
        .field(2, &[&[kind], key].concat())
        .op(2, 1, "i", &7_i64.to_be_bytes())
}

fn delete(digest: Digest) -> Message {
    about(0, WRITE | DELETE, digest)
}

#[test]
fn a_delete_with_edges_removes_no_record_but_its_own() {
    let running = serve();
    let types = [EdgeType::new("EDGE")];
    let graph = Graph::new(&running.store, "demo", ["GOAL", "USER"], types).unwrap();
    graph.declare().unwrap();
    let mut wire = Wire::to(running.handle.addr());
    let of_blob = KeyHash::Ripemd160.digest("demo", &Key::from(&BYTES));
    // A client that hashes in another way.
    let strange = Digest::new([9; 20]);
    let (text, blob, integer) = ((3, &BYTES[..]), (4, &BYTES[..]), (1, &[0; 8][..]));
    let table = [
        (OF_TEXT, text),
        (of_blob, blob),
        (digest(0), integer),
        (strange, integer),
    ];
    for (digest, (kind, key)) in table {
        assert_eq!(wire.ask(&put(digest, kind, key)).code, 0);
    }
    for digest in [OF_TEXT, strange] {
        assert_eq!(wire.ask(&delete(digest)).code, HAS_EDGES);
    }
    for (digest, _) in table {
        assert_eq!(wire.ask(&about(READ | GET_ALL, 0, digest)).code, 0);
    }
    // The application addresses no record by a text that is no text.
    let demo = running.store.set("demo").unwrap();
    let mut keys = Vec::new();
    let _ = demo.scan(|record| {
        keys.extend(record.unwrap().key().map(Key::into_owned));
        ControlFlow::<()>::Continue(())
    });
    keys.sort();
    assert_eq!(keys, [Key::from(0), Key::from(0), Key::from(&BYTES)]);
    for digest in [of_blob, digest(0)] {
        assert_eq!(wire.ask(&delete(digest)).code, 0);
    }
}

#[test]
fn changes_of_records_with_such_keys_come_without_a_key() {
    let running = serve();
    let changes = running.store.namespace("test").unwrap().changes();
    changes.enable("demo").unwrap();
    let options = ChangeOptions::default().delivery(Delivery::Published);
    let subscription = changes.subscribe("all", Start::Now, options).unwrap();
    let mut consumer = subscription.consumer().unwrap();
    let mut wire = Wire::to(running.handle.addr());
    let double = Digest::new([8; 20]);
    let put_double = put(double, 2, &1.5_f64.to_be_bytes());
    assert_eq!(wire.ask(&put_double).code, 0);
    assert_eq!(wire.ask(&put(digest(1), 1, &1_i64.to_be_bytes())).code, 0);
    assert_eq!(wire.ask(&put(OF_TEXT, 3, &BYTES)).code, 0);
    assert_eq!(wire.ask(&delete(double)).code, 0);
    let batch = consumer.next_batch(10, Duration::ZERO).unwrap();
    let shown: Vec<_> = batch
        .iter()
        .map(|change| (change.kind, change.key.clone()))
        .collect();
    let expected = [
        (ChangeKind::Put, None),
        (ChangeKind::Put, Some(Key::from(1))),
        (ChangeKind::Put, None),
        (ChangeKind::Delete, None),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_backup_keeps_records_with_such_keys() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let table: [(u8, &[u8], &str); 4] = [
        (2, &1.5_f64.to_be_bytes(), "+ k D 1.5\n"),
        (7, b"java", ""),
        (12, b"erlang", ""),
        (3, &BYTES, "+ k S 2 J\u{fffd}\n"),
    ];
    let digest_of = |kind: u8| match kind {
        3 => OF_TEXT,
        kind => Digest::new([kind; 20]),
    };
    for (kind, key, _) in table {
        assert_eq!(wire.ask(&put(digest_of(kind), kind, key)).code, 0);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("all.asb");
    let mut options = BackupOptions::default();
    options.namespace = Some("test".into());
    let summary = save(&running.store, &path, &options, &mut |_| {}).unwrap();
    assert_eq!((summary.records, summary.without_key), (4, 3));
    let bytes = std::fs::read(&path).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    for (_, _, line) in table {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(text.matches("+ k ").count(), 2, "{text}");
    let other = serve();
    let restored = Restore::prepare(&path, RestoreOptions::default(), &mut |_, _| {})
        .unwrap()
        .run(&other.store, &mut |_, _| {})
        .unwrap();
    assert_eq!((restored.restored, restored.refused), (4, 0));
    let mut wire = Wire::to(other.handle.addr());
    for (kind, ..) in table {
        let answer = wire.ask(&about(READ | GET_ALL, 0, digest_of(kind)));
        assert_eq!((answer.code, answer.int("i")), (0, 7), "{kind}");
    }
}

#[test]
fn a_record_of_another_set_is_refused_by_every_read_that_names_one() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let mut elsewhere = Message::put(1, "i", 7);
    elsewhere.fields[1].1 = b"other".to_vec();
    assert_eq!(wire.ask(&elsewhere).code, 0);
    assert_eq!(wire.ask(&Message::get(1)).code, 4);
    let demo = running.store.set("demo").unwrap();
    let refused = |result: spikelet::Result<bool>| result.unwrap_err().result_code() == 4;
    assert!(refused(demo.get(1).map(|record| record.is_some())));
    assert!(refused(demo.exists(1)));
    let batch = demo.get_batch([1]).remove(0);
    assert!(refused(batch.map(|record| record.is_some())));
    let read = running.store.transaction(|tx| tx.set("demo")?.get(1));
    assert!(refused(read.map(|record| record.is_some())));
    assert!(refused(demo.delete(1).map(|lsn| lsn.is_some())));
}
