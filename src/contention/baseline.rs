//! A run compared with an earlier one.

use serde::{Deserialize, Serialize};

use super::row::{Row, Shards};

/// What is needed of an earlier run's JSON.
#[derive(Debug, Deserialize)]
struct Earlier {
    schema_version: u32,
    report: String,
    rows: Vec<Row>,
}

/// How a figure has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// By less than the noise.
    Unchanged,
    /// For the better.
    Better,
    /// For the worse.
    Worse,
}

/// A figure of a row, then and now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// `open` or `closed`.
    #[serde(rename = "loop")]
    pub kind: String,
    /// Of the row.
    pub rate: Option<f64>,
    /// Of the row.
    pub writers: Option<u64>,
    /// Of the row.
    pub shards: Shards,
    /// Which figure.
    pub metric: &'static str,
    /// What it was.
    pub before: f64,
    /// What it is.
    pub now: f64,
    /// The change as a part of what it was; none if that was 0.
    pub change: Option<f64>,
    /// What that means.
    pub verdict: Verdict,
}

/// A figure: its name, how it is read, whether more of it is better, and what is noise in any case.
type Figure = (&'static str, fn(&Row) -> f64, bool, f64);

/// A tenth of a percent of writes refused, and a microsecond, are nothing.
const FIGURES: [Figure; 4] = [
    ("goodput_per_s", |row| row.goodput_per_s, true, 0.0),
    ("key_busy_share", |row| row.key_busy_share, false, 0.001),
    ("p50_us", |row| row.p50_us, false, 1.0),
    ("p99_us", |row| row.p99_us, false, 1.0),
];

/// The rows of an earlier run.
///
/// # Errors
/// If it is no JSON of this report, or of another version.
pub fn read(json: &[u8], schema_version: u32) -> Result<Vec<Row>, String> {
    let earlier: Earlier = serde_json::from_slice(json)
        .map_err(|error| format!("no output of `spikelet contention --json`: {error}"))?;
    if earlier.report != "contention" || earlier.schema_version != schema_version {
        return Err(format!(
            "a {:?} report of schema version {}: a \"contention\" report of version {schema_version} is needed, so measure it again",
            earlier.report, earlier.schema_version
        ));
    }
    Ok(earlier.rows)
}

/// Compares the rows that both runs have. `noise`: a change by less than this part is none.
pub(super) fn compare(before: &[Row], now: &[&Row], noise: f64) -> Vec<Change> {
    let mut changes = Vec::new();
    for row in now {
        let Some(old) = before
            .iter()
            .find(|old| old.shards == row.shards && old.has_load_of(row))
        else {
            continue;
        };
        for (metric, read, more_is_better, least) in FIGURES {
            let (was, is) = (read(old), read(row));
            let by = is - was;
            let verdict = if by.abs() <= (was.abs() * noise).max(least) {
                Verdict::Unchanged
            } else if (by > 0.0) == more_is_better {
                Verdict::Better
            } else {
                Verdict::Worse
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

    #[test]
    fn changes_beyond_the_noise_are_better_or_worse_and_others_are_none() {
        let old = measure(&open(125.0, 1, |_| {})).unwrap().row;
        let new = Row {
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
        let found = compare(&[other, old.clone()], &[&new], 0.05);
        let verdicts: Vec<(&str, Verdict)> = found
            .iter()
            .map(|change| (change.metric, change.verdict))
            .collect();
        assert_eq!(
            verdicts,
            [
                ("goodput_per_s", Verdict::Better),
                ("key_busy_share", Verdict::Unchanged),
                ("p50_us", Verdict::Unchanged),
                ("p99_us", Verdict::Worse),
            ]
        );
        assert!((found[3].change.unwrap() - 0.5).abs() < 1e-9);
        assert!(compare(&[old], &[], 0.05).is_empty());
    }

    #[test]
    fn an_earlier_run_is_read_back_and_something_else_is_refused() {
        let row = measure(&open(50.0, 1, |_| {})).unwrap().row;
        let json = crate::report::to_json(1, "contention", &serde_json::json!({ "rows": [row] }));
        assert_eq!(read(json.unwrap().as_bytes(), 1), Ok(vec![row]));
        let other = crate::report::to_json(1, "sizing", &serde_json::json!({ "rows": [] }));
        assert!(
            read(other.unwrap().as_bytes(), 1)
                .unwrap_err()
                .contains("sizing")
        );
        let newer = crate::report::to_json(2, "contention", &serde_json::json!({ "rows": [] }));
        assert!(
            read(newer.unwrap().as_bytes(), 1)
                .unwrap_err()
                .contains("version 2")
        );
        assert!(read(b"{", 1).unwrap_err().contains("--json"));
    }
}
