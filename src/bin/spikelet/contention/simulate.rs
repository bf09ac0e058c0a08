//! A row on a virtual clock: a discrete-event simulation, the same for the same seed on every
//! machine.
//!
//! Time is simulated: when writes come, how they queue ([`admits`], the engine's rule) and how long
//! each holds its record. Admitted writes are really made to an in-memory store when their holds
//! end, so that acknowledged can be compared with found here, too. Calls take no time.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::Ordering;

use super::case::Arrivals;
use super::ledger::Ledger;
use super::measure::Recorder;
use super::routing::HotRoute;
use super::schedule::{Holds, KeySource, PlannedWrite, arrivals};
use super::{RowRun, RunResult};
use crate::failure::Result;

/// A write on its way.
#[derive(Clone, Copy, Debug)]
struct PendingWrite {
    wanted: PlannedWrite,
    /// When it was sent for the last time.
    sent_ns: u64,
    /// How often it was refused.
    refused: u32,
    /// Which writer of a closed loop sent it.
    writer: usize,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A hold ends.
    Done(HotRoute),
    /// A write is sent.
    Send(PendingWrite),
}

/// Returns whether a writer that comes gets into the queue of a record that has this many writers,
/// the served one among them. The rule is that of the engine's record lock: one is served, at most
/// `max_waiters` (`None`: any number) wait in the order in which they came, and a writer that comes
/// while that many wait is refused at once. So an acknowledged writer was in the queue for at most
/// `max_waiters + 1` holds. A test holds the rule and the lock side by side.
fn admits(in_queue: usize, max_waiters: Option<usize>) -> bool {
    max_waiters.is_none_or(|most| in_queue <= most)
}

/// One row in the making.
struct Simulation<'a> {
    run: RowRun<'a>,
    /// The writers of each record, of which the first is served.
    queues: HashMap<HotRoute, VecDeque<PendingWrite>>,
    /// What is to happen, by time, and within one time in the order in which it was planned.
    agenda: BTreeMap<(u64, u64), Event>,
    planned: u64,
    holds: Holds,
    /// For each writer of a closed loop.
    keys: Vec<KeySource>,
    /// For each writer of a closed loop.
    refused_in_row: Vec<u32>,
    next_id: u64,
    recorder: Recorder,
    ledger: Ledger,
}

/// Runs a row to its end: until the last write that was wanted in time is done or refused.
///
/// # Errors
/// If the store cannot be written to.
pub(super) fn simulate(run: RowRun<'_>) -> Result<RunResult> {
    let (case, stop) = (run.case, run.stop);
    let writers = match case.load {
        Arrivals::Open { .. } => 0,
        Arrivals::Closed { writers } => writers,
    };
    let mut simulation = Simulation {
        run,
        queues: HashMap::new(),
        agenda: BTreeMap::new(),
        planned: 0,
        holds: Holds::new(case),
        keys: (0..writers)
            .map(|writer| KeySource::new(case, writer as u64))
            .collect(),
        refused_in_row: vec![0; writers],
        next_id: 0,
        recorder: Recorder::new(run.window, false),
        ledger: Ledger::default(),
    };
    (0..writers).for_each(|writer| simulation.write_next(writer, 0));
    let mut stopped_ns = None;
    match case.load {
        Arrivals::Open { rate } => {
            for wanted in arrivals(case, rate) {
                if stop.load(Ordering::Relaxed) {
                    stopped_ns = Some(wanted.at_ns);
                    break;
                }
                simulation.until(wanted.at_ns);
                simulation.send(PendingWrite {
                    wanted,
                    sent_ns: wanted.at_ns,
                    refused: 0,
                    writer: 0,
                });
            }
        }
        Arrivals::Closed { .. } => {
            while let Some(((due, _), _)) = simulation.agenda.first_key_value() {
                let due = *due;
                if stop.load(Ordering::Relaxed) {
                    stopped_ns = Some(due);
                    // No writer writes again.
                    simulation.keys.clear();
                    break;
                }
                simulation.until(due);
            }
        }
    }
    simulation.until(u64::MAX);
    Ok(RunResult {
        tally: simulation.recorder.tally,
        timeline: None,
        ledger: simulation.ledger,
        activation: None,
        stopped_ns,
    })
}

impl Simulation<'_> {
    /// Lets everything happen that is due up to this time.
    fn until(&mut self, time_ns: u64) {
        while let Some(next) = self.agenda.first_entry()
            && next.key().0 <= time_ns
        {
            match next.remove_entry() {
                ((now_ns, _), Event::Done(route)) => self.done(route, now_ns),
                (_, Event::Send(sent)) => self.send(sent),
            }
        }
    }

    fn plan(&mut self, time_ns: u64, event: Event) {
        self.agenda.insert((time_ns, self.planned), event);
        self.planned += 1;
    }

    fn send(&mut self, sent: PendingWrite) {
        let now_ns = sent.sent_ns;
        self.run.target.advance_to_ms(now_ns / 1_000_000);
        let route = self.run.target.route(sent.wanted.key, sent.wanted.id);
        let queue = self.queues.entry(route).or_default();
        if !admits(queue.len(), self.run.case.settings.max_waiters()) {
            return self.refused(sent);
        }
        queue.push_back(sent);
        if queue.len() == 1 {
            self.hold(route, now_ns);
        }
    }

    fn hold(&mut self, route: HotRoute, now_ns: u64) {
        let until_ns = now_ns + self.holds.draw_ns();
        self.plan(until_ns, Event::Done(route));
    }

    fn done(&mut self, route: HotRoute, now_ns: u64) {
        let queue = self.queues.entry(route).or_default();
        let Some(sent) = queue.pop_front() else {
            return;
        };
        if !queue.is_empty() {
            self.hold(route, now_ns);
        }
        if let Some(count) = self.refused_in_row.get_mut(sent.writer) {
            *count = 0;
        }
        self.run.target.advance_to_ms(now_ns / 1_000_000);
        let wanted = sent.wanted;
        match self.run.target.write(route, wanted.id, &mut self.ledger) {
            Ok(()) => self
                .recorder
                .acknowledged(wanted.at_ns, sent.sent_ns, now_ns),
            Err(error) => self.recorder.failed(wanted.at_ns, error.result_code()),
        }
        self.write_next(sent.writer, now_ns);
    }

    fn refused(&mut self, sent: PendingWrite) {
        let settings = &self.run.case.settings;
        let again = sent.refused < settings.retries;
        let (wanted_ns, now_ns) = (sent.wanted.at_ns, sent.sent_ns);
        let in_row = match self.refused_in_row.get_mut(sent.writer) {
            Some(count) => std::mem::replace(count, count.saturating_add(1)),
            None => sent.refused,
        };
        let later_ns = now_ns + settings.rest(in_row).as_nanos() as u64;
        self.recorder.refused(wanted_ns, again);
        if again {
            let again = PendingWrite {
                sent_ns: later_ns,
                refused: sent.refused + 1,
                ..sent
            };
            self.plan(later_ns, Event::Send(again));
        } else {
            self.write_next(sent.writer, later_ns);
        }
    }

    /// Plans a writer's next write in a closed loop.
    fn write_next(&mut self, writer: usize, now_ns: u64) {
        let Some(keys) = self.keys.get_mut(writer) else {
            return;
        };
        if now_ns >= self.run.window.to_ns {
            return;
        }
        let wanted = PlannedWrite {
            id: self.next_id,
            key: keys.draw(),
            at_ns: now_ns,
        };
        self.next_id += 1;
        let sent = PendingWrite {
            wanted,
            sent_ns: now_ns,
            refused: 0,
            writer,
        };
        self.plan(now_ns, Event::Send(sent));
    }
}

/// The result code of [`spikelet::Error::KeyBusy`].
pub(super) const KEY_BUSY: u8 = 14;

#[cfg(test)]
mod queue_tests;
#[cfg(test)]
mod tests;
