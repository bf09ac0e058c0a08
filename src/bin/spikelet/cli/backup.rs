//! `spikelet backup`: a store as text, in the format of Aerospike's backup tools.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use spikelet::backup::{BackupError, BackupOptions, BackupSummary, Blobs, save};

use super::CommandOutcome;
use super::monitor_client::host_and_port;
use super::print::{ProgressUnit, emit_found, note, with_progress};
use super::target::open;
use crate::failure::{CommandFailure, Result};
use crate::report::{Report, bytes, count};
use crate::threads::on_interrupt;

/// Where servers listen.
const DEFAULT_PORT: u16 = 3000;

const BYTES_OF_MIB: u64 = 1 << 20;

/// Arguments of `spikelet backup`. Names are Aerospike's.
#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// The directory of the store, which no process has open.
    #[arg(required_unless_present = "host")]
    dir: Option<PathBuf>,
    /// A served store is saved by Aerospike's asbackup: says the command for this server.
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "dir", value_parser = host_and_port)]
    host: Option<(String, Option<u16>)>,
    /// Where the backup goes: one file, if the name ends in .asb, or else a directory, which is
    /// created.
    #[arg(long)]
    out: PathBuf,
    /// Only this namespace.
    #[arg(long)]
    namespace: Option<String>,
    /// Only this set; may be given several times. "" is no set.
    #[arg(long)]
    set: Vec<String>,
    /// Write bytes as they are instead of in Base64: smaller, but no text.
    #[arg(long)]
    compact: bool,
    /// Leave out the bins. Such a backup cannot be restored.
    #[arg(long)]
    no_bins: bool,
    /// Leave out records that expire.
    #[arg(long)]
    no_ttl_only: bool,
    /// Leave out the definitions of secondary indexes.
    #[arg(long)]
    no_indexes: bool,
    /// Begin a new file of a directory at this size in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 250, value_parser = clap::value_parser!(u64).range(1..))]
    file_limit: u64,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct BackupReport {
    path: String,
    #[serde(flatten)]
    saved: BackupSummary,
}

impl BackupReport {
    fn report(&self) -> Report {
        let saved = &self.saved;
        let namespaces = saved.namespaces.iter().map(|namespace| {
            let records = format!("{} records", count(namespace.records));
            (format!("namespace {}", namespace.name), records)
        });
        let indexes = (saved.indexes > 0).then(|| ("secondary indexes", count(saved.indexes)));
        let files = match saved.files.as_slice() {
            [only] => Some(("file", only.display().to_string())),
            [first, ..] => {
                let files = count(saved.files.len() as u64);
                Some(("files", format!("{files}, the first: {}", first.display())))
            }
            [] => None,
        };
        Report::new(format!("Backup of {}", self.path))
            .facts(namespaces)
            .facts(indexes)
            .fact("without user key", count(saved.without_key))
            .fact("damaged, not saved", count(saved.damaged))
            .facts(files)
            .fact("size", bytes(saved.bytes))
    }

    fn notes(&self) {
        let saved = &self.saved;
        for left in &saved.leftovers {
            note(&format!(
                "removed {}: a backup that was killed had left it",
                left.display()
            ));
        }
        for what in &saved.damage {
            note(&format!("not saved: {what}"));
        }
        if !saved.own_indexes.is_empty() {
            let names = saved.own_indexes.iter().map(|index| index.name.as_str());
            note(&format!(
                "Aerospike's tools do not restore all of these indexes, spikelet restore does: {}",
                names.collect::<Vec<_>>().join(", ")
            ));
        }
        if saved.foreign_digests > 0 {
            note(&format!(
                "{} records have no user key and digests by XXH3: only a namespace of the same kind finds them again (restore --trust-digests)",
                count(saved.foreign_digests)
            ));
        }
        if saved.vectors > 0 {
            note(&format!(
                "{} vectors are saved as plain bytes: the format does not know them",
                count(saved.vectors)
            ));
        }
    }
}

/// Saves a store.
///
/// # Errors
/// A directory without a store, or with one that is in use; an output that is there or cannot be
/// written.
pub(crate) fn run(arguments: &BackupArguments) -> Result<CommandOutcome> {
    if let Some(host) = &arguments.host {
        return Err(CommandFailure::Input(asbackup(arguments, host)));
    }
    let dir = arguments.dir.as_deref().unwrap_or(Path::new(""));
    let mut options = BackupOptions::default();
    options.namespace.clone_from(&arguments.namespace);
    options.sets.clone_from(&arguments.set);
    options.no_bins = arguments.no_bins;
    options.no_ttl_only = arguments.no_ttl_only;
    options.no_indexes = arguments.no_indexes;
    options.file_bytes = arguments.file_limit.saturating_mul(BYTES_OF_MIB);
    if arguments.compact {
        options.blobs = Blobs::Raw;
    }
    let store = open(dir)?;
    let namespaces = store.namespaces().into_iter();
    let wanted = namespaces.filter(|namespace| {
        let name = arguments.namespace.as_deref();
        name.is_none_or(|name| name == namespace.name())
    });
    let total = wanted.map(|namespace| namespace.stats().records).sum();
    options.cancel = Some(on_interrupt("the files written so far are removed")?);
    let summary = with_progress("saving", ProgressUnit::Count("records"), |told| {
        save(&store, &arguments.out, &options, &mut |records| {
            told(records, total);
        })
    });
    let summary = match summary {
        Err(BackupError::Cancelled) => {
            note(&format!(
                "nothing was saved: the unfinished backup is removed, and {} is as it was before",
                arguments.out.display()
            ));
            return Ok(CommandOutcome::Interrupted);
        }
        done => done?,
    };
    let saved = BackupReport {
        path: dir.display().to_string(),
        saved: summary,
    };
    emit_found(arguments.json, "backup", &saved, || saved.report())?;
    saved.notes();
    Ok(CommandOutcome::Damaged.only_if(saved.saved.damaged > 0))
}

/// Says how a store behind the wire protocol is saved.
fn asbackup(arguments: &BackupArguments, (node, port): &(String, Option<u16>)) -> String {
    let port = port.unwrap_or(DEFAULT_PORT);
    let namespace = arguments.namespace.as_deref().unwrap_or("test");
    // As a shell takes it.
    let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let sets = arguments.set.iter();
    let sets: String = sets.map(|set| format!(" --set {}", quoted(set))).collect();
    let kind = if arguments
        .out
        .extension()
        .is_some_and(|found| found == "asb")
    {
        "--output-file"
    } else {
        "--directory"
    };
    format!(
        "a served store is saved by Aerospike's tool, and `spikelet restore` reads what it writes: asbackup --host {node} --port {port} \
         --namespace {namespace}{sets} {kind} {}",
        quoted(&arguments.out.to_string_lossy())
    )
}
