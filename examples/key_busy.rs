//! A service with writers that meet on one list of a cluster: the share of its writes refused with
//! `KEY_BUSY`, and the latency of the others. `docs/contention.md` has the story around it.
//!
//! `cargo run --release --features cluster --example key_busy -- HOST:PORT WRITES-PER-SECOND
//! SECONDS [SHARDS]`

use std::env;
use std::panic::resume_unwind;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use spikelet::cluster::Cluster;
use spikelet::shard::ShardPolicy;
use spikelet::{Error, ShardedList};

/// Writer threads: more than a server lets wait for a record, so that some are refused.
const WRITERS: u64 = 64;

/// Returns an argument, if it is there.
fn argument<T: FromStr>(number: usize) -> spikelet::Result<Option<T>> {
    let Some(text) = env::args().nth(number) else {
        return Ok(None);
    };
    let value = text.parse().ok();
    let unreadable =
        || Error::Parameter(format!("{text:?} is not what argument {number} should be").into());
    value.map(Some).ok_or_else(unreadable)
}

fn main() -> spikelet::Result<()> {
    let host: String = argument(1)?.unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let rate: u64 = argument(2)?.unwrap_or(200);
    let seconds: u64 = argument(3)?.unwrap_or(10);
    // This program looks for refusals, so the client must not hold calls back after 100 of them.
    let cluster = Cluster::builder(&host).error_rate_max(0).connect()?;
    let orders = ShardedList::new(&cluster, "orders", "today", "ids")?;
    let orders = orders.policy(ShardPolicy::manual());
    if let Some(shards) = argument(4)? {
        orders.shards().activate(shards)?;
    }

    let (sent, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    // Orders of this run only.
    let first = time_ns();
    let write_all = || -> spikelet::Result<Vec<Duration>> {
        let mut latencies = Vec::new();
        loop {
            let number = sent.fetch_add(1, Ordering::Relaxed);
            if number >= rate * seconds {
                return Ok(latencies);
            }
            // A write is late if all threads wait, and its latency says so.
            let due = began + Duration::from_nanos(number * 1_000_000_000 / rate);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            match orders.add(first + number as i64) {
                Ok(_) => latencies.push(due.elapsed()),
                Err(Error::KeyBusy { .. }) => {
                    refused.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => return Err(error),
            }
        }
    };
    let written = thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write_all)).collect();
        let join = |writer: thread::ScopedJoinHandle<'_, _>| {
            writer.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        let written: spikelet::Result<Vec<_>> = writers.into_iter().map(join).collect();
        written
    })?;

    let refused = refused.into_inner();
    let mut latencies = written.concat();
    latencies.sort_unstable();
    let percentile = |of_hundred: usize| {
        let at = latencies.len() * of_hundred / 100;
        latencies.get(at).copied().unwrap_or_default().as_secs_f64() * 1e3
    };
    println!(
        "{} writes: {:.1} % KEY_BUSY (error 14), the others p50 {:.1} ms, p99 {:.1} ms",
        rate * seconds,
        100.0 * refused as f64 / (rate * seconds) as f64,
        percentile(50),
        percentile(99),
    );
    Ok(())
}

/// Nanoseconds since 1970.
fn time_ns() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
