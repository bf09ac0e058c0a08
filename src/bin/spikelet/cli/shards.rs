//! `spikelet shards`: the sharded collections of a store, or one of them record by record.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
#[cfg(feature = "cluster")]
use spikelet::RecordStore;
#[cfg(feature = "cluster")]
use spikelet::shard::sharded_records;
use spikelet::shard::{ShardStatus, ShardedCollection, sharded_collections};
use spikelet::{Key, Store};

use super::CommandOutcome;
use super::print::emit_found;
use super::target::{ReadTarget, namespaces};
use crate::failure::{CommandFailure, Result};
use crate::report::{Report, ReportTable, Section, bytes, count, key};

/// Arguments of `shards`.
#[derive(Debug, Args)]
pub(crate) struct ShardsArguments {
    /// The directory of the store; left out with --host.
    #[cfg_attr(
        feature = "cluster",
        arg(required_unless_present = "host", allow_negative_numbers = true)
    )]
    #[cfg_attr(not(feature = "cluster"), arg(required = true))]
    dir: Option<PathBuf>,
    /// Show the collections of this key, record by record [default: all collections, a line each].
    #[arg(allow_negative_numbers = true)]
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
    #[cfg(feature = "cluster")]
    #[command(flatten)]
    cluster: super::host::HostArguments,
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct FoundShards {
    path: String,
    collections: Vec<CollectionLine>,
}

/// A sharded collection, as `shards` and `verify` report it.
#[derive(Debug, Serialize)]
pub(super) struct CollectionLine {
    namespace: String,
    set: String,
    /// Bytes of its companions.
    bytes: u64,
    /// Bytes of the root, or of its largest companion.
    largest_bytes: u64,
    #[serde(flatten)]
    found: ShardedCollection,
}

impl CollectionLine {
    pub(super) fn new(namespace: &str, set: &str, found: ShardedCollection) -> Self {
        let current = found.companions.iter();
        let current = current.filter(|companion| companion.status == ShardStatus::Current);
        let bytes = current.map(|companion| companion.bytes);
        Self {
            namespace: namespace.to_owned(),
            set: set.to_owned(),
            bytes: bytes.clone().sum(),
            largest_bytes: bytes.fold(found.root_bytes, u64::max),
            found,
        }
    }

    /// Returns whether elements are lost.
    pub(super) fn is_incomplete(&self) -> bool {
        !self.found.missing.is_empty()
    }

    /// Returns whether elements are lost, companions are left, or a transition is under way.
    pub(super) fn has_fault(&self) -> bool {
        let has_leftovers = self.found.leftovers().next().is_some();
        self.found.in_transition || has_leftovers || self.is_incomplete()
    }

    pub(super) fn section(&self) -> Section {
        let found = &self.found;
        let bin = found.bin.as_deref();
        let mut section = Section::new(format!(
            "Collection {} in set \"{}\" of namespace {}",
            key(&found.key),
            self.set,
            self.namespace
        ))
        .fact("bin", bin.unwrap_or("unknown: there is no root"))
        .fact("where it is", &found.scheme)
        .fact("epoch", found.epoch.to_string());
        if found.in_transition {
            section = section.fact(
                "under way",
                "or left unfinished: the next writer, or advance() of a handle, carries it to its end",
            );
        }
        section = section
            .fact("elements", count(found.elements))
            .fact("bins of the root", bytes(found.root_bytes))
            .fact("bins of companions", bytes(self.bytes))
            .fact("the largest", bytes(self.largest_bytes));
        for shard in &found.missing {
            section = section.fact("MISSING", format!("shard {shard}: its elements are lost"));
        }
        for record in found.leftovers() {
            let (key, status) = (key(&record.key), record.status);
            section = section.fact("leftover", format!("{key} ({status}): no read uses it"));
        }
        let rows = found.companions.iter().map(|one| {
            let frozen = if one.frozen { ", frozen" } else { "" };
            (key(&one.key), format!("{}{frozen}", one.status), one)
        });
        section.table(ReportTable::of(
            "Companions",
            rows,
            "companion: 0 | elements | size: bytes B | epoch # | state: 1",
        ))
    }
}

/// The collections that are asked for, and where they are.
struct CollectionSearch<'a> {
    namespace: Option<&'a str>,
    set: Option<&'a str>,
    key: Option<&'a str>,
    source: String,
    collections: Vec<CollectionLine>,
}

impl CollectionSearch<'_> {
    /// Adds the collections of a set.
    fn add(&mut self, namespace: &str, set: &str, found: Vec<ShardedCollection>) {
        let place = format!("{namespace}/{set}/");
        let is_asked_for = |found: &ShardedCollection| {
            self.key.is_none_or(|asked| {
                // As they are listed, or the key alone.
                let key = asked.strip_prefix(&place).unwrap_or(asked);
                is_called(&found.key, key) || is_called(&found.key, asked)
            })
        };
        let found = found.into_iter().filter(is_asked_for);
        let found = found.map(|found| CollectionLine::new(namespace, set, found));
        self.collections.extend(found);
    }

    /// Looks into a store on disk.
    fn store(&mut self, store: &Store) -> Result<()> {
        for namespace in namespaces(store, self.namespace)? {
            for set in namespace.sets() {
                if self.set.is_none_or(|asked| *asked == *set.name) {
                    let found = sharded_collections(&namespace.set(&set.name)?)?;
                    self.add(namespace.name(), &set.name, found);
                }
            }
        }
        Ok(())
    }

    /// Looks into a cluster. Only roots and companions are read.
    #[cfg(feature = "cluster")]
    fn cluster(&mut self, cluster: &spikelet::cluster::Cluster) -> Result<()> {
        let sets = match self.set {
            Some(set) => vec![set.to_owned()],
            None => cluster.set_names()?,
        };
        for set in sets {
            let records = cluster.records(&set)?.filtered(sharded_records())?;
            let found = sharded_collections(&records)?;
            self.add(cluster.namespace(), &set, found);
        }
        Ok(())
    }
}

/// Searches where the arguments say.
fn search(arguments: &ShardsArguments) -> Result<CollectionSearch<'_>> {
    let mut search = CollectionSearch {
        namespace: arguments.namespace.as_deref(),
        set: arguments.set.as_deref(),
        key: arguments.key.as_deref(),
        source: String::new(),
        collections: Vec::new(),
    };
    #[cfg(feature = "cluster")]
    if arguments.cluster.host().is_some() {
        // The first argument is a key then.
        search.key = match (&arguments.dir, search.key) {
            (None, key) => key,
            (Some(key), None) => Some(key.to_str().ok_or_else(|| {
                CommandFailure::Input(format!(
                    "key {key:?} is not text in UTF-8: give the key as `spikelet shards` shows it"
                ))
            })?),
            (Some(dir), Some(_)) => {
                return Err(CommandFailure::Input(format!(
                    "{} and --host: give one of them",
                    dir.display()
                )));
            }
        };
    }
    let (target, source) = ReadTarget::open(
        arguments.dir.as_deref(),
        #[cfg(feature = "cluster")]
        (&arguments.cluster, search.namespace),
    )?;
    search.source = source;
    match target {
        ReadTarget::Store(store) => search.store(&store)?,
        #[cfg(feature = "cluster")]
        ReadTarget::Cluster(cluster) => search.cluster(&cluster)?,
    }
    Ok(search)
}

/// Shows the sharded collections.
///
/// # Errors
/// A directory without a store, names and keys that are not in it.
pub(crate) fn run(arguments: &ShardsArguments) -> Result<CommandOutcome> {
    let CollectionSearch {
        key,
        source,
        collections,
        ..
    } = search(arguments)?;
    if let Some(asked) = key
        && collections.is_empty()
    {
        return Err(CommandFailure::Input(format!(
            "no sharded collection has the key {asked:?}: `spikelet shards {source}` lists the sharded collections"
        )));
    }
    let is_incomplete = collections.iter().any(CollectionLine::is_incomplete);
    let found = FoundShards {
        path: source,
        collections,
    };
    emit_found(arguments.json, "shards", &found, || {
        let report = Report::new(format!("Sharded collections of {}", found.path));
        if key.is_some() {
            let sections = found.collections.iter().map(CollectionLine::section);
            sections.fold(report, Report::section)
        } else {
            report.section(list(&found.collections))
        }
    })?;
    Ok(CommandOutcome::damaged_if(is_incomplete))
}

fn list(collections: &[CollectionLine]) -> Section {
    let title = format!("Sharded collections: {}", count(collections.len() as u64));
    let state = |one: &CollectionLine| {
        let scheme = &one.found.scheme;
        match (one.found.missing.len(), one.found.leftovers().count()) {
            (0, 0) => scheme.clone(),
            (0, leftovers) => format!("{scheme}, {leftovers} leftovers"),
            (missing, _) => format!("{scheme}, {missing} MISSING"),
        }
    };
    let rows = collections.iter().map(|one| {
        let name = format!("{}/{}/{}", one.namespace, one.set, key(&one.found.key));
        let bin = one.found.bin.as_deref().unwrap_or("?");
        (name, bin, state(one), one)
    });
    let table = ReportTable::of(
        "By namespace, set and key",
        rows,
        "collection: 0 | bin: 1 | elements | largest record: largest_bytes B | state: 2",
    );
    Section::new(title).table(table.if_any())
}

/// Returns whether a key is the one that a user has typed, as it is or as a report shows it.
fn is_called(found: &Key<'_>, asked: &str) -> bool {
    let is_itself = match found {
        Key::Integer(_) => false,
        Key::String(text) => text == asked,
        Key::Blob(bytes) => bytes.escape_ascii().to_string() == asked,
    };
    is_itself || key(found) == asked
}
