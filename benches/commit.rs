//! Durable puts under `Durability::Commit`: 200 tasks on 2 workers of a runtime against 200
//! threads.
//!
//! `cargo bench --bench commit [-- DIRECTORY]`; the stores live in the directory while they run
//! (default: that for temporary files). Required: tasks that await take at most 2 times as long as
//! threads. Tasks that block their workers instead are measured beside them.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use spikelet::policy::Acknowledge;
use spikelet::{Durability, Namespace, NamespaceConfig, Set, Store, WritePolicy};
use tokio::runtime::{Builder, Runtime};

/// Tasks, and threads.
const WRITERS: u64 = 200;
const WORKERS: usize = 2;
/// Puts of each writer in a round, each durable before the next begins.
const PUTS: u64 = 5;
/// An odd number: the median is one of them.
const ROUNDS: usize = 9;
const VALUE: [u8; 100] = [7; 100];

fn key(writer: u64, put: u64) -> i64 {
    (writer * PUTS + put) as i64
}

/// Each writer a thread, which the put blocks.
fn by_threads(_: &Runtime, _: &Namespace, set: &Set) {
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            scope.spawn(move || {
                for put in 0..PUTS {
                    set.put(key(writer, put), [("v", &VALUE[..])]).unwrap();
                }
            });
        }
    });
}

/// Each writer a task, which awaits durability.
fn by_tasks(runtime: &Runtime, namespace: &Namespace, set: &Set) {
    let policy = WritePolicy::default().acknowledge(Acknowledge::Applied);
    run(runtime, |writer| {
        let (namespace, set, policy) = (namespace.clone(), set.clone(), policy.clone());
        async move {
            for put in 0..PUTS {
                let value = [("v", &VALUE[..])];
                let lsn = set.put_with(&policy, key(writer, put), value).unwrap();
                namespace.durable(lsn).await.unwrap();
            }
        }
    });
}

/// Runs each writer as a task that blocks its worker thread in the put.
fn by_blocking_tasks(runtime: &Runtime, _: &Namespace, set: &Set) {
    run(runtime, |writer| {
        let set = set.clone();
        async move {
            for put in 0..PUTS {
                set.put(key(writer, put), [("v", &VALUE[..])]).unwrap();
                tokio::task::yield_now().await;
            }
        }
    });
}

fn run<F: Future<Output = ()> + Send + 'static>(runtime: &Runtime, writer: impl Fn(u64) -> F) {
    runtime.block_on(async {
        let tasks: Vec<_> = (0..WRITERS).map(|one| tokio::spawn(writer(one))).collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
}

type Way = (&'static str, fn(&Runtime, &Namespace, &Set));

const WAYS: [Way; 3] = [
    ("200 threads, blocked", by_threads),
    ("200 tasks on 2 workers, awaiting", by_tasks),
    ("200 tasks on 2 workers, blocking", by_blocking_tasks),
];

fn open(dir: &Path) -> Store {
    let mut config = NamespaceConfig::new("test");
    config.durability = Durability::Commit;
    Store::builder().path(dir).namespace(config).open().unwrap()
}

fn main() {
    let directory = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with("--"));
    let directory = directory.map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(directory).unwrap();
    let store = open(dir.path());
    let (namespace, set) = (
        store.namespace("test").unwrap(),
        store.set("records").unwrap(),
    );
    let runtime = Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .build()
        .unwrap();
    let mut times: [Vec<Duration>; WAYS.len()] = Default::default();
    let mut syncs = [0; WAYS.len()];
    // In turn, so that the moods of the machine meet all of them.
    for _ in 0..ROUNDS {
        for (at, (_, write)) in WAYS.iter().enumerate() {
            let before = namespace.stats().syncs;
            let began = Instant::now();
            write(&runtime, &namespace, &set);
            times[at].push(began.elapsed());
            syncs[at] += namespace.stats().syncs - before;
        }
    }
    println!(
        "{} durable puts of {} B a round, {ROUNDS} rounds",
        WRITERS * PUTS,
        VALUE.len()
    );
    for (at, (name, _)) in WAYS.iter().enumerate() {
        let times = &mut times[at];
        times.sort_unstable();
        let median = times[ROUNDS / 2];
        println!(
            "{name:34} median {:8.2} ms ({:.2} to {:.2}), {:.1} syncs a round",
            median.as_secs_f64() * 1e3,
            times[0].as_secs_f64() * 1e3,
            times[ROUNDS - 1].as_secs_f64() * 1e3,
            syncs[at] as f64 / ROUNDS as f64
        );
    }
    let ratio = times[1][ROUNDS / 2].as_secs_f64() / times[0][ROUNDS / 2].as_secs_f64();
    println!("tasks that await take {ratio:.2} times as long as threads (at most 2.00)");
    store.close().unwrap();
}
