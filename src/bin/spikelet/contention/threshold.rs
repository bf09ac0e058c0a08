//! Conditions on rows, such as `key_busy>0.1%` or `p99<30ms`, as k6 has them.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use super::format::micros_as_shown;
use super::row::Row;

/// Something that holds for a row, or does not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    text: String,
    metric: Metric,
    comparison: Comparison,
    /// In the metric's own unit.
    limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    BusyShare,
    Busy,
    P50,
    P99,
    P999,
    Max,
    Mean,
    Goodput,
    Lost,
    Duplicates,
    Invisible,
    Errors,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    Unequal,
}

/// Longer ones before those that they begin with.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

const METRICS: [(&str, Metric); 12] = [
    ("key_busy", Metric::Busy),
    ("p50", Metric::P50),
    ("p99", Metric::P99),
    ("p999", Metric::P999),
    ("p99.9", Metric::P999),
    ("max", Metric::Max),
    ("mean", Metric::Mean),
    ("goodput", Metric::Goodput),
    ("lost", Metric::Lost),
    ("duplicates", Metric::Duplicates),
    ("invisible", Metric::Invisible),
    ("errors", Metric::Errors),
];

impl Metric {
    const fn is_time(self) -> bool {
        matches!(
            self,
            Self::P50 | Self::P99 | Self::P999 | Self::Max | Self::Mean
        )
    }
}

impl FromStr for Condition {
    type Err = String;

    /// Reads a metric, a comparison and a limit: `key_busy>0.1%`, `key_busy==0`, `p99<30ms`,
    /// `goodput>=120`, `lost==0`.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong = |why: &str| format!("condition {text:?}: {why}");
        let at = text.find(['<', '>', '=', '!']).ok_or_else(|| {
            wrong("a metric, one of < <= > >= == !=, and a limit, such as `key_busy>0.1%`")
        })?;
        let (name, rest) = text.split_at(at);
        let (sign, comparison) = COMPARISONS
            .into_iter()
            .find(|(sign, _)| rest.starts_with(sign))
            .ok_or_else(|| wrong("the comparison is one of < <= > >= == !="))?;
        let name = name.trim();
        let metric = METRICS
            .into_iter()
            .find_map(|(known, metric)| (known == name).then_some(metric))
            .ok_or_else(|| {
                let names = METRICS.map(|(name, _)| name).join(", ");
                wrong(&format!("{name:?} is no metric; there are {names}"))
            })?;
        let limit = rest.get(sign.len()..).unwrap_or_default().trim();
        let (number, unit) = match limit.find(|c: char| c != '.' && !c.is_ascii_digit()) {
            Some(end) => limit.split_at(end),
            None => (limit, ""),
        };
        let number: f64 = number
            .parse()
            .map_err(|_| wrong(&format!("{limit:?} is no limit")))?;
        let (metric, limit) = match (unit.trim(), metric) {
            ("%", Metric::Busy) => (Metric::BusyShare, number / 100.0),
            ("us", time) if time.is_time() => (time, number),
            ("ms", time) if time.is_time() => (time, number * 1e3),
            ("s", time) if time.is_time() => (time, number * 1e6),
            (_, time) if time.is_time() => return Err(wrong("a time is in us, ms or s")),
            ("", plain) | ("/s", plain @ Metric::Goodput) => (plain, number),
            (unit, _) => return Err(wrong(&format!("{unit:?} is no unit of {name}"))),
        };
        Ok(Self {
            text: text.to_owned(),
            metric,
            comparison,
            limit,
        })
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Condition {
    /// Returns the row's value of the metric. Times only where something was acknowledged, and as
    /// the table shows them: a histogram answers with the upper edge of a bucket.
    fn value(&self, row: &Row) -> Option<f64> {
        let is_known = |micros: f64| row.acked > 0 && micros.is_finite();
        let time = |micros: f64| is_known(micros).then(|| micros_as_shown(micros));
        match self.metric {
            Metric::BusyShare => Some(row.key_busy_share),
            Metric::Busy => Some(row.key_busy as f64),
            Metric::P50 => time(row.p50_us),
            Metric::P99 => time(row.p99_us),
            Metric::P999 => time(row.p999_us),
            Metric::Max => time(row.max_us),
            Metric::Mean => time(row.mean_us),
            Metric::Goodput => Some(row.goodput_per_s),
            Metric::Lost => Some(row.lost as f64),
            Metric::Duplicates => Some(row.duplicates as f64),
            Metric::Invisible => Some(row.invisible as f64),
            Metric::Errors => Some(row.errors.values().sum::<u64>() as f64),
        }
    }

    /// Returns whether the row has too few writes for the condition's percentile.
    #[must_use]
    pub(crate) fn is_untested(&self, row: &Row) -> bool {
        row.acked > 0 && self.value(row).is_none()
    }

    /// Returns whether the condition holds for the row. Conditions on times do not hold where
    /// nothing was acknowledged, or too little for the percentile.
    #[must_use]
    pub(crate) fn holds(&self, row: &Row) -> bool {
        self.value(row).is_some_and(|value| match self.comparison {
            Comparison::Less => value < self.limit,
            Comparison::AtMost => value <= self.limit,
            Comparison::Greater => value > self.limit,
            Comparison::AtLeast => value >= self.limit,
            Comparison::Equal => value == self.limit,
            Comparison::Unequal => value != self.limit,
        })
    }
}

/// What a condition means for the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Demand {
    /// The run fails if it holds for any row.
    FailIf,
    /// The run fails unless it holds for every row.
    Threshold,
}

/// A condition, judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ConditionResult {
    /// The condition.
    #[serde(serialize_with = "as_text")]
    pub(crate) condition: Condition,
    /// What it means.
    pub(crate) demand: Demand,
    /// Whether the run passes.
    pub(crate) passes: bool,
    /// The rows that do not, by number.
    pub(crate) rows: Vec<usize>,
}

fn as_text<S: Serializer>(condition: &Condition, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(condition)
}

/// Judges all rows by a condition.
pub(super) fn judge(condition: &Condition, demand: Demand, rows: &[&Row]) -> ConditionResult {
    // A row in which nothing was acknowledged, or too little, has no figures to be content with.
    let is_untested = |row: &Row| row.acked == 0 || condition.is_untested(row);
    let fails = |row: &Row| is_untested(row) || condition.holds(row) == (demand == Demand::FailIf);
    let failing: Vec<usize> = (0..rows.len())
        .filter(|place| rows.get(*place).is_some_and(|row| fails(row)))
        .collect();
    ConditionResult {
        condition: condition.clone(),
        demand,
        passes: failing.is_empty(),
        rows: failing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::measure;
    use crate::contention::testing::open;

    #[test]
    fn a_row_without_an_acknowledged_write_contents_nobody() {
        let row = Row {
            acked: 0,
            ..measure(&open(10.0, 1, |_| {})).unwrap().row
        };
        for (text, demand) in [("p99>0ms", Demand::FailIf), ("lost==0", Demand::Threshold)] {
            let judged = judge(&text.parse().unwrap(), demand, &[&row]);
            assert!(!judged.passes, "{text}");
        }
    }

    #[test]
    fn a_percentile_of_too_few_writes_contents_nobody() {
        // 10 writes a second for 5 seconds: no 99th percentile is known.
        let short = |settings: &mut crate::contention::Settings| {
            settings.duration = std::time::Duration::from_secs(5);
        };
        let row = measure(&open(10.0, 1, short)).unwrap().row;
        assert!(row.p99_us.is_nan() && row.p50_us > 0.0, "{row:?}");
        let json = serde_json::to_value(&row).unwrap();
        assert_eq!(json["p99_us"], serde_json::Value::Null);
        for demand in [Demand::FailIf, Demand::Threshold] {
            for (text, passes) in [("p99<10s", false), ("p99>10s", false)] {
                let judged = judge(&text.parse().unwrap(), demand, &[&row]);
                assert_eq!(judged.passes, passes, "{text}");
            }
        }
        assert!(judge(&"p50<10s".parse().unwrap(), Demand::Threshold, &[&row]).passes);
    }

    #[test]
    fn conditions_are_read_with_their_units() {
        let row = Row {
            offered: 1_000,
            acked: 998,
            key_busy: 2,
            key_busy_share: 0.002,
            p50_us: 8_003.583,
            p99_us: 30_000.0,
            goodput_per_s: 120.0,
            ..measure(&open(10.0, 1, |_| {})).unwrap().row
        };
        for (text, holds) in [
            ("key_busy>0.1%", true),
            ("key_busy > 0.2 %", false),
            ("key_busy>=0.2%", true),
            ("key_busy==2", true),
            ("key_busy<2", false),
            ("p50<=8ms", true),
            ("p50>8ms", false),
            ("p50<=7.99ms", false),
            ("p99<30ms", false),
            ("p99<=30ms", true),
            ("p99<30001us", true),
            ("p99>0.02s", true),
            ("goodput>=120", true),
            ("goodput<120/s", false),
            ("lost==0", true),
            ("lost!=0", false),
        ] {
            let condition: Condition = text.parse().unwrap();
            assert_eq!(condition.holds(&row), holds, "{text}");
            let failed_if = judge(&condition, Demand::FailIf, &[&row]);
            assert_eq!(
                (failed_if.passes, failed_if.rows.len()),
                (!holds, usize::from(holds))
            );
            assert_eq!(judge(&condition, Demand::Threshold, &[&row]).passes, holds);
        }
    }

    #[test]
    fn a_limit_on_a_time_is_not_met_where_nothing_was_acknowledged() {
        let row = Row {
            acked: 0,
            p99_us: 0.0,
            ..measure(&open(10.0, 1, |_| {})).unwrap().row
        };
        assert!(!"p99<30ms".parse::<Condition>().unwrap().holds(&row));
    }

    #[test]
    fn what_is_not_understood_is_told() {
        for (text, why) in [
            ("key_busy", "a metric"),
            ("busy>1", "there are key_busy"),
            ("p99<30", "us, ms or s"),
            ("p99<30%", "us, ms or s"),
            ("lost<1%", "no unit"),
            ("lost=0", "comparison"),
            ("lost==", "no limit"),
            ("lost==-1", "no limit"),
            ("", "a metric"),
        ] {
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
