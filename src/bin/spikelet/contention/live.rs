//! A row on the engine itself, by the wall clock.
//!
//! An open loop deals its arrivals to more threads than a full queue can hold; latency counts from
//! the time at which a write was meant to be sent, so a stalled thread hides nothing (no
//! coordinated omission). A closed loop has a thread a writer.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spikelet::Error;

use super::activation;
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
    match run.case.load {
        Arrivals::Open { rate } => open_loop(run, rate),
        Arrivals::Closed { writers } => closed_loop(run, writers),
    }
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
            return true;
        };
        let sendings = 1.0 + f64::from(settings.retries);
        let interval_ns = (sendings / cluster.rate_max * 1e9) as u64;
        let now_ns = self.now_ns();
        let after = |next: u64| Some(next.max(now_ns) + interval_ns);
        let turn = next_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after);
        self.sleep_until(turn.map_or(now_ns, |turn| turn.max(now_ns)))
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
                    let rest = settings.rest(*refused);
                    *refused = refused.saturating_add(1);
                    if !rest.is_zero() {
                        std::thread::sleep(rest);
                    }
                    if !again {
                        return Ok(self.now_ns());
                    }
                    sent_ns = self.now_ns();
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

fn open_loop(run: RowRun<'_>, rate: f64) -> Result<RunResult> {
    let case = run.case;
    let row = LiveRow {
        run,
        begun: Instant::now(),
    };
    let wanted = Mutex::new(arrivals(case, rate));
    // At the rates of an open loop one recorder serves all threads.
    let recorder = Mutex::new(Recorder::new(run.window, case.activates()));
    let work = || {
        let mut ledger = Ledger::default();
        loop {
            let Some(wanted) = wanted.lock().next() else {
                return Ok(ledger);
            };
            if !row.sleep_until(wanted.at_ns) {
                return Ok(ledger);
            }
            row.write(wanted, READ_BACK_OPEN, &mut 0, &mut ledger, &recorder)?;
        }
    };
    let activation = Mutex::new(None);
    // The last thread is not a writer.
    let writers = open_threads(case);
    let ledger = at_once(writers + 1, |thread| {
        if thread < writers {
            return work();
        }
        let Some(at) = case.settings.activate_at.filter(|_| case.activates()) else {
            return Ok(Ledger::default());
        };
        if row.sleep_until(at.as_nanos() as u64) {
            *activation.lock() = Some(activation::activate(case, run.target, row.begun)?);
        }
        Ok(Ledger::default())
    })?;
    let stopped_ns = row.stopped_ns();
    let recorder = recorder.into_inner();
    Ok(RunResult {
        tally: recorder.tally,
        timeline: recorder.timeline,
        ledger,
        activation: activation.into_inner(),
        stopped_ns,
    })
}

fn closed_loop(run: RowRun<'_>, writers: usize) -> Result<RunResult> {
    let start = Barrier::new(writers);
    let begun = Mutex::new(None);
    let all = Mutex::new(Tally::new());
    let stop = AtomicBool::new(false);
    let stopped_ns = AtomicU64::new(u64::MAX);
    let next_ns = AtomicU64::new(0);
    let ledger = at_once(writers, |writer| {
        let recorder = Mutex::new(Recorder::new(run.window, false));
        let mut ledger = Ledger::default();
        let mut keys = KeySource::new(run.case, writer as u64);
        start.wait();
        let row = LiveRow {
            run,
            begun: *begun.lock().get_or_insert_with(Instant::now),
        };
        let mut now_ns = row.now_ns();
        let mut id = writer as u64;
        let mut refused = 0;
        let ends = || stop.load(Ordering::Relaxed) || run.stop.load(Ordering::Relaxed);
        while now_ns < run.window.to_ns && !ends() && row.wait_for_turn(&next_ns) {
            now_ns = row.now_ns();
            let wanted = PlannedWrite {
                id,
                key: keys.draw(),
                at_ns: now_ns,
            };
            id += writers as u64;
            let done = row.write(
                wanted,
                READ_BACK_CLOSED,
                &mut refused,
                &mut ledger,
                &recorder,
            );
            now_ns = done.inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        }
        if let Some(now_ns) = row.stopped_ns() {
            stopped_ns.fetch_min(now_ns, Ordering::Relaxed);
        }
        all.lock().add(&recorder.into_inner().tally);
        Ok(ledger)
    })?;
    let stopped_ns = stopped_ns.into_inner();
    Ok(RunResult {
        tally: all.into_inner(),
        timeline: None,
        ledger,
        activation: None,
        stopped_ns: (stopped_ns < u64::MAX).then_some(stopped_ns),
    })
}

/// Runs `work` on `threads` threads to its end, and adds up the ledgers.
fn at_once(threads: usize, work: impl Fn(usize) -> Result<Ledger> + Sync) -> Result<Ledger> {
    let mut all = Ledger::default();
    on_threads(threads, work)?
        .into_iter()
        .for_each(|ledger| all.add(ledger));
    Ok(all)
}

#[cfg(test)]
mod tests;
