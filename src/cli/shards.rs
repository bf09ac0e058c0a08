//! `spikelet shards`: the sharded collections of a store, or one of them record by record.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use spikelet::{Key, ShardStanding, ShardedCollection, Store, sharded_collections};

use super::print::{Report, bytes, count, emit_json, key};
use super::{Failure, Outcome};

/// What `shards` takes.
#[derive(Debug, Args)]
pub(crate) struct ShardsArguments {
    /// The directory of the store.
    dir: PathBuf,
    /// Show the collection of this key, record by record [default: all collections, a line each].
    key: Option<String>,
    /// Look into this namespace only.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Look into this set only.
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct Found {
    path: String,
    collections: Vec<Collection>,
}

#[derive(Debug, Serialize)]
struct Collection {
    namespace: String,
    set: String,
    key: String,
    bin: Option<String>,
    scheme: String,
    epoch: u64,
    in_transition: bool,
    elements: u64,
    bytes: u64,
    largest_bytes: u64,
    companions: Vec<Companion>,
    leftovers: u64,
    missing: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct Companion {
    key: String,
    shard: u64,
    bucket: Option<i64>,
    epoch: u64,
    frozen: bool,
    elements: u64,
    bytes: u64,
    standing: String,
}

impl Collection {
    fn new(namespace: &str, set: &str, found: &ShardedCollection) -> Self {
        let current = || {
            let companions = found.companions.iter();
            companions.filter(|companion| companion.standing == ShardStanding::Current)
        };
        Self {
            namespace: namespace.to_owned(),
            set: set.to_owned(),
            key: key(&found.key),
            bin: found.bin.clone(),
            scheme: found.scheme.clone(),
            epoch: found.epoch,
            in_transition: found.in_transition,
            elements: current().map(|companion| companion.elements).sum(),
            bytes: current().map(|companion| companion.bytes).sum(),
            largest_bytes: current()
                .map(|companion| companion.bytes)
                .max()
                .unwrap_or(0),
            leftovers: found.leftovers().count() as u64,
            companions: found
                .companions
                .iter()
                .map(|companion| Companion {
                    key: key(&companion.key),
                    shard: companion.shard,
                    bucket: companion.bucket,
                    epoch: companion.epoch,
                    frozen: companion.frozen,
                    elements: companion.elements,
                    bytes: companion.bytes,
                    standing: companion.standing.to_string(),
                })
                .collect(),
            missing: found.missing.clone(),
        }
    }

    fn report(&self, report: &mut Report) {
        report.title(&format!(
            "Collection {} in set \"{}\" of namespace {}",
            self.key, self.set, self.namespace
        ));
        report.row(
            "bin",
            self.bin.as_deref().unwrap_or("unknown: there is no root"),
        );
        report.row("where it is", &self.scheme);
        report.row("epoch", self.epoch.to_string());
        if self.in_transition {
            report.row(
                "under way",
                "or left by somebody: the next writer, or help() of a handle, carries it to its end",
            );
        }
        report.row("elements", count(self.elements));
        report.row("bins of companions", bytes(self.bytes));
        report.row("the largest", bytes(self.largest_bytes));
        for shard in &self.missing {
            report.row("MISSING", format!("shard {shard}: its elements are lost"));
        }
        if self.leftovers > 0 {
            report.row(
                "leftovers",
                format!("{}, which nobody reads", count(self.leftovers)),
            );
        }
        let rows: Vec<_> = self
            .companions
            .iter()
            .map(|companion| {
                let frozen = if companion.frozen { ", frozen" } else { "" };
                [
                    companion.key.clone(),
                    count(companion.elements),
                    count(companion.bytes),
                    companion.epoch.to_string(),
                    format!("{}{frozen}", companion.standing),
                ]
            })
            .collect();
        report.table(["companion", "elements", "bytes", "epoch", "state"], &rows);
    }
}

/// Shows the sharded collections.
///
/// # Errors
/// A directory without a store, names and keys that are not in it.
pub(crate) fn run(arguments: &ShardsArguments) -> Result<Outcome, Failure> {
    let store = Store::builder().path(&arguments.dir).read_only().open()?;
    let wanted = |given: &Option<String>, name: &str| given.as_deref().is_none_or(|it| it == name);
    let mut collections = Vec::new();
    for namespace in store.namespaces() {
        if !wanted(&arguments.namespace, namespace.name()) {
            continue;
        }
        for set in namespace.sets() {
            if !wanted(&arguments.set, &set.name) {
                continue;
            }
            let found = sharded_collections(&namespace.set(&set.name)?)?;
            collections.extend(
                found
                    .iter()
                    .filter(|found| {
                        let asked = arguments.key.as_deref();
                        let place = format!("{}/{}/", namespace.name(), set.name);
                        asked.is_none_or(|asked| {
                            // As they are listed, or the key alone.
                            let key = asked.strip_prefix(&place).unwrap_or(asked);
                            is_called(&found.key, key) || is_called(&found.key, asked)
                        })
                    })
                    .map(|found| Collection::new(namespace.name(), &set.name, found)),
            );
        }
    }
    if let Some(asked) = &arguments.key
        && collections.is_empty()
    {
        return Err(Failure::Input(format!(
            "no sharded collection has the key {asked:?}: `spikelet shards {}` lists those that there are",
            arguments.dir.display()
        )));
    }
    let is_whole = collections
        .iter()
        .all(|collection| collection.missing.is_empty());
    if arguments.json {
        let path = arguments.dir.display().to_string();
        emit_json(&Found { path, collections })?;
    } else {
        let mut report = Report::default();
        if arguments.key.is_some() {
            for collection in &collections {
                collection.report(&mut report);
            }
        } else {
            list(&collections, &mut report);
        }
        report.emit()?;
    }
    Ok(if is_whole {
        Outcome::Sound
    } else {
        Outcome::Damaged
    })
}

fn list(collections: &[Collection], report: &mut Report) {
    report.title(&format!(
        "Sharded collections: {}",
        count(collections.len() as u64)
    ));
    let rows: Vec<_> = collections
        .iter()
        .map(|collection| {
            let missing = collection.missing.len();
            let state = match (missing, collection.leftovers) {
                (0, 0) => collection.scheme.clone(),
                (0, leftovers) => format!("{}, {leftovers} leftovers", collection.scheme),
                _ => format!("{}, {missing} MISSING", collection.scheme),
            };
            [
                format!(
                    "{}/{}/{}",
                    collection.namespace, collection.set, collection.key
                ),
                count(collection.elements),
                count(collection.largest_bytes),
                state,
            ]
        })
        .collect();
    if !rows.is_empty() {
        report.table(["collection", "elements", "largest record", "state"], &rows);
    }
}

/// Whether a key is what somebody has typed.
fn is_called(key: &Key<'_>, asked: &str) -> bool {
    match key {
        Key::Integer(number) => number.to_string() == asked,
        Key::String(text) => text == asked,
        Key::Blob(bytes) => bytes.escape_ascii().to_string() == asked,
    }
}
