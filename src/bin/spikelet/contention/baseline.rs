//! A run compared with an earlier one.

use serde::{Deserialize, Serialize};

use super::case::{Case, Settings};
use super::row::{Measurement, Row, Shards};
use super::run::SettingsJson;

/// An earlier run, read from its JSON.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Baseline {
    settings: SettingsJson,
    rows: Vec<Row>,
}

/// What every report says of itself.
#[derive(Debug, Deserialize)]
struct Kind {
    schema_version: u32,
    report: String,
}

/// Settings that may differ: they make figures more or less exact, and no others.
const MAY_DIFFER: [&str; 3] = ["duration_s", "warm_up_s", "seed"];

/// Figures of fewer writes than this may differ by chance.
const WRITES_MIN: u64 = 100;

/// How a figure has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ChangeVerdict {
    /// By less than the noise.
    Unchanged,
    /// For the better.
    Better,
    /// For the worse.
    Worse,
    /// It has changed, but one of the figures comes from fewer than 100 writes.
    TooFew,
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
    /// What it was.
    pub(crate) before: f64,
    /// What it is.
    pub(crate) now: f64,
    /// The change as a part of what it was; none if that was 0.
    pub(crate) change: Option<f64>,
    /// What that means.
    pub(crate) verdict: ChangeVerdict,
}

/// A figure: its name, how it is read, whether more of it is better, and what is noise in any case.
pub(super) type Figure = (&'static str, fn(&Row) -> f64, bool, f64);

/// What is compared of each row. A tenth of a percent of writes refused, and a microsecond, are
/// nothing.
pub(super) const FIGURES: [Figure; 4] = [
    ("goodput_per_s", |row| row.goodput_per_s, true, 0.0),
    ("key_busy_share", |row| row.key_busy_share, false, 0.001),
    ("p50_us", |row| row.p50_us, false, 1.0),
    ("p99_us", |row| row.p99_us, false, 1.0),
];

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
        let now = SettingsJson::of(settings);
        let unlike: Vec<String> = self
            .settings
            .fields()
            .into_iter()
            .zip(now.fields())
            .filter(|((name, was), (_, is))| was != is && !MAY_DIFFER.contains(&name.as_str()))
            .map(|((name, was), (_, is))| format!("{name} was {was} and is {is}"))
            .collect();
        if !unlike.is_empty() {
            return Err(format!(
                "that run was made with other settings, so nothing can be compared: {}",
                unlike.join(", ")
            ));
        }
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

    fn row_of(&self, case: &Case) -> Option<&Row> {
        self.rows.iter().find(|row| row.is_of(case))
    }
}

/// Compares the rows that both runs have. `noise`: a change by less than this part is none.
pub(super) fn compare(before: &Baseline, now: &[Measurement], noise: f64) -> Vec<Change> {
    let mut changes = Vec::new();
    for measured in now {
        let row = &measured.row;
        let Some(old) = before.row_of(&measured.case) else {
            continue;
        };
        let too_few = old.offered.min(row.offered) < WRITES_MIN;
        for (metric, read, more_is_better, least) in FIGURES {
            let (was, is) = (read(old), read(row));
            let by = is - was;
            let verdict = if by.abs() <= (was.abs() * noise).max(least) {
                ChangeVerdict::Unchanged
            } else if too_few {
                ChangeVerdict::TooFew
            } else if (by > 0.0) == more_is_better {
                ChangeVerdict::Better
            } else {
                ChangeVerdict::Worse
            };
            changes.push(Change {
                kind: row.kind.clone(),
                rate: row.rate,
                writers: row.writers,
                shards: row.shards.clone(),
                metric,
                before: was,
                now: is,
                change: (was != 0.0).then(|| by / was),
                verdict,
            });
        }
    }
    changes
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
            settings: SettingsJson::of(&settings),
            rows,
        }
    }

    #[test]
    fn changes_beyond_the_noise_are_better_or_worse_and_others_are_none() {
        let mut now = measure(&open(125.0, 1, |_| {})).unwrap();
        let old = now.row.clone();
        now.row = Row {
            goodput_per_s: old.goodput_per_s * 1.2,
            p50_us: old.p50_us * 1.04,
            p99_us: old.p99_us * 1.5,
            key_busy_share: old.key_busy_share + 0.0005,
            ..old.clone()
        };
        let other = Row {
            rate: Some(126.0),
            ..old.clone()
        };
        let before = earlier(vec![other.clone(), old], |_| {});
        let found = compare(&before, std::slice::from_ref(&now), 0.05);
        let verdicts: Vec<(&str, ChangeVerdict)> = found
            .iter()
            .map(|change| (change.metric, change.verdict))
            .collect();
        assert_eq!(
            verdicts,
            [
                ("goodput_per_s", ChangeVerdict::Better),
                ("key_busy_share", ChangeVerdict::Unchanged),
                ("p50_us", ChangeVerdict::Unchanged),
                ("p99_us", ChangeVerdict::Worse),
            ]
        );
        assert!((found[3].change.unwrap() - 0.5).abs() < 1e-9);
        let of_few = Row {
            offered: WRITES_MIN - 1,
            ..before.rows[1].clone()
        };
        let found = compare(
            &earlier(vec![of_few], |_| {}),
            std::slice::from_ref(&now),
            0.05,
        );
        let changed = found
            .iter()
            .filter(|change| change.verdict != ChangeVerdict::Unchanged);
        assert_eq!(changed.clone().count(), 2);
        assert!(
            changed
                .into_iter()
                .all(|change| change.verdict == ChangeVerdict::TooFew)
        );
        assert!(compare(&earlier(vec![other], |_| {}), &[now], 0.05).is_empty());
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
        let json = crate::report::to_json(1, "contention", &body).unwrap();
        assert_eq!(Baseline::read(json.as_bytes(), 1), Ok(before));
        for (version, report, why) in [(1, "sizing", "sizing"), (2, "contention", "version 2")] {
            let json = crate::report::to_json(version, report, &body).unwrap();
            let error = Baseline::read(json.as_bytes(), 1).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        assert!(Baseline::read(b"{", 1).unwrap_err().contains("--json"));
    }
}
