//! Loading the graph: for each edge the followed one is appended to the follower's list, and the other way round.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use spikelet::operations::lists;
use spikelet::{Error, ListOrder, ListPolicy, ListWriteFlags, Operation, Result, Set, WritePolicy};

use super::deal::deal;
use super::graph::{Edge, Graph};
use super::random::Random;

/// The list of those whom somebody follows.
pub(crate) const FOLLOWING: &str = "following";
/// The list of those who follow somebody.
pub(crate) const FOLLOWERS: &str = "followers";

/// Latencies are told apart to so many digits.
const LATENCY_DIGITS: u8 = 3;
/// Longer latencies count as this one.
const LATENCY_MAX: Duration = Duration::from_secs(60);

/// What loading took.
#[derive(Debug)]
pub(crate) struct Loaded {
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

/// Loads all edges from so many threads, in the order of the graph.
///
/// # Errors
/// What the store refuses, but for KEY_BUSY, which is repeated.
pub(crate) fn load(
    users: &Set,
    graph: &Graph,
    threads: usize,
    progress: &ProgressBar,
) -> Result<Loaded> {
    let flags = ListWriteFlags::ADD_UNIQUE | ListWriteFlags::NO_FAIL;
    let policy = ListPolicy::new(ListOrder::Ordered, flags).persist_index();
    let begun = Instant::now();
    let worker = |number| Worker {
        latency: histogram(),
        key_busy: 0,
        jitter: Random::new(number as u64),
    };
    let workers = deal(&graph.edges, threads, progress, worker, |worker, edge| {
        worker.load(users, graph, &policy, *edge)
    })?;
    let time = begun.elapsed();
    let mut loaded = Loaded {
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
    fn load(&mut self, users: &Set, graph: &Graph, policy: &ListPolicy, edge: Edge) -> Result<()> {
        let Edge { from, to } = edge;
        for (node, bin, other) in [(from, FOLLOWING, to), (to, FOLLOWERS, from)] {
            let operation = lists::append(policy, bin, graph.ids.value(other));
            self.append(users, graph, node, operation)?;
        }
        Ok(())
    }

    fn append(
        &mut self,
        users: &Set,
        graph: &Graph,
        node: u32,
        operation: Operation,
    ) -> Result<()> {
        // However long the queue takes; a full one is told at once.
        let policy = WritePolicy::default().total_timeout(None);
        let operations = [operation];
        let begun = Instant::now();
        for attempt in 0.. {
            match users.operate_with(&policy, graph.ids.key(node), &operations) {
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

    /// Waits from half to one and a half times 2, 4, 8 .. 1,024 us, so that those who were refused together do not come
    /// back together.
    fn back_off(&mut self, attempt: u32) {
        let middle_us = 2u64 << attempt.min(9);
        let wait = Duration::from_micros(middle_us / 2 + self.jitter.below(middle_us));
        std::thread::sleep(wait);
    }
}
