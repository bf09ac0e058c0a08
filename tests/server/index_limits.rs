//! Indexes that cannot be asked yet, and those beyond the limit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use spikelet::Error;
use spikelet::query::IndexDefinition;
use spikelet::server::Server;
use spikelet::storage::{Clock, SystemClock};

use crate::server_client::*;

/// The system's clock. A thread that builds an index waits when it asks for the time, until the
/// gate is opened.
#[derive(Debug, Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
    is_reached: AtomicBool,
}

impl Clock for Gate {
    fn now_ms(&self) -> u64 {
        if std::thread::current().name() == Some("spikelet-index") {
            self.is_reached.store(true, Ordering::Relaxed);
            let is_open = self.is_open.lock().unwrap();
            drop(
                self.opened
                    .wait_while(is_open, |is_open| !*is_open)
                    .unwrap(),
            );
        }
        SystemClock.now_ms()
    }
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

/// Integers of bin `n` from 0 to 9.
fn asked() -> Message {
    let mut range = vec![1, 1, b'n', 1];
    for bound in [0_i64, 9] {
        range.extend(8_u32.to_be_bytes());
        range.extend(bound.to_be_bytes());
    }
    query().field(22, &range)
}

/// A server that has its builds of indexes wait at the gate.
fn serve_with_gate() -> (Arc<Gate>, Running) {
    let gate = Arc::new(Gate::default());
    let store = namespaces().clock(Arc::clone(&gate) as Arc<dyn Clock>);
    let store = store.open().unwrap();
    let handle = Server::builder(&store).start().unwrap();
    (gate, Running { store, handle })
}

const CREATE: &str = "sindex-create:namespace=test;set=demo;indexname=by_n;bin=n;type=numeric\n";
const DELETE: &str = "sindex-delete:namespace=test;indexname=by_n\n";

/// A server with a build of an index that waits at the gate.
fn building() -> (Arc<Gate>, Running, Wire) {
    let (gate, running) = serve_with_gate();
    let set = running.store.set("demo").unwrap();
    set.put(1, [("n", 1)]).unwrap();
    let mut wire = Wire::to(running.handle.addr());
    assert_eq!(wire.info(CREATE), ["ok"]);
    until(|| gate.is_reached.load(Ordering::Relaxed));
    (gate, running, wire)
}

#[test]
fn the_cause_of_a_build_that_ended_early_is_reported_with_the_name() {
    let (gate, _running, mut wire) = building();
    assert_eq!(wire.info(DELETE), ["ok"]);
    gate.open();
    until(|| wire.info("sindex/test/by_n\n")[0].ends_with("the build of the index was cancelled"));
}

#[test]
fn an_earlier_build_of_a_name_does_not_count_once_the_name_is_declared_anew() {
    let (gate, _running, mut wire) = building();
    // Both builds wait; the first is cancelled.
    assert_eq!(wire.info(&format!("{DELETE}{CREATE}")), ["ok"; 2]);
    gate.open();
    until(|| wire.info("sindex-list\n")[0].ends_with("state=RW"));
    let told = wire.info(&format!("{DELETE}sindex/test/by_n\n"));
    assert_eq!(told, ["ok", "ERROR:201:no index"]);
}

#[test]
fn a_query_by_an_index_that_is_being_built_is_answered_203() {
    let (gate, running) = serve_with_gate();
    let set = running.store.set("demo").unwrap();
    // The partition of the first record is built, then the gate is reached.
    set.put(1, [("n", 1)]).unwrap();
    let mut wire = Wire::to(running.handle.addr());
    assert_eq!(wire.ask(&asked()).code, 201);
    assert_eq!(wire.info(CREATE), ["ok"]);
    until(|| gate.is_reached.load(Ordering::Relaxed));
    assert_eq!(wire.ask(&asked()).code, 203);
    // Once more is no error, and begins nothing.
    assert_eq!(wire.info(CREATE), ["ok"]);
    assert!(wire.info("sindex-list\n")[0].ends_with("state=WO"));
    let told = wire.info("sindex/test/by_n\n").remove(0);
    let load = told.split_once("load_pct=").unwrap().1;
    assert!(
        load.split(';').next().unwrap().parse::<u8>().unwrap() < 100,
        "{told}"
    );
    // Background queries are refused, too, and so are queries of the application.
    let mut background = Message::new(0, WRITE, 0).op(2, 1, "m", &1_i64.to_be_bytes());
    let fields = asked().fields.into_iter().filter(|(kind, _)| *kind != 11);
    background.fields = fields.collect();
    assert_eq!(wire.ask(&background).code, 203);
    assert!(matches!(
        set.query("by_n").unwrap_err(),
        Error::IndexBuilding { done, total: 4096, .. } if done < 4096
    ));
    // Writers go on, and their records are found.
    set.put(2, [("n", 2)]).unwrap();
    gate.open();
    until(|| wire.info("sindex-list\n")[0].ends_with("state=RW"));
    assert_eq!(wire.ask_many(&asked()).0.len(), 2);
}

#[test]
fn a_namespace_has_256_indexes_and_no_more() {
    let running = serve();
    let mut wire = Wire::to(running.handle.addr());
    let create = |at: usize| {
        format!("sindex-create:namespace=test;set=demo;indexname=i{at};bin=n{at};type=numeric\n")
    };
    let all: String = (0..256).map(create).collect();
    assert!(wire.info(&all).iter().all(|answer| answer == "ok"));
    let refused = wire.info(&create(256)).remove(0);
    assert!(refused.starts_with("ERROR:206:"), "{refused}");
    let set = running.store.set("demo").unwrap();
    let error = set
        .create_index(IndexDefinition::new("more", ["n"]))
        .unwrap_err();
    assert!(matches!(error, Error::TooManyIndexes { limit: 256 }));
    // An existing index may be declared again, another namespace has a limit of its own, and a
    // deleted index makes room.
    let told = wire.info(&format!(
        "{}{}sindex-delete:namespace=test;indexname=i7\n{}",
        create(3),
        create(256).replace("=test;", "=bar;"),
        create(256),
    ));
    assert_eq!(told, ["ok"; 4]);
    let namespace = running.store.namespace("test").unwrap();
    assert_eq!(namespace.indexes().len(), 256);
}
