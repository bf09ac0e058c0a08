//! The number of shards for a counter that many threads increment: fixed numbers beside
//! `ShardPolicy`.
//!
//! `cargo run --release --example hot_counter [threads] [seconds]`: 64 threads and 2 seconds a row
//! by default.
//!
//! Prints for each row the final number of shards, adds a second, the latency of adds (median, 99th
//! percentile, maximum), the share of adds that found a writer before them, and the median latency
//! of 1,000 reads of the counter while no thread wrote.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use spikelet::shard::ShardPolicy;
use spikelet::{ShardedCounter, Store};

const THREADS: u64 = 64;
const SECONDS: u64 = 2;
const READS: usize = 1_000;

fn micros(latency: Option<&Duration>) -> f64 {
    latency.copied().unwrap_or_default().as_secs_f64() * 1e6
}

/// Measures one row: starts with `shards` companions (0 for none); from there on the policy
/// decides.
fn row(
    name: &str,
    threads: u64,
    length: Duration,
    shards: u64,
    policy: ShardPolicy,
) -> spikelet::Result<()> {
    let store = Store::in_memory()?;
    let counter = ShardedCounter::new(&store, "counters", "hot", "n")?.policy(policy);
    if shards > 0 {
        counter.add(0)?;
        counter.shards().activate(shards)?;
    }
    let stop = AtomicBool::new(false);
    let worker = || -> spikelet::Result<Vec<Duration>> {
        let mut latencies = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            counter.add(1)?;
            latencies.push(began.elapsed());
        }
        Ok(latencies)
    };
    let mut latencies = Vec::new();
    let began = Instant::now();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        std::thread::sleep(length);
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            latencies.extend(
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?,
            );
        }
        Ok::<_, spikelet::Error>(())
    })?;
    let elapsed = began.elapsed();
    assert_eq!(counter.read()?, latencies.len() as i64);
    let waits = store.namespace(spikelet::DEFAULT_NAMESPACE)?.stats().waits;
    let mut reads = Vec::with_capacity(READS);
    for _ in 0..READS {
        let began = Instant::now();
        counter.read()?;
        reads.push(began.elapsed());
    }
    latencies.sort_unstable();
    reads.sort_unstable();
    let at = |quantile: f64| latencies.get(((latencies.len() - 1) as f64 * quantile) as usize);
    println!(
        "{name:<10} {:>6} {:>9.0} {:>8.1} {:>8.0} {:>9.0} {:>7.1} {:>8.1}",
        counter.shards().state()?.shards,
        latencies.len() as f64 / elapsed.as_secs_f64(),
        micros(at(0.5)),
        micros(at(0.99)),
        micros(at(1.0)),
        waits as f64 * 100.0 / latencies.len() as f64,
        micros(reads.get(READS / 2)),
    );
    Ok(())
}

fn main() -> spikelet::Result<()> {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|number| number.parse().ok());
    let threads = numbers.next().unwrap_or(THREADS).max(1);
    let length = Duration::from_secs(numbers.next().unwrap_or(SECONDS).max(1));
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{threads} threads, load average {}", load.trim_end());
    println!(
        "{:<10} {:>6} {:>9} {:>8} {:>8} {:>9} {:>7} {:>8}",
        "begins with", "shards", "adds/s", "p50 us", "p99 us", "worst us", "waits %", "read us"
    );
    for shards in [0, 1, 2, 4, 8, 16, 32, 64, 256] {
        row(
            &shards.to_string(),
            threads,
            length,
            shards,
            ShardPolicy::manual(),
        )?;
    }
    for _ in 0..3 {
        let policy = ShardPolicy::manual().contention(true);
        row("by policy", threads, length, 0, policy)?;
    }
    Ok(())
}
