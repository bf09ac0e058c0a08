//! Conditions on rows, such as `key_busy>0.1%` or `p99<30ms`, as k6 has them.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use self::Figure::{Known, NotAbove};
use super::activation::Phase;
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

/// A figure of rows, by the name that it has in their JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Metric {
    field: &'static str,
    kind: MetricKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricKind {
    /// In microseconds; one of each phase of a row.
    Time,
    /// A number or a rate; one of each phase of a row.
    Number,
    /// A number of the whole row.
    OfRow,
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

/// Longer ones first: `<=` begins with `<`.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("==", Comparison::Equal),
    ("!=", Comparison::Unequal),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

const METRICS: [(&str, &str, MetricKind); 12] = [
    ("key_busy", "key_busy", MetricKind::Number),
    ("p50", "p50_us", MetricKind::Time),
    ("p99", "p99_us", MetricKind::Time),
    ("p999", "p999_us", MetricKind::Time),
    ("p99.9", "p999_us", MetricKind::Time),
    ("max", "max_us", MetricKind::Time),
    ("mean", "mean_us", MetricKind::Time),
    ("goodput", "goodput_per_s", MetricKind::Number),
    ("lost", "lost", MetricKind::OfRow),
    ("duplicates", "duplicates", MetricKind::OfRow),
    ("invisible", "invisible", MetricKind::OfRow),
    ("errors", "errors", MetricKind::OfRow),
];

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
            .find(|(known, ..)| *known == name)
            .map(|(_, field, kind)| Metric { field, kind })
            .ok_or_else(|| {
                let names = METRICS.map(|(name, ..)| name).join(", ");
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
        let is_time = metric.kind == MetricKind::Time;
        let share = Metric {
            field: "key_busy_share",
            ..metric
        };
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

impl fmt::Display for Condition {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl Condition {
    /// Returns the metric of a row or phase, as far as it is known. Times are compared as the table
    /// shows them: a histogram answers with the upper edge of a bucket. A phase may be too short
    /// for a percentile, and no longer run makes it longer: its longest write is a bound then.
    fn figure(&self, judged: Judged<'_>) -> Figure {
        let of = |field: &str| match judged.json().get(field) {
            Some(serde_json::Value::Object(parts)) => {
                Some(parts.values().filter_map(serde_json::Value::as_f64).sum())
            }
            Some(value) => value.as_f64(),
            None => None,
        };
        let known = of(self.metric.field);
        if self.metric.kind != MetricKind::Time {
            return known.map_or(Figure::Unknown, Known);
        }
        let most = judged.phase.and_then(|_| of("max_us"));
        match (known, most) {
            _ if judged.acked() == 0 => Figure::Unknown,
            (Some(micros), _) => Known(micros_as_shown(micros)),
            (None, Some(most)) => NotAbove(micros_as_shown(most)),
            (None, None) => Figure::Unknown,
        }
    }

    /// Returns whether the condition holds; `None` where no write was acknowledged, or too few to
    /// judge.
    fn holds(&self, judged: Judged<'_>) -> Option<bool> {
        let holds = |value: f64| match self.comparison {
            Comparison::Less => value < self.limit,
            Comparison::AtMost => value <= self.limit,
            Comparison::Greater => value > self.limit,
            Comparison::AtLeast => value >= self.limit,
            Comparison::Equal => value == self.limit,
            Comparison::Unequal => value != self.limit,
        };
        let is_exact = matches!(self.comparison, Comparison::Equal | Comparison::Unequal);
        match self.figure(judged) {
            Known(value) => Some(holds(value)),
            // Anything from 0 on: known if it is the same at both ends.
            NotAbove(most) if !is_exact && holds(0.0) == holds(most) => Some(holds(most)),
            NotAbove(_) | Figure::Unknown => None,
        }
    }
}

/// The knowledge of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    Known(f64),
    /// The figure itself is not known, but that it is not above this.
    NotAbove(f64),
    Unknown,
}

/// A row, or a phase of a row with an activation.
#[derive(Clone, Copy, Debug)]
struct Judged<'r> {
    row: &'r Row,
    phase: Option<&'r Phase>,
}

impl<'r> Judged<'r> {
    /// Returns the parts of a row that are judged: the row; or its phases in which writes were
    /// wanted, since figures of all of them together belong to none.
    fn of(row: &'r Row, metric: Metric) -> Vec<Self> {
        let is_of_row = metric.kind == MetricKind::OfRow;
        let phases = row.phases.iter().filter(|phase| phase.offered > 0);
        let phases: Vec<Self> = phases
            .map(|phase| Self {
                row,
                phase: Some(phase),
            })
            .collect();
        if is_of_row || phases.is_empty() {
            return vec![Self { row, phase: None }];
        }
        phases
    }

    fn json(self) -> serde_json::Value {
        let json = match self.phase {
            Some(phase) => serde_json::to_value(phase),
            None => serde_json::to_value(self.row),
        };
        json.unwrap_or_default()
    }

    fn acked(self) -> u64 {
        self.phase.map_or(self.row.acked, |phase| phase.acked)
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

fn as_text<S: Serializer>(condition: &Condition, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(condition)
}

/// Judges all rows by a condition; rows with an activation by their phases.
pub(super) fn judge(condition: &Condition, demand: Demand, rows: &[&Row]) -> ConditionResult {
    let mut result = ConditionResult {
        condition: condition.clone(),
        demand,
        passes: true,
        rows: Vec::new(),
        phases: Vec::new(),
        is_untested: true,
    };
    for (number, row) in rows.iter().enumerate() {
        for judged in Judged::of(row, condition.metric) {
            // Without enough acknowledged writes no condition is met.
            let holds = condition.holds(judged).filter(|_| judged.acked() > 0);
            if holds == Some(demand == Demand::Threshold) {
                continue;
            }
            result.passes = false;
            result.is_untested &= holds.is_none() && judged.acked() > 0;
            if result.rows.last() != Some(&number) {
                result.rows.push(number);
            }
            result.phases.extend(judged.phase.map(|phase| FailedPhase {
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
            let whole = Judged {
                row: &row,
                phase: None,
            };
            assert_eq!(condition.holds(whole), Some(holds), "{text}");
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
        let condition: Condition = "p99<30ms".parse().unwrap();
        let whole = Judged {
            row: &row,
            phase: None,
        };
        assert_eq!(condition.holds(whole), None);
    }

    #[test]
    fn an_activated_row_is_judged_by_its_phases() {
        let phase = |name: &str, acked: u64, key_busy: u64, p99_us: Option<f64>| Phase {
            name: name.to_owned(),
            seconds: 1.0,
            offered: acked + key_busy,
            acked,
            key_busy,
            key_busy_share: key_busy as f64 / (acked + key_busy).max(1) as f64,
            goodput_per_s: acked as f64,
            p50_us: Some(8_000.0),
            p99_us,
            p999_us: None,
            max_us: (acked > 0).then_some(25_000.0),
            mean_us: Some(9_000.0),
        };
        let row = Row {
            p99_us: 170_000.0,
            key_busy_share: 0.4,
            phases: vec![
                phase("before", 300, 200, Some(170_000.0)),
                // Too few for a percentile, but the longest is known.
                phase("during", 20, 0, None),
                phase("after", 500, 0, Some(20_000.0)),
            ],
            ..measure(&open(10.0, 1, |_| {})).unwrap().row
        };
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
            |text: &str, row: &Row| judge(&text.parse().unwrap(), Demand::FailIf, &[row]);
        let found = judge_if("p99>30ms", &row);
        assert_eq!(
            found.phases.len(),
            1,
            "only before the activation: {found:?}"
        );
        // A phase without offered writes cannot be judged, one in which nothing
        // was acknowledged fails.
        let with_during = |during| Row {
            phases: vec![during, phase("after", 500, 0, Some(20_000.0))],
            ..row.clone()
        };
        assert!(judge_if("p99>30ms", &with_during(phase("during", 0, 0, None))).passes);
        let refused = judge_if("p99>30ms", &with_during(phase("during", 0, 9, None)));
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
            let error = text.parse::<Condition>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
