//! `spikelet top`: the operations of a running store and its hot records, as they happen.

use std::io::{self, IsTerminal};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use console::{Key, Term};
use spikelet::monitor::{ErrorSnapshot, HotRecordSnapshot, NamespaceSnapshot, StoreSnapshot};

use super::CommandOutcome;
use super::monitor_client::MonitorAddress;
use super::print::{emit, screen, shown};
use crate::failure::{CommandFailure, Result};
use crate::report::{Report, ReportTable, Section, TEXT_COLUMNS, bytes, count, decimal, shortened};
use crate::threads::{on_interrupt, sleep_until};

/// How long a first look may be waited for that has rates.
const FIRST_RATES: Duration = Duration::from_secs(5);

/// How often the answer is asked for again until it has rates, and whether the command is to end.
const PAUSE: Duration = Duration::from_millis(100);

/// Wider terminals are not filled.
const COLUMNS_MAX: usize = 250;

/// So many digits of a digest are shown: the JSON form has them all.
const DIGEST_DIGITS: usize = 12;

/// Explains records that are shown by their digests.
const NO_KEY: &str = "A record is shown by its digest where no key is stored with it: clients send the key if their write policy says so \
(send_key), and compute the digest of a key that is suspected (--json shows it whole).";

/// Arguments of `top`.
#[derive(Debug, Args)]
#[command(
    after_help = "A running program is asked over HTTP (GET /hot.json): an embedded one that has started `spikelet::monitor::Monitor`, or `spikelet serve --monitor ADDR`. \
`spikelet stat DIR` shows the hot records of a closed store.\n\n\
On a terminal: q ends it; w, a, b and s sort by writes, waits, KEY_BUSY and size; r goes back to the order of the monitor, the most contended first.\n\n\
Columns: writes/s, by the growth of the record's generation; waits/s and KEY_BUSY/s, writers that queued for the record's lock and that were refused (error 14); waits and KEY_BUSY, the same counted, where an event counts half after 5 minutes; size on the device; shards, the companions of the record's sharded collections. \
Only records on which a writer has waited or was refused are listed: a record that a single writer writes is none of them."
)]
pub(crate) struct TopArguments {
    /// Ask the monitor of a running program, on port 9146 unless one is given.
    #[arg(long, value_name = "HOST[:PORT]")]
    host: MonitorAddress,
    /// Print once and end, as it does anyway where the output is no terminal.
    #[arg(long)]
    once: bool,
    /// Print one JSON object instead of text, once: the form of /hot.json.
    #[arg(long)]
    json: bool,
    /// The order of the records.
    #[arg(long, value_enum, default_value_t = Order::Contention)]
    sort: Order,
    /// Look again after this many seconds.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,
}

/// An order of hot records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Order {
    /// The most contended first.
    Contention,
    Writes,
    Waits,
    KeyBusy,
    Size,
}

impl Order {
    /// Returns the order that a key asks for.
    const fn of_key(key: char) -> Option<Self> {
        Some(match key {
            'r' => Self::Contention,
            'w' => Self::Writes,
            'a' => Self::Waits,
            'b' => Self::KeyBusy,
            's' => Self::Size,
            _ => return None,
        })
    }

    fn sort(self, snapshot: &mut StoreSnapshot) {
        let of = |hot: &HotRecordSnapshot| match self {
            Self::Contention => None,
            Self::Writes => hot.writes_per_s,
            Self::Waits => hot.waits_per_s,
            Self::KeyBusy => hot.key_busy_per_s,
            Self::Size => hot.bytes.map(|bytes| bytes as f64),
        };
        for namespace in &mut snapshot.namespaces {
            // The sort is stable: without figures the order stays.
            let hot = &mut namespace.hot;
            hot.sort_by(|a, b| of(b).unwrap_or(0.0).total_cmp(&of(a).unwrap_or(0.0)));
        }
    }
}

/// Shows which records are hot.
///
/// # Errors
/// A program that does not answer.
pub(crate) fn run(arguments: &TopArguments) -> Result<CommandOutcome> {
    let host = &arguments.host;
    let stop = on_interrupt("ends")?;
    let mut snapshot = first_look(host, &stop)?;
    let mut order = arguments.sort;
    if arguments.once || arguments.json || !io::stdout().is_terminal() {
        order.sort(&mut snapshot);
        if arguments.json {
            // Its form has its own version.
            let json = serde_json::to_string_pretty(&snapshot);
            let json = json.map_err(|error| CommandFailure::Output(error.into()))?;
            emit(&format!("{json}\n"))?;
        } else {
            emit(&shown(&report(host, &snapshot), TEXT_COLUMNS))?;
        }
        return Ok(CommandOutcome::Interrupted.only_if(stop.load(Ordering::Relaxed)));
    }
    let keys = PressedKeys::read();
    emit("\x1b[2J")?;
    'looks: loop {
        let next = Instant::now() + Duration::from_secs(arguments.seconds.into());
        loop {
            let mut ordered = snapshot.clone();
            order.sort(&mut ordered);
            let status = "q: end  sort by w: writes, a: waits, b: KEY_BUSY, s: size, r: contention";
            emit(&screen(
                &shown(&report(host, &ordered), COLUMNS_MAX),
                status,
            ))?;
            match keys.wait(&stop, next) {
                _ if stop.load(Ordering::Relaxed) => break 'looks,
                Some('q') => break 'looks,
                Some(key) => order = Order::of_key(key).unwrap_or(order),
                None => break,
            }
        }
        match host.look() {
            Ok(looked) => snapshot = looked,
            Err(gone) => {
                drop(keys);
                emit("\n")?;
                return Err(gone);
            }
        }
    }
    emit("\n")?;
    // Ending it is how it is left.
    Ok(CommandOutcome::Sound)
}

/// The keys that are pressed. The terminal is as it was when this is dropped.
struct PressedKeys {
    pressed: mpsc::Receiver<char>,
    /// The settings of the terminal, as `stty` has them.
    settings: Option<String>,
}

impl PressedKeys {
    fn read() -> Self {
        let stty = Command::new("stty")
            .arg("-g")
            .stdin(Stdio::inherit())
            .output();
        let settings = stty.ok().filter(|stty| stty.status.success());
        let (press, pressed) = mpsc::channel();
        // Ends with the process: it waits for a key.
        std::thread::spawn(move || {
            while let Ok(key) = Term::stdout().read_key() {
                let sent = match key {
                    Key::Char(key) => press.send(key),
                    _ => Ok(()),
                };
                if sent.is_err() {
                    return;
                }
            }
        });
        Self {
            pressed,
            settings: settings.map(|stty| String::from_utf8_lossy(&stty.stdout).trim().to_owned()),
        }
    }

    /// Returns the next key, if one is pressed in time.
    fn wait(&self, stop: &AtomicBool, until: Instant) -> Option<char> {
        while !stop.load(Ordering::Relaxed) {
            let left = until.saturating_duration_since(Instant::now());
            match self.pressed.recv_timeout(left.min(PAUSE)) {
                Ok(key) => return Some(key),
                Err(_) if left.is_zero() => return None,
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => std::thread::sleep(left.min(PAUSE)),
            }
        }
        None
    }
}

impl Drop for PressedKeys {
    fn drop(&mut self) {
        if let Some(settings) = &self.settings {
            // Without stty a shell puts its terminal in order itself.
            let _ = Command::new("stty").arg(settings).status();
        }
    }
}

/// Looks until there are rates: a program that has just started has none for a second.
fn first_look(host: &MonitorAddress, stop: &AtomicBool) -> Result<StoreSnapshot> {
    let began = Instant::now();
    loop {
        let snapshot = host.look()?;
        let is_enough = snapshot.interval_ms.is_some() || began.elapsed() > FIRST_RATES;
        if is_enough || !sleep_until(Instant::now() + PAUSE, stop) {
            return Ok(snapshot);
        }
    }
}

fn report(host: &MonitorAddress, snapshot: &StoreSnapshot) -> Report {
    let connections = snapshot.connections.map(count);
    Report::new(format!("Hot records of {host}"))
        .facts(connections.map(|connections| ("connections", connections)))
        .sections(snapshot.namespaces.iter().map(section))
}

fn section(namespace: &NamespaceSnapshot) -> Section {
    let blocks = namespace.used_blocks + namespace.available_blocks;
    let free = namespace.available_blocks as f64 / blocks.max(1) as f64 * 100.0;
    let sized = |sum: u64, per_second: Option<f64>| match per_second {
        Some(rate) => format!("{}, {} a second", bytes(sum), bytes(rate as u64)),
        None => bytes(sum),
    };
    let live = format!(
        "{} on {} of devices, {} % of their blocks free",
        bytes(namespace.live_bytes),
        bytes(namespace.device_bytes),
        decimal(free, 0)
    );
    let log = sized(namespace.log_bytes, namespace.log_bytes_per_s);
    let moved = sized(namespace.moved_bytes, namespace.moved_bytes_per_s);
    let mut syncs = counted(namespace.syncs, namespace.syncs_per_s);
    if let Some(took) = namespace.sync_ms {
        syncs += &format!(", {} ms each", decimal(took, 2));
    }
    let key_busy = counted(namespace.key_busy, namespace.key_busy_per_s);
    let error = |one: &ErrorSnapshot| {
        let rate = one.per_s.filter(|rate| *rate > 0.0);
        format!("{}: {}", one.code, counted(one.count, rate))
    };
    let errors: Vec<String> = namespace.errors.iter().map(error).collect();
    let errors = (!errors.is_empty()).then(|| ("errors", errors.join("; ")));
    let stopped = ("writes", "stopped for want of space");
    let read_only = namespace.read_only.as_ref();
    let hot = &namespace.hot;
    let waits = counted(namespace.waits, namespace.waits_per_s);
    // Few lines leave room for the records.
    let section = Section::new(format!("Namespace {}", namespace.name))
        .fact("records", format!("{}, {live}", count(namespace.records)))
        .fact("log", format!("{log}; cleaning moved {moved}"))
        .fact("syncs", syncs)
        .fact("waits", format!("{waits}; KEY_BUSY {key_busy}"))
        .facts(errors)
        .facts(namespace.stop_writes.then_some(stopped))
        .facts(read_only.map(|why| ("read-only", why)))
        .table(operation_table(namespace));
    let section = if hot.is_empty() {
        section.fact("hot records", "none: no writer has waited")
    } else {
        let is_without_key = hot.iter().any(|hot| hot.key.is_none());
        let section = section.table(hot_table("Records that writers fight over", hot));
        section.paragraphs(is_without_key.then_some(NO_KEY))
    };
    section
        .table(collection_table(namespace))
        .table(transition_table(namespace))
}

/// Returns the table of the kinds of operations that were used.
fn operation_table(namespace: &NamespaceSnapshot) -> ReportTable {
    ReportTable::of(
        "Operations",
        namespace.operations.iter().filter(|one| one.count > 0),
        "kind | a second: per_s .0 | p50: p50_us us | p99: p99_us us | p99.9: p999_us us | in all: count",
    )
}

fn counted(number: u64, per_second: Option<f64>) -> String {
    match per_second {
        Some(rate) => format!("{}, {} a second", count(number), decimal(rate, 1)),
        None => count(number),
    }
}

pub(super) fn hot_table(caption: &str, hot: &[HotRecordSnapshot]) -> ReportTable {
    let rows = hot.iter().map(|hot| {
        let digest = || {
            shortened(
                format!("digest {}", hot.digest),
                "digest ".len() + DIGEST_DIGITS,
            )
        };
        let key = hot.key.clone().unwrap_or_else(digest);
        let set = hot.set.as_deref().map_or("(gone)", set_name);
        (key, set, shards(hot), hot)
    });
    ReportTable::of(
        caption,
        rows,
        "key: 0 | set: 1 | writes/s: writes_per_s .1 | waits/s: waits_per_s .1 | KEY_BUSY/s: key_busy_per_s .1 | waits | \
         KEY_BUSY: key_busy | size: bytes B | shards: 2",
    )
}

fn shards(hot: &HotRecordSnapshot) -> String {
    match (&hot.companion_of, hot.shards) {
        (Some(of), _) => format!("shard {} of {}", of.shard, of.key),
        (None, Some(0)) => "none".to_owned(),
        (None, Some(shards)) => count(shards),
        (None, None) => "-".to_owned(),
    }
}

fn collection_table(namespace: &NamespaceSnapshot) -> ReportTable {
    let rows = namespace.collections.iter();
    ReportTable::of(
        "Sharded collections: hot, or changed of late",
        rows.map(|one| (set_name(&one.set), one)),
        "root: key | set: 0 | bin | state: scheme",
    )
}

fn transition_table(namespace: &NamespaceSnapshot) -> ReportTable {
    let rows = namespace.transitions.iter().map(|one| {
        let from = match one.shards {
            0 => "one record".to_owned(),
            shards => count(shards),
        };
        let transition = format!("{} from {from}", one.transition);
        let companions = format!("{} of {}", count(one.done), count(one.total));
        let state = match (&one.refused, one.ended) {
            (Some(why), _) => format!("refused: {why}"),
            (None, true) => "ended".to_owned(),
            (None, false) => "under way".to_owned(),
        };
        (set_name(&one.set), transition, companions, state, one)
    });
    ReportTable::of(
        "Latest transitions",
        rows,
        "root: key | set: 0 | bin | transition: 1 | companions: 2 | state: 3",
    )
}

fn set_name(set: &str) -> &str {
    if set.is_empty() { "(none)" } else { set }
}

#[cfg(test)]
mod tests {
    use spikelet::Store;

    use super::*;
    use crate::report::Terminal;

    #[test]
    fn a_small_terminal_has_room_for_hot_records_below_the_figures() {
        let store = Store::in_memory().unwrap();
        let mut seen = serde_json::to_value(StoreSnapshot::of(&store, 5)).unwrap();
        let namespace = &mut seen["namespaces"][0];
        let kinds = namespace["operations"].as_array_mut().unwrap();
        for kind in kinds.iter_mut().take(4) {
            kind["count"] = 9.into();
        }
        namespace["errors"] = serde_json::json!([
            {"code": 2, "count": 59, "per_s": 0.0},
            {"code": 14, "count": 1_634, "per_s": 27.0}
        ]);
        let mut hot = serde_json::to_value(HotRecordSnapshot::default()).unwrap();
        hot["digest"] = "9232fe7b05a5b9e012f969b8ec11da30af840da0".into();
        namespace["hot"] = vec![hot].into();
        seen["connections"] = 35.into();
        let host = "localhost".parse().unwrap();
        let report = report(&host, &serde_json::from_value(seen).unwrap());
        let terminal = Terminal {
            columns: 80,
            has_colours: false,
        };
        let text = report.to_text_for(terminal);
        let mut lines = text.lines();
        let row = lines.position(|line| line.contains("digest 9232fe7b05a5..."));
        // Of 24 rows two are the status line and the cursor's.
        assert!(row.is_some_and(|row| row < 22), "{text}");
    }
}
