//! Loading the graph: each edge adds the followed one to the follower's list, and the other way round, in one transaction, in
//! a batch with others, or, to compare, each by itself.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use spikelet::Result;

use super::adjacency::{Adjacency, Side};
use super::graph::{Edge, Graph};
use super::parallel::for_each;
use crate::random::Random;

/// Significant decimal digits of latencies.
const LATENCY_DIGITS: u8 = 3;
/// The result code of a queue that is full.
const KEY_BUSY: u8 = 14;

/// The result codes of a store without space, and of a time limit that is over.
const STORE_FULL: u8 = 8;
const TIMED_OUT: u8 = 9;
/// Longer latencies count as this one.
const LATENCY_MAX: Duration = Duration::from_secs(60);

/// How the two sides of an edge are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EdgeForm {
    /// In one transaction.
    Transaction,
    /// Each by itself: a process that dies in between leaves one side.
    TwoAppends,
    /// In batches of this many edges.
    Batches(usize),
}

/// What loading took.
#[derive(Debug)]
pub(crate) struct LoadResult {
    pub(crate) time: Duration,
    /// How often a write was refused with KEY_BUSY, and repeated.
    pub(crate) key_busy: u64,
    /// How often a transaction met others in all of its attempts, and was begun again.
    pub(crate) conflicts: u64,
    /// Latency of each edge, or of each batch, with its repetitions, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
}

/// What a thread has measured.
struct Worker {
    form: EdgeForm,
    latency: Histogram<u64>,
    key_busy: u64,
    conflicts: u64,
    jitter: Random,
}

/// Loads all edges from `threads` threads, in the order of the graph.
///
/// # Errors
/// What the store refuses, but for KEY_BUSY and conflicts, which are repeated.
pub(crate) fn load(
    adjacency: &Adjacency,
    graph: &Graph,
    form: EdgeForm,
    threads: usize,
    progress: &ProgressBar,
) -> Result<LoadResult> {
    let begun = Instant::now();
    let worker = |number| Worker {
        form,
        latency: histogram(),
        key_busy: 0,
        conflicts: 0,
        jitter: Random::new(number as u64),
    };
    let workers = match form {
        EdgeForm::Batches(edges) => {
            let batches: Vec<&[Edge]> = graph.edges.chunks(edges).collect();
            let hidden = ProgressBar::hidden();
            for_each(&batches, threads, &hidden, worker, |worker, batch| {
                worker.load_batch(adjacency, graph, batch)?;
                progress.inc(batch.len() as u64);
                Ok(())
            })
        }
        _ => for_each(&graph.edges, threads, progress, worker, |worker, edge| {
            worker.load(adjacency, graph, *edge)
        }),
    }?;
    let time = begun.elapsed();
    let mut loaded = LoadResult {
        time,
        key_busy: 0,
        conflicts: 0,
        latency: histogram(),
    };
    for worker in workers {
        loaded.key_busy += worker.key_busy;
        loaded.conflicts += worker.conflicts;
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
        let begun = Instant::now();
        match self.form {
            EdgeForm::Transaction | EdgeForm::Batches(_) => {
                self.repeat(|| adjacency.link(graph.ids.key(from), graph.ids.key(to)))?;
            }
            EdgeForm::TwoAppends => {
                let sides = [(from, Side::Following, to), (to, Side::Followers, from)];
                for (node, side, other) in sides {
                    self.repeat(|| {
                        adjacency.append(graph.ids.key(node), side, graph.ids.value(other))
                    })?;
                }
            }
        }
        self.latency
            .saturating_record(begun.elapsed().as_nanos() as u64);
        Ok(())
    }

    fn load_batch(&mut self, adjacency: &Adjacency, graph: &Graph, batch: &[Edge]) -> Result<()> {
        let begun = Instant::now();
        self.repeat(|| {
            let edges = batch.iter();
            let keys = edges.map(|edge| (graph.ids.key(edge.from), graph.ids.key(edge.to)));
            adjacency.link_all(keys)
        })?;
        self.latency
            .saturating_record(begun.elapsed().as_nanos() as u64);
        Ok(())
    }

    /// Makes a write, again and again where others are in its way.
    fn repeat(&mut self, write: impl Fn() -> Result<()>) -> Result<()> {
        for attempt in 0.. {
            match write() {
                // Of what may pass, only what others cause: a full device would be asked for ever.
                Err(error)
                    if error.is_retryable()
                        && !matches!(error.result_code(), STORE_FULL | TIMED_OUT) =>
                {
                    match error.result_code() {
                        KEY_BUSY => self.key_busy += 1,
                        _ => self.conflicts += 1,
                    }
                    self.back_off(attempt);
                }
                done => return done,
            }
        }
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
