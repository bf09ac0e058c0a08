//! Conditions on rows, such as `key_busy>0.1%` or `p99<30ms`, as k6 has them.

use std::str::FromStr;

use serde::Serialize;

use super::activation::Phase;
use super::format::micros_as_shown;
use super::measure::Figures;
use super::row::ReportRow;

use self::ThresholdMetric::{Number, OfRow, Time};

/// Something that holds for a row, or does not.
#[derive(Clone, Debug)]
pub(crate) struct RowCondition {
    text: String,
    metric: ThresholdMetric,
    comparison: fn(&f64, &f64) -> bool,
    /// In the metric's own unit.
    limit: f64,
}

/// A figure of rows.
#[derive(Clone, Copy, Debug)]
enum ThresholdMetric {
    /// In microseconds; one of each phase of a row.
    Time(fn(&Figures) -> f64),
    /// A number or a rate; one of each phase of a row.
    Number(fn(&Figures) -> f64),
    /// A number of the whole row.
    OfRow(fn(&ReportRow) -> u64),
}

type Compare = fn(&f64, &f64) -> bool;

/// Longer ones first: `<=` begins with `<`.
const COMPARISONS: [(&str, Compare); 6] = [
    ("<=", f64::le),
    (">=", f64::ge),
    ("==", f64::eq),
    ("!=", f64::ne),
    ("<", f64::lt),
    (">", f64::gt),
];

const METRICS: [(&str, ThresholdMetric); 12] = [
    ("key_busy", Number(|of| of.key_busy as f64)),
    ("p50", Time(|of| of.p50_us)),
    ("p99", Time(|of| of.p99_us)),
    ("p999", Time(|of| of.p999_us)),
    ("p99.9", Time(|of| of.p999_us)),
    ("max", Time(|of| of.max_us)),
    ("mean", Time(|of| of.mean_us)),
    ("goodput", Number(|of| of.goodput_per_s)),
    ("lost", OfRow(|row| row.correctness.lost)),
    ("duplicates", OfRow(|row| row.correctness.duplicates)),
    ("invisible", OfRow(|row| row.correctness.invisible)),
    ("errors", OfRow(|row| row.errors.values().sum())),
];

impl FromStr for RowCondition {
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
        let is_time = matches!(metric, Time(_));
        let share = Number(|of| of.key_busy_share);
        let (metric, limit) = match unit.trim() {
            "us" if is_time => (metric, number),
            "ms" if is_time => (metric, number * 1e3),
            "s" if is_time => (metric, number * 1e6),
            _ if is_time => return Err(wrong("a time is in us, ms or s")),
            "" => (metric, number),
            "/s" if name == "goodput" => (metric, number),
            "%" if name == "key_busy" => (share, number / 100.0),
            unit => return Err(wrong(&format!("{unit:?} is no unit of {name}"))),
        };
        Ok(Self {
            text: text.to_owned(),
            metric,
            comparison,
            limit,
        })
    }
}

impl RowCondition {
    /// Returns whether the condition holds; `None` where no write was acknowledged, or too few to
    /// judge. Times are compared as the table shows them: a histogram answers with the upper edge
    /// of a bucket. A phase may be too short for a percentile, and no longer run makes it longer:
    /// its longest write stands for it.
    fn holds(&self, row: &ReportRow, phase: Option<&Phase>) -> Option<bool> {
        let figures = phase.map_or(&row.figures, |phase| &phase.figures);
        let value = match self.metric {
            OfRow(read) => read(row) as f64,
            Number(read) => read(figures),
            Time(_) if figures.acked == 0 => return None,
            Time(read) => match read(figures) {
                micros if micros.is_nan() && phase.is_some() => micros_as_shown(figures.max_us),
                micros => micros_as_shown(micros),
            },
        };
        (!value.is_nan()).then(|| (self.comparison)(&value, &self.limit))
    }

    /// Returns the parts of a row that are judged: the row, which is `None`; or its phases in which
    /// writes were wanted, since figures of all of them together belong to none.
    fn parts<'r>(&self, row: &'r ReportRow) -> Vec<Option<&'r Phase>> {
        let phases = row.phases.iter().filter(|phase| phase.figures.offered > 0);
        match phases.map(Some).collect::<Vec<_>>() {
            _ if matches!(self.metric, OfRow(_)) => vec![None],
            phases if phases.is_empty() => vec![None],
            phases => phases,
        }
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
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ConditionResult {
    /// The condition, as it was given.
    pub(crate) condition: String,
    /// What it means.
    pub(crate) demand: Demand,
    /// Whether the run passes.
    pub(crate) passes: bool,
    /// The rows that do not, by number.
    pub(crate) rows: Vec<usize>,
    /// Their phases that do not, where rows have phases.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) phases: Vec<FailedPhase>,
    /// Whether every failure is a lack of writes.
    #[serde(skip)]
    pub(crate) is_untested: bool,
}

/// A phase of a row that is not as wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FailedPhase {
    /// The row, by number.
    pub(crate) row: usize,
    /// `before`, `during` or `after`.
    pub(crate) phase: String,
}

/// Judges all rows by a condition; rows with an activation by their phases.
pub(super) fn judge(
    condition: &RowCondition,
    demand: Demand,
    rows: &[&ReportRow],
) -> ConditionResult {
    let mut result = ConditionResult {
        condition: condition.text.clone(),
        demand,
        passes: true,
        rows: Vec::new(),
        phases: Vec::new(),
        is_untested: true,
    };
    for (number, row) in rows.iter().enumerate() {
        for phase in condition.parts(row) {
            let acked = phase.map_or(row.acked, |phase| phase.figures.acked);
            // Without enough acknowledged writes no condition is met.
            let holds = condition.holds(row, phase).filter(|_| acked > 0);
            if holds == Some(demand == Demand::Threshold) {
                continue;
            }
            result.passes = false;
            result.is_untested &= holds.is_none() && acked > 0;
            if result.rows.last() != Some(&number) {
                result.rows.push(number);
            }
            result.phases.extend(phase.map(|phase| FailedPhase {
                row: number,
                phase: phase.name.clone(),
            }));
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contention::measure;
    use crate::contention::testing::open;

    #[test]
    fn a_row_without_an_acknowledged_write_contents_nobody() {
        let mut row = measure(&open(10.0, 1, |_| {})).unwrap().row;
        row.figures.acked = 0;
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
        let mut row = measure(&open(10.0, 1, |_| {})).unwrap().row;
        row.figures = Figures {
            offered: 1_000,
            acked: 998,
            key_busy: 2,
            key_busy_share: 0.002,
            p50_us: 8_003.583,
            p99_us: 30_000.0,
            goodput_per_s: 120.0,
            ..row.figures
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
            let condition: RowCondition = text.parse().unwrap();
            assert_eq!(condition.holds(&row, None), Some(holds), "{text}");
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
        let mut row = measure(&open(10.0, 1, |_| {})).unwrap().row;
        row.figures.acked = 0;
        let condition: RowCondition = "p99<30ms".parse().unwrap();
        assert_eq!(condition.holds(&row, None), None);
    }

    #[test]
    fn an_activated_row_is_judged_by_its_phases() {
        let mut row = measure(&open(10.0, 1, |_| {})).unwrap().row;
        let own = row.figures.clone();
        let phase = |name: &str, acked: u64, key_busy: u64, p99_us: f64| Phase {
            name: name.to_owned(),
            seconds: 1.0,
            figures: Figures {
                offered: acked + key_busy,
                acked,
                key_busy,
                key_busy_share: key_busy as f64 / (acked + key_busy).max(1) as f64,
                goodput_per_s: acked as f64,
                p50_us: 8_000.0,
                p99_us,
                p999_us: f64::NAN,
                max_us: if acked > 0 { 25_000.0 } else { f64::NAN },
                mean_us: 9_000.0,
                ..own.clone()
            },
        };
        row.figures.p99_us = 170_000.0;
        row.figures.key_busy_share = 0.4;
        row.phases = vec![
            phase("before", 300, 200, 170_000.0),
            // Too few for a percentile, but the longest is known.
            phase("during", 20, 0, f64::NAN),
            phase("after", 500, 0, 20_000.0),
        ];
        for (text, failing) in [
            ("key_busy==0", &["before"][..]),
            ("p99<30ms", &["before"]),
            ("p99<=25ms", &["before"]),
            ("p99<24ms", &["before", "during"]),
            ("mean<10ms", &[]),
            ("goodput>=300", &["during"]),
            ("lost==0", &[]),
        ] {
            let judged = judge(&text.parse().unwrap(), Demand::Threshold, &[&row]);
            let phases: Vec<_> = judged.phases.iter().map(|it| it.phase.as_str()).collect();
            assert_eq!(phases, failing, "{text}");
            assert_eq!(judged.passes, failing.is_empty(), "{text}");
            assert_eq!(
                judged.rows.len(),
                usize::from(!failing.is_empty()),
                "{text}"
            );
        }
        let judge_if =
            |text: &str, row: &ReportRow| judge(&text.parse().unwrap(), Demand::FailIf, &[row]);
        let found = judge_if("p99>30ms", &row);
        assert_eq!(
            found.phases.len(),
            1,
            "only before the activation: {found:?}"
        );
        // A phase without offered writes cannot be judged, one in which nothing
        // was acknowledged fails.
        let with_during = |during| ReportRow {
            phases: vec![during, phase("after", 500, 0, 20_000.0)],
            ..row.clone()
        };
        assert!(judge_if("p99>30ms", &with_during(phase("during", 0, 0, f64::NAN))).passes);
        let refused = judge_if("p99>30ms", &with_during(phase("during", 0, 9, f64::NAN)));
        assert!(!refused.passes && !refused.is_untested, "{refused:?}");
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
            let error = text.parse::<RowCondition>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
