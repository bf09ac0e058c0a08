//! The demo's report, section by section.

use std::time::{Duration, Instant};

use spikelet::storage::Stats;

use super::{DemoArguments, DurabilityArgument, ReopenResult, per_second};
use crate::cli::Failure;
use crate::cli::adjacency::{Adjacency, RecordSummary, Side};
use crate::cli::graph::Graph;
use crate::cli::load::{EdgeForm, LoadResult};
use crate::cli::store_dir::StoreDir;
use crate::report::{Cell, Report, Section, Table, bytes, count, decimal, duration, key};

/// How many followers a page has.
const PAGE: u64 = 10;

/// Builds the report, which begins with the graph.
pub(super) fn graph(graph: &Graph, source: &str) -> Report {
    let longest = count(graph.max_degree().into());
    Report::new("The follow graph")
        .fact("source", source)
        .fact("nodes", count(graph.ids.len() as u64))
        .fact("edges", count(graph.edges.len() as u64))
        .fact("longest list", format!("{longest} elements"))
}

/// Builds the section on loading. `waits`: how often a writer had to wait for a record.
pub(super) fn loading(
    arguments: &DemoArguments,
    graph: &Graph,
    store_dir: &StoreDir,
    loaded: &LoadResult,
    waits: u64,
) -> Section {
    let fate = if matches!(store_dir, StoreDir::Kept(_)) {
        "kept"
    } else {
        "removed at the end"
    };
    let durability = match arguments.durability {
        DurabilityArgument::Process => {
            "process: survives a killed process, synced when the system likes"
        }
        DurabilityArgument::Interval => "interval: synced every 100 ms",
        DurabilityArgument::Commit => "commit: each write waits for a sync",
    };
    let (edges, threads) = (count(graph.edges.len() as u64), arguments.threads());
    let rate = count(per_second(graph, loaded) as u64);
    let latency = |quantile| {
        let nanos = loaded.latency.value_at_quantile(quantile);
        duration(Duration::from_nanos(nanos))
    };
    let latencies = format!(
        "p50 {}, p99 {}, p99.9 {}, longest {}",
        latency(0.5),
        latency(0.99),
        latency(0.999),
        latency(1.0)
    );
    let busy = match (loaded.key_busy, arguments.max_waiters) {
        (0, _) => "no write was refused".to_owned(),
        (busy, limit) => format!(
            "{} writes refused as {limit} writers waited already, and repeated",
            count(busy)
        ),
    };
    let (what, hint) = match arguments.form() {
        EdgeForm::Transaction => (
            "Each edge A -> B adds B to A's \"following\" and A to B's \"followers\", in one transaction.",
            "what the transaction costs: compare with `demo --plain`, and `demo --batch 10000`",
        ),
        EdgeForm::Batches(_) => (
            "Edges A -> B of a batch add all new B to A's \"following\", and all new A to B's \"followers\", at once.",
            "a process that dies leaves whole batches",
        ),
        EdgeForm::TwoAppends => (
            "Each edge A -> B appends B to A's \"following\", and then A to B's \"followers\".",
            "a process that dies in between leaves one side of an edge",
        ),
    };
    let latency_of = match arguments.batch {
        Some(_) => "latency of a batch",
        None => "latency of an edge",
    };
    Section::new("Loading")
        .paragraph(what)
        .fact("store", format!("{} ({fate})", store_dir.path().display()))
        .fact("durability", durability)
        .fact(
            "edges",
            format!(
                "{edges} in {} from {threads} threads",
                duration(loaded.time)
            ),
        )
        .fact(
            "throughput",
            format!("{rate} edges a second, two lists each"),
        )
        .fact("note", hint)
        .fact(latency_of, latencies)
        .fact("waited for a record", format!("{} times", count(waits)))
        .fact("KEY_BUSY", busy)
        .fact(
            "begun again",
            format!(
                "{} transactions, for others at the same records",
                count(loaded.conflicts)
            ),
        )
}

/// Asks the store some questions and builds the section of its answers.
pub(super) fn answers(adjacency: &Adjacency, graph: &Graph) -> Result<Section, Failure> {
    let mut section = Section::new("Questions");
    if let Some(edge) = graph.edges.first() {
        for (from, to) in [(edge.from, edge.to), (edge.to, edge.from)] {
            let (key_from, key_to) = (graph.ids.key(from), graph.ids.key(to));
            let is_there = adjacency.list(key_from, Side::Following).contains(key_to)?;
            let (from, to) = (key(&graph.ids.key(from)), key(&graph.ids.key(to)));
            section = section.fact(
                format!("does {from} follow {to}?"),
                if is_there { "yes" } else { "no" },
            );
        }
    }
    let star = graph.most_followed();
    let followers = graph.followers.get(star as usize);
    let followers = count(followers.copied().unwrap_or_default().into());
    let star = graph.ids.key(star);
    section = section.fact(
        "the most followed",
        format!("{}, by {followers}", key(&star)),
    );
    let begun = Instant::now();
    let page = adjacency
        .list(star.clone(), Side::Followers)
        .page(0, PAGE)?;
    let paged = begun.elapsed();
    let begun = Instant::now();
    adjacency.list(star, Side::Followers).fetch(0, PAGE)?;
    let fetched = begun.elapsed();
    Ok(section
        .fact(
            "a page of followers",
            format!("the first {}, read in {}", page.len(), duration(paged)),
        )
        .fact(
            "and their records",
            format!("read in {}", duration(fetched)),
        ))
}

pub(super) fn space(stats: &Stats) -> Section {
    let amplification = stats.traffic.write_amplification();
    let each = decimal(stats.index_bytes_per_record(), 1);
    Section::new("Space")
        .fact("live records", bytes(stats.live_bytes))
        .fact("on the device", bytes(stats.device_bytes))
        .fact(
            "write amplification",
            format!("{amplification:.2} bytes of log for each byte asked for"),
        )
        .fact(
            "index, in memory",
            format!("{}, {each} bytes a record", bytes(stats.index_bytes)),
        )
}

pub(super) fn reopening(graph: &Graph, reopened: &ReopenResult) -> Section {
    let checked = &reopened.checked;
    let records = &checked.records;
    let how = if reopened.from_snapshot {
        "from the index snapshot"
    } else {
        "by reading the log"
    };
    let (verified, edges) = (
        count(checked.verified_edges),
        count(graph.edges.len() as u64),
    );
    let lengths = |place: usize| {
        move |record: &&RecordSummary| Cell::count(record.lengths.get(place).copied().flatten())
    };
    let largest = Table::of(
        "The largest records, by their size on the device",
        &records.largest,
        &[
            ("key", &|record| Cell::text(&record.name)),
            ("following", &lengths(0)),
            ("followers", &lengths(1)),
            ("size", &|record| Cell::bytes(record.bytes)),
        ],
    );
    Section::new("After closing and opening again")
        .fact("opened in", format!("{}, {how}", duration(reopened.time)))
        .fact("edges on both sides", format!("{verified} of {edges}"))
        .fact("missing edges", count(checked.missing_edges))
        .fact("lists out of their order", count(checked.wrong_orders))
        .fact("lists of a wrong size", count(checked.wrong_sizes))
        .fact(
            "lists over several records",
            format!(
                "{}, {} companions",
                count(records.sharded),
                count(records.companions)
            ),
        )
        .table(largest)
}
