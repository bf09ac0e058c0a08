//! spikelet beside other embedded stores: the same keys, values and loop, in one interleaved run.
//!
//! `plan.rs` has the options, `measure.rs` the way of measuring; `records.rs`, `batches.rs`,
//! `lists.rs`, `queries.rs`, `transfers.rs` and `graph.rs` have the phases, `stores/` the use of
//! each store.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)
)]

mod batches;
mod cost;
mod disk;
mod draw;
mod edges;
mod graph;
mod lists;
mod measure;
mod memory;
mod plan;
mod queries;
mod records;
mod report;
mod stores;
mod transfers;

use clap::Parser;
use cost::Meter;
use edges::Edges;
use plan::{Phase, Plan, Session};
use report::{Overhead, Report};
use std::fs;
use std::path::Path;
use std::time::Duration;
use stores::{Commit, StoreName};
use tempfile::TempDir;

/// Errors only end the run, so any will do.
type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T> = std::result::Result<T, Error>;

/// A store in a directory of its own, which goes when the store does.
struct Opened<S: ?Sized> {
    store: Box<S>,
    dir: TempDir,
}

impl<S: ?Sized> Opened<S> {
    fn new(plan: &Plan, open: impl FnOnce(&Path) -> Result<Box<S>>) -> Result<Self> {
        memory::give_back();
        let dir = tempfile::Builder::new()
            .prefix("peers-")
            .tempdir_in(plan.dir())?;
        Ok(Self {
            store: open(dir.path())?,
            dir,
        })
    }

    /// Closes the store and opens it again, in another way.
    fn reopen(self, open: impl FnOnce(&Path) -> Result<Box<S>>) -> Result<Self> {
        let Self { store, dir } = self;
        drop(store);
        Ok(Self {
            store: open(dir.path())?,
            dir,
        })
    }
}

fn main() -> Result<()> {
    let plan = Plan::parse();
    fs::create_dir_all(plan.dir())?;
    let file_system = disk::file_system(&plan.dir())?;
    println!("stores in {} ({file_system})", plan.dir().display());
    // If the load is higher than this run's own, the figures come from a shared machine.
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

    let edges = plan.edges()?;
    if let Some(edges) = &edges {
        println!("graph of {edges}");
    }
    let mut report = Report::default();
    for round in 0..plan.rounds() {
        run_round(&plan, edges.as_ref(), round, &mut report)?;
    }

    print!("{}", report.table(&plan, overhead)?);
    if let Some(file) = &plan.json {
        let json = report.json(&plan, overhead, &file_system)?;
        fs::write(file, serde_json::to_vec_pretty(&json)?)?;
    }
    Ok(())
}

fn run_round(plan: &Plan, edges: Option<&Edges>, round: usize, report: &mut Report) -> Result<()> {
    for threads in plan.threads() {
        for name in plan.stores_of(round) {
            let phases = plan.phases_of(Session::Records, name);
            if !phases.is_empty() {
                announce(round, name, &format!("records, {threads} thread(s)"));
                run_records(plan, round, threads, name, &phases, report)?;
            }
        }
    }
    for name in plan.stores_of(round) {
        if !plan.phases_of(Session::Lists, name).is_empty() {
            announce(round, name, "lists");
            let opened = Opened::new(plan, |dir| name.open(dir, Commit::Unsynced))?;
            let (store, dir) = (opened.store.as_ref(), opened.dir.path());
            let (measured, cost) = lists::run(store, dir, plan.lists(), round, plan.list_span())?;
            report.add(Phase::Lists, 1, name, measured, cost);
        }
    }
    for name in plan.stores_of(round) {
        let phases = plan.phases_of(Session::Durable, name);
        if !phases.is_empty() {
            announce(round, name, "durable");
            run_durable(plan, round, name, &phases, report)?;
        }
    }
    for name in plan.stores_of(round) {
        let phases = plan.phases_of(Session::Queries, name);
        if !phases.is_empty() {
            announce(round, name, "queries");
            queries::run(plan, round, name, &phases, report)?;
        }
    }
    run_transfers(plan, round, report)?;
    let Some(edges) = edges else { return Ok(()) };
    for name in plan.stores_of(round) {
        let phases = plan.phases_of(Session::Graph, name);
        if !phases.is_empty() {
            announce(round, name, "graph");
            graph::run(plan, edges, round, name, &phases, report)?;
        }
    }
    let bulk = plan
        .phases()
        .filter(|phase| phase.session() == Session::GraphBulk);
    for phase in bulk {
        for name in plan.stores_of(round).filter(|name| name.runs(phase)) {
            announce(round, name, &phase.name());
            graph::run_bulk(plan, edges, round, name, phase, report)?;
        }
    }
    Ok(())
}

fn run_transfers(plan: &Plan, round: usize, report: &mut Report) -> Result<()> {
    let durable = Phase::TransferDurable8;
    let unsynced = plan.threads().map(|threads| (Session::Transfers, threads));
    for (session, threads) in unsynced.chain([(durable.session(), durable.durable_threads())]) {
        for name in plan.stores_of(round) {
            let phases = plan.phases_of(session, name);
            if !phases.is_empty() {
                announce(round, name, &format!("{session:?}, {threads} thread(s)"));
                transfers::run(plan, round, threads, name, &phases, report)?;
            }
        }
    }
    Ok(())
}

fn announce(round: usize, name: StoreName, session: &str) {
    eprintln!("round {}: {}, {session}", round + 1, name.name());
}

fn run_records(
    plan: &Plan,
    round: usize,
    threads: usize,
    name: StoreName,
    phases: &[Phase],
    report: &mut Report,
) -> Result<()> {
    let opened = Opened::new(plan, |dir| name.open(dir, Commit::Unsynced))?;
    let (store, dir, records) = (opened.store.as_ref(), opened.dir.path(), plan.records());
    let meter = Meter::start(store, dir)?;
    let loaded = records::load(store, records, threads)?;
    let cost = meter.stop(store, dir, loaded.operations)?;
    if phases.contains(&Phase::Load) {
        report.add(Phase::Load, threads, name, loaded, cost);
    }
    for phase in phases.iter().copied().filter(|phase| *phase != Phase::Load) {
        let meter = Meter::start(store, dir)?;
        let warm_up = if matches!(phase, Phase::Overwrite | Phase::Mix) {
            records::warm_up(store, phase, records, threads, round, plan.warm_up())?
        } else {
            0
        };
        let measured = match phase {
            Phase::GetBatch => batches::get(store, records, threads, round, plan.span())?,
            _ => records::run(store, phase, records, threads, round, plan.span())?,
        };
        let cost = meter.stop(store, dir, warm_up + measured.operations)?;
        report.add(phase, threads, name, measured, cost);
    }
    Ok(())
}

fn run_durable(
    plan: &Plan,
    round: usize,
    name: StoreName,
    phases: &[Phase],
    report: &mut Report,
) -> Result<()> {
    /// Long enough to read some thousands of records back.
    const CHECK: Duration = Duration::from_millis(50);
    let records = plan.records();
    let opened = Opened::new(plan, |dir| name.open(dir, Commit::Unsynced))?;
    records::load(opened.store.as_ref(), records, 1)?;
    opened.store.sync()?;
    let opened = opened.reopen(|dir| name.open(dir, Commit::Synced))?;
    let (store, dir) = (opened.store.as_ref(), opened.dir.path());
    for phase in phases {
        let threads = phase.durable_threads();
        let meter = Meter::start(store, dir)?;
        let measured = match phase {
            Phase::Groups => batches::put_groups(store, records, round, plan.span())?,
            _ => records::run(store, *phase, records, threads, round, plan.span())?,
        };
        let cost = meter.stop(store, dir, measured.operations)?;
        report.add(*phase, threads, name, measured, cost);
    }
    records::run(store, Phase::Get, records, 1, round, CHECK)?;
    Ok(())
}
