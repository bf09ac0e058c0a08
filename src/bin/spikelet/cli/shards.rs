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

use super::print::emit_found;
use super::target::{Target, namespaces};
use super::{Failure, Outcome};
use crate::report::{Cell, Report, Section, Table, bytes, count, key};

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
struct Found {
    path: String,
    collections: Vec<Collection>,
}

/// A sharded collection, as `shards` and `verify` report it.
#[derive(Debug, Serialize)]
pub(super) struct Collection {
    namespace: String,
    set: String,
    key: String,
    bin: Option<String>,
    scheme: String,
    epoch: u64,
    in_transition: bool,
    elements: u64,
    root_bytes: u64,
    bytes: u64,
    largest_bytes: u64,
    companions: Vec<Companion>,
    /// Companions of earlier transitions, or without a root: no read uses them.
    leftovers: Vec<String>,
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
    status: String,
}

impl Collection {
    pub(super) fn new(namespace: &str, set: &str, found: &ShardedCollection) -> Self {
        let current = || {
            let companions = found.companions.iter();
            companions.filter(|companion| companion.status == ShardStatus::Current)
        };
        Self {
            namespace: namespace.to_owned(),
            set: set.to_owned(),
            key: key(&found.key),
            bin: found.bin.clone(),
            scheme: found.scheme.clone(),
            epoch: found.epoch,
            in_transition: found.in_transition,
            elements: found.elements,
            root_bytes: found.root_bytes,
            bytes: current().map(|companion| companion.bytes).sum(),
            largest_bytes: current()
                .map(|companion| companion.bytes)
                .fold(found.root_bytes, u64::max),
            leftovers: found
                .leftovers()
                .map(|record| format!("{} ({})", key(&record.key), record.status))
                .collect(),
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
                    status: companion.status.to_string(),
                })
                .collect(),
            missing: found.missing.clone(),
        }
    }

    /// Returns whether elements are lost.
    pub(super) const fn is_incomplete(&self) -> bool {
        !self.missing.is_empty()
    }

    /// Returns whether elements are lost, companions are left, or a transition is under way.
    pub(super) const fn has_fault(&self) -> bool {
        self.in_transition || !self.leftovers.is_empty() || self.is_incomplete()
    }

    pub(super) fn section(&self) -> Section {
        let mut section = Section::new(format!(
            "Collection {} in set \"{}\" of namespace {}",
            self.key, self.set, self.namespace
        ));
        let bin = self.bin.as_deref();
        section = section
            .fact("bin", bin.unwrap_or("unknown: there is no root"))
            .fact("where it is", &self.scheme)
            .fact("epoch", self.epoch.to_string());
        if self.in_transition {
            section = section.fact(
                "under way",
                "or left unfinished: the next writer, or advance() of a handle, carries it to its end",
            );
        }
        section = section
            .fact("elements", count(self.elements))
            .fact("bins of the root", bytes(self.root_bytes))
            .fact("bins of companions", bytes(self.bytes))
            .fact("the largest", bytes(self.largest_bytes));
        for shard in &self.missing {
            section = section.fact("MISSING", format!("shard {shard}: its elements are lost"));
        }
        for leftover in &self.leftovers {
            section = section.fact("leftover", format!("{leftover}: no read uses it"));
        }
        let frozen = |companion: &Companion| if companion.frozen { ", frozen" } else { "" };
        let table = Table::of(
            "Companions",
            &self.companions,
            &[
                ("companion", &|companion| Cell::text(&companion.key)),
                ("elements", &|companion| Cell::count(companion.elements)),
                ("size", &|companion| Cell::bytes(companion.bytes)),
                ("epoch", &|companion| {
                    Cell::text(companion.epoch.to_string())
                }),
                ("state", &|companion| {
                    Cell::text(format!("{}{}", companion.status, frozen(companion)))
                }),
            ],
        );
        section.table(table)
    }
}

/// The collections that are asked for, and where they are.
struct Search<'a> {
    namespace: Option<&'a str>,
    set: Option<&'a str>,
    key: Option<&'a str>,
    source: String,
    collections: Vec<Collection>,
}

impl Search<'_> {
    /// Adds the collections of a set.
    fn add(&mut self, namespace: &str, set: &str, found: &[ShardedCollection]) {
        let place = format!("{namespace}/{set}/");
        let is_asked_for = |found: &&ShardedCollection| {
            self.key.is_none_or(|asked| {
                // As they are listed, or the key alone.
                let key = asked.strip_prefix(&place).unwrap_or(asked);
                is_called(&found.key, key) || is_called(&found.key, asked)
            })
        };
        let found = found.iter().filter(is_asked_for);
        let found: Vec<Collection> = found
            .map(|found| Collection::new(namespace, set, found))
            .collect();
        self.collections.extend(found);
    }

    /// Looks into a store on disk.
    fn store(&mut self, store: &Store) -> Result<(), Failure> {
        for namespace in namespaces(store, self.namespace)? {
            for set in namespace.sets() {
                if self.set.is_none_or(|asked| *asked == *set.name) {
                    let found = sharded_collections(&namespace.set(&set.name)?)?;
                    self.add(namespace.name(), &set.name, &found);
                }
            }
        }
        Ok(())
    }

    /// Looks into a cluster. Only roots and companions are read.
    #[cfg(feature = "cluster")]
    fn cluster(&mut self, cluster: &spikelet::cluster::Cluster) -> Result<(), Failure> {
        let sets = match self.set {
            Some(set) => vec![set.to_owned()],
            None => cluster.set_names()?,
        };
        for set in sets {
            let records = cluster.records(&set)?.filtered(sharded_records())?;
            let found = sharded_collections(&records)?;
            self.add(cluster.namespace(), &set, &found);
        }
        Ok(())
    }
}

/// Searches where the arguments say.
fn search(arguments: &ShardsArguments) -> Result<Search<'_>, Failure> {
    let mut search = Search {
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
                Failure::Input(format!(
                    "key {key:?} is not text in UTF-8: give the key as `spikelet shards` shows it"
                ))
            })?),
            (Some(dir), Some(_)) => {
                return Err(Failure::Input(format!(
                    "{} and --host: give one of them",
                    dir.display()
                )));
            }
        };
    }
    let (target, source) = Target::open(
        arguments.dir.as_deref(),
        #[cfg(feature = "cluster")]
        (&arguments.cluster, search.namespace),
    )?;
    search.source = source;
    match target {
        Target::Store(store) => search.store(&store)?,
        #[cfg(feature = "cluster")]
        Target::Cluster(cluster) => search.cluster(&cluster)?,
    }
    Ok(search)
}

/// Shows the sharded collections.
///
/// # Errors
/// A directory without a store, names and keys that are not in it.
pub(crate) fn run(arguments: &ShardsArguments) -> Result<Outcome, Failure> {
    let Search {
        key,
        source,
        collections,
        ..
    } = search(arguments)?;
    if let Some(asked) = key
        && collections.is_empty()
    {
        return Err(Failure::Input(format!(
            "no sharded collection has the key {asked:?}: `spikelet shards {source}` lists the sharded collections"
        )));
    }
    let is_incomplete = collections.iter().any(Collection::is_incomplete);
    let found = Found {
        path: source,
        collections,
    };
    emit_found(arguments.json, &found, || {
        let report = Report::new(format!("Sharded collections of {}", found.path));
        if key.is_some() {
            let sections = found.collections.iter().map(Collection::section);
            sections.fold(report, Report::section)
        } else {
            report.section(list(&found.collections))
        }
    })?;
    Ok(Outcome::damaged_if(is_incomplete))
}

fn list(collections: &[Collection]) -> Section {
    let title = format!("Sharded collections: {}", count(collections.len() as u64));
    let section = Section::new(title);
    if collections.is_empty() {
        return section;
    }
    let state = |found: &Collection| match (found.missing.len(), found.leftovers.len()) {
        (0, 0) => found.scheme.clone(),
        (0, leftovers) => format!("{}, {leftovers} leftovers", found.scheme),
        (missing, _) => format!("{}, {missing} MISSING", found.scheme),
    };
    let table = Table::of(
        "By namespace, set and key",
        collections,
        &[
            ("collection", &|found| {
                Cell::text(format!("{}/{}/{}", found.namespace, found.set, found.key))
            }),
            ("bin", &|found| {
                Cell::text(found.bin.as_deref().unwrap_or("?"))
            }),
            ("elements", &|found| Cell::count(found.elements)),
            ("largest record", &|found| Cell::bytes(found.largest_bytes)),
            ("state", &|found| Cell::text(state(found))),
        ],
    );
    section.table(table)
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
