//! `spikelet verify`: whether a store on disk is as it was written.

use serde::Serialize;
use spikelet::{Store, Verification, sharded_collections};

use super::print::{Report, bytes, count, emit_json, key};
use super::{Failure, Outcome, StoreArguments};

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct StoreCheck {
    path: String,
    damaged: bool,
    namespaces: Vec<NamespaceCheck>,
    shards: Vec<ShardsCheck>,
}

/// A sharded collection with something to tell.
#[derive(Debug, Serialize)]
struct ShardsCheck {
    namespace: String,
    set: String,
    key: String,
    scheme: String,
    in_transition: bool,
    /// Numbers of companions whose elements are lost.
    missing: Vec<u64>,
    /// Companions of earlier transitions, or without a root: nobody reads them.
    leftovers: Vec<String>,
}

impl ShardsCheck {
    /// What there is to tell of all collections of a store.
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
                        scheme: found.scheme.clone(),
                        in_transition: found.in_transition,
                        missing: found.missing.clone(),
                        leftovers: found
                            .leftovers()
                            .map(|record| format!("{} ({})", key(&record.key), record.standing))
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

    fn report(&self, report: &mut Report) {
        report.title(&format!(
            "Sharded collection {}/{}/{}: {}",
            self.namespace, self.set, self.key, self.scheme
        ));
        for shard in &self.missing {
            report.row("MISSING", format!("shard {shard}: its elements are lost"));
        }
        if self.in_transition {
            report.row(
                "under way",
                "a transition, which the next writer carries to its end",
            );
        }
        for leftover in &self.leftovers {
            report.row("leftover", format!("{leftover}: nobody reads it"));
        }
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
    unreadable_bytes: u64,
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
        let place = |place: spikelet::Damage| Place {
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
            unreadable_bytes: found.unreadable_bytes,
            index_disagreements: found.index_disagreements,
            places: found.places.into_iter().map(place).collect(),
        }
    }

    fn report(&self, report: &mut Report) {
        let judgement = if self.damaged { "DAMAGED" } else { "sound" };
        report.title(&format!("Namespace {}: {judgement}", self.name));
        let closed = if self.clean_close {
            "cleanly"
        } else {
            "not cleanly: a crash, or still being written"
        };
        report.row("closed", closed);
        report.row("blocks", count(self.blocks));
        report.row(
            "entries",
            format!("{}, superseded ones included", count(self.entries)),
        );
        report.row("records", count(self.records));
        report.row("deleted, remembered", count(self.tombstones));
        report.row("damaged entries", count(self.damaged_entries));
        report.row(
            "leftovers",
            format!(
                "{} entries, overwritten by whole ones since: no damage",
                count(self.leftover_entries)
            ),
        );
        report.row("damaged headers", count(self.damaged_headers));
        let torn = if self.clean_close || self.unreadable_bytes == 0 {
            ""
        } else {
            ", as torn writes of a crash leave them"
        };
        report.row(
            "unreadable",
            format!("{}{torn}", bytes(self.unreadable_bytes)),
        );
        let compared = if self.clean_close {
            ""
        } else {
            ", there is none to compare with"
        };
        report.row(
            "snapshot disagrees in",
            format!("{} records{compared}", count(self.index_disagreements)),
        );
        for Place {
            device,
            offset,
            bytes,
            what,
        } in &self.places
        {
            report.row(
                "place",
                format!("device {device}, offset {offset}, {bytes} bytes:"),
            );
            report.row("", what);
        }
    }
}

/// Checks a store.
///
/// # Errors
/// A directory without a store, or with one that is in use or cannot be opened at all.
pub(crate) fn run(arguments: &StoreArguments) -> Result<Outcome, Failure> {
    let found = Store::builder().path(&arguments.dir).verify()?;
    let namespaces: Vec<_> = found.into_iter().map(NamespaceCheck::new).collect();
    let mut damaged = namespaces.iter().any(|namespace| namespace.damaged);
    // Of damaged devices nothing more is said: records may be missing for that reason.
    let shards = if damaged {
        Vec::new()
    } else {
        let store = Store::builder().path(&arguments.dir).read_only().open()?;
        ShardsCheck::of(&store)?
    };
    damaged |= shards.iter().any(|check| !check.missing.is_empty());
    let check = StoreCheck {
        path: arguments.dir.display().to_string(),
        damaged,
        namespaces,
        shards,
    };
    if arguments.json {
        emit_json(&check)?;
    } else {
        let mut report = Report::default();
        check
            .namespaces
            .iter()
            .for_each(|namespace| namespace.report(&mut report));
        check
            .shards
            .iter()
            .for_each(|shards| shards.report(&mut report));
        report.emit()?;
    }
    Ok(if damaged {
        Outcome::Damaged
    } else {
        Outcome::Sound
    })
}
