//! The pictures of the report.

use std::collections::BTreeSet;

use super::activation::{Activation, Moment};
use super::format::{load, shards};
use super::judge::{BUSY_KNEE, open_layouts};
use super::layout::RowLayout;
use super::row::{Measurement, ReportRow};
use super::run::FinishedRun;
use crate::report::{
    Axis, AxisUnit, Band, Bars, Chart, Lane, MarkedPlace, Ranges, Series, decimal,
};

/// Lines in one picture at most.
const LINES_MAX: usize = 8;
/// Quantiles of the percentile curve: each halves the rest, up to 99.999 %.
const HALVINGS: u32 = 17;

/// How a figure is read from a row.
type FigureReader = fn(&ReportRow) -> f64;

/// Draws latency, refusals and goodput over the rate; nothing with fewer than two rates.
pub(super) fn by_rate(run: &FinishedRun) -> Vec<Chart> {
    let open: Vec<(f64, &ReportRow)> = run
        .measured
        .iter()
        .filter(|measured| !measured.case.activates())
        .filter_map(|measured| Some((measured.row.rate?, &measured.row)))
        .collect();
    let mut rates: Vec<f64> = open.iter().map(|(rate, _)| *rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    if rates.len() < 2 {
        return Vec::new();
    }
    let layouts = open_layouts(open.iter().map(|(_, row)| *row));
    let latency = || Axis::new("latency", AxisUnit::Micros).log();
    let acknowledged = Axis::new("acknowledged, writes/s", AxisUnit::Number);
    let all = rates.iter().map(|rate| (*rate, *rate)).collect();
    let all = Some(Series::new("all of it (y = x)", all));
    let pictures: [(&str, Axis, FigureReader, Option<Series>); 4] = [
        ("p99 latency", latency(), |row| row.p99_us, None),
        ("Median latency", latency(), |row| row.p50_us, None),
        (
            "KEY_BUSY",
            Axis::new("KEY_BUSY", AxisUnit::Percent),
            |row| row.key_busy_share * 100.0,
            None,
        ),
        ("Goodput", acknowledged, |row| row.goodput_per_s, all),
    ];
    let drawn = pictures.into_iter().map(|(what, y, read, all)| {
        let lines = layouts.iter().map(|layout| {
            let rows = open.iter().filter(|(_, row)| row.shards == *layout);
            let mut points: Vec<(f64, f64)> = rows.map(|(rate, row)| (*rate, read(row))).collect();
            points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            Series::new(shards(*layout), points)
        });
        let is_known = |line: &Series| line.points.iter().any(|(_, y)| y.is_finite());
        let mut series = merged(lines.filter(is_known));
        series.truncate(LINES_MAX - usize::from(all.is_some()));
        series.extend(all);
        Chart {
            title: format!("{what} by rate"),
            description: format!(
                "{what} of the writes over the offered rate, a line for each way of sharding: {}",
                ends(&series)
            ),
            x: Axis::new("offered, writes/s", AxisUnit::Number),
            lanes: vec![Lane { y, series }],
            ..Chart::default()
        }
    });
    drawn
        .filter(|chart| chart.lanes.iter().any(|lane| !lane.series.is_empty()))
        .collect()
}

/// Merges lines that look the same: no point differs by more than a hundredth.
fn merged(lines: impl Iterator<Item = Series>) -> Vec<Series> {
    let mut merged: Vec<Series> = Vec::new();
    for line in lines {
        match merged.iter_mut().find(|other| is_same(other, &line)) {
            Some(same) => {
                same.name.push_str(", ");
                same.name.push_str(&line.name);
            }
            None => merged.push(line),
        }
    }
    merged
}

fn is_same(one: &Series, other: &Series) -> bool {
    let is_near = |((x, y), (other_x, other_y)): (&(f64, f64), &(f64, f64))| {
        let (both_missing, apart) = (y.is_nan() && other_y.is_nan(), (y - other_y).abs());
        x == other_x && (both_missing || apart <= y.abs().max(other_y.abs()) * 0.01)
    };
    one.points.len() == other.points.len() && one.points.iter().zip(&other.points).all(is_near)
}

/// Draws the rows of the headline: KEY_BUSY in each layout at one load, or the latency where
/// nothing is refused; `None` with a single row. The bar of the advised shards has another colour.
pub(super) fn before_and_after(
    run: &FinishedRun,
    before: usize,
    advised: Option<u32>,
) -> Option<Chart> {
    let row = &run.measured.get(before)?.row;
    let rows: Vec<&ReportRow> = run.rows().filter(|other| other.has_load_of(row)).collect();
    if rows.len() < 2 {
        return None;
    }
    let (y, read): (_, FigureReader) = if row.key_busy_share >= BUSY_KNEE {
        let axis = Axis::new("KEY_BUSY", AxisUnit::Percent);
        (axis, |row| row.key_busy_share * 100.0)
    } else {
        // Of NaN and 0 the larger is 0.
        (Axis::new("p99", AxisUnit::Micros), |row| {
            row.p99_us.max(0.0)
        })
    };
    let advised = advised.and_then(|shards| {
        let mut rows = rows.iter();
        rows.position(|row| row.shards == RowLayout::Hashed(shards))
    });
    let title = format!("{} at {}, in one record and in shards", y.label, load(row));
    let values = rows.iter().map(|row| (row.shards.to_string(), read(row)));
    let ranges = ranges(&rows, row.key_busy_share >= BUSY_KNEE);
    let shown = Bars {
        advised,
        ranges,
        ..Bars::default()
    };
    Some(bars(title, "shards", y, values.collect(), shown))
}

/// Returns the range of the values behind each bar: the least and the largest share of the repeats,
/// or the median and p99.
fn ranges(rows: &[&ReportRow], is_share: bool) -> Option<Ranges> {
    if !is_share {
        return Some(Ranges {
            label: "p50 to p99",
            ends: rows.iter().map(|row| (row.p50_us, row.p99_us)).collect(),
        });
    }
    let of_repeats = |row: &&ReportRow| {
        let shares = row.repeats.iter().map(|one| one.key_busy_share * 100.0);
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        shares.fold(ends, |(least, most), share| {
            (least.min(share), most.max(share))
        })
    };
    let is_repeated = rows.iter().any(|row| row.repeats.len() > 1);
    is_repeated.then(|| Ranges {
        label: "of the repeats",
        ends: rows.iter().map(of_repeats).collect(),
    })
}

/// Draws a bar for each of these names and values.
fn bars(title: String, x: &str, y: Axis, values: Vec<(String, f64)>, bars: Bars) -> Chart {
    let told = values.iter();
    let told = told.map(|(name, value)| format!("{name} {}", decimal(*value, 1)));
    let told = told.collect::<Vec<_>>().join(", ");
    let series = Series::of_bars(&y.label, values.iter().map(|(_, value)| *value));
    Chart {
        title,
        description: format!("{} by {x}: {told}.", y.label),
        x: Axis::new(x, AxisUnit::Number),
        bars: Some(Bars {
            buckets: values.into_iter().map(|(name, _)| name).collect(),
            ..bars
        }),
        lanes: vec![Lane {
            y,
            series: vec![series],
        }],
        ..Chart::default()
    }
}

/// Describes the last value of each line.
fn ends(series: &[Series]) -> String {
    let end = |series: &Series| {
        let (_, y) = series.points.iter().rev().find(|(_, y)| y.is_finite())?;
        Some(format!("{} ends at {}", series.name, decimal(*y, 2)))
    };
    series.iter().filter_map(end).collect::<Vec<_>>().join(", ") + "."
}

/// Draws the timeline of a row with an activation.
pub(super) fn timeline(row: &ReportRow, activation: &Activation) -> Chart {
    let line = |name: &str, read: fn(&Moment) -> f64| {
        let moments = row.moments.iter();
        Series::new(name, moments.map(|one| (one.at_s, read(one))).collect())
    };
    let lane = |y: Axis, series: Vec<Series>| Lane { y, series };
    Chart {
        title: format!("{}, activated to {} shards", load(row), activation.shards),
        description: format!(
            "KEY_BUSY, latency, goodput and shards over the time of the row. The collection is in one record until {:.2} s, is \
             being sharded until {:.2} s, and is in {} shards from then on.",
            activation.began_s, activation.ended_s, activation.shards
        ),
        x: Axis::new("seconds", AxisUnit::Number),
        lanes: vec![
            lane(
                Axis::new("KEY_BUSY", AxisUnit::Percent),
                vec![line("KEY_BUSY", |one| one.figures.key_busy_share * 100.0)],
            ),
            lane(
                Axis::new("latency", AxisUnit::Micros).log(),
                vec![
                    line("p50", |one| one.figures.p50_us),
                    // Slices are too short for a 99th percentile.
                    line("longest", |one| one.figures.max_us),
                ],
            ),
            lane(
                Axis::new("writes/s", AxisUnit::Number),
                vec![
                    line("offered/s", |one| one.figures.offered_per_s),
                    line("goodput/s", |one| one.figures.goodput_per_s),
                ],
            ),
            lane(
                Axis::new("shards", AxisUnit::Number),
                vec![line("shards", |one| f64::from(one.shards)).in_steps()],
            ),
        ],
        bars: None,
        bands: vec![Band {
            from: activation.began_s,
            to: activation.ended_s,
            label: "activating".to_owned(),
        }],
        marks: vec![MarkedPlace {
            at: activation.ended_s,
            label: format!("{} shards", activation.shards),
        }],
    }
}

/// Draws KEY_BUSY before, during and after the activation of a row.
pub(super) fn phases(row: &ReportRow) -> Chart {
    let phases = row.phases.iter();
    let title = format!(
        "KEY_BUSY at {}, while the collection is sharded over {}",
        load(row),
        shards(row.shards)
    );
    let values = phases.map(|phase| (phase.name.clone(), phase.figures.key_busy_share * 100.0));
    let y = Axis::new("KEY_BUSY", AxisUnit::Percent);
    bars(title, "activation", y, values.collect(), Bars::default())
}

/// Draws latency over the percentile on HdrHistogram's axis, for each layout at its highest load;
/// `None` where all rows were activated on the way: before and after would be mixed.
pub(super) fn percentiles(run: &FinishedRun) -> Option<Chart> {
    let mut shown: Vec<&Measurement> = Vec::new();
    for measured in run.measured.iter().filter(|one| !one.case.activates()) {
        let load = |one: &Measurement| {
            (
                one.row.rate.unwrap_or(0.0),
                one.row.writers.unwrap_or(0) as f64,
            )
        };
        let same = shown
            .iter_mut()
            .find(|one| one.row.shards == measured.row.shards && one.row.kind == measured.row.kind);
        match same {
            Some(highest) if load(highest) < load(measured) => *highest = measured,
            Some(_) => {}
            None => shown.push(measured),
        }
    }
    let loads: BTreeSet<String> = shown.iter().map(|one| load(&one.row)).collect();
    let is_one_load = loads.len() == 1;
    let curve = |measured: &&Measurement| {
        let rest = |halving: u32| 2_f64.powi(halving as i32);
        let points = (0..HALVINGS)
            .filter(|halving| measured.tally.latency.len() as f64 >= rest(*halving))
            .map(|halving| {
                let nanos = measured
                    .tally
                    .latency
                    .value_at_quantile(1.0 - 1.0 / rest(halving));
                (rest(halving), (nanos as f64 / 1e3).min(measured.row.max_us))
            });
        let of_shards = shards(measured.row.shards);
        let name = if is_one_load {
            of_shards
        } else {
            format!("{}, {of_shards}", load(&measured.row))
        };
        Series::new(name, points.collect())
    };
    let mut series = merged(shown.iter().map(curve));
    series.truncate(LINES_MAX);
    if series.is_empty() {
        return None;
    }
    let mut title = "Percentiles at the highest load".to_owned();
    // A single line has no legend.
    let only = series.first().filter(|_| series.len() == 1);
    let only = only.map(|series| series.name.clone());
    for words in loads.into_iter().filter(|_| is_one_load).chain(only) {
        title += &format!(", {words}");
    }
    Some(Chart {
        title,
        description: format!(
            "Latency over the percentile, as 1 / (1 - percentile) on a logarithmic scale: 10 is p90, 100 is p99. {}",
            ends(&series)
        ),
        x: Axis::new("1 / (1 - percentile)", AxisUnit::Number).log(),
        lanes: vec![Lane {
            y: Axis::new("latency", AxisUnit::Micros).log(),
            series,
        }],
        marks: [(10.0, "p90"), (100.0, "p99"), (1_000.0, "p99.9")]
            .map(|(at, label)| MarkedPlace {
                at,
                label: label.to_owned(),
            })
            .into(),
        ..Chart::default()
    })
}
