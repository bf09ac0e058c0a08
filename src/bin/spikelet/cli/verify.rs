//! `spikelet verify`: whether a store on disk is as it was written.

use serde::Serialize;
use spikelet::Store;
use spikelet::storage::{OpeningStep, Verification};

use super::print::{ProgressUnit, emit_found, progress};
use super::shards::{CollectionLine, collections_of};
use super::target::open;
use super::{CommandOutcome, StoreArguments};
use crate::failure::Result;
use crate::report::{Report, ReportTable, Section, bytes, count};

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct StoreCheck {
    path: String,
    damaged: bool,
    namespaces: Vec<NamespaceCheck>,
    shards: Vec<CollectionLine>,
}

#[derive(Debug, Serialize)]
struct NamespaceCheck {
    name: String,
    damaged: bool,
    #[serde(flatten)]
    found: Verification,
}

impl NamespaceCheck {
    fn section(&self) -> Section {
        let found = &self.found;
        let judgement = if self.damaged { "DAMAGED" } else { "sound" };
        let closed = if found.clean {
            "cleanly"
        } else {
            "not cleanly: a crash, or still being written"
        };
        let compared = if found.clean {
            ""
        } else {
            ", there is none to compare with"
        };
        let [leftovers, disagreements] =
            [found.leftover_entries, found.index_disagreements].map(count);
        let section = Section::new(format!("Namespace {}: {judgement}", self.name))
            .fact("closed", closed)
            .fact("blocks", count(found.blocks))
            .fact(
                "entries",
                count(found.entries) + ", superseded ones included",
            )
            .fact("records", count(found.records))
            .fact("deleted, remembered", count(found.tombstones))
            .fact("damaged entries", count(found.damaged_entries))
            .fact(
                "leftovers",
                format!("{leftovers} entries, overwritten by whole ones since: no damage"),
            )
            .fact("damaged headers", count(found.damaged_headers))
            .fact(
                "lost",
                bytes(found.damaged_bytes) + ", in which no entry can be read",
            )
            .fact(
                "snapshot disagrees in",
                format!("{disagreements} records{compared}"),
            );
        let table = ReportTable::of("Places", &found.places, "device | offset # | bytes | what");
        section.table(table)
    }
}

/// Checks a store.
///
/// # Errors
/// A directory without a store, or with one that is in use or cannot be opened at all.
pub(crate) fn run(arguments: &StoreArguments) -> Result<CommandOutcome> {
    let bar = progress("checking", 0, ProgressUnit::Count("blocks"));
    let shown = bar.clone();
    let verified = Store::builder().path(&arguments.dir);
    let verified = verified.progress(move |step, done, total| {
        if step == OpeningStep::Scan {
            shown.set_length(total);
            shown.set_position(done);
        }
    });
    let found = verified.verify();
    bar.finish_and_clear();
    let found = found?;
    let checked = found.into_iter().map(|(name, found)| NamespaceCheck {
        name,
        damaged: found.is_damaged(),
        found,
    });
    let namespaces: Vec<_> = checked.collect();
    let mut damaged = namespaces.iter().any(|namespace| namespace.damaged);
    // Of damaged devices nothing more is said: records may be missing for that reason.
    let shards = if damaged {
        Vec::new()
    } else {
        let store = open(&arguments.dir)?;
        let namespaces = store.namespaces().into_iter();
        let records = namespaces.map(|namespace| namespace.stats().records).sum();
        let bar = progress("shards", records, ProgressUnit::Count("records"));
        let found = collections_of(&store, None, None, |set| bar.inc(set.records));
        bar.finish_and_clear();
        let mut found = found?;
        found.retain(CollectionLine::has_fault);
        found
    };
    damaged |= shards.iter().any(CollectionLine::is_incomplete);
    let check = StoreCheck {
        path: arguments.dir.display().to_string(),
        damaged,
        namespaces,
        shards,
    };
    emit_found(arguments.json, "verify", &check, || {
        Report::new(format!("Check of {}", check.path))
            .sections(check.namespaces.iter().map(NamespaceCheck::section))
            .sections(check.shards.iter().map(CollectionLine::section))
    })?;
    Ok(CommandOutcome::Damaged.only_if(damaged))
}

#[cfg(test)]
mod tests {
    use spikelet::ShardedList;
    use spikelet::storage::SetUsage;

    use super::*;

    #[test]
    fn the_audit_of_shards_counts_every_record_it_looks_at() -> Result<()> {
        let store = Store::in_memory()?;
        for key in ["a", "b", "c"] {
            store.set("plain")?.put(key, [("n", 1)])?;
        }
        let list = ShardedList::new(&store, "feed", "bob", "by")?;
        list.add(1)?;
        list.shards().activate(4)?;
        let namespaces = store.namespaces().into_iter();
        let records: u64 = namespaces.map(|namespace| namespace.stats().records).sum();
        let looked_at = std::cell::Cell::new(0);
        let count = |set: &SetUsage| looked_at.set(looked_at.get() + set.records);
        let found = collections_of(&store, None, None, count)?;
        assert!(!found.iter().any(CollectionLine::has_fault));
        assert_eq!((looked_at.get(), records), (8, 8));
        Ok(())
    }
}
