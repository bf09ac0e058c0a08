//! Stores of rows on disk, compared with their ledgers: after a run, or after its process was killed.

use std::path::Path;

use serde::Serialize;

use super::journal;
use super::ledger::Correctness;
use super::run::SCHEMA_VERSION;
use super::target::Target;
use crate::Result;
use crate::report::{self, Report, Section};

/// What was found of each row.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recheck {
    /// Whether something was acknowledged, and all of it was found once.
    pub passes: bool,
    /// The rows, by their directories.
    pub rows: Vec<Rechecked>,
}

/// What was found of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rechecked {
    /// The name of its directory.
    pub row: String,
    /// What it wrote.
    pub operation: String,
    /// Acknowledged = found?
    pub correctness: Correctness,
}

/// Opens the store of every row in a directory and compares what it holds with what was acknowledged. Collections are read
/// as they are: a transition that was under way is not carried on. O(writes of all rows).
///
/// # Errors
/// If the directory, a ledger or a store cannot be read.
pub fn recheck(dir: &Path) -> Result<Recheck> {
    let mut rows = Vec::new();
    for name in journal::rows_in(dir)? {
        let of_row = dir.join(&name);
        let (case, ledger) = journal::read(&of_row)?;
        let target = Target::existing(&case, &of_row)?;
        let correctness = target.check(&ledger)?;
        target.close()?;
        rows.push(Rechecked {
            row: name,
            operation: case.settings.write.to_string(),
            correctness,
        });
    }
    let holds = rows.iter().all(|row| row.correctness.holds());
    let acknowledged = rows.iter().any(|row| row.correctness.acknowledged > 0);
    Ok(Recheck {
        passes: holds && acknowledged,
        rows,
    })
}

impl Recheck {
    /// The report.
    #[must_use]
    pub fn to_report(&self) -> Report {
        let mut section = Section::new("Correctness");
        if self.rows.is_empty() {
            section = section
                .paragraph("There is no ledger of a row in this directory: nothing is proved.");
        }
        for row in &self.rows {
            let subject = format!("{}, {}: acknowledged = found", row.row, row.operation);
            section = section.verdict(row.correctness.verdict(&subject));
        }
        Report::new("Contention, looked at again").section(section)
    }

    /// One JSON object.
    ///
    /// # Errors
    /// None that is known: every part serialises.
    pub fn to_json(&self) -> std::result::Result<String, serde_json::Error> {
        report::to_json(SCHEMA_VERSION, "contention-recheck", self)
    }
}
