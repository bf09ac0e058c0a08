//! `spikelet demo`: a follow graph as a `ManyToMany`, bidirectional ordered lists of keys, from
//! file to check. `summary`: its report.

mod summary;

use std::io::Read;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use spikelet::storage::Stats;
use spikelet::{Durability, NamespaceConfig, Store};

use super::adjacency::Adjacency;
use super::check::{CheckResult, check};
use super::edges::{EdgeList, parse};
use super::generate::{edges_max, generate};
use super::graph::Graph;
use super::load::{EdgeForm, LoadResult, load};
use super::print::{Unit, emit_found, note, progress};
use super::store_dir::StoreDir;
use super::{Failure, Outcome};
use crate::report::count;

/// The demo has a namespace of its own.
const NAMESPACE: &str = "demo";

/// The hubs of a large graph need all the room that a record can have.
const MAX_RECORD_BYTES: u64 = 8 << 20;

/// Nodes and edges of a graph that is made: as many as the GitHub follow graph has that `--edges`
/// was tried with.
const DEFAULT_NODES: u32 = 37_700;
const DEFAULT_EDGES: u64 = 289_003;

/// More would need more memory than a demo should.
const NODES_MAX: i64 = 20_000_000;

/// The smallest bound of a list in one record, in bytes. A shard describes itself in some 150
/// bytes, so that smaller ones hold more description than list, and never come down to their bound.
const SHARD_AT_MIN: u64 = 512;

/// Parses the bound of `--shard-at`.
fn shard_at(text: &str) -> Result<u64, String> {
    match super::size::parse(text)? {
        bytes if bytes < SHARD_AT_MIN => Err(format!(
            "a shard describes itself in some 150 bytes, so a bound of {bytes} bytes would be passed however many there are: \
             give at least {SHARD_AT_MIN}"
        )),
        bytes => Ok(bytes),
    }
}

/// The arguments of `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArguments {
    /// Keep the store in this directory [default: a temporary one, removed at the end].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Remove the records of an earlier demo in DIR first.
    #[arg(long, requires = "dir")]
    overwrite: bool,
    /// Load this edge list, `a b` or `a,b` a line, `-` for standard input [default: make a graph].
    #[arg(long, value_name = "FILE", conflicts_with_all = ["nodes", "edge_count", "seed"])]
    edges: Option<PathBuf>,
    /// Nodes of the graph that is made.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_NODES, value_parser = clap::value_parser!(u32).range(2..=NODES_MAX))]
    nodes: u32,
    /// Edges of the graph that is made [default: 7.7 a node].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    edge_count: Option<u64>,
    /// The graph that is made is the same for the same seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many threads load [default: the number of cores, at least 2].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// How many writers may queue for one record; one more gets KEY_BUSY.
    #[arg(long, value_name = "N", default_value_t = 20)]
    max_waiters: usize,
    /// Keep each list in a record of its own, and shard it over several once it takes more than
    /// SIZE, 512 bytes at least: bytes, or 16KiB, 1MiB.
    #[arg(long, value_name = "SIZE", value_parser = shard_at)]
    shard_at: Option<u64>,
    /// Append each side of an edge by itself, without a transaction: to see what the transaction
    /// costs.
    #[arg(long)]
    plain: bool,
    /// Load N edges a batch, each record written once a batch: the fast way for many edges.
    #[arg(long, value_name = "N", conflicts_with = "plain", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// The writes that a power failure may cost.
    #[arg(long, value_enum, default_value_t = DurabilityArgument::Interval)]
    durability: DurabilityArgument,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DurabilityArgument {
    /// Everything since the system last wrote it out; a killed process loses nothing.
    Process,
    /// The last 100 ms.
    Interval,
    /// Nothing: each write waits for a sync.
    Commit,
}

/// The second opening of the store, and its check.
struct ReopenResult {
    time: Duration,
    from_snapshot: bool,
    checked: CheckResult,
}

impl DemoArguments {
    fn threads(&self) -> usize {
        let cores = || {
            std::thread::available_parallelism()
                .map_or(2, NonZeroUsize::get)
                .max(2)
        };
        self.threads.map_or_else(cores, usize::from)
    }

    const fn form(&self) -> EdgeForm {
        match (self.plain, self.batch) {
            (true, _) => EdgeForm::TwoAppends,
            (false, Some(edges)) => EdgeForm::Batches(edges as usize),
            (false, None) => EdgeForm::Transaction,
        }
    }

    fn durability(&self) -> Durability {
        match self.durability {
            DurabilityArgument::Process => Durability::Process,
            DurabilityArgument::Interval => Durability::Interval(Duration::from_millis(100)),
            DurabilityArgument::Commit => Durability::Commit,
        }
    }

    fn open(&self, dir: &Path) -> spikelet::Result<Store> {
        let mut config = NamespaceConfig::new(NAMESPACE);
        config.max_record_bytes = MAX_RECORD_BYTES;
        config.max_waiters = self.max_waiters;
        config.durability = self.durability();
        Store::builder().path(dir).namespace(config).open()
    }

    /// Returns the graph, read or generated, and a description of its source.
    fn graph(&self) -> Result<(Graph, String), Failure> {
        let Some(file) = &self.edges else {
            let most = edges_max(self.nodes);
            let edges = self.edge_count.unwrap_or_else(|| {
                (u64::from(self.nodes) * DEFAULT_EDGES / u64::from(DEFAULT_NODES)).min(most / 2)
            });
            if edges > most {
                let nodes = self.nodes;
                return Err(Failure::Input(format!(
                    "--edge-count {edges}: {nodes} nodes have room for {most} edges, raise --nodes"
                )));
            }
            let source = format!("made with seed {} (--edges FILE loads your own)", self.seed);
            return Ok((generate(self.nodes, edges, self.seed), source));
        };
        let is_stdin = file.as_os_str() == "-";
        let name = if is_stdin {
            "standard input".to_owned()
        } else {
            file.display().to_string()
        };
        let mut text = Vec::new();
        let read = if is_stdin {
            std::io::stdin().lock().read_to_end(&mut text)
        } else {
            std::fs::File::open(file).and_then(|mut file| file.read_to_end(&mut text))
        };
        read.map_err(|error| Failure::Input(format!("cannot read {name}: {error}")))?;
        let list =
            parse(&text).map_err(|malformed| Failure::Input(format!("{name}:{malformed}")))?;
        tell_about(&list, &name);
        Ok((list.graph, name))
    }
}

/// Notes what a user might not expect of the file.
fn tell_about(list: &EdgeList, name: &str) {
    if let Some((line, id)) = &list.first_text {
        note(&format!(
            "{name}:{line}: {id:?} is no integer, so all ids are text"
        ));
        if list.header {
            note(&format!("{name}: the first line is taken for a header"));
        }
    }
    if list.repeated > 0 {
        note(&format!(
            "{name}: repeated edges count once, lines left out: {}",
            count(list.repeated)
        ));
    }
}

/// Runs the demo.
///
/// # Errors
/// An edge list that is malformed, a directory that cannot be used, what the store refuses.
pub(crate) fn run(arguments: &DemoArguments) -> Result<Outcome, Failure> {
    // All of the input is judged before there is a store.
    let (graph, source) = arguments.graph()?;
    if let Some(dir) = &arguments.dir {
        check_dir(dir)?;
    }
    let store_dir = StoreDir::new(arguments.dir.as_deref())?;
    let store = arguments.open(store_dir.path())?;
    let adjacency = Adjacency::new(store.namespace(NAMESPACE)?, arguments.shard_at)?;
    if let Err(refused) = make_room(&adjacency, arguments) {
        store.close()?;
        return Err(refused);
    }

    let bar = progress("loading", graph.edges.len() as u64, Unit::Count("edges"));
    let loaded = load(
        &adjacency,
        &graph,
        arguments.form(),
        arguments.threads(),
        &bar,
    )?;
    bar.finish_and_clear();
    adjacency.follows.declare()?;
    let waits = store.namespace(NAMESPACE)?.stats().waits;
    let report = summary::graph(&graph, &source)
        .section(summary::loading(
            arguments, &graph, &store_dir, &loaded, waits,
        ))
        .section(summary::answers(&adjacency, &graph)?);
    drop(adjacency);
    let stats = close(store)?;
    let reopened = reopen(arguments, store_dir.path(), &graph)?;
    let checked = &reopened.checked;
    let report = report
        .section(summary::space(&stats))
        .section(summary::reopening(&graph, &reopened));
    let figures = figures(&graph, &loaded, &stats, &reopened);
    emit_found(arguments.json, &figures, || report)?;
    for fault in &checked.faults {
        eprintln!("{fault}");
    }
    store_dir.leave()?;
    Ok(if checked.is_sound() {
        Outcome::Sound
    } else {
        Outcome::Damaged
    })
}

/// Refuses a directory with anything in it but a store that a demo has made.
fn check_dir(dir: &Path) -> Result<(), Failure> {
    let refused = |what: String| {
        let dir = dir.display();
        Failure::Input(format!("--dir {dir}: {what}: name an empty directory"))
    };
    if !Store::exists(dir) {
        let is_empty = std::fs::read_dir(dir).map_or(true, |mut files| files.next().is_none());
        return if is_empty {
            Ok(())
        } else {
            Err(refused("there are files in it, and no store".to_owned()))
        };
    }
    let store = Store::builder().path(dir).read_only(true).open()?;
    let namespaces = store.namespaces();
    let mut names = namespaces.iter().map(|namespace| namespace.name());
    let other = names.find(|name| *name != NAMESPACE);
    let other = other.map(|name| {
        refused(format!(
            "a store with namespace {name:?} is in it, and is no demo's"
        ))
    });
    store.close()?;
    other.map_or(Ok(()), Err)
}

/// Refuses, or clears, a store that holds the graph of an earlier demo: two graphs are never mixed.
fn make_room(adjacency: &Adjacency, arguments: &DemoArguments) -> Result<(), Failure> {
    let (records, dir) = (
        adjacency.left_behind()?,
        arguments.dir.as_deref().unwrap_or(Path::new("")).display(),
    );
    if records == 0 || arguments.overwrite {
        // A demo that was killed early has left its relation without records, perhaps with another
        // layout.
        adjacency.clear()?;
        return Ok(());
    }
    Err(Failure::Input(format!(
        "{dir} holds {} records of an earlier demo: name an empty directory, or remove them with --overwrite",
        count(records)
    )))
}

/// Returns the counters and closes the store.
fn close(store: Store) -> Result<Stats, Failure> {
    let stats = store.namespace(NAMESPACE)?.stats().storage;
    store.close()?;
    Ok(stats)
}

fn reopen(arguments: &DemoArguments, dir: &Path, graph: &Graph) -> Result<ReopenResult, Failure> {
    let begun = Instant::now();
    let store = arguments.open(dir)?;
    let time = begun.elapsed();
    let namespace = store.namespace(NAMESPACE)?;
    let bar = progress("checking", 0, Unit::Count("lists"));
    let adjacency = Adjacency::new(namespace.clone(), arguments.shard_at)?;
    let checked = check(&adjacency, graph, arguments.threads(), &bar);
    bar.finish_and_clear();
    let from_snapshot = namespace.opening().from_snapshot;
    store.close()?;
    Ok(ReopenResult {
        time,
        from_snapshot,
        checked,
    })
}

/// Returns how many edges were loaded a second.
fn per_second(graph: &Graph, loaded: &LoadResult) -> f64 {
    graph.edges.len() as f64 / loaded.time.as_secs_f64()
}

fn latency_us(loaded: &LoadResult, quantile: f64) -> f64 {
    loaded.latency.value_at_quantile(quantile) as f64 / 1e3
}

/// Rounds to three decimals.
fn rounded(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

/// Returns the object that `--json` prints.
fn figures(
    graph: &Graph,
    loaded: &LoadResult,
    stats: &Stats,
    reopened: &ReopenResult,
) -> serde_json::Value {
    let checked = &reopened.checked;
    let largest = checked.records.largest.first();
    serde_json::json!({
        "nodes": graph.ids.len(),
        "edges": graph.edges.len(),
        "max_degree": graph.max_degree(),
        "key_busy": loaded.key_busy,
        "conflicts": loaded.conflicts,
        "ops_per_s": (2.0 * per_second(graph, loaded)).round(),
        "edges_per_s": per_second(graph, loaded).round(),
        "p50_us": latency_us(loaded, 0.5),
        "p99_us": latency_us(loaded, 0.99),
        "p999_us": latency_us(loaded, 0.999),
        "index_bytes_per_record": rounded(stats.index_bytes_per_record()),
        // Before the store is opened again, which may add blocks.
        "bytes_on_device": stats.device_bytes,
        "reopen_ms": rounded(reopened.time.as_secs_f64() * 1e3),
        "verified_edges": checked.verified_edges,
        "missing_edges": checked.missing_edges,
        "sharded_records": checked.records.sharded,
        "max_record_bytes": largest.map_or(0, |record| record.bytes),
    })
}
