//! A run compared with another one, row by row: with an earlier one by which it is judged
//! (`--baseline`), or with one of other settings, such as one of the embedded store beside one of a
//! cluster (`--beside`). Two rows differ if they do so by more than their repeats do among
//! themselves: by Welch's test.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, StudentsT};
use statrs::statistics::Statistics as _;

use super::case::{Case, Settings};
use super::format::{load, shards};
use super::layout::RowLayout;
use super::measure::Figures;
use super::row::{Measurement, ReportRow};
use super::run::{SettingsJson, settings_json};
use crate::report::{ReportTable, Section, decimal};

/// Settings that may differ: they make figures more or less exact, and no others.
const MAY_DIFFER: [&str; 3] = ["duration_s", "warm_up_s", "seed"];
/// Fewer repeats say nothing of how much a figure varies.
const REPEATS_MIN: usize = 3;
/// Percentiles are compared where at least this many writes are beyond them.
const BEYOND_MIN: f64 = 5.0;
/// The chance of one false alarm or more in a whole comparison, where nothing has changed: it is
/// divided among the figures that are compared.
const FALSE_ALARMS: f64 = 0.01;

/// Another run, read from its JSON.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct OtherRun {
    settings: SettingsJson,
    rows: Vec<ReportRow>,
    /// Whether this run is judged by it.
    #[serde(skip)]
    judges: bool,
}

/// The fields that every report has.
#[derive(Debug, Deserialize)]
struct Kind {
    schema_version: u32,
    report: String,
}

/// Two runs, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RunComparison {
    /// The settings of the other run.
    settings: SettingsJson,
    /// Those that are not the same, in words.
    unlike: Vec<String>,
    /// The figures of the rows that both runs have.
    pub(super) changes: Vec<FigureChange>,
    /// Smaller changes, as a part, do not count.
    noise: f64,
    #[serde(skip)]
    judges: bool,
    #[serde(skip)]
    places: [&'static str; 2],
    /// How many rows the other run lacks.
    #[serde(skip)]
    missing: usize,
}

/// How a figure has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ChangeVerdict {
    /// By less than the noise, or no more than repeats differ among themselves.
    Unchanged,
    /// For the better.
    Better,
    /// For the worse.
    Worse,
    /// Not compared: too few writes for the percentile.
    TooFew,
    /// Not compared: too few repeats to know how much it varies.
    TooFewRepeats,
    /// Shown beside each other only.
    NotJudged,
}

/// A figure of a row, then and now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct FigureChange {
    /// `open` or `closed`.
    #[serde(rename = "loop")]
    kind: String,
    rate: Option<f64>,
    writers: Option<u64>,
    shards: RowLayout,
    /// Which figure.
    pub(super) metric: &'static str,
    /// The figure of the other run, the mean of the repeats; `None`: of too few writes.
    before: Option<f64>,
    /// The present figure.
    now: Option<f64>,
    /// The change as a part of the other figure; `None` if that is not known, or 0.
    change: Option<f64>,
    /// The interval of the difference, with a confidence of 95 in 100, in the unit of the figure.
    interval: Option<(f64, f64)>,
    /// The chance of a difference as large where nothing has changed.
    chance: Option<f64>,
    /// What that means.
    pub(super) verdict: ChangeVerdict,
    #[serde(skip)]
    load: String,
}

/// A figure that rows are compared by: its name, how it is read, of a percentile its share of the
/// writes, and the largest change that never counts.
#[derive(Clone, Copy, Debug)]
struct ComparedFigure(&'static str, fn(&Figures) -> f64, Option<f64>, f64);

/// The compared figures of each row: more goodput is better, less of all others. A tenth of a
/// percent of writes refused, and a microsecond, are nothing.
const FIGURES: [ComparedFigure; 4] = [
    ComparedFigure("goodput_per_s", |row| row.goodput_per_s, None, 0.0),
    ComparedFigure("key_busy_share", |row| row.key_busy_share, None, 0.001),
    ComparedFigure("p50_us", |row| row.p50_us, Some(0.5), 1.0),
    ComparedFigure("p99_us", |row| row.p99_us, Some(0.99), 1.0),
];

impl ComparedFigure {
    /// Reads the figure of each repeat; `None`: too few writes in some of them.
    fn of(&self, repeats: &[Figures]) -> Option<Vec<f64>> {
        let Self(_, read, percentile, _) = self;
        let is_known = |one: &Figures| {
            let beyond = |share: f64| one.acked as f64 * (1.0 - share) >= BEYOND_MIN;
            read(one).is_finite() && percentile.is_none_or(beyond)
        };
        let read = |one: &Figures| is_known(one).then(|| read(one));
        repeats.iter().map(read).collect()
    }

    /// Judges one of `figures` figures: a change counts if it is beyond the noise, and less likely
    /// by chance than the figure's part of [`FALSE_ALARMS`].
    fn judge(&self, before: &[f64], now: &[f64], noise: f64, figures: usize) -> ChangeVerdict {
        let Some(found) = Difference::of(before, now) else {
            return ChangeVerdict::TooFewRepeats;
        };
        let is_noise = found.by.abs() <= (before.mean().abs() * noise).max(self.3);
        let is_chance = found.chance >= FALSE_ALARMS / figures.max(1) as f64;
        if is_noise || is_chance {
            ChangeVerdict::Unchanged
        } else if (found.by > 0.0) == (self.0 == "goodput_per_s") {
            ChangeVerdict::Better
        } else {
            ChangeVerdict::Worse
        }
    }
}

/// The difference of two samples.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Difference {
    /// The mean of the second less that of the first.
    by: f64,
    /// The interval of it, with a confidence of 95 in 100.
    interval: (f64, f64),
    /// The chance of such a difference, or a larger one either way, where there is none.
    chance: f64,
}

impl Difference {
    /// Compares two samples; `None` with fewer than [`REPEATS_MIN`] values in one of them.
    fn of(before: &[f64], now: &[f64]) -> Option<Self> {
        if before.len().min(now.len()) < REPEATS_MIN {
            return None;
        }
        let by = now.mean() - before.mean();
        let [a, b] = [before, now].map(|values| {
            let count = values.len() as f64;
            (values.variance() / count, count - 1.0)
        });
        let squared = a.0 + b.0;
        let freedom = squared * squared / (a.0 * a.0 / a.1 + b.0 * b.0 / b.1);
        // Samples without any spread have no distribution: what differs, differs.
        let Ok(t) = StudentsT::new(0.0, squared.sqrt(), freedom) else {
            return Some(Self {
                by,
                interval: (by, by),
                chance: if by == 0.0 { 1.0 } else { 0.0 },
            });
        };
        let reach = t.inverse_cdf(0.975);
        Some(Self {
            by,
            interval: (by - reach, by + reach),
            chance: 2.0 * t.sf(by.abs()),
        })
    }
}

impl OtherRun {
    /// Reads the output of `spikelet contention --json`. `judges`: this run is judged by it.
    ///
    /// # Errors
    /// If it is no JSON of this report, or of another version.
    pub(crate) fn read(json: &[u8], schema_version: u32, judges: bool) -> Result<Self, String> {
        let none = |error: serde_json::Error| {
            format!("no output of `spikelet contention --json`: {error}")
        };
        let kind: Kind = serde_json::from_slice(json).map_err(none)?;
        if kind.report != "contention" || kind.schema_version != schema_version {
            return Err(format!(
                "a {:?} report of schema version {}: a \"contention\" report of version {schema_version} is needed, so measure it again",
                kind.report, kind.schema_version
            ));
        }
        let run: Self = serde_json::from_slice(json).map_err(none)?;
        Ok(Self { judges, ..run })
    }

    /// Refuses to be compared with a run of these cases: without a row in common, or as a judge of
    /// a run with other settings.
    ///
    /// # Errors
    /// The settings that differ, or the rows that it has.
    pub(crate) fn check(&self, settings: &Settings, cases: &[Case]) -> Result<(), String> {
        let unlike = unlike(&self.settings, &settings_json(settings));
        if self.judges && !unlike.is_empty() {
            return Err(format!(
                "that run was made with other settings, so nothing can be compared: {}",
                unlike.join(", ")
            ));
        }
        if cases.iter().any(|case| self.row_of(case).is_some()) {
            return Ok(());
        }
        let had = self.rows.iter();
        let had = had.map(|row| format!("{} on {}", load(row), shards(row.shards)));
        Err(format!(
            "no row of that run has a load and shards that are asked for now: it has {}",
            had.collect::<Vec<_>>().join(", ")
        ))
    }

    fn row_of(&self, case: &Case) -> Option<&ReportRow> {
        self.rows.iter().find(|row| row.is_of(case))
    }

    /// Returns the most repeats that a row of a judge has.
    pub(crate) fn repeats(&self) -> usize {
        let repeats = self.rows.iter().map(|row| row.repeats.len());
        repeats.filter(|_| self.judges).max().unwrap_or(0)
    }

    /// Compares the rows that both runs have. `noise`: smaller changes, as a part, do not count.
    pub(super) fn compare(
        &self,
        settings: &Settings,
        now: &[Measurement],
        noise: f64,
    ) -> RunComparison {
        let settings = settings_json(settings);
        let rows: Vec<(&ReportRow, &ReportRow)> = now
            .iter()
            .filter_map(|one| Some((self.row_of(&one.case)?, &one.row)))
            .collect();
        let figures = rows.len() * FIGURES.len();
        let changes = rows.iter().flat_map(|(old, row)| {
            let change = |figure| self.change(figure, old, row, noise, figures);
            FIGURES.iter().map(change)
        });
        RunComparison {
            unlike: unlike(&self.settings, &settings),
            changes: changes.collect(),
            noise,
            judges: self.judges,
            places: [&self.settings, &settings].map(place),
            missing: now.len() - rows.len(),
            settings: self.settings.clone(),
        }
    }

    fn change(
        &self,
        figure: &ComparedFigure,
        old: &ReportRow,
        row: &ReportRow,
        noise: f64,
        figures: usize,
    ) -> FigureChange {
        let (before, now) = (figure.of(&old.repeats), figure.of(&row.repeats));
        let both = before.as_deref().zip(now.as_deref());
        let difference = both.and_then(|(before, now)| Difference::of(before, now));
        let [before_mean, now_mean] =
            [&before, &now].map(|values| values.as_deref().map(|values| values.mean()));
        let part = |(was, is): (f64, f64)| (was != 0.0).then(|| (is - was) / was);
        FigureChange {
            kind: row.kind.clone(),
            rate: row.rate,
            writers: row.writers,
            shards: row.shards,
            metric: figure.0,
            before: before_mean,
            now: now_mean,
            change: before_mean.zip(now_mean).and_then(part),
            interval: difference.map(|found| found.interval),
            chance: difference.map(|found| found.chance),
            verdict: match both {
                _ if !self.judges => ChangeVerdict::NotJudged,
                Some((before, now)) => figure.judge(before, now, noise, figures),
                None if old.repeats.len().min(row.repeats.len()) < REPEATS_MIN => {
                    ChangeVerdict::TooFewRepeats
                }
                None => ChangeVerdict::TooFew,
            },
            load: load(row),
        }
    }
}

/// Returns the differences of later settings, but for settings that figures do not depend on.
fn unlike(was: &SettingsJson, is: &SettingsJson) -> Vec<String> {
    let none = serde_json::Value::Null;
    is.iter()
        .filter(|(name, _)| !MAY_DIFFER.contains(&name.as_str()))
        .map(|(name, is)| (name, was.get(name).unwrap_or(&none), is))
        .filter(|(_, was, is)| was != is)
        .map(|(name, was, is)| format!("{name} was {was} and is {is}"))
        .collect()
}

/// Returns what the report calls the place of a run with these settings.
fn place(settings: &SettingsJson) -> &'static str {
    match settings.get("mode").and_then(|mode| mode.as_str()) {
        Some("cluster") => "cluster",
        Some("virtual") => "simulated",
        _ => "embedded",
    }
}

impl RunComparison {
    pub(super) fn section(&self) -> Section {
        let rows = self.changes.iter().map(|change| {
            let decimals = if change.metric == "key_busy_share" {
                5
            } else {
                1
            };
            let [before, now] = [change.before, change.now]
                .map(|figure| figure.map(|figure| decimal(figure, decimals)));
            let ends = change.interval.map(|(from, to)| {
                let ends = [from, to].map(|end| decimal(end, decimals));
                ends.join(" to ")
            });
            (
                &change.load,
                before,
                now,
                ends,
                change.verdict.words(),
                change,
            )
        });
        let [before, now] = self.places;
        let noise = decimal(self.noise * 100.0, 1);
        let table = ReportTable::of(
            format!("Before: {before}; now: {now}; less than {noise} % is noise"),
            rows,
            "load: 0 | shards # | figure: metric | before: 1 | now: 2 | change %1 | 95 % interval: 3 | verdict: 4",
        );
        let title = if self.judges {
            "Against the baseline"
        } else {
            "Beside another run"
        };
        let all = self.changes.len();
        let number = |verdict| {
            let of = |change: &&FigureChange| change.verdict == verdict;
            self.changes.iter().filter(of).count()
        };
        let open = number(ChangeVerdict::TooFewRepeats);
        let (worse, missing) = (number(ChangeVerdict::Worse), self.missing);
        let (rows, unlike) = (missing + all / FIGURES.len(), self.unlike.join(", "));
        let notes = [
            self.judges.then(|| format!("{worse} of {all} figures are worse.")),
            (open > 0).then(|| {
                format!(
                    "{open} of {all} figures are not compared, since how much they vary is not known: measure both runs with --repeats \
                     5 ({REPEATS_MIN} at least)."
                )
            }),
            (missing > 0).then(|| format!("{missing} of {rows} rows are not in the other run, and are not compared.")),
            (!unlike.is_empty()).then(|| format!("The settings of the other run are not all the same: {unlike}.")),
        ];
        let notes = notes.into_iter().flatten();
        Section::new(title).paragraphs(notes).table(table)
    }
}

impl ChangeVerdict {
    const fn words(self) -> &'static str {
        match self {
            Self::Unchanged => "no change",
            Self::Better => "better",
            Self::Worse => "WORSE",
            Self::TooFew => "too few writes",
            Self::TooFewRepeats => "too few repeats",
            Self::NotJudged => "not judged",
        }
    }
}

#[cfg(test)]
mod tests;
