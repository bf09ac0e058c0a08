//! Loading the graph: for each edge the followed one is appended to the follower's list, and the
//! other way round.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use spikelet::{Error, Result};

use super::adjacency::{Adjacency, Side};
use super::graph::{Edge, Graph};
use super::parallel::for_each;
use crate::random::Random;

/// Significant decimal digits of latencies.
const LATENCY_DIGITS: u8 = 3;
/// Longer latencies count as this one.
const LATENCY_MAX: Duration = Duration::from_secs(60);

/// What loading took.
#[derive(Debug)]
pub(crate) struct LoadResult {
    pub(crate) time: Duration,
    /// How often an operation was refused with KEY_BUSY, and repeated.
    pub(crate) key_busy: u64,
    /// Latency of each operation with its repetitions, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
}

/// What a thread has measured.
struct Worker {
    latency: Histogram<u64>,
    key_busy: u64,
    jitter: Random,
}

/// Loads all edges from `threads` threads, in the order of the graph.
///
/// # Errors
/// What the store refuses, but for KEY_BUSY, which is repeated.
pub(crate) fn load(
    adjacency: &Adjacency,
    graph: &Graph,
    threads: usize,
    progress: &ProgressBar,
) -> Result<LoadResult> {
    let begun = Instant::now();
    let worker = |number| Worker {
        latency: histogram(),
        key_busy: 0,
        jitter: Random::new(number as u64),
    };
    let workers = for_each(&graph.edges, threads, progress, worker, |worker, edge| {
        worker.load(adjacency, graph, *edge)
    })?;
    let time = begun.elapsed();
    let mut loaded = LoadResult {
        time,
        key_busy: 0,
        latency: histogram(),
    };
    for worker in workers {
        loaded.key_busy += worker.key_busy;
        // All histograms have the same range.
        let _ = loaded.latency.add(worker.latency);
    }
    Ok(loaded)
}

#[expect(
    clippy::expect_used,
    reason = "both limits are constants, and possible"
)]
fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LATENCY_MAX.as_nanos() as u64, LATENCY_DIGITS)
        .expect("a minute in nanoseconds")
}

impl Worker {
    fn load(&mut self, adjacency: &Adjacency, graph: &Graph, edge: Edge) -> Result<()> {
        let Edge { from, to } = edge;
        for (node, side, other) in [(from, Side::Following, to), (to, Side::Followers, from)] {
            self.append(adjacency, graph, node, side, other)?;
        }
        Ok(())
    }

    fn append(
        &mut self,
        adjacency: &Adjacency,
        graph: &Graph,
        node: u32,
        side: Side,
        other: u32,
    ) -> Result<()> {
        let begun = Instant::now();
        for attempt in 0.. {
            match adjacency.append(graph.ids.key(node), side, graph.ids.value(other)) {
                Err(Error::KeyBusy { .. }) => {
                    self.key_busy += 1;
                    self.back_off(attempt);
                }
                done => {
                    done?;
                    break;
                }
            }
        }
        self.latency
            .saturating_record(begun.elapsed().as_nanos() as u64);
        Ok(())
    }

    /// Waits from half to one and a half times 2, 4, 8 .. 1,024 us, so that those who were refused
    /// together do not come back together.
    fn back_off(&mut self, attempt: u32) {
        let middle_us = 2u64 << attempt.min(9);
        let wait = Duration::from_micros(middle_us / 2 + self.jitter.below(middle_us));
        std::thread::sleep(wait);
    }
}
