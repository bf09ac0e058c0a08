//! `spikelet relations`: the relations that a store declares, how many references they have, and
//! the layout that suits them.

use clap::Args;
use serde::Serialize;
use spikelet::RecordStore;
use spikelet::relation::{
    DeclaredSide, LayoutKind, RelationDeclaration, SideForm, SideStats, declared_relations,
};
use spikelet::shard::arithmetic::SWEET_SPOT_BYTES;

use super::CommandOutcome;
use super::print::emit_found;
use super::target::{ReadPlace, ReadTarget, namespaces};
use crate::failure::{CommandFailure, Result};
use crate::report::{Report, ReportTable, Section, bytes, count, key};

/// Arguments of `relations`.
#[derive(Debug, Args)]
pub(crate) struct RelationsArguments {
    #[command(flatten)]
    place: ReadPlace,
    /// Show the relation of this name only.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct FoundRelations {
    path: String,
    relations: Vec<Relation>,
}

#[derive(Debug, Serialize)]
struct Relation {
    namespace: String,
    #[serde(flatten)]
    declared: RelationDeclaration,
    /// What each of its sides holds, in their order.
    stats: Vec<SideStats>,
    advice: Vec<String>,
}

/// Shows the declared relations.
///
/// # Errors
/// A directory without a store, a name that is not declared, records that cannot be read.
pub(crate) fn run(arguments: &RelationsArguments) -> Result<CommandOutcome> {
    let found = find(arguments)?;
    if let (Some(name), true) = (&arguments.name, found.relations.is_empty()) {
        return Err(CommandFailure::Input(format!(
            "no relation {name:?} is declared in {}: leave out --name to see all",
            found.path
        )));
    }
    emit_found(arguments.place.json, "relations", &found, || {
        let title = format!("Relations of {}", found.path);
        Report::new(title)
            .fact("declared", count(found.relations.len() as u64))
            .sections(found.relations.iter().map(Relation::section))
    })?;
    Ok(CommandOutcome::Sound)
}

fn find(arguments: &RelationsArguments) -> Result<FoundRelations> {
    let name = arguments.name.as_deref();
    let (target, path) = arguments.place.open()?;
    let relations = match target {
        ReadTarget::Store(store) => {
            let mut found = Vec::new();
            for namespace in namespaces(&store, arguments.place.namespace.as_deref())? {
                found.extend(relations(&namespace, namespace.name(), name)?);
            }
            found
        }
        #[cfg(feature = "cluster")]
        ReadTarget::Cluster(cluster) => relations(&cluster, cluster.namespace(), name)?,
    };
    Ok(FoundRelations { path, relations })
}

fn relations<S: RecordStore>(
    store: &S,
    namespace: &str,
    name: Option<&str>,
) -> Result<Vec<Relation>> {
    let declared = declared_relations(store)?.into_iter();
    declared
        .filter(|declared| name.is_none_or(|name| *declared.name == *name))
        .map(|declared| Relation::new(store, namespace, declared))
        .collect()
}

impl Relation {
    fn new<S: RecordStore>(
        store: &S,
        namespace: &str,
        declared: RelationDeclaration,
    ) -> Result<Self> {
        let stats = declared.stats(store)?;
        let suggested = declared.suggested_layout(store, &stats)?;
        let mut advice = Vec::new();
        for (side, stats) in declared.sides.iter().zip(&stats) {
            advice.extend(unreadable_advice(&side.role, stats));
            advice.extend(shard_advice(&side.role, stats));
        }
        if let (Some(suggested), Some(side)) = (suggested, declared.sides.first()) {
            advice.extend(layout_advice(suggested, side.form, &stats));
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            declared,
            stats,
            advice,
        })
    }

    fn section(&self) -> Section {
        let declared = &self.declared;
        let (name, kind) = (&declared.name, declared.kind);
        let title = format!("{name}, {kind:?} in namespace {}", self.namespace);
        let on_delete = format!("{:?}", declared.on_delete);
        let details = declared.details.iter();
        let section = Section::new(title)
            .fact("on delete", on_delete)
            .facts(details.map(|detail| ("declared", &**detail)))
            .facts(self.advice.iter().map(|advice| ("advice", advice)));
        let name = |side: &DeclaredSide| {
            let part = |before: &str, name: &Option<Box<str>>| {
                let name = name.as_ref();
                name.map_or_else(String::new, |name| format!("{before}{name}"))
            };
            let (bin, to) = (part("/", &side.bin), part(" to ", &side.to));
            format!("{}: {}{bin}{to}", side.role, side.set)
        };
        let rows = declared.sides.iter().zip(&self.stats).map(|(side, stats)| {
            let largest = stats.largest.as_ref();
            (name(side), largest.map(|(largest, _)| key(largest)), stats)
        });
        section.table(ReportTable::of(
            "Sides, by set and bin",
            rows,
            "side: 0 | records | elements | p99: elements_p99 | largest: largest/1 | of: 1 | sharded | \
             largest record: record_bytes_max B",
        ))
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
