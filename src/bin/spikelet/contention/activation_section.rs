//! The report of rows whose shards were activated while they ran: before, during and after are rows
//! of their own.

use super::activation::Phase;
use super::charts;
use super::format::load;
use super::row::{Measurement, Row};
use super::run::Run;
use crate::report::{Section, decimal};

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

/// A line of the table of rows.
pub(super) struct TableLine {
    pub(super) load: String,
    pub(super) shards: String,
    pub(super) offered: u64,
    pub(super) goodput_per_s: f64,
    pub(super) key_busy_share: f64,
    /// The median, the 99th and 99.9th percentile, and the maximum.
    pub(super) times_us: [Option<f64>; 4],
}

/// Returns the line of a row, or one for each phase of a row whose shards were activated while it ran.
pub(super) fn table_lines(measured: &Measurement) -> Vec<TableLine> {
    let row = &measured.row;
    if row.phases.is_empty() {
        let times = [row.p50_us, row.p99_us, row.p999_us, row.max_us];
        return vec![TableLine {
            load: load(row),
            shards: row.shards.to_string(),
            offered: row.offered,
            goodput_per_s: row.goodput_per_s,
            key_busy_share: row.key_busy_share,
            times_us: times.map(|micros| (row.acked > 0).then_some(micros)),
        }];
    }
    let line = |phase: &Phase| TableLine {
        load: format!(
            "{} {}, {} s",
            load(row),
            phase.name,
            decimal(phase.seconds, 1)
        ),
        shards: match phase.name.as_str() {
            "before" => "1".to_owned(),
            "after" => row.shards.to_string(),
            _ => shards_over_time(row),
        },
        offered: phase.offered,
        goodput_per_s: phase.goodput_per_s,
        key_busy_share: phase.key_busy_share,
        times_us: [phase.p50_us, phase.p99_us, phase.p999_us, phase.max_us],
    };
    row.phases.iter().map(line).collect()
}
