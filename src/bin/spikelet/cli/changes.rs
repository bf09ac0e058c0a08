//! `spikelet changes`: the changes that a store keeps, in order.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use spikelet::changes::{ChangeOptions, Delivery, Position, Start};
use spikelet::error::StoreHolder;
use spikelet::monitor::{ChangeSnapshot, KeySnapshot};
use spikelet::{Error, Key};

use super::CommandOutcome;
use super::monitor_client::MonitorAddress;
use super::print::emit_while_read;
use super::target::{only_of, open};
use crate::failure::{CommandFailure, Result};
use crate::report::key;
use crate::threads::on_interrupt;

/// How many changes are read at once.
const AT_ONCE: usize = 1_000;

/// How often a program is asked for more.
const PAUSE: Duration = Duration::from_millis(200);

/// Arguments of `changes`.
#[derive(Debug, Args)]
#[command(
    after_help = "A running program is asked over HTTP (GET /changes.json): an embedded one that has started `spikelet::monitor::Monitor`, or \
`spikelet serve --monitor ADDR --keep-changes SET`. Its changes are shown as soon as they can be read; a power failure may still cost the last of them. \
A position that is no longer kept is refused."
)]
pub(crate) struct ChangesArguments {
    /// The directory of a store that no process has open, and that was closed.
    #[arg(required_unless_present = "host", conflicts_with = "host")]
    dir: Option<PathBuf>,
    /// Ask the monitor of a running program, on port 9146 unless one is given.
    #[arg(long, value_name = "HOST[:PORT]")]
    host: Option<MonitorAddress>,
    /// Go on with later changes, until interrupted.
    #[arg(long, requires = "host")]
    follow: bool,
    /// The namespace. Needed if the store has several.
    #[arg(long)]
    namespace: Option<String>,
    /// Only changes of this set. May be given several times.
    #[arg(long = "set", value_name = "SET")]
    sets: Vec<String>,
    /// Only changes behind this position, such as 1207.
    #[arg(long, value_name = "POSITION")]
    from: Option<String>,
    /// Print each change as a JSON object on a line of its own.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &ChangesArguments) -> Result<CommandOutcome> {
    match (&arguments.host, &arguments.dir) {
        (Some(host), _) => of_program(host, arguments),
        (None, dir) => of_closed(dir.as_deref().unwrap_or(Path::new("")), arguments),
    }
}

/// Shows what a running program keeps, and goes on with it if that is asked for.
fn of_program(host: &MonitorAddress, arguments: &ChangesArguments) -> Result<CommandOutcome> {
    if let Some(position) = &arguments.from {
        position.parse::<Position>()?;
    }
    let stop = on_interrupt("ends")?;
    let mut after = arguments.from.clone();
    while !stop.load(Ordering::Relaxed) {
        let sets = arguments.sets.iter().map(|set| ("set", set.as_str()));
        let namespace = arguments.namespace.as_deref();
        let places = [("namespace", namespace), ("after", after.as_deref())];
        let places = places
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let read = host.changes(&sets.chain(places).collect::<Vec<_>>())?;
        if !print(&read.changes, arguments.json)? {
            return Ok(CommandOutcome::Sound);
        }
        after = Some(read.position);
        if read.changes.is_empty() {
            if !arguments.follow {
                return Ok(CommandOutcome::Sound);
            }
            std::thread::sleep(PAUSE);
        }
    }
    // Ending it is how following is left.
    Ok(CommandOutcome::Interrupted.only_if(!arguments.follow))
}

fn of_closed(dir: &Path, arguments: &ChangesArguments) -> Result<CommandOutcome> {
    let store = open(dir).map_err(|error| match error {
        Error::InUse {
            holder: StoreHolder::OtherProcess,
            ..
        } => CommandFailure::Input(format!(
            "{error}: ask that process, with `spikelet changes --host HOST:PORT`, where its monitor listens"
        )),
        error => error.into(),
    })?;
    let namespace = only_of(&store, arguments.namespace.as_deref())?;
    let changes = namespace.changes();
    if changes.sets().is_empty() {
        return Err(CommandFailure::Input(format!(
            "no set of namespace {} keeps its changes: have that done by Changes::enable",
            namespace.name()
        )));
    }
    let start = match &arguments.from {
        Some(position) => Start::After(position.parse()?),
        None => Start::Beginning,
    };
    // The store is closed, so all of it is durable.
    let mut options = ChangeOptions::default().delivery(Delivery::Published);
    for set in &arguments.sets {
        options = options.set(set);
    }
    let mut changes = changes.read(start, options)?;
    loop {
        let batch = changes.next_batch(AT_ONCE, Duration::ZERO)?;
        let batch: Vec<_> = batch.iter().map(ChangeSnapshot::from).collect();
        if batch.is_empty() || !print(&batch, arguments.json)? {
            return Ok(CommandOutcome::Sound);
        }
    }
}

/// Prints changes. Returns false once the reader has gone.
fn print(changes: &[ChangeSnapshot], as_json: bool) -> Result<bool> {
    let mut text = String::new();
    for change in changes {
        if as_json {
            let line = serde_json::to_string(change);
            text += &line.map_err(|error| CommandFailure::Output(error.into()))?;
        } else {
            text += &text_line(change);
        }
        text.push('\n');
    }
    emit_while_read(&text)
}

fn text_line(change: &ChangeSnapshot) -> String {
    let name = match (&change.key, &change.digest) {
        (Some(KeySnapshot::Integer(number)), _) => number.to_string(),
        (Some(KeySnapshot::String(text)), _) => key(&Key::from(text.as_str())),
        (Some(KeySnapshot::Blob { hex }), _) => format!("0x{hex}"),
        (None, Some(digest)) => digest.clone(),
        (None, None) => String::new(),
    };
    let set = match change.set.as_deref() {
        None => "(all sets)".to_owned(),
        Some("") => "(no set)".to_owned(),
        Some(set) => key(&Key::from(set)),
    };
    let line = format!("{:<12} {:<8} {set} {name}", change.position, change.kind);
    let line = line.trim_end();
    match change.generation {
        0 => line.to_owned(),
        generation => format!("{line} generation {generation}"),
    }
}
