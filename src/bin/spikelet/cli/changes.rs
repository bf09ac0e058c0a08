//! `spikelet changes`: the changes of a store that are kept, in order.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::Args;
use serde_json::json;
use spikelet::changes::{Change, ChangeKind, ChangeOptions, ChangeStream, Delivery, Start};
use spikelet::{Namespace, Store};

use super::print::emit;
use super::{Failure, Outcome};
use crate::report::key;

/// How many changes are read at once.
const AT_ONCE: usize = 1_000;

/// What `changes` takes.
#[derive(Debug, Args)]
pub(crate) struct ChangesArguments {
    /// The directory of a store that no process has open, and that was closed.
    dir: PathBuf,
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

pub(crate) fn run(arguments: &ChangesArguments) -> Result<Outcome, Failure> {
    let store = Store::builder()
        .path(&arguments.dir)
        .read_only(true)
        .open()?;
    let namespace = namespace_of(&store, arguments.namespace.as_deref())?;
    let changes = namespace.changes();
    if changes.sets().is_empty() {
        return Err(Failure::Input(format!(
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
    print_all(changes.read(start, options)?, arguments.json)?;
    Ok(Outcome::Sound)
}

fn namespace_of(store: &Store, name: Option<&str>) -> Result<Namespace, Failure> {
    if let Some(name) = name {
        return Ok(store.namespace(name)?);
    }
    match store.namespaces().as_slice() {
        [only] => Ok(only.clone()),
        several => {
            let names: Vec<&str> = several.iter().map(Namespace::name).collect();
            Err(Failure::Input(format!(
                "the store has the namespaces {}: say which by --namespace",
                names.join(", ")
            )))
        }
    }
}

fn print_all(mut changes: ChangeStream, as_json: bool) -> Result<(), Failure> {
    loop {
        let batch = changes.next_batch(AT_ONCE, Duration::ZERO)?;
        if batch.is_empty() {
            return Ok(());
        }
        let line = if as_json { json_line } else { text_line };
        emit(&batch.iter().map(line).collect::<String>())?;
    }
}

const fn kind_name(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Put => "put",
        ChangeKind::Delete => "delete",
        ChangeKind::Expire => "expire",
        ChangeKind::Truncate { .. } => "truncate",
        _ => "other",
    }
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

fn before_of(kind: ChangeKind) -> Option<u64> {
    match kind {
        ChangeKind::Truncate { before } => before.map(unix_ms),
        _ => None,
    }
}

fn is_truncation(change: &Change) -> bool {
    matches!(change.kind, ChangeKind::Truncate { .. })
}

fn json_line(change: &Change) -> String {
    let digest = (!is_truncation(change)).then(|| change.digest.to_string());
    let object = json!({
        "position": change.position.to_string(),
        "group": change.group,
        "set": change.set,
        "digest": digest,
        "key": change.key.as_ref().map(key),
        "kind": kind_name(change.kind),
        "generation": change.generation,
        "last_update_ms": change.last_update.map(unix_ms),
        "before_ms": before_of(change.kind),
    });
    format!("{object}\n")
}

fn text_line(change: &Change) -> String {
    let name = match (&change.key, is_truncation(change)) {
        (Some(of), _) => key(of),
        (None, false) => change.digest.to_string(),
        (None, true) => String::new(),
    };
    let set = change.set.as_deref().unwrap_or("(all sets)");
    let kind = kind_name(change.kind);
    let line = format!("{:<12} {kind:<8} {set} {name}", change.position.to_string());
    let line = line.trim_end();
    match change.generation {
        0 => format!("{line}\n"),
        generation => format!("{line} generation {generation}\n"),
    }
}
