//! spikelet beside other embedded stores: the same keys, values and loop, in one interleaved run.
//!
//! Read `plan.rs` for what can be asked, `measure.rs` for how it is measured, `records.rs` and
//! `lists.rs` for what is measured, `stores/` for how each store is used.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

mod cost;
mod disk;
mod draw;
mod lists;
mod measure;
mod plan;
mod records;
mod report;
mod stores;

use clap::Parser;
use cost::Meter;
use plan::{Phase, Plan};
use report::{Overhead, Report};
use std::fs;
use stores::{PeerStore, StoreName};
use tempfile::TempDir;

/// Errors only end the run, so any will do.
type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A store in a directory of its own, which goes when the store does.
struct Opened {
    store: Box<dyn PeerStore>,
    dir: TempDir,
}

impl Opened {
    fn new(name: StoreName, plan: &Plan) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("peers-")
            .tempdir_in(plan.dir())?;
        Ok(Self {
            store: name.open(dir.path())?,
            dir,
        })
    }
}

fn main() -> Result<()> {
    let plan = Plan::parse();
    fs::create_dir_all(plan.dir())?;
    let file_system = disk::file_system(&plan.dir())?;
    println!("stores in {} ({file_system})", plan.dir().display());
    // More than this run itself makes of it, and the figures are those of a shared machine.
    println!(
        "load average {}",
        fs::read_to_string("/proc/loadavg")?.trim_end()
    );
    for store in &plan.stores {
        println!("{} {}", store.name(), store.version());
    }
    let overhead = Overhead {
        clock_ns: measure::clock_ns(),
        loop_ns: records::loop_ns(plan.records())?,
        codec_ns: lists::codec_ns()?,
    };

    let mut report = Report::default();
    for round in 0..plan.rounds() {
        run_round(&plan, round, &mut report)?;
    }

    print!("{}", report.table(&plan, overhead)?);
    if let Some(file) = &plan.json {
        let json = report.json(&plan, overhead, &file_system)?;
        fs::write(file, serde_json::to_vec_pretty(&json)?)?;
    }
    Ok(())
}

fn run_round(plan: &Plan, round: usize, report: &mut Report) -> Result<()> {
    if plan.phases().any(|phase| phase == Phase::Load) {
        for threads in plan.threads() {
            for name in plan.stores_of(round) {
                eprintln!(
                    "round {}: {}, records, {threads} thread(s)",
                    round + 1,
                    name.name()
                );
                run_records(plan, round, threads, name, report)?;
            }
        }
    }
    if plan.phases().any(|phase| phase == Phase::Lists) {
        for name in plan.stores_of(round) {
            eprintln!("round {}: {}, lists", round + 1, name.name());
            let opened = Opened::new(name, plan)?;
            let (store, dir) = (opened.store.as_ref(), opened.dir.path());
            let (measured, cost) = lists::run(store, dir, plan.lists(), round, plan.list_span())?;
            report.add(Phase::Lists, 1, name, measured, cost);
        }
    }
    Ok(())
}

fn run_records(
    plan: &Plan,
    round: usize,
    threads: usize,
    name: StoreName,
    report: &mut Report,
) -> Result<()> {
    let opened = Opened::new(name, plan)?;
    let (store, dir, records) = (opened.store.as_ref(), opened.dir.path(), plan.records());
    for phase in plan.phases() {
        let meter = Meter::start(store, dir)?;
        let measured = match phase {
            Phase::Lists => continue,
            Phase::Load => records::load(store, records, threads)?,
            _ => records::run(store, phase, records, threads, round, plan.span())?,
        };
        report.add(phase, threads, name, measured, meter.stop(store, dir)?);
    }
    Ok(())
}
