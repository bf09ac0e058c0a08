//! `spikelet restore`: a backup into a store.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use spikelet::backup::{BackupError, Restore, RestoreOptions, RestoreSummary};
use spikelet::record::KeyHash;
use spikelet::{NamespaceConfig, Store};

use super::CommandOutcome;
use super::print::{ProgressUnit, emit_found, note, with_progress};
use crate::failure::{CommandFailure, Result};
use crate::report::{Report, count};
use crate::threads::on_interrupt;

/// The highest limit of a namespace: every record legal in the backup's store is legal
/// here.
const MAX_RECORD_BYTES: u64 = 8 << 20;

/// Arguments of `spikelet restore`. Names are Aerospike's.
#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// The backup: a file, or a directory with files that end in .asb.
    backup: PathBuf,
    /// The directory of the store, which no process has open. It and its namespaces are created if
    /// need be.
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Only records saved from this namespace; with a second name, they go to the namespace of
    /// that name.
    #[arg(long, value_name = "FROM[,TO]")]
    namespace: Option<String>,
    /// Only this set; may be given several times. "" is no set.
    #[arg(long)]
    set: Vec<String>,
    /// Leave records alone that exist.
    #[arg(long)]
    unique: bool,
    /// Replace records that exist; without it, bins of the backup are written into them.
    #[arg(long)]
    replace: bool,
    /// Write over records that exist even if their generation is not lower than that of the backup.
    #[arg(long)]
    no_generation: bool,
    /// Restore the whole parts of a damaged backup: of a damaged file, the part before the damage.
    #[arg(long)]
    partial: bool,
    /// Restore no secondary indexes.
    #[arg(long)]
    no_indexes: bool,
    /// Take digests as they are: of keys of which they are not the digest, and of records without
    /// user keys in namespaces of another hash.
    #[arg(long)]
    trust_digests: bool,
    /// Write over records of sharded collections, too, though that may break them: records without
    /// shards over shards, the other way round, and over roots records that take a collection from
    /// them, let them expire, or have its bin beside its shards.
    #[arg(long)]
    override_shards: bool,
    /// How namespaces that are created turn keys into digests.
    #[arg(long, value_enum, default_value_t = Hash::Ripemd160)]
    key_hash: Hash,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Hash {
    /// Aerospike's: wire clients can reach the namespace.
    Ripemd160,
    /// Faster, for embedded use.
    Xxh3,
}

/// The object that `--json` prints.
#[derive(Debug, Default, Serialize)]
struct RestoreReport {
    /// Whether writing has begun, so that the numbers count records.
    #[serde(skip)]
    begun: bool,
    path: String,
    into: String,
    damaged: bool,
    damage: Vec<String>,
    #[serde(flatten)]
    done: RestoreSummary,
}

/// What became of other records, a line each: the place of its number in a summary, its name, and
/// why.
const REST: &str = "\
/fresher: kept, as new: exist with this generation or a higher one, or with later shards
/existed: kept, existed: were to be left alone, or hold edges of a relation
/expired: expired: have expired since
/without_bins: without bins: hold nothing that could be stored
/left_out: left out: are of other namespaces or sets
/refused: REFUSED: cannot be restored to this namespace
/indexes: indexes: were declared and built
/indexes_existed: indexes, existed: are there with the same definition
/indexes_left_out: indexes, left out: are of other sets, or not wanted
/skipped/modules: modules: are not records; register them again";

impl RestoreReport {
    /// Builds the report, with `figures`, the JSON form of what was done.
    fn report(&self, figures: &serde_json::Value) -> Report {
        let done = &self.done;
        let report = if self.begun {
            Report::new(format!("Restored {} into {}", self.path, self.into))
                .fact(
                    if done.cancelled {
                        "records read so far"
                    } else {
                        "records in the backup"
                    },
                    count(done.records),
                )
                .fact("restored", count(done.restored))
        } else {
            Report::new(format!("Checked {}, restored nothing", self.path))
        };
        let rest = REST.lines().filter_map(|line| {
            let mut parts = line.split(": ");
            let (place, label, why) = (parts.next()?, parts.next()?, parts.next()?);
            let number = figures.pointer(place)?.as_u64()?;
            (number > 0).then(|| (label, format!("{} {why}", count(number))))
        });
        let goes_on = "restored records stay; the same command again goes on, and leaves alone records that exist with their generation";
        report
            .facts(rest)
            .facts(done.cancelled.then_some(("INTERRUPTED", goes_on)))
            .facts(
                done.indexes_refused
                    .iter()
                    .map(|why| ("INDEX REFUSED", why)),
            )
            .facts(self.damage.iter().map(|place| ("DAMAGED", place)))
    }
}

/// Restores a backup.
///
/// # Errors
/// A backup or store that cannot be used, records that the store refuses.
pub(crate) fn run(arguments: &RestoreArguments) -> Result<CommandOutcome> {
    let mut options = RestoreOptions::default();
    if let Some(names) = &arguments.namespace {
        let (from, to) = names.split_once(',').unwrap_or((names, names));
        options.namespace = Some(from.to_owned());
        options.into_namespace = Some(to.to_owned());
    }
    options.sets.clone_from(&arguments.set);
    options.unique = arguments.unique;
    options.replace = arguments.replace;
    options.no_generation = arguments.no_generation;
    options.partial = arguments.partial;
    options.no_indexes = arguments.no_indexes;
    options.trust_digests = arguments.trust_digests;
    options.override_shards = arguments.override_shards;

    options.cancel = Some(on_interrupt(
        "the record under way is finished, and the store closed",
    )?);

    let prepared = with_progress("checking", ProgressUnit::Bytes, |told| {
        Restore::prepare(&arguments.backup, options, told)
    });
    let restore = match prepared {
        Err(BackupError::Cancelled) => {
            note("interrupted while the backup was checked: nothing was restored");
            return Ok(CommandOutcome::Interrupted);
        }
        done => done?,
    };
    let found = RestoreReport {
        path: arguments.backup.display().to_string(),
        into: arguments.into.display().to_string(),
        damaged: !restore.damage().is_empty(),
        damage: restore.damage().iter().map(ToString::to_string).collect(),
        ..RestoreReport::default()
    };
    if found.damaged && !arguments.partial {
        note("the backup is damaged, nothing was restored; --partial restores its whole parts");
        return tell(arguments, found);
    }
    let has_records = restore.namespaces().any(|(_, records)| records > 0);
    let store = if !has_records && restore.indexes().is_empty() {
        note(&format!(
            "no records to restore in {}: {} was not touched",
            arguments.backup.display(),
            arguments.into.display()
        ));
        // It only counts the omitted records.
        Store::in_memory()?
    } else {
        open(arguments, &restore)?
    };
    let done = with_progress("restoring", ProgressUnit::Bytes, |told| {
        restore.run(&store, told)
    });
    // Restored records are kept for any reason of the end.
    let closed = store.close();
    let found = RestoreReport {
        begun: true,
        done: done?,
        ..found
    };
    closed?;
    tell(arguments, found)
}

fn tell(arguments: &RestoreArguments, found: RestoreReport) -> Result<CommandOutcome> {
    let figures = serde_json::to_value(&found.done);
    let figures = figures.map_err(|error| CommandFailure::Output(error.into()))?;
    emit_found(arguments.json, "restore", &found, || found.report(&figures))?;
    if found.done.cancelled {
        return Ok(CommandOutcome::Interrupted);
    }
    let is_refused = found.done.refused > 0 || !found.done.indexes_refused.is_empty();
    Ok(CommandOutcome::Damaged.only_if(found.damaged || is_refused))
}

/// Opens the store with all namespaces that records go to.
fn open(arguments: &RestoreArguments, restore: &Restore) -> Result<Store, spikelet::Error> {
    let mut builder = Store::builder().path(&arguments.into);
    for (name, _) in restore.namespaces() {
        let mut config = NamespaceConfig::new(name);
        config.max_record_bytes = MAX_RECORD_BYTES;
        config.key_hash = match arguments.key_hash {
            Hash::Ripemd160 => KeyHash::Ripemd160,
            Hash::Xxh3 => KeyHash::Xxh3,
        };
        builder = builder.namespace(config);
    }
    builder.open()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_rest_has_a_number_a_name_and_a_reason() {
        let figures = serde_json::to_value(RestoreSummary::default()).unwrap();
        for line in REST.lines() {
            let parts: Vec<&str> = line.split(": ").collect();
            assert_eq!(parts.len(), 3, "{line}");
            assert!(
                figures.pointer(parts[0]).is_some_and(|one| one.is_u64()),
                "{line}"
            );
        }
    }
}
