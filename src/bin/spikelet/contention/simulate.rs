//! A row on a virtual clock: a discrete-event simulation, the same for the same seed on every
//! machine.
//!
//! Time is simulated: when writes come, how they queue ([`RecordQueue`], the engine's rule)
//! and how long each holds its record. Admitted writes are really made to an in-memory store
//! when its hold ends, so that acknowledged can be compared with found here, too. Calls take no
//! time.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

use super::case::Arrivals;
use super::ledger::Ledger;
use super::measure::Recorder;
use super::queue::{Arrival, RecordQueue};
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

/// Events by time, and within one time in the order in which they were made.
#[derive(Debug, Default)]
struct Agenda {
    events: BTreeMap<(u64, u64), Event>,
    made: u64,
}

impl Agenda {
    fn at(&mut self, time_ns: u64, event: Event) {
        self.events.insert((time_ns, self.made), event);
        self.made += 1;
    }

    fn next_time(&self) -> Option<u64> {
        self.events
            .first_key_value()
            .map(|((time_ns, _), _)| *time_ns)
    }

    fn take(&mut self) -> Option<(u64, Event)> {
        let ((time_ns, _), event) = self.events.pop_first()?;
        Some((time_ns, event))
    }
}

/// One row in the making.
struct Simulation<'a> {
    run: RowRun<'a>,
    queues: HashMap<HotRoute, RecordQueue<PendingWrite>>,
    agenda: Agenda,
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
        agenda: Agenda::default(),
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
            while let Some(due) = simulation.agenda.next_time() {
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
        while self.agenda.next_time().is_some_and(|due| due <= time_ns) {
            match self.agenda.take() {
                Some((now_ns, Event::Done(route))) => self.done(route, now_ns),
                Some((_, Event::Send(sent))) => self.send(sent),
                None => return,
            }
        }
    }

    fn send(&mut self, sent: PendingWrite) {
        let now_ns = sent.sent_ns;
        self.run.target.advance_to_ms(now_ns / 1_000_000);
        let route = self.run.target.route(sent.wanted.key, sent.wanted.id);
        let max_waiters = self.run.case.settings.max_waiters();
        let queue = self
            .queues
            .entry(route)
            .or_insert_with(|| RecordQueue::new(max_waiters));
        match queue.arrive(sent) {
            Arrival::Served => self.hold(route, now_ns),
            Arrival::Queued => {}
            Arrival::Busy => self.refused(sent),
        }
    }

    fn hold(&mut self, route: HotRoute, now_ns: u64) {
        let until_ns = now_ns + self.holds.draw_ns();
        self.agenda.at(until_ns, Event::Done(route));
    }

    fn done(&mut self, route: HotRoute, now_ns: u64) {
        let Some(queue) = self.queues.get_mut(&route) else {
            return;
        };
        let left = queue.leave();
        if queue.served().is_some() {
            self.hold(route, now_ns);
        }
        let Some(sent) = left else { return };
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
            self.agenda.at(later_ns, Event::Send(again));
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
        self.agenda.at(now_ns, Event::Send(sent));
    }
}

/// The result code of [`spikelet::Error::KeyBusy`].
pub(super) const KEY_BUSY: u8 = 14;

#[cfg(test)]
mod tests;
