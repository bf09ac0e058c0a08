//! `spikelet relations`: the relations that a store declares, how many references they have, and
//! the layout that suits them.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use spikelet::RecordStore;
use spikelet::relation::{
    LayoutKind, OnDelete, RelationDeclaration, SideForm, SideStats, declared_relations,
};
use spikelet::shard::arithmetic::SWEET_SPOT_BYTES;

use super::print::emit_found;
use super::target::{Target, namespaces};
use super::{Failure, Outcome};
use crate::report::{Cell, Report, Section, Table, bytes, count, key};

/// Arguments of `relations`.
#[derive(Debug, Args)]
pub(crate) struct RelationsArguments {
    /// The directory of the store; left out with --host.
    #[cfg_attr(
        feature = "cluster",
        arg(required_unless_present = "host", conflicts_with = "host")
    )]
    #[cfg_attr(not(feature = "cluster"), arg(required = true))]
    dir: Option<PathBuf>,
    /// Look into this namespace only.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Show the relation of this name only.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
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
    relations: Vec<Relation>,
}

#[derive(Debug, Serialize)]
struct Relation {
    namespace: String,
    name: String,
    kind: &'static str,
    on_delete: OnDelete,
    details: Vec<Box<str>>,
    sides: Vec<Side>,
    advice: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Side {
    role: Box<str>,
    set: Box<str>,
    bin: Option<Box<str>>,
    to: Option<Box<str>>,
    records: u64,
    elements: u64,
    elements_p99: u64,
    largest_key: Option<String>,
    largest_elements: u64,
    sharded: u64,
    record_bytes_max: u64,
}

/// Shows the declared relations.
///
/// # Errors
/// A directory without a store, a name that is not declared, records that cannot be read.
pub(crate) fn run(arguments: &RelationsArguments) -> Result<Outcome, Failure> {
    let found = find(arguments)?;
    if let (Some(name), true) = (&arguments.name, found.relations.is_empty()) {
        return Err(Failure::Input(format!(
            "no relation {name:?} is declared in {}: leave out --name to see all",
            found.path
        )));
    }
    emit_found(arguments.json, &found, || {
        let title = format!("Relations of {}", found.path);
        let report = Report::new(title).fact("declared", count(found.relations.len() as u64));
        let sections = found.relations.iter().map(Relation::section);
        sections.fold(report, Report::section)
    })?;
    Ok(Outcome::Sound)
}

fn find(arguments: &RelationsArguments) -> Result<Found, Failure> {
    let (name, asked) = (arguments.name.as_deref(), arguments.namespace.as_deref());
    let (target, path) = Target::open(
        arguments.dir.as_deref(),
        #[cfg(feature = "cluster")]
        (&arguments.cluster, asked),
    )?;
    let relations = match target {
        Target::Store(store) => {
            let mut found = Vec::new();
            for namespace in namespaces(&store, asked)? {
                found.extend(relations(&namespace, namespace.name(), name)?);
            }
            found
        }
        #[cfg(feature = "cluster")]
        Target::Cluster(cluster) => relations(&cluster, cluster.namespace(), name)?,
    };
    Ok(Found { path, relations })
}

fn relations<S: RecordStore>(
    store: &S,
    namespace: &str,
    name: Option<&str>,
) -> Result<Vec<Relation>, Failure> {
    let declared = declared_relations(store)?.into_iter();
    declared
        .filter(|declared| name.is_none_or(|name| *declared.name == *name))
        .map(|declared| Relation::new(store, namespace, &declared))
        .collect()
}

impl Relation {
    fn new<S: RecordStore>(
        store: &S,
        namespace: &str,
        declared: &RelationDeclaration,
    ) -> Result<Self, Failure> {
        let stats = declared.stats(store)?;
        let suggested = declared.suggested_layout(store, &stats)?;
        let sides = declared.sides.iter().zip(&stats);
        let mut advice: Vec<String> = sides
            .clone()
            .flat_map(|(side, stats)| {
                let unreadable = unreadable_advice(&side.role, stats);
                unreadable
                    .into_iter()
                    .chain(shard_advice(&side.role, stats))
            })
            .collect();
        if let (Some(suggested), Some(side)) = (suggested, declared.sides.first()) {
            advice.extend(layout_advice(suggested, side.form, &stats));
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: declared.name.to_string(),
            kind: declared.kind.name(),
            on_delete: declared.on_delete,
            details: declared.details.clone(),
            sides: sides
                .map(|(side, stats)| {
                    let (largest_key, largest_elements) = match &stats.largest {
                        Some((largest, elements)) => (Some(key(largest)), *elements),
                        None => (None, 0),
                    };
                    Side {
                        role: side.role.clone(),
                        set: side.set.clone(),
                        bin: side.bin.clone(),
                        to: side.to.clone(),
                        records: stats.records,
                        elements: stats.elements,
                        elements_p99: stats.elements_p99,
                        largest_key,
                        largest_elements,
                        sharded: stats.sharded,
                        record_bytes_max: stats.record_bytes_max,
                    }
                })
                .collect(),
            advice,
        })
    }

    fn section(&self) -> Section {
        let title = format!(
            "{}, {} in namespace {}",
            self.name, self.kind, self.namespace
        );
        let mut section = Section::new(title).fact("on delete", format!("{:?}", self.on_delete));
        for detail in &self.details {
            section = section.fact("declared", &**detail);
        }
        let name = |side: &Side| {
            let bin = side
                .bin
                .as_ref()
                .map_or_else(String::new, |bin| format!("/{bin}"));
            let to = side
                .to
                .as_ref()
                .map_or_else(String::new, |to| format!(" to {to}"));
            format!("{}: {}{bin}{to}", side.role, side.set)
        };
        let table = Table::of(
            "Sides, by set and bin",
            &self.sides,
            &[
                ("side", &|side| Cell::text(name(side))),
                ("records", &|side| Cell::count(side.records)),
                ("elements", &|side| Cell::count(side.elements)),
                ("p99", &|side| Cell::count(side.elements_p99)),
                ("largest", &|side| Cell::count(side.largest_elements)),
                ("of", &|side| {
                    Cell::text(side.largest_key.as_deref().unwrap_or("-"))
                }),
                ("sharded", &|side| Cell::count(side.sharded)),
                ("largest record", &|side| Cell::bytes(side.record_bytes_max)),
            ],
        );
        for advice in &self.advice {
            section = section.fact("advice", advice);
        }
        section.table(table)
    }
}

/// Returns what to do about records that have something else where a key should be.
fn unreadable_advice(role: &str, stats: &SideStats) -> Option<String> {
    (stats.unreadable > 0).then(|| {
        format!(
            "{role}: {} records have a reference that is no key and are not counted; keys are integers, text and bytes",
            count(stats.unreadable)
        )
    })
}

/// Recommends shards for a side with records that grow too large, by the rule of `sizing`.
fn shard_advice(role: &str, stats: &SideStats) -> Option<String> {
    (stats.record_bytes_max > SWEET_SPOT_BYTES).then(|| {
        format!(
            "{role}: a record of {} is not sharded; give the handle a ShardPolicy with record_bytes_max of {} or less",
            bytes(stats.record_bytes_max),
            bytes(SWEET_SPOT_BYTES)
        )
    })
}

/// Returns what to do about children that another layout suits, by the rule of `suggest_layout`.
fn layout_advice(suggested: LayoutKind, form: SideForm, stats: &[SideStats]) -> Option<String> {
    let present = match form {
        SideForm::List => LayoutKind::KeyList,
        SideForm::Map => LayoutKind::Consolidated,
        _ => LayoutKind::Reference,
    };
    let children_p99 = stats.first().map_or(0, |stats| stats.elements_p99);
    (suggested != present).then(|| {
        format!(
            "layout {suggested} suits {} children a parent (p99) better than {present}: move them by moving_from and move_children",
            count(children_p99)
        )
    })
}
