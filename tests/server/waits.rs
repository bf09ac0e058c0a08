//! Clients' writes that wait for a record, for space or for a sync hold up no other request.
//!
//! The writes wait until the test lets them go on: an answer that comes meanwhile has not waited
//! for them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use spikelet::record::KeyHash;
use spikelet::relation::{ManyToMany, OnDelete};
use spikelet::server::Server;
use spikelet::{Durability, NamespaceConfig, Store, Value};

use super::server_client::*;

/// More than the server has threads.
const WRITERS: usize = 64;

fn put(key: i64) -> Message {
    Message {
        timeout_ms: 3_600_000,
        ..Message::put(key, "i", 7)
    }
}

fn begin(running: &Running, message: &Message) -> Wire {
    let mut wire = Wire::to(running.handle.addr());
    wire.send(&message.frame());
    wire
}

fn codes(wires: &mut [Wire]) -> Vec<u8> {
    let code = |wire: &mut Wire| answers(&wire.receive().unwrap().1).pop().unwrap().code;
    wires.iter_mut().map(code).collect()
}

/// Runs `meanwhile` while a writer of this process has record 1 of set "demo" locked.
pub(super) fn with_record_locked<R>(store: &Store, meanwhile: impl FnOnce() -> R) -> R {
    with_locked(store, 1, meanwhile)
}

fn with_locked<R>(store: &Store, key: i64, meanwhile: impl FnOnce() -> R) -> R {
    let set = store.set("demo").unwrap();
    let (locked, is_locked) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    std::thread::scope(|scope| {
        // Also when `meanwhile` panics.
        let go_on = go_on;
        scope.spawn(move || {
            let updated = set.update(key, |_| {
                locked.send(()).unwrap();
                may_go_on.recv().unwrap();
                Ok(())
            });
            updated.unwrap();
        });
        is_locked.recv().unwrap();
        let done = meanwhile();
        go_on.send(()).unwrap();
        done
    })
}

#[test]
fn writers_that_wait_for_a_record_of_the_process_hold_up_nobody_else() {
    let running = serve();
    let namespace = running.store.namespace("test").unwrap();
    let mut waiting = with_record_locked(&running.store, || {
        let waiting: Vec<_> = (0..WRITERS).map(|_| begin(&running, &put(1))).collect();
        until(|| namespace.stats().waits == WRITERS as u64);
        let mut other = Wire::to(running.handle.addr());
        for key in 2..50 {
            assert_eq!(other.ask(&put(key)).code, 0);
            assert_eq!(other.ask(&Message::get(key)).int("i"), 7);
            assert_eq!(Wire::to(running.handle.addr()).info("node\n").len(), 1);
        }
        // The record itself can be read.
        assert_eq!(other.ask(&Message::get(1)).code, 2);
        waiting
    });
    assert_eq!(codes(&mut waiting), [0; WRITERS]);
    let mut wire = Wire::to(running.handle.addr());
    // The update of the process has left no bins, so the first of them has made the record.
    assert_eq!(wire.ask(&Message::get(1)).generation as usize, WRITERS);
    let stats = namespace.stats();
    // One write each, however often it was tried; the process and the other client made 49.
    let writes = stats.operation(spikelet::stats::OperationKind::Write).count;
    let operates = stats
        .operation(spikelet::stats::OperationKind::Operate)
        .count;
    assert_eq!(writes + operates, WRITERS as u64 + 1 + 48);
    // The read of a record that did not exist yet.
    assert_eq!(stats.errors, [(2, 1)]);
}

#[test]
fn a_row_of_a_batch_waits_with_the_rows_behind_it_and_each_is_written_once() {
    let running = serve();
    let namespace = running.store.namespace("test").unwrap();
    let add = row(0, WRITE).op(5, 1, "n", &1_i64.to_be_bytes());
    let mut wire = with_record_locked(&running.store, || {
        let rows = [3, 1, 4].map(|key| (digest(key), add.clone()));
        let mut batch = batch(0x04, &rows);
        batch.timeout_ms = 3_600_000;
        let mut wire = begin(&running, &batch);
        // It leaves the queue while the answer of the row before is sent.
        until(|| namespace.stats().waits == 2);
        let (_, body) = wire.receive().unwrap();
        assert_eq!(answers(&body).len(), 1);
        assert_eq!(
            Wire::to(running.handle.addr()).ask(&Message::get(4)).code,
            2
        );
        wire
    });
    let mut told = Vec::new();
    while told.len() < 3 {
        told.extend(answers(&wire.receive().unwrap().1));
    }
    assert!(told.iter().all(|answer| answer.code == 0), "{told:?}");
    for key in [3, 1, 4] {
        assert_eq!(
            Wire::to(running.handle.addr())
                .ask(&Message::get(key))
                .int("n"),
            1
        );
    }
}

#[test]
fn a_delete_in_steps_that_waits_between_two_of_them_is_not_asked_for_its_generation_again() {
    let running = serve();
    let namespace = running.store.namespace("test").unwrap();
    let follows = ManyToMany::new(
        &running.store,
        "follows",
        ("demo", "following"),
        ("demo", "followers"),
    );
    let follows = follows.on_delete(OnDelete::Detach);
    for is_batch in [false, true] {
        // More than go in one step.
        for target in 2..=301 {
            follows.link(1, target).unwrap();
        }
        let set = running.store.set("demo").unwrap();
        let record = set.get(1).unwrap().unwrap();
        let generation = u32::from(record.metadata().generation);
        let delete = |message: Message| message.generation(generation);
        let flags = WRITE | DELETE | GENERATION_EQUAL;
        let message = if is_batch {
            let put = row(0, WRITE).op(2, 1, "i", &[7; 8]);
            let rows = [(digest(1_000), put), (digest(1), delete(row(0, flags)))];
            batch(0x04, &rows)
        } else {
            delete(Message::about(0, flags, 0, 1))
        };
        let message = Message {
            timeout_ms: 3_600_000,
            ..message
        };
        let waits = namespace.stats().waits;
        let mut wire = with_locked(&running.store, 301, || {
            let mut wire = begin(&running, &message);
            if is_batch {
                let (_, first) = wire.receive().unwrap();
                assert_eq!(answers(&first)[0].code, 0);
            }
            // The row of a batch leaves the queue while the answer of the row before is sent.
            until(|| namespace.stats().waits == waits + 1 + u64::from(is_batch));
            wire
        });
        let (_, body) = wire.receive().unwrap();
        assert_eq!(answers(&body)[0].code, 0, "{is_batch}");
        assert!(set.get(1).unwrap().is_none());
        assert!(follows.sources(301).page(0, 1).unwrap().is_empty());
    }
}

#[test]
fn a_batch_whose_rows_all_wait_is_answered_when_the_server_stops() {
    let Running { store, handle } = serve();
    let rows = [1, 2, 3].map(|key| (digest(key), row(0, WRITE).op(2, 1, "i", &[7; 8])));
    let mut batch = batch(0x04, &rows);
    batch.timeout_ms = 3_600_000;
    let mut wire = Wire::to(handle.addr());
    let stopped = || {
        wire.send(&batch.frame());
        until(|| store.namespace("test").unwrap().stats().waits == 1);
        handle.stop();
        wire.receive_many()
    };
    let second = || with_locked(&store, 3, stopped);
    let (rows, code) = with_record_locked(&store, || with_locked(&store, 2, second));
    assert_eq!(code, 0);
    let codes: Vec<u8> = rows.iter().map(|row| row.code).collect();
    assert_eq!(codes, [9; 3]);
}

#[test]
fn a_writer_whose_time_is_over_is_told_so_and_leaves_the_queue() {
    let running = serve();
    let namespace = running.store.namespace("test").unwrap();
    with_record_locked(&running.store, || {
        let impatient = Message {
            timeout_ms: 20,
            ..put(1)
        };
        assert_eq!(Wire::to(running.handle.addr()).ask(&impatient).code, 9);
        let stats = namespace.stats();
        assert_eq!((stats.waits, stats.timeouts), (1, 1));
        assert_eq!(stats.errors, [(9, 1)]);
    });
    assert_eq!(
        Wire::to(running.handle.addr()).ask(&Message::get(1)).code,
        2
    );
}

/// Sends this from more clients than the server has threads, and reads a record meanwhile: before
/// any of them has its answer.
fn reads_are_answered_beside(running: &Running, message: &Message) {
    let threads = std::thread::available_parallelism().unwrap().get();
    let mut long: Vec<_> = (0..threads + 2).map(|_| begin(running, message)).collect();
    let ended = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for wire in &mut long {
            scope.spawn(|| {
                assert_eq!(wire.receive_many().1, 0);
                ended.fetch_add(1, Ordering::SeqCst);
            });
        }
        let mut other = Wire::to(running.handle.addr());
        for _ in 0..3 {
            assert_eq!(other.ask(&Message::get(0)).code, 0);
            assert_eq!(ended.load(Ordering::SeqCst), 0);
        }
    });
}

#[test]
fn a_long_batch_or_query_holds_up_no_other_client() {
    let running = serve();
    let set = running.store.set("demo").unwrap();
    let numbers = |from: i64| {
        Value::from(
            (0..20_000)
                .map(|n| Value::from(from ^ n))
                .collect::<Vec<_>>(),
        )
    };
    for key in 1..=400 {
        set.put(key, [("l", numbers(key))]).unwrap();
    }
    set.put(0, [("i", 1)]).unwrap();
    // The element of rank 5: all of them are compared.
    let by_rank = [0x93, 21, 7, 5];
    let read = row(READ, 0).op(3, 4, "l", &by_rank);
    let rows: Vec<_> = (1..=400).map(|key| (digest(key), read.clone())).collect();
    let batch = Message {
        timeout_ms: 3_600_000,
        ..batch(0x04, &rows)
    };
    reads_are_answered_beside(&running, &batch);
    reads_are_answered_beside(&running, &query().op(3, 4, "l", &by_rank));
}

#[test]
fn writers_that_wait_for_space_hold_up_no_reader() {
    let mut config = NamespaceConfig::new("test").max_space_wait(Duration::from_secs(3_600));
    config.key_hash = KeyHash::Ripemd160;
    config.max_device_bytes = 64 << 20;
    let store = Store::builder().namespace(config).open().unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let running = Running { store, handle };
    let set = running.store.set("demo").unwrap();
    let payload = vec![7_u8; 100 << 10];
    let count = (100_i64..)
        .find(|key| set.put(*key, [("b", payload.as_slice())]).is_err())
        .unwrap();
    let namespace = running.store.namespace("test").unwrap();
    // Deleted records give their space back when no reader can see them any more, and this one can.
    let mut waiting = set
        .read(100, |_| {
            for key in 101..count / 2 {
                set.delete(key).unwrap();
            }
            let write = |key| {
                let write = Message::about(0, WRITE, 0, key).op(2, 4, "b", &payload);
                Message {
                    timeout_ms: 3_600_000,
                    ..write
                }
            };
            let waiting: Vec<_> = (0..WRITERS as i64)
                .map(|key| begin(&running, &write(key)))
                .collect();
            // Some fit into blocks that are open.
            until(|| namespace.stats().space_waits >= WRITERS as u64 / 2);
            let mut other = Wire::to(running.handle.addr());
            for key in count - 20..count {
                assert_eq!(other.ask(&Message::get(key)).code, 0);
            }
            waiting
        })
        .unwrap()
        .unwrap();
    assert_eq!(codes(&mut waiting), [0; WRITERS]);
}

#[test]
fn committed_writes_are_answered_once_they_are_durable() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = NamespaceConfig::new("test");
    config.key_hash = KeyHash::Ripemd160;
    config.durability = Durability::Commit;
    let store = Store::builder()
        .path(directory.path())
        .namespace(config)
        .open()
        .unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let running = Running { store, handle };
    let namespace = running.store.namespace("test").unwrap();
    let mut waiting: Vec<_> = (0..WRITERS as i64)
        .map(|key| begin(&running, &put(key)))
        .collect();
    assert_eq!(codes(&mut waiting), [0; WRITERS]);
    assert!(namespace.durable_lsn() >= namespace.last_lsn());
    let rows: Vec<_> = (0..100)
        .map(|key| {
            (
                digest(key),
                row(0, WRITE).op(5, 1, "n", &1_i64.to_be_bytes()),
            )
        })
        .collect();
    let syncs = namespace.stats().storage.syncs;
    let (told, code) = Wire::to(running.handle.addr()).ask_many(&batch(0x04, &rows));
    assert_eq!((told.len(), code), (100, 0));
    assert!(namespace.durable_lsn() >= namespace.last_lsn());
    // The rows share theirs.
    assert!(namespace.stats().storage.syncs - syncs < 10);
}

/// Times a request, prints how long it took, and returns the 99th percentile in microseconds.
fn p99_us(what: &str, mut request: impl FnMut()) -> u128 {
    let mut micros: Vec<u128> = (0..2_000)
        .map(|_| {
            let began = Instant::now();
            request();
            began.elapsed().as_micros()
        })
        .collect();
    micros.sort_unstable();
    println!("{what}: p50 {} us, p99 {} us", micros[1_000], micros[1_980]);
    micros[1_980]
}

#[test]
#[ignore = "measures: docs/benchmarks.md"]
fn requests_beside_64_waiting_writers_take_less_than_5_ms() {
    let running = serve();
    let addr = running.handle.addr();
    let namespace = running.store.namespace("test").unwrap();
    let mut waiting = with_record_locked(&running.store, || {
        let waiting: Vec<_> = (0..WRITERS).map(|_| begin(&running, &put(1))).collect();
        until(|| namespace.stats().waits == WRITERS as u64);
        let mut other = Wire::to(addr);
        other.ask(&put(2));
        let read = p99_us("reads", || assert_eq!(other.ask(&Message::get(2)).code, 0));
        let write = p99_us("writes", || assert_eq!(other.ask(&put(3)).code, 0));
        let info = p99_us("info", || assert_eq!(other.info("node\n").len(), 1));
        let connect = p99_us("new connections", || {
            assert_eq!(Wire::to(addr).ask(&Message::get(2)).code, 0);
        });
        let slowest = [read, write, info, connect].into_iter().max();
        assert!(slowest < Some(5_000), "{slowest:?} us");
        waiting
    });
    assert_eq!(codes(&mut waiting), [0; WRITERS]);
}

#[test]
#[ignore = "measures: docs/benchmarks.md"]
fn a_full_namespace_refuses_within_10_ms() {
    let mut config = NamespaceConfig::new("test");
    config.key_hash = KeyHash::Ripemd160;
    config.max_device_bytes = 64 << 20;
    let store = Store::builder().namespace(config).open().unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let payload = vec![7_u8; 100 << 10];
    let mut wire = Wire::to(handle.addr());
    let mut write = |key| {
        let write = Message::about(0, WRITE, 0, key).op(2, 4, "b", &payload);
        wire.ask(&Message {
            timeout_ms: 60_000,
            ..write
        })
        .code
    };
    // Nothing can be cleaned: all records are live.
    let full = (0..).find(|key| write(*key) != 0).unwrap();
    let refusal = p99_us("refusals", || assert_eq!(write(full), 8));
    assert!(refusal < 10_000, "{refusal} us");
}
