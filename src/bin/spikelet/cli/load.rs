//! Loading the graph: each edge adds the followed one to the follower's list, and the other way
//! round, in one transaction, in a batch with others, or, to compare, each by itself.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use spikelet::{Result, RetryPolicy};

use super::adjacency::{Adjacency, Side};
use super::graph::{Edge, Graph};
use super::parallel::for_each;
use crate::contention::histogram;

/// The result code of a queue that is full.
const KEY_BUSY: u8 = 14;
/// The result codes of a store without space, and of a time limit that is over.
const STORE_FULL: u8 = 8;
const TIMED_OUT: u8 = 9;

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

/// The time of a load, and its obstacles.
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

/// Loads all edges from `threads` threads, in the order of the graph.
///
/// # Errors
/// Errors of the store, but for KEY_BUSY and conflicts, which are repeated.
pub(crate) fn load(
    adjacency: &Adjacency,
    graph: &Graph,
    form: EdgeForm,
    threads: usize,
    progress: &ProgressBar,
) -> Result<LoadResult> {
    let begun = Instant::now();
    let at_once = match form {
        EdgeForm::Batches(edges) => edges,
        EdgeForm::Transaction | EdgeForm::TwoAppends => 1,
    };
    let batches: Vec<&[Edge]> = graph.edges.chunks(at_once).collect();
    let none = |_| LoadResult {
        time: Duration::ZERO,
        key_busy: 0,
        conflicts: 0,
        latency: histogram(),
    };
    let hidden = ProgressBar::hidden();
    let workers = for_each(&batches, threads, &hidden, none, |own, batch| {
        own.load(adjacency, graph, form, batch)?;
        progress.inc(batch.len() as u64);
        Ok::<_, spikelet::Error>(())
    })?;
    let mut all = none(0);
    for worker in workers {
        all.key_busy += worker.key_busy;
        all.conflicts += worker.conflicts;
        // All histograms have the same range.
        let _ = all.latency.add(worker.latency);
    }
    all.time = begun.elapsed();
    Ok(all)
}

impl LoadResult {
    fn load(
        &mut self,
        adjacency: &Adjacency,
        graph: &Graph,
        form: EdgeForm,
        batch: &[Edge],
    ) -> Result<()> {
        let key = |node| graph.ids.key(node);
        let begun = Instant::now();
        let follows = &adjacency.follows;
        match (form, batch) {
            (EdgeForm::Transaction, [Edge { from, to }]) => {
                self.repeat(|| follows.link(key(*from), key(*to)).map(drop))?;
            }
            (EdgeForm::TwoAppends, [Edge { from, to }]) => {
                for (node, side, other) in
                    [(*from, Side::Following, *to), (*to, Side::Followers, *from)]
                {
                    let element = || graph.ids.value(other);
                    self.repeat(|| adjacency.append(key(node), side, element()))?;
                }
            }
            _ => {
                let keys = || batch.iter().map(|edge| (key(edge.from), key(edge.to)));
                let go_on = |_| std::ops::ControlFlow::Continue(());
                self.repeat(|| follows.link_all(keys(), go_on).map(drop))?;
            }
        }
        self.latency
            .saturating_record(begun.elapsed().as_nanos() as u64);
        Ok(())
    }

    /// Makes a write, again and again where others are in its way, with pauses of 2 us to 1 ms.
    fn repeat(&mut self, write: impl Fn() -> Result<()>) -> Result<()> {
        let pauses = RetryPolicy::default()
            .first_pause(Duration::from_micros(2))
            .max_pause(Duration::from_millis(1));
        for attempt in 1.. {
            match write() {
                // A full device stays full: only obstacles of other writers are waited for.
                Err(error)
                    if error.is_retryable()
                        && !matches!(error.result_code(), STORE_FULL | TIMED_OUT) =>
                {
                    match error.result_code() {
                        KEY_BUSY => self.key_busy += 1,
                        _ => self.conflicts += 1,
                    }
                    std::thread::sleep(pauses.pause_after(attempt));
                }
                done => return done,
            }
        }
        Ok(())
    }
}
