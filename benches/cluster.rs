//! What a call through `Cluster` costs beside the client alone, against a store that another
//! process serves: rounds of both take turns. In brackets: how many times as long a call through
//! `Cluster` takes.
//!
//! `Cluster` blocks, as its callers do, so the client alone is called with `block_on` from the same
//! thread; the calls of one task, which need no other thread to be woken, stand beside it.
//!
//! Then 32 tasks of one runtime with two threads make calls at once: by the client alone, by `AsyncSet`, and by blocking calls in
//! `Cluster::run_blocking`. Rates are of the median round; in brackets: the share of the client's own rate, and its own p50 as a
//! share of theirs.
//!
//! `cargo bench --bench cluster --features cluster,server,cli`
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

use aerospike::operations::{self as theirs, lists as their_lists};
use aerospike::{Bin, Client, ClientPolicy, Key, Value as TheirValue};
use spikelet::cluster::Cluster;
use spikelet::operations::{self, lists};
use spikelet::{Operation, RecordSet, RecordStore, WritePolicy};
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Runtime;

/// Rounds of each way, and calls a round.
const ROUNDS: usize = 60;
const CALLS: i64 = 300;

struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve() -> (Served, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_spikelet"))
        .args([
            "serve",
            "--memory",
            "--listen",
            "127.0.0.1:0",
            "--namespace",
            "test",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    let addr = line.trim().strip_prefix("ready ").unwrap().to_owned();
    (Served(child), addr)
}

/// Microseconds of each call, of all rounds of one way.
#[derive(Default)]
struct Latencies(Vec<f64>);

impl Latencies {
    fn time<R>(&mut self, call: impl FnOnce() -> R) {
        let started = Instant::now();
        black_box(call());
        self.note(started);
    }

    fn note(&mut self, started: Instant) {
        self.0.push(started.elapsed().as_secs_f64() * 1e6);
    }

    fn percentile(&mut self, of_hundred: usize) -> f64 {
        self.0.sort_by(f64::total_cmp);
        self.0[(self.0.len() * of_hundred / 100).min(self.0.len() - 1)]
    }
}

/// One kind of call, in both forms.
struct Case {
    name: &'static str,
    ours: fn() -> Operation,
    theirs: fn() -> theirs::Operation,
}

const CASES: [Case; 3] = [
    Case {
        name: "read a bin of 100 B",
        ours: || operations::get_bin("v"),
        theirs: || theirs::get_bin("v"),
    },
    Case {
        name: "write a bin of 100 B",
        ours: || operations::put("v", vec![7_u8; 100]),
        theirs: || theirs::put(&Bin::new("v", TheirValue::Blob(vec![7; 100]))),
    },
    Case {
        name: "count a list of 100",
        ours: || lists::size("l"),
        theirs: || their_lists::size("l"),
    },
];

fn main() {
    // `cargo test --benches` asks only whether it runs.
    let rounds = if std::env::args().any(|it| it == "--bench") {
        ROUNDS
    } else {
        1
    };
    let (_served, addr) = serve();
    let cluster = Cluster::connect(&addr).unwrap();
    let records = cluster.records("bench").unwrap();
    let policy = WritePolicy::default();
    for number in 0..CALLS {
        let items = (0..100).map(spikelet::Value::from).collect();
        let fill = [
            operations::put("v", vec![7_u8; 100]),
            lists::append_items(&Default::default(), "l", items),
        ];
        records.operate_on(&policy, &number.into(), &fill).unwrap();
    }
    let runtime = Runtime::new().unwrap();
    let client = runtime
        .block_on(Client::new(&ClientPolicy::default(), &addr))
        .unwrap();
    let client = Arc::new(client);
    println!(
        "{:<22}{:>18}{:>36}{:>36}",
        "us a call, p50 / p99", "Cluster", "client alone, blocking", "client alone, in a task"
    );
    for case in &CASES {
        let [mut through, mut blocking, mut tasks] = [(); 3].map(|()| Latencies::default());
        for _ in 0..rounds {
            for number in 0..CALLS {
                through.time(|| {
                    let call = [(case.ours)()];
                    records.operate_on(&policy, &number.into(), &call).unwrap()
                });
            }
            for number in 0..CALLS {
                blocking.time(|| {
                    let (key, call, policy) = alone(number, case.theirs);
                    let record = runtime.block_on(client.operate(&policy, &key, &call));
                    record.unwrap()
                });
            }
            let (client, theirs) = (Arc::clone(&client), case.theirs);
            let task = runtime.spawn(async move {
                for number in 0..CALLS {
                    let started = Instant::now();
                    let (key, call, policy) = alone(number, theirs);
                    black_box(client.operate(&policy, &key, &call).await.unwrap());
                    tasks.note(started);
                }
                tasks
            });
            tasks = runtime.block_on(task).unwrap();
        }
        let ours = [through.percentile(50), through.percentile(99)];
        let shown = |theirs: &mut Latencies| {
            let [p50, p99] = [theirs.percentile(50), theirs.percentile(99)];
            let ratios = [ours[0] / p50, ours[1] / p99];
            format!(
                "{p50:.1} / {p99:.1} (x{:.2} / x{:.2})",
                ratios[0], ratios[1]
            )
        };
        println!(
            "{:<22}{:>18}{:>36}{:>36}",
            case.name,
            format!("{:.1} / {:.1}", ours[0], ours[1]),
            shown(&mut blocking),
            shown(&mut tasks),
        );
    }
    for case in &CASES {
        many_tasks(case, &cluster, &addr, rounds);
    }
}

/// Tasks that make calls at once, and the calls of each a round.
const TASKS: i64 = 32;
const TASK_CALLS: i64 = 150;

/// The rates and latencies of one kind of call, of rounds in turns.
fn many_tasks(case: &Case, cluster: &Cluster, addr: &str, rounds: usize) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    let client = runtime.block_on(Client::new(&ClientPolicy::default(), &addr.to_owned()));
    let client = Arc::new(client.unwrap());
    let connected = runtime.block_on(Cluster::builder(addr).connect_async());
    let set = connected.unwrap().async_set("bench").unwrap();
    let (ours, theirs) = (case.ours, case.theirs);
    let alone = move |task: i64| {
        let client = Arc::clone(&client);
        async move {
            let mut calls = Latencies::default();
            for at in 0..TASK_CALLS {
                let started = Instant::now();
                let (key, call, policy) = alone((task * TASK_CALLS + at) % CALLS, theirs);
                black_box(client.operate(&policy, &key, &call).await.unwrap());
                calls.note(started);
            }
            calls
        }
    };
    let futures = move |task: i64| {
        let set = set.clone();
        async move {
            let mut calls = Latencies::default();
            for at in 0..TASK_CALLS {
                let started = Instant::now();
                let key = (task * TASK_CALLS + at) % CALLS;
                black_box(set.operate(key, &[ours()]).await.unwrap());
                calls.note(started);
            }
            calls
        }
    };
    let blocking = {
        let cluster = cluster.clone();
        move |task: i64| {
            let cluster = cluster.clone();
            async move {
                let mut calls = Latencies::default();
                for at in 0..TASK_CALLS {
                    let started = Instant::now();
                    let key = (task * TASK_CALLS + at) % CALLS;
                    let call = move |cluster: &Cluster| {
                        let records = cluster.records("bench")?;
                        records.operate_on(&WritePolicy::default(), &key.into(), &[ours()])
                    };
                    black_box(cluster.run_blocking(call).await.unwrap());
                    calls.note(started);
                }
                calls
            }
        }
    };
    let mut ways = [(); 3].map(|()| (Latencies::default(), Latencies::default()));
    for _ in 0..rounds {
        many(&runtime, &alone, &mut ways[0]);
        many(&runtime, &futures, &mut ways[1]);
        many(&runtime, &blocking, &mut ways[2]);
    }
    let ways = ways.map(|(mut rates, mut calls)| [rates.percentile(50), calls.percentile(50)]);
    let shown = |at: usize| {
        let [[rate, p50], [rate_alone, p50_alone]] = [ways[at], ways[0]];
        format!(
            "{rate:.0}/s (x{:.2}), p50 {p50:.0} us (x{:.2})",
            rate / rate_alone,
            p50_alone / p50
        )
    };
    println!(
        "{:<22} 32 tasks: client alone {}; AsyncSet {}; run_blocking {}",
        case.name,
        shown(0),
        shown(1),
        shown(2),
    );
}

/// Notes the calls a second of all tasks together, and how long each call took.
fn many<F>(runtime: &Runtime, calls: &impl Fn(i64) -> F, (rates, each): &mut (Latencies, Latencies))
where
    F: Future<Output = Latencies> + Send + 'static,
{
    let started = Instant::now();
    let tasks: Vec<_> = (0..TASKS).map(|task| runtime.spawn(calls(task))).collect();
    for task in tasks {
        each.0.extend(runtime.block_on(task).unwrap().0);
    }
    rates
        .0
        .push((TASKS * TASK_CALLS) as f64 / started.elapsed().as_secs_f64());
}

/// A call of the client alone.
fn alone(
    number: i64,
    operation: fn() -> theirs::Operation,
) -> (Key, [theirs::Operation; 1], aerospike::WritePolicy) {
    let key = Key::new("test", "bench", TheirValue::Int(number)).unwrap();
    (key, [operation()], aerospike::WritePolicy::default())
}
