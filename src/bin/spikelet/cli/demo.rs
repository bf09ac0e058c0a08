//! `spikelet demo`: a follow graph as a `ManyToMany`, bidirectional ordered lists of keys, from
//! file to check. `graph`: its edges in memory.

mod graph;

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use spikelet::relation::ManyToMany;
use spikelet::{Namespace, NamespaceConfig, RetryPolicy, Store, WritePolicy};

use self::graph::{Follow, generate, parse};
use super::CommandOutcome;
use super::print::{ProgressUnit, emit_found, empty, progress};
use crate::failure::{CommandFailure, Result};
use crate::report::{Report, Section, bytes, count, duration, key, micros};
use crate::threads::{INTERRUPTED, for_each};

/// The demo has a namespace of its own.
const NAMESPACE: &str = "demo";
/// The set of nodes, with both lists of a node in its record.
const SET: &str = "users";

/// The hubs of a large graph need all the room that a record can have.
const MAX_RECORD_BYTES: u64 = 8 << 20;

/// As many nodes as the GitHub follow graph has that `--edges` was tried with.
const DEFAULT_NODES: u32 = 37_700;

/// More would need more memory than a demo should.
const NODES_MAX: i64 = 20_000_000;

/// How many followers a page has.
const PAGE: u64 = 10;

/// The arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Keep the store in this directory, which is new or empty [default: a temporary one, removed
    /// at the end].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Load this edge list, `a b` or `a,b` a line, `-` for standard input; further columns, such as
    /// a weight, are ignored [default: make a graph].
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    edges: Option<PathBuf>,
    /// Nodes of the graph that is made, with 7.7 edges each.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_NODES, value_parser = clap::value_parser!(u32).range(2..=NODES_MAX))]
    nodes: u32,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// The object that `--json` prints.
#[derive(Debug, Default, Serialize)]
struct DemoFigures {
    nodes: u64,
    edges: u64,
    load_s: f64,
    edges_per_s: u64,
    /// Of an edge.
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    /// How often a writer had to wait for a record.
    waits: u64,
    /// How often a write was refused with KEY_BUSY, and repeated.
    key_busy: u64,
    bytes_on_device: u64,
    reopen_ms: f64,
    from_snapshot: bool,
    /// Edges that are there on both sides.
    verified_edges: u64,
    missing_edges: u64,
}

impl DemoArguments {
    /// Returns the graph, read or generated, and a description of its source.
    fn graph(&self) -> Result<(Vec<Follow>, String)> {
        let Some(file) = &self.edges else {
            return Ok((
                generate(self.nodes),
                "made (--edges FILE loads your own)".to_owned(),
            ));
        };
        let (name, read) = if file.as_os_str() == "-" {
            let mut text = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut text);
            ("standard input".to_owned(), read.map(|_| text))
        } else {
            (file.display().to_string(), std::fs::read(file))
        };
        let text =
            read.map_err(|error| CommandFailure::Input(format!("cannot read {name}: {error}")))?;
        let edges =
            parse(&text).map_err(|wrong| CommandFailure::Input(format!("{name}:{wrong}")))?;
        Ok((edges, name))
    }
}

/// Runs the demo.
///
/// # Errors
/// An edge list that is malformed, a directory that cannot be used, what the store refuses.
pub(crate) fn run(arguments: &DemoArguments) -> Result<CommandOutcome> {
    // All of the input is judged before there is a store.
    let (edges, source) = arguments.graph()?;
    let temporary = match &arguments.dir {
        Some(dir) => empty(dir).map(|()| None)?,
        None => Some(temporary()?),
    };
    let dir = temporary.as_ref().map(tempfile::TempDir::path);
    let dir = dir.or(arguments.dir.as_deref()).unwrap_or(Path::new(""));
    let (store, namespace, follows) = open(dir)?;
    let mut figures = load(&follows, &edges)?;
    follows.declare()?;
    let answers = answers(&follows, &edges)?;
    let stats = namespace.stats();
    (figures.waits, figures.key_busy) = (stats.waits, stats.key_busy);
    figures.bytes_on_device = stats.device_bytes;
    store.close()?;
    drop((store, namespace, follows));

    let begun = Instant::now();
    let (store, namespace, follows) = open(dir)?;
    figures.reopen_ms = begun.elapsed().as_secs_f64() * 1e3;
    figures.from_snapshot = namespace.opening().from_snapshot;
    figures.verified_edges = check(&follows, &edges)?;
    figures.missing_edges = figures.edges - figures.verified_edges;
    store.close()?;
    emit_found(arguments.json, "demo", &figures, || {
        figures.report(arguments.dir.as_deref(), &source, answers)
    })?;
    if let Some(temporary) = temporary {
        let place = temporary.path().display().to_string();
        let failed = |error| CommandFailure::Input(format!("cannot remove {place}: {error}"));
        temporary.close().map_err(failed)?;
    }
    Ok(CommandOutcome::Damaged.only_if(figures.missing_edges > 0))
}

/// Makes a directory that is removed at the end, and when the process is asked to end.
fn temporary() -> Result<tempfile::TempDir> {
    let made = tempfile::Builder::new().prefix("spikelet-demo-").tempdir();
    let dir = made.map_err(|error| {
        let parent = std::env::temp_dir();
        CommandFailure::Input(format!(
            "cannot make a directory in {}: {error}; name one with --dir",
            parent.display()
        ))
    })?;
    let path = dir.path().to_owned();
    // Without a handler an interrupted demo leaves its directory behind, nothing worse.
    let _ = ctrlc::set_handler(move || {
        let _ = std::fs::remove_dir_all(&path);
        std::process::exit(INTERRUPTED.into());
    });
    Ok(dir)
}

fn open(dir: &Path) -> spikelet::Result<(Store, Namespace, ManyToMany<Namespace>)> {
    let mut config = NamespaceConfig::new(NAMESPACE);
    config.max_record_bytes = MAX_RECORD_BYTES;
    let store = Store::builder().path(dir).namespace(config).open()?;
    let namespace = store.namespace(NAMESPACE)?;
    let (following, followers) = ((SET, "following"), (SET, "followers"));
    let follows = ManyToMany::new(namespace.clone(), "follows", following, followers)
        // Wait however long the queue takes; a full queue refuses at once.
        .write_policy(&WritePolicy::default().total_timeout(None));
    Ok((store, namespace, follows))
}

/// Returns how many threads load and check.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, |cores: NonZeroUsize| cores.get().max(2))
}

/// Loads all edges, in the order of the graph.
fn load(follows: &ManyToMany<Namespace>, edges: &[Follow]) -> Result<DemoFigures> {
    // A full device stays full, so it is not tried for ever.
    let patience = RetryPolicy::default()
        .max_attempts(10_000)
        .first_pause(Duration::from_micros(2))
        .max_pause(Duration::from_millis(1));
    let number = edges.len() as u64;
    let bar = progress("loading", number, ProgressUnit::Count("edges"));
    let begun = Instant::now();
    let mut times = for_each(edges, threads(), |[from, to]| {
        let begun = Instant::now();
        let linked = patience.retry(|| follows.link(from, to));
        bar.inc(1);
        linked.map(|_| begun.elapsed())
    })?;
    let load_s = begun.elapsed().as_secs_f64();
    bar.finish_and_clear();
    times.sort_unstable();
    let at = |share: f64| {
        let rank = (share * times.len() as f64).ceil() as usize;
        let time = times.get(rank.saturating_sub(1)).copied();
        time.unwrap_or_default().as_secs_f64() * 1e6
    };
    Ok(DemoFigures {
        nodes: edges.iter().flatten().collect::<HashSet<_>>().len() as u64,
        edges: number,
        load_s,
        edges_per_s: (number as f64 / load_s).round() as u64,
        p50_us: at(0.5),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: at(1.0),
        ..DemoFigures::default()
    })
}

/// Asks the store some questions and builds the section of its answers.
fn answers(follows: &ManyToMany<Namespace>, edges: &[Follow]) -> Result<Section> {
    let mut section = Section::new("Questions");
    if let Some([one, other]) = edges.first() {
        for (from, to) in [(one, other), (other, one)] {
            let is_there = follows.contains(from, to)?;
            section = section.fact(
                format!("does {} follow {}?", key(from), key(to)),
                if is_there { "yes" } else { "no" },
            );
        }
    }
    let mut followers = HashMap::new();
    for [_, to] in edges {
        *followers.entry(to).or_insert(0) += 1;
    }
    let Some((star, number)) = followers.into_iter().max_by_key(|(_, number)| *number) else {
        return Ok(section);
    };
    let list = follows.sources(star);
    let begun = Instant::now();
    let page = list.page(0, PAGE)?;
    let paged = begun.elapsed();
    list.fetch(0, PAGE)?;
    let fetched = begun.elapsed() - paged;
    let first = format!("the first {}, read in {}", page.len(), duration(paged));
    let records = format!("read in {}", duration(fetched));
    Ok(section
        .fact(
            "the most followed",
            format!("{}, by {}", key(star), count(number)),
        )
        .fact("a page of followers", first)
        .fact("and their records", records))
}

/// Returns how many edges are there on both sides. One that cannot be read is not.
fn check(follows: &ManyToMany<Namespace>, edges: &[Follow]) -> Result<u64> {
    let bar = progress("checking", edges.len() as u64, ProgressUnit::Count("edges"));
    let found = for_each(edges, threads(), |[from, to]| {
        bar.inc(1);
        let sides = [
            follows.targets(from).contains(to),
            follows.sources(to).contains(from),
        ];
        Ok::<_, CommandFailure>(sides.iter().all(|side| matches!(side, Ok(true))))
    })?;
    bar.finish_and_clear();
    Ok(found.into_iter().map(u64::from).sum())
}

impl DemoFigures {
    fn report(&self, dir: Option<&Path>, source: &str, answers: Section) -> Report {
        let (edges, took) = (count(self.edges), micros(self.load_s * 1e6));
        let fate = dir.map_or_else(
            || "a temporary directory, removed at the end".to_owned(),
            |dir| dir.display().to_string(),
        );
        let latencies = format!(
            "p50 {}, p99 {}, p99.9 {}, longest {}",
            micros(self.p50_us),
            micros(self.p99_us),
            micros(self.p999_us),
            micros(self.max_us)
        );
        let loading = Section::new("Loading")
            .paragraph(
                "Edges A -> B add B to A's \"following\" and A to B's \"followers\", at once.",
            )
            .fact("store", fate)
            .fact("edges", format!("{edges} in {took}, {} threads", threads()))
            .fact("edges a second", count(self.edges_per_s))
            .fact("latency of an edge", latencies)
            .fact("waited for a record", count(self.waits) + " times")
            .fact("KEY_BUSY", count(self.key_busy) + ", repeated")
            .fact("on the device", bytes(self.bytes_on_device));
        let how = if self.from_snapshot {
            "from the index snapshot"
        } else {
            "by reading the log"
        };
        let opened = format!("{}, {how}", micros(self.reopen_ms * 1e3));
        let verified = format!("{} of {edges}", count(self.verified_edges));
        let reopened = Section::new("After closing and opening again")
            .fact("opened in", opened)
            .fact("edges on both sides", verified)
            .fact("missing edges", count(self.missing_edges));
        Report::new("The follow graph")
            .fact("source", source)
            .fact("nodes", count(self.nodes))
            .fact("edges", edges)
            .section(loading)
            .section(answers)
            .section(reopened)
    }
}
