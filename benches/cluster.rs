//! What a call through `Cluster` costs beside the client alone, against a store that another process serves: rounds of both
//! take turns, and the ratio of their medians is printed.
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

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Microseconds a call of a round.
fn timed(mut round: impl FnMut()) -> f64 {
    let started = Instant::now();
    round();
    started.elapsed().as_secs_f64() * 1e6 / CALLS as f64
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
    let client = std::sync::Arc::new(client);
    for case in &CASES {
        let (mut through, mut blocking, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            through.push(timed(|| {
                for number in 0..CALLS {
                    let call = [(case.ours)()];
                    black_box(records.operate_on(&policy, &number.into(), &call).unwrap());
                }
            }));
            let alone = |number: i64| {
                let key = Key::new("test", "bench", TheirValue::Int(number)).unwrap();
                (key, [(case.theirs)()], aerospike::WritePolicy::default())
            };
            blocking.push(timed(|| {
                for number in 0..CALLS {
                    let (key, call, policy) = alone(number);
                    let record = runtime.block_on(client.operate(&policy, &key, &call));
                    black_box(record.unwrap());
                }
            }));
            tasks.push(timed(|| {
                let client = std::sync::Arc::clone(&client);
                let theirs = case.theirs;
                let task = runtime.spawn(async move {
                    for number in 0..CALLS {
                        let key = Key::new("test", "bench", TheirValue::Int(number)).unwrap();
                        let policy = aerospike::WritePolicy::default();
                        let record = client.operate(&policy, &key, &[theirs()]).await;
                        black_box(record.unwrap());
                    }
                });
                runtime.block_on(task).unwrap();
            }));
        }
        let [through, blocking, tasks] =
            [&mut through, &mut blocking, &mut tasks].map(|times| median(times));
        println!(
            "{:<22} Cluster {through:>6.1} us, client alone blocking {blocking:>6.1} us ({:.2}), in a task {tasks:>6.1} us ({:.2})",
            case.name,
            through / blocking,
            through / tasks,
        );
    }
}
