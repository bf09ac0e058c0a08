//! Costs and benefits of `max_waiters`: many threads add to one record as fast as they can, with
//! queues of several lengths.
//!
//! `cargo run --release --example hot_record [threads]`: 64 of them by default, 128,000 adds in
//! all.
//!
//! Prints for each length the acknowledged and refused adds, and the time from a thread's first
//! attempt at an add to its acknowledgement, refusals and repeats included: median, 99th
//! percentile, maximum.

use std::time::{Duration, Instant};

use spikelet::{Error, NamespaceConfig, RetryPolicy, Store, WritePolicy};

const THREADS: u64 = 64;
const ADDS: u64 = 128_000;

/// The way in which a refused add is repeated.
#[derive(Clone, Copy)]
enum Repeat {
    /// At once, as often as it takes.
    AtOnce,
    /// By [`RetryPolicy`], as often as it takes.
    WithPauses,
}

struct Outcome {
    refused: u64,
    elapsed: Duration,
    /// Of each add, from the first attempt to its acknowledgement; sorted.
    latencies: Vec<Duration>,
}

fn run(threads: u64, max_waiters: usize, repeat: Repeat) -> spikelet::Result<Outcome> {
    let config = NamespaceConfig::new("test").max_waiters(max_waiters);
    let set = Store::builder().namespace(config).open()?.set("counters")?;
    // No time limit: only the length of the queue may refuse an add.
    let policy = WritePolicy::default().total_timeout(None);
    let add = [spikelet::operations::add("n", 1)];
    let pauses = RetryPolicy::default();
    let began = Instant::now();
    let worker = || -> spikelet::Result<(u64, Vec<Duration>)> {
        let (mut refused, mut latencies) = (0, Vec::new());
        for _ in 0..ADDS / threads {
            let asked = Instant::now();
            let mut attempt = 1;
            while let Err(error) = set.operate_with(&policy, "hot", &add) {
                let Error::KeyBusy { .. } = error else {
                    return Err(error);
                };
                refused += 1;
                match repeat {
                    Repeat::AtOnce => std::thread::yield_now(),
                    Repeat::WithPauses => std::thread::sleep(pauses.pause_after(attempt)),
                }
                attempt += 1;
            }
            latencies.push(asked.elapsed());
        }
        Ok((refused, latencies))
    };
    let (mut refused, mut latencies) = (0, Vec::new());
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            if let Ok(done) = worker.join() {
                let (more_refused, more) = done?;
                refused += more_refused;
                latencies.extend(more);
            }
        }
        Ok::<_, Error>(())
    })?;
    let elapsed = began.elapsed();
    let found = set.get("hot")?.and_then(|record| record.get("n"));
    assert_eq!(found, Some((ADDS / threads * threads).into()));
    latencies.sort_unstable();
    Ok(Outcome {
        refused,
        elapsed,
        latencies,
    })
}

fn main() -> spikelet::Result<()> {
    let argument = std::env::args()
        .nth(1)
        .and_then(|threads| threads.parse().ok());
    let threads = argument.unwrap_or(THREADS).clamp(1, ADDS);
    println!(
        "{threads} threads, {} adds each, one record\n\n\
         waiters    repeat        refused   adds/s     p50 us     p99 us   worst us",
        ADDS / threads
    );
    for (name, max_waiters) in [
        ("0", 0),
        ("20", 20),
        ("100", 100),
        ("1,000", 1_000),
        ("any", usize::MAX),
    ] {
        for (how, repeat) in [
            ("at once", Repeat::AtOnce),
            ("with pauses", Repeat::WithPauses),
        ] {
            let outcome = run(threads, max_waiters, repeat)?;
            let at = |percent: usize| {
                let last = outcome.latencies.len().saturating_sub(1);
                let latency = outcome.latencies.get(last * percent / 100);
                latency.copied().unwrap_or_default().as_micros()
            };
            let adds = outcome.latencies.len() as f64 / outcome.elapsed.as_secs_f64();
            println!(
                "{name:<10} {how:<12} {:>8} {adds:>8.0} {:>10} {:>10} {:>10}",
                outcome.refused,
                at(50),
                at(99),
                at(100),
            );
        }
    }
    Ok(())
}
