//! Two processes that write to the same collections, while the server dies and comes back: every
//! acknowledged element is there, once.
//!
//! The children are this test binary, started again with [`CHILD_ADDR`] set. They print
//! acknowledged elements.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use spikelet::cluster::Cluster;
use spikelet::relation::{ManyToMany, Repair};
use spikelet::shard::ShardPolicy;
use spikelet::{Error, RecordStore, Result, ShardedList, ShardedMap, Value};

use crate::common::Served;

const CHILD_ADDR: &str = "SPIKELET_CLUSTER_AWAY_ADDR";
const CHILD_NUMBER: &str = "SPIKELET_CLUSTER_AWAY_NUMBER";
/// How often the server dies: `SPIKELET_RESTARTS`, or as often.
const RESTARTS: usize = 4;
/// How many acknowledged writes go before each death.
const WRITES: usize = 150;

fn policy() -> ShardPolicy {
    ShardPolicy::manual().record_bytes_max(1_500)
}

fn list<S: RecordStore>(store: &S) -> ShardedList<S::Records> {
    ShardedList::new(store, "away", "list", "of")
        .unwrap()
        .policy(policy())
}

fn map<S: RecordStore>(store: &S) -> ShardedMap<S::Records> {
    ShardedMap::new(store, "away", "map", "of")
        .unwrap()
        .policy(policy())
}

fn follows<S: RecordStore>(store: &S) -> ManyToMany<&S> {
    let sides = (("away-from", "to"), ("away-to", "from"));
    ManyToMany::new(store, "away", sides.0, sides.1).shard_policy(policy())
}

/// Repeats a call that may be repeated until the server has answered it.
fn answered<T>(call: impl Fn() -> Result<T>) -> T {
    loop {
        match call() {
            Ok(answer) => return answer,
            // A transition that the other process carries on, or a server that is away.
            Err(error) if error.is_retryable() || error.in_doubt() => {}
            Err(Error::Relation { source, .. }) if source.is_retryable() || source.in_doubt() => {}
            Err(error) => panic!("{error} ({error:?})"),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
#[ignore = "the child of the other test"]
fn child() {
    let Ok(addr) = std::env::var(CHILD_ADDR) else {
        return;
    };
    let first: i64 = std::env::var(CHILD_NUMBER).unwrap().parse().unwrap();
    // The server may be away already.
    let cluster = answered(|| Cluster::builder(&addr).error_rate_max(0).connect());
    let (list, map, follows) = (list(&cluster), map(&cluster), follows(&cluster));
    for number in (first..).step_by(2) {
        // Each is there once however often it is repeated.
        answered(|| list.add(number));
        answered(|| map.put(number, number * 2));
        answered(|| follows.link(number % 7, number));
        let mut gone = -1;
        if number % 5 == 0 {
            gone = number;
            answered(|| list.remove(&number.into()));
        }
        if number % 64 < 2 {
            // The other process meets the transition in the middle.
            answered(|| list.shards().deactivate().map(drop));
            answered(|| {
                map.shards().merge().map(drop).or_else(|error| match error {
                    Error::OpNotApplicable { .. } => Ok(()),
                    error => Err(error),
                })
            });
        }
        println!("ack {number} {gone}");
        std::io::stdout().flush().unwrap();
    }
}

struct Writer(Child);

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn writer(addr: &str, number: usize) -> (Writer, Receiver<(i64, i64)>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["away::child", "--exact", "--ignored", "--nocapture"])
        .env(CHILD_ADDR, addr)
        .env(CHILD_NUMBER, number.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap()).lines();
    let (sender, acknowledged) = channel();
    std::thread::spawn(move || {
        for line in output.map_while(std::result::Result::ok) {
            let mut words = line.split(' ').skip_while(|word| !word.ends_with("ack"));
            if words.next().is_some() {
                let mut number = || words.next().unwrap().parse().unwrap();
                let _ = sender.send((number(), number()));
            }
        }
    });
    (Writer(child), acknowledged)
}

#[test]
fn two_processes_lose_and_double_nothing_while_the_server_dies_and_comes_back() {
    let restarts = std::env::var("SPIKELET_RESTARTS").map_or(RESTARTS, |it| it.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap().to_owned();
    let mut served = Served::with(&["--dir", &path, "--like-ce"]);
    let addr = served.addr.clone();
    let mut writers = [writer(&addr, 0), writer(&addr, 1)];
    let mut acknowledged = BTreeMap::new();
    for restart in 0..=restarts {
        for turn in 0..WRITES {
            let (_, acknowledgements) = &writers[turn % 2];
            let wait = Duration::from_secs(60);
            let (number, gone) = acknowledgements
                .recv_timeout(wait)
                .expect("a writer has stopped");
            acknowledged.insert(number, gone);
        }
        // One of the writers dies with it, and another one takes its place behind all that it may
        // have begun.
        let dies = restart % 2;
        drop(std::mem::replace(
            &mut writers[dies],
            writer(&addr, dies + 1_000_000 * (restart + 1)),
        ));
        drop(served);
        served = Served::at(&addr, &["--dir", &path, "--like-ce"]);
    }
    drop(writers);
    let cluster = served.cluster();
    let (list, map, follows) = (list(&cluster), map(&cluster), follows(&cluster));
    let elements: Vec<Value> = list.iter().collect::<Result<_>>().unwrap();
    assert!(
        elements.is_sorted_by(|one, other| one.as_i64() < other.as_i64()),
        "one is there twice"
    );
    let entries: Vec<(Value, Value)> = map.iter().collect::<Result<_>>().unwrap();
    assert!(entries.is_sorted_by(|(one, _), (other, _)| one.as_i64() < other.as_i64()));
    let audit = follows
        .verify(Repair::Yes, |_| std::ops::ControlFlow::Continue(()))
        .unwrap();
    // Two writers died, each with one link at most.
    assert!(audit.faults.len() <= restarts + 1, "{:?}", audit.faults);
    for (number, gone) in &acknowledged {
        let is_there = elements.contains(&Value::Int(*number));
        assert_eq!(is_there, *gone < 0, "{number} of the list");
        assert!(
            entries.contains(&(Value::Int(*number), Value::Int(number * 2))),
            "{number}"
        );
        assert!(
            follows.targets(number % 7).contains(*number).unwrap(),
            "{number} is linked"
        );
    }
    assert!(acknowledged.len() >= WRITES * (restarts + 1));
}
