//! `spikelet top`: which records are hot, as it happens.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use spikelet::Store;
use spikelet::error::StoreHolder;
use spikelet::monitor::{HotRecordSnapshot, NamespaceSnapshot, StoreSnapshot};

use super::interrupt::on_interrupt;
use super::monitor_client::MonitorAddress;
use super::print::{emit, emit_report, note};
use super::{Failure, Outcome};
use crate::report::{Cell, Report, Section, Table, bytes, count, decimal};

/// How long a first look may be waited for that has rates.
const FIRST_RATES: Duration = Duration::from_secs(5);

/// How often the answer is asked for again until it has rates, and whether the command is to end.
const PAUSE: Duration = Duration::from_millis(100);

/// Clears the screen from the top left corner on.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// What is said of records that are shown by their digests.
const NO_KEY: &str = "A record is shown by its digest where no key is stored with it: clients send the key if their write policy says so \
(send_key), and compute the digest of a key that is suspected.";

/// What `top` takes.
#[derive(Debug, Args)]
#[command(
    after_help = "A running program is asked over HTTP (GET /hot.json): an embedded one that has started `spikelet::monitor::Monitor`, or `spikelet serve --monitor ADDR`. \
A DIR must not be open in any process. Of a closed store there are the counts that were kept when it was closed cleanly, sizes and shards, and no rates.\n\n\
Columns: writes/s, by the growth of the record's generation; waits/s and KEY_BUSY/s, writers that queued for the record's lock and that were refused (error 14); waits and KEY_BUSY, the same counted, where an event counts half after 5 minutes; size on the device; shards, the companions of the record's sharded collections. \
Only records on which a writer has waited or was refused are listed: a record that a single writer writes is none of them."
)]
pub(crate) struct TopArguments {
    /// The directory of a closed store.
    #[arg(conflicts_with = "host")]
    dir: Option<PathBuf>,
    /// Ask the monitor of a running program, on port 9146 unless one is given.
    #[arg(long, value_name = "HOST[:PORT]")]
    host: Option<MonitorAddress>,
    /// Print once and end, as it does anyway where the output is no terminal.
    #[arg(long)]
    once: bool,
    /// Print one JSON object for each look instead of text: the form of /hot.json.
    #[arg(long)]
    json: bool,
    /// Show this many records of each namespace, 64 at most.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=64))]
    keys: u8,
    /// Look again after this many seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
}

/// Shows which records are hot.
///
/// # Errors
/// A directory without a store, or with one that is in use; a program that does not answer.
pub(crate) fn run(arguments: &TopArguments) -> Result<Outcome, Failure> {
    let host = match (&arguments.host, &arguments.dir) {
        (Some(host), _) => host,
        (None, Some(dir)) => return of_closed(dir, arguments),
        (None, None) => {
            return Err(Failure::Input(
                "give the DIR of a closed store, or --host HOST[:PORT] of a running program"
                    .to_owned(),
            ));
        }
    };
    let stop = on_interrupt("ends")?;
    let source = format!("of {host}");
    let mut snapshot = first_look(host, &stop)?;
    if arguments.once || !io::stdout().is_terminal() {
        show(arguments, &source, snapshot)?;
        return Ok(ended(&stop));
    }
    while !stop.load(Ordering::Relaxed) {
        if !arguments.json {
            emit(CLEAR)?;
        }
        show(arguments, &source, snapshot)?;
        if !pause(&stop, Duration::from_secs(arguments.seconds.into())) {
            break;
        }
        snapshot = host.look()?;
    }
    // Ending it is how it is left.
    Ok(Outcome::Sound)
}

/// Shows what a closed store has kept.
fn of_closed(dir: &Path, arguments: &TopArguments) -> Result<Outcome, Failure> {
    let opened = Store::builder().path(dir).read_only(true).open();
    let store = opened.map_err(|error| match error {
        spikelet::Error::InUse {
            holder: StoreHolder::OtherProcess,
            ..
        } => Failure::Input(format!(
            "{error}: ask that process, with `spikelet top --host HOST:PORT`, where its monitor listens"
        )),
        error => error.into(),
    })?;
    note("a closed store has no rates: what is shown is what it kept when it was closed cleanly");
    let snapshot = StoreSnapshot::of(&store, arguments.keys.into());
    show(arguments, &format!("of {}", dir.display()), snapshot)?;
    Ok(Outcome::Sound)
}

/// Looks until there are rates: a program that has just started has none for a second.
fn first_look(host: &MonitorAddress, stop: &AtomicBool) -> Result<StoreSnapshot, Failure> {
    let began = Instant::now();
    loop {
        let snapshot = host.look()?;
        if snapshot.interval_ms.is_some() || began.elapsed() > FIRST_RATES || !pause(stop, PAUSE) {
            return Ok(snapshot);
        }
    }
}

/// Waits. False: the command is to end.
fn pause(stop: &AtomicBool, time: Duration) -> bool {
    let began = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(PAUSE));
    }
    false
}

fn ended(stop: &AtomicBool) -> Outcome {
    if stop.load(Ordering::Relaxed) {
        Outcome::Interrupted
    } else {
        Outcome::Sound
    }
}

fn show(
    arguments: &TopArguments,
    source: &str,
    mut snapshot: StoreSnapshot,
) -> Result<(), Failure> {
    for namespace in &mut snapshot.namespaces {
        namespace.hot.truncate(arguments.keys.into());
    }
    if arguments.json {
        // Its form has its own version.
        let json = serde_json::to_string_pretty(&snapshot);
        let json = json.map_err(|error| Failure::Output(error.into()))?;
        return emit(&format!("{json}\n"));
    }
    let report = Report::new(format!("Hot records {source}"));
    let sections = snapshot.namespaces.iter().map(section);
    emit_report(&sections.fold(report, Report::section))
}

fn section(namespace: &NamespaceSnapshot) -> Section {
    let mut section = Section::new(format!("Namespace {}", namespace.name))
        .fact("records", count(namespace.records))
        .fact("live", bytes(namespace.live_bytes))
        .fact("waits", counted(namespace.waits, namespace.waits_per_s))
        .fact(
            "KEY_BUSY",
            counted(namespace.key_busy, namespace.key_busy_per_s),
        );
    if namespace.stop_writes {
        section = section.fact("writes", "stopped for want of space");
    }
    if let Some(why) = &namespace.read_only {
        section = section.fact("read-only", why.clone());
    }
    if namespace.hot.is_empty() {
        section = section.fact("hot records", "none: no writer has waited");
    } else {
        section = section.table(hot_table(&namespace.hot));
        if namespace.hot.iter().any(|hot| hot.key.is_none()) {
            section = section.paragraph(NO_KEY);
        }
    }
    if !namespace.collections.is_empty() {
        section = section.table(collection_table(namespace));
    }
    if !namespace.transitions.is_empty() {
        section = section.table(transition_table(namespace));
    }
    section
}

fn counted(number: u64, per_second: Option<f64>) -> String {
    let mut text = count(number);
    if let Some(rate) = per_second {
        // Writing to a string does not fail.
        let _ = write!(text, ", {} a second", decimal(rate, 1));
    }
    text
}

fn hot_table(hot: &[HotRecordSnapshot]) -> Table {
    let rate = |rate: Option<f64>| Cell::optional(rate, |rate| Cell::decimal(rate, 1));
    let digest = |hot: &HotRecordSnapshot| format!("digest {}", hot.digest);
    Table::of(
        "Records that writers fight over",
        hot,
        &[
            ("key", &|hot| {
                Cell::text(printable(&hot.key.clone().unwrap_or_else(|| digest(hot))))
            }),
            ("set", &|hot| {
                Cell::text(hot.set.as_deref().map_or("(gone)".to_owned(), set_name))
            }),
            ("writes/s", &|hot| rate(hot.writes_per_s)),
            ("waits/s", &|hot| rate(hot.waits_per_s)),
            ("KEY_BUSY/s", &|hot| rate(hot.key_busy_per_s)),
            ("waits", &|hot| Cell::count(hot.waits)),
            ("KEY_BUSY", &|hot| Cell::count(hot.key_busy)),
            ("size", &|hot| Cell::optional(hot.bytes, Cell::bytes)),
            ("shards", &|hot| Cell::text(shards(hot))),
        ],
    )
}

fn shards(hot: &HotRecordSnapshot) -> String {
    match (&hot.companion_of, hot.shards) {
        (Some(of), _) => format!("shard {} of {}", of.shard, printable(&of.key)),
        (None, Some(0)) => "none".to_owned(),
        (None, Some(shards)) => count(shards),
        (None, None) => "-".to_owned(),
    }
}

fn collection_table(namespace: &NamespaceSnapshot) -> Table {
    Table::of(
        "Sharded collections: hot, or changed of late",
        &namespace.collections,
        &[
            ("root", &|one| Cell::text(printable(&one.key))),
            ("set", &|one| Cell::text(set_name(&one.set))),
            ("bin", &|one| Cell::text(printable(&one.bin))),
            ("state", &|one| Cell::text(printable(&one.scheme))),
        ],
    )
}

fn transition_table(namespace: &NamespaceSnapshot) -> Table {
    let from = |shards: u64| match shards {
        0 => "one record".to_owned(),
        shards => count(shards),
    };
    Table::of(
        "Latest transitions",
        &namespace.transitions,
        &[
            ("root", &|one| Cell::text(printable(&one.key))),
            ("set", &|one| Cell::text(set_name(&one.set))),
            ("bin", &|one| Cell::text(printable(&one.bin))),
            ("transition", &|one| {
                Cell::text(format!(
                    "{} from {}",
                    printable(&one.transition),
                    from(one.shards)
                ))
            }),
            ("companions", &|one| {
                Cell::text(format!("{} of {}", count(one.done), count(one.total)))
            }),
            ("state", &|one| {
                Cell::text(match (&one.refused, one.ended) {
                    (Some(why), _) => format!("refused: {}", printable(why)),
                    (None, true) => "ended".to_owned(),
                    (None, false) => "under way".to_owned(),
                })
            }),
        ],
    )
}

fn set_name(set: &str) -> String {
    match set {
        "" => "(none)".to_owned(),
        set => printable(set),
    }
}

/// Returns what another program has told so that it moves no cursor.
fn printable(text: &str) -> String {
    text.chars()
        .map(|char| if char.is_control() { '\u{fffd}' } else { char })
        .collect()
}
