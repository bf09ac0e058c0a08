//! The contention harness: writers on hot keys, and what becomes of their writes.
//!
//! A [`Case`] says who writes when (an open loop at a rate, or a closed one of so many writers), to how many records
//! ([`Layout`]), and how ([`Settings`]). [`measure`] runs one in a store of its own and returns its [`Row`]; a
//! [`Run`] of many is judged and reported.
//!
//! * `case`, `layout`, `place`: what is measured, and which record a write goes to.
//! * `schedule`, `chance`: when writes come, drawn from the seed alone.
//! * `queue`, `simulate`: a run on a virtual clock, by the engine's own queue rule. `live`: a run on the engine itself.
//!   `activation`: shards that come to be while a row runs.
//! * `target`, `collection`, `element`: the store that is written to, through the library's sharded handles where there is
//!   one. `puts`: what the values of puts tell. `held`: holds, simulated by a second lock. `ledger`: acknowledged = found; `journal`: the same as a file, and
//!   `recheck`: a store on disk compared with it, after its process was killed.
//! * `measure`, `row`, `theory`: what is counted, as figures, beside what queueing theory expects.
//! * `judge`, `threshold`, `baseline`: knees, the guideline of 50 writes a second, limits, an earlier run.
//! * `run`, `document`, `findings`, `words`, `charts`, `csv`, `hdr`: the report, its pictures, HdrHistogram files.

mod activation;
mod baseline;
mod case;
mod chance;
mod charts;
mod collection;
mod csv;
mod document;
mod element;
mod findings;
mod hdr;
mod held;
mod journal;
mod judge;
mod layout;
mod ledger;
mod live;
mod measure;
mod place;
mod puts;
mod queue;
mod recheck;
mod row;
mod run;
mod schedule;
mod simulate;
mod target;
#[cfg(test)]
mod testing;
mod theory;
mod threshold;
mod words;

pub use activation::Activation;
pub use baseline::{Baseline, Change, Verdict};
pub use case::{
    ARRIVALS_MAX, Case, HOT_KEYS_MAX, Hold, Load, RATE_MAX, Settings, Spread, WRITERS_MAX, Write,
};
pub use hdr::write as write_histograms;
pub use judge::{BUSY_KNEE, CALM, Finding, Guideline, Knees, LATENCY_KNEE, WARM};
pub use layout::Layout;
pub use ledger::Correctness;
pub use recheck::{Recheck, Rechecked, recheck};
pub use row::{Measured, Moment, Row, Shards};
pub use run::{Judging, Run, SCHEMA_VERSION};
pub use threshold::{Condition, Demand, Judged};

use crate::Result;

use self::measure::Window;
use self::target::Target;

/// Runs one case in a fresh store. It takes the time of its settings, or as long as it takes on a virtual clock.
///
/// # Errors
/// What the store refuses beyond what the row counts.
pub fn measure(case: &Case) -> Result<Measured> {
    let settings = &case.settings;
    let from_ns = settings.warm_up.as_nanos() as u64;
    let window = Window {
        from_ns,
        to_ns: from_ns + settings.duration.as_nanos() as u64,
    };
    let target = Target::new(case)?;
    let (recorder, ledger, activation) = if settings.is_virtual {
        let (recorder, ledger) = simulate::simulate(case, &target, window)?;
        (recorder, ledger, None)
    } else {
        live::run(case, &target, window)?
    };
    let correctness = target.check(&ledger)?;
    let hold_us = if settings.is_virtual {
        Some(settings.hold.mean.as_secs_f64() * 1e6)
    } else {
        target.held().mean_hold_ns().map(|nanos| nanos / 1e3)
    };
    target.close()?;
    let threads = (!settings.is_virtual).then(|| live::open_threads(case));
    let tally = recorder.tally;
    let row = Row::new(case, window, &tally, &correctness, threads, hold_us);
    Ok(Measured {
        case: case.clone(),
        row,
        correctness,
        timeline: row::timeline(&tally, window, activation.as_ref()),
        activation,
        latency: tally.latency,
    })
}
