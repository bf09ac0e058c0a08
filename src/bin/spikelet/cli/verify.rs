//! `spikelet verify`: whether a store on disk is as it was written.

use indicatif::ProgressBar;
use parking_lot::Mutex;
use serde::Serialize;
use spikelet::Store;
use spikelet::shard::sharded_collections;
use spikelet::storage::{OpeningStep, Verification};

use super::print::{Unit, emit_found, progress};
use super::{Failure, Outcome, StoreArguments};
use crate::report::{Cell, Report, Section, Table, bytes, count, key};

/// A block of the log, in which the store counts its progress.
const BLOCK_BYTES: u64 = 8 << 20;

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct StoreCheck {
    path: String,
    damaged: bool,
    namespaces: Vec<NamespaceCheck>,
    shards: Vec<ShardsCheck>,
}

/// A sharded collection with a fault or a transition under way.
#[derive(Debug, Serialize)]
struct ShardsCheck {
    namespace: String,
    set: String,
    key: String,
    /// `None`: neither a root nor the companions name it.
    bin: Option<String>,
    scheme: String,
    in_transition: bool,
    /// Numbers of companions whose elements are lost.
    missing: Vec<u64>,
    /// Companions of earlier transitions, or without a root: no read uses them.
    leftovers: Vec<String>,
}

impl ShardsCheck {
    /// Collects what to report about all collections of a store.
    fn of(store: &Store) -> spikelet::Result<Vec<Self>> {
        let mut checks = Vec::new();
        for namespace in store.namespaces() {
            for set in namespace.sets() {
                let found = sharded_collections(&namespace.set(&set.name)?)?;
                checks.extend(found.iter().map(|found| {
                    Self {
                        namespace: namespace.name().to_owned(),
                        set: set.name.clone(),
                        key: key(&found.key),
                        bin: found.bin.clone(),
                        scheme: found.scheme.clone(),
                        in_transition: found.in_transition,
                        missing: found.missing.clone(),
                        leftovers: found
                            .leftovers()
                            .map(|record| format!("{} ({})", key(&record.key), record.status))
                            .collect(),
                    }
                }));
            }
        }
        checks.retain(|check| {
            check.in_transition || !check.missing.is_empty() || !check.leftovers.is_empty()
        });
        Ok(checks)
    }

    fn section(&self) -> Section {
        let bin = match &self.bin {
            Some(bin) => format!(", bin \"{bin}\""),
            None => String::new(),
        };
        let mut section = Section::new(format!(
            "Sharded collection {}/{}/{}{bin}: {}",
            self.namespace, self.set, self.key, self.scheme
        ));
        for shard in &self.missing {
            section = section.fact("MISSING", format!("shard {shard}: its elements are lost"));
        }
        if self.in_transition {
            section = section.fact(
                "under way",
                "a transition, which the next writer carries to its end",
            );
        }
        for leftover in &self.leftovers {
            section = section.fact("leftover", format!("{leftover}: no read uses it"));
        }
        section
    }
}

#[derive(Debug, Serialize)]
struct NamespaceCheck {
    name: String,
    damaged: bool,
    clean_close: bool,
    blocks: u64,
    entries: u64,
    records: u64,
    tombstones: u64,
    damaged_entries: u64,
    leftover_entries: u64,
    damaged_headers: u64,
    damaged_bytes: u64,
    index_disagreements: u64,
    places: Vec<Place>,
}

#[derive(Debug, Serialize)]
struct Place {
    device: usize,
    offset: u64,
    bytes: u64,
    what: String,
}

impl NamespaceCheck {
    fn new((name, found): (String, Verification)) -> Self {
        let place = |place: spikelet::storage::Damage| Place {
            device: place.device,
            offset: place.offset,
            bytes: place.bytes,
            what: place.what,
        };
        Self {
            name,
            damaged: found.is_damaged(),
            clean_close: found.clean,
            blocks: found.blocks,
            entries: found.entries,
            records: found.records,
            tombstones: found.tombstones,
            damaged_entries: found.damaged_entries,
            leftover_entries: found.leftover_entries,
            damaged_headers: found.damaged_headers,
            damaged_bytes: found.damaged_bytes,
            index_disagreements: found.index_disagreements,
            places: found.places.into_iter().map(place).collect(),
        }
    }

    fn section(&self) -> Section {
        let judgement = if self.damaged { "DAMAGED" } else { "sound" };
        let closed = if self.clean_close {
            "cleanly"
        } else {
            "not cleanly: a crash, or still being written"
        };
        let compared = if self.clean_close {
            ""
        } else {
            ", there is none to compare with"
        };
        let section = Section::new(format!("Namespace {}: {judgement}", self.name))
            .fact("closed", closed)
            .fact("blocks", count(self.blocks))
            .fact(
                "entries",
                format!("{}, superseded ones included", count(self.entries)),
            )
            .fact("records", count(self.records))
            .fact("deleted, remembered", count(self.tombstones))
            .fact("damaged entries", count(self.damaged_entries))
            .fact(
                "leftovers",
                format!(
                    "{} entries, overwritten by whole ones since: no damage",
                    count(self.leftover_entries)
                ),
            )
            .fact("damaged headers", count(self.damaged_headers))
            .fact(
                "lost",
                format!(
                    "{}, in which no entry can be read",
                    bytes(self.damaged_bytes)
                ),
            )
            .fact(
                "snapshot disagrees in",
                format!("{} records{compared}", count(self.index_disagreements)),
            );
        if self.places.is_empty() {
            return section;
        }
        let columns = ["device", "offset", "bytes", "what"];
        let mut table = Table::new("Places", &columns).words(&["what"]);
        for place in &self.places {
            table.row([
                Cell::count(place.device as u64),
                Cell::text(place.offset.to_string()),
                Cell::count(place.bytes),
                Cell::text(&place.what),
            ]);
        }
        section.table(table)
    }
}

/// The bar of what is being done: the log is read twice, to build the index and to check each entry.
#[derive(Default)]
struct VerifyProgress(Mutex<Option<(OpeningStep, ProgressBar)>>);

impl VerifyProgress {
    fn show(&self, step: OpeningStep, done: u64, total: u64) {
        let what = match step {
            OpeningStep::Scan => "reading",
            OpeningStep::Verify => "checking",
            _ => return,
        };
        let mut shown = self.0.lock();
        let is_same = shown.as_ref().is_some_and(|(known, _)| *known == step);
        if !is_same {
            if let Some((_, bar)) = shown.take() {
                bar.finish_and_clear();
            }
            *shown = Some((step, progress(what, 0, Unit::Bytes)));
        }
        if let Some((_, bar)) = shown.as_ref() {
            bar.set_length(total * BLOCK_BYTES);
            bar.set_position(done * BLOCK_BYTES);
        }
    }
}

impl Drop for VerifyProgress {
    fn drop(&mut self) {
        if let Some((_, bar)) = self.0.lock().take() {
            bar.finish_and_clear();
        }
    }
}

/// Checks a store.
///
/// # Errors
/// A directory without a store, or with one that is in use or cannot be opened at all.
pub(crate) fn run(arguments: &StoreArguments) -> Result<Outcome, Failure> {
    let bars = VerifyProgress::default();
    let found = Store::builder()
        .path(&arguments.dir)
        .progress(move |step, done, total| bars.show(step, done, total))
        .verify()?;
    let namespaces: Vec<_> = found.into_iter().map(NamespaceCheck::new).collect();
    let mut damaged = namespaces.iter().any(|namespace| namespace.damaged);
    // Of damaged devices nothing more is said: records may be missing for that reason.
    let shards = if damaged {
        Vec::new()
    } else {
        let store = Store::builder()
            .path(&arguments.dir)
            .read_only(true)
            .open()?;
        ShardsCheck::of(&store)?
    };
    damaged |= shards.iter().any(|check| !check.missing.is_empty());
    let check = StoreCheck {
        path: arguments.dir.display().to_string(),
        damaged,
        namespaces,
        shards,
    };
    emit_found(arguments.json, &check, || {
        let report = Report::new(format!("Check of {}", check.path));
        let namespaces = check.namespaces.iter().map(NamespaceCheck::section);
        let shards = check.shards.iter().map(ShardsCheck::section);
        namespaces.chain(shards).fold(report, Report::section)
    })?;
    Ok(if damaged {
        Outcome::Damaged
    } else {
        Outcome::Sound
    })
}
