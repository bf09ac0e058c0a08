//! The report of rows whose shards were activated while they ran: before, during and after are rows
//! of their own.

use super::activation::Phase;
use super::charts;
use super::format::{load, millis, share};
use super::row::{Measurement, Row};
use super::run::Run;
use crate::report::{Cell, Section, Table, decimal};

impl Run {
    pub(super) fn activation_section(&self, pictures: bool) -> Section {
        let mut section = Section::new("Activation under load").paragraph(
            "The lists or counters begin in one record and are sharded while they are written. One write in eight is looked for right \
             after its acknowledgement, and all of them at the end.",
        );
        for measured in &self.measured {
            let Some(activation) = &measured.activation else {
                continue;
            };
            section = section.paragraph(format!(
                "{}: to {} shards in {} ms. Before, during and after are rows of their own in the table above.",
                load(&measured.row),
                activation.shards,
                decimal((activation.ended_s - activation.began_s) * 1e3, 1),
            ));
            if pictures {
                section = section.chart(charts::timeline(measured, activation));
            }
        }
        section
    }
}

/// Returns the shards of a row, both numbers if they were activated while it ran.
pub(super) fn shards_over_time(row: &Row) -> String {
    if row.phases.is_empty() {
        row.shards.to_string()
    } else {
        format!("1 to {}", row.shards)
    }
}

/// Adds a row for each phase of a case whose shards were activated while it ran.
pub(super) fn phase_rows(table: &mut Table, measured: &Measurement) {
    let row = &measured.row;
    let time = |micros: Option<f64>| micros.map_or_else(Cell::missing, millis);
    let shards_in = |phase: &Phase| match phase.name.as_str() {
        "before" => "1".to_owned(),
        "after" => row.shards.to_string(),
        _ => shards_over_time(row),
    };
    for phase in &row.phases {
        table.row([
            Cell::text(format!(
                "{} {}, {} s",
                load(row),
                phase.name,
                decimal(phase.seconds, 1)
            )),
            Cell::text(shards_in(phase)),
            Cell::count(phase.offered),
            Cell::decimal(phase.goodput_per_s, 1),
            share(phase.key_busy_share),
            time(phase.p50_us),
            time(phase.p99_us),
            time(phase.p999_us),
            time(phase.max_us),
        ]);
    }
}
