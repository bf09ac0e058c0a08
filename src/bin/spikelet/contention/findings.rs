//! The sections of the report that judge: knees, the guideline, the queueing model.

use super::format::{load, rate_words};
use super::judge::{Finding, Guideline, Knees};
use super::run::FinishedRun;
use crate::report::{Cell, ReportTable, Section, Severity, Verdict, decimal, exact, percent};

impl FinishedRun {
    pub(super) fn knees_section(&self) -> Option<Section> {
        let guideline = self.guideline.as_ref()?;
        let mut section = Section::new("Knees and the guideline").verdict(guideline_verdict(
            guideline,
            self.settings.hold.mean.is_zero(),
        ));
        if !self.knees.is_empty() {
            section = section.table(knees_table(&self.knees)).paragraph(
                "Latency knee: the first rate from which on every p99 is 3 times that of the lowest rate, where that is hardly \
                 refused, and their intervals are apart. Busy knee: the first from which on more than 0.1 % is refused, beyond \
                 chance. Both take two rates at least. The model is M/D/1 (M/M/1 for exponential holds) with the measured hold and a queue of this length.",
            );
        }
        let expected = self.rows().filter(|row| row.expected_mean_us.is_some());
        let table = ReportTable::of(
            "Measured beside the queueing model; times in ms",
            expected.map(|row| (load(row), row)),
            "load: 0 | shards # | KEY_BUSY: key_busy_share %3 | model: expected_key_busy_share %3 | mean: mean_us ms | \
             model mean: expected_mean_us ms",
        );
        Some(section.table(table.if_any()))
    }
}

fn guideline_verdict(guideline: &Guideline, is_edit_alone: bool) -> Verdict {
    let what = if is_edit_alone {
        "a write takes"
    } else {
        "hold"
    };
    let measured = match (guideline.tested_rate, guideline.key_busy_share) {
        (Some(rate), Some(share)) => {
            format!("{} refused at {}", percent(share, 2), rate_words(rate))
        }
        _ => "no row on one record tests this rate: --rate 50 --shards 1 --hot-keys 1 would"
            .to_owned(),
    };
    let (level, word) = match guideline.finding {
        Finding::Pass => (Severity::Good, "PASS"),
        Finding::Fail => (Severity::Bad, "FAIL"),
        Finding::NotTested => (Severity::Watch, "NOT TESTED"),
    };
    let subject = format!("{} writes/s on one record", guideline.rate);
    let sentence = format!(
        "{what} {} ms, burst factor {}: lambda {}, P2 {} ({}: up to 0.02 is calm, up to 0.1 warm, beyond it hot); {measured}",
        decimal(guideline.hold_us / 1e3, 3),
        guideline.burst,
        decimal(guideline.lambda, 3),
        decimal(guideline.p2, 4),
        guideline.band,
    );
    Verdict::new(level, word, subject, sentence)
}

fn knees_table(knees: &[Knees]) -> ReportTable {
    let rate = |knee: &Knees, is_tested: bool, rate: Option<f64>| match rate {
        _ if !is_tested => Cell::shown("not tested".to_owned(), String::new()),
        Some(rate) => Cell::exact(rate),
        None => Cell::shown(format!("above {}", exact(knee.highest_rate)), String::new()),
    };
    let mut table = ReportTable::new(
        "Knees, in writes a second",
        &[
            "shards",
            "latency knee",
            "busy knee",
            "busy knee, model",
            "capacity",
        ],
    );
    for knee in knees {
        let modelled = rate(knee, knee.is_tested(), knee.expected_busy_rate);
        table.row([
            Cell::text(knee.shards.to_string()),
            rate(knee, knee.is_latency_tested(), knee.latency_rate),
            rate(knee, knee.is_tested(), knee.busy_rate),
            Cell::optional(knee.is_modelled.then_some(modelled), |cell| cell),
            Cell::decimal(knee.capacity_per_s, 0),
        ]);
    }
    table
}
