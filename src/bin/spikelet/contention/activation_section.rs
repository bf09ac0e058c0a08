//! The report of rows with shards that were activated while they ran: before, during and after are
//! rows of their own.

use super::activation::Phase;
use super::charts;
use super::format::load;
use super::measure::Figures;
use super::row::{Measurement, ReportRow};
use super::run::FinishedRun;
use crate::report::{Section, decimal};

impl FinishedRun {
    pub(super) fn activation_section(&self, pictures: bool) -> Section {
        let mut section = Section::new("Activation under load").paragraph(
            "The lists or counters begin in one record and are sharded while they are written. One write in eight is looked for right \
             after its acknowledgement, and all of them at the end.",
        );
        for row in self.rows() {
            let Some(activation) = &row.activation else {
                continue;
            };
            section = section.paragraph(format!(
                "{}: to {} shards in {} ms. Before, during and after are rows of their own in the table above.",
                load(row),
                activation.shards,
                decimal((activation.ended_s - activation.began_s) * 1e3, 1),
            ));
            section = section.charts(pictures.then(|| charts::timeline(row, activation)));
        }
        section
    }
}

/// Returns the shards of a row, both numbers if they were activated while it ran.
pub(super) fn shards_over_time(row: &ReportRow) -> String {
    if row.phases.is_empty() {
        row.shards.to_string()
    } else {
        format!("1 to {}", row.shards)
    }
}

/// Returns the lines of the table of rows: load, shards and figures of a row; of a row with an
/// activation, of each phase.
pub(super) fn table_lines(measured: &Measurement) -> Vec<(String, String, &Figures)> {
    let row = &measured.row;
    if row.phases.is_empty() {
        return vec![(load(row), row.shards.to_string(), &row.figures)];
    }
    let mut lines = Vec::new();
    for Phase {
        name,
        seconds,
        figures,
    } in &row.phases
    {
        let shards = match name.as_str() {
            "before" => "1".to_owned(),
            "after" => row.shards.to_string(),
            _ => shards_over_time(row),
        };
        let seconds = decimal(*seconds, 1);
        lines.push((
            format!("{} {name}, {seconds} s", load(row)),
            shards,
            figures,
        ));
    }
    lines
}
