//! A run compared with an earlier one.

use serde::{Deserialize, Serialize};

use super::case::{Case, Settings};
use super::repeats::{Compared, FIGURES, Figure, NotCompared, compared};
use super::row::{Measurement, Row, Shards};
use super::run::{SettingsJson, settings_json, unlike};

/// An earlier run, read from its JSON.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Baseline {
    settings: SettingsJson,
    rows: Vec<Row>,
}

/// The fields that every report has.
#[derive(Debug, Deserialize)]
struct Kind {
    schema_version: u32,
    report: String,
}

/// The chance of one false alarm or more in a whole comparison, where nothing has changed: it is
/// divided among the figures that are compared.
const FALSE_ALARMS: f64 = 0.01;

/// How a figure has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ChangeVerdict {
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
}

/// A figure of a row, then and now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Change {
    /// `open` or `closed`.
    #[serde(rename = "loop")]
    pub(crate) kind: String,
    /// Of the row.
    pub(crate) rate: Option<f64>,
    /// Of the row.
    pub(crate) writers: Option<u64>,
    /// Of the row.
    pub(crate) shards: Shards,
    /// Which figure.
    pub(crate) metric: &'static str,
    /// The earlier figure, the mean of the repeats; `None`: not compared.
    pub(crate) before: Option<f64>,
    /// The present figure.
    pub(crate) now: Option<f64>,
    /// The change as a part of the earlier figure; `None` if that was 0.
    pub(crate) change: Option<f64>,
    /// The interval of the difference, with a confidence of 95 in 100, in the unit of the figure.
    pub(crate) interval: Option<(f64, f64)>,
    /// The chance of a difference as large where nothing has changed.
    pub(crate) chance: Option<f64>,
    /// What that means.
    pub(crate) verdict: ChangeVerdict,
}

impl Baseline {
    /// Reads the output of `spikelet contention --json`.
    ///
    /// # Errors
    /// If it is no JSON of this report, or of another version.
    pub(crate) fn read(json: &[u8], schema_version: u32) -> Result<Self, String> {
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
        serde_json::from_slice(json).map_err(none)
    }

    /// Refuses to be compared with a run of these cases: with other settings, or without a row in
    /// common.
    ///
    /// # Errors
    /// The settings that differ, or that there is no such row.
    pub(crate) fn check(&self, settings: &Settings, cases: &[Case]) -> Result<(), String> {
        let unlike = unlike(&self.settings, &settings_json(settings));
        if !unlike.is_empty() {
            return Err(format!(
                "that run was made with other settings, so nothing can be compared: {}",
                unlike.join(", ")
            ));
        }
        self.check_rows(cases)
    }

    /// Refuses to stand beside a run that has no row in common with it.
    ///
    /// # Errors
    /// The rows that it has.
    pub(crate) fn check_rows(&self, cases: &[Case]) -> Result<(), String> {
        if cases.iter().any(|case| self.row_of(case).is_some()) {
            return Ok(());
        }
        let had = self.rows.iter().map(|row| {
            let load = super::format::load(row);
            format!("{load} on {}", super::format::shards(&row.shards))
        });
        Err(format!(
            "no row of that run has a load and shards that are asked for now: it has {}",
            had.collect::<Vec<_>>().join(", ")
        ))
    }

    pub(super) fn row_of(&self, case: &Case) -> Option<&Row> {
        self.rows.iter().find(|row| row.is_of(case))
    }

    pub(super) const fn settings(&self) -> &SettingsJson {
        &self.settings
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }
}

impl Baseline {
    /// Returns the most repeats that a row of it has.
    pub(crate) fn repeats(&self) -> usize {
        let repeats = self.rows.iter().map(|row| row.repeats.len());
        repeats.max().unwrap_or(0)
    }
}

/// Compares the rows that both runs have. `noise`: smaller changes, as a part, do not count.
pub(super) fn compare(before: &Baseline, now: &[Measurement], noise: f64) -> Vec<Change> {
    let rows: Vec<(&Row, &Row)> = now
        .iter()
        .filter_map(|measured| Some((before.row_of(&measured.case)?, &measured.row)))
        .collect();
    let figures = rows.len() * FIGURES.len();
    let changes = rows.iter().flat_map(|(old, row)| {
        FIGURES.iter().map(move |figure| {
            let found = compared(figure, &old.repeats, &row.repeats);
            let verdict = verdict(figure, found.as_ref(), noise, figures);
            let found = found.ok();
            let by = found.map(|found| (found.difference.by, found.before));
            Change {
                kind: row.kind.clone(),
                rate: row.rate,
                writers: row.writers,
                shards: row.shards.clone(),
                metric: figure.name,
                before: found.map(|found| found.before),
                now: found.map(|found| found.now),
                change: by.and_then(|(by, was)| (was != 0.0).then(|| by / was)),
                interval: found.map(|found| found.difference.interval),
                chance: found.map(|found| found.difference.chance),
                verdict,
            }
        })
    });
    changes.collect()
}

/// Judges one of `figures` figures: a change counts if it is beyond the noise, and less likely by
/// chance than the figure's part of [`FALSE_ALARMS`].
pub(super) fn verdict(
    figure: &Figure,
    found: Result<&Compared, &NotCompared>,
    noise: f64,
    figures: usize,
) -> ChangeVerdict {
    let found = match found {
        Ok(found) => found,
        Err(NotCompared::Repeats) => return ChangeVerdict::TooFewRepeats,
        Err(NotCompared::Writes) => return ChangeVerdict::TooFew,
    };
    let by = found.difference.by;
    let is_noise = by.abs() <= (found.before.abs() * noise).max(figure.least);
    let is_chance = found.difference.chance >= FALSE_ALARMS / figures.max(1) as f64;
    if is_noise || is_chance {
        ChangeVerdict::Unchanged
    } else if (by > 0.0) == figure.more_is_better {
        ChangeVerdict::Better
    } else {
        ChangeVerdict::Worse
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::measure;
    use crate::contention::testing::open;

    fn earlier(rows: Vec<Row>, change: impl FnOnce(&mut Settings)) -> Baseline {
        let mut settings = crate::contention::testing::settings();
        change(&mut settings);
        Baseline {
            settings: settings_json(&settings),
            rows,
        }
    }

    /// Changes each repeat of a row.
    fn with(row: &Row, change: impl Fn(usize, &mut crate::contention::repeats::Repeat)) -> Row {
        let mut row = row.clone();
        for (place, repeat) in row.repeats.iter_mut().enumerate() {
            change(place, repeat);
        }
        row
    }

    fn repeated(rate: f64) -> Measurement {
        let repeat = |seed| measure(&open(rate, 1, |settings| settings.seed = seed)).unwrap();
        Measurement::join((1..=5).map(repeat).collect()).unwrap()
    }

    fn verdicts(before: &Baseline, now: &Measurement) -> Vec<(&'static str, ChangeVerdict)> {
        compare(before, std::slice::from_ref(now), 0.05)
            .iter()
            .map(|change| (change.metric, change.verdict))
            .collect()
    }

    #[test]
    fn changes_beyond_noise_and_chance_are_better_or_worse_and_others_are_none() {
        let mut now = repeated(125.0);
        let old = now.row.clone();
        assert_eq!(old.repeats.len(), 5);
        now.row = with(&old, |_, repeat| {
            repeat.goodput_per_s *= 1.2;
            repeat.key_busy_share += 0.0005;
            repeat.p50_us = repeat.p50_us.map(|p50| p50 * 1.001);
            repeat.p99_us = repeat.p99_us.map(|p99| p99 * 1.5);
        });
        let other = Row {
            rate: Some(126.0),
            ..old.clone()
        };
        let before = earlier(vec![other.clone(), old.clone()], |_| {});
        let expected = [
            ("goodput_per_s", ChangeVerdict::Better),
            ("key_busy_share", ChangeVerdict::Unchanged),
            ("p50_us", ChangeVerdict::Unchanged),
            ("p99_us", ChangeVerdict::Worse),
        ];
        assert_eq!(verdicts(&before, &now), expected);
        let found = compare(&before, std::slice::from_ref(&now), 0.05);
        assert!((found[3].change.unwrap() - 0.5).abs() < 1e-9);
        let (from, to) = found[3].interval.unwrap();
        let by = found[3].now.unwrap() - found[3].before.unwrap();
        assert!(from > 0.0 && from < by && by < to, "{found:?}");
        // One repeat that stalled is no change of all.
        now.row = with(&old, |place, repeat| {
            if place == 2 {
                repeat.p99_us = repeat.p99_us.map(|p99| p99 * 4.0);
            }
        });
        let is_unchanged = |(_, verdict): &(_, ChangeVerdict)| *verdict == ChangeVerdict::Unchanged;
        assert!(verdicts(&before, &now).iter().all(is_unchanged));
        assert!(compare(&earlier(vec![other], |_| {}), &[now], 0.05).is_empty());
    }

    #[test]
    fn without_repeats_or_writes_nothing_is_called_better_or_worse() {
        let now = repeated(125.0);
        let old = now.row.clone();
        let twice = |repeat: &mut crate::contention::repeats::Repeat| {
            repeat.goodput_per_s *= 2.0;
            repeat.p50_us = repeat.p50_us.map(|p50| p50 * 2.0);
            repeat.p99_us = None;
        };
        let few = with(&old, |_, repeat| twice(repeat));
        let found = verdicts(&earlier(vec![few.clone()], |_| {}), &now);
        assert_eq!(found[0].1, ChangeVerdict::Worse);
        assert_eq!(found[3].1, ChangeVerdict::TooFew);
        let mut single = few;
        single.repeats.truncate(2);
        let found = verdicts(&earlier(vec![single], |_| {}), &now);
        let is_open = |(_, verdict): &(_, ChangeVerdict)| *verdict == ChangeVerdict::TooFewRepeats;
        assert!(found.iter().all(is_open), "{found:?}");
    }

    #[test]
    fn a_run_with_other_settings_or_without_a_common_row_is_not_compared() {
        let case = open(50.0, 1, |_| {});
        let row = measure(&case).unwrap().row;
        let check = |rows: &[Row], change: fn(&mut Settings)| {
            earlier(rows.to_vec(), change).check(&case.settings, std::slice::from_ref(&case))
        };
        let own = [row.clone()];
        assert_eq!(check(&own, |_| {}), Ok(()));
        assert_eq!(
            check(&own, |settings| {
                settings.seed = 9;
                settings.duration *= 2;
            }),
            Ok(())
        );
        for (name, change) in [
            (
                "limit was 5 and is 20",
                (|of| of.limit = 5) as fn(&mut Settings),
            ),
            ("max_waiters was 6 and is 21", |of| of.limit = 5),
            ("hold_us was 16000.0 and is 8000.0", |of| of.hold.mean *= 2),
            ("mode was \"engine\" and is \"virtual\"", |of| {
                of.is_virtual = false
            }),
            ("operation was \"put\"", |of| {
                of.write = crate::contention::Write::Put
            }),
            ("payload was 7", |of| of.payload = 7),
            ("hot_keys was 2", |of| of.hot_keys = 2),
            ("retries was 3", |of| of.retries = 3),
        ] {
            let error = check(&own, change).unwrap_err();
            assert!(error.contains(name), "{name}: {error}");
        }
        let other = Row {
            rate: Some(60.0),
            ..row
        };
        let error = check(&[other], |_| {}).unwrap_err();
        assert!(error.contains("60/s on 1 shard"), "{error}");
    }

    #[test]
    fn an_earlier_run_is_read_back_and_something_else_is_refused() {
        let row = measure(&open(50.0, 1, |_| {})).unwrap().row;
        let before = earlier(vec![row.clone()], |_| {});
        let body = serde_json::json!({ "settings": before.settings, "rows": [row] });
        let json = crate::report::to_json(2, "contention", &body).unwrap();
        assert_eq!(Baseline::read(json.as_bytes(), 2), Ok(before));
        for (version, report, why) in [(2, "sizing", "sizing"), (1, "contention", "version 1")] {
            let json = crate::report::to_json(version, report, &body).unwrap();
            let error = Baseline::read(json.as_bytes(), 2).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(Baseline::read(b"{", 2).unwrap_err().contains("--json"));
    }
}
