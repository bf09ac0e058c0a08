//! Stores of rows on disk, compared with their ledgers: after a run, or after its process was
//! killed.

use std::path::Path;

use serde::Serialize;

use super::case::name_of;
use super::journal;
use super::ledger::Correctness;
use super::target::HotTarget;
use crate::failure::Result;
use crate::report::{Report, Section, Severity, Verdict};

/// The comparison of each row with its ledger.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct StoredCheck {
    /// Whether something was acknowledged, and all of it was found once.
    pub(crate) passes: bool,
    /// The rows, by their directories.
    pub(crate) rows: Vec<RowCheck>,
}

/// The comparison of a row with its ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RowCheck {
    /// The name of its directory.
    pub(crate) row: String,
    /// What it wrote; none if its ledger cannot be read.
    pub(crate) operation: Option<String>,
    /// Acknowledged = found? Unreadable writes are lost.
    pub(crate) correctness: Correctness,
    /// Why the ledger or the store cannot be read.
    pub(crate) unreadable: Option<String>,
}

/// Opens the store of every row in a directory for reading and compares its content with the
/// acknowledged writes. Collections are read as they are: a transition under way is not carried
/// on. Nothing in the directory changes. A ledger or a store that cannot be read is a finding about
/// its row. O(writes of all rows).
///
/// # Errors
/// If the directory cannot be read.
pub(crate) fn check_stored(dir: &Path) -> Result<StoredCheck> {
    let names = journal::rows_in(dir)?;
    let rows: Vec<RowCheck> = names
        .into_iter()
        .map(|name| RowCheck::of(&dir.join(&name), name))
        .collect();
    let holds = rows.iter().all(RowCheck::holds);
    let acknowledged = rows.iter().any(|row| row.correctness.acknowledged > 0);
    Ok(StoredCheck {
        passes: holds && acknowledged,
        rows,
    })
}

impl RowCheck {
    fn of(dir: &Path, row: String) -> Self {
        let mut check = Self {
            row,
            operation: None,
            correctness: Correctness::default(),
            unreadable: None,
        };
        let looked = check.look(dir);
        check.unreadable = looked.err().map(|error| error.to_string());
        check
    }

    /// Compares the store with its ledger. What is known before an error stays.
    fn look(&mut self, dir: &Path) -> Result<()> {
        let (case, ledger) = journal::read(dir)?;
        self.operation = Some(name_of(case.settings.write));
        self.correctness = Correctness::of_nothing(&ledger);
        let target = HotTarget::open(&case, Some(dir), true)?;
        let found = target.check(&ledger);
        target.close()?;
        self.correctness = found?;
        Ok(())
    }

    fn holds(&self) -> bool {
        self.unreadable.is_none() && self.correctness.holds()
    }

    fn verdict(&self) -> Verdict {
        let operation = self.operation.as_deref().unwrap_or("ledger");
        let subject = format!("{}, {operation}: acknowledged = found", self.row);
        let verdict = self.correctness.verdict(&subject);
        let Some(why) = &self.unreadable else {
            return verdict;
        };
        let sentence = match &self.operation {
            Some(_) => format!("{}: cannot be read: {why}", verdict.sentence),
            None => format!("the acknowledged writes are not known: {why}"),
        };
        Verdict {
            level: Severity::Bad,
            word: "LOST".to_owned(),
            sentence,
            ..verdict
        }
    }
}

impl StoredCheck {
    /// Builds the report.
    pub(crate) fn to_report(&self) -> Report {
        let none = "There is no ledger of a row in this directory: nothing is proved.";
        let section = Section::new("Correctness")
            .paragraphs(self.rows.is_empty().then_some(none))
            .verdicts(self.rows.iter().map(RowCheck::verdict));
        Report::new("Contention, looked at again").section(section)
    }
}
