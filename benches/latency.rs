//! Latencies of `put` of 100 B on files, by one thread and by two: fresh records, and overwrites.
//!
//! `cargo bench --bench latency [-- DIRECTORY]`; the stores live in the directory while they run
//! (default: that for temporary files). Required: p99 of at most 1.5 us with two threads, and 1.6
//! times the operations of one.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a bench stops where anything is wrong"
)]

mod support;

use hdrhistogram::Histogram;
use spikelet::Set;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;
use support::{BIN, Random, at_once, fill, key, open};

const VALUE: [u8; 100] = [7; 100];
/// Records that are overwritten: beyond the caches.
const RECORDS: u64 = 2_000_000;
/// Operations of each thread in a round.
const OPERATIONS: u64 = 1_000_000;
/// An odd number: the median is one of them.
const ROUNDS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Insert,
    Overwrite,
}

/// One round of one kind, with its number of threads.
#[derive(Debug)]
struct Ran {
    operations_a_second: f64,
    latency_ns: Histogram<u64>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).unwrap()
}

fn measure(set: &Set, kind: Kind, threads: u64, round: u64) -> Ran {
    let all = Mutex::new(histogram());
    let elapsed = at_once(threads, |thread| {
        let lane = round * threads + thread;
        let mut random = Random(lane);
        let mut latency_ns = histogram();
        let mut before = Instant::now();
        for operation in 0..OPERATIONS {
            let number = match kind {
                Kind::Overwrite => random.below(RECORDS),
                Kind::Insert => RECORDS + lane * OPERATIONS + operation,
            };
            set.put(&key(number), [(BIN, &VALUE[..])]).unwrap();
            let after = Instant::now();
            latency_ns.saturating_record((after - before).as_nanos() as u64);
            before = after;
        }
        all.lock().unwrap().add(&latency_ns).unwrap();
    });
    let operations_a_second = (threads * OPERATIONS) as f64 / elapsed.as_secs_f64();
    Ran {
        operations_a_second,
        latency_ns: all.into_inner().unwrap(),
    }
}

/// A fresh store in `dir` for each run, with the records that are to be overwritten.
fn run(dir: &PathBuf, kind: Kind, threads: u64, round: u64) -> Ran {
    let dir = tempfile::Builder::new()
        .prefix("latency-")
        .tempdir_in(dir)
        .unwrap();
    let (_store, _namespace, set) = open(Some(dir.path()));
    fill(
        &set,
        if kind == Kind::Overwrite { RECORDS } else { 1 },
        &VALUE,
    );
    measure(&set, kind, threads, round)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    let named = arguments
        .iter()
        .find(|argument| !argument.starts_with("--"));
    let dir = named.map_or_else(std::env::temp_dir, PathBuf::from);
    println!(
        "put of 100 B on files in {}; latencies in ns, each with one reading of the clock and the draw",
        dir.display()
    );
    if let Ok(load) = std::fs::read_to_string("/proc/loadavg") {
        println!("load average {}", load.trim_end());
    }
    println!(
        "{:<10} {:>7} {:>10} {:>8} {:>8} {:>8} {:>9} {:>10} {:>12}",
        "", "threads", "puts/s", "p50", "p90", "p99", "p99.9", "max", "x one thread"
    );
    for kind in [Kind::Insert, Kind::Overwrite] {
        let mut runs = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            for (threads, runs) in (1..).zip(&mut runs) {
                runs.push(run(&dir, kind, threads, round as u64));
            }
        }
        let [one, two] = &runs;
        let ratios = one
            .iter()
            .zip(two)
            .map(|(one, two)| two.operations_a_second / one.operations_a_second);
        let ratio = median(ratios.collect());
        for (threads, runs) in (1..).zip(&runs) {
            let percentile = |quantile: f64| {
                median(
                    runs.iter()
                        .map(|run| run.latency_ns.value_at_quantile(quantile) as f64)
                        .collect(),
                )
            };
            println!(
                "{:<10} {threads:>7} {:>10.0} {:>8.0} {:>8.0} {:>8.0} {:>9.0} {:>10.0} {:>12}",
                format!("{kind:?}"),
                median(runs.iter().map(|run| run.operations_a_second).collect()),
                percentile(0.5),
                percentile(0.9),
                percentile(0.99),
                percentile(0.999),
                percentile(1.0),
                if threads == 1 {
                    String::new()
                } else {
                    format!("{ratio:.2}")
                },
            );
        }
    }
}
