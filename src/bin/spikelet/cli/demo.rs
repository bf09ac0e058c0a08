//! `spikelet demo`: a follow graph as a `ManyToMany`, bidirectional ordered lists of keys, from
//! file to check. `graph`: the graph in memory.

mod graph;

use std::collections::HashSet;
use std::io::Read as _;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use spikelet::relation::{ManyToMany, forget_relation};
use spikelet::shard::{ShardPolicy, sharded_collections};
use spikelet::{Error, Key, Namespace, NamespaceConfig, RetryPolicy, Store, WritePolicy};

use self::graph::{Graph, NodeList, edges_max, generate, parse};
use super::CommandOutcome;
use super::interrupt::INTERRUPTED;
use super::print::{ProgressUnit, emit_found, note, progress};
use super::target::open;
use crate::failure::{CommandFailure, Result};
use crate::report::{Report, Section, bytes, count, decimal, duration, key, micros};
use crate::threads::for_each;

/// The demo has a namespace of its own.
const NAMESPACE: &str = "demo";
/// The name under which the relation is declared.
const RELATION: &str = "follows";
/// The set of nodes that have both lists in one record.
const SET: &str = "users";
/// The bins of both lists of a node, and the sets of those that have records of their own.
const FOLLOWING: &str = "following";
const FOLLOWERS: &str = "followers";
const SETS: [&str; 3] = [SET, FOLLOWING, FOLLOWERS];

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

/// How many followers a page has.
const PAGE: u64 = 10;

/// The most faults that are described; all are counted.
const FAULTS_TOLD_MAX: usize = 10;

/// Parses the bound of `--shard-at`.
fn shard_at(text: &str) -> Result<u64, String> {
    match crate::units::bytes(text)? {
        bytes if bytes < SHARD_AT_MIN => Err(format!(
            "a shard describes itself in some 150 bytes: give at least {SHARD_AT_MIN}"
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
    /// Keep each list in a record of its own, and shard it over several once it takes more than
    /// SIZE, 512 bytes at least: bytes, or 16KiB, 1MiB.
    #[arg(long, value_name = "SIZE", value_parser = shard_at)]
    shard_at: Option<u64>,
    /// Load N edges a batch, each record written once a batch: the fast way for many edges.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// The object that `--json` prints.
#[derive(Debug, Default, Serialize)]
struct DemoFigures {
    nodes: u64,
    edges: u64,
    /// The length of the longest list.
    max_degree: u64,
    load_s: f64,
    edges_per_s: u64,
    /// Of an edge, or of a batch.
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
    /// How often a writer had to wait for a record.
    waits: u64,
    /// How often a write was refused with KEY_BUSY, and repeated.
    key_busy: u64,
    /// How often a group met others at its records, and was begun again.
    conflicts: u64,
    live_bytes: u64,
    /// Before the store is opened again, which may add blocks.
    bytes_on_device: u64,
    index_bytes_per_record: f64,
    reopen_ms: f64,
    from_snapshot: bool,
    /// Edges that are there on both sides.
    verified_edges: u64,
    missing_edges: u64,
    /// Lists that are not as they should be.
    wrong_lists: u64,
    sharded_records: u64,
    /// The largest record, on the device.
    max_record_bytes: u64,
}

impl DemoArguments {
    fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(2, NonZeroUsize::get);
        self.threads.map_or_else(|| cores().max(2), usize::from)
    }

    fn open(&self, dir: &Path) -> spikelet::Result<(Store, Namespace, ManyToMany<Namespace>)> {
        let mut config = NamespaceConfig::new(NAMESPACE);
        config.max_record_bytes = MAX_RECORD_BYTES;
        let store = Store::builder().path(dir).namespace(config).open()?;
        let namespace = store.namespace(NAMESPACE)?;
        let end = |list| (self.shard_at.map_or(SET, |_| list), list);
        let shards = ShardPolicy::manual().record_bytes_max(self.shard_at);
        let ends = (end(FOLLOWING), end(FOLLOWERS));
        let follows = ManyToMany::new(namespace.clone(), RELATION, ends.0, ends.1)
            .shard_policy(shards)
            // Wait however long the queue takes; a full queue refuses at once.
            .write_policy(&WritePolicy::default().total_timeout(None));
        Ok((store, namespace, follows))
    }

    /// Returns the graph, read or generated, and a description of its source.
    fn graph(&self) -> Result<(Graph, String)> {
        let Some(file) = &self.edges else {
            let most = edges_max(self.nodes);
            let edges = self.edge_count.unwrap_or_else(|| {
                (u64::from(self.nodes) * DEFAULT_EDGES / u64::from(DEFAULT_NODES)).min(most / 2)
            });
            if edges > most {
                let nodes = self.nodes;
                return Err(CommandFailure::Input(format!(
                    "--edge-count {edges}: {nodes} nodes have room for {most} edges, raise --nodes"
                )));
            }
            let source = format!("made with seed {} (--edges FILE loads your own)", self.seed);
            return Ok((generate(self.nodes, edges, self.seed), source));
        };
        let is_stdin = file.as_os_str() == "-";
        let (name, read) = if is_stdin {
            let mut text = Vec::new();
            let read = std::io::stdin().lock().read_to_end(&mut text);
            ("standard input".to_owned(), read.map(|_| text))
        } else {
            (file.display().to_string(), std::fs::read(file))
        };
        let text =
            read.map_err(|error| CommandFailure::Input(format!("cannot read {name}: {error}")))?;
        let graph =
            parse(&text).map_err(|wrong| CommandFailure::Input(format!("{name}:{wrong}")))?;
        if let Key::String(id) = graph.id(0) {
            note(&format!(
                "{name}: not all ids are integers, so all are text, such as {id:?}"
            ));
        }
        if graph.repeated > 0 {
            let repeated = count(graph.repeated);
            note(&format!(
                "{name}: repeated edges count once, lines left out: {repeated}"
            ));
        }
        Ok((graph, name))
    }
}

/// Runs the demo.
///
/// # Errors
/// An edge list that is malformed, a directory that cannot be used, what the store refuses.
pub(crate) fn run(arguments: &DemoArguments) -> Result<CommandOutcome> {
    // All of the input is judged before there is a store.
    let (graph, source) = arguments.graph()?;
    let temporary = match &arguments.dir {
        Some(dir) => check_dir(dir, arguments.overwrite).map(|()| None)?,
        None => Some(temporary()?),
    };
    let dir = temporary.as_ref().map(tempfile::TempDir::path);
    let dir = dir.or(arguments.dir.as_deref()).unwrap_or(Path::new(""));
    let lists = graph.lists();
    let mut figures = DemoFigures {
        nodes: graph.nodes() as u64,
        edges: graph.edges.len() as u64,
        max_degree: lists
            .iter()
            .map(|list| list.others.len() as u64)
            .max()
            .unwrap_or(0),
        ..DemoFigures::default()
    };

    let (store, namespace, follows) = arguments.open(dir)?;
    // A demo that was killed early has left its relation without records, perhaps with another
    // layout.
    forget_relation(&namespace, RELATION)?;
    for name in SETS {
        namespace.set(name)?.truncate(None)?;
    }
    load(&follows, &graph, arguments, &mut figures)?;
    follows.declare()?;
    let answers = answers(&follows, &graph, &lists)?;
    let stats = namespace.stats();
    (figures.waits, figures.live_bytes) = (stats.waits, stats.live_bytes);
    figures.bytes_on_device = stats.device_bytes;
    figures.index_bytes_per_record = (stats.index_bytes_per_record() * 1e3).round() / 1e3;
    store.close()?;
    drop((store, namespace, follows));

    let begun = Instant::now();
    let (store, namespace, follows) = arguments.open(dir)?;
    figures.reopen_ms = begun.elapsed().as_secs_f64() * 1e3;
    figures.from_snapshot = namespace.opening().from_snapshot;
    let faults = check(&follows, &graph, &lists, arguments.threads(), &mut figures)?;
    measure_records(&namespace, &mut figures)?;
    store.close()?;
    emit_found(arguments.json, "demo", &figures, || {
        figures.report(arguments, &source, answers)
    })?;
    for fault in faults.iter().take(FAULTS_TOLD_MAX) {
        eprintln!("{fault}");
    }
    if let Some(temporary) = temporary {
        let place = temporary.path().display().to_string();
        let failed = |error| CommandFailure::Input(format!("cannot remove {place}: {error}"));
        temporary.close().map_err(failed)?;
    }
    Ok(CommandOutcome::Damaged.only_if(figures.wrong_lists > 0))
}

/// Makes a directory that is removed at the end, and when the process is asked to end.
fn temporary() -> Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    let dir = builder
        .prefix("spikelet-demo-")
        .tempdir()
        .map_err(|error| {
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

/// Refuses a directory with anything in it but a store that a demo has made, and the graph of that
/// demo unless it may be removed: two graphs are never mixed.
fn check_dir(dir: &Path, overwrite: bool) -> Result<()> {
    let refused = |what: String| {
        let dir = dir.display();
        Err(CommandFailure::Input(format!(
            "--dir {dir}: {what}: name an empty directory"
        )))
    };
    if !Store::exists(dir) {
        let is_empty = std::fs::read_dir(dir).map_or(true, |mut files| files.next().is_none());
        return if is_empty {
            Ok(())
        } else {
            refused("there are files in it, and no store".to_owned())
        };
    }
    let store = open(dir)?;
    let namespaces = store.namespaces();
    let sets = namespaces.iter().flat_map(Namespace::sets);
    let graph = sets.filter(|set| SETS.contains(&set.name.as_str()));
    let records = graph.map(|set| set.records).sum();
    store.close()?;
    let mut names = namespaces.iter().map(Namespace::name);
    match names.find(|name| *name != NAMESPACE) {
        Some(name) => refused(format!(
            "a store with namespace {name:?} is in it, and is no demo's"
        )),
        None if records > 0 && !overwrite => refused(format!(
            "it holds {} records of an earlier demo, which --overwrite removes",
            count(records)
        )),
        None => Ok(()),
    }
}

/// Loads all edges, in the order of the graph, each batch as one group.
fn load(
    follows: &ManyToMany<Namespace>,
    graph: &Graph,
    arguments: &DemoArguments,
    figures: &mut DemoFigures,
) -> Result<()> {
    // A full device stays full, so it is not tried for ever.
    let patience = RetryPolicy::default()
        .max_attempts(10_000)
        .first_pause(Duration::from_micros(2))
        .max_pause(Duration::from_millis(1));
    let (key_busy, conflicts) = (AtomicU64::new(0), AtomicU64::new(0));
    let bar = progress("loading", figures.edges, ProgressUnit::Count("edges"));
    let batches: Vec<_> = graph.edges.chunks(arguments.batch as usize).collect();
    let begun = Instant::now();
    let mut times = for_each(&batches, arguments.threads(), |batch| {
        let keys = || {
            batch
                .iter()
                .map(|(from, to)| (graph.id(*from), graph.id(*to)))
        };
        let begun = Instant::now();
        let linked = patience.retry(|| {
            let linked = match **batch {
                [(from, to)] => follows.link(graph.id(from), graph.id(to)).map(drop),
                _ => {
                    let go_on = |_| ControlFlow::Continue(());
                    follows.link_all(keys(), go_on).map(drop)
                }
            };
            linked.inspect_err(|error| {
                let obstacle = match error {
                    Error::KeyBusy { .. } => &key_busy,
                    _ => &conflicts,
                };
                obstacle.fetch_add(1, Ordering::Relaxed);
            })
        });
        bar.inc(batch.len() as u64);
        linked.map(|()| begun.elapsed())
    })?;
    let took = begun.elapsed().as_secs_f64();
    bar.finish_and_clear();
    times.sort_unstable();
    let at = |share: f64| {
        let rank = (share * times.len() as f64).ceil() as usize;
        let time = times.get(rank.saturating_sub(1)).copied();
        time.unwrap_or_default().as_secs_f64() * 1e6
    };
    figures.load_s = took;
    figures.edges_per_s = (figures.edges as f64 / took).round() as u64;
    [
        figures.p50_us,
        figures.p99_us,
        figures.p999_us,
        figures.max_us,
    ] = [0.5, 0.99, 0.999, 1.0].map(at);
    figures.key_busy = key_busy.into_inner();
    figures.conflicts = conflicts.into_inner();
    Ok(())
}

/// Asks the store some questions and builds the section of its answers.
fn answers(follows: &ManyToMany<Namespace>, graph: &Graph, lists: &[NodeList]) -> Result<Section> {
    let mut section = Section::new("Questions");
    let shown = |node| key(&graph.id(node));
    if let Some((one, other)) = graph.edges.first().copied() {
        for (from, to) in [(one, other), (other, one)] {
            let is_there = follows.contains(graph.id(from), graph.id(to))?;
            section = section.fact(
                format!("does {} follow {}?", shown(from), shown(to)),
                if is_there { "yes" } else { "no" },
            );
        }
    }
    let followers = lists.iter().filter(|list| list.is_followers);
    let Some(star) = followers.max_by_key(|list| list.others.len()) else {
        return Ok(section);
    };
    let list = follows.sources(graph.id(star.node));
    let begun = Instant::now();
    let page = list.page(0, PAGE)?;
    let paged = begun.elapsed();
    list.fetch(0, PAGE)?;
    let fetched = begun.elapsed() - paged;
    let (name, number) = (shown(star.node), count(star.others.len() as u64));
    let first = format!("the first {}, read in {}", page.len(), duration(paged));
    Ok(section
        .fact("the most followed", format!("{name}, by {number}"))
        .fact("a page of followers", first)
        .fact(
            "and their records",
            format!("read in {}", duration(fetched)),
        ))
}

/// Compares every list of every node with the graph, and so every edge on both sides. Elements of a
/// list that cannot be read count as missing. Returns the faults in words.
fn check(
    follows: &ManyToMany<Namespace>,
    graph: &Graph,
    lists: &[NodeList],
    threads: usize,
    figures: &mut DemoFigures,
) -> Result<Vec<String>> {
    let bar = progress("checking", lists.len() as u64, ProgressUnit::Count("lists"));
    let found = for_each(lists, threads, |list| {
        let found = fault_of(follows, graph, list);
        bar.inc(1);
        Ok::<_, CommandFailure>(found)
    })?;
    bar.finish_and_clear();
    let (absent, faults): (Vec<_>, Vec<_>) = found.into_iter().flatten().unzip();
    // An edge may be missing on both sides.
    let missing: HashSet<_> = absent.into_iter().flatten().collect();
    figures.wrong_lists = faults.len() as u64;
    figures.missing_edges = missing.len() as u64;
    figures.verified_edges = figures.edges - figures.missing_edges;
    Ok(faults)
}

/// The edges that a list lacks, and what is wrong with it; `None`: it is as it should be.
fn fault_of(
    follows: &ManyToMany<Namespace>,
    graph: &Graph,
    list: &NodeList,
) -> Option<(Vec<(usize, usize)>, String)> {
    let owner = graph.id(list.node);
    let (name, neighbors) = if list.is_followers {
        (FOLLOWERS, follows.sources(owner.clone()))
    } else {
        (FOLLOWING, follows.targets(owner.clone()))
    };
    let wanted: Vec<Key<'_>> = list.others.iter().map(|other| graph.id(*other)).collect();
    // One more, to see whether there are too many.
    let (found, why) = match neighbors.page(0, wanted.len() as u64 + 1) {
        Ok(found) if found == wanted => return None,
        Ok(found) => (found, "is not as it was loaded".to_owned()),
        Err(error) => (Vec::new(), error.to_string()),
    };
    let there: HashSet<&Key<'_>> = found.iter().collect();
    let absent = list.others.iter().zip(&wanted);
    let absent = absent.filter(|(_, id)| !there.contains(id));
    let absent = absent.map(|(other, _)| {
        if list.is_followers {
            (*other, list.node)
        } else {
            (list.node, *other)
        }
    });
    let absent: Vec<_> = absent.collect();
    let fault = format!(
        "\"{name}\" of {}: {why}; elements missing: {}",
        key(&owner),
        absent.len()
    );
    Some((absent, fault))
}

/// Counts the sharded lists, and finds the largest record.
fn measure_records(namespace: &Namespace, figures: &mut DemoFigures) -> Result<()> {
    for name in [FOLLOWING, FOLLOWERS] {
        figures.sharded_records += sharded_collections(&namespace.set(name)?)?.len() as u64;
    }
    let scanned = namespace.scan(|record| match record {
        Ok(record) => {
            figures.max_record_bytes = figures.max_record_bytes.max(record.stored_bytes);
            ControlFlow::Continue(())
        }
        Err(error) => ControlFlow::Break(error),
    });
    Ok(scanned.break_value().map_or(Ok(()), Err)?)
}

impl DemoFigures {
    fn report(&self, arguments: &DemoArguments, source: &str, answers: Section) -> Report {
        let times = |number: u64| format!("{} times", count(number));
        let each = match arguments.batch {
            1 => "latency of an edge",
            _ => "latency of a batch",
        };
        let (edges, threads) = (count(self.edges), arguments.threads());
        let took = micros(self.load_s * 1e6);
        let fate = arguments.dir.as_ref().map_or_else(
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
            .fact("edges", format!("{edges} in {took} from {threads} threads"))
            .fact("edges a second", count(self.edges_per_s))
            .fact(each, latencies)
            .fact("waited for a record", times(self.waits))
            .fact("KEY_BUSY", format!("{}, repeated", count(self.key_busy)))
            .fact("met others", times(self.conflicts) + ", begun again");
        let how = if self.from_snapshot {
            "from the index snapshot"
        } else {
            "by reading the log"
        };
        let opened = micros(self.reopen_ms * 1e3);
        let (verified, index) = (
            count(self.verified_edges),
            decimal(self.index_bytes_per_record, 1),
        );
        let longest = format!("{} elements", count(self.max_degree));
        let reopened = Section::new("After closing and opening again")
            .fact("opened in", format!("{opened}, {how}"))
            .fact("edges on both sides", format!("{verified} of {edges}"))
            .fact("missing edges", count(self.missing_edges))
            .fact("wrong lists", count(self.wrong_lists))
            .fact("lists over several records", count(self.sharded_records))
            .fact("the largest record", bytes(self.max_record_bytes))
            .fact("live records", bytes(self.live_bytes))
            .fact("on the device", bytes(self.bytes_on_device))
            .fact("index, bytes a record", index);
        Report::new("The follow graph")
            .fact("source", source)
            .fact("nodes", count(self.nodes))
            .fact("edges", edges)
            .fact("longest list", longest)
            .section(loading)
            .section(answers)
            .section(reopened)
    }
}
