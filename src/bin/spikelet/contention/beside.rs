//! Another run beside this one, row by row, such as one of the embedded store beside one of a
//! cluster. Nothing is judged by it: the two need not have the same settings.

use serde::Serialize;

use super::baseline::Baseline;
use super::format::{load, millis, share};
use super::row::Row;
use super::run::{Run, SettingsJson};
use crate::report::{Cell, Section, Table};

/// What JSON has of the other run.
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
pub(super) fn section(run: &Run, other: &Baseline) -> Section {
    let there = other.settings().place();
    let here = SettingsJson::of(&run.settings).place();
    let columns = [
        "load",
        "shards",
        "of",
        "goodput/s",
        "KEY_BUSY",
        "p50",
        "p99",
        "p99.9",
    ];
    let caption = format!("{here} beside {there}; times in ms from the intended time on");
    let mut table = Table::new(caption, &columns).words(&["shards", "of"]);
    for measured in &run.measured {
        let Some(row) = other.row_of(&measured.case) else {
            continue;
        };
        for (place, row) in [(here, &measured.row), (there, row)] {
            table.row(cells(place, row));
        }
    }
    let unlike = other.settings().unlike(&SettingsJson::of(&run.settings));
    let section = Section::new("Beside another run").table(table);
    if unlike.is_empty() {
        return section;
    }
    section.paragraph(format!(
        "The settings of the other run are not all the same: {}.",
        unlike.join(", ")
    ))
}

fn cells(place: &str, row: &Row) -> [Cell; 8] {
    let time = |micros: f64| match row.acked {
        0 => Cell::missing(),
        _ => millis(micros),
    };
    [
        Cell::text(load(row)),
        Cell::text(row.shards.to_string()),
        Cell::text(place),
        Cell::decimal(row.goodput_per_s, 1),
        share(row.key_busy_share),
        time(row.p50_us),
        time(row.p99_us),
        time(row.p999_us),
    ]
}
