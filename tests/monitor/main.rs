//! The monitor of an embedded program, asked over HTTP and shown in a browser.
//!
//! The tests of `page` need a Chromium: without one they skip and say so, unless
//! `SPIKELET_BROWSER=required`.
#![cfg(feature = "monitor")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

#[path = "../browser/mod.rs"]
mod browser_support;
mod endpoint;
mod hostile;
mod page;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use spikelet::monitor::{Monitor, StoreSnapshot};
use spikelet::operations::lists;
use spikelet::{ListPolicy, ListReturnType, Namespace, NamespaceConfig, Set, Store};

/// A key that every form has to escape.
const HOT: &str = "al\"ice\\\n<b>";

fn store() -> Store {
    let mut config = NamespaceConfig::new("test");
    config.max_waiters = 1;
    Store::builder().namespace(config).open().unwrap()
}

fn monitor(store: &Store) -> Monitor {
    let builder = Monitor::builder(store).listen("127.0.0.1:0").unwrap();
    builder.start().unwrap()
}

/// Has writers fight over a record of the set `feed` until one has waited and one was refused.
fn fight(store: &Store, key: &str) {
    let namespace = store.namespace("test").unwrap();
    fight_in(&store.set("feed").unwrap(), &namespace, key);
}

fn fight_in(feed: &Set, namespace: &Namespace, key: &str) {
    let long: Vec<i64> = (0..20_000).collect();
    feed.put(key, [("by", long)]).unwrap();
    let before = namespace.stats();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let append = lists::append(&ListPolicy::default(), "by", 1);
                    // Refusals are wanted here.
                    let _ = feed.operate(
                        key,
                        &[
                            append,
                            lists::remove_by_index("by", -1, ListReturnType::None),
                        ],
                    );
                    let stats = namespace.stats();
                    let is_met = stats.waits > before.waits && stats.key_busy > before.key_busy;
                    done.fetch_or(is_met, Ordering::Relaxed);
                }
            });
        }
    });
}

/// Sends bytes and returns all that comes back.
fn send(addr: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

/// Asks for a path; head and body.
fn get(addr: SocketAddr, path: &str) -> (String, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {addr}\r\n\r\n");
    let answer = send(addr, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn look(addr: SocketAddr) -> StoreSnapshot {
    serde_json::from_str(&get(addr, "/hot.json").1).unwrap()
}

/// Looks until a snapshot is as wanted.
fn look_until(addr: SocketAddr, is_wanted: impl Fn(&StoreSnapshot) -> bool) -> StoreSnapshot {
    loop {
        let snapshot = look(addr);
        if is_wanted(&snapshot) {
            return snapshot;
        }
        std::thread::yield_now();
    }
}
