//! `spikelet verify`: whether a store on disk is as it was written.

use serde::Serialize;
use spikelet::{Store, Verification};

use super::print::{Report, bytes, count, emit_json};
use super::{Failure, Outcome, StoreArguments};

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct StoreCheck {
    path: String,
    damaged: bool,
    namespaces: Vec<NamespaceCheck>,
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
    let damaged = namespaces.iter().any(|namespace| namespace.damaged);
    let check = StoreCheck {
        path: arguments.dir.display().to_string(),
        damaged,
        namespaces,
    };
    if arguments.json {
        emit_json(&check)?;
    } else {
        let mut report = Report::default();
        check
            .namespaces
            .iter()
            .for_each(|namespace| namespace.report(&mut report));
        report.emit()?;
    }
    Ok(if damaged {
        Outcome::Damaged
    } else {
        Outcome::Sound
    })
}
