//! Another run beside this one, row by row, such as one of the embedded store beside one of a
//! cluster. Nothing is judged by it: the two need not have the same settings.

use serde::Serialize;

use super::baseline::Baseline;
use super::format::{load, millis, share};
use super::row::{Measurement, Row};
use super::run::{Run, SettingsJson, settings_json, unlike};
use crate::report::{Cell, Section, Table};

/// The other run, as JSON has it.
#[derive(Debug, Serialize)]
pub(super) struct BesideJson<'a> {
    settings: &'a SettingsJson,
    rows: Vec<&'a Row>,
}

impl<'a> BesideJson<'a> {
    pub(super) fn of(run: &'a Run) -> Option<Self> {
        let other = run.beside.as_ref()?;
        Some(Self {
            settings: other.settings(),
            rows: other.rows().iter().collect(),
        })
    }
}

/// Shows the rows that both runs have.
pub(super) fn section<'r>(run: &'r Run, other: &'r Baseline) -> Section {
    let settings = settings_json(&run.settings);
    let [there, here] = [other.settings(), &settings].map(place);
    let caption = format!("{here} beside {there}; times in ms from the intended time on");
    let both = |measured: &'r Measurement| {
        Some([
            (here, &measured.row),
            (there, other.row_of(&measured.case)?),
        ])
    };
    let rows = run.measured.iter().filter_map(both).flatten();
    let time = |row: &Row, micros: f64| match row.acked {
        0 => Cell::missing(),
        _ => millis(micros),
    };
    let table = Table::of(
        caption,
        rows,
        &[
            ("load", &|(_, row)| Cell::text(load(row))),
            ("shards", &|(_, row)| Cell::text(row.shards.to_string())),
            ("of", &|(place, _)| Cell::text(*place)),
            ("goodput/s", &|(_, row)| Cell::decimal(row.goodput_per_s, 1)),
            ("KEY_BUSY", &|(_, row)| share(row.key_busy_share)),
            ("p50", &|(_, row)| time(row, row.p50_us)),
            ("p99", &|(_, row)| time(row, row.p99_us)),
            ("p99.9", &|(_, row)| time(row, row.p999_us)),
        ],
    );
    let unlike = unlike(other.settings(), &settings);
    let section = Section::new("Beside another run").table(table);
    if unlike.is_empty() {
        return section;
    }
    section.paragraph(format!(
        "The settings of the other run are not all the same: {}.",
        unlike.join(", ")
    ))
}

/// Returns what the report calls the place of a run with these settings.
fn place(settings: &SettingsJson) -> &'static str {
    match settings.get("mode").and_then(|mode| mode.as_str()) {
        Some("cluster") => "cluster",
        Some("virtual") => "simulated",
        _ => "embedded",
    }
}
