//! Transactions that end: by their time, by the server's end, and what each state of one answers.

use std::sync::Arc;

use crate::server_client::transaction::*;
use crate::server_client::*;
use crate::transactions::seen;
#[cfg(feature = "monitor")]
use spikelet::monitor::Monitor;
use spikelet::relation::{Layout, ManyToMany, OnDelete, OneToMany};
use spikelet::server::Server;
use spikelet::storage::ManualClock;
use spikelet::{ShardedMap, Store};

/// A server with a clock that only the test moves, and a transaction in each state: 1 has never
/// begun, 2 is open, 3 is committed, 4 was rolled back at its deadline, 5 is closed.
fn in_each_state() -> (spikelet::server::ServerHandle, Wire, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    let store = namespaces().clock(Arc::clone(&clock) as _).open().unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    let mut late = Txn::new(4);
    late.timeout = 1;
    assert_eq!(late.put(&mut wire, 4, 4).code, 0);
    clock.advance_ms(1_001);
    assert_eq!(Txn::new(2).put(&mut wire, 2, 2).code, 0);
    assert_eq!(Txn::new(3).put(&mut wire, 3, 3).code, 0);
    assert_eq!(wire.ask(&mark(3)).code, 0);
    let mut closed = Txn::new(5);
    closed.put(&mut wire, 5, 5);
    assert_eq!(closed.commit(&mut wire), 0);
    (handle, wire, clock)
}

#[test]
fn each_state_of_a_transaction_answers_each_command() {
    type Command = (&'static str, fn(i64) -> Message, [u8; 5]);
    let table: [Command; 4] = [
        (
            "the begin",
            |number| operate(number, true, &[8]),
            [0, MONITOR_EXISTS, COMMITTED, EXPIRED, EXPIRED],
        ),
        (
            "more records",
            |number| operate(number, false, &[8]),
            [EXPIRED, 0, COMMITTED, EXPIRED, EXPIRED],
        ),
        ("the mark", mark, [EXPIRED, 0, COMMITTED, ABORTED, EXPIRED]),
        ("the end", close, [2, 0, 0, 0, 2]),
    ];
    for (what, command, codes) in table {
        let (_handle, mut wire, _) = in_each_state();
        for (number, code) in (1..).zip(codes) {
            assert_eq!(wire.ask(&command(number)).code, code, "{what} of {number}");
        }
    }
}

#[test]
fn a_transaction_deletes_its_own_record_beyond_its_time_to_live() {
    let clock = Arc::new(ManualClock::at(1_000_000_000));
    let store = namespaces().clock(Arc::clone(&clock) as _).open().unwrap();
    let handle = Server::builder(&store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    let mut txn = Txn::new(7);
    let put = Message::put(1, "i", 1).ttl(1);
    assert_eq!(txn.write(&mut wire, 1, put).code, 0);
    clock.advance_ms(3_000);
    assert_eq!(txn.get(&mut wire, 1).code, 0);
    assert_eq!(txn.delete(&mut wire, 1).code, 0);
    assert_eq!(txn.get(&mut wire, 1).code, 2);
    assert_eq!(txn.commit(&mut wire), 0);
    assert_eq!(wire.ask(&Message::get(1)).code, 2);
}

#[test]
fn a_transaction_whose_time_is_over_holds_nobody_up() {
    let (_handle, mut wire, clock) = in_each_state();
    let told = wire.info("namespace/test\n").remove(0);
    assert!(
        told.contains("mrt_provisionals=1;mrt_monitors=1;"),
        "{told}"
    );
    let late = Txn {
        deadline: vec![1; 4],
        ..Txn::new(2)
    };
    assert_eq!(wire.ask(&late.inside(Message::get(2))).int("i"), 2);
    assert_eq!(wire.ask(&Message::put(2, "i", 9)).code, BLOCKED);
    clock.advance_ms(10_001);
    // The first request about one of its records ends it: a writer here, which finds the record as
    // it was.
    let add = Message::about(0, WRITE, 0, 2).op(5, 1, "i", &5_i64.to_be_bytes());
    assert_eq!(wire.ask(&add).code, 0);
    assert_eq!(seen(&mut wire, 2), Some((5, 1)));
    assert_eq!(
        wire.ask(&late.inside(Message::put(2, "i", 9))).code,
        EXPIRED
    );
    assert_eq!(wire.ask(&mark(2)).code, ABORTED);
    let told = wire.info("namespace/test\n").remove(0);
    assert!(told.contains("mrt_monitor_roll_back_success=2;"), "{told}");
    // A client takes a while to say that it has given up.
    late.abort(&mut wire);
    assert_eq!(wire.ask(&operate(6, true, &[1]).ttl(121)).code, 4);
}

#[test]
fn a_transaction_writes_4096_records_and_not_one_more() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let mut txn = Txn::new(7);
    let keys: Vec<i64> = (0..4096).collect();
    assert_eq!(txn.announce(&mut wire, &keys), 0);
    assert_eq!(txn.announce(&mut wire, &[0, 5]), 0);
    assert_eq!(txn.announce(&mut wire, &[5000]), TOO_MANY);
    let rows: Vec<_> = keys
        .iter()
        .map(|key| {
            (
                digest(*key),
                txn.inside(row(0, WRITE)).op(2, 1, "i", &[0; 8]),
            )
        })
        .collect();
    let (answers, _) = wire.ask_many(&batch(0x0d, &rows));
    assert!(answers.iter().all(|answer| answer.code == 0));
    txn.writes.extend(&keys);
    let one_more = txn.inside(Message::put(5000, "i", 1));
    assert_eq!(wire.ask(&one_more).code, TOO_MANY);
    // It has not remained locked.
    assert_eq!(wire.ask(&Message::put(5000, "i", 1)).code, 0);
    assert_eq!(txn.commit(&mut wire), 0);
    let namespace = running.store.namespace("test").unwrap();
    // With its monitor gone, which was a record until then.
    assert_eq!(namespace.stats().records, 4097);
}

#[test]
fn a_server_that_stops_rolls_back_and_one_that_starts_knows_what_was_committed() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    wire.ask(&Message::put(1, "i", 1));
    let (mut open, mut done) = (Txn::new(7), Txn::new(8));
    open.put(&mut wire, 1, 10);
    done.put(&mut wire, 2, 20);
    assert_eq!(wire.ask(&mark(8)).code, 0);
    // The monitor of a committed transaction is a record, which only a scan of its set returns.
    let partitions: Vec<u8> = (0..4096_u16).flat_map(u16::to_le_bytes).collect();
    let all = Message::new(READ, 0, PARTITIONS)
        .field(0, b"test")
        .field(11, &partitions);
    assert_eq!(wire.ask_many(&all).0.len(), 2);
    let monitors = all.field(1, MONITORS.as_bytes());
    assert_eq!(wire.ask_many(&monitors).0.len(), 1);
    drop(wire);
    running.handle.stop();
    let handle = Server::builder(&running.store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    assert_eq!(seen(&mut wire, 1), Some((1, 1)));
    assert_eq!(seen(&mut wire, 2), Some((20, 2)));
    assert_eq!(wire.ask(&Message::put(1, "i", 2)).code, 0);
    assert_eq!(open.put(&mut wire, 3, 3).code, EXPIRED);
    assert_eq!(open.commit(&mut wire), EXPIRED);
    // A client that has missed the answer to its commit gets it again.
    assert_eq!(done.commit(&mut wire), 0);
    assert_eq!(wire.ask(&mark(8)).code, EXPIRED);
}

#[cfg(feature = "monitor")]
#[test]
fn a_server_that_stops_rolls_back_under_a_monitor_that_goes_on() {
    let running = serve();
    let monitor = Monitor::builder(&running.store).listen("127.0.0.1:0");
    let counts = running.handle.connection_count();
    let monitor = monitor.unwrap().connections(counts).start().unwrap();
    let mut wire = Wire::to(running.handle.addr());
    assert_eq!(Txn::new(7).put(&mut wire, 1, 10).code, 0);
    drop(wire);
    running.handle.stop();
    let handle = Server::builder(&running.store).start().unwrap();
    let mut wire = Wire::to(handle.addr());
    assert_eq!(wire.ask(&Message::put(1, "i", 2)).code, 0);
    drop(monitor);
}

fn follows(running: &Running) -> ManyToMany<&Store> {
    let side = |bin| ("demo", bin);
    let (from, to) = (side("following"), side("followers"));
    ManyToMany::new(&running.store, "follows", from, to).on_delete(OnDelete::Detach)
}

#[test]
fn a_delete_with_edges_to_a_record_of_a_transaction_is_blocked() {
    let running = serve();
    follows(&running).link(1, 2).unwrap();
    let mut wire = Wire::to(running.handle.addr());
    let mut txn = Txn::new(7);
    assert_eq!(txn.put(&mut wire, 2, 20).code, 0);
    let delete = Message::about(0, WRITE | DELETE, 0, 1);
    assert_eq!(wire.ask(&delete).code, BLOCKED);
    assert!(follows(&running).contains(1, 2).unwrap());
    assert_eq!(txn.commit(&mut wire), 0);
    assert_eq!(wire.ask(&delete).code, 0);
    assert!(!follows(&running).contains(1, 2).unwrap());
}

#[test]
fn a_delete_is_judged_by_relations_that_were_declared_before_its_commit() {
    let running = serve();
    let set = running.store.set("demo").unwrap();
    set.put(1, [("following", vec![2])]).unwrap();
    let mut wire = Wire::to(running.handle.addr());
    let mut txn = Txn::new(7);
    assert_eq!(txn.delete(&mut wire, 1).code, 0);
    follows(&running).declare().unwrap();
    assert_eq!(txn.commit(&mut wire), ABORTED);
    assert!(set.exists(1).unwrap());
    // One that is judged by them, and leaves no edges.
    let mut txn = Txn::new(8);
    let clear = Message::about(0, WRITE, 0, 1).op(4, 4, "following", &[0x91, 11]);
    assert_eq!(txn.write(&mut wire, 1, clear).code, 0);
    assert_eq!(txn.delete(&mut wire, 1).code, 0);
    assert_eq!(txn.commit(&mut wire), 0);
    assert!(!set.exists(1).unwrap());
}

#[test]
fn a_delete_of_many_shards_beside_a_record_of_a_transaction_is_blocked() {
    let running = serve();
    let (store, set) = (&running.store, running.store.set("demo").unwrap());
    let children = Layout::reference("parent", "by_parent");
    let tree = OneToMany::new(store, "tree", ("demo", "demo"), children).unwrap();
    let tree = tree.on_delete(OnDelete::Cascade);
    let notes = OneToMany::new(store, "notes", ("demo", "notes"), Layout::consolidated("n"));
    let notes = notes.unwrap().on_delete(OnDelete::Cascade);
    set.put(1, [("i", 1)]).unwrap();
    tree.put(1, 2, &serde_json::json!({ "i": 2 })).unwrap();
    notes.put(2, 1, &serde_json::json!({ "i": 3 })).unwrap();
    // More shards than one transaction deletes.
    let map = ShardedMap::new(store, "demo", 2, "n").unwrap();
    map.shards().activate(4_096).unwrap();
    let mut wire = Wire::to(running.handle.addr());
    let mut txn = Txn::new(7);
    assert_eq!(txn.put(&mut wire, 2, 20).code, 0);
    let delete = Message::about(0, WRITE | DELETE, 0, 1);
    assert_eq!(wire.ask(&delete).code, BLOCKED);
    assert_eq!((notes.len(2).unwrap(), txn.commit(&mut wire)), (1, 0));
    assert_eq!(wire.ask(&delete).code, 0);
    assert!(set.with_companions().is_empty());
}
