//! `spikelet stat`: the content of a store, and its cost.

use serde::Serialize;
use spikelet::Namespace;
use spikelet::monitor::{HotRecordSnapshot, StoreSnapshot};
use spikelet::storage::{SetUsage, Stats};

use super::print::emit_found;
use super::target::open;
use super::top::hot_table;
use super::{CommandOutcome, StoreArguments};
use crate::failure::Result;
use crate::report::{Report, ReportTable, Section, bytes, count, decimal};
use crate::sizing::{SecondaryIndexSizing, secondary_indexes_table};

/// How many hot keys are shown.
const HOT_KEYS: usize = 10;

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct StoreStat {
    path: String,
    namespaces: Vec<NamespaceStat>,
}

#[derive(Debug, Serialize)]
struct NamespaceStat {
    name: String,
    #[serde(flatten)]
    stats: Stats,
    sets: Vec<SetUsage>,
    /// None where nothing is known to have been written.
    write_amplification: Option<f64>,
    index_bytes_per_record: f64,
    indexes: Vec<SecondaryIndexSizing>,
    hot_keys: Vec<HotRecordSnapshot>,
    clean_close: bool,
    damaged_entries: u64,
}

impl NamespaceStat {
    fn new(namespace: &Namespace, hot_keys: Vec<HotRecordSnapshot>) -> Self {
        let stats = namespace.stats().storage;
        let opening = namespace.opening();
        let known = stats.traffic.requested_bytes > 0;
        Self {
            name: namespace.name().to_owned(),
            // "No set" is among them always; it is worth a line only if it holds something.
            sets: namespace
                .sets()
                .into_iter()
                .filter(|set| !set.name.is_empty() || set.records > 0)
                .collect(),
            write_amplification: known.then(|| stats.traffic.write_amplification()),
            index_bytes_per_record: stats.index_bytes_per_record(),
            indexes: SecondaryIndexSizing::all_of(namespace),
            hot_keys,
            clean_close: opening.from_snapshot,
            damaged_entries: opening.damaged_entries,
            stats,
        }
    }

    fn section(&self) -> Section {
        let amplification = self.write_amplification.map_or_else(
            || "unknown: it is noted at a clean close".to_owned(),
            |factor| format!("{factor:.2} bytes of log for each byte asked for"),
        );
        let stats = &self.stats;
        let index = match stats.records {
            0 => bytes(stats.index_bytes),
            _ => {
                let each = decimal(self.index_bytes_per_record, 1);
                format!("{}, {each} bytes a record", bytes(stats.index_bytes))
            }
        };
        let closed = if self.clean_close {
            "cleanly"
        } else {
            "not cleanly: the log was read"
        };
        let damaged = (self.damaged_entries > 0).then(|| count(self.damaged_entries));
        let damaged = damaged.map(|damaged| format!("{damaged}: `spikelet verify` shows where"));
        let no_hot_keys = if self.clean_close {
            "none: no writer has waited"
        } else {
            "none: noted at a clean close"
        };
        let no_hot_keys = self.hot_keys.is_empty().then_some(no_hot_keys);
        let sets = self.sets.iter().map(|set| match set.name.as_str() {
            "" => ("(no set)", set),
            name => (name, set),
        });
        let sets = ReportTable::of("Sets", sets, "set: 0 | records | size: stored_bytes B");
        Section::new(format!("Namespace {}", self.name))
            .fact("records", count(stats.records))
            .fact("live", bytes(stats.live_bytes))
            .fact("on the device", bytes(stats.device_bytes))
            .fact("blocks with records", count(stats.used_blocks))
            .fact("write amplification", amplification)
            .fact("index, in memory", index)
            .fact("closed", closed)
            .facts(damaged.map(|damaged| ("damaged entries", damaged)))
            .facts(no_hot_keys.map(|why| ("hot keys", why)))
            .table(sets)
            .table(secondary_indexes_table("Secondary indexes", &self.indexes))
            .table(hot_table("Records that writers fought over", &self.hot_keys).of_known())
    }
}

/// Shows the content of a store.
///
/// # Errors
/// A directory without a store, or with one that is in use or cannot be read.
pub(crate) fn run(arguments: &StoreArguments) -> Result<CommandOutcome> {
    let store = open(&arguments.dir)?;
    let looked = StoreSnapshot::of(&store, HOT_KEYS).namespaces;
    let namespaces = looked.into_iter().map(|looked| -> Result<NamespaceStat> {
        let namespace = store.namespace(&looked.name)?;
        Ok(NamespaceStat::new(&namespace, looked.hot))
    });
    let stat = StoreStat {
        path: arguments.dir.display().to_string(),
        namespaces: namespaces.collect::<Result<_>>()?,
    };
    emit_found(arguments.json, "stat", &stat, || {
        let sections = stat.namespaces.iter().map(NamespaceStat::section);
        Report::new(format!("Store {}", stat.path)).sections(sections)
    })?;
    Ok(CommandOutcome::Sound)
}
