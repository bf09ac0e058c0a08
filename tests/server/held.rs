//! Writes that keep their record, so that clients rehearse error 14.
//!
//! The hold is an hour where refusals are counted, so that nothing depends on how fast a test runs:
//! it ends with the server.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::server_client::*;

const HOUR: Duration = Duration::from_secs(3600);

fn put(key: i64) -> Message {
    Message {
        timeout_ms: 3_600_000,
        ..Message::put(key, "i", 7)
    }
}

/// Sends a write, and does not wait for its answer.
fn begin(running: &Running, message: &Message) -> Wire {
    let mut wire = Wire::to(running.handle.addr());
    wire.send(&message.frame());
    wire
}

#[test]
fn while_forty_clients_wait_for_one_record_others_are_not_held_up() {
    let running = serve_with(|server| server.hold_writes(HOUR, &["other", "demo"]));
    let namespace = running.store.namespace("test").unwrap();
    // The namespace of these tests has the library's own limit, so that all of them wait.
    let mut waiting: Vec<Wire> = (0..40).map(|_| begin(&running, &put(1))).collect();
    until(|| namespace.stats().waits == 39);
    // Another set, reads of the held record, and other records of the set are not held up; the last
    // waits for its own hold only.
    let mut other = Wire::to(running.handle.addr());
    let elsewhere = Message {
        fields: vec![
            (0, b"bar".to_vec()),
            (1, b"else".to_vec()),
            (4, digest(1).as_bytes().to_vec()),
        ],
        ..put(1)
    };
    assert_eq!(other.ask(&elsewhere).code, 0);
    assert_eq!(other.ask(&Message::get(1)).code, 2);
    let _second = begin(&running, &put(2));
    assert!(other.is_alive());
    assert_eq!(namespace.stats().key_busy, 0);
    let hot = namespace.hot_records(5);
    assert_eq!((hot.len(), hot[0].waits, hot[0].busy), (1, 39, 0));
    // The end of the server is the end of the hold: every write is done and answered.
    running.handle.stop();
    assert!(
        waiting
            .iter_mut()
            .all(|wire| wire.receive().is_some_and(|(kind, _)| kind == 3))
    );
}

#[test]
fn of_forty_clients_on_one_record_eighteen_are_answered_14_and_so_are_rows_of_batches() {
    let mut config = spikelet::server::ServerConfig::namespace_of("test");
    config.max_waiters = 21;
    let store = spikelet::Store::builder().namespace(config).open().unwrap();
    let server = spikelet::server::Server::builder(&store).hold_writes(HOUR, &[]);
    let handle = server.start().unwrap();
    let namespace = store.namespace("test").unwrap();
    let running = Running { store, handle };
    let mut waiting: Vec<Wire> = (0..22).map(|_| begin(&running, &put(1))).collect();
    until(|| namespace.stats().waits == 21);
    for _ in 22..40 {
        assert_eq!(Wire::to(running.handle.addr()).ask(&put(1)).code, 14);
    }
    assert_eq!(namespace.stats().key_busy, 18);
    let write = row(0, WRITE).op(2, 1, "i", &7_i64.to_be_bytes());
    let rows = [(digest(1), write), (digest(9), row(READ | GET_ALL, 0))];
    // All keys are to be answered.
    let (answers, code) = Wire::to(running.handle.addr()).ask_many(&batch(0x04, &rows));
    let codes: Vec<_> = answers
        .iter()
        .map(|answer| (answer.row, answer.code))
        .collect();
    assert_eq!((codes, code), (vec![(0, 14), (1, 2)], 0));
    let hot = namespace.hot_records(1);
    assert_eq!((hot[0].waits, hot[0].busy), (21, 19));
    assert!(running.handle.connections() >= 22);
    let told = Wire::to(running.handle.addr())
        .info("namespace/test\n")
        .remove(0);
    assert!(told.contains(";fail_key_busy=19;"), "{told}");
    running.handle.stop();
    for wire in &mut waiting {
        let (_, body) = wire.receive().unwrap();
        assert_eq!(answers_of(&body), [0]);
    }
}

fn answers_of(body: &[u8]) -> Vec<u8> {
    answers(body).iter().map(|answer| answer.code).collect()
}

#[test]
fn who_waits_longer_than_its_timeout_is_told_so_and_makes_room() {
    let running = serve_with(|server| server.hold_writes(HOUR, &[]));
    let namespace = running.store.namespace("test").unwrap();
    let mut first = begin(&running, &put(1));
    let impatient = Message {
        timeout_ms: 1,
        ..Message::put(1, "i", 8)
    };
    // The first one has the record, whichever that is, once the other waits.
    let mut second = begin(&running, &put(1));
    until(|| namespace.stats().waits == 1);
    assert_eq!(Wire::to(running.handle.addr()).ask(&impatient).code, 9);
    running.handle.stop();
    assert!(first.receive().is_some() && second.receive().is_some());
}

#[test]
fn every_write_of_forty_clients_that_repeat_theirs_is_done_once() {
    let running = serve_with(|server| server.hold_writes(Duration::from_millis(1), &["demo"]));
    let start = Barrier::new(40);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                let mut wire = Wire::to(running.handle.addr());
                start.wait();
                let add = Message {
                    timeout_ms: 60_000,
                    ..Message::about(0, WRITE, 0, 1).op(5, 1, "n", &1_i64.to_be_bytes())
                };
                let mut code = 14;
                while code == 14 {
                    code = wire.ask(&add).code;
                }
                assert_eq!(code, 0);
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(done.into_inner(), 40);
    assert_eq!(
        Wire::to(running.handle.addr())
            .ask(&Message::get(1))
            .int("n"),
        40
    );
}
