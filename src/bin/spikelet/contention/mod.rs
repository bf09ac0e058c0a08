//! The contention harness: writers on hot keys, and the fate of their writes.
//!
//! A [`Case`] says how fast writes come (an open loop at a rate, or a closed one of some writers),
//! over which records they are distributed ([`RowLayout`]), and what they do ([`Settings`]).
//! [`measure()`] runs one case in a store of its own and returns its [`ReportRow`]; a
//! [`FinishedRun`] judges and reports many.
//!
//! * `case`, `layout`, `routing`: the rows, and the record and element of a write.
//! * `schedule`: when writes come, drawn from the seed alone.
//! * `simulate`: a run on a virtual clock, by the engine's queue rule. `live`: a run on the engine
//!   itself. `activation`: a collection sharded while its row runs.
//! * `scratch`: a set of a cluster that belongs to the run alone.
//! * `target`, `collection`: the store that is written to, through the library's sharded handles
//!   where there are any. `put_history`: which put may be the last. `hold`: holds, simulated by a
//!   second lock.
//! * `ledger`: acknowledged writes compared with those found; `journal`: the ledger as a file;
//!   `check_stored`: a store on disk compared with its ledger after its process was killed.
//! * `measure`, `row`, `theory`: the figures of a row, beside what queueing theory expects;
//!   `processors`: how busy this machine was meanwhile. [`crate::verdict`] opens the report.
//! * `judge`, `threshold`: knees, the guideline of 50 writes a second, limits. `comparison`:
//!   another run, row by row, and whether two rows differ by more than their repeats do.
//! * `run`, `document`, `format`, `charts`, `hdr`: the report, its pictures, HdrHistogram files.

mod activation;
mod case;
mod charts;
mod check_stored;
mod collection;
mod comparison;
mod document;
pub(crate) mod format;
mod hdr;
mod hold;
mod journal;
mod judge;
mod layout;
mod ledger;
mod live;
mod measure;
mod processors;
mod put_history;
mod routing;
mod row;
mod run;
mod schedule;
#[cfg(feature = "cluster")]
mod scratch;
mod simulate;
mod target;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod theory;
mod threshold;

#[cfg(feature = "cluster")]
pub(crate) use case::ClusterSettings;
pub(crate) use case::{Arrivals, Case, Settings, Spread};
pub(crate) use check_stored::check_stored;
pub(crate) use comparison::OtherRun;
pub(crate) use hdr::write as write_histograms;
pub(crate) use judge::{BUSY_KNEE, Finding};
pub(crate) use layout::RowLayout;
pub(crate) use row::{Measurement, ReportRow};
pub(crate) use run::{Criteria, FinishedRun, Interruption, SCHEMA_VERSION};
#[cfg(feature = "cluster")]
pub(crate) use scratch::ScratchSet;
pub(crate) use target::RowPlace;
pub(crate) use threshold::RowCondition;

use std::sync::atomic::AtomicBool;

use self::ledger::Ledger;
use self::measure::{MeasuredWindow, Tally, TimedWrite};
use self::processors::ProcessorTimes;
use self::target::HotTarget;
use crate::failure::Result;
pub(crate) use activation::Activation;

/// Runs one case in a fresh store. It takes the time of its settings, or as long as it takes on a
/// virtual clock.
///
/// # Errors
/// What the store refuses beyond what the row counts.
#[cfg(test)]
pub(crate) fn measure(case: &Case) -> Result<Measurement> {
    let never = AtomicBool::new(false);
    Ok(measure_until(case, &RowPlace::Embedded, &never)?.expect("it was not interrupted"))
}

/// Runs one case in a fresh store, or in the set of a cluster, to its end or until `stop` is true.
/// `None`: it was stopped before anything was measured.
///
/// # Errors
/// What the store refuses beyond what the row counts.
pub(crate) fn measure_until(
    case: &Case,
    place: &RowPlace,
    stop: &AtomicBool,
) -> Result<Option<Measurement>> {
    let settings = &case.settings;
    let from_ns = settings.warm_up.as_nanos() as u64;
    let mut window = MeasuredWindow {
        from_ns,
        to_ns: from_ns + settings.duration.as_nanos() as u64,
    };
    let target = HotTarget::new(case, place)?;
    let run = RowRun {
        case,
        target: &target,
        window,
        stop,
    };
    let began = ProcessorTimes::now().filter(|_| !settings.is_virtual);
    let ran = if settings.is_virtual {
        simulate::simulate(run)?
    } else {
        live::run(run)?
    };
    let processors_busy = began
        .zip(ProcessorTimes::now())
        .and_then(|(began, now)| now.busy_since(began));
    let correctness = target.check(&ran.ledger)?;
    let hold_us = if settings.is_virtual {
        Some(settings.hold.mean.as_secs_f64() * 1e6)
    } else {
        target.held.mean_hold_ns().map(|nanos| nanos / 1e3)
    };
    target.close()?;
    let full = window;
    if let Some(stopped_ns) = ran.stopped_ns {
        window.to_ns = window.to_ns.min(stopped_ns);
    }
    if window.to_ns <= window.from_ns {
        return Ok(None);
    }
    let threads = (!settings.is_virtual).then(|| live::open_threads(case));
    let seconds = window.seconds();
    let mut row = ReportRow::new(case, seconds, &ran.tally, correctness, threads, hold_us);
    row.processors_busy = processors_busy;
    if let Some(activation) = &ran.activation {
        let writes = ran.timeline.as_deref().unwrap_or_default();
        row.phases = activation.phases(writes, window);
        row.moments = activation::timeline(writes, full, activation);
    }
    row.activation = ran.activation;
    Ok(Some(Measurement {
        case: case.clone(),
        row,
        tally: ran.tally,
        seconds,
        is_partial: ran.stopped_ns.is_some(),
        threads,
    }))
}

/// A row that is run.
#[derive(Clone, Copy)]
struct RowRun<'a> {
    case: &'a Case,
    target: &'a HotTarget,
    window: MeasuredWindow,
    /// Becomes true when the row is to end before its time.
    stop: &'a AtomicBool,
}

/// The result of running a row.
struct RunResult {
    tally: Tally,
    /// Each write of a row with a timeline.
    timeline: Option<Vec<TimedWrite>>,
    ledger: Ledger,
    activation: Option<Activation>,
    /// When it was stopped before its end, in nanoseconds from its beginning.
    stopped_ns: Option<u64>,
}
