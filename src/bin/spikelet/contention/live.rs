//! A row on the engine itself, by the wall clock.
//!
//! An open loop deals its arrivals to more threads than a full queue can hold; latency counts from
//! the time at which a write was meant to be sent, so a stalled thread hides nothing (no
//! coordinated omission). A closed loop has a thread a writer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spikelet::Error;

use super::activation::{self, Activation};
use super::case::{Arrivals, Case, ClusterSettings};
use super::ledger::Ledger;
use super::measure::{Recorder, Tally};
use super::schedule::{KeySource, PlannedWrite, arrivals};
use super::{RowRun, RunResult};
use crate::failure::{CommandFailure, Result};
use crate::threads::{on_threads, sleep_until};

/// Threads of an open loop, at least and at most.
const THREADS: std::ops::RangeInclusive<usize> = 16..=1_024;
/// One write in this many is read back.
const READ_BACK_OPEN: u64 = 8;
const READ_BACK_CLOSED: u64 = 1_024;

/// Returns how many threads an open loop needs so that no queue is kept short for want of them.
pub(super) fn open_threads(case: &Case) -> usize {
    let records = case.layout.live_shards() as usize * case.settings.hot_keys as usize;
    let waiters = case.settings.max_waiters().unwrap_or(usize::MAX);
    let full = waiters.saturating_add(2).saturating_mul(records);
    let most = match case.settings.cluster {
        Some(_) => ClusterSettings::WRITERS_MAX,
        None => *THREADS.end(),
    };
    full.saturating_add(8).clamp(*THREADS.start(), most)
}

/// Runs a row to its end: until the last write that was wanted in time is done or refused.
///
/// # Errors
/// If the records cannot be read.
pub(super) fn run(run: RowRun<'_>) -> Result<RunResult> {
    let case = run.case;
    let (writers, read_back, planned) = match case.load {
        Arrivals::Open { rate } => {
            let planned = Mutex::new(arrivals(case, rate));
            (open_threads(case), READ_BACK_OPEN, Some(planned))
        }
        Arrivals::Closed { writers } => (writers, READ_BACK_CLOSED, None),
    };
    // At the rates of an open loop one recorder serves all threads.
    let recorders = if planned.is_some() { 1 } else { writers };
    let recorder = |_| Mutex::new(Recorder::new(run.window, case.activates()));
    let recorders: Vec<Mutex<Recorder>> = (0..recorders).map(recorder).collect();
    let (start, begun) = (Barrier::new(writers + 1), OnceLock::new());
    let (has_failed, activation) = (AtomicBool::new(false), Mutex::new(None));
    let (next_ns, stopped_ns) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let work = |writer: usize| -> Result<Ledger> {
        let mut ledger = Ledger::default();
        // The writes of an open loop bring their keys, and none waits for a thread that is late.
        let is_closed = planned.is_none();
        let mut keys = (is_closed && writer < writers).then(|| KeySource::new(case, writer as u64));
        if is_closed {
            start.wait();
        }
        let row = LiveRow {
            run,
            begun: *begun.get_or_init(Instant::now),
        };
        // The last thread is not a writer.
        let Some(recorder) = recorders
            .get(writer % recorders.len())
            .filter(|_| writer < writers)
        else {
            *activation.lock() = row.activate()?;
            return Ok(ledger);
        };
        let (mut id, mut refused, mut now_ns) = (writer as u64, 0, row.now_ns());
        while !has_failed.load(Ordering::Relaxed) {
            let wanted = if let Some(planned) = &planned {
                refused = 0;
                let next = planned.lock().next();
                next.filter(|wanted| row.sleep_until(wanted.at_ns))
            } else {
                let goes_on = now_ns < run.window.to_ns && row.wait_for_turn(&next_ns);
                let keys = keys.as_mut().filter(|_| goes_on);
                keys.map(|keys| PlannedWrite {
                    id,
                    key: keys.draw(),
                    at_ns: row.now_ns(),
                })
            };
            let Some(wanted) = wanted else { break };
            id += writers as u64;
            now_ns = row.write(wanted, read_back, &mut refused, &mut ledger, recorder)?;
        }
        if let Some(now_ns) = row.stopped_ns() {
            stopped_ns.fetch_min(now_ns, Ordering::Relaxed);
        }
        Ok(ledger)
    };
    let ledgers = on_threads(writers + 1, |thread| {
        work(thread).inspect_err(|_| has_failed.store(true, Ordering::Relaxed))
    })?;
    let (mut ledger, mut tally, mut timeline) = (Ledger::default(), Tally::new(), None);
    ledgers.into_iter().for_each(|one| ledger.add(one));
    for recorder in recorders.into_iter().map(Mutex::into_inner) {
        tally.add(&recorder.tally);
        timeline = recorder.timeline;
    }
    let stopped_ns = stopped_ns.into_inner();
    Ok(RunResult {
        tally,
        timeline,
        ledger,
        activation: activation.into_inner(),
        stopped_ns: (stopped_ns < u64::MAX).then_some(stopped_ns),
    })
}

/// What all threads of a row share.
struct LiveRow<'a> {
    run: RowRun<'a>,
    begun: Instant,
}

impl LiveRow<'_> {
    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Sleeps until this time; false if the row ends before.
    fn sleep_until(&self, at_ns: u64) -> bool {
        sleep_until(self.begun + Duration::from_nanos(at_ns), self.run.stop)
    }

    /// Waits until the next write may be sent, of writers that together have a limit; false if the
    /// row ends before. `next_ns`: when that is, of all writers.
    fn wait_for_turn(&self, next_ns: &AtomicU64) -> bool {
        let settings = &self.run.case.settings;
        let Some(cluster) = &settings.cluster else {
            return !self.run.stop.load(Ordering::Relaxed);
        };
        let sendings = 1.0 + f64::from(settings.retries);
        let interval_ns = (sendings / cluster.rate_max * 1e9) as u64;
        let now_ns = self.now_ns();
        let after = |next: u64| Some(next.max(now_ns) + interval_ns);
        let turn = next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
        self.sleep_until(turn.map_or(now_ns, |turn| turn.max(now_ns)))
    }

    /// Shards the collections at their time; `None`: they stay as they are.
    fn activate(&self) -> Result<Option<Activation>> {
        let case = self.run.case;
        let at = case.settings.activate_at.filter(|_| case.activates());
        let at = at.filter(|at| self.sleep_until(at.as_nanos() as u64));
        at.map(|_| activation::activate(case, self.run.target, self.begun))
            .transpose()
    }

    /// Returns when the row was stopped; `None` if it was not.
    fn stopped_ns(&self) -> Option<u64> {
        self.run.stop.load(Ordering::Relaxed).then(|| self.now_ns())
    }

    /// Does a write with its retries, and reads one in `read_back` back. `refused` counts the
    /// writer's refusals in a row. Returns when the write was done or refused for good.
    fn write(
        &self,
        wanted: PlannedWrite,
        read_back: u64,
        refused: &mut u32,
        ledger: &mut Ledger,
        recorder: &Mutex<Recorder>,
    ) -> Result<u64> {
        let settings = &self.run.case.settings;
        let wanted_ns = wanted.at_ns;
        let mut sent_ns = self.now_ns();
        recorder.lock().sent(wanted_ns, sent_ns);
        for attempt in 0.. {
            let route = self.run.target.route(wanted.key, wanted.id);
            let done = self.run.target.write(route, wanted.id, ledger);
            let done_ns = self.now_ns();
            match done {
                Ok(()) => {
                    *refused = 0;
                    recorder.lock().acknowledged(wanted_ns, sent_ns, done_ns);
                    if wanted.id.is_multiple_of(read_back) {
                        self.run.target.read_back(&route, wanted.id, ledger)?;
                        return Ok(self.now_ns());
                    }
                    return Ok(done_ns);
                }
                Err(CommandFailure::Store(Error::KeyBusy { .. })) => {
                    let again = attempt < settings.retries;
                    recorder.lock().refused(wanted_ns, again);
                    let rested_ns = done_ns + settings.rest(*refused).as_nanos() as u64;
                    *refused = refused.saturating_add(1);
                    // Nothing is written behind the end but what is tried again.
                    let last_ns = if again {
                        u64::MAX
                    } else {
                        self.run.window.to_ns
                    };
                    let goes_on = self.sleep_until(rested_ns.min(last_ns));
                    sent_ns = self.now_ns();
                    if !again || !goes_on {
                        return Ok(sent_ns);
                    }
                }
                Err(error) => {
                    recorder.lock().failed(wanted_ns, error.result_code());
                    return Ok(done_ns);
                }
            }
        }
        Ok(self.now_ns())
    }
}

#[cfg(test)]
mod tests;
