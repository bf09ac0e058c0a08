//! `spikelet shards`: the sharded collections of a store, or one of them record by record.

use clap::Args;
use serde::Serialize;
#[cfg(feature = "cluster")]
use spikelet::RecordStore;
#[cfg(feature = "cluster")]
use spikelet::shard::sharded_records;
use spikelet::shard::{ShardStatus, ShardedCollection, sharded_collections};
use spikelet::storage::SetUsage;
use spikelet::{Key, Store};

use super::CommandOutcome;
use super::print::emit_found;
use super::target::{ReadPlace, ReadTarget, namespaces};
use crate::failure::{CommandFailure, Result};
use crate::report::{Report, ReportTable, Section, bytes, count, key};

/// Arguments of `shards`.
#[derive(Debug, Args)]
pub(crate) struct ShardsArguments {
    #[command(flatten)]
    place: ReadPlace,
    /// Show the collections of this key, record by record [default: all collections, a line each].
    #[arg(long, allow_negative_numbers = true)]
    key: Option<String>,
    /// Look into this set only.
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
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

    /// Returns whether this is its name: as it is listed, or the key alone.
    fn is_called(&self, asked: &str) -> bool {
        let place = format!("{}/{}/", self.namespace, self.set);
        let key = asked.strip_prefix(&place).unwrap_or(asked);
        is_called(&self.found.key, key) || is_called(&self.found.key, asked)
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
        let missing = found.missing.iter();
        let missing = missing.map(|shard| format!("shard {shard}: its elements are lost"));
        let leftovers = found.leftovers();
        let leftovers =
            leftovers.map(|one| format!("{} ({}): no read uses it", key(&one.key), one.status));
        let under_way =
            "or left unfinished: the next writer, or advance() of a handle, carries it to its end";
        let section = Section::new(format!(
            "Collection {} in set \"{}\" of namespace {}",
            key(&found.key),
            self.set,
            self.namespace
        ))
        .fact("bin", bin.unwrap_or("unknown: there is no root"))
        .fact("where it is", &found.scheme)
        .fact("epoch", found.epoch.to_string())
        .facts(found.in_transition.then_some(("under way", under_way)))
        .fact("elements", count(found.elements))
        .fact("bins of the root", bytes(found.root_bytes))
        .fact("bins of companions", bytes(self.bytes))
        .fact("the largest", bytes(self.largest_bytes))
        .facts(missing.map(|why| ("MISSING", why)))
        .facts(leftovers.map(|why| ("leftover", why)));
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

/// Returns the sharded collections of a store, or of one of its namespaces or sets. `each` sees the
/// sets that are read.
pub(super) fn collections_of(
    store: &Store,
    namespace: Option<&str>,
    set: Option<&str>,
    each: impl Fn(&SetUsage),
) -> Result<Vec<CollectionLine>> {
    let mut collections = Vec::new();
    for namespace in namespaces(store, namespace)? {
        for found in namespace.sets() {
            if set.is_none_or(|asked| *asked == *found.name) {
                let sharded = sharded_collections(&namespace.set(&found.name)?)?.into_iter();
                let line = |one| CollectionLine::new(namespace.name(), &found.name, one);
                collections.extend(sharded.map(line));
                each(&found);
            }
        }
    }
    Ok(collections)
}

/// Returns the sharded collections of a cluster, or of one of its sets. Only roots and companions
/// are read.
#[cfg(feature = "cluster")]
fn collections_in(
    cluster: &spikelet::cluster::Cluster,
    set: Option<&str>,
) -> Result<Vec<CollectionLine>> {
    let sets = set.map_or_else(|| cluster.set_names(), |set| Ok(vec![set.to_owned()]))?;
    let mut collections = Vec::new();
    for set in sets {
        let records = cluster.records(&set)?.filtered(sharded_records())?;
        let sharded = sharded_collections(&records)?.into_iter();
        collections.extend(sharded.map(|one| CollectionLine::new(cluster.namespace(), &set, one)));
    }
    Ok(collections)
}

/// Shows the sharded collections.
///
/// # Errors
/// A directory without a store, names and keys that are not in it.
pub(crate) fn run(arguments: &ShardsArguments) -> Result<CommandOutcome> {
    let (set, key) = (arguments.set.as_deref(), arguments.key.as_deref());
    let (target, path) = arguments.place.open()?;
    let mut collections = match target {
        ReadTarget::Store(store) => {
            collections_of(&store, arguments.place.namespace.as_deref(), set, |_| ())?
        }
        #[cfg(feature = "cluster")]
        ReadTarget::Cluster(cluster) => collections_in(&cluster, set)?,
    };
    collections.retain(|one| key.is_none_or(|asked| one.is_called(asked)));
    if let Some(asked) = key
        && collections.is_empty()
    {
        return Err(CommandFailure::Input(format!(
            "no sharded collection has the key {asked:?}: `spikelet shards {path}` lists the sharded collections"
        )));
    }
    let found = FoundShards { path, collections };
    let is_incomplete = found.collections.iter().any(CollectionLine::is_incomplete);
    emit_found(arguments.place.json, "shards", &found, || {
        let report = Report::new(format!("Sharded collections of {}", found.path));
        if key.is_some() {
            report.sections(found.collections.iter().map(CollectionLine::section))
        } else {
            report.section(list(&found.collections))
        }
    })?;
    Ok(CommandOutcome::Damaged.only_if(is_incomplete))
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
    Section::new(title).table(table)
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
