//! The report of a move.

use serde::Serialize;

use crate::report::{Report, Section, count};

/// The outcome of a move: the object that `--json` prints.
#[derive(Debug, Default, Serialize)]
pub(super) struct MoveReport {
    pub(super) source: String,
    pub(super) target: String,
    /// Records written while all were copied, by this run.
    pub(super) copied: u64,
    /// Changed records that were written, or deleted, afterwards.
    pub(super) followed: u64,
    /// Indexes that the cluster has now.
    pub(super) indexes: u64,
    /// Indexes that a cluster cannot have.
    pub(super) indexes_left_out: Vec<String>,
    /// Modules of functions, which are not moved: the names of their files.
    pub(super) modules_left_out: Vec<String>,
    /// Records that could not be moved, and why: the first 20.
    pub(super) refused: Vec<String>,
    pub(super) refused_count: u64,
    /// Records that are damaged at the source, as the last look at all records has found. `spikelet
    /// verify` names them.
    pub(super) damaged: u64,
    pub(super) compared: Option<ComparedSides>,
    /// Whether it was ended before all records were copied.
    pub(super) interrupted: bool,
}

/// How both sides compare.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct ComparedSides {
    /// Records of the source.
    pub(super) records: u64,
    /// How many records had their bins compared.
    pub(super) bins_compared: u64,
    /// Records that differed, or were missing in the cluster, and were written again.
    pub(super) written_again: u64,
    /// Records that the cluster alone had, and that were deleted there.
    pub(super) deleted: u64,
    /// Records that the cluster alone has, and that stay: each may be the copy of a record that is
    /// damaged at the source.
    pub(super) kept: u64,
    /// Whether a second look found no difference any more.
    pub(super) same: bool,
}

/// Builds the text of the report.
pub(super) fn text(report: &MoveReport) -> Report {
    let out = Report::new(format!("{} to {}", report.source, report.target))
        .fact("records copied", count(report.copied))
        .fact("changed records followed", count(report.followed))
        .fact("indexes", count(report.indexes))
        .facts(report.compared.iter().flat_map(|compared| {
            [
                ("records compared", count(compared.records)),
                ("bins compared of", count(compared.bins_compared)),
                ("written again", count(compared.written_again)),
                ("deleted in the cluster", count(compared.deleted)),
            ]
        }))
        .facts((report.damaged > 0).then(|| ("damaged at the source", count(report.damaged))));
    let section = Section::new(match report.compared {
        Some(compared) if compared.same => "Both sides are the same",
        Some(_) => "Both sides differ",
        None => "Interrupted: the same command goes on",
    });
    let left_out = report.indexes_left_out.iter();
    let modules = report.modules_left_out.iter();
    let refused = report.refused.iter();
    let damaged = "Damaged records cannot be read: `spikelet verify` names them. Their copies in the cluster stay as they are, and so do all \
                   records that the cluster alone has.";
    out.section(
        section
            .paragraphs(left_out.map(|name| format!("index {name:?}: a cluster cannot have it")))
            .paragraphs(modules.map(|file| format!("module {file:?}: register it in the cluster")))
            .paragraphs((report.damaged > 0).then_some(damaged))
            .paragraphs(refused.map(|refused| format!("not moved: {refused}"))),
    )
}
