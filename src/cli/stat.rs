//! `spikelet stat`: what a store holds, and what it has cost.

use serde::Serialize;
use spikelet::{Namespace, Store};

use super::print::{Report, bytes, count, emit_json, key};
use super::{Failure, Outcome, StoreArguments};

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
    records: u64,
    sets: Vec<SetStat>,
    live_bytes: u64,
    device_bytes: u64,
    used_blocks: u64,
    /// None where nothing is known to have been written.
    write_amplification: Option<f64>,
    index_bytes: u64,
    index_bytes_per_record: f64,
    hot_keys: Vec<HotKeyStat>,
    clean_close: bool,
    damaged_entries: u64,
}

#[derive(Debug, Serialize)]
struct SetStat {
    name: String,
    records: u64,
    stored_bytes: u64,
}

#[derive(Debug, Serialize)]
struct HotKeyStat {
    /// None if the record is gone, or its key was not stored.
    key: Option<String>,
    digest: String,
    waits: u64,
    key_busy: u64,
}

impl NamespaceStat {
    fn new(namespace: &Namespace) -> Self {
        let stats = namespace.stats();
        let opening = namespace.opening();
        let known = stats.traffic.requested_bytes > 0;
        let hot = namespace
            .hot_records(HOT_KEYS)
            .into_iter()
            .map(|hot| HotKeyStat {
                key: hot.key.as_ref().map(key),
                digest: hot.digest.to_string(),
                waits: hot.waits,
                key_busy: hot.busy,
            });
        let sets = namespace.sets().into_iter().map(|set| SetStat {
            name: set.name,
            records: set.records,
            stored_bytes: set.stored_bytes,
        });
        Self {
            name: namespace.name().to_owned(),
            records: stats.records,
            // "No set" is among them always; it is worth a line only if it holds something.
            sets: sets
                .filter(|set| !set.name.is_empty() || set.records > 0)
                .collect(),
            live_bytes: stats.live_bytes,
            device_bytes: stats.device_bytes,
            used_blocks: stats.used_blocks,
            write_amplification: known.then(|| stats.traffic.write_amplification()),
            index_bytes: stats.index_bytes,
            index_bytes_per_record: stats.index_bytes_per_record(),
            hot_keys: hot.collect(),
            clean_close: opening.from_snapshot,
            damaged_entries: opening.damaged_entries,
        }
    }

    fn report(&self, report: &mut Report) {
        report.title(&format!("Namespace {}", self.name));
        report.row("records", count(self.records));
        report.row("live", bytes(self.live_bytes));
        report.row("on the device", bytes(self.device_bytes));
        report.row("blocks with records", count(self.used_blocks));
        report.row(
            "write amplification",
            match self.write_amplification {
                Some(factor) => format!("{factor:.2} bytes of log for each byte asked for"),
                None => "unknown: it is noted at a clean close".to_owned(),
            },
        );
        let each = self.index_bytes_per_record;
        report.row(
            "index, in memory",
            format!("{}, {each:.1} a record", bytes(self.index_bytes)),
        );
        let closed = if self.clean_close {
            "cleanly"
        } else {
            "not cleanly: the log was read"
        };
        report.row("closed", closed);
        if self.damaged_entries > 0 {
            report.row(
                "damaged entries",
                format!(
                    "{}: `spikelet verify` shows where",
                    count(self.damaged_entries)
                ),
            );
        }
        let row = |set: &SetStat| {
            let name = if set.name.is_empty() {
                "(no set)"
            } else {
                &set.name
            };
            [name.to_owned(), count(set.records), count(set.stored_bytes)]
        };
        if !self.sets.is_empty() {
            report.table(
                ["set", "records", "bytes"],
                &self.sets.iter().map(row).collect::<Vec<_>>(),
            );
        }
        let row = |hot: &HotKeyStat| {
            let name = hot
                .key
                .clone()
                .unwrap_or_else(|| format!("digest {}", hot.digest));
            [name, count(hot.waits), count(hot.key_busy)]
        };
        if self.hot_keys.is_empty() {
            let why = if self.clean_close {
                "no writer has waited"
            } else {
                "noted at a clean close"
            };
            report.row("hot keys", format!("none: {why}"));
        } else {
            report.table(
                ["hot key", "waits", "KEY_BUSY"],
                &self.hot_keys.iter().map(row).collect::<Vec<_>>(),
            );
        }
    }
}

/// Shows what a store holds.
///
/// # Errors
/// A directory without a store, or with one that is in use or cannot be read.
pub(crate) fn run(arguments: &StoreArguments) -> Result<Outcome, Failure> {
    let store = Store::builder().path(&arguments.dir).read_only().open()?;
    let stat = StoreStat {
        path: arguments.dir.display().to_string(),
        namespaces: store.namespaces().iter().map(NamespaceStat::new).collect(),
    };
    if arguments.json {
        emit_json(&stat)?;
    } else {
        let mut report = Report::default();
        stat.namespaces
            .iter()
            .for_each(|namespace| namespace.report(&mut report));
        report.emit()?;
    }
    Ok(Outcome::Sound)
}
